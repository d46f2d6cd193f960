"""Additive attention: the fused kernel, its plan and its tiled reference."""

"""The models: one paper, one file."""

"""The Triton kernels of additive attention."""

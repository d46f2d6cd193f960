"""The Triton kernels of tours."""

"""The Triton kernels of the losses, a row each."""

"""The Triton kernels of one decoding step."""

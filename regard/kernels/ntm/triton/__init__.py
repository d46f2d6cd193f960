"""The Triton kernels of the Neural Turing Machine."""

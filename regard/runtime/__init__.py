"""CUDA graphs, compilation, MKL, oneDNN and atomic files."""

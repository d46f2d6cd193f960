"""The tasks of the Neural Turing Machine, drawn by seed."""

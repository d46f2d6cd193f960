"""What the recipes of the Neural Turing Machine share: only their tasks and settings differ."""

"""Data sets and batches; seeded, and knowing no model."""

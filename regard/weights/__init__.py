"""Published weights, as ours: pure functions from their names to our names."""

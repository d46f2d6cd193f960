"""Cross-entropy and divergence of large vocabularies."""

"""One script for each claim of speed: ratios measured in one interleaved run."""

"""One decoding step: attention, linear layers, norms, greedy and beam choice."""

"""Random calls of regard, held to an independent float64 program: `python -m benchmarks fuzz`."""

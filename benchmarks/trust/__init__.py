"""Can the answer of `evaluate` be trusted on logs nobody here designed? See `python -m benchmarks trust --help`."""

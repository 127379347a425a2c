"""The families of problems: one file each, with a `draw` that makes a fresh log with its exact answer."""

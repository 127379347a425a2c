"""The experiments that run on a GPU."""

"""Private helpers of the whole library: lazy names, progress, numbers that can be computed with."""

"""Private helpers of the whole library: compiling, lazy names, progress, numbers that can be computed with."""

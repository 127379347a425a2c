"""How coordinates that a row does not touch move: the lazy states of CSR rows, and the way into their kernels."""

"""`python -m benchmarks.gpu`; what it does is in a module that worker processes can import."""

from benchmarks.gpu.measure import main

main()

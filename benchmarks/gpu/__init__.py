"""What the GPU backend does on a real device: agreement with the CPU solvers, and speed."""

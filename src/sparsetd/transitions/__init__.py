"""Data in: files, frames, arrays and environments become `Transitions`."""

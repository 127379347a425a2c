"""Every experiment of the paper, one file each."""

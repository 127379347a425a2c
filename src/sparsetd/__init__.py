"""Sparse, off-policy-convergent linear value learning."""

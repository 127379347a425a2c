"""Choosing without hand-tuning: regularization paths, cross-validation, intervals."""

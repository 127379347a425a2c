"""From values to decisions: policies, policy iteration and online greedy control, as plain functions."""

from __future__ import annotations

from sparsetd._tools.lazy_names import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)

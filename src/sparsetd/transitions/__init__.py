"""Data in: files, frames, arrays and environments become `Transitions`."""

from __future__ import annotations

from sparsetd.transitions.gymnasium import collect
from sparsetd.transitions.policy import Policy, action_probabilities
from sparsetd.transitions.transitions import Transitions, concatenate

__all__ = ["Policy", "Transitions", "action_probabilities", "collect", "concatenate"]

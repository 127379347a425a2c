"""Data in: files, frames, arrays and environments become `Transitions`."""

from __future__ import annotations

from sparsetd.transitions.batches import read_batches
from sparsetd.transitions.gymnasium import collect
from sparsetd.transitions.inspect import Inspection, inspect
from sparsetd.transitions.partition import partition
from sparsetd.transitions.policy import Policy, action_probabilities
from sparsetd.transitions.prepare import MessyLog, Prepared, prepare
from sparsetd.transitions.readers import read
from sparsetd.transitions.schema import Schema, infer_schema
from sparsetd.transitions.shards import Shard, shards
from sparsetd.transitions.transitions import Transitions, concatenate

__all__ = [
    "Inspection",
    "MessyLog",
    "Policy",
    "Prepared",
    "Schema",
    "Shard",
    "Transitions",
    "action_probabilities",
    "collect",
    "concatenate",
    "infer_schema",
    "inspect",
    "partition",
    "prepare",
    "read",
    "read_batches",
    "shards",
]

"""Turn files, frames, arrays and environments into `Transitions`: with `read`, or with `prepare` for a raw table."""

from __future__ import annotations

from sparsetd._tools.lazy_names import listed
from sparsetd.logs.environments import collect
from sparsetd.logs.inspect import Inspection, inspect
from sparsetd.logs.partition import partition
from sparsetd.logs.policy import Policy, action_probabilities
from sparsetd.logs.prepare import MessyLog, Prepared, prepare
from sparsetd.logs.reading import read, read_batches
from sparsetd.logs.schema import Schema, infer_schema
from sparsetd.logs.sharding import Shard, shards
from sparsetd.logs.transitions import Transitions, concatenate

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

__getattr__, __dir__ = listed(__name__, __all__)

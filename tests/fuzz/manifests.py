"""Folders of shards: changed bytes of a valid manifest."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from fuzz.oracle import FOLDER, value_or_sentence
from sparsetd.logs import shards
from sparsetd.logs.sharding import shard

OUT = Path(FOLDER, "shards")
LOG = {"obs_x": np.arange(8.0), "reward": np.ones(8), "episode": np.repeat([3, 5, 7, 9], 2), "terminated": [0, 1] * 4}
shard([LOG], OUT, n_shards=2)
SEEDS = [(OUT / "manifest.json").read_bytes()]
SEEDS.append(json.dumps(json.loads(SEEDS[0]) | {"columns": {}}).encode())
TOKENS = [b'"shards"', b'"columns"', b'"file"', b"../", b"null", b"[]", b"{}", b"1e999", b'"reward"', b"\\ud800"]


def one_input(data: bytes) -> None:
    (OUT / "manifest.json").write_bytes(data)
    found = value_or_sentence(lambda: shards(OUT))
    for part in found or ():
        assert Path(part.path).parent == OUT, "a shard outside its folder"
        value_or_sentence(part.read)

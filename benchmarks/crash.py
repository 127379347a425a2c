"""Kill a checkpointed fit at random moments, again and again: does it always continue to the very same weights?

    python -m benchmarks crash --kills 1000

A child process fits a model with a checkpoint every few hundred rows and is killed (SIGKILL) after a random delay;
the next child continues from there. Whenever a fit survives to its end its weights are compared, bit by bit, with
those of an uninterrupted fit. Children are forked, so that the start of Python is not most of what is killed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from sparsetd import LSTD, ROTD, TDC
from sparsetd.estimators import model_file
from sparsetd.estimators.fit_stream import fit_in_parts
from sparsetd.storage import cache, container
from sparsetd.storage.container import CorruptFileError

ROWS, WIDTH, EVERY = 6_000, 40, 150
MODELS = {
    "ROTD": lambda: ROTD(step_size=0.01, rho_theta=0.01, rho_w=0.05, average="suffix", n_passes=2),
    "TDC": lambda: TDC(step_size=0.01, lam=0.5),
    "LSTD": lambda: LSTD(alpha=0.01),
}


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS + 1, WIDTH)) / np.sqrt(WIDTH)
    return X[:-1], rng.normal(size=ROWS), X[1:]


def run(kind: str, path: Path, target: Path) -> None:
    """Fit (or continue) and write the model."""
    X, y, X_next = data()
    model = fit_in_parts(MODELS[kind](), X, y, X_next, checkpoint=path, seconds_per_save=0.0, rows=EVERY)
    model_file.save(model, target)


def attempt(kind: str, path: Path, target: Path, delay: float) -> bool:
    """One child, killed after `delay` seconds; whether it had finished by then."""
    child = os.fork()
    if child == 0:
        try:
            run(kind, path, target)
            os._exit(0)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            os._exit(1)
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0:
        raise SystemExit("a child failed by itself: see its message above")
    return not os.WIFSIGNALED(status)


def readable(kind: str, path: Path) -> bool:
    """Whether what the kill left behind is a whole checkpoint (or none at all)."""
    try:
        for entry in path.glob("[0-9a-f]*"):
            container.read(entry, cache.KIND)
    except CorruptFileError as error:
        print(f"{kind}: {error}", file=sys.stderr)
        return False
    return True


def campaign(kind: str, kills: int, folder: Path, rng: np.random.Generator) -> dict[str, int]:
    path, target = folder / f"{kind}.ckpt", folder / f"{kind}.sparsetd"
    run(kind, path, target)  # compiles, which must not count
    begun = time.perf_counter()
    run(kind, path, target)
    whole, seconds = target.read_bytes(), time.perf_counter() - begun
    found = {"kills": 0, "finished": 0, "unreadable": 0, "different": 0, "leftovers": 0}
    while found["kills"] < kills or not found["finished"]:
        target.unlink(missing_ok=True)
        if attempt(kind, path, target, float(rng.uniform(0, 0.6 * seconds))):
            found["finished"] += 1
            found["different"] += target.read_bytes() != whole
        else:
            found["kills"] += 1
            found["unreadable"] += not readable(kind, path)
    run(kind, path, target)  # the last attempt may have been killed; a run that finishes clears what it left
    found["leftovers"] = len(list(folder.rglob(".*")))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.folder or Path(scratch)
        rows = {kind: campaign(kind, -(-args.kills // len(MODELS)), folder, rng) for kind in MODELS}
    total = {key: sum(row[key] for row in rows.values()) for key in next(iter(rows.values()))}
    if args.json:
        print(json.dumps(total))
    else:
        for kind, row in {**rows, "all": total}.items():
            print(f"{kind:5s} " + ", ".join(f"{n} {name}" for name, n in row.items()))
    return int(total["unreadable"] + total["different"] > 0)


if __name__ == "__main__":
    sys.exit(main())

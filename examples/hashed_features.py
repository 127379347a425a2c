"""A million possible features, a few per row: hash them, keep the rows sparse, learn in one pass.

Each state is a bag of words (here: made up). `FeatureHasher` maps any word to one of 2¹⁸ columns, so no dictionary is
kept, and the rows stay in CSR format from the hasher to the solver. Only a handful of words carries value; SparseTD
finds them with exact zeros elsewhere.

    python examples/hashed_features.py
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.feature_extraction import FeatureHasher

from sparsetd import TDC
from sparsetd.estimators.sparse_td import SparseTD

GAMMA = 0.8
WORTH = {"goal:near": 1.0, "goal:far": -0.5, "door:open": 0.7}  # what the words that matter pay
FILLERS = 5_000  # words that do not


def walk(n: int, rng: np.random.Generator) -> tuple[list[list[str]], np.ndarray]:
    """A stream of states as word lists; a word that matters comes and goes, and pays while it is there."""
    words, reward, present = [], np.zeros(n), set()
    for t in range(n):
        for word in WORTH:
            if rng.random() < 0.2:
                present ^= {word}
        words.append([*sorted(present), *(f"filler:{i}" for i in rng.integers(FILLERS, size=8))])
        reward[t] = sum(WORTH[word] for word in present)
    return words, reward


def main(n: int = 4000, bits: int = 18) -> None:
    rng = np.random.default_rng(0)
    words, reward = walk(n + 1, rng)
    hasher = FeatureHasher(2**bits, input_type="string", alternate_sign=False)
    X = hasher.transform(words)
    print(f"{X.shape[0] - 1:,} transitions, {X.shape[1]:,} columns, {X.nnz / X.shape[0]:.0f} non-zero per row")

    stream = TDC(gamma=GAMMA, step_size=0.02, average="suffix").fit(X[:-1], reward[:-1], X[1:])
    print(f"TDC, one pass: {stream.status_}, {np.count_nonzero(stream.coef_):,} weights are not zero")

    sparse = SparseTD(0.1, gamma=GAMMA, fit_intercept=True, refit=True, tol=1e-6).fit(X[:-1], reward[:-1], X[1:])
    column = {word: int(hasher.transform([[word]]).indices[0]) for word in WORTH}
    print(f"SparseTD: {sparse.status_}, {sparse.support_.sum()} weights are not zero")
    for word, j in column.items():
        print(f"  {word:10s} weight {sparse.coef_[j]:+.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=4000)
    parser.add_argument("--bits", type=int, default=18)
    main(**vars(parser.parse_args()))

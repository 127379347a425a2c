"""
A quarter of a million hashed features
======================================

Each state is a bag of words. ``FeatureHasher`` maps any word to one of 2¹⁸ columns, so no dictionary is kept, and the
rows stay sparse from the hasher to the solver. Three words carry value; SparseTD finds them and leaves the rest at
exactly zero.
"""

# %%
# A stream of made-up states. A word that matters comes and goes, and pays while it is there.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction import FeatureHasher

from sparsetd import TDC, SparseTD

GAMMA = 0.8
WORTH = {"goal:near": 1.0, "goal:far": -0.5, "door:open": 0.7}
rng = np.random.default_rng(0)
words, reward, present = [], [], set()
for _ in range(3001):
    present ^= {word for word in sorted(WORTH) if rng.random() < 0.2}
    words.append([*sorted(present), *(f"filler:{i}" for i in rng.integers(5000, size=8))])
    reward.append(sum(WORTH[word] for word in present))

hasher = FeatureHasher(2**18, input_type="string", alternate_sign=False)
X, reward = hasher.transform(words), np.array(reward)
print(f"{X.shape[0] - 1:,} transitions, {X.shape[1]:,} columns, {X.nnz / X.shape[0]:.0f} non-zeros per row")

# %%
# One pass of TDC touches every word that it saw. SparseTD keeps a handful. All columns count words, so we take them as
# they come: brought to one scale, a word that occurs once would weigh as much as one that occurs in every row.
stream = TDC(gamma=GAMMA, step_size=0.02, average="suffix").fit(X[:-1], reward[:-1], X[1:])
sparse = SparseTD(rho_theta=0.1, standardize=False, gamma=GAMMA, fit_intercept=True, refit=True, tol=1e-6).fit(
    X[:-1], reward[:-1], X[1:]
)
print(f"TDC: {np.count_nonzero(stream.coef_):,} weights are not zero")
print(f"SparseTD: {sparse.status_}, {sparse.support_.sum()} weights are not zero")

column = {word: int(hasher.transform([[word]]).indices[0]) for word in WORTH}
figure, axis = plt.subplots(figsize=(7, 3.5), layout="constrained")
for name, model, colour in (("TDC", stream, "0.6"), ("SparseTD", sparse, "C2")):
    used = np.flatnonzero(model.coef_)
    axis.plot(used, model.coef_[used], "." if name == "TDC" else "o", color=colour, label=f"{name}: {len(used):,}")
for word, j in column.items():
    axis.annotate(f" {word}", (j, sparse.coef_[j]))
axis.set(xlabel="hashed column", ylabel="weight", title="Weights that are not zero")
axis.legend()
plt.show()

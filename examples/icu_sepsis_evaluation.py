"""
What would another treatment policy achieve?
============================================

The log is of clinicians treating septic patients (the ICU-Sepsis benchmark: 47 clinical numbers, simulated from
tables of real patients). How many would survive if every choice were the clinicians' most frequent one? Twenty
columns of noise are added to see whether they are found out. The benchmark is known exactly, so the true answer is
drawn beside ours.

Needs ``pip install matplotlib icu-sepsis``.
"""

# %%
# Five hundred stays. Every row holds the probability of the action under the clinicians and under the target policy.
import matplotlib.pyplot as plt
import numpy as np

from sparsetd import evaluate
from sparsetd.problems.icu_sepsis import ICUSepsis

problem = ICUSepsis.load(gamma=0.99)
policy = problem.policy("greedy")
log = problem.log(500, policy, np.random.default_rng(0), n_noise=20)
result = evaluate(log, gamma=0.99, n_resamples=0)
truth = problem.exact_value(policy)
low, high = result.interval

print(log)
print(f"value {result.value:.3f}, 95% interval {low:.3f} to {high:.3f}; truth {truth:.3f}")
print("noise columns kept:", sum(feature.name.startswith("noise_") for feature in result.features), "of 20")

# %%
# The answer beside the usual estimators, and the vital signs that it rests on.
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
result.plot(left)
left.axvline(truth, color="black", linestyle="--", linewidth=1)
left.set(xlabel="share of patients who survive (dashed: truth)", title="The value of the policy")

features = result.features[:10]
right.barh([f.name for f in features], [f.weight for f in features], color="C0")
right.invert_yaxis()
right.set(xlabel="change in value per standard deviation", title="What the value rests on")
plt.show()

"""ICU-Sepsis: treatment of septic patients as an MDP built from real intensive-care records, with exact answers.

716 states (713 of patients, death, survival, end), 25 treatments (5 levels of fluids × 5 of vasopressors), reward 1
for survival. Behaviour is the clinicians' policy as estimated from MIMIC-III. A state is observed as the 47 clinical
numbers of its cluster's centre. The tables come with the package `icu-sepsis` (MIT licence) and are read without
importing it.

    Choudhary et al. (2024), ICU-Sepsis: A benchmark MDP built from real medical data.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from sparsetd.logs import Transitions
from sparsetd.problems.finite import FiniteMDP
from sparsetd.system import Array

N_PATIENT_STATES = 713  # the states after them end the episode
NAMES = (
    "gender", "mechvent", "max_dose_vaso", "re_admission", "age", "Weight_kg", "GCS", "HR", "SysBP", "MeanBP", "DiaBP",
    "RR", "Temp_C", "FiO2_1", "Potassium", "Sodium", "Chloride", "Glucose", "Magnesium", "Calcium", "Hb", "WBC_count",
    "Platelets_count", "PTT", "PT", "Arterial_pH", "paO2", "paCO2", "Arterial_BE", "HCO3", "Arterial_lactate", "SOFA",
    "SIRS", "Shock_Index", "PaO2_FiO2", "cumulated_balance", "SpO2", "BUN", "Creatinine", "SGOT", "SGPT", "Total_bili",
    "INR", "input_total", "input_4hourly", "output_total", "output_4hourly",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class ICUSepsis:
    """The MDP of 716 states and 25 treatments, with the experts' policy as its behaviour and 47 numbers per state."""

    mdp: FiniteMDP

    @classmethod
    def load(cls, gamma: float = 0.99) -> ICUSepsis:
        """Read the tables of the installed package."""
        spec = importlib.util.find_spec("icu_sepsis")
        if spec is None or not spec.submodule_search_locations:
            raise ImportError("the ICU-Sepsis tables are not installed: pip install icu-sepsis")
        path = Path(spec.submodule_search_locations[0], "envs", "assets", "dynamics.npz")
        with np.load(path, allow_pickle=False) as file:  # noqa: TID251 (without pickles)
            P, R = (file[name].swapaxes(0, 1) for name in ("tx_mat", "r_mat"))
            start, expert, centers = file["d_0"], file["expert_policy"], file["state_cluster_centers"]
        ended = np.arange(len(start)) >= N_PATIENT_STATES
        return cls(FiniteMDP(P, R, centers, gamma, start, target=expert, terminal=ended))

    def policy(self, name: str) -> Array:
        """π(a|s): "expert", "greedy" (the clinicians' most frequent choice), "half" of each, or "optimal"."""
        expert = self.mdp.behavior
        if name == "expert":
            return expert
        if name == "half":
            return np.asarray(0.5 * expert + 0.5 * self.policy("greedy"))
        if name not in ("greedy", "optimal"):
            raise ValueError(f"`target` is {name!r}: choose 'expert', 'greedy', 'half' or 'optimal'.")
        return _best(expert if name == "greedy" else self.optimal_values)

    @cached_property
    def optimal_values(self) -> Array:
        """Q* by policy iteration, from the experts' favourite treatments."""
        policy = self.policy("greedy")
        while True:
            q = self.under(policy).action_value
            if np.all(q.max(axis=1) <= (policy * q).sum(axis=1) + 1e-12):
                return q
            policy = _best(q)

    def under(self, policy: Array) -> FiniteMDP:
        """The MDP with a policy in the experts' place."""
        return replace(self.mdp, target=policy, behavior=policy)

    def exact_value(self, policy: Array) -> float:
        """The value of a policy, averaged over the states in which patients start."""
        return float(self.mdp.start @ self.under(policy).value)

    def log(self, n_episodes: int, target: Array, rng: np.random.Generator, *, n_noise: int = 0) -> Transitions:
        """Episodes treated by the clinicians, with μ and π of every logged action.

        `n_noise` columns of independent normal numbers, which mean nothing, are appended to the observation.
        """
        s, a, s_next, episode = self._simulate(n_episodes, rng)
        observed, following = self.mdp.features[s], self.mdp.features[s_next]
        if n_noise:
            noise = rng.normal(size=(len(s) + 1, n_noise))
            observed, following = np.hstack([observed, noise[:-1]]), np.hstack([following, noise[1:]])
        return Transitions.from_arrays(
            observed,
            self.mdp.R[a, s, s_next],
            following,
            action=a,
            terminated=self.mdp.terminal[s_next],
            episode=episode,
            behavior_prob=self.mdp.behavior[s, a],
            target_prob=target[s, a],
            names=[*NAMES, *(f"noise_{i}" for i in range(n_noise))],
        )

    def _simulate(self, n: int, rng: np.random.Generator) -> Array:
        """(s, a, s', patient): all patients at once, step after step, then sorted by patient."""
        cumulative = np.cumsum(self.mdp.behavior, axis=1)
        s, patient = rng.choice(self.mdp.n_states, size=n, p=self.mdp.start), np.arange(n)
        parts = []
        while len(s):
            a = _pick(cumulative[s], rng)
            s_next = _pick(np.cumsum(self.mdp.P[a, s], axis=1), rng)
            parts.append(np.stack([s, a, s_next, patient]))
            alive = ~self.mdp.terminal[s_next]
            s, patient = s_next[alive], patient[alive]
        rows = np.hstack(parts)
        return rows[:, np.argsort(rows[3], kind="stable")]


def _best(values: Array) -> Array:
    """The policy that takes the first action with the largest value."""
    return np.asarray(np.eye(values.shape[1])[values.argmax(axis=1)])


def _pick(cumulative: Array, rng: np.random.Generator) -> Array:
    """One column per row, by inverting its cumulative probabilities."""
    draw = rng.random((len(cumulative), 1)) * cumulative[:, -1:]
    return np.asarray((draw >= cumulative).sum(axis=1))

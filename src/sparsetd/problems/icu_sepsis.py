"""ICU-Sepsis: treatment of septic patients as an MDP built from real intensive-care records, with exact answers.

716 states (713 of patients, death, survival, end), 25 treatments (5 levels of fluids × 5 of vasopressors), reward 1
for survival. Behaviour is the clinicians' policy as estimated from MIMIC-III. A state is observed as the 47 clinical
numbers of its cluster's centre. The tables come with the package `icu-sepsis` (MIT licence) and are read without
importing it.

    Choudhary et al. (2024), ICU-Sepsis: A benchmark MDP built from real medical data.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from sparsetd.logs import Transitions
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
    """The tables: transition and reward (716, 25, 716), start (716,), the experts' policy, and 47 numbers per state."""

    transition: Array
    reward: Array
    start: Array
    expert: Array
    centers: Array
    gamma: float = 0.99

    @classmethod
    def load(cls, gamma: float = 0.99) -> ICUSepsis:
        """Read the tables of the installed package."""
        spec = importlib.util.find_spec("icu_sepsis")
        if spec is None or not spec.submodule_search_locations:
            raise ImportError("the ICU-Sepsis tables are not installed: pip install icu-sepsis")
        path = Path(spec.submodule_search_locations[0], "envs", "assets", "dynamics.npz")
        with np.load(path, allow_pickle=False) as file:  # noqa: TID251 (without pickles)
            expert, centers = file["expert_policy"], file["state_cluster_centers"]
            return cls(file["tx_mat"], file["r_mat"], file["d_0"], expert, centers, gamma)

    def policy(self, name: str) -> Array:
        """π(a|s): "expert", "greedy" (the clinicians' most frequent choice), "half" of each, or "optimal"."""
        if name == "expert":
            return self.expert
        if name == "half":
            return np.asarray(0.5 * self.expert + 0.5 * self.policy("greedy"))
        if name not in ("greedy", "optimal"):
            raise ValueError(f"`target` is {name!r}: choose 'expert', 'greedy', 'half' or 'optimal'.")
        best = (self.expert if name == "greedy" else self.optimal_values).argmax(axis=1)
        return np.asarray(np.eye(self.expert.shape[1])[best])

    @cached_property
    def expected_reward(self) -> Array:
        return np.asarray((self.transition * self.reward).sum(axis=2))

    @cached_property
    def optimal_values(self) -> Array:
        """Q* by policy iteration, from the experts' favourite treatments."""
        V, policy = np.zeros(len(self.start)), self.policy("greedy")
        while True:
            V[:N_PATIENT_STATES] = self.values(policy)
            q = np.asarray(self.expected_reward + self.gamma * self.transition @ V)
            if np.all(q.max(axis=1) <= (policy * q).sum(axis=1) + 1e-12):
                return q
            policy = np.eye(q.shape[1])[q.argmax(axis=1)]

    def values(self, policy: Array) -> Array:
        """V of the patient states: (I − γP_π)V = r_π."""
        P = np.einsum("sa,sat->st", policy, self.transition)[:N_PATIENT_STATES, :N_PATIENT_STATES]
        r = (policy * self.expected_reward).sum(axis=1)[:N_PATIENT_STATES]
        return np.linalg.solve(np.eye(N_PATIENT_STATES) - self.gamma * P, r)

    def exact_value(self, policy: Array) -> float:
        """The value of a policy, averaged over the states in which patients start."""
        return float(self.start[:N_PATIENT_STATES] @ self.values(policy))

    def log(self, n_episodes: int, target: Array, rng: np.random.Generator, *, n_noise: int = 0) -> Transitions:
        """Episodes treated by the clinicians, with μ and π of every logged action.

        `n_noise` columns of independent normal numbers, which mean nothing, are appended to the observation.
        """
        s, a, s_next, episode = self._simulate(n_episodes, rng)
        dead = s_next >= N_PATIENT_STATES
        observed, following = self.centers[s], self.centers[s_next]
        if n_noise:
            noise = rng.normal(size=(len(s) + 1, n_noise))
            observed, following = np.hstack([observed, noise[:-1]]), np.hstack([following, noise[1:]])
        return Transitions.from_arrays(
            observed,
            self.reward[s, a, s_next],
            following,
            action=a,
            terminated=dead,
            episode=episode,
            behavior_prob=self.expert[s, a],
            target_prob=target[s, a],
            names=[*NAMES, *(f"noise_{i}" for i in range(n_noise))],
        )

    def _simulate(self, n: int, rng: np.random.Generator) -> Array:
        """(s, a, s', patient): all patients at once, step after step, then sorted by patient."""
        states, cumulative = len(self.start), np.cumsum(self.expert, axis=1)
        s, patient = rng.choice(states, size=n, p=self.start), np.arange(n)
        parts = []
        while len(s):
            a = _pick(cumulative[s], rng)
            s_next = _pick(np.cumsum(self.transition[s, a], axis=1), rng)
            parts.append(np.stack([s, a, s_next, patient]))
            alive = s_next < N_PATIENT_STATES
            s, patient = s_next[alive], patient[alive]
        rows = np.hstack(parts)
        return rows[:, np.argsort(rows[3], kind="stable")]


def _pick(cumulative: Array, rng: np.random.Generator) -> Array:
    """One column per row, by inverting its cumulative probabilities."""
    draw = rng.random((len(cumulative), 1)) * cumulative[:, -1:]
    return np.asarray((draw >= cumulative).sum(axis=1))

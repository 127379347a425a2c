"""Experience of environments: recorded with Gymnasium under a known policy, or read from a local Minari dataset."""

from __future__ import annotations

import math
import sys
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sparsetd.logs.checks import Array, ids_of, numbers, objects, reason
from sparsetd.logs.files import Opened, Raw, portions
from sparsetd.logs.policy import Policy, action_probabilities, chosen
from sparsetd.logs.transitions import Transitions, concatenate

PROBABILITIES = ("behavior_prob", "target_prob", "ratio")
STEP = ["observation", "action", "reward", "next_observation", "terminated", "truncated", "behavior_prob", "start"]


@dataclass
class _Log:
    """Rows of one environment, with the number of steps and episodes it still owes."""

    steps: int
    episodes: int
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    fresh: bool = True

    @property
    def done(self) -> bool:
        return self.steps <= 0 or self.episodes <= 0

    def add(self, s: Array, a: Any, reward: Any, successor: Array, terminated: Any, truncated: Any, mu: float) -> None:
        ends = bool(terminated), bool(truncated)
        self.rows.append((s, int(a), float(reward), successor, *ends, mu, self.fresh))
        self.fresh = any(ends)
        self.steps -= 1
        self.episodes -= self.fresh

    def transitions(self, names: tuple[str, ...] | None) -> Transitions:
        columns = {name: np.array(values) for name, values in zip(STEP, zip(*self.rows, strict=True), strict=True)}
        # Recording may have stopped before the episode was over.
        columns["truncated"][-1] |= not columns["terminated"][-1]
        return Transitions.from_arrays(**columns, names=names)


def collect(
    env: Any,
    policy: Policy,
    rng: int | np.random.Generator,
    *,
    n_steps: int | None = None,
    n_episodes: int | None = None,
    target: Policy | None = None,
    names: tuple[str, ...] | None = None,
) -> Transitions:
    """Run a policy in a Gymnasium environment and record every step as `Transitions`.

    A row holds s, a, r, s', how it ended and μ(a|s).

    Parameters
    ----------
    env : gymnasium.Env or gymnasium.vector.VectorEnv
        With a `Discrete` action space. Any observation space; what is not an array is flattened by Gymnasium.
    policy : callable
        The behaviour policy: from observations (n, p), as `Transitions` stores them, to probabilities (n, n_actions).
    rng : int or numpy.random.Generator
        Draws the actions and the seed of the environment: the same seed gives the same rows.
    n_steps, n_episodes : int
        When to stop (whichever comes first). The sub-environments of a vector environment get equal shares, so that
        short episodes are not over-represented. A last episode cut by `n_steps` is marked as truncated.
    target : callable, optional
        A policy whose π(a|s) is recorded as `target_prob`.

    Notes
    -----
    Actions are recorded as 0, 1, … whatever the `start` of the action space. All three autoreset modes of vector
    environments are handled: the reset rows of NEXT_STEP are dropped, SAME_STEP's successor is its `final_obs`, and
    DISABLED environments are reset here.

    Examples
    --------
    >>> import gymnasium
    >>> import numpy as np
    >>> from sparsetd.logs import collect
    >>> env = gymnasium.make("CartPole-v1")
    >>> uniform = lambda observation: np.full((len(observation), 2), 0.5)
    >>> log = collect(env, uniform, rng=0, n_episodes=5)
    >>> log.n_episodes, log.observation.shape[1]
    (5, 4)
    >>> log.behavior_prob[0].item()
    0.5
    """
    if n_steps is None and n_episodes is None:
        raise ValueError("Pass `n_steps` or `n_episodes`: without one of them collecting would never end.")
    for name, count in (("n_steps", n_steps), ("n_episodes", n_episodes)):
        if count is not None and count < 1:
            raise ValueError(f"`{name}` must be at least 1, but it is {count}: ask for some data.")
    n = getattr(env, "num_envs", 1)
    steps, episodes = (sys.maxsize if total is None else total for total in (n_steps, n_episodes))
    logs = [_Log(steps // n + (i < steps % n), episodes // n + (i < episodes % n)) for i in range(n)]
    _run(env, policy, np.random.default_rng(rng), logs)
    rows = concatenate([log.transitions(names) for log in logs if log.rows])
    return rows if target is None else rows.with_target(target)


def _run(env: Any, policy: Policy, rng: np.random.Generator, logs: list[_Log]) -> None:
    """Step through a vector environment, or a single one as a vector of one that is reset here, and fill the logs."""
    vector = hasattr(env, "num_envs")
    space = env.single_action_space if vector else env.action_space
    if not hasattr(space, "n") or not hasattr(space, "start"):
        raise TypeError(f"`env` must have a Discrete action space, not {space}: wrap it to discretise the actions.")
    # Without a name it is what Gymnasium 1.0 did before the modes had names.
    mode = env.metadata.get("autoreset_mode", "NEXT_STEP") if vector else "DISABLED"
    mode = str(getattr(mode, "name", mode)).upper()
    flat, observed = _flatteners(env)
    s = observed(env.reset(seed=int(rng.integers(2**31)))[0])
    resetting = np.zeros(len(logs), dtype=bool)
    while not all(log.done for log in logs):
        a, mu = _draw(policy, s, rng)
        chosen_actions = a.astype(env.action_space.dtype) if vector else int(a[0])
        obs, *outcome, info = env.step(chosen_actions + int(space.start))
        reward, terminated, truncated = map(np.atleast_1d, outcome)
        over = np.logical_or(terminated, truncated)
        after = observed(obs)
        successor = after.copy()
        if mode == "SAME_STEP":
            for i in np.flatnonzero(over):
                successor[i] = flat(info["final_obs"][i])
        for j, log in enumerate(logs):
            if not (log.done or resetting[j]):
                log.add(s[j], a[j], reward[j], successor[j], terminated[j], truncated[j], mu[j])
        if mode == "DISABLED" and over.any() and not all(log.done for log in logs):
            after = observed(env.reset(**({"options": {"reset_mask": over}} if vector else {}))[0])
        s, resetting = after, over & ~resetting & (mode == "NEXT_STEP")


def _draw(policy: Policy, s: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Actions by inversion of the cumulated probabilities, one uniform number per row, and their probabilities."""
    table = action_probabilities(policy, s)
    cumulated = np.cumsum(table, axis=1)
    u = rng.random(len(s))[:, None] * cumulated[:, -1:]
    a = np.minimum((cumulated <= u).sum(axis=1), table.shape[1] - 1)  # rounding may put u on the last edge
    return a, chosen(table, a)


def _flatteners(env: Any) -> tuple[Any, Any]:
    """Functions from one observation to a vector, and from what the environment returns to one row per environment.

    Numbers and arrays stay as they are; dictionaries and tuples are flattened by Gymnasium.
    """
    vector = hasattr(env, "num_envs")
    space = env.single_observation_space if vector else env.observation_space
    nested = type(space).__name__ in ("Dict", "Tuple", "Sequence", "Graph", "OneOf", "Text")

    if nested or vector:  # what merely looks like a single environment of Gymnasium's needs nothing of it
        from gymnasium.spaces.utils import flatten
        from gymnasium.vector.utils import iterate

    def flat(obs: Any) -> Array:
        return np.asarray(flatten(space, obs) if nested else obs).reshape(-1)

    def observed(obs: Any) -> Array:
        return np.stack([flat(one) for one in (iterate(env.observation_space, obs) if vector else [obs])])

    return flat, observed


def open_minari(dataset: Any) -> Opened:
    """A `minari.MinariDataset`, or the local dataset with that identifier: its columns are those of the first episodes.

    An episode has T + 1 observations for T steps: they become s and s'. Minari has no standard field for propensities:
    the entries `behavior_prob`, `target_prob` and `ratio` of `infos` are read where they exist.
    """
    dataset = _load(dataset) if isinstance(dataset, str) else dataset
    names = next((list(columns) for columns in _episodes(dataset)), ["observation", "reward"])

    def batches(columns: Sequence[str], rows: int, _: Sequence[str]) -> Generator[Raw]:
        for group in portions(_episodes(dataset), lambda one: len(one["reward"]), rows):
            yield {name: np.concatenate([one[name] for one in group]) for name in columns}

    return Opened(names, batches)


def _episodes(dataset: Any) -> Iterator[dict[str, Array]]:
    """The columns of every episode that has a step; they are those of the first such episode, or it is refused."""
    first: dict[str, Any] = {}
    for number, episode in enumerate(_as_minari_has_them(dataset)):
        try:
            columns = _columns(episode)
        except Exception as error:  # in place of an array there may be anything
            raise ValueError(f"Episode {number} of the Minari dataset cannot be read ({reason(error)}).") from None
        forms = {name: _form(name, column) for name, column in columns.items()}
        if columns:
            first = first or forms
            odd = next((name for name in first if forms.get(name) != first[name]), None)
            if odd is not None:
                there = "another kind or shape of" if odd in forms else "no"
                raise ValueError(f"Episode {number} has {there} `{odd}`, unlike the first: make all episodes alike.")
            yield columns


def _form(name: str, column: Array) -> Any:
    return ids_of(name, column, len(column)).type if name == "episode" else column.shape[1:]


def _as_minari_has_them(dataset: Any) -> Iterator[Any]:
    try:
        yield from dataset.iterate_episodes()
    except Exception as error:  # a damaged file fails in h5py, Arrow and Minari, each in its own ways
        raise ValueError(f"The Minari dataset cannot be read ({reason(error)}): download it again.") from None


def _load(identifier: str) -> Any:
    try:
        import minari
    except ImportError:
        raise ImportError('Reading Minari datasets needs minari: pip install "minari[hdf5]".') from None
    try:
        return minari.load_dataset(identifier, download=False)
    except Exception as error:  # it is absent, or its metadata is damaged
        what = f"There is no local Minari dataset {identifier!r}"
        raise ValueError(f"{what} that can be read ({reason(error)}): download it first.") from None


def _columns(episode: Any) -> dict[str, Array]:
    """The columns of an episode, numbers only, so that episodes of one shape can be joined; none if it has no step."""
    observations, rewards = _flat(episode.observations), np.asarray(episode.rewards)
    n = len(rewards)
    columns = {
        "observation": observations[:-1],
        "next_observation": observations[1:],
        "action": _flat(episode.actions),
        "reward": rewards,
        "terminated": np.asarray(episode.terminations),
        "truncated": np.asarray(episode.truncations),
    }
    for name in PROBABILITIES:
        if isinstance(episode.infos, dict) and name in episode.infos:
            columns[name] = np.asarray(episode.infos[name])[-n:]
    for name, column in columns.items():
        if column.shape[:1] != (n,):
            raise ValueError(f"`{name}` has the shape {column.shape} for {n} steps")
        columns[name] = numbers(name, column) if n else column
    return columns | {"episode": objects(np.asarray([episode.id] * n).tolist())} if n else {}


def _flat(values: Any) -> Array:
    """Arrays, or dictionaries and tuples of arrays, side by side as (n, p); plain numbers stay a vector."""
    if isinstance(values, (dict, tuple)):
        parts = [_flat(part) for part in (values.values() if isinstance(values, dict) else values)]
        return np.hstack([part[:, None] if part.ndim == 1 else part for part in parts])
    array = np.asarray(values)
    return array if array.ndim == 1 else array.reshape(len(array), math.prod(array.shape[1:]))

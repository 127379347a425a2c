"""Experience of environments: recorded with Gymnasium under a known policy, or read from a local Minari dataset."""

from __future__ import annotations

import math
import sys
from collections.abc import Generator, Iterator, Sequence
from typing import Any

import numpy as np

from sparsetd.logs.checks import Array, explained, ids_of, numbers, objects
from sparsetd.logs.files import Opened, Raw, portions
from sparsetd.logs.policy import Policy, action_probabilities, chosen
from sparsetd.logs.transitions import Transitions, concatenate

PROBABILITIES = ("behavior_prob", "target_prob", "ratio")
STEP = ["observation", "action", "reward", "next_observation", "terminated", "truncated", "behavior_prob", "start"]


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
        Its action space must be `Discrete`. Any observation space will do; Gymnasium flattens dictionaries and tuples.
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
    rows = _run(env, policy, np.random.default_rng(rng), n_steps, n_episodes)
    log = concatenate([_transitions(some, names) for some in rows if some])
    return log if target is None else log.with_target(target)


def _transitions(rows: list[tuple[Any, ...]], names: tuple[str, ...] | None) -> Transitions:
    columns = {name: np.array(values) for name, values in zip(STEP, zip(*rows, strict=True), strict=True)}
    columns["truncated"][-1] |= not columns["terminated"][-1]  # recording may have stopped before the episode was over
    return Transitions.from_arrays(**columns, names=names)


def _run(
    env: Any, policy: Policy, rng: np.random.Generator, n_steps: int | None, n_episodes: int | None
) -> list[list[tuple[Any, ...]]]:
    """Record the steps of each environment of a vector; a single one is a vector of one that is reset here."""
    vector = hasattr(env, "num_envs")
    space = env.single_action_space if vector else env.action_space
    if not hasattr(space, "n") or not hasattr(space, "start"):
        raise TypeError(f"`env` must have a Discrete action space, not {space}: wrap it to discretise the actions.")
    # Gymnasium 1.0 had the mode NEXT_STEP before modes had names.
    mode = env.metadata.get("autoreset_mode", "NEXT_STEP") if vector else "DISABLED"
    mode = str(getattr(mode, "name", mode)).upper()
    flat, observed = _flatteners(env)
    s = observed(env.reset(seed=int(rng.integers(2**31)))[0])
    n = len(s)
    steps, episodes = (_divided(sys.maxsize if total is None else total, n) for total in (n_steps, n_episodes))
    rows: list[list[tuple[Any, ...]]] = [[] for _ in range(n)]
    fresh, resetting = np.ones(n, dtype=bool), np.zeros(n, dtype=bool)
    while (owing := (steps > 0) & (episodes > 0)).any():
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
        recorded = owing & ~resetting
        for j in np.flatnonzero(recorded):
            rows[j].append((s[j], a[j], reward[j], successor[j], terminated[j], truncated[j], mu[j], fresh[j]))
        steps, episodes = steps - recorded, episodes - (recorded & over)
        fresh = np.where(recorded, over, fresh)
        if mode == "DISABLED" and over.any() and ((steps > 0) & (episodes > 0)).any():
            after = observed(env.reset(**({"options": {"reset_mask": over}} if vector else {}))[0])
        s, resetting = after, over & ~resetting & (mode == "NEXT_STEP")
    return rows


def _divided(total: int, n: int) -> Array:
    """Shares of a number that differ by at most 1."""
    return total // n + (np.arange(n) < total % n)


def _draw(policy: Policy, s: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draw one action per row by inverting the cumulated probabilities; also return their probabilities."""
    table = action_probabilities(policy, s)
    cumulated = np.cumsum(table, axis=1)
    u = rng.random(len(s))[:, None] * cumulated[:, -1:]
    a = np.minimum((cumulated <= u).sum(axis=1), table.shape[1] - 1)  # rounding may put u on the last edge
    return a, chosen(table, a)


def _flatteners(env: Any) -> tuple[Any, Any]:
    """Return two functions: one flattens an observation, one makes a row per environment of all observations.

    Numbers and arrays stay as they are; dictionaries and tuples are flattened by Gymnasium.
    """
    vector = hasattr(env, "num_envs")
    space = env.single_observation_space if vector else env.observation_space
    nested = type(space).__name__ in ("Dict", "Tuple", "Sequence", "Graph", "OneOf", "Text")

    if nested or vector:  # an object that acts like a single environment needs no Gymnasium
        from gymnasium.spaces.utils import flatten
        from gymnasium.vector.utils import iterate

    def flat(obs: Any) -> Array:
        return np.asarray(flatten(space, obs) if nested else obs).reshape(-1)

    def observed(obs: Any) -> Array:
        return np.stack([flat(one) for one in (iterate(env.observation_space, obs) if vector else [obs])])

    return flat, observed


def open_minari(dataset: Any) -> Opened:
    """Open a `minari.MinariDataset`, or the local dataset with that identifier; the first episode decides the columns.

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
    """Yield the columns of every episode that has a step; an episode with other columns than the first is refused."""
    first: dict[str, Any] = {}
    for number, episode in enumerate(_as_minari_has_them(dataset)):
        with explained(f"Episode {number} of the Minari dataset cannot be read", "correct it"):
            columns = _columns(episode)
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
    # A damaged file fails in h5py, Arrow and Minari, each in its own ways.
    with explained("The Minari dataset cannot be read", "download it again"):
        yield from dataset.iterate_episodes()


def _load(identifier: str) -> Any:
    try:
        import minari
    except ImportError:
        raise ImportError('Reading Minari datasets needs minari: pip install "minari[hdf5]".') from None
    with explained(f"There is no local Minari dataset {identifier!r} that can be read", "download it first"):
        return minari.load_dataset(identifier, download=False)


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

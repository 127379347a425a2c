"""Checks for mistakes in a log that can be read: each returns a sentence about what looks wrong, or None."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from sparsetd.logs.checks import Array
from sparsetd.logs.schema import folded
from sparsetd.logs.transitions import Transitions

FEW = 0.05  # a share of rows or episodes below this is taken as chance
COPIED = 0.02  # copies are reported if more than this share of the episodes are copies
BLOCK = 4_096  # rows that are compared at a time
TIMES = re.compile(r"\b(time|date|datetime|timestamp|visit|day|hour|datum|zeit|tijd|heure|fecha|hora|step)\b")
MAX_DESIGN = 20_000  # rows in which a regression looks for shifted rewards


def timeouts_marked_as_terminals(t: Transitions) -> str | None:
    """Many episodes end as terminated at exactly the longest length, far more than a little before it."""
    if not t.terminated.any():
        return None
    bounds = t._bounds()
    length = np.diff(bounds)
    longest, ended = int(length.max()), t.terminated[bounds[1:] - 1]
    count = int(((length == longest) & ended).sum())
    before = int(((length >= longest - 3) & (length < longest) & ended).sum())
    # Three times the mean of the three lengths before: natural ends fade out, a time limit piles them up.
    spike = not t.truncated.any() or count > 3 * (before / 3 + 1)
    if longest < 5 or count < max(3, FEW * len(length)) or not spike:
        return None
    others = f"{int(t.truncated.sum())} rows are truncated" if t.truncated.any() else "none is truncated"
    return (
        f"{count} of {len(length)} episodes end as terminated after exactly {longest} rows, the greatest length, and "
        f"{others}: if that is a time limit, mark those rows as truncated, or their future is counted as zero."
    )


def successors_after_a_reset(t: Transitions) -> str | None:
    """Truncated rows have the first state of the *next* episode as their successor."""
    cut = np.flatnonzero((t.truncated & ~t.terminated)[:-1] & t.start[1:])
    same = (t.next_observation[cut] == t.observation[cut + 1]).all(axis=1)
    if len(cut) == 0 or same.mean() <= 0.5 or _few_states(t):
        return None
    return (
        f"the successor of {int(same.sum())} of {len(cut)} truncated rows is the first observation of the next episode "
        f"(first in row {cut[same][0]}): log the last observation before the reset instead."
    )


def broken_chains(t: Transitions) -> str | None:
    """The successor of some rows is not the observation of the next row of their episode."""
    inside = np.flatnonzero(~t.start[1:] & ~t.terminated[:-1])
    off = np.concatenate(
        [inside[:0], *(_unlinked(t, inside[low : low + BLOCK]) for low in range(0, len(inside), BLOCK))]
    )
    if not len(off):
        return None
    return (
        f"in {len(off)} of {len(inside)} rows the next observation is not the observation of the next row of "
        f"the same episode (first in row {off[0]}): rows are missing, out of order, or shifted."
    )


def _unlinked(t: Transitions, rows: Array) -> Array:
    """The rows whose successor is not near the next row. Most are equal to it, so equality is tested first."""
    rows = rows[(t.next_observation[rows] != t.observation[rows + 1]).any(axis=1)]
    near = np.isclose(t.next_observation[rows], t.observation[rows + 1], rtol=1e-5, atol=1e-8)
    return rows[~near.all(axis=1)]


def first_rewards_are_zero(t: Transitions) -> str | None:
    """Rewards logged one row late leave a zero in the first row of every episode."""
    first = t.reward[t.start]
    rest = t.reward[~t.start]
    if len(first) < 5 or len(rest) == 0 or first.any() or np.mean(rest != 0) < 0.5:
        return None
    return (
        f"the first reward of all {len(first)} episodes is 0 but {np.mean(rest != 0):.0%} of the others are not: "
        "the reward of a row must be what its own action earned, not what the action before it did."
    )


def rewards_fit_a_neighbour(t: Transitions) -> str | None:
    """Rewards fit (s, a, s') of the row before or after far better than that of their own row."""
    t = t[:MAX_DESIGN]
    middle = np.flatnonzero(~t.start[1:-1] & ~t.start[2:]) + 1
    rows = _design(t)
    if len(middle) < 4 * rows.shape[1] or np.ptp(t.reward) == 0:
        return None
    fit = {shift: _r2(rows[middle], t.reward[middle + shift]) for shift in (-1, 0, 1)}
    best = max((-1, 1), key=fit.__getitem__)
    if fit[best] < 0.5 or 1 - fit[best] > 0.5 * (1 - fit[0]):
        return None
    side = "next" if best == 1 else "previous"
    return (
        f"a row's observations and action explain the reward of the {side} row (R² {fit[best]:.2f}) better than its "
        f"own (R² {fit[0]:.2f}): the rewards look shifted by one row."
    )


def ratios_do_not_average_one(t: Transitions) -> str | None:
    """The mean of π(a|s)/μ(a|s) is far from 1, its expectation under μ (less if π does what μ never did)."""
    if t.ratio is None and (t.target_prob is None or t.behavior_prob is None):
        return None
    ratio = t.importance_ratio()
    mean, error = float(ratio.mean()), float(ratio.std() / np.sqrt(len(ratio)))
    if len(ratio) < 30 or abs(mean - 1) <= max(5 * error, 0.05):  # rows of an episode are alike, so 2 would not do
        return None
    why = "some probabilities are not those of the logged action"
    if mean < 1:
        why = f"the target does what was never logged, or {why}"
    return f"the ratios target/behaviour average {mean:.3g} where they should average 1: {why}."


def impossible_propensities(t: Transitions) -> str | None:
    """The mean of 1/μ(a|s) exceeds the number of actions, although its expectation cannot."""
    mu, action = t.behavior_prob, t.action
    if mu is None or action is None or action.ndim != 1 or len(mu) < 30:
        return None
    n_actions = len(np.unique(action))
    if n_actions > 1 and np.all(mu == 1):
        return f"`behavior_prob` is 1 in every row although {n_actions} different actions were taken."
    inverse = 1 / mu
    mean, error = float(inverse.mean()), float(inverse.std() / np.sqrt(len(mu)))
    if mean <= max(action.max() + 1, n_actions) + 5 * error:
        return None
    return (
        f"1/`behavior_prob` averages {mean:.3g}, which cannot exceed the {n_actions} actions seen: "
        "it may be the probability of another action, or not a probability."
    )


def poor_support(t: Transitions) -> str | None:
    """A few rows carry nearly all the weight of the target policy."""
    ratio = t.importance_ratio()
    if ratio.sum() == 0:
        return "every ratio target/behaviour is 0: the target policy takes none of the logged actions."
    share = float(ratio.sum() ** 2 / (ratio**2).sum() / len(ratio))
    if share >= 0.1:
        return None
    return (
        f"the ratios are very uneven (greatest {ratio.max():.3g}, effective sample {share:.1%} of the rows): the log "
        "says little about the target policy."
    )


def constant_columns(t: Transitions) -> str | None:
    constant = [i for i, spread in enumerate(np.ptp(t.observation, axis=0)) if spread == 0]
    if not constant or len(t) < 2:
        return None
    name = t.names[constant[0]] if t.names else f"column {constant[0]}"
    return f"{len(constant)} observation column(s) never change (the first is {name}): they carry no information."


def unequal_scales(t: Transitions) -> str | None:
    spread = t.observation.std(axis=0)
    varied = spread[spread > 0]
    if len(varied) < 2 or varied.max() < 1e4 * varied.min():
        return None
    factor = varied.max() / varied.min()
    return f"observation columns differ in scale by a factor of {factor:.1g}: scale them before fitting."


def constant_reward(t: Transitions) -> str | None:
    if len(t) < 2 or np.ptp(t.reward) > 0:
        return None
    return f"the reward is {t.reward[0]:g} in every row: only the length of episodes can tell states apart."


def repeated_rows(t: Transitions) -> str | None:
    """The same transition stands twice in a row, inside an episode and although the state changed."""
    same = (t.observation[1:] == t.observation[:-1]).all(axis=1) & (t.reward[1:] == t.reward[:-1])
    same &= (t.next_observation[1:] == t.next_observation[:-1]).all(axis=1) & ~t.start[1:]
    same &= (t.observation[1:] != t.next_observation[1:]).any(axis=1)
    if t.action is not None:
        actions = t.action.reshape(len(t), -1)
        same &= (actions[1:] == actions[:-1]).all(axis=1)
    if not same.any():
        return None
    return (
        f"{int(same.sum())} rows repeat the row before them (first row {int(np.argmax(same)) + 1}): remove duplicates."
    )


def repeated_episodes(t: Transitions) -> str | None:
    """Episodes of three rows or more are copies of others, although hardly two begin in the same state."""
    return copied(episode_digests(t.observation, t.reward, t._bounds()))


def episode_digests(observation: Array, reward: Array, bounds: Array) -> Array:
    """Two numbers for every episode of three rows or more: of its ends and its rewards, and of its first state.

    Every evaluation asks for them, and `fingerprints`, which look at every number, take a hundred times as long.
    """
    long = np.diff(bounds) >= 3
    first, last = bounds[:-1][long], bounds[1:][long] - 1
    begin, rewards = _digest(observation[first]), np.append(np.uint64(0), np.cumsum(_digest(reward[:, None])))
    return np.stack([begin + 3 * _digest(observation[last]) + 5 * (rewards[last + 1] - rewards[first]), begin])


def copied(digests: Array) -> str | None:
    """A sentence about episodes that are copies of others, from their digests; None if they are few."""
    n = digests.shape[1]
    kept = digests[1][np.unique(digests[0], return_index=True)[1]]
    if n - len(kept) < max(5, COPIED * n) or len(np.unique(kept)) < (1 - FEW) * len(kept):
        return None
    return (
        f"{n - len(kept)} of {n} episodes have the rewards and the states of another one: if they were logged twice, "
        "every interval is too narrow; remove the copies."
    )


def _digest(rows: Array) -> Array:
    """A number for every row that only equal rows share."""
    bits = (np.ascontiguousarray(rows, dtype=np.float64) + 0.0).view(np.uint64)  # + 0.0 makes −0.0 and 0.0 alike
    odd = np.random.default_rng(0).integers(2**63, size=bits.shape[1], dtype=np.uint64) * 2 + 1
    mixed = (bits ^ (bits >> np.uint64(32))) * odd
    return np.asarray((mixed ^ (mixed >> np.uint64(29))).sum(axis=1))


def one_endless_episode(t: Transitions) -> str | None:
    """All rows are one episode: there is no column of episodes, and no row ended one."""
    if t.n_episodes > 1 or len(t) < 2:
        return None
    return (
        f"all {len(t):,} rows are one episode, and an interval needs several: number them in a column `episode`, or "
        "mark where they end in `terminated` or `truncated` (in every row, if each is a decision of its own)."
    )


def decimal_actions(t: Transitions) -> str | None:
    """Discrete actions that were stored as 0.0, 1.0, … are taken for continuous ones."""
    if t.action is None or t.action.dtype.kind != "f" or np.any(t.action != np.rint(t.action)):
        return None
    return "the actions are whole numbers written as decimals (1.0), which count as continuous: store them as integers."


def codes_of_missing_text(t: Transitions) -> str | None:
    """A −1 among codes 0, 1, … is what `pandas.factorize` writes where the text was missing."""
    columns = {"action": t.action} if t.action is not None and t.action.ndim == 1 else {}
    columns |= {name: t.observation[:, j] for j, name in enumerate(t.names or ())}
    for name, values in columns.items():
        if values.min() == -1 and values.max() > 0 and len(found := np.unique(values)) < 100 and not (found % 1).any():
            return (
                f"`{name}` is -1 in {int((values == -1).sum())} rows and a code of 0 or more elsewhere: if -1 stands "
                "for missing text, it is no category; start from the raw table with `sparsetd prepare`."
            )
    return None


def visits_out_of_order(t: Transitions) -> str | None:
    """A column that is named after time goes back within an episode, or stands still in a copied row."""
    for j, name in enumerate(t.names or ()):
        if TIMES.search(folded(name).replace("_", " ")):
            back = ((np.diff(t.observation[:, j]) < 0) & ~t.start[1:]).sum()
            rows = _digest(np.column_stack([t.observation, t.reward, t.episode]))
            copies = len(t) - len(np.unique(rows))
            if back and np.ptp(t.observation[:, j]) > 0:
                return (
                    f"`{name}` goes back within episodes in {back} rows, and {copies} rows are copies of others: if it "
                    f"is the time, start from the raw table with `sparsetd prepare`, which sorts by it "
                    f"(--column {shlex.quote(f'time={name}')}) and drops copies."
                )
    return None


def names_that_differ_in_case_only(t: Transitions) -> str | None:
    """Two actions or two categories have the same name, written differently."""
    for names in (t.action_names or (), t.names or ()):
        first: dict[str, str] = {}
        for name in names:
            if first.setdefault(folded(name), name) != name:
                return (
                    f"{first[folded(name)]!r} and {name!r} differ in case or blanks only: if they are one, prepare the "
                    "raw table with `sparsetd prepare`, which joins them."
                )
    return None


def repeated_outcomes(t: Transitions) -> str | None:
    """An outcome of the whole episode, 0 or 1, stands in each of its rows, so it counts once for every row."""
    if np.all(t.start) or not np.isin(t.reward, (0, 1)).all() or np.ptp(t.reward) == 0:
        return None
    if (np.diff(t.reward)[~t.start[1:]] != 0).any() or t.n_episodes < 5:
        return None
    return (
        "the reward is the same in all rows of an episode, 0 or 1: if it is the outcome of the episode, keep it in the "
        "last row and write 0 in the others, or it counts once for every row."
    )


def only_outcomes(t: Transitions) -> bool:
    """Whether only last rows have a reward and every episode terminates: a discount would make late outcomes small."""
    last = np.append(t.start[1:], True)
    return not last.all() and bool(t.terminated[last].all() and t.reward.any() and not t.reward[~last].any())


ID = re.compile(r"(^|[_ ])(id|patient|subject|person|user|customer|member|client|mrn)([_ ]|$)", re.IGNORECASE)


def ids_that_repeat(t: Transitions) -> str | None:
    """Several episodes share the value of a column of ids that is the same in all rows of an episode."""
    if sp.issparse(t.observation):
        return None
    columns = {name: t.observation[:, j] for j, name in enumerate(t.names or ()) if ID.search(name)}
    first = t._bounds()[:-1]
    for name, values in columns.items():
        own = values[first]
        n = len(np.unique(own))
        # A few patients who come twice do not matter; a single id for all episodes is no id.
        if 1 < n < (1 - FEW) * len(own) and np.array_equal(np.repeat(own, np.diff(t._bounds())), values):
            return (
                f"{len(own)} episodes share {n} values of `{name}`: if it is an id, they are not independent and "
                f"intervals are too narrow; pass cluster={name!r} (--cluster {name})."
            )
    return None


CHECKS: tuple[Callable[[Transitions], str | None], ...] = (
    one_endless_episode,
    decimal_actions,
    codes_of_missing_text,
    timeouts_marked_as_terminals,
    successors_after_a_reset,
    broken_chains,
    first_rewards_are_zero,
    rewards_fit_a_neighbour,
    ratios_do_not_average_one,
    impossible_propensities,
    poor_support,
    constant_columns,
    unequal_scales,
    constant_reward,
    repeated_rows,
    repeated_episodes,
    ids_that_repeat,
    visits_out_of_order,
    names_that_differ_in_case_only,
    repeated_outcomes,
)


def _few_states(t: Transitions) -> bool:
    """Whether there are so few distinct first states that coincidences mean nothing."""
    return len(np.unique(t.observation[t.start], axis=0)) < 3


def _design(t: Transitions) -> Array:
    """[1, s, a, s', s·a] of every row, standardised; at most 50 columns of each, to stay cheap."""
    parts = [t.observation[:, :50], t.next_observation[:, :50]]
    if t.action is not None and t.action.ndim == 1 and t.action.min() >= 0 and t.action.max() < 20:
        taken = np.eye(20)[t.action][:, np.unique(t.action)]
        parts += [taken, *(t.observation * one[:, None] for one in taken.T[: 50 // t.observation.shape[1]])]
    rows = np.hstack(parts).astype(np.float64)
    spread = rows.std(axis=0)
    rows = (rows - rows.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return np.hstack([np.ones((len(rows), 1)), rows])


def _r2(rows: Array, reward: Array) -> float:
    """Share of the variance a ridge regression explains."""
    centred = reward - reward.mean()
    total = float(centred @ centred)
    gram = rows.T @ rows + 1e-6 * len(rows) * np.eye(rows.shape[1])  # columns may be copies of one another
    left = centred - rows @ np.linalg.solve(gram, rows.T @ centred)
    return 1 - float(left @ left) / total if total > 0 else 0.0

"""Checks for mistakes in a log that can be read: each yields sentences about what looks wrong."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator

import numpy as np
import scipy.sparse as sp

from sparsetd.logs.checks import Array
from sparsetd.logs.schema import folded
from sparsetd.logs.transitions import Transitions

Check = Callable[[Transitions], Iterator[str]]
FEW = 0.05  # a share of rows or episodes below this is taken as chance
COPIED = 0.02  # copies are reported if more than this share of the episodes are copies
BLOCK = 4_096  # rows that are compared at a time
TIMES = re.compile(r"\b(time|date|datetime|timestamp|visit|day|hour|datum|zeit|tijd|heure|fecha|hora|step)\b")
ID = re.compile(r"(^|[_ ])(id|patient|subject|person|user|customer|member|client|mrn)([_ ]|$)", re.IGNORECASE)
MAX_DESIGN = 20_000  # rows in which a regression looks for shifted rewards


def timeouts_marked_as_terminals(t: Transitions) -> Iterator[str]:
    """Many episodes end as terminated at exactly the longest length, far more than a little before it."""
    bounds = t._bounds()
    length, ended = np.diff(bounds), t.terminated[bounds[1:] - 1]
    longest = int(length.max())
    count = int(((length == longest) & ended).sum())
    before = int(((length >= longest - 3) & (length < longest) & ended).sum())
    # Three times the mean of the three lengths before: natural ends fade out, a time limit piles them up.
    spike = count > 3 * (before / 3 + 1)
    if longest >= 5 and count >= max(3, FEW * len(length)) and spike:
        others = f"{int(t.truncated.sum())} rows are truncated" if t.truncated.any() else "none is truncated"
        yield (
            f"{count} of {len(length)} episodes end as terminated after exactly {longest} rows, the greatest length, "
            f"and {others}: if that is a time limit, mark those rows as truncated, or their future is counted as zero."
        )


def successors_after_a_reset(t: Transitions) -> Iterator[str]:
    """Truncated rows have the first state of the *next* episode as their successor, and not by coincidence."""
    cut = np.flatnonzero((t.truncated & ~t.terminated)[:-1] & t.start[1:])
    same = (t.next_observation[cut] == t.observation[cut + 1]).all(axis=1)
    if same.sum() > len(cut) / 2 and len(np.unique(t.observation[t.start], axis=0)) >= 3:
        yield (
            f"the successor of {int(same.sum())} of {len(cut)} truncated rows is the first observation of the next "
            f"episode (first in row {cut[same][0]}): log the last observation before the reset instead."
        )


def broken_chains(t: Transitions) -> Iterator[str]:
    """The successor of some rows is not the observation of the next row of their episode."""
    inside = np.flatnonzero(~t.start[1:] & ~t.terminated[:-1])
    off: list[int] = []
    for low in range(0, len(inside), BLOCK):
        rows = inside[low : low + BLOCK]
        rows = rows[(t.next_observation[rows] != t.observation[rows + 1]).any(axis=1)]  # most are equal
        near = np.isclose(t.next_observation[rows], t.observation[rows + 1], rtol=1e-5, atol=1e-8)
        off += rows[~near.all(axis=1)].tolist()
    if off:
        yield (
            f"in {len(off)} of {len(inside)} rows the next observation is not the observation of the next row of "
            f"the same episode (first in row {off[0]}): rows are missing, out of order, or shifted."
        )


def first_rewards_are_zero(t: Transitions) -> Iterator[str]:
    """Rewards logged one row late leave a zero in the first row of every episode."""
    first, rest = t.reward[t.start], t.reward[~t.start]
    if len(first) >= 5 and len(rest) and not first.any() and np.mean(rest != 0) >= 0.5:
        yield (
            f"the first reward of all {len(first)} episodes is 0 but {np.mean(rest != 0):.0%} of the others are not: "
            "the reward of a row must be what its own action earned, not what the action before it did."
        )


def rewards_fit_a_neighbour(t: Transitions) -> Iterator[str]:
    """Rewards fit (s, a, s') of the row before or after far better than that of their own row."""
    t = t[:MAX_DESIGN]
    middle = np.flatnonzero(~t.start[1:-1] & ~t.start[2:]) + 1
    rows = _design(t)
    if len(middle) < 4 * rows.shape[1] or np.ptp(t.reward) == 0:
        return
    fit = {shift: _r2(rows[middle], t.reward[middle + shift]) for shift in (-1, 0, 1)}
    best = max((-1, 1), key=fit.__getitem__)
    if fit[best] >= 0.5 and 1 - fit[best] <= 0.5 * (1 - fit[0]):
        side = "next" if best == 1 else "previous"
        yield (
            f"a row's observations and action explain {fit[best]:.0%} of how the reward of the {side} row varies, but "
            f"only {max(fit[0], 0):.0%} of how its own does: the rewards look shifted by one row."
        )


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


def odd_ratios(t: Transitions) -> Iterator[str]:
    """Importance ratios do not average 1, their expectation under μ, or a few rows carry nearly all the weight.

    The average is less than 1 if π does what μ never did.
    """
    ratio = t.importance_ratio()
    mean, error = float(ratio.mean()), float(ratio.std() / np.sqrt(len(ratio)))
    given = t.ratio is not None or (t.target_prob is not None and t.behavior_prob is not None)
    if given and len(ratio) >= 30 and abs(mean - 1) > max(5 * error, 0.05):  # rows of an episode are alike: 2 is little
        why = "some probabilities are not those of the logged action"
        why = f"the target does what was never logged, or {why}" if mean < 1 else why
        yield (
            "the ratios target/behaviour (the probability of the logged action under the target policy, divided by "
            f"that under the policy that took it) average {mean:.3g} where they should average 1: {why}."
        )
    share = float(ratio.sum() ** 2 / (ratio**2).sum() / len(ratio)) if ratio.any() else 0.0
    if not ratio.any():
        yield "every ratio target/behaviour is 0: the target policy takes none of the logged actions."
    elif share < 0.1:
        yield (
            f"a few rows carry nearly all the weight of the target policy: the greatest ratio target/behaviour is "
            f"{ratio.max():.3g}, and the rows say as much about it as {share:.1%} of them would if all counted alike, "
            "so the log says little about the target policy."
        )


def impossible_propensities(t: Transitions) -> Iterator[str]:
    """The mean of 1/μ(a|s) exceeds the number of actions, although its expectation cannot."""
    mu, action = t.behavior_prob, t.action
    if mu is None or action is None or action.ndim != 1 or len(mu) < 30:
        return
    n_actions, inverse = len(np.unique(action)), 1 / mu
    mean, error = float(inverse.mean()), float(inverse.std() / np.sqrt(len(mu)))
    if n_actions > 1 and np.all(mu == 1):
        yield f"`behavior_prob` is 1 in every row although {n_actions} different actions were taken."
    elif mean > max(action.max() + 1, n_actions) + 5 * error:
        yield (
            f"1/`behavior_prob` averages {mean:.3g}, which cannot exceed the {n_actions} actions seen: "
            "it may be the probability of another action, or not a probability."
        )


def columns_that_say_little(t: Transitions) -> Iterator[str]:
    """Observed columns or the reward never change, or scales differ greatly."""
    if len(t) < 2:
        return
    constant = np.flatnonzero(np.ptp(t.observation, axis=0) == 0)
    if len(constant):
        name = t.names[constant[0]] if t.names else f"column {constant[0]}"
        yield f"{len(constant)} observation column(s) never change (the first is {name}): they carry no information."
    spread = t.observation.std(axis=0)
    varied = spread[spread > 0]
    if len(varied) and varied.max() >= 1e4 * varied.min():
        factor = varied.max() / varied.min()
        yield f"observation columns differ in scale by a factor of {factor:.1g}: scale them before fitting."
    if np.ptp(t.reward) == 0:
        yield f"the reward is {t.reward[0]:g} in every row: only the length of episodes can tell states apart."


def repeated_rows(t: Transitions) -> Iterator[str]:
    """The same transition stands twice in a row, inside an episode and although the state changed."""
    same = (t.observation[1:] == t.observation[:-1]).all(axis=1) & (t.reward[1:] == t.reward[:-1])
    same &= (t.next_observation[1:] == t.next_observation[:-1]).all(axis=1) & ~t.start[1:]
    same &= (t.observation[1:] != t.next_observation[1:]).any(axis=1)
    if t.action is not None:
        actions = t.action.reshape(len(t), -1)
        same &= (actions[1:] == actions[:-1]).all(axis=1)
    if same.any():
        first = f"(first row {int(np.argmax(same)) + 1})"
        yield f"{int(same.sum())} rows repeat the row before them {first}: remove duplicates."


def repeated_episodes(t: Transitions) -> Iterator[str]:
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


def copied(digests: Array) -> Iterator[str]:
    """A sentence about episodes that are copies of others, from their digests, unless they are few."""
    n = digests.shape[1]
    kept = digests[1][np.unique(digests[0], return_index=True)[1]]
    if n - len(kept) >= max(5, COPIED * n) and len(np.unique(kept)) >= (1 - FEW) * len(kept):
        yield (
            f"{n - len(kept)} of {n} episodes have the rewards and the states of another one: if they were logged "
            "twice, every interval is too narrow; remove the copies."
        )


def _digest(rows: Array) -> Array:
    """A number for every row that only equal rows share."""
    bits = (np.ascontiguousarray(rows, dtype=np.float64) + 0.0).view(np.uint64)  # + 0.0 makes −0.0 and 0.0 alike
    odd = np.random.default_rng(0).integers(2**63, size=bits.shape[1], dtype=np.uint64) * 2 + 1
    mixed = (bits ^ (bits >> np.uint64(32))) * odd
    return np.asarray((mixed ^ (mixed >> np.uint64(29))).sum(axis=1))


def one_endless_episode(t: Transitions) -> Iterator[str]:
    """All rows are one episode: there is no column of episodes, and no row ended one."""
    if t.n_episodes == 1 and len(t) > 1:
        yield (
            f"all {len(t):,} rows are one episode, and an interval needs several: number them in a column `episode`, "
            "or mark where they end in `terminated` or `truncated` (in every row, if each is a decision of its own)."
        )


def decimal_actions(t: Transitions) -> Iterator[str]:
    """Discrete actions that were stored as 0.0, 1.0, … are taken for continuous ones."""
    if t.action is not None and t.action.dtype.kind == "f" and np.all(t.action == np.rint(t.action)):
        counts = "the actions are whole numbers written as decimals (1.0), which count as continuous"
        yield f"{counts}: store them as integers."


def codes_of_missing_text(t: Transitions) -> Iterator[str]:
    """A −1 among codes 0, 1, … is what `pandas.factorize` writes where the text was missing."""
    columns = {"action": t.action} if t.action is not None and t.action.ndim == 1 else {}
    columns |= {name: t.observation[:, j] for j, name in enumerate(t.names or ())}
    for name, values in columns.items():
        if values.min() == -1 and values.max() > 0 and len(found := np.unique(values)) < 100 and not (found % 1).any():
            yield (
                f"`{name}` is -1 in {int((values == -1).sum())} rows and a code of 0 or more elsewhere: if -1 stands "
                "for missing text, it is no category; start from the raw table with `sparsetd prepare`."
            )
            return


def unprepared(t: Transitions) -> Iterator[str]:
    """What `prepare` repairs: visits out of order, names in two spellings, outcomes that stand in every row."""
    for j, name in enumerate(t.names or ()):
        is_time = TIMES.search(folded(name).replace("_", " ")) is not None
        if is_time and (back := ((np.diff(t.observation[:, j]) < 0) & ~t.start[1:]).sum()):
            rows = _digest(np.column_stack([t.observation, t.reward, t.episode]))
            yield (
                f"`{name}` goes back within episodes in {back} rows, and {len(t) - len(np.unique(rows))} rows are "
                "copies of others: if it is the time, start from the raw table with `sparsetd prepare`, which sorts by "
                f"it (--column {shlex.quote(f'time={name}')}) and drops copies."
            )
            break
    first: dict[tuple[int, str], str] = {}
    several = [(i, name) for i, names in enumerate((t.action_names, t.names)) for name in names or ()]
    twice = [(first[i, folded(name)], name) for i, name in several if first.setdefault((i, folded(name)), name) != name]
    if twice:
        yield (
            f"{twice[0][0]!r} and {twice[0][1]!r} differ in case or blanks only: if they are one, prepare the raw "
            "table with `sparsetd prepare`, which joins them."
        )
    outcomes = not np.all(t.start) and np.isin(t.reward, (0, 1)).all() and np.ptp(t.reward) > 0
    if outcomes and t.n_episodes >= 5 and not np.diff(t.reward)[~t.start[1:]].any():
        yield (
            "the reward is the same in all rows of an episode, 0 or 1: if it is the outcome of the episode, keep it in "
            "the last row and write 0 in the others, or it counts once for every row."
        )


def only_outcomes(t: Transitions) -> bool:
    """Whether only last rows have a reward and every episode terminates: a discount would make late outcomes small."""
    last = np.append(t.start[1:], True)
    return not last.all() and bool(t.terminated[last].all() and t.reward.any() and not t.reward[~last].any())


def ids_that_repeat(t: Transitions) -> Iterator[str]:
    """Several episodes share the value of a column of ids that is the same in all rows of an episode."""
    bounds = t._bounds()
    for j, name in enumerate(t.names or ()):
        if sp.issparse(t.observation) or not ID.search(name):
            continue
        values = t.observation[:, j]
        own = values[bounds[:-1]]
        n = len(np.unique(own))
        # A few patients who come twice do not matter; a single id for all episodes is no id.
        if 1 < n < (1 - FEW) * len(own) and np.array_equal(np.repeat(own, np.diff(bounds)), values):
            yield (
                f"{len(own)} episodes share {n} values of `{name}`: if it is an id, they are not independent and "
                f"intervals are too narrow; pass cluster={name!r} (--cluster {name})."
            )
            return


EPISODES: tuple[Check, ...] = (one_endless_episode, timeouts_marked_as_terminals, repeated_episodes, ids_that_repeat)
CHAINS: tuple[Check, ...] = (successors_after_a_reset, broken_chains, repeated_rows)
NUMBERS: tuple[Check, ...] = (decimal_actions, codes_of_missing_text, columns_that_say_little, unprepared)
REWARDS: tuple[Check, ...] = (first_rewards_are_zero, rewards_fit_a_neighbour)
CHECKS = (*EPISODES, *CHAINS, *REWARDS, odd_ratios, impossible_propensities, *NUMBERS)

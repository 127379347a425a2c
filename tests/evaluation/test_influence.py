"""What each episode does to the value, against refits without it; implied weights; sums that add up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from evaluation.logs import asked, dense_part, fitted

from sparsetd.evaluation import linear
from sparsetd.evaluation.choice import mean_system
from sparsetd.evaluation.episodes import Episodes, Facts
from sparsetd.evaluation.linear import LinearValue, second_way, sums_of, verify
from sparsetd.evaluation.reading import Ask
from sparsetd.evaluation.support import support, weight_sums
from sparsetd.features.featurize import featurize
from sparsetd.logs import Transitions

GAMMA = 0.9


def walks(seed=0, lengths=(1, 2, 3, 9, 12) * 8, columns=3, cut=True):
    """A noisy linear system with ratios; every other episode is cut. Lengths below and above the number of columns."""
    rng = np.random.default_rng(seed)
    s, after, last = [], [], []
    for length in lengths:
        path = [rng.normal(size=columns)]
        for _ in range(length):
            path.append(0.6 * path[-1] + rng.normal(size=columns))
        s += path[:-1]
        after += path[1:]
        last += [False] * (length - 1) + [True]
    s, after, last = map(np.array, (s, after, last))
    episode = np.repeat(np.arange(len(lengths)), lengths)
    truncated = last & (episode % 2 == 0) & cut
    return Transitions.from_arrays(
        s, s @ [1.0, -0.5, 0.2][:columns] + rng.normal(size=len(s)), after, terminated=last & ~truncated,
        truncated=truncated, episode=episode, ratio=rng.choice([0.0, 0.5, 1.0, 1.5, 2.0], size=len(s)),
    )  # fmt: skip


def part_of(log):
    return dense_part(featurize(log, None, GAMMA), Episodes.of_log(log, GAMMA))


def widened(log, here, there):
    return replace(
        log,
        observation=np.column_stack([log.observation, here]),
        next_observation=np.column_stack([log.next_observation, there]),
        names=tuple(f"x{i}" for i in range(log.observation.shape[1] + 1)),
    )


def value_without(log, i):
    """v from the other episodes alone: dense least squares on the rows, no shared code."""
    rows = log.episode != i
    ones = np.ones((rows.sum(), 1))
    phi, after = np.hstack([log.observation[rows], ones]), np.hstack([log.next_observation[rows], ones])
    discount = GAMMA * ~log.terminated[rows]
    weighted = phi * log.importance_ratio()[rows][:, None]
    theta = np.linalg.lstsq(weighted.T @ (phi - discount[:, None] * after), weighted.T @ log.reward[rows], rcond=1e-10)[
        0
    ]
    first = np.flatnonzero(np.diff(log.episode[rows], prepend=-1))
    return float((phi[first] @ theta).mean())


def refitted(log):
    n = len(np.unique(log.episode))
    part = part_of(log)
    value = LinearValue.solve(sums_of(part)).value
    return (n - 1) * (value - np.array([value_without(log, i) for i in range(n)]))


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("seed", range(2))
def test_influence_is_exactly_what_leaving_an_episode_out_changes(seed, columns):
    """Episodes of 1 to 12 rows and 2 or 4 columns: both ways of solving are taken."""
    log = walks(seed, columns=columns)
    part = part_of(log)
    length = np.diff(np.append(part.episodes.first, len(log)))
    assert (length > columns + 1).any()
    assert (length <= columns + 1).any()
    found = LinearValue.solve(sums_of(part)).influence(part)
    np.testing.assert_allclose(found, refitted(log), rtol=1e-8, atol=1e-8)


def test_influence_does_not_depend_on_how_many_episodes_are_left_out_at_a_time(monkeypatch):
    part = part_of(walks(2))
    model = LinearValue.solve(sums_of(part))
    together = model.influence(part)
    monkeypatch.setattr(linear, "TOGETHER", 1)
    np.testing.assert_allclose(model.influence(part), together, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("extra", ["duplicate", "constant", "zero", "sum"])
def test_redundant_columns_leave_the_influence_alone(extra):
    log = walks(3)
    s, after, n = log.observation, log.next_observation, len(log)
    here, there = {
        "duplicate": (s[:, 0], after[:, 0]),
        "constant": (np.full(n, 3.0), np.full(n, 3.0)),
        "zero": (np.zeros(n), np.zeros(n)),
        "sum": (s.sum(axis=1) - 2.0, after.sum(axis=1) - 2.0),
    }[extra]
    wide, plain = part_of(widened(log, here, there)), part_of(log)
    model = LinearValue.solve(sums_of(wide))
    assert model.determined()
    assert model.value == pytest.approx(LinearValue.solve(sums_of(plain)).value, rel=1e-9)
    np.testing.assert_allclose(model.influence(wide), refitted(log), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("alone", [1, 3], ids=["a short episode", "a long episode"])
def test_an_episode_that_alone_saw_a_category_is_left_out_with_it(alone):
    """Without it the column is zero, so the fit is the one without the column; what is said of others is a refit."""
    log = walks(4, cut=False)
    category = (log.episode == alone).astype(float)
    wide = widened(log, category, category)
    part = part_of(wide)
    model = LinearValue.solve(sums_of(part))
    found, n = model.influence(part), len(part.episodes)
    assert np.isfinite(found).all()
    others = [i for i in range(n) if i != alone]
    expected = [(n - 1) * (model.value - value_without(wide, i)) for i in others]
    np.testing.assert_allclose(found[others], expected, rtol=1e-7, atol=1e-7)
    assert found[alone] == pytest.approx((n - 1) * (model.value - value_without(log, alone)), rel=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_the_value_is_the_weighted_sum_of_the_rewards(seed):
    part = part_of(walks(seed))
    model = LinearValue.solve(sums_of(part))
    terms = model.weights(part) * part.batch.ratio * part.batch.reward
    assert abs(terms.sum() - model.value) <= 1e-10 * np.abs(terms).sum()
    other = replace(part.batch, reward=np.random.default_rng(9).normal(size=len(part.batch)))
    again, same = fitted(other, np.arange(3), part.episodes)
    np.testing.assert_allclose(again.weights(same), model.weights(part), rtol=1e-12)  # they do not know the rewards
    assert abs(model.weights(part) @ (other.ratio * other.reward) - again.value) <= 1e-10 * np.abs(terms).sum()


def supported(model, part):
    return support(asked(part, Ask(weight_sums, (model,))), Facts.of(part))


def test_support_counts_the_weights_of_rows_and_episodes():
    part = part_of(walks(5))
    model = LinearValue.solve(sums_of(part))
    found = supported(model, part)
    weighed = model.weights(part) * part.batch.ratio
    of = [np.abs(weighed[part.episodes.of == i]).sum() for i in range(40)]
    assert found.effective_rows == pytest.approx(np.abs(weighed).sum() ** 2 / (weighed**2).sum())
    assert found.effective_episodes == pytest.approx(np.sum(of) ** 2 / np.sum(np.square(of)))
    assert found.negative == pytest.approx(-weighed[weighed < 0].sum() / np.abs(weighed).sum())


def test_a_log_of_the_target_itself_that_ends_at_once_counts_every_episode():
    """One step, ρ = 1 and no feature: every ω is 1/n."""
    log = walks(0, lengths=(1,) * 30, cut=False)
    part = dense_part(featurize(log, None, GAMMA), Episodes.of_log(log, GAMMA), np.arange(0), np.ones((1, 30))).under(0)
    found = supported(LinearValue.solve(sums_of(part)), part)
    assert (found.effective_rows, found.effective_episodes) == (pytest.approx(30), pytest.approx(30))
    assert found.negative == 0.0


def sums(part, rows, first):
    """A, b, C, c, one row at a time."""
    batch, d = part.batch, part.batch.n_features + 1
    A, b, C, c = np.zeros((d, d)), np.zeros(d), np.zeros((d, d)), np.zeros(d)
    for t in rows:
        phi, after = np.append(batch.phi[t], 1.0), np.append(batch.phi_next[t], 1.0)
        A += batch.ratio[t] * np.outer(phi, phi - batch.discount[t] * after)
        b += batch.ratio[t] * batch.reward[t] * phi
        C += np.outer(phi, phi)
        c += phi if t in first else 0.0
    return {"A": A, "b": b, "C": C, "start": c}


def test_sums_are_those_of_their_rows_by_group(monkeypatch):
    part = part_of(walks(6, lengths=(3, 1, 4, 2, 5) * 2))
    group = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2, 0])
    monkeypatch.setattr("sparsetd.evaluation.reading.LEAST", 1)  # as small as they come
    monkeypatch.setattr("sparsetd.evaluation.reading.BLOCK", 1)
    assert len(list(part.pieces())) == 10
    found = sums_of(part, group, 3)
    for k in range(3):
        rows = np.flatnonzero(group[part.episodes.of] == k)
        for name, expected in sums(part, rows, part.episodes.first).items():
            np.testing.assert_allclose(getattr(found, name)[k], expected, rtol=1e-12, atol=1e-12)
        assert (found.n_rows[k], found.n_episodes[k]) == (len(rows), (group == k).sum())


def test_sums_of_parts_add_up_and_groups_can_be_taken_off():
    log = walks(7)
    half = np.flatnonzero(log.episode < 20)
    rest = np.flatnonzero(log.episode >= 20)
    whole, parts = sums_of(part_of(log)), [sums_of(part_of(log[rows])) for rows in (half, rest)]
    groups = sums_of(part_of(log), np.arange(40) % 4, 4)
    for name in whole.__dataclass_fields__:
        np.testing.assert_allclose(getattr(parts[0] + parts[1], name), getattr(whole, name), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(getattr(groups.total(), name), getattr(whole, name), rtol=1e-12, atol=1e-12)
    without = np.flatnonzero(log.episode % 4 != 3)
    kept, own = groups.total(np.arange(4) != 3), sums_of(part_of(log[without]))
    np.testing.assert_allclose(kept.A, own.A, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(kept.start, own.start, rtol=1e-12, atol=1e-12)


def test_sums_on_some_columns_are_those_of_a_part_on_them():
    log = walks(8)
    batch, episodes = featurize(log, None, GAMMA), Episodes.of_log(log, GAMMA)
    some = np.array([2, 0])
    ours = sums_of(dense_part(batch, episodes)).on(np.append(some, 3))
    theirs = sums_of(dense_part(batch, episodes, some))
    for name in ours.__dataclass_fields__:
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-12, atol=1e-12)


def test_the_mean_system_is_the_sums_over_the_rows():
    part = part_of(walks(9))
    expected = sums(part, range(len(part.batch)), part.episodes.first)
    found = mean_system(sums_of(part, np.arange(40) % 2, 2))
    for name in ("A", "b", "C"):
        np.testing.assert_allclose(getattr(found, name) * len(part.batch), expected[name], rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(np.flatnonzero(found.free), [3])


def verified(model, part):
    verify(model, asked(part, Ask(second_way, (model,))))


@pytest.mark.parametrize("tampered", ["theta", "inverse"])
def test_a_tampered_model_does_not_pass_verification(tampered, monkeypatch):
    part = part_of(walks(10))
    model = LinearValue.solve(sums_of(part))
    verified(model, part)
    wrong = replace(model, **{tampered: getattr(model, tampered) * (1 + 5e-5)})
    with pytest.raises(RuntimeError, match="Verification failed: the value from implied weights"):
        verified(wrong, part)
    monkeypatch.setenv("SPARSETD_VERIFY", "0")
    verified(wrong, part)


def test_weights_that_do_not_solve_the_equations_do_not_pass_verification(monkeypatch):
    """The second check by itself: δ is taken from the rows, so a θ that misses them is seen."""
    part = part_of(walks(10))
    model = LinearValue.solve(sums_of(part))
    errors = model.errors(part) + 0.1
    monkeypatch.setattr(LinearValue, "errors", lambda *_: errors)
    with pytest.raises(RuntimeError, match="Verification failed: the weighted TD errors"):
        verified(model, part)


def test_a_model_of_other_rows_does_not_pass_verification():
    part, other = part_of(walks(10)), part_of(walks(11))
    with pytest.raises(RuntimeError, match="Verification failed"):
        verified(LinearValue.solve(sums_of(part)), other)

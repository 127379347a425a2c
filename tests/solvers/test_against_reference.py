"""The compiled solvers do the literal iterations of the paper: tests/reference holds those, with matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pairs import of_few_kernels
from reference import loops, proximal, systems

from sparsetd import operators, penalties, solvers
from sparsetd.solvers import PowerDecay
from sparsetd.system import Batch, adjoint, directions, mean_system, residual

N, D, ALPHA = 60, 5, 0.05
CONSTANTS: dict[str, dict[str, float]] = {
    "td": {},
    "etd": {},
    "tdc": {"eta": 2.0},
    "gtd": {"eta": 2.0},
    "gtd2": {"eta": 2.0},
    "tdrc": {"eta": 2.0, "beta": 0.5},
    "htd": {"eta": 2.0},
    "gq": {"eta": 2.0},
}
SADDLES = [name for name in CONSTANTS if name not in ("gtd", "tdrc")]  # those two damp w
CONJUGATE = {1: np.inf, 2: 2, "inf": 1}


def rows(seed: int = 0, reward: float = 20.0) -> Batch:
    """A stream with everything in it; rewards so large that every projection is active."""
    rng = np.random.default_rng(seed)
    phi, phi_next = rng.normal(size=(2, N, D))
    start = rng.random(N) < 0.15
    discount = np.where(rng.random(N) < 0.1, 0.0, rng.uniform(0.5, 1.0, N))
    return Batch(
        phi, phi_next, reward * rng.normal(size=N), discount, rng.uniform(0, 2, N), start, rng.uniform(0.5, 1.5, N)
    )


def literal(name: str, batch: Batch, lam: float) -> list:
    columns = {"ratio": batch.ratio, "start": batch.start, "interest": batch.interest}
    return systems.stream(
        name, batch.phi, batch.phi_next, batch.reward, batch.discount, **columns, lam=lam, **CONSTANTS[name]
    )


def table(name: str, lam: float):
    return operators.OPERATORS[name](**CONSTANTS[name], **({} if name == "htd" else {"lam": lam}))


def run(solver, tab, penalty, batch, factor=None):
    state = solver.init(tab, D)
    state.x[:] = start_point(tab.n_blocks)
    solver.update(state, batch, tab, penalty, factor)
    return state, solver.result(state, tab, penalty, factor)


def start_point(k: int) -> np.ndarray:
    """Iterates that begin at zero would hide errors."""
    return np.random.default_rng(9).normal(size=(k, D))


def lams(name: str) -> tuple[float, ...]:
    return (0.0,) if name == "htd" else (0.0, 0.6)


NAMES_AND_LAMS = [(name, lam) for name in CONSTANTS for lam in lams(name)]
SADDLE_CASES = of_few_kernels(
    [
        (*case, m, trial)
        for case in NAMES_AND_LAMS
        if case[0] in SADDLES
        for m in (1, 2, "inf")
        for trial in (False, True)
        if case[0] != "htd" or (m, trial) == (2, False)  # φ' meets w there, which is another kernel
    ],
    lambda case: {"blocks": table(*case[:2]).n_blocks, "traced": case[1] > 0, "m": case[2], "trial": case[3]},
)
# Every operator with and without traces is tried with plain steps; here one block has traces, and two have none.
FEW_KERNELS = [(name, lam) for name, lam in NAMES_AND_LAMS if name != "htd" and (name in ("td", "etd")) == (lam > 0)]


@pytest.mark.parametrize(("name", "lam"), NAMES_AND_LAMS)
def test_residual_adjoint_and_mean_are_those_of_the_literal_matrices(name: str, lam: float) -> None:
    batch, tab = rows(), table(name, lam)
    pairs, vectors = literal(name, batch, lam), directions(tab, batch)
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, tab.n_blocks, D))
    for (A, b), r, reward in zip(pairs, vectors, batch.reward, strict=True):
        np.testing.assert_allclose(residual(tab, x, r, reward).ravel(), A @ x.ravel() - b, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(adjoint(tab, y, r).ravel(), A.T @ y.ravel(), rtol=1e-10, atol=1e-10)
    A, b = mean_system(tab, batch)
    np.testing.assert_allclose(A, systems.mean(pairs)[0], atol=1e-12)
    np.testing.assert_allclose(b, systems.mean(pairs)[1], atol=1e-12)


@pytest.mark.parametrize(("name", "lam"), NAMES_AND_LAMS)
def test_adjoint_identity(name: str, lam: float) -> None:
    tab = table(name, lam)
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(2, tab.n_blocks, D))
    r = rng.normal(size=(3, D))
    assert np.vdot(y, residual(tab, x, r, 0.0)) == pytest.approx(np.vdot(adjoint(tab, y, r), x), rel=1e-12)


@pytest.mark.parametrize(("name", "lam"), NAMES_AND_LAMS)
@pytest.mark.parametrize("rho", [0.0, 0.4])
def test_stochastic_is_the_literal_iteration(name: str, lam: float, rho: float) -> None:
    batch, tab = rows(reward=1.0), table(name, lam)
    state, solution = run(solvers.Stochastic(ALPHA, average="all"), tab, penalties.L1(rho, rho), batch)
    wanted = loops.stochastic(
        literal(name, batch, lam), start_point(tab.n_blocks).ravel(), np.full(N + 1, ALPHA), loops.l1(rho)
    )
    np.testing.assert_allclose(state.primal.ravel(), wanted["x"], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(solution.coef, wanted["x_bar"][-D:], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("name", "lam", "m", "extragradient"), SADDLE_CASES)
def test_saddle_solvers_are_the_literal_iterations(name: str, lam: float, m: int | str, extragradient: bool) -> None:
    batch, tab, rho = rows(), table(name, lam), 0.3
    kind = solvers.SaddleMirrorProx if extragradient else solvers.PrimalDual
    state, solution = run(kind(ALPHA, fit_norm=m), tab, penalties.L1(rho, rho), batch)
    loop = loops.mirror_prox_saddle if extragradient else loops.primal_dual
    x0 = start_point(tab.n_blocks).ravel()
    wanted = loop(
        literal(name, batch, lam), x0, np.zeros_like(x0), np.full(N + 1, ALPHA), n=CONJUGATE[m], prox=loops.l1(rho)
    )
    assert np.linalg.norm(wanted["y"], CONJUGATE[m]) > 0.99  # the projection was active
    np.testing.assert_allclose(state.primal.ravel(), wanted["x"], rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(state.dual.ravel(), wanted["y"], rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(solution.coef, wanted["x_bar"][-D:], rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(solution.dual.ravel(), wanted["y_bar"], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(("name", "lam"), FEW_KERNELS)
def test_mirror_prox_is_the_literal_extragradient(name: str, lam: float) -> None:
    batch, tab = rows(reward=1.0), table(name, lam)
    state, solution = run(solvers.MirrorProx(ALPHA), tab, penalties.L1(0.2, 0.2), batch)
    wanted = loops.mirror_prox(
        literal(name, batch, lam), start_point(tab.n_blocks).ravel(), np.full(N + 1, ALPHA), loops.l1(0.2)
    )
    np.testing.assert_allclose(state.primal.ravel(), wanted["x"], rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(solution.coef, wanted["x_bar"][-D:], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(
    ("kind", "loop", "name"),
    [
        (solvers.MirrorDescent, loops.mirror_descent, "td"),
        (solvers.MirrorProx, loops.mirror_prox_p_norm, "tdc"),
        (solvers.MirrorProx, loops.mirror_prox_p_norm, "gq"),
    ],
)
@pytest.mark.parametrize("p", [1.5, 3.0])
def test_p_norm_steps_are_the_literal_ones(kind: Any, loop: Any, name: str, p: float) -> None:
    batch, tab, rho, lam = rows(reward=1.0), table(name, 0.6), 0.1, 0.6
    pairs, x0, k = literal(name, batch, lam), start_point(tab.n_blocks).ravel(), tab.n_blocks
    state, solution = run(kind(ALPHA, p=p, average="all"), tab, penalties.L1(rho, rho), batch)
    wanted = loop(pairs, x0, np.full(N + 1, ALPHA), p, rho, blocks=k)
    np.testing.assert_allclose(state.primal.ravel(), wanted["x"], rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(solution.coef, wanted["x_bar"][-D:], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(("name", "lam"), [case for case in FEW_KERNELS if case[0] in SADDLES])
def test_the_extension_is_the_literal_iteration(name: str, lam: float) -> None:
    batch, tab, rho = rows(reward=1.0), table(name, lam), 0.3
    state, solution = run(solvers.LeastSquaresSaddle(ALPHA), tab, penalties.L1(rho, rho), batch)
    x0 = start_point(tab.n_blocks).ravel()
    zero = np.zeros_like(x0)
    wanted = loops.least_squares_saddle(literal(name, batch, lam), x0, zero, zero, np.full(N + 1, ALPHA), rho)
    np.testing.assert_allclose(state.primal.ravel(), wanted["x"], rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(solution.coef, wanted["x_bar"][-D:], rtol=1e-9, atol=1e-10)


def test_separate_weights_shrink_each_block_by_its_own_threshold() -> None:
    batch, tab = rows(), table("tdc", 0.0)
    state, _ = run(solvers.PrimalDual(ALPHA), tab, penalties.L1(0.1, 0.7), batch)
    x0 = start_point(2).ravel()
    two = lambda x, alpha: proximal.twothreshold(x, alpha, 0.1, 0.7)  # noqa: E731
    wanted = loops.primal_dual(literal("tdc", batch, 0.0), x0, np.zeros_like(x0), np.full(N + 1, ALPHA), prox=two)
    np.testing.assert_allclose(state.primal.ravel(), wanted["x"], rtol=1e-9, atol=1e-10)


def test_a_decaying_schedule_weighs_the_average() -> None:
    batch, tab, schedule = rows(), table("tdc", 0.6), PowerDecay(0.1, horizon=10.0)
    _, solution = run(solvers.PrimalDual(schedule), tab, penalties.NoPenalty(), batch)
    x0 = start_point(2).ravel()
    wanted = loops.primal_dual(literal("tdc", batch, 0.6), x0, np.zeros_like(x0), schedule(np.arange(N + 1)))
    np.testing.assert_allclose(solution.coef, wanted["x_bar"][-D:], rtol=1e-9, atol=1e-10)


OTHER_PENALTIES = [
    penalties.ElasticNet(0.3, 0.5, 0.4),
    penalties.Ridge(0.3, 0.2),
    penalties.GroupL1(np.array([0, 0, 1, 1, 2]), 0.3, 0.2),
]


@pytest.mark.parametrize("penalty", OTHER_PENALTIES, ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("kind", [solvers.Stochastic, solvers.PrimalDual, solvers.SaddleMirrorProx])
def test_every_penalty_enters_through_its_prox(penalty, kind) -> None:
    batch, tab = rows(reward=1.0), table("tdc", 0.0)
    factor = np.array([1.0, 0.5, 0.0, 2.0, 1.0]) if not isinstance(penalty, penalties.GroupL1) else None
    state, _ = run(kind(ALPHA), tab, penalty, batch, factor)
    prox = lambda x, alpha: penalty.prox(x.reshape(2, D), alpha, factor).ravel()  # noqa: E731
    x0, pairs, steps = start_point(2).ravel(), literal("tdc", batch, 0.0), np.full(N + 1, ALPHA)
    loop = {
        solvers.Stochastic: loops.stochastic,
        solvers.PrimalDual: loops.primal_dual,
        solvers.SaddleMirrorProx: loops.mirror_prox_saddle,
    }[kind]
    dual = () if kind is solvers.Stochastic else (np.zeros_like(x0),)
    wanted = loop(pairs, x0, *dual, steps, prox=prox)
    np.testing.assert_allclose(state.primal.ravel(), wanted["x"], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("kind", [solvers.Stochastic, solvers.PrimalDual, solvers.MirrorProx, solvers.SaddleMirrorProx])
@pytest.mark.parametrize("lam", [0.0, 0.6])
def test_a_prox_of_the_users_own_gives_what_the_kernel_gives(kind, lam: float) -> None:
    batch, tab, l1 = rows(), table("tdc", lam), penalties.L1(0.3, 0.2)
    own = penalties.Custom(lambda x, step: l1.prox(x, step))
    slow, fast = (run(kind(0.01, average="all"), tab, p, batch) for p in (own, l1))
    np.testing.assert_allclose(slow[0].primal, fast[0].primal, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(slow[1].coef, fast[1].coef, rtol=1e-10, atol=1e-12)


def test_the_radius_keeps_x_in_its_ball() -> None:
    batch, tab, radius = rows(), table("tdc", 0.0), 0.7
    state, solution = run(solvers.PrimalDual(ALPHA, radius=radius), tab, penalties.NoPenalty(), batch)
    shrink = lambda x, alpha: x * min(1.0, radius / np.linalg.norm(x))  # noqa: ARG005, E731
    x0 = start_point(2).ravel()
    wanted = loops.primal_dual(literal("tdc", batch, 0.0), x0, np.zeros_like(x0), np.full(N + 1, ALPHA), prox=shrink)
    np.testing.assert_allclose(state.primal.ravel(), wanted["x"], rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(solution.coef, wanted["x_bar"][-D:], rtol=1e-9, atol=1e-10)
    assert np.linalg.norm(state.primal) <= radius * (1 + 1e-12)


@pytest.mark.parametrize("name", ["td", "tdc", "gtd2"])
@pytest.mark.parametrize("lam", [0.0, 0.6])
def test_discounts_and_ratios_may_stay_and_change_apart(name: str, lam: float) -> None:
    batch, tab = rows(reward=1.0), table(name, lam)
    batch.discount[:], batch.ratio[:], batch.interest[:] = 0.9, 1.0, 1.0
    batch.discount[10:20], batch.ratio[15:25], batch.discount[40] = 0.0, 2.0, 0.5
    state, _ = run(solvers.Stochastic(ALPHA), tab, penalties.NoPenalty(), batch)
    literally = loops.stochastic(literal(name, batch, lam), start_point(tab.n_blocks).ravel(), np.full(N + 1, ALPHA))
    np.testing.assert_allclose(state.x.ravel(), literally["xs"][-1], rtol=1e-9)


def test_a_bound_that_is_lifted_has_done_its_work() -> None:
    batch, tab, free = rows(), table("tdc", 0.0), solvers.Stochastic(ALPHA)
    state, _ = run(solvers.Stochastic(ALPHA, radius=0.3), tab, penalties.NoPenalty(), batch[:31])
    assert state.pending[0] < 1.0
    fresh = free.init(tab, D)
    fresh.x[:] = state.primal
    batch.start[31] = True
    for each in (state, fresh):
        free.update(each, batch[31:], tab, penalties.NoPenalty())
    np.testing.assert_allclose(state.primal, fresh.primal, rtol=1e-12)


@pytest.mark.parametrize("d", [1, 100, 520, 1365])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_rows_of_a_state_begin_on_lines_far_apart_in_their_pages(d: int, dtype) -> None:
    state = solvers.PrimalDual(ALPHA).init(table("tdc", 0.0), d, dtype)
    blocks = (state.x, state.y, state.totals.x, state.totals.y, state.earlier.x, state.earlier.y)
    addresses = np.array([row.ctypes.data for block in blocks for row in block])
    assert not (addresses % 64).any()
    apart = np.subtract.outer(addresses // 64, addresses // 64) % 64
    assert apart[~np.eye(12, dtype=bool)].min() >= 4


def test_the_suffix_average_forgets_the_first_quarter() -> None:
    batch, tab = rows(), table("td", 0.0)
    _, solution = run(solvers.Stochastic(ALPHA, average="suffix"), tab, penalties.NoPenalty(), batch)
    xs = loops.stochastic(literal("td", batch, 0.0), start_point(1).ravel(), np.full(N + 1, ALPHA))["xs"]
    np.testing.assert_allclose(
        solution.coef, xs[16 : N + 1].mean(axis=0), rtol=1e-9
    )  # N = 60: since 16, a power of two


def test_divergence_stops_early_and_keeps_finite_numbers() -> None:
    batch, tab = rows(), table("td", 0.0)
    solver = solvers.Stochastic(1e6)
    state = solver.update(solver.init(tab, D), batch, tab, penalties.NoPenalty())
    solution = solver.result(state, tab, penalties.NoPenalty())
    assert solution.status == "diverged"
    assert solution.n_iter < N
    assert np.isfinite(solution.coef).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_state_has_the_type_of_the_rows(dtype) -> None:
    batch, tab, solver = rows(reward=1.0), table("tdc", 0.6), solvers.PrimalDual(ALPHA)
    state = solver.update(solver.init(tab, D, dtype), batch, tab, penalties.L1(0.1, 0.1))
    assert (
        state.x.dtype
        == state.y.dtype
        == state.trace.dtype
        == solver.result(state, tab, penalties.L1(0.1)).coef.dtype
        == dtype
    )

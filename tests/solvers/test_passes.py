"""The table of `pass_for` is true: every row of it is tried, and the pass that the table names takes the rows."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from sparsetd import operators, penalties, solvers
from sparsetd.solvers import lazy, plain, stream
from sparsetd.system import Batch

NOTHING, L1, RIDGE = penalties.NoPenalty(), penalties.L1(0.1, 0.1), penalties.Ridge(0.1, 0.1)
BOTH, GROUPS = penalties.ElasticNet(0.1, 0.1), penalties.GroupL1(np.zeros(3, dtype=int), rho_theta=0.1)
AUTOMATIC, EVEN = solvers.DistanceOverGradients(), {"factor": np.ones(3)}
UNEVEN, ELSEWHERE = {"factor": np.array([1.0, 0.0, 1.0])}, {"coef_init": np.ones(3)}

# For each row of the table: solvers and penalties, and the weights of features or the x_0 that go with them.
EXAMPLES: dict[str, list[tuple[Any, ...]]] = {
    "penalty that only its prox knows (groups, own ones)": [
        (solvers.Stochastic(), GROUPS),
        (solvers.PrimalDual(fit_norm="inf"), GROUPS),
    ],
    "coin betting": [(solvers.CoinBetting(), NOTHING)],
    "dual averaging with a radius, or not with the l2 ball": [
        (solvers.DualAveraging(radius=1.0), L1),
        (solvers.DualAveraging(fit_norm=1), L1),
        (solvers.DualAveraging(fit_norm="inf"), NOTHING),
    ],
    "dual averaging, l2 ball of y, from x_0 = 0": [
        (solvers.DualAveraging(), L1),
        (solvers.DualAveraging(), BOTH, UNEVEN),
        (solvers.DualAveraging(average="none"), NOTHING),
    ],
    "the same from another x_0": [(solvers.DualAveraging(), L1, ELSEWHERE)],
    "p-norm maps, l1 ball of y, the box form of the l1 norm": [
        (solvers.MirrorDescent(p=3.0), NOTHING),
        (solvers.PrimalDual(fit_norm="inf"), L1),
        (solvers.SaddleDistanceOverGradients(fit_norm="inf"), NOTHING),
        (solvers.LeastSquaresSaddle(), L1),
    ],
    "trial points bent by a threshold or a box": [
        (solvers.MirrorProx(), L1),
        (solvers.SaddleMirrorProx(), L1),
        (solvers.SaddleMirrorProx(fit_norm=1), NOTHING),
    ],
    "no l1 penalty (nor box, nor ridges that differ)": [
        (solvers.Stochastic(), NOTHING),
        (solvers.Stochastic(), RIDGE, EVEN),
        (solvers.Stochastic(radius=1.0), NOTHING, ELSEWHERE),
        (solvers.MirrorProx(), RIDGE),
        (solvers.SaddleMirrorProx(), NOTHING),
        (solvers.PrimalDual(), NOTHING, UNEVEN),
        (AUTOMATIC, NOTHING),
        (AUTOMATIC, RIDGE, ELSEWHERE),
        (solvers.SaddleDistanceOverGradients(), NOTHING),
        (solvers.LeastSquaresDistanceOverGradients(), NOTHING),
    ],
    "l1 or box, step by hand, no ridge, damping or radius": [
        (solvers.Stochastic(), L1, UNEVEN),
        (solvers.PrimalDual(), L1),
        (solvers.PrimalDual(lambda t: 0.1 / (1.0 + t), average="none"), L1),
        (solvers.PrimalDual(fit_norm=1), NOTHING),
    ],
    "l1, box or ridges that differ, and anything else": [
        (solvers.PrimalDual(), BOTH),
        (solvers.Stochastic(radius=1.0), L1),
        (solvers.SaddleDistanceOverGradients(fit_norm=1), NOTHING),
        (AUTOMATIC, L1),
        (AUTOMATIC, RIDGE, UNEVEN),
        (solvers.Stochastic(), RIDGE, UNEVEN),
    ],
}


def rows_of_the_table() -> dict[str, list[str]]:
    """The method of each row of the docstring's table, and what stands in its columns for dense and for CSR rows."""
    lines = (inspect.getdoc(stream.pass_for) or "").splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("---")) + 1
    found = [re.split(r" {2,}", line) for line in lines[first:] if line]
    return {method: passes for method, *passes in found}


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The passes that took rows, as the table names them; they count the rows and leave the state alone."""
    seen: list[str] = []

    def taker(name: str) -> Any:
        def take(_: Any, rows: Any, *__: Any) -> int:
            seen.append(name)
            assert isinstance(rows.phi, np.ndarray) == (name in ("dense", "numpy"))
            return len(rows.reward)

        return take

    monkeypatch.setattr(stream.dense_pass, "stepping", lambda _: taker("dense"))
    monkeypatch.setattr(lazy.entries, "stepping", lambda _: taker("entries"))
    for module, name in ((lazy.entries, "flush"), (lazy, "take_sums")):
        monkeypatch.setattr(module, name, lambda *_: None)
    monkeypatch.setattr(lazy.awake, "stream", taker("awake"))
    monkeypatch.setattr(plain, "take", lambda solver, _, __, rows: taker("numpy")(solver, rows))
    return seen


def batch(sparse: bool) -> Batch:
    rows, ones = np.eye(3), np.ones(3)
    phi = sp.csr_array(rows) if sparse else rows
    return Batch(phi, phi[[1, 2, 0]], ones, 0.9 * ones, ones, ones == 0.0, ones)


def test_the_table_has_the_rows_that_are_tried() -> None:
    assert list(rows_of_the_table()) == list(EXAMPLES)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "CSR"])
@pytest.mark.parametrize("method", EXAMPLES)
def test_every_row_of_the_table_names_the_pass_that_takes_its_rows(method: str, sparse: bool, taken: list[str]) -> None:
    named, _, laid_out = rows_of_the_table()[method][sparse].partition(", ")
    assert laid_out == ("laid out densely" if sparse and named in ("dense", "numpy") else "")
    for solver, penalty, *more in EXAMPLES[method]:
        how = more[0] if more else {}
        state = solver.init(operators.tdc(), 3, coef_init=how.get("coef_init"))
        solver.update(state, batch(sparse), operators.tdc(), penalty, how.get("factor"))
        assert state.t == 3
        assert set(taken) == {named}, solver
        taken.clear()


@pytest.mark.parametrize("solver", [solvers.Stochastic(), AUTOMATIC], ids=["by hand", "automatic"])
def test_damping_of_w_bends_nothing_and_goes_densely_only_with_a_threshold(solver: Any, taken: list[str]) -> None:
    for penalty in (NOTHING, L1):
        solver.update(solver.init(operators.tdrc(), 3), batch(True), operators.tdrc(), penalty)
    assert list(dict.fromkeys(taken)) == ["entries", "dense"]

"""A sweep is the fits that one would have made by hand, kept in files that no interruption can spoil."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

from sparsetd import GQ, LSTD, ROTD, TD, TDC, LinearTD, operators, penalties, solvers, sweep
from sparsetd.control import EstimatorLearner, Rule, online
from sparsetd.estimators import BaseTD
from sparsetd.metrics import exact_mspbe, exact_neu, exact_rmspbe, mspbe, neu, rmspbe, value_error
from sparsetd.problems import random_mdp, random_walk, star
from sparsetd.sweeps import Control
from sparsetd.sweeps.tasks import distance, pieces, resample

GRID = {"step_size": [0.01, 0.1], "eta": [1.0, 4.0]}


@pytest.fixture(scope="module")
def mdp():
    return random_mdp(np.random.default_rng(3), n_states=8, n_features=5, n_relevant=2)


@pytest.mark.filterwarnings("ignore::sparsetd.estimators.base.DivergenceWarning")
def test_rows_are_the_fits_that_one_would_make_by_hand(mdp):
    table = sweep([TDC(), ROTD(rho_theta=0.01)], GRID, mdp, n_runs=2, random_state=7, n_rows=200, n_jobs=1, curve=7)
    assert len(table) == 2 * 4 * 2
    for row in table.rows[::3]:
        rows = mdp.trajectory(200, np.random.default_rng(row["seed"]))
        kind = {"TDC": TDC(), "ROTD": ROTD(rho_theta=0.01)}[row["method"]]
        model = kind.set_params(step_size=row["step_size"], eta=row["eta"], coef_init=mdp.theta0)
        model.fit(rows.phi, rows.reward, rows.phi_next, ratio=rows.ratio, discount=rows.discount, start=rows.start)
        assert row["rmspbe"] == pytest.approx(exact_rmspbe(mdp, model.coef_), rel=1e-9)
        assert row["curve"][-1] == row["rmspbe"]
        assert len(row["curve"]) == 7


def test_several_passes_are_those_of_fit(mdp):
    rows = mdp.sample(60, np.random.default_rng(0))
    table = sweep(TDC(n_passes=3), {"step_size": [0.05]}, rows, n_jobs=1, curve=5)
    model = TDC(n_passes=3, step_size=0.05).fit(
        rows.phi, rows.reward, rows.phi_next, ratio=rows.ratio, discount=rows.discount, start=rows.start
    )
    assert table.rows[0]["rmspbe"] == pytest.approx(rmspbe(rows, model.coef_), rel=1e-9)
    assert [cut for cut, _ in pieces(10, 2, 4)] == [slice(0, 5), slice(5, 10)] * 2


def test_errors_are_those_of_the_metrics(mdp):
    rng = np.random.default_rng(5)
    rows, theta = mdp.trajectory(300, rng), rng.normal(size=(2, mdp.n_features))
    for data, oracles in (
        (mdp, {"rmspbe": exact_rmspbe, "mspbe": exact_mspbe, "neu": exact_neu, "value_error": value_error}),
        (star(), {"rmspbe": exact_rmspbe}),
        (rows, {"rmspbe": rmspbe, "mspbe": mspbe, "neu": neu}),
    ):
        points = theta if data.n_features == mdp.n_features else rng.normal(size=(2, data.n_features))
        for name, oracle in oracles.items():
            expected = [oracle(data, point) for point in points]
            np.testing.assert_allclose(distance(name, data)(points), expected, rtol=1e-10)


def test_a_method_for_actions_is_measured_by_the_error_that_it_makes_nil(mdp):
    steps, states = {"step_size": [0.1]}, mdp.trajectory(400, np.random.default_rng(0))
    table = sweep(GQ(), steps, states, n_jobs=1)
    model = GQ(step_size=0.1).partial_fit(states.phi, states.reward, states.phi_next, **states.columns)
    assert table.rows[0]["rmspbe"] == pytest.approx(rmspbe(states, model.coef_, trace="action"), rel=1e-9)
    with pytest.raises(ValueError, match="an off-policy finite problem gives rows of states"):
        sweep([TDC(), GQ()], steps, mdp, n_jobs=1)
    with pytest.raises(ValueError, match="no ratio weighs a row, and TDC does not"):
        sweep([TDC(), GQ()], steps, states, n_jobs=1)
    size = {"size": lambda model: float(np.abs(model.coef_).max())}
    assert len(sweep([TDC(), GQ()], steps, states, n_jobs=1, metric=size)) == 2
    assert len(sweep([TDC(), GQ()], steps, replace(mdp, target=mdp.behavior), n_rows=50, n_jobs=1)) == 2


def test_several_errors_are_measured_at_once(mdp):
    both = sweep(TDC(), {"step_size": [0.1]}, mdp, n_rows=50, n_jobs=1, metric=["value_error", "rmspbe"])
    assert both.metrics == ("value_error", "rmspbe")
    for name in both.metrics:
        assert (
            sweep(TDC(), {"step_size": [0.1]}, mdp, n_rows=50, n_jobs=1, metric=name).rows[0][name]
            == both.rows[0][name]
        )


def test_a_swept_parameter_that_a_method_lacks_is_an_error_that_names_it():
    with pytest.raises(ValueError, match="TD has no parameter eta"):
        sweep([TDC(), TD()], GRID, random_walk(), n_rows=50, n_jobs=1)


def test_the_table_has_a_column_for_every_parameter():
    table = sweep([LinearTD(operator="tdc"), TDC()], GRID, random_walk(), n_rows=50, n_jobs=1)
    assert [r["method"] for r in table.rows] == ["LinearTD"] * 4 + ["TDC"] * 4
    assert [r["rmspbe"] for r in table.rows[:4]] == [r["rmspbe"] for r in table.rows[4:]]
    assert table.to_csv().splitlines()[0] == "method,step_size,eta,seed,rmspbe,status"
    assert table.to_frame().shape == (8, 7)


def test_the_star_starts_where_its_literature_does_and_td_diverges():
    table = sweep([TD(), TDC()], {"step_size": [0.05]}, star(), sampling="independent", n_rows=4000, n_jobs=1)
    td, tdc = table.rows
    assert td["rmspbe"] > 1e6 > 1 > tdc["rmspbe"]
    assert td["curve"][0] > 1


def test_nothing_depends_on_the_workers(tmp_path):
    def made(folder, **how):
        sweep([TDC(), ROTD()], GRID, random_walk(), n_runs=3, n_rows=80, out=tmp_path / folder, **how)
        return {p.name: p.read_bytes() for p in sorted((tmp_path / folder).rglob("*")) if p.is_file()}

    alone = made("alone", n_jobs=1)
    assert len(alone) == 3 + 1
    assert made("threads", n_jobs=3, backend="threading") == alone
    assert made("processes", n_jobs=2) == alone


def test_an_interrupted_sweep_runs_only_the_rest(tmp_path):
    def go(**more):
        return sweep(TDC(), {"step_size": np.geomspace(0.01, 1, 70)}, random_walk(), n_rows=30, n_jobs=1, **more)

    whole = go(out=tmp_path / "s")
    lost = sorted((tmp_path / "s" / "rows").iterdir(), key=lambda entry: len(entry.read_bytes()))[0]  # of six rows
    for path in (lost, tmp_path / "s" / "table.csv"):
        path.unlink()
    (tmp_path / "s" / "rows" / f".{lost.name}.999999999.tmp").write_text("half")
    told = []
    again = go(out=tmp_path / "s", progress=lambda done, total: told.append((done, total)))
    assert told == [(70, 70)]
    assert again.rows == whole.rows
    assert (tmp_path / "s" / "table.csv").read_text() == whole.to_csv()


def test_a_larger_sweep_runs_only_what_is_new(tmp_path):
    def go(steps, n_runs, **more):
        return sweep(TDC(), {"step_size": steps}, random_walk(), n_rows=30, n_jobs=1, n_runs=n_runs, **more)

    few, more, told = [0.1, 0.2], list(np.linspace(0.1, 0.9, 5)), []
    go(few, 2, out=tmp_path)
    larger = go(few, 5, out=tmp_path, progress=lambda done, _: told.append(done))
    assert told == [6, 8, 10]
    assert larger.rows == go(few, 5).rows
    assert go(more, 2, out=tmp_path).rows == go(more, 2).rows


def test_functions_are_known_by_what_they_compute(tmp_path):
    """A metric or an environment whose helper was edited between two calls is another one."""
    helper = {"scale": 1.0}
    metric = {"size": lambda model: helper["scale"] * float(np.abs(model.coef_).sum())}

    def go():
        table = sweep(TDC(), {"step_size": [0.1]}, random_walk(), n_rows=30, n_jobs=1, metric=metric, out=tmp_path)
        return table.rows[0]["size"]

    one = go()
    helper["scale"] = 2.0
    assert go() == pytest.approx(2 * one)


def test_a_parameter_that_is_a_function_cannot_be_kept(tmp_path):
    grid = {"step_size": [lambda t: 0.1 / (1 + t)]}
    with pytest.raises(TypeError, match=r"step_size is .*<lambda>, which is not a function of a module"):
        sweep(TDC(), grid, random_walk(), n_rows=30, n_jobs=1, out=tmp_path)


def test_a_grid_that_is_too_large_is_refused_before_it_is_made():
    grid = {"step_size": range(10**6), "eta": range(10**6)}
    with pytest.raises(ValueError, match=r"the sweep has 1,000,000,000,000 runs, more than 1,000,000"):
        sweep(TDC(), grid, random_walk())
    with pytest.raises(ValueError, match=r"the sweep has 2,147,483,648 runs"):
        sweep(TDC(), {"step_size": [0.1]}, random_walk(), n_runs=2**31)


def test_the_old_name_of_the_seeds_says_the_new_one():
    with pytest.raises(TypeError, match="write n_runs"):
        sweep(TDC(), {"step_size": [0.1]}, random_walk(), seeds=3)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (({"stepsize": [1]}, "walk"), "did you mean 'step_size'"),
        (({"step_size": []}, "walk"), "no values for step_size"),
        (({"step_size": 0.1}, "walk"), "give a list of values"),
        (({"step_size": [-1.0]}, "walk"), "step_size=-1.0 must be"),
        (({"step_size": [0.1]}, "log", {"metric": "value_error"}), "needs the exact values of a finite problem"),
        (({"step_size": [0.1]}, "walk", {"metric": "rmse"}), "choose from 'rmspbe'"),
        (({"step_size": [0.1]}, "walk", {"metric": len}), "needs a name: pass metric={'kept'"),
        (({"step_size": [0.1]}, "nothing"), r"`featurize` makes it of a log.*, not on str"),
        (({"step_size": [0.1]}, "walk", {"n_row": 3}), "sweep's option='n_row' is not known; did you mean 'n_rows'"),
        (({"step_size": [0.1]}, "walk", {"n_runs": 0}), "n_runs=0 runs nothing"),
        (({"gamma": [0.5, 0.9]}, "walk"), "the discount belongs to the data"),
        (({"fit_intercept": [True]}, "walk"), "add a column of ones"),
        (({"step_size": [0.1]}, "one episode", {"n_runs": 2}), "one episode"),
    ],
)
def test_what_cannot_be_gets_one_sentence(arguments, sentence):
    grid, kind, *more = arguments
    walk = random_walk()
    log = walk.sample(20, np.random.default_rng(0))
    one = random_mdp(np.random.default_rng(0)).trajectory(20, np.random.default_rng(0))
    data = {"walk": walk, "log": log, "one episode": one, "nothing": "nothing"}[kind]
    with pytest.raises((ValueError, TypeError), match=sentence):
        sweep(TDC(), grid, data, n_jobs=1, **(more[0] if more else {}))


def test_a_folder_may_hold_the_pieces_of_several_sweeps(tmp_path):
    def go(eta, **more):
        return sweep(TDC(eta=eta), {"step_size": [0.1]}, random_walk(), n_rows=200, n_jobs=1, out=tmp_path, **more)

    one, other = go(1.0), go(4.0)
    assert one.rows != other.rows
    assert go(1.0, progress=pytest.fail).rows == one.rows
    assert (tmp_path / "table.csv").read_text() == one.to_csv()


def test_seeds_of_a_log_draw_whole_episodes():
    log = random_walk().trajectory(200, np.random.default_rng(1))
    drawn = resample(log, np.random.default_rng(2))
    assert drawn.start.sum() == log.start.sum()
    assert (drawn.discount[np.flatnonzero(drawn.start)[1:] - 1] == 0).mean() > 0.9  # an episode ends where one begins
    table = sweep(LSTD(), {"alpha": [1e-3]}, log, n_runs=3, n_jobs=1, curve=0)
    assert len({row["rmspbe"] for row in table.rows}) == 3


def test_a_metric_of_ones_own(mdp):
    table = sweep(LSTD(), {"alpha": [0.0, 0.1]}, mdp, n_jobs=1, metric={"size": lambda m: float(np.abs(m.coef_).max())})
    assert table.metrics == ("size",)
    assert table.rows[0]["size"] > table.rows[1]["size"]


class Corridor:
    """Walk from 0 to 4; every step costs 1."""

    def reset(self, **_):
        self.place = 0
        return np.eye(5)[0], {}

    def step(self, action):
        self.place = max(0, self.place + (1 if action else -1))
        done = self.place == 4
        return np.eye(5)[self.place], -1.0, done, False, {}


def test_control_runs_are_those_of_online():
    task = Control(Corridor, np.asarray, n_episodes=20, max_steps=50, behavior=Rule(epsilon=0.2))
    grid = {"estimator__step_size": [0.01, 0.5], "estimator__lam": [0.0, 0.5]}
    table = sweep(EstimatorLearner(GQ(gamma=0.9), 2), grid, task, n_runs=2, n_jobs=1)
    row = table.rows[-1]
    fresh = GQ(gamma=0.9, lam=row["estimator__lam"], step_size=row["estimator__step_size"])
    again = EstimatorLearner(fresh, 2)
    rng = np.random.default_rng(row["seed"])
    episodes = online(Corridor(), again, np.asarray, rng, behavior=Rule(epsilon=0.2), n_episodes=20, max_steps=50)
    assert row["curve"] == [e.total for e in episodes]
    assert row["steps"] == np.mean([e.steps for e in episodes[-2:]])
    assert table.best()[0]["estimator__step_size"] == 0.5


class Own(BaseTD):
    """A method of one's own, whose code is edited between two sweeps."""

    step_size: float = 0.1
    table = staticmethod(operators.td)

    def triple(self):
        return self.table(), penalties.L1(0.0), solvers.Stochastic(step_size=self.step_size)


def test_a_method_whose_code_was_edited_is_run_again(tmp_path, monkeypatch):
    how = {"n_runs": 1, "n_rows": 200, "n_jobs": 1, "out": tmp_path}
    sweep(Own(gamma=0.9), {"step_size": [0.1]}, random_walk(), **how)
    monkeypatch.setattr(Own, "table", staticmethod(operators.gtd2))
    edited = sweep(Own(gamma=0.9), {"step_size": [0.1]}, random_walk(), **how)
    assert edited.rows == sweep(Own(gamma=0.9), {"step_size": [0.1]}, random_walk(), **(how | {"out": None})).rows


SHARE = 1.0


def shrunk(x, _):
    """A prox of one's own, edited between two sweeps by way of its constant."""
    return SHARE * x


class Shrunk(penalties.NoPenalty):
    """A penalty of one's own that calls a function of one's own."""

    def prox(self, x, step, _=None):
        return shrunk(x, step)

    def shrinkage(self, _):
        return None


@pytest.mark.parametrize("penalty", [penalties.Custom(shrunk), Shrunk()])
def test_a_penalty_whose_code_was_edited_is_run_again(tmp_path, monkeypatch, penalty):
    learner = LinearTD(operator="td", penalty=penalty)

    def go(out):
        return sweep(learner, {"step_size": [0.1]}, random_walk(), n_rows=200, n_jobs=1, out=out).rows

    go(tmp_path)
    monkeypatch.setattr(sys.modules[__name__], "SHARE", 0.5)
    assert go(tmp_path) == go(None)


def test_a_setting_that_no_file_can_hold_says_to_leave_out_away(tmp_path):
    with pytest.raises(TypeError, match="Without `out` the sweep runs"):
        sweep(TDC(), {"step_size": [lambda _: 0.1]}, random_walk(), n_rows=50, n_jobs=1, out=tmp_path)

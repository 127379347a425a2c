"""`fit_shards` learns from the files of a folder what `fit` learns from the same rows in memory."""

from __future__ import annotations

import re
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from evaluation.test_shards import log, split
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from sparsetd import GQ, LSTD, ROTD, TDC, SparseTDSelect, ValueFunction, evaluation, load, read
from sparsetd.cli import main
from sparsetd.estimators import PFGTD, RALP
from sparsetd.evaluation import fit_shards
from sparsetd.logs import concatenate

learning = sys.modules["sparsetd.evaluation.condensed"]
SETTINGS = {"gamma": 0.9, "fit_intercept": True}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(evaluation.reading, "SAMPLE", 40)
    rng, n = np.random.default_rng(0), 240
    columns = {f"obs_{name}": rng.normal(size=n) for name in "abc"} | {"episode": np.arange(n) // 8}
    columns |= {"reward": columns["obs_a"] + 0.1 * rng.normal(size=n), "terminated": np.arange(n) % 8 == 7}
    columns |= {"step": np.arange(n) % 8, "ratio": rng.uniform(0.5, 1.5, n)}
    pq.write_table(pa.table(columns), "log.parquet")
    assert main(["shard", "log.parquet", "--out", "shards", "--shards", "5", "--quiet"]) == 0
    return tmp_path / "shards"


@pytest.mark.parametrize("estimator", [TDC(**SETTINGS), ROTD(**SETTINGS, rho_theta=0.01), PFGTD(**SETTINGS)])
def test_a_stream_has_the_bits_of_one_log(folder, estimator):
    found = fit_shards(ValueFunction(None, estimator), folder)
    expected = ValueFunction(None, estimator).fit(read(folder))
    assert np.array_equal(found.estimator_.coef_, expected.estimator_.coef_)
    assert list(found.feature_names_) == ["a", "b", "c"]


@pytest.mark.parametrize("features", [None, StandardScaler(), PolynomialFeatures(2, include_bias=False)])
@pytest.mark.parametrize("estimator", [LSTD(**SETTINGS), SparseTDSelect(**SETTINGS)])
def test_sums_give_the_values_of_all_rows(folder, estimator, features):
    whole = read(folder)
    found, expected = ValueFunction(features, estimator), ValueFunction(features, estimator).fit(whole)
    assert fit_shards(found, folder) is found
    np.testing.assert_allclose(found.value(whole.observation), expected.value(whole.observation), rtol=1e-8, atol=1e-9)
    assert (found.estimator_.support_ == expected.estimator_.support_).all()
    if isinstance(estimator, LSTD):
        assert found.estimator_.n_iter_ == len(whole)


def test_what_needs_all_rows_gets_them():
    parts = split(log("plain"), 4, 0)
    found = fit_shards(ValueFunction(None, RALP(gamma=0.9)), parts)
    whole = concatenate([part.read() for part in parts])
    expected = ValueFunction(None, RALP(gamma=0.9)).fit(whole)
    assert np.array_equal(found.estimator_.coef_, expected.estimator_.coef_)


@pytest.mark.parametrize("method", ["SparseTDSelect", "LSTD", "TDC"])
def test_the_command_takes_a_folder(folder, method, capsys):
    assert main(["fit", str(folder), "--out", "m.sparsetd", "--method", method, "--gamma", "0.9"]) == 0
    assert f"{method}: " in capsys.readouterr().out
    assert main(["fit", "log.parquet", "--out", "whole.sparsetd", "--method", method, "--gamma", "0.9"]) == 0
    s = read("log.parquet").observation
    one, other = (load(name).value(s) for name in ("m.sparsetd", "whole.sparsetd"))
    np.testing.assert_allclose(one, other, **({"atol": 0.5} if method == "TDC" else {"rtol": 1e-6, "atol": 1e-8}))


def test_a_stream_goes_on_from_its_checkpoint(folder, monkeypatch):
    model, files = ValueFunction(None, TDC(**SETTINGS)), learning._batches
    monkeypatch.setattr(learning, "_batches", lambda *a: _dying(files(*a), 3))
    with pytest.raises(KeyboardInterrupt):
        fit_shards(model, folder, checkpoint="kept", seconds_per_save=0.0)
    monkeypatch.setattr(learning, "_batches", files)
    found = fit_shards(model, folder, checkpoint="kept")
    assert np.array_equal(found.estimator_.coef_, fit_shards(model, folder).estimator_.coef_)


def _dying(batches, after):
    for number, batch in enumerate(batches):
        if number == after:
            raise KeyboardInterrupt
        yield batch


def test_sparse_files_of_different_widths_have_the_width_of_the_widest(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "parts").mkdir()
    for k, top in enumerate((3, 9)):
        rows = {"indices": [[0, top], [1], [2], [top]], "episode": [k] * 4, "reward": [1.0, 0.0, 2.0, 1.0]}
        pq.write_table(pa.table(rows | {"terminated": [False] * 3 + [True]}), tmp_path / "parts" / f"{k}.parquet")
    model = ValueFunction(None, TDC(gamma=0.9))
    monkeypatch.setattr(evaluation.reading, "SAMPLE", 4)
    assert fit_shards(model, tmp_path / "parts").estimator_.coef_.shape == (10,)
    assert main(["fit", "parts", "--buckets", "8", "--out", "m", "--method", "TDC", "--quiet"]) == 0
    assert load("m").estimator_.coef_.shape == (8,)


def test_values_of_actions_are_not_learnt_from_the_states_of_shards(folder):
    with pytest.raises(ValueError, match="GQ learns values of actions"):
        fit_shards(ValueFunction(None, GQ(**SETTINGS)), folder)


@pytest.mark.usefixtures("folder")
def test_rows_without_a_successor_are_told_of_shards_too(capsys):
    table = pq.read_table("log.parquet")
    pq.write_table(table.filter(pa.array(np.arange(240) % 16 != 15)), "torn.parquet")  # every second episode is cut
    assert main(["shard", "torn.parquet", "--out", "torn", "--shards", "2"]) == 0
    assert main(["fit", "torn", "--method", "TDC", "--out", "m"]) == 0
    assert re.search(r"in the first shard, \d+ of \d+ episodes were cut", capsys.readouterr().err)

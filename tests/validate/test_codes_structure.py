"""Codes are told apart by their weights; the section and its rows of the ledger."""

import numpy as np
import pytest
from scipy.linalg import block_diag

from superposition.solvers.rug import rug_matrix
from superposition.theory import codes as theory
from superposition.validate.experiments.codes import (
    code_structure,
    interference_kurtosis,
    run_departure,
    run_hessian,
    run_pair,
    run_polished,
    run_structure,
)
from superposition.validate.experiments.codes.symmetry import symmetry
from superposition.validate.training import train

PAIR = np.array([[1.0, -3.0], [-1 / 3, 1.0]])


def test_each_code_is_recognised_in_any_order_and_scale():
    angle = 2 * np.pi * np.arange(3) / 3
    triangle = np.cos(angle[:, None] - angle)
    for noise in (0.0, 0.01):
        rng = np.random.default_rng(0)
        M = block_diag(PAIR, PAIR, triangle, np.eye(2), np.zeros((3, 3)))
        M += noise * rng.standard_normal(M.shape)
        order, scale = rng.permutation(12), np.exp(0.3 * rng.standard_normal(12))
        found = code_structure((scale[:, None] * M / scale)[np.ix_(order, order)])
        shares = (found.paired, found.blocked, found.alone, found.dropped, found.remainder)
        assert np.allclose(shares, np.array([4, 3, 2, 3, 0]) / 12)
    M = np.array([[1.0, 0.5, 0.0], [0.5, 0.01, 0.0], [0.0, 0.0, 1.0]])  # its coupling would be 25
    assert code_structure(M).labels.tolist() == ["remainder", "dropped", "alone"]
    M[1, 1] = 0.2  # no longer dropped
    assert code_structure(M).labels.tolist() == ["paired", "paired", "alone"]


def test_exact_kurtosis_agrees_with_samples_and_vanishes_on_large_rugs():
    M = np.array([[1.0, 0.5, -0.3], [0.1, 1.0, 0.4], [0.2, -0.7, 1.0]])
    rng = np.random.default_rng(3)
    x = rng.random((3, 10**6)) * (rng.random((3, 10**6)) < 0.3)
    nu = (M - np.eye(3)) @ x
    z = (nu - nu.mean(axis=1, keepdims=True)) / nu.std(axis=1, keepdims=True)
    # six standard errors: sampled means and variances add to the error of the fourth powers
    off = (z**4).mean(axis=1) - 3 - interference_kurtosis(M, 0.3)
    assert np.all(np.abs(off) < 6 * (z**4).std(axis=1) / 1000)
    assert np.all(interference_kurtosis(np.eye(3), 0.3) == 0.0)
    rugs = [rug_matrix(n, n // 4, rng=0).todense() for n in (64, 256, 1024)]
    kurtosis = [interference_kurtosis(R, 0.4)[0] for R in rugs]
    assert kurtosis[0] > 3 * kurtosis[1] > 9 * kurtosis[2] > 0
    assert all(code_structure(R).remainder == 1.0 for R in rugs)


def test_hessian_runs_tell_of_a_saddle_and_a_kick_at_the_rug_grows():
    ds = run_hessian([(0.1, 0.5)], [8, 16], frequencies=1024)
    assert (ds["lowest"] + ds["error"] < 0).all()
    assert (ds["relative_loss"] <= ds["rug_loss"]).all()
    assert (ds["slope"] < 1e-9).all()
    ds = run_departure(4, [(0.1, 0.5)], steps=40)
    assert float(ds["moved"][0]) > 0.1
    assert float(ds["end"][0]) < float(ds["start"][0])


def test_two_features_on_one_neuron_are_nearly_the_uneven_pair():
    """The closed form is that of the best pair without biases, for small p."""
    ds = run_pair([0.01, 0.05], starts=4)
    closed = np.array([theory.skew_pair_loss(p) for p in (0.01, 0.05)])
    assert np.all(ds["loss"] <= closed * (1 + 1e-12))
    assert np.all(ds["loss"] >= closed * (1 - 0.1 * ds["p"].values))
    assert np.all(ds["gradient_norm"] < 1e-12)
    assert np.all(np.abs(ds["row_variance_spread"] - (9 - 1 / 9) / (9 + 1 / 9)) < 0.05)


def test_losses_of_trained_models_are_those_of_their_weights():
    pytest.importorskip("torch", reason="training needs PyTorch")
    one = run_structure(8, [0.2], [0.5], [0], steps=100).isel(end=-1, model=0)
    rng = np.random.default_rng(0)
    x = rng.random((10**6, 8)) * (rng.random((10**6, 8)) < 0.2)
    M = one["W_out"].values @ one["W_in"].values
    square = ((np.maximum(x @ M.T + one["bias"].values, 0) - x) ** 2).mean(axis=1)
    # five standard errors: a false alarm in a million
    assert abs(float(one["loss"]) - square.mean()) < 5 * square.std() / 1000 + float(one["loss_se"])


def test_descent_on_the_exact_loss_ends_at_a_minimum():
    ds = run_polished(4, [0.2], [0.5], [0], train_steps=300, steps=400).isel(model=0)
    assert float(ds["after"]) < float(ds["before"])
    assert float(ds["slope"]) < 1e-6
    assert int(ds["negative"]) == 0
    assert (int(ds["rank"]), int(ds["seed"])) == (2, 0)


@pytest.mark.slow
def test_the_section_shows_all_of_its_topics(sections, tmp_path):
    pytest.importorskip("torch", reason="training needs PyTorch")
    tiny = {
        "structure": {"n_features": 8, "p": [0.2], "ratio": [0.5], "seeds": [0], "steps": 100},
        "hessian": {"cases": [(0.1, 0.5)], "n_features": [4, 8]},
        "departure": {"n_features": 4, "cases": [(0.1, 0.5)], "steps": 20},
    }
    lab, shown = sections.show("codes", tiny, tmp_path)
    (copies,) = shown["copies"].tables
    at = {row[:2]: row[3] for row in copies.rows}
    assert at["0.1", "0.25"].startswith("+")
    assert "8000 steps" in shown["map"].headline
    assert "of the curvatures of the exact loss are negative" in shown["saddle"].headline
    rows = sections.judge(lab, ["C26", "C27", "C28", "C29", "C30", "C31"])
    for id in ("C27", "C29", "C30", "C31"):
        assert any(f.origin.startswith("stored: training.nc") for f in rows[id].evidence.findings)
        assert str(rows[id].verdict) == ("incomplete" if id == "C27" else "holds")
    assert str(rows["C28"].verdict) == "unsettled: too few runs"


def test_the_fall_before_the_stopping_rule_and_phases_that_break():
    """A loss that falls by one per cent a block, then rises; a further phase breaks one of two models."""
    pytest.importorskip("torch")
    raw = train(8, [4, 4], [0.1, 0.1], [0, 1], steps=100, evaluation_samples=2**10, device="cpu")
    history = np.tile(0.99 ** np.arange(40), (2, 1))
    history[:, 29] = 1.01 * history[:, 28]  # here the rule ends training
    made = raw.drop_dims("block").assign(history=(("model", "block"), history))
    made["steps"] = ("end", "model"), np.array([[3000, 900], [4000, 1900]])
    made["loss"] = ("end", "model"), np.array([[1.0, 1.0], [1.2, 1.4]])
    found = symmetry(made)
    # Ten blocks before the two that decided; of the other model there are too few.
    np.testing.assert_allclose(found["fall"], [(0.99**-10 - 1) / 10, np.nan], rtol=1e-12)
    assert found["broken"].values.tolist() == [False, True]
    assert np.isnan(found["excess"].values).tolist() == [[False, False], [False, True]]
    assert np.isfinite(found["bias_sd"].values[0]).all()

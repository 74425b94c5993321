"""Codes are told apart by their weights, and a normal law from one that is not."""

import numpy as np
import pytest

from superposition.solvers.rug import rug_matrix
from superposition.validate.codes.descent import run_departure, run_hessian, run_polished
from superposition.validate.codes.structure import normality, structure


def blocks(*parts):
    n = sum(part.shape[0] for part in parts)
    M, at = np.zeros((n, n)), 0
    for part in parts:
        M[at : at + part.shape[0], at : at + part.shape[0]] = part
        at += part.shape[0]
    return M


def polygon(k):
    angle = 2 * np.pi * np.arange(k) / k
    W = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return W @ W.T


PAIR = np.array([[1.0, -3.0], [-1 / 3, 1.0]])


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_each_code_is_recognised_in_any_order_and_scale(noise):
    rng = np.random.default_rng(0)
    M = blocks(PAIR, PAIR, polygon(3), np.eye(2), np.zeros((3, 3)))
    M += noise * rng.standard_normal(M.shape)
    order, scale = rng.permutation(12), np.exp(0.3 * rng.standard_normal(12))
    M = (scale[:, None] * M / scale)[np.ix_(order, order)]
    found = structure(M)
    shares = (found.paired, found.blocked, found.alone, found.dropped, found.remainder)
    assert np.allclose(shares, np.array([4, 3, 2, 3, 0]) / 12)


def test_a_rug_is_remainder_and_its_interference_normal_in_the_limit():
    kurtosis = []
    for n in (64, 256, 1024):
        R = rug_matrix(n, n // 4, rng=0).todense()
        assert structure(R).remainder == 1.0
        law = normality(R, 0.4, samples=2000)
        kurtosis.append(law.excess_kurtosis[0])
    assert kurtosis[0] > 3 * kurtosis[1] > 9 * kurtosis[2] > 0
    # no row rejected: a false alarm has probability 1 %
    assert law.rejected == 0.0


def test_exact_cumulants_agree_with_samples():
    M = np.array([[1.0, 0.5, -0.3], [0.1, 1.0, 0.4], [0.2, -0.7, 1.0]])
    rng = np.random.default_rng(3)
    x = rng.random((3, 10**6)) * (rng.random((3, 10**6)) < 0.3)
    nu = (M - np.eye(3)) @ x
    z = (nu - nu.mean(axis=1, keepdims=True)) / nu.std(axis=1, keepdims=True)
    law = normality(M, 0.3)
    # four standard errors: a false alarm in 16000 for each of six numbers
    for power, exact in ((3, law.skewness), (4, law.excess_kurtosis + 3)):
        assert np.all(np.abs((z**power).mean(axis=1) - exact) < 4 * (z**power).std(axis=1) / 1000 * 1.5)
    assert law.rejected == 1.0


def test_hessian_runs_tell_of_a_saddle():
    ds = run_hessian([(0.1, 0.5)], [8, 16], frequencies=1024)
    assert (ds["lowest"] + ds["error"] < 0).all()
    assert (ds["relative_loss"] <= ds["rug_loss"]).all()
    assert (ds["slope"] < 1e-9).all()


def test_descent_on_the_exact_loss_ends_at_a_minimum():
    ds = run_polished(4, [0.2], [0.5], [0], train_steps=300, steps=400).isel(model=0)
    assert float(ds["after"]) < float(ds["before"])
    assert float(ds["slope"]) < 1e-6
    assert int(ds["negative"]) == 0
    assert (int(ds["rank"]), int(ds["seed"])) == (2, 0)


def test_a_kick_at_the_rug_grows():
    ds = run_departure(8, [(0.1, 0.5)], steps=40)
    assert float(ds["moved"][0]) > 0.1
    assert float(ds["end"][0]) < float(ds["start"][0])


@pytest.mark.parametrize(
    ("call", "name", "value"),
    [
        (lambda: structure(np.eye(3)[:2]), "M", "(2, 3)"),
        (lambda: run_polished(256, [0.1], [0.5], [0]), "n_features", "256"),
        (lambda: normality(np.eye(3)[:2], 0.1), "M", "(2, 3)"),
        (lambda: normality(np.eye(3), 0.0), "p", "0"),
        (lambda: normality(np.eye(3), 0.1, samples=2), "samples", "2"),
        (lambda: normality(np.eye(3), 0.1, level=1.0), "level", "1"),
    ],
)
def test_bad_input_is_named(call, name, value):
    with pytest.raises(ValueError, match=f"`{name}`") as error:
        call()
    assert value in str(error.value)

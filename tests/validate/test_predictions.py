"""Predictions: the numbers of the theory's own functions, for every combination of the parameters."""

import numpy as np
import pytest

from superposition.solvers import sparsification
from superposition.solvers.loss import exact_loss
from superposition.theory import collisions, noise
from superposition.theory.features import Features
from superposition.validate.api.predictions import predict


def test_collisions_are_the_theorys():
    table = predict("collisions", n_features=[8, 32], n_hidden=[32, 64, 128])
    assert table["n_features"].tolist() == [8, 8, 8, 32, 32, 32]
    expected = collisions.expected_polysemantic(table["n_features"], table["n_hidden"])
    np.testing.assert_array_equal(table["polysemantic"], expected)


def test_sparsification_is_the_limit_law():
    table = predict("sparsification", t=[10.0, 1e4], lam=[1e-4], n_hidden=[1000])
    law = sparsification.limit_law([10.0, 1e4], 1e-4, 1000, 0.9)
    np.testing.assert_allclose(table["nonzeros"], law.nonzeros, rtol=1e-12)
    np.testing.assert_allclose(table["l1_norm_std"], law.l1_norm_std, rtol=1e-12)


def test_linear_losses_are_those_of_features_that_are_alike():
    """E xx' = v 1 + m^2 11' with v = p/3 - p^2/4 and m = p/2: a neuron takes its largest eigenvalue."""
    p, n, m = (column.ravel() for column in np.meshgrid([0.1, 0.4], [5, 8], [2, 6], indexing="ij"))
    v, table = p / 3 - p**2 / 4, predict("linear", p=[0.1, 0.4], n_features=[5, 8], n_hidden=[2, 6])
    left = np.maximum(n - m, 0) / n * v
    found = [table[name] for name in ("loss", "unbiased_loss", "first", "others")]
    np.testing.assert_allclose(found, [left, left, v + n * p**2 / 4, v], rtol=1e-10, atol=1e-15)


def test_losses_of_the_rug_of_codes_and_of_decoders_go_together():
    p, r = 0.05, 0.25
    rug, codes, decoders = (predict(name, p=p, ratio=r) for name in ("rug", "codes", "decoders"))
    linear = [(1 - r) * (p / 3 - p**2 / 4)]
    np.testing.assert_allclose([rug["linear_loss"], codes["linear"], decoders["affine"]], [linear] * 3)
    np.testing.assert_allclose([codes["rug"], decoders["relu"]], [rug["loss"]] * 2)
    assert codes["lower_bound"] < codes["free"] < codes["balanced"] <= codes["tied"] < codes["rug"]
    assert decoders["iterated"] < decoders["bayes"] < decoders["jumprelu"] < decoders["relu"]
    near = predict("decoders", p=p, ratio=decoders["recovery_ratio"] * np.array([0.98, 1.02]))
    assert near["iterated"][0] > 1e-9 > near["iterated"][1]


def test_a_phase_has_the_loss_of_its_weights():
    table = predict("relu", p=[0.9, 0.1], importance=[2.0, 0.3])
    assert table["phase"].tolist() == ["second alone", "first alone", "antipodal", "antipodal"]
    for p, importance, _, *weights, loss in zip(*table.values(), strict=True):
        w, law = weights[:2], Features(2, p, importance=[1.0, importance])
        assert loss == pytest.approx(exact_loss(np.outer(w, w), weights[2:], law).loss, rel=1e-9, abs=0)


def test_unequal_and_noise_have_their_numbers_at_their_places():
    table = predict("unequal", alpha=2.0, n_features=40, n_hidden=10, number_on=2.0)
    assert table["kept"] > 0 == table["dropped"]  # many features on: a little of each pays
    assert table["lower_bound"] < table["envelope"] < table["priority"] < table["split"]
    given = {"noise_std": 0.3, "excess_kurtosis": -1.2, "learning_rate": 0.02}
    table = predict("noise", n_features=9, n_hidden=12, **given)
    assert table["rate"] == noise.simplex_rate(9, 0.3, -1.2)
    assert table["regulariser_rate"] == noise.regulariser_rate(0.3, 0.02, -1.2)
    assert table["steps"] == noise.sparsification_time(9, 12, 0.3, -1.2) / 0.02


def test_networks_lose_what_they_do_not_compute():
    """ReLU(x) and |x| of uniform x on [-1, 1], on with p: variances and covariance in closed form."""
    p, n, m = 0.2, 7, np.array([3, 4])  # one neuron for each |x|, or two, is better
    table = predict("computation", p=p, n_features=n, n_hidden=m)
    relu, size, left = p / 6 - p**2 / 16, p / 3 - p**2 / 4, (n - m) / n
    one_each = size - m / n * (p / 6 - p**2 / 8) ** 2 / relu
    readout = left * (p / 6 - m * (p / 4) ** 4 / (relu + m * (p / 4) ** 2))
    for name, want in {
        "lower_bound": left * relu, "naive": left * relu, "unbiased_naive": left * p / 6,
        "unbiased": np.minimum((n - m + 1) / n * relu, readout), "abs_lower_bound": left * size,
        "abs_naive": np.minimum(one_each, (n - m // 2) / n * size),
    }.items():  # fmt: skip
        np.testing.assert_allclose(table[name], want, rtol=1e-12, err_msg=name)

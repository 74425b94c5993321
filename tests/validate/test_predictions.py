"""Predictions: the numbers of the theory's own functions, for every combination of the parameters."""

import numpy as np

from superposition.solvers import sparsification
from superposition.theory import collisions
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

"""What a model is: shapes, activations, products of its matrices, and what it refuses."""

import pickle

import numpy as np
import pytest

from superposition.theory.model import Model

W = np.array([[1.0, -1.0, 0.5], [0.0, 2.0, 1.0]])


def test_a_model_without_a_decoder_is_tied():
    model = Model(W, b=-0.1)
    assert model.tied
    assert (model.n_features, model.n_hidden, model.n_outputs) == (3, 2, 3)
    np.testing.assert_array_equal(model.M, W.T @ W)
    assert not Model(W, W_out=[[1.0, 2.0]]).tied
    assert model == Model(W, b=[-0.1] * 3)
    assert model != Model(W)
    assert pickle.loads(pickle.dumps(model)) == model


@pytest.mark.parametrize("output", ["relu", "identity"])
def test_the_bias_of_linear_hidden_neurons_is_folded_into_the_output_s(output):
    model = Model(W, [0.3, -0.2], W_out=np.ones((4, 2)), b=np.arange(4.0), output=output)
    x = np.random.default_rng(0).normal(size=(2, 5, 3))
    z = x @ model.M.T + model.bias
    assert model(x).shape == (2, 5, 4)
    np.testing.assert_allclose(model(x), np.maximum(z, 0.0) if output == "relu" else z, rtol=1e-14)


def test_hidden_activations():
    x = [[0.3, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
    one = {"W_out": np.eye(2), "output": "identity"}
    assert Model(W, hidden="relu", **one)(x).tolist() == [[0.3, 0.0], [0.0, 2.0], [1.5, 1.0]]
    jumps = Model(W, hidden="jumprelu", thresholds=[0.3, 1.5], **one)
    assert jumps(x).tolist() == [[0.0, 0.0], [0.0, 2.0], [1.5, 0.0]]
    outputs = Model(np.eye(2), output="jumprelu", thresholds=0.5)
    assert outputs([0.5, 0.6]).tolist() == [0.0, 0.6]

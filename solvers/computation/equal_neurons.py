"""Losses of networks of equal neurons without output bias, at any size."""

import itertools

import numpy as np
from scipy.optimize import minimize

from ...theory.computation import target_moments
from ...theory.features import Features
from ...theory.model import Model
from ...theory.validation import FloatArray
from ..loss.network.assemble import hidden_means
from ..loss.problem import Law


def disjoint_inputs_loss(g: int, n: int, p: float) -> float:
    """Return the least loss per feature, divided by p, of n equal neurons that read g features each.

    No feature is read by two neurons. The target is ReLU(x) of each feature x, uniform on [-1, 1] when on,
    without output bias. A neuron is ReLU(x_1 + k (x_2 + ... + x_g) + beta), with the best k and beta. The
    output of a feature reads the feature's neuron and, in place of a bias, the sum of all other neurons.
    """
    law = Features(g, p, "symmetric")
    outputs, moments = Law(law), target_moments(law)

    def loss(z: FloatArray) -> float:
        """Return the loss per feature, at the best readout, of neurons with z = (k, beta)."""
        W_in = np.r_[1.0, np.full(g - 1, z[0])][None]
        model = Model(W_in, z[1], "relu", np.zeros((g, 1)), output="identity")
        hidden = hidden_means(model, outputs, "relu", 1e-10)
        m = float(hidden.mean[0])
        b = np.stack([hidden.by_targets[0], (n - 1) * m * moments.mean])
        explained = _explained_square(n, float(hidden.products[0, 0]), m * m, b)
        return float(np.mean(moments.second.diagonal() - explained))

    starts = itertools.product((0.05, 0.4), (0.0, 0.2))
    return min(minimize(loss, z, method="Nelder-Mead", options={"maxiter": 60}).fun for z in starts) / p


def shared_inputs_loss(F: int, n: int, p: float, tries: int) -> tuple[float, FloatArray]:
    """Return (least loss per feature divided by p, best z) of n equal neurons that read all F features.

    The target is ReLU(x) of each feature x, uniform on [-1, 1] when on, without biases. Neuron i = 1, ..., n
    has the weight 1 for feature i, z[0] for the other features up to n, and z[1] for features after n. The
    search over z evaluates at most `tries` losses.
    """
    outputs = Law(Features(F, p, "symmetric"))

    def loss(z: FloatArray) -> float:
        """Return the loss per feature, at the best readout, of neurons with the weights z."""
        W_in = np.full((2, F), z[0])
        W_in[:, n:] = z[1]
        np.fill_diagonal(W_in, 1.0)
        model = Model(W_in, hidden="relu", W_out=np.zeros((F, 2)), output="identity")
        hidden = hidden_means(model, outputs, "relu", 1e-6)
        (square, product), by = hidden.products[0], hidden.by_targets[0]
        b = np.array([[by[0], by[-1]], [(n - 1) * by[1], (n - 1) * by[-1]]])
        explained = _explained_square(n, square, product, b)
        return float(p / 6 - (n * explained[0] + (F - n) * explained[1]) / F)

    simplex = np.array([[0.0, 0.0], [-0.02, 0.0], [0.0, 0.02]])
    end = minimize(
        loss,
        simplex[0],
        method="Nelder-Mead",
        options={"maxfev": tries, "initial_simplex": simplex, "xatol": 1e-5, "fatol": 1e-8 * p},
    )
    return float(end.fun) / p, end.x


def _explained_square(n: int, square: float, product: float, b: FloatArray) -> FloatArray:
    """Return E t² - (least mean squared error) of a linear readout of each target t, shape b.shape[1:].

    The readout of t has two inputs: one neuron h, and the sum s of the n - 1 others. All neurons have the
    mean square `square`, any two of them the mean product `product`; b is (E h t, E s t), (2, ...).
    """
    r = n - 1
    A = np.array([[square, r * product], [r * product, r * (square + (r - 1) * product)]])
    return np.asarray(np.sum(b * np.linalg.lstsq(A, b)[0], axis=0))

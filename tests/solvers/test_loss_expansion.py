"""Derivatives of a toy model's loss against mpmath's of the derived classes; the posterior by sampling."""

import mpmath as mp
import numpy as np
import pytest
import sympy
from scipy.special import ive

from superposition.solvers.loss import ToyLoss, exact_loss, loss_expansion
from superposition.solvers.minimise import minimise
from superposition.theory.features import Features
from superposition.theory.loss import derive_class_loss
from superposition.theory.model import Model

from ..oracles import differences


@pytest.mark.parametrize("tied", [True, False])
def test_gradients_are_those_of_the_loss(tied):
    rng = np.random.default_rng(3)
    law = Features(3, [0.2, 0.4, 0.6], scale=[1.0, 2.0, 0.5], importance=[1.0, 0.5, 2.0])
    W_in, W_out = rng.normal(size=(2, 3)), rng.normal(size=(3, 2))
    toy = ToyLoss(Model(W_in, W_out=None if tied else W_out, b=rng.normal(size=3)), law)
    points = toy.weights + 0.1 * rng.normal(size=(2, toy.weights.size))
    losses, gradients = toy(points)
    for w, loss, gradient in zip(points, losses, gradients, strict=True):

        def true(w):
            W_in = w[:6].reshape(2, 3)
            return exact_loss((W_in.T if tied else w[6:12].reshape(3, 2)) @ W_in, w[-3:], law).loss

        assert loss == pytest.approx(true(w), rel=1e-12)
        assert gradient == pytest.approx(differences(true, w, 1e-6), abs=1e-8)


def derived_loss(p):
    """Return the loss of a tied pair on one neuron as a function of (w1, w2, b1, b2), from its classes."""
    first, both = (sympy.lambdify(d.symbols, d.expression, "mpmath") for d in map(derive_class_loss, (1, 2)))

    def loss(w):
        total = mp.mpf(0)
        for i in (0, 1):
            own, other, b = w[i] ** 2, w[0] * w[1], w[2 + i]
            ramp = max(b, mp.mpf(0)) ** 2
            total += (1 - p) ** 2 * ramp + p * (1 - p) * (first(b, own)[1] + first(b, other)[0])
            total += p**2 * both(b, own, other)[1]
        return total / 2

    return loss


def test_third_and_fourth_derivatives_are_those_derived():
    p, w = 0.3, [0.9, -0.7, -0.1, 0.05]
    found = loss_expansion(Model([w[:2]], b=w[2:]), p)
    V, loss = found.eigenvectors, derived_loss(mp.mpf(p))

    def along(*orders):
        """Return the derivative of these orders along the eigenvectors i, j, k."""
        axes = [V[:, i] for i, _ in orders]

        def at(*s):
            steps = [mp.fsum(float(v[k]) * y for v, y in zip(axes, s, strict=True)) for k in range(len(w))]
            return loss([x + step for x, step in zip(w, steps, strict=True)])

        with mp.workdps(60):
            return float(mp.diff(at, (0,) * len(orders), tuple(order for _, order in orders)))

    for i, j, k in [(0, 1, 2), (3, 1, 2), (0, 1, 3)]:
        assert found.third[i, j, k] == pytest.approx(along((i, 1), (j, 1), (k, 1)), abs=1e-6)
    for i, j in [(0, 3), (3, 1), (2, 3)]:
        assert found.third[i, i, j] == pytest.approx(along((i, 2), (j, 1)), abs=1e-6)
        assert found.fourth[i, j] == pytest.approx(along((i, 2), (j, 2)), abs=1e-4)
    for i in range(4):
        assert found.eigenvalues[i] == pytest.approx(along((i, 2)), abs=1e-9)
        assert found.third[i, i, i] == pytest.approx(along((i, 3)), abs=1e-6)
        assert found.fourth[i, i] == pytest.approx(along((i, 4)), abs=1e-4)


def test_kinks_are_those_of_inputs_with_at_most_one_feature_on():
    toy = ToyLoss(Model([[1.0, -0.5]], b=[-0.2, 0.1]), Features(2, 0.1, scale=[1.0, 3.0]))
    z, slopes = toy.kinks()
    assert sorted(z.round(12)) == sorted([-0.2, 0.1, 0.8, -0.4, -1.7, 0.85])
    k = int(np.flatnonzero(z.round(12) == -1.7)[0])  # output 0 where feature 1 is 3
    assert slopes[k].round(12).tolist() == [-1.5, 3.0, 1.0, 0.0]


def sampled(toy, found, nbeta, localization, pairs, rng):
    """Return the expected estimate less the leading term, its standard error, and the effective share.

    Importance sampling. The orbit of rotations of two neurons is integrated in closed form: beyond the slice
    orthogonal to it, by which the loss does not change, are I_0(gamma S) and the Jacobian S, with S the
    product of the encoder with that of the minimum.
    """
    size = toy.weights.size - toy.n
    start = toy.weights[:size]
    flat = np.append(np.array([[0.0, -1.0], [1.0, 0.0]]) @ start.reshape(2, -1), np.zeros((1, toy.n)))
    k = int(np.argmax(np.abs(flat @ found.eigenvectors)))
    h, V = np.delete(found.eigenvalues, k), np.delete(found.eigenvectors, k, axis=1)
    z = rng.standard_normal((pairs, h.size)) / np.sqrt(nbeta * h + localization)
    z = np.stack([z, -z])
    steps = z @ V.T
    losses = np.stack([toy(toy.weights + half)[0] for half in steps])
    S = (steps[..., :size] + start) @ start
    excess, quadratic = nbeta * (losses - found.loss), 0.5 * nbeta * (h * z**2).sum(axis=-1)
    leading = found.expected_llc(nbeta, localization).leading
    weight = np.exp(quadratic - excess) * ive(0, localization * S) * S
    weight /= ive(0, localization * (start @ start)) * (start @ start)
    # The quadratic part has a known mean, which is taken off.
    top = (weight * (excess - leading) - (quadratic - leading)).mean(axis=0)
    weight = weight.mean(axis=0)
    mean = top.mean() / weight.mean()
    error = np.std(top - mean * weight) / weight.mean() / pairs**0.5
    return mean, error, weight.sum() ** 2 / np.sum(weight**2) / pairs


@pytest.mark.slow
def test_the_next_order_is_that_of_the_sampled_posterior():
    """Within 4 standard errors (false alarms: 1 in 8000 a place); without it, at half, or twice, not."""
    best = minimise(5, 2, 0.1, starts=4, rng=0)
    model = Model(best.W_in, b=best.b)
    toy, found = ToyLoss(model, 0.1), loss_expansion(model, 0.1)
    rng = np.random.default_rng(0)
    for nbeta, localization, pairs in [(1e4, 1000.0, 4000), (1e6, 1000.0, 20000)]:
        mean, error, effective = sampled(toy, found, nbeta, localization, pairs, rng)
        following = found.expected_llc(nbeta, localization).next_order
        assert effective > 0.9
        assert found.margin(nbeta, localization) > 3.0
        assert abs(mean - following) < 4.0 * error
        for wrong in (0.0, 2.0 * following):
            assert abs(mean - wrong) > 4.0 * error


def test_where_a_kink_is_near_the_expansion_misses_and_margin_says_so():
    """Dropped features have a bias of p/2: their outputs cross 0. The posterior lies off by many errors."""
    best = minimise(6, 2, 0.4, starts=4, rng=0)
    model = Model(best.W_in, b=best.b)
    toy, found = ToyLoss(model, 0.4), loss_expansion(model, 0.4)
    mean, error, _ = sampled(toy, found, 1e4, 100.0, 16000, np.random.default_rng(0))
    following = found.expected_llc(1e4, 100.0).next_order
    assert found.margin(1e4, 100.0) < 1.0
    assert mean - following > 5.0 * error

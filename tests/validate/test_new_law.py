"""A law of values is one file: here it is this one, and everything works with it.

Values are triangular: the density is 2 (1 - v) on [0, 1].
"""

from itertools import product

import numpy as np
import pytest

from superposition.solvers.loss import exact_loss, value_and_gradient
from superposition.solvers.minimise import descend, minimise
from superposition.theory.decoders import bayes_loss
from superposition.theory.features import Features, ValueDistribution, exclusive, register

MOMENTS = [2.0 / ((k + 1) * (k + 2)) for k in range(40)]
FACTORIALS = np.cumprod(np.r_[1.0, np.arange(1.0, 40.0)])
SERIES = np.array([[MOMENTS[k + r] / FACTORIALS[k] for k in range(37)] for r in range(3)])


def transform(z):
    """E v^r exp(z v) for r = 0, 1, 2: 2 (e^z - 1 - z)/z^2 and its derivatives."""
    a, b, c = 0j, 0j, 0j
    if abs(z) < 3.0:
        power = 1.0 + 0j
        for k in range(37):
            a += power * SERIES[0, k]
            b += power * SERIES[1, k]
            c += power * SERIES[2, k]
            power *= z
        return a, b, c
    rise = np.exp(z)
    a = 2.0 * (rise - 1.0 - z) / z**2
    b = (2.0 * (rise - 1.0) / z - 2.0 * a) / z
    return a, b, (2.0 * (rise - (rise - 1.0) / z) / z - 3.0 * b) / z


register(
    ValueDistribution(
        "triangular",
        support=(0.0, 1.0),
        moment=lambda k: 2.0 / ((k + 1) * (k + 2)),
        draw=lambda rng, size: 1.0 - np.sqrt(rng.random(size)),
        pieces=[(0.0, 1.0, (2.0, -2.0))],
        transform=transform,
        quantile=lambda torch, u: 1.0 - (1.0 - u).clamp(min=0.0).sqrt(),
    )
)

NODES, WEIGHTS = np.polynomial.legendre.leggauss(10)
NODES, WEIGHTS = 0.5 + 0.5 * NODES, 0.5 * WEIGHTS


def rule(*places):
    """Points and weights of the density, exact for a polynomial between places."""
    ends = np.unique(np.clip([0.0, 1.0, *places], 0.0, 1.0))
    width = np.diff(ends)[:, None]
    v = (ends[:-1, None] + width * NODES).ravel()
    return v, (width * WEIGHTS).ravel() * 2.0 * (1.0 - v)


def kink(at, slope):
    return -at / slope if slope else 0.0


def truth(row, i, b, law):
    """Loss of one output of at most two features, integrated exactly."""
    total, off = 0.0, (np.zeros(1), np.ones(1))
    for on in product((0, 1), repeat=row.size):
        chance = np.prod(np.where(on, law.p, 1.0 - law.p))
        g = np.array(on) * row * law.scale
        first = rule(kink(b, g[0]), kink(b + g[-1], g[0])) if on[0] else off
        for v, weight in zip(*first, strict=True):
            t = b + g[0] * v
            w, weights = rule(kink(t, g[1])) if row.size == 2 and on[1] else off
            x = (on[0] * v * law.scale[0] + 0.0 * w, w * law.scale[-1])[i]
            y = np.maximum(t + (g[1] * w if row.size == 2 else 0.0), 0.0)
            total += chance * weight * weights @ (x - y) ** 2
    return total


def slope_of(loss, h):
    """Return the derivative at 0, by differences of the fourth order."""
    ends = [loss(k * h) for k in (-2, -1, 1, 2)]
    return (ends[0] - 8 * ends[1] + 8 * ends[2] - ends[3]) / (12 * h)


@pytest.mark.parametrize("seed", range(30))
def test_losses_and_gradients_are_exact(seed):
    """Brute force for one and two features, gradients by its fourth-order differences."""
    n, rng = 1 + seed % 2, np.random.default_rng(seed)
    law = Features(n, rng.uniform(0.01, 1.0, n), "triangular", np.exp(rng.normal(size=n)))
    row = rng.normal(size=n) * (rng.random(n) < 0.9)
    b, i = float(rng.normal() * 0.3), int(rng.integers(n))
    M, bias = np.zeros((n, n)), np.zeros(n)
    M[i], bias[i] = row, b
    found = exact_loss(M, bias, law, rows=[i])
    assert abs(found.loss - truth(row, i, b, law)) <= found.error_estimate + 1e-15
    assert found.error_estimate < 1e-11 * law.second_moment[i] + 1e-13
    slopes = value_and_gradient(M, bias, law, rows=[i], tol=1e-12)
    for found, step in zip(np.append(slopes.by_M[0], slopes.by_b), np.eye(n + 1), strict=True):
        slope = slope_of(lambda h, d=step: truth(row + h * d[:n], i, b + h * d[n], law), 1e-3)
        assert abs(found - slope) < 1e-6


LAWS = {
    "independent": Features(5, 0.25, "triangular", np.linspace(0.5, 2, 5), np.linspace(1, 2, 5)),
    "exclusive": Features(5, 0.25, "triangular", groups=[exclusive([0, 3], [0.3, 0.4])]),
    "exactly": Features(5, 0.25, "triangular", exactly=3),
}


@pytest.mark.parametrize(
    "name", ["independent", "exactly", pytest.param("exclusive", marks=pytest.mark.slow)]
)
def test_many_features_against_samples(name):
    """Losses within five standard errors of the mean, gradients by differences of losses."""
    law, rng = LAWS[name], np.random.default_rng(5)
    n = law.n_features
    M, b = np.eye(n) * 0.7 + rng.normal(0, 0.15, (n, n)), rng.normal(-0.05, 0.05, n)
    found = exact_loss(M, b, law)
    x = law.sample(400_000, rng)
    errors = np.mean(law.importance * (x - np.maximum(x @ M.T + b, 0.0)) ** 2, axis=1)
    assert abs(errors.mean() - found.loss) < 5 * errors.std() / errors.size**0.5
    assert found.error_estimate < 1e-9 * found.loss
    slopes = value_and_gradient(M, b, law, tol=1e-11)
    assert slopes.loss == pytest.approx(found.loss, rel=1e-9)
    turn, push = rng.normal(size=(n, n)), rng.normal(size=n)
    slope = slope_of(lambda h: exact_loss(M + h * turn, b + h * push, law).loss, 1e-4)
    assert np.sum(slopes.by_M * turn) + slopes.by_b @ push == pytest.approx(slope, rel=1e-6)


@pytest.fixture(scope="module")
def minimum():
    law = Features(2, [0.5, 0.4], "triangular", importance=[1.0, 0.9])
    return law, minimise(2, 1, law, starts=3, rng=0)


def test_minimisation_finds_the_best_of_descents(minimum):
    law, best = minimum
    assert best.loss == pytest.approx(exact_loss(best.W_out @ best.W_in, best.b, law).loss, rel=1e-7)
    W = np.random.default_rng(1).normal(size=(2, 1)) / 2
    assert descend(W, W.T, np.zeros(2), law, tied=True).loss >= best.loss * (1 - 1e-6)


@pytest.mark.slow
def test_training_reaches_the_least_loss(torch, minimum):
    from superposition.validate.training import train

    (law, best), how = minimum, {"tied": True, "keep_weights": True}
    ds = train(2, 1, law, [0, 1], steps=1000, batch_size=256, device="cpu", threads=1, **how)
    ends, trained = ds.isel(end=-1), []
    for k in range(2):
        W_out, W_in, b = (ends.isel(model=k)[name].values for name in ("W_out", "W_in", "bias"))
        trained.append(exact_loss(W_out @ W_in, b, law).loss)
    assert ds.attrs["values"] == "triangular"
    assert best.loss * (1 - 1e-6) <= min(trained) <= 1.05 * best.loss
    assert ends["loss"].values == pytest.approx(trained, rel=0.02)


def test_what_needs_another_part_refuses_the_law():
    with pytest.raises(ValueError, match=r"`values` must be values with a posterior; got 'triangular'"):
        bayes_loss(0.1, 0.1, values="triangular")

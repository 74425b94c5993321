"""The expected estimate of the learning coefficient against its derivation, quadrature and a covariance."""

import itertools

import mpmath as mp
import numpy as np
import pytest

from superposition.theory import loss as theory


def symmetric(rng, d, order):
    """Return a random symmetric tensor, and its entries by sorted indices from 1."""
    entries, T = {}, np.empty((d,) * order)
    for at in itertools.product(range(d), repeat=order):
        key = "L" + "".join(str(i + 1) for i in sorted(at))
        T[at] = entries.setdefault(key, float(rng.normal()))
    return T, entries


@pytest.mark.parametrize("d", [1, 2])
def test_both_terms_are_those_derived(d):
    rng, derived = np.random.default_rng(d), theory.derive_localised_llc(d)
    for _ in range(5):
        (third, cubic), (fourth, quartic) = symmetric(rng, d, 3), symmetric(rng, d, 4)
        h, t, gamma = rng.exponential(size=d), float(rng.exponential(100.0)), float(rng.exponential())
        found = theory.expected_llc(h, t, gamma, third, np.einsum("iijj->ij", fourth))
        values = {f"h{i + 1}": float(x) for i, x in enumerate(h)} | {"t": t, "gamma": gamma} | cubic | quartic
        values = {symbol.name: values[symbol.name] for symbol in derived.symbols}
        true = [float(x) for x in derived.evaluate(values, 20)]
        assert [found.leading, found.next_order] == pytest.approx(true, rel=1e-11, abs=0)


def by_quadrature(h, cubic, quartic, t, gamma):
    """Return t E (L - L*) of h u²/2 + cubic u³/6 + quartic u⁴/24, by mpmath's quadrature."""

    def loss(u):
        return h * u**2 / 2 + cubic * u**3 / 6 + quartic * u**4 / 24

    def weight(u):
        return mp.exp(-t * loss(u) - gamma * u**2 / 2)

    ends = [k * mp.sqrt(1 / (t * mp.mpf(h) + gamma)) for k in (-12, -4, 0, 4, 12)]
    return float(mp.quad(lambda u: t * loss(u) * weight(u), ends) / mp.quad(weight, ends))


@pytest.mark.parametrize(
    ("h", "cubic", "quartic", "gamma"),
    [pytest.param(1.0, 1.0, 3.0, 0.5, marks=pytest.mark.slow), (0.5, -1.0, 4.0, 300.0)],
)
def test_what_is_left_out_falls_with_the_square(h, cubic, quartic, gamma):
    """At ten times t (and gamma) the next order is a tenth, what is left a hundredth; without it, a tenth."""
    left = []
    for t, g in ((300.0, gamma), (3000.0, 10.0 * gamma)):
        found, true = (
            theory.expected_llc([h], t, g, [[[cubic]]], [[quartic]]),
            by_quadrature(h, cubic, quartic, t, g),
        )
        left.append([true - found.value, true - found.leading])
    assert np.divide(*left) == pytest.approx([100.0, 10.0], rel=0.1)


def test_a_chain_has_the_moments_of_its_covariance():
    """All draws are a linear map of the noise: their squares have covariances 2 C², entry by entry."""
    h, t, gamma, draws = np.array([1.0, 0.05, 0.0]), 30.0, 2.0, 25
    for burnin, stiffness in itertools.product((0, 7), (0.01, 2.0, 3.5)):
        lr, mean, variance = stiffness / (t * h[0] + gamma), 0.0, 0.0
        lag = np.arange(burnin, burnin + draws)[:, None] - 1 - np.arange(burnin + draws)
        for curvature in h:
            decay = 1.0 - 0.5 * lr * (t * curvature + gamma)
            noise = np.where(lag >= 0, np.sqrt(lr) * decay ** np.maximum(lag, 0), 0.0)
            C = noise @ noise.T
            mean += 0.5 * t * curvature * np.trace(C) / draws
            variance += (0.5 * t * curvature) ** 2 * 2.0 * np.sum(C**2) / draws**2
        found = theory.langevin_llc(h, t, gamma, lr=lr, num_draws=draws, num_burnin_steps=burnin)
        assert [found.mean, found.std] == pytest.approx([mean, variance**0.5], rel=1e-11, abs=0)


def test_a_long_chain_has_the_derived_variance():
    a, lr = 201.0, 0.004
    variance = float(theory.derive_langevin_variance().evaluate({"a": a, "eps": lr, "s2": 0}))
    found = theory.langevin_llc([2.0], 100.0, 1.0, lr=lr, num_draws=1, num_burnin_steps=10**4)
    assert found.mean == pytest.approx(0.5 * 200.0 * variance, rel=1e-12, abs=0)
    assert found.std == pytest.approx(np.sqrt(2.0) * found.mean, rel=1e-12, abs=0)

"""Angles of latents that hedge, tilt and absorb, against scans of the objective and bad input."""

import math

import numpy as np
import pytest

from superposition.theory import sae
from superposition.theory.features import Features


def code(x, angles, l1):
    """Return the least cost of unit atoms at angles, by non-negative coordinate descent."""
    D = np.array([[math.cos(a) for a in angles], [math.sin(a) for a in angles]])
    h = np.zeros(len(angles))
    for _ in range(4000):
        before = h.copy()
        for i in range(len(angles)):
            rest = x - D @ h + D[:, i] * h[i]
            h[i] = max(D[:, i] @ rest - 0.5 * l1, 0.0)
        if np.all(h == before):
            break
    return float(np.sum((x - D @ h) ** 2) + l1 * h.sum())


def objective(q, angles, l1):
    patterns = (np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.array([1.0, 1.0]))
    return sum(share * code(x, angles, l1) for share, x in zip(q, patterns, strict=True) if share > 0.0)


def near(f, angle, width=0.02):
    """Return whether an angle is a minimum among its neighbours."""
    return all(f(angle) <= f(angle + shift) + 1e-13 for shift in (-width, -width / 30, width / 30, width))


def test_one_latent_hedges_at_the_angle():
    for parent, both, l1 in [(0.2, 0.05, 0.2), (0.1, 0.3, 0.5), (0.2, 0.05, 1.0), (0.3, 0.1, 1.9)]:
        angle = sae.hedging_angle_l1(parent, both, l1)

        def f(at, parent=parent, both=both, l1=l1):
            return objective((parent, 0.0, both), [at], l1)

        assert near(f, angle)
        assert min(map(f, np.linspace(-0.5, 2.0, 126))) >= f(angle) - 1e-12


def test_without_a_penalty_it_is_the_leading_eigenvector():
    rng = np.random.default_rng(0)
    for _ in range(50):
        parent, both = rng.uniform(0.01, 0.5, 2)
        moment = [[parent + both, both], [both, both]]
        x, y = np.abs(np.linalg.eigh(moment)[1][:, -1])
        assert sae.hedging_angle(moment) == pytest.approx(math.atan2(y, x), abs=1e-12)
        assert sae.hedging_angle_l1(parent, both, 0.0) == pytest.approx(sae.hedging_angle(moment), abs=1e-7)
    assert sae.hedging_angle([[1.0, -0.2], [-0.2, 0.5]]) < 0.0
    assert sae.hedging_angle([[0.5, 0.0], [0.0, 1.0]]) == pytest.approx(math.pi / 2)
    assert sae.hedging_angle(Features(2, [0.25, 0.2]).covariance()) == 0.0


@pytest.mark.parametrize(("alone", "together", "l1"), [(0.1, 0.05, 0.2), (0.1, 0.2, 0.5), (0.3, 0.02, 1.5)])
def test_a_pair_tilts(alone, together, l1):
    angle, value = sae.tilted_pair(alone, together, l1)
    f = lambda at: objective((alone, alone, together), [at, math.pi / 2 - at], l1)  # noqa: E731
    assert f(angle) == pytest.approx(value, abs=1e-12)
    assert near(f, angle, 0.01)
    true = sae.true_pair_loss(alone, alone, together, l1)
    assert f(0.0) == pytest.approx(true, abs=1e-12)
    assert value < true
    assert abs(sae.absorption.tilt_slope(alone, together, l1, angle)) < 1e-12


def test_of_several_tilts_the_lowest_is_returned():
    angle, value = sae.tilted_pair(0.0898, 0.679, 1.788)  # a higher minimum comes first, at 1.38623
    assert (angle, round(value, 5)) == (math.pi / 4, 1.35385)
    rng, grid = np.random.default_rng(0), np.linspace(0.0, 0.25 * math.pi, 2001)
    c, u = np.cos(grid), np.cos(grid) + np.sin(grid)
    for _ in range(200):
        alone, together, l1 = rng.uniform(0.0, 0.5), rng.uniform(0.0, 1.0), rng.uniform(0.0, 2.0)
        alone, together = np.array([alone, together]) / max(1.0, 2.0 * alone + together)
        alone_coded, both_coded = np.maximum(c - 0.5 * l1, 0.0), 1.0 - 0.5 * l1 / u
        costs = 2.0 * alone * (1.0 - alone_coded**2) + 2.0 * together * (1.0 - both_coded**2)
        _, value = sae.tilted_pair(float(alone), float(together), l1)
        assert costs.min() - 1e-6 <= value <= costs.min() + 1e-14


@pytest.mark.parametrize(
    ("child", "both", "l1"),
    [(0.0, 0.05, 0.2), (0.0, 0.1, 1.9), (0.05, 0.1, 0.2), (0.1, 0.5, 0.5), (0.02, 0.2, 1.5)],
)
def test_an_atom_for_both(child, both, l1):
    angle, value = sae.absorbing_pair(0.2, child, both, l1)
    best = objective((0.2, child, both), [0.0, angle], l1)
    # Where the second atom alone leaves more of the parent than half the strength, the first one helps.
    alone = 1.0 - (math.cos(angle) + math.sin(angle) - 0.5 * l1) * math.cos(angle) <= 0.5 * l1
    assert value == pytest.approx(best, abs=1e-12) if alone else value > best
    assert abs(sae.absorption.absorbing_slope(child, both, l1, angle)) < 1e-12
    if child and alone:
        assert near(lambda at: objective((0.2, child, both), [0.0, at], l1), angle, 0.005)
    if not child:
        gain = both * 0.5 * l1 * (4.0 - 2.0 * math.sqrt(2.0) - 0.5 * l1)
        assert sae.true_pair_loss(0.2, 0.0, both, l1) - value == pytest.approx(gain, abs=1e-14)
        # No larger dictionary does better.
        rng = np.random.default_rng(1)
        for _ in range(6):
            assert objective((0.2, 0.0, both), rng.uniform(-1.0, 2.5, 4), l1) >= value - 1e-12


def test_the_bracket_of_absorption_under_an_l0_penalty():
    for values in ("uniform", "exponential", "half-normal"):
        law, rng = Features(2, 1.0, values), np.random.default_rng(2)
        low, high = sae.absorption_bracket(values, 2.0)
        assert (low, high) == pytest.approx([4.0 * one for one in sae.absorption_bracket(values)])
        x = 2.0 * law.sample(400_000, rng)
        lowest = np.linalg.eigvalsh(x.T @ x / len(x))[0]
        beta = np.sum(x[:, 0] * x[:, 1]) / np.sum(x[:, 1] ** 2)
        left = np.mean((x[:, 0] - beta * x[:, 1]) ** 2)
        # Within five standard errors of a mean of squares: 1.5 % of 400,000 samples with tails like these.
        assert low == pytest.approx(lowest, rel=0.015)
        assert high == pytest.approx(left, rel=0.015)
    assert sae.absorption_bracket("binary") == (0.0, 0.0)

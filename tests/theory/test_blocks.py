"""Blocks: losses against independent integrals, least noise against the rows of random matrices."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, linalg, stats

from superposition.solvers.loss import exact_loss
from superposition.theory import rug, unequal
from superposition.theory.features import Features, exclusive, parent_child, synchronous

from ..oracles import differences

TABLES = {
    "exclusive": exclusive([0, 1], [0.1, 0.2]),
    "synchronous": synchronous([0, 1], 0.2),
    "parent": parent_child(0, [1], 0.3, 0.5),
}


def _law(kind, strength=0.7, **other):
    return Features(2, 0.1, groups=[unequal.partial_dependence(TABLES[kind], strength)], **other)


def _coefficients(k, seed):
    rng = np.random.default_rng(seed)
    return np.eye(k) + 0.4 * rng.normal(size=(k, k)), 0.1 * rng.normal(size=k)


def test_one_feature_is_the_rug():
    law, a = Features(1, 0.05), 1.2
    for sigma, b in itertools.product((1e-4, 0.2, 3.0), (-0.5, 0.0, 0.3)):
        found = unequal.block_losses(a * np.eye(1), b, (a * sigma) ** 2, law).per_feature[0]
        assert found == pytest.approx(rug.loss(a, b, sigma, 0.05), rel=1e-12, abs=0)


def test_without_noise_it_is_the_exact_loss_of_few_features():
    # three and four on at once are integrated by a rule of few points: its error is stated as 1e-6 E x²
    for k, error in ((2, 1e-14), (3, 1e-7), (4, 1e-7)):
        law, (alpha, b) = Features(k, 0.3), _coefficients(k, k)
        found, exact = unequal.block_losses(alpha, b, 0.0, law), exact_loss(alpha, b, law)
        np.testing.assert_allclose(found.per_feature, exact.per_feature, rtol=0, atol=error)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("exclusive", "uniform"),
        ("synchronous", "uniform"),
        pytest.param("parent", "uniform", marks=pytest.mark.slow),
        pytest.param("parent", "binary", marks=pytest.mark.slow),
    ],
)
def test_noise_is_an_average_over_biases(kind, values):
    law = _law(kind, values=values, scale=[1.0, 2.0])
    alpha, b = _coefficients(2, 5)
    s = 0.3
    for i in (0, 1):

        def shifted(z, i=i):
            return exact_loss(alpha, b + s * z, law).per_feature[i] * stats.norm.pdf(z)

        wanted, error = integrate.quad(shifted, -9, 9, epsabs=1e-11, limit=60)
        found = unequal.block_losses(alpha, b, s**2, law).per_feature[i]
        assert abs(found - wanted) <= 1e-10 + error


@pytest.mark.parametrize("k", [2, 3])
def test_derivatives_are_those_of_the_losses(k):
    law = Features(k, 0.3, scale=np.arange(1.0, k + 1))
    (alpha, b), v = _coefficients(k, 2), np.linspace(0.05, 0.1, k)

    def moved(t):  # of all outputs by the same
        return unequal.block_losses(alpha + t[2:], b + t[0], v + t[1], law).per_feature

    found = unequal.block_losses(alpha, b, v, law)
    by_b, by_variance, *by_coefficients = differences(moved, np.zeros(k + 2), 1e-4, order=4)
    np.testing.assert_allclose(found.by_b, by_b, atol=1e-9)
    np.testing.assert_allclose(found.by_variance, by_variance, atol=1e-8)
    np.testing.assert_allclose(found.by_coefficients.T, by_coefficients, atol=1e-9)


@given(st.integers(0, 2**32 - 1), st.integers(1, 7))
def test_no_row_receives_less_than_the_least_noise(seed, rank):
    rng = np.random.default_rng(seed)
    law = Features(8, 0.2, groups=[synchronous([0, 5], 0.2), parent_child(2, [1, 7], 0.4, 0.3)])
    M = rng.normal(size=(8, rank)) @ rng.normal(size=(rank, 8))
    capacities, S = unequal.block_capacities(M, law), law.covariance()
    assert sum(np.trace(C) for C in capacities) == pytest.approx(rank, abs=1e-9)
    for block, C in zip(law.blocks, capacities, strict=True):
        own = block.members
        others = np.setdiff1d(np.arange(8), own)
        received = np.einsum("ij,jk,ik->i", M[:, others], S[np.ix_(others, others)], M[:, others])
        least = unequal.least_noise(C, M[:, own], S[np.ix_(own, own)])
        assert np.all(least <= received * (1 + 1e-6) + 1e-9)


def test_the_least_noise_is_that_of_the_row_in_the_proof():
    rng = np.random.default_rng(3)
    P = np.linalg.qr(rng.normal(size=(8, 3)))[0]
    P, S = P @ P.T, np.array([[2.0, 0.5], [0.5, 1.0]])
    rows = rng.normal(size=(4, 2)) @ P[:2]
    alpha = rows[:, :2] @ np.linalg.inv(linalg.sqrtm(S))
    least = unequal.least_noise(P[:2, :2], alpha, S)
    np.testing.assert_allclose(least, np.sum(rows[:, 2:] ** 2, axis=1), rtol=1e-9)


def test_a_weakened_table_keeps_its_probabilities():
    for kind in TABLES:
        p = Features(2, 0.1, groups=[TABLES[kind]]).p
        whole, half, none = (_law(kind, strength).covariance() for strength in (1, 0.5, 0))
        np.testing.assert_allclose(_law(kind, 0.3).p, p, rtol=1e-14)
        np.testing.assert_allclose(half, (whole + none) / 2, atol=1e-15)
        assert abs(none[0, 1]) < 1e-16


def test_copies_are_independent():
    law = unequal.independent_copies(_law("exclusive", scale=[1.0, 3.0], importance=[2.0, 1.0]), 3)
    assert law.scale.tolist() == [1, 3] * 3
    assert law.importance.tolist() == [2, 1] * 3
    assert np.abs(law.covariance()[:2, 2:]).max() == 0 < abs(law.covariance()[2, 3])

"""Learning coefficients of factorised maps: Hessians' ranks, and the partition function by quadrature."""

import itertools

import numpy as np
import pytest

from superposition.theory.linear import factorisation_llc


def strata(N, M, H):
    for b, a in itertools.product(range(min(N, H) + 1), range(min(M, H) + 1)):
        for r in range(max(0, a + b - H), min(a, b) + 1):
            yield b, a, r


@pytest.mark.parametrize("shape", [(2, 2, 2), (3, 2, 4), (2, 4, 3)])
def test_the_hessian_has_the_rank(shape):
    """At random points of each stratum the derivative of BA has the rank `regular`."""
    N, M, H = shape
    rng = np.random.default_rng(sum(shape))
    for b, a, r in strata(*shape):
        # A = P [rows of weight] Q, B = R [columns] P^-1: r hidden directions are in both.
        P, Q, R = (rng.normal(size=(k, k)) for k in (H, M, N))
        columns = np.r_[np.arange(r), a + np.arange(b - r)]
        A, B = (
            P @ np.eye(H)[:, :a] @ np.eye(a, M) @ Q,
            R @ np.eye(N)[:, :b] @ np.eye(H)[columns] @ np.linalg.inv(P),
        )
        slopes = np.concatenate([np.kron(np.eye(N), A.T), np.kron(B, np.eye(M))], axis=1)
        found = factorisation_llc(N, M, H, decoder=b, encoder=a, product=r)
        assert np.linalg.matrix_rank(slopes, tol=1e-9) == found.regular
        assert found.regular / 2 <= found.coefficient <= N * M / 2
        if 0 in found.left:
            assert (found.coefficient, found.multiplicity) == (found.regular / 2, 1)


def printed(N, M, H, r):
    """Twice Aoyagi and Watanabe's coefficient, and the multiplicity, as the R package sBIC has them."""
    if N + r <= M + H and M + r <= N + H and H + r <= M + N:
        odd = (M + H + N + r) % 2
        return (-((H + r) ** 2) - M**2 - N**2 + 2 * (H + r) * (M + N) + 2 * M * N + odd) / 4, 1 + odd
    if N + r > M + H:
        return H * M - H * r + N * r, 1
    return (H * N - H * r + M * r, 1) if M + r > N + H else (M * N, 1)


def test_the_least_coefficient_of_a_product_is_the_printed_one():
    """It is that of the most degenerate minimum, where both matrices have the rank of the product."""
    for N, M, H in itertools.product(range(1, 7), repeat=3):
        least = {}
        for b, a, r in strata(N, M, H):
            found = factorisation_llc(N, M, H, decoder=b, encoder=a, product=r)
            least[r] = min(found.coefficient, least.get(r, np.inf))
            if a == b == r:
                assert (2.0 * found.coefficient, found.multiplicity) == printed(N, M, H, r)
        assert all(2.0 * coefficient == printed(N, M, H, r)[0] for r, coefficient in least.items())

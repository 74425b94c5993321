"""Derivations of the linear autoencoder: each beside its kernel at 50 digits, and beside the prints."""

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

from superposition.solvers.linear import exact_decoder_flow
from superposition.theory import linear

W, SIGMA = linear.derive.matrix_of("w", 3, 2), linear.derive.symmetric(3)


def named(name, array):
    return {f"{name}_{i + 1}{j + 1}": float(x) for (i, j), x in np.ndenumerate(array)}


def close(found, derivation, values, rel=1e-14):
    assert found == pytest.approx(float(derivation.evaluate(values)), rel=rel, abs=0)


def test_losses():
    rng = np.random.default_rng(0)
    loss, weighted, energy = (
        linear.derive.derive_loss(),
        linear.derive.derive_importance_loss(),
        linear.derive.derive_energy(),
    )
    for size in (1e-3, 1e6):
        A, B, root = size * rng.normal(size=(3, 2)), rng.normal(size=(2, 3)), rng.normal(size=(3, 3))
        sigma = root @ root.T
        upper = {name: x for name, x in named("s", sigma).items() if name[2] <= name[3]}
        close(3 * linear.reconstruction_loss(A, B, sigma), loss, named("a", A) | named("b", B) | upper, 1e-13)
        tied = 3 / 4 * linear.reconstruction_loss(A, A.T, np.eye(3)) * 0.7
        close(tied, energy, named("w", A) | {"lambda": 0.7}, 1e-12)
        I, p = rng.uniform(0, 2, 3), 0.3
        moments = {"m": mp.mpf(p) / 2, "v": mp.mpf(p) / 3 - mp.mpf(p) ** 2 / 4}
        values = named("w", A) | {f"I{i + 1}": x for i, x in enumerate(I)} | moments
        found = [3 * linear.sparse_loss(A, p, I, "none"), 3 * linear.sparse_loss(A, p, I)]
        assert found == pytest.approx([float(x) for x in weighted.evaluate(values)], rel=1e-12, abs=0)


def test_gradients_and_flows():
    A, B, x = (linear.derive.matrix_of(*shape) for shape in (("a", 3, 2), ("b", 2, 3), ("x", 3, 2)))
    rest = x * x.T - A * B * x * x.T
    printed = sp.Matrix.vstack(-2 * rest * B.T, -2 * (A.T * rest).T)
    assert (linear.derive.derive_gradients().expression - printed).expand().is_zero_matrix
    slow, oja = linear.derive.tied_flows(W, SIGMA)
    flows = linear.derive.derive_tied_flows().expression
    assert (flows - sp.Matrix.hstack(slow, oja, slow + oja)).expand().is_zero_matrix
    assert not (flows[:, 2:4] - flows[:, :2]).expand().is_zero_matrix  # Eq. 21 does not reduce to Eq. 22
    # A = B' breaks at the rate (Sigma M - M Sigma) W.
    M = W * W.T
    assert (oja - slow - (SIGMA * M - M * SIGMA) * W).expand().is_zero_matrix


def test_energies():
    lam = sp.Symbol("lambda", positive=True)
    derived = linear.derive.derive_energy().expression
    flow, _ = linear.derive.tied_flows(W, lam * sp.eye(3))
    assert (flow + linear.derive.gradient(derived, W)).expand().is_zero_matrix
    assert linear.derive.derive_curl().expression != 0


def test_solutions():
    s1, s11 = sp.Symbol("s1", positive=True), SIGMA[0, 0]
    rates = linear.derive.derive_singular_values().expression
    assert (rates - s1 * (1 - s1**2) * s11 * sp.ones(1, 2)).expand().is_zero_matrix
    mode, pair = linear.derive.derive_aligned_mode(), linear.derive.derive_aligned_pair()
    for w0, lam, t in ((1e-9, 2.0, 3.0), (0.3, 1.0, 1e-8), (7.0, 0.5, 4.0)):
        values = {"lambda": lam, "t": t}
        close(linear.aligned_mode(w0, lam, t, "encoder"), mode, values | {"w0": w0}, 1e-15 * (10 + lam * t))
        b0 = w0 / 2 + 0.125
        plus, minus = mp.mpf(w0) + mp.mpf(b0), abs(mp.mpf(w0) - mp.mpf(b0))
        values |= {"q0": plus**2, "k": plus * minus}
        close(sum(linear.aligned_pair(w0, b0, lam, t)) ** 2, pair, values, 1e-14 * (1 + lam * t))


@pytest.mark.slow
def test_riccati_flows():
    riccati = linear.derive.derive_riccati()
    for t in (1e-9, 0.5, 30.0, 200.0):
        found = exact_decoder_flow([[0.01], [0.5]], np.diag([2.0, 1.0]), t).W[0]
        exact = riccati.evaluate({"t": t, "x": 0.01, "y": 0.5, "s1": 2.0, "s2": 1.0})
        np.testing.assert_allclose(found @ found.T, np.array(exact.tolist(), float), rtol=1e-13 * (1 + t))


def test_around_critical_points():
    eps, *lam = sp.symbols("epsilon lambda_i lambda_j lambda_k lambda_l", positive=True)
    share = eps**2 / (1 + eps**2)
    printed = sp.Matrix([1, 1 - share, share, 0, share * (lam[2] - lam[1])])
    rotation, filling = linear.derive.derive_rotation(), linear.derive.derive_filling()
    assert sp.simplify(rotation.expression - printed).is_zero_matrix
    assert sp.expand(filling.expression - (2 * eps**2 - eps**4) * lam[2]) == 0
    # To second order the falls are the rates, and a whole turn is the difference of two critical losses.
    whole = sp.limit(rotation.expression[4], eps, sp.oo).subs({lam[1]: 1, lam[2]: 3})
    wrong, right = (linear.critical_loss(np.diag([3.0, 1.0]), [kept]) for kept in (1, 0))
    assert 2 * (wrong - right) == float(whole)


@pytest.mark.parametrize("rule", linear.RULES)
def test_rates_at_critical_points(rule):
    jacobian = linear.derive.derive_critical_rates(rule)
    for inner, outer in ((3.0, 4.0), (1.0, 1e-8), (1e-5, 7.0)):
        matrix = jacobian.evaluate({"lambda_i": inner, "lambda_o": outer})
        with mp.workdps(50):
            exact = sorted((float(mp.re(x)) for x in mp.eig(matrix, right=False)), reverse=True)
        kept = int(inner < outer)
        found = linear.growth_rates(np.diag(sorted((inner, outer), reverse=True)), [kept], 2, rule)
        np.testing.assert_allclose(found, exact, rtol=1e-14, atol=1e-20)

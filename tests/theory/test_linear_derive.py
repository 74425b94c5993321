"""Derivations leave nothing over, and what the print gets wrong stays."""

import sympy as sp

from superposition.theory.linear import derive, growth_rates, second_order, solutions


def test_gradients_and_flows():
    by_encoder, by_decoder = derive.derive_gradients()
    assert by_encoder.is_zero_matrix
    assert by_decoder.is_zero_matrix
    chain_rule, encoder, decoder = derive.derive_tied_flow()
    assert chain_rule.is_zero_matrix
    assert encoder.is_zero_matrix
    assert not decoder.is_zero_matrix  # Eq. 21 does not reduce to Eq. 22
    assert derive.derive_commutator().is_zero_matrix
    assert derive.derive_conservation().is_zero_matrix
    assert derive.derive_mode_equations().is_zero_matrix


def test_energies():
    printed, corrected, closed = derive.derive_energy()
    assert not printed.is_zero_matrix
    assert corrected.is_zero_matrix
    assert closed == 0
    residual, curl = derive.derive_metric()
    assert residual.is_zero_matrix
    assert curl != 0


def test_solutions():
    assert solutions.derive_singular_values() == (0, 0)
    assert solutions.derive_modes() == (0, (0, 0), 0)
    assert all(residual.is_zero_matrix for residual in solutions.derive_riccati())


def test_second_order():
    diagonal, gain = second_order.derive_rotation()
    assert diagonal.is_zero_matrix
    assert gain == 0
    assert second_order.derive_filling() == 0
    # Eigenvalues of the derived Jacobians, exactly, beside the closed forms.
    at = {sp.Symbol("lambda_i", positive=True): 3, sp.Symbol("lambda_o", positive=True): 4}
    for rule, jacobian in second_order.derive_second_order().items():
        exact = sorted(
            (float(v) for v, times in jacobian.subs(at).eigenvals().items() for _ in range(times)),
            reverse=True,
        )
        found = growth_rates([[4.0, 0.0], [0.0, 3.0]], [1], 2, rule)
        assert max(abs(a - b) for a, b in zip(exact, found, strict=True)) < 1e-14


def test_importance():
    without_bias, best_bias, extra = derive.derive_importance_loss()
    assert without_bias == 0
    assert best_bias == 0
    assert extra != 0

"""What the ledger says of one noisy step, and that a wrong statement of it does not get away."""

from dataclasses import replace

import pytest
import sympy

from superposition.theory import noise
from superposition.validate.ledger import Evidence, Verdict, select_claims, verdict
from superposition.validate.ledger.claim import symbolic
from superposition.validate.ledger.lecomte_noise import _sampling_findings


def test_counterexamples_are_the_known_residuals():
    residuals = {row.id: row.check(True).findings[0] for row in select_claims(["L26", "L28", "L30"])}
    # 4u^2; 3 sigma^4 times the sum over pairs; (3 sigma^4 - 1) times the term in |W|_4: none of them 0.
    assert residuals["L26"].text.endswith("residual -4*u**2")
    assert "3*mu2**2*(-p2**2 + p4)" in residuals["L28"].text
    assert residuals["L30"].value > 0


def wrong_loss(quick):
    """Take the loss after a step for independent of |W|_4."""
    loss = noise.derive_next_step_loss().expression.subs(sympy.Symbol("p2"), 1)
    return Evidence("", [symbolic("slope in p4", loss.diff(sympy.Symbol("p4")))])


def regulariser_is_drift(quick):
    """Take the drift of |W|_4 to have the sign of the implicit regulariser's force."""
    drift = noise.derive_random_drift().expression.subs("eta", 1)
    loss = noise.expectation((noise.derive_squared_norm().expression - 1) ** 2)
    mu2, mu4, m = sympy.symbols("mu2 mu4 m")
    bipolar = drift.subs({m: 16, mu4: mu2**2, mu2: 1})
    force = -loss.subs({sympy.Symbol("p2"): 1}).coeff(sympy.Symbol("eta"), 2).diff(sympy.Symbol("p4"))
    sign = sympy.sign(force.subs({mu4: mu2**2}).subs(mu2, 1))
    return Evidence("", [symbolic("sign of the drift less that of the force", sympy.sign(bipolar) - sign)])


def another_moment(quick):
    """Take samples to have a fourth moment that is a tenth too large."""

    def fourth(w, draws, name):
        return (draws @ w) ** 4, 1.1 * noise.fourth_moment(w, 1.0, noise.noise_moments(name)[1])

    found = _sampling_findings("moment", quick, fourth)
    return Evidence("", [replace(finding, about="printed") for finding in found])


@pytest.mark.parametrize("check", [wrong_loss, regulariser_is_drift, another_moment])
def test_canary_a_wrong_statement_fails(check):
    assert verdict(check(True)) is Verdict.WRONG

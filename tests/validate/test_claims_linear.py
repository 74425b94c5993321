"""What the ledger says of linear autoencoders, and that a wrong statement of them does not get away."""

import numpy as np
import pytest

from superposition.solvers import linear as solvers
from superposition.theory import linear as theory
from superposition.validate.ledger import Claim, Evidence, Finding, Verdict, judge
from superposition.validate.runner.cache import ResultCache


def source_flow_finds_the_leading_eigenvectors(quick):
    """Take Eq. 22 for the gradient flow of the tied loss."""
    sigma = np.diag([3.0, 2.0, 1.0])
    W0 = np.random.default_rng(0).normal(size=(3, 2))
    end = solvers.gradient_flow(W0, sigma, 60.0, "encoder").loss[0]
    return Evidence(
        "", [Finding("printed", "numeric", "excess", end - theory.critical_loss(sigma, [0, 1]), "<=", 1e-6)]
    )


def rotations_have_the_whole_gap_as_rate(quick):
    """Take the tied rate for the pair's."""
    pair, tied = (theory.critical_hessian(np.diag([3.0, 1.0]), [1], tied=tied) for tied in (False, True))
    gap = abs(pair.escape_rate - tied.escape_rate)
    return Evidence("", [Finding("printed", "numeric", "difference of rates", gap, "==", 0.0)])


@pytest.mark.parametrize(
    "check", [source_flow_finds_the_leading_eigenvectors, rotations_have_the_whole_gap_as_rate]
)
def test_wrong_statements_fail(check, tmp_path):
    claim = Claim("X", "nobody", "1", check.__doc__, check)
    assert judge(claim, ResultCache(tmp_path)).verdict is Verdict.WRONG

"""What the ledger says of linear autoencoders, and that a wrong statement of them does not get away."""

import numpy as np
import pytest

from superposition.solvers import linear as solvers
from superposition.theory import linear as theory
from superposition.validate.claims import Claim, Evidence, Finding, Verdict, judge, verdict
from superposition.validate.claims.elhage_linear import ELHAGE_LINEAR
from superposition.validate.claims.notes_critical import NOTES_CRITICAL
from superposition.validate.claims.notes_flows import NOTES_FLOWS

ROWS = (*NOTES_CRITICAL, *NOTES_FLOWS, *ELHAGE_LINEAR)

# Each from a derivation of its own; the ledger never reads this table.
EXPECTED = {
    "B1": "holds",
    "B2": "holds",
    "B3": "holds",
    "B4": "holds",
    "B5": "holds with a correction",  # below full rank a rotation need not help
    "B6": "holds",
    "B8": "holds with a correction",  # E xx' has two eigenvalues
    "B9": "holds",
    "B10": "holds with a correction",  # A's flow reduces to Oja's, not to Eq. 22
    "B11": "holds",
    "B12": "holds with a correction",  # 1/4 on ordered pairs
    "B13": "holds",
    "E1": "holds with a correction",  # the mean is left out
    "E2": "holds with a correction",  # not without bias
}


@pytest.mark.parametrize("row", [pytest.param(row, id=row.id) for row in ROWS])
def test_verdicts(row):
    checked = judge(row)
    assert str(checked.verdict) == EXPECTED[row.id]
    assert checked.verdict is verdict(checked.evidence)
    assert all(np.isfinite(f.value) for f in checked.evidence.findings)
    assert all(np.isfinite(v) for v in checked.evidence.numbers.values())


def test_all_rows_are_there():
    assert [row.id for row in ROWS] == list(EXPECTED)


def source_flow_finds_the_leading_eigenvectors(quick):
    """Take Eq. 22 for the gradient flow of the tied loss."""
    sigma = np.diag([3.0, 2.0, 1.0])
    W0 = np.random.default_rng(0).normal(size=(3, 2))
    end = solvers.flow(W0, sigma, 60.0, "encoder").loss[0]
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
def test_wrong_statements_fail(check):
    assert judge(Claim("X", "nobody", "1", check.__doc__, check)).verdict is Verdict.FAILS

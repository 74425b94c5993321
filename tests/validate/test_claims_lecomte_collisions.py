"""What the ledger says of meeting encodings, and that a wrong statement of them does not get away."""

import numpy as np
import pytest

from superposition.solvers import collisions as solvers
from superposition.validate.claims import Claim, Evidence, Finding, Verdict, judge
from superposition.validate.claims.lecomte_collisions import limit, start


def no_interference_between_equal_signs(quick):
    """Take malign pairs for benign ones."""
    W0 = [[0.8, 0.6, 0.0], [0.6, 0.0, 0.8]]
    apart, together = (solvers.flow(W0, 0.01, 5.0, interference).W for interference in (False, True))
    return Evidence("", [Finding("printed", "numeric", "change", np.abs(apart - together).max(), "==", 0.0)])


def double_count(quick):
    """Take n^2/(2m) for the number of polysemantic neurons."""
    n, m, runs = 32, 64, 20
    W0 = np.stack([start(seed, n, m) for seed in range(runs)])
    ratios = solvers.flow(W0, 3e-3, 2000.0, tol=1e-4).polysemantic[:, -1] / (n * n / (2 * m))
    return Evidence("", [Finding("printed", "experiment", "upper limit", limit(ratios, 1), ">=", 1.0)])


@pytest.mark.parametrize("check", [no_interference_between_equal_signs, double_count])
def test_canary_a_wrong_statement_fails(check):
    assert judge(Claim("X1", "nobody2000", "1", "wrong", check)).verdict is Verdict.FAILS

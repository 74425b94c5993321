"""What the ledger says of meeting encodings, and that a wrong statement of them does not get away."""

import numpy as np
import pytest

from superposition.solvers import collisions as solvers
from superposition.validate.claims import Claim, Evidence, Finding, Verdict, judge, verdict
from superposition.validate.claims.lecomte_collisions import COLLISIONS, limit, start
from superposition.validate.claims.lecomte_polysemantic import POLYSEMANTIC

# Each from a derivation or a run of its own; the ledger never reads this table.
EXPECTED = {
    "L1": "holds",
    "L2": "holds",
    "L14": "order only",  # (n-1) c^4/(2m) and c^2 - c^4 (1 + 2/m)
    "L15": "holds with a correction",  # the feature benefit is left out
    "L16": "holds with a correction",  # (0.9, 0.5) loses to (0.8, 0.1)
    "L17": "holds",
    "L18": "holds with a correction",  # 0.77 +- 0.03 times n^2/(4m) at n = 32, m = 64, 200 runs
    "L19": "holds",
    "L20": "holds with a correction",  # l1 on activations shortens the encoder alone
}
SLOW = {"L16", "L18", "L19", "L20"}


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=row.id, marks=[pytest.mark.slow] if row.id in SLOW else [])
        for row in (*COLLISIONS, *POLYSEMANTIC)
    ],
)
def test_verdicts(row):
    checked = judge(row)
    assert str(checked.verdict) == EXPECTED[row.id]
    assert checked.verdict is verdict(checked.evidence)
    assert all(np.isfinite(f.value) for f in checked.evidence.findings)
    assert all(np.isfinite(v) for v in checked.evidence.numbers.values())


def test_all_rows_are_there():
    assert [row.id for row in (*COLLISIONS, *POLYSEMANTIC)] == list(EXPECTED)


def no_interference_between_equal_signs(quick):
    """Take malign pairs for benign ones."""
    W0 = [[0.8, 0.6, 0.0], [0.6, 0.0, 0.8]]
    apart, together = (solvers.flow(W0, 0.01, 5.0, interference).W for interference in (False, True))
    return Evidence("", [Finding("printed", "numeric", "change", np.abs(apart - together).max(), "==", 0.0)])


def double_count(quick):
    """Take n^2/(2m) for the number of polysemantic neurons."""
    n, m, runs = 32, 64, 20
    W0 = np.stack([start(seed, n, m) for seed in range(runs)])
    ratios = solvers.flow(W0, 3e-3, 2000.0, rtol=1e-4).polysemantic[:, -1] / (n * n / (2 * m))
    return Evidence("", [Finding("printed", "experiment", "upper limit", limit(ratios, 1), ">=", 1.0)])


@pytest.mark.parametrize("check", [no_interference_between_equal_signs, double_count])
def test_canary_a_wrong_statement_fails(check):
    assert judge(Claim("X1", "nobody2000", "1", "wrong", check)).verdict is Verdict.FAILS

"""What the ledger says of the remedy, and that a wrong statement of its share does not get away."""

import numpy as np
import pytest

from superposition.theory.collisions import splitting
from superposition.validate.claims import Verdict, judge, lecomte_training

(REMEDY,) = lecomte_training.REMEDY


@pytest.mark.slow
@pytest.mark.parametrize("factor", [np.sqrt(2), np.sqrt(0.5)])
def test_a_lost_factor_in_the_clock_is_noticed(monkeypatch, factor):
    right = splitting.separated_share

    def wrong(t, lam, eps, **options):
        return right(np.asarray(t) * factor, lam, eps, **options)

    monkeypatch.setattr(splitting, "separated_share", wrong)
    assert judge(REMEDY).verdict is Verdict.FAILS


def test_exact_limits():
    # No success in 50: the upper limit p solves (1 - p)^50 = alpha.
    alpha = lecomte_training.ALPHA / lecomte_training.FINDINGS
    assert lecomte_training._limit(0, 50, "low") == 0
    # A root found to about 1e-12 by SciPy.
    assert lecomte_training._limit(0, 50, "high") == pytest.approx(1 - alpha ** (1 / 50), rel=1e-9)

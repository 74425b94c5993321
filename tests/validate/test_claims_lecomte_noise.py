"""What the ledger says of hidden noise in training, and that wrong statements of it do not get away."""

import pytest

from superposition.solvers.statistics import Family, mean, share
from superposition.validate.experiments import noise
from superposition.validate.ledger import Evidence, Verdict, verdict
from superposition.validate.ledger.claim import confirmed, derived


def noise_of_any_kurtosis(quick):
    """Take noise of positive excess kurtosis for something that sparsifies."""
    ds = noise.run_mechanism(4, 4, 0.25, (0.02, 0.04), (-2.0, 3.0), 40.0, 12, lone_runs=2, averaged_runs=0)
    beyond = (ds["by_kurtosis"] - ds["by_normal"]).sel(excess_kurtosis=3.0)
    return Evidence("", [confirmed("growth", Family(1e-3, 1).of(mean, beyond), ">", derived())])


def at_most_half(quick):
    """Take at most one run in two to have a stuck encoding at n = m."""
    ds = noise.run_stuck((8,), 8, 0.15, runs=12)
    having = Family(1e-2, 1).of(share, int((ds["stuck"] > 0).sum()), 12)
    return Evidence("", [confirmed("share", having, "<=", derived(0.5))])


@pytest.mark.parametrize("check", [noise_of_any_kurtosis, at_most_half])
def test_canary_a_wrong_statement_fails(check):
    assert verdict(check(True)) is Verdict.WRONG

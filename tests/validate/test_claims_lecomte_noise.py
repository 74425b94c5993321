"""What the ledger says of hidden noise in training, and that wrong statements of it do not get away."""

import pytest

from superposition.validate import noise
from superposition.validate.claims import Claim, Evidence, Finding, Verdict, judge
from superposition.validate.claims.lecomte_collisions import limit


def noise_of_any_kurtosis(quick):
    """Take noise of positive excess kurtosis for something that sparsifies."""
    ds = noise.run_mechanism(4, 4, 0.25, (0.02, 0.04), (-2.0, 3.0), 40.0, 12, lone_runs=2, averaged_runs=0)
    beyond = (ds["by_kurtosis"] - ds["by_normal"]).sel(excess_kurtosis=3.0).values
    return Evidence(
        "", [Finding("printed", "experiment", "lower limit of growth", limit(beyond, -1), ">", 0.0)]
    )


def half_as_many(quick):
    """Take one run in two for the frequency of stuck encodings at n = m."""
    ds = noise.run_stuck((8,), 8, 0.15, runs=12, confidence=0.99)
    return Evidence("", [Finding("printed", "experiment", "lower limit", float(ds["low"][0]), "<=", 0.5)])


@pytest.mark.parametrize("check", [noise_of_any_kurtosis, half_as_many])
def test_canary_a_wrong_statement_fails(check):
    assert judge(Claim("X1", "nobody2000", "1", "wrong", check)).verdict is Verdict.FAILS

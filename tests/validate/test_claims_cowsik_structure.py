"""The ledger rows on trained weights: wrong data would turn them."""

import numpy as np
import pytest

from superposition.validate.experiments.codes.symmetry import run_stored
from superposition.validate.ledger import select_claims


@pytest.fixture(scope="module")
def followed():
    """Models that follow the print: the rug's loss, and spreads that fall with n_features."""
    rng = np.random.default_rng(0)
    ds = run_stored()
    noise = 1 + 0.01 * rng.standard_normal(ds["loss"].shape)
    for name in ("diagonal_sd", "bias_sd", "row_variance_variance", "lyapunov_max"):
        ds[name] = (("end", "model"), noise / np.sqrt(ds["n_features"].values))
    ds["row_variance_spread"] = (("end", "model"), noise / ds["n_features"].values)
    ds["excess"] = (("end", "model"), noise - 1)
    ds["loss"] = (("end", "model"), noise * ds["optimum"].values)
    return ds


@pytest.mark.parametrize("id", ["C27", "C29", "C30", "C31"])
def test_models_that_followed_the_print_would_be_believed(followed, id):
    (claim,) = select_claims([id])
    findings = claim.check(True, followed).findings
    assert all(f.passed for f in findings if f.about == "printed")
    # What was found instead would not be.
    assert id != "C27" or not all(f.passed for f in findings if f.about == "corrected")


@pytest.mark.parametrize("id", ["C29", "C30", "C31"])
def test_models_that_did_not_follow_it_would_not(followed, id):
    (claim,) = select_claims([id])
    risen = followed.copy(deep=True)
    for name in ("diagonal_sd", "bias_sd", "row_variance_variance", "lyapunov_max"):
        risen[name] = risen[name] * risen["n_features"].values ** 0.6
    findings = claim.check(True, risen).findings
    assert not all(f.passed for f in findings if f.about == "printed")

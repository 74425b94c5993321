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


def test_models_that_followed_the_print_would_be_believed_and_others_not(followed):
    risen = followed.copy(deep=True)
    for name in ("diagonal_sd", "bias_sd", "row_variance_variance", "lyapunov_max"):
        risen[name] = risen[name] * risen["n_features"].values ** 0.6
    for claim in select_claims(["C27", "C29", "C30", "C31"]):
        findings = claim.check(True, followed).findings
        assert all(f.passed for f in findings if f.about == "printed"), claim.id
        if claim.id == "C27":  # what was found instead would not be
            assert not all(f.passed for f in findings if f.about == "corrected")
        else:
            assert not all(f.passed for f in claim.check(True, risen).findings if f.about == "printed"), (
                claim.id
            )

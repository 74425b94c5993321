"""The ledger rows on trained weights: their verdicts, and that wrong data would turn them."""

import numpy as np

from superposition.validate.claims import cowsik_structure
from superposition.validate.claims.cowsik_structure import STRUCTURE
from superposition.validate.claims.ledger import verdict


def test_models_that_followed_the_print_would_be_believed(monkeypatch):
    rng = np.random.default_rng(0)
    ds = cowsik_structure._trained().copy(deep=True)
    n = ds["n_features"].values
    noise = 1 + 0.01 * rng.standard_normal(ds["loss"].shape)
    for name in ("diagonal_sd", "bias_sd", "row_variance_variance", "lyapunov_max"):
        ds[name] = (("end", "model"), noise / np.sqrt(n))
    ds["row_variance_spread"] = (("end", "model"), noise / n)
    ds["excess"] = (("end", "model"), noise - 1)
    monkeypatch.setattr(cowsik_structure, "_trained", lambda: ds)
    for claim in STRUCTURE:
        if claim.id in ("C27", "C29", "C30", "C31"):
            assert str(verdict(claim.check(True))) == "holds", claim.id

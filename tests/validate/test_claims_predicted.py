"""Row P5: what was predicted of trained pairs, judged on losses that are made up."""

import numpy as np
import xarray as xr

from superposition.validate.ledger import prieto
from superposition.validate.ledger.claim import verdict

NAMES = {"kind": ["exclusive"], "strength": [1.0], "p": [0.4], "ratio": [0.125]}


def data(losses, sizes):
    """Return losses (n_features, seed) of one case as `run_groups` does, and a code of loss 1."""
    case = {name: ("case", values) for name, values in NAMES.items()}
    at = ("case", "n_features", "steps", "seed")
    trained = xr.Dataset({"trained": (at, np.array(losses)[None, :, None])}, {"n_features": sizes, **case})
    return trained, xr.Dataset({"predicted": (("case", "pairs"), [[1.0]])}, case)


def test_some_models_are_at_the_code_and_none_is_below():
    large, code = data([8 * [1.0]], [32])
    other = code.assign_coords(p=("case", [0.5]))
    for losses, found in (
        ([1.0] + 7 * [1.2], "holds"),
        (8 * [1.2], "wrong"),
        ([0.99] + 7 * [1.0], "wrong"),
        (4 * [1.0], "unsettled: too few runs"),
    ):
        small, _ = data([losses], [16])
        assert str(verdict(prieto.check_p5.check(True, small, large, code, other))) == found

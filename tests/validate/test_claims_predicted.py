"""Rows P4 and P5: what was predicted of trained pairs, judged on losses that are made up."""

import numpy as np
import pytest
import xarray as xr

from superposition.validate.claims import prieto
from superposition.validate.claims.ledger import verdict

NAMES = {"kind": ["exclusive"], "strength": [1.0], "p": [0.4], "ratio": [0.125]}


def data(losses, sizes):
    """Return losses (n_features, seed) of one case as `run_groups` does, and a code of loss 1."""
    case = {name: ("case", values) for name, values in NAMES.items()}
    at = ("case", "n_features", "steps", "seed")
    trained = xr.Dataset({"trained": (at, np.array(losses)[None, :, None])}, {"n_features": sizes, **case})
    return trained, xr.Dataset({"predicted": (("case", "pairs"), [[1.0]])}, case)


@pytest.mark.parametrize(
    ("seeds", "over", "found"),
    [
        (8, 1.0, "holds"),
        (8, 1.1, "wrong"),
        (8, 0.9, "wrong"),
        (4, 1.0, "unsettled: too few runs"),
    ],
)
def test_limits_are_those_of_the_code_only_where_all_agree(seeds, over, found):
    scatter = 0.01 * np.random.default_rng(1).standard_normal((2, seeds))
    scatter -= scatter.mean(axis=1, keepdims=True)
    row = prieto.p4.check(True, *data(over + scatter, [32, 64]), *data(1 + scatter, [32, 64]))
    assert str(verdict(row)) == found


def test_a_third_size_off_the_line_refutes_the_prediction():
    scatter = 1e-4 * np.random.default_rng(0).standard_normal((3, 8))
    scatter -= scatter.mean(axis=1, keepdims=True)
    row = prieto.p4.check(True, *data(1 + scatter + [[0.0], [0.0], [0.01]], [32, 64, 128]))
    assert str(verdict(row)) == "wrong"
    assert str(verdict(prieto.p4.check(True, *data(1 + scatter, [32, 64, 128])))) == "holds"


@pytest.mark.parametrize(
    ("losses", "found"),
    [
        ([1.0] + 7 * [1.2], "holds"),
        (8 * [1.2], "wrong"),
        ([0.99] + 7 * [1.0], "wrong"),
        (4 * [1.0], "unsettled: too few runs"),
    ],
)
def test_some_models_are_at_the_code_and_none_is_below(losses, found):
    small, code = data([losses], [16])
    large, _ = data([8 * [1.0]], [32])
    other = code.assign_coords(p=("case", [0.5]))
    row = prieto.p5.check(True, small, large, code, other)
    assert str(verdict(row)) == found

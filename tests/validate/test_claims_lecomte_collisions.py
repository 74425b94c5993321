"""What the ledger says of meeting encodings, and that a wrong statement of them does not get away."""

import numpy as np
import pytest
import xarray as xr

from superposition.solvers import collisions as solvers
from superposition.solvers.statistics import Family, mean
from superposition.theory.collisions import quoted_polysemantic
from superposition.validate import ledger
from superposition.validate.ledger import Claim, Evidence, Finding, Verdict, lecomte_polysemantic, verdict
from superposition.validate.ledger.claim import derived, not_refuted
from superposition.validate.ledger.lecomte_collisions import ALPHA, draw_weights


def no_interference_between_equal_signs(quick):
    """Take malign pairs for benign ones."""
    W0 = [[0.8, 0.6, 0.0], [0.6, 0.0, 0.8]]
    apart, together = (solvers.flow(W0, 0.01, 5.0, interference).W for interference in (False, True))
    return Evidence("", [Finding("printed", "numeric", "change", np.abs(apart - together).max(), "==", 0.0)])


def double_count(quick):
    """Take n^2/(2m) for the number of polysemantic neurons."""
    n, m, runs = 32, 64, 20
    W0 = np.stack([draw_weights(seed, n, m) for seed in range(runs)])
    ratios = solvers.flow(W0, 3e-3, 2000.0, tol=1e-4).polysemantic[:, -1] / (n * n / (2 * m))
    return Evidence("", [not_refuted("ratio", Family(ALPHA, 1).of(mean, ratios), ">=", derived(1.0))])


@pytest.mark.parametrize("check", [no_interference_between_equal_signs, double_count])
def test_canary_a_wrong_statement_fails(check):
    assert verdict(Claim("X1", "nobody2000", "1", "wrong", check).check(True)) is Verdict.WRONG


@pytest.mark.parametrize(
    ("id", "expected"),
    [
        ("L1", Verdict.HOLDS),
        ("L2", Verdict.HOLDS),
        ("L14", Verdict.UP_TO_CONSTANTS),
        ("L15", Verdict.INCOMPLETE),
        ("L16", Verdict.OVERSTATED),
        ("L17", Verdict.HOLDS),
    ],
)
def test_rows_that_need_no_experiment(id, expected):
    (row,) = ledger.run([id])
    assert row.verdict is expected
    assert all(one.alarm == ALPHA for one in row.evidence.findings if one.kind == "experiment")


def counted(constant, seed, power=0.0, runs=16):
    """Return counts at the source's sizes that are Poisson about constant n^2/m (m/256)^power."""
    m, rng = np.array([256, 512, 1024, 2048, 4096]), np.random.default_rng(seed)
    rates = constant * 256**2 / m * (m / 256) ** power
    return xr.Dataset(
        {
            "polysemantic": (("n_hidden", "run"), rng.poisson(rates[:, None], (m.size, runs)).astype(float)),
            "quoted": ("n_hidden", quoted_polysemantic(256, m)),
            "dead": (("n_hidden", "run"), np.zeros((m.size, runs))),
        },
        {"n_hidden": m},
        {"n_features": 256, "lam": 1e-3},
    )


@pytest.mark.parametrize(
    ("constant", "power", "kept"),
    [(0.25, 0, True), (0.6, 0, False), pytest.param(0.25, 0.4, False, marks=pytest.mark.slow)],
)
def test_fig3_keeps_its_print_only_if_constant_and_trend_are_right(constant, power, kept):
    trained = counted(constant, 1, power).expand_dims(step=[7500])
    flow = counted(0.25, 2, runs=64)
    small = flow.assign_coords(n_hidden=[32, 64, 128, 256, 512]).assign_attrs(n_features=32)
    fresh = small.isel(n_hidden=[1])
    evidence = lecomte_polysemantic.check_l18.check(True, trained, flow, small, fresh)
    assert all(one.passed for one in evidence.findings if one.about == "printed") is kept


def test_a_feature_on_no_neuron_has_no_winner():
    won = np.zeros((1, 8, 3))
    won[..., 0], won[..., 1] = 0.1, np.linspace(0.3, 0.31, 8)
    dead = xr.DataArray(np.full((1, 8), 19.0), dims=("n_hidden", "run"))
    ds = xr.Dataset({"won": (("n_hidden", "run", "rank"), won), "dead": dead}, {"n_hidden": [32]})
    evidence = lecomte_polysemantic.check_l19.check(True, ds.assign_attrs(n_features=32))
    assert verdict(evidence) is Verdict.WRONG
    assert "59.38% of all" in evidence.text

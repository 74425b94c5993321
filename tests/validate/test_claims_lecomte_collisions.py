"""What the ledger says of meeting encodings, and that a wrong statement of them does not get away."""

import numpy as np
import xarray as xr

from superposition.theory.collisions import quoted_polysemantic
from superposition.validate import ledger
from superposition.validate.ledger import Verdict, lecomte_polysemantic, verdict
from superposition.validate.ledger.lecomte_collisions import ALPHA


def test_rows_that_need_no_experiment():
    expected = {
        "L1": Verdict.HOLDS,
        "L2": Verdict.HOLDS,
        "L14": Verdict.UP_TO_CONSTANTS,
        "L15": Verdict.INCOMPLETE,
        "L16": Verdict.OVERSTATED,
        "L17": Verdict.HOLDS,
    }
    for row in ledger.run(list(expected)):
        assert row.verdict is expected[row.claim.id], row.claim.id
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


def test_fig3_keeps_its_print_only_if_constant_and_trend_are_right():
    flow = counted(0.25, 2, runs=64)
    small = flow.assign_coords(n_hidden=[32, 64, 128, 256, 512]).assign_attrs(n_features=32)
    for constant, power, kept in ((0.25, 0, True), (0.6, 0, False), (0.25, 0.4, False)):
        trained = counted(constant, 1, power).expand_dims(step=[7500])
        evidence = lecomte_polysemantic.check_l18.check(True, trained, flow, small, small.isel(n_hidden=[1]))
        assert all(one.passed for one in evidence.findings if one.about == "printed") is kept


def test_a_feature_on_no_neuron_has_no_winner():
    won = np.zeros((1, 8, 3))
    won[..., 0], won[..., 1] = 0.1, np.linspace(0.3, 0.31, 8)
    dead = xr.DataArray(np.full((1, 8), 19.0), dims=("n_hidden", "run"))
    ds = xr.Dataset({"won": (("n_hidden", "run", "rank"), won), "dead": dead}, {"n_hidden": [32]})
    evidence = lecomte_polysemantic.check_l19.check(True, ds.assign_attrs(n_features=32))
    assert verdict(evidence) is Verdict.WRONG
    assert "59.38% of all" in evidence.text

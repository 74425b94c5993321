"""Runs whose data are stored give at small sizes the numbers that they gave, see `snapshot.py`."""

from typing import Any

import pytest

from superposition.validate.runner import registry

from .. import snapshot

CASES = [("exclusive", 1.0, 0.2, 0.5), ("synchronous", 1.0, 0.2, 0.25)]
GROUPS = {"cases": CASES, "sizes": [8, 16], "seeds": [0, 1]}
RUNS: dict[str, dict[str, Any]] = {
    "codes.lines": {"codes": ["triangle"], "lowest": 0.05, "tol": 1e-3},
    "codes.polished": {
        "n_features": 4, "p": [0.2], "ratio": [0.5], "seeds": [0], "train_steps": 100, "steps": 50,
    },
    "collisions.printed": {
        "n_hidden": [8, 16], "seeds": range(2), "n_features": 8, "lam": 0.1, "steps": [10, 200],
    },
    "relu.stages": {"seeds": [0, 1], "scales": [1e-2]},
    "unequal.width": {"alpha": [1.0], "n_hidden": [2, 4], "n_features": 8, "steps": [100, 200], "batch": 64},
    "unequal.descended": {
        "alpha": [1.0], "n_hidden": [2, 4], "n_features": 8, "train_steps": 100, "steps": 5,
    },
    "unequal.bracket": {"alpha": [0.0, 1.5], "ratio": [0.1, 0.3], "number_on": [1.0], "n_features": 20},
    "unequal.codes": {"alpha": [0.0, 1.0], "ratio": [0.1, 0.3], "number_on": [1.0], "n_features": 20},
    "unequal.groups": {**GROUPS, "steps": [100, 200], "samples": 1024},
    "unequal.polished": {"cases": CASES, "seeds": [0, 1], "n_features": 8, "steps": 40, "descents": 3},
    "unequal.blocks": {**GROUPS, "starts": 0},
    "unequal.tables": {
        "n_hidden": [2], "decays": [0.0], "seeds": [0], "n_features": 6, "steps": 50, "starts": 1,
    },
    "decoders.trained": {"n_features": 16, "seeds": [0], "steps": [20, 40], "batch": 64, "samples": 2**11},
    "noise.fresh": {"n_features": 4, "n_hidden": 4, "time": 5.0, "lone_runs": 3, "averaged_runs": 2},
    "sae.dense": {
        "nested": [1.0], "l1": [1e-2], "n_latents": [16], "n_hidden": 4, "n_features": 16, "steps": 10,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_numbers_are_those_stored(name, pytestconfig):
    pytest.importorskip("torch", reason="some runs train")
    ds = registry.find_run(name).function(**RUNS[name])
    snapshot.compare(f"run {name}", dict(snapshot.of_dataset(ds)), pytestconfig.getoption("--renew-numbers"))

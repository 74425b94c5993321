"""The table of speed: it is made from what was measured, and that is of the benchmarks as they stand.

No time is judged here: `make bench` measures.
"""

import ast
import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "tests" / "benchmarks"
PAGE = ROOT / "docs" / "benchmarks.md"
MEASURED = json.loads(PAGE.with_suffix(".json").read_text(encoding="utf-8"))
# What the engine is to be seen beside.
OTHERS = (
    "solve_ivp",
    "solve_nivp",
    "diffrax",
    "torchdiffeq",
    "over quad",
    "eager PyTorch",
    "samples in eager",
)
FLOORS = ("np.sort", "ndtr", "matrix products")


@pytest.fixture(scope="module")
def table():
    spec = importlib.util.spec_from_file_location("table", FOLDER / "table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_data_are_of_the_benchmarks_as_they_stand():
    written = set()
    for path in FOLDER.glob("bench_*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
        written |= {f"{path.name.removeprefix('bench_')}::{name}" for name in names if name[:5] == "test_"}
    assert {one["name"].partition("[")[0] for one in MEASURED["benchmarks"]} == written


def test_every_record_is_whole():
    for one in MEASURED["benchmarks"]:
        for spread in [one["seconds"], *(part for o in one["others"] for part in (o["seconds"], o["ratio"]))]:
            assert len(spread) == 3
            assert 0 < spread[0] <= spread[1] <= spread[2]
        for other in one["others"]:
            # Ratios are of rounds, so that their median is near the ratio of medians, not equal to it.
            assert other["ratio"][1] == pytest.approx(other["seconds"][1] / one["seconds"][1], rel=0.5)


def test_a_fast_answer_that_is_worse_is_no_win(table):
    record = {"work": "w", "at": "n = 1", "seconds": [1.0, 2.0, 3.0], "error": 2e-8, "size": None, "note": ""}
    other = {"name": "o", "floor": False, "seconds": [9.0] * 3, "ratio": [3.0, 4.0, 5.0], "error": 1e-8}
    (row,) = table.beside([record | {"others": [other]}])
    assert "**less exact**" in row
    said = ["- w, n = 1: o takes 4 times as long as we do, and is more exact."]
    assert table.lost([record | {"others": [other]}]) == said
    assert table.lost([record | {"error": 1e-8, "others": [other]}]) == []
    assert table.lost([record | {"error": None, "others": [other]}]) == []


def test_everything_to_be_compared_with_is_there():
    found = [(other["name"], other["floor"]) for one in MEASURED["benchmarks"] for other in one["others"]]
    for names, floor in ((OTHERS, False), (FLOORS, True)):
        for name in names:
            assert any(name in there and is_floor == floor for there, is_floor in found), name
    assert {"processor", "cores", "load", "python", "numpy", "jax"} <= set(MEASURED["machine_info"])


def test_exponents_are_those_of_a_power_with_their_error(table):
    sizes = [8, 16, 32, 64, 128]
    slope, error = table.exponent(sizes, [3.0 * size**1.7 for size in sizes])
    assert slope == pytest.approx(1.7, abs=1e-12)
    assert error < 1e-12
    # Against np.polyfit, whose covariance is another way to the same error.
    seconds = np.array([1.0, 3.0, 7.0, 20.0, 38.0])
    (fitted, _), covariance = np.polyfit(np.log(sizes), np.log(seconds), 1, cov=True)
    assert table.exponent(sizes, seconds) == pytest.approx((fitted, covariance[0, 0] ** 0.5))


def test_a_loss_is_said(table):
    record = {"work": "w", "at": "n = 1", "seconds": [1.0, 2.0, 3.0], "error": None, "size": None, "note": ""}
    other = {"name": "o", "floor": False, "seconds": [1.0, 1.0, 1.0], "ratio": [0.4, 0.5, 0.6], "error": None}
    (row,) = table.beside([record | {"others": [other]}])
    assert "**we lose**" in row
    assert table.lost([record | {"others": [other]}]) == ["- w, n = 1: o takes 0.5 times as long as we do."]
    (row,) = table.beside([record | {"others": [other | {"ratio": [1.4, 1.5, 1.6]}]}])
    assert "**we lose**" not in row
    (row,) = table.floors([record | {"others": [other | {"floor": True}]}])
    assert row[-1] == "2 (1.67 to 2.5)"


def test_runs_of_several_machines_are_not_one(table):
    other = MEASURED | {"machine_info": MEASURED["machine_info"] | {"processor": "another"}}
    assert table.merged([MEASURED, MEASURED]) == MEASURED
    with pytest.raises(ValueError, match=r"`measured` must be of one machine .*got .*another"):
        table.merged([MEASURED, other])

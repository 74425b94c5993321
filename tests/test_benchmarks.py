"""The table of speed: it is made from what was measured, and that is of the benchmarks as they stand.

No time is judged here: `make bench` measures.
"""

import ast
import json
import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "tests" / "benchmarks"
TABLE = SimpleNamespace(**runpy.run_path(str(FOLDER / "table.py")))
PAGE = ROOT / "docs" / "benchmarks.md"
MEASURED = json.loads(PAGE.with_suffix(".json").read_text(encoding="utf-8"))


def test_the_data_are_of_the_benchmarks_as_they_stand():
    written = set()
    for path in FOLDER.glob("bench_*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
        written |= {f"{path.name.removeprefix('bench_')}::{name}" for name in names if name[:5] == "test_"}
    assert {one["name"].partition("[")[0] for one in MEASURED["benchmarks"]} == written


def test_what_is_slower_or_less_exact_is_said():
    record = {"work": "w", "at": "n = 1", "seconds": [1.0, 2.0, 3.0], "error": 2e-8, "size": None, "note": ""}
    other = {"name": "o", "floor": False, "seconds": [9.0] * 3, "ratio": [3.0, 4.0, 5.0], "error": 1e-8}
    less_exact = "- w, n = 1: o takes 4 times as long as we do, and is more exact."
    for ratio, error, word, lost in (
        ([3.0, 4.0, 5.0], 2e-8, "**less exact**", [less_exact]),
        ([3.0, 4.0, 5.0], 1e-8, "", []),
        ([0.4, 0.5, 0.6], None, "**we lose**", ["- w, n = 1: o takes 0.5 times as long as we do."]),
    ):
        one = record | {"error": error, "others": [other | {"ratio": ratio}]}
        (row,) = TABLE.beside([one])
        assert [mark for mark in ("**less exact**", "**we lose**") if mark in row] == [word] * bool(word)
        assert TABLE.lost([one]) == lost


def test_exponents_are_those_of_a_power_with_their_error():
    """Against np.polyfit, whose covariance is another way to the same error."""
    sizes, seconds = [8, 16, 32, 64, 128], np.array([1.0, 3.0, 7.0, 20.0, 38.0])
    (fitted, _), covariance = np.polyfit(np.log(sizes), np.log(seconds), 1, cov=True)
    assert TABLE.exponent(sizes, seconds) == pytest.approx((fitted, covariance[0, 0] ** 0.5))


def test_records_of_another_machine_say_so():
    def run(processor, date, load, *names):
        records = [{"name": name, "note": "n" * (name == "b")} for name in names]
        about = {"processor": processor, "load": [load]}
        return {"machine_info": about, "datetime": date, "benchmarks": records}

    runs = (
        ("A", "2026-01-01T1", 1.0, "a", "b"),
        ("A", "2026-01-02T1", 0.5, "c"),
        ("B", "2026-01-03T1", 9.0, "b"),
    )
    page, elsewhere = TABLE.merged([run(*one) for one in runs]), "on B, 2026-01-03, load 9.0"
    assert (page["machine_info"], page["datetime"]) == ({"processor": "A", "load": [1.0]}, "2026-01-02T1")
    notes = {one["name"]: one["note"] for one in page["benchmarks"]}
    assert notes == {"a": "", "b": f"n; {elsewhere}", "c": ""}

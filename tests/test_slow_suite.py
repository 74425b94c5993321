"""The shards of the suite are all of it together; the record of them says what failed, and is not old."""

import datetime
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SUITE = """
import pytest

@pytest.mark.parametrize("number", range(24))
def test_number(number):
    assert number != 7
"""


def test_shards_hold_each_test_once_and_record_what_fails(tmp_path):
    shutil.copy(HERE / "conftest.py", tmp_path)
    (tmp_path / "test_numbers.py").write_text(SUITE, encoding="utf-8")

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        # Without installed plugins, but for that of `--hypothesis-seed`: importing them takes a second.
        command = [sys.executable, "-m", "pytest", "-v", "-rs", "-p", "_hypothesis_pytestplugin", *options]
        alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        return subprocess.run(command, cwd=tmp_path, env=alone, capture_output=True, text=True, check=False)

    record = tmp_path / "record.json"
    whole = [run("--shard", f"{number}/2", "--record", str(record)) for number in (1, 2)]
    names = [re.findall(r"^\S+::test_number\[(\d+)\] (?:PASSED|FAILED)", done.stdout, re.M) for done in whole]
    assert sorted(int(name) for shard in names for name in shard) == list(range(24))
    shards = json.loads(record.read_text(encoding="utf-8"))
    for k, shard in enumerate(names):
        made, fails = shards[f"{k + 1}/2"], "7" in shard
        assert (whole[k].returncode, made["passed"]) == (fails, len(shard) - fails)
        assert made["failed"] == ["test_numbers.py::test_number[7]"] * fails
    before = record.read_bytes()
    capped = run("--shard", "1/2", "--record", str(record), "--seconds", "0")
    assert capped.returncode == 0
    assert f"SKIPPED [{len(names[0])}]" in capped.stdout
    assert record.read_bytes() == before
    assert "3/2" in run("--shard", "3/2").stderr
    assert run("--record", str(tmp_path / "files.json"), "test_numbers.py").returncode == 1
    of_file = json.loads((tmp_path / "files.json").read_text(encoding="utf-8"))["test_numbers.py"]
    assert (of_file["passed"], of_file["failed"]) == (23, ["test_numbers.py::test_number[7]"])

    (name,) = (name for name in shards if shards[name]["failed"])
    (tmp_path / "test_numbers.py").write_text(SUITE.replace("!= 7", ">= 0"), encoding="utf-8")
    assert run("--shard", name, "--record", str(record), "--again").returncode == 0
    mended = {"passed": shards[name]["passed"] + 1, "failed": []}
    assert json.loads(record.read_text(encoding="utf-8")) == shards | {name: shards[name] | mended}


def test_each_shard_has_run_within_two_weeks_of_the_last_commit():
    record = json.loads((HERE / "slow_suite.json").read_text(encoding="utf-8"))
    git = ["git", "log", "-1", "--format=%cs"]
    committed = subprocess.run(git, cwd=HERE, capture_output=True, text=True, check=True).stdout.strip()
    targets = {f"{number}/12": f"test-all SHARDS={number}" for number in range(1, 13)}
    for name, target in (targets | {"tests/validate/test_saelens.py": "test-saelens"}).items():
        age = datetime.date.fromisoformat(committed) - datetime.date.fromisoformat(record[name]["date"])
        assert age.days <= 14, f"make {target}"

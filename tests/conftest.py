"""Shared settings: which tests share a worker, what a shard holds, and whether property tests are random."""

import datetime
import importlib
import json
import os
import pickle
import random
import signal
import subprocess
import time
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# The first call of a kernel compiles it, so no example has a deadline.
_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("repeatable", derandomize=True, max_examples=45, **_COMMON)
settings.register_profile("random", max_examples=400, print_blob=True, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


# What a machine may lack. With `--strict-skips` any other skip is a failure: no test drops out unnoticed.
ALLOWED_SKIPS = (
    "needs a GPU", "chromium", "make test-saelens", "pip install devinterp", "--seconds are over",
)  # fmt: skip
_BEGUN = time.monotonic()
# What runs code that is shown, and compiles for it.
EXAMPLES = ("test_doctests.py", "test_docs.py", "test_printed.py", "test_start.py")


def _shard(text: str) -> tuple[int, int]:
    number, count = map(int, text.split("/"))
    if not 1 <= number <= count:
        raise ValueError
    return number, count


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--strict-skips", action="store_true", help="fail where a test is skipped unexpectedly")
    parser.addoption("--shard", type=_shard, metavar="K/N", help="run the tests whose hash is K modulo N")
    parser.addoption("--seconds", type=float, help="skip, and count, what has not begun after this time")
    parser.addoption("--record", type=Path, help="write what became of the shard or file into this JSON file")
    parser.addoption("--renew-numbers", choices=("all", "drop"), help="write numbers.json, see snapshot.py")
    parser.addoption("--again", action="store_true", help="of the shard, run what has failed by its --record")


def _read_record(file: Path) -> dict[str, Any]:
    """Return what became of shards, by names such as "3/12", and of files that ran without a shard."""
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    seconds = item.config.getoption("--seconds")
    if seconds is not None and time.monotonic() - _BEGUN > seconds:
        pytest.skip("not run: --seconds are over")


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    """Write the record, but not of a shard that was broken off or was given too little time."""
    file, reports = config.getoption("--record"), terminalreporter.stats
    if file is None or exitstatus > 1 or config.getoption("--seconds") is not None:
        return
    shards, shard = _read_record(file), config.getoption("--shard")
    name = "{}/{}".format(*shard) if shard else " ".join(config.args)
    failed = sorted({report.nodeid for bad in ("failed", "error") for report in reports.get(bad, ())})
    counts = {outcome: len(reports.get(outcome, ())) for outcome in ("passed", "skipped", "xfailed")}
    if config.getoption("--again"):
        passed = {report.nodeid for report in reports.get("passed", ())}
        failed = [test for test in shards[name]["failed"] if test not in passed]
        shards[name] |= {"passed": shards[name]["passed"] + counts["passed"], "failed": failed}
    else:
        git = ["git", "rev-parse", "HEAD"]
        commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
        today = datetime.date.today().isoformat()
        shards[name] = {"date": today, "commit": commit, **counts, "failed": failed}
    file.write_text(json.dumps(dict(sorted(shards.items())), indent=1) + "\n", encoding="utf-8")


def _fail_if_skipped(report: Any, config: pytest.Config) -> Any:
    reason = str(report.longrepr)
    expected = hasattr(report, "wasxfail") or any(allowed in reason for allowed in ALLOWED_SKIPS)
    if report.skipped and not expected and config.getoption("--strict-skips"):
        report.outcome, report.longrepr = "failed", f"no skip that tests/conftest.py allows: {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    return _fail_if_skipped((yield), item.config)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Any:
    return _fail_if_skipped((yield), collector.config)


# A shell lets jobs in the background ignore Ctrl-C. Here, and in what tests start, it is answered.
signal.signal(signal.SIGINT, signal.default_int_handler)


def _group(name: str) -> str:
    """Return what tests of this name share a worker with: those of their file, or of a larger group.

    What is derived is kept by its process; what documented blocks ask for and the explorer's data as well.
    """
    folder, _, file = name.partition("::")[0].rpartition("/")
    if folder == "tests/theory" or ".derive]" in name:
        return "theory"
    if name.endswith("[superposition.validate.report]"):
        return "tests/validate/test_explorer.py"
    return "whole" if folder == "tests" and file not in EXAMPLES else f"{folder}/{file}"


@pytest.fixture
def random_seed(pytestconfig: pytest.Config) -> int:
    """Return the seed of `--hypothesis-seed`, else one that nobody chose. Tests name it where they fail."""
    seed = pytestconfig.getoption("--hypothesis-seed")
    return int(seed) if seed not in (None, "random") else random.SystemRandom().randrange(2**32)


_FOUND: dict[bytes, Any] = {}


@pytest.fixture
def found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute what takes seconds once for all documented blocks that ask for the same."""
    for module, name in (
        ("validate.api.phases", "phase_diagram"),
        ("solvers.unequal", "mean_field"),
        ("solvers.unequal", "block_optimum"),
    ):
        package = importlib.import_module(f"superposition.{module}")
        compute = getattr(package, name)

        def found(*asked: Any, _name: str = name, _compute: Any = compute, **given: Any) -> Any:
            key = pickle.dumps((_name, asked, given))
            if key not in _FOUND:
                _FOUND[key] = _compute(*asked, **given)
            return _FOUND[key]

        monkeypatch.setattr(package, name, found)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    """Put the long groups first, then what compiles little, and last what the examples compile for.

    Of a shard, the groups stand in an order that the seed draws: `--seconds` leaves out others each time.
    """
    if not config.getoption("--shard"):
        first = {"theory": 0, "tests/test_doctests.py": 1, "whole": 2}
        items.sort(key=lambda item: first.get(_group(item.nodeid), 3 + ("/solvers/" in item.nodeid)))
        return
    number, count = config.getoption("--shard")
    chosen = [item for item in items if zlib.crc32(item.nodeid.encode()) % count == number % count]
    if config.getoption("--again"):
        failed = _read_record(config.getoption("--record"))[f"{number}/{count}"]["failed"]
        chosen = [item for item in chosen if item.nodeid in failed]
    inside = set(chosen)
    config.hook.pytest_deselected(items=[item for item in items if item not in inside])
    items[:] = chosen
    seed = config.getoption("--hypothesis-seed")
    items.sort(key=lambda item: zlib.crc32(f"{seed} {_group(item.nodeid)}".encode()))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let tests of a group share a worker (the mark that xdist has for this does nothing in pytest 9.2)."""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _group(nodeid)

    return Groups(config, log)

"""Shared settings: which tests share a worker, and property tests that are random in the slow suite alone."""

import importlib
import os
import pickle
import signal
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
    "needs a GPU",
    "chromium",
    "pip install sae-lens",
    "pip install lightning",
    "pip install devinterp",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--strict-skips", action="store_true", help="fail where a test is skipped unexpectedly")


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

    What is derived is kept by its process, and what documented blocks ask for as well.
    """
    folder, _, file = name.partition("::")[0].rpartition("/")
    if folder == "tests/theory" or ".derive]" in name:
        return "theory"
    return "whole" if folder == "tests" and file != "test_doctests.py" else f"{folder}/{file}"


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
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the long groups first, then what compiles little, and last what the examples compile for."""
    first = {"theory": 0, "tests/test_doctests.py": 1, "whole": 2}
    items.sort(key=lambda item: first.get(_group(item.nodeid), 3 + ("/solvers/" in item.nodeid)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let tests of a group share a worker (the mark that xdist has for this does nothing in pytest 9.2)."""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _group(nodeid)

    return Groups(config, log)

"""Shared settings: which tests share a worker, and property tests that are random in the slow suite alone."""

import importlib
import os
import pickle
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# The first call of a kernel compiles it, so no example has a deadline.
_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("repeatable", derandomize=True, max_examples=45, **_COMMON)
settings.register_profile("random", max_examples=400, print_blob=True, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# What is derived is kept by its process, and what is compiled by the disk. So one worker begins with all that
# derives, and the other with the examples, which compile nearly every kernel before a test asks for it.
_DERIVE = (
    "test_derivations.py",
    "test_linear_derive.py",
    "theory/test_rug.py",
    "theory/test_sparsification.py",
    "test_claims_noise_theory.py",
    "theory/test_special_normal.py",
    "theory/test_features_values.py",
    "theory/test_noise_potential.py",
    "theory/test_noise_predict.py",
    "theory/test_features.py",
)


# Documented blocks ask for the same several times.
_DOCUMENTED = ("tests/test_docs.py", "tests/test_printed.py", "tests/test_start.py")


def _group(name: str) -> str:
    """Return what tests of this name share a worker with: those of their file, or of a larger group."""
    path = name.partition("::")[0]
    if path in _DOCUMENTED:
        return "documented"
    return "derivations" if path.endswith(_DERIVE) or ".derive]" in name else path


_FOUND: dict[bytes, Any] = {}


@pytest.fixture
def found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute what takes seconds once for all documented blocks that ask for the same."""
    for module, name in (
        ("validate.door.phases", "phase_diagram"),
        ("solvers.unequal", "mean_field"),
        ("solvers.unequal", "block_optimum"),
    ):
        room = importlib.import_module(f"superposition.{module}")
        compute = getattr(room, name)

        def found(*asked: Any, _name: str = name, _compute: Any = compute, **given: Any) -> Any:
            key = pickle.dumps((_name, asked, given))
            if key not in _FOUND:
                _FOUND[key] = _compute(*asked, **given)
            return _FOUND[key]

        monkeypatch.setattr(room, name, found)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the two long groups first, then what compiles little, and last what the examples compile for."""
    first = {"derivations": 0, "tests/test_doctests.py": 1}
    folders = {"theory": 2, "validate": 3, "solvers": 5}
    items.sort(
        key=lambda item: first.get(_group(item.nodeid), folders.get(item.nodeid.split("/")[1], 4)),
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let tests of a group share a worker (the mark that xdist has for this does nothing in pytest 9.2)."""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _group(nodeid)

    return Groups(config, log)

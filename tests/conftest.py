"""Shared settings: which tests share a worker, and property tests that are random in the slow suite alone."""

import os
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


def _group(name: str) -> str:
    """Return what tests of this name share a worker with: those of their file, or all that derives."""
    path = name.partition("::")[0]
    return "derivations" if path.endswith(_DERIVE) or ".derive]" in name else path


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

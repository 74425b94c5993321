"""Shared settings: which tests share a worker, and property tests that are random in the slow suite alone."""

import os

import pytest
from hypothesis import HealthCheck, settings

# The first call of a kernel compiles it, so no example has a deadline.
_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("repeatable", derandomize=True, max_examples=60, **_COMMON)
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
    "theory/test_special_values.py",
    "theory/test_noise_potential.py",
    "theory/test_noise_predict.py",
    "theory/test_features.py",
)


def _group(item: pytest.Item) -> str:
    path = item.nodeid.partition("::")[0]
    return "derivations" if path.endswith(_DERIVE) or ".derive]" in item.nodeid else path


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests of a file one worker, and the long groups to the two workers first."""
    first = {"derivations": 0, "tests/test_doctests.py": 1}
    groups = {item: _group(item) for item in items}
    for item, group in groups.items():
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: first.get(groups[item], 2))

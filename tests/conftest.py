"""Shared settings: property tests are repeatable in the ordinary suite, random in the slow one."""

import os

from hypothesis import HealthCheck, settings

# The first call of a kernel compiles it, so no example has a deadline.
_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("repeatable", derandomize=True, max_examples=60, **_COMMON)
settings.register_profile("random", max_examples=400, print_blob=True, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

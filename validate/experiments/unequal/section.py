"""The part of the report on features that differ or depend on each other."""

from ...runner.declarations import Section
from . import bracket, codes, correlated, scaling

SECTION = Section(
    "unequal",
    "Features that differ or depend on each other",
    scaling.TEXT + correlated.TEXT,
    scaling.RUNS | bracket.RUNS | codes.RUNS | correlated.RUNS,
    [*scaling.TOPICS, *bracket.TOPICS, *codes.TOPICS, *correlated.TOPICS],
)

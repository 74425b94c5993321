"""The part of the report on features that differ or depend on each other."""

from ..experiment import Section
from . import bracket, codes, correlated, published, scaling

SECTION = Section(
    "unequal",
    "Features that differ or depend on each other",
    scaling.TEXT + correlated.TEXT,
    scaling.RUNS | published.RUNS | bracket.RUNS | codes.RUNS | correlated.RUNS,
    [*scaling.TOPICS, *published.TOPICS, *bracket.TOPICS, *codes.TOPICS, *correlated.TOPICS],
)

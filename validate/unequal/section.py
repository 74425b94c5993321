"""The part of the report on features that differ or depend on each other."""

from ..experiment import Section
from . import correlated, scaling

SECTION = Section(
    "unequal",
    "Features that differ or depend on each other",
    scaling.TEXT + correlated.TEXT,
    scaling.EXPERIMENTS | correlated.EXPERIMENTS,
    [*scaling.TOPICS, *correlated.TOPICS],
)

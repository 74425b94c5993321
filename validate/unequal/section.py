"""The part of the report on features that differ or depend on each other."""

from ..experiment import Section
from .correlated import EXPERIMENTS, TEXT, TOPICS

SECTION = Section("unequal", "Features that depend on each other", TEXT, EXPERIMENTS, TOPICS)

"""The part of the report on features that differ."""

from ..experiment import Section
from .scaling import EXPERIMENTS, TEXT, TOPICS

SECTION = Section("unequal", "Features that differ: capacities and the width law", TEXT, EXPERIMENTS, TOPICS)

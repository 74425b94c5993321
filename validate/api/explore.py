"""The explorer: an HTML page on which models can be dragged."""

from ..report import explorer
from .entry import entry

explore = entry(explorer.explore)

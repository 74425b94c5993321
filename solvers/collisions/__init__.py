"""The interference flow of Lecomte et al. (2024), §2: many encodings, the l1 force, collisions."""

from .assign import Assignment, assign
from .collide import Collision, collide
from .flow import Flow, flow, flow_untied, owners

__all__ = ["Assignment", "Collision", "Flow", "assign", "collide", "flow", "flow_untied", "owners"]

"""The interference flow of Lecomte et al. (2024), §2: many encodings, the l1 force, collisions."""

from .assign import Assignment, assign
from .collide import Collision, collide
from .counts import collision_counts
from .displaced import displaced_polysemantic
from .flow import Flow, flow, flow_untied, owners
from .splitting import Split, outcomes, split_neurons

__all__ = [
    "Assignment", "Collision", "Flow", "Split", "assign", "collide", "collision_counts",
    "displaced_polysemantic", "flow", "flow_untied", "outcomes", "owners", "split_neurons",
]  # fmt: skip

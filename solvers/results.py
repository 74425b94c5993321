"""Status of solvers, in terms of the contract of all results (`theory.results`)."""

import enum

from ..theory.results import frozen, result

__all__ = ["Status", "frozen", "result"]


class Status(enum.Enum):
    """How a solver ended; the value of each member is a sentence with advice."""

    REACHED = "The end was reached within the tolerance that was asked for."
    CONVERGED = "Converged: the gradient is as small as was asked for."
    STEPS = "The budget of steps ran out first: raise it, or start closer to the end."
    STALLED = "Rounding stopped the progress before the tolerance was met: loosen it, or rescale the input."
    DIVERGED = "The state left the range of doubles: take smaller steps or a smaller scale."

    @property
    def good(self) -> bool:
        """Whether the solver met its tolerance, with status REACHED or CONVERGED."""
        return self in (Status.REACHED, Status.CONVERGED)

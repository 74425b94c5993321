"""Transitions of the best model of two features in one dimension, and whether they are jumps."""

import numpy as np
import numpy.typing as npt

from ....theory import validation
from ....theory.validation import FloatArray, IntArray
from ...deadline import work_seconds
from ...progress import report_progress, time_left
from ...results import result
from ...rug import row_loss
from .diagram import PHASES, PhaseDiagram, phase_diagram

__all__ = ["Transitions", "pair_transitions"]


# Importances per decade on the first grid, and the parts that each round cuts a bracket into.
_PER_DECADE, _PARTS = 40, 10
_WIDTH = 1e-9  # relative width of the brackets at the end
_BELOW_ONE = 1.0 - 1e-6  # the point where the features change roles is looked at by itself
_LARGE = 0.05  # steps on the grid above this are looked into
JUMP = 1e-3  # smaller steps of the encodings than this across the final bracket are continuous


@result
class Transitions:
    """Transitions of the best model as the importance of the second feature grows up to 1; one entry each.

    `phase_before` and `phase_after` are the phases on both sides of this `p` and `importance`, as indices
    into `PHASES`.
    """

    p: FloatArray
    importance: FloatArray
    phase_before: IntArray
    phase_after: IntArray
    jump: FloatArray
    """Largest change of an encoding's absolute value at the transition."""
    slope_drop: FloatArray
    """Fall, at the transition, of d(least loss per feature)/d(importance)."""
    is_jump: npt.NDArray[np.bool_]
    """Whether `jump` is above 1e-3."""

    def __str__(self) -> str:
        """Return a table: p, importance, the phases on both sides, and the size of a jump."""
        rows = [f"{'p':<10}{'importance':<13}{'below':<16}{'above':<16}jump"]
        for k, jump in enumerate(self.jump):
            phases = (PHASES[self.phase_before[k]], PHASES[self.phase_after[k]])
            size = f"{jump:.4g}" if self.is_jump[k] else "none: continuous"
            rows.append(f"{self.p[k]:<10.6g}{self.importance[k]:<13.7g}{phases[0]:<16}{phases[1]:<16}{size}")
        return "\n".join(rows)


def _encoding_steps(diagram: PhaseDiagram) -> FloatArray:
    """Return the largest change of |w1| or |w2| from each importance of a diagram to the next, (n_r - 1,)."""
    return np.asarray(np.max(np.abs(np.diff(np.abs(diagram.W[0, :, :, 0]), axis=0)), axis=-1))


def _slope_of_least_loss(diagram: PhaseDiagram, k: int) -> float:
    """Return d(least loss)/d(importance) at the k-th importance of the diagram.

    As the loss is (F1 + importance F2)/2, the slope is F2/2, half the squared error of the second feature.
    """
    w, v = diagram.W[0, k, :, 0]
    return 0.5 * row_loss([v * v, v * w], 0, float(diagram.b[0, k, 1]), float(diagram.p[0])).loss


def _bracket_change(p: float, low: float, high: float, bias: bool) -> PhaseDiagram:
    """Return the diagram at both ends of a bracket around the first change of phase as importance grows.

    The bracket lies between the importances `low` and `high` and has a relative width of 1e-9. If no phase
    changes, it is around the largest change of the encodings. Biases are free if `bias`, else 0.
    """
    while True:
        diagram = phase_diagram([p], np.geomspace(low, high, _PARTS + 1), bias=bias)
        changed = np.diff(diagram.phase[0]) != 0
        k = int(np.argmax(changed if np.any(changed) else _encoding_steps(diagram)))
        low, high = float(diagram.importance[k]), float(diagram.importance[k + 1])
        if high <= low * (1.0 + _WIDTH):
            return phase_diagram([p], [low, high], bias=bias)


def _transitions_between(p: float, low: float, high: float, bias: bool) -> list[tuple[float, ...]]:
    """Return the transitions between two importances as rows (p, importance, before, after, jump, drop).

    The two importances are `low` and `high`; biases are free if `bias`, else 0. In a row, before and after
    are the phases (indices of `PHASES`) below and above the importance of the transition; jump is the largest
    change of an encoding's absolute value there, drop the fall of d(least loss)/d(importance).
    """
    if high <= low * (1.0 + 10.0 * _WIDTH):
        return []
    ends = phase_diagram([p], [low, high], bias=bias)
    changed = ends.phase[0, 0] != ends.phase[0, 1]
    if not changed and _encoding_steps(ends)[0] <= _LARGE:
        return []
    at = _bracket_change(p, low, high, bias)
    jump = float(_encoding_steps(at)[0])
    if not changed and jump <= JUMP:
        return []
    left_phase, right_phase = (int(phase) for phase in at.phase[0])
    row = (
        p,
        float(at.importance[1]),
        left_phase,
        right_phase,
        jump,
        _slope_of_least_loss(at, 0) - _slope_of_least_loss(at, 1),
    )
    left = _transitions_between(p, low, float(at.importance[0]), bias)
    return [*left, row, *_transitions_between(p, float(at.importance[1]), high, bias)]


def _jump_to_mirror_image(p: float, bias: bool) -> list[tuple[float, ...]]:
    """Return [(p, importance, before, after, jump, drop)] for the jump at importance 1, [] if there is none.

    At importance 1 the best model jumps to its mirror image, unless it is symmetric. Before and after are
    phases (indices of `PHASES`), jump is the change of an encoding's absolute value, drop the fall of
    d(least loss)/d(importance). Biases are free if `bias`, else 0.
    """
    diagram = phase_diagram([p], [1.0], bias=bias)
    w, v = np.abs(diagram.W[0, 0, :, 0])
    if abs(w - v) <= JUMP:
        return []
    phase = int(diagram.phase[0, 0])
    left_phase, right_phase = (0, 1) if phase < 2 else (phase, phase)
    drop = abs(
        2.0 * _slope_of_least_loss(diagram, 0) - float(diagram.loss[0, 0])
    )  # F2/2 less F1/2, the mirror image's slope
    return [(p, 1.0, left_phase, right_phase, abs(w - v), drop)]


def pair_transitions(p: npt.ArrayLike, *, bias: bool = True, lowest: float = 1e-3) -> Transitions:
    r"""Return the transitions of two features in one dimension, and which of them are jumps.

    Changes of phase on a grid of importances are bracketed to 1e-9, and so are jumps of the encodings within
    a phase. Importance 1 is listed if the best model there jumps to its mirror image; importances above 1
    follow by exchanging the features. The least loss is concave in the importance: at a jump its slope falls.

    Parameters
    ----------
    p : (n_p,) array_like of float
        Probabilities that a feature is on, in [1e-4, 1]. Errors are those of `phase_diagram`.
    bias : bool, optional
        Whether the two biases are free, or else 0.
    lowest : float, optional
        Lowest importance, in [1e-4, 0.5].

    Returns
    -------
    Transitions
        At a jump the relative error of `importance` is 1e-9. Where a feature enters continuously,
        `importance` is too large by about 1e-5 times a constant; `theory.relu.onset_importance` is exact.

    Examples
    --------
    >>> found = pair_transitions([0.2], lowest=0.05)
    >>> found.importance.round(6), found.is_jump
    (array([0.113821]), array([ True]))
    >>> print(found)
    p         importance   below           above           jump
    0.2       0.1138214    first alone     antipodal       0.6458
    """
    on = validation.real("p", validation.vector("p", p), 1e-4, 1)
    validation.check_fits("p", on.size, 1e4 * on.size)
    low = validation.number("lowest", lowest, 1e-4, 0.5)
    bias = validation.flag("bias", bias)
    grid = np.geomspace(low, _BELOW_ONE, int(np.ceil(-_PER_DECADE * np.log10(low))) + 1)
    rows: list[tuple[float, ...]] = []
    with report_progress("pair_transitions") as tell:
        begin = work_seconds()
        for done, x in enumerate(on):
            tell(f"{done} of {on.size} probabilities{time_left(work_seconds() - begin, done, on.size)}")
            diagram = phase_diagram([x], grid, bias=bias)
            for k in np.flatnonzero((np.diff(diagram.phase[0]) != 0) | (_encoding_steps(diagram) > _LARGE)):
                rows.extend(_transitions_between(float(x), grid[k], grid[k + 1], bias))
            rows.extend(_jump_to_mirror_image(float(x), bias))
    at, importance, left_phase, right_phase, jump, drop = np.array(rows).reshape(-1, 6).T
    phases = left_phase.astype(np.int64), right_phase.astype(np.int64)
    return Transitions(at, importance, *phases, jump=jump, slope_drop=drop, is_jump=jump > JUMP)

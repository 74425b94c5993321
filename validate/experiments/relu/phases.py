"""Phase diagram of two features in one dimension, drawn from the exact loss."""

from functools import cache
from itertools import product

import numpy as np
import numpy.typing as npt
import xarray as xr
from scipy import optimize

from ....solvers.relu import PHASES, pair_transitions, phase_diagram, solve_pair
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.relu import mixture_loss
from ...runner.declarations import from_rows

MODELS = ("free biases", "zero biases")

# What published diagrams compare: encodings picked by hand, one for each phase, biases not fitted.
PATTERNS = ((1.0, 0.0), (0.0, 1.0), (1.0, -1.0), (1.0, 1.0))

# Where lower bounds are asked for: all phases, far from and near to a boundary.
POINTS = ((0.05, 1.0), (0.1, 0.3), (0.3, 0.1), (0.5, 0.6), (0.7, 0.9), (0.9, 0.5))

# At equal importances the best model changes between these p, where encodings differ by this or more.
_BRACKET, _EQUAL = (0.3, 0.9), 1e-3


@cache
def symmetric_until(bias: bool) -> float:
    """Return the p up to which, at equal importances, an antipodal pair of equal norms is best, to 1e-6."""

    def apart(p: float) -> float:
        found = phase_diagram([p], [1.0], bias=bias)
        w, v = found.W[0, 0, :, 0]
        return -1.0 if PHASES[found.phase[0, 0]] == "antipodal" and abs(w + v) < _EQUAL else 1.0

    return float(optimize.bisect(apart, *_BRACKET, xtol=1e-6))


def _pattern_losses(p: npt.NDArray[np.float64], bias: bool) -> npt.NDArray[np.float64]:
    """Return the loss of both features in each pattern, shape (pattern, n_p, 2)."""
    found = np.empty((len(PATTERNS), p.size, 2))
    for (i, W), (j, on) in product(enumerate(np.array(PATTERNS)), enumerate(p)):
        b = np.where(W == 0.0, 0.5 * on, 0.0) if bias else np.zeros(2)
        found[i, j] = [mixture_loss(W[:, None], b, on, importance).total for importance in np.eye(2)]
    return found


def _transitions(count: int, reach: float) -> xr.Dataset:
    """Return the transitions of both models; where the boundary is steep, p lies more densely."""
    parts = []
    for model, bias in enumerate((True, False)):
        end = symmetric_until(bias)
        start = min(2.05 / reach, 0.5 * end)  # at small p the boundary is near an importance of p/2
        if bias:
            p = np.unique(np.append(np.linspace(start, 1.0, count), end))
        else:
            p = end * (1.0 - np.linspace(np.sqrt(1.0 - start / end), 0.0, count) ** 2)
        found = pair_transitions(p, bias=bias, lowest=1.0 / reach)
        columns = {name: getattr(found, name) for name in ("before", "after", "jump", "is_jump")}
        columns |= {"transition_p": found.p, "transition_importance": found.importance}
        columns["transition_model"] = np.full(found.p.size, model)
        parts.append(xr.Dataset({name: ("transition", values) for name, values in columns.items()}))
    return xr.concat(parts, "transition")


def _certificates(gap: float) -> xr.Dataset:
    p, importances = zip(*POINTS, strict=True)
    rows = []
    for bias, point in product((True, False), POINTS):
        pair = solve_pair(*point, bias=bias, gap=gap)
        bounds = {"point_lower": pair.certificate.lower_bound, "point_boxes": pair.certificate.work}
        rows.append({"point_loss": pair.loss, **bounds})
    ds = from_rows(rows, model=len(MODELS), point=len(POINTS))
    return ds.assign(point_p=("point", list(p)), point_importance=("point", list(importances)))


@as_annotated
def run_phases(
    size: int = 30, transitions: int = 12, *, reach: float = 20.0, gap: float = 1e-2
) -> xr.Dataset:
    r"""Find the best models of two features in one dimension, with free and with zero biases.

    As the phase diagram of Elhage et al. (2022), but from exact losses, without sampling or training; see
    `solvers.relu.phase_diagram` for accuracy.

    Parameters
    ----------
    size, transitions : int, optional
        Cells along each axis, at least 2: p from 1/size to 1, importances in equal steps of their logarithm.
        Values of p at which the boundaries are located, at least 1.
    reach, gap : float, optional
        Largest importance of the second feature, in [2, 1e4]; the smallest is its inverse. Relative gap of
        the certificates at a few points, in [1e-7, 1].

    Returns
    -------
    xarray.Dataset
        Of (model, p, importance): ``phase``, an index into `solvers.relu.PHASES`; the least ``loss`` per
        feature; ``share``, the smaller encoding over the larger one; ``pattern``, which of four patterns
        picked by hand is best (encodings (1, 0), (0, 1), (1, -1), (1, 1); biases 0, or p/2 for the dropped
        feature of the model with biases), and its ``pattern_loss``. Of transition, for importances up to 1:
        ``transition_p``, ``transition_importance``, ``transition_model``, phases ``before`` and ``after``,
        ``jump`` and ``is_jump``. Of (model, point): certificates. Of model: ``symmetric_until``, the p up to
        which an antipodal pair of equal norms is best for features of equal importance.

    Examples
    --------
    >>> ds = run_phases(4, 1, gap=0.2)
    >>> ds["phase"].sel(model="free biases").values
    array([[0, 2, 2, 1],
           [0, 0, 1, 1],
           [0, 0, 1, 1],
           [0, 0, 1, 1]])
    """
    size, count = validation.integers(size=(size, 2), transitions=(transitions, 1))
    reach = validation.number("reach", reach, 2, 1e4)
    gap = validation.number("gap", gap, 1e-7, 1)
    p = np.arange(1, size + 1) / size
    importance = np.geomspace(1.0 / reach, reach, size)
    parts = []
    for bias in (True, False):
        found = phase_diagram(p, importance, bias=bias)
        norms = np.abs(found.W[..., 0])
        by_hand = _pattern_losses(p, bias)
        totals = 0.5 * (by_hand[:, :, 0, None] + importance * by_hand[:, :, 1, None])
        grids = {
            "phase": found.phase,
            "loss": found.loss,
            "share": norms.min(axis=-1) / norms.max(axis=-1),
            "pattern": totals.argmin(axis=0),
            "pattern_loss": totals.min(axis=0),
        }
        part = xr.Dataset({name: (("p", "importance"), values) for name, values in grids.items()})
        parts.append(part.assign(symmetric_until=symmetric_until(bias)))
    ds = xr.concat(parts, "model").assign_coords(model=list(MODELS), p=p, importance=importance)
    ds = ds.assign_attrs(phases=", ".join(PHASES), gap=gap)
    return ds.merge(_transitions(count, reach)).merge(_certificates(gap))

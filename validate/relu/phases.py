"""Phase diagram of two features in one dimension, drawn from the exact loss."""

from functools import cache

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib import colors
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from scipy.ndimage import distance_transform_edt

from ...solvers.relu import PHASES, pair_transitions, phase_diagram, solve_pair
from ...theory import arguments
from ...theory.relu import mixture_loss
from ..drawing import check_axes
from ..experiment import Figure

__all__ = ["MODELS", "phases_figure", "plot_pattern_excess", "plot_phases", "run_phases"]

MODELS = ("free biases", "zero biases")

# What published diagrams compare: encodings picked by hand, one for each phase, biases not fitted.
PATTERNS = ((1.0, 0.0), (0.0, 1.0), (1.0, -1.0), (1.0, 1.0))

# Okabe and Ito's colours; each phase also has its name written into it.
COLOURS = ("#0072B2", "#CC79A7", "#009E73", "#E69F00")

# Where certificates are asked for: all phases, far from and near to a boundary.
POINTS = ((0.05, 1.0), (0.1, 0.3), (0.3, 0.1), (0.5, 0.6), (0.7, 0.9), (0.9, 0.5))

# At equal importances the best model changes between these p, where encodings differ by this or more.
_BRACKET = (0.3, 0.9)
_EQUAL = 1e-3


def _pattern_losses(p: npt.NDArray[np.float64], bias: bool) -> npt.NDArray[np.float64]:
    """Return the loss of both features in each pattern, shape (pattern, n_p, 2)."""
    found = np.empty((len(PATTERNS), p.size, 2))
    for i, W in enumerate(PATTERNS):
        dropped = np.array(W) == 0.0
        for j, on in enumerate(p):
            b = np.where(dropped, 0.5 * on, 0.0) if bias else np.zeros(2)
            for feature, importance in enumerate(np.eye(2)):
                found[i, j, feature] = mixture_loss(np.array(W)[:, None], b, on, importance).total
    return found


@cache
def symmetric_until(bias: bool) -> float:
    """Return the p up to which, at equal importances, an antipodal pair of equal norms is best."""

    def symmetric(p: float) -> bool:
        found = phase_diagram([p], [1.0], bias=bias)
        w, v = found.W[0, 0, :, 0]
        return PHASES[found.phase[0, 0]] == "antipodal" and abs(w + v) < _EQUAL

    low, high = _BRACKET
    while high - low > 1e-6:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if symmetric(middle) else (low, middle)
    return low


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
        columns = {
            "transition_p": found.p,
            "transition_importance": found.importance,
            "before": found.before,
            "after": found.after,
            "jump": found.jump,
            "is_jump": found.is_jump,
            "transition_model": np.full(found.p.size, model),
        }
        parts.append(xr.Dataset({name: ("transition", values) for name, values in columns.items()}))
    return xr.concat(parts, "transition")


def _certificates(gap: float) -> xr.Dataset:
    shape = (len(MODELS), len(POINTS))
    columns = {name: np.empty(shape) for name in ("point_loss", "point_lower", "point_boxes")}
    for model, bias in enumerate((True, False)):
        for k, (p, importance) in enumerate(POINTS):
            solved = solve_pair(p, importance, bias=bias, gap=gap)
            columns["point_loss"][model, k] = solved.loss
            columns["point_lower"][model, k] = solved.certificate.lower_bound
            columns["point_boxes"][model, k] = solved.certificate.work
    ds = xr.Dataset({name: (("model", "point"), values) for name, values in columns.items()})
    p, importances = zip(*POINTS, strict=True)
    return ds.assign(point_p=("point", list(p)), point_importance=("point", list(importances)))


def run_phases(
    size: int = 30, transitions: int = 12, *, reach: float = 20.0, gap: float = 1e-2
) -> xr.Dataset:
    r"""Find the best models of two features in one dimension, with free and with zero biases.

    Parameters
    ----------
    size : int, optional
        Cells along each axis, at least 2: p from 1/size to 1, importances in equal steps of their logarithm.
    transitions : int, optional
        Values of p at which the boundaries are located, at least 1.
    reach : float, optional
        Largest importance of the second feature, in [2, 1e4]; the smallest is its inverse.
    gap : float, optional
        Relative gap of the certificates at a few points, in [1e-7, 1].

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

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    Exact losses, no sampling and no training; see `solvers.relu.phase_diagram` for accuracy.

    References
    ----------
    Elhage et al. (2022), phase diagram of two features in one dimension.

    Examples
    --------
    >>> ds = run_phases(4, 2)
    >>> ds["phase"].sel(model="free biases").values
    array([[0, 2, 2, 1],
           [0, 0, 1, 1],
           [0, 0, 1, 1],
           [0, 0, 1, 1]])
    """
    size = arguments.integer("size", size, 2)
    count = arguments.integer("transitions", transitions, 1)
    reach = arguments.number("reach", reach, 2, 1e4)
    gap = arguments.number("gap", gap, 1e-7, 1)
    p = np.arange(1, size + 1) / size
    importance = np.geomspace(1.0 / reach, reach, size)
    grids: dict[str, list[npt.NDArray[np.generic]]] = {
        name: [] for name in ("phase", "loss", "share", "pattern", "pattern_loss")
    }
    for bias in (True, False):
        found = phase_diagram(p, importance, bias=bias)
        norms = np.abs(found.W[..., 0])
        by_hand = _pattern_losses(p, bias)
        totals = 0.5 * (by_hand[:, :, 0, None] + importance * by_hand[:, :, 1, None])
        grids["phase"].append(found.phase)
        grids["loss"].append(found.loss)
        grids["share"].append(norms.min(axis=-1) / norms.max(axis=-1))
        grids["pattern"].append(totals.argmin(axis=0))
        grids["pattern_loss"].append(totals.min(axis=0))
    axes = ("model", "p", "importance")
    ds = xr.Dataset(
        {name: (axes, np.stack(values)) for name, values in grids.items()},
        {"model": list(MODELS), "p": p, "importance": importance},
        {"phases": ", ".join(PHASES), "gap": gap},
    )
    ds["symmetric_until"] = ("model", [symmetric_until(True), symmetric_until(False)])
    return ds.merge(_transitions(count, reach)).merge(_certificates(gap))


# --- Figures -----------------------------------------------------------------------------------------------


def _boundaries(ds: xr.Dataset, model: int) -> list[tuple[npt.NDArray[np.float64], ...]]:
    """Return the lines of transitions as p, importance, whether they jump; one for each kind."""
    mine = ds.isel(transition=ds["transition_model"].values == model)
    kinds = np.stack([mine["before"].values, mine["after"].values], axis=1)
    lines = []
    for before, after in np.unique(kinds, axis=0):
        here = np.flatnonzero((kinds[:, 0] == before) & (kinds[:, 1] == after))
        here = here[np.argsort(mine["transition_p"].values[here], kind="stable")]
        if before == after:
            # A jump within a phase begins where the jump into the phase becomes continuous.
            first = mine["transition_p"].values[here[0]]
            into = (kinds[:, 0] != after) & (kinds[:, 1] == after) & mine["is_jump"].values
            earlier = np.flatnonzero(into & (mine["transition_p"].values < first))
            here = np.concatenate([earlier[-1:], here])
        columns = (mine[name].values[here] for name in ("transition_p", "transition_importance", "is_jump"))
        lines.append(tuple(columns))
    return lines


def _draw_boundaries(ds: xr.Dataset, ax: Axes, model: int) -> None:
    outline = [withStroke(linewidth=2.4, foreground="white")]
    styles = {True: ("-", "jump"), False: ((0, (1, 1)), "continuous transition")}
    named = set()
    for p, importance, is_jump in _boundaries(ds, model):
        for mirrored in (importance, 1.0 / importance):
            jumps = is_jump[:-1] & is_jump[1:]
            ends = np.flatnonzero(np.diff(jumps)) + 1
            for piece in np.split(np.arange(jumps.size), ends) if jumps.size else ():
                line, label = styles[bool(jumps[piece[0]])]
                ax.plot(
                    p[piece[0] : piece[-1] + 2],
                    mirrored[piece[0] : piece[-1] + 2],
                    color="black",
                    linestyle=line,
                    linewidth=1.4,
                    path_effects=outline,
                    label=None if label in named else label,
                )
                named.add(label)
    if named:
        ax.legend(loc="lower right", frameon=True, framealpha=0.9)


def _name_phases(phase: npt.NDArray[np.int64], ds: xr.Dataset, ax: Axes) -> None:
    """Write each phase's name where it is widest."""
    for index in np.unique(phase):
        # A border of other cells all around keeps names away from the edges.
        depth = distance_transform_edt(np.pad(phase == index, 1))[1:-1, 1:-1]
        i, j = np.unravel_index(np.argmax(depth), depth.shape)
        ax.text(
            float(ds["p"][i]),
            float(ds["importance"][j]),
            PHASES[index],
            ha="center",
            va="center",
            path_effects=[withStroke(linewidth=2.5, foreground="white")],
        )


def plot_phases(ds: xr.Dataset, ax: Axes, model: int = 0) -> Axes:
    """Draw the phases as colours, the paler the smaller the second encoding is, and their boundaries.

    Parameters
    ----------
    ds : xarray.Dataset
        From `run_phases`.
    ax : matplotlib.axes.Axes
    model : int, optional
        Index into `MODELS`.

    Returns
    -------
    matplotlib.axes.Axes
    """
    check_axes(ax)
    model = arguments.integer("model", model, 0, len(MODELS) - 1)
    phase = ds["phase"].values[model]
    colour = np.array([colors.to_rgb(name) for name in COLOURS])[phase]
    share = ds["share"].values[model]
    alone = np.isin(phase, (0, 1))
    strength = np.where(alone, 0.75, 0.2 + 0.55 * share)[..., None]
    shown = 1.0 - strength * (1.0 - colour)
    ax.pcolormesh(ds["p"], ds["importance"], shown.transpose(1, 0, 2), shading="nearest", rasterized=True)
    _draw_boundaries(ds, ax, model)
    _name_phases(phase, ds, ax)
    low, high = float(ds["importance"][0]), float(ds["importance"][-1])
    ax.set(
        yscale="log",
        xlim=(float(ds["p"][0]), float(ds["p"][-1])),
        ylim=(low, high),
        xlabel="density p = 1 - S",
        ylabel="importance of the second feature",
        title=MODELS[model],
    )
    ax.grid(False)
    return ax


def plot_pattern_excess(ds: xr.Dataset, ax: Axes, model: int = 0) -> Axes:
    """Draw by how much the best of the four patterns picked by hand misses the least loss.

    Parameters
    ----------
    ds : xarray.Dataset
        From `run_phases`.
    ax : matplotlib.axes.Axes
    model : int, optional
        Index into `MODELS`.

    Returns
    -------
    matplotlib.axes.Axes
    """
    check_axes(ax)
    model = arguments.integer("model", model, 0, len(MODELS) - 1)
    one = ds.isel(model=model)
    excess = 100.0 * (one["pattern_loss"] / one["loss"] - 1.0)
    mesh = ax.pcolormesh(
        ds["p"],
        ds["importance"],
        excess.values.T,
        shading="nearest",
        rasterized=True,
        cmap="cividis",
        vmin=0.0,
    )
    ax.figure.colorbar(mesh, ax=ax, label="excess loss, %", shrink=0.85)
    differs = (one["pattern"] != one["phase"]).values
    ax.contourf(ds["p"], ds["importance"], differs.T, levels=[0.5, 1.5], colors="none", hatches=["////"])
    ax.set(
        yscale="log",
        xlabel="density p = 1 - S",
        ylabel="importance of the second feature",
        title=f"patterns picked by hand, {MODELS[model]}",
    )
    ax.grid(False)
    return ax


def phases_figure(ds: xr.Dataset) -> Figure:
    """Return the figure of both phase diagrams; `ds` is from `run_phases`."""
    return Figure(
        "phases",
        "Two features in one dimension: the best models",
        "Exact minima over encodings and biases; the first feature has importance 1. Lines: where the best "
        "model jumps, and where a dropped feature enters continuously. The paler a colour, the smaller one "
        "encoding is beside the other.",
        ds,
        (lambda d, ax: plot_phases(d, ax, 0), lambda d, ax: plot_phases(d, ax, 1)),
    )

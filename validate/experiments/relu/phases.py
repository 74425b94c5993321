"""Phase diagram of two features in one dimension, drawn from the exact loss."""

from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
import xarray as xr
from matplotlib import colors
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from scipy import optimize

from ....solvers.relu import PHASES, pair_transitions, phase_diagram, solve_pair
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.relu import mixture_loss, onset_importance
from ....theory.validation import FloatArray
from ...runner.declarations import Figure, Run, Table, Topic, TopicContent, from_rows, span
from ..drawing import deepest_point, plot_function
from .labels import DENSITY, finish_log_axes

MODELS = ("free biases", "zero biases")

# What published diagrams compare: encodings picked by hand, one for each phase, biases not fitted.
PATTERNS = ((1.0, 0.0), (0.0, 1.0), (1.0, -1.0), (1.0, 1.0))

# Where lower bounds are asked for: all phases, far from and near to a boundary.
POINTS = ((0.05, 1.0), (0.1, 0.3), (0.3, 0.1), (0.5, 0.6), (0.7, 0.9), (0.9, 0.5))

# At equal importances the best model changes between these p, where encodings differ by this or more.
_BRACKET = (0.3, 0.9)
_EQUAL = 1e-3

# Okabe and Ito's colours; each phase also has its name written into it.
COLOURS = ("#0072B2", "#CC79A7", "#009E73", "#E69F00")
IMPORTANCE = "importance of the second feature"


@cache
def symmetric_until(bias: bool) -> float:
    """Return the largest p, to 1e-6, at which an antipodal pair of equal norms is the best model.

    The model has two features of equal importance in one dimension, and free biases if `bias`.
    """

    def sign_at(p: float) -> float:
        """Return -1 if the best model at p is an antipodal pair of equal norms, else 1."""
        diagram = phase_diagram([p], [1.0], bias=bias)
        w, v = diagram.W[0, 0, :, 0]
        return -1.0 if PHASES[diagram.phase[0, 0]] == "antipodal" and abs(w + v) < _EQUAL else 1.0

    return float(optimize.bisect(sign_at, *_BRACKET, xtol=1e-6))


def _pattern_losses(p: FloatArray, bias: bool) -> FloatArray:
    """Return the loss of each of the two features under four fixed models, shape (4, n_p, 2); p is (n_p,).

    The encodings in one dimension are (1, 0), (0, 1), (1, -1) and (1, 1). With `bias` the output of a feature
    of weight 0 has the mean p/2 as bias, others 0; without it all biases are 0.
    """
    losses = np.empty((len(PATTERNS), p.size, 2))
    for (i, W), (j, on) in product(enumerate(np.array(PATTERNS)), enumerate(p)):
        b = np.where(W == 0.0, 0.5 * on, 0.0) if bias else np.zeros(2)
        losses[i, j] = [mixture_loss(W[:, None], b, on, importance).total for importance in np.eye(2)]
    return losses


def _transitions(count: int, reach: float) -> xr.Dataset:
    """Return the phase transitions of two features in one dimension, with free biases and with zero ones.

    Transitions are located at `count` values of p, denser where the boundary is steep, and at importances of
    the second feature from 1/reach to 1. Of (transition): ``transition_p``, ``transition_importance``,
    ``transition_model`` (0: free biases, 1: zero); ``before`` and ``after``, the phases at lower and higher
    importance, as indices into `solvers.relu.PHASES`; ``jump``, the largest step of an encoding's length, and
    ``is_jump``, whether the transition is discontinuous.
    """
    parts = []
    for model, bias in enumerate((True, False)):
        end = symmetric_until(bias)
        start = min(2.05 / reach, 0.5 * end)  # at small p the boundary is near an importance of p/2
        if bias:
            p = np.unique(np.append(np.linspace(start, 1.0, count), end))
        else:
            p = end * (1.0 - np.linspace(np.sqrt(1.0 - start / end), 0.0, count) ** 2)
        transitions = pair_transitions(p, bias=bias, lowest=1.0 / reach)
        columns: dict[str, Any] = {"before": transitions.phase_before, "after": transitions.phase_after}
        columns |= {"jump": transitions.jump, "is_jump": transitions.is_jump}
        columns |= {"transition_p": transitions.p, "transition_importance": transitions.importance}
        columns["transition_model"] = np.full(transitions.p.size, model)
        parts.append(xr.Dataset({name: ("transition", values) for name, values in columns.items()}))
    return xr.concat(parts, "transition")


def _pair_certificates(gap: float) -> xr.Dataset:
    """Return least losses, proved lower bounds and numbers of boxes of two features in one dimension.

    Of (model, point), with free and with zero biases, at six points of p (``point_p``) and importance of the
    second feature (``point_importance``): ``point_loss``, ``point_lower`` and ``point_boxes``, the number of
    boxes that branch and bound needs. Bounds are within the relative `gap` of the losses.
    """
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

    The result is the phase diagram of Elhage et al. (2022), but from exact losses, without sampling or
    training; see `solvers.relu.phase_diagram` for accuracy. The first feature has importance 1.

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
        Of (model, p, importance), models with free and with zero biases: ``phase``, an index into
        `solvers.relu.PHASES`, such as "antipodal"; the least ``loss`` per feature; ``share``, the smaller
        encoding over the larger one; ``pattern``, which of four patterns picked by hand is best (encodings
        (1, 0), (0, 1), (1, -1), (1, 1); biases 0, or p/2 for the dropped feature of the model with biases),
        and its ``pattern_loss``. Of (transition), for importances up to 1: ``transition_p``,
        ``transition_importance``, ``transition_model``, phases ``before`` and ``after`` (lower and higher
        importance), ``jump``, the largest step of an encoding's length, and ``is_jump``, whether the
        transition is discontinuous. Of (model, point), at some ``point_p`` and ``point_importance``: the
        least loss ``point_loss``, a proved bound ``point_lower`` and its work ``point_boxes``. Of model:
        ``symmetric_until``, the p up to which an antipodal pair of equal norms is best for features of equal
        importance.

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
        diagram = phase_diagram(p, importance, bias=bias)
        norms = np.abs(diagram.W[..., 0])
        by_hand = _pattern_losses(p, bias)
        totals = 0.5 * (by_hand[:, :, 0, None] + importance * by_hand[:, :, 1, None])
        grids = {
            "phase": diagram.phase,
            "loss": diagram.loss,
            "share": norms.min(axis=-1) / norms.max(axis=-1),
            "pattern": totals.argmin(axis=0),
            "pattern_loss": totals.min(axis=0),
        }
        part = xr.Dataset({name: (("p", "importance"), values) for name, values in grids.items()})
        parts.append(part.assign(symmetric_until=symmetric_until(bias)))
    ds = xr.concat(parts, "model").assign_coords(model=list(MODELS), p=p, importance=importance)
    ds = ds.assign_attrs(phases=", ".join(PHASES), gap=gap)
    return ds.merge(_transitions(count, reach)).merge(_pair_certificates(gap))


def _select_model(ds: xr.Dataset, model: int) -> xr.Dataset:
    """Return the part of a dataset from `run_phases` for free (`model` 0) or for zero biases (1)."""
    return ds.isel(model=validation.integer("model", model, 0, len(MODELS) - 1))


@plot_function
def plot_phases(ds: xr.Dataset, ax: Axes, model: int = 0) -> Axes:
    """Draw the best model's phase over (p, importance), and the transitions as dots.

    Colours are paler where the smaller encoding is shorter. `ds` is from `run_phases`; `model` is 0 for free
    and 1 for zero biases.
    """
    map_of_model = _select_model(ds, model)
    phase = map_of_model["phase"].values
    colour = np.array([colors.to_rgb(name) for name in COLOURS])[phase]
    strength = np.where(np.isin(phase, (0, 1)), 0.75, 0.2 + 0.55 * map_of_model["share"].values)[..., None]
    colour = 1.0 - strength * (1.0 - colour)
    ax.pcolormesh(ds["p"], ds["importance"], colour.transpose(1, 0, 2), shading="nearest", rasterized=True)
    is_ours = ds["transition_model"].values == model
    for is_jump, label, face in ((True, "jump", "black"), (False, "continuous transition", "white")):
        transitions = ds.isel(transition=is_ours & (ds["is_jump"].values == is_jump))
        if transitions.sizes["transition"]:
            importance = transitions["transition_importance"].values
            p = np.tile(transitions["transition_p"].values, 2)
            mirrored = np.concatenate([importance, 1.0 / importance])
            ax.plot(p, mirrored, "ok", label=label, mfc=face, markersize=4.5)
    outline = [withStroke(linewidth=2.5, foreground="white")]
    for index in np.unique(phase):
        i, j, _ = deepest_point(phase == index)
        point = float(ds["p"][i]), float(ds["importance"][j])
        ax.text(*point, PHASES[index], ha="center", va="center", path_effects=outline)
    ax.set(xlim=ds["p"].values[[0, -1]], ylim=ds["importance"].values[[0, -1]])
    ax.grid(False)
    legend = {"loc": "lower right", "frameon": True, "framealpha": 0.9} if is_ours.any() else None
    return finish_log_axes(ax, legend, yscale="log", xlabel=DENSITY, ylabel=IMPORTANCE, title=MODELS[model])


@plot_function
def plot_pattern_excess(ds: xr.Dataset, ax: Axes, model: int = 0) -> Axes:
    """Draw over (p, importance) by how many per cent the best of four fixed models exceeds the least loss.

    The fixed models have the encodings (1, 0), (0, 1), (1, -1) and (1, 1). Cells are hatched where the phase
    of the best of these is not that of the best model. `ds` is from `run_phases`; `model` is 0 for free and 1
    for zero biases.
    """
    map_of_model = _select_model(ds, model)
    excess = 100.0 * (map_of_model["pattern_loss"] / map_of_model["loss"] - 1.0).values.T
    axes = ds["p"], ds["importance"]
    mesh = ax.pcolormesh(*axes, excess, shading="nearest", rasterized=True, cmap="cividis", vmin=0.0)
    ax.figure.colorbar(mesh, ax=ax, label="excess loss, %", shrink=0.85)
    differs = (map_of_model["pattern"] != map_of_model["phase"]).values.T
    ax.contourf(*axes, differs, levels=[0.5, 1.5], colors="none", hatches=["////"])
    ax.grid(False)
    title = f"patterns picked by hand, {MODELS[model]}"
    return finish_log_axes(ax, None, yscale="log", xlabel=DENSITY, ylabel=IMPORTANCE, title=title)


def _show_phases(ds: xr.Dataset) -> TopicContent:
    """Return text, figures and table of the report's part "phases", from `ds` of `run_phases`.

    The figures have, over (p, importance) and for free and zero biases, the best model's phase, and the
    excess loss of the best of four fixed models. The table has lower bounds at some points.
    """
    sentences = ["Two features in one dimension."]
    excess = ds["pattern_loss"] / ds["loss"] - 1.0
    differs = (ds["pattern"] != ds["phase"]).mean(["p", "importance"])
    for model, name in enumerate(MODELS):
        of_model = ds.isel(model=model)
        is_phase = [(of_model["phase"] == k).mean() for k in range(len(PHASES))]
        parts = [f"{phase} in {float(share):.3g}" for phase, share in zip(PHASES, is_phase, strict=True)]
        sentences.append(
            f"With {name}, of the cells of a grid: {', '.join(parts)}. At equal importance an antipodal pair "
            f"of equal norms is best up to p = {float(of_model['symmetric_until']):.4f}. The best of four "
            f"patterns picked by hand with fixed biases names another phase in {float(differs[model]):.3g} "
            f"of the cells, and its loss is up to {float(excess[model].max()):.1%} above the least."
        )
    gap = float((1.0 - ds["point_lower"] / ds["point_loss"]).max())
    headline = (
        "Two features in one dimension are solved for all densities and importances, with lower bounds by "
        f"branch and bound (in double precision) within {gap:.1%} at {ds.sizes['point']} points of each "
        f"kind: the best of four patterns picked by hand names another phase in {float(differs[0]):.1%} of "
        f"the cells, and loses up to {float(excess[0].max()):.1%} more."
    )
    solved, missed = (
        [partial(draw, model=model) for model in range(len(MODELS))]
        for draw in (plot_phases, plot_pattern_excess)
    )
    solved_caption = (
        "Exact minima over encodings and biases; the first feature has importance 1. Dots: where the best "
        "model jumps, and where a dropped feature enters continuously. The paler a colour, the shorter one "
        "encoding is than the other."
    )
    missed_caption = (
        "Loss of the best of four patterns, encodings (1, 0), (0, 1), (1, -1) and (1, 1) with fixed biases, "
        "above the least loss. Hatched: where it belongs to another phase."
    )
    figures = [
        Figure("phases", "Two features in one dimension: the best models", solved_caption, ds, solved),
        Figure("patterns", "What is missed by comparing patterns picked by hand", missed_caption, ds, missed),
    ]
    tables = [_certificate_table(ds)]
    return TopicContent(" ".join([*sentences, _describe_entrance(ds)]), figures, tables, headline)


def _certificate_table(ds: xr.Dataset) -> Table:
    """Return the table of least losses and proved lower bounds at some (p, importance).

    Further columns are their relative gap, and the number of boxes in the branch and bound. `ds` is from
    `run_phases`.
    """
    points = ds[[name for name in ds if str(name).startswith("point_")]]
    gap = 1.0 - ds["point_lower"] / ds["point_loss"]
    columns = {
        "model": "{model}",
        "p": "{point_p}",
        "importance": "{point_importance}",
        "least loss found": "{point_loss:.6g}",
        "lower bound": "{point_lower:.6g}",
        "gap": "{gap:.3%}",
        "boxes": "{point_boxes}",
    }
    caption = (
        f"Branch and bound in double precision over all models, to a relative gap of {ds.attrs['gap']:g}."
    )
    return Table.formatted("Lower bounds", points.assign(gap=gap), columns, caption)


def _describe_entrance(ds: xr.Dataset) -> str:
    """Return text on how a dropped feature enters as its importance grows: by a jump or continuously.

    The text compares the importance at continuous transitions with the closed form (`onset_importance`). `ds`
    is from `run_phases`, the best models of two features in one dimension.
    """
    free = ds.isel(transition=ds["transition_model"].values == 0)
    p, jumps = free["transition_p"].values, free["is_jump"].values
    enters = ((free["before"] == 0) & (free["after"] == 2)).values
    smooth, inside = enters & ~jumps, (free["before"] == free["after"]).values & jumps
    text = (
        f"With free biases the transition into superposition, located at {enters.sum()} values of p, is a "
        f"jump at {(enters & jumps).sum()}."
    )
    if smooth.any():
        off = np.abs(free["transition_importance"].values[smooth] / onset_importance(p[smooth], -1) - 1.0)
        text += (
            f" From p = {span(p[smooth], '.2f')} it is continuous; the closed form has it to {off.max():.0e}."
        )
    if inside.any():
        text += (
            f" From p = {p[inside].min():.2f} on the encodings also jump within the antipodal phase, from a "
            "weakly stored second feature to a strongly stored one, or, at equal importances, as the "
            "features exchange their roles."
        )
    return text


QUICK = {"transitions": 5}
FULL = {"size": 100, "transitions": 40, "gap": 1e-3}
RUNS = {"phases": Run(run_phases, QUICK, FULL, seconds=8)}
TOPICS = [Topic("two features in one dimension", ["phases"], _show_phases, claims=["E7"])]

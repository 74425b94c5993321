"""Phase diagrams: the geometry of least loss over any two properties of the data."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from ...solvers.deadline import work_seconds
from ...solvers.minimise import minimise
from ...solvers.progress import status, time_left
from ...solvers.relu import PHASES, phase_diagram
from ...theory import validation
from ...theory.features import Features
from ...theory.features.values import law_named
from ...theory.relu import feature_dimensionality
from ...theory.validation import count_noun
from ..audit.search import HITS
from .answer import Answer, Certainty
from .best import geometry
from .entry import entry

__all__ = ["AXES", "phases"]

# What an axis may be, and its values if none are given.
AXES: dict[str, Any] = {
    "sparsity": lambda: np.linspace(0.0, 0.98, 50),
    "p": lambda: np.geomspace(0.02, 1.0, 32),
    "importance": lambda: np.geomspace(0.1, 10.0, 33),
    "n_hidden": None,
    "n_features": None,
}
_SOURCES = (
    "Elhage et al. (2022), Toy Models of Superposition, 'Superposition as a phase change'",
    "superposition, pages `relu` and `minimise`: exact loss, global minima for two features, descents",
)
# Cells of a diagram whose models are found by descents from many starts.
_MOST = 2000


@entry
def phases(
    x: str = "sparsity",
    y: str | None = "importance",
    *,
    grid: Mapping[str, Any] | None = None,
    n_features: int = 2,
    n_hidden: int = 1,
    p: float | None = None,
    sparsity: float | None = None,
    importance: Any = 1.0,
    values: Any = "uniform",
    tied: bool = True,
    starts: int = 10,
    rng: Any = 0,
    progress: Callable[[str], None] | bool | None = None,
) -> Answer:
    """Return the diagram of Elhage et al.: the best model at each point of a grid, with its geometry.

    >>> answer = phases(grid={"sparsity": [0.1, 0.9], "importance": [0.3, 1.0]})
    >>> answer.to_dataset()["geometry"].values.tolist()
    [['first alone', 'antipodal'], ['antipodal', 'antipodal']]

    Parameters
    ----------
    x : {"sparsity", "p", "importance", "n_hidden", "n_features"}, optional
        First axis. "importance" is that of the last feature; sparsity is S = 1 - p.
    y : {"sparsity", "p", "importance", "n_hidden", "n_features"} or None, optional
        Second axis, if there is one.
    grid : mapping from str to sequence, optional
        Values along the axes, by name. By default 50 of sparsity in [0, 0.98], 32 of p in [0.02, 1] and 33 of
        importance in [0.1, 10]; axes of n_features and n_hidden must be given. At most 2000 points, except of
        two features on one neuron.
    n_features, n_hidden : int, optional
        The size, where it is not on an axis.
    p : float, optional
        Probability that a feature is on, if not an axis (default: 0.1).
    sparsity : float, optional
        Instead of p: S = 1 - p.
    importance : float or array_like, optional
        Importance of the last feature, if not an axis; or one for each feature.
    values, tied
        Distribution of the values of features that are on, a name or `ValueDistribution` as in `Features`;
        and whether W_out is the transpose of W_in, as in `best`.
    starts : int, optional
        Starts of the descents at each point; the diagram of two features on one neuron needs none.
    rng : Generator, int or None, optional
        Draws the starts.
    progress : callable or False, optional
        Called with a line of text now and then. By default a status line appears on standard error after two
        seconds. With False nothing is shown.

    Returns
    -------
    Answer
        `to_dataset` has, over the axes, ``geometry`` (names of the shapes of the encodings), ``loss`` per
        feature, ``W`` (feature, hidden), ``b`` (feature), and ``dimensionality``, the share of a hidden
        dimension that each feature has (Elhage et al. 2022); of descents ``hits`` too, the starts that ended
        at the best model of the point.
    """
    axes = [validation.choice("x", x, tuple(AXES))]
    if y is not None:
        axes.append(validation.choice("y", y, tuple(AXES)))
        if y == x or {x, y} == {"sparsity", "p"}:
            raise ValueError(f"`y` must be another axis than `x`; got {y!r}.")
    ticks = _axis_values(axes, dict(grid or {}))
    if p is not None and sparsity is not None:
        raise ValueError(f"`p` must be given, or `sparsity` instead; got {p} and {sparsity}.")
    if sparsity is not None:
        p = float(validation.from_sparsity("sparsity", sparsity))
    on = 0.1 if p is None else p
    n_features, n_hidden = validation.integers(n_features=(n_features, 1), n_hidden=(n_hidden, 1))
    sizes: dict[str, Any] = {"n_features": n_features, "n_hidden": n_hidden}
    values, starts = law_named("values", values), validation.integer("starts", starts, 1)
    fixed = sizes | {"p": on, "importance": importance, "values": values}
    is_one = validation.real("importance", importance).ndim == 0
    is_standard = {"n_features", "n_hidden"} & set(axes) == set() and (n_features, n_hidden) == (2, 1)
    if is_standard and tied and values.uniform and ("importance" in axes or is_one):
        certainty, data = Certainty.COMPUTED, _pair_diagram(axes, ticks, fixed)
        note = "the least of all minima that a lattice of starts leads to"
    else:
        settings = {"tied": tied, "starts": starts, "rng": rng}
        certainty, data = Certainty.BEST_OF, _search_points(axes, ticks, fixed, settings, progress)
        ordered = "ordered ones and a neighbour's model at each point"
        hits = count_noun(int(data["hits"].min()), "hit")
        note = f"{count_noun(starts, 'random start')}, {ordered} (at least {hits})"
    shapes = data["geometry"].values.ravel().tolist()
    if "hits" in data and "importance" not in axes and np.all(np.equal(importance, 1.0)):
        shapes = [_without_indices(shape) for shape in shapes]
    names, counts = np.unique(shapes, return_counts=True)
    shares = sorted(zip(counts / counts.sum(), names, strict=True), reverse=True)
    lines = [
        f"best models of {_describe_size(fixed, axes)} over {' and '.join(axes)}, "
        f"{count_noun(data['loss'].size, 'point')}",
        *(f"{100 * share:5.1f} %  {name}" for share, name in shares[:8]),
    ]
    if len(shares) > 8:
        lines.append(f"and {len(shares) - 8} others: to_dataset() has them")
    lines.append(certainty.with_note(note))
    if "hits" in data:
        unsure = int((data["hits"] < HITS).sum())
        lines.append(
            f"the best model of {unsure} of {data['hits'].size} points was reached by fewer than {HITS} "
            "starts, so that a better one is likely: give more `starts`"
            if unsure
            else f"the best model of each point was reached by {HITS} starts or more"
        )
    return Answer(tuple(lines), certainty, note, _SOURCES, {"data": data}, data, "draw_phases")


def _without_indices(shape: str) -> str:
    """Return the text of a geometry with counts of its parts instead of the indices of their features.

    `shape` lists the parts of a model, such as "antipodal pair 0-3, dropped 1". Models that differ by a
    permutation of equal features get the same text.

    >>> _without_indices("antipodal pair 0-3, antipodal pair 1-2, dropped 4")
    '2 x antipodal pair, 1 dropped'
    >>> _without_indices("20 in 5 0-1-2")
    '20 in 5'
    >>> _without_indices("50 in 5")
    '50 in 5'
    """
    is_bare = re.compile(r"\d+ in \d+").fullmatch  # where no features are listed
    kinds = Counter(part if is_bare(part) else part.rpartition(" ")[0] or part for part in shape.split(", "))
    dropped = kinds.pop("dropped", 0)
    words = [f"{count} x {kind}" if count > 1 else kind for kind, count in kinds.items()]
    return ", ".join(words + [f"{dropped} dropped"] * bool(dropped))


def _describe_size(fixed: Mapping[str, Any], axes: list[str]) -> str:
    """Return numbers of features and neurons as text, "several" for those on an axis.

    `fixed` has the settings that are on none of the `axes`.
    """
    words = {"n_features": "feature", "n_hidden": "neuron"}
    return " on ".join(
        f"several {word}s" if key in axes else count_noun(fixed[key], word) for key, word in words.items()
    )


def _axis_values(axes: list[str], grid: dict[str, Any]) -> dict[str, npt.NDArray[Any]]:
    """Return the validated values of each axis by name: those in `grid`, else a default range.

    `axes` are "sparsity", "p", "importance", or the sizes "n_features" and "n_hidden". Sizes, which have no
    default, must be in `grid`; names in it that are no axis raise a ValueError.
    """
    for name in grid:
        validation.choice("grid", name, tuple(axes))
    ticks = {}
    for name in axes:
        axis = grid.get(name, AXES[name] and AXES[name]())
        if axis is None:
            raise ValueError(f"`grid` must have values of {name!r}; got none.")
        if name in ("n_hidden", "n_features"):
            ticks[name] = np.array([validation.integer(name, size, 1) for size in np.atleast_1d(axis)])
            continue
        ticks[name] = validation.vector(name, np.atleast_1d(axis))
        if name == "sparsity":
            validation.real(name, ticks[name], 0.0, 1.0, brackets="[)")
        elif name == "p":
            validation.probability(name, ticks[name])
        else:
            validation.real(name, ticks[name], 0.0, brackets="()")
    return ticks


def _pair_diagram(
    axes: list[str], ticks: Mapping[str, npt.NDArray[Any]], fixed: Mapping[str, Any]
) -> xr.Dataset:
    """Return the dataset of the diagram of two features on one neuron, from its global minima.

    The dataset has the geometry, loss, W, b and dimensionality (a feature's share of the neuron) at each
    point. `ticks` are the values along each of the `axes`, "sparsity" or "p" and "importance", by name;
    `fixed` has p and importance where they are on no axis. Importance is that of the second feature.
    """
    if "sparsity" in ticks:
        on = validation.from_sparsity("sparsity", ticks["sparsity"])
    else:
        on = ticks.get("p", np.array([fixed["p"]]))
    worth = ticks.get("importance", np.atleast_1d(np.asarray(fixed["importance"], float)))
    order = np.argsort(worth)
    diagram = phase_diagram(np.maximum(on, 1e-4), worth[order])
    back = np.argsort(order)
    dims = ("sparsity" if "sparsity" in ticks else "p", "importance")
    W = diagram.W[:, back]
    sizes = np.reshape([feature_dimensionality(encoding) for encoding in W.reshape(-1, 2, 1)], W.shape[:3])
    data = xr.Dataset(
        {
            "geometry": (dims, np.array(PHASES)[diagram.phase[:, back]]),
            "loss": (dims, diagram.loss[:, back]),
            "W": ((*dims, "feature", "hidden"), W),
            "b": ((*dims, "feature"), diagram.b[:, back]),
            "dimensionality": ((*dims, "feature"), sizes),
        },
        {dims[0]: ticks.get(dims[0], on), "importance": worth},
    )
    for name in dims:
        if name not in axes:
            data = data.isel({name: 0})
    return data.transpose(*axes, ...)


def _search_points(
    axes: list[str], ticks: Mapping[str, npt.NDArray[Any]], fixed: Mapping[str, Any],
    settings: Mapping[str, Any], progress: Any,
) -> xr.Dataset:  # fmt: skip
    """Return the dataset of the diagram of any size, from descents at each point of the grid.

    The dataset has the geometry, loss, hits (starts that ended at the best model), W, b and dimensionality (a
    feature's share of a hidden dimension) at each point; W, b and dimensionality are nan past a point's own
    size. `ticks` are the values along each of the `axes`, `fixed` the sizes and the law where they are on no
    axis, `settings` the tied, starts and rng of `phases`. The model of the previous point is one of the
    starts. `progress` is called with lines of text, if callable. More than 2000 points raise a ValueError.
    """
    shape = tuple(ticks[name].size for name in axes)
    if np.prod(shape) > _MOST:
        raise ValueError(f"`grid` must have at most {_MOST} points at this size; got {np.prod(shape)}.")
    n = int(max(ticks.get("n_features", [fixed["n_features"]])))
    m = int(max(ticks.get("n_hidden", [fixed["n_hidden"]])))
    fields = {
        "geometry": np.full(shape, "", object), "loss": np.empty(shape), "hits": np.zeros(shape, int),
        "W": np.full((*shape, n, m), np.nan), "b": np.full((*shape, n), np.nan),
        "dimensionality": np.full((*shape, n), np.nan),
    }  # fmt: skip
    last: Any = None
    tell, begin, points = progress if callable(progress) else status, work_seconds(), int(np.prod(shape))

    def report(done: int, planned: int, least: float) -> None:
        """Report the present point, that `done` of its `planned` descents are done, and the time left.

        The least loss so far, `least`, is not shown.
        """
        left = time_left(work_seconds() - begin, count + done / planned, points)
        tell(f"point {count + 1} of {points}, {done} of {planned} descents{left}")

    for count, at in enumerate(np.ndindex(*shape)):
        point = {**fixed, **{name: ticks[name][k] for name, k in zip(axes, at, strict=True)}}
        law = _law_at(point)
        rows, columns = law.n_features, int(point["n_hidden"])
        warm_starts = [last] if last is not None and last[0].shape == (rows, columns) else []
        minimum = minimise(rows, columns, law, **settings, first=warm_starts, progress=report)
        last = minimum.W_out, minimum.W_in, minimum.b
        fields["geometry"][at] = geometry(minimum.W) or f"{rows} in {columns}"
        fields["loss"][at], fields["hits"][at] = minimum.loss, minimum.hits
        fields["W"][at][:rows, :columns], fields["b"][at][:rows] = minimum.W, minimum.b
        fields["dimensionality"][at][:rows] = feature_dimensionality(minimum.W)
        left = time_left(work_seconds() - begin, count + 1, points)
        tell(f"{count + 1} of {points} points, {fields['geometry'][at]}{left}")
    extra_dims = {"W": ("feature", "hidden"), "b": ("feature",), "dimensionality": ("feature",)}
    return xr.Dataset(
        {
            name: ((*axes, *extra_dims.get(name, ())), array.astype(str) if name == "geometry" else array)
            for name, array in fields.items()
        },
        {name: ticks[name] for name in axes},
    )


def _law_at(point: Mapping[str, Any]) -> Features:
    """Return the law of the data at a point of the grid.

    `point` has by name n_features, values, p or sparsity (used if both are there), and importance: one for
    each feature, or that of the last one, others 1.
    """
    n = int(point["n_features"])
    name = "sparsity" if "sparsity" in point else "p"  # that of the axis stands
    chance: Any = {name: float(point[name])}
    worth = np.asarray(point["importance"], float)
    if worth.ndim == 0:
        worth = np.append(np.ones(n - 1), worth)
    return Features(n, values=point["values"], importance=worth, **chance)

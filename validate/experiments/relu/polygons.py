"""Many features in two dimensions: the best polygons, and the shapes of small models."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from scipy import optimize

from ....solvers.minimise import minimise
from ....solvers.relu.arrangement import shapes
from ....solvers.relu.polygons import best_polygon
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.validation import FloatArray
from ...runner.declarations import Figure, Run, Table, Topic, TopicContent, span
from ..drawing import plot_function
from .labels import DENSITY, draw_curve, finish_log_axes

# Arrangements that are no polygon, and names of polygons, as `solvers.relu.geometry` has them.
ARRANGEMENTS = {1: "2 singles", 2: "antipodal pair + single", 4: "2 antipodal pairs"}
_POLYGONS = {3: "triangle", 5: "pentagon", 6: "hexagon", 7: "heptagon"}
# Crossings are located to this, relative.
_WIDTH = 1e-3


def arrangement_name(k: int) -> str:
    """Return the name of arrangement k of encodings in the plane, such as "pentagon" for 5.

    `k` is the number of corners of a polygon, or 1 (two single features), 2 (an antipodal pair and a single
    feature) or 4 (two antipodal pairs).
    """
    return (ARRANGEMENTS | _POLYGONS).get(k, f"{k}-gon")


@lru_cache(maxsize=1024)
def _polygon_saved_loss(k: int, p: float) -> float:
    """Return (loss without encodings - loss of a regular k-gon) / (p/3 - p²/4), each summed over k features.

    The denominator is the loss of one dropped feature; the k-gon has its best length and bias.
    """
    return best_polygon(k, p).gain / (p / 3.0 - p**2 / 4.0)


def saved_loss(k: int, p: float) -> float:
    """Return (loss without encodings - loss of arrangement k) / (loss of one dropped feature).

    `k` is the number of corners of a polygon in the plane, or 1 (two single features), 2 (an antipodal pair
    and a single feature) or 4 (two antipodal pairs).
    """
    if k not in ARRANGEMENTS:
        return _polygon_saved_loss(k, p)
    pairs = k // 2  # of two parts; the others are single features, which lose nothing
    return pairs * _polygon_saved_loss(2, p) + (2 - pairs)


def crossings(order: list[int], saved: FloatArray, p: FloatArray) -> list[tuple[float, str, str]]:
    """Return (p, best arrangement below, best one above) at each p where another one becomes the best.

    `saved` (arrangement, p) has the losses that arrangements save, at rising `p`; the best one saves most.
    `order` has the arrangement of each row, as the k of `arrangement_name`.
    """
    winner = np.array(order)[saved.argmax(axis=0)]

    def lead(x: float, a: int, b: int) -> float:
        """Return (saved loss of arrangement a) - (saved loss of b) at p = x."""
        return saved_loss(a, x) - saved_loss(b, x)

    changes = []
    for j in np.flatnonzero(np.diff(winner)):
        low, high = int(winner[j]), int(winner[j + 1])
        at = optimize.brentq(lead, p[j], p[j + 1], (low, high), rtol=_WIDTH)
        changes.append((float(at), arrangement_name(low), arrangement_name(high)))
    return changes


@as_annotated
def run_polygons(
    p: Sequence[float] = (0.01, 0.02, 0.04, 0.08, 0.15, 0.25, 0.4, 0.55, 0.7, 0.9),
    k: Sequence[int] = (3, 5, 6, 7),
    n_features: Sequence[int] = (3, 4, 5),
    *,
    starts: int = 4,
    seed: int = 0,
) -> xr.Dataset:
    r"""Compare arrangements of features in the plane over p, exactly, and find best models of few features.

    Parameters
    ----------
    p, k : sequence of float, of int
        Probabilities that a feature is on, increasing, in [1e-4, 1]. Corners, from 3 on, of the regular
        polygons to compare with two antipodal pairs, a pair and a single feature, and two single features.
    n_features : sequence of int
        Numbers of features of models whose least loss in two dimensions is searched, 2 to 9; the time grows
        as n 5^n.
    starts, seed : int
        Random starts of that search, and their seed.

    Returns
    -------
    xarray.Dataset
        ``saved`` (arrangement, p): (loss without encodings - loss) / (p/3 - p²/4), where p/3 - p²/4 is the
        loss of one dropped feature; a perfect model of k features would save k. Of (crossing):
        ``crossing_p``, where the arrangement that saves most changes, to 1e-3 (one that wins only between two
        neighbouring values of `p` is missed), ``crossing_below`` and ``crossing_above``, the winners on both
        sides. ``best_saved`` and ``shape`` (n_features, p) of the models found. As every dropped feature
        costs the same, the arrangement that saves most is also the best of those compared for any larger
        number of features.

    Examples
    --------
    >>> ds = run_polygons([0.05, 0.3], [5], [3], starts=1)
    >>> ds["shape"].values.tolist()
    [['antipodal pair + single', 'antipodal pair + single']]
    >>> [str(ds["arrangement"].values[i]) for i in ds["saved"].argmax("arrangement").values]
    ['pentagon', '2 antipodal pairs']
    """
    on = validation.real("p", validation.vector("p", p), 1e-4, 1)
    if np.any(np.diff(on) <= 0):
        raise ValueError(f"`p` must increase; got {list(p)}.")
    corners = [validation.integer("k", size, 3, 32) for size in k]
    sizes = [validation.integer("n_features", size, 2, 9) for size in n_features]
    dropped = on / 3.0 - on**2 / 4.0
    order = sorted({*ARRANGEMENTS, *corners})
    saved = np.array([[saved_loss(key, x) for x in on] for key in order])
    changes = crossings(order, saved, on)
    models = [[minimise(size, 2, x, starts=starts, rng=seed) for x in on] for size in sizes]
    best = np.array([[size * model.loss for model in row] for size, row in zip(sizes, models, strict=True)])
    return xr.Dataset(
        {
            "saved": (("arrangement", "p"), saved),
            "best_saved": (("n_features", "p"), np.array(sizes)[:, None] - best / dropped),
            "shape": (("n_features", "p"), [[shapes(model.W) for model in row] for row in models]),
            "crossing_p": ("crossing", np.array([at for at, _, _ in changes])),
            "crossing_below": ("crossing", np.array([low for _, low, _ in changes], dtype=str)),
            "crossing_above": ("crossing", np.array([high for _, _, high in changes], dtype=str)),
        },
        {"arrangement": [arrangement_name(size) for size in order], "p": on, "n_features": sizes},
        {"starts": starts, "seed": seed},
    )


@plot_function
def plot_polygons(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the losses that arrangements save against p, and those of the best models found as markers.

    `ds` is from `run_polygons`.
    """
    for i, name in enumerate(ds["arrangement"].values):
        ax.plot(ds["p"], ds["saved"][i], color=f"C{i % 7}", linestyle="-" if i < 7 else "--", label=str(name))
    for i, n in enumerate(ds["n_features"].values):
        style = {"color": "0.35", "markerfacecolor": "none", "label": f"best of {n} features"}
        draw_curve(ax, ds["p"], ds["best_saved"][i], i, "", **style)
    for at in ds["crossing_p"].values:
        ax.axvline(at, color="0.8", linewidth=0.8, zorder=0)
    beside = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
    return finish_log_axes(ax, beside, xscale="log", xlabel=DENSITY, ylabel="features' worth of loss saved")


def _show_polygons(ds: xr.Dataset) -> TopicContent:
    """Return text, figure and table of the report's part "polygons", from `ds` of `run_polygons`.

    Figure and table have, by p, how much loss regular arrangements in the plane save, and the best models of
    few features. The text says where the best arrangement changes.
    """
    best = ds["saved"].values.argmax(axis=0)
    names = [str(name) for name in ds["arrangement"].values]
    crossings = (ds[f"crossing_{name}"].values for name in ("below", "above", "p"))
    others = ", ".join(name for k, name in enumerate(names) if k not in best) or "none"
    changes = [f"{low} to {high} at p = {at:.3f}" for low, high, at in zip(*crossings, strict=True)]
    text = (
        f"Many features in two dimensions. Of the regular arrangements compared, from p = {span(ds['p'])} "
        f"the one that saves most changes from {', '.join(changes) or 'none'}; never the best: {others}."
    )
    frame = pd.DataFrame(
        {
            "p": [f"{p:g}" for p in ds["p"].values],
            "best arrangement": [names[k] for k in best],
            "saves": [f"{saved:.4f}" for saved in ds["saved"].values.max(axis=0)],
            **{f"best of {int(n)} features": ds["shape"].sel(n_features=n) for n in ds["n_features"]},
        }
    )
    caption = (
        "What is saved is counted in losses of a dropped feature, p/3 - p²/4. The best models of few "
        f"features are the least of {ds.attrs['starts']} random and all structured starts on the exact loss."
    )
    table = Table.of("The best models in two dimensions", frame, caption)
    title = "Regular arrangements in two dimensions"
    caption = (
        "Loss saved by the best norm and bias of each; vertical lines where the winner changes. Markers: the "
        "best models found of a given number of features, which may be irregular and may drop some."
    )
    figure = Figure("polygons", title, caption, ds, plot_polygons, size=(7.0, 3.6))
    return TopicContent(text, [figure], [table])


QUICK = {"p": (0.03, 0.1, 0.2, 0.4, 0.6, 0.8), "k": (3, 5, 6), "n_features": (3, 5), "starts": 2}
FINE = np.geomspace(0.003, 0.95, 25).round(4).tolist()
FULL = {"p": FINE, "k": range(3, 11), "n_features": (3, 4, 5, 6, 7), "starts": 12}
RUNS = {"polygons": Run(run_polygons, QUICK, FULL, seconds=6)}
TOPICS = [Topic("polygons", ["polygons"], _show_polygons, claims=["E9"])]

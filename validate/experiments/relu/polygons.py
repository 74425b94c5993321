"""Many features in two dimensions: which polygon stores them best, and what small models look like."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import xarray as xr
from scipy import optimize

from ....solvers.minimise import minimise
from ....solvers.relu.arrangement import shapes
from ....solvers.relu.polygons import best_polygon
from ....theory import validation
from ....theory.annotations import as_annotated

# Arrangements that are no polygon, and names of polygons, as `solvers.relu.geometry` has them.
ARRANGEMENTS = {1: "2 singles", 2: "antipodal pair + single", 4: "2 antipodal pairs"}
_POLYGONS = {3: "triangle", 5: "pentagon", 6: "hexagon", 7: "heptagon"}
# Crossings are located to this, relative.
_WIDTH = 1e-3


def arrangement_name(k: int) -> str:
    """Return what an arrangement in the plane is called, by its key or its number of corners."""
    return (ARRANGEMENTS | _POLYGONS).get(k, f"{k}-gon")


@lru_cache(maxsize=1024)
def _one(k: int, p: float) -> float:
    return best_polygon(k, p).gain / (p / 3.0 - p**2 / 4.0)


def saved_by(k: int, p: float) -> float:
    """Return what an arrangement saves, by its key in `ARRANGEMENTS` or its number of corners."""
    if k not in ARRANGEMENTS:
        return _one(k, p)
    pairs = k // 2  # of two parts; the others are single features, which lose nothing
    return pairs * _one(2, p) + (2 - pairs)


def crossings(order: list[int], saved: np.ndarray, p: np.ndarray) -> list[tuple[float, str, str]]:
    """Return where the winner changes: p, the winner below, the winner above."""
    winner = np.array(order)[saved.argmax(axis=0)]

    def ahead(x: float, a: int, b: int) -> float:
        return saved_by(a, x) - saved_by(b, x)

    found = []
    for j in np.flatnonzero(np.diff(winner)):
        low, high = int(winner[j]), int(winner[j + 1])
        at = optimize.brentq(ahead, p[j], p[j + 1], (low, high), rtol=_WIDTH)
        found.append((float(at), arrangement_name(low), arrangement_name(high)))
    return found


@as_annotated
def run_polygons(
    p: Sequence[float] = (0.01, 0.02, 0.04, 0.08, 0.15, 0.25, 0.4, 0.55, 0.7, 0.9),
    k: Sequence[int] = (3, 5, 6, 7),
    n_features: Sequence[int] = (3, 4, 5),
    *,
    starts: int = 4,
    seed: int = 0,
) -> xr.Dataset:
    r"""Compare arrangements of features in the plane over p, exactly, and find the best models of few.

    Parameters
    ----------
    p, k : sequence of float, of int
        Probabilities that a feature is on, increasing, in [1e-4, 1]. Corners, from 3 on, of the regular
        polygons to compare; beside them stand two antipodal pairs, a pair and a single feature, two singles.
    n_features : sequence of int
        Sizes of the models whose best state in two dimensions is searched, 2 to 9; takes about n 5^n.
    starts, seed : int
        Random starts of that search, and their seed.

    Returns
    -------
    xarray.Dataset
        ``saved`` (arrangement, p): loss below that of the model that stores nothing, in units of what one
        dropped feature loses, p/3 - p²/4; a perfect model of k features would save k. Of crossing:
        ``crossing_p``, where the winner among them changes (to 1e-3; a winner between two values of `p` that
        wins at neither is missed), ``crossing_below`` and ``crossing_above``, the winners on both sides.
        ``best_saved`` and ``shape`` (n_features, p) of the models found. Dropped features cost the same each:
        the regular arrangement that saves most is the best of them for any large number of features.

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
    saved = np.array([[saved_by(key, x) for x in on] for key in order])
    changes = crossings(order, saved, on)
    models = [[minimise(size, 2, x, starts=starts, rng=seed) for x in on] for size in sizes]
    best = np.array([[size * one.loss for one in row] for size, row in zip(sizes, models, strict=True)])
    return xr.Dataset(
        {
            "saved": (("arrangement", "p"), saved),
            "best_saved": (("n_features", "p"), np.array(sizes)[:, None] - best / dropped),
            "shape": (("n_features", "p"), [[shapes(one.W) for one in row] for row in models]),
            "crossing_p": ("crossing", np.array([at for at, _, _ in changes])),
            "crossing_below": ("crossing", np.array([low for _, low, _ in changes], dtype=str)),
            "crossing_above": ("crossing", np.array([high for _, _, high in changes], dtype=str)),
        },
        {"arrangement": [arrangement_name(size) for size in order], "p": on, "n_features": sizes},
        {"starts": starts, "seed": seed},
    )

"""The lower envelope of structured codes, dropping and the rug on the (p, ratio) plane."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import optimize

from ...theory import arguments
from ...theory import codes as theory
from ...theory.arguments import FloatArray
from ...theory.codes import CODES
from ...theory.rug import linear_loss, zero_ratio_loss
from .. import rug
from ..results import result
from .blocks import LEAST_P, Block, blocks

__all__ = ["MODELS", "Envelope", "crossings", "envelope", "envelopes"]

MODELS = ("tied", "balanced", "free")

# Rugs that may be mixed with other codes: a mixture may be any of these, or the rug at the ratio asked for.
_RUG_RATIOS = np.geomspace(1e-4, 1.0, 160)

# Sizes of cut polygons and of priority codes: all small ones, of the others some, and neighbouring ones mix.
_SIZES = np.unique(np.concatenate([np.arange(5, 40), np.geomspace(5, 30000, 60)]).astype(np.int64))

# Shares below this are none.
_ALONE = 1e-9


@result
class Envelope:
    """The least loss of all codes and mixtures of two; arrays have the shape of p and ratio together.

    Attributes
    ----------
    loss, structured : float or ndarray
        Least loss per feature, an upper bound on the optimum; the same without the rug.
    rug, linear : float or ndarray
        Loss of the rug (macroscopic optimum) and of the affine model at this ratio.
    lower_bound : float or ndarray
        What no model of this ratio can beat, by proof.
    names : tuple of str
        What `first` and `second` count.
    first, second : int or ndarray of int
        The two codes whose mixture has `loss`; the same one where nothing is mixed.
    share : float or ndarray
        Fraction of the features that `second` keeps; 0 where nothing is mixed.
    """

    loss: Any
    structured: Any
    rug: Any
    linear: Any
    lower_bound: Any
    names: tuple[str, ...]
    first: Any
    second: Any
    share: Any


def _hull(ratio: FloatArray, loss: FloatArray) -> npt.NDArray[np.intp]:
    """Return the corners of the lower convex hull, by ascending ratio."""
    corners: list[int] = []
    for k in np.lexsort((loss, ratio)):
        if corners and ratio[k] == ratio[corners[-1]]:
            continue
        while len(corners) > 1:
            i, j = corners[-2:]
            rise = (loss[j] - loss[i]) * (ratio[k] - ratio[i])
            if rise < (loss[k] - loss[i]) * (ratio[j] - ratio[i]):
                break
            corners.pop()
        corners.append(int(k))
    return np.array(corners)


def _mix(
    at: FloatArray, ratio: FloatArray, loss: FloatArray
) -> tuple[FloatArray, npt.NDArray[np.intp], npt.NDArray[np.intp], FloatArray]:
    """Return the hull at some ratios, its corners left and right of each, and the share of the right one."""
    corners = _hull(ratio, loss)
    right = np.clip(np.searchsorted(ratio[corners], at), 1, corners.size - 1)
    i, j = corners[right - 1], corners[right]
    share = (at - ratio[i]) / (ratio[j] - ratio[i])
    return (1.0 - share) * loss[i] + share * loss[j], i, j, share


def points(p: FloatArray, found: list[list[Block]], models: str) -> list[tuple[str, float, FloatArray]]:
    """Return names, ratios and losses at each p of what does not depend on the ratio asked for."""
    codes = [("dropped", 0.0, np.asarray(zero_ratio_loss(p))), ("identity", 1.0, np.zeros(p.size))]
    for one in found:
        if models != "tied" or not one[0].shifted:
            codes.append((one[0].name, one[0].ratio, np.array([block.loss for block in one])))
    if models == "balanced":
        codes += [("cut polygon", 3.0 / k, np.asarray(theory.collision_loss(p, k))) for k in _SIZES]
    if models == "free":
        codes += [("skew pair", 0.5, np.asarray(theory.skew_pair_loss(p)))]
        codes += [("priority", 2.0 / k, np.asarray(theory.priority_plane_loss(p, k))) for k in _SIZES]
    return codes


def envelope(
    p: npt.ArrayLike, ratio: npt.ArrayLike, codes: Sequence[str] = CODES, *, models: str = "balanced"
) -> Envelope:
    """Find the least loss of structured codes, dropping, the rug and all mixtures of two.

    Parameters
    ----------
    p : array_like of float
        Probability that a feature is on, in [1e-6, 1).
    ratio : array_like of float
        n_hidden/n_features, in (0, 1]. Broadcasts with `p`; rows of equal p share their work.
    codes : sequence of str, optional
        Codes to compare, see `theory.codes.overlaps`. Features kept exactly ("identity"), dropped ones, and
        the rug always belong to them.
    models : {"tied", "balanced", "free"}, optional
        What is allowed. ``"tied"``: W W' only. ``"balanced"``: also decoders that are not the transpose of
        the encoder, with all features of a code alike: shifted codes and cut polygons. ``"free"``: also
        weights that differ by orders of magnitude from feature to feature: skew pairs and priority codes.

    Returns
    -------
    Envelope

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    Codes count with the exact loss of a model, but for cut polygons (`theory.codes.collision_loss`, a bound),
    priority codes (their infimum) and the rug (its macroscopic loss, the limit of many features). A mixture
    keeps a share of the features in each of two codes, in blocks that do not touch, so losses and ratios both
    average. It needs n_features large enough for the shares.

    Examples
    --------
    >>> found = envelope(0.05, 0.25, ["pair"])
    >>> found.names[found.first], found.names[found.second], round(found.share, 3)
    ('rug', 'rug', 0.0)
    """
    models, codes = arguments.choice("models", models, MODELS), arguments.choices("codes", codes, CODES)
    on, r = _plane(p, ratio)
    return _envelope(on, r, blocks(np.unique(on), codes, tied=models == "tied"), models)


def envelopes(p: npt.ArrayLike, ratio: npt.ArrayLike, codes: Sequence[str] = CODES) -> dict[str, Envelope]:
    """Find the envelope for each kind of model in `MODELS`; faster than `envelope` one after the other.

    Examples
    --------
    >>> found = envelopes(1e-3, 0.25, ["pair"])
    >>> [round(found[models].loss / found[models].rug, 3) for models in MODELS]
    [1.0, 0.996, 0.228]
    """
    on, r = _plane(p, ratio)
    found = blocks(np.unique(on), arguments.choices("codes", codes, CODES))
    return {models: _envelope(on, r, found, models) for models in MODELS}


def _plane(p: npt.ArrayLike, ratio: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    on = arguments.real("p", p, LEAST_P, 1, brackets="[)")
    r = arguments.real("ratio", ratio, 0, 1, brackets="(]")
    on, r = arguments.together(p=on, ratio=r)
    return on, r


def _envelope(on: FloatArray, r: FloatArray, found: list[list[Block]], models: str) -> Envelope:
    """Return the envelope, given the blocks at all different values of p."""
    shape, on, r = on.shape, on.ravel(), r.ravel()
    distinct, place = np.unique(on, return_inverse=True)
    names, ratios, losses = zip(*points(distinct, found, models), strict=True)
    count = len(names)
    ratio = np.concatenate([ratios, _RUG_RATIOS])
    loss = np.concatenate([losses, rug.optimum(distinct, _RUG_RATIOS[:, None]).loss])
    kinds = tuple(dict.fromkeys((*names, "rug")))  # one for all rugs, one for all cut polygons
    number = np.array([kinds.index(name) for name in (*names, *["rug"] * _RUG_RATIOS.size)])
    alone = np.asarray(rug.optimum(on, r).loss)
    (least, structured, share), (first, second) = np.empty((3, on.size)), np.empty((2, on.size), np.intp)
    for k in range(distinct.size):
        mine = place.ravel() == k
        structured[mine] = _mix(r[mine], ratio[:count], loss[:count, k])[0]
        least[mine], first[mine], second[mine], share[mine] = _mix(r[mine], ratio, loss[:, k])
    pure = alone <= least
    first, second = (np.where(pure, kinds.index("rug"), number[index]) for index in (first, second))
    # at the ratio of a code nothing is mixed
    first, second = np.where(share > 1.0 - _ALONE, second, first), np.where(share < _ALONE, first, second)
    fields = {
        "loss": np.minimum(alone, least),
        "structured": structured,
        "rug": alone,
        "linear": linear_loss(on, r),
        "lower_bound": np.maximum(theory.relu_bound(on, r), theory.decoder_bound(on, r)),
        "first": first,
        "second": second,
        "share": np.where(first == second, 0.0, share),
    }
    shaped = {name: np.asarray(field).reshape(shape)[()] for name, field in fields.items()}
    return Envelope(names=kinds, **shaped)


def crossings(
    ratio: float,
    codes: Sequence[str] = ("pair",),
    *,
    models: str = "balanced",
    low: float = 1e-4,
    high: float = 0.9,
    points: int = 33,
) -> FloatArray:
    """Find where, at one ratio, the rug and the best mixture of structured codes have the same loss.

    Parameters
    ----------
    ratio : float
        n_hidden/n_features, in (0, 1).
    codes, models : optional
        As for `envelope`.
    low, high : float, optional
        Range of p, within [1e-6, 1).
    points : int, optional
        Values of p at which signs are compared, at least 2: two crossings between two neighbours are missed.

    Returns
    -------
    (n,) ndarray of float64
        Values of p, ascending, to 1e-9 relative for what is in closed form (pairs), to 1e-4 else.

    Examples
    --------
    >>> crossings(0.25, models="tied").round(6)          # pairs and dropped features beat the rug in between
    array([0.096833, 0.83973 ])
    """
    at = arguments.number("ratio", ratio, 0, 1, brackets="()")
    low = arguments.number("low", low, LEAST_P, 1, brackets="[)")
    high = arguments.number("high", high, low, 1, brackets="()")
    count = arguments.integer("points", points, 2, 10_000)

    def excess(log_p: npt.ArrayLike) -> FloatArray:
        found = envelope(np.atleast_1d(np.exp(log_p)), at, codes, models=models)
        return np.asarray(np.log(found.structured / found.rug))

    grid = np.linspace(np.log(low), np.log(high), count)
    values = excess(grid)
    roots = [
        optimize.brentq(lambda x: float(excess(x)[0]), grid[k], grid[k + 1], xtol=1e-10)
        for k in range(count - 1)
        if values[k] * values[k + 1] < 0.0
    ]
    return np.exp(np.array(roots, dtype=np.float64))

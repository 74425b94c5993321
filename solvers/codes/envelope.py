"""The lower envelope of structured codes, dropping and the rug on the (p, ratio) plane."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...theory import codes as theory
from ...theory import validation
from ...theory.codes import CODES
from ...theory.rug import linear_loss, zero_ratio_loss
from ...theory.validation import FloatArray
from .. import rug
from ..results import result
from .blocks import LEAST_P, Block, blocks

__all__ = ["MODELS", "Envelope", "envelope", "envelope_of"]

MODELS = ("tied", "balanced", "free")

# Rugs that may be mixed with other codes: a mixture may be any of these, or the rug at the ratio asked for.
_RUG_RATIOS = np.geomspace(1e-4, 1.0, 160)
# Sizes of cut polygons and of priority codes: all small ones, of the others some, and neighbouring ones mix.
_SIZES = np.unique(np.concatenate([np.arange(5, 40), np.geomspace(5, 30000, 60)]).astype(np.int64))

_ALONE = 1e-9  # shares below this are none


@result
class Envelope:
    """Least loss of all codes and mixtures of two; floats, or arrays of the shape of p and ratio."""

    loss: Any
    """Least loss per feature: an upper bound on the optimum."""
    structured: Any
    """Least loss without the rug."""
    rug: Any
    """Loss of the rug (macroscopic optimum) at this ratio."""
    linear: Any
    """Loss of the best affine model at this ratio."""
    lower_bound: Any
    """Proved: no model of this ratio has a smaller loss."""
    names: tuple[str, ...]
    """Names of codes, of which `first` and `second` are indices."""
    first: Any
    """Index of one code of the mixture that has `loss`."""
    second: Any
    """Index of the other code; equal to `first` where nothing is mixed."""
    share: Any
    """Fraction of the features in `second`; 0 where nothing is mixed."""


def hull(ratio: FloatArray, loss: FloatArray) -> npt.NDArray[np.intp]:
    """Return the indices of the corners of the lower convex hull of (ratio, loss), by ascending ratio."""
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


def _mix_on_hull(
    at: FloatArray, ratio: FloatArray, loss: FloatArray
) -> tuple[FloatArray, npt.NDArray[np.intp], npt.NDArray[np.intp], FloatArray]:
    """Return (loss, left, right, share): the lower convex hull of the points (ratio, loss) at each of `at`.

    A point is a code with its ratio n_hidden/n_features. `left` and `right` are the indices of the two codes
    on either side of the requested ratio; the hull's loss is that of their mixture with the fraction `share`
    of the features in the right one.
    """
    corners = hull(ratio, loss)
    right = np.clip(np.searchsorted(ratio[corners], at), 1, corners.size - 1)
    i, j = corners[right - 1], corners[right]
    share = (at - ratio[i]) / (ratio[j] - ratio[i])
    return (1.0 - share) * loss[i] + share * loss[j], i, j, share


def code_points_on_plane(
    p: FloatArray, blocks_by_code: list[list[Block]], models: str
) -> list[tuple[str, float, FloatArray]]:
    """Return (name, n_hidden/n_features, losses at each p) of each code but the rug, which has any ratio.

    "dropped" (ratio 0) and "identity" (ratio 1, loss 0) are among the codes. `blocks_by_code` has each code's
    `Block` at each p; `models` says which models are allowed, "tied", "balanced" or "free", as in `envelope`.
    """
    codes = [("dropped", 0.0, np.asarray(zero_ratio_loss(p))), ("identity", 1.0, np.zeros(p.size))]
    codes += [
        (blocks[0].name, blocks[0].ratio, np.array([block.loss for block in blocks]))
        for blocks in blocks_by_code
        if models != "tied" or not blocks[0].shifted
    ]
    if models == "balanced":
        codes += [("cut polygon", 3.0 / k, np.asarray(theory.collision_loss(p, k))) for k in _SIZES]
    if models == "free":
        codes += [("skew pair", 0.5, np.asarray(theory.skew_pair_loss(p)))]
        codes += [("priority", 2.0 / k, np.asarray(theory.priority_plane_loss(p, k))) for k in _SIZES]
    return codes


def envelope(
    p: npt.ArrayLike, ratio: npt.ArrayLike, codes: Sequence[str] = CODES, *, models: str = "balanced"
) -> Envelope:
    """Return the least loss of structured codes, dropping, the rug and all mixtures of two.

    The rug is the random code of Cowsik et al. (2024). Most codes have the exact loss of a model. Three have
    a formula: cut polygons (`theory.codes.cut_polygon`, without positive interference) the upper bound
    `theory.codes.collision_loss`; priority codes (`theory.codes.priority_map`: encodings of very different
    lengths, where the longer one wins) the infimum of their losses; the rug its limit of many features. A
    mixture stores a share of the features in each of two codes, in separate blocks, so that losses and ratios
    both average.

    Parameters
    ----------
    p, ratio : array_like of float
        Probability that a feature is on, in [1e-6, 1), and n_hidden/n_features, in (0, 1].
    codes : sequence of str, optional
        Names of codes to compare, from `theory.codes.CODES`. Features kept exactly ("identity"), dropped
        ones, and the rug always belong to them.
    models : {"tied", "balanced", "free"}, optional
        Which models are allowed. ``"tied"``: W W' only. ``"balanced"``: also decoders that are not the
        transpose of the encoder, in codes that treat all features alike: shifted codes and cut polygons.
        ``"free"``: skew pairs and priority codes, whose weights differ by orders of magnitude between
        features, in place of cut polygons.

    Returns
    -------
    Envelope

    Examples
    --------
    >>> found = envelope(0.05, 0.25, ["pair"])
    >>> found.names[found.first], found.names[found.second], round(found.share, 3)
    ('rug', 'rug', 0.0)
    """
    on, _ = _checked_plane(p, ratio)
    tied = validation.choice("models", models, MODELS) == "tied"
    chosen = validation.choices("codes", codes, CODES)
    return envelope_of(blocks(np.unique(on), chosen, tied=tied), p, ratio, models=models)


def envelope_of(
    blocks_of_codes: Sequence[Sequence[Block]],
    p: npt.ArrayLike,
    ratio: npt.ArrayLike,
    *,
    models: str = "balanced",
) -> Envelope:
    """Return the least loss of codes, dropping, the rug and mixtures, from blocks that were optimised before.

    Parameters
    ----------
    blocks_of_codes : sequence of sequence of Block
        From `blocks`: for each code, its block at each distinct p in ascending order.
    p, ratio : array_like of float
        Probability that a feature is on, in [1e-6, 1), and n_hidden/n_features, in (0, 1].
    models : {"tied", "balanced", "free"}, optional
        Which models are allowed; `envelope` says what the names mean.

    Returns
    -------
    Envelope
        With arrays of the shape to which p and ratio broadcast.

    Raises
    ------
    ValueError
        If an argument is out of range, or the blocks are not those at each different p.

    Examples
    --------
    >>> found = blocks([0.05], ["pair"])
    >>> envelope_of(found, 0.05, 0.25) == envelope(0.05, 0.25, ["pair"])
    True
    """
    models = validation.choice("models", models, MODELS)
    on, r = _checked_plane(p, ratio)
    distinct = np.unique(on).tolist()
    rows = (
        [list(row) if isinstance(row, Sequence) else [] for row in blocks_of_codes]
        if isinstance(blocks_of_codes, Sequence)
        else []
    )
    if not rows or any([getattr(block, "p", None) for block in row] != distinct for row in rows):
        raise ValueError(
            "`blocks_of_codes` must have the blocks of one code or more at each p; got "
            f"{validation.short_repr(blocks_of_codes)}."
        )
    return _envelope(on, r, rows, models)


def _checked_plane(p: npt.ArrayLike, ratio: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return p, in [1e-6, 1), and the ratio, in (0, 1], broadcast together; ValueError if out of range."""
    on = validation.real("p", p, LEAST_P, 1, brackets="[)")
    r = validation.real("ratio", ratio, 0, 1, brackets="(]")
    on, r = validation.broadcast(p=on, ratio=r)
    return on, r


def _envelope(on: FloatArray, r: FloatArray, blocks_by_code: list[list[Block]], models: str) -> Envelope:
    """Return the `Envelope` at probabilities `on` and ratios r, arrays of one shape.

    `blocks_by_code` has each code's `Block` at each distinct p in ascending order; `models` says which models
    are allowed, "tied", "balanced" or "free" (see `envelope`).
    """
    shape, on, r = on.shape, on.ravel(), r.ravel()
    distinct, position = np.unique(on, return_inverse=True)
    names, ratios, losses = zip(*code_points_on_plane(distinct, blocks_by_code, models), strict=True)
    count = len(names)
    ratio = np.concatenate([ratios, _RUG_RATIOS])
    loss = np.concatenate([losses, rug.optimum(distinct, _RUG_RATIOS[:, None]).loss])
    kinds = tuple(dict.fromkeys((*names, "rug")))  # one for all rugs, one for all cut polygons
    number = np.array([kinds.index(name) for name in (*names, *["rug"] * _RUG_RATIOS.size)])
    alone = np.asarray(rug.optimum(on, r).loss)
    (least, structured, share), (first, second) = np.empty((3, on.size)), np.empty((2, on.size), np.intp)
    for k in range(distinct.size):
        mine = position.ravel() == k
        structured[mine] = _mix_on_hull(r[mine], ratio[:count], loss[:count, k])[0]
        least[mine], first[mine], second[mine], share[mine] = _mix_on_hull(r[mine], ratio, loss[:, k])
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

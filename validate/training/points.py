"""Sequences of n_hidden, p and seed that define models of one n_features; models of a dataset by these."""

import numpy as np
import numpy.typing as npt
import xarray as xr

from ...theory import validation
from ...theory.annotations import as_annotated

MOST_EVALUATION_SAMPLES = 10**8  # from here on a loss has four digits, and more samples take hours
LARGEST_SIZE = 2**31 - 1  # netCDF-3 holds no larger integer


@as_annotated
def grid(
    n_features: int, p: npt.ArrayLike, ratio: npt.ArrayLike, seed: npt.ArrayLike
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return n_hidden, p and seed of each model of the product p × ratio × seed, as arguments of `train`.

    Parameters
    ----------
    n_features : int
        Number of features, at least 2.
    p, ratio : array_like of float
        Probabilities that a feature is on, and ratios of n_hidden to n_features, in (0, 1]. The number of
        hidden neurons is ratio * n_features, rounded, and at least 1, so that the true ratio is
        ``n_hidden / n_features``.
    seed : array_like of int
        Seeds, not negative.

    Returns
    -------
    n_hidden, p, seed : (models,) ndarray
        The seed changes fastest, p slowest.

    Examples
    --------
    >>> n_hidden, p, seed = grid(128, p=[0.05], ratio=[0.25, 0.5], seed=[0, 1])
    >>> n_hidden.tolist(), seed.tolist()
    ([32, 32, 64, 64], [0, 1, 0, 1])
    """
    n_features = validation.integer("n_features", n_features, 2, LARGEST_SIZE)
    ps = validation.real("p", validation.vector("p", p), 0, 1, brackets="(]")
    ratios = validation.real("ratio", validation.vector("ratio", ratio), 0, 1, brackets="(]")
    every = np.atleast_1d(np.asarray(seed))
    if every.ndim > 1:
        raise ValueError(f"`seed`, `seeds` must be a list of whole numbers; got shape {every.shape}.")
    seeds = [validation.integer("seed", item, 0, LARGEST_SIZE) for item in every]
    hidden = [max(1, round(float(item) * n_features)) for item in ratios]
    each_p, each_hidden, each_seed = map(np.ravel, np.meshgrid(ps, hidden, seeds, indexing="ij"))
    return each_hidden, each_p, each_seed


def broadcast(**columns: npt.ArrayLike) -> list[np.ndarray]:
    """Return named scalars or vectors in their order, broadcast to one length, the number of models.

    Sequences of other dimensions, or empty ones, raise a ValueError that names them.
    """
    rows = validation.broadcast(**{name: np.atleast_1d(np.asarray(item)) for name, item in columns.items()})
    if rows[0].ndim != 1 or rows[0].size == 0:
        names = ", ".join(f"`{name}`" for name in columns)
        raise ValueError(f"{names} must be one-dimensional, not empty; got shape {rows[0].shape}.")
    return rows


def model_points(
    n_features: int, n_hidden: npt.ArrayLike, p: npt.ArrayLike, seed: npt.ArrayLike
) -> tuple[list[int], list[float], list[int]]:
    """Return n_hidden, p and seed of each model as lists of one length; ValueError if out of range.

    Each is one number for all models or a vector. p, the probability that a feature is on, is in (0, 1],
    n_hidden from 1 to `n_features`, and a seed not negative.
    """
    hidden, ps, seeds = broadcast(n_hidden=n_hidden, p=p, seed=seed)
    return (
        [validation.integer("n_hidden", item, 1, n_features) for item in hidden],
        validation.real("p", ps, 0, 1, brackets="(]").tolist(),
        [validation.integer("seed", item, 0, LARGEST_SIZE) for item in seeds],
    )


@as_annotated
def models_at(ds: xr.Dataset, p: float, ratio: float, n_features: int | None = None) -> np.ndarray:
    """Return the indices of a dataset's models with this p, this n_features, and nearly this ratio.

    `ds` has ``p``, ``ratio`` and ``n_features`` of each model; models of all sizes count if `n_features` is
    None. Ratios within 5 % count as near, as numbers of neurons are whole.
    """
    lacking = [name for name in ("p", "ratio", "n_features") if name not in ds]
    if lacking:
        raise ValueError(f"`ds` must be a dataset of models with {lacking[0]!r}; got {list(ds.variables)}.")
    mine = (ds["p"].values == p) & (np.abs(ds["ratio"].values / ratio - 1) < 0.05)
    if n_features is not None:
        mine &= ds["n_features"].values == n_features
    return np.flatnonzero(mine)

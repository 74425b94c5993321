"""Which models of one n_features are trained: sequences of n_hidden, p and seed; and where they are found."""

import itertools

import numpy as np
import numpy.typing as npt
import xarray as xr

from ...theory import arguments

__all__ = ["LARGEST_SIZE", "grid", "models_at", "points"]

LARGEST_SIZE = 2**31 - 1  # netCDF-3 holds no larger integer


def grid(
    n_features: int, p: npt.ArrayLike, ratio: npt.ArrayLike, seed: npt.ArrayLike
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """List the product p × ratio × seed as the sequences that `train` takes.

    Parameters
    ----------
    n_features : int
        At least 2.
    p, ratio : (any,) array_like of float
        In (0, 1]. The number of hidden neurons is ratio * n_features, rounded, and at least 1: the
        ratio that was really trained is ``n_hidden / n_features``.
    seed : (any,) array_like of int
        Not negative.

    Returns
    -------
    n_hidden, p, seed : (models,) ndarray
        The seed changes fastest, p slowest.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> n_hidden, p, seed = grid(128, p=[0.05], ratio=[0.25, 0.5], seed=[0, 1])
    >>> n_hidden.tolist(), seed.tolist()
    ([32, 32, 64, 64], [0, 1, 0, 1])
    """
    n_features = arguments.integer("n_features", n_features, 2, LARGEST_SIZE)
    ps = arguments.real("p", arguments.vector("p", p), 0, 1, brackets="(]")
    ratios = arguments.real("ratio", arguments.vector("ratio", ratio), 0, 1, brackets="(]")
    seeds = [arguments.integer("seed", item, 0, LARGEST_SIZE) for item in np.atleast_1d(np.asarray(seed))]
    hidden = [max(1, round(float(item) * n_features)) for item in ratios]
    rows = list(itertools.product(ps.tolist(), hidden, seeds))
    return (
        np.array([row[1] for row in rows], dtype=np.int64),
        np.array([row[0] for row in rows], dtype=np.float64),
        np.array([row[2] for row in rows], dtype=np.int64),
    )


def points(
    n_features: int, n_hidden: npt.ArrayLike, p: npt.ArrayLike, seed: npt.ArrayLike
) -> tuple[list[int], list[float], list[int]]:
    """Check and broadcast the sequences that say which models are to be trained."""
    try:
        columns = np.broadcast_arrays(*(np.atleast_1d(np.asarray(item)) for item in (n_hidden, p, seed)))
    except ValueError as error:
        shapes = ", ".join(str(np.shape(item)) for item in (n_hidden, p, seed))
        raise ValueError(f"`n_hidden`, `p` and `seed` must broadcast; got shapes {shapes}.") from error
    if columns[0].ndim != 1 or columns[0].size == 0:
        shape = columns[0].shape
        raise ValueError(f"`n_hidden`, `p` and `seed` must be one-dimensional, not empty; got shape {shape}.")
    hidden = [arguments.integer("n_hidden", item, 1, n_features) for item in columns[0]]
    ps = arguments.real("p", columns[1], 0, 1, brackets="(]").tolist()
    seeds = [arguments.integer("seed", item, 0, LARGEST_SIZE) for item in columns[2]]
    return hidden, ps, seeds


def models_at(ds: xr.Dataset, p: float, ratio: float, n_features: int | None = None) -> np.ndarray:
    """Return the indices of the models at one p, near one ratio, of one size or of all.

    Parameters
    ----------
    ds : xarray.Dataset
        With ``p``, ``ratio`` and ``n_features`` of each model.
    p, ratio : float
        Ratios within 5 % count as near, as numbers of neurons are whole.
    n_features : int, optional

    Returns
    -------
    ndarray of int
    """
    mine = (ds["p"].values == p) & (np.abs(ds["ratio"].values / ratio - 1) < 0.05)
    if n_features is not None:
        mine &= ds["n_features"].values == n_features
    return np.flatnonzero(mine)

"""A table of a model's features: which ones it represents, and their interference."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from ...solvers.deadline import Deadline
from ...solvers.minimise import Minimum
from ...theory.features import Features
from ...theory.validation import BoolArray, FloatArray, short_repr
from ..audit.losses import loss_within
from ..audit.models import shares_saved
from ..audit.results import REPRESENTED
from ..loading import Weights

__all__ = ["feature_names", "feature_table", "has_equal_features", "near_equal", "unrepresented"]

# Minima up to this share above the best one are nearly equal; so many are compared.
_NEAR, _COMPARED = 0.05, 4
_COMPARED_TOL = 1e-6  # of losses that only tell which features a minimum represents
# Features that a line names.
_NAMED = 12


def has_equal_features(law: Features) -> bool:
    """Return whether features are independent and uniform on [0, scale], with one p, scale and importance."""
    return bool(law.has_equal_features and np.all(law.importance == law.importance[0]))


def feature_names(names: Any, n: int) -> list[Any]:
    """Return the names of n features as text, or numbers from 0 if `names` is None.

    ValueError unless there are n distinct names.

    >>> feature_names(None, 2), feature_names(("red", "blue"), 2)
    ([0, 1], ['red', 'blue'])
    """
    if names is None:
        return list(range(n))
    labels = [] if isinstance(names, str | bytes) or not np.iterable(names) else list(names)
    if len(labels) != n or len(set(map(str, labels))) != n:
        raise ValueError(f"`names` must be {n} distinct names; got {short_repr(names)}.")
    return [str(label) for label in labels]


def feature_table(
    W_out: FloatArray, W_in: FloatArray, per_feature: FloatArray, law: Features, names: Sequence[Any]
) -> xr.Dataset:
    """Return a dataset over ``feature`` with a model's norm, loss and interference of each feature.

    The model has the weights W_out (n_features, n_hidden) and W_in, its shape reversed; `per_feature` are the
    features' mean squared errors, `names` their names. The columns are ``p``, ``importance``; ``norm``, the
    length of the encoding; ``loss``, the mean squared error; ``share_saved``, the share of the feature's
    variance that the model saves; ``represented``, whether this is a half or more; ``interference``, the
    off-diagonal entry M_ij s_j / s_i of largest absolute value in the feature's row i, with M = W_out W_in
    and the law's scales s; and ``interference_from``, the name of that feature j.
    """
    M = W_out @ W_in * (law.scale / law.scale[:, None])
    others = np.where(np.eye(len(M), dtype=bool), 0.0, M)
    largest = np.argmax(np.abs(others), axis=1)
    saved = shares_saved(per_feature, law)
    columns = {
        "p": law.p,
        "importance": law.importance,
        "norm": np.linalg.norm(W_in, axis=0),
        "loss": per_feature,
        "share_saved": saved,
        "represented": saved >= REPRESENTED,
        "interference": others[np.arange(len(M)), largest],
        "interference_from": np.array(names)[largest],
    }
    return xr.Dataset(
        {name: ("feature", np.array(column)) for name, column in columns.items()}, {"feature": list(names)}
    )


def unrepresented(table: xr.Dataset) -> str:
    """Return the names of the features that a model does not represent, joined by commas, at most 12.

    `table` has the names as ``feature`` and the bools ``represented``, as from `feature_table`.
    """
    return join_names(table["feature"].values[~table["represented"].values])


def join_names(names: Any) -> str:
    """Return the first 12 names, joined by commas, and a count of the others.

    >>> join_names(range(20))
    '0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 8 others'
    """
    ending = f" and {len(names) - _NAMED} others" if len(names) > _NAMED else ""
    return ", ".join(str(name) for name in list(names)[:_NAMED]) + ending


def near_equal(
    minimum: Minimum, law: Features, represented: BoolArray, names: Sequence[Any], deadline: Deadline
) -> list[str]:
    """Return a line for each minimum of a search, at most 5 % above its best, that represents other features.

    A line says by how much such a minimum is above, and which features it represents or drops that the best
    one does not. `represented`, (n,), marks the features that the best one represents, `names` are those of
    all n. Up to 4 lines, as far as time until `deadline` allows; none for equal features.
    """
    if has_equal_features(law):  # minima are told apart up to the order of the features
        return []
    lines: list[str] = []
    seen = {represented.tobytes()}
    for other in minimum.minima[1:]:
        above = other.objective / minimum.objective - 1.0 if minimum.objective > 0.0 else np.inf
        if above > _NEAR or len(lines) >= _COMPARED or deadline.is_over():
            break
        weights = Weights(other.W_out, other.W_in, other.b)
        losses = loss_within(weights, law, deadline, tol=_COMPARED_TOL, has_descents=True)
        represents = shares_saved(losses.per_feature, law) >= REPRESENTED
        if represents.tobytes() in seen:
            continue
        seen.add(represents.tobytes())
        swap = [
            f"{what} {join_names([names[k] for k in np.flatnonzero(which).tolist()])}"
            for what, which in (
                ("represents", represents & ~represented),
                ("drops", represented & ~represents),
            )
            if which.any()
        ]
        lines.append(f"a minimum only {100.0 * above:.2g} % above {' and '.join(swap)}")
    return lines

"""The picture of any answer, model or one-dimensional dataset."""

from typing import Any

import xarray as xr
from matplotlib.axes import Axes

from ...theory import validation
from ...theory.model import Model
from ..audit.training_log import TrainingLog
from .answer import Answer
from .pictures import axes, draw_columns, encodings, gram

__all__ = ["plot"]


def plot(result: Any, ax: Any = None, **settings: Any) -> Axes:
    """Draw the result of any ``sp`` function, a model, or a dataset of a sweep.

    >>> import superposition as sp
    >>> plot(sp.phases(grid={"sparsity": [0.1, 0.9], "importance": [0.3, 1.0]})).get_xlabel()
    'sparsity S = 1 - p'

    Parameters
    ----------
    result : Answer, TrainingLog, Model or xarray.Dataset
        A dataset of one dimension is drawn over it.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new axes by default.
    **settings
        Options of the picture: ``points=(n_hidden, loss)`` adds your points to predictions over widths; ``x``
        and ``y`` are columns of tables.
    """
    if isinstance(result, Answer | TrainingLog):
        drawn: Axes = result.plot(ax, **settings)
        return drawn
    if isinstance(result, Model):
        target = axes(ax)
        if result.n_hidden == 2:
            return encodings(result.W_in.T, target)
        return gram(result.W_out, result.W_in, target)
    if isinstance(result, xr.Dataset) and len(result.dims) == 1:
        return draw_columns(result.reset_coords(), axes(ax), **settings)
    raise ValueError(
        "`result` must be an answer such as that of `loss`, a Model, or a dataset of one dimension; got "
        f"{validation.short_repr(result)}."
    )

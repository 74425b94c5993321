"""The best split of hidden neurons over features, and bounds of the loss, on the width law."""

import itertools
from collections.abc import Sequence

import numpy as np
import xarray as xr

from ....solvers.loss import exact_loss
from ....solvers.unequal import KINDS, allocate, allocate_codes, realise
from ....theory.annotations import as_annotated
from ....theory.unequal import loss_bound, priority_loss
from ...runner.declarations import Run, from_rows
from .models import source_law


@as_annotated
def run_split(
    alpha: Sequence[float] = (0.0, 1.0, 2.0),
    n_hidden: Sequence[int] = (1, 3, 10, 32, 100),
    *,
    n_features: int = 128,
    on: float = 1.0,
    seed: int = 0,
) -> xr.Dataset:
    """Return losses of the best split of the hidden neurons at the points of `run_width`, and bounds.

    A split gives each feature its share of a hidden dimension, see `solvers.unequal.allocate`.

    Parameters
    ----------
    alpha, n_hidden : sequence of float, sequence of int
        Exponents of the frequencies, p_i proportional to i^-alpha; numbers of neurons.
    n_features, on : int, float
        Number of features, and mean number of them that are on.
    seed : int
        Seed of the matrices that realise a split.

    Returns
    -------
    xarray.Dataset
        Of (alpha, n_hidden), losses per feature: ``loss``, of the best split into features that are dropped,
        have a neuron of their own, share one in a pair, or are in a random code (the rug), in the limit of
        many features; ``bound``, a proved lower bound for all models; ``priority``, the exact loss of a code
        in which features of longer encodings turn the outputs of others off (`theory.unequal.priority_loss`);
        ``envelope``, of the best known codes if each feature represents many of the same frequency
        (`solvers.unequal.allocate_codes`); ``realised``, the exact loss of a matrix that realises the split,
        NaN if none is found. Of (alpha, n_hidden, kind): ``count``, the number of features of each kind in
        the split.

    Examples
    --------
    >>> ds = run_split([1.0], [2], n_features=16)
    >>> bool((ds["bound"] <= ds["priority"]).all()), ds["count"].sum("kind").item()
    (True, 16)
    """
    rows = []
    for exponent, m in itertools.product(alpha, n_hidden):
        law = source_law(exponent, n_features, on)
        best = allocate(law, m, codes=("rug", "pairs", "skew pairs"))
        try:
            model = realise(best, law, rng=np.random.default_rng([seed, n_features, m]))
            realised = exact_loss(model[0] @ model[1], model[2], law, tol=1e-6).loss
        except ValueError:  # no tight frame has rows of these lengths, to the eye of the search
            realised = np.nan
        row = {
            "loss": best.loss - best.gap,
            "bound": loss_bound(law, m),
            "priority": priority_loss(law, m),
            "envelope": allocate_codes(law, m).loss,
            "realised": realised,
            "count": ("kind", np.bincount(best.kind, minlength=len(KINDS))),
        }
        rows.append(row)
    ds = from_rows(rows, alpha=alpha, n_hidden=n_hidden).assign_coords(kind=list(KINDS))
    return ds.assign_attrs(n_features=n_features, on=on)


RUNS = {"split": Run(run_split, seconds=40)}

"""The optimum of two features on one neuron, of which models at ratio 1/2 are copies."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from ....solvers import rug as solvers
from ....solvers.minimise import minimise
from ....theory import validation
from ....theory.annotations import as_annotated
from ...runner.declarations import Run, from_rows


@as_annotated
def run_pair(p: Sequence[float], *, starts: int = 20, seed: int = 0) -> xr.Dataset:
    """Minimise the exact loss of two features on one neuron, with a free decoder and biases, at each p.

    `starts` is the number of random starts of the search, `seed` their seed. Copies of this model side by
    side make a model of any even n_features = 2 n_hidden, with the same statistics.

    Returns
    -------
    xarray.Dataset
        Of (p): ``loss`` per feature, ``relative_loss`` = loss/rug, ``gradient_norm``, and over the two
        features, with M = W_out W_in: ``diagonal_sd`` and ``bias_sd``, standard deviations of M_ii and b_i;
        ``row_variance_spread``, the standard deviation of M_12^2 and M_21^2 over their mean.
    """
    rows = []
    validation.probability("p", p)
    for probability in p:
        minimum = minimise(2, 1, probability, tied=False, starts=starts, rng=seed)
        M = minimum.W_out @ minimum.W_in
        off_diagonal_squares = np.array([M[0, 1], M[1, 0]]) ** 2
        row = {
            "p": probability,
            "loss": minimum.loss,
            "relative_loss": minimum.loss / float(solvers.optimum(probability, 0.5).loss),
            "gradient_norm": minimum.gradient_norm,
            "diagonal_sd": np.std(np.diagonal(M)),
            "bias_sd": np.std(minimum.b),
            "row_variance_spread": np.std(off_diagonal_squares) / np.mean(off_diagonal_squares),
        }
        rows.append(row)
    return from_rows(rows, p=-1)


PAIR = {"p": [0.01, 0.05, 0.1]}

RUNS = {"pair": Run(run_pair, PAIR, PAIR)}

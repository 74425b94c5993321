"""Descents by exact gradients of small models that were trained on pairs of dependent features."""

from collections.abc import Sequence

import xarray as xr

from ....solvers.loss import exact_loss
from ....solvers.minimise import descend
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.unequal import independent_copies
from ...runner.declarations import ReproductionCheck, Run, from_rows
from ...training.engine import unpack_parameters
from ...training.schedule import CONVERGED
from .groups import TRAINING_DIFFERS
from .pairs import FEW_ON, Case, case_coords, check_cases, even_integer, geometry, pair_law, train_pairs


@as_annotated
def run_polished(
    cases: Sequence[Case] = (("synchronous", 1.0, 0.1, 0.25),),
    seeds: Sequence[int] = range(2),
    *,
    n_features: int = 16,
    steps: int = 3000,
    batch: int = 256,
    descents: int = 40,
) -> xr.Dataset:
    """Return losses of small models trained as in `run_groups`, before and after descents by exact gradients.

    Parameters
    ----------
    cases : sequence of (kind, strength, p, ratio)
        Laws of pairs of features: a mixture of the share `strength` of "exclusive" or "synchronous" (the
        kind) and the rest of independent features; p of each feature; ratio = n_hidden/n_features.
    seeds : sequence of int
        Seeds of first weights and data.
    steps, batch : int
        Steps of training before the descents, and fresh samples in each.
    n_features : int
        Even.
    descents : int
        Steps of L-BFGS on the exact loss.

    Returns
    -------
    xarray.Dataset
        ``trained``, ``polished`` (case, seed), exact losses per feature before and after the descent; after
        it, with M = W_out W_in (`geometry`): ``partner``, mean of M_ij/M_ii, j the other feature of i's pair;
        ``opposed``, the share of outputs i with M_ij <= -M_ii/2 for a feature j of another pair; ``dropped``,
        the share of features that are dropped; ``together`` and ``apart``, mean shares of a hidden dimension
        that sums and differences of pairs have.

    Examples
    --------
    >>> ds = run_polished(n_features=4, seeds=[0], steps=100, descents=5)
    >>> bool((ds["polished"] <= ds["trained"]).all())
    True
    """
    n = even_integer("n_features", n_features)
    seeds = list(seeds)
    steps, batch = validation.integer("steps", steps, 1), validation.integer("batch", batch, 1)
    validation.check_fits("batch", batch, 8.0 * batch * n)
    check_cases(cases)
    rows = []
    for kind, strength, p, ratio in cases:
        law = pair_law(kind, strength, p)
        whole = independent_copies(law, n // 2)
        for seed in seeds:
            model = train_pairs(whole, max(1, round(ratio * n)), steps, batch, seed)
            W_out, W_in, b = unpack_parameters(model, model.ends[CONVERGED])
            start = exact_loss(W_out @ W_in, b, whole, tol=1e-7).loss
            end = descend(W_out, W_in, b, whole, steps=descents)
            rows.append({"trained": start, "polished": end.loss, **geometry(end.W_out @ end.W_in, whole)})
    ds = from_rows(rows, case=len(cases), seed=len(seeds))
    return ds.assign_coords({**case_coords(cases), "seed": seeds}).assign_attrs(n_features=n, steps=steps)


RUNS = {
    "polished": Run.shipped(
        "unequal_groups",
        "pairs by exact descent",
        run_polished,
        {"cases": FEW_ON},
        torch=True,
        check=ReproductionCheck({"cases": FEW_ON[:1], "seeds": [0]}, (), 1e-3, TRAINING_DIFFERS),
    )
}

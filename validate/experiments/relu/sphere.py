"""The sphere picture (the generalised Thomson problem) beside true minimisers."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from ....solvers.minimise import Minimum
from ....solvers.relu import geometry, represented, sphere_check
from ....theory import validation
from ....theory.annotations import as_annotated
from ...runner.declarations import from_rows

# The losses of `run_thomson`, and how figures name them.
LOSSES = {
    "unit": "sphere, unit lengths",
    "common": "sphere, best common length",
    "unbiased": "minimiser without bias",
    "biased": "minimiser with biases",
}


def _shape(model: Minimum) -> tuple[str, int]:
    """Return the arrangement of the features that a model represents, and how many they are."""
    kept = represented(model.W, model.b)
    return geometry(model.W[kept]).name if kept.any() else "nothing", int(kept.sum())


@as_annotated
def run_thomson(
    sizes: Sequence[tuple[int, int]] = tuple((n, m) for m in (2, 3) for n in range(m + 1, 11)),
    *,
    starts: int = 8,
    seed: int = 0,
) -> xr.Dataset:
    r"""Compare the best arrangements on the sphere with minimisers of the loss that they stand for.

    Elhage et al. (2022), on the Thomson problem: uniform importance, unit lengths, no bias.

    Parameters
    ----------
    sizes : sequence of (int, int)
        n_features (at least 2) and n_hidden, one or more.
    starts, seed : int
        Random starts of each minimisation, and their seed.

    Returns
    -------
    xarray.Dataset
        Of size: ``energy``; losses L_1 ``unit`` (a third of the energy), ``common``, ``unbiased``, ``biased``
        as in `sphere_check`, summed over features; ``unbiased_kept`` and ``biased_kept``, how many features
        those minimisers represent; names of the arrangements ``sphere``, ``without_bias``, ``with_bias``.

    Examples
    --------
    >>> ds = run_thomson([(5, 2)], starts=4)
    >>> str(ds["sphere"].values[0]), str(ds["with_bias"].values[0]), int(ds["biased_kept"][0])
    ('pentagon', 'pentagon', 5)
    """
    pairs = [(validation.integer("sizes", n, 2), validation.integer("sizes", m, 1)) for n, m in sizes]
    rows = []
    for n, m in pairs:
        found = sphere_check(n, m, starts=starts, rng=np.random.default_rng([seed, n, m]))
        losses = (found.unit_loss, found.common_loss, found.unbiased.loss, found.biased.loss)
        row = {"size": f"{n} in {m}", "n_features": n, "n_hidden": m, "energy": found.sphere.energy}
        row |= {name: n * loss for name, loss in zip(LOSSES, losses, strict=True)}
        row["sphere"] = found.sphere.geometry.name
        row["without_bias"], row["unbiased_kept"] = _shape(found.unbiased)
        row["with_bias"], row["biased_kept"] = _shape(found.biased)
        rows.append(row)
    ds = from_rows(rows, size=-1)
    return ds.set_coords(["n_features", "n_hidden"]).assign_attrs(starts=starts, seed=seed)

"""The sphere picture (the generalised Thomson problem) beside true minimisers."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from ...solvers.minimise import Minimum, minimise
from ...solvers.relu import Thomson, geometry, represented, thomson
from ...solvers.results import result
from ...theory import arguments
from ...theory.arguments import FloatArray
from ...theory.relu import common_norm_loss
from ..experiment import from_rows

# The losses of `run_thomson`, and how figures name them.
LOSSES = {
    "unit": "sphere, unit lengths",
    "common": "sphere, best common length",
    "unbiased": "minimiser without bias",
    "biased": "minimiser with biases",
}


@result
class SphereCheck:
    """The sphere picture beside the loss with one feature on; see :func:`sphere_check`.

    Attributes
    ----------
    sphere : Thomson
        The best arrangement of unit vectors.
    unit_loss, common_loss : float
        L_1/n, per feature, of it as it is, a third of its energy over n, and with the best common length.
    unbiased, biased : Minimum
        The minimisers of L_1/n without bias, and with a bias for each output.
    unbiased_gap, biased_gap : float
        Largest difference between sorted inner products of their directions and the sphere's; nan if some
        features are not represented.
    """

    sphere: Thomson
    unit_loss: float
    common_loss: float
    unbiased: Minimum
    biased: Minimum
    unbiased_gap: float
    biased_gap: float


def _gap(sphere: FloatArray, model: Minimum) -> float:
    if not represented(model.W, model.b).all():
        return float("nan")
    directions = model.W / np.linalg.norm(model.W, axis=1, keepdims=True)
    pairs = np.triu_indices(len(sphere), 1)
    known, found = (np.sort((V @ V.T)[pairs]) for V in (sphere, directions))
    return float(np.max(np.abs(known - found)))


def sphere_check(
    n_features: int, n_hidden: int, *, starts: int = 32, rng: np.random.Generator | int | None = 0
) -> SphereCheck:
    """Compare the best arrangement on the sphere with the minimisers of L_1, with and without bias.

    Arguments and errors are those of `thomson`, with n from 2 to 64 and m up to 64. All losses are upper
    bounds on minima. The documentation of the small ReLU models lists what was found for a dozen sizes.

    Examples
    --------
    >>> found = sphere_check(5, 2, starts=4)
    >>> losses = found.unit_loss, found.common_loss, found.unbiased.loss, found.biased.loss
    >>> print(" ".join(f"{5 * loss:.4f}" for loss in losses))
    0.3183 0.2673 0.2673 0.0791
    """
    n, m = arguments.integer("n_features", n_features, 2, 64), arguments.integer("n_hidden", n_hidden, 1, 64)
    starts = arguments.integer("starts", starts, 1)
    rng = arguments.generator("rng", rng)
    sphere = thomson(n, m, starts=starts, rng=rng)
    unbiased, biased = (
        minimise(n, m, 0, bias=bias, starts=starts, rng=rng, first=[sphere.W]) for bias in (False, True)
    )
    return SphereCheck(
        sphere=sphere,
        unit_loss=sphere.energy / (3 * n),
        common_loss=float(common_norm_loss(n, sphere.energy)) / n,
        unbiased=unbiased,
        biased=biased,
        unbiased_gap=_gap(sphere.W, unbiased),
        biased_gap=_gap(sphere.W, biased),
    )


def _shape(model: Minimum) -> tuple[str, int]:
    """Return the arrangement of the features that a model represents, and how many they are."""
    kept = represented(model.W, model.b)
    return geometry(model.W[kept]).name if kept.any() else "nothing", int(kept.sum())


def run_thomson(
    sizes: Sequence[Sequence[int]] = tuple((n, m) for m in (2, 3) for n in range(m + 1, 11)),
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
    pairs = [(arguments.integer("sizes", n, 2), arguments.integer("sizes", m, 1)) for n, m in sizes]
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

"""The sphere picture (the generalised Thomson problem) beside true minimisers."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from ...solvers.minimise import Minimum, minimise
from ...solvers.relu import Thomson, geometry, represented, thomson
from ...solvers.results import result
from ...theory import arguments
from ...theory.arguments import FloatArray
from ...theory.relu import common_norm_loss
from ..drawing import check_axes

__all__ = ["SphereCheck", "plot_thomson", "run_thomson", "sphere_check"]

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
    unit_loss : float
        L_1/n, per feature, of it as it is: a third of its energy over n.
    common_loss : float
        The same with the best common length.
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
    return float(
        np.max(np.abs(np.sort((sphere @ sphere.T)[pairs]) - np.sort((directions @ directions.T)[pairs])))
    )


def sphere_check(
    n_features: int, n_hidden: int, *, starts: int = 32, rng: np.random.Generator | int | None = 0
) -> SphereCheck:
    """Compare the best arrangement on the sphere with the minimisers of L_1, with and without bias.

    Arguments and errors are those of `thomson`, with n from 2 to 64 and m up to 64.

    Returns
    -------
    SphereCheck

    Notes
    -----
    All losses are upper bounds on minima. The documentation of the small ReLU models lists what was found for
    a dozen sizes.

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
    """Return what the features that a model represents look like, and how many they are."""
    kept = represented(model.W, model.b)
    return geometry(model.W[kept]).name if kept.any() else "nothing", int(kept.sum())


def run_thomson(
    sizes: Sequence[Sequence[int]] = tuple((n, m) for m in (2, 3) for n in range(m + 1, 11)),
    full: Sequence[Sequence[int]] = ((5, 2), (6, 2)),
    p: Sequence[float] = (0.01, 0.03, 0.1, 0.3),
    *,
    starts: int = 8,
    seed: int = 0,
) -> xr.Dataset:
    r"""Compare the best arrangements on the sphere with minimisers of the loss that they stand for.

    Parameters
    ----------
    sizes : sequence of (int, int)
        n_features (at least 2) and n_hidden.
    full : sequence of (int, int)
        Sizes for which the full loss is minimised too, at most 9 features.
    p : sequence of float
        Probabilities that a feature is on for those, in (0, 1).
    starts : int
        Random starts of each minimisation.
    seed : int
        Of the starts.

    Returns
    -------
    xarray.Dataset
        Of size: ``energy``; losses L_1 ``unit`` (a third of the energy), ``common``, ``unbiased``, ``biased``
        as in `sphere_check`, summed over features; ``unbiased_kept`` and ``biased_kept``, how
        many features those minimisers represent; names of the arrangements ``sphere``, ``without_bias``,
        ``with_bias``. Of (full, p): ``full_name``,
        ``full_kept``, how many features are represented, and ``full_loss``, over p (1 - p)^(n-1).

    Raises
    ------
    ValueError
        If an argument is out of range.

    References
    ----------
    Elhage et al. (2022), on the Thomson problem: uniform importance, unit lengths, no bias.

    Examples
    --------
    >>> ds = run_thomson([(5, 2)], [(5, 2)], [0.3], starts=4)
    >>> str(ds["sphere"].values[0]), str(ds["with_bias"].values[0]), int(ds["full_kept"][0, 0])
    ('pentagon', 'pentagon', 4)
    """
    pairs = [(arguments.integer("sizes", n, 2), arguments.integer("sizes", m, 1)) for n, m in sizes]
    probabilities = arguments.real("p", arguments.vector("p", p), 0, 1, brackets="()")
    numbers = ("energy", *LOSSES)
    rows: dict[str, list[float]] = {name: [] for name in numbers}
    kept = []
    names: dict[str, list[str]] = {name: [] for name in ("sphere", "without_bias", "with_bias")}
    for n, m in pairs:
        found = sphere_check(n, m, starts=starts, rng=np.random.default_rng([seed, n, m]))
        losses = (found.unit_loss, found.common_loss, found.unbiased.loss, found.biased.loss)
        values = (found.sphere.energy, *(n * loss for loss in losses))
        for name, value in zip(numbers, values, strict=True):
            rows[name].append(float(value))
        models = [_shape(model) for model in (found.unbiased, found.biased)]
        kept.append([count for _, count in models])
        shapes = (found.sphere.geometry.name, *(shape for shape, _ in models))
        for name, shape in zip(names, shapes, strict=True):
            names[name].append(shape)
    ds = xr.Dataset(
        {
            **{name: ("size", values) for name, values in (rows | names).items()},
            "unbiased_kept": ("size", [without for without, _ in kept]),
            "biased_kept": ("size", [with_bias for _, with_bias in kept]),
        },
        {
            "size": [f"{n} in {m}" for n, m in pairs],
            "n_features": ("size", [n for n, _ in pairs]),
            "n_hidden": ("size", [m for _, m in pairs]),
            "full": [f"{n} in {m}" for n, m in full],
            "p": probabilities,
        },
        {"starts": starts, "seed": seed},
    )
    axes = ("full", "p")
    full_models = [
        [minimise(n, m, x, starts=starts, rng=np.random.default_rng([seed, n, m])) for x in probabilities]
        for n, m in full
    ]
    found_shapes = [[_shape(one) for one in row] for row in full_models]
    ds["full_name"] = (axes, np.array([[name for name, _ in row] for row in found_shapes]))
    ds["full_kept"] = (axes, np.array([[count for _, count in row] for row in found_shapes]))
    totals = np.array([[len(one.b) * one.loss for one in row] for row in full_models])
    ones = np.array([[x * (1 - x) ** (n - 1) for x in probabilities] for n, _ in full])
    ds["full_loss"] = (axes, totals / ones)
    return ds


def plot_thomson(ds: xr.Dataset, ax: Axes, n_hidden: int = 2) -> Axes:
    """Draw the four losses over the number of features, relative to the model that represents nothing.

    Parameters
    ----------
    ds : xarray.Dataset
        From `run_thomson`.
    ax : matplotlib.axes.Axes
    n_hidden : int, optional
        One of those in `ds`.

    Returns
    -------
    matplotlib.axes.Axes
    """
    check_axes(ax)
    known = np.unique(ds["n_hidden"].values).tolist()
    if n_hidden not in known:
        raise ValueError(f"`n_hidden` must be one of {known}; got {n_hidden!r}.")
    mine = ds.isel(size=ds["n_hidden"].values == n_hidden).sortby("n_features")
    for i, (name, label) in enumerate(LOSSES.items()):
        ax.plot(
            mine["n_features"],
            mine[name] / (mine["n_features"] / 3.0),
            "osD^"[i] + "-",
            color=f"C{i}",
            markersize=4.5,
            label=label,
        )
    ax.axhline(1.0, color="0.8", linewidth=0.8, zorder=0)
    ax.set(
        xlabel="features",
        ylabel="L$_1$ / that of the zero model",
        title=f"{n_hidden} hidden dimensions",
    )
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend()
    return ax

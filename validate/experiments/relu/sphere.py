"""The sphere picture (the generalised Thomson problem) beside true minimisers."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from ....solvers.minimise import Minimum
from ....solvers.relu import geometry, represented, sphere_check
from ....theory import validation
from ....theory.annotations import as_annotated
from ...runner.declarations import Figure, Run, Table, Topic, TopicContent, from_rows, span
from ...runner.findings import Criterion, rounding
from ..drawing import plot_function
from .labels import draw_curve, finish_log_axes

CROWDED = Criterion("energy of an arrangement on the sphere", ">", rounding(1e-9))

# The losses of `run_thomson`, and how figures name them.
LOSSES = {
    "unit": "sphere, unit lengths",
    "common": "sphere, best common length",
    "unbiased": "minimiser without bias",
    "biased": "minimiser with biases",
}


def _name_arrangement(model: Minimum) -> tuple[str, int]:
    """Return (name, number) of the features that `model` represents.

    The name is that of the geometry of their encodings, such as "pentagon", or "nothing" without features.
    """
    is_represented = represented(model.W, model.b)
    name = geometry(model.W[is_represented]).name if is_represented.any() else "nothing"
    return name, int(is_represented.sum())


@as_annotated
def run_thomson(
    sizes: Sequence[tuple[int, int]] = tuple((n, m) for m in (2, 3) for n in range(m + 1, 11)),
    *,
    starts: int = 8,
    seed: int = 0,
) -> xr.Dataset:
    r"""Compare the best arrangements on the sphere with minimisers of the loss that they approximate.

    The setting is that of Elhage et al. (2022) on the Thomson problem: uniform importance, unit lengths, no
    bias.

    Parameters
    ----------
    sizes : sequence of (int, int)
        n_features (at least 2) and n_hidden, one or more.
    starts, seed : int
        Random starts of each minimisation, and their seed.

    Returns
    -------
    xarray.Dataset
        Of (size): ``energy`` of the best arrangement of unit vectors. Losses on inputs with one feature on
        (L_1), summed over features: ``unit``, of these vectors, energy/3; ``common``, of these vectors at
        their best common length; ``unbiased`` and ``biased``, of the best models without and with biases.
        ``unbiased_kept`` and ``biased_kept``, how many features these models represent. Names of the
        arrangements: ``sphere``, ``without_bias``, ``with_bias``.

    Examples
    --------
    >>> ds = run_thomson([(5, 2)], starts=4)
    >>> str(ds["sphere"].values[0]), str(ds["with_bias"].values[0]), int(ds["biased_kept"][0])
    ('pentagon', 'pentagon', 5)
    """
    pairs = [(validation.integer("sizes", n, 2), validation.integer("sizes", m, 1)) for n, m in sizes]
    rows = []
    for n, m in pairs:
        check = sphere_check(n, m, starts=starts, rng=np.random.default_rng([seed, n, m]))
        losses = (check.unit_loss, check.common_loss, check.unbiased.loss, check.biased.loss)
        row = {"size": f"{n} in {m}", "n_features": n, "n_hidden": m, "energy": check.sphere.energy}
        row |= {name: n * loss for name, loss in zip(LOSSES, losses, strict=True)}
        row["sphere"] = check.sphere.geometry.name
        row["without_bias"], row["unbiased_kept"] = _name_arrangement(check.unbiased)
        row["with_bias"], row["biased_kept"] = _name_arrangement(check.biased)
        rows.append(row)
    ds = from_rows(rows, size=-1)
    return ds.set_coords(["n_features", "n_hidden"]).assign_attrs(starts=starts, seed=seed)


@plot_function
def plot_thomson(ds: xr.Dataset, ax: Axes, n_hidden: int = 2) -> Axes:
    """Draw losses of models on `n_hidden` neurons, over the zero model's, against n_features.

    `ds` is from `run_thomson`; losses are ``unit``, ``common``, ``unbiased`` and ``biased``.
    """
    known = np.unique(ds["n_hidden"].values).tolist()
    if n_hidden not in known:
        raise ValueError(f"`n_hidden` must be one of {known}; got {n_hidden!r}.")
    sizes = ds.isel(size=ds["n_hidden"].values == n_hidden).sortby("n_features")
    for i, (name, label) in enumerate(LOSSES.items()):
        draw_curve(ax, sizes["n_features"], sizes[name] / (sizes["n_features"] / 3.0), i, label=label)
    ax.axhline(1.0, color="0.8", linewidth=0.8, zorder=0)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set(ylabel="L$_1$ / that of the zero model", title=f"{n_hidden} hidden dimensions")
    return finish_log_axes(ax, xlabel="features")


def _show_sphere(ds: xr.Dataset) -> TopicContent:
    """Return text, figure and table of the report's part "sphere", from `ds` of `run_thomson`.

    Figure and table have losses with one feature on, of the best arrangement on the sphere and of the best
    models without and with biases. The table names their arrangements; the text says for how many sizes these
    agree.
    """
    crowded = ds.isel(size=CROWDED.satisfied(ds["energy"].values))
    same = [
        int(((crowded["sphere"] == crowded[name]) & (crowded[count] == crowded["n_features"])).sum())
        for name, count in (("without_bias", "unbiased_kept"), ("with_bias", "biased_kept"))
    ]
    count = crowded.sizes["size"]
    text = (
        f"The sphere picture (unit lengths, no bias, one feature on at a time). Of {ds.sizes['size']} sizes "
        f"{ds.sizes['size'] - count} have energy 0. Of the {count} others, the minimiser of L_1 without bias "
        f"has an arrangement of the same name in {same[0]}, the one with biases in {same[1]}, and its loss "
        f"is {span(crowded['biased'] / crowded['unit'])} times that of the picture."
    )
    columns = {
        "size": "{size}",
        "sphere": "{sphere}",
        "unit lengths": "{unit:.4f}",
        "common length": "{common:.4f}",
        "no bias": "{unbiased:.4f}",
        "biases": "{biased:.4f}",
        "minimiser without bias": "{without_bias}, {unbiased_kept} kept",
        "minimiser with biases": "{with_bias}, {biased_kept} kept",
    }
    caption = (
        f"Losses L_1, summed over features. All are the least of {ds.attrs['starts']} random starts (in two "
        "dimensions also of the regular polygon): upper bounds. “k in r” is an arrangement without a name."
    )
    title = "The sphere picture and true minimisers of the loss with one feature on"
    table = Table.formatted(title, ds, columns, caption)
    caption = "Loss with one feature on, over that of the model that represents nothing."
    panels = [partial(plot_thomson, n_hidden=int(m)) for m in np.unique(ds["n_hidden"].values)]
    figure = Figure("sphere", "The sphere picture", caption, ds, panels)
    return TopicContent(text, [figure], [table])


QUICK = {"sizes": [*((n, 2) for n in range(3, 9)), *((n, 3) for n in range(6, 10))], "starts": 6}
FULL = {"sizes": [(n, m) for m in (2, 3, 4) for n in range(m + 1, 13)], "starts": 48}
RUNS = {"thomson": Run(run_thomson, QUICK, FULL, seconds=10)}
TOPICS = [Topic("the sphere", ["thomson"], _show_sphere, claims=["B15", "E8"])]

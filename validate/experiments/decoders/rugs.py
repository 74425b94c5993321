"""Losses of the predicted decoders on random rugs, where the interference is not yet Gaussian."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.axes import Axes

from ....solvers import decoders, rug
from ....solvers.statistics import LEVEL
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.features import Features
from ....theory.rug import sigma
from ....theory.validation import FloatArray
from ...runner.declarations import Figure, Run, Topic, TopicContent, entry_of, from_rows, span
from ..drawing import draw_means, finish_axes, plot_function, size_axis
from .labels import DECODER_LABELS, Case, coordinates


def is_among_largest(y: FloatArray, k: int) -> npt.NDArray[np.bool_]:
    """Return a mask of the k largest entries in each column (a sample) of y: exactly k, even with ties."""
    mask = np.zeros(y.shape, np.bool_)
    np.put_along_axis(mask, np.argpartition(y, y.shape[0] - k, axis=0)[-k:], True, axis=0)
    return mask


def losses_on_rug(
    best: Sequence[Any], n: int, m: int, p: float, key: Sequence[int], samples: int
) -> list[float]:
    """Return each decoder's loss per feature on `samples` outputs of one random code ("rug").

    `best` are decoders from `solvers.decoders`: a y + b for outputs y above a threshold or, for TopK, among
    the k largest, else 0. Outputs are y = R x minus the mean interference, with a rug R of unit diagonal for
    n features on m neurons (`solvers.rug`). Features x are on with probability p, and uniform on [0, 1] then.
    `key` is the seed.
    """
    rng = np.random.default_rng(key)
    R = rug.rug_matrix(n, m, rng)
    x = Features(n, p).sample(max(1, samples // n), rng).T
    y = R @ x - 0.5 * p * (R.row(0).sum() - 1.0)
    masks = [is_among_largest(y, D.k) if isinstance(D, decoders.TopK) else y > D.theta for D in best]
    return [
        float(np.mean((x - np.where(mask, D.a * y + D.b, 0.0)) ** 2))
        for D, mask in zip(best, masks, strict=True)
    ]


@as_annotated
def run_rugs(
    cases: Sequence[Case] = ((0.01, 0.25), (0.1, 0.25)),
    sizes: Sequence[int] = (128, 1024, 8192),
    seeds: Sequence[int] = range(5),
    *,
    samples: int = 2**19,
) -> xr.Dataset:
    """Measure decoders for Gaussian interference on random rugs, where interference is not yet Gaussian.

    The decoders have the least loss for Gaussian interference, the limit of many features; rugs are the
    random codes of Cowsik et al. (2024).

    Parameters
    ----------
    cases : sequence of (p, ratio)
    sizes : sequence of int
        Numbers of features, powers of two.
    seeds : sequence of int
        Seeds of rugs and samples; two or more.
    samples : int
        Outputs measured for each rug, at least n_features.

    Returns
    -------
    xarray.Dataset
        Losses per feature of the best ReLU and JumpReLU for Gaussian interference: ``on_rug`` (case,
        n_features, seed, decoder), measured, and ``predicted`` (case, n_features, decoder), in the Gaussian
        limit.

    Examples
    --------
    >>> run_rugs([(0.1, 0.5)], [64], [0, 1], samples=2**12)["on_rug"].shape
    (1, 1, 2, 2)
    """
    sizes = [validation.power_of_two("sizes", n) for n in sizes]
    with entry_of("cases"):
        for p, ratio in cases:
            validation.probability("p", p)
            validation.number("ratio", ratio, 1 / min(sizes), 1.0)
    samples = validation.integer("samples", samples, max(sizes))
    kinds, rows = ["relu", "jumprelu"], []
    for (i, (p, ratio)), n in itertools.product(enumerate(cases), sizes):
        m = round(ratio * n)
        best = [decoders.optimum(p, float(sigma(p, m / n)), kind) for kind in kinds]
        on_rug = [losses_on_rug(best, n, m, p, [seed, i, n], samples) for seed in seeds]
        row = {"on_rug": (("seed", "decoder"), on_rug), "predicted": ("decoder", [D.loss for D in best])}
        rows.append(row)
    ds = from_rows(rows, case=len(cases), n_features=len(sizes))
    return ds.assign_coords({**coordinates(cases, seeds), "n_features": list(sizes), "decoder": kinds})


@plot_function
def plot_rugs(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw (losses of decoders on random codes) / (losses predicted for Gaussian noise) against n_features.

    `ds` is from `run_rugs`.
    """
    ratio = (ds["on_rug"] / ds["predicted"]).transpose("case", "decoder", "n_features", "seed")
    for i in range(ds.sizes["case"]):
        for marker, name in zip("os", ds["decoder"].values, strict=True):
            label = f"{DECODER_LABELS[str(name)]}, p = {float(ds['p'][i]):g}"
            values = ratio.isel(case=i).sel(decoder=name).values
            draw_means(ax, ds["n_features"].values, values, color=f"C{i}", fmt=marker, ms=4, label=label)
    ax.axhline(1, color="0.5", linewidth=0.8)
    size_axis(ax, ds["n_features"])
    return finish_axes(ax, ylabel="loss on a rug / Gaussian limit")


def _show_rugs(ds: xr.Dataset) -> TopicContent:
    """Return text and figure of the report's part "rugs", from `ds` of `run_rugs`.

    The figure has losses of ReLU and JumpReLU decoders on random codes over those predicted for Gaussian
    interference, by n_features.
    """
    ratio = (ds["on_rug"] / ds["predicted"]).mean("seed")
    ends = [f"{span(ratio.sel(n_features=n), '.2f')} at n = {n}" for n in ds["n_features"].values]
    text = (
        "Interference is Gaussian only where many features are on. On random rugs the predicted decoders "
        f"lose more: {', '.join(ends)}, in units of the prediction. Few features on have heavy tails, "
        "which pass thresholds."
    )
    caption = (
        f"Means over {ds.sizes['seed']} rugs with {LEVEL:.0%} intervals; decoders as for Gaussian noise."
    )
    return TopicContent(text, [Figure("rugs", "From finite rugs to the limit", caption, ds, plot_rugs)])


RUNS = {"rugs": Run(run_rugs, full={"sizes": (128, 1024, 8192, 65536)}, seconds=10)}
TOPICS = [Topic("rugs", ["rugs"], _show_rugs)]

"""Features that are on together, independently: what becomes of the polysemantic neurons."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ....solvers.collisions.counts import ON
from ....solvers.statistics import Estimate, crossing
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.validation import FloatArray
from ...runner.declarations import Figure, Run, Topic, TopicContent
from ..drawing import finish_axes, plot_function
from .labels import INTERVALS, draw_runs
from .training import merge_settings, train_l1, with_shifted

# Of the printed loss for one feature at a time. The curvature grows with the number that are on together.
RATE = 0.05


@as_annotated
def run_cooccurrence(
    n_features: int = 16,
    n_hidden: int = 16,
    lam: Sequence[float] = (0.16,),
    p: Sequence[float] = (0.0, 0.004, 0.012, 0.04, 0.12),
    seeds: Sequence[int] = tuple(range(32)),
    *,
    time: float = 5.0,
    device: str = "auto",
) -> xr.Dataset:
    """Train with every feature on with probability p, independently, and count polysemantic neurons.

    Inputs are fresh at each step, with losses and batches as in `train_l1`.

    Parameters
    ----------
    n_features, n_hidden : int
        Sizes of the model ReLU(W W' x), W of shape (n_features, n_hidden).
    lam, p : sequence of float
        l1 strengths of the loss that Lecomte et al. (2024) print, positive, on the activations; probabilities
        in [0, 1], where 0 means their setting, the standard basis as one batch.
    seeds : sequence of int
        Runs; their first weights are the same for every `lam` and `p`.
    time : float
        Length of the training in units of 1/lam_normal, lam_normal = lam/4.
    device : {"auto", "cpu", "cuda"}

    Returns
    -------
    xarray.Dataset
        Of (lam, p, run), at the end, from `solvers.collisions.collision_counts`: ``polysemantic`` neurons,
        which hold two features or more; pairs of features on a neuron with opposite (``benign``) and equal
        signs (``malign``); ``dead`` features; ``nonzeros`` and ``l1_norm``, means over encodings. Also
        ``polysemantic_0.25`` and ``polysemantic_0.8``, counts at shifted thresholds; ``diverged``. Second
        experiment: training with one feature at a time leaves ``before`` (lam, run) polysemantic neurons, and
        further training at each p leaves ``after`` (lam, p, run). Coordinates ``lam_normal`` (lam) and ``on``
        (p), the expected number of features on, p n.

    Notes
    -----
    The count should fall where p reaches lam_normal, not where p n reaches 1: a heuristic, from the
    reduced model of the documentation. Where p n is well above 1, several encodings add up in each
    activation, and the l1 term on it no longer singles out one-hot encodings: ``nonzeros`` says so. There a
    neuron carries parts of many features, and the count depends on the threshold.

    Examples
    --------
    >>> ds = run_cooccurrence(8, 8, [0.2], [0.0, 0.1], range(8), device="cpu")
    >>> bool(ds.polysemantic.sel(p=0.1).mean() < ds.polysemantic.sel(p=0.0).mean())
    True
    """
    lams = validation.real("lam", validation.vector("lam", lam), 0, brackets="()")
    ps = validation.real("p", validation.vector("p", p), 0, 1)
    time = validation.number("time", time, 0, brackets="()")
    seeds = list(seeds)

    def train(strength: float, prob: float, start: FloatArray | None = None) -> xr.Dataset:
        """Return the last step of training (`train_l1`) at l1 strength `strength`.

        Features are on with probability `prob`, one-hot if it is 0; `start` has first weights (run, n, m),
        random if None.
        """
        rate = RATE / (1 + prob * n_features)
        options: dict[str, Any] = {"optimiser": "sign", "device": device, "keep_weights": True}
        options |= {"learning_rate": rate, "steps": round(time / (strength * rate))}
        options |= {"start": start, "p": prob or None}
        return train_l1(n_features, n_hidden, strength, seeds, **options).isel(step=0, drop=True)

    rows = []
    for strength in map(float, lams):
        basis = train(strength, 0.0)
        columns = []
        for prob in map(float, ps):
            ds = train(strength, prob) if prob else basis
            trained_on = train(strength, prob, basis["W"].values) if prob else basis
            column = with_shifted(ds).drop_vars(["W", "loss", "t", "lam", "lam_normal"])
            columns.append(column.assign(after=trained_on["polysemantic"]))
        rows.append(merge_settings(columns, p=ps).assign(before=basis["polysemantic"]))
    ds = merge_settings(rows, lam=lams).drop_vars("seed").transpose("lam", "p", "run")
    ds = ds.assign_coords(lam_normal=("lam", lams / 4), on=("p", ps * n_features), seed=("run", seeds))
    return ds.assign_attrs(n_features=n_features, n_hidden=n_hidden, time=time, threshold=ON)


@plot_function
def plot_cooccurrence(ds: xr.Dataset, ax: Axes, name: str = "polysemantic") -> Axes:
    """Draw a count of polysemantic neurons over its mean for one-hot inputs, against p/lam_normal.

    `ds` is from `run_cooccurrence`, with a line for each lam; lam_normal = lam/4. `name` is the variable to
    draw: "polysemantic", "polysemantic_0.8" (at another threshold), or "after" (of models trained first with
    one feature at a time, then with p).
    """
    name = validation.choice("name", name, tuple(str(key) for key in ds.data_vars))
    level = name.partition("_")[2] or f"{ds.attrs['threshold']:g}"
    inside = ds.isel(p=ds["p"].values > 0)
    for k, lam in enumerate(ds["lam"].values):
        ratio = inside[name].isel(lam=k) / float(ds["before"].isel(lam=k).mean())
        x, label = inside["p"] / float(ds["lam_normal"][k]), f"λ = {lam:g}, {ds.sizes['run']} seeds"
        draw_runs(ax, x, ratio.transpose("p", "run"), k, label, "-")
    ax.axhline(1, color="0.8", linewidth=0.8, zorder=0)
    ax.axvline(1, color="C0", linestyle=":", label="predicted scale, p = λ/4")
    ax.set(xscale="log", xlabel="p / (λ/4)", ylabel="count / that with one-hot inputs")
    title = f"n = {ds.attrs['n_features']}, m = {ds.attrs['n_hidden']}, weights above {level}"
    return finish_axes(ax, "lower left", title=title, ylim=(-0.03, max(1.2, ax.get_ylim()[1])))


def half_point(ds: xr.Dataset, name: str, k: int) -> Estimate:
    """Return the p/lam_normal at which the count `name` is half of its mean for one-hot inputs.

    `ds` is from `run_cooccurrence`, `k` the position on its axis ``lam`` of the l1 strength, and lam_normal =
    lam/4. The value is interpolated linearly between the p that were run; nan if none halves the count.
    """
    at = ds.isel(lam=k).transpose("run", "p", ...)
    return crossing(ds["p"] / float(ds["lam_normal"][k]), (at[name] - at["before"] / 2).values)


def _show_together(ds: xr.Dataset) -> TopicContent:
    """Return text and figure of the report's part "together": collisions if features are on together.

    The figure has counts of polysemantic neurons, at two thresholds, over those for one-hot inputs, against
    p/lam_normal; the text has the p at which counts are halved. `ds` is from `run_cooccurrence`.
    """
    caption = (
        "Each feature is on with probability p, independently. The count is predicted to fall where p is "
        "about the λ of the normal form (vertical line). Left: weights above 0.5 count, also those of pairs "
        "of features that share two neurons at right angles; right: above 0.8, one-hot encodings only. "
        f"{INTERVALS}"
    )
    panels = (plot_cooccurrence, partial(plot_cooccurrence, name="polysemantic_0.8"))
    figure = Figure("cooccurrence", "Features that are on together", caption, ds, panels)
    halves = [half_point(ds, "polysemantic_0.8", k) for k in range(ds.sizes["lam"])]
    scales = [
        f"{half:.2f} at λ = {lam:g}" if np.isfinite(half.value) else f"not reached at λ = {lam:g}"
        for half, lam in zip(halves, ds["lam"].values, strict=True)
    ]
    changed = int((ds["after"] != ds["before"]).sum())
    text = (
        "Features that are on together interact even when their signs are opposite. The p at which "
        "half as many neurons as with one-hot inputs are shared by one-hot encodings, over the predicted "
        f"scale λ/4: {'; '.join(scales)}. Models that were trained one-hot and then with such inputs have a "
        f"count that differs from the one before in {changed} of {ds['after'].size} cases. For small p none "
        "is predicted: what acts on the other weights of a one-hot encoding is then weaker than the l1 "
        "force that holds them at zero."
    )
    return TopicContent(text, [figure])


QUICK = {"lam": (0.16, 0.32), "p": (0.0, 0.01, 0.03, 0.06, 0.1, 0.2), "seeds": range(20)}
FULL = {
    "n_features": 64,
    "n_hidden": 128,
    "lam": (0.01, 0.04, 0.16),
    "p": (0.0, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1),
    "seeds": range(64),
}
RUNS = {"cooccurrence": Run(run_cooccurrence, QUICK, FULL, torch=True, seconds=14)}
TOPICS = [Topic("together", ["cooccurrence"], _show_together)]

"""The optimiser's effect on the count: flow and training from the same first weights."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from ....solvers import collisions as solvers
from ....solvers.collisions.counts import ON, SHIFTED
from ....solvers.statistics import mean
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.collisions import quoted_polysemantic
from ...runner.declarations import Figure, Run, Topic, TopicContent
from .fig3 import RTOL, plot_ratio
from .labels import INTERVALS, OPTIMISER_LABELS
from .training import AUTHORS_SCALE, RATES, check_runs, merge_settings, train_l1, with_shifted


@as_annotated
def run_trained(
    n_features: int = 32,
    n_hidden: Sequence[int] = (32, 64, 128),
    lam: float = 0.02,
    seeds: Sequence[int] = tuple(range(16)),
    *,
    optimisers: Sequence[str] = ("gd", "adamw"),
    time: float = 6.0,
    adamw_steps: int = 6000,
    device: str = "auto",
) -> xr.Dataset:
    """Train by gradient descent and by AdamW from the same first weights, and count collisions.

    A collision is two features on one neuron (Lecomte et al. 2024, §2.5, Fig. 3).

    Parameters
    ----------
    n_features, n_hidden : int, sequence of int
        n, and values of m.
    lam, seeds : float, sequence of int
        l1 strength of the printed loss, positive, lam = 4 lam_normal; seeds of the runs, at least two.
    optimisers : sequence of {"flow", "gd", "sign", "adamw"}
        "flow" is `solvers.collisions.flow` at lam/4 in place of training, from the same first weights.
    time, adamw_steps : float, int
        Length of the flow and of gradient descent in units of 1/lam_normal; number of steps of AdamW. AdamW
        moves weights by about its learning rate a step, whatever lam is: encodings are one-hot after some
        thousand steps.
    device : {"auto", "cpu", "cuda"}

    Returns
    -------
    xarray.Dataset
        Of (optimiser, n_hidden, run), from `solvers.collisions.collision_counts`: ``polysemantic`` neurons;
        pairs of features on a neuron with opposite (``benign``) and equal signs (``malign``); ``dead``
        features; ``nonzeros`` and ``l1_norm``, means over encodings. Also ``polysemantic_0.25`` and
        ``polysemantic_0.8`` at shifted thresholds, ``loss``, ``diverged``. Of (n_hidden): ``quoted``,
        n^2/(4 m).

    Examples
    --------
    >>> ds = run_trained(8, [8], 0.1, range(4), optimisers=["gd"], device="cpu")
    >>> float(ds.quoted[0]), int(ds.dead.sum())
    (2.0, 0)
    """
    lam, seeds = check_runs(lam, seeds)
    time = validation.number("time", time, 0, brackets="()")
    optimisers = validation.choices("optimisers", optimisers, tuple(OPTIMISER_LABELS))

    def count(optimiser: str, m: int) -> xr.Dataset:
        """Return counts of collisions for one optimiser and m, by run; see `collision_counts`."""
        options: dict[str, Any] = {"scale": AUTHORS_SCALE, "device": device, "keep_weights": True}
        if optimiser == "flow":
            first = train_l1(n_features, m, lam, seeds, steps=0, **options)["W"].values[0].astype(float)
            # No step of training: the end of the flow, counted as the others are.
            options |= {"steps": 0, "start": solvers.flow(first, lam / 4, time / (lam / 4), tol=RTOL).W}
        elif optimiser == "adamw":
            options |= {"optimiser": optimiser, "steps": adamw_steps}
        else:
            options |= {"optimiser": optimiser, "steps": round(time / (lam * RATES[optimiser]))}
        ds = with_shifted(train_l1(n_features, m, lam, seeds, **options).isel(step=0, drop=True))
        return ds.drop_vars(["W", "t", "seed", "lam", "lam_normal"], errors="ignore")

    rows = [merge_settings([count(name, m) for m in n_hidden], n_hidden=n_hidden) for name in optimisers]
    ds = merge_settings(rows, optimiser=optimisers).transpose("optimiser", "n_hidden", "run")
    ds["quoted"] = ("n_hidden", np.atleast_1d(quoted_polysemantic(n_features, n_hidden)))
    ds.attrs = {"n_features": n_features, "lam": lam, "time": time, "adamw_steps": adamw_steps}
    return ds.assign_coords(seed=("run", seeds)).assign_attrs(scale=AUTHORS_SCALE, threshold=ON)


def _show_optimisers(ds: xr.Dataset) -> TopicContent:
    """Return text and figure of the report's part "optimisers", from `ds` of `run_trained`.

    The figure has polysemantic neurons over n^2/(4m), against m, by what trained the model (flow, gradient
    descent or AdamW); the text compares their counts.
    """
    caption = (
        "The flow, plain gradient descent and AdamW (learning rate and weight decay of the authors' code) "
        f"from the same first weights. {INTERVALS}"
    )
    figure = Figure("trained", "The optimiser's part in the count", caption, ds, plot_ratio, size=(5.6, 3.8))
    flow, sentences = ds["polysemantic"].sel(optimiser="flow"), []
    for name in map(str, ds["optimiser"].drop_sel(optimiser="flow").values):
        trained = ds.sel(optimiser=name)
        counts = trained["polysemantic"]
        difference = ((counts - flow) / ds["quoted"]).mean("n_hidden")
        moved = max(abs(float((trained[f"polysemantic_{x}"] - counts).mean())) for x in SHIFTED)
        sentences.append(
            f"{OPTIMISER_LABELS[name]} has the flow's count in {int((counts == flow).sum())} of {flow.size} "
            f"runs, and on average over m one that differs by {mean(difference):+.3f} times n²/(4m); "
            f"thresholds of {SHIFTED[0]:g} and {SHIFTED[1]:g} in place of {ds.attrs['threshold']:g} move its "
            f"mean by {moved:.2g} at most"
        )
    return TopicContent(f"Trained from the same first weights: {'; '.join(sentences)}.", [figure])


OPTIMISERS = ("flow", "gd", "adamw")
QUICK = {"n_hidden": (32, 128), "seeds": range(12), "optimisers": OPTIMISERS}
FULL = {
    "n_features": 64, "n_hidden": (64, 256, 1024), "lam": 0.01, "seeds": range(32), "optimisers": OPTIMISERS,
}  # fmt: skip
RUNS = {"trained": Run(run_trained, QUICK, FULL, torch=True, seconds=18)}
TOPICS = [Topic("optimisers", ["trained"], _show_optimisers)]

"""The rug's part of the report."""

from collections.abc import Callable
from functools import partial

import numpy as np
import xarray as xr

from ..experiment import Figure, Section
from ..statistics import student
from ..training import models_at
from . import plots, runs, tables
from .tables import PANELS, RATIOS

__all__ = ["loss_curves", "report_section"]

# Where models are trained a second time, from the source's first weights.
COMPARED = (0.01, 0.05, 0.1)

# Sizes that fit each profile: the quick one takes a few minutes on two cores.
SIZES = {
    "quick": {
        "train": {"n_features": 64, "ratio": (0.125, 0.25, 0.5, 0.75), "seeds": 3, "steps": 3000},
        "evaluation_samples": 2**17,
        "checked": {"n_features": 32, "p": (0.01, 0.1, 0.4), "ratio": (0.25,)},
        "finite": (64, 256, 1024, 4096),
        "simulated": 2000,
    },
    "full": {
        "train": {"n_features": 128, "ratio": (0.06, 0.125, 0.25, 0.5, 0.75), "seeds": 5, "steps": 20_000},
        "evaluation_samples": 2**20,
        "checked": {"n_features": 128, "p": (0.001, 0.01, 0.1, 0.4), "ratio": (0.125, 0.25)},
        "finite": (64, 256, 1024, 4096, 16384),
        "simulated": 4000,
    },
}
CHECKED_SAMPLES = 10**7

TEXT = """
A ReLU autoencoder of sparse data keeps n_hidden numbers for n_features features. If its weights are
statistically symmetric, the other features act on each output like Gaussian noise, and the loss depends on
three numbers alone: the scale a, the bias b and the standard deviation sigma of that noise, which the ratio
n_hidden/n_features bounds from below. The Persian rug attains the bound. Lines in the figures are its loss at
the optimal a and b, computed without sampling; markers are models that were really trained.

The bound on sigma is a theorem about one choice of weights, not about what training finds. The tables give
the relative excess of trained models over the rug, at the stopping rule of the source and at convergence.
Negative numbers are models that beat it.
"""


def report_section(profile: str, seed: int, progress: Callable[[str], None]) -> Section:
    """Run the rug's experiments and return its part of the report.

    Parameters
    ----------
    profile : {"quick", "full"}
    seed : int
        Seed of everything random here; models take the seeds from it on.
    progress : callable
        Called with a line of text from time to time.

    Returns
    -------
    Section
    """
    sizes = SIZES[profile]
    here = _train_here(sizes, seed, progress)
    reference, provenance = runs.read_reference()
    trained = here if reference is None else xr.concat([reference, here], "model", combine_attrs="drop")
    losses = loss_curves(trained)
    progress("rug: finite sizes")
    finite = [
        runs.run_finite_size(p, ratio, sizes["finite"], samples=sizes["simulated"], seed=seed)
        for p, ratio in ((0.05, 0.25), (0.4, 0.5))
    ]
    checked = _checked(sizes, seed, progress)
    progress("rug: figures")
    return Section(
        "rug",
        "The Persian rug",
        TEXT + _what_was_found(trained),
        _figures(losses, sizes["train"]["n_features"], finite, seed),
        [
            tables.excess_table(trained),
            tables.weights_table(trained),
            tables.init_table(here, _linear_init(sizes, seed, progress)),
            tables.finite_table(finite),
            tables.checked_table(checked),
            tables.provenance_table(provenance),
        ],
    )


def _train_here(sizes: dict, seed: int, progress: Callable[[str], None]) -> xr.Dataset:
    train = sizes["train"]
    count = len(PANELS) * len(train["ratio"]) * train["seeds"]
    progress(f"rug: training {count} models of {train['n_features']} features")
    return runs.run_trained(
        train["n_features"],
        PANELS,
        train["ratio"],
        range(seed, seed + train["seeds"]),
        steps=train["steps"],
        evaluation_samples=sizes["evaluation_samples"],
    )


def _linear_init(sizes: dict, seed: int, progress: Callable[[str], None]) -> xr.Dataset:
    """Train some of the models again from the source's first weights."""
    train = sizes["train"]
    progress("rug: the source's first weights")
    return runs.run_trained(
        train["n_features"],
        COMPARED,
        (0.25, 0.5),
        range(seed, seed + train["seeds"]),
        steps=train["steps"],
        evaluation_samples=sizes["evaluation_samples"],
        init="linear",
    )


def _checked(sizes: dict, seed: int, progress: Callable[[str], None]) -> xr.Dataset:
    progress(f"rug: exact losses against {CHECKED_SAMPLES:.0e} samples")
    checked = sizes["checked"]
    trained = runs.run_trained(
        checked["n_features"],
        checked["p"],
        checked["ratio"],
        [seed],
        steps=1000,
        evaluation_samples=CHECKED_SAMPLES,
        keep_weights=True,
    )
    return runs.run_exact_against_samples(trained)


def _what_was_found(trained: xr.Dataset) -> str:
    """Say in two sentences, from the numbers, where converged models lie against the rug."""
    cells = []
    for p in np.unique(trained["p"]):
        for ratio in RATIOS:
            for n in np.unique(trained["n_features"]):
                mine = models_at(trained, p, ratio, n)
                if mine.size > 1:
                    mean, half = map(float, student(trained["excess"].values[-1, mine]))
                    cells.append((mean, half, n, p, ratio))
    above = sum(mean > half for mean, half, *_ in cells)
    below = sum(mean < -half for mean, half, *_ in cells)
    low, high = min(cells), max(cells)
    return (
        f"\n\nOf the {len(cells)} combinations of n_features, p and ratio ≈ 0.12, 0.25 or 0.5 with several "
        f"seeds here, {above} "
        f"end above the rug at convergence and {below} below it, by more than Student's 95 % interval of the "
        f"mean over seeds; the other {len(cells) - above - below} agree. The lowest mean is {low[0]:+.1%} "
        f"(n = {low[2]}, p = {low[3]:g}, ratio ≈ {low[4]:g}), the highest {high[0]:+.1%} (n = {high[2]}, "
        f"p = {high[3]:g}, ratio ≈ {high[4]:g})."
    )


def loss_curves(trained: xr.Dataset) -> xr.Dataset:
    """Put all trained losses, relative to the loss at ratio 0, beside theory on a fine grid.

    Parameters
    ----------
    trained : xarray.Dataset
        From `read_reference` or `run_trained`, or several of them in one.

    Returns
    -------
    xarray.Dataset
        That of `run_theory`, with the models' losses ``trained``, ``trained_se`` and what names them.
    """
    ratio = np.unique(np.concatenate([np.geomspace(1e-4, 0.1, 80), np.linspace(0.1, 1, 91)]))
    p = np.unique(np.concatenate([np.geomspace(1e-4, 1, 81), PANELS]))
    per_model = {name: trained[name] for name in ("n_features", "n_hidden", "seed", "origin", "excess")}
    return runs.run_theory(p, ratio).assign(
        trained=trained["loss"] / trained["zero_ratio_loss"],
        trained_se=trained["loss_se"] / trained["zero_ratio_loss"],
        model_p=trained["p"],
        model_ratio=trained["ratio"],
        **per_model,
    )


def _figures(losses: xr.Dataset, here: int, finite: list[xr.Dataset], seed: int) -> list[Figure]:
    plane = runs.run_theory(np.geomspace(1e-6, 1, 121), np.geomspace(1e-6, 1, 121))
    profile = runs.run_bias(0.05, [0.005, 0.02, 0.032, 0.05, 0.1, 0.3], np.linspace(-5, 6, 221))
    markers = (
        "Every seed is shown; open markers are at the source's stopping rule, filled ones at convergence; "
        "error bars are ± 1 standard error of the evaluation on fresh data, mostly smaller than the marker. "
    )
    return [
        Figure(
            "image",
            "Fig. 1: the rug, n_features = 256, n_hidden = 40",
            "Decoder times encoder, built from 40 random rows of the Hadamard matrix; the diagonal is 1 "
            "(beyond the colour scale).",
            runs.run_rug(seed=seed),
            plots.plot_rug,
            size=(5.2, 4.4),
        ),
        Figure(
            "loss-against-ratio",
            "Fig. 2: loss against the ratio",
            markers + f"n = {here} was trained in this run; other sizes are reference runs.",
            losses,
            [
                partial(plots.plot_loss_against_ratio, p=p, legend=k == len(PANELS) - 1)
                for k, p in enumerate(PANELS)
            ],
            columns=3,
            size=(3.6, 3.1),
        ),
        Figure(
            "loss-against-p",
            "Loss against p at fixed ratio",
            markers + "The dotted line is the closed small-p law, which has no free constant.",
            losses,
            [partial(plots.plot_loss_against_p, ratio=r, legend=k == 0) for k, r in enumerate(RATIOS)],
            columns=3,
            size=(3.6, 3.1),
        ),
        Figure(
            "onset",
            "The drop sets in around ratio = p",
            "Lines: macroscopic optimum; bars: where its bias changes sign; dots: trained models at "
            "convergence, all sizes and seeds.",
            losses,
            plots.plot_onset,
            size=(5.6, 3.8),
        ),
        Figure(
            "excess",
            "Trained models over the rug, and its trend with size",
            "Means over the seeds of the reference runs with ± 1 standard error of the mean (open, dotted: "
            "stopping rule; filled: convergence). Below 1 the trained model beats the rug.",
            losses,
            [partial(plots.plot_excess, ratio=ratio) for ratio in RATIOS],
            columns=3,
            size=(3.6, 3.1),
        ),
        Figure(
            "finite-size",
            "The rug at finite size tends to the macroscopic loss",
            "Scale and bias from the macroscopic optimum, the bias corrected for the interference's exact "
            "mean; four random rugs at each size.",
            xr.concat(finite, "case", combine_attrs="drop").assign(
                p=("case", [f.attrs["p"] for f in finite]), ratio=("case", [f.attrs["ratio"] for f in finite])
            ),
            [partial(plots.plot_finite_size, case=case) for case in range(len(finite))],
            size=(4.2, 3.2),
        ),
        Figure(
            "profile",
            "One minimum, which moves through zero bias: a crossover, not a jump",
            "Macroscopic loss over the shift, the scale optimal at each; dots mark the minimum.",
            profile,
            plots.plot_profile,
            size=(5.2, 3.6),
        ),
        Figure(
            "bias",
            "Where the optimal bias is negative (sparse regime) and positive (almost affine)",
            "The bias vanishes on the black line; for small p it is ratio = 0.592 p.",
            plane,
            plots.plot_bias_map,
            size=(5.2, 3.8),
        ),
    ]

"""Scores of decoders that know the law of the features and a random dictionary: a scale for SAEs."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ....solvers import sae
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.features import Features
from ...runner.declarations import Figure, Run, Topic, TopicContent
from ..drawing import LEGEND_ABOVE, finish_axes, plot_function

_AXES = {
    "f1": "F1, mean over latents",
    "mse": "squared error",
    "explained_variance": "explained variance",
}
# The dash tells a decoder's encoder, and the colour its thresholds: 5 and 3 names in place of 13.
_DASHES = {
    "dictionary encoder": ":",
    "linear encoder": "-.",
    "logistic encoder": (0, (3, 1, 1, 1, 1, 1)),
    "trained encoder": "-",
    "pursuit": "--",
}
_COLOURS = {
    "common threshold": "#0072B2",
    "thresholds for F1": "#D55E00",
    "thresholds for error": "#009E73",
}


@as_annotated
def run_reached(
    n_features: int = 64,
    n_hidden: int = 16,
    p: float = 0.03,
    share: Sequence[float] = (0.5, 0.75, 1.0, 1.5, 2.0),
    *,
    samples: int = 4000,
    seed: int = 0,
) -> xr.Dataset:
    """Return scores of decoders that know a random dictionary of unit directions; see `solvers.sae.ceiling`.

    A decoder is a kind of encoder, such as "linear" or "pursuit", with a kind of thresholds, such as those of
    best F1.

    Parameters
    ----------
    n_features, n_hidden : int
        Features, and dimensions of the activations.
    p : float
        Probability that a feature is on; values are uniform then.
    share : sequence of float
        (Expected L0) / (expected number of features that are on).
    samples : int
        Number of samples that determine thresholds, and number of further ones that evaluate.
    seed : int
        Seed of the dictionary and the samples.

    Returns
    -------
    xarray.Dataset
        Of (decoder, share): ``l0``, the expected number of latents that are on; ``f1``, the mean over
        features of the F1 score of the feature's own latent, and its standard error ``f1_error``;
        ``explained_variance`` of the activations.

    Examples
    --------
    >>> ds = run_reached(8, 4, 0.1, [1.0], samples=500)
    >>> bool(ds["f1"].sel(decoder="pursuit") > 0.5)
    True
    """
    n = validation.integer("n_features", n_features, 1, 16_384)
    d = validation.integer("n_hidden", n_hidden, 1, 16_384)
    rng = np.random.default_rng(validation.integer("seed", seed, 0))
    directions = rng.normal(size=(d, n))
    law = Features(n, p)
    l0 = np.asarray(validation.real("share", share, 0.0)) * float(law.p.sum())
    dictionary = directions / np.linalg.norm(directions, axis=0)
    scores = sae.ceiling(law, dictionary, l0, samples=samples, rng=rng)
    names = ("l0", "f1", "f1_error", "explained_variance")
    return xr.Dataset(
        {name: (("decoder", "share"), getattr(scores, name)) for name in names},
        {"decoder": list(scores.decoders), "share": list(share)},
        {"n_features": n, "n_hidden": d, "p": float(p), "samples": int(samples)},
    )


@plot_function
def plot_reached(ds: xr.Dataset, ax: Axes, what: str = "f1") -> Axes:
    """Draw `what`, "f1", "mse" or "explained_variance", against L0 for decoders that know the dictionary.

    `ds` is from `run_reached`, which has no "mse", or has scores from `solvers.sae.ceiling`.
    """
    validation.choice("what", what, tuple(_AXES))
    drawn = set()
    for name in ds["decoder"].values.astype(str):
        at = ds.sel(decoder=name)
        encoder, comma, thresholds = name.partition(", ")
        bars = at[f"{what}_error"] if f"{what}_error" in ds else None
        label, colour = encoder + " encoder" * bool(comma), _COLOURS.get(thresholds, "black")
        drawn.add(label)
        ax.errorbar(at["l0"], at[what], bars, fmt=".", linestyle=_DASHES[label], color=colour, ms=4)
    for label, dash in _DASHES.items():
        if label in drawn:
            ax.plot([], [], linestyle=dash, color="black", label=label)
    for label, colour in _COLOURS.items():
        ax.plot([], [], ".-", color=colour, label=label)
    return finish_axes(ax, LEGEND_ABOVE, xlabel="expected L0", ylabel=_AXES[what])


def _show_ceiling(ds: xr.Dataset) -> TopicContent:
    """Return text and figure of the report's part "ceiling", from `ds` of `run_reached`.

    The figure has mean F1 against L0 for decoders that know the dictionary; the text has the best F1 of
    encoders of one step, and of matching pursuit.
    """
    f1, pursuit = ds["f1"].drop_sel(decoder="pursuit"), ds["f1"].sel(decoder="pursuit")
    best = f1.isel(f1.argmax(...))
    text = (
        f"{ds.attrs['n_features']} features, on with probability {ds.attrs['p']:g} and uniform then, in "
        f"{ds.attrs['n_hidden']} dimensions with random unit directions. Of encoders that know law and "
        f"dictionary the best has a mean F1 of {float(best):.3f} ({best['decoder'].item()}, at "
        f"{float(best['share']):g} times as many latents on as features); matching pursuit has up to "
        f"{float(pursuit.max()):.3f}. The advantage of pursuit takes more than one step: these "
        "encoders cannot have it, however they are trained. It is not proved that no other encoder "
        "of one step does better."
    )
    caption = f"Means over {ds.attrs['samples']} samples, ± 1 SE; thresholds were fitted to other samples."
    figure = Figure("reached", "What knowing the dictionary gives", caption, ds, plot_reached)
    return TopicContent(text, [figure])


_FULL = {"n_features": 512, "n_hidden": 128, "p": 0.02, "samples": 20_000}
RUNS = {"reached": Run(run_reached, full=_FULL, seconds=4.0)}
TOPICS = [Topic("reached", ["reached"], _show_ceiling)]

"""The part of the report on collisions."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from scipy import stats

from ...theory.collisions import split_rate
from ..experiment import Figure, Section, Table
from ..files import read_dataset
from ..statistics import LEVEL, student
from ..stored import REFERENCE
from ..training.engine import load_torch
from . import tables, training_tables
from .cooccurrence import COOCCURRENCE, plot_cooccurrence, run_cooccurrence
from .course import plot_course, run_course
from .fig3 import FIG3, plot_fig3, plot_ratio, quoted_p_values, run_fig3
from .remedy import REMEDY, plot_outcomes, plot_remedy, run_remedy
from .trained import NAMES, TRAINED, plot_trained, run_trained
from .untied import plot_untied, run_inputs, run_untied

__all__ = ["report_section"]

LONG_RUN = REFERENCE / "collisions_fig3.nc"
ALARM = 1e-3  # rate at which each test in the text rejects what is true

# Sizes that fit each profile: the quick one takes some twenty seconds of one core, the full one wants a GPU.
SIZES: dict[str, dict[str, Any]] = {
    "quick": {
        "fig3": {**FIG3["quick"], "runs": 40},
        "course": {"n_features": 32, "n_hidden": 64, "runs": 32},
        "trained": {**TRAINED["quick"], "n_hidden": (32, 128)},
        "cooccurrence": {
            "n_features": 16,
            "n_hidden": 16,
            "lam": (0.16, 0.32),
            "p": (0.0, 0.01, 0.03, 0.06, 0.1, 0.2),
            "seeds": range(20),
        },
        "remedy": {
            "n_features": 16,
            "n_hidden": 16,
            "lam": (0.04, 0.16),
            "eps": (1e-3, 1e-2, 1e-1, 0.3),
            "seeds": range(40),
        },
        "variant": {"lam": (0.16,), "eps": (1e-2,)},
        "untied": {"lam": 0.04, "seeds": range(12)},
    },
    "full": {
        "fig3": FIG3["full"],
        "course": {"n_features": 256, "n_hidden": 1024, "runs": 32},
        "trained": TRAINED["full"],
        "cooccurrence": COOCCURRENCE["full"],
        "remedy": REMEDY["full"],
        "variant": {"lam": (0.08,), "eps": (1e-2,)},
        "untied": {"n_features": 64, "n_hidden": 128, "seeds": range(32)},
    },
}
TIMES = tuple(np.arange(0.5, 10.01, 0.5).tolist())  # since the split, in units of 4/lam
SMALL = 0.05  # perturbations for which the prediction is meant
VARIANTS: dict[str, dict[str, Any]] = {
    "tied weights": {},
    "as proposed: untied, outgoing weights halved": {"protocol": "untied"},
    "one shift for all incoming weights of a copy": {"correlation": 1.0},
    "no l1 term after the split": {"regularised": False},
}

TEXT = """
Under the l1 force encodings end on one neuron each, and chance decides whether two features end on the same
one. With opposite signs they do not feel each other (a benign collision), and the neuron stays polysemantic.
With equal signs they interfere (a malign collision) until one of them has left. So a neuron has two places,
one for each sign. The source expects n²/(4m) polysemantic neurons for n features and m neurons. Were all
arrangements of the features on the 2m places equally likely, it would be n(n-1)/(2(2m-1)) on average, for
any n and m: “one place a feature” in the figures. “Independent choice” is the mean if features could also
share a place.

Time and λ of the flow are those of the normal form (constants 4 dropped). A λ of the printed loss, which is
what training has, is four times as large.
"""
NO_TORCH = """

PyTorch is not installed on this machine, so nothing could be trained: gradient descent and AdamW beside the
flow, features that are on together, split neurons and untied weights are left out here.
"""

Part = tuple[str, list[Figure], list[Table]]


def report_section(profile: str, seed: int, progress: Callable[[str], None]) -> Section:
    """Run the experiments on collisions and return their part of the report.

    Parameters
    ----------
    profile : {"quick", "full"}
    seed : int
        Seed of everything random here; trained models take the seeds from it on.
    progress : callable
        Called with a line of text from time to time.

    Returns
    -------
    Section
        Without what needs training if PyTorch is not installed: the text says so.
    """
    sizes = {name: _seeded(given, seed) for name, given in SIZES[profile].items()}
    text, figures, listed = _flow(sizes, seed, progress)
    try:
        load_torch()
    except ImportError:
        text += NO_TORCH
    else:
        for part in (_trained, _together, _remedy, _untied):
            said, drawn, found = part(sizes, seed, progress)
            text, figures, listed = text + "\n\n" + said, figures + drawn, listed + found
    return Section("collisions", "Collisions of features", TEXT + "\n\n" + text, figures, listed)


def _seeded(given: dict[str, Any], seed: int) -> dict[str, Any]:
    """Shift the seeds of trained models by the seed of the report."""
    return {**given, "seeds": [seed + k for k in given["seeds"]]} if "seeds" in given else given


# --- The flow
# ----------------------------------------------------------------------------------------


def _flow(sizes: dict[str, Any], seed: int, progress: Callable[[str], None]) -> Part:
    progress(f"collisions: the flow, n = {sizes['fig3']['n_features']}")
    here = run_fig3(**sizes["fig3"], seed=seed)
    course = run_course(**sizes["course"], seed=seed)
    parts = {"this machine": here}
    said = [_constant("this machine", here)]
    if LONG_RUN.is_file():
        parts["reference"] = read_dataset(LONG_RUN)
        said.append(_constant("reference run", parts["reference"]))
    else:
        said.append(f"There is no reference run at the source's sizes: {LONG_RUN.name} is missing.")
    figures = [
        Figure(
            f"fig3-{origin}".replace(" ", "-"),
            f"Fig. 3: polysemantic neurons of the flow ({origin})",
            "Small dots are runs (those with a count of 0 are below the axis), large ones their means with "
            "Student's interval; lines are predictions without a fitted constant. Right: over n²/(4m).",
            ds,
            (plot_fig3, plot_ratio),
        )
        for origin, ds in parts.items()
    ]
    figures.append(
        Figure(
            "course",
            "When interference acts",
            "The count that the weights of a moment give if every feature takes its largest free weight, "
            "over that of chance, n(n-1)/(2(2m-1)).",
            course,
            plot_course,
            size=(5.6, 3.8),
        )
    )
    listed = [
        tables.count_table(parts),
        tables.places_table(parts),
        tables.winners_table(here),
        tables.malign_table(),
    ]
    return "\n\n".join([*said, _when(course)]), figures, listed


def _constant(origin: str, ds: xr.Dataset) -> str:
    """Say from the numbers whether the constant is 1/4."""
    where: dict[str, list[str]] = {"lies below 1": [], "lies above 1": [], "contains 1": []}
    ratios = []
    for k, m in enumerate(ds["n_hidden"].values):
        mean, half = (value / float(ds["quoted"][k]) for value in student(ds["polysemantic"][k]))
        ratios.append(mean)
        side = "lies below 1" if mean + half < 1 else "lies above 1" if mean - half > 1 else "contains 1"
        where[side].append(str(m))
    _, together, same = quoted_p_values(ds)
    text = (
        f"Is the constant 1/4? Flow, {origin}, n = {ds.attrs['n_features']}, λ = {ds.attrs['lam']:g}, "
        f"{ds.sizes['run']} runs at each m: mean counts are between {min(ratios):.2f} and {max(ratios):.2f} "
        f"times n²/(4m). The {LEVEL:.0%} interval of the ratio "
        + "; ".join(f"{side} at m = {', '.join(found)}" for side, found in where.items() if found)
        + "."
    )
    if np.isfinite(together):
        text += (
            f" Tested together at a false-alarm rate of {ALARM:.1%}, by Fisher's combination of Student's "
            f"tests (p = {together:.1g}), 1/4 is {_verdict(together)}."
        )
    if np.isfinite(same):
        text += (
            " That one constant, whichever, fits all these m is, by Alexander and Govern's test at the same "
            f"rate (p = {same:.1g}), {_verdict(same)}."
        )
    missing = set(FIG3["full"]["n_hidden"]) - set(ds["n_hidden"].values.tolist())
    if origin == "reference run" and missing:
        text += f" The source's m = {', '.join(map(str, sorted(missing)))} are not in it."
    return text


def _verdict(p: float) -> str:
    return "rejected" if p < ALARM else "not rejected by these runs"


def _when(ds: xr.Dataset) -> str:
    """Say when the count becomes what it is at the end."""
    ratio = ds["count"].values / ds.attrs["expected"]
    settled = np.all(ds["count"].values == ds["count"].values[-1], axis=1)
    first = int(np.flatnonzero(~settled)[-1]) + 1 if not settled.all() else 0
    begin, end = (student(values) for values in (ratio[0], ratio[-1]))
    return (
        "Chance alone, each feature on its largest free weight, gives "
        f"{begin[0]:.2f} ± {begin[1]:.2f} times n(n-1)/(2(2m-1)) for the first weights of {ds.sizes['run']} "
        f"runs with n = {ds.attrs['n_features']}, m = {ds.attrs['n_hidden']}; for the weights at the end of "
        f"the flow it is {end[0]:.2f} ± {end[1]:.2f}. Of the times looked at, λt = "
        f"{float(ds['time'][first]):g} is the first after which no run's count changes; there interference "
        f"holds down {float(ds['held'][first].mean()):.1%} of the pairs of features "
        f"({float(ds['held'][0].mean()):.0%} at first)."
    )


# --- Training
# ----------------------------------------------------------------------------------------


def _trained(sizes: dict[str, Any], seed: int, progress: Callable[[str], None]) -> Part:
    progress("collisions: gradient descent and AdamW")
    ds = run_trained(**sizes["trained"], optimisers=("flow", "gd", "adamw"))
    figure = Figure(
        "trained",
        "The optimiser's part in the count",
        "The flow, plain gradient descent and AdamW (learning rate and weight decay of the authors' code) "
        "from the same first weights.",
        ds,
        plot_trained,
        size=(5.6, 3.8),
    )
    flow, said = ds["polysemantic"].sel(optimiser="flow").values, []
    for name in ("gd", "adamw"):
        counts = ds["polysemantic"].sel(optimiser=name).values
        mean, half = student(((counts - flow) / ds["quoted"].values[:, None]).mean(axis=0))
        said.append(
            f"{NAMES[name]} has the flow's count in {np.sum(counts == flow)} of {flow.size} runs, and on "
            f"average over m a count that differs by {mean:+.3f} ± {half:.3f} times n²/(4m): the {LEVEL:.0%} "
            "interval " + ("excludes 0." if abs(mean) > half else "contains 0.")
        )
    text = "Trained in PyTorch from the same first weights: " + " ".join(said)
    return text, [figure], [training_tables.trained_table(ds)]


def _together(sizes: dict[str, Any], seed: int, progress: Callable[[str], None]) -> Part:
    progress("collisions: features that are on together")
    ds = run_cooccurrence(**sizes["cooccurrence"])
    figure = Figure(
        "cooccurrence",
        "Features that are on together",
        "Each feature is on with probability p, independently. The count is predicted to fall where p is "
        "about the λ of the normal form (vertical line). Left: weights above 0.5 count, also those of pairs "
        "of features that share two neurons at right angles; right: above 0.8, one-hot encodings only.",
        ds,
        (plot_cooccurrence, partial(plot_cooccurrence, name="polysemantic_0.8")),
    )
    rng, said = np.random.default_rng(seed), []
    for k, lam in enumerate(ds["lam"].values):
        at, low, high = training_tables.half_point(ds, "polysemantic_0.8", k, rng)
        value = f"{at:.2f} ({low:.2f} to {high:.2f})" if np.isfinite(at) else "not reached"
        said.append(f"{value} at λ = {lam:g}")
    changed = int(np.sum(ds["after"].values != ds["before"].values[:, None]))
    text = (
        "Features that are on together feel each other also when their signs are opposite. The p at which "
        "half as many neurons as with one-hot inputs are shared by one-hot encodings, over the predicted "
        f"scale λ/4, with bootstrap {LEVEL:.0%} intervals: {'; '.join(said)}. Models that were trained "
        f"one-hot and then with such inputs have a count that differs from the one before in {changed} of "
        f"{ds['after'].size} cases. For small p none is predicted: what acts on the other weights of a "
        "one-hot encoding is then weaker than the l1 force that holds them at zero."
    )
    return text, [figure], [training_tables.cooccurrence_table(ds)]


def _plot_share(ds: xr.Dataset, ax: Axes, i: int) -> Axes:
    return plot_remedy(ds.isel(lam=[i]), ax)


def _remedy(sizes: dict[str, Any], seed: int, progress: Callable[[str], None]) -> Part:
    progress("collisions: split neurons")
    ds = run_remedy(**{**sizes["remedy"], "times": TIMES})
    fewer = {**sizes["remedy"], **sizes["variant"], "times": TIMES[-1:]}
    others = {name: run_remedy(**fewer, **options) for name, options in VARIANTS.items()}
    figure = Figure(
        "remedy",
        "Polysemantic neurons that are split",
        "Share of split neurons whose two features are on different copies, for each λ: markers with exact "
        "intervals, lines predicted without a fitted constant (for small perturbations). Last panel: what "
        "had become of all of them at the end.",
        ds,
        (*(partial(_plot_share, i=i) for i in range(ds.sizes["lam"])), plot_outcomes),
    )
    small = ds.isel(time=-1, eps=np.flatnonzero(ds["eps"].values < SMALL))
    apart, pairs = int(small["apart"].sum()), int(small["pairs"].sum()) * small.sizes["eps"]
    text = (
        "The remedy that the source proposes: split each polysemantic neuron in two, perturb the incoming "
        "weights of both copies, train on. With independent noise each feature chooses a copy for itself, so "
        f"half of the pairs are predicted to part. {_parted(apart, pairs)} {_growth(ds)}"
    )
    listed = [
        training_tables.outcome_table(ds),
        training_tables.variant_table(others),
        training_tables.times_table(ds),
    ]
    return text, [figure], listed


def _parted(apart: int, pairs: int) -> str:
    if pairs == 0:
        return "There was no polysemantic neuron to split in these runs."
    test = stats.binomtest(apart, pairs)
    low, high = test.proportion_ci(LEVEL, method="exact")
    return (
        f"In these runs {apart} of {pairs} parted (perturbations below {SMALL:g}), {apart / pairs:.2f} with "
        f"an exact {LEVEL:.0%} interval from {low:.2f} to {high:.2f}; one half is, at a false-alarm rate of "
        f"{ALARM:.1%} (p = {test.pvalue:.1g}), {_verdict(test.pvalue)}."
    )


def _growth(ds: xr.Dataset) -> str:
    """Say at which rate differences between copies grow: the delay of a smaller perturbation gives it."""
    said = []
    for i, lam in enumerate(ds["lam"].values):
        late, early = (training_tables.median_times(ds, i, k)[:3] for k in (0, 1))
        delay, error = late[0] - early[0], np.hypot(late[2] - late[1], early[2] - early[1]) / 2
        if np.isfinite(error) and delay > error:
            rate = np.log(float(ds["eps"][1] / ds["eps"][0])) / delay
            predicted = 4 / lam * float(np.asarray(split_rate(lam / 4)))
            said.append(f"{rate:.2f} ± {rate * error / delay:.2f} at λ = {lam:g} ({predicted:.2f} predicted)")
    if not said:
        return ""
    return (
        "The difference between the copies grows by the l1 force alone; its rate over λ/4, from how much "
        f"later the median decision is with the smallest perturbation than with the next: {'; '.join(said)}."
    )


def _untied(sizes: dict[str, Any], seed: int, progress: Callable[[str], None]) -> Part:
    progress("collisions: untied weights")
    ds = run_untied(**sizes["untied"])
    inputs = run_inputs(seeds=range(seed, seed + 4))
    figure = Figure(
        "untied",
        "Untied weights: length of the decoder over that of the encoder",
        "An l1 term on activations acts on the encoder alone, and the line is its closed solution for one "
        "neuron from equal lengths and small λ.",
        ds,
        plot_untied,
        size=(5.6, 4.2),
    )
    end = ds.isel(time=-1)
    said = [
        f"{place} |D|/|E| is {float(one['norm_ratio'].mean()):.4g} and the cosine of the two "
        f"{float(one['cosine'].mean()):.4g} on average"
        for place, one in (
            ("with the l1 term on activations, as printed,", end.sel(case="l1 on activations")),
            ("with the l1 term on both", end.sel(case="l1 on both")),
        )
    ]
    gap = inputs["gap"].sel(inputs="orthonormal")
    text = (
        f"An encoder E and a decoder D of their own, at the end: {'; '.join(said)}. Orthonormal inputs "
        f"instead of basis vectors change gradient descent by {float(gap.sel(optimiser='sign')):.1g} of what "
        "training does (float32), and AdamW, which scales each weight's step by itself, by "
        f"{float(gap.sel(optimiser='adamw')):.1g}."
    )
    return text, [figure], [training_tables.untied_table(ds), training_tables.inputs_table(inputs)]

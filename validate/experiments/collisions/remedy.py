"""The remedy of Lecomte et al. (2024), §5: split each polysemantic neuron, perturb, continue training."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.axes import Axes

from ....solvers.collisions import Split, outcomes, split_neurons
from ....solvers.collisions.counts import ZERO, signed_root
from ....solvers.collisions.splitting import OUTCOMES, PROTOCOLS
from ....solvers.statistics import Estimate, first_level, share
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.collisions import separated_share
from ....theory.validation import FloatArray
from ...runner.declarations import Figure, Run, Table, Topic, TopicContent
from ...runner.findings import Criterion, post_hoc
from ..drawing import draw_estimates, finish_axes, plot_function
from .labels import INTERVALS, MARKERS
from .training import merge_settings, train_l1

# Perturbations for which the prediction is meant.
SMALL = Criterion("perturbation", "<", post_hoc(0.05))
# Ways to split, as options of `run_remedy`. The source's loss has the l1 term on activations: after an untied
# split it acts on the encoder. The authors' code has it on the weights of both.
VARIANTS: dict[str, dict[str, Any]] = {
    "tied weights": {},
    "as proposed: untied, outgoing weights halved": {"protocol": "untied", "penalty": "activations"},
    "the same, l1 term on encoder and decoder": {"protocol": "untied"},
    "one shift for all incoming weights of a copy": {"correlation": 1.0},
    "no l1 term after the split": {"regularised": False},
}
# Of the printed loss, as in training from random weights: perturbations interfere among all features.
RATE = 0.05
MOST_STEPS = 10**9


@as_annotated
def run_remedy(
    n_features: int = 16,
    n_hidden: int = 16,
    lam: Sequence[float] = (0.04, 0.16),
    eps: Sequence[float] = (1e-3, 1e-2, 1e-1),
    seeds: Sequence[int] = tuple(range(24)),
    *,
    protocol: str = "tied",
    correlation: float = 0.0,
    regularised: bool = True,
    penalty: str = "weights",
    times: Sequence[float] = (1.0, 2.0, 4.0, 8.0),
    before: float = 8.0,
    device: str = "auto",
) -> xr.Dataset:
    r"""Train, split every polysemantic neuron, train on, and count the pairs of features that separate.

    Parameters
    ----------
    n_features, n_hidden : int
        Sizes of the model ReLU(W W' x), W of shape (n_features, n_hidden).
    lam, eps : sequence of float
        l1 strengths of the loss of Lecomte et al. (2024), and sizes of the perturbation, positive.
    seeds : sequence of int
        Runs at each l1 strength; the same trained models are split for every eps.
    protocol : {"tied", "untied"}
        Models are trained tied. A "tied" split divides the weights of both copies by sqrt(2). An "untied" one
        copies incoming weights and halves outgoing ones; encoder and decoder are then trained separately.
    correlation : float
        Correlation between the noise of the weights of a copy, in [0, 1]; 1 shifts all of them alike.
    regularised : bool
        Whether the l1 term stays on after the split.
    penalty : {"activations", "weights"}
        What the l1 term acts on after an "untied" split: "activations" is the encoder alone, as in the
        printed loss, "weights" encoder and decoder, as in the authors' code.
    times : increasing sequence of float
        Times since the split at which to count, in units of 1/lam_normal.
    before : float
        Length of the training before the split, in the same units.
    device : {"auto", "cpu", "cuda"}

    Returns
    -------
    xarray.Dataset
        ``pairs`` (lam): neurons that were split. Of (lam, eps, time), their numbers by outcome: ``apart`` and
        ``together``, both features have settled, on different copies or on the same; ``undecided``, a feature
        still has weights on both copies; ``lost``, a feature is on neither. ``predicted`` and
        ``predicted_together``, the shares that `theory.collisions.separated_share` gives for tied weights.

    Examples
    --------
    >>> ds = run_remedy(8, 8, [0.2], [0.05], range(8), times=[6.0], device="cpu")
    >>> bool(ds.apart[0, 0, 0] + ds.together[0, 0, 0] > 0.8 * ds.pairs[0])
    True
    """
    protocol = validation.choice("protocol", protocol, PROTOCOLS)
    lams, sizes, clock = (
        validation.real(name, validation.vector(name, values), 0, brackets="()")
        for name, values in (("lam", lam), ("eps", eps), ("times", times))
    )
    before = validation.number("before", before, 0, brackets="()")
    validation.real("lam", lams, 0, 1e30)
    validation.real("times", clock, 0, MOST_STEPS * RATE * float(lams.min()))
    seeds, rows = list(seeds), []
    for i, strength in enumerate(map(float, lams)):
        # One step is 4 * RATE * lam / 4 units of time, tied; untied weights have half the gradient.
        options: dict[str, Any] = {"learning_rate": RATE, "steps": round(before / (RATE * strength))}
        options |= {"device": device, "keep_weights": True}
        trained = train_l1(n_features, n_hidden, strength, seeds, **options)["W"].values[0]
        stops = np.maximum(np.round(clock / (RATE * strength)), 1).astype(int)
        remaining = strength if regularised else 0.0
        columns = []
        for k, size in enumerate(map(float, sizes)):
            rngs = [np.random.default_rng([seed, i, k]) for seed in seeds]
            splits = [
                split_neurons(W, size, protocol=protocol, correlation=correlation, rng=rng)
                for W, rng in zip(trained, rngs, strict=True)
            ]
            continued = _train_on(splits, remaining, np.unique(stops), protocol, penalty, device)
            rate = strength / 4
            law = separated_share(clock / rate, rate, size, correlation=correlation, left=ZERO)
            columns_of_time = dict(zip(("predicted", "predicted_together"), law, strict=True))
            counts = [
                [outcomes(W, s.pairs, s.copies) for W, s in zip(continued[int(stop)], splits, strict=True)]
                for stop in stops
            ]
            for name in OUTCOMES:
                columns_of_time[name] = np.array([sum(count[name] for count in row) for row in counts])
            data = {name: ("time", values) for name, values in columns_of_time.items()}
            columns.append(xr.Dataset(data, {"time": clock}))
        pairs = sum(len(split.pairs) for split in splits)
        rows.append(merge_settings(columns, eps=sizes).assign(pairs=pairs))
    facts = {"n_features": n_features, "n_hidden": n_hidden, "runs": len(seeds), "protocol": protocol}
    facts |= {"correlation": correlation, "regularised": int(regularised)}
    return merge_settings(rows, lam=lams).assign_attrs(facts)


@as_annotated
def run_variants(
    variants: Sequence[str] = tuple(VARIANTS), *, lam: float = 0.16, eps: float = 1e-2, **options: Any
) -> xr.Dataset:
    """Split polysemantic neurons in several ways, each as in `run_remedy`, at one lam and eps.

    Parameters
    ----------
    variants : sequence of str
        Names in `VARIANTS`, ways to split: they differ in `protocol`, `penalty`, `correlation` or
        `regularised` of `run_remedy`.
    lam, eps : float
        l1 strength of the loss of Lecomte et al. (2024), and size of the perturbation.
    **options
        Further arguments of `run_remedy`, such as sizes and seeds.

    Returns
    -------
    xarray.Dataset
        Numbers of split neurons by outcome, and predictions, as from `run_remedy`, with a dimension
        ``variant``.

    Examples
    --------
    >>> ds = run_variants(["tied weights"], lam=0.2, n_features=8, n_hidden=8, seeds=range(4), times=[6.0])
    >>> ds["apart"].dims
    ('variant', 'lam', 'eps', 'time')
    """
    names = validation.choices("variants", variants, tuple(VARIANTS))
    parts = [run_remedy(lam=[lam], eps=[eps], **{**options, **VARIANTS[name]}) for name in names]
    return merge_settings(parts, variant=names)


def _train_on(
    splits: Sequence[Split],
    lam: float,
    stops: npt.NDArray[np.int64],
    protocol: str,
    penalty: str,
    device: str,
) -> dict[int, FloatArray]:
    """Continue training after `splits` at l1 strength `lam`; return weights (split, feature, neuron) by step.

    A split is a model in which each polysemantic neuron was replaced by two perturbed copies
    (`split_neurons`), by the `protocol` "tied" or "untied". `stops` are the steps; weights are padded with
    zeros. After an untied split, sign(E) sqrt(E D) is returned, 0 where E D < 0, of encoder E and decoder D.
    `penalty` says what the l1 term acts on, "activations" or "weights", as in `run_remedy`.
    """
    width = max(split.encoder.shape[1] for split in splits)
    first, second = (
        np.stack([np.pad(W, ((0, 0), (0, width - W.shape[1]))) for W in parts])
        for parts in ([split.encoder for split in splits], [split.decoder for split in splits])
    )
    sizes, runs = (first.shape[1], width), [0] * len(splits)
    options: dict[str, Any] = {"steps": stops.tolist(), "device": device, "keep_weights": True}
    if protocol == "tied":
        options |= {"start": first, "penalty": "weights"}
        W = train_l1(*sizes, lam, runs, learning_rate=RATE, **options)["W"].values
    else:
        # Untied weights share the gradient: half the l1 strength and twice the rate give the same flow.
        options |= {"start": first, "start_decoder": second, "tied": False, "penalty": penalty}
        ds = train_l1(*sizes, lam / 2, runs, learning_rate=2 * RATE, **options)
        W = signed_root(ds["encoder"].values, ds["decoder"].values)
    return dict(zip(stops.tolist(), W.astype(float), strict=True))


@plot_function
def plot_remedy(ds: xr.Dataset, ax: Axes, i: int = 0) -> Axes:
    """Draw the share of split neurons whose features separated against time, with predictions as lines.

    `ds` is from `run_remedy`; `i` is the position of the l1 strength on its axis ``lam``.
    """
    fine = np.linspace(0.0, 1.05 * float(ds["time"].max()), 200)
    for k, size in enumerate(ds["eps"].values):
        law, _ = separated_share(fine, 1.0, size, correlation=ds.attrs["correlation"], left=ZERO)
        ax.plot(fine, law, color=f"C{k}", label=f"perturbation {size:g}")
        at = ds.isel(lam=i, eps=k)
        shares = [share(int(hits), int(at["pairs"])) for hits in at["apart"].values]
        style = {"color": f"C{k}", "markersize": 3, "elinewidth": 0.8, "fmt": MARKERS[k], "capsize": 0}
        draw_estimates(ax, at["time"], shares, **style)
    ax.axhline(0.5, color="0.8", linewidth=0.8, zorder=0)
    ax.set_yticks([0, 0.25, 0.5, 0.75, 1])
    title = f"λ = {float(ds['lam'][i]):g} (printed loss), {int(ds['pairs'][i])} pairs"
    ax.set(xlabel="time since the split × λ/4", ylabel="share of pairs parted")
    return finish_axes(ax, "upper left", title=title, ylim=(-0.03, 1.2))  # no share is above 1: there is room


def median_time(ds: xr.Dataset, i: int, k: int) -> tuple[Estimate, float]:
    """Return (time at which both features have settled in half of the split neurons, its prediction).

    Features settle on the same copy or on different ones. `ds` is from `run_remedy`, `i` and `k` are
    positions on its axes ``lam`` and ``eps``; times are in units of 1/``lam_normal``. The interval is exact
    for the share of settled neurons, and interpolated between the times counted; nan if half is not reached.
    """
    hits, pairs, times = (ds["apart"] + ds["together"]).values[i, k], int(ds["pairs"][i]), ds["time"].values
    shares = [share(int(n_hits), pairs) for n_hits in hits]
    # Where the upper limit of the share has reached one half is the earliest time.
    middle, low, high = (
        first_level(times, [getattr(s, end) for s in shares], 0.5) for end in ("value", "high", "low")
    )
    fine = np.linspace(0.0, 2 * float(times[-1]), 4001)
    options = {"correlation": ds.attrs["correlation"], "left": ZERO}
    law = np.sum(np.array(separated_share(fine, 1.0, float(ds["eps"][k]), **options)), axis=0)
    return Estimate(middle, low, high, shares[0].level, pairs), first_level(fine, law, 0.5)


def _outcome_cells(at: xr.Dataset) -> list[str]:
    """Return table cells: the number of split neurons, and the share of each outcome, or dashes if 0 split.

    Outcomes, in order: the two features are on different copies of the neuron, on the same copy, undecided,
    or lost. `at` is a dataset from `run_remedy` at one lam, eps and time.
    """
    pairs = int(at["pairs"])
    n_apart, *others = (int(at[name]) for name in OUTCOMES)
    if not pairs:
        return ["0", *["–"] * len(OUTCOMES)]
    return [f"{pairs}", f"{share(n_apart, pairs):.2f}", *(f"{count / pairs:.2f}" for count in others)]


def _show_remedy(ds: xr.Dataset, variants: xr.Dataset) -> TopicContent:
    """Return text, figure and tables of the report's part "remedy": splitting polysemantic neurons.

    The figure has the share of split neurons whose features separate, against time. Tables have all outcomes
    by l1 strength and perturbation (`ds`, from `run_remedy`), and by way of splitting (`variants`, from
    `run_variants`).
    """
    caption = (
        "Share of split neurons whose two features are on different copies, for each λ; lines are predicted "
        f"without a fitted constant (for small perturbations). {INTERVALS}"
    )
    panels = [partial(plot_remedy, i=i) for i in range(ds.sizes["lam"])]
    figure = Figure("remedy", "Polysemantic neurons that are split", caption, ds, panels)
    end = ds.isel(time=-1)
    small = end.isel(eps=np.flatnonzero(SMALL.satisfied(ds["eps"])))
    n_apart, pairs = int(small["apart"].sum()), int(small["pairs"].sum()) * small.sizes["eps"]
    parted = share(n_apart, pairs)
    text = (
        "The remedy that the source proposes: split each polysemantic neuron in two, perturb the incoming "
        "weights of both copies, train on. With independent noise each feature chooses a copy for itself, "
        f"so half of the pairs are predicted to part. In these runs {n_apart} of {pairs} parted "
        f"(perturbations below {SMALL:g}), {parted:.2f}."
    )
    headline = (
        f"Splitting a polysemantic neuron is a coin toss: {parted.value:.0%} of {pairs} split pairs of "
        "features ended on different copies; one half is predicted."
    )
    return TopicContent(text, [figure], [_outcome_table(ds), _variant_table(variants)], headline)


def _outcome_table(ds: xr.Dataset) -> Table:
    """Return the table of outcomes of splitting neurons, by l1 strength and size of the perturbation.

    Columns are the number of split neurons, the share of each outcome at the last time, the predicted share
    of separated features, and the median time of settling with its prediction. `ds` is from `run_remedy`.
    """
    rows = []
    for i, k in np.ndindex(ds.sizes["lam"], ds.sizes["eps"]):
        at, (time, law) = ds.isel(lam=i, eps=k, time=-1), median_time(ds, i, k)
        lam, eps, predicted = (float(at[name]) for name in ("lam", "eps", "predicted"))
        median = f"{time:.2f}" if np.isfinite(time.value) else "not reached"
        rows.append((f"{lam:g}", f"{eps:g}", *_outcome_cells(at), f"{predicted:.2f}", median, f"{law:.2f}"))
    predicted_columns = ("apart, predicted", "median time", "predicted")
    columns = ("λ", "perturbation", "split neurons", *OUTCOMES, *predicted_columns)
    caption = (
        f"At time × λ/4 = {float(ds['time'][-1]):g} after the split. Tied weights, each copy sqrt(1/2) times "
        "the neuron. Lost: a feature that neither copy holds (it may be on another neuron). Median time: × "
        "λ/4, after which half of the split neurons have both features on one copy each; the prediction has "
        f"no fitted constant, and is for small λ and small perturbations. {INTERVALS}"
    )
    return Table("What became of split neurons", columns, rows, caption)


def _variant_table(ds: xr.Dataset) -> Table:
    """Return the table of outcomes of splitting neurons, one row for each way to split, at the last time.

    Columns are the number of split neurons and the share of each outcome: the two features of a neuron end on
    different copies, on the same copy, are undecided, or are lost. `ds` is from `run_variants`.
    """
    last = ds.isel(lam=0, eps=0, time=-1)
    rows = [(str(name), *_outcome_cells(last.sel(variant=name))) for name in last["variant"].values]
    lam, eps, time = (float(last[name]) for name in ("lam", "eps", "time"))
    caption = f"λ = {lam:g}, perturbation {eps:g}, time × λ/4 = {time:g}. {INTERVALS}"
    return Table("Other ways to split", ("split", "split neurons", *OUTCOMES), rows, caption)


TIMES = tuple(np.arange(0.5, 10.01, 0.5).tolist())  # since the split, in units of 4/lam
QUICK = {"lam": (0.04, 0.16), "eps": (1e-3, 1e-2, 1e-1, 0.3), "seeds": range(40), "times": TIMES}
FULL = {
    "n_features": 64,
    "n_hidden": 64,
    "lam": (0.02, 0.08, 0.2),
    "eps": (1e-4, 1e-3, 1e-2, 1e-1),
    "seeds": range(64),
    "times": TIMES,
}
AT_END = {"times": TIMES[-1:]}
RUNS = {
    "remedy": Run(run_remedy, QUICK, FULL, torch=True, seconds=9),
    "variants": Run(
        run_variants, {"seeds": range(40), **AT_END}, {"seeds": range(400), **AT_END}, torch=True, seconds=3
    ),
}
TOPICS = [Topic("remedy", ["remedy", "variants"], _show_remedy, claims=["L37"])]

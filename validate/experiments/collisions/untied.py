"""Untied encoders and decoders, compared after training (Lecomte et al. 2024, App. A)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ....solvers.statistics import mean
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.collisions.neuron import untied_length_ratio
from ...runner.declarations import Figure, Run, Table, Topic, TopicContent
from ..drawing import finish_axes, plot_function, size_axis
from .labels import INTERVALS, draw_runs
from .training import merge_settings, train_l1


@dataclass(frozen=True)
class Case:
    """First weights of encoder and decoder, and the penalty and weight decay in training.

    `l1` and `decay` are in units of the l1 strength lam; if `equal`, decoders begin equal to encoders.
    """

    penalty: str = "activations"
    l1: float = 1.0  # over lam
    decay: float = 0.0  # over lam, decoupled
    scale: float = 0.9
    equal: bool = False  # both begin equal


CASES = {
    "l1 on activations": Case(),
    "equal start": Case(equal=True),
    "small start": Case(scale=0.1),
    "decay = λ": Case(decay=1.0),
    "decay = 10 λ": Case(decay=10.0),
    "l1 on both": Case(penalty="weights"),
    "no l1": Case(l1=0.0),
    "no l1, small start": Case(l1=0.0, scale=0.1),
    "no l1, decay = λ": Case(l1=0.0, decay=1.0),
}
# Of the printed loss. A feature's fastest rate is 2 (|D|^2 + |E|^2), and |D|^2 grows to about 10.
RATE = 0.05
MOST_STEPS = 10**9


@as_annotated
def run_untied(
    n_features: int = 16,
    n_hidden: int = 32,
    lam: float = 0.02,
    seeds: Sequence[int] = tuple(range(16)),
    *,
    times: Sequence[float] = (0.5, 1.0, 2.0, 4.0, 8.0),
    cases: Sequence[str] = tuple(CASES),
    device: str = "auto",
) -> xr.Dataset:
    """Train untied encoders and decoders and measure how they differ.

    Lecomte et al. (2024), App. A, "Tied weights", expect nearly equal weights.

    Parameters
    ----------
    n_features, n_hidden : int
        Sizes of encoder and decoder.
    lam, seeds : float, sequence of int
        l1 strength of the printed loss, positive; seeds of the runs.
    times : increasing sequence of float
        Times at which to measure, in units of 1/lam_normal, which is 2/lam for untied weights.
    cases : sequence of str
        Names in `CASES`. They differ in the l1 term (on activations, on the weights of both encoder and
        decoder as in the authors' code, or none), the decoupled weight decay, and the first weights.
    device : {"auto", "cpu", "cuda"}

    Returns
    -------
    xarray.Dataset
        Of (case, time, run), with encoder E and decoder D, means over the features that are learned:
        ``mismatch``, |E_i - D_i|/|D_i|; ``cosine`` of E_i and D_i; ``norm_ratio``, |D_i|/|E_i|. Also ``dead``
        features, ``polysemantic`` neurons (with two features or more), ``nonzeros`` (weights per feature) and
        the printed ``loss`` on the standard basis; see `train_l1`.

    Examples
    --------
    >>> ds = run_untied(8, 16, 0.05, range(4), times=[4.0], cases=["equal start"], device="cpu")
    >>> bool((ds.norm_ratio > 2).all())
    True
    """
    lam = validation.number("lam", lam, 0, brackets="()")
    clock = validation.real("times", validation.vector("times", times), 0, brackets="()")
    cases = [validation.choice("cases", case, tuple(CASES)) for case in cases]
    validation.real("times", clock, 0, MOST_STEPS * lam * RATE)
    steps = np.maximum(np.round(clock / (lam * RATE)), 1).astype(int).tolist()
    if sorted(set(steps)) != steps:
        rule = f"increase by {lam * RATE:g}, a step, or more"
        raise ValueError(f"`times` must {rule}; got {validation.short_repr(clock.tolist())}.")
    names = ["mismatch", "cosine", "norm_ratio", "dead", "polysemantic", "nonzeros", "loss"]
    seeds, rows = list(seeds), []
    for case in map(CASES.__getitem__, cases):
        options: dict[str, Any] = {"scale": case.scale, "device": device}
        if case.equal:
            drawn = train_l1(n_features, n_hidden, lam, seeds, steps=0, keep_weights=True, **options)
            options |= {"start": drawn["W"].values[0], "start_decoder": drawn["W"].values[0]}
        options |= {"penalty": case.penalty, "weight_decay": case.decay * lam, "learning_rate": RATE}
        ds = train_l1(n_features, n_hidden, case.l1 * lam, seeds, tied=False, steps=steps, **options)
        rows.append(ds[names].rename(step="time").assign_coords(time=clock))
    ds = merge_settings(rows, case=cases)
    ds.attrs = {"n_features": n_features, "n_hidden": n_hidden, "lam": lam}
    return ds


@plot_function
def plot_untied(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw |D|/|E| of learned features against time, with the predicted ratio for one neuron as a line.

    `ds` is from `run_untied`; D is the decoder, E the encoder. The line is for an l1 term on activations
    (`theory.collisions.untied_length_ratio`).
    """
    fine = np.geomspace(float(ds["time"].min()), float(ds["time"].max()), 100)
    ax.plot(fine, untied_length_ratio(fine), color="C0", label="one neuron, l1 on activations")
    for k, case in enumerate(ds["case"].values):
        draw_runs(ax, ds["time"], ds["norm_ratio"].sel(case=case).transpose("time", "run"), k, str(case))
    size_axis(ax, ds["time"], yscale="log", xlabel="time × λ/2", ylabel="|D| / |E|, learned features")
    ax.set_title("n = {n_features}, m = {n_hidden}, λ = {lam:g} (printed loss)".format(**ds.attrs))
    ax.set_yticks([1, 2, 5, 10], ["1", "2", "5", "10"])
    ax.minorticks_off()
    legend = {"title": f"{ds.sizes['run']} seeds", "loc": "upper left", "ncols": 2}
    return finish_axes(ax, legend, ylim=(0.9, 5 * ax.get_ylim()[1]))


def _show_untied(ds: xr.Dataset) -> TopicContent:
    """Return text, figure and table of the report's part "untied", from `ds` of `run_untied`.

    The figure has |D|/|E|, D decoder and E encoder, against time beside its prediction; the table has, by
    case, cosine of E and D, |D|/|E|, |E - D|/|D| and the share of dead features, at the end.
    """
    caption = (
        "An l1 term on activations acts on the encoder alone, and the line is its closed solution for one "
        f"neuron from equal lengths and small λ. {INTERVALS}"
    )
    title = "Untied weights: length of the decoder over that of the encoder"
    figure = Figure("untied", title, caption, ds, plot_untied, size=(5.6, 4.2))
    end = ds.isel(time=-1)

    def of_learned(case: str, name: str) -> str:
        """Return the mean of the variable `name` over runs with learned features in a case, as text."""
        values = end[name].sel(case=case).dropna("run").values
        return f"{mean(values):.3f}" if values.size > 1 else "–"

    cases = [str(case) for case in ds["case"].values]
    sentences = [
        f"{case}: |D|/|E| = {of_learned(case, 'norm_ratio')}, cosine {of_learned(case, 'cosine')}"
        for case in ("l1 on activations", "l1 on both", "no l1, small start")
        if case in cases
    ]
    text = f"An encoder E and a decoder D of their own, at the end: {'; '.join(sentences)}."
    columns = {"cosine": "cosine", "|D| / |E|": "norm_ratio", "|E - D| / |D|": "mismatch"}
    rows = []
    for case in cases:
        dead = mean(end["dead"].sel(case=case)).divided_by(ds.attrs["n_features"])
        rows.append((case, *(of_learned(case, name) for name in columns.values()), f"{dead:.2f}"))
    caption = (
        f"n = {ds.attrs['n_features']}, m = {ds.attrs['n_hidden']}, λ = {ds.attrs['lam']:g}, "
        f"{ds.sizes['run']} runs, time × λ/2 = {float(ds['time'][-1]):g}; means over learned features. First "
        "weights of s.d. 0.9/sqrt(m), 0.1/sqrt(m) where the start is small. The l1 term acts on activations, "
        "as printed, unless it says “on both”: on the weights of encoder and decoder, as in the authors' "
        f"code. Decay: decoupled. {INTERVALS}"
    )
    head = ("case", *columns, "share of dead features")
    return TopicContent(text, [figure], [Table("Encoder E and decoder D of their own", head, rows, caption)])


QUICK = {"lam": 0.04, "seeds": range(12)}
FULL = {"n_features": 64, "n_hidden": 128, "seeds": range(32)}
RUNS = {"untied": Run(run_untied, QUICK, FULL, torch=True, seconds=13)}
TOPICS = [Topic("untied", ["untied"], _show_untied, claims=["L20"])]

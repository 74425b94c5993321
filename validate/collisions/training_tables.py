"""Tables of trained collisions: optimisers, co-occurrence, split neurons, untied weights."""

import numpy as np
import numpy.typing as npt
import xarray as xr
from scipy import stats

from ...theory import collisions as theory
from ..experiment import Table
from ..statistics import LEVEL, student
from .counts import ZERO
from .remedy import OUTCOMES
from .tables import with_error
from .trained import NAMES

__all__ = [
    "cooccurrence_table",
    "half_point",
    "inputs_table",
    "median_times",
    "outcome_table",
    "times_table",
    "trained_table",
    "untied_table",
    "variant_table",
]

Array = npt.NDArray[np.float64]

HEAD = ("split neurons", *OUTCOMES)


def trained_table(ds: xr.Dataset) -> Table:
    """Compare the trained counts with the flow from the same first weights; of `run_trained`."""
    rows = []
    for m in ds["n_hidden"].values:
        at = ds.sel(n_hidden=m)
        quoted, flow = float(at["quoted"]), at["polysemantic"].sel(optimiser="flow").values
        for name in ds["optimiser"].values:
            one = at.sel(optimiser=name)
            counts = one["polysemantic"].values
            mean, half = student(counts)
            rows.append(
                [
                    int(m),
                    NAMES[str(name)],
                    with_error(mean, half),
                    with_error(mean / quoted, half / quoted),
                    "–" if name == "flow" else with_error(*student(counts - flow)),
                    f"{np.sum(counts == flow)} of {flow.size}",
                    " / ".join(f"{float(one[f'polysemantic_{x}'].mean()):.2f}" for x in ("0.25", "0.8")),
                ]
            )
    return Table(
        "Training and the flow",
        (
            "m",
            "by",
            "count",
            "count / (n²/4m)",
            "less the flow's",
            "runs as the flow",
            "threshold 0.25 / 0.8",
        ),
        rows,
        f"n = {ds.attrs['n_features']}, λ = {ds.attrs['lam']:g} of the printed loss, {ds.sizes['run']} runs "
        f"from the same first weights; Student's {LEVEL:.0%} intervals, in the fifth column of paired "
        f"differences. Gradient descent to the time {ds.attrs['time']:g}/λ of the normal form, AdamW for "
        f"{ds.attrs['adamw_steps']} steps. A neuron represents a feature if its weight exceeds "
        f"{ds.attrs['threshold']:g}; the last column has mean counts at other thresholds.",
    )


def _crossing(x: Array, rising: Array, level: float) -> float:
    """Return where a curve first reaches a level, linear between its points; nan if never."""
    above = np.flatnonzero(rising >= level)
    if above.size == 0:
        return float("nan")
    k = int(above[0])
    if k == 0:
        return float(x[0])
    return float(np.interp(level, rising[k - 1 : k + 1], x[k - 1 : k + 1]))


def half_point(ds: xr.Dataset, name: str, k: int, rng: np.random.Generator) -> tuple[float, float, float]:
    """Find the p at which a count of `run_cooccurrence` has fallen to half of that with one-hot inputs.

    Parameters
    ----------
    ds : xarray.Dataset
    name : str
        Variable with counts.
    k : int
        Position of lam.
    rng : Generator
        For 500 bootstrap samples of the runs.

    Returns
    -------
    found, low, high : float
        p over lam_normal, linear between the p that were run, and its bootstrap interval; nan if the count
        does not fall that far (samples in which it does not are left out of the interval).
    """
    counts, before = ds[name].values[k], ds["before"].values[k]
    x, runs = ds["p"].values / float(ds["lam_normal"][k]), before.size

    def crossing(picked: npt.NDArray[np.int64]) -> float:
        start = before[picked].mean()
        return _crossing(x, 1 - counts[:, picked].mean(axis=1) / start, 0.5) if start > 0 else float("nan")

    drawn = np.array([crossing(rng.integers(0, runs, runs)) for _ in range(500)])
    drawn = drawn[np.isfinite(drawn)]
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail]) if drawn.size else (np.nan, np.nan)
    return crossing(np.arange(runs)), float(low), float(high)


def cooccurrence_table(ds: xr.Dataset) -> Table:
    """Show counts against p; of `run_cooccurrence`."""
    rows = []
    for k, lam in enumerate(ds["lam"].values):
        for i, p in enumerate(ds["p"].values):
            at = ds.isel(lam=k, p=i)
            rows.append(
                [
                    f"{lam:g}",
                    f"{p:g}",
                    f"{4 * p / lam:.2f}",
                    f"{float(at['on']):.2g}",
                    *(with_error(*student(at[x])) for x in ("polysemantic", "polysemantic_0.8", "after")),
                    f"{float(at['nonzeros'].mean()):.2f}",
                ]
            )
    counts = ("count", "count, threshold 0.8", "count after p = 0")
    return Table(
        "Features that are on together",
        ("λ", "p", "p / (λ/4)", "p n", *counts, "nonzero weights"),
        rows,
        f"n = {ds.attrs['n_features']}, m = {ds.attrs['n_hidden']}, {ds.sizes['run']} runs from the same "
        f"first weights; means with Student's {LEVEL:.0%} intervals; p = 0 is the source's one-hot input. A "
        "threshold of 0.8 leaves out pairs of features that share two neurons with weights of sqrt(1/2). "
        "After p = 0: trained with this p, but from the models that one-hot inputs gave. Last column: "
        f"weights above {ZERO:g} of a feature (steps chatter, and leave some at large λ).",
    )


def median_times(ds: xr.Dataset, i: int, k: int) -> tuple[float, float, float, float]:
    """Return the time, times lam_normal, at which half of the split neurons have decided, and the predicted.

    Parameters
    ----------
    ds : xarray.Dataset
        From `run_remedy`.
    i, k : int
        Positions of lam and eps.

    Returns
    -------
    measured, low, high, predicted : float
        With the exact interval of a median; linear between the times counted; nan if not reached.
    """
    hits, pairs = (ds["apart"] + ds["together"]).values[i, k], int(ds["pairs"][i])
    times = ds["time"].values
    # Limits of the share that has decided (Clopper and Pearson); without neurons they say nothing.
    tail = (1 - LEVEL) / 2
    high = np.where(hits < pairs, stats.beta.ppf(1 - tail, hits + 1, np.maximum(pairs - hits, 1)), 1.0)
    low = np.where(hits > 0, stats.beta.ppf(tail, np.maximum(hits, 1), pairs - hits + 1), 0.0)
    measured, early, late = (_crossing(times, s, 0.5) for s in (hits / max(pairs, 1), high, low))
    fine = np.linspace(0.0, 2 * float(times[-1]), 4001)
    options = {"correlation": ds.attrs["correlation"], "left": ZERO}
    shares = theory.separated_share(fine, 1.0, float(ds["eps"][k]), **options)
    return measured, early, late, _crossing(fine, np.sum(shares, axis=0), 0.5)


def times_table(ds: xr.Dataset) -> Table:
    """Compare the median time of the decision with the prediction; of `run_remedy`."""
    rows = []
    for i, lam in enumerate(ds["lam"].values):
        for k, eps in enumerate(ds["eps"].values):
            measured, low, high, predicted = median_times(ds, i, k)
            text = f"{measured:.2f} ({low:.2f} to {high:.2f})" if np.isfinite(measured) else "not reached"
            rows.append([f"{lam:g}", f"{eps:g}", text, f"{predicted:.2f}"])
    return Table(
        "How long a split neuron takes to decide",
        ("λ", "perturbation", "measured median", "predicted"),
        rows,
        "Time × λ/4 after which half of the split neurons have both features on one copy each; with the "
        f"exact {LEVEL:.0%} interval of a median. The prediction has no fitted constant; it is for small λ "
        "and small perturbations.",
    )


def _outcomes(ds: xr.Dataset, i: int, k: int) -> list[object]:
    at = ds.isel(lam=i, eps=k, time=-1)
    pairs = int(at["pairs"])
    if pairs == 0:
        return [0, *("–" for _ in OUTCOMES)]
    apart, *rest = (int(at[name]) / pairs for name in OUTCOMES)
    share = f"{apart:.2f} ({float(at['low']):.2f} to {float(at['high']):.2f})"
    return [pairs, share, *(f"{part:.2f}" for part in rest)]


def outcome_table(ds: xr.Dataset) -> Table:
    """Show what became of split neurons; of `run_remedy`."""
    rows = [
        [f"{lam:g}", f"{eps:g}", *_outcomes(ds, i, k), f"{float(ds['predicted'][i, k, -1]):.2f}"]
        for i, lam in enumerate(ds["lam"].values)
        for k, eps in enumerate(ds["eps"].values)
    ]
    return Table(
        "What became of split neurons",
        ("λ", "perturbation", *HEAD, "apart, predicted"),
        rows,
        f"At time × λ/4 = {float(ds['time'][-1]):g} after the split; shares, the first with its exact "
        f"{LEVEL:.0%} interval. Tied weights, each copy sqrt(1/2) times the neuron. Lost: a feature that "
        "neither copy holds (it may be on another neuron).",
    )


def variant_table(parts: dict[str, xr.Dataset]) -> Table:
    """Show what became of split neurons by several ways of splitting, each one lam and eps."""
    first = next(iter(parts.values()))
    return Table(
        "Other ways to split",
        ("split", *HEAD),
        [[name, *_outcomes(ds, 0, 0)] for name, ds in parts.items()],
        f"λ = {float(first['lam'][0]):g}, perturbation {float(first['eps'][0]):g}, time × λ/4 = "
        f"{float(first['time'][-1]):g}, n = {first.attrs['n_features']}, m = {first.attrs['n_hidden']}.",
    )


def _of_learned(values: Array) -> str:
    """Write the mean over the runs that have learned a feature; the others have nan."""
    kept = values[np.isfinite(values)]
    return with_error(*student(kept), 3) if kept.size > 1 else "–"


def untied_table(ds: xr.Dataset) -> Table:
    """Compare encoders and decoders; of `run_untied`."""
    rows = []
    for case in ds["case"].values:
        at = ds.sel(case=case).isel(time=-1)
        rows.append(
            [
                str(case),
                *(_of_learned(at[name].values) for name in ("cosine", "norm_ratio", "mismatch")),
                with_error(*student(at["dead"] / ds.attrs["n_features"])),
            ]
        )
    return Table(
        "Encoder E and decoder D of their own",
        ("case", "cosine", "|D| / |E|", "|E - D| / |D|", "share of dead features"),
        rows,
        f"n = {ds.attrs['n_features']}, m = {ds.attrs['n_hidden']}, λ = {ds.attrs['lam']:g}, "
        f"{ds.sizes['run']} runs, time × λ/2 = {float(ds['time'][-1]):g}; means over learned features, with "
        f"Student's {LEVEL:.0%} intervals over runs. The l1 term acts on activations, as printed, unless it "
        "says “on both”: on the weights of encoder and decoder, as in the authors' code. Decay: decoupled.",
    )


def inputs_table(ds: xr.Dataset) -> Table:
    """Compare orthogonal inputs with basis vectors; of `run_inputs`."""
    names = {"sign": "gradient descent", "adamw": "AdamW"}
    rows = [
        [names[str(optimiser)], *(f"{gap:.1g}" for gap in ds["gap"].sel(optimiser=optimiser).values)]
        for optimiser in ds["optimiser"].values
    ]
    return Table(
        "Orthogonal inputs instead of basis vectors",
        ("by", "orthonormal inputs", "orthogonal, lengths 0.5 to 1.5"),
        rows,
        "Largest difference of an encoding or decoding from that under basis vectors, over the largest "
        "change that training made. Both begin with the same encodings of the features; float32.",
    )

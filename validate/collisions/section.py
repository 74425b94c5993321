"""Collisions' part of the report."""

from collections.abc import Iterable
from functools import partial

import numpy as np
import pandas as pd
import xarray as xr

from ...theory import collisions as theory
from ..experiment import Experiment, Figure, Section, Shown, Table, Topic
from ..statistics import Estimate, crossing, first_level, mean, share
from . import plots
from .cooccurrence import run_cooccurrence
from .counts import SHIFTED, ZERO
from .fig3 import run_course, run_fig3
from .remedy import OUTCOMES, run_remedy, run_variants
from .trained import NAMES, run_printed, run_trained
from .untied import run_untied

__all__ = ["SECTION", "half_point", "median_time"]

SIZES = (256, 512, 1024, 2048, 4096)
TIMES = tuple(np.arange(0.5, 10.01, 0.5).tolist())  # since the split, in units of 4/lam
SMALL = 0.05  # perturbations for which the prediction is meant
BARS = "Bars and brackets are 95 % intervals, Student's over runs, or exact ones of shares."

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


def _table(title: str, rows: Iterable[dict[str, object]], caption: str) -> Table:
    return Table.of(title, pd.DataFrame(list(rows)), caption)


def _over(estimate: Estimate, scale: float) -> str:
    return f"{estimate.over(scale):.2f}"


# --- The constant -------------------------------------------------------------------------------------------


def _show_constant(printed: xr.Dataset, long: xr.Dataset, here: xr.Dataset) -> Shown:
    last = printed.isel(step=-1)
    both = xr.concat(
        [
            one[["polysemantic"]].expand_dims(optimiser=[name])
            for name, one in (("flow", long), ("adamw", last))
        ],
        "optimiser",
        coords="minimal",
        compat="override",
        join="outer",
        combine_attrs="override",
    )
    n, lam = printed.attrs["n_features"], printed.attrs["lam"]
    both = both.assign(quoted=long["quoted"]).assign_attrs(n_features=n, lam=lam).drop_encoding()
    trained, flow = _ratio_by_run(last), _ratio_by_run(long)
    figures = [
        Figure(
            "fig3",
            "Fig. 3: polysemantic neurons, trained as printed, and of the flow",
            f"AdamW by the settings of the authors' code (λ = {lam:g} of the printed loss, s.d. 1/sqrt(m), "
            f"weights between 0.8 and 1.2 counted), and the flow at λ = {long.attrs['lam']:g} of the normal "
            f"form, s.d. {long.attrs['scale']:g}/sqrt(m). Small dots are runs, those with a count of 0 are "
            f"below the axis; lines are predictions without a fitted constant. {BARS}",
            both,
            (plots.plot_fig3, plots.plot_ratio),
        ),
        Figure(
            "fig3-small",
            f"The same for n = {here.attrs['n_features']}, by the flow",
            f"As above. {BARS}",
            here,
            (plots.plot_fig3, plots.plot_ratio),
        ),
    ]
    parts = {"trained as printed": last, "flow, stored": long, "flow, run now": here}
    text = (
        f"Trained as the authors' code does, n = {n} and m from {int(last['n_hidden'].min())} to "
        f"{int(last['n_hidden'].max())}, the count is {mean(trained):.2f} times n²/(4m) on average over m; "
        f"that of the flow, at another λ, {mean(flow):.2f} times. By m:"
    )
    headline = (
        f"Two features share a neuron by chance: trained models have {mean(trained).value:.2f} ± "
        f"{mean(trained).high - mean(trained).value:.2f} times the n²/(4m) polysemantic neurons that the "
        "source expects, on average over m."
    )
    return Shown(text, figures, [_count_table(parts), _places_table(long, here)], headline)


def _ratio_by_run(ds: xr.Dataset) -> np.ndarray:
    """Return the mean over m of counts over n^2/(4m), for each run that has all m."""
    return np.asarray((ds["polysemantic"] / ds["quoted"]).mean("n_hidden", skipna=False).dropna("run"))


def _count_table(parts: dict[str, xr.Dataset]) -> Table:
    rows = []
    for origin, ds in parts.items():
        for k, m in enumerate(ds["n_hidden"].values):
            n, counts = ds.attrs["n_features"], ds["polysemantic"].isel(n_hidden=k).dropna("run").values
            found, exclusive = mean(counts), float(np.asarray(theory.expected_polysemantic(n, int(m))))
            rows.append(
                {
                    "by": origin,
                    "n": n,
                    "m": int(m),
                    "runs": counts.size,
                    "count": f"{found:.2f}",
                    "count / (n²/4m)": _over(found, float(ds["quoted"][k])),
                    "count / one place a feature": _over(found, exclusive),
                }
            )
    caption = "One place a feature: n(n-1)/(2(2m-1)), all arrangements on the 2m places equally likely. "
    return _table("Polysemantic neurons", rows, caption + BARS)


def _places_table(*parts: xr.Dataset) -> Table:
    """Say how the count comes about: features that keep their first choice, and those that move."""
    rows = []
    for ds in parts:
        n = ds.attrs["n_features"]
        for k, m in enumerate(ds["n_hidden"].values):
            one = ds.isel(n_hidden=k)
            placed = n * one["stayed"].values
            chance = float((placed * (placed - 1)).mean() / (2 * (2 * m - 1)))
            rows.append(
                {
                    "n": n,
                    "m": int(m),
                    "share that stays": f"{mean(one['stayed']):.3f}",
                    "second wins": f"{mean(one['won'].sel(rank=2)):.3f}" if "won" in one else "–",
                    "pairs that stay / chance": _over(mean(one["stayed_pairs"]), chance)
                    if chance > 0
                    else "–",
                    "preference": f"{float(one['preference']):.2f}",
                    "on no neuron": int(one["dead"].sum()),
                }
            )
    return _table(
        "Features of the flow that keep their neuron, and features that move",
        rows,
        "Those that stay end on the neuron of their largest first weight; “second wins” is the share that "
        "ends on that of the second largest. A ratio of 1 means that pairs of those that stay share a "
        "neuron as often as chance has it. Preference: how readily the others take the free place beside "
        "another feature, compared with a place on an empty neuron; fitted to the count, and 1 by chance "
        f"(nan: none fits). {BARS}",
    )


def _show_course(ds: xr.Dataset) -> Shown:
    ratio = ds["count"].values / ds.attrs["expected"]
    settled = np.all(ds["count"].values == ds["count"].values[-1], axis=1)
    first = int(np.flatnonzero(~settled)[-1]) + 1 if not settled.all() else 0
    text = (
        f"Chance alone, each feature on its largest free weight, gives {mean(ratio[0]):.2f} times "
        f"n(n-1)/(2(2m-1)) for the first weights of {ds.sizes['run']} runs with n = "
        f"{ds.attrs['n_features']}, m = {ds.attrs['n_hidden']}; for the weights at the end of the flow it "
        f"is {mean(ratio[-1]):.2f}. Of the times looked at, λt = {float(ds['time'][first]):g} is the first "
        "after which no run's count changes; there interference holds down "
        f"{float(ds['held'][first].mean()):.1%} of the pairs of features ({float(ds['held'][0].mean()):.0%} "
        "at first)."
    )
    caption = (
        "The count that the weights of a moment give if every feature takes its largest free weight, over "
        f"that of chance, n(n-1)/(2(2m-1)). {BARS}"
    )
    figure = Figure("course", "When interference acts", caption, ds, plots.plot_course, size=(5.6, 3.8))
    return Shown(text, [figure])


# --- Training -----------------------------------------------------------------------------------------------


def _show_optimisers(ds: xr.Dataset) -> Shown:
    caption = (
        "The flow, plain gradient descent and AdamW (learning rate and weight decay of the authors' code) "
        f"from the same first weights. {BARS}"
    )
    figure = Figure(
        "trained", "The optimiser's part in the count", caption, ds, plots.plot_ratio, size=(5.6, 3.8)
    )
    flow, said = ds["polysemantic"].sel(optimiser="flow"), []
    for name in map(str, ds["optimiser"].drop_sel(optimiser="flow").values):
        counts = ds["polysemantic"].sel(optimiser=name)
        off = ((counts - flow) / ds["quoted"]).mean("n_hidden")
        moved = [
            abs(float((ds[f"polysemantic_{x}"] - ds["polysemantic"]).sel(optimiser=name).mean()))
            for x in SHIFTED
        ]
        said.append(
            f"{NAMES[name]} has the flow's count in {int((counts == flow).sum())} of {flow.size} runs, and "
            f"on average over m one that differs by {mean(off):+.3f} times n²/(4m); thresholds of "
            f"{SHIFTED[0]:g} and {SHIFTED[1]:g} in place of {ds.attrs['threshold']:g} move its mean by "
            f"{max(moved):.2g} at most"
        )
    return Shown(f"Trained from the same first weights: {'; '.join(said)}.", [figure])


def half_point(ds: xr.Dataset, name: str, k: int) -> Estimate:
    """Return the p over lam_normal at which a count is half of that with one-hot inputs.

    Of `run_cooccurrence` at position `k` of lam; linear between the p that were run; nan if not reached.
    """
    at = ds.isel(lam=k).transpose("run", "p", ...)
    return crossing(ds["p"] / float(ds["lam_normal"][k]), (at[name] - at["before"] / 2).values)


def _show_together(ds: xr.Dataset) -> Shown:
    figure = Figure(
        "cooccurrence",
        "Features that are on together",
        "Each feature is on with probability p, independently. The count is predicted to fall where p is "
        "about the λ of the normal form (vertical line). Left: weights above 0.5 count, also those of "
        "pairs of features that share two neurons at right angles; right: above 0.8, one-hot encodings "
        f"only. {BARS}",
        ds,
        (plots.plot_cooccurrence, partial(plots.plot_cooccurrence, name="polysemantic_0.8")),
    )
    halves = [half_point(ds, "polysemantic_0.8", k) for k in range(ds.sizes["lam"])]
    said = [
        f"{half:.2f} at λ = {lam:g}" if np.isfinite(half.value) else f"not reached at λ = {lam:g}"
        for half, lam in zip(halves, ds["lam"].values, strict=True)
    ]
    changed = int((ds["after"] != ds["before"]).sum())
    text = (
        "Features that are on together feel each other also when their signs are opposite. The p at which "
        "half as many neurons as with one-hot inputs are shared by one-hot encodings, over the predicted "
        f"scale λ/4: {'; '.join(said)}. Models that were trained one-hot and then with such inputs have a "
        f"count that differs from the one before in {changed} of {ds['after'].size} cases. For small p none "
        "is predicted: what acts on the other weights of a one-hot encoding is then weaker than the l1 "
        "force that holds them at zero."
    )
    return Shown(text, [figure])


def median_time(ds: xr.Dataset, i: int, k: int) -> tuple[Estimate, float]:
    """Return the time, times lam_normal, at which half of the split neurons have decided, and that predicted.

    Of `run_remedy` at positions `i` of lam and `k` of eps; with the exact interval of a median, linear
    between the times counted; nan if not reached.
    """
    hits, pairs, times = (ds["apart"] + ds["together"]).values[i, k], int(ds["pairs"][i]), ds["time"].values
    shares = [share(int(hit), pairs) for hit in hits]
    # Where the upper limit of the share has reached one half is the earliest time.
    middle, low, high = (
        first_level(times, [getattr(s, end) for s in shares], 0.5) for end in ("value", "high", "low")
    )
    fine = np.linspace(0.0, 2 * float(times[-1]), 4001)
    options = {"correlation": ds.attrs["correlation"], "left": ZERO}
    law = np.sum(theory.separated_share(fine, 1.0, float(ds["eps"][k]), **options), axis=0)
    return Estimate(middle, low, high, shares[0].level, pairs), first_level(fine, law, 0.5)


def _outcomes(at: xr.Dataset) -> dict[str, object]:
    pairs = int(at["pairs"])
    apart, *rest = OUTCOMES
    found = {"split neurons": pairs, apart: f"{share(int(at[apart]), pairs):.2f}" if pairs else "–"}
    return found | {name: f"{int(at[name]) / pairs:.2f}" if pairs else "–" for name in rest}


def _show_remedy(ds: xr.Dataset, variants: xr.Dataset) -> Shown:
    figure = Figure(
        "remedy",
        "Polysemantic neurons that are split",
        "Share of split neurons whose two features are on different copies, for each λ; lines are "
        "predicted without a fitted constant (for small perturbations). "
        f"{BARS}",
        ds,
        [partial(plots.plot_remedy, i=i) for i in range(ds.sizes["lam"])],
    )
    end = ds.isel(time=-1)
    small = end.isel(eps=np.flatnonzero(ds["eps"].values < SMALL))
    apart, pairs = int(small["apart"].sum()), int(small["pairs"].sum()) * small.sizes["eps"]
    parted = share(apart, pairs)
    rows = []
    for i, lam in enumerate(ds["lam"].values):
        for k, eps in enumerate(ds["eps"].values):
            found, law = median_time(ds, i, k)
            times = f"{found:.2f}" if np.isfinite(found.value) else "not reached"
            row = {"λ": f"{lam:g}", "perturbation": f"{eps:g}", **_outcomes(end.isel(lam=i, eps=k))}
            predicted = f"{float(ds['predicted'][i, k, -1]):.2f}"
            rows.append(
                {**row, "apart, predicted": predicted, "median time": times, "predicted": f"{law:.2f}"}
            )
    others = [
        {"split": str(v), **_outcomes(variants.sel(variant=v)[{"lam": 0, "eps": 0, "time": -1}])}
        for v in variants["variant"].values
    ]
    tables = [
        _table(
            "What became of split neurons",
            rows,
            f"At time × λ/4 = {float(ds['time'][-1]):g} after the split. Tied weights, each copy sqrt(1/2) "
            "times the neuron. Lost: a feature that neither copy holds (it may be on another neuron). "
            "Median time: × λ/4, after which half of the split neurons have both features on one copy "
            "each; the prediction has no fitted constant, and is for small λ and small perturbations. "
            f"{BARS}",
        ),
        _table(
            "Other ways to split",
            others,
            f"λ = {float(variants['lam'][0]):g}, perturbation {float(variants['eps'][0]):g}, time × λ/4 = "
            f"{float(variants['time'][-1]):g}. {BARS}",
        ),
    ]
    text = (
        "The remedy that the source proposes: split each polysemantic neuron in two, perturb the incoming "
        "weights of both copies, train on. With independent noise each feature chooses a copy for itself, "
        f"so half of the pairs are predicted to part. In these runs {apart} of {pairs} parted "
        f"(perturbations below {SMALL:g}), {parted:.2f}."
    )
    headline = (
        f"Splitting a polysemantic neuron is a coin toss: {parted.value:.0%} of {pairs} split pairs of "
        "features ended on different copies; one half is predicted."
    )
    return Shown(text, [figure], tables, headline)


def _show_untied(ds: xr.Dataset) -> Shown:
    figure = Figure(
        "untied",
        "Untied weights: length of the decoder over that of the encoder",
        "An l1 term on activations acts on the encoder alone, and the line is its closed solution for one "
        f"neuron from equal lengths and small λ. {BARS}",
        ds,
        plots.plot_untied,
        size=(5.6, 4.2),
    )
    end = ds.isel(time=-1)

    def of_learned(case: str, name: str) -> str:
        kept = end[name].sel(case=case).dropna("run").values
        return f"{mean(kept):.3f}" if kept.size > 1 else "–"

    cases = [str(case) for case in ds["case"].values]
    said = [
        f"{case}: |D|/|E| = {of_learned(case, 'norm_ratio')}, cosine {of_learned(case, 'cosine')}"
        for case in ("l1 on activations", "l1 on both", "no l1, small start")
        if case in cases
    ]
    text = f"An encoder E and a decoder D of their own, at the end: {'; '.join(said)}."
    rows = [
        {
            "case": case,
            "cosine": of_learned(case, "cosine"),
            "|D| / |E|": of_learned(case, "norm_ratio"),
            "|E - D| / |D|": of_learned(case, "mismatch"),
            "share of dead features": f"{mean(end['dead'].sel(case=case)).over(ds.attrs['n_features']):.2f}",
        }
        for case in cases
    ]
    table = _table(
        "Encoder E and decoder D of their own",
        rows,
        f"n = {ds.attrs['n_features']}, m = {ds.attrs['n_hidden']}, λ = {ds.attrs['lam']:g}, "
        f"{ds.sizes['run']} runs, time × λ/2 = {float(ds['time'][-1]):g}; means over learned features. "
        "First weights of s.d. 0.9/sqrt(m), 0.1/sqrt(m) where the start is small. The l1 term acts on "
        "activations, as printed, unless it says “on both”: on the weights of encoder and decoder, as in "
        f"the authors' code. Decay: decoupled. {BARS}",
    )
    return Shown(text, [figure], [table])


SECTION = Section(
    "collisions",
    "Collisions of features",
    TEXT,
    {
        "fig3": Experiment(
            run_fig3,
            quick={"n_features": 32, "n_hidden": (32, 64, 128), "runs": 96},
            full={"n_features": 128, "n_hidden": (128, 256, 512, 1024), "runs": 64},
            seconds=10,
        ),
        "long": Experiment(
            run_fig3,
            quick={"n_features": 256, "n_hidden": SIZES, "runs": 64},
            full={"n_features": 256, "n_hidden": SIZES, "runs": 64},
            stored="collisions_fig3.nc",
        ),
        "printed": Experiment(run_printed, stored="collisions_printed.nc", torch=True),
        "course": Experiment(
            run_course,
            quick={"n_features": 32, "n_hidden": 64, "runs": 32},
            full={"n_features": 256, "n_hidden": 1024, "runs": 32},
            seconds=2,
        ),
        "trained": Experiment(
            partial(run_trained, optimisers=("flow", "gd", "adamw")),
            quick={"n_hidden": (32, 128), "seeds": range(12)},
            full={"n_features": 64, "n_hidden": (64, 256, 1024), "lam": 0.01, "seeds": range(32)},
            torch=True,
            seconds=18,
        ),
        "cooccurrence": Experiment(
            run_cooccurrence,
            quick={"lam": (0.16, 0.32), "p": (0.0, 0.01, 0.03, 0.06, 0.1, 0.2), "seeds": range(20)},
            full={
                "n_features": 64,
                "n_hidden": 128,
                "lam": (0.01, 0.04, 0.16),
                "p": (0.0, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1),
                "seeds": range(64),
            },
            torch=True,
            seconds=14,
        ),
        "remedy": Experiment(
            run_remedy,
            quick={"lam": (0.04, 0.16), "eps": (1e-3, 1e-2, 1e-1, 0.3), "seeds": range(40), "times": TIMES},
            full={
                "n_features": 64,
                "n_hidden": 64,
                "lam": (0.02, 0.08, 0.2),
                "eps": (1e-4, 1e-3, 1e-2, 1e-1),
                "seeds": range(64),
                "times": TIMES,
            },
            torch=True,
            seconds=9,
        ),
        "variants": Experiment(
            run_variants,
            quick={"seeds": range(40), "times": TIMES[-1:]},
            full={"seeds": range(400), "times": TIMES[-1:]},
            torch=True,
            seconds=3,
        ),
        "untied": Experiment(
            run_untied,
            quick={"lam": 0.04, "seeds": range(12)},
            full={"n_features": 64, "n_hidden": 128, "seeds": range(32)},
            torch=True,
            seconds=13,
        ),
    },
    [
        Topic("constant", ["printed", "long", "fig3"], _show_constant, claims=["L1", "L17", "L18", "L19"]),
        Topic("course", ["course"], _show_course, claims=["L2", "L14", "L15", "L16"]),
        Topic("optimisers", ["trained"], _show_optimisers),
        Topic("together", ["cooccurrence"], _show_together),
        Topic("remedy", ["remedy", "variants"], _show_remedy, claims=["L37"]),
        Topic("untied", ["untied"], _show_untied, claims=["L20"]),
    ],
)

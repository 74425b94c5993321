"""Collisions' part of the report."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from ....solvers.collisions.counts import SHIFTED, ZERO
from ....solvers.collisions.splitting import OUTCOMES
from ....solvers.statistics import Estimate, crossing, first_level, mean, share
from ....theory import collisions as theory
from ...runner.declarations import SUMS, Figure, ReproductionCheck, Run, Section, Table, Topic, TopicContent
from ...runner.findings import Criterion, post_hoc
from . import plots
from .fig3 import run_course, run_fig3
from .remedy import run_remedy, run_variants
from .trained import NAMES, run_cooccurrence, run_printed, run_trained, run_untied

TIMES = tuple(np.arange(0.5, 10.01, 0.5).tolist())  # since the split, in units of 4/lam
# Perturbations for which the prediction is meant.
SMALL = Criterion("perturbation", "<", post_hoc(0.05))
BARS = "Bars and brackets are 95 % intervals, Student's over runs, or exact ones of shares."

TEXT = """
Under the l1 force encodings end on one neuron each, and chance decides whether two features end on the same
one. With opposite signs they do not interact (a benign collision), and the neuron stays polysemantic.
With equal signs they interfere (a malign collision) until one of them has left. So a neuron has two places,
one for each sign. The source expects n²/(4m) polysemantic neurons for n features and m neurons. Were all
arrangements of the features on the 2m places equally likely, it would be n(n-1)/(2(2m-1)) on average, for
any n and m: “one place a feature” in the figures. “Independent choice” is the mean if features could also
share a place.

Time and λ of the flow are those of the normal form (constants 4 dropped). A λ of the printed loss, which is
what training has, is four times as large.
"""


def _show_constant(printed: xr.Dataset, long: xr.Dataset, here: xr.Dataset) -> TopicContent:
    last, n, lam = printed.isel(step=-1), printed.attrs["n_features"], printed.attrs["lam"]
    counts = [one["polysemantic"].reset_coords(drop=True) for one in (long, last)]
    both = xr.concat(counts, pd.Index(["flow", "adamw"], name="optimiser"), join="outer").to_dataset()
    both = both.assign(quoted=long["quoted"]).assign_attrs(n_features=n, lam=lam).drop_encoding()
    title = "Fig. 3: polysemantic neurons, trained as printed, and of the flow"
    caption = (
        f"AdamW by the settings of the authors' code (λ = {lam:g} of the printed loss, s.d. 1/sqrt(m), "
        f"weights between 0.8 and 1.2 counted), and the flow at λ = {long.attrs['lam']:g} of the normal "
        f"form, s.d. {long.attrs['scale']:g}/sqrt(m). Small dots are runs, those with a count of 0 are below "
        f"the axis; lines are predictions without a fitted constant. {BARS}"
    )
    small = f"The same for n = {here.attrs['n_features']}, by the flow"
    draw = (plots.plot_fig3, plots.plot_ratio)
    figures = [
        Figure("fig3", title, caption, both, draw),
        Figure("fig3-small", small, f"As above. {BARS}", here, draw),
    ]
    parts = {"trained as printed": last, "flow, stored": long, "flow, run now": here}
    # Means over m, of each run that has all m.
    ratios = ((ds["polysemantic"] / ds["quoted"]).mean("n_hidden", skipna=False) for ds in (last, long))
    trained, flow = (mean(ratio.dropna("run")) for ratio in ratios)
    text = (
        f"Trained as the authors' code does, n = {n} and m from {int(last['n_hidden'].min())} to "
        f"{int(last['n_hidden'].max())}, the count is {trained:.2f} times n²/(4m) on average over m; that of "
        f"the flow, at another λ, {flow:.2f} times. By m:"
    )
    headline = (
        f"Two features share a neuron by chance: trained models have {trained.value:.2f} ± "
        f"{trained.high - trained.value:.2f} times the n²/(4m) polysemantic neurons that the source expects, "
        "on average over m."
    )
    return TopicContent(text, figures, [_count_table(parts), _places_table(long, here)], headline)


def _each_size(ds: xr.Dataset) -> Iterator[tuple[int, int, xr.Dataset]]:
    for m in ds["n_hidden"].values.tolist():
        yield ds.attrs["n_features"], m, ds.sel(n_hidden=m)


def _count_table(parts: dict[str, xr.Dataset]) -> Table:
    columns = ("by", "n", "m", "runs", "count", "count / (n²/4m)", "count / one place a feature")
    rows = []
    for origin, ds in parts.items():
        for n, m, one in _each_size(ds):
            found = mean(one["polysemantic"].dropna("run"))
            units = float(one["quoted"]), float(theory.expected_polysemantic(n, m))
            counts = (f"{count:.2f}" for count in (found, *map(found.over, units)))
            rows.append((origin, n, m, found.runs, *counts))
    caption = "One place a feature: n(n-1)/(2(2m-1)), all arrangements on the 2m places equally likely. "
    return Table("Polysemantic neurons", columns, rows, caption + BARS)


def _places_table(*parts: xr.Dataset) -> Table:
    """Say how the count comes about: features that keep their first choice, and those that move."""
    measured = ("share that stays", "second wins", "pairs that stay / chance", "preference", "on no neuron")
    rows = []
    for ds in parts:
        for n, m, one in _each_size(ds):
            placed = n * one["stayed"].values
            chance = float((placed * (placed - 1)).mean() / (2 * (2 * m - 1)))
            second = f"{mean(one['won'].sel(rank=2)):.3f}" if "won" in one else "–"
            pairs = f"{mean(one['stayed_pairs']).over(chance):.2f}" if chance > 0 else "–"
            preference, lost = f"{float(one['preference']):.2f}", int(one["dead"].sum())
            rows.append((n, m, f"{mean(one['stayed']):.3f}", second, pairs, preference, lost))
    title = "Features of the flow that keep their neuron, and features that move"
    caption = (
        "Those that stay end on the neuron of their largest first weight; “second wins” is the share that "
        "ends on that of the second largest. A ratio of 1 means that pairs of those that stay share a neuron "
        "as often as chance has it. Preference: how readily the others take the free place on a "
        "neuron that already holds a feature, compared with a place on an empty neuron; fitted to "
        "the count, and 1 by chance (nan: none "
        f"fits). {BARS}"
    )
    return Table(title, ("n", "m", *measured), rows, caption)


def _show_course(ds: xr.Dataset) -> TopicContent:
    ratio = ds["count"].values / ds.attrs["expected"]
    settled = np.all(ds["count"].values == ds["count"].values[-1], axis=1)
    first = int(np.flatnonzero(~settled)[-1]) + 1 if not settled.all() else 0
    text = (
        f"Chance alone, each feature on its largest free weight, gives {mean(ratio[0]):.2f} times "
        f"n(n-1)/(2(2m-1)) for the first weights of {ds.sizes['run']} runs with n = "
        f"{ds.attrs['n_features']}, m = {ds.attrs['n_hidden']}; for the weights at the end of the flow it is "
        f"{mean(ratio[-1]):.2f}. Of the times looked at, λt = {float(ds['time'][first]):g} is the first "
        "after which no run's count changes; there interference holds down "
        f"{float(ds['held'][first].mean()):.1%} of the pairs of features ({float(ds['held'][0].mean()):.0%} "
        "at first)."
    )
    caption = (
        "The count that the weights of a moment give if every feature takes its largest free weight, over "
        f"that of chance, n(n-1)/(2(2m-1)). {BARS}"
    )
    figure = Figure("course", "When interference acts", caption, ds, plots.plot_course, size=(5.6, 3.8))
    return TopicContent(text, [figure])


def _show_optimisers(ds: xr.Dataset) -> TopicContent:
    caption = (
        "The flow, plain gradient descent and AdamW (learning rate and weight decay of the authors' code) "
        f"from the same first weights. {BARS}"
    )
    title = "The optimiser's part in the count"
    figure = Figure("trained", title, caption, ds, plots.plot_ratio, size=(5.6, 3.8))
    flow, said = ds["polysemantic"].sel(optimiser="flow"), []
    for name in map(str, ds["optimiser"].drop_sel(optimiser="flow").values):
        one = ds.sel(optimiser=name)
        counts = one["polysemantic"]
        off = ((counts - flow) / ds["quoted"]).mean("n_hidden")
        moved = max(abs(float((one[f"polysemantic_{x}"] - counts).mean())) for x in SHIFTED)
        said.append(
            f"{NAMES[name]} has the flow's count in {int((counts == flow).sum())} of {flow.size} runs, and "
            f"on average over m one that differs by {mean(off):+.3f} times n²/(4m); thresholds of "
            f"{SHIFTED[0]:g} and {SHIFTED[1]:g} in place of {ds.attrs['threshold']:g} move its mean by "
            f"{moved:.2g} at most"
        )
    return TopicContent(f"Trained from the same first weights: {'; '.join(said)}.", [figure])


def half_point(ds: xr.Dataset, name: str, k: int) -> Estimate:
    """Return the p over lam_normal at which a count is half of that with one-hot inputs.

    Of `run_cooccurrence` at position `k` of lam; linear between the p that were run; nan if not reached.
    """
    at = ds.isel(lam=k).transpose("run", "p", ...)
    return crossing(ds["p"] / float(ds["lam_normal"][k]), (at[name] - at["before"] / 2).values)


def _show_together(ds: xr.Dataset) -> TopicContent:
    caption = (
        "Each feature is on with probability p, independently. The count is predicted to fall where p is "
        "about the λ of the normal form (vertical line). Left: weights above 0.5 count, also those of pairs "
        "of features that share two neurons at right angles; right: above 0.8, one-hot encodings only. "
        f"{BARS}"
    )
    draw = (plots.plot_cooccurrence, partial(plots.plot_cooccurrence, name="polysemantic_0.8"))
    figure = Figure("cooccurrence", "Features that are on together", caption, ds, draw)
    halves = [half_point(ds, "polysemantic_0.8", k) for k in range(ds.sizes["lam"])]
    said = [
        f"{half:.2f} at λ = {lam:g}" if np.isfinite(half.value) else f"not reached at λ = {lam:g}"
        for half, lam in zip(halves, ds["lam"].values, strict=True)
    ]
    changed = int((ds["after"] != ds["before"]).sum())
    text = (
        "Features that are on together interact even when their signs are opposite. The p at which "
        "half as many neurons as with one-hot inputs are shared by one-hot encodings, over the predicted "
        f"scale λ/4: {'; '.join(said)}. Models that were trained one-hot and then with such inputs have a "
        f"count that differs from the one before in {changed} of {ds['after'].size} cases. For small p none "
        "is predicted: what acts on the other weights of a one-hot encoding is then weaker than the l1 "
        "force that holds them at zero."
    )
    return TopicContent(text, [figure])


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
    law = np.sum(np.array(theory.separated_share(fine, 1.0, float(ds["eps"][k]), **options)), axis=0)
    return Estimate(middle, low, high, shares[0].level, pairs), first_level(fine, law, 0.5)


def _outcomes(at: xr.Dataset) -> list[str]:
    """Return the number of split neurons, and shares of the outcomes."""
    pairs = int(at["pairs"])
    apart, *rest = (int(at[name]) for name in OUTCOMES)
    if not pairs:
        return ["0", *["–"] * len(OUTCOMES)]
    return [f"{pairs}", f"{share(apart, pairs):.2f}", *(f"{count / pairs:.2f}" for count in rest)]


def _show_remedy(ds: xr.Dataset, variants: xr.Dataset) -> TopicContent:
    caption = (
        "Share of split neurons whose two features are on different copies, for each λ; lines are predicted "
        f"without a fitted constant (for small perturbations). {BARS}"
    )
    draw = [partial(plots.plot_remedy, i=i) for i in range(ds.sizes["lam"])]
    figure = Figure("remedy", "Polysemantic neurons that are split", caption, ds, draw)
    end = ds.isel(time=-1)
    small = end.isel(eps=np.flatnonzero(SMALL.satisfied(ds["eps"])))
    apart, pairs = int(small["apart"].sum()), int(small["pairs"].sum()) * small.sizes["eps"]
    parted = share(apart, pairs)
    rows = []
    for i, k in np.ndindex(ds.sizes["lam"], ds.sizes["eps"]):
        at, (found, law) = end.isel(lam=i, eps=k), median_time(ds, i, k)
        lam, eps, predicted = (float(at[name]) for name in ("lam", "eps", "predicted"))
        median = f"{found:.2f}" if np.isfinite(found.value) else "not reached"
        rows.append((f"{lam:g}", f"{eps:g}", *_outcomes(at), f"{predicted:.2f}", median, f"{law:.2f}"))
    counted = ("split neurons", *OUTCOMES)
    columns = ("λ", "perturbation", *counted, "apart, predicted", "median time", "predicted")
    caption = (
        f"At time × λ/4 = {float(ds['time'][-1]):g} after the split. Tied weights, each copy sqrt(1/2) times "
        "the neuron. Lost: a feature that neither copy holds (it may be on another neuron). Median time: × "
        "λ/4, after which half of the split neurons have both features on one copy each; the prediction has "
        f"no fitted constant, and is for small λ and small perturbations. {BARS}"
    )
    last = variants.isel(lam=0, eps=0, time=-1)
    others = [(str(name), *_outcomes(last.sel(variant=name))) for name in last["variant"].values]
    lam, eps, time = (float(last[name]) for name in ("lam", "eps", "time"))
    settings = f"λ = {lam:g}, perturbation {eps:g}, time × λ/4 = {time:g}. {BARS}"
    tables = [
        Table("What became of split neurons", columns, rows, caption),
        Table("Other ways to split", ("split", *counted), others, settings),
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
    return TopicContent(text, [figure], tables, headline)


def _show_untied(ds: xr.Dataset) -> TopicContent:
    caption = (
        "An l1 term on activations acts on the encoder alone, and the line is its closed solution for one "
        f"neuron from equal lengths and small λ. {BARS}"
    )
    title = "Untied weights: length of the decoder over that of the encoder"
    figure = Figure("untied", title, caption, ds, plots.plot_untied, size=(5.6, 4.2))
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
    columns = {"cosine": "cosine", "|D| / |E|": "norm_ratio", "|E - D| / |D|": "mismatch"}
    rows = []
    for case in cases:
        dead = mean(end["dead"].sel(case=case)).over(ds.attrs["n_features"])
        rows.append((case, *(of_learned(case, name) for name in columns.values()), f"{dead:.2f}"))
    caption = (
        f"n = {ds.attrs['n_features']}, m = {ds.attrs['n_hidden']}, λ = {ds.attrs['lam']:g}, "
        f"{ds.sizes['run']} runs, time × λ/2 = {float(ds['time'][-1]):g}; means over learned features. First "
        "weights of s.d. 0.9/sqrt(m), 0.1/sqrt(m) where the start is small. The l1 term acts on activations, "
        "as printed, unless it says “on both”: on the weights of encoder and decoder, as in the authors' "
        f"code. Decay: decoupled. {BARS}"
    )
    head = ("case", *columns, "share of dead features")
    return TopicContent(text, [figure], [Table("Encoder E and decoder D of their own", head, rows, caption)])


QUICK: dict[str, dict[str, Any]] = {
    "fig3": {"n_features": 32, "n_hidden": (32, 64, 128), "runs": 96},
    "course": {"n_features": 32, "n_hidden": 64, "runs": 32},
    "trained": {"n_hidden": (32, 128), "seeds": range(12)},
    "cooccurrence": {"lam": (0.16, 0.32), "p": (0.0, 0.01, 0.03, 0.06, 0.1, 0.2), "seeds": range(20)},
    "remedy": {"lam": (0.04, 0.16), "eps": (1e-3, 1e-2, 1e-1, 0.3), "seeds": range(40), "times": TIMES},
    "variants": {"seeds": range(40), "times": TIMES[-1:]},
    "untied": {"lam": 0.04, "seeds": range(12)},
}
WIDE, SQUARE = {"n_features": 64, "n_hidden": 128}, {"n_features": 64, "n_hidden": 64, "seeds": range(64)}
FEW_ON = (0.0, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1)
FULL: dict[str, dict[str, Any]] = {
    "fig3": {"n_features": 128, "n_hidden": (128, 256, 512, 1024), "runs": 64},
    "course": {"n_features": 256, "n_hidden": 1024, "runs": 32},
    "trained": {"n_features": 64, "n_hidden": (64, 256, 1024), "lam": 0.01, "seeds": range(32)},
    "cooccurrence": {**WIDE, "lam": (0.01, 0.04, 0.16), "p": FEW_ON, "seeds": range(64)},
    "remedy": {**SQUARE, "lam": (0.02, 0.08, 0.2), "eps": (1e-4, 1e-3, 1e-2, 1e-1), "times": TIMES},
    "variants": {"seeds": range(400), "times": TIMES[-1:]},
    "untied": {**WIDE, "seeds": range(32)},
}
# Seeds that nothing has used: the runs of L18 had been raised after a look.
FRESH = {"n_features": 32, "n_hidden": [64], "runs": 400, "seed": 1801}
BY_OPTIMISER = {"optimisers": ("flow", "gd", "adamw")}
SECTION = Section(
    "collisions",
    "Collisions of features",
    TEXT,
    {
        "fig3": Run(run_fig3, QUICK["fig3"], FULL["fig3"], seconds=10),
        "fresh": Run.shipped("collisions_fig3", "new runs for L18", run_fig3, FRESH, seconds=60.0),
        "long": Run.shipped(
            "collisions_fig3",
            "Fig. 3 of Lecomte et al. by the flow",
            run_fig3,
            {"n_features": 256, "n_hidden": [256, 512, 1024, 2048, 4096], "runs": 64},
            check=ReproductionCheck(
                {"n_hidden": [256], "runs": 2}, ["polysemantic", "stayed", "stayed_pairs", "dead"]
            ),
        ),
        "printed": Run.shipped(
            "collisions_printed",
            "Fig. 3 of Lecomte et al. as printed",
            run_printed,
            # Of the source's widths, 4096 would take as long as these together.
            {"n_hidden": [256, 512, 1024, 2048]},
            split_by="n_hidden",
            concat_dim="n_hidden",
            torch=True,
            check=ReproductionCheck(
                {"n_hidden": [256], "seeds": [0, 1], "steps": [1500]},
                ["polysemantic", "dead", "loss"],
                1e-4,
                SUMS,
            ),
        ),
        "course": Run(run_course, QUICK["course"], FULL["course"], seconds=2),
        "trained": Run(
            run_trained,
            QUICK["trained"] | BY_OPTIMISER,
            FULL["trained"] | BY_OPTIMISER,
            torch=True,
            seconds=18,
        ),
        "cooccurrence": Run(
            run_cooccurrence, QUICK["cooccurrence"], FULL["cooccurrence"], torch=True, seconds=14
        ),
        "remedy": Run(run_remedy, QUICK["remedy"], FULL["remedy"], torch=True, seconds=9),
        "variants": Run(run_variants, QUICK["variants"], FULL["variants"], torch=True, seconds=3),
        "untied": Run(run_untied, QUICK["untied"], FULL["untied"], torch=True, seconds=13),
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

"""What the report shows of features that depend on each other: experiments and topics of the section."""

from typing import Any

import xarray as xr
from matplotlib.axes import Axes

from ....solvers.statistics import LEVEL, student
from ...runner.declarations import SUMS, Figure, ReproductionCheck, Run, Table, Topic, TopicContent, span
from ..drawing import draw_means, plot_function, size_axis
from .compared import (
    AT_CODE,
    WITHIN,
    against_code,
    extrapolated,
    loss_reached,
    merge_runs,
    off_line,
    shared_gain,
)
from .groups import run_blocks, run_groups, run_polished

TEXT = """
Take blocks of features that depend on each other and on no other block. Each block has a capacity matrix, its
part of a projection on the rows. Other blocks add normal noise, whose size depends on these capacities. The
best matrices and coefficients follow with one Lagrange multiplier for capacity. Features that exclude each
other share a direction at opposite ends. Features that are on together share one on the same side, and two
such pairs are at opposite ends. Where few features are on, priority planes, in which the longest encoding
that is on turns the outputs of the others off, lose less; training does not find them.
"""


def _label(ds: xr.Dataset, i: int) -> str:
    return f"{ds['kind'].values[i]}, strength {float(ds['strength'][i]):g}"


@plot_function
def plot_groups(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw trained losses over the best predicted ones by size; of `run_groups` and `run_blocks`, merged."""
    least = ds["predicted"].min("pairs")
    for i in range(ds.sizes["case"]):
        last = ds["trained"].isel(case=i, steps=-1).dropna("n_features").transpose("n_features", "seed")
        style = {"color": f"C{i}", "fmt": "o-", "ms": 4, "label": _label(ds, i)}
        draw_means(ax, last["n_features"].values, (last / least[i]).values, **style)
        made = (ds["constructed"].isel(case=i) / least[i]).mean("matrix")
        ax.plot(ds["n_features"], made, "--", color=f"C{i}", linewidth=0.8)
        ax.plot(ds["n_features"], ds["priority"].isel(case=i) / least[i], ":", color=f"C{i}", linewidth=1.2)
    ax.axhline(1, color="0.5", linewidth=0.8)
    size_axis(ax, ds["n_features"], ylabel="loss / best code of blocks, in the limit")
    ax.legend(loc="center", bbox_to_anchor=(0.5, 0.34))  # between the dotted lines, which span all sizes
    return ax


def show_groups(trained: xr.Dataset, solved: xr.Dataset, polished: xr.Dataset) -> TopicContent:
    """Say and show how trained pairs compare with the best codes of blocks."""
    trained, solved, polished = shared_gain(trained, solved, polished)
    ds = merge_runs(trained, solved)
    rows, said = [], []
    limit, found = extrapolated(ds), against_code(trained, solved)
    for i in range(ds.sizes["case"]):
        at = ds.isel(case=i)
        over, verdict = found[i]
        middle, half = student(limit.isel(case=i).values)
        largest = at.dropna("n_features", subset=["trained"]).isel(n_features=-1)  # not all have all sizes
        own = student(largest["trained"].isel(steps=-1).values)
        rows.append(
            [
                str(at["kind"].values),
                f"{float(at['strength']):g}",
                *(f"{float(value):.3g}" for value in at["predicted"]),
                f"{float(largest['priority']):.3g}",
                f"{float(solved['built'][i].min()):.3g}",
                f"{int(largest['n_features'])}",
                f"{float(largest['constructed'].mean()):.3g}",
                f"{own[0]:.3g} ± {own[1]:.1g}",
                "-" if verdict == "no limit" else f"{middle:.3g} ± {half:.1g}",
                f"{float(largest['partner'].mean()):+.2f}",
                f"{float(largest['opposed'].mean()):.0%}",
            ]
        )
        told = verdict if verdict == "no limit" else f"{over:.3f}, {verdict}"
        said.append(f"{told} ({_label(ds, i)})")
    bend = ""
    if ds.sizes["n_features"] > 2:
        off = "; ".join(f"{one:+.3f}" for one in off_line(trained))
        bend = (
            f"Losses at {int(trained['n_features'].max())} features differ from the line through the smaller "
            f"sizes by {off}, relative to it and in the same order: if an interval does not contain 0, no "
            "limit is taken from the line. "
        )
    least = ds["predicted"].min("pairs").values
    last = ds["trained"].isel(n_features=-1, steps=-1).mean("seed").values
    first = ds["priority"].isel(n_features=-1).values / least
    beside = solved["built"].isel(reach=-1).values / last
    ends = [span(polished["polished"].isel(case=i) / least[i], ".3f") for i in range(ds.sizes["case"])]
    text = (
        f"Trained losses at p = {span(ds['p'], 'g')} and ratio {span(ds['ratio'], 'g')}, extrapolated to "
        f"many features by a line in 1/n over n = {', '.join(map(str, ds['n_features'].values))}, over the "
        f"best code of blocks of one or two pairs, with {WITHIN} standard errors over the seeds to either "
        f"side: {'; '.join(said)}. {bend}Priority codes, in which the longest encoding of "
        "a plane that is on turns the others' outputs off, have "
        f"{'; '.join(f'{value:.3f}' for value in first)} times the loss of these blocks in the limit of very "
        "different lengths, in the same order. Built with lengths "
        f"from 1 to {float(solved['reach'][-1]):g} they have "
        f"{'; '.join(f'{value:.3f}' for value in beside)} times the loss that "
        f"training ends at with {int(ds['n_features'][-1])} features. Where that is below 1 "
        f"(in {int((beside < 1).sum())} of {beside.size} cases) it is the optimiser that differs, and a code "
        f"that training agrees with is not the best. Models of {polished.attrs['n_features']} features that "
        f"go on by the exact gradient end at {'; '.join(ends)} times the code of blocks, in the same order. "
        "Synchronous features read their partner on the same side, and are opposed to features of another "
        "pair."
    )
    columns = ["pairs", "strength"]
    columns += [f"code, {count} pair{'s' * int(count > 1)}" for count in ds["pairs"].values]
    columns += ["priority code", "built", "n", "matrix of blocks", "trained", "trained, limit"]
    columns += ["partner", "opposed"]
    caption = (
        f"Losses per feature; means over {trained.sizes['seed']} seeds with {LEVEL:.0%} intervals, after "
        f"{int(ds['steps'][-1])} steps. Partner: M_ij/M_ii for j the other of the pair. Opposed: "
        "features with -1/2 or less for some feature of another pair. Built: the exact loss of a "
        f"priority code with lengths from 1 to at most {float(solved['reach'].max()):g}."
    )
    figure = Figure(
        "groups",
        "Pairs that exclude each other or are on together",
        "Dots: trained, over the best code of blocks; dashed: the exact loss of its matrices of that size; "
        "dotted: priority codes.",
        ds,
        plot_groups,
    )
    return TopicContent(
        text, [figure], [Table("Pairs of features, trained and solved", columns, rows, caption)]
    )


def show_reached(small: xr.Dataset, large: xr.Dataset, *solved: xr.Dataset) -> TopicContent:
    """Say and show how many small models reach the code, of `run_groups` at two sizes, and `run_blocks`."""
    codes = xr.concat([ds[["predicted"]].min("pairs") for ds in solved], "case")
    rows, said, held, none = [], [], 0, 0
    for ds in (small, large):
        trained, code = shared_gain(ds, codes)
        for i, (count, best, over) in enumerate(loss_reached(trained, code["predicted"])):
            at = code.isel(case=i)
            place = [f"{float(at['p']):g}", f"{float(at['ratio']):g}", str(at["kind"].values)]
            place += [f"{float(at['strength']):g}", f"{int(ds['n_features'][0])}"]
            ends = [f"{float(at['predicted']):.4g}", f"{best:.4f}", f"{over:.4f}"]
            rows.append([*place, *ends, f"{count} of {ds.sizes['seed']}"])
            said.append(best)
            held += over.low <= 1 <= over.high
            none += not count
    text = (
        "Where many features are on, the matrices of the best codes have the same loss at any size. So small "
        "models can tell whether losses above a code are the optimiser's fault. Take new seeds of models of "
        f"{int(small['n_features'][0])} and {int(large['n_features'][0])} features. A model has found the "
        f"code if its loss differs by at most {AT_CODE:.1%}. The prediction, fixed before the runs: in each "
        f"case some models have, and none is below. In {none} of {len(rows)} cases none is; the best "
        f"models have {span(said, '.4f')} times the loss of the code. The intervals of the means hold it in "
        f"{held}."
    )
    columns = ["p", "ratio", "pairs", "strength", "n", "code", "best over code", "mean over code", "at it"]
    caption = f"Losses per feature over the best code of one or two pairs; means with {LEVEL:.0%} intervals."
    return TopicContent(text, (), [Table("Small models where many features are on", columns, rows, caption)])


_PAIRS = (
    "processors round products differently, and training amplifies it; the limit was chosen when the "
    "differences of two had been seen, 1.9e-4 at most"
)
_KINDS = [(kind, by) for kind in ("exclusive", "synchronous") for by in (0.5, 1.0)]
# Seeds 0 to 3 were seen before: with 6000 steps and smaller rates synchronous pairs had not arrived.
_TRAINED: dict[str, Any] = {"sizes": [32, 64, 128], "seeds": [4, 5, 6, 7], "steps": [20_000]}
_TRAINED |= {"samples": 2**17}


def _cases(p: float, ratio: float) -> list[list[Any]]:
    return [[kind, by, p, ratio] for kind, by in _KINDS]


def _groups(what: str, settings: dict[str, Any], case: list[Any], size: int, *, whole: bool = False) -> Run:
    """Return a stored run of trained models, made apart by case; two of a case and size are made anew."""
    first = settings["seeds"][0]
    part = {"cases": [case], "sizes": [size], "seeds": [first, first + 1]}
    apart: dict[str, Any] = {} if whole else {"split_by": "cases", "concat_dim": "case"}
    check = ReproductionCheck(part, (), 1e-3, _PAIRS)
    return Run.shipped("unequal_groups", what, run_groups, settings, torch=True, check=check, **apart)


def _blocks(what: str, cases: list[list[Any]], sizes: list[int], *, whole: bool = False) -> Run:
    """Return a stored run of best codes; those of whole pairs need no random starts."""
    settings = {"cases": cases, "sizes": sizes, "seeds": [0], "pairs": [1, 2], "starts": 1}
    check = ReproductionCheck({"cases": cases[:1], "pairs": [1]}, ["predicted", "dropped"], 1e-6, SUMS)
    pieces = [{"cases": [case], "starts": int(case[1] < 1)} for case in cases]
    apart: dict[str, Any] = {} if whole else {"split_by": pieces, "concat_dim": "case"}
    return Run.shipped("unequal_blocks", what, run_blocks, settings, check=check, **apart)


def _reached(n: int, seeds: range) -> Run:
    """Return a run of small models where a code's matrices have its loss at any size: how many reach it."""
    cases = _cases(0.4, 0.125) + _cases(0.5, 0.25)
    settings = _TRAINED | {"cases": cases, "sizes": [n], "seeds": list(seeds), "samples": 2**21}
    return _groups(f"pairs, {n} features", settings, cases[0], n, whole=True)


RUNS = {
    "groups": _groups(
        "pairs that depend on each other",
        _TRAINED | {"cases": _cases(0.1, 0.25), "sizes": [32, 64, 128], "seeds": [4, 5, 6, 7]},
        _cases(0.1, 0.25)[0],
        32,
    ),
    "blocks": _blocks("their best codes", _cases(0.1, 0.25), [32, 64, 128]),
    "blocks_often": _blocks("pairs at p = 0.4: codes", _cases(0.4, 0.125), [64, 128]),
    # Made in one run.
    "blocks_dense": _blocks("pairs at p = 0.5: codes", _cases(0.5, 0.25), [64, 128], whole=True),
    "polished": Run.shipped(
        "unequal_groups",
        "pairs by exact descent",
        run_polished,
        {"cases": _cases(0.1, 0.25)},
        torch=True,
        check=ReproductionCheck({"cases": _cases(0.1, 0.25)[:1], "seeds": [0]}, (), 1e-3, _PAIRS),
    ),
    "reached_16": _reached(16, range(16, 24)),
    "reached_32": _reached(32, range(24, 32)),
}
TOPICS = [
    Topic("groups", ["groups", "blocks", "polished"], show_groups, claims=["C32", "P2"]),
    Topic(
        "reached", ["reached_16", "reached_32", "blocks_often", "blocks_dense"], show_reached, claims=["P5"]
    ),
]

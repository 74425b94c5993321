"""Reference data: which runs there are, with their settings.

A job is one experiment with settings and the name of its file. A new phenomenon adds an entry to `JOBS`, and
one to `_parts`; files that the report is to read join ``validate/reference`` by ``superposition reference
--store``.
"""

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..theory.arguments import shown
from .annotations import as_annotated

__all__ = ["JOBS", "TRAINED", "Job", "Part", "planned"]

TRAINED = "training.grid"


@dataclass(frozen=True)
class Part:
    """The part of a job that is recomputed to check that today's code still gives the stored numbers.

    Parameters
    ----------
    settings : mapping from str to object, optional
        These replace those of the job.
    only : sequence of str, optional
        Variables that are compared; all, if none are named.
    tolerance : float, optional
        Largest difference allowed, in units of the largest value of the variable.
    reason : str, optional
        Why there is a tolerance.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    only: Sequence[str] = ()
    tolerance: float = 0.0
    reason: str = ""


@dataclass(frozen=True)
class Job:
    """A run that makes one file, ``NAME.nc``.

    Parameters
    ----------
    name, what : str
        Unique; what it is for, in a line.
    experiment : str
        One of `experiments.experiments`.
    settings : mapping from str to object
        What JSON can say. The experiment of a section that reads the file has the same settings.
    seconds : float, optional
        Time on one CPU core; needed only if the job does not train a grid and no file in
        ``validate/reference`` tells how long it took.
    parts : sequence of mapping, or of sequences of them, optional
        Settings that replace those of the job, for runs that are made separately and then concatenated.
    along : sequence of str, optional
        Dimensions along which they are concatenated, that of the outer sequence first.
    part : Part, optional
        The part that ``superposition reference --confirm`` recomputes; everything by default.
    """

    name: str
    what: str
    experiment: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = float("nan")
    parts: Sequence[Any] = ()
    along: Sequence[str] = ()
    part: Part = field(default_factory=Part)


# Of `superposition train`, but for what differs from size to size.
BUDGET = {"steps": 8000, "peak_learning_rate": 0.005, "evaluation_samples": 2**19}
# Large models want more steps, and have a GPU.
LARGE: dict[str, Any] = BUDGET | {"steps": 20_000}

PANELS = (0.001, 0.01, 0.05, 0.1, 0.4, 0.6)  # Fig. 2 of Cowsik et al. (2024)
RATIOS = (0.03, 0.06, 0.12, 0.25, 0.4, 0.5, 0.55, 0.75)
FEW_P, FEW_RATIOS = (0.01, 0.05, 0.1, 0.4), (0.12, 0.25, 0.5)  # Figs. 4 to 7, against n_features
SIZES = (1024, 2048, 4096, 8192)


def _trained(
    name: str,
    what: str,
    n: int,
    p: Sequence[float],
    ratio: Sequence[float],
    seeds: Sequence[int] = (0, 1, 2),
    **settings: Any,
) -> Job:
    sizes = {"n_features": n, "p": list(p), "ratio": list(ratio), "seeds": list(seeds)}
    return Job(name, what, TRAINED, sizes | BUDGET | settings)


def _jobs() -> Iterator[Job]:
    small = "Figs. 2 and 4 to 7 of Cowsik et al."
    yield _trained("rug_n128", small, 128, PANELS, RATIOS)
    yield _trained("rug_n256", small, 256, FEW_P, FEW_RATIOS)
    yield _trained("rug_n512", small, 512, FEW_P[:3], FEW_RATIOS)
    yield _trained("codes_n64", small, 64, FEW_P, FEW_RATIOS)
    fresh, later = "models that were not seen when claims were worded", (3, 4, 5)
    for n in (64, 128):
        yield _trained(f"codes_n{n}_fresh", fresh, n, FEW_P[:3], FEW_RATIOS, later)
    for p in FEW_P[:3]:
        yield _trained(f"codes_n256_fresh_p{p:g}", fresh, 256, [p], FEW_RATIOS, later)
    for p in FEW_P[1:3]:
        for r in FEW_RATIOS:
            yield _trained(f"codes_n512_fresh_p{p:g}_r{r:g}", fresh, 512, [p], [r], later)
    yield _trained("codes_n512_new_p0.1_r0.25", "after C27 was worded", 512, [0.1], [0.25], (6, 7, 8))
    short: dict[str, Any] = {"steps": 4000, "peak_learning_rate": None, "evaluation_samples": 2**17}
    fig3 = "Fig. 3 of Cowsik et al."
    yield _trained("codes_fig3_n512", fig3, 512, [0.045], [0.2, 0.25, 0.3], [0], **short)
    long: dict[str, Any] = {"steps": 40_000, "schedule": "converged"}
    yield _trained("codes_long", "do more steps help?", 256, [0.05], [0.25], **long)
    # One file for each size, p and ratio: models of one shape are one stack, and fit into memory.
    for n in SIZES:
        for p in FEW_P:
            for r in FEW_RATIOS:
                what = "Figs. 4 to 7 of Cowsik et al., large"
                yield _trained(f"rug_n{n}_p{p:g}_r{r:g}", what, n, [p], [r], **LARGE)
    for p in PANELS:
        what = "Fig. 2 of Cowsik et al. at its largest size"
        yield _trained(f"rug_n8192_fig2_p{p:g}", what, 8192, [p], RATIOS, [0], **LARGE)
    widths = [256, 512, 1024, 2048]  # of the source's, 4096 would take as long as these together
    apart = [{"n_hidden": [m]} for m in widths]
    printed = Job(
        "collisions_printed",
        "Fig. 3 of Lecomte et al. as printed",
        "collisions.printed",
        {"n_hidden": widths},
    )
    yield replace(printed, parts=apart, along=["n_hidden"])
    flow = {"n_features": 256, "n_hidden": [256, 512, 1024, 2048, 4096], "runs": 64}
    yield Job("collisions_fig3", "Fig. 3 of Lecomte et al. by the flow", "collisions.fig3", flow)
    # Seeds that nothing has used: the runs of L18 and L31 had been raised after a look.
    fresh_flow = {"n_features": 32, "n_hidden": [64], "runs": 400, "seed": 1801}
    yield Job("collisions_fresh", "new runs for L18", "collisions.fig3", fresh_flow, 60.0)
    polished = {"n_features": 64, "p": [0.05, 0.1, 0.4], "ratio": [0.25, 0.5], "seeds": [0]}
    polished |= {"train_steps": 8000, "steps": 600}
    yield Job("codes_polished", "exact descent and Hessian", "codes.polished", polished)
    yield Job("codes_known", "the best codes known", "codes.known")
    yield Job("codes_envelope", "codes over the plane", "codes.envelope", {"size": 64})
    yield Job("codes_lines", "the best blocks at any p", "codes.lines", seconds=1800.0)
    yield Job("relu_phases", "phases of two features", "relu.phases", {"size": 60, "transitions": 40})
    relu = {"cases": [[2, 1, 0.1], [2, 1, 0.4], [3, 2, 0.5], [5, 2, 0.3]], "optimisers": ["adam", "sgd"]}
    yield Job("relu_trained", "small models", "relu.trained", relu | {"seeds": 128, "steps": 2000})
    noise = {"runs": 40, "averaged_runs": 40, "lone_runs": 2000}
    yield Job("noise_mechanism", "what hidden noise does", "noise.mechanism", noise)
    fresh_noise: dict[str, Any] = {"runs": 100, "averaged_runs": 0, "lone_runs": 4000, "seed": 3102}
    fresh_noise |= {"excess_kurtosis": [-2.0, -1.0, -0.3, 0.3, 3.0]}
    yield Job("noise_fresh", "new runs for L31", "noise.mechanism", fresh_noise, 120.0)
    decoders = {"cases": [[0.01, 0.12], [0.01, 0.25], [0.1, 0.12], [0.1, 0.25]], "n_features": 128}
    decoders |= {"steps": [2000, 8000], "batch": 256, "seeds": [0, 1, 2, 3, 4]}
    yield Job("decoders_trained", "JumpReLU and TopK against ReLU", "decoders.trained", decoders)
    yield from _unequal()


def _unequal() -> Iterator[Job]:
    law = "the width law"
    alphas: list[Any] = [{"alpha": [one]} for one in (0, 1, 2)]
    yield Job("unequal_width", law, "unequal.width", parts=alphas, along=["alpha"])
    descended = Job("unequal_descended", f"{law}, exact descents", "unequal.descended", {"alpha": [0, 1]})
    yield replace(descended, parts=alphas[:2], along=["alpha"])
    yield Job("unequal_bracket", f"{law} as a map", "unequal.bracket")
    yield Job("unequal_codes", "what the neurons are spent on", "unequal.codes")
    many = {"alpha": [0.5], "n_hidden": [3, 10, 32, 64], "on": 8, "tied": [0], "steps": [4000]}
    yield Job("unequal_many", f"{law}, many features on", "unequal.width", many)
    often = {"alpha": [0, 0.25, 0.5], "on": 64, "tied": [0]}
    yield Job("unequal_often", f"{law}, half of the features on", "unequal.width", often, 600.0)
    decay = {"tied": [1], "weight_decay": [-1, 1], "steps": [4000], "seeds": [0]}
    yield Job("unequal_decay", f"{law}, weight decay", "unequal.width", decay)
    # Five seeds that nothing has used.
    fresh = {"alpha": [1], "n_hidden": [10, 32], "tied": [0], "steps": [8000], "seeds": [6, 7, 8, 9, 10]}
    yield Job("unequal_fresh", f"{law}, seeds that were not seen when U2 was worded", "unequal.width", fresh)
    long = {"n_features": 1000, "steps": [20_000], "batch": 2048, "seeds": [1]}
    public = decay | {"alpha": [0.5, 1, 1.5], "weight_decay": [-1], "n_hidden": [10, 32, 100]} | long
    apart: dict[str, Any] = {"parts": [{"alpha": [one]} for one in (0.5, 1, 1.5)], "along": ["alpha"]}
    yield Job("unequal_public", "Liu et al. from aligned weights", "unequal.width", public, 7200.0, **apart)
    # Seed 1 was seen, at six of these places, when it was frozen what is asked of them.
    published = public | {"recipe": "source", "seeds": [2]}
    what = "Liu et al. as published, three widths"
    yield Job("unequal_published", what, "unequal.width", published, 7200.0, **apart)
    wide: dict[str, Any] = {"alpha": [1], "n_hidden": [320]}
    unbiased: dict[str, Any] = {"alpha": [1], "n_hidden": [32, 100], "recipe": "unbiased"}
    yield Job("unequal_wide", "and a wider model", "unequal.width", published | wide, 3600.0)
    yield Job("unequal_unbiased", "and first biases of 0", "unequal.width", published | unbiased, 2400.0)
    weak = {"alpha": [1.5], "weight_decay": [1], "n_hidden": [10, 32]}
    for name, recipe in (("weak", "source"), ("weak_unbiased", "unbiased")):
        settings = published | weak | {"recipe": recipe}
        yield Job(f"unequal_{name}", "Liu et al., rows that shrink", "unequal.width", settings, 1200.0)
    whole = {"alpha": [1], "n_hidden": [10, 15, 25, 39, 63, 100], "seeds": [0]}
    yield Job("unequal_liu", "Liu et al. as published", "unequal.width", published | whole, 7200.0)
    cases = [[kind, by, 0.1, 0.25] for kind in ("exclusive", "synchronous") for by in (0.5, 1.0)]
    pairs = {"cases": cases, "sizes": [32, 64, 128]}
    # Seeds 0 to 3 were seen before: with 6000 steps and smaller rates synchronous pairs had not arrived.
    trained = pairs | {"seeds": [4, 5, 6, 7], "steps": [20_000], "samples": 2**17}
    yield _by_case("unequal_groups", "pairs that depend on each other", "unequal.groups", trained)
    solved = pairs | {"seeds": [0], "pairs": [1, 2], "starts": 1}
    yield _by_case("unequal_blocks", "their best codes", "unequal.blocks", solved)
    # Seeds 4 to 7 at the first two places; fresh ones at the third, which was chosen after these were seen.
    places = (
        ("half", 0.1, 0.5, [32, 64], [4, 5, 6, 7]),
        ("often", 0.4, 0.125, [64, 128], [4, 5, 6, 7]),
        ("dense", 0.5, 0.25, [64, 128], [12, 13, 14, 15]),
    )
    for name, p, ratio, sizes, seeds in places:
        place = {"cases": [[kind, by, p, ratio] for kind, by, *_ in cases], "sizes": sizes}
        what = f"pairs at p = {p:g}, ratio {ratio:g}"
        runs = trained | place | {"seeds": seeds}
        groups = _by_case(f"unequal_groups_{name}", what, "unequal.groups", runs)
        blocks = _by_case(f"unequal_blocks_{name}", f"{what}: codes", "unequal.blocks", solved | place)
        for job in (groups, blocks):  # the last were made in one run each
            yield replace(job, parts=(), along=()) if name == "dense" else job
    longer = {"cases": [["synchronous", 0.5, 0.4, 0.125]], "sizes": [64, 128], "seeds": [8, 9, 10, 11]}
    long_runs = trained | longer | {"steps": [60_000]}
    yield Job("unequal_groups_long", "one case of pairs, three times as long", "unequal.groups", long_runs)
    yield Job("unequal_polished", "pairs by exact descent", "unequal.polished", {"cases": cases})
    # Where a code's matrices have its loss at any size: how many of small models reach it?
    dense = [[kind, by, p, ratio] for _, p, ratio, *_ in places[1:] for kind, by, *_ in cases]
    for n, own in ((16, range(16, 24)), (32, range(24, 32))):
        small = {"cases": dense, "sizes": [n], "seeds": list(own), "samples": 2**21}
        yield Job(f"unequal_reached_{n}", f"pairs, {n} features", "unequal.groups", trained | small, 1200.0)
    # Seeds 0 and 1 were seen when the limits of P3 were chosen.
    words = {"n_hidden": [2], "decays": [0], "seeds": [2, 3, 4, 5, 6], "steps": 1500, "starts": 0}
    yield Job("unequal_tables", "words around a circle", "unequal.tables", words)


def _by_case(name: str, what: str, experiment: str, settings: Mapping[str, Any]) -> Job:
    """Return a job whose cases are made apart; the best codes of whole pairs need no random starts."""
    parts: list[dict[str, Any]] = [{"cases": [case]} for case in settings["cases"]]
    if "starts" in settings:
        parts = [one | {"starts": int(one["cases"][0][1] < 1)} for one in parts]
    return Job(name, what, experiment, settings, parts=parts, along=["case"])


EXACT = "exact losses are computed to 1e-6, by code that has changed"
SUMS = "sums are taken in another order"
SINGLE = (
    "processors round products of single precision differently: on one of them the numbers come out bit for "
    "bit, on another 3300 steps amplify that along flat directions; the limit was chosen when the "
    "differences of two processors had been seen, 7e-5 at most"
)
PAIRS = (
    "processors round products differently, and training amplifies it; the limit was chosen when the "
    "differences of two had been seen, 1.9e-4 at most"
)
LENGTHY = (
    "20,000 steps amplify what processors round differently: of two the results differ by up to 16 % where "
    "rows shrink, and by 2 % elsewhere; the limits were chosen when that had been seen"
)
STOPPED = (
    "a descent that ends after a number of steps, before it has converged, ends elsewhere on another "
    "processor; the limit was chosen when a difference of 5.5e-5 had been seen"
)
EARLY = (
    "processors round products of single precision differently; the limit was chosen when the differences of "
    "two had been seen, 8e-8 at most"
)
NODES = (
    "which values of p are added depends on the last digits of losses, and what is interpolated on these; "
    "differences are in units of the largest loss"
)
# What the ledger and figures read of a trained model; not the diagonal and the bias of single features.
_MEANS = (
    "loss", "diagonal_mean", "diagonal_sd", "bias_mean", "bias_sd", "row_mean_mean", "row_mean_sd",
    "row_variance_mean", "row_variance_variance", "lyapunov_max", "lyapunov_mean", "dropped",
)  # fmt: skip

# By patterns of names, the first that fits. Models of one run do not depend on each other.
_AT = {"p": [0.1], "ratio": [0.12]}


def _width(n_hidden: int, **settings: Any) -> Part:
    return Part({"n_hidden": [n_hidden], **settings}, (), 1e-6, EXACT)


def _pair(
    p: float, ratio: float, size: int, first: int, strength: float = 0.5, kind: str = "exclusive"
) -> Part:
    settings = {"cases": [[kind, strength, p, ratio]], "sizes": [size], "seeds": [first, first + 1]}
    return Part(settings, (), 1e-3, PAIRS)


def _early(**settings: Any) -> Part:
    return Part({**settings, "most_steps": 200, "evaluation_samples": 2}, ["history"], 1e-6, EARLY)


_WHOLE = Part(tolerance=1e-6, reason=SUMS)


def _block(p: float, ratio: float) -> Part:
    settings = {"cases": [["exclusive", 0.5, p, ratio]], "pairs": [1]}
    return Part(settings, ["predicted", "dropped"], 1e-6, SUMS)


_PARTS = {
    "rug_n128": Part({**_AT, "seeds": [0], "schedule": "paper"}, _MEANS, 1e-4, SINGLE),
    "rug_n256": Part({**_AT, "seeds": [0], "schedule": "paper"}, _MEANS, 1e-4, SINGLE),
    "rug_n512": Part({**_AT, "seeds": [0], "schedule": "paper"}, _MEANS, 1e-4, SINGLE),
    "codes_n64": Part({**_AT, "seeds": [0], "schedule": "paper"}, _MEANS, 1e-4, SINGLE),
    "codes_n64_fresh": Part({**_AT, "seeds": [3], "schedule": "paper"}, _MEANS, 1e-4, SINGLE),
    "codes_n128_fresh": Part({**_AT, "seeds": [3], "schedule": "paper"}, _MEANS, 1e-4, SINGLE),
    # The first 200 steps of one model: what is done after these is that of the smaller ones.
    "codes_n512_new*": _early(seeds=[6]),
    "codes_n*": _early(seeds=[3]),
    "codes_fig3_n512": _early(ratio=[0.2]),
    "codes_long": _early(seeds=[0]),
    "codes_polished": Part(
        {"p": [0.4], "ratio": [0.5]},
        ["optimum", "before", "after", "rank", "paired", "dropped"],
        1e-3,
        STOPPED,
    ),
    "codes_known": _WHOLE,
    "codes_envelope": _WHOLE,
    "codes_lines": Part({"codes": ["pentagon"]}, ["least"], 1e-6, NODES),
    "collisions_printed": Part(
        {"n_hidden": [256], "seeds": [0, 1], "steps": [1500]}, ["polysemantic", "dead", "loss"], 1e-4, SUMS
    ),
    "collisions_fig3": Part(
        {"n_hidden": [256], "runs": 2}, ["polysemantic", "stayed", "stayed_pairs", "dead"]
    ),
    "noise_*": Part(
        {"excess_kurtosis": [-2.0], "averaged_runs": 0},
        ["lone", "by_normal", "by_kurtosis", "by_rate"],
        1e-12,
        SUMS,
    ),
    "relu_phases": Part({"transitions": 2}, ["loss", "phase", "share"], 1e-6, SUMS),
    "relu_trained": Part(
        {"cases": [[2, 1, 0.1]], "optimisers": ["adam"]}, ["trained", "settled", "least"], 1e-6, SINGLE
    ),
    "decoders_trained": Part(
        {"cases": [[0.01, 0.12]], "steps": [2000]}, ["trained", "on_rug", "k"], 1e-9, SUMS
    ),
    "unequal_bracket": Part(
        {"alpha": [1.5], "ratio": [0.003, 0.0056], "number_on": [1.0]}, ["bound", "code"], 1e-6, SUMS
    ),
    "unequal_codes": Part({"alpha": [1.0], "ratio": [0.003], "number_on": [1.0]}, (), 1e-6, SUMS),
    "unequal_width": _width(3, tied=[0], steps=[2000], seeds=[0]),
    "unequal_often": _width(3, steps=[2000], seeds=[0]),
    "unequal_many": _width(3, seeds=[0]),
    "unequal_decay": _width(3, weight_decay=[-1]),
    "unequal_fresh": _width(10, seeds=[6]),
    "unequal_publi*": _width(10, alpha=[1]),
    "unequal_wide": Part({"n_hidden": [320]}, (), 0.05, LENGTHY),
    "unequal_unbiased": Part({"n_hidden": [32]}, (), 0.05, LENGTHY),
    "unequal_weak*": Part({"n_hidden": [10]}, (), 0.2, LENGTHY),
    "unequal_descended": Part(  # what is gained in flat directions, and the gradient left, are rounding
        {"alpha": [0], "n_hidden": [1]}, ["start", "loss", "bound", "priority"], 1e-3, STOPPED
    ),
    "unequal_tables": Part(tolerance=1e-6, reason=SUMS),  # seeds are trained on the same samples
    "unequal_polished": Part({"cases": [["exclusive", 0.5, 0.1, 0.25]], "seeds": [0]}, (), 1e-3, PAIRS),
    "unequal_blocks": _block(0.1, 0.25),
    "unequal_blocks_half": _block(0.1, 0.5),
    "unequal_blocks_often": _block(0.4, 0.125),
    "unequal_blocks_dense": _block(0.5, 0.25),
    "unequal_groups": _pair(0.1, 0.25, 32, 4),
    "unequal_groups_half": _pair(0.1, 0.5, 32, 4),
    "unequal_groups_often": _pair(0.4, 0.125, 64, 4),
    "unequal_groups_dense": _pair(0.5, 0.25, 64, 12),
    "unequal_groups_long": _pair(0.4, 0.125, 64, 8, kind="synchronous"),
    "unequal_reached_16": _pair(0.4, 0.125, 16, 16),
    "unequal_reached_32": _pair(0.4, 0.125, 32, 24),
}


def _with_part(job: Job) -> Job:
    fits = (part for pattern, part in _PARTS.items() if fnmatch.fnmatchcase(job.name, pattern))
    return replace(job, part=next(fits, Part()))


JOBS = tuple(map(_with_part, _jobs()))


@as_annotated
def planned(name: str) -> Job:
    """Return the job of that name.

    Examples
    --------
    >>> planned("relu_phases").settings
    {'size': 60, 'transitions': 40}
    """
    known = {job.name: job for job in JOBS}
    if name not in known:
        raise ValueError(f"`name` must be that of a job, such as rug_n128; got {shown(name)}.")
    return known[name]

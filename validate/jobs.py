"""Reference data: which runs there are, what each costs, and how it is made.

A job is one experiment with settings and the name of its file. A new phenomenon adds an entry to `JOBS` and
nothing else; files that the report is to read are moved to ``validate/reference`` and named in its README.
"""

import fnmatch
import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..theory.arguments import choice, flag, number
from . import experiments
from .files import output_file, output_folder, read_dataset, write_dataset
from .stored import REFERENCE
from .training import grid, measure
from .training.engine import PRECISIONS, choose_device, load_torch
from .training.speed import flops

__all__ = ["JOBS", "Job", "cost", "make", "measured_rate", "select"]

TRAINED, CHECKPOINT = "training.grid", ".checkpoint.npz"


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
        What JSON can say.
    seconds : float, optional
        Of a core of a CPU, where the job does not train a grid and no file in ``validate/reference`` tells
        how long it took.
    """

    name: str
    what: str
    experiment: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = float("nan")


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
    yield Job("collisions_printed", "Fig. 3 of Lecomte et al. as printed", "collisions.printed")
    flow = {"n_features": 256, "n_hidden": [256, 512, 1024, 2048, 4096], "runs": 64}
    yield Job("collisions_fig3", "Fig. 3 of Lecomte et al. by the flow", "collisions.fig3", flow)
    polished = {"n_features": 64, "p": [0.05, 0.1, 0.4], "ratio": [0.25, 0.5], "seeds": [0]}
    polished |= {"train_steps": 8000, "steps": 600}
    yield Job("codes_polished", "exact descent and Hessian", "codes.polished", polished)
    yield Job("codes_known", "the best codes known", "codes.known")
    yield Job("codes_envelope", "codes over the plane", "codes.envelope", {"size": 64})
    yield Job("relu_phases", "phases of two features", "relu.phases", {"size": 60, "transitions": 40})
    relu = {"cases": [[2, 1, 0.1], [2, 1, 0.4], [3, 2, 0.5], [5, 2, 0.3]], "optimisers": ["adam", "sgd"]}
    yield Job("relu_trained", "small models", "relu.trained", relu | {"seeds": 128, "steps": 2000})
    noise = {"runs": 40, "averaged_runs": 40, "lone_runs": 2000}
    yield Job("noise_mechanism", "what hidden noise does", "noise.mechanism", noise)
    decoders = {"cases": [[0.01, 0.12], [0.01, 0.25], [0.1, 0.12], [0.1, 0.25]], "n_features": 128}
    decoders |= {"steps": [2000, 8000], "batch": 256, "seeds": [0, 1, 2, 3, 4]}
    yield Job("decoders_trained", "JumpReLU and TopK against ReLU", "decoders.trained", decoders)
    yield from _unequal()


def _unequal() -> Iterator[Job]:
    law = "the width law"
    yield Job("unequal_width", law, "unequal.width")
    yield Job("unequal_descended", f"{law}, exact descents", "unequal.descended", {"alpha": [0, 1]})
    yield Job("unequal_bracket", f"{law} as a map", "unequal.bracket")
    yield Job("unequal_codes", "what the neurons are spent on", "unequal.codes")
    many = {"alpha": [0.5], "n_hidden": [3, 10, 32, 64], "on": 8, "tied": [0], "steps": [4000]}
    yield Job("unequal_many", f"{law}, many features on", "unequal.width", many)
    often = {"alpha": [0, 0.25, 0.5], "on": 64, "tied": [0]}
    yield Job("unequal_often", f"{law}, half of the features on", "unequal.width", often, 600.0)
    decay = {"tied": [1], "weight_decay": [-1, 1], "steps": [4000], "seeds": [0]}
    yield Job("unequal_decay", f"{law}, weight decay", "unequal.width", decay)
    fresh = {"alpha": [1], "n_hidden": [10, 32], "tied": [0], "steps": [8000], "seeds": [2, 3, 4, 5]}
    yield Job("unequal_fresh", f"{law}, seeds that were not seen when U2 was worded", "unequal.width", fresh)
    long = {"n_features": 1000, "steps": [20_000], "batch": 2048, "seeds": [1]}
    public = decay | {"alpha": [0.5, 1, 1.5], "weight_decay": [-1], "n_hidden": [10, 32, 100]} | long
    yield Job("unequal_public", "Liu et al., three widths", "unequal.width", public, 7200.0)
    whole = {"alpha": [1], "n_hidden": [10, 16, 25, 40, 63, 100], "seeds": [0]}
    yield Job("unequal_liu", "Liu et al. as published", "unequal.width", public | whole, 7200.0)
    cases = [[kind, by, 0.1, 0.25] for kind in ("exclusive", "synchronous") for by in (0.5, 1.0)]
    pairs = {"cases": cases, "sizes": [32, 64, 128]}
    trained = pairs | {"seeds": [4, 5, 6, 7], "steps": [20_000], "samples": 2**17}
    yield Job("unequal_groups", "pairs that depend on each other", "unequal.groups", trained)
    solved = pairs | {"seeds": [0], "pairs": [1, 2], "starts": 1}
    yield Job("unequal_blocks", "their best codes", "unequal.blocks", solved)
    for name, p, ratio, sizes in (("half", 0.1, 0.5, [32, 64]), ("often", 0.4, 0.125, [64, 128])):
        place = {"cases": [[kind, by, p, ratio] for kind, by, *_ in cases], "sizes": sizes}
        what = f"pairs at p = {p:g}, ratio {ratio:g}"
        yield Job(f"unequal_groups_{name}", what, "unequal.groups", trained | place)
        yield Job(f"unequal_blocks_{name}", f"{what}: codes", "unequal.blocks", solved | place)
    longer = {"cases": [["synchronous", 0.5, 0.4, 0.125]], "sizes": [64, 128], "seeds": [8, 9, 10, 11]}
    long_runs = trained | longer | {"steps": [60_000]}
    yield Job("unequal_groups_long", "one case of pairs, three times as long", "unequal.groups", long_runs)
    yield Job("unequal_polished", "pairs by exact descent", "unequal.polished", {"cases": cases})
    words = {"n_hidden": [2], "decays": [0], "seeds": [0, 1], "steps": 1500, "starts": 0}
    yield Job("unequal_tables", "words around a circle", "unequal.tables", words)


JOBS = tuple(_jobs())


def select(patterns: Sequence[str]) -> list[Job]:
    """Return the jobs whose names fit one of the patterns, such as ``rug_n8192*``; all if there are none.

    Each pattern has to fit one.

    Examples
    --------
    >>> [job.name for job in select(["rug_n128", "codes_n*_r0.5"])]
    ['rug_n128', 'codes_n512_fresh_p0.05_r0.5', 'codes_n512_fresh_p0.1_r0.5']
    """
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(job.name, pattern) for job in JOBS):
            raise ValueError(f"`names` must fit a job, such as {JOBS[0].name}; got {pattern!r}.")
    return [job for job in JOBS if not patterns or any(fnmatch.fnmatchcase(job.name, p) for p in patterns)]


def cost(job: Job, rate: float) -> float:
    """Seconds to expect, at a rate of operations a second in training; nan if nothing is known.

    For a grid of models from their sizes and steps, evaluation included. For others what the file in
    ``validate/reference`` took, on a core of a CPU, which no rate changes.

    Examples
    --------
    >>> round(cost(select(["rug_n8192_p0.05_r0.25"])[0], 1e14))
    199
    """
    given = job.settings
    if job.experiment != TRAINED:
        try:
            return float(read_dataset(REFERENCE / f"{job.name}.nc").attrs["wall_seconds"])
        except (KeyError, ValueError):
            return job.seconds
    n = given["n_features"]
    steps = given["steps"]
    if given.get("schedule", "both") == "both":
        # Up to the stopping rule: 3700, 4414, 5948 on average for stored runs of 128, 256 and 512 features.
        steps += 6000.0 * (n / 512) ** 0.4
    # Two ends are evaluated by two of the five products of a step.
    steps += 2 * 0.4 * (given["evaluation_samples"] or 0) / 1024
    hidden, _, _ = grid(n, given["p"], given["ratio"], given["seeds"])
    return float(sum(flops(n, int(m)) for m in hidden) * steps / number("rate", rate, 0, brackets="()"))


def measured_rate(device: str = "auto", precision: str = "float32", captured: bool = False) -> float:
    """Operations a second in the products of training, measured in a few seconds; on a CPU of one core."""
    large = choose_device(load_torch(), device).type == "cuda"
    sizes: dict[str, Any] = {"n_features": 4096, "steps": 50} if large else {"n_features": 512, "steps": 4}
    found = measure(**sizes, precision=precision, captured=captured, device=device)
    return float(found["rate"])


def make(
    chosen: Sequence[Job],
    out: str | Path,
    changed: Mapping[str, Any] | None = None,
    *,
    rate: float | None = None,
    device: str = "auto",
    precision: str = "float32",
    captured: bool = False,
    tell: Callable[[str], None] = lambda line: None,
) -> list[Path]:
    """Run jobs one after another, and write the file of each; one that is there already is left as it is.

    Parameters
    ----------
    chosen : sequence of Job
    out : path
        Folder, which is made.
    changed : mapping from str to object, optional
        Settings in place of those of the jobs, to try them at a small size.
    rate : float, optional
        Operations a second of training, for the costs that are told; measured if not given.
    device, precision, captured
        As in `training.train`, for jobs that have them. Training goes on from ``NAME.checkpoint.npz`` if it
        was interrupted.
    tell : callable, optional
        Called with a line on what comes next, and what it costs.

    Returns
    -------
    list of Path
        The files written.

    Raises
    ------
    ValueError
        If an argument is out of range, or a file is there with other settings: before anything is run.
    """
    asked: dict[str, Any] = {
        "device": choice("device", device, ("auto", "cpu", "cuda")),
        "precision": choice("precision", precision, tuple(PRECISIONS)),
        "captured": flag("captured", captured),
    }
    if rate is not None:
        number("rate", rate, 0, brackets="()")
    folder, written = output_folder(out), []
    plans = [(job, *_planned(job, folder, changed or {}, asked)) for job in chosen]
    for job, path, given, told in plans:
        if path.exists():
            tell(f"{job.name}: there already")
            continue
        if not changed:  # what a trial costs is not worth finding out
            rate = measured_rate(**asked) if rate is None and job.experiment == TRAINED else rate
            tell(f"{job.name}: {cost(job, rate or 1.0) / 3600:.3g} hours to expect")
        ds = experiments.run(job.experiment, given)
        write_dataset(path, ds.assign_attrs(job=job.name, settings=told))
        path.with_suffix(CHECKPOINT).unlink(missing_ok=True)
        written.append(path)
    return written


def _planned(
    job: Job, folder: Path, changed: Mapping[str, Any], asked: Mapping[str, Any]
) -> tuple[Path, dict[str, Any], str]:
    """Return the file of a job, all arguments of its experiment, and those that the file tells, as JSON."""
    known = inspect.signature(experiments.experiments()[job.experiment]).parameters
    for name in changed:
        choice("set", name, tuple(known))
    path = output_file(folder / f"{job.name}.nc", "out")
    given = {**job.settings, **changed}
    if "precision" in known and asked["precision"] != "float32":
        given["precision"] = asked["precision"]
    told = json.dumps(given, sort_keys=True)
    if path.exists():
        found = read_dataset(path).attrs
        if (found.get("experiment"), found.get("settings")) != (job.experiment, told):
            rule = f"a folder whose {path.name}, if there is one, has the same settings"
            raise ValueError(f"`out` must be {rule}; got {str(folder)!r}.")
    how = {**asked, "checkpoint": str(path.with_suffix(CHECKPOINT))}
    return path, {**{key: value for key, value in how.items() if key in known}, **given}, told

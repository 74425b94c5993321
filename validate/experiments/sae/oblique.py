"""The best pair of latents for two features at any angle, also with a Matryoshka objective."""

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from scipy.optimize import minimize

from ....solvers.sae import best_pair, measure, pair_encoder
from ....solvers.sae.circle import pair_codes
from ....theory.annotations import as_annotated
from ....theory.validation import FloatArray
from ...runner.declarations import Figure, Run, Table, Topic, TopicContent, from_rows
from ...runner.findings import Criterion, Finding, preregistered, rounding
from ..drawing import LEGEND_ABOVE, finish_axes, plot_function
from .pairs import TURNED_ANGLE, binary_pair_law

# Probabilities that the first feature is on alone, and the second; ratios are over their mean.
_ALONE = {"equal": (0.1, 0.1), "unequal": (0.15, 0.05)}
_RATIOS = tuple(float(r) for r in np.geomspace(0.1, 10.0, 9))
_FACTOR = 1.25  # certificates are sought at a boundary times and over this
_GAPS = (1e-2, 1e-3, 1e-4, 2e-5)  # of the branch and bound, one after the other
_MOST_CHANGES = 3
_ON_FEATURE = 1e-3  # radians from a feature's direction that count as on it
_DEAD = 1e-9  # activation

BOUND = Criterion("best pair found less the lower bound of its place", ">=", rounding(-1e-12))
NO_PREFIX = Criterion("share of places without a prefix where pairs tilt or absorb", ">=", preregistered(1.0))
FIRST = Criterion(
    "share of places with a prefix where the first atom is between the features", ">=", preregistered(1.0)
)
CERTIFIED = Criterion(
    "share of changes between turned and other pairs certified on both sides", ">=", preregistered(0.75)
)
NAMES = {"between, between": "tilts", "between, feature": "absorbs"}


class _PairProblem(NamedTuple):
    """Two binary features in a plane, the l1 strength `l1` and the prefix weight of an objective.

    `first` and `second` are the probabilities that a feature is on alone, `p_both` that both are; `cosine` is
    that of their directions. `angles` of atoms are in radians from the first feature's direction.
    """

    first: float
    second: float
    p_both: float
    l1: float
    cosine: float
    prefix_weight: float

    def patterns(self) -> list[tuple[float, tuple[float, float]]]:
        """Return (probability, activations (x, y) in the plane) of each pattern of features that are on."""
        sine = math.sqrt(1.0 - self.cosine**2)
        shares = self.first, self.second, self.p_both
        return list(zip(shares, ((1.0, 0.0), (self.cosine, sine), (1.0 + self.cosine, sine)), strict=True))

    def objective(self, first: Any, second: Any) -> FloatArray:
        """Return the objective of two atoms at the angles `first` and `second`, with the best activations.

        The objective is the mean of (1 - w) |error|^2 + w |error of the first atom alone|^2 + l1
        |activations|_1, with the prefix weight w. Angles are in radians from the first feature's direction;
        arrays broadcast.
        """
        pair = first, second, self.l1, self.prefix_weight
        return np.asarray(sum(q * pair_codes(x, *pair)[2] for q, x in self.patterns()))


def _best(problem: _PairProblem) -> tuple[float, tuple[float, float]]:
    """Return (least objective, `angles` of its two atoms), by search: not certified.

    Angles are in radians from the first feature's direction. Descents begin at the four lowest minima of a
    grid of 2 degrees.
    """
    grid = np.arange(-np.pi, np.pi, np.pi / 90.0)
    values = problem.objective(grid[:, None], grid)
    shifts = [shift for shift in itertools.product((-1, 0, 1), repeat=2) if any(shift)]
    neighbours = [np.roll(values, shift, (0, 1)) for shift in shifts]
    minima = np.argwhere(np.all([values <= other for other in neighbours], axis=0))
    order = np.argsort(values[tuple(minima.T)], kind="stable")[:4]

    def objective(at: FloatArray) -> float:
        """Return the objective of atoms at two angles."""
        return float(problem.objective(at[0], at[1]))

    corners = np.array([(0.0, 0.0), (0.02, 0.0), (0.0, 0.02)])
    ends = []
    for start in grid[minima[order]]:
        options: Any = {"xatol": 1e-9, "fatol": 1e-15, "initial_simplex": start + corners}
        ends.append(minimize(objective, start, method="Nelder-Mead", options=options))
    end = min(ends, key=lambda end: float(end.fun))
    return float(end.fun), (float(end.x[0]), float(end.x[1]))


def _phase(problem: _PairProblem, angles: tuple[float, float]) -> str:
    """Return the phase of two atoms at `angles`, such as "between, feature", or "tilts" and "absorbs".

    An atom is "feature" within 1e-3 radians of a feature's direction, "between" both, "outside" of them, or
    "dead" if no pattern of features turns it on. A phase joins the two names by a comma: the first atom's
    first with a prefix weight, else in alphabetical order. Without a prefix weight "between, between" is
    called "tilts", and "between, feature" "absorbs". Angles are in radians from the first feature's
    direction.
    """
    angle, where = math.acos(problem.cosine), []
    pair = *angles, problem.l1, problem.prefix_weight
    codes = [pair_codes(x, *pair) for q, x in problem.patterns() if q > 0.0]
    for latent, at in enumerate(angles):
        off = [abs(math.remainder(at - feature, 2.0 * math.pi)) for feature in (0.0, angle)]
        if max(float(code[latent]) for code in codes) <= _DEAD:
            where.append("dead")
        elif min(off) <= _ON_FEATURE:
            where.append("feature")
        else:
            where.append("between" if abs(sum(off) - angle) < 1e-9 else "outside")
    name = ", ".join(where if problem.prefix_weight > 0.0 else sorted(where))
    return name if problem.prefix_weight > 0.0 else NAMES.get(name, name)


def _kind(problem: _PairProblem, angles: tuple[float, float]) -> str:
    """Return "turned" if both atoms are over 0.1 radians from both features' directions, else "along".

    `angles` are the atoms', in radians from the first feature's direction.
    """
    features = 0.0, math.acos(problem.cosine)
    off = [abs(math.remainder(at - feature, 2.0 * math.pi)) for at in angles for feature in features]
    return "turned" if min(off) > TURNED_ANGLE else "along"


def _attained(problem: _PairProblem, angles: tuple[float, float]) -> float:
    """Return the objective of the ReLU autoencoder with atoms at `angles` that gives the best codes.

    If no encoder gives these codes, return inf. The objective is the mean of (1 - w) |error|^2 + w |error of
    the first atom alone|^2 + l1 |codes|_1, with the prefix weight w. Angles are in radians from the first
    feature's direction.
    """
    sae = pair_encoder(angles, problem.l1, cosine=problem.cosine, prefix_weight=problem.prefix_weight)
    if sae is None:
        return math.inf
    dictionary = np.array([x for _, x in problem.patterns()[:2]]).T
    law = binary_pair_law(problem.first, problem.second, problem.p_both)
    measured = measure(sae, law, dictionary, prefixes=[1])
    w, (alone,) = problem.prefix_weight, measured.prefix_mse
    return float((1.0 - w) * measured.mse + w * alone + problem.l1 * np.sum(measured.l1))


def _is_certified(problem: _PairProblem) -> bool:
    """Return whether a branch and bound proves that the best pair found is of the better kind.

    Kinds are "turned" (both atoms are over 0.1 radians from both features' directions) and "along" (all
    others). The proof shows that every pair of the other kind costs more. False also if it takes too many
    boxes.
    """
    _, angles = _best(problem)
    upper = _attained(problem, angles)
    other = "along" if _kind(problem, angles) == "turned" else "turned"
    for gap in _GAPS:
        try:
            worse = best_pair(*problem[:4], cosine=problem.cosine, prefix_weight=problem.prefix_weight,
                              gap=gap, kind=other, near=TURNED_ANGLE)  # fmt: skip
        except ValueError:  # too many boxes
            return False
        if worse.lower_bound > upper or worse.value <= upper:
            return worse.lower_bound > upper
    return False


@as_annotated
def run_oblique(
    cosine: Sequence[float] = (0.0, 0.6),
    l1: Sequence[float] = (0.6,),
    prefix_weight: Sequence[float] = (0.0, 0.3),
    alone: Sequence[str] = ("equal",),
    *,
    gap: float = 3e-3,
) -> xr.Dataset:
    """Return the phases of the best pair of latents by the ratio P(both) / P(one), and certified brackets.

    Parameters
    ----------
    cosine : sequence of float
        Cosines of the angle between the two features' directions.
    l1 : sequence of float
        Strengths of the penalty, in (0, 2).
    prefix_weight : sequence of float
        Weights of the error of the first latent alone (`solvers.sae.best_pair`).
    alone : sequence of {"equal", "unequal"}
        Probabilities of each feature alone: 0.1 and 0.1, or 0.15 and 0.05.
    gap : float
        Largest gap between lower bound and objective at the ratio 1, as a share of the error of rebuilding
        nothing.

    Returns
    -------
    xarray.Dataset
        Of (alone, prefix_weight, cosine, l1): ``phases``, by rising ratio from 0.1 to 10; and at the ratio 1
        ``value``, the objective of the best pair, ``bound``, the lower bound for all pairs, and ``attained``,
        the objective of the best pair's ReLU autoencoder. With the further dimension change: ``boundary``,
        the ratio between two phases; ``is_kind``, whether the kind of the best pair changes there, from
        turned (both atoms away from both features' directions) to along (all other pairs) or back; ``low``
        and ``high``, ratios below and above the boundary at which it is certified which kind is better, nan
        where it is not.
    """
    rows = []
    for case, w, c, strength in itertools.product(alone, prefix_weight, cosine, l1):
        q = _ALONE[str(case)]
        problem = _PairProblem(*q, 0.5 * sum(q), float(strength), float(c), float(w))
        value, angles = _best(problem)
        pair = best_pair(*problem[:4], cosine=problem.cosine, prefix_weight=problem.prefix_weight, gap=gap)
        names, changes = _phases_and_changes(problem)
        changes = (changes + [_Change()] * _MOST_CHANGES)[:_MOST_CHANGES]
        row = {
            "phases": " > ".join(names),
            "value": value,
            "bound": pair.lower_bound,
            "attained": _attained(problem, angles),
            **{name: ("change", [getattr(x, name) for x in changes]) for name in _Change._fields},
        }
        rows.append(row)
    dims = {"alone": alone, "prefix_weight": prefix_weight, "cosine": cosine, "l1": l1}
    return from_rows(rows, **{name: list(labels) for name, labels in dims.items()})


class _Change(NamedTuple):
    """A change of phase at the ratio `boundary`.

    `is_kind` tells whether the kind of pairs changes, too; `low` and `high` are ratios below and above at
    which the better kind is certified, nan if none is.
    """

    boundary: float = math.nan
    is_kind: bool = False
    low: float = math.nan
    high: float = math.nan


def _phases_and_changes(problem: _PairProblem) -> tuple[list[str], list[_Change]]:
    """Return (phases of the best pair of latents by rising ratio, changes of phase between them).

    The ratio is P(both features on) / mean P(one alone), from 0.1 to 10. It sets `p_both` of `problem`; the
    other settings stay. A phase is a text such as "tilts" (`_phase`), unlike its neighbours in the list.
    """
    mean = 0.5 * (problem.first + problem.second)
    largest = (1.0 - 2.0 * mean) / mean

    def problem_at(ratio: float) -> _PairProblem:
        """Return the problem at this ratio."""
        return problem._replace(p_both=ratio * mean)

    def phase(ratio: float) -> str:
        """Return the phase of the best pair at a ratio."""
        return _phase(problem_at(ratio), _best(problem_at(ratio))[1])

    ratios = [ratio for ratio in _RATIOS if ratio <= largest]
    phases = [phase(ratio) for ratio in ratios]
    names, changes = phases[:1], []
    for k, name in enumerate(phases[1:]):
        if name == phases[k]:
            continue
        low, high = ratios[k : k + 2]
        for _ in range(6):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if phase(middle) == phases[k] else (low, middle)
        boundary = math.sqrt(low * high)
        beside = [boundary / _FACTOR, min(boundary * _FACTOR, largest)]
        kinds = [_kind(problem_at(ratio), _best(problem_at(ratio))[1]) for ratio in beside]
        is_kind = kinds[0] != kinds[1]
        if is_kind:
            beside = [r if _is_certified(problem_at(r)) else math.nan for r in beside]
        names.append(name)
        changes.append(_Change(boundary, is_kind, *(beside if is_kind else (math.nan, math.nan))))
    return names, changes


def _phase_names(ds: xr.Dataset, has_prefix: bool) -> list[str]:
    """Return all phases in `ds`, from `run_oblique`, at prefix weights above 0 (`has_prefix`), or at 0.

    A phase says where the two atoms are, such as "between, feature" or "tilts"; names repeat.
    """
    cells = ds["phases"].sel(prefix_weight=(ds["prefix_weight"] > 0.0) == has_prefix).values.ravel()
    return [name for cell in cells for name in str(cell).split(" > ")]


def _judge(ds: xr.Dataset) -> list[Finding]:
    """Return the findings on the criteria that were set before the run; `ds` is from `run_oblique`.

    The best pair is not below the lower bound; without a prefix weight pairs tilt or absorb, with one the
    first atom lies between the features; and most changes of kind (turned or along) are certified.
    """
    findings = [BOUND.finding(ds["value"] - ds["bound"], kind="bound searched")]
    no_prefix, prefix = _phase_names(ds, False), _phase_names(ds, True)
    if no_prefix:
        is_named = [name in NAMES.values() for name in no_prefix]
        findings.append(NO_PREFIX.finding(np.mean(is_named), kind="numeric"))
    if prefix:
        is_between = [name.startswith("between") for name in prefix]
        findings.append(FIRST.finding(np.mean(is_between), kind="numeric"))
    is_kind = ds["is_kind"].values
    if is_kind.any():
        both = (ds["low"].notnull() & ds["high"].notnull()).values[is_kind]
        findings.append(CERTIFIED.finding(np.mean(both), kind="bound searched"))
    return findings


@plot_function
def plot_oblique(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the ratios P(both) / P(one) at which the phase of the best pair changes, against the cosine.

    `ds` is from `run_oblique`.
    """
    for k, w in enumerate(ds["prefix_weight"].values):
        for j, l1 in enumerate(ds["l1"].values):
            at = ds.isel(alone=0).sel(prefix_weight=w, l1=l1)
            cosine = np.repeat(at["cosine"].values, at.sizes["change"])
            boundary = at["boundary"].transpose("cosine", "change").values.ravel()
            ax.plot(cosine, boundary, "os^vD"[j % 5], color=f"C{k}", label=f"l1 {l1:g}, prefix {w:g}")
            low, high = (at[name].transpose("cosine", "change").values.ravel() for name in ("low", "high"))
            ax.vlines(cosine, low, high, color=f"C{k}")
    return finish_axes(
        ax, LEGEND_ABOVE, yscale="log", xlabel="cosine of the features", ylabel="P(both) / P(one alone)"
    )


def _show_oblique(ds: xr.Dataset) -> TopicContent:
    """Return text, figure and table of the report's part "any angle", from `ds` of `run_oblique`.

    The figure has the ratios P(both) / P(one alone) at which the phase of the best pair changes, by the
    cosine of the features; the table has the phases in order at each setting.
    """
    is_kind = ds["is_kind"].values
    certified = (ds["low"].notnull() & ds["high"].notnull()).values[is_kind]
    text = (
        "Two binary features at any angle. With a prefix weight w, the error of the first latent alone "
        "counts w times and that of both 1 - w times, as in Matryoshka training. A lower bound for all pairs "
        f"of atoms and all encoders is at least {float((ds['bound'] / ds['value']).min()):.4g} of the best "
        f"pair found. Of the changes of phase {int(is_kind.sum())} are between pairs turned away from the "
        f"features by {TURNED_ANGLE:g} and others, and {int(certified.sum())} of these are certified at a "
        f"ratio {_FACTOR:g} times smaller and one as much larger."
    )
    caption = (
        "Markers: changes of the phase, from searches; lines: between certificates of which kind is better."
    )
    figure = Figure("oblique", "Where the best pair changes", caption, ds, plot_oblique)
    table = Table.formatted(
        "Phases by increasing P(both) / P(one alone)",
        ds[["phases"]],
        {
            "alone": "{alone}",
            "prefix weight": "{prefix_weight:g}",
            "cosine": "{cosine:g}",
            "l1": "{l1:g}",
            "phases": "{phases}",
        },
        "Where the atoms are; with a prefix weight the first is named first. Ratios are 0.1 to 10.",
    )
    return TopicContent(
        text,
        [figure],
        [table],
        "Two latents tilt or absorb at other angles, too. A first one that must rebuild alone leans to both.",
    )


_FULL = {
    "cosine": (-0.3, 0.0, 0.3, 0.6),
    "l1": (0.3, 0.6, 1.0),
    "prefix_weight": (0.0, 0.3),
    "alone": ("equal", "unequal"),
}
RUNS = {"oblique": Run(run_oblique, full=_FULL, seconds=15.0)}
TOPICS = [Topic("any angle", ["oblique"], _show_oblique, judge=_judge)]

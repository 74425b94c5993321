"""Cowsik et al. (2024), C26-C31: where the loss drops, and whether trained weights are symmetric.

The trained models are stored runs of 128, 256 and 512 features, at both ends: the source's stopping rule, and
a further phase of thousands of steps. Of 512 features at p = 0.01 there are three seeds, too few for limits
over seeds; elsewhere there are six or more. Seeds 0 to 2 were seen when the limits were chosen; all were
seen when it was chosen which cells a sentence names. For that the family of limits pays: it has every cell,
end and doubling, also those that are not named.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise, product
from typing import Any

import numpy as np
import xarray as xr
from scipy.optimize import brentq

from ...solvers.rug import optimum
from ...solvers.statistics import Estimate, Family, mean
from ...theory import rug
from ...theory.derivation import sp
from ..experiments.codes.copies import above_copies
from ..experiments.codes.symmetry import by_cell, change_with_size
from ..runner.declarations import span
from ..runner.findings import (
    Finding,
    confirmed,
    derived,
    enough_runs,
    experiment,
    in_range,
    not_refuted,
    numeric,
    post_hoc,
    symbolic,
)
from . import claim as ledger
from .claim import ROUGHLY, Evidence, Verdict, claim, corrected_statement, evidence

SOURCE = "cowsik2024"
STOP, CONVERGED = ENDS = ("stopping rule", "converged")
RARE, MIDDLE, COMMON = P = (0.01, 0.05, 0.1)
LOW, QUARTER, HALF = RATIOS = (0.12, 0.25, 0.5)
RAREST, FEWEST = 0.001, 0.03  # a place beside these cells
SMALLEST, MEDIUM, LARGEST = TRAINED = (128, 256, 512)
LARGE = 4096  # features of the largest models of which there are five at each ratio, at p = 0.05
# The n_features that decide at each p.
SIZES = {RARE: (SMALLEST, MEDIUM), MIDDLE: TRAINED, COMMON: TRAINED}
Cell = tuple[float, float]
Step = tuple[float, float, int, int]
ALARM = 1e-2
# "Essentially the same".
SAME = post_hoc(ledger.SAME)
FAR = post_hoc(0.75)  # by this much and more pairs are below the rug
# A statistic falls if it is less than this many times as large at more features. For the Lyapunov ratio of
# Gaussian rows that is 0.71 at twice the features.
FALLS = post_hoc(0.95)
CELLS: list[Cell] = list(product(P, RATIOS))
# (p, ratio, size, another size): from each size to the next, from the smallest to the largest, and further.
DOUBLINGS: list[Step] = [(p, ratio, *sizes) for p, ratio in CELLS for sizes in pairwise(SIZES[p])]
WHOLE_RANGES: list[Step] = [(p, ratio, SIZES[p][0], SIZES[p][-1]) for p, ratio in CELLS]
GROWN = [(MIDDLE, ratio, SMALLEST, LARGE) for ratio in RATIOS]


class _Models:
    """Stored models by cell (p, ratio), with estimates and findings for one row of the ledger.

    `trained` is from `run_stored`. The confidence limits of all estimates hold jointly: at both ends of
    training, for the means of `levels` statistics in each cell, and the changes with size of `changes`
    statistics over each doubling and whole range.
    """

    def __init__(self, trained: xr.Dataset, *, levels: int = 0, changes: int = 0) -> None:
        self.cells = by_cell(trained)
        self.steps = f"{trained.attrs['steps']} steps"
        compared = levels * len(CELLS) + changes * len({*DOUBLINGS, *WHOLE_RANGES, *GROWN})
        self.family = Family(ALARM, 2 * len(ENDS) * compared)
        # Findings that estimates do not refute the print, which is a limit, and that they keep one.
        self.keeps = partial(not_refuted, origin=trained)
        self.true = partial(confirmed, origin=trained)

    def level(self, statistic: str, end: str) -> list[Estimate]:
        """Return the mean of a statistic over seeds, with confidence limits, for each (p, ratio) of `CELLS`.

        Models are the largest of `SIZES` at each p. `statistic` is the name of a variable, such as "loss".
        `end` is the end of training: `STOP`, the paper's stopping rule, or `CONVERGED`, after further steps.
        """
        at = self.cells[statistic].sel(end=end)
        values = [at.sel(p=p, ratio=ratio, n_features=SIZES[p][-1]).dropna("seed") for p, ratio in CELLS]
        return [self.family.of(mean, at_cell.values) for at_cell in values]

    def change(self, statistic: str, end: str, steps: Sequence[Step] = DOUBLINGS) -> list[Estimate]:
        """Return the factor by which a statistic changes over each of `steps` in size, at `end`.

        `statistic` is the name of a variable, such as "loss"; `steps` are (p, ratio, size, next size). `end`
        is the end of training: `STOP`, the paper's stopping rule, or `CONVERGED`, after further steps.
        """
        at = self.cells[statistic].sel(end=end)
        return [self.family.of(change_with_size, at.sel(p=p, ratio=ratio), a, b) for p, ratio, a, b in steps]

    def tally(self, statistic: str) -> str:
        """Return text on how many doublings of size show that a statistic falls, and how many refute it.

        Doublings of n_features are those of the trained models at each p and ratio, at the paper's stopping
        rule and after further steps. A doubling shows a fall if the confidence interval of the factor of
        `statistic`, a variable such as "loss", lies below 0.95, and refutes it if the interval lies above.
        """
        phrases = []
        for end, name in ((STOP, STOP), (CONVERGED, self.steps)):
            changes = self.change(statistic, end)
            falls = sum(change.high <= FALLS for change in changes)
            stays = sum(change.low > FALLS for change in changes)
            phrases.append(f"{falls} of {len(changes)} ({name}; {stays} do not)")
        return " and ".join(phrases)

    def falls(self, text: str, statistic: str, *, all_shown: bool = True) -> list[Finding]:
        """Return two findings that a statistic falls at the stopping rule as size grows; `text` names it.

        `statistic` is the name of a variable, such as "loss". The first finding is on factors from the
        smallest to the largest models, at one p: all their confidence intervals lie below `FALLS`, 0.95, if
        `all_shown`; else none lies above it. The second is on factors of doublings of size, at three p: no
        interval lies above `FALLS`.
        """
        growth_of, doublings = self.change(statistic, STOP, GROWN), self.change(statistic, STOP)
        over_range = f"{text}: factors from {SMALLEST} to {LARGE} features, p = {MIDDLE}, {STOP}"
        return [
            (self.true if all_shown else self.keeps)(over_range, growth_of, "<=", FALLS),
            self.keeps(f"{text}: factors of doublings to {LARGEST}, {STOP}", doublings, "<=", FALLS),
        ]

    def growth_of(self, statistic: str) -> str:
        """Return a phrase: factors by which a variable, such as "loss", changes from small to large models.

        There is a factor for each ratio, at p = 0.05 and the paper's stopping rule; the phrase names the
        sizes.
        """
        return (
            f"{self.factors(statistic)} times as large at {LARGE} features as at {SMALLEST} (p = {MIDDLE}, "
            f"ratios {_join(RATIOS)}, the source's stopping rule, which ends large models' training at the "
            "rug, a saddle: C33, C44)"
        )

    def factors(self, statistic: str) -> str:
        """Return text: the factor of `statistic` from 128 to 4096 features, at p = 0.05, for each ratio.

        `statistic` is the name of a variable, such as "loss". Training ended at the paper's stopping rule.
        """
        return _join(self.change(statistic, STOP, GROWN), ".2g")


def _join(values: Iterable[Any], digits: str = "g") -> str:
    """Return `values`, numbers, in the format `digits`, joined by commas."""
    return ", ".join(f"{value:{digits}}" for value in values)


def drop_ratio(p: float, lost: float) -> float:
    """Return the ratio at which the least loss of random codes is 1 - `lost` times the loss at ratio 0.

    Ratio is n_hidden / n_features; `lost` is in (0, 1), and p is at least 1e-80.
    """
    zero = float(rug.zero_ratio_loss(p))

    def gap(log_ratio: float) -> float:
        """Return the share by which the loss at a ratio is below that at ratio 0, less `lost`."""
        return 1 - float(optimum(p, np.exp(log_ratio)).loss) / zero - lost

    return float(np.exp(brentq(gap, np.log(p) - 6, 0.0, xtol=1e-10)))


@claim("C26", SOURCE, "3.1, 4.3", "the loss drop starts around r = p, and the loss is O(p) before")
def check_c26(quick: bool) -> Evidence:
    k, u = sp.symbols("k u", positive=True)
    # Noise crosses the threshold k = sigma sqrt(2 log 1/p) of the pre-activation as often as features do;
    # with sigma -> 0 the best output above it is a (u - k), and sigma^2 = p/(3r).
    slope, square = (sp.integrate(integrand, (u, k, 1)) for integrand in (u * (u - k), (u - k) ** 2))
    lost = (1 - k) * (2 + k) ** 2 / 4
    begun = sp.nsolve(lost - sp.Rational(1, 20), k, (0.5, 1), solver="bisect")
    start, half = float(2 / (3 * begun**2)), (2 + np.sqrt(3)) / 3
    large, tiny = (0.1, 0.05, 0.01), (1e-12, 1e-24, 1e-48)
    first = [drop_ratio(p, 0.05) / p for p in large]
    scaled = [drop_ratio(p, 0.05) / p / np.log(1 / p) for p in tiny]
    middle = drop_ratio(tiny[-1], 0.5) / tiny[-1] / np.log(1 / tiny[-1])
    # Corrections fall like 1/log(1/p), up to logarithms of it: the last two, extrapolated.
    limit = 2 * scaled[2] - scaled[1]
    most = max(1 - float(optimum(p, p / 10).loss / rug.zero_ratio_loss(p)) for p in (*large, *tiny))
    largest = max(max(value, 1 / value) for value in first)
    at_half = lost.subs(k, sp.sqrt(3) - 1) - sp.S.Half
    return evidence(
        "Noise of standard deviation sigma, sigma^2 -> p/(3r), must stay below a threshold k except with "
        "probability p: k^2 = 2 sigma^2 log(1/p), which is r = 2/(3 k^2) p log(1/p). The best output a "
        "ReLU(u - k) then takes the share (1 - k)(2 + k)^2/4 off the loss at ratio 0: nothing above k = 1. "
        f"A drop is taken to start where a twentieth is lost: there r/(p log 1/p) is {_join(scaled, '.3f')} "
        f"for p = {_join(tiny)}, which tends to {limit:.3f} (derived: {start:.3f}).",
        numeric(
            "a twentieth lost, p = 0.01 to 0.1: r/p or p/r, the larger", largest, "<=", post_hoc(ROUGHLY)
        ),
        numeric("the same, p = 1e-48: r/p", scaled[-1] * np.log(1 / tiny[-1]), "<=", post_hoc(ROUGHLY)),
        numeric("largest share lost at r = p/10, p = 1e-48 to 0.1", most, "<=", post_hoc(0.05)),
        corrected_statement(
            f"nearly so for p = {_join(large)}: a twentieth of the loss is lost at r/p = "
            f"{_join(first, '.2g')}; this rises without limit as p falls",
            numeric("r/p at p = 0.01 over that at 0.1", first[2] / first[0], ">", derived(1)),
        ),
        corrected_statement(
            "as p -> 0 the drop starts at r = (2/3) p log(1/p)",
            symbolic("share lost, less (1 - k)(2 + k)^2/4", 3 * slope**2 / square - lost),
            symbolic("it starts from 0 at k = 1", sp.limit(3 * slope**2 / square, k, 1)),
            numeric("r/(p log 1/p) extrapolated - derived", abs(limit - start), "<=", post_hoc(0.01)),
        ),
        corrected_statement(
            "half of the loss is lost at (2 + sqrt 3)/3 p log(1/p)",
            symbolic("share lost at k = sqrt 3 - 1, less 1/2", at_half),
            numeric("p = 1e-48 over the constant, - 1", abs(middle / half - 1), "<=", post_hoc(0.03)),
        ),
        fault=Verdict.OVERSTATED,
    )


def _excess_over_copies(ds: xr.Dataset) -> tuple[list[Estimate], Estimate]:
    """Return (loss of the largest models) / (loss of copies of smaller ones) - 1 at ratio 1/4.

    Copies of a model side by side have its loss per feature, so the excess of an optimum is at most 0
    (`above_copies`). `ds` has the trained models. The result is a list with an estimate for each p, and one
    more estimate at p = 0.1, for which the largest models have other seeds, from 6 on.
    """
    converged = ds.sel(end=CONVERGED)
    quarter = [(ds["p"].values == p) & np.isclose(ds["ratio"], QUARTER) for p in SIZES]
    family = Family(ALARM, 2 * len(quarter))
    excess = [family.of(above_copies, converged.isel(model=chosen)) for chosen in quarter]
    # Trained after this finding was frozen, where one of means over seeds had not been confirmed.
    new = quarter[2] & ((ds["n_features"].values < LARGEST) | (ds["seed"].values >= 6))
    return excess, above_copies(converged.isel(model=new))


def _rarest_over_rug(ds: xr.Dataset) -> float:
    """Return (least loss of trained models) / (loss of random codes) at p = 0.001, ratio 0.03.

    `ds` has the ``excess`` of each model over random codes, after training beyond the stopping rule.
    """
    rarest = (ds["p"].values == RAREST) & np.isclose(ds["ratio"].values, FEWEST, atol=0.005)
    return float(ds["excess"].sel(end=CONVERGED).values[rarest].min() + 1)


@claim(
    "C27",
    SOURCE,
    "Fig. 2",
    "trained models and the Persian rug have essentially the same loss, far below the linear model "
    "(the figure does not say of which size; here 128 to 512 features)",
    needs=["codes.symmetry"],
)
def check_c27(quick: bool, ds: xr.Dataset) -> Evidence:
    at_large = by_cell(ds)["excess"].sel(end=STOP, p=MIDDLE, n_features=LARGE)
    ds = ds.isel(model=ds["n_features"].values <= LARGEST)  # larger ones are C33's
    models = _Models(ds, levels=2)
    large = [models.family.of(mean, at_large.sel(ratio=r).dropna("seed").values) for r in RATIOS]
    name, steps = "loss / rug - 1", models.steps
    early, late = (models.level("excess", end) for end in ENDS)
    rare, *same = early[::3]  # ratio 0.12; the entries after these are at 0.25, and then at 0.5
    below, pairs = [rare, *early[1::3], *early[2::3]], late[2::3]
    copies, again = _excess_over_copies(ds)
    at = models.cells["loss"].sel(end=CONVERGED, p=COMMON, ratio=QUARTER)
    fresh = at.where(at["seed"] >= 3).mean("seed")
    affine = (ds["loss"].sel(end=CONVERGED) / ds["linear_loss"]).values[ds["n_features"].values == LARGEST]
    worse = _rarest_over_rug(ds)
    at_rarest = f"least loss / rug at p = {RAREST}, ratio {FEWEST}"
    return evidence(
        f"Models of {LARGEST} features ({MEDIUM} at p = {RARE}), at the stopping rule of the source and "
        f"after {steps} more; the source went to 8192 features. Loss over the rug's, less 1, at p = "
        f"{_join(P)} and ratios {_join(RATIOS)} of each: {_join(early, '.1%')}; after {steps}: "
        f"{_join(late, '.1%')}. Even pairs have p^2/6 per feature at ratio 1/2, uneven ones, with entries "
        "-3 and -1/3, 25 p^2/162. Copies of a small model side by side have its loss per feature: a large "
        "model above that is not optimal. This is judged by single models, each loss within the error of "
        f"its measurement; with new seeds alone that at p = {COMMON} is {again:.1%} above copies. An "
        "earlier finding on means over seeds 3 to 5 was not confirmed there; this one was worded after "
        "that, and frozen before the new seeds were trained. Means over seeds from 3 on: "
        f"{fresh.sel(n_features=SMALLEST):.4g} for {SMALLEST} features, {fresh.sel(n_features=LARGEST):.4g} "
        f"for {LARGEST}.",
        *in_range(models.keeps, f"{name}, {STOP}", early, -SAME, SAME),
        *in_range(models.keeps, f"{name}, {steps}", late, -SAME, SAME),
        experiment(f"largest loss / affine optimum, {steps}", affine.max(), "<", derived(1), origin=ds),
        corrected_statement(
            f"it holds for models of thousands of features at the stopping rule: those of {LARGE} features, "
            f"at p = {MIDDLE} and ratios {_join(RATIOS)}, are {_join(large, '+.1%')} off the rug's loss",
            *in_range(models.true, f"{name}, {LARGE} features", large, -SAME, SAME),
        ),
        corrected_statement(
            f"of models of {LARGEST} features ({MEDIUM} at p = {RARE}), at p = {_join(P)} and the three "
            f"ratios, two agree within a tenth: those at ratio {LOW} and p = {MIDDLE}, {COMMON} "
            f"({_join(same, '+.1%')})",
            *in_range(models.true, f"{name} there", same, -SAME, SAME),
        ),
        corrected_statement(
            f"at the other seven places they are below the rug, by {-rare.value:.0%} at p = {RARE} and ratio "
            f"{LOW}",
            models.true(f"{name} there, stopping rule", below, "<", post_hoc(0)),
        ),
        corrected_statement(
            f"trained on for {steps} they are below it at all nine, at ratio {HALF} (pairs) by {FAR:.0%} and "
            f"more; but at p = {RAREST} and ratio {FEWEST} models of {SMALLEST} features have then "
            f"{worse:.1f} times its loss or more",
            models.true(f"{name}, {steps}, all nine cells", late, "<", post_hoc(0)),
            models.true(f"{name}, {steps}, ratio {HALF}", pairs, "<=", -FAR),
            experiment(at_rarest, worse, ">", post_hoc(2), origin=ds),
        ),
        corrected_statement(
            f"at ratio {QUARTER} they are then above copies of a smaller model side by side, by "
            f"{_join(copies, '.1%')} for p = {_join(P)}, and so not at the optimum",
            models.true("best loss over copies of the best other, less 1", copies, ">", post_hoc(0)),
        ),
        fault=Verdict.INCOMPLETE,
    )


@claim(
    "C28",
    SOURCE,
    "Fig. 3",
    "p = 4.5 %, n_s = 512: diagonal 1.29 +- .01, bias -.18 +- .01 (no ratio is named)",
    needs=["codes.fig3"],
)
def check_c28(quick: bool, ds: xr.Dataset) -> Evidence:
    steps, ratios = f"{ds.attrs['steps']} steps", ds["ratio"].values
    scale, bias, error = 1.29, -0.18, 0.01
    a, last = (ds[name].sel(end=CONVERGED).values for name in ("diagonal_mean", "bias_mean"))
    first = ds["bias_mean"].sel(end=STOP).values
    best = optimum(0.045, np.linspace(0.05, 0.95, 181))
    highest = float(best.b[np.abs(best.a - scale) <= error].max())
    gap = np.abs(a - scale).max()
    return evidence(
        f"One model of {LARGEST} features at each ratio of {_join(ratios, '.2f')}. After {steps} the "
        f"diagonals are {_join(a, '.3f')} and the biases {_join(last, '.3f')}; at the stopping rule the "
        f"biases are {_join(first, '.3f')}. So the printed diagonal is met after {steps}, and the printed "
        f"bias lies between the two ends. The rug's own optimum has a bias of {highest:.2f} or less where "
        f"its diagonal is {scale} +- {error}, at any ratio. Whether some training gives both numbers is not "
        "settled: the print does not name the number of steps either.",
        enough_runs("trained models at each ratio", 1, origin=ds),
        experiment(f"{steps}: largest |diagonal - {scale}|", gap, "<=", derived(error), origin=ds),
        # The printed bias with its error is [-0.19, -0.17].
        experiment("stopping rule: lowest bias", first.min(), ">", derived(bias + error), origin=ds),
        experiment(f"{steps}: highest bias", last.max(), "<", derived(bias - error), origin=ds),
        corrected_statement(
            "the rug's optimum has not both of these numbers at any ratio",
            numeric("rug's highest bias at that diagonal", highest, "<", derived(bias - error)),
        ),
    )


@claim(
    "C29",
    SOURCE,
    "Figs. 4, 5",
    "the fluctuation of the diagonal over features falls as n_s grows, at all places of the diagram, "
    "and that of the bias generally decreases",
    needs=["codes.symmetry"],
)
def check_c29(quick: bool, ds: xr.Dataset) -> Evidence:
    models = _Models(ds, changes=2)
    diagonal, bias = models.change("diagonal_sd", STOP), models.change("bias_sd", STOP)
    fewer = [
        sum(change.low > FALLS for change in changes) - sum(change.high <= FALLS for change in changes)
        for changes in (diagonal, bias)
    ]
    factors = span([change.value for change in diagonal], ".2f")
    label = f"diagonal and bias, {STOP}: doublings shown not to fall less those shown to, the larger"
    return evidence(
        f"The diagonal's spread is {models.growth_of('diagonal_sd')}, the bias's {models.factors('bias_sd')} "
        "times. Doublings of n_s at which a spread is shown to fall, by a twentieth or more: of the diagonal "
        f"{models.tally('diagonal_sd')}; of the bias {models.tally('bias_sd')}; the others are undecided. "
        f"The diagonal's factors of doublings by the rule are {factors}. Trained on, spreads do not all "
        "fall: pairs, at ratio 1/2, have the same at every n_s, and dropped features keep those of the "
        "diagonal large (C44).",
        *models.falls("diagonal", "diagonal_sd", all_shown=False),
        *models.falls("bias", "bias_sd"),
        experiment(label, max(fewer), "<", derived(0), origin=ds),
    )


@claim(
    "C30",
    SOURCE,
    "Fig. 6",
    "the variance over rows of the variance of off-diagonal elements vanishes as n_s grows",
    needs=["codes.symmetry"],
)
def check_c30(quick: bool, ds: xr.Dataset) -> Evidence:
    models = _Models(ds, changes=1)
    name = "row_variance_variance"
    c, n = sp.symbols("c n", positive=True)
    # The row variances of a pair: one entry among n - 1, about their mean.
    rows = [entry**2 / (n - 1) - (entry / (n - 1)) ** 2 for entry in (c, 1 / c)]
    half = (rows[0] - rows[1]) / 2
    limit = sp.limit(n**2 * half**2, n, sp.oo) - (c**2 - c**-2) ** 2 / 4
    late = models.change(name, CONVERGED)
    return evidence(
        f"It is {models.growth_of(name)}. That says little of the code: row variances fall like 1/n_s, so "
        "that the variance over them vanishes like 1/n_s^2 for any, for pairs of entries c and 1/c too, "
        "whose rows are as unequal at every size. Its root over their mean says more: C34 and, trained on, "
        "C44.",
        *models.falls("variance", name),
        models.keeps(f"variance: factors of doublings, {models.steps}", late, "<=", FALLS),
        symbolic("n^2 times the variance in pairs, in the limit", limit),
    )


@claim(
    "C31",
    SOURCE,
    "Eq. 3, Fig. 7",
    "the Lyapunov ratio Lambda falls as n_s grows, so that nu becomes Gaussian",
    needs=["codes.symmetry"],
)
def check_c31(quick: bool, ds: xr.Dataset) -> Evidence:
    models = _Models(ds, changes=1)
    name = "lyapunov_max"
    grown = models.change(name, STOP, GROWN)
    return evidence(
        "Lambda of a row is the sum of its |w|^3 over (the sum of w^2)^(3/2): 1 for a row with one entry, "
        f"{np.sqrt(8 / np.pi / LARGEST):.3f} for a Gaussian row of {LARGEST} features. "
        f"{models.growth_of(name)}. On the way, when n_s doubles up to {LARGEST}, it is shown to fall, by a "
        f"twentieth or more, in {models.tally(name)} of the cases here: models of up to 1024 features at "
        f"ratio {HALF} become pairs, with a ratio of 1, before the rule ends training, and larger ones "
        "when they are trained on (C44).",
        models.true(f"Lambda: factors from {SMALLEST} to {LARGE} features, {STOP}", grown, "<=", FALLS),
    )

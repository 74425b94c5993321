"""Cowsik et al. (2024), C26-C31: where the loss drops, and whether trained weights are the symmetric ones.

The trained models are stored runs of 128, 256 and 512 features, at both ends: the source's stopping rule, and
a further phase of thousands of steps. Of 512 features at p = 0.01 there are three seeds, too few for limits
over seeds; elsewhere there are six or more. Seeds 0 to 2 were seen when the limits were chosen; all were
seen when it was chosen which cells a sentence names. For that the family of limits pays: it has every cell,
end and doubling, also those that are not named.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import xarray as xr
from scipy import optimize

from ...solvers.rug import optimum
from ...theory import rug
from ..codes.symmetry import above_copies, by_cell, change
from ..statistics import Estimate, Family, mean
from .ledger import Claim, Evidence, Finding, allowed, claim, experiment, numeric, says, shown, symbolic

__all__ = ["STRUCTURE"]

SOURCE = "cowsik2024"
STOP, CONVERGED = ENDS = ("stopping rule", "converged")
# The n_features that decide at each p.
SIZES = {0.01: (128, 256), 0.05: (128, 256, 512), 0.1: (128, 256, 512)}
CELLS = [(p, ratio) for p in SIZES for ratio in (0.12, 0.25, 0.5)]
Step = tuple[float, float, int, int]
DOUBLINGS: list[Step] = [(p, ratio, n, 2 * n) for p, ratio in CELLS for n in SIZES[p][:-1]]
WHOLE: list[Step] = [(p, ratio, SIZES[p][0], SIZES[p][-1]) for p, ratio in CELLS]
ALARM = 1e-2
# "Essentially the same" and "vanishes" are given this much room.
SAME = 0.1
# A statistic falls if it is less than this many times as large at more features. For the Lyapunov ratio of
# Gaussian rows that is 0.71 at twice the features.
FALLS = 0.95


class _Models:
    """The stored models by cell, and estimates and findings of a row, whose limits are one family.

    It counts two sides at both ends: of every cell where levels decide, of every doubling and whole range for
    each statistic whose changes decide.
    """

    def __init__(self, trained: xr.Dataset, *, levels: int = 0, changes: int = 0) -> None:
        self.origin, self.cells = trained, by_cell(trained)
        self.names = {STOP: STOP, CONVERGED: f"{trained.attrs['steps']} steps"}
        compared = levels * len(CELLS) + changes * len({*DOUBLINGS, *WHOLE})
        self.family = Family(ALARM, 2 * len(ENDS) * compared)

    def level(self, statistic: str, end: str, cells: Sequence[tuple[float, float]] = CELLS) -> list[Estimate]:
        """Return means over seeds at the largest size that decides."""
        at = self.cells[statistic].sel(end=end)
        values = [at.sel(p=p, ratio=ratio, n_features=SIZES[p][-1]).dropna("seed") for p, ratio in cells]
        return [self.family.of(mean, one.values) for one in values]

    def change(self, statistic: str, end: str, which: Sequence[Step] = DOUBLINGS) -> list[Estimate]:
        """Return factors from one size to another."""
        at = self.cells[statistic].sel(end=end)
        return [self.family.of(change, at.sel(p=p, ratio=ratio), a, b) for p, ratio, a, b in which]

    def tally(self, statistic: str) -> str:
        """Say at how many doublings a statistic falls, does not, or neither is shown."""
        found = {name: self.change(statistic, end) for end, name in self.names.items()}
        return " and ".join(
            f"{sum(one.high <= FALLS for one in some)} of {len(some)} at the end `{name}` (where "
            f"{sum(one.low > FALLS for one in some)} do not)"
            for name, some in found.items()
        )

    def least(self, statistic: str, text: str, limit: float) -> Finding:
        """Return the finding that no model of pairs has less: those at ratio 0.5 after the further phase."""
        at = self.cells[statistic].sel(end=CONVERGED, ratio=0.5, p=list(SIZES), n_features=[128, 256, 512])
        text = f"smallest {text} of {int(at.count())} models at ratio 0.5, {self.names[CONVERGED]}"
        return experiment("corrected", text, float(at.min()), ">=", limit, origin=self.origin)

    def print(
        self, text: str, find: Callable[[str, str], list[Estimate]], statistic: str, limit: float
    ) -> list[Finding]:
        """Return the findings, one for each end, that no cell refutes that a statistic is below a limit."""
        return [
            allowed("printed", f"{text}, {name}", find(statistic, end), "<=", limit, origin=self.origin)
            for end, name in self.names.items()
        ]

    def true(self, text: str, found: Sequence[Estimate], relation: str, limit: float) -> Finding:
        """Return the finding that estimates keep a limit with confidence."""
        return shown("corrected", text, found, relation, limit, origin=self.origin)


def _span(found: Sequence[Estimate]) -> str:
    values = [one.value for one in found]
    return f"{min(values):.2f} to {max(values):.2f}"


def _list(values: Iterable[Any], digits: str) -> str:
    return ", ".join(f"{value:{digits}}" for value in values)


def _ratio_where(p: float, lost: float) -> float:
    """Return the ratio where the rug has lost a share of the loss at ratio 0."""
    zero = float(rug.zero_ratio_loss(p))

    def gap(log_ratio: float) -> float:
        return 1 - float(optimum(p, np.exp(log_ratio)).loss) / zero - lost

    return float(np.exp(optimize.brentq(gap, np.log(p) - 6, 0.0, xtol=1e-10)))


@claim("C26", SOURCE, "3.1, 4.3", "the loss drop starts around r = p, and the loss is O(p) before")
def c26(quick: bool) -> Evidence:
    import sympy

    k, u = sympy.symbols("k u", positive=True)
    # Noise crosses the threshold k = sigma sqrt(2 log 1/p) of the pre-activation as often as features do;
    # with sigma -> 0 the best output above it is a (u - k), and sigma^2 = p/(3r).
    product = sympy.integrate(u * (u - k), (u, k, 1))
    square = sympy.integrate((u - k) ** 2, (u, k, 1))
    lost = (1 - k) * (2 + k) ** 2 / 4
    begun = sympy.nsolve(lost - sympy.Rational(1, 20), k, (0.5, 1), solver="bisect")
    start, half = float(2 / (3 * begun**2)), (2 + np.sqrt(3)) / 3
    large, tiny = (0.1, 0.05, 0.01), (1e-12, 1e-24, 1e-48)
    first = [_ratio_where(p, 0.05) / p for p in large]
    scaled = [_ratio_where(p, 0.05) / p / np.log(1 / p) for p in tiny]
    middle = _ratio_where(tiny[-1], 0.5) / tiny[-1] / np.log(1 / tiny[-1])
    # Corrections fall like 1/log(1/p), up to logarithms of it: the last two, extrapolated.
    limit = 2 * scaled[2] - scaled[1]
    before = max(1 - float(optimum(p, p / 10).loss / rug.zero_ratio_loss(p)) for p in (*large, *tiny))
    around = max(max(value, 1 / value) for value in first)
    return Evidence(
        "Noise of standard deviation sigma, sigma^2 -> p/(3r), must stay below a threshold k except with "
        "probability p: k^2 = 2 sigma^2 log(1/p), which is r = 2/(3 k^2) p log(1/p). The best output a "
        "ReLU(u - k) then takes the share (1 - k)(2 + k)^2/4 off the loss at ratio 0: nothing above k = 1. "
        f"Where a twentieth is lost, r/(p log 1/p) is {_list(scaled, '.3f')} for p = 1e-12, 1e-24, 1e-48, "
        f"which tends to {limit:.3f} (derived: {start:.3f}).",
        [
            numeric("printed", "a twentieth lost, p = 0.01 to 0.1: r/p or p/r, the larger", around, "<=", 3),
            numeric("printed", "the same, p = 1e-48: r/p", scaled[-1] * np.log(1 / tiny[-1]), "<=", 3),
            numeric("printed", "largest share lost at r = p/10, p = 1e-48 to 0.1", before, "<=", 0.05),
        ],
        corrections=[
            says(
                f"at p = 0.1, 0.05, 0.01 a twentieth of the loss is lost at r/p = {_list(first, '.2g')}, "
                "which rises without limit as p falls",
                numeric("corrected", "r/p at p = 0.01 over that at 0.1", first[2] / first[0], ">", 1),
            ),
            says(
                "as p -> 0 the drop starts at r = (2/3) p log(1/p)",
                symbolic("corrected", "share lost, less (1 - k)(2 + k)^2/4", 3 * product**2 / square - lost),
                symbolic("corrected", "it starts from 0 at k = 1", lost.subs(k, 1)),
                numeric(
                    "corrected", "r/(p log 1/p), extrapolated, less derived", abs(limit - start), "<=", 0.01
                ),
            ),
            says(
                "half of the loss is lost at (2 + sqrt 3)/3 p log(1/p)",
                symbolic(
                    "corrected",
                    "share lost at k = sqrt 3 - 1, less 1/2",
                    lost.subs(k, sympy.sqrt(3) - 1) - sympy.S.Half,
                ),
                numeric(
                    "corrected", "p = 1e-48 over the constant, less 1", abs(middle / half - 1), "<=", 0.03
                ),
            ),
        ],
    )


@claim(
    "C27",
    SOURCE,
    "Fig. 2",
    "trained models and the Persian rug have essentially the same loss, far below the linear model",
    needs=["codes.symmetry"],
)
def c27(quick: bool, ds: xr.Dataset) -> Evidence:
    models = _Models(ds, levels=1)
    name, steps = "loss / rug - 1", models.names[CONVERGED]
    early, late = (models.level("excess", end) for end in ENDS)
    low, others, pairs = early[::3], [*early[1::3], *early[2::3]], late[2::3]
    quarter = [(ds["p"].values == p) & np.isclose(ds["ratio"], 0.25) for p in SIZES]
    copies = [
        Family(ALARM, 2 * len(quarter)).of(above_copies, ds.sel(end=CONVERGED).isel(model=one))
        for one in quarter
    ]
    # Trained after this finding was frozen, where one of means over seeds had not been confirmed.
    new = quarter[2] & ((ds["n_features"].values < 512) | (ds["seed"].values >= 6))
    again = above_copies(ds.sel(end=CONVERGED).isel(model=new))
    at = models.cells["loss"].sel(end=CONVERGED, p=0.1, ratio=0.25)
    fresh = [at.sel(n_features=n).where(at["seed"] >= 3).dropna("seed").values for n in (128, 512)]
    affine = (ds["loss"].sel(end=CONVERGED) / ds["linear_loss"]).values[ds["n_features"].values == 512]
    return Evidence(
        f"Models of 512 features (256 at p = 0.01) at the stopping rule of the source and after {steps} "
        "more; the source went to 8192 features. Loss over the rug's, less 1, at p = 0.01, 0.05, 0.1 and "
        f"ratios 0.12, 0.25, 0.5 of each: {_list(early, '.1%')}; after {steps}: {_list(late, '.1%')}. Even "
        "pairs have p^2/6 per feature at ratio 1/2, uneven ones, with entries -3 and -1/3, 25 p^2/162. "
        "Copies of a small model side by side have its loss per feature, so that a large model with a higher "
        "loss is not optimal. This is judged by single models, each loss within the error of its "
        f"measurement: the best of 512 features is above copies of the best other by {_list(copies, '.1%')} "
        f"at ratio 0.25, p = 0.01, 0.05, 0.1; at p = 0.1 that of new seeds alone by {again:.1%}. An "
        "earlier finding on means over seeds 3 to 5 was not confirmed there; this one was worded after that, "
        "and frozen before the new seeds were trained. Means over seeds from 3 on: "
        f"{mean(fresh[0]):.4g} for 128 features, {mean(fresh[1]):.4g} for 512.",
        [
            *models.print(name, models.level, "excess", SAME),
            *(
                allowed("printed", f"{name}, {end}", one, ">=", -SAME, origin=ds)
                for end, one in ((STOP, early), (steps, late))
            ),
            experiment("printed", f"largest loss / affine optimum, {steps}", affine.max(), "<", 1, origin=ds),
        ],
        corrections=[
            says(
                "at the stopping rule they agree within a tenth at ratio 0.12 and p = 0.05, 0.1 "
                f"({_list([one.value for one in low[1:]], '+.1%')})",
                models.true(f"{name} there", low[1:], "<=", SAME),
                models.true(f"{name} there", low[1:], ">=", -SAME),
            ),
            says(
                f"at p = 0.01 ({low[0].value:+.1%}) and at ratios 0.25 and 0.5 models are below the rug",
                models.true(f"{name} there, stopping rule", [low[0], *others], "<", 0),
            ),
            says(
                f"after {steps} they are below it everywhere, at ratio 0.5 (pairs) by "
                f"{-max(one.value for one in pairs):.0%} and more",
                models.true(f"{name}, {steps}, all cells", late, "<", 0),
                models.true(f"{name}, {steps}, ratio 0.5", pairs, "<=", -0.75),
            ),
            says(
                "at ratio 0.25 those of 512 features are then above copies of smaller ones, by "
                f"{min(one.value for one in copies):.1%} and more, so not at the optimum",
                models.true("best loss over copies of the best other, less 1", copies, ">", 0),
            ),
        ],
    )


@claim(
    "C28",
    SOURCE,
    "Fig. 3",
    "p = 4.5 %, n_s = 512: diagonal 1.29 +- .01, bias -.18 +- .01 (no ratio is named)",
    needs=["codes.fig3", "codes.symmetry"],
)
def c28(quick: bool, found: xr.Dataset, ds: xr.Dataset) -> Evidence:
    steps = f"{found.attrs['steps']} steps"
    a, first, last = (
        found["diagonal_mean"].sel(end=CONVERGED),
        *(found["bias_mean"].sel(end=end) for end in ENDS),
    )
    best = optimum(0.045, np.linspace(0.05, 0.95, 181))
    highest = float(best.b[np.abs(best.a - 1.29) <= 0.01].max())
    other = by_cell(ds).sel(end=CONVERGED, p=0.05, ratio=0.25, n_features=512)
    apart = [float(other[name].std("seed", ddof=1)) for name in ("diagonal_mean", "bias_mean")]
    gap, low, high = float(np.abs(a - 1.29).max()), float(first.min()), float(last.max())
    return Evidence(
        f"One model of 512 features at each ratio, {_list(found['ratio'].values, '.2f')}: after {steps} "
        f"diagonals of {_list(a.values, '.3f')}, biases of {_list(last.values, '.3f')}, which are "
        f"{_list(first.values, '.3f')} at the stopping rule. (At p = 0.05, ratio 0.25 seeds differ by "
        f"standard deviations of {apart[0]:.1g} and {apart[1]:.1g}.) The print names neither ratio nor "
        "steps: no model that we trained can reject it.",
        [],
        corrections=[
            says(
                f"the diagonal is that of {steps} of further training at ratios 0.2 to 0.3, "
                f"{float(a.min()):.3f} to {float(a.max()):.3f}",
                experiment("order", f"{steps}: largest |diagonal - 1.29|", gap, "<=", 0.01, origin=found),
            ),
            says(
                f"the bias falls from {low:.2f} or more at the stopping rule to {high:.2f} or less, so that "
                "-.18 is passed on the way",
                experiment("order", "stopping rule: lowest bias", low, ">", -0.17, origin=found),
                experiment("order", f"{steps}: highest bias", high, "<", -0.19, origin=found),
            ),
            says(
                f"the rug's b is {highest:.2f} or less where its a is 1.29 +- .01",
                numeric("order", "rug's highest b where a = 1.29 +- .01", highest, "<", -0.26),
            ),
        ],
    )


@claim(
    "C29",
    SOURCE,
    "Figs. 4, 5",
    "the spread of diagonal and bias over features falls as n_s grows",
    needs=["codes.symmetry", "codes.pair"],
)
def c29(quick: bool, ds: xr.Dataset, pair: xr.Dataset) -> Evidence:
    models = _Models(ds, levels=3, changes=2)
    steps = models.names[CONVERGED]
    quarter = models.change("bias_sd", STOP, WHOLE[1::3])
    rising = models.change(
        "bias_sd", CONVERGED, [one for one in DOUBLINGS if one[0] > 0.01 and one[1] == 0.5]
    )
    dropped = models.level("diagonal_sd", CONVERGED, [(0.1, 0.12)])
    best = pair.isel(p=pair["p"].values > 0.01)
    diagonal, bias = best["diagonal_sd"].values, best["bias_sd"].values
    cells, steepest = [(float(p), 0.5) for p in best["p"].values], float(best["gradient_norm"].max())
    beside, excess = (
        [
            one.over(unit)
            for one, unit in zip(models.level(name, CONVERGED, cells), best[name].values, strict=True)
        ]
        for name in ("bias_sd", "loss")
    )
    return Evidence(
        "Doublings of n_s at which a spread is shown to fall, by a twentieth or more: of the diagonal "
        f"{models.tally('diagonal_sd')}; of the bias {models.tally('bias_sd')}; the others are undecided. "
        "The print says that symmetry emerges at all places of the diagram. At ratio 1/2 the best known "
        "model is made of pairs, copies of one model of two features and one neuron. Its exact loss was "
        f"minimised from many starts; trained pairs of 512 features have {_list(excess, '.4f')} times that "
        "at p = 0.05, 0.1.",
        [
            *models.print("diagonal: factors of all doublings", models.change, "diagonal_sd", FALLS),
            *models.print("bias: factors of all doublings", models.change, "bias_sd", FALLS),
        ],
        corrections=[
            says(
                "in pairs (ratio 1/2) the optimum has the same spreads at every n_s, at p = 0.05 and 0.1 "
                f"{_list(diagonal, '.2g')} of the diagonal and {_list(bias, '.1g')} of the bias",
                numeric("corrected", "pairs: gradient at the optimum", steepest, "<=", 1e-12),
                numeric("corrected", "pairs: smallest spread of the diagonal", diagonal.min(), ">=", 1e-3),
            ),
            says(
                f"after {steps} the bias's spread in pairs of 512 features is "
                f"{min(one.value for one in beside):.0f} times that and more, and rises with n_s: training "
                "is not finished there",
                models.true(f"bias's spread over the optimum's, {steps}", beside, ">", 2),
                models.true(f"its factors of doublings there, {steps}", rising, ">", 1),
            ),
            says(
                "at ratio 0.25 and the stopping rule the bias's spread falls, from 128 features to the "
                f"largest by factors of {_span(quarter)}",
                models.true("bias at ratio 0.25, stopping rule: factors", quarter, "<=", FALLS),
            ),
            says(
                f"the diagonal's is still {dropped[0].value:.2f} at 512 features where features are dropped "
                f"(p = 0.1, ratio 0.12, {steps})",
                models.true("diagonal there", dropped, ">", 0.4),
            ),
        ],
    )


@claim(
    "C30",
    SOURCE,
    "Fig. 6",
    "the variance over rows of the row variances vanishes as n_s grows, and all noise variables have the "
    "same variance",
    needs=["codes.symmetry"],
)
def c30(quick: bool, ds: xr.Dataset) -> Evidence:
    import sympy

    models = _Models(ds, levels=1, changes=2)
    name, text = "row_variance_spread", "s.d. over mean of row variances"
    c, n = sympy.symbols("c n", positive=True)
    # The row variances of a pair: one entry among n - 1, about their mean.
    rows = [entry**2 / (n - 1) - (entry / (n - 1)) ** 2 for entry in (c, 1 / c)]
    half, spread = (rows[0] - rows[1]) / 2, (c**2 - c**-2) / (c**2 + c**-2)
    least, quarter = models.least(name, text, 0.9), models.change(name, STOP, WHOLE[1::3])
    return Evidence(
        "Row variances fall like 1/n_s, so that the variance over them (caption) vanishes like 1/n_s^2 for "
        "any code. Whether noise variables have the same one, and rows the same norm (text), is said by its "
        f"root over their mean: after {models.names[CONVERGED]}, at 512 features, p = 0.05 and 0.1, ratios "
        f"0.12, 0.25, 0.5 of each: {_list(models.level(name, CONVERGED, CELLS[3:]), '.2g')}. Uneven pairs of "
        f"entries -3 and -1/3 have {float(spread.subs(c, 3)):.3f}. It falls at {models.tally(name)} "
        "of the doublings.",
        [
            *models.print(
                "variance: factors of all doublings", models.change, "row_variance_variance", FALLS
            ),
            *models.print(f"{text}, largest n_s", models.level, name, SAME),
        ],
        corrections=[
            says(
                "the variance vanishes like 1/n_s^2 whatever the code; relative to the mean it does not in "
                "pairs, where the two rows have entries c and 1/c: s.d. over mean stays at (c^2 - c^-2)/(c^2 "
                "+ c^-2)",
                symbolic("corrected", "s.d. over mean in pairs, less that", 2 * half / sum(rows) - spread),
                symbolic(
                    "corrected",
                    "n^2 times the variance in pairs, in the limit",
                    sympy.limit(n**2 * half**2, n, sympy.oo) - (c**2 - c**-2) ** 2 / 4,
                ),
            ),
            says(f"it is {least.value:.2f} or more in every trained model at ratio 0.5", least),
            says(
                "it falls at ratio 0.25 and the stopping rule, from 128 features to the largest by factors "
                f"of {_span(quarter)}",
                models.true(f"{text} at ratio 0.25, stopping rule: factors", quarter, "<=", FALLS),
            ),
        ],
    )


@claim(
    "C31",
    SOURCE,
    "Eq. 3, Fig. 7",
    "the Lyapunov ratio Lambda falls as n_s grows, so that nu becomes Gaussian",
    needs=["codes.symmetry"],
)
def c31(quick: bool, ds: xr.Dataset) -> Evidence:
    import sympy

    models = _Models(ds, changes=1)
    name, steps, least = "lyapunov_max", models.names[CONVERGED], models.least("lyapunov_max", "Lambda", 0.9)
    w = sympy.Symbol("w", positive=True)
    eighth = [one for end in ENDS for one in models.change(name, end, WHOLE[::3])]
    again = models.change(name, CONVERGED, [(0.1, 0.12, 256, 512), (0.05, 0.25, 256, 512)])
    return Evidence(
        f"Lambda is shown to fall, by a twentieth or more, at {models.tally(name)} of the doublings of n_s; "
        f"the others are undecided. Gaussian rows of 512 features have {np.sqrt(8 / np.pi / 512):.3f}; a row "
        "with one entry has 1. The family counts limits that decide: with the undecided ones counted too, "
        "the fall at ratio 0.12 is not shown, so narrowly does it pass.",
        models.print("Lambda: factors of all doublings", models.change, name, FALLS),
        corrections=[
            says(
                f"in pairs (n_d/n_s = 0.5, {steps}) it is 1 at every n_s: {least.value:.4f} or more in all "
                "models",
                symbolic(
                    "corrected", "Lambda of one entry, less 1", w**3 / (w**2) ** sympy.Rational(3, 2) - 1
                ),
                least,
            ),
            says(
                "at n_d/n_s = 0.12 it falls from 128 features to the largest, at both ends, by factors of "
                f"{_span(eighth)}",
                models.true("Lambda at ratio 0.12, both ends: factors", eighth, "<=", FALLS),
            ),
            says(
                f"but from 256 to 512 features, {steps}, it does not at (p, n_d/n_s) = (0.1, 0.12) and "
                f"(0.05, 0.25): factors of {_list([one.value for one in again], '.2f')}",
                models.true(f"Lambda there, 256 to 512 features, {steps}: factors", again, ">", FALLS),
            ),
        ],
    )


STRUCTURE: tuple[Claim, ...] = (c26, c27, c28, c29, c30, c31)

"""Capacities (Scherlis et al. 2022) and the width law (Liu et al. 2025), U1-U5.

What the least loss does is decided by a bound that holds for every model, and a code whose loss is exact;
what training does, by stored runs.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
import xarray as xr

from ...theory.arguments import FloatArray
from ...theory.derivation import sp
from ...theory.features import Features
from ...theory.unequal import capacities, loss_bound, power_law, priority_loss
from ..statistics import Family, mean
from ..studies.liu import (
    FLATTER,
    LOWER,
    NEAR_ONE,
    NEAR_SUM,
    NEAR_SUM_UNBIASED,
    UNHEARD,
    UNHEARD_UNBIASED,
    last_exponent,
    printed_sum,
)
from ..unequal.scaling import exponents
from ..unequal.width import normal_losses
from .ledger import (
    Evidence,
    Finding,
    after,
    bound,
    claim,
    derived,
    evidence,
    experiment,
    numeric,
    rounding,
    runs,
    says,
    shown,
    symbolic,
)

LIU, SCHERLIS = "liu2025", "scherlis2022"
SIZE, LOW, HIGH = 1000, 10, 100  # n and the range of m of the source's runs
FRESH = 4000  # another n, which was not computed before U4 was worded


class _Ends(NamedTuple):
    """Between two widths: exponents of the bound, of the code, the least of a loss between; their ratio."""

    bound: float
    code: float
    least: float
    ratio: float


@cache
def _ends(alpha: float, n: int = SIZE) -> _Ends:
    """Compare the widths n/100 and n/10, at n = 1000 the ends of the source's range of m."""
    law, widths = power_law(alpha, n, 1.0, scale=2.0), (n // 100, n // 10)
    below, above = (np.array([float(loss(law, m)) for m in widths]) for loss in (loss_bound, priority_loss))
    own, code, least = np.log10([below[0] / below[1], above[0] / above[1], below[0] / above[1]])
    return _Ends(float(own), float(code), float(least), float((above / below).max()))


@claim("U1", SCHERLIS, "capacity")
def u1(quick: bool) -> Evidence:
    """sum_i C_i <= D, where C_i = (W_i.W_i)^2/sum_j (W_i.W_j)^2"""
    rng = np.random.default_rng(1)
    over, least = -np.inf, np.inf
    for _ in range(100 if quick else 2000):
        n = int(rng.integers(2, 12))
        m = int(rng.integers(1, n + 1))
        W = rng.standard_t(2, size=(n, m)) * np.exp(3 * rng.standard_normal((n, 1)))
        # At unit variances the capacity of a tied model's output is C_i.
        total = float(np.sum(capacities(W @ W.T, Features(n, 0.5, scale=(5 / 48) ** -0.5))))
        over, least = max(over, total - m), min(least, total)
    return evidence(
        "C_i is the squared cosine of row i of W W' and the unit vector e_i, so at most |P e_i|^2 for the "
        "projection P on the rows, whose trace is the rank. With variances v_j the same holds of M "
        "diag(v)^(1/2) for any M of rank D, tied or not. The sum is at least 1, as (W_i.W_j)^2 <= |W_i|^2 "
        "|W_j|^2.",
        bound("largest sum less D, random encodings of very different lengths", over, "<=", rounding(1e-9)),
        bound("least sum", least, ">=", rounding(1 - 1e-9)),
    )


def _exchanged(law: Features, n_hidden: int) -> FloatArray:
    """Return capacities of which no exchange between two features lowers the loss; no slope is used."""
    capacity, step = np.full(law.n_features, n_hidden / law.n_features), 0.125
    while step > 1e-5:
        own, more, less = (normal_losses(capacity + move, law) for move in (0.0, step, -step))
        gain = np.where(capacity + step <= 1, own - more, -np.inf)
        taker = int(gain.argmax())
        cost = np.where(capacity >= step, less - own, np.inf)
        cost[taker] = np.inf
        giver = int(cost.argmin())
        if gain[taker] > cost[giver]:
            capacity[[taker, giver]] += step, -step
        else:
            step /= 2
    return capacity


@claim("U2", SCHERLIS, "allocation", needs=["unequal.fresh"])
def u2(quick: bool, ds: xr.Dataset) -> Evidence:
    """L = sum_i L_i(C_i), sum_i C_i = D: at the least L all features with 0 < C_i < 1 have one -dL_i/dC_i"""
    law = power_law(1.0, 32, 1.0, scale=2.0)
    best = _exchanged(law, 8)
    inside = (best > 0) & (best < 0.999)
    step = 1e-4 * best
    less, more = (normal_losses(capacity, law) for capacity in (best - step, best + step))
    slopes = ((less - more) / (2 * step))[inside]
    off = float(np.max(np.abs(slopes / slopes.mean() - 1)))
    free = ds.sel(tied=0, alpha=1.0, n_hidden=[10, 32]).isel(weight_decay=0, steps=-1)
    family = Family(0.01, 2)
    shape = [family.of(mean, (free["loss"] / free["normal"]).sel(n_hidden=m).values) for m in (10, 32)]
    return evidence(
        "Kuhn and Tucker. The loss of a ReLU model is such a sum where interference is normal, as with many "
        "features on: the slopes at a split found by exchanges alone are equal. With few on the loss is "
        "no function of capacities: "
        f"trained models lose {shape[0].value:.2f} (m = 10) and {shape[1].value:.2f} (m = 32) times what "
        "normal interference of their capacities would. On two seeds the alarm rate had been raised to "
        f"0.02 after a look, and four more were seen; these are {free.sizes['seed']} others, at 0.01.",
        runs("trained models at each m", free.sizes["seed"], origin=ds),
        numeric("largest |slope / their mean - 1|, alpha = 1, m = 8 of 32", off, "<=", after(0.01)),
        says(
            "with few features on at a time the loss is no function of the capacities",
            shown("trained loss over that of normal interference", shape, "<", derived(1), origin=ds),
        ),
    )


@claim("U3", LIU, "weak superposition", needs=["unequal.decay", "unequal.weak", "unequal.weak_unbiased"])
def u3(quick: bool, ds: xr.Dataset, weak: xr.Dataset, even: xr.Dataset) -> Evidence:
    """L ~ <v^2> sum_{i > phi n} p_i (phi n features have |W_i| > 1/2); alpha_m = alpha - 1 at phi n = m"""
    alpha = 1.5
    p = np.arange(1.0, SIZE + 1) ** -alpha
    left = [p[m:].sum() for m in (LOW, HIGH)]
    found = float(np.log(left[0] / left[1]) / np.log(HIGH / LOW))
    m, n, a = sp.symbols("m n alpha", positive=True)
    tail = (m ** (1 - a) - n ** (1 - a)) / (a - 1)
    local = (a - 1) / (1 - (m / n) ** (a - 1))
    rest = sp.simplify(-m * sp.diff(tail, m) / tail - local)
    ends = [(LOW**-0.5 - SIZE**-0.5), (HIGH**-0.5 - SIZE**-0.5)]
    predicted = float(np.log(ends[0] / ends[1]) / np.log(HIGH / LOW))
    at = ds.sel(alpha=2.0, weight_decay=1.0, tied=1).isel(steps=-1).sel(n_hidden=[10, 32, 100])
    ratio = (at["left_out"] / at["loss"]).values
    off = abs(ratio - 1).max()
    over, also = (one["loss"].values / printed_sum(one) for one in (weak.squeeze(), even.squeeze()))
    short = abs(weak["left_out"] / weak["loss"] - 1).values.max()
    return evidence(
        "Models trained with decay 1 at alpha = 2 lose what their short rows leave out, times "
        f"{ratio.min():.2f} to {ratio.max():.2f} (m = 10, 32, 100 of 128). At the source's settings (n = "
        f"{SIZE}, alpha = {weak['alpha'].item():g}, m = 10 and 32) the loss is {over[0]:.2f} and "
        f"{over[1]:.2f} times the printed sum: long are not the rows of the most frequent features, but of "
        "those whose biases began high. If all begin at 0, in rows of length 1, it is "
        f"{also[0]:.2f} and {also[1]:.2f} times that. The exponent of the sum itself is "
        f"alpha - 1 as n grows without limit, which the print may mean: at n = {SIZE}, m = {LOW} to {HIGH} "
        f"and alpha = {alpha:g} it is {found:.2f}. There is one trained model of each kind and size, which "
        "settles nothing.",
        _seeds(ds, weak, even),
        NEAR_SUM.finding(abs(over - 1), origin=weak),
        says(
            "lost are the features whose rows are short, and these are the less frequent ones if biases "
            "begin at 0; the local exponent of the sum is (alpha - 1)/(1 - (m/n)^(alpha - 1))",
            experiment("largest |left out / loss - 1|", off, "<=", after(0.1), origin=ds),
            experiment("the same at the source's settings", short, "<=", after(0.1), origin=weak),
            NEAR_SUM_UNBIASED.finding(abs(also - 1), origin=even),
            symbolic("local exponent of the integral of x^-alpha from m to n", rest),
            numeric("|exponent by it - that of the sum|", abs(predicted - found), "<=", after(0.05)),
        ),
    )


@claim(
    "U4",
    LIU,
    "abstract",
    needs=["unequal.public", "unequal.published", "unequal.wide", "unequal.unbiased"],
)
def u4(
    quick: bool, aligned: xr.Dataset, published: xr.Dataset, wide: xr.Dataset, unbiased: xr.Dataset
) -> Evidence:
    """strong superposition: L ~ 1/m across a broad class of frequencies"""
    alike, falling, steep, fresh = _ends(0.0), _ends(1.0), _ends(2.0), _ends(1.0, FRESH)
    alphas, ms = published["alpha"].values, published["n_hidden"].values
    ours, run = (one.squeeze().transpose("n_hidden", "alpha") for one in (aligned, published))
    even = unbiased.squeeze()
    drawn, own = (exponents(one["loss"].values, ms) for one in (run, ours))
    share, left = (one["unheard"] / one["loss"] for one in (run, even))
    lower, flat = run["lower"].isel(n_hidden=slice(1, None)), last_exponent(published, wide)
    proved = np.floor(100.0 * steep.least) / 100.0  # "or more" holds of what is rounded down
    return evidence(
        f"n = {SIZE}, one feature on on average, m = {LOW} to {HIGH}. The print is about trained models, "
        "whose weights are tied, so these alone judge it; with one model of each kind and size they settle "
        "nothing. What is proved is about all models ReLU(Mx + b) of rank m, with decoder and encoder free, "
        "and a tied model may not come near. Alike features: the proved "
        f"bound falls with the exponent {alike.bound:.2f}, a code above it with {alike.code:.2f}. alpha = 1: "
        f"{falling.bound:.2f} and {falling.code:.2f}, at n = {FRESH} {fresh.bound:.2f} and "
        f"{fresh.code:.2f}. alpha = 2: whatever the free model, the loss falls with {proved:.2f} or more "
        "between the two. Losses of models trained by the source's public recipe fall with "
        f"{_listed(drawn)} at "
        f"alpha = {', '.join(f'{a:g}' for a in alphas)}, and with {_listed(own)} from aligned weights and "
        "biases of 0. The code's first biases have a variance of 1: outputs with low ones fall silent, and "
        f"lose {float(share.min()):.0%} to {float(share.max()):.0%} of the loss; if biases begin at 0, "
        f"{float(left.max()):.1%} at most (alpha = 1, m = 32 and 100). From m = {HIGH} to "
        f"{int(wide['n_hidden'][0])}, alpha = 1, the exponent is {flat:.2f}.",
        _seeds(aligned, published, wide, unbiased),
        NEAR_ONE.finding(abs(drawn - 1), origin=published),
        says(
            "of models with a free decoder the least loss of alike features falls as 1/m while m << n, "
            f"within a factor that is proved; at alpha = 2 (n = {SIZE}, m = {LOW} to {HIGH}) it falls with "
            f"an exponent of {proved:.2f} or more",
            numeric("|exponent of the bound - 1|, alike", abs(alike.bound - 1), "<=", after(0.1)),
            numeric("|exponent of the code - 1|, alike", abs(alike.code - 1), "<=", after(0.1)),
            numeric("code over bound at both ends", alike.ratio, "<=", after(4)),
            numeric("least exponent of the least loss, alpha = 2", steep.least, ">=", after(2.0)),
        ),
        says(
            "most of what models lose that are trained as published is lost at outputs that low first biases "
            "silence, and their loss falls more slowly beyond m = 100",
            LOWER.finding(lower, origin=run),
            UNHEARD.finding(share, origin=run),
            UNHEARD_UNBIASED.finding(left, origin=even),
            FLATTER.finding(flat, origin=wide),
        ),
    )


def _listed(numbers: FloatArray) -> str:
    """Return numbers as text."""
    return ", ".join(f"{one:.2f}" for one in numbers)


def _seeds(*trained: xr.Dataset) -> Finding:
    """Return the finding that there are seeds enough behind each number of these runs."""
    least = min(trained, key=lambda ds: ds.sizes["seed"])
    return runs("least number of seeds behind a trained number", least.sizes["seed"], origin=trained)


@claim("U5", LIU, "strong superposition", needs=["unequal.published"])
def u5(quick: bool, published: xr.Dataset) -> Evidence:
    """strong superposition, steep frequencies: alpha_m ~ 2(alpha - 1)"""
    alpha = 2.0
    steep = _ends(alpha)
    gap = max(abs(e - (2 * alpha - 1)) for e in (steep.bound, steep.code))
    falls = published.sel(alpha=[1.5]).squeeze(drop=True)["loss"].values[:, None]
    trained = float(exponents(falls, published["n_hidden"].values)[0])
    return evidence(
        "The print is about trained models, whose weights are tied. As published we trained one with "
        f"alpha > 1: at alpha = 3/2 its loss falls with the exponent {trained:.2f}, where the print has 1; "
        "none at alpha = 2. One model settles nothing. What is proved is about models with a free decoder: "
        f"at alpha = 2 the bound and the code of U4 fall with the exponents {steep.bound:.2f} and "
        f"{steep.code:.2f}. When the first features, in proportion to m, are kept exactly, the others cost "
        "what their pairs do: the square of the sum of their p, over m. A tied model cannot have the rows "
        "that this code needs.",
        _seeds(published),
        experiment(
            "|exponent of the model trained as published - 2(alpha - 1)|, alpha = 3/2",
            abs(trained - 1),
            "<=",
            after(NEAR_ONE.limit),
            origin=published,
        ),
        says(
            "the least loss of models with a free decoder falls as m^(1 - 2 alpha), as its bound and a code "
            "do at alpha = 2",
            numeric("largest |exponent of bound, of code - 3|, alpha = 2", gap, "<=", after(0.15)),
            numeric("least exponent of the least loss, alpha = 2", steep.least, ">", derived(2)),
        ),
    )

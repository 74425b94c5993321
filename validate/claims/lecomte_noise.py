"""Lecomte et al. (2024), L31 and L34-L36: what hidden noise does in training, and by which mechanism."""

import itertools
import math

import numpy as np
import numpy.typing as npt
from scipy import stats

from ...solvers import noise as solvers
from ...theory import noise as theory
from ..noise import judged, power, run_drop, run_fig6, run_mechanism, run_stuck
from ..noise.mechanism import MECHANISM
from ..noise.runs import starts
from .lecomte_collisions import ALPHA, limit
from .ledger import Claim, Evidence, claim, experiment, numeric

__all__ = ["NOISE"]

SOURCE = "lecomte2024"
SIZE = (8, 16)  # features and hidden neurons of the authors' code
RATE = 0.02  # its learning rate
NEAR = 0.1  # deviation of a power that growth of a few hundredths brings about by itself

Array = npt.NDArray[np.float64]


def _text(found: tuple[float, float, float]) -> str:
    return f"{found[0]:.3g} [{found[1]:.3g}, {found[2]:.3g}]"


@claim(
    "L31",
    SOURCE,
    "3.2",
    "an implicit regulariser 16 eta^2 sigma^4 |W|_4^4 (mu4/sigma^4 - 3): negative excess kurtosis drives "
    "sparsity, and this is what Figs. 4-6 show",
    "the loss after a step has this term, but encodings do not descend it: one alone gets flatter under "
    "negative excess kurtosis. Figs. 4-6 show a first-order effect: noise pushes overlaps of encodings "
    "below zero, where negative excess kurtosis sparsifies",
)
def l31(quick: bool) -> Evidence:
    ds = run_mechanism(*SIZE, runs=12 if quick else 100, **_few("quick" if quick else "full"))
    found = judged(ds, 1 - ALPHA / 4)
    rate = {"learning_rate": ds.attrs["source_rate"]}
    measured, printed = (float(ds[name].sel(rate).mean()) for name in ("by_rate", "regulariser"))
    lone = (ds["lone"].values, float(ds["lone_predicted"]))
    scatter = abs(lone[0].mean() - lone[1]) / stats.sem(lone[0])
    sides = ds["by_kurtosis"] - ds["by_normal"]
    below, above = (sides.sel(excess_kurtosis=k).values for k in (-1.0, 3.0))
    return Evidence(
        f"At n, m = {SIZE}, sigma = {ds.attrs['noise_std']:g} and a fixed learning_rate * steps growth of "
        f"|W|_4^4 goes with the power {_text(found['power'])} of the learning rate (first order: 0, the "
        f"regulariser: 1). The share of first order at the source's rate is {_text(found['share'])}; "
        f"encodings that descended the printed regulariser would have had {printed / measured:.1%} of the "
        f"growth. One encoding alone, without interference, changes by {_text(found['lone'])}; theory's "
        f"second order says {lone[1]:.3g}. Through the kurtosis growth changes sign at "
        f"{_text(found['crossing'])}. Limits are at {1 - ALPHA / 4:.3%}.",
        [
            experiment(
                "printed", "upper limit of the power of the learning rate", found["power"][2], ">=", 1.0
            ),
            experiment(
                "printed", "upper limit of the growth of one encoding alone", found["lone"][2], ">", 0.0
            ),
            experiment("corrected", "lower limit of the share of first order", found["share"][1], ">=", 0.9),
            experiment(
                "corrected", "upper limit of the growth of one encoding alone", found["lone"][2], "<", 0.0
            ),
            experiment(
                "corrected",
                f"lone growth less theory's, in standard errors, {lone[0].size} encodings",
                float(scatter),
                "<=",
                float(stats.norm.isf(ALPHA / 8)),
            ),
            experiment("corrected", "lower limit of growth at kurtosis -1", limit(below, -1, 4), ">", 0.0),
            experiment("corrected", "upper limit of growth at kurtosis 3", limit(above, 1, 4), "<", 0.0),
        ],
        {
            "power of the learning rate": found["power"][0],
            "share of first order": found["share"][0],
            "printed regulariser over measured growth": printed / measured,
            "growth of one encoding alone": found["lone"][0],
            "the same, predicted": lone[1],
            "kurtosis where growth changes sign": found["crossing"][0],
        },
    )


def _few(profile: str) -> dict[str, object]:
    sizes = {key: value for key, value in MECHANISM[profile].items() if key != "runs"}
    return sizes | {"excess_kurtosis": (-1.0, -0.5, 0.0, 0.5, 3.0), "averaged_runs": 0}


def _shapes(W: Array) -> Array:
    """Return |W_i|_4^4/|W_i|_2^4, averaged over the encodings of each run."""
    return np.asarray((np.sum(W**4, axis=-1) / np.sum(W**2, axis=-1) ** 2).mean(axis=-1))


def _growth(W0: Array, std: npt.ArrayLike, steps: int, seed: int, noise: str = "bipolar") -> Array:
    still = solvers.descend(W0, noise, 0.0, RATE, steps, seed).W
    return _shapes(solvers.descend(W0, noise, std, RATE, steps, seed).W) - _shapes(still)


@claim(
    "L34",
    SOURCE,
    "4, Fig. 4",
    "bipolar noise sparsifies, faster for larger sigma; normal noise does not",
)
def l34(quick: bool) -> Evidence:
    stds, runs = (0.07, 0.1, 0.15), 12 if quick else 100
    n, m = SIZE
    W0 = starts(n, m, runs, 34)
    early = [_growth(W0, std, 10_000, k) for k, std in enumerate(stds)]
    late = [_growth(W0, std, 30_000, 10 + k) for k, std in enumerate(stds)]
    normal = [
        _shapes(solvers.descend(W0, "normal", std, RATE, 30_000, 20 + k).W) for k, std in enumerate(stds)
    ]
    weak = _growth(W0, 0.03, 30_000, 30)
    rise = min(limit(values, -1, 8) for values in late)
    faster = min(limit(b - a, -1, 8) for a, b in itertools.pairwise(early))
    gaps = [abs(values.mean() - 3 / (m + 2)) / stats.sem(values) for values in normal]
    bend = float(stats.t.isf(ALPHA / 16, runs - 1))
    return Evidence(
        f"At n, m = {SIZE} and sigma = {stds}, as in the authors' code, {runs} runs each. Under normal noise "
        "no axis is special, so random first weights keep the mean 3/(m+2) of |W|_4^4/|W|_2^4 of random "
        "directions at all times, which is tested. That bipolar noise sparsifies has a lower limit: weak "
        "noise falls silent once overlaps are below its reach, and then nothing more happens.",
        [
            experiment("printed", "least lower limit of growth under bipolar noise", rise, ">", 0.0),
            experiment("printed", "least lower limit of what larger sigma adds, early", faster, ">", 0.0),
            experiment(
                "printed", "normal noise: largest gap to 3/(m+2) in standard errors", max(gaps), "<=", bend
            ),
        ],
        {
            **{f"growth at sigma = {std:g}": float(v.mean()) for std, v in zip(stds, late, strict=True)},
            "growth at sigma = 0.03": float(weak.mean()),
            "its standard error": float(stats.sem(weak)),
        },
    )


@claim(
    "L35",
    SOURCE,
    "4, Fig. 5",
    "final |W|_4^4 against lambda and against sigma: no effect when small, growth (with the 4th power of "
    "sigma, linear in lambda), then a drop",
    "growth is linear in lambda; in sigma it sets in at about sqrt(pi/(2m))/(n-1), below which bounded "
    "noise has no effect, and its local power is about 7 above. The drop is of lengths, and at the "
    "source's learning rate, to second order, also of shapes",
)
def l35(quick: bool) -> Evidence:
    n, m = SIZE
    runs, steps = (12, 20_000) if quick else (100, 100_000)
    lams, stds = np.array([3e-5, 6e-5, 1e-4, 2e-4]), np.array([0.06, 0.07, 0.08, 0.09, 0.1])
    W0 = starts(n, m, runs, 35)

    def last(std: float, lam: float, seed: int) -> Array:
        made = solvers.descend(W0, "bipolar", std, RATE, steps, seed, lam=lam)
        return np.asarray(made.fourth_norm[:, 0].mean(axis=1))

    quiet = last(0.0, 0.0, 0)
    if not quick:  # at five times the steps a fifth of the force does the same
        lams = lams / 5
    by_lam = np.stack([last(0.0, float(x), 1) - quiet for x in lams], axis=1)
    by_std = np.stack([last(float(x), 0.0, 2 + k) - quiet for k, x in enumerate(stds)], axis=1)
    level = 1 - ALPHA / 4
    linear, steep = (
        power(lams, by_lam, level, bottom=0.0, top=0.06),
        power(stds, by_std, level, bottom=0.0, top=1.0),
    )
    peaks = [last(0.15, 0.0, 20) - last(0.5, 0.0, 21), last(0.0, 0.03, 0) - last(0.0, 1.4, 0)]
    drop = run_drop(n, m, (0.4,), (RATE, RATE / 4), runs=20 if quick else 50, seed=35)
    first, second = (drop[name].isel(noise_std=0).values for name in ("shape", "square"))
    lost, dropped = first[1] - first[0], min(limit(x, -1, 4) for x in peaks)
    onset = math.sqrt(math.pi / (2 * m)) / (n - 1)
    return Evidence(
        f"Growth goes as the power {_text(linear)} of lambda while it is small, and {_text(steep)} of sigma "
        f"between {stds[0]:g} and {stds[-1]:g}; limits are at {level:.3%}. At sigma = 0.4 the squared length "
        f"is {second[0].mean():.3f} and |W|_4^4/|W|_2^4 {first[0].mean():.3f} at the learning rate {RATE:g}; "
        f"at a quarter of it, at equal learning_rate * steps, {second[1].mean():.3f} and "
        f"{first[1].mean():.3f}.",
        [
            experiment("printed", "lower limit of the power of sigma", steep[1], "<=", 4.0),
            experiment("printed", "lower limit of the power of lambda", linear[1], ">=", 1 - NEAR),
            experiment("printed", "upper limit of the power of lambda", linear[2], "<=", 1 + NEAR),
            experiment("corrected", "lower limit of the power of lambda", linear[1], ">=", 1 - NEAR),
            experiment("corrected", "upper limit of the power of lambda", linear[2], "<=", 1 + NEAR),
            experiment("corrected", "lower limit of the power of sigma", steep[1], ">", 4.0),
            experiment("corrected", "least lower limit of the drops", dropped, ">", 0.0),
            experiment("corrected", "lower limit of the loss of shape", limit(lost, -1, 4), ">", 0.0),
        ],
        {"power of lambda": linear[0], "power of sigma": steep[0], "onset of sigma, predicted": onset},
    )


@claim(
    "L36",
    SOURCE,
    "4, Fig. 6",
    "at bipolar noise an encoding can get stuck, spread over neurons that other encodings own",
)
def l36(quick: bool) -> Evidence:
    runs = 12 if quick else 100
    ds = run_fig6(runs=8 if quick else 40, seed=36)
    often = run_stuck((8,), 16 if not quick else 8, 0.15, runs=runs, confidence=1 - 2 * ALPHA, seed=36)
    away = float(ds["slope"]) / float(ds["curvature"])
    n, m = SIZE
    W0 = starts(n, m, runs, 36)
    weak = _growth(W0, 0.01, 30_000, 36)
    silent = float(np.asarray(theory.silent_l1_norm(n, "bipolar", 0.01)))
    return Evidence(
        f"At sigma = {ds.attrs['noise_std']:g}, n, m = {SIZE}, {int(ds['found'])} of {ds.attrs['runs']} runs "
        "have a stuck encoding: below 1/2 in |W|_4^4/|W|_2^4, when most others are above. It rests at a "
        "strict minimum of the noise-averaged loss, in which it opposes all others at once, with a fourth "
        f"norm near 1/(n-1). The minimum is not a poor one: its loss is {float(ds['loss_spread']):.4f}, that "
        f"of n encodings near one-hot {float(ds['loss_sparse']):.4f}. The figure's sigma = 0.01 must be "
        f"another: there growth is {weak.mean():.1e} ± {stats.sem(weak):.1e}, as overlaps out of the noise's "
        f"reach are always found (mean |W|_1 below {silent:.3g}, and no unit encoding exceeds "
        f"{math.sqrt(m):.3g}).",
        [
            experiment(
                "printed", "lower limit of the share of runs with one", float(often["low"][0]), ">=", 0.25
            ),
            experiment("printed", "squared length on neurons that others own", float(ds["owned"]), ">=", 0.9),
            numeric(
                "printed", "least curvature of the averaged loss there", float(ds["curvature"]), ">", 0.0
            ),
            numeric("printed", "gradient over it, the distance left", away, "<=", 0.05),
            numeric("printed", "stuck after the averaged flow", float(ds["still_stuck"].sum()), ">=", 1.0),
        ],
        {
            "share of runs with a stuck encoding": float(often["frequency"][0]),
            "averaged loss there": float(ds["loss"]),
            "averaged loss of the symmetric minimum with one spread encoding": float(ds["loss_spread"]),
            "averaged loss of n encodings near one-hot": float(ds["loss_sparse"]),
            "fourth norm of the spread encoding": float(ds["spread_norm"]),
            "growth at sigma = 0.01": float(weak.mean()),
        },
    )


NOISE: tuple[Claim, ...] = (l31, l34, l35, l36)

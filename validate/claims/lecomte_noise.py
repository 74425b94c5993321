"""Lecomte et al. (2024), L31 and L34-L36: what hidden noise does in training, and by which mechanism."""

import itertools
import math

import numpy as np
import xarray as xr

from ...solvers.noise.averaged import gradient_for
from ...theory import noise as theory
from ...theory.arguments import FloatArray
from ...theory.derivation import sp
from ..noise.mechanism import judged
from ..noise.runs import WEAK_LAM, growth, growth_power, onset
from ..statistics import Family, jackknife, mean, share
from .lecomte_noise_theory import next_step_error
from .ledger import Evidence, allowed, between, claim, evidence, experiment, numeric, says, shown, symbolic

SOURCE = "lecomte2024"
ALARM = 1e-3  # of all limits of a row together
NEAR = 0.1  # deviation of a power that growth of a few hundredths brings about by itself
NOTHING = 0.02  # growth that a figure like Fig. 5 does not show
STEEP = (0.08, 0.09, 0.1)  # noise where growth is seen and not saturated after 20,000 steps


@claim("L31", SOURCE, "3.2", needs=["noise.mechanism"])
def l31(quick: bool, ds: xr.Dataset) -> Evidence:
    """an implicit regulariser 16 eta^2 sigma^4 |W|_4^4 (mu4/sigma^4 - 3): negative excess kurtosis drives
    sparsity, and this is what Figs. 4-6 show
    """
    family = Family(ALARM, limits=9)
    found, std, rate = judged(ds, family), ds.attrs["noise_std"], ds.attrs["source_rate"]
    at_source = ds[["by_rate", "regulariser"]].sel(learning_rate=rate).mean()
    part = float(at_source["regulariser"] / at_source["by_rate"])
    lone, predicted, sides = found["lone"], float(ds["lone_predicted"]), ds["by_kurtosis"] - ds["by_normal"]
    negative, positive = (family.of(mean, sides.sel(excess_kurtosis=kurtosis)) for kurtosis in (-1.0, 3.0))
    lone_gap = family.of(mean, ds["lone"].values - predicted)
    overlap, force = (family.of(mean, ds[name]) for name in ("overlap", "force"))
    eta, p4, mu2, mu4 = sp.symbols("eta p4 mu2 mu4")
    term = next_step_error().coeff(eta, 2).diff(p4) - 16 * (mu4 - 3 * mu2**2)
    return evidence(
        f"At n, m = {ds['n_features'].values[-1]}, {ds.attrs['n_hidden']}, sigma = {std:g} and a fixed "
        f"learning_rate * steps growth of |W|_4^4 goes with the power {found['power']} of the learning "
        "rate (first order: 0, the regulariser: 1). Encodings that descended the printed regulariser would "
        f"have had {part:.1%} of the growth. Through the kurtosis growth changes sign at "
        f"{found['crossing']}. There are 20 runs since 12 had shown the share of first order by a hair.",
        allowed("printed", "power of the learning rate", found["power"], ">=", 1.0),
        allowed("printed", "growth of one encoding alone", lone, ">=", 0.0),
        says("the loss after a step has this term", symbolic("corrected", "eta^2 |W|_4^4 in it", term)),
        says(
            "encodings do not descend it: one alone gets flatter under bipolar noise, by "
            f"{-lone.value:.2g} in |W|_4^4/|W|_2^4 where theory's second order has {-predicted:.2g}",
            shown("corrected", "growth of one encoding alone", lone, "<", 0.0),
            *between(allowed, "corrected", "the same less theory's", lone_gap, 0.0, 0.0),
        ),
        says(
            "what Figs. 4-6 show is of first order: extrapolated to learning rate 0 growth is "
            f"{found['share'].value:.2f} times that at the source's",
            shown("corrected", "share of first order", found["share"], ">=", 0.9),
        ),
        says(
            f"noise pushes overlaps of encodings further below zero, by {-overlap.value:.2g} sigma, where "
            "negative excess kurtosis sparsifies and positive does the opposite",
            shown("corrected", "W_i.W_k/(sigma |W_k|) beyond that without noise", overlap, "<", 0.0),
            shown("corrected", "rate at which kurtosis -2 sparsifies there, theory", force, ">", 0.0),
            shown("corrected", "growth at kurtosis -1 beyond normal noise's", negative, ">", 0.0),
            shown("corrected", "growth at kurtosis 3 beyond normal noise's", positive, "<", 0.0),
        ),
    )


@claim("L34", SOURCE, "4, Fig. 4", needs=["noise.fig4"])
def l34(quick: bool, ds: xr.Dataset) -> Evidence:
    """bipolar noise sparsifies, faster for larger sigma; normal noise does not"""
    m, stds = ds.attrs["n_hidden"], ds["noise_std"].values
    family = Family(ALARM, limits=4 * len(stds) - 1)
    bipolar, normal = (ds["shape"].sel(noise=name) for name in ("bipolar", "normal"))
    early = bipolar.swap_dims(step="t").sel(t=200.0, method="nearest").values
    rise = [family.of(mean, row) for row in (bipolar.isel(step=-1) - bipolar.isel(step=0)).values]
    faster = [family.of(mean, strong - weak) for weak, strong in itertools.pairwise(early)]
    gaps = [family.of(mean, row - 3 / (m + 2)) for row in normal.isel(step=-1).values]
    random = "normal noise: |W|_4^4/|W|_2^4 less 3/(m+2)"
    return evidence(
        f"At n, m = {ds.attrs['n_features']}, {m} and sigma = {', '.join(f'{std:g}' for std in stds)}, as "
        f"in the authors' code, {ds.sizes['run']} runs of {int(ds['step'][-1])} steps each: growth of "
        f"|W|_4^4/|W|_2^4 under bipolar noise {'; '.join(map(format, rise))}. Under normal noise no axis "
        "is special, so random first weights keep the mean 3/(m+2) of random directions at all times: "
        "differences from it are tested for 0, and against a tenth of the way to 1/2, which is sparse.",
        shown("printed", "growth under bipolar noise", rise, ">", 0.0),
        shown("printed", "what larger sigma adds, early", faster, ">", 0.0),
        shown("printed", random, gaps, "<=", (0.5 - 3 / (m + 2)) / 10),
        *between(allowed, "printed", random, gaps, 0.0, 0.0),
    )


def _simplexes(n: int, m: int, count: int) -> list[FloatArray]:
    """Return regular simplexes of unit encodings, turned at random; the same on every call."""
    rng = np.random.default_rng(35)
    corners = (np.eye(n) - 1 / n) / math.sqrt(1 - 1 / n)
    return [corners @ np.linalg.qr(rng.normal(size=(m, m)))[0][:n] for _ in range(count)]


def _rate(W: FloatArray, std: float) -> float:
    """Return how fast the noise-averaged loss raises |W|_4^4/|W|_2^4 of unit encodings: exact."""
    slope = gradient_for("bipolar", std, None, W.shape[1])(W)
    outward = W**3 - np.sum(W**4, axis=1, keepdims=True) * W
    return float(-4 * np.mean(np.sum(outward * slope, axis=1)))


@claim("L35", SOURCE, "4, Fig. 5", needs=["noise.fig5", "noise.drop"])
def l35(quick: bool, ds: xr.Dataset, drop: xr.Dataset) -> Evidence:
    """final |W|_4^4 against lambda and against sigma: no effect when small, growth (with the 4th power of
    sigma, linear in lambda), then a drop
    """
    family = Family(ALARM, limits=10)
    n, m, stds = ds.attrs["n_features"], ds.attrs["n_hidden"], ds["noise_std"].values
    steps = [int(count) for count in ds["step"].values[:2]]
    by_lam, by_noise = growth(ds.sel(lam=list(WEAK_LAM)), "by_lam", 1), growth(ds, "by_noise", 1)
    linear = family.of(jackknife, by_lam, growth_power(WEAK_LAM))
    steep = family.of(jackknife, growth(ds.sel(noise_std=list(STEEP)), "by_noise", 1), growth_power(STEEP))
    last = ds.isel(step=-1)
    drops = [
        family.of(mean, last["by_noise"].sel(noise_std=0.15) - last["by_noise"].sel(noise_std=0.5)),
        family.of(mean, last["by_lam"].sel(lam=0.03) - last["by_lam"].sel(lam=1.4)),
    ]
    weak = [family.of(mean, growth(ds, name, 1)[:, 0]) for name in ("by_lam", "by_noise")]
    both, where = np.stack([growth(ds, "by_noise", 0), by_noise], axis=1), onset(stds)
    moved = family.of(jackknife, both, lambda some: where(some[:, 0]) - where(some[:, 1]))
    onsets = [where(both[:, k]) for k in (0, 1)]
    silent = int(np.searchsorted(stds, ds.attrs["silent_std"])) - 1
    quiet = family.of(mean, by_noise[:, silent])
    at = drop.isel(noise_std=-1)
    shapes, squares = (at[name].isel(learning_rate=[0, -1]) for name in ("shape", "square"))
    lost = family.of(mean, shapes[1] - shapes[0])
    grid = np.array([0.05, 0.06, 0.07, 0.08, 0.09, 0.1, 0.12, 0.15]) * 7 / (n - 1)
    units = _simplexes(n, m, 20 if quick else 100)
    rates = [np.mean([_rate(unit, std) for unit in units]) for std in grid]
    local = np.diff(np.log(rates)) / np.diff(np.log(grid))
    turn = np.diff(local).max()
    reach = [1 / ((n - 1) * np.abs(unit).sum(axis=1).max()) for unit in units]
    still = max(abs(_rate(unit, 0.99 * std)) for unit, std in zip(units, reach, strict=True))
    return evidence(
        f"At n, m = {n}, {m}, {ds.sizes['run']} runs, after {steps[1]} steps growth goes as the power "
        f"{linear} of lambda from {WEAK_LAM[0]:g} to {WEAK_LAM[-1]:g}, and {steep} of sigma from "
        f"{STEEP[0]:g} to {STEEP[-1]:g}.",
        shown("printed", "growth at the weakest lambda and sigma", weak, "<=", NOTHING),
        *between(shown, "printed", "power of lambda", linear, 1 - NEAR, 1 + NEAR),
        allowed("printed", f"power of sigma after {steps[1]} steps", steep, "<=", 4.0),
        shown("printed", "drop of |W|_4^4 at strong noise and strong l1", drops, ">", 0.0),
        says(
            "in sigma growth has an onset and no power: at regular simplexes of unit encodings the "
            f"first-order rate goes with local powers from {local[0]:.2g} (sigma = {grid[0]:.2g} to "
            f"{grid[1]:.2g}) to {local[-1]:.2g} ({grid[-2]:.2g} to {grid[-1]:.2g})",
            numeric("corrected", "largest change of the local power along sigma", turn, "<", 0),
        ),
        says(
            "the onset moves with the number of steps: growth of a tenth is reached at sigma = "
            f"{onsets[0]:.2g} after {steps[0]}, at {onsets[1]:.2g} after {steps[1]}",
            shown("corrected", "the first less the second", moved, ">", 0.0),
        ),
        says(
            "bipolar noise leaves such simplexes alone whose |W_k|_1 are all below 1/((n-1) sigma), for "
            f"random directions at sigma below about sqrt(pi/(2m))/(n-1) = {ds.attrs['silent_std']:.2g}",
            numeric("corrected", "largest rate at simplexes just below, exact", still, "<=", 1e-12),
            shown("corrected", f"growth at sigma = {stds[silent]:g}", quiet, "<=", NOTHING),
        ),
        says(
            "the drop is of lengths and, to second order in the learning rate, also of shapes: at sigma = "
            f"{float(at['noise_std']):g}, |W|_2^2 and |W|_4^4/|W|_2^4 are {float(squares[0].mean()):.2g} "
            f"and {float(shapes[0].mean()):.2g} at the source's rate, {float(squares[1].mean()):.2g} and "
            f"{float(shapes[1].mean()):.2g} at {float(shapes['learning_rate'][1]):.2g}",
            shown("corrected", "loss of shape at the larger rate", lost, ">", 0.0),
        ),
    )


@claim("L36", SOURCE, "4, Fig. 6", needs=["noise.fig6", "noise.fig5"])
def l36(quick: bool, ds: xr.Dataset, weak: xr.Dataset) -> Evidence:
    """at sigma = 0.01 of bipolar noise most encodings become nearly one-hot, and one gets stuck, spread over
    neurons that the others own
    """
    family = Family(ALARM, limits=3)
    having = family.of(share, int(ds["found"]), ds.attrs["runs"])
    n, m, printed_std = weak.attrs["n_features"], weak.attrs["n_hidden"], 0.01
    at = weak.sel(noise_std=[printed_std]).isel(step=-1)
    last = family.of(mean, at["by_noise"].values[0])
    grown = family.of(mean, growth(weak.sel(noise_std=[printed_std]), "by_noise", -1)[:, 0])
    silent = float(theory.silent_l1_norm(n, "bipolar", printed_std))
    away = float(ds["slope"]) / float(ds["curvature"])
    still = int(ds["still_stuck"].sum())
    spread, sparse = float(ds["loss_spread"]), float(ds["loss_sparse"])
    return evidence(
        "An encoding counts as stuck if it is below 1/2 in |W|_4^4/|W|_2^4 when most others of its run are "
        f"above. At n, m = {n}, {m} and sigma = {printed_std:g} the mean of |W|_4^4 is {last} after "
        f"{int(at['step'])} steps: bipolar noise of this size leaves regular simplexes alone whose |W|_1 "
        f"are below {silent:.3g}, and no unit encoding on {m} neurons has more than {math.sqrt(m):.3g}.",
        allowed("printed", f"mean |W|_4^4 at sigma = {printed_std:g}", last, ">=", 0.5),
        says(
            f"the figure's sigma = {printed_std:g} must be another: with n = {n} it leaves simplexes of "
            f"any orientation alone on up to {math.floor(silent**2)} neurons, and changes |W|_4^4 by "
            f"{grown.value:.1g} on {m}",
            numeric("corrected", "largest |W|_1 of a unit encoding", math.sqrt(m), "<=", silent),
            shown("corrected", f"growth at sigma = {printed_std:g}", grown, "<=", NOTHING),
        ),
        says(
            f"at sigma = {ds.attrs['noise_std']:g} (authors' code) {int(ds['found'])} of "
            f"{ds.attrs['runs']} runs have a stuck encoding on neurons that others own",
            shown("corrected", "share of runs with one", having, ">=", 0.25),
            experiment("corrected", "squared length on others' neurons", float(ds["owned"]), ">=", 0.9),
        ),
        says(
            "in the first of them it rests at a strict minimum of the noise-averaged loss, in which it "
            f"opposes all others at once; its loss, {spread:.4f}, is below the {sparse:.4f} of encodings "
            "all near one-hot",
            numeric("corrected", "least curvature there", float(ds["curvature"]), ">", 0.0),
            numeric("corrected", "gradient over it, the distance left", away, "<=", 0.05),
            numeric("corrected", "stuck after the averaged flow", still, ">=", 1.0),
            numeric("corrected", "loss less that of all near one-hot", spread - sparse, "<", 0.0),
        ),
    )

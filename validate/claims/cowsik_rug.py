"""Cowsik et al. (2024), C11-C13, C32: the Persian rug, cut from a Hadamard matrix, and what is left open."""

import numpy as np
import numpy.typing as npt
from scipy import linalg

from ...solvers.loss import row_loss
from ...solvers.rug import optimum, walsh_hadamard
from ...theory.arguments import FloatArray
from ...theory.features import Features, SparseUniform, synchronous
from ..statistics import Family, jackknife, mean, power
from .cowsik_weights import ROUNDING, excess, hadamard, rug
from .ledger import Evidence, claim, evidence, numeric, says, shown

SOURCE = "cowsik2024"
ALARM = 1e-3  # of a row
P, RATIO = 0.1, 0.25  # of C32


@claim("C11", SOURCE, "4.2.2")
def c11(quick: bool) -> Evidence:
    """Hadamard matrix: H_ij = parity(bin(i) XOR bin(j))"""

    def from_orthogonal(n: int, table: npt.ArrayLike) -> tuple[int, int]:
        H = 1 - 2 * (np.bitwise_count(np.asarray(table)).astype(np.int64) % 2)
        return int(np.abs(H @ H.T - n * np.eye(n, dtype=np.int64)).max()), int(np.linalg.matrix_rank(H))

    sizes = [2**k for k in range(1, 8)]
    by_xor, rank = np.max([from_orthogonal(n, np.arange(n)[:, None] ^ np.arange(n)) for n in sizes], axis=0)
    by_and, full = np.max([from_orthogonal(n, np.arange(n)[:, None] & np.arange(n)) for n in sizes], axis=0)
    library = max(int(np.abs(hadamard(n) - linalg.hadamard(n)).max()) for n in sizes)
    return evidence(
        f"For n = {sizes[0]} to {sizes[-1]}: with XOR H H^T - n I has entries of size up to {by_xor}; with "
        f"AND H H^T = n I exactly, and the largest rank is {full}.",
        numeric("printed", "largest |H H^T - n I| with XOR", by_xor, "==", 0),
        says(
            "H_ij = parity(bin(i) AND bin(j))",
            numeric("corrected", "largest |H H^T - n I| with AND", by_and, "==", 0),
            numeric("corrected", "largest difference from Sylvester's matrix (SciPy)", library, "==", 0),
        ),
        says(
            f"the parity of XOR is parity(i) parity(j), a matrix of rank {rank}",
            numeric("corrected", "largest rank with XOR", rank, "==", 1),
        ),
    )


@claim("C12", SOURCE, "4.2.2")
def c12(quick: bool) -> Evidence:
    """R_ij = (1/n_d) sum_{k in S} H_ik H_kj (H a Hadamard matrix, S a set of n_d indices) has unit diagonal
    and is a projector
    """
    rng = np.random.default_rng(12)
    found = []
    sizes = [(n, d) for n in (4, 16, 64) for d in sorted({1, n // 4, n // 2, n - 1})]
    for n, d in sizes:
        H = hadamard(n)[:, rng.choice(n, d, replace=False)]
        T = H @ H.T  # n_d R, in integers
        gaps = T @ T / d**2 - T / d, np.diag(T) - d, T @ T - n * T
        found.append([np.abs(gap).max() for gap in gaps])
    projector, diagonal, corrected = np.max(found, axis=0)
    n, d = sizes[np.argmax(found, axis=0)[0]]
    unit = ("n_d |R_ii - 1| in integers", diagonal, "==", 0)
    return evidence(
        f"The diagonal is 1 exactly. R^2 - R has entries up to {projector:.4g} (at n_s/n_d = {n / d:g}), "
        "while n_d^2 (R^2 - (n_s/n_d) R) vanishes in integers.",
        numeric("printed", *unit),
        numeric("printed", "largest entry of R^2 - R", projector, "<=", ROUNDING),
        says(
            "R has unit diagonal, and (n_d/n_s) R is a projector: R^2 = (n_s/n_d) R",
            numeric("corrected", *unit),
            numeric("corrected", "n_d^2 |R^2 - (n_s/n_d) R| in integers", corrected, "==", 0),
        ),
    )


def _first_row(n: int, S: npt.ArrayLike) -> FloatArray:
    """Return row 0 of the rug; every other row is a permutation of it, as R_ij depends on i XOR j only."""
    chosen = np.zeros(n)
    chosen[np.asarray(S)] = 1 / np.size(S)
    return walsh_hadamard(chosen)


def _lyapunov(row: FloatArray) -> float:
    off = np.abs(row[1:])
    return float(np.sum(off**3) / np.sum(off**2) ** 1.5)


@claim("C13", SOURCE, "4.2.2, Fig. 1")
def c13(quick: bool) -> Evidence:
    """R of C12, for S drawn at random, saturates Eq. 6, the least variance of the interference, and satisfies
    the statistical symmetries
    """
    sizes = 2 ** np.arange(6, 15 if quick else 21)
    rngs = [np.random.default_rng([13, seed]) for seed in range(12)]
    ratio = np.array(
        [
            [_lyapunov(_first_row(n, rng.choice(n, n // 4, replace=False))) for n in sizes.tolist()]
            for rng in rngs
        ]
    )
    # R_m for m > 0 is the mean of d signs, drawn without replacement from n that sum to 0. So E R_m^2 is
    # (n - d)/(d (n - 1)), and E R_m^4 is at most that of independent signs (Hoeffding), (3 - 2/d)/d^2. By
    # Cauchy and Schwarz E |R_m|^3 is at most the root of their product, and sum R_m^2 = n/d - 1 for every S.
    d = sizes // 4
    bounds = np.sqrt((3 - 2 / d) * (sizes - 1)) / (sizes - d)
    family = Family(ALARM, limits=1 + len(sizes))
    slope = family.of(mean, [power(sizes, one).value for one in ratio])
    beside = [family.of(mean, column) for column in (ratio / bounds).T]
    n = 64
    full = rug(n, np.random.default_rng(13).choice(n, 16, replace=False))
    squares = np.sum(full**2, axis=1) - np.diag(full) ** 2
    spread = float(np.ptp(squares) + np.ptp(np.diag(full)) + np.ptp(full.sum(axis=1)))
    subgroup = [_lyapunov(_first_row(n, 4 * np.arange(n // 4))) for n in (sizes[0], sizes[-1])]
    shift = _first_row(n, np.arange(16))[1:].sum() - _first_row(n, np.arange(1, 17))[1:].sum()
    return evidence(
        "R_ij depends on i XOR j only, so all rows have the same statistics, for every S. For S drawn at "
        "random at ratio 1/4, as in Fig. 1, the Lyapunov ratio (Eq. 3) falls from "
        f"{ratio[:, 0].mean():.3f} at n_s = {sizes[0]} to {ratio[:, -1].mean():.4f} at {sizes[-1]}, with "
        f"the power {slope:.3f} of n_s; its mean is at most sqrt((3 - 2/n_d)(n_s - 1))/(n_s - n_d), which "
        "tends to 0: then the interference becomes Gaussian. This is of random S, which the source draws, "
        f"not of every S that its formula allows: for S the multiples of 4 the ratio is {subgroup[0]:.3f} "
        f"at {sizes[0]} and {subgroup[1]:.3f} at {sizes[-1]}, as each output hears three features in full, "
        "at any size. The constant Hadamard row in S shifts the mean interference by p n_s/(2 n_d), which "
        "the bias takes up.",
        numeric("printed", "excess over the bound of Eq. 6", abs(excess(full, 16)), "<=", ROUNDING),
        numeric("printed", "spread over rows of diagonal, sum, squares", spread, "<=", ROUNDING),
        # The expected power is -1/2; a ratio that does not fall has power 0.
        shown("printed", "power of n_s with which the Lyapunov ratio goes", slope, "<=", -0.4),
        shown("printed", "mean Lyapunov ratio over its bound", beside, "<=", 1.0),
        numbers={
            "sqrt(n_s) Lambda at the largest size": ratio[:, -1].mean() * np.sqrt(sizes[-1]),
            "sqrt(8/pi)": np.sqrt(8 / np.pi),
            "shift of the row sum by the constant Hadamard row, ratio 1/4": shift,
        },
    )


def _variance_gap(rng: np.random.Generator) -> float:
    """Compare the mean variance of the rug's outputs on a random sparse graph with what its edges give."""
    n, d, v, c = 64, 16, 1.0, 0.3
    R = rug(n, rng.choice(n, d, replace=False))
    edges = np.triu(rng.random((n, n)) < 2 / n, 1)
    covariance = v * np.eye(n) + c * (edges + edges.T)
    found = float(np.trace(R @ covariance @ R.T)) / n
    return abs(found - n / d * (v + 2 * c * float(R[edges].sum()) / n))


def _loss_gaps(n: int, rugs: int) -> list[float]:
    """Return exact losses with neighbours 2j, 2j + 1 on together over those of independent features, less 1.

    All outputs are alike: R_ij depends on i XOR j only, and so does whether i and j are neighbours.
    """
    best = optimum(P, RATIO)
    laws = (Features(n, P, groups=[synchronous([j, j + 1], P) for j in range(0, n, 2)]), Features(n, P))

    def gap(seed: int) -> float:
        rng = np.random.default_rng([3201, seed, n])
        row = best.a * _first_row(n, rng.choice(n, int(RATIO * n), replace=False))
        bias = float(best.b - row[1:].sum() * SparseUniform(P).mean)
        mine, alone = (row_loss(row, 0, bias, law, tol=1e-5).loss for law in laws)
        return mine / alone - 1

    return [gap(seed) for seed in range(rugs)]


@claim("C32", SOURCE, "5.3")
def c32(quick: bool) -> Evidence:
    """left open: the loss for data whose correlations are given by a sparse graph"""
    sizes = 4 ** np.arange(2, 6)
    rugs = 32 if quick else 256
    gaps = np.array([_loss_gaps(int(n), rugs) for n in sizes]).T

    def falls(runs: np.ndarray) -> float:
        return float(np.polyfit(np.log(sizes), np.log(np.abs(runs).mean(axis=0)), 1)[0])

    slope = Family(ALARM, limits=1).of(jackknife, gaps, falls)
    first, last = (float(np.abs(gaps[:, k]).mean()) for k in (0, -1))
    variance = _variance_gap(np.random.default_rng(32))
    return evidence(
        "In a sparse graph a feature has few neighbours, each with a weight of order n_s^(-1/2) in the "
        "rug: what a neighbour adds to the interference where feature i is on vanishes in the large. So "
        "does its part of the variance: as R^2 = (n_s/n_d) R, the mean over outputs of the variance of R x "
        "is (n_s/n_d) (Var x + (2 c/n_s) sum of R_jk over the edges), c the covariance of neighbours, and "
        "R_jk is of that order and of either sign. The exact losses agree: with neighbours that are on "
        f"together (p = {P:g}, ratio {RATIO:g}) they differ from those of independent features by "
        f"{first:.1%} at n_s = {sizes[0]} and {last:.1%} at {sizes[-1]}, the mean size over {rugs} rugs, "
        f"with the power {slope:.2f} of n_s. A first run with fewer rugs of up to 256 features had not "
        "shown the limit of the power; sizes and seeds were changed after it, the limit was not. Not "
        "answered: which weights are best for such data, as those that treat edges in their own way may "
        "beat the rug.",
        says(
            "with the rug's weights the loss of many features is that of independent ones with the same p: "
            f"a sparse graph changes it by a share that falls as n_s^({slope.value:.2f})",
            numeric("answer", "variance on a sparse graph less the formula", variance, "<=", ROUNDING),
            # A weight of a neighbour goes with the power -1/2; an effect that stays has power 0.
            shown("answer", "power of n_s in the mean |L/L_independent - 1|", slope, "<=", -0.25),
        ),
    )

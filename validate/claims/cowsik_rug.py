"""Cowsik et al. (2024), C11-C13: the Hadamard matrix and the Persian rug that is cut from it."""

import numpy as np
import numpy.typing as npt
from scipy import linalg, stats

from ...solvers.rug import walsh_hadamard
from .cowsik_weights import ROUNDING, excess, hadamard, rug
from .ledger import Claim, Evidence, bound, claim, experiment, numeric

__all__ = ["RUG"]

SOURCE = "cowsik2024"

Array = npt.NDArray[np.float64]


@claim(
    "C11",
    SOURCE,
    "4.2.2",
    "Hadamard matrix: H_ij = parity(bin(i) XOR bin(j))",
    "H_ij = parity(bin(i) AND bin(j)); the parity of XOR is parity(i) parity(j), a matrix of rank 1",
)
def c11(quick: bool) -> Evidence:
    def from_orthogonal(n: int, table: npt.NDArray[np.int64]) -> tuple[int, int]:
        H = 1 - 2 * (np.bitwise_count(table).astype(np.int64) % 2)
        return int(np.abs(H @ H.T - n * np.eye(n, dtype=np.int64)).max()), int(np.linalg.matrix_rank(H))

    sizes = [2**k for k in range(1, 8)]
    xor = {n: from_orthogonal(n, np.arange(n)[:, None] ^ np.arange(n)) for n in sizes}
    land = {n: from_orthogonal(n, np.arange(n)[:, None] & np.arange(n)) for n in sizes}
    library = max(int(np.abs(hadamard(n) - linalg.hadamard(n)).max()) for n in sizes)
    return Evidence(
        f"With XOR the matrix of size {sizes[-1]} has rank {xor[sizes[-1]][1]} and H H^T - n I has entries "
        f"of size {xor[sizes[-1]][0]}; with AND the rank is {land[sizes[-1]][1]} and H H^T = n I exactly.",
        [
            numeric(
                "printed",
                "largest |H H^T - n I| with XOR, n = 2..128",
                max(v[0] for v in xor.values()),
                "==",
                0,
            ),
            numeric("corrected", "largest |H H^T - n I| with AND", max(v[0] for v in land.values()), "==", 0),
            numeric("corrected", "largest difference from Sylvester's matrix (SciPy)", library, "==", 0),
        ],
        {"rank with XOR": xor[sizes[-1]][1], "rank with AND": land[sizes[-1]][1]},
    )


@claim(
    "C12",
    SOURCE,
    "4.2.2",
    "R_ij = (1/n_d) sum_{k in S} H_ik H_kj (H a Hadamard matrix, S a set of n_d indices) has unit "
    "diagonal and is a projector",
    "R has unit diagonal, and (n_d/n_s) R is a projector: R^2 = (n_s/n_d) R",
)
def c12(quick: bool) -> Evidence:
    rng = np.random.default_rng(12)
    diagonal, projector, corrected, ratio = 0, 0.0, 0, 1.0
    for n in (4, 16, 64):
        for d in sorted({1, n // 4, n // 2, n - 1}):
            H = hadamard(n)[:, rng.choice(n, d, replace=False)]
            T = H @ H.T  # n_d R, in integers
            diagonal = max(diagonal, int(np.abs(np.diag(T) - d).max()))
            gap = float(np.abs(T @ T / d**2 - T / d).max())
            if gap > projector:
                projector, ratio = gap, n / d
            corrected = max(corrected, int(np.abs(T @ T - n * T).max()))
    return Evidence(
        f"The diagonal is 1 exactly. R^2 - R has entries up to {projector:.4g} (at n_s/n_d = {ratio:g}), "
        "while n_d^2 (R^2 - (n_s/n_d) R) vanishes in integers.",
        [
            numeric("printed", "n_d |R_ii - 1| in integers", diagonal, "==", 0),
            numeric("printed", "largest entry of R^2 - R", projector, "<=", ROUNDING),
            numeric("corrected", "n_d |R_ii - 1| in integers", diagonal, "==", 0),
            numeric("corrected", "n_d^2 |R^2 - (n_s/n_d) R| in integers", corrected, "==", 0),
        ],
    )


def _first_row(n: int, S: npt.ArrayLike) -> Array:
    """Return row 0 of the rug; every other row is a permutation of it, as R_ij depends on i XOR j only."""
    chosen = np.zeros(n)
    chosen[S] = 1 / np.size(S)
    return walsh_hadamard(chosen)


def _lyapunov(row: Array) -> float:
    off = np.abs(row[1:])
    return float(np.sum(off**3) / np.sum(off**2) ** 1.5)


@claim(
    "C13",
    SOURCE,
    "4.2.2",
    "R of C12 saturates Eq. 6, the least variance of the interference, and satisfies the statistical "
    "symmetries",
    "R saturates Eq. 6 and has statistically equal rows for every S, and its interference becomes "
    "Gaussian for S drawn at random (Lyapunov ratio ~ sqrt(8/(pi n_s))), but not for every S: for a "
    "subgroup the ratio is (n_s/n_d - 1)^(-1/2) at every size",
)
def c13(quick: bool) -> Evidence:
    sizes = 2 ** np.arange(6, 15 if quick else 21)
    seeds = 12
    ratio = np.empty((seeds, len(sizes)))
    over_bound = 0.0
    for seed in range(seeds):
        rng = np.random.default_rng([13, seed])
        for k, n in enumerate(sizes):
            d = n // 4
            row = _first_row(n, 1 + rng.choice(n - 1, d, replace=False))
            ratio[seed, k] = _lyapunov(row)
            # Hoeffding for draws without replacement from +-1 with mean -1/(n-1), over n - 1 columns:
            # beyond this with probability below 1e-6 for each row tried.
            largest = np.sqrt(2 * np.log(2 * n / 1e-6) / d) + 1 / (n - 1)
            over_bound = max(over_bound, ratio[seed, k] / (largest / np.sqrt(n / d - 1)))
    slopes = np.polyfit(np.log(sizes), np.log(ratio).T, 1)[0]
    error = slopes.std(ddof=1) / np.sqrt(seeds)
    upper = slopes.mean() + stats.t.ppf(0.9995, seeds - 1) * error
    subgroup = [_lyapunov(_first_row(n, 4 * np.arange(n // 4))) for n in sizes]
    n = 64
    full = rug(n, np.random.default_rng(13).choice(n, 16, replace=False))
    squares = np.sum(full**2, axis=1) - np.diag(full) ** 2
    spread = float(np.ptp(squares) + np.ptp(np.diag(full)) + np.ptp(full.sum(axis=1)))
    above = abs(excess(full, 16))
    shift = _first_row(n, np.arange(16))[1:].sum() - _first_row(n, np.arange(1, 17))[1:].sum()
    exact = [
        ("excess over the bound of Eq. 6", above, "<=", ROUNDING),
        ("spread over rows of diagonal, sum and sum of squares", spread, "<=", ROUNDING),
    ]
    return Evidence(
        "R_ij depends on i XOR j only, so all rows have the same statistics for every S. For random S at "
        f"ratio 1/4 the Lyapunov ratio falls from {ratio[:, 0].mean():.3f} at n_s = {sizes[0]} to "
        f"{ratio[:, -1].mean():.4f} at {sizes[-1]}, as n_s^({slopes.mean():.3f} +- {error:.3f}) ({seeds} "
        f"seeds). For S the multiples of 4 it is {subgroup[0]:.3f} at {sizes[0]} and {subgroup[-1]:.3f} at "
        f"{sizes[-1]}: each output hears three features in full, at any size. The constant Hadamard "
        "row in S shifts the mean interference by p n_s/(2 n_d).",
        [
            *(numeric("printed", *finding) for finding in exact),
            numeric(
                "printed",
                f"Lyapunov ratio at {sizes[-1]} over that at {sizes[0]}, S a subgroup",
                subgroup[-1] / subgroup[0],
                "<",
                0.9,
            ),
            *(numeric("corrected", *finding) for finding in exact),
            experiment(
                "corrected",
                "slope of log Lambda over log n_s, upper 99.95 % limit, random S",
                upper,
                "<=",
                # The expected slope is -1/2; a ratio that did not fall would have slope 0.
                -0.4,
            ),
            bound(
                "corrected",
                "largest Lambda over its Hoeffding bound, which tends to 0",
                over_bound,
                "<=",
                1.0,
            ),
        ],
        {
            "slope of log Lambda": slopes.mean(),
            "sqrt(n_s) Lambda at the largest size": ratio[:, -1].mean() * np.sqrt(sizes[-1]),
            "sqrt(8/pi)": np.sqrt(8 / np.pi),
            "shift of the row sum by the constant Hadamard row, ratio 1/4": shift,
        },
    )


RUG: tuple[Claim, ...] = (c11, c12, c13)

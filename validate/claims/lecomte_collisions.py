"""Lecomte et al. (2024), L1, L2, L14-L17: encodings that meet."""

import itertools
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from scipy import stats

from ...solvers import collisions as solvers
from ...theory import collisions as theory
from .ledger import Claim, Evidence, bound, claim, experiment, numeric, symbolic

__all__ = ["COLLISIONS", "SOURCE", "Array", "limit", "start"]

SOURCE = "lecomte2024"
# A few hundred roundings of numbers of order 1.
ROUNDING = 1e-13
# False alarms of an experiment's findings, all together.
ALPHA = 1e-3

Array = npt.NDArray[np.float64]


def start(seed: int, n: int, m: int, scale: float = 0.9) -> Array:
    """Return normal weights of s.d. scale/sqrt(m), the source's by default."""
    return np.random.default_rng(seed).normal(scale=scale / np.sqrt(m), size=(n, m))


def limit(samples: Array, side: int, tests: int = 1) -> float:
    """Return the lower (-1) or upper (1) Student limit of the mean at the level ALPHA / tests."""
    runs = samples.size
    return float(
        samples.mean() + side * stats.t.isf(ALPHA / tests, runs - 1) * samples.std(ddof=1) / np.sqrt(runs)
    )


@claim(
    "L1",
    SOURCE,
    "1.1",
    "expected number of feature pairs whose largest initial weight is on the same neuron: n(n-1)/(2m)",
)
def l1(quick: bool) -> Evidence:
    worst = Fraction(0)
    for n, m in itertools.product(range(1, 6), range(1, 5)):
        pairs = [
            sum(a == b for a, b in itertools.combinations(way, 2))
            for way in itertools.product(range(m), repeat=n)
        ]
        worst = max(worst, abs(Fraction(sum(pairs), len(pairs)) - Fraction(n * (n - 1), 2 * m)))
    return Evidence(
        "The neuron of the largest of m exchangeable weights is uniform, independently for each feature. "
        "The mean over all m^n choices is the printed one, for all n up to 5 and m up to 4; three "
        "features on one neuron count as three pairs, as footnote 3 says.",
        [numeric("printed", "largest difference of exact mean and formula", float(worst), "==", 0.0)],
        {"pairs at n = 256, m = 1024": float(np.asarray(theory.expected_collisions(256, 1024)))},
    )


def _error(W: Array) -> float:
    """Return the reconstruction loss on the n basis vectors."""
    return float(np.sum((np.maximum(W @ W.T, 0) - np.eye(len(W))) ** 2))


@claim(
    "L2",
    SOURCE,
    "2.2",
    "zero reconstruction loss iff every norm is 1 and all inner products of different encodings are <= 0; "
    "f_i, and ±f_i in pairs, are such solutions; a neuron holds 0, 1 or 2 features",
)
def l2(quick: bool) -> Evidence:
    rng = np.random.default_rng(2)
    gap = 0.0
    for _ in range(200):
        W = rng.normal(size=(4, 3))
        G = W @ W.T
        off = np.maximum(G - np.diag(np.diag(G)), 0)
        gap = max(gap, abs(_error(W) - np.sum((1 - np.diag(G)) ** 2) - np.sum(off**2)) / (1 + _error(W)))
    basis = [sign * row for row in np.eye(3) for sign in (1.0, -1.0)]
    mixtures = [_error(np.array(rows)) for k in range(1, 7) for rows in itertools.combinations(basis, k)]
    third = min(_error(np.outer(signs, [1.0, 0, 0])) for signs in itertools.product((1.0, -1.0), repeat=3))
    angle = 2 * np.pi * np.arange(3) / 3
    return Evidence(
        "The loss is a sum of squares, (1 - |W_i|^2)^2 and ReLU(W_i.W_j)^2, so it vanishes where all of "
        "them do. All 63 sets of signed basis vectors of three neurons reach 0; three features on one "
        "neuron cost 2 at least. These are not all solutions: three vectors at 120 degrees on two neurons "
        "lose nothing either, without any l1 force.",
        [
            numeric("printed", "loss against its sum of squares, relative", gap, "<=", ROUNDING),
            numeric(
                "printed", "largest loss of a mixture of 0, 1, 2 features a neuron", max(mixtures), "==", 0.0
            ),
            numeric("printed", "least loss of three features on one neuron", third, ">=", 1.0),
        ],
        {"loss of three vectors at 120 degrees": _error(np.c_[np.cos(angle), np.sin(angle)])},
    )


@claim(
    "L14",
    SOURCE,
    "2.5",
    "at initialisation the component of the interference along W_i has mean Theta(n/m), the feature "
    "benefit's is Theta(1)",
    "with initial s.d. c/sqrt(m) the means are (n-1)c^4/(2m) and c^2 - c^4(1 + 2/m), exactly: at c = 0.9 "
    "and n = m interference is 2.1 times the feature benefit, which dominates only for m above 2.1 n; at "
    "c = 1 the benefit is negative",
)
def l14(quick: bool) -> Evidence:
    import sympy

    overlap, squared, fourth = theory.derive_initial_moments().expression
    m, s = sympy.Symbol("m", integer=True, positive=True), sympy.Symbol("s", positive=True)
    c, n = sympy.symbols("c n", positive=True)
    at = {s: c / sympy.sqrt(m)}
    interference = ((n - 1) * overlap / 2).subs(at)
    benefit = (squared - fourth).subs(at)
    size, hidden, runs = 24, 48, 60 if quick else 600
    sampled = np.empty((runs, 2))
    for row, seed in zip(sampled, range(runs), strict=True):
        G = (W := start(seed, size, hidden)) @ W.T
        square = np.diag(G).copy()
        np.fill_diagonal(G, 0)
        row[:] = np.mean(np.sum(np.maximum(G, 0) ** 2, axis=1)), np.mean((1 - square) * square)
    exact = (
        float(np.asarray(theory.initial_interference(size, hidden, 0.9 / np.sqrt(hidden)))),
        float(np.asarray(theory.feature_benefit(hidden, 0.9 / np.sqrt(hidden)))),
    )
    findings = [
        symbolic("order", "interference less (n-1) c^4/(2m)", interference - (n - 1) * c**4 / (2 * m)),
        symbolic("order", "feature benefit less c^2 - c^4 (1 + 2/m)", benefit - c**2 + c**4 * (1 + 2 / m)),
    ]
    for name, mean, samples in zip(("interference", "feature benefit"), exact, sampled.T, strict=True):
        text = f"sampled {name} at n = {size}, m = {hidden}, {runs} runs: exact mean inside the limits"
        inside = limit(samples, -1, 4) <= mean <= limit(samples, 1, 4)
        findings.append(experiment("order", text, float(inside), "==", 1.0))
    big = 10**6
    ratio = float(
        np.asarray(theory.initial_interference(big, big, 0.9e-3) / theory.feature_benefit(big, 0.9e-3))
    )
    return Evidence(
        "Overlaps of independent normal weights have mean 0, variance m s^4 and a symmetric distribution, "
        "so ReLU^2 has half of that. The orders are right. That interference is dominated for m >= n is "
        "not: the two are equal at m = n c^2/(2 (1 - c^2)).",
        findings,
        {
            "interference over feature benefit at n = m, c = 0.9": ratio,
            "m/n where they are equal, c = 0.9": ratio,
        },
    )


@claim(
    "L15",
    SOURCE,
    "2.5",
    "under the mutual interference of a pair, W_i.W_j > 0 obeys d(W_i.W_j)/dt = "
    "-(W_i.W_j)(|W_i|^2+|W_j|^2), and so positive overlaps decrease exponentially",
    "with the feature benefit, which is as strong, the relative rate is 2(1 - |W_i|^2 - |W_j|^2): "
    "overlaps grow while the squares add up to less than 1. It is the cosine of the angle that decays "
    "from the start, at the rate (|W_i|^2+|W_j|^2)(1 - cos^2)",
)
def l15(quick: bool) -> Evidence:
    import sympy

    overlap_rate, interference_rate, cosine_rate = theory.derive_overlap().expression
    a, b, x = sympy.symbols("a b x", positive=True)
    worst = 0.0
    for seed in range(20):
        W0 = np.abs(start(seed, 2, 5, 0.5))
        h = 1e-6
        W1 = solvers.flow(W0, 0.0, h).W
        cosines = [W[0] @ W[1] / np.linalg.norm(W[0]) / np.linalg.norm(W[1]) for W in (W0, W1)]
        rate = np.log(cosines[1] / cosines[0]) / h
        predicted = theory.overlap_rate(W0[0] @ W0[0], W0[1] @ W0[1], cosines[0])
        worst = max(worst, abs(rate - float(np.asarray(predicted))))
    return Evidence(
        "The printed rate is that of the interference alone. In the flow the feature benefit adds 2 - "
        "|W_i|^2 - |W_j|^2: two encodings of length 0.5 grow into each other at first. Both exact rates "
        "follow from the closed equations of the three inner products; the whole motion of a pair is "
        "theory.pair_flow.",
        [
            symbolic("printed", "rate under interference alone", interference_rate + a + b),
            numeric(
                "printed",
                "rate of an overlap in the flow at lengths 0.5",
                float(np.asarray(theory.overlap_rate(0.25, 0.25))),
                "<",
                0.0,
            ),
            symbolic("corrected", "rate of the overlap", overlap_rate - 2 * (1 - a - b)),
            symbolic("corrected", "rate of the cosine", cosine_rate + (a + b) * (1 - x**2 / (a * b))),
            # Over a time of 1e-6: rounding 1e-10 and the change of the rate.
            numeric("corrected", "rate of the cosine against the flow, 20 pairs", worst, "<=", 1e-4),
        ],
    )


@claim(
    "L16",
    SOURCE,
    "2.5",
    "two encodings that share one nonzero neuron: opposite signs do nothing (benign); equal signs make "
    "one or both drop to 0, the larger wins (malign)",
    "opposite signs: exactly nothing. Equal signs: the encoding with the smaller weights elsewhere gains; "
    "of two equally long ones that is the larger on this neuron. With none elsewhere the larger wins, by "
    "the l1 force only, in a time of order 1/lambda",
)
def l16(quick: bool) -> Evidence:
    import sympy

    y1, y2 = sympy.symbols("y1 y2", positive=True)
    pair = np.array([[0.8, 0.6, 0], [-0.6, 0, 0.8]])
    apart = solvers.flow(pair, 0.01, [5.0, 500.0], interference=False).W
    benign = float(np.abs(solvers.flow(pair, 0.01, [5.0, 500.0]).W - apart).max())
    counter = solvers.flow([[0.9, 0.5, 0], [0.8, 0, 0.1]], 1e-3, 5e3, tol=1e-5).W
    rng = np.random.default_rng(16)
    smaller = 0
    for _ in range(30 if quick else 300):
        lam = 10 ** rng.uniform(-3, -1)
        x1, x2 = np.sort(rng.uniform(0.05, 0.99, 2))[::-1]
        W0 = [[x1, np.sqrt(1 - x1 * x1), 0], [x2, 0, np.sqrt(1 - x2 * x2)]]
        neuron, _ = solvers.owners(solvers.flow(W0, lam, 20 / lam, tol=1e-4).W)
        smaller += int(neuron[1] == 0)
    alone = [
        solvers.collide(w, r * w, lam).winner for w in (0.3, 0.9) for r in (0.2, 0.99) for lam in (1e-4, 0.05)
    ]
    lam = 1e-4
    slow = lam * solvers.collide(0.7, 0.63, lam).drop_times[1]
    revived = solvers.flow([[0.9, 0.0], [0.5, 0.5]], 0.01, 1.0).W[0, 1]
    return Evidence(
        "Encodings (0.9, 0.5) and (0.8, 0.1), first weights on one neuron: the smaller keeps it. "
        "Encodings of equal length, random shares and lam: the smaller never does. With nothing else the "
        f"loser takes {slow:.2f}/lam to drop (shared weights 0.7 and 0.63), and without an l1 force the "
        "ratio of the two never changes. Weights at zero do not stay there if lam is below the product of "
        "the shared weights and the other's own.",
        [
            numeric("printed", "what opposite signs change", benign, "==", 0.0),
            numeric(
                "printed", "owner of the neuron (0 is the larger)", int(abs(counter[1, 0]) > 0.5), "==", 0
            ),
            numeric("corrected", "what opposite signs change", benign, "==", 0.0),
            symbolic(
                "corrected",
                "(ln x1/x2)' less y2^2 - y1^2",
                theory.derive_conflict().expression - y2**2 + y1**2,
            ),
            bound("corrected", "equally long pairs that the smaller wins", smaller, "==", 0),
            numeric("corrected", "pairs alone on a neuron that the smaller wins", sum(alone), "==", 0),
            numeric(
                "corrected",
                "drop time times lam against its limit, relative",
                abs(slow / float(np.asarray(theory.shared_drop_time(0.9))) - 1),
                "<=",
                20 * lam,
            ),
            numeric("corrected", "weight that left zero, lam = 0.01", float(revived), "<", -0.05),
        ],
    )


@claim(
    "L17",
    SOURCE,
    "2.5",
    "benign collision of a pair: probability 1/(2m); polysemantic neurons ~ n^2/(4m)",
)
def l17(quick: bool) -> Evidence:
    worst = Fraction(0)
    for m in range(1, 7):
        ways = list(itertools.product(range(2 * m), repeat=2))  # a place is a neuron and a sign
        benign = sum(a // 2 == b // 2 and a != b for a, b in ways)
        worst = max(worst, abs(Fraction(benign, len(ways)) - Fraction(1, 2 * m)))
    n, m = 10**4, 10**8
    quoted = theory.quoted_polysemantic(n, m)
    gaps = [
        abs(float(np.asarray(theory.expected_polysemantic(n, m, exclusive=e) / quoted)) - 1)
        for e in (True, False)
    ]
    side = [
        float(np.asarray(theory.expected_polysemantic(10**6, 10**6, exclusive=e))) / 10**6
        for e in (True, False)
    ]
    return Evidence(
        "As combinatorics of the largest initial weights: exact for a pair, and for m much larger than n "
        "the mean number of neurons with both signs taken tends to n^2/(4m). At n = m independent choices "
        "fill 0.155 m neurons, not 0.25 m; that every feature ends in a place of its own gives "
        "n(n-1)/(2(2m-1)), near n^2/(4m) for all n. What the flow does is L18.",
        [
            numeric("printed", "largest difference of the pair's probability", float(worst), "==", 0.0),
            numeric("printed", "count over n^2/(4m) - 1 at n = 1e4, m = 1e8", max(gaps), "<=", 2 / n + n / m),
        ],
        {"exclusive count over m at n = m": side[0], "independent count over m at n = m": side[1]},
    )


COLLISIONS: tuple[Claim, ...] = (l1, l2, l14, l15, l16, l17)

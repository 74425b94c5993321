"""Lecomte et al. (2024), L1, L2, L14-L17: collisions of encodings."""

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from ...solvers import collisions as solvers
from ...solvers.statistics import Family, mean
from ...theory import collisions as theory
from ...theory.derivation import sp
from ...theory.validation import FloatArray
from ..runner.findings import Finding, derived, in_range, not_refuted, numeric, post_hoc, rounding, symbolic
from .claim import ROUGHLY, Evidence, Verdict, claim, corrected_statement, evidence

SOURCE = "lecomte2024"
# A few hundred roundings of numbers of order 1.
ROUNDING = rounding(1e-13)
# False alarms of an experiment's findings, all together.
ALPHA = 1e-3


def draw_weights(seed: int, n: int, m: int, scale: float = 0.9) -> FloatArray:
    """Return (n, m) normal first weights of s.d. scale/sqrt(m); 0.9 is the scale of Lecomte et al."""
    return np.random.default_rng(seed).normal(scale=scale / np.sqrt(m), size=(n, m))


@claim(
    "L1",
    SOURCE,
    "1.1",
    "expected number of feature pairs whose largest initial weight is on the same neuron: n(n-1)/(2m)",
)
def check_l1(quick: bool) -> Evidence:
    worst = Fraction(0)
    for n, m in itertools.product(range(1, 6), range(1, 5)):
        ways = itertools.product(range(m), repeat=n)
        pairs = [sum(a == b for a, b in itertools.combinations(way, 2)) for way in ways]
        worst = max(worst, abs(Fraction(sum(pairs), len(pairs)) - Fraction(n * (n - 1), 2 * m)))
    return evidence(
        "The neuron of the largest of m exchangeable weights is uniform, independently for each feature. All "
        "m^n choices are counted, n up to 5, m up to 4; three features on one neuron are three pairs "
        "(footnote 3).",
        numeric("largest difference of exact mean and formula", float(worst), "==", derived(0)),
        numbers={"pairs at n = 256, m = 1024": float(theory.expected_collisions(256, 1024))},
    )


def _squared_error(W: FloatArray) -> float:
    """Return the squared error of ReLU(W W' x), W (n, m), summed over outputs and the n basis vectors x."""
    return float(np.sum((np.maximum(W @ W.T, 0) - np.eye(len(W))) ** 2))


@claim(
    "L2",
    SOURCE,
    "2.2",
    "zero reconstruction loss iff every norm is 1 and all inner products of different encodings are "
    "<= 0; f_i, and ±f_i in pairs, are such solutions; a neuron holds 0, 1 or 2 features",
)
def check_l2(quick: bool) -> Evidence:
    rng = np.random.default_rng(2)
    gap = 0.0
    for _ in range(200):
        W = rng.normal(size=(4, 3))
        G = W @ W.T
        off = np.maximum(G - np.diag(np.diag(G)), 0)
        error = _squared_error(W)
        gap = max(gap, abs(error - np.sum((1 - np.diag(G)) ** 2) - np.sum(off**2)) / (1 + error))
    basis = [sign * row for row in np.eye(3) for sign in (1.0, -1.0)]
    mixtures = (rows for k in range(1, 7) for rows in itertools.combinations(basis, k))
    largest = max(_squared_error(np.array(rows)) for rows in mixtures)
    third = min(
        _squared_error(np.outer(signs, [1.0, 0, 0])) for signs in itertools.product((1.0, -1.0), repeat=3)
    )
    angle = 2 * np.pi * np.arange(3) / 3
    return evidence(
        "The loss is a sum of squares, (1 - |W_i|^2)^2 and ReLU(W_i.W_j)^2, so it vanishes where all of them "
        "do. There are more solutions: three vectors at 120 degrees on two neurons.",
        numeric("loss against its sum of squares, relative", gap, "<=", ROUNDING),
        numeric("largest loss, 63 mixtures of 0, 1, 2 features a neuron", largest, "==", derived(0)),
        numeric("least loss of three features on one neuron", third, ">=", derived(1)),
        numbers={"loss of three vectors at 120 degrees": _squared_error(np.c_[np.cos(angle), np.sin(angle)])},
    )


@claim(
    "L14",
    SOURCE,
    "2.5",
    "at initialisation the component of the interference along W_i has mean Theta(n/m), the feature "
    "benefit's is Theta(1)",
)
def check_l14(quick: bool) -> Evidence:
    overlap, squared, fourth = theory.derive_initial_moments().expression
    m, s = sp.Symbol("m", integer=True, positive=True), sp.Symbol("s", positive=True)
    c, n = sp.symbols("c n", positive=True)
    at = {s: c / sp.sqrt(m)}
    interference = ((n - 1) * overlap / 2).subs(at) - (n - 1) * c**4 / (2 * m)
    benefit = (squared - fourth).subs(at) - c**2 + c**4 * (1 + 2 / m)
    size, hidden, runs, scale = 24, 48, 60 if quick else 600, 0.9
    std = scale / np.sqrt(hidden)
    sampled = np.empty((2, runs))
    for seed in range(runs):
        G = (W := draw_weights(seed, size, hidden)) @ W.T
        square = np.diag(G).copy()
        np.fill_diagonal(G, 0)
        pair = np.sum(np.maximum(G, 0) ** 2, axis=1), (1 - square) * square
        sampled[:, seed] = np.mean(pair, axis=1)
    exact = [float(force) for force in theory.initial_forces(size, hidden, std)[::-1]]
    family = Family(ALPHA, 4)
    measured = []
    for name, true, samples in zip(("interference", "feature benefit"), exact, sampled, strict=True):
        text = f"{name} sampled at n = {size}, m = {hidden}, {runs} runs, over the exact mean"
        measured += in_range(not_refuted, text, family.of(mean, samples / true), derived(1), derived(1))
    big = 10**6
    small = scale / np.sqrt(big)
    benefit_at_m, interference_at_m = map(float, theory.initial_forces(big, big, small))
    ratio = interference_at_m / benefit_at_m
    negative = float(theory.initial_forces(big, big, 1 / np.sqrt(big))[0])
    return evidence(
        "Overlaps of independent normal weights have mean 0, variance m s^4 and a symmetric distribution, so "
        "ReLU^2 has half of that. As an order of magnitude interference is dominated for m >= n, as printed; "
        "the two are equal at m = n c^2/(2 (1 - c^2)).",
        corrected_statement(
            "with initial s.d. c/sqrt(m) the means are (n-1)c^4/(2m) and c^2 - c^4(1 + 2/m), exactly",
            symbolic("interference less (n-1) c^4/(2m)", interference),
            symbolic("feature benefit less c^2 - c^4 (1 + 2/m)", benefit),
            *measured,
        ),
        corrected_statement(
            f"at c = {scale:g} and n = m interference is {ratio:.2g} times the feature benefit, which "
            f"dominates only for m above {ratio:.2g} n",
            numeric(f"interference over benefit at n = m, c = {scale:g}", ratio, ">", derived(1)),
        ),
        corrected_statement(
            "at c = 1, which the source excludes, the benefit is negative",
            numeric(f"feature benefit at c = 1, m = {big:.0e}", negative, "<", derived(0)),
        ),
        about="order",
    )


@claim(
    "L15",
    SOURCE,
    "2.5",
    "the interference terms of a pair together affect W_i.W_j > 0 as -(W_i.W_j)(|W_i|^2+|W_j|^2), "
    "and so positive inner products tend to decrease exponentially",
)
def check_l15(quick: bool) -> Evidence:
    overlap_rate, interference_rate, cosine_rate = theory.derive_overlap().expression
    a, b, x = sp.symbols("a b x", positive=True)
    worst, h = 0.0, 1e-6
    for seed in range(20):
        W0 = np.abs(draw_weights(seed, 2, 5, 0.5))
        W1 = solvers.flow(W0, 0.0, h).W
        cosines = [W[0] @ W[1] / np.linalg.norm(W[0]) / np.linalg.norm(W[1]) for W in (W0, W1)]
        rate = np.log(cosines[1] / cosines[0]) / h
        worst = max(worst, abs(rate - float(theory.overlap_rate(W0[0] @ W0[0], W0[1] @ W0[1], cosines[0]))))
    short, long = 0.5, 0.9
    half, first, unit = (float(theory.overlap_rate(c * c, c * c)) for c in (short, long, 1.0))
    return evidence(
        "The printed identity is about the interference terms, and exact. In the flow the feature benefit "
        f"adds 2 - |W_i|^2 - |W_j|^2. At the lengths that first weights of s.d. {long:g}/sqrt(m) have, "
        f"overlaps do fall, at the rate {-first:.3g} in place of {2 * long**2:.3g}, and at length 1 both "
        f"rates are {-unit:.3g}. The whole motion of a pair, a closed system of three inner products, is "
        "theory.pair_flow.",
        symbolic("rate under interference alone", interference_rate + a + b),
        numeric(f"rate of an overlap in the flow at lengths {long:g}", first, "<", derived(0)),
        numeric(f"rate of an overlap in the flow at lengths {short:g}", half, "<", derived(0)),
        corrected_statement(
            "with the feature benefit the relative rate is 2(1 - |W_i|^2 - |W_j|^2): positive overlaps grow "
            f"while the squares add up to less than 1 (rate {half:.3g} for lengths {short:g}) and decrease "
            f"above (at {-first:.3g} for lengths {long:g}, the source's first ones)",
            symbolic("rate of the overlap", overlap_rate - 2 * (1 - a - b)),
        ),
        corrected_statement(
            "for any lengths it is the cosine of the angle that decays from the start, at the rate "
            "(|W_i|^2+|W_j|^2)(1 - cos^2)",
            symbolic("rate of the cosine", cosine_rate + (a + b) * (1 - x**2 / (a * b))),
            # Over a time of 1e-6: rounding 1e-10 and the change of the rate.
            numeric("rate of the cosine against the flow, 20 pairs", worst, "<=", rounding(1e-4)),
        ),
        corrected_statement(
            "the identity about the interference terms is exact",
            symbolic("rate under interference alone, less the printed one", interference_rate + a + b),
        ),
        fault=Verdict.INCOMPLETE,
    )


def _spread_pair(larger: float, smaller: float, parts: int) -> FloatArray:
    """Return two unit encodings, (2, 2 + parts), with weights `larger` and `smaller` on neuron 0.

    The first encoding has the rest of its length on neuron 1; the second spreads it equally over the last
    `parts` neurons.
    """
    W = np.zeros((2, 2 + parts))
    W[0, :2] = larger, np.sqrt(1 - larger**2)
    W[1, 0], W[1, 2:] = smaller, np.sqrt((1 - smaller**2) / parts)
    return W


def _neuron_owner(W: npt.ArrayLike, lam: float) -> int:
    """Return the index, 0 or 1, of the encoding in W (2, m) that keeps neuron 0 after the flow, or -1.

    The flow has the l1 strength lam; -1 means that neither encoding keeps the neuron.
    """
    neuron, _ = solvers.owners(solvers.flow(W, lam, 8 / lam, tol=1e-4).W)
    return int(np.flatnonzero(neuron == 0)[0]) if np.any(neuron == 0) else -1


def _shared_weight_rate() -> Any:
    """Return the symbolic d log(x1/x2)/dt - (|z|^2 - |y|^2 + lam (1/x2 - 1/x1)), 0 by theory.

    Two encodings have x1 and x2 on neuron 0, and two more weights each, y and z, on different neurons. They
    follow the gradient flow with l1 strength lam, in which zero weights stay zero.
    """
    x1, x2, lam = sp.symbols("x1 x2 lam", positive=True)
    y, z = sp.symbols("y1:3", positive=True), sp.symbols("z1:3", positive=True)
    W1, W2 = sp.Matrix([x1, *y, 0, 0]), sp.Matrix([x2, 0, 0, *z])

    def speed(W: Any, neighbour: Any) -> Any:
        """Return dW[0]/dt of the flow, of the weight on the shared neuron; `neighbour` is the other one."""
        return (1 - W.dot(W)) * W[0] - W.dot(neighbour) * neighbour[0] - lam

    elsewhere = sum(w**2 for w in z) - sum(w**2 for w in y)
    return speed(W1, W2) / x1 - speed(W2, W1) / x2 - elsewhere - lam * (1 / x2 - 1 / x1)


@claim(
    "L16",
    SOURCE,
    "2.5",
    "two encodings that share one nonzero neuron: opposite signs do nothing (benign); equal signs "
    "make one or both drop to 0, the larger wins (malign)",
)
def check_l16(quick: bool) -> Evidence:
    pair = np.array([[0.8, 0.6, 0], [-0.6, 0, 0.8]])
    with_force, without = (solvers.flow(pair, 0.01, [5.0, 500.0], interference=on).W for on in (True, False))
    nothing = numeric("what opposite signs change", np.abs(with_force - without).max(), "==", derived(0))
    weak, strong, parts = 0.01, 0.25, 10
    larger, smaller = 0.95, 0.9
    spread = _spread_pair(larger, smaller, parts)
    alone = [
        solvers.collide(w, r * w, k).winner for w in (0.3, 0.9) for r in (0.2, 0.99) for k in (1e-4, 0.05)
    ]
    small, first, second = 1e-4, 0.7, 0.63
    slow = small * solvers.collide(first, second, small).drop_times[1]
    off = abs(slow / float(theory.shared_drop_time(0.9)) - 1)
    revived = [float(solvers.flow([[0.9, 0.0], [0.5, 0.5]], k, 1.0).W[0, 1]) for k in (0.01, 0.3)]

    def keeps(text: str, W: npt.ArrayLike, lam: float, expected: int) -> Finding:
        """Return the finding that the expected one of two encodings W keeps the neuron at strength lam."""
        owner = _neuron_owner(W, lam)
        return numeric(f"{text}: which keeps the neuron (0: the larger)", owner, "==", derived(expected))

    return evidence(
        f"Read off the ends of flows; the first weights are on one neuron. The {smaller:g} that wins "
        f"against {larger:g} has its rest spread over {parts} weights, the other in one; and (0.9, 0.4) "
        "keeps the neuron against (0.5, 0.3), which has less elsewhere. The l1 force takes spread weights "
        "away faster, and where lambda is below the product of the shared weights and a weight of the other "
        "encoding, weights that were zero take part.",
        nothing,
        keeps("(0.9, 0.5) and (0.8, 0.1), lambda = 0.001", [[0.9, 0.5, 0], [0.8, 0, 0.1]], 1e-3, 0),
        corrected_statement("opposite signs: exactly nothing", nothing),
        corrected_statement(
            "equal signs: while zeros stay zero, the ratio x1/x2 of the shared weights grows at the relative "
            "rate |y2|^2 - |y1|^2 + lambda (1/x2 - 1/x1), y1 and y2 the weights elsewhere",
            symbolic("that rate, two weights elsewhere each", _shared_weight_rate()),
            numeric("weight that left zero, lambda = 0.01 < 0.225", revived[0], "<", post_hoc(-0.05)),
            numeric("weight that stayed at zero, lambda = 0.3", revived[1], "==", derived(0)),
        ),
        corrected_statement(
            f"neither size nor length says who keeps the neuron: {smaller:g} of a unit encoding can win "
            f"against {larger:g} of another at lambda = {weak:g} and lose at {strong:g}",
            keeps(f"{larger:g} and {smaller:g}, lambda = {weak:g}", spread, weak, 1),
            keeps(f"{larger:g} and {smaller:g}, lambda = {strong:g}", spread, strong, 0),
            keeps(f"(0.9, 0.4), (0.5, 0.3), {weak:g}", [[0.9, 0.4, 0], [0.5, 0, 0.3]], weak, 0),
        ),
        corrected_statement(
            f"where both are on one neuron alone the larger wins, by the l1 force only: {first:g} against "
            f"{second:g} in a time of {slow:.2f}/lambda",
            numeric("pairs alone on a neuron that the smaller wins", sum(alone), "==", derived(0)),
            numeric("drop time times lam over its limit, less 1", off, "<=", post_hoc(20 * small)),
        ),
        fault=Verdict.OVERSTATED,
    )


@claim(
    "L17",
    SOURCE,
    "2.5",
    "benign collision of a pair: probability 1/(2m); roughly n^2/(4m) polysemantic neurons",
)
def check_l17(quick: bool) -> Evidence:
    pair, neurons = Fraction(0), Fraction(0)
    for n, m in itertools.product((1, 2, 3, 4), (1, 2, 3)):
        ways = list(itertools.product(range(2 * m), repeat=n))  # a place is a neuron and a sign
        filled = sum(sum({2 * k, 2 * k + 1} <= set(way) for k in range(m)) for way in ways)
        law = m * (1 - 2 * (1 - Fraction(1, 2 * m)) ** n + (1 - Fraction(1, m)) ** n)
        neurons = max(neurons, abs(Fraction(filled, len(ways)) - law))
        if n == 2:
            benign = sum(a // 2 == b // 2 and a != b for a, b in ways)
            pair = max(pair, abs(Fraction(benign, len(ways)) - Fraction(1, 2 * m)))

    def ratio(n: int, m: int, exclusive: bool) -> float:
        """Return the expected number of polysemantic neurons over the printed n^2/(4m).

        There are n features on m neurons; `exclusive` is as in `theory.collisions.expected_polysemantic`.
        """
        count = theory.expected_polysemantic(n, m, exclusive=exclusive)
        return float(count) / float(theory.quoted_polysemantic(n, m))

    n, m = 10**4, 10**8
    far = max(abs(ratio(n, m, exclusive) - 1) for exclusive in (True, False))
    equal, sixteen, exclusive_ratio = ratio(256, 256, False), ratio(256, 4096, False), ratio(256, 256, True)
    where = "neurons over n^2/(4m), each feature on its largest weight, n = 256, m ="
    return evidence(
        "As combinatorics of the largest initial weights. n^2/(4m) is the mean number of pairs that "
        "collide benignly, up to n-1 for n. Neurons are fewer, as more than two features can want one: of "
        "m = n to m = 16 n, the range of the source's experiment, the mean number of neurons with both "
        f"signs taken is {equal:.2f} to {sixteen:.2f} times n^2/(4m). “Roughly” is taken to mean within a "
        f"factor of {ROUGHLY:g}. What training does is L18.",
        numeric("largest difference of the pair's probability", float(pair), "==", derived(0)),
        numeric(f"{where} 4096", sixteen, ">=", post_hoc(1 / ROUGHLY)),
        numeric(f"{where} 256", equal, ">=", post_hoc(1 / ROUGHLY)),
        corrected_statement(
            "the mean number of neurons that the largest weights of independent features share with both "
            "signs is m(1 - 2(1 - 1/(2m))^n + (1 - 1/m)^n)",
            numeric("off a count of all ways, n to 4, m to 3", float(neurons), "==", derived(0)),
        ),
        corrected_statement(
            f"that is n^2/(4m) for m far above n, {equal:.2f} times it at m = n = 256",
            numeric("count over n^2/(4m) - 1 at n = 1e4, m = 1e8", far, "<=", derived(2 / n + n / m)),
        ),
        corrected_statement(
            "with every feature in a place of its own the mean is n(n-1)/(2(2m-1)), near n^2/(4m) for all m "
            f"({exclusive_ratio:.2f} times at m = n = 256)",
            numeric("|that ratio - 1| at m = n = 256", abs(exclusive_ratio - 1), "<=", derived(2 / 256)),
        ),
        fault=Verdict.OVERSTATED,
    )

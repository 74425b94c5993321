"""Lecomte et al. (2024), L38-L44: numbers of collisions (§1.1), slips of §3.2 and App. C, strong l1, §5."""

import itertools

import numpy as np

from ...solvers.sparsification import weights_at
from ...theory import noise
from ...theory.derivation import sp
from ...theory.validation import FloatArray
from ..runner.findings import derived, numeric, post_hoc, rounding, searched, symbolic
from .claim import Evidence, Verdict, claim, corrected_statement, evidence

SOURCE = "lecomte2024"


@claim(
    "L38",
    SOURCE,
    "1.1",
    "if m is at most a constant times n, Omega(n) collisions occur: a constant fraction of all "
    "neurons is polysemantic",
)
def check_l38(quick: bool) -> Evidence:
    c, m = sp.symbols("c m", positive=True)
    # A neuron is wanted by k of n = m/c features with a binomial law: two or more, and both signs.
    no_feature, single = (1 - 1 / m) ** (m / c), (1 / c) * (1 - 1 / m) ** (m / c - 1)
    two = sp.limit(1 - no_feature - single, m, sp.oo) - (1 - (1 + 1 / c) * sp.exp(-1 / c))
    both = sp.limit(1 - 2 * (1 - 1 / (2 * m)) ** (m / c) + no_feature, m, sp.oo)
    both -= (1 - sp.exp(-1 / (2 * c))) ** 2
    shares = {r: ((1 - (1 + 1 / r) * np.exp(-1 / r)), (1 - np.exp(-0.5 / r)) ** 2) for r in (1.0, 4.0, 16.0)}
    # What n features and m neurons have, over that limit.
    off = max(abs(_both_signs_share(n, int(r * n)) / shares[r][1] - 1) for n in (256, 4096) for r in shares)
    shares_by_size = "; ".join(f"m = {r:g} n: {x:.3g}, {y:.3g}" for r, (x, y) in shares.items())
    return evidence(
        "By the largest of independent first weights. Shares of the neurons that two or more features want, "
        f"and that are wanted with both signs, for many features: {shares_by_size}. Malign collisions, of "
        "equal signs, are fought out, so that the second share is what is left of them (L17, L18).",
        corrected_statement(
            "with m = c n the share of neurons that two or more features want is 1 - (1 + 1/c) exp(-1/c), "
            "and that of those wanted with both signs (1 - exp(-1/(2c)))^2",
            symbolic("the first for m -> infinity, less that", sp.simplify(two)),
            symbolic("the second, less that", sp.simplify(both)),
            numeric("largest difference at n of 256 and 4096, relative", off, "<=", post_hoc(0.01)),
        ),
        about="order",
    )


def _both_signs_share(n: int, m: int) -> float:
    """Return the expected share of m neurons that are chosen with both signs, by n features at random.

    Each feature chooses one neuron and one sign, all equally likely.
    """
    return float(1 - 2 * (1 - 0.5 / m) ** n + (1 - 1 / m) ** n)


@claim(
    "L39",
    SOURCE,
    "1.1",
    "as long as m is significantly smaller than n^2, several collisions are to be expected",
)
def check_l39(quick: bool) -> Evidence:
    sizes = [(n, int(n * n / part)) for n in (32, 256, 4096) for part in (8, 32)]
    # None, or one: all features on places of their own, or one pair on one place.
    means, chances = [], []
    for n, m in sizes:
        no_pair = float(np.exp(np.sum(np.log1p(-np.arange(n) / m))))
        single = n * (n - 1) / 2 / m * float(np.exp(np.sum(np.log1p(-np.arange(n - 1) / m))))
        means.append(n * (n - 1) / (2 * m))
        chances.append(no_pair + single)
    return evidence(
        f"At m = n^2/8 the mean is {means[0]:.3g} to {means[-2]:.3g} collisions, at n^2/32 {means[1]:.3g} "
        f"to {means[-1]:.3g}, and the chance of fewer than two is {max(chances[::2]):.2g} and "
        f"{max(chances[1::2]):.2g} at most, n = 32 to 4096. None is left with a probability of "
        "exp(-n^2/(2m)) or less, so that one collision is to be expected up to m = n^2/2.",
        searched(
            "chance of fewer than two collisions at m = n^2/32", max(chances[1::2]), "<=", post_hoc(0.01)
        ),
        searched("least mean at m <= n^2/8", min(means), ">=", post_hoc(2.0)),
    )


def _interference_slope(W: FloatArray, hidden: FloatArray) -> float:
    """Return the largest |derivative| of sum_(i > 0) ReLU(W_i h)^2 by an entry of W[1:], at h = `hidden`.

    The sum is the squared error of outputs 1, 2, ... whose targets are 0; rows of W are the decoder's, h are
    the activations of the neurons.
    """
    step, slopes = 1e-6, []
    for entry in np.ndindex(W[1:].shape):
        ends = []
        for side in (-step, step):
            moved = W[1:].copy()
            moved[entry] += side
            ends.append(float(np.sum(np.maximum(moved @ hidden, 0) ** 2)))
        slopes.append(abs(ends[1] - ends[0]) / (2 * step))
    return max(slopes)


@claim(
    "L40",
    SOURCE,
    "3.2",
    "assumption 2: the noise does not turn on the ReLU at output i' on input i: (W_i + xi).W_i' with "
    "high probability",
)
def check_l40(quick: bool) -> Evidence:
    rng = np.random.default_rng(40)
    slopes: dict[bool, list[float]] = {True: [], False: []}  # by whether other outputs are silent
    for _ in range(200):
        W = rng.normal(size=(3, 4))
        W /= np.linalg.norm(W, axis=1, keepdims=True)
        hidden = W[0] + 0.3 * rng.choice([-1.0, 1.0], 4)
        slopes[bool(np.all(W[1:] @ hidden <= 0))].append(_interference_slope(W, hidden))
    silent, largest = max(slopes[True]), max(slopes[True] + slopes[False])
    return evidence(
        f"Of 200 random states of three features on four neurons {len(slopes[True])} meet (W_i + xi).W_i' <= "
        "0 for both others. The expression is compared with nothing in the text that was read, an extract "
        "which has lost minus signs beside it: the comparison may be in the paper.",
        numeric("gradient at other outputs, whatever their signals", largest, "<=", rounding(1e-5)),
        corrected_statement(
            "(W_i + xi).W_i' <= 0 with high probability",
            numeric("gradient at other outputs where that holds", silent, "<=", rounding(1e-5)),
        ),
        fault=Verdict.MISPRINT,
    )


@claim(
    "L41",
    SOURCE,
    "C.2",
    "the part of the loss with old and new noise is sigma^2 (1 - 4 eta(1 - 4 eta) sigma^2 ± 4 eta^2 "
    "(mu4 + (m-1) sigma^4)), constant, and will not push W towards or away from sparsity",
)
def check_l41(quick: bool) -> Evidence:
    eta, m, p2, p4, mu2, mu4 = sp.symbols("eta m p2 p4 mu2 mu4")
    part = (mu2 * noise.derive_next_step_square().expression).subs(p2, 1)
    first, second = 1 - 4 * eta * (1 - 4 * eta) * mu2, 4 * eta**2 * (mu4 + (m - 1) * mu2**2)
    with_plus, with_minus = ((part - mu2 * (first + sign * second)).expand() for sign in (1, -1))
    free = noise.derive_next_step_square().expression.diff(p4)
    return evidence(
        "It follows from L24 and L25, where the sign is plus. On the unit sphere the part is a constant; "
        "off it, it depends on the length of W alone, and so it turns W nowhere.",
        symbolic("with minus: the part less the print", with_minus),
        corrected_statement(
            "the sign before 4 eta^2 is +", symbolic("with plus: the part less it", with_plus)
        ),
        corrected_statement(
            "so the part is constant at |W| = 1, as printed",
            symbolic("its derivative in |W|_4^4, at any length", free),
        ),
        fault=Verdict.MISPRINT,
    )


def _final_weight(strength: float, first: float) -> float:
    """Return the weight w of an encoding on one neuron at time 2000 of gradient flow.

    The flow is dw/dt = (1 - w^2) w - `strength` sign(w), with w = `first` at time 0.
    """
    return float(np.atleast_1d(weights_at(np.array([first]), strength, 2000.0))[0])


@claim(
    "L42",
    SOURCE,
    "4",
    "when lambda is very high, the l1 term is too strong for the feature benefit, even if an "
    "encoding is perfectly sparse: a drop of the fourth norm",
)
def check_l42(quick: bool) -> Evidence:
    w = sp.Symbol("w", positive=True)
    (best,) = sp.solve(sp.diff(4 * (1 - w**2) * w, w), w)
    most = sp.simplify((4 * (1 - w**2) * w).subs(w, best))
    edge = float(most) / 4
    lasting, dying = _final_weight(0.99 * edge, 0.9), _final_weight(1.01 * edge, 0.9)
    ends = [_final_weight(share * edge, 0.9) ** 4 for share in (0.1, 0.5, 0.9)]
    return evidence(
        f"One weight w is pushed up with 4 (1 - w^2) w, which is {float(most):.4g} at most, at w = "
        f"{float(best):.3g}. At lambda of a tenth, a half and nine tenths of that the fourth norm of a "
        f"perfectly sparse encoding is {', '.join(f'{end:.2f}' for end in ends)}, and it is 0 above. From "
        "small or spread first weights encodings die at a smaller lambda.",
        symbolic("largest push of the feature benefit, less 8/(3 sqrt 3)", most - 8 / (3 * sp.sqrt(3))),
        searched("what is left of one weight, 1 % above 8/(3 sqrt 3)", dying, "<=", rounding(1e-9)),
        searched("the same, 1 % below", lasting, ">=", derived(float(best))),
        searched("largest change of the fourth norm as lambda grows", np.diff(ends).max(), "<", derived(0)),
    )


@claim(
    "L43",
    SOURCE,
    "5",
    "asked: can incidental polysemanticity be told from necessary polysemanticity by the trained "
    "state alone?",
)
def check_l43(quick: bool) -> Evidence:
    wrong, n_most, m_most = 0, 6, 4
    for n, m in itertools.product(range(1, n_most + 1), range(1, m_most + 1)):
        states = [state for state in itertools.product((0, 1, 2), repeat=m) if sum(state) == n]
        counts = [state.count(2) for state in states]
        wrong += bool(counts) != (n <= 2 * m) or (bool(counts) and min(counts) != max(0, n - m))
    return evidence(
        "In the source's model of Section 2, at states without loss in which each feature is on one "
        "neuron (L2): a neuron holds 0, 1 or 2 of them. For other models and for networks trained on data "
        "it is open; it would be decided by the least number of polysemantic neurons at the same loss.",
        corrected_statement(
            "in the model of Section 2 by counting, where each feature is on one neuron: for m <= n <= 2m at "
            "least n - m neurons have to be polysemantic, and none if m >= n; what is more is incidental",
            numeric(f"sizes to n = {n_most}, m = {m_most} where that is wrong", wrong, "==", derived(0)),
        ),
        about="answer",
    )


@claim(
    "L44",
    SOURCE,
    "5",
    "asked: is most of the polysemanticity in real networks necessary or incidental, and how does "
    "this depend on architecture and data?",
)
def check_l44(quick: bool) -> Evidence:
    return evidence(
        "Nothing is known here. It would be decided by networks of one architecture and data, trained "
        "from many seeds with and without what makes it incidental (an l1 term, bounded noise, a "
        "privileged basis) and at several widths, in which features are known: what stays at every seed "
        "and falls only with width is necessary."
    )

"""Notes (2022), B16-B18: no local maxima, Sigma a multiple of 1, and the skeletons of the cube."""

import itertools

import numpy as np

from ...theory import linear as theory
from ...theory.derivation import sp
from ...theory.features import SparseUniform
from ..runner.findings import derived, numeric, rounding, searched, symbolic
from .claim import Evidence, Verdict, claim, corrected_statement, evidence
from .notes_linear import SOURCE, subsets


@claim(
    "B16",
    SOURCE,
    "end of Prop. 3",
    "a critical point that is not the minimum is not a local maximum: for fixed A of full rank the "
    "loss is convex",
)
def check_b16(quick: bool) -> Evidence:
    values, hidden = np.array([5.0, 4.0, 3.0, 2.0, 1.0]), 2
    sigma, rising, convex = np.diag(values), [], np.inf
    rng = np.random.default_rng(16)
    for subset in subsets(values.size, hidden):
        point = theory.critical_hessian(sigma, subset, hidden)
        rising.append(2 * values.size * hidden - point.index - point.nullity)
        A, B = theory.critical_point(sigma, subset, hidden)
        step = 0.1 * rng.normal(size=B.shape)
        ends = [theory.reconstruction_loss(A, B + side * step, sigma) for side in (-1.0, 0.0, 1.0)]
        convex = min(convex, ends[0] + ends[2] - 2 * ends[1])
    return evidence(
        "For any A the loss is a convex quadratic in B, strictly if A has full rank and Sigma is "
        f"invertible. Searched are the {len(rising)} critical points of five features on two neurons; at the "
        "origin, where A has no rank, the directions that go up move A and B together.",
        searched("least number of directions in which the loss rises", min(rising), ">=", derived(1)),
        searched("least second difference in B at fixed A", convex, ">=", rounding(-1e-12)),
    )


@claim("B17", SOURCE, "2.1", "asked: how justifiable is it to take Sigma for a multiple of the identity?")
def check_b17(quick: bool) -> Evidence:
    p, D = sp.symbols("p D", positive=True)
    top, rest = p / 3 - p**2 / 4 + D * p**2 / 4, p / 3 - p**2 / 4
    over = sp.simplify(top / rest - 1 - 3 * D * p / (4 - 3 * p))
    n, q = 6, 0.1
    eigenvalues = np.linalg.eigvalsh(SparseUniform(q).second_moment_matrix(n))
    gap = abs(eigenvalues[-1] / eigenvalues[0] - 1 - 3 * n * q / (4 - 3 * q))
    u = sp.Symbol("u")
    fourth = p * sp.integrate(u**4, (u, 0, 1))
    spread = sp.simplify((fourth - (p / 3) ** 2) / (p / 3) ** 2 - (9 / (5 * p) - 1))
    centred = SparseUniform(q).covariance(n)
    off = float(np.abs(centred - centred[0, 0] * np.eye(n)).max())
    return evidence(
        "p = 1 - S. In expectation Sigma is Var x times the identity, and (E x)^2 in every entry besides. "
        "A model with an output bias sees the first alone. Over T data points the entries of the diagonal "
        "scatter by the root of (9/(5p) - 1)/T of themselves: a tenth at T = 1700 for p = 0.1, at 18,000 "
        "for 0.01.",
        corrected_statement(
            "in expectation one eigenvalue, that of the direction of ones, is larger than the others by the "
            "share 3 D p/(4 - 3 p): justified where D p << 1",
            symbolic("share by which it is larger, less that", over),
            numeric("the same of the matrix, D = 6, p = 0.1", float(gap), "<=", rounding(1e-12)),
        ),
        corrected_statement(
            "exactly so if the model has an output bias, as data count as centred then",
            numeric("largest entry of the covariance less a multiple of 1", off, "<=", rounding(1e-16)),
        ),
        corrected_statement(
            "of T data points the entries of the diagonal have the relative standard deviation ((9/(5p) - "
            "1)/T)^(1/2)",
            symbolic("relative variance of x^2, less 9/(5p) - 1", spread),
        ),
        about="answer",
    )


@claim("B18", SOURCE, "3.1", "the cube is the disjoint union C = Q_0, ..., Q_n of its skeletons")
def check_b18(quick: bool) -> Evidence:
    D, d = 5, 2
    counts = np.bincount([sum(pattern) for pattern in itertools.product((0, 1), repeat=D)])
    to_d, to_D = (float(counts[: most + 1].sum() / counts.sum()) for most in (d, D))
    return evidence(
        "The text calls the cube Q, with D coordinates, and has no n; the only other size of the model is "
        f"d. Of the {counts.sum()} patterns of D = {D} coordinates those with up to d = {d} on are "
        f"{to_d:.2g}.",
        numeric("share of the patterns in Q_0 to Q_d", to_d, "==", derived(1)),
        corrected_statement(
            "Q is the disjoint union of Q_0, ..., Q_D",
            numeric("share in Q_0 to Q_D", to_D, "==", derived(1)),
        ),
        fault=Verdict.MISPRINT,
    )

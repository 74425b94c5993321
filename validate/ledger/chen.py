"""Chen et al. (2023), T1-T4: k-gons of two hidden dimensions, and their local learning coefficients.

arXiv 2310.06301 v1, 10 October 2023. One feature is on at a time. The numbers are not from the paper itself
but from two who read it, and who agree where both have one: humiliati/sundog,
docs/atlas/TMS_H0_HARVEST.md (12 June 2026, commit 51d5226), and ztreisman/arc-llc, RESULTS.md and tms.py
(2026, commit 6bd3958), both read on 27 November 2026.
"""

import tempfile
from fractions import Fraction

import numpy as np

from ...solvers.loss import exact_loss
from ...solvers.minimise import learning
from ...theory import relu
from ...theory.features import Features
from ...theory.validation import FloatArray
from ..proofs.certificates import learning_certificate
from ..runner.findings import derived, numeric
from .claim import Evidence, claim, evidence

SOURCE = "chen2023"

# Printed: length of the encodings and bias of the regular k-gon.
PRINTED = {
    5: (1.17046, -0.28230), 6: (1.32053, -0.61814), 7: (1.44839, -0.96691), 8: (1.55045, -1.29119)
}  # fmt: skip
DROPPED_BIAS = -0.5  # nothing depends on it


def polygon(k: int, c: int, positive: int = 0) -> tuple[FloatArray, FloatArray]:
    """Return W (c, 2) and b (c,) of the k-gon of c features with the lengths and biases of Chen et al.

    Rows 0 to k - 1 of W are the polygon, k from 5 to 8. The other features are dropped, with rows 0: the
    first `positive` of them have the bias 1/(2c), the rest -1/2.
    """
    W, b = np.zeros((c, 2)), np.full(c, DROPPED_BIAS)
    length, b[:k] = PRINTED[k]
    W[:k] = length * relu.polygon(k)
    b[k : k + positive] = 1.0 / (2 * c)
    return W, b


def one_on(c: int) -> Features:
    """Return the law of c features of which exactly one, at random, is on, with a value uniform on [0, 1]."""
    return Features(c, 0.5, exactly=1)


def proved_coefficient(k: int, c: int, positive: int = 0) -> Fraction:
    """Return the local learning coefficient of a k-gon, proved by a certificate that the checker accepts.

    The model is ReLU(W W' x + b), with exactly one of c features on. The polygon has k of the features;
    `positive` of the others have a positive bias (`polygon`).
    """
    W, b = polygon(k, c, positive)
    with tempfile.TemporaryDirectory() as folder:
        return learning_certificate(W, W.T, b, one_on(c), path=f"{folder}/polygon.json")


@claim(
    "T1",
    SOURCE,
    "learning coefficients, k < c",
    "k-gons of k < c features have the local learning coefficients 7, 8.5, 10 and 11.5 for k = 5 to "
    "8, where the others are dropped with a negative bias",
)
def check_t1(quick: bool) -> Evidence:
    printed = {5: 7.0, 6: 8.5, 7: 10.0, 8: 11.5}
    sizes = [(k, k + dropped) for k in printed for dropped in (1, 2)]
    off = [abs(float(proved_coefficient(k, c)) - printed[k]) for k, c in sizes]
    return evidence(
        "By certificates, one and two features dropped: all are local minima, and regular ones but for what "
        "leaves the loss alone. That is the rotation, and the encodings and biases of dropped features: "
        "(3k - 1)/2. If features are on independently only the biases are free (page learning-coefficient).",
        numeric("largest |proved - printed|", max(off), "<=", derived(0)),
    )


@claim(
    "T2",
    SOURCE,
    "learning coefficients, k = c",
    "k-gons of k = c features have the local learning coefficient (3c - 1)/2",
)
def check_t2(quick: bool) -> Evidence:
    off = [abs(proved_coefficient(c, c) - Fraction(3 * c - 1, 2)) for c in PRINTED]
    return evidence(
        "By certificates for c = 5 to 8; all are local minima.",
        numeric("largest |proved - printed|", float(max(off)), "<=", derived(0)),
    )


@claim(
    "T3",
    SOURCE,
    "learning coefficients, 5+",
    "the 5-gon of c = 6 whose sixth feature is dropped with the bias 1/(2c) has the local learning "
    "coefficient 8.5",
)
def check_t3(quick: bool) -> Evidence:
    off = abs(float(proved_coefficient(5, 6, positive=1)) - 8.5)
    return evidence(
        "By a certificate. The sixth output is always on: all but the rotation is curved, and it is a local "
        "minimum.",
        numeric("|proved - printed|", off, "<=", derived(0)),
    )


@claim(
    "T4",
    SOURCE,
    "Table A.1",
    "the k-gons have encodings of length 1.17046, 1.32053, 1.44839, 1.55045 and biases -0.28230, "
    "-0.61814, -0.96691, -1.29119 for k = 5 to 8; losses at c = 6 are 0.06874 (5), 0.06180 (5+) and "
    "0.04819 (6)",
)
def check_t4(quick: bool) -> Evidence:
    gaps = []
    for k, numbers in PRINTED.items():
        W, b = polygon(k, k)
        of = learning.ParameterMap(k, 2, tied=True)
        at, _ = learning.polished(of, of.vector(W, W.T, b), one_on(k))
        solved, _, biases = of.split(at.astype(float))
        gaps += [np.hypot(*solved.T) - numbers[0], biases - numbers[1]]
    losses = {(5, 0): 0.06874, (5, 1): 0.06180, (6, 0): 0.04819}
    for (k, positive), printed in losses.items():
        W, b = polygon(k, 6, positive)
        gaps.append(np.array([6.0 * exact_loss(W @ W.T, b, one_on(6)).loss - printed]))
    return evidence(
        "Newton's method from the printed numbers, in decimals; the limit is half of the last printed digit.",
        numeric("largest difference from print", max(np.abs(x).max() for x in gaps), "<=", derived(5e-6)),
    )

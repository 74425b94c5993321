"""Elhage et al. (2022), E1 and E2: the importance-weighted loss of the linear model and its optimum."""

import itertools

import numpy as np
from scipy import linalg

from ...theory import linear as theory
from ...theory.features import SparseUniform
from ...theory.linear import derive
from .ledger import Claim, Evidence, bound, claim, numeric, symbolic

__all__ = ["ELHAGE_LINEAR", "SOURCE"]

SOURCE = "elhage2022"


@claim(
    "E1",
    SOURCE,
    "linear",
    "L ~ sum_i I_i (1-|W_i|^2)^2 + sum_{i!=j} I_j (W_j.W_i)^2",
    "exact with the factor Var x = p/3 - p^2/4 (p = 1-S) for centred inputs or the best output bias. "
    "Without bias (E x)^2 sum_i I_i (1 - sum_j W_i.W_j)^2 is added, up to 3np/(4-3p) times the rest: "
    "negligible for n p << 1 only",
)
def e1(quick: bool) -> Evidence:
    import sympy as sp

    W, weights = derive.matrix_of("w", 3, 2), sp.symbols("I1:4", positive=True)
    m, v = sp.symbols("m v", positive=True)
    M = W * W.T
    form = sum(weights[i] * (int(i == j) - M[i, j]) ** 2 for i in range(3) for j in range(3))
    added = sum(weights[i] * (1 - sum(M.row(i))) ** 2 for i in range(3))
    derived = derive.derive_importance_loss(3, 2).expression
    without, best = derived[0] - v * form - m**2 * added, derived[1] - v * form
    one, other = np.array([[0.8], [0.6]]), np.array([[0.8], [-0.6]])
    ratio = theory.sparse_loss(one, 1.0, bias="none") / theory.sparse_loss(other, 1.0, bias="none")
    n, p = 100, 0.05
    nothing = np.zeros((n, 1))
    extra = theory.sparse_loss(nothing, p, bias="none") / theory.sparse_loss(nothing, p) - 1
    without_mean = linalg.null_space(np.ones((1, n)))
    most = theory.sparse_loss(without_mean, p, bias="none") / theory.sparse_loss(without_mean, p) - 1
    same = theory.importance_loss(one) - theory.importance_loss(other)
    return Evidence(
        "Two features on one neuron, w = (0.8, 0.6) or (0.8, -0.6): the same printed value, but at p = 1 and "
        "without bias the losses differ by a factor.",
        [
            numeric("printed", "printed value at (0.8, 0.6) less that at (0.8, -0.6)", same, "==", 0.0),
            numeric(
                "printed", "ratio of their losses without bias, p = 1, less 1", abs(ratio - 1), "<=", 1e-12
            ),
            symbolic("corrected", "loss without bias less both terms", without),
            symbolic("corrected", "loss at the best bias less Var x times the printed sum", best),
        ],
        {
            "ratio of losses of (0.8, 0.6) and (0.8, -0.6)": ratio,
            "extra term over the printed one, W = 0, n = 100, p = 0.05": extra,
            "the same for W W' = 1 - (projection on the vector of ones)": most,
            "3np/(4-3p)": 3 * n * p / (4 - 3 * p),
        },
    )


@claim(
    "E2",
    SOURCE,
    "linear",
    "the linear model never gains by representing more features than dimensions",
    "true for centred inputs or with the best bias: the least loss keeps the m most important features "
    "whole (a tie of all projections if all are equal). Without bias inputs are correlated and mixing all "
    "features gains: the best model is a weighted PCA",
)
def e2(quick: bool) -> Evidence:
    rng = np.random.default_rng(2)
    worst, gain = np.inf, 0.0
    for _ in range(100 if quick else 2000):
        n = int(rng.integers(2, 7))
        hidden = int(rng.integers(1, n))
        p, importance = float(rng.uniform(0.05, 1)), rng.uniform(0.1, 1, n)
        best = theory.weighted_optimum(SparseUniform(p).covariance(n), importance, hidden)
        gain = max(gain, abs(best.gain))
        order = np.argsort(-importance)[:hidden]
        W = np.zeros((n, hidden))
        W[order, np.arange(hidden)] = 1
        W += 10.0 ** rng.uniform(-3, 0.3) * rng.normal(size=W.shape)
        worst = min(worst, theory.sparse_loss(W, p, importance) - best.dedicated)
    uncentred = theory.weighted_optimum(SparseUniform(1.0).second_moment_matrix(2), np.ones(2), 1)
    all_in_one = theory.sparse_loss(np.full((2, 1), 0.5**0.5), 1.0, bias="none")
    tie = [
        theory.sparse_loss(np.array([[np.cos(x)], [np.sin(x)]]), 0.3)
        - theory.sparse_loss([[1.0], [0.0]], 0.3)
        for x in (0.3, 0.9, 2.0)
    ]
    equal = [
        abs(
            theory.weighted_optimum(SparseUniform(p).second_moment_matrix(n), np.ones(n), m).gain * n
            - n * p * p / 4 * (1 - 1 / n)
        )
        for n, m, p in itertools.product((2, 5), (1,), (0.1, 1.0))
    ]
    return Evidence(
        "Counterexample without bias: two features that are always on, one neuron, w = (1, 1)/2^1/2. Its "
        "loss is 1/12 (sum over features), a fourth of the 1/3 of keeping one feature whole. With equal "
        "importance mixing gains (E x)^2 (n - 1): the mean goes first. The best model without bias is M = "
        "D^-1/2 P D^1/2 with D = diag(I) and P the projection on the leading eigenvectors of "
        "D^1/2 E xx' D^1/2.",
        [
            numeric(
                "printed",
                "two features, one neuron, p = 1, no bias: least loss of one kept, less that of both",
                2 * (uncentred.dedicated - all_in_one),
                "<=",
                0.0,
            ),
            numeric("corrected", "gain for uncorrelated inputs, random importance", gain, "<=", 1e-13),
            bound(
                "corrected", "least loss of random W less that of the best features kept", worst, ">=", -1e-13
            ),
            numeric(
                "corrected", "equal importance, turned by 3 angles: change", np.abs(tie).max(), "<=", 1e-14
            ),
            numeric("corrected", "gain without bias less (E x)^2 (n-1)", max(equal), "<=", 1e-13),
        ],
        {"loss of both on one neuron (sum)": 2 * all_in_one, "of one kept (sum)": 2 * uncentred.dedicated},
    )


ELHAGE_LINEAR: tuple[Claim, ...] = (e1, e2)

"""Elhage et al. (2022), E1 and E2: the importance-weighted loss of the linear model and its optimum."""

import numpy as np
from scipy import linalg

from ...theory import linear as theory
from ...theory.features import SparseUniform
from ...theory.linear import derive
from .ledger import Claim, Evidence, bound, claim, numeric, symbolic

__all__ = ["ELHAGE_LINEAR", "SOURCE"]

SOURCE = "elhage2022"


@claim("E1", SOURCE, "linear", "L ~ sum_i I_i (1-|W_i|^2)^2 + sum_{i!=j} I_j (W_j.W_i)^2")
def e1(quick: bool) -> Evidence:
    import sympy as sp

    W, weights = derive.matrix_of("w", 3, 2), sp.symbols("I1:4", positive=True)
    v = sp.Symbol("v", positive=True)
    M = W * W.T
    form = sum(weights[i] * (int(i == j) - M[i, j]) ** 2 for i in range(3) for j in range(3))
    best = derive.derive_importance_loss(3, 2).expression[1]
    one, other = np.array([[0.8], [0.6]]), np.array([[0.8], [-0.6]])
    ratio = theory.sparse_loss(one, 1.0, bias="none") / theory.sparse_loss(other, 1.0, bias="none")
    n, p = 100, 0.05
    nothing, rest = np.zeros((n, 1)), linalg.null_space(np.ones((1, n)))
    extra, most = (
        theory.sparse_loss(W, p, bias="none") / theory.sparse_loss(W, p) - 1 for W in (nothing, rest)
    )
    return Evidence(
        "The source's linear model has an output bias, W'W x + b. At its best the loss is Var x times the "
        "printed sum, for independent inputs of one variance: Var x = p/3 - p^2/4, p = 1-S. Without bias "
        "(a model that the source does not write) the inputs are not centred and (E x)^2 sum_i I_i (1 - "
        f"sum_j W_i.W_j)^2 is added, up to 3np/(4-3p) times the rest: for n = {n} and p = {p:g} it is "
        f"{extra:.2g} times the rest at W = 0 and {most:.2g} times where W'W misses the direction of ones "
        "alone, and two features on one neuron, w = (0.8, 0.6) or (0.8, -0.6), have the same printed value "
        f"but losses whose ratio is {ratio:.3g} at p = 1.",
        [symbolic("printed", "loss at the best bias less Var x times the printed sum", best - v * form)],
        {"3np/(4-3p)": 3 * n * p / (4 - 3 * p)},
    )


@claim("E2", SOURCE, "linear", "the linear model never gains by representing more features than dimensions")
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
    both = theory.sparse_loss(np.full((2, 1), 0.5**0.5), 1.0, bias="none")
    kept = theory.sparse_loss([[1.0], [0.0]], 0.3)
    turned = [theory.sparse_loss([[np.cos(x)], [np.sin(x)]], 0.3) for x in (0.3, 0.9, 2.0)]
    return Evidence(
        "The source's linear model has an output bias, and at its best inputs count as centred: the least "
        "loss of any decoder and encoder keeps the m most important features whole. With equal importance "
        "features may share dimensions, at the same loss: a tie, not a gain. Without bias (a model that the "
        "source does not write) independent inputs count as correlated, the best model is a weighted PCA, M "
        "= D^-1/2 P D^1/2 with D = diag(I) and P the projection on the leading eigenvectors of D^1/2 E xx' "
        "D^1/2, and mixing gains: two features that are always on, one neuron, w = (1, 1)/2^1/2, have the "
        f"loss {2 * both:.4f} (sum over features), where one kept whole has {2 * uncentred.dedicated:.4f}.",
        [
            numeric("printed", "largest gain of mixing, best bias, random importance", gain, "<=", 1e-13),
            bound(
                "printed", "least loss of random W less that of the best features kept", worst, ">=", -1e-13
            ),
            numeric("printed", "equal importance, turned by 3 angles: gain", kept - min(turned), "<=", 1e-14),
        ],
        {"remark: least loss of any model without bias, two features, one neuron (sum)": 2 * uncentred.loss},
    )


ELHAGE_LINEAR: tuple[Claim, ...] = (e1, e2)

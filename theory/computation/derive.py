"""SymPy derivations for computation in superposition: moments of targets, readouts, rare features.

Features are on with probability p and then uniform on [-1, 1]. Targets of a feature x are "relu" for ReLU(x),
"abs" for |x| and "mixed" for x + ReLU(x).
"""

from typing import Any

from ..derivation import Derivation, cached_derivation, derived, sp

__all__ = [
    "derive_bent", "derive_eigenvalues", "derive_fan", "derive_moments", "derive_readout", "derive_shared",
    "derive_single", "derive_unbiased",
]  # fmt: skip

# The target of x is the first times x where x > 0, and the second times -x where x < 0.
_SIDES = {"relu": (1, 0), "abs": (1, 1), "mixed": (2, -1)}


def _symbols() -> tuple[Any, Any, Any]:
    """Return the SymPy symbols p > 0, a feature's probability to be on, n > 0, a count, and x, a value."""
    return sp.Symbol("p", positive=True), sp.Symbol("n", positive=True), sp.Symbol("x", real=True)


def _mean_over_values(right: Any, left: Any) -> Any:
    """Return the mean, over x uniform on [-1, 1], of `right` where x > 0 and `left` where x < 0.

    Both are SymPy expressions in x; in `left`, x stands for |x|.
    """
    x = _symbols()[2]
    return (sp.integrate(right, (x, 0, 1)) + sp.integrate(left, (x, 0, 1))) / 2


@cached_derivation
def derive_moments(target: str) -> Derivation:
    """Derive the column of mean, mean square and variance of the target of one feature.

    `target` is "relu" for ReLU(x), "abs" for the absolute value or "mixed" for x + ReLU(x), of a feature x
    that is on with probability p and then uniform on [-1, 1].

    >>> derive_moments("relu").expression.T
    Matrix([[p/4, p/6, -p**2/16 + p/6]])
    """
    p, _, x = _symbols()
    up, down = _SIDES[target]
    mean, square = (
        p * _mean_over_values(up * x, down * x),
        p * _mean_over_values((up * x) ** 2, (down * x) ** 2),
    )
    return Derivation(sp.Matrix([mean, square, sp.expand(square - mean**2)]), (p,))


@cached_derivation
def derive_single(target: str) -> Derivation:
    """Derive the least loss E (t - a h - c)^2 of a target t, over a and c, for one neuron h = ReLU(x).

    The loss is Var t - Cov(h, t)^2 / Var h. `target` is "relu" for t = ReLU(x), "abs" for the absolute value
    or "mixed" for x + ReLU(x).

    >>> derive_single("relu").expression
    0
    """
    p, _, x = _symbols()
    up = _SIDES[target][0]
    mean, _, spread = derive_moments(target).expression
    own_mean, _, own_square = derive_moments("relu").expression
    shared = p * _mean_over_values(up * x * x, 0 * x) - mean * own_mean
    return Derivation(sp.factor(sp.simplify(spread - shared**2 / own_square)), (p,))


@cached_derivation
def derive_eigenvalues() -> Derivation:
    """Check the eigenvalues of E t t' for F = 4 independent targets of variance v and mean mu: returns 0.

    The eigenvalues are v + F mu^2, once, for the vector of ones, and v for all vectors whose entries sum to
    0. The expression is the sum of squares of E t t' u - eigenvalue u over such vectors u.

    >>> derive_eigenvalues().expression
    0
    """
    v, mu = sp.Symbol("v", positive=True), sp.Symbol("mu", positive=True)
    size = 4
    matrix = v * sp.eye(size) + mu**2 * sp.ones(size)
    ones = sp.ones(size, 1)
    left = matrix * ones - (v + size * mu**2) * ones
    for k in range(1, size):
        difference = sp.Matrix(size, 1, lambda i, _, k=k: int(i == 0) - int(i == k))
        left = left.row_join(matrix * difference - v * difference)
    return Derivation(sp.expand(sum(entry**2 for entry in left)), (), ("The matrix has four rows.",))


@cached_derivation
def derive_readout() -> Derivation:
    """Derive the least loss E (t - a (t_1 + ... + t_n))^2 of a readout of target t from n other targets.

    t, t_1, ..., t_n are independent with the mean mu and the variance v; the readout has no bias. By symmetry
    and convexity the weights of the best readout are equal, a = mu^2 / (v + n mu^2).

    >>> derive_readout().expression
    v*(mu**2*n + mu**2 + v)/(mu**2*n + v)
    """
    v, mu, a = sp.symbols("v mu a", positive=True)
    n = _symbols()[1]
    loss = v + mu**2 - 2 * a * n * mu**2 + a**2 * (n * v + n**2 * mu**2)
    (best,) = sp.solve(sp.diff(loss, a), a)
    return Derivation(sp.factor(sp.simplify(loss.subs(a, best))), (mu, n, v))


@cached_derivation
def derive_bent() -> Derivation:
    """Derive the least loss/p, as p -> 0, of the target x + ReLU(x) read from the neuron ReLU(x + a).

    The readout is a weight and an output bias, so that the neuron acts as max(x, -a), with 0 <= a <= 1. The
    result is a column: the loss at the best weight, and a polynomial in a with the sign of the loss's
    derivative by a.

    >>> derive_bent().expression[1]
    a**4 - a**3 + 3*a - 1
    """
    a, _, x = sp.Symbol("a", positive=True), *_symbols()[1:]
    product = (
        sp.integrate(2 * x * x, (x, 0, 1)) + sp.integrate(x * x, (x, 0, a)) + sp.integrate(a * x, (x, a, 1))
    ) / 2
    square = (
        sp.integrate(x * x, (x, 0, 1)) + sp.integrate(x * x, (x, 0, a)) + sp.integrate(a * a, (x, a, 1))
    ) / 2
    coefficient = derive_moments("mixed").expression[1].coeff(_symbols()[0], 1)
    loss = sp.together(coefficient - product**2 / square)
    slope = sp.factor(sp.numer(sp.together(sp.diff(loss, a))))
    (quartic,) = [factor for factor, _ in sp.factor_list(slope)[1] if sp.degree(factor, a) == 4]
    return Derivation(sp.Matrix([loss, sp.expand(quartic)]), (a,))


@cached_derivation
def derive_fan(target: str) -> Derivation:
    """Derive the loss/p, p -> 0, summed over outputs, of `fan_network` with 4 neurons and 4 features.

    A fan computes targets of rare features as differences of its neurons, which further features, the
    carriers, keep active. For the `target` "abs", neuron i = 1, ..., 4 has weights eps (i - j - 1) on
    features j = 1, 2, and weights 1 and i on two carriers. The second difference of the neurons over i,
    divided by eps, is |x_j|. Outputs of carriers are right for x > 0, and 0 for x < 0. For "mixed", neuron i
    has weights 2 eps on feature j = i - 1, -eps on the others of j = 1, 2, 3, and 1 on one carrier. Neuron j
    + 1 minus neuron 1, divided by eps, is x_j + ReLU(x_j).

    >>> derive_fan("abs").expression, derive_fan("mixed").expression
    (5*eps**2/2 + 1/3, 2*eps**2 + 1/6)
    """
    eps = sp.Symbol("eps", positive=True)
    U, V = fan(target, 4, 4, eps)
    up, down = _SIDES[target]
    loss = 0
    for j in range(4):
        ends = [(up, U[:, j]), (down, -U[:, j])]  # the hidden layer at x_j = 1 and at x_j = -1
        for side, column in ends:
            hidden = column.applyfunc(lambda w: w if w.subs(eps, 1).is_positive else sp.Integer(0))
            error = V * hidden - side * sp.eye(4)[:, j]
            loss += sum(e**2 for e in error) / 6
    return Derivation(sp.expand(loss), (eps,), ("eps is small.",))


def fan(target: str, n_features: int, n_hidden: int, eps: Any) -> tuple[Any, Any]:
    """Return U (n_hidden, n_features) and V (n_features, n_hidden) of `fan_network` as SymPy matrices.

    `target` is "abs" for |x| or "mixed" for x + ReLU(x); `eps` is the size of the small weights. U are the
    weights of the ReLU neurons, V those of the linear readout.
    """
    n, unity = n_hidden, sp.Integer(1)
    U, V = sp.zeros(n, n_features), sp.zeros(n_features, n)
    if target == "abs":
        for j in range(n - 2):
            for i in range(n):
                U[i, j] = eps * (i - j - 1)
            V[j, j], V[j, j + 1], V[j, j + 2] = unity / eps, -2 / eps, unity / eps
        for i in range(n):
            U[i, n - 2], U[i, n - 1] = unity, i + unity
        V[n - 2, 0], V[n - 2, 1] = 2 * unity, -unity  # reads 1 of the first carrier, 0 of the second
        V[n - 1, 0], V[n - 1, 1] = -unity, unity
    else:
        for j in range(n - 1):
            for i in range(n):
                U[i, j] = -eps
            U[j + 1, j] = 2 * eps
            V[j, 0], V[j, j + 1] = -unity / eps, unity / eps
        for i in range(n):
            U[i, n - 1] = unity
        V[n - 1, 0] = 2 * unity
    return U, V


@cached_derivation
def derive_shared() -> Derivation:
    """Derive the readout weight w with the least fourth powers of errors, for a neuron shared by g features.

    The neuron is the ReLU of the sum of the features, each on with a small probability p, and each of the g
    outputs is w times the neuron. A feature adds p/10 times (1 - w)^4 + (g - 1) w^4 to the fourth powers, at
    its own output and at the others. The result is a column of the best w and of that sum, as functions of k
    = (g - 1)^(1/3).

    >>> derive_shared().expression.T
    Matrix([[1/(k + 1), k**3/(k + 1)**3]])
    """
    k, w = sp.symbols("k w", positive=True)
    cost = (1 - w) ** 4 + k**3 * w**4
    # The slope vanishes where (1 - w)^3 = (k w)^3.
    best = 1 / (1 + k)
    if sp.simplify(sp.diff(cost, w).subs(w, best)) != 0:
        raise AssertionError
    return derived(sp.Matrix([best, sp.factor(sp.simplify(cost.subs(w, best)))]))


@cached_derivation
def derive_unbiased() -> Derivation:
    """Derive the share of the naive loss that a neuron h = ReLU(x_1 + k x_2) saves for two targets ReLU(x).

    The share is divided by p, to leading order, without output bias; p is the probability that a feature is
    on. The naive network has k = 0. E h² is (1 + k^2) p/6 for all p, so the saving comes from products of h
    with the targets while both features are on. The formula holds for 0 <= k <= 1; for larger k swap the
    features, which turns k into 1/k.

    >>> derive_unbiased().expression
    k*(2*k**2 - 4*k + 3)/(4*(k**2 + 1))
    """
    k, x, s = sp.symbols("k x s", positive=True)
    both = sp.integrate(sp.expand((x + k * s) ** 2), (x, 0, 1), (s, 0, 1))
    # x_1 = x > 0 and x_2 = -s < 0: on where x > k s; and the other way round: on where s < k x.
    first = sp.integrate(sp.integrate(sp.expand((x - k * s) * x), (x, k * s, 1)), (s, 0, 1))
    second = sp.integrate(sp.integrate(sp.expand((k * x - s) * k * x), (s, 0, k * x)), (x, 0, 1))
    product = (both + first + second) / 4 / (1 + k**2)
    share = 12 * product
    return Derivation(sp.factor(sp.simplify(share - share.subs(k, 0))), (k,), ("p is small.", "0 <= k <= 1."))

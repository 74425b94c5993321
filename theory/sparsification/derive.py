r"""SymPy derivations of the l1 dynamics of Lecomte et al. (2024), §2.3, §2.4 and App. B.

In the normal form an encoding of positive weights w1, w2, ... follows :math:`\dot w_k = (1-|W|^2)w_k -
\lambda`. Arguments `n_weights`, `n_features` and `n_hidden` are the numbers of weights, encodings and neurons
that the derivation is made for.
"""

from typing import Any

from ..derivation import Derivation, cached_derivation, derived, sp
from ..special import derive_ramp_moment

__all__ = [
    "derive_flow", "derive_limit_law", "derive_limit_moments", "derive_rates", "derive_reduction",
    "derive_tail_fluctuations", "derive_winner", "encoding", "normal_flow", "slope",
]  # fmt: skip


@cached_derivation
def derive_flow(n_features: int = 3, n_hidden: int = 2) -> Derivation:
    r"""Derive the flow with interference, minus the gradient of the loss with respect to the weights W_ik.

    The loss is :math:`\sum_i (1-|W_i|^2)^2 + \sum_{j\ne i} \mathrm{ReLU}(W_i\cdot W_j)^2 + \lambda|W_i|_1`:
    the symbol s_ij is 1 where the overlap of a pair is positive, else 0, and e_ik is the sign of a weight.
    See Lecomte et al. (2024), §2.3.

    >>> derive_flow(1, 1).expression
    Matrix([[-4*W_00**3 + 4*W_00 - e_00*lambda]])
    """
    lam = sp.Symbol("lambda", positive=True)
    w = sp.Matrix(n_features, n_hidden, lambda i, k: sp.Symbol(f"W_{i}{k}", real=True))
    sign = sp.Matrix(n_features, n_hidden, lambda i, k: sp.Symbol(f"e_{i}{k}", real=True))
    on = sp.Matrix(
        n_features, n_features, lambda i, j: sp.Symbol(f"s_{min(i, j)}{max(i, j)}", nonnegative=True)
    )
    overlap = w * w.T
    loss = sum(
        (1 - overlap[i, i]) ** 2
        + sum(on[i, j] * overlap[i, j] ** 2 for j in range(n_features) if j != i)
        + lam * sum(sign[i, k] * w[i, k] for k in range(n_hidden))
        for i in range(n_features)
    )
    return derived(sp.Matrix(n_features, n_hidden, lambda i, k: sp.expand(-sp.diff(loss, w[i, k]))))


def normal_flow(n_features: int, n_hidden: int) -> Any:
    """Return dW/dt in normal form, a SymPy matrix: a quarter of `derive_flow`, at the l1 strength 4 lambda.

    Row i is (1 - |W_i|²) W_i - sum_j ReLU(W_i.W_j) W_j - lambda sign(W_i).
    """
    lam = sp.Symbol("lambda", positive=True)
    return (derive_flow(n_features, n_hidden).expression.subs(lam, 4 * lam) / 4).expand()


def encoding(n_weights: int) -> tuple[Any, list[Any], list[Any]]:
    """Return the symbols lambda and w1, w2, ... > 0 of `n_weights` weights, and their time derivatives.

    The weights move without interference: w_i' = w_i (1 - |W|^2) - lambda.
    """
    w = list(sp.symbols(f"w1:{n_weights + 1}", positive=True))
    flow = normal_flow(1, n_weights)
    put = {f"W_0{k}": x for k, x in enumerate(w)} | {f"e_0{k}": 1 for k in range(n_weights)}
    slopes = flow.subs(
        {symbol: put.get(symbol.name, symbol) for symbol in flow.free_symbols}, simultaneous=True
    )
    return sp.Symbol("lambda", positive=True), w, [sp.expand(slope) for slope in slopes]


def slope(expression: Any, n_weights: int) -> Any:
    """Return the time derivative of an expression in the weights w1, w2, ..., by the flow of `encoding`.

    That flow is w_i' = w_i (1 - |W|^2) - lambda.
    """
    _, w, slopes = encoding(n_weights)
    return sum(sp.diff(expression, x) * v for x, v in zip(w, slopes, strict=True))


@cached_derivation
def derive_rates(n_weights: int = 3) -> Derivation:
    r"""Derive the time derivatives of :math:`|W|^2` and :math:`|W|_1` along the flow, a column.

    The flow is :math:`w_i' = w_i (1 - |W|^2) - \lambda`, for m' positive weights. At balance, :math:`1-|W|^2
    = \lambda|W|_1/|W|^2`, the first is zero, and the second is :math:`-\lambda m'^2 \mathrm{Var}/|W|^2`, with
    the variance Var of the m' weights. See Lecomte et al. (2024), §2.4 and App. B.

    >>> derive_rates(1).expression.T
    Matrix([[-2*lambda*w1 - 2*w1**4 + 2*w1**2, -lambda - w1**3 + w1]])
    """
    _, w, _ = encoding(n_weights)
    norms = (sum(x**2 for x in w), sum(w))
    return derived(sp.Matrix([sp.expand(slope(norm, n_weights)) for norm in norms]))


@cached_derivation
def derive_reduction(n_weights: int = 3) -> Derivation:
    r"""Derive dg/dc and dt/dc, a column, of the flow reduced to |w_k| = A (v_k - c) with g = 1/A.

    v_k are the sizes of the `n_weights` weights w_k at the start, from which a threshold c is subtracted. A
    and c, the same for all weights, are such that every weight follows :math:`w_k' = w_k (1 - |W|^2) -
    \lambda`.

    >>> derive_reduction(2).expression[0]
    (2*c**2/g**2 - 2*c*v1/g**2 - 2*c*v2/g**2 - 1 + v1**2/g**2 + v2**2/g**2)/lambda
    """
    lam, g, c, d_stretch, d_c = sp.symbols("lambda g c A_t c_t", positive=True)
    v = sp.symbols(f"v1:{n_weights + 1}", positive=True)
    square = sum((x - c) ** 2 for x in v) / g**2
    # dw_k/dt = A_t (v_k - c) - A c_t has to be (1 - |W|^2) A (v_k - c) - lam for all k: powers of v_k.
    x = sp.Symbol("x")
    parts = sp.Poly(d_stretch * (x - c) - d_c / g - (1 - square) * (x - c) / g + lam, x).all_coeffs()
    solution = sp.solve(parts, [d_stretch, d_c], dict=True)[0]
    speed = sp.simplify(solution[d_c])
    return derived(sp.Matrix([sp.expand(-(g**2) * solution[d_stretch] / speed * lam) / lam, 1 / speed]))


@cached_derivation
def derive_limit_law() -> Derivation:
    r"""Derive d zeta/dt and dy/dt, for m normal weights, with sums over the weights replaced by their means.

    At time t the nonzero weights are (v - c)/g, with initial sizes v and a threshold c. The initial standard
    deviation is :math:`s/\sqrt m`, :math:`\zeta = c\sqrt m/s` and :math:`y = (g/s)^2`. The result is a column
    of :math:`\lambda\sqrt{my}` and :math:`2(M_2(\zeta) - y)`, with :math:`M_2(\zeta) = E(|x| - \zeta)_+^2`
    over a standard normal x. `solvers.sparsification.limit_law` integrates it.

    >>> derive_limit_law().expression[0]
    lambda*sqrt(m)*sqrt(y)
    """
    g, c, m, s, y = sp.symbols("g c m s y", positive=True)
    q = s**2 * derive_limit_moments().expression[2]  # the mean of Q for m weights of deviation s/sqrt(m)
    v = sp.Symbol("v1", positive=True)
    by_c, time_by_c = derive_reduction(1).expression.subs(v, c + sp.sqrt(q))  # one weight with that Q
    column = sp.Matrix([sp.sqrt(m) / s / time_by_c, 2 * g / s**2 * by_c / time_by_c]).subs(g, s * sp.sqrt(y))
    return derived(column.applyfunc(sp.expand), "The weights are many and normal.")


@cached_derivation
def derive_limit_moments() -> Derivation:
    """Derive E(|x| - zeta)_+^k for a standard normal x and k = 0, 1, 2, a column.

    For m -> infinity weights with the threshold zeta subtracted, in units of the initial standard deviation,
    these are the share of nonzero weights, the sum of sizes over m and the sum of squares over m.

    >>> derive_limit_moments().expression[0]
    erfc(sqrt(2)*zeta/2)
    """
    zeta = sp.Symbol("zeta", positive=True)
    ramps = [derive_ramp_moment(k) for k in range(3)]  # of one side
    return derived(sp.Matrix([sp.expand(2 * ramp.expression.subs(ramp.symbols[0], zeta)) for ramp in ramps]))


@cached_derivation
def derive_tail_fluctuations() -> Derivation:
    r"""Derive mean and variance of number m' and l1 norm of the nonzero weights, if all are from the tail.

    The tail of the initial weights x is a Poisson process with density :math:`e^{-x}` (in units of its own
    scale). Weights above a threshold c are nonzero; Q(c) is the sum of :math:`(x - c)^2` over them. At
    balance and |W| = 1 the time in units 1/lam is :math:`u = \int dc/\sqrt{Q(c)}`; on average :math:`Q = 2
    e^{-c}`, so :math:`u = \sqrt2 e^{c/2}`, their number is :math:`n = 2/u^2` and the l1 norm 1/u.
    Fluctuations of Q move c, and are correlated with fluctuations of the number and of the sum.

    The result is a column, to second order for large n: E m' - n and Var m'/n, both exactly 1; (u E|W|_1 - 1)
    n, which is 4/3; and Var |W|_1, 1/3.

    >>> derive_tail_fluctuations().expression.T
    Matrix([[1, 1, 4/3, 1/3]])
    """
    c, b = sp.symbols("c b", real=True)
    x, d = sp.symbols("x d", positive=True)
    half = sp.Rational(1, 2)
    number, q = sp.exp(-c), 2 * sp.exp(-c)

    def tail(f: Any) -> Any:  # over the weights above c, times e^c; their variances and covariances
        """Return e^c times the mean of the sum of f(x) over the weights above c, x their excess over c."""
        return sp.integrate(sp.expand(f * sp.exp(-x)), (x, 0, sp.oo))

    def past(f: Any) -> Any:  # over all earlier b < c
        """Return the integral of f(b) over all earlier thresholds b < c."""
        return sp.integrate(f, (b, -sp.oo, c))

    def lagged(f: Any) -> Any:  # over all earlier c - d: covariance of dQ Q^(-3/2) there with the sum of f
        """Return the integral over d > 0 of Cov(dQ Q^(-3/2) at c - d, sum of f(x) at c), x as in `tail`."""
        slow = (2 * sp.exp(d - c)) ** (-3 * half)
        return number * sp.integrate(sp.expand(slow * tail((x + d) ** 2 * f)), (d, 0, sp.oo))

    # u = time(c) + X + Y with X = -1/2 int dQ Q^(-3/2), Y = 3/8 int dQ^2 Q^(-5/2); c = c0 + first + second.
    rate = sp.diff(past((2 * sp.exp(-b)) ** -half), c)
    x_square = sp.simplify(past((lagged(x**2) * q ** (-3 * half)).subs(c, b)) / 2)
    y = past(3 * half / 4 * tail(x**4) * sp.exp(-b) * (2 * sp.exp(-b)) ** (-5 * half))
    first_square = x_square / rate**2
    second = -(sp.diff(rate, c) * first_square / 2 - sp.diff(x_square, c) / 2 / rate + y) / rate
    with_number, with_sum, with_q = (-half * lagged(f) for f in (1, x, x**2))
    # A little later in c the sums change by -k S_(k-1) dc; the number changes by the weights between.
    x_later = (
        half * number * sp.integrate(sp.expand((2 * sp.exp(d - c)) ** (-3 * half) * d**2), (d, 0, sp.oo))
    )

    def displaced_sum(f: Any) -> Any:
        """Return the mean change of f(c), to second order, as fluctuations move the threshold from c."""
        return sp.diff(f, c) * second + sp.diff(f, c, 2) * first_square / 2

    mean = displaced_sum(number) - x_later / rate
    variance = number + sp.diff(number, c) ** 2 * first_square - 2 * sp.diff(number, c) * with_number / rate
    # The l1 norm is S/sqrt(Q), to first order changed by a dS - b dQ.
    norm, by_sum, by_q = number / sp.sqrt(q), q**-half, number * q ** (-3 * half) / 2
    slope = -with_number * by_sum + with_sum * sp.diff(by_sum, c)
    slope -= with_q * sp.diff(by_q, c) - 2 * with_sum * by_q
    itself = -half * tail(x**3) * number * q ** (-3 * half)
    itself += 3 * half / 4 * number * tail(x**4) * number * q ** (-5 * half)
    l1_mean = displaced_sum(norm) - slope / rate + itself
    l1_variance = sp.diff(norm, c) ** 2 * first_square
    l1_variance -= 2 * sp.diff(norm, c) * (by_sum * with_sum - by_q * with_q) / rate
    l1_variance += number * tail((by_sum * x - by_q * x**2) ** 2)
    column = sp.Matrix([mean, variance / number, l1_mean / norm * number, l1_variance])
    return derived(column.applyfunc(sp.simplify), "The weights left are many, and all from the tail.")


@cached_derivation
def derive_winner() -> Derivation:
    r"""Derive the time in which one weight goes from x0 to x, given the zeros r, s, -r - s of its speed.

    The speed is :math:`\dot x = x - x^3 - \kappa`; by partial fractions the time is a sum of logarithms. r
    and s are positive for :math:`\kappa` up to :math:`2/\sqrt{27}`, the maximum of x - x^3; for larger
    :math:`\kappa` every weight dies.

    >>> sorted(str(symbol) for symbol in derive_winner().symbols)
    ['r', 's', 'x', 'x0']
    """
    x, x0, r, s = sp.symbols("x x0 r s", real=True)
    roots = [r, s, -r - s]  # the cubic has no square term
    slope_of_cubic = sp.diff(-(x - r) * (x - s) * (x + r + s), x)
    terms = [sp.log((x - z) / (x0 - z)) / slope_of_cubic.subs(x, z) for z in roots]
    return derived(sum(terms), "No zero lies between x0 and x.")

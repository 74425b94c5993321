"""SymPy derivations of the l1 dynamics of Lecomte et al. (2024), §2.3, §2.4 and App. B.

Each function derives a statement from the definitions and returns what is left when it is compared with the
print (zero, if the print is right) or, where the print leaves something open, the expression itself.
"""

from typing import Any

__all__ = [
    "derive_balance",
    "derive_flow",
    "derive_growth",
    "derive_l1_decay",
    "derive_limit_moments",
    "derive_reduction",
    "derive_rescaling",
    "derive_spacings",
    "derive_tail_fluctuations",
    "derive_threshold",
    "derive_winner",
]


def _encoding(n_weights: int) -> tuple[Any, list[Any], list[Any], Any, Any]:
    """Return lam, positive weights, their slopes under the flow, the squared length and the l1 norm."""
    import sympy as sp

    lam = sp.Symbol("lambda", positive=True)
    w = list(sp.symbols(f"w1:{n_weights + 1}", positive=True))
    square = sum(x**2 for x in w)
    return lam, w, [(1 - square) * x - lam for x in w], square, sum(w)


def _along(expression: Any, w: list[Any], slopes: list[Any]) -> Any:
    """Time derivative along the flow."""
    import sympy as sp

    return sum(sp.diff(expression, x) * slope for x, slope in zip(w, slopes, strict=True))


def derive_flow(n_features: int = 3, n_hidden: int = 2) -> Any:
    r"""Minus gradient of the loss, less the flow as printed.

    The loss is :math:`\sum_i (1-|W_i|^2)^2 + \sum_{j\ne i} \mathrm{ReLU}(W_i\cdot W_j)^2 +
    \lambda|W_i|_1`. Its ReLU terms are smooth, so it is differentiated region by region: a symbol s = 0
    or 1 for each pair says whether the overlap counts, a symbol for each weight is its sign.

    Returns
    -------
    residual : Matrix (n_features, n_hidden)
        Zero: the factors 4 are right, since each pair occurs twice in the sum.

    References
    ----------
    Lecomte et al. (2024), §2.3.

    Examples
    --------
    >>> derive_flow(2, 1)
    Matrix([
    [0],
    [0]])
    """
    import sympy as sp

    lam = sp.Symbol("lambda", positive=True)
    w = sp.Matrix(n_features, n_hidden, lambda i, k: sp.Symbol(f"W_{i}{k}", real=True))
    sign = sp.Matrix(n_features, n_hidden, lambda i, k: sp.Symbol(f"e_{i}{k}", real=True))
    on = sp.Matrix(
        n_features, n_features, lambda i, j: sp.Symbol(f"s_{min(i, j)}{max(i, j)}", nonnegative=True)
    )
    overlap = w * w.T
    others = [[j for j in range(n_features) if j != i] for i in range(n_features)]
    loss = sum(
        (1 - overlap[i, i]) ** 2
        + sum(on[i, j] * overlap[i, j] ** 2 for j in others[i])
        + lam * sum(sign[i, k] * w[i, k] for k in range(n_hidden))
        for i in range(n_features)
    )

    def printed(i: int, k: int) -> Any:
        interference = sum(on[i, j] * overlap[i, j] * w[j, k] for j in others[i])
        return 4 * (1 - overlap[i, i]) * w[i, k] - 4 * interference - lam * sign[i, k]

    return sp.Matrix(n_features, n_hidden, lambda i, k: sp.expand(-sp.diff(loss, w[i, k]) - printed(i, k)))


def derive_rescaling() -> Any:
    """Compare the normal form at strength lam with the loss's own flow at 4 lam in a time four times slower.

    With F for the force without its factor 4 and s for the sign, the loss's flow is dW/dT = 4 F - lam' s. At
    lam' = 4 lam and t = 4 T it becomes the normal form dW/dt = F - lam s.

    Returns
    -------
    residual : Expr
        Zero: dropping the 4s is lam four times larger and time four times slower.

    References
    ----------
    Lecomte et al. (2024), §2.3, footnote 5.

    Examples
    --------
    >>> derive_rescaling()
    0
    """
    import sympy as sp

    lam, force, sign = sp.symbols("lambda F s")
    own = 4 * force - (4 * lam) * sign  # dW/dT at four times the strength
    return sp.expand(own / 4 - (force - lam * sign))


def derive_threshold() -> Any:
    """Slope of a weight that is not zero, less (1 - |W|²)(|w| - theta) with theta = lam/(1 - |W|²).

    Returns
    -------
    residual : Expr
        Zero. It needs |W| < 1: at |W| = 1 there is no threshold, beyond it the two factors change sign.

    References
    ----------
    Lecomte et al. (2024), §2.4.

    Examples
    --------
    >>> derive_threshold()
    0
    """
    import sympy as sp

    lam, w, slopes, square, _ = _encoding(3)
    return sp.simplify(slopes[0] - (1 - square) * (w[0] - lam / (1 - square)))


def derive_balance(n_weights: int = 3) -> tuple[Any, Any]:
    """Rate of change of the squared length, and what it adds to the balance 1 - |W|² = lam |W|_1/|W|².

    Returns
    -------
    residual : Expr
        d|W|²/dt less 2((1 - |W|²)|W|² - lam |W|_1): zero.
    remainder : Expr
        1 - |W|² - lam |W|_1/|W|² - (d|W|²/dt)/(2 |W|²): zero, so that the error of the balance is exactly the
        last term.

    References
    ----------
    Lecomte et al. (2024), §2.4.

    Examples
    --------
    >>> derive_balance()
    (0, 0)
    """
    import sympy as sp

    lam, w, slopes, square, total = _encoding(n_weights)
    rate = _along(square, w, slopes)
    residual = sp.expand(rate - 2 * ((1 - square) * square - lam * total))
    return residual, sp.simplify(1 - square - lam * total / square - rate / (2 * square))


def derive_l1_decay(n_weights: int = 4) -> tuple[Any, Any, Any]:
    """Decay of the l1 norm against the printed identity, with the variance as a mean and as a sum.

    The last step of the print writes the sample variance of the m' nonzero weights as a sum of squared
    deviations. The identity is that for the mean; and it is not exact, but takes the balance for granted.

    Returns
    -------
    mean : Expr
        -d|W|_1/dt - lam m'²/|W|² Var + (|W|_1/(2 |W|²)) d|W|²/dt with Var a mean: zero.
    quasi_static : Expr
        What the print omits, -(|W|_1/(2 |W|²)) d|W|²/dt: zero only at balance.
    ratio : Expr
        The printed right side (a sum) over the right one: m'.

    References
    ----------
    Lecomte et al. (2024), App. B.

    Examples
    --------
    >>> mean, _, ratio = derive_l1_decay(4)
    >>> mean, ratio
    (0, 4)
    """
    import sympy as sp

    lam, w, slopes, square, total = _encoding(n_weights)
    decay = -sum(slopes)
    average = total / n_weights
    deviations = sum((x - average) ** 2 for x in w)
    omitted = -total / (2 * square) * _along(square, w, slopes)
    right = lam * n_weights**2 / square * (deviations / n_weights)
    printed = lam * n_weights**2 / square * deviations
    return sp.simplify(decay - right - omitted), sp.simplify(omitted), sp.simplify(printed / right)


def derive_growth(n_weights: int = 3) -> Any:
    """Growth of 1/|W|_1 at balance, less lam times the relative variance over |W|².

    Returns
    -------
    residual : Expr
        Zero: the constant that the print leaves open in d(1/|W|_1)/dt = Theta(lam) is the relative variance
        (in the limit of few left from many, 1) over |W|².

    References
    ----------
    Lecomte et al. (2024), App. B.

    Examples
    --------
    >>> derive_growth()
    0
    """
    import sympy as sp

    lam, w, slopes, square, total = _encoding(n_weights)
    omitted = -total / (2 * square) * _along(square, w, slopes)
    at_balance = (-sum(slopes) - omitted) / total**2  # d(1/|W|_1)/dt without what balance takes to be zero
    average = total / n_weights
    relative_variance = sum((x - average) ** 2 for x in w) / n_weights / average**2
    return sp.simplify(at_balance - lam * relative_variance / square)


def derive_spacings() -> tuple[Any, Any, Any]:
    """Check the affine invariance: the equation of gamma, the affine map, and gamma in terms of A.

    Returns
    -------
    rate : Expr
        d(1 - w_k/w_1)/dt less (lam/w_1)(1 - w_k/w_1): zero, as printed.
    display : Expr
        w_1(t)(1 - gamma) + gamma w_1(t)/w_1(0) w_k(0), less the affine map A (w_k(0) - c): zero.
    gamma : Expr
        Slope of A w_1(0)/w_1(t) less lam/w_1 times it: zero, so this is gamma.

    References
    ----------
    Lecomte et al. (2024), App. B.

    Examples
    --------
    >>> derive_spacings()
    (0, 0, 0)
    """
    import sympy as sp

    lam, w, slopes, square, _ = _encoding(3)
    share = 1 - w[1] / w[0]
    rate = sp.simplify(_along(share, w, slopes) - lam / w[0] * share)
    stretch, c, first, other = sp.symbols("A c w1_0 wk_0", positive=True)
    largest = stretch * (first - c)
    gamma = stretch * first / largest
    display = largest * (1 - gamma) + gamma * largest / first * other - stretch * (other - c)
    growth = sp.diff(gamma, stretch) * (1 - square) * stretch + sp.diff(gamma, c) * lam / stretch
    return rate, sp.simplify(display), sp.simplify(growth - lam / largest * gamma)


def derive_reduction(n_weights: int = 3) -> tuple[Any, Any]:
    """Reduce the flow to one equation: |w_k| = A (|w_k(0)| - c) with A' = (1 - |W|²) A and c' = lam/A.

    Returns
    -------
    residual : Matrix
        d(A (v_k - c))/dt less the flow: zero for all k.
    scalar : Expr
        With g = 1/A and Q(c) = sum (v_k - c)², dg/dc less (Q/g² - 1)/lam: zero.

    Examples
    --------
    >>> residual, scalar = derive_reduction(2)
    >>> list(residual), scalar
    ([0, 0], 0)
    """
    import sympy as sp

    lam, stretch, c = sp.symbols("lambda A c", positive=True)
    v = sp.symbols(f"v1:{n_weights + 1}", positive=True)
    q = sum((x - c) ** 2 for x in v)
    square = stretch**2 * q
    d_stretch, d_c = (1 - square) * stretch, lam / stretch
    weights = [stretch * (x - c) for x in v]
    slopes = [sp.diff(x, stretch) * d_stretch + sp.diff(x, c) * d_c for x in weights]
    residual = sp.Matrix(
        [sp.expand(s - ((1 - square) * x - lam)) for s, x in zip(slopes, weights, strict=True)]
    )
    g = 1 / stretch
    return residual, sp.simplify(sp.diff(g, stretch) * d_stretch / d_c - (q / g**2 - 1) / lam)


def derive_limit_moments() -> tuple[Any, Any, Any]:
    """Integrate E(|x| - zeta)_+^k for a standard normal x and k = 0, 1, 2.

    These are the m -> infinity limits of the share of nonzero weights, of the sum and of the sum of
    squares of what is left of them, in units of the initial standard deviation.

    Returns
    -------
    count, first, second : Expr
        In the symbol ``zeta``.

    Examples
    --------
    >>> derive_limit_moments()[0]
    erfc(sqrt(2)*zeta/2)
    """
    import sympy as sp

    zeta = sp.Symbol("zeta", positive=True)
    x = sp.Symbol("x", positive=True)
    density = sp.sqrt(2 / sp.pi) * sp.exp(-((x + zeta) ** 2) / 2)
    # Shifted to begin at 0, and with erf turned to erfc, SymPy gives plain closed forms.
    moments = [sp.integrate(sp.expand(x**k) * density, (x, 0, sp.oo)) for k in range(3)]
    plain = [sp.simplify(m.rewrite(sp.erfc)) for m in moments]
    return plain[0], plain[1], plain[2]


def derive_tail_fluctuations() -> tuple[Any, Any, Any, Any]:
    r"""Expand mean and variance of number and l1 norm when many weights are left, all from the tail.

    The tail of the initial weights is a Poisson process with density :math:`e^{-x}` (in units of its own
    scale). At balance and |W| = 1 the time in units 1/lam is :math:`u = \int dc/\sqrt{Q(c)}`; on average
    :math:`Q = 2 e^{-c}`, so :math:`u = \sqrt2 e^{c/2}`, the number left is :math:`n = 2/u^2` and the l1 norm
    1/u. Fluctuations of Q move the threshold c, those of the sums move with it. To second order, for large n:

    Returns
    -------
    mean, variance : Expr
        E m' - n and Var m' / n: both exactly 1.
    l1_mean, l1_variance : Expr
        (u E|W|_1 - 1) n and Var |W|_1: 4/3 and 1/3.

    Examples
    --------
    >>> derive_tail_fluctuations()
    (1, 1, 4/3, 1/3)
    """
    import sympy as sp

    c, b = sp.symbols("c b", real=True)
    x, d = sp.symbols("x d", positive=True)
    half = sp.Rational(1, 2)
    number, q = sp.exp(-c), 2 * sp.exp(-c)

    def tail(f: Any) -> Any:  # over the weights above c, times e^c; their variances and covariances
        return sp.integrate(sp.expand(f * sp.exp(-x)), (x, 0, sp.oo))

    def past(f: Any) -> Any:  # over all earlier b < c
        return sp.integrate(f, (b, -sp.oo, c))

    def lagged(f: Any) -> Any:  # over all earlier c - d: covariance of dQ Q^(-3/2) there with the sum of f
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

    def moved(f: Any) -> Any:
        return sp.diff(f, c) * second + sp.diff(f, c, 2) * first_square / 2

    mean = moved(number) - x_later / rate
    variance = number + sp.diff(number, c) ** 2 * first_square - 2 * sp.diff(number, c) * with_number / rate
    # The l1 norm is S/sqrt(Q), to first order changed by a dS - b dQ.
    norm, by_sum, by_q = number / sp.sqrt(q), q**-half, number * q ** (-3 * half) / 2
    slope = -with_number * by_sum + with_sum * sp.diff(by_sum, c)
    slope -= with_q * sp.diff(by_q, c) - 2 * with_sum * by_q
    itself = -half * tail(x**3) * number * q ** (-3 * half)
    itself += 3 * half / 4 * number * tail(x**4) * number * q ** (-5 * half)
    l1_mean = moved(norm) - slope / rate + itself
    l1_variance = sp.diff(norm, c) ** 2 * first_square
    l1_variance -= 2 * sp.diff(norm, c) * (by_sum * with_sum - by_q * with_q) / rate
    l1_variance += number * tail((by_sum * x - by_q * x**2) ** 2)
    return (
        sp.simplify(mean),
        sp.simplify(variance / number),
        sp.simplify(l1_mean / norm * number),
        sp.simplify(l1_variance),
    )


def derive_winner() -> tuple[Any, Any]:
    """Solve the last stage, dx/dt = x - x³ - kappa: partial fractions and the largest kappa.

    Returns
    -------
    residual : Expr
        1/(x - x³ - kappa) less sum over the zeros r of 1/((1 - 3 r²)(x - r)): zero, with two zeros free.
    critical : Expr
        The maximum of x - x³, 2/(3 sqrt 3): beyond it nothing survives.

    Examples
    --------
    >>> derive_winner()
    (0, 2*sqrt(3)/9)
    """
    import sympy as sp

    x, r, s = sp.symbols("x r s", real=True)
    roots = [r, s, -r - s]  # the cubic has no square term
    cubic = -(x - roots[0]) * (x - roots[1]) * (x - roots[2])
    slope = sp.diff(cubic, x)
    residual = 1 / cubic - sum(1 / (slope.subs(x, z) * (x - z)) for z in roots)
    y = sp.Symbol("y", positive=True)
    return sp.simplify(residual), (y - y**3).subs(y, sp.solve(sp.diff(y - y**3, y), y)[0])

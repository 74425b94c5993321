"""SymPy derivations for linear autoencoders: losses, flows, energies, critical points, solutions.

Weights are W (n_features, n_hidden), the transpose of the source's, the Notes (2022); A is the decoder, B the
encoder. Symbols of a matrix called a are a_11, a_12, ...; those of a covariance are s_11, s_12, ... Arguments
`n_features`, `n_hidden` and `n_data` are the sizes of these matrices: derivations are made for small ones.
"""

from typing import Any

from ..derivation import Derivation, cached_derivation, derived, sp

__all__ = [
    "derive_aligned_mode", "derive_aligned_pair", "derive_critical_rates", "derive_curl", "derive_energy",
    "derive_filling", "derive_gradients", "derive_importance_loss", "derive_loss", "derive_riccati",
    "derive_rotation", "derive_singular_values", "derive_tied_flows", "matrix_of", "symmetric", "tied_flows",
    "total_loss",
]  # fmt: skip


def matrix_of(name: str, rows: int, columns: int) -> Any:
    """Return a (rows, columns) SymPy matrix of real symbols name_11, name_12, ...."""
    return sp.Matrix(rows, columns, lambda i, j: sp.Symbol(f"{name}_{i + 1}{j + 1}", real=True))


def symmetric(n: int) -> Any:
    """Return a symmetric (n, n) SymPy matrix of real symbols s_ij."""
    return sp.Matrix(n, n, lambda i, j: sp.Symbol(f"s_{min(i, j) + 1}{max(i, j) + 1}", real=True))


def gradient(expression: Any, weights: Any) -> Any:
    """Return the matrix of derivatives of `expression` with respect to the entries of `weights`."""
    return sp.Matrix(*weights.shape, lambda i, j: sp.diff(expression, weights[i, j]))


def total_loss(M: Any, sigma: Any) -> Any:
    """Return the loss E |x - M x|^2, summed over features, of data with E x x' = sigma."""
    error = sp.eye(M.shape[0]) - M
    return (error * sigma * error.T).trace()


def tied_flows(W: Any, sigma: Any) -> tuple[Any, Any]:
    """Return dB'/dt and dA/dt, by the gradient flow of E|x - A B x|^2 / 2 at A = B' = W.

    dB'/dt, of the encoder, is Eq. 22 of the notes on linear autoencoders (2022). W is (n_features, n_hidden),
    sigma the second moments E x x' of the data.
    """
    rest = sp.eye(W.shape[0]) - W * W.T
    return sigma * rest * W, rest * sigma * W


@cached_derivation
def derive_loss(n_features: int = 3, n_hidden: int = 2) -> Derivation:
    r"""Derive the mean of :math:`|x - ABx|^2`, summed over features, from E x_i x_j = s_ij.

    >>> derive_loss(1, 1).expression.factor()
    s_11*(a_11*b_11 - 1)**2
    """
    A, B = matrix_of("a", n_features, n_hidden), matrix_of("b", n_hidden, n_features)
    x = sp.Matrix(sp.symbols(f"x1:{n_features + 1}", real=True))
    errors = x - A * B * x
    square = sp.Poly(sp.expand(sum(e**2 for e in errors)), *x)
    moments = symmetric(n_features)
    total = 0
    for powers, factor in square.terms():
        i, j = (k for k, power in enumerate(powers) for _ in range(power))
        total += factor * moments[i, j]
    return derived(total)


@cached_derivation
def derive_gradients(n_features: int = 3, n_hidden: int = 2, n_data: int = 2) -> Derivation:
    """Derive the gradient of the loss of x -> ABx, summed over `n_data` inputs x.

    The result has the derivatives with respect to A above those with respect to B' (Notes, Eqs. 1, 2, 19).

    >>> derive_gradients(1, 1, 1).expression.applyfunc(lambda entry: entry.factor())
    Matrix([
    [2*b_11*x_11**2*(a_11*b_11 - 1)],
    [2*a_11*x_11**2*(a_11*b_11 - 1)]])
    """
    A, B = matrix_of("a", n_features, n_hidden), matrix_of("b", n_hidden, n_features)
    data = matrix_of("x", n_features, n_data)
    loss = sum(e**2 for e in data - A * B * data)
    return derived(sp.Matrix.vstack(gradient(loss, A), gradient(loss, B).T).expand())


@cached_derivation
def derive_tied_flows(n_features: int = 3, n_hidden: int = 2) -> Derivation:
    """Derive three flows of x -> ABx at A = B' = W, each minus half a gradient, side by side.

    The columns are dB'/dt, dA/dt, and dW/dt for the tied loss :math:`E|x-WW'x|^2`, which section 2.2 of the
    Notes (2022) sets aside (Eqs. 20-22).

    >>> derive_tied_flows(1, 1).expression
    Matrix([[-s_11*w_11**3 + s_11*w_11, -s_11*w_11**3 + s_11*w_11, -2*s_11*w_11**3 + 2*s_11*w_11]])
    """
    W, sigma = matrix_of("w", n_features, n_hidden), symmetric(n_features)
    A, B = matrix_of("a", n_features, n_hidden), matrix_of("b", n_hidden, n_features)
    loss = total_loss(A * B, sigma)
    at = dict(zip([*A, *B.T], [*W, *W], strict=True))
    by_b, by_a = (gradient(loss, X).xreplace(at) for X in (B, A))
    both = gradient(total_loss(W * W.T, sigma), W)
    return derived((-sp.Matrix.hstack(by_b.T, by_a, both) / 2).expand())


@cached_derivation
def derive_energy(n_features: int = 3, n_hidden: int = 2) -> Derivation:
    r"""Integrate dW/dt = Sigma (1 - WW') W for Sigma = lambda 1 along the ray to W: its energy (Eqs. 22, 28).

    The energy is :math:`\frac\lambda4|1-WW'|^2`, n_features lambda/4 at W = 0. Eq. 28 of the Notes (2022) has
    a factor 1/2 before the overlaps, which is right for unordered pairs.

    >>> derive_energy(1, 1).expression.factor()
    lambda*(w_11 - 1)**2*(w_11 + 1)**2/4
    """
    lam, r = sp.symbols("lambda r", positive=True)
    W = matrix_of("w", n_features, n_hidden)
    flow, _ = tied_flows(r * W, lam * sp.eye(n_features))
    work = sp.integrate(sp.expand(sum(f * w for f, w in zip(flow, W, strict=True))), (r, 0, 1))
    return derived(sp.expand(n_features * lam / 4 - work))


@cached_derivation
def derive_curl() -> Derivation:
    """Derive the antisymmetric part of the Jacobian of dW/dt = Sigma (1 - WW') W, two features, one neuron.

    Sigma is diagonal. For different eigenvalues the result is not zero, so no energy has this flow (Eq. 22 of
    the Notes) as its gradient in the usual metric.

    >>> derive_curl().expression
    -2*w_11*w_21*(s_11 - s_22)
    """
    W, sigma = matrix_of("w", 2, 1), symmetric(2)
    flow, _ = tied_flows(W, sp.diag(sigma[0, 0], sigma[1, 1]))
    return derived(sp.factor(sp.diff(flow[0], W[1]) - sp.diff(flow[1], W[0])))


@cached_derivation
def derive_importance_loss(n_features: int = 3, n_hidden: int = 2) -> Derivation:
    """Derive the weighted loss of the tied linear model on independent inputs of mean m and variance v.

    The result is a column: the loss without bias, and with the best bias. Both are sums over features,
    weighted by the importances I1, I2, ... (Elhage et al. 2022).

    >>> derive_importance_loss(1, 1).expression.applyfunc(lambda entry: entry.factor())
    Matrix([
    [I1*(m**2 + v)*(w_11 - 1)**2*(w_11 + 1)**2],
    [         I1*v*(w_11 - 1)**2*(w_11 + 1)**2]])
    """
    W, n = matrix_of("w", n_features, n_hidden), n_features
    I = sp.symbols(f"I1:{n + 1}", positive=True)
    b = sp.symbols(f"b1:{n + 1}", real=True)
    m, v = sp.symbols("m v", positive=True)
    rest = sp.eye(n) - W * W.T
    moments = v * sp.eye(n) + m**2 * sp.ones(n, n)
    square, mean = rest * moments * rest.T, rest * (m * sp.ones(n, 1))

    def loss(bias: Any) -> Any:  # E (rest x - b)_i^2, with the weights
        """Return the importance-weighted loss of W W' x + bias, summed over features."""
        return sp.expand(sum(I[i] * (square[i, i] - 2 * bias[i] * mean[i] + bias[i] ** 2) for i in range(n)))

    best = [sp.solve(sp.diff(loss(b), x), x)[0] for x in b]
    return derived(sp.Matrix([loss([0] * n), loss(best)]), "Inputs are independent.")


@cached_derivation
def derive_rotation() -> Derivation:
    """Derive the fall of the loss when a kept eigenvector j is rotated by eps towards one left out, k.

    See Notes (2022), Prop. 3 and Eq. 18.

    The coordinates are four eigenvectors i, j, k, l, of which i and j are kept; i and l are not rotated. The
    result is a column: the four diagonal entries of the rotated projection, and the fall of the loss.

    >>> derive_rotation().expression[4]
    -epsilon**2*(lambda_j - lambda_k)/(epsilon**2 + 1)
    """
    eps = sp.Symbol("epsilon", positive=True)
    sigma = sp.diag(*sp.symbols("lambda_i lambda_j lambda_k lambda_l", positive=True))
    represented = sp.Matrix([[1, 0], [0, 1], [0, 0], [0, 0]])
    rotated = sp.Matrix([[1, 0], [0, 1], [0, eps], [0, 0]]) * sp.diag(1, 1 / sp.sqrt(1 + eps**2))
    projection = rotated * rotated.T
    fall = total_loss(represented * represented.T, sigma) - total_loss(projection, sigma)
    return derived(sp.Matrix([*projection.diagonal(), sp.factor(sp.simplify(fall))]))


@cached_derivation
def derive_filling() -> Derivation:
    """Derive the fall of the loss when an unused neuron takes up an eigenvector left out, with weights eps.

    This direction shows that critical points of rank below n_hidden are saddles, which Prop. 3 of the Notes
    (2022) does not treat: if they keep the largest eigenvalues, no rotation lowers the loss.

    >>> derive_filling().expression
    -epsilon**4*lambda_k + 2*epsilon**2*lambda_k
    """
    eps = sp.Symbol("epsilon", positive=True)
    sigma = sp.diag(*sp.symbols("lambda_j lambda_k", positive=True))
    fall = total_loss(sp.diag(1, 0), sigma) - total_loss(sp.diag(1, eps**2), sigma)
    return derived(sp.expand(fall))


@cached_derivation
def derive_critical_rates(rule: str) -> Derivation:
    """Derive the Jacobian of a flow of x -> ABx at a critical point that keeps eigenvector i, leaves out o.

    The point is A = B' = (1 0; 0 0) in the eigenbasis: two features and two hidden neurons, one of them
    unused, so that each kind of deviation occurs once. `rule` is one of the flows of `growth_rates`, "pair",
    "encoder", "decoder" or "tied" (Eqs. 19-22 of the Notes). Coordinates are the entries of the weights, row
    by row; for ``pair`` the decoder's come first, then those of the transposed encoder. For ``pair`` and
    ``tied`` the result is minus half the Hessian of the loss.

    >>> derive_critical_rates("tied").expression.diagonal()
    Matrix([[-4*lambda_i, 0, -lambda_i + lambda_o, 2*lambda_o]])
    """
    sigma = sp.diag(*sp.symbols("lambda_i lambda_o", positive=True))
    a, b, start = matrix_of("a", 2, 2), matrix_of("b", 2, 2), sp.diag(1, 0)
    rest = sp.eye(2) - (start + a) * (start + b).T
    slow, oja = tied_flows(start + a, sigma)
    pair = sp.Matrix.vstack(rest * sigma * (start + b), sigma * rest.T * (start + a))
    velocity = {"pair": pair, "encoder": slow, "decoder": oja, "tied": slow + oja}[rule]
    deviation = [*a, *b] if rule == "pair" else [*a]
    jacobian = sp.Matrix(list(velocity)).jacobian(deviation)
    return derived(jacobian.subs(dict.fromkeys(deviation, 0)), "Both eigenvalues are positive.")


@cached_derivation
def derive_singular_values() -> Derivation:
    r"""Derive the rates of a singular value of tied weights under the encoder's and decoder's flows, a row.

    With :math:`W = \sum_k s_k u_k v_k'` the rate of s_k is u_k' (dW/dt) v_k. In the bases u and v, W is
    diagonal and :math:`\Sigma` any symmetric matrix; two vectors of each suffice. No singular value crosses
    1: all tend to 1, at a rate of at least that for the smallest eigenvalue of :math:`\Sigma`.

    >>> derive_singular_values().expression.applyfunc(lambda entry: entry.factor())
    Matrix([[-s1*s_11*(s1 - 1)*(s1 + 1), -s1*s_11*(s1 - 1)*(s1 + 1)]])
    """
    sigma, s = symmetric(3), sp.symbols("s1 s2", positive=True)
    slow, oja = tied_flows(sp.Matrix(3, 2, lambda i, j: s[j] if i == j else 0), sigma)
    return derived(sp.Matrix([[sp.expand(slow[0, 0]), sp.expand(oja[0, 0])]]))


@cached_derivation
def derive_aligned_mode() -> Derivation:
    r"""Derive the solution w(t) of :math:`\dot w = \lambda w(1-w^2)`, w(0) = w0 (Saxe et al. 2014, Eq. 12).

    >>> derive_aligned_mode().expression
    1/sqrt(1 - exp(-2*lambda*t) + exp(-2*lambda*t)/w0**2)
    """
    lam, t, w0 = sp.symbols("lambda t w0", positive=True)
    u = sp.Function("u")
    solved = sp.dsolve(u(t).diff(t) + 2 * lam * (u(t) - 1), u(t), ics={u(0): w0**-2})
    return derived(1 / sp.sqrt(sp.expand(solved.rhs)), "The weight is positive.")


@cached_derivation
def derive_aligned_pair() -> Derivation:
    r"""Derive :math:`q(t) = (a+b)^2` along the flow of an aligned pair, from its Riccati equation.

    a and b are the decoder's and encoder's weights along one eigenvector, lambda its eigenvalue. The flow
    :math:`\dot a = \lambda(1-ab)b`, :math:`\dot b = \lambda(1-ab)a` conserves :math:`k = a^2-b^2`, so that
    :math:`\dot q = \lambda(2q - q^2/2 + k^2/2)`. This equation is linear in u, for :math:`q = 2\dot
    u/(\lambda u)` (Saxe et al. 2014, appendix A). q0 is q at the start.

    >>> float(derive_aligned_pair().evaluate({"lambda": 1, "t": 100, "q0": 3, "k": 0}))  # ab tends to 1
    4.0
    """
    lam, t, q0, k = sp.symbols("lambda t q0 k", positive=True)
    rate = sp.Symbol("r")
    up, down = sp.solve(rate**2 - 2 * lam * rate - lam**2 * k**2 / 4, rate)
    share = (q0 * lam / 2 - down) / (up - down)  # u = share e^(up t) + (1 - share) e^(down t)
    u = share * sp.exp(up * t) + (1 - share) * sp.exp(down * t)
    return derived(2 * sp.diff(u, t) / (lam * u), "The conserved k is positive.")


@cached_derivation
def derive_riccati() -> Derivation:
    r"""Derive M(t) = WW' under the decoder's flow on tied weights, two features on one hidden neuron.

    The flow :math:`\dot M = \Sigma M + M\Sigma - 2M\Sigma M` has the solution M = Y X^-1 with :math:`\dot Y =
    \Sigma Y` and :math:`\dot X = -\Sigma X + 2\Sigma Y`, which are linear (Notes, Eq. 21; Yan, Helmke and
    Moore 1994). x and y are the two weights at the start, s1 and s2 the eigenvalues of Sigma.

    >>> float(derive_riccati().evaluate({"t": 99, "x": 1, "y": 1, "s1": 2, "s2": 1})[0, 0])
    1.0
    """
    t, x, y, *s = sp.symbols("t x y s1 s2", positive=True)
    w = sp.Matrix([x, y])
    start = w * w.T
    Y = sp.Matrix(2, 2, lambda i, j: sp.exp(s[i] * t) * start[i, j])
    X = sp.Matrix(2, 2, lambda i, j: sp.exp(-s[i] * t) * int(i == j) + 2 * sp.sinh(s[i] * t) * start[i, j])
    return derived(Y * X.inv(), "Both eigenvalues are positive.")

"""SymPy derivations for linear autoencoders: gradients, flows, energies, the loss on sparse inputs.

Each function derives a statement from the definitions and returns what is left when it is compared with the
closed form or the print: zero, if that is right. Weights are W (n_features, n_hidden), the transpose of
the source's; A is the decoder, B the encoder.
"""

from typing import Any

__all__ = [
    "derive_commutator",
    "derive_conservation",
    "derive_energy",
    "derive_gradients",
    "derive_importance_loss",
    "derive_metric",
    "derive_mode_equations",
    "derive_tied_flow",
    "symmetric",
    "tied_flows",
    "total_loss",
]


def _matrix(name: str, rows: int, columns: int) -> Any:
    import sympy as sp

    return sp.Matrix(rows, columns, lambda i, j: sp.Symbol(f"{name}_{i + 1}{j + 1}", real=True))


def symmetric(n: int) -> Any:
    """Return a symmetric matrix of real symbols s_ij."""
    import sympy as sp

    return sp.Matrix(n, n, lambda i, j: sp.Symbol(f"s_{min(i, j) + 1}{max(i, j) + 1}", real=True))


def _gradient(expression: Any, weights: Any) -> Any:
    import sympy as sp

    return sp.Matrix(*weights.shape, lambda i, j: sp.diff(expression, weights[i, j]))


def total_loss(M: Any, sigma: Any) -> Any:
    """Return the loss of x -> M x, summed over features."""
    import sympy as sp

    error = sp.eye(M.shape[0]) - M
    return (error * sigma * error.T).trace()


def tied_flows(W: Any, sigma: Any) -> tuple[Any, Any]:
    """Return the encoder's flow (Eq. 22) and the decoder's on tied weights."""
    import sympy as sp

    rest = sp.eye(W.shape[0]) - W * W.T
    return sigma * rest * W, rest * sigma * W


def derive_gradients(n_features: int = 3, n_hidden: int = 2, n_data: int = 2) -> tuple[Any, Any]:
    r"""Differentiate the loss, a sum over data points, and subtract the gradient in the source's form.

    Returns
    -------
    by_encoder : Matrix (n_hidden, n_features)
        :math:`\partial L/\partial B + 2(A'\Sigma - A'AB\Sigma)`: zero.
    by_decoder : Matrix (n_features, n_hidden)
        :math:`\partial L/\partial A + 2(\Sigma B' - AB\Sigma B')`: zero.

    References
    ----------
    Notes (2022), Eqs. 1, 2, 19.

    Examples
    --------
    >>> derive_gradients(2, 1, 1)
    (Matrix([[0, 0]]), Matrix([
    [0],
    [0]]))
    """
    A, B = _matrix("a", n_features, n_hidden), _matrix("b", n_hidden, n_features)
    data = _matrix("x", n_features, n_data)
    sigma = data * data.T
    errors = data - A * B * data
    loss = sum(e**2 for e in errors)
    by_encoder = _gradient(loss, B) + 2 * (A.T * sigma - A.T * A * B * sigma)
    by_decoder = _gradient(loss, A) + 2 * (sigma * B.T - A * B * sigma * B.T)
    return by_encoder.expand(), by_decoder.expand()


def derive_tied_flow(n_features: int = 3, n_hidden: int = 2) -> tuple[Any, Any, Any]:
    r"""Compare the gradient of the tied loss :math:`E|x-WW'x|^2` with the flows of encoder and decoder.

    Returns
    -------
    chain_rule : Matrix (n_features, n_hidden)
        :math:`-\frac12\nabla L` less :math:`\Sigma(1-WW')W + (1-WW')\Sigma W`: zero. Half the gradient of
        the tied loss is the sum of both flows at A = B' = W.
    encoder : Matrix
        The flow of B at A = B' = W, transposed, less that of Eq. 22: zero.
    decoder : Matrix
        The flow of A at A = B' = W less that of Eq. 22: not zero.

    References
    ----------
    Notes (2022), Eqs. 20-22 and the loss that its section 2.2 sets aside.

    Examples
    --------
    >>> chain_rule, encoder, decoder = derive_tied_flow(2, 1)
    >>> chain_rule.is_zero_matrix, encoder.is_zero_matrix
    (True, True)
    >>> decoder[0].factor()
    w_21*(s_11*w_11*w_21 - s_12*w_11**2 + s_12*w_21**2 - s_22*w_11*w_21)
    """
    import sympy as sp

    W, sigma = _matrix("w", n_features, n_hidden), symmetric(n_features)
    slow, oja = tied_flows(W, sigma)
    half = -_gradient(total_loss(W * W.T, sigma), W) / 2
    A, B = _matrix("a", n_features, n_hidden), _matrix("b", n_hidden, n_features)
    loss = total_loss(A * B, sigma)
    at = dict(zip([*A, *B.T], [*W, *W], strict=True))
    by_b, by_a = (sp.Matrix(-_gradient(loss, X) / 2).subs(at) for X in (B, A))
    return (half - slow - oja).expand(), (by_b.T - slow).expand(), (by_a - slow).expand()


def derive_commutator(n_features: int = 3, n_hidden: int = 2) -> Any:
    r"""Rate at which A = B' breaks: :math:`\dot A - \dot B'` at A = B' = W, less :math:`(\Sigma M-M\Sigma)W`.

    Returns
    -------
    residual : Matrix (n_features, n_hidden)
        Zero, with M = WW'. So A = B' lasts only if :math:`\Sigma M W = M\Sigma W`; multiplied by W' this says
        that :math:`\Sigma M^2` is symmetric, so M and :math:`\Sigma` commute.

    References
    ----------
    Notes (2022), Eqs. 20-22.

    Examples
    --------
    >>> derive_commutator(2, 1)
    Matrix([
    [0],
    [0]])
    """
    W, sigma = _matrix("w", n_features, n_hidden), symmetric(n_features)
    slow, oja = tied_flows(W, sigma)
    M = W * W.T
    return (oja - slow - (sigma * M - M * sigma) * W).expand()


def derive_conservation(n_features: int = 3, n_hidden: int = 2) -> Any:
    r"""Rate of change of the imbalance A'A - BB' under the flow of the pair.

    Returns
    -------
    residual : Matrix (n_hidden, n_hidden)
        Zero: the imbalance is conserved.

    References
    ----------
    Notes (2022), Eqs. 20, 21; Saxe et al. (2014).

    Examples
    --------
    >>> derive_conservation(2, 1)
    Matrix([[0]])
    """
    import sympy as sp

    A, B = _matrix("a", n_features, n_hidden), _matrix("b", n_hidden, n_features)
    sigma = symmetric(n_features)
    rest = sigma - A * B * sigma
    d_A, d_B = rest * B.T, A.T * rest
    return sp.Matrix(d_A.T * A + A.T * d_A - d_B * B.T - B * d_B.T).expand()


def derive_mode_equations(n_features: int = 3, n_hidden: int = 2) -> Any:
    r"""Write Eq. 22 in the eigenbasis of :math:`\Sigma`, row by row, less the print.

    Returns
    -------
    residual : Matrix (n_features, n_hidden)
        :math:`\dot{\bar w}_j - (1-|\bar w_j|^2)\lambda_j\bar w_j
        + \sum_{k\ne j}(\bar w_k\cdot\bar w_j)\lambda_j\bar w_k`: zero.

    References
    ----------
    Notes (2022), Eqs. 23-27.

    Examples
    --------
    >>> derive_mode_equations(2, 1)
    Matrix([
    [0],
    [0]])
    """
    import sympy as sp

    W = _matrix("w", n_features, n_hidden)
    lam = sp.symbols(f"lambda1:{n_features + 1}", positive=True)
    flow, _ = tied_flows(W, sp.diag(*lam))
    rows = [W.row(j) for j in range(n_features)]
    printed = sp.Matrix.vstack(
        *(
            (1 - rows[j].dot(rows[j])) * lam[j] * rows[j]
            - sum(
                (rows[k].dot(rows[j]) * lam[j] * rows[k] for k in range(n_features) if k != j),
                sp.zeros(1, n_hidden),
            )
            for j in range(n_features)
        )
    )
    return (flow - printed).expand()


def derive_energy(n_features: int = 3, n_hidden: int = 2) -> tuple[Any, Any, Any]:
    r"""Flow of Eq. 22 for :math:`\Sigma = \lambda 1` plus the gradient of the energy, both ways.

    Returns
    -------
    printed : Matrix (n_features, n_hidden)
        With :math:`\frac14` and, on ordered pairs, :math:`\frac12` as printed:
        :math:`\lambda\sum_{i\ne j}(w_i\cdot w_j)w_i` is left, interference counted twice.
    corrected : Matrix
        With :math:`\frac14` on ordered pairs: zero.
    closed : Expr
        The corrected energy less :math:`\frac\lambda4|1-WW'|^2`: zero.

    References
    ----------
    Notes (2022), Eq. 28.

    Examples
    --------
    >>> printed, corrected, closed = derive_energy(2, 1)
    >>> print(printed[0], corrected.is_zero_matrix, closed)
    lambda*w_11*w_21**2 True 0
    """
    import sympy as sp

    lam = sp.Symbol("lambda", positive=True)
    W = _matrix("w", n_features, n_hidden)
    flow, _ = tied_flows(W, lam * sp.eye(n_features))
    M = W * W.T
    own = sum((1 - M[i, i]) ** 2 for i in range(n_features))
    cross = sum(M[i, j] ** 2 for i in range(n_features) for j in range(n_features) if i != j)

    def energy(c: Any) -> Any:
        return lam * (own / 4 + c * cross)

    half, quarter = energy(sp.Rational(1, 2)), energy(sp.Rational(1, 4))
    rest = sp.eye(n_features) - M
    return (
        (flow + _gradient(half, W)).expand(),
        (flow + _gradient(quarter, W)).expand(),
        sp.expand(quarter - lam / 4 * (rest * rest).trace()),
    )


def derive_metric(n_features: int = 3, n_hidden: int = 2) -> tuple[Any, Any]:
    r"""Find what Eq. 22 descends for any :math:`\Sigma`.

    Returns
    -------
    residual : Matrix (n_features, n_hidden)
        The flow plus :math:`\Sigma\,\nabla\frac14|1-WW'|^2`: zero. It is a gradient flow in the metric
        :math:`\mathrm{tr}\,\delta'\Sigma^{-1}\delta`, of an energy without :math:`\Sigma`.
    curl : Expr
        Antisymmetric part of the flow's Jacobian, one entry, for :math:`\Sigma` diagonal: not zero for
        different eigenvalues, so there is no energy in the usual metric.

    References
    ----------
    Notes (2022), Eqs. 22, 28.

    Examples
    --------
    >>> residual, curl = derive_metric(2, 1)
    >>> residual.is_zero_matrix, curl
    (True, -2*w_11*w_21*(s_11 - s_22))
    """
    import sympy as sp

    W, sigma = _matrix("w", n_features, n_hidden), symmetric(n_features)
    flow, _ = tied_flows(W, sigma)
    rest = sp.eye(n_features) - W * W.T
    residual = flow + sigma * _gradient((rest * rest).trace() / 4, W)
    diagonal = {sigma[i, j]: 0 for i in range(n_features) for j in range(i)}
    curl = sp.diff(flow[0, 0], W[1, 0]) - sp.diff(flow[1, 0], W[0, 0])
    return residual.expand(), sp.factor(sp.expand(curl.subs(diagonal)))


def derive_importance_loss(n_features: int = 3, n_hidden: int = 2) -> tuple[Any, Any, Any]:
    r"""Expand the weighted loss of the tied linear model on independent inputs by their moments.

    Returns
    -------
    without_bias : Expr
        The expected loss less :math:`v F + m^2\sum_i I_i(1-\sum_j W_i\cdot W_j)^2` with mean m, variance v
        and F the source's form: zero.
    best_bias : Expr
        The same for the model with its best bias, less :math:`v F`: zero.
    extra : Expr
        What the source leaves out, in units of :math:`m^2`.

    References
    ----------
    Elhage et al. (2022), the linear model's loss.

    Examples
    --------
    >>> without_bias, best_bias, extra = derive_importance_loss(2, 1)
    >>> without_bias, best_bias
    (0, 0)
    """
    import sympy as sp

    W = _matrix("w", n_features, n_hidden)
    I = sp.symbols(f"I1:{n_features + 1}", positive=True)
    b = sp.symbols(f"b1:{n_features + 1}", real=True)
    m, v = sp.symbols("m v", positive=True)
    M = W * W.T
    rest = sp.eye(n_features) - M
    moments = v * sp.eye(n_features) + m**2 * sp.ones(n_features, n_features)
    mean = m * sp.ones(n_features, 1)
    others = [(i, j) for i in range(n_features) for j in range(n_features) if i != j]
    form = sum(I[i] * (1 - M[i, i]) ** 2 for i in range(n_features)) + sum(
        I[j] * M[j, i] ** 2 for i, j in others
    )
    extra = sum(I[i] * (1 - sum(M.row(i))) ** 2 for i in range(n_features))

    def loss(bias: Any) -> Any:  # E (rest x - b)_i^2, with the weights
        return sum(
            I[i]
            * (
                (rest.row(i) * moments * rest.row(i).T)[0]
                - 2 * bias[i] * (rest.row(i) * mean)[0]
                + bias[i] ** 2
            )
            for i in range(n_features)
        )

    general = loss(b)
    best = [sp.solve(sp.diff(general, x), x)[0] for x in b]
    return (
        sp.expand(loss([0] * n_features) - v * form - m**2 * extra),
        sp.expand(loss(best) - v * form),
        sp.expand(extra),
    )

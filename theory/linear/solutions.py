"""SymPy checks of closed-form solutions: aligned starts, Riccati flows, singular values.

As in the module `derive`, each function returns what is left: zero, if the closed form is right.
"""

from typing import Any

from .derive import symmetric, tied_flows

__all__ = ["derive_modes", "derive_riccati", "derive_singular_values"]


def derive_singular_values() -> tuple[Any, Any]:
    r"""Rate of one singular value of tied weights under the flows of encoder and decoder.

    With :math:`W = \sum_k s_k u_k v_k'` the rate of s is u' (dW/dt) v. In the basis of the u's and v's W is
    diagonal and :math:`\Sigma` any symmetric matrix; two of each suffice.

    Returns
    -------
    encoder, decoder : Expr
        The rates less :math:`s_1(1-s_1^2)\,u_1'\Sigma u_1`: zero. No singular value crosses 1, all grow or
        fall to 1 at least as fast as :math:`\lambda_{\min}` allows.

    Examples
    --------
    >>> derive_singular_values()
    (0, 0)
    """
    import sympy as sp

    sigma, s = symmetric(3), sp.symbols("s1 s2", positive=True)
    W = sp.Matrix(3, 2, lambda i, j: s[j] if i == j else 0)
    expected = s[0] * (1 - s[0] ** 2) * sigma[0, 0]
    slow, oja = tied_flows(W, sigma)
    return sp.expand(slow[0, 0] - expected), sp.expand(oja[0, 0] - expected)


def derive_modes() -> tuple[Any, Any, Any]:
    r"""Check the closed forms of aligned starts by differentiation.

    Returns
    -------
    tied : Expr
        Slope of :math:`w_0/\sqrt{w_0^2(1-e)+e}` with :math:`e = e^{-2\lambda t}`, less
        :math:`\lambda w(1-w^2)`: zero.
    squares : tuple of Expr
        Slope of :math:`q = (a+b)^2` along the pair's flow less :math:`\lambda(2q - q^2/2 + k^2/2)`, and of
        the imbalance :math:`k = a^2-b^2`: zero.
    riccati : Expr
        Slope of the solution that `aligned_pair` evaluates less the same: zero.

    References
    ----------
    Saxe et al. (2014), appendix A.

    Examples
    --------
    >>> derive_modes()
    (0, (0, 0), 0)
    """
    import sympy as sp

    lam, t, w0, q0, k = sp.symbols("lambda t w0 q0 k", positive=True)
    a, b = sp.symbols("a b", real=True)
    decay = sp.exp(-2 * lam * t)
    w = w0 / sp.sqrt(w0**2 * (1 - decay) + decay)
    tied = sp.simplify(sp.diff(w, t) - lam * w * (1 - w**2))
    d_a, d_b = lam * (1 - a * b) * b, lam * (1 - a * b) * a
    difference = a**2 - b**2
    law = lam * (2 * (a + b) ** 2 - (a + b) ** 4 / 2 + difference**2 / 2)
    square = sp.expand(2 * (a + b) * (d_a + d_b) - law)
    drift = sp.expand(2 * a * d_a - 2 * b * d_b)
    root = sp.sqrt(4 + k**2)
    up, down, gone = 2 + root, 2 - root, sp.exp(-lam * root * t)
    q = (q0 * (up - down * gone) + k**2 * (1 - gone)) / (q0 * (1 - gone) + up * gone - down)
    riccati = sp.diff(q, t) - lam * (2 * q - q**2 / 2 + k**2 / 2)
    return tied, (square, drift), sp.simplify(riccati)


def derive_riccati() -> tuple[Any, Any, Any]:
    r"""Check the closed forms of flows that are not aligned, two features on one hidden neuron.

    Returns
    -------
    decoder : Matrix (2, 2)
        Slope of :math:`M = e^{\Sigma t}w_0[1 + w_0'(e^{2\Sigma t}-1)w_0]^{-1}w_0'e^{\Sigma t}` less
        :math:`\Sigma M + M\Sigma - 2M\Sigma M`, the decoder's flow on tied weights: zero.
    encoder : Matrix (2, 1)
        Slope of :math:`w = e^{\Sigma\tau}w_0` with :math:`\dot\tau = 1-|w|^2`, less Eq. 22: zero. It ends
        where it meets the unit sphere.
    white : Matrix (4, 4)
        For :math:`\Sigma = \lambda 1` and A'A = BB': slope of QQ' with Q = (A; B') less
        :math:`\lambda(JQQ' + QQ'J - (QQ')^2)`, J the exchange of A and B': zero, a Riccati equation as well.

    References
    ----------
    Notes (2022), Eqs. 20-22; Yan, Helmke and Moore, IEEE Trans. Neural Networks 5 (1994) 674; Fukumizu,
    "Dynamics of batch learning in multilayer neural networks" (1998).

    Examples
    --------
    >>> [residual.is_zero_matrix for residual in derive_riccati()]
    [True, True, True]
    """
    import sympy as sp

    t, x, y, lam, s1, s2 = sp.symbols("t x y lambda s1 s2", positive=True)
    sigma, w0 = sp.diag(s1, s2), sp.Matrix([x, y])
    grown = (sigma * t).exp() * w0
    M = grown * grown.T / (1 + (grown.T * grown - w0.T * w0)[0])
    decoder = sp.simplify(sp.diff(M, t) - sigma * M - M * sigma + 2 * M * sigma * M)
    slow, _ = tied_flows(grown, sigma)
    encoder = sp.simplify(sp.diff(grown, t) * (1 - (grown.T * grown)[0]) - slow)
    a = sp.Matrix(sp.symbols("a1 a2", real=True))
    c, s = sp.symbols("c s", real=True)
    b = sp.Matrix([[c, -s], [s, c]]) * a  # of the length of a, where c^2 + s^2 = 1
    rest = lam * (sp.eye(2) - a * b.T)
    Q, d_Q = sp.Matrix([a, b]), sp.Matrix([rest * b, rest.T * a])
    J = sp.Matrix(sp.BlockMatrix([[sp.zeros(2), sp.eye(2)], [sp.eye(2), sp.zeros(2)]]))
    X = Q * Q.T
    white = (d_Q * Q.T + Q * d_Q.T - lam * (J * X + X * J - X * X)).subs(s, sp.sqrt(1 - c**2))
    return decoder, encoder, white.applyfunc(sp.expand)

"""SymPy derivations around critical points: the rotation of Prop. 3, rates of the flows, finite escapes."""

from typing import Any

from .derive import tied_flows, total_loss

__all__ = ["derive_filling", "derive_rotation", "derive_second_order"]


def derive_rotation() -> tuple[Any, Any]:
    r"""Rotate a kept eigenvector j by eps towards one left out, k.

    With eigenvectors as coordinates, four of them: one kept and left alone, j, k, and one left out.

    Returns
    -------
    diagonal : Matrix (4, 1)
        Diagonal of the rotated projection less (1, 1/(1+eps^2), eps^2/(1+eps^2), 0): zero.
    gain : Expr
        What the loss falls by, less :math:`\frac{\epsilon^2}{1+\epsilon^2}(\lambda_k-\lambda_j)`: zero.

    References
    ----------
    Notes (2022), Prop. 3 and Eq. 18.

    Examples
    --------
    >>> diagonal, gain = derive_rotation()
    >>> list(diagonal), gain
    ([0, 0, 0, 0], 0)
    """
    import sympy as sp

    eps = sp.Symbol("epsilon", positive=True)
    lam = sp.symbols("lambda_i lambda_j lambda_k lambda_l", positive=True)
    kept = sp.Matrix([[1, 0], [0, 1], [0, 0], [0, 0]])
    rotated = sp.Matrix([[1, 0], [0, 1], [0, eps], [0, 0]]) * sp.diag(1, 1 / sp.sqrt(1 + eps**2))
    sigma = sp.diag(*lam)
    projection = rotated * rotated.T
    share = eps**2 / (1 + eps**2)
    expected = sp.Matrix([1, 1 - share, share, 0])
    fall = total_loss(kept * kept.T, sigma) - total_loss(projection, sigma)
    return (
        sp.simplify(sp.Matrix(projection.diagonal()).reshape(4, 1) - expected),
        sp.simplify(fall - share * (lam[2] - lam[1])),
    )


def derive_filling() -> Any:
    r"""Let a spare hidden neuron take up an eigenvector k that is left out, with weights eps.

    Returns
    -------
    residual : Expr
        What the loss falls by, less :math:`(2\epsilon^2-\epsilon^4)\lambda_k`: zero. Critical points of
        rank below n_hidden need this direction: if they keep the largest eigenvalues, no rotation helps.

    References
    ----------
    Notes (2022), Prop. 3, which has none of these points.

    Examples
    --------
    >>> derive_filling()
    0
    """
    import sympy as sp

    eps = sp.Symbol("epsilon", positive=True)
    lam = sp.symbols("lambda_j lambda_k", positive=True)
    sigma = sp.diag(*lam)
    before, after = sp.diag(1, 0), sp.diag(1, eps)
    fall = total_loss(before * before, sigma) - total_loss(after * after, sigma)
    return sp.expand(fall - (2 * eps**2 - eps**4) * lam[1])


def derive_second_order() -> dict[str, Any]:
    r"""Linearise all four flows at a critical point that keeps i, leaves o out, and has a spare neuron.

    Two features and two hidden neurons, A = B' = (1 0; 0 0) in the eigenbasis, hold every kind of
    deviation once. Jacobians of the flows, deviations (entry by entry; decoder, then transposed encoder).

    Returns
    -------
    dict of str to Matrix
        ``pair`` (8, 8) and ``encoder``, ``decoder``, ``tied`` (4, 4), in the symbols lambda_i, lambda_o; for
        ``pair`` and ``tied`` minus half the Hessian of the loss.

    References
    ----------
    Notes (2022), Eqs. 19-22.

    Examples
    --------
    >>> derive_second_order()["tied"]
    Matrix([
    [-4*lambda_i, 0,                    0,          0],
    [          0, 0,                    0,          0],
    [          0, 0, -lambda_i + lambda_o,          0],
    [          0, 0,                    0, 2*lambda_o]])
    """
    import sympy as sp

    sigma = sp.diag(*sp.symbols("lambda_i lambda_o", positive=True))
    a, b = (sp.Matrix(2, 2, sp.symbols(f"{name}_11 {name}_12 {name}_21 {name}_22")) for name in "ab")
    start = sp.Matrix([[1, 0], [0, 0]])
    rest = sp.eye(2) - (start + a) * (start + b).T
    d_a, d_b = rest * sigma * (start + b), sigma * rest.T * (start + a)
    slow, oja = tied_flows(start + a, sigma)

    def jacobian(velocity: Any, deviation: list[Any]) -> Any:
        return sp.Matrix(list(velocity)).jacobian(deviation).subs(dict.fromkeys(deviation, 0))

    return {
        "pair": jacobian([*d_a, *d_b], [*a, *b]),
        "encoder": jacobian(slow, [*a]),
        "decoder": jacobian(oja, [*a]),
        "tied": jacobian(slow + oja, [*a]),
    }

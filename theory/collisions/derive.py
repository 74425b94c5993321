"""SymPy derivations of overlaps and conflicts of encodings, in the normal form of the package."""

from typing import Any

from ..derivation import Derivation, cached_derivation, derived, sp
from ..sparsification.derive import normal_flow

__all__ = [
    "derive_conflict", "derive_initial_moments", "derive_overlap", "derive_shared_neuron", "derive_split",
    "derive_untied",
]  # fmt: skip


@cached_derivation
def derive_initial_moments() -> Derivation:
    """Derive E (W_i.W_j)^2, E |W|^2 and E |W|^4, a column, for encodings of m weights N(0, s^2) each.

    >>> derive_initial_moments().expression.T
    Matrix([[m*s**4, m*s**2, m*s**4*(m - 1) + 3*m*s**4]])
    """
    m = sp.Symbol("m", integer=True, positive=True)
    s = sp.Symbol("s", positive=True)
    y = sp.Symbol("y", real=True)
    density = sp.exp(-(y**2) / (2 * s**2)) / (s * sp.sqrt(2 * sp.pi))
    second, fourth = (sp.integrate(y**k * density, (y, -sp.oo, sp.oo)) for k in (2, 4))
    # Products of different neurons' weights have mean 0: only m squares of products are left.
    column = sp.Matrix([m * second**2, m * second, m * fourth + m * (m - 1) * second**2])
    return derived(column, "All weights are independent and normal with mean 0.")


@cached_derivation
def derive_overlap() -> Derivation:
    r"""Derive the relative rates of a positive overlap of two encodings and of their cosine, at lam = 0.

    The flow is :math:`\dot W_i = (1 - |W_i|^2) W_i - \mathrm{ReLU}(W_i \cdot W_j) W_j` for the two encodings,
    without the l1 force, of strength lam. The result is a column in the symbols a = |W_1|^2, b = |W_2|^2, x =
    W_1.W_2. Its entries are :math:`d \ln x/dt`; the contribution of interference to this rate, which is the
    rate in Lecomte et al. (2024), §2.5; and :math:`d \ln \cos/dt`, for the cosine of the angle between the
    two encodings.

    >>> derive_overlap().expression[0]
    -2*a - 2*b + 2
    """
    a, b, x = sp.symbols("a b x", positive=True)
    # Without l1 force the flow turns with the axes, and so those may be chosen: the first along W_1.
    W = sp.Matrix([[sp.sqrt(a), 0], [x / sp.sqrt(a), sp.sqrt(b - x**2 / a)]])
    free = {"lambda": 0, **{f"W_{i}{k}": W[i, k] for i in range(2) for k in range(2)}}

    def slopes(on: int) -> Any:  # d(W W')/dt, with or without interference
        """Return d(W W')/dt, W the two encodings, with interference if `on` is 1, without if 0."""
        values = {**free, "s_01": on}
        flow = normal_flow(2, 2)
        V = flow.subs({symbol: values[symbol.name] for symbol in flow.free_symbols if symbol.name in values})
        return V * W.T + W * V.T

    both, alone = slopes(1), slopes(0)
    rate = both[0, 1] / x
    rates = [rate, rate - alone[0, 1] / x, rate - both[0, 0] / (2 * a) - both[1, 1] / (2 * b)]
    column = sp.Matrix([sp.expand(sp.simplify(expression)) for expression in rates])
    return derived(column, "lam = 0.", "The overlap is positive.")


@cached_derivation
def derive_shared_neuron() -> Derivation:
    r"""Derive the rates of w2/w1 and ln(w1 - w2), a column, for two positive weights of one encoding.

    The flow is :math:`w_i' = w_i (1 - w_1^2 - w_2^2) - \lambda`, with the strength lam of the l1 force. The
    first rate is 0 at lam = 0.

    >>> derive_shared_neuron().expression[0]
    -lam*(w1 - w2)/w1**2
    """
    w1, w2, lam = sp.symbols("w1 w2 lam", positive=True)
    d1, d2 = (w * (1 - w1**2 - w2**2) - lam for w in (w1, w2))
    rates = [(d2 * w1 - w2 * d1) / w1**2, (d1 - d2) / (w1 - w2)]
    return derived(sp.Matrix([sp.factor(sp.simplify(rate)) for rate in rates]))


@cached_derivation
def derive_conflict() -> Derivation:
    """Derive the rate of ln(x1/x2) for encodings (x1, y1) and (x2, y2) that share only the neuron of x.

    x1 and x2 are their weights on the shared neuron; y1 and y2 are weights on neurons of their own. The flow
    is that of Lecomte et al. (2024) at lam = 0 (without the l1 force), with zero weights held at zero. The
    encoding with the smaller weight y gains the shared neuron. If both encodings are equally long, that
    encoding has the larger shared weight.

    >>> derive_conflict().expression
    -y1**2 + y2**2
    """
    x1, x2, y1, y2 = sp.symbols("x1 x2 y1 y2", positive=True)
    d1 = x1 * (1 - x1**2 - y1**2) - x1 * x2**2
    d2 = x2 * (1 - x2**2 - y2**2) - x2 * x1**2
    assumption = "Zero weights are held at zero, as the source assumes: it takes a lam above x1 x2 y."
    return derived(sp.simplify(d1 / x1 - d2 / x2), "lam = 0.", assumption)


@cached_derivation
def derive_split() -> Derivation:
    r"""Derive a column in w: the l1 strength at which w_1 = w_2 = w is at rest, and two growth rates.

    The flow is :math:`w_i' = w_i (1 - w_1^2 - w_2^2) - \lambda`, i = 1, 2, of the weights of one feature in
    two copies of a split neuron. The two rates say how fast small deviations of w_1 - w_2 and of w_1 + w_2
    from the rest point grow.

    >>> derive_split().expression.T
    Matrix([[-2*w**3 + w, 1 - 2*w**2, 1 - 6*w**2]])
    """
    w, w1, w2, lam = sp.symbols("w w1 w2 lam", positive=True)
    flow = sp.Matrix([(1 - w1**2 - w2**2) * x - lam for x in (w1, w2)])
    equal = {w1: w, w2: w}
    jacobian = flow.jacobian([w1, w2]).subs(equal)
    rates = [(jacobian * sp.Matrix([1, sign]))[0] for sign in (-1, 1)]
    rest = sp.solve(flow[0].subs(equal), lam)[0]
    return derived(sp.Matrix([sp.expand(rate) for rate in (rest, *rates)]))


@cached_derivation
def derive_untied() -> Derivation:
    r"""Derive the rate of |D|^2 - |E|^2 of a feature's decoder weights D and encoder weights E, two neurons.

    The rate is :math:`2 \lambda |E|_1`, lam the strength of the l1 term on activations: while lam > 0, the
    decoder grows and the encoder shrinks.

    >>> derive_untied().expression
    2*e1*lam + 2*e2*lam
    """
    lam = sp.Symbol("lam", positive=True)
    e, d = sp.symbols("e1:3", positive=True), sp.symbols("d1:3", real=True)
    learned = 1 - sum(x * y for x, y in zip(d, e, strict=True))
    rates = [2 * y * learned * x - 2 * x * (learned * y - lam) for x, y in zip(e, d, strict=True)]
    return derived(sp.expand(sum(rates)), "No interference.", "All weights of the encoder are positive.")

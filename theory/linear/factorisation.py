"""Learning coefficients of a product of two matrices (reduced-rank regression), at every minimum."""

from ..results import result
from ..validation import integer

__all__ = ["FactorisationLLC", "factorisation_llc"]

_LARGEST = 10**6


@result
class FactorisationLLC:
    """Local learning coefficient and multiplicity of a factorised linear map at a minimum."""

    coefficient: float
    multiplicity: int
    regular: int
    """Rank rho of the Hessian; rho/2 is the coefficient if no outputs, inputs or neurons are `left`."""
    left: tuple[int, int, int]
    """Numbers of outputs, inputs and neurons of the remaining product of two zero matrices."""


def factorisation_llc(
    n_outputs: int, n_inputs: int, n_hidden: int, *, decoder: int, encoder: int, product: int
) -> FactorisationLLC:
    r"""Return the local learning coefficient of a factorised linear map at a minimum, from its ranks there.

    The loss is :math:`E\,|B A x - C x|^2`, with an invertible second moment of x, and the minimum is a point
    with BA = C. The derivative of BA with respect to A and B has the rank :math:`\rho = N a + M b - a b`, and
    contributes :math:`\rho/2` to the coefficient. In the other directions the loss is that of a product of
    two matrices that are 0 at the point, with N - b outputs, M - a inputs and H - a - b + r neurons. They
    contribute the coefficient of Aoyagi and Watanabe, Neural Networks 18 (2005) 924, for a true matrix 0.

    Parameters
    ----------
    n_outputs, n_inputs, n_hidden : int
        N, M and H: B is (N, H), A is (H, M).
    decoder, encoder, product : int
        Ranks b of B, a of A, and r of C = BA.

    Returns
    -------
    FactorisationLLC

    Examples
    --------
    >>> found = factorisation_llc(2, 2, 2, decoder=1, encoder=1, product=1)
    >>> found.coefficient, found.multiplicity, found.regular, found.left
    (2.0, 2, 3, (1, 1, 1))
    """
    N, M, H = (
        integer(name, value, 1, _LARGEST)
        for name, value in {"n_outputs": n_outputs, "n_inputs": n_inputs, "n_hidden": n_hidden}.items()
    )
    b, a = integer("decoder", decoder, 0, min(N, H)), integer("encoder", encoder, 0, min(M, H))
    r = integer("product", product, max(0, a + b - H), min(a, b))
    regular, sizes = N * a + M * b - a * b, (N - b, M - a, H - a - b + r)
    *short, long = sorted(sizes)
    if long > sum(short):  # one is larger than both others together
        eighths, odd = 4 * short[0] * short[1], 0
    else:
        odd = sum(sizes) % 2
        eighths = sum(sizes) ** 2 - 2 * sum(size**2 for size in sizes) + odd
    return FactorisationLLC(regular / 2 + eighths / 8, 1 + odd, regular, sizes)

r"""The exact expected loss of any affine + ReLU model at any law of the data, without sampling."""

from typing import Any

import numpy as np
import numpy.typing as npt

from ...theory.arguments import FloatArray, integer, number, real, vector
from .evaluator import LARGEST, Evaluator, Loss

__all__ = ["exact_gradient", "exact_loss", "row_loss", "value_and_gradient"]


def _tol(tol: Any) -> float:
    return number("tol", tol, 0.0, 1.0, brackets="()")


def exact_loss(
    M: npt.ArrayLike, b: npt.ArrayLike, law: Any, *, tol: float = 1e-12, rows: npt.ArrayLike | None = None
) -> Loss:
    r"""Exact expected loss per feature of the model ReLU(M x + b), by integrating the law of M x + b.

    .. math:: L = \frac1n \sum_i I_i\, E\,(x_i - \mathrm{ReLU}((M x + b)_i))^2

    Parameters
    ----------
    M : (n, n) array_like of float
        Decoder times encoder, row i makes output i. Any real matrix with entries up to 1e50. Not modified.
    b : float or (n,) array_like of float
        Bias of the outputs.
    law : float or Features
        Law of the data. A number is the probability p in (0, 1] that a feature is on, p = 1 - S for sparsity
        S; features are then independent, alike and uniform on [0, 1].
    tol : float, optional
        Error to aim at for each output, in units of its loss or of E x_i^2, whichever is larger.
    rows : sequence of int, optional
        Outputs to restrict the loss to; all by default.

    Returns
    -------
    Loss
        `loss` is the mean over the outputs asked for, in their order in `per_feature`.

    Raises
    ------
    ValueError
        If an argument has another shape, is not finite or lies outside its range, or if rounding would
        leave no more than two digits of a loss.

    Notes
    -----
    `evaluator` chooses the method, which the result names. Few features with bounded values: folded means or
    a sum over all patterns, and only rounding is left. Independent uniform features: a lattice sum, good to
    4e-12 of p/3 for 512 features with random weights. Other bounded values, groups, exactly k on: a simpler
    sum, or moments where the ReLU of an output never bends. What the two sums cut off is bounded as
    `methods.uniform` and `methods.lattice` derive. Sums of binary values have atoms, where the bound stays at
    1e-4 of the loss and takes seconds a row. Values without bounds: an integral that converges exponentially.

    The rounding part of the estimate is heuristic: tests in exact arithmetic never exceeded it. It scales
    with the square of the range of the output. Weights may differ by any factor, except in the simpler sum,
    where the estimate grows with their spread. The cost is n^2 times the number of frequencies, 0.7 ns each
    for uniform values: a hundred where many features are on at once, up to some 1e4 where few are. Rows are
    shared among Numba's threads; results do not depend on their number.

    Examples
    --------
    >>> pair = np.array([[1.0, -1.0], [-1.0, 1.0]])      # two features, one dimension, opposite signs
    >>> result = exact_loss(pair, 0.0, 0.1)
    >>> round(result.loss, 12), result.error_estimate < 1e-14        # both on: E min(u, v)^2 = 1/6
    (0.001666666667, True)
    >>> from superposition.theory.features import Features
    >>> round(exact_loss(pair, 0.0, Features(2, 0.1, values="exponential")).loss, 12)  # E min^2 = 1/2
    0.005
    """
    return Evaluator(law, tol=_tol(tol), workers=None).of_arrays(M, b, rows=rows)


def row_loss(row: npt.ArrayLike, i: int, b: float, law: Any, *, tol: float = 1e-12) -> Loss:
    """Exact expected loss of one output, E (x_i - ReLU(row . x + b))^2.

    Parameters
    ----------
    row : (n,) array_like of float
        The output's weights; entries up to 1e50. Not modified.
    i : int
        The feature that the output is to reconstruct, 0 <= i < n.
    b : float
        Bias of the output.
    law, tol
        As for `exact_loss`.

    Returns
    -------
    Loss
        With vectors of size 1; `loss` includes the importance of feature i.

    Raises
    ------
    ValueError
        As in `exact_loss`.

    Examples
    --------
    >>> row = np.r_[0.5, np.full(4, 0.25)]
    >>> round(row_loss(row, 0, -0.1, 0.2).loss, 12)
    0.026922302302
    """
    row = real("row", vector("row", row), -LARGEST, LARGEST)
    one = Evaluator(law, tol=_tol(tol))
    made, feature = one.law(row.size), np.array([integer("i", i, 0, row.size - 1)])
    bias = np.array([number("b", b, -LARGEST, LARGEST)])
    return one.mean(made, row[np.newaxis], feature, bias, False)


def value_and_gradient(
    M: npt.ArrayLike,
    b: npt.ArrayLike,
    law: Any,
    *,
    tol: float = 1e-7,
    rows: npt.ArrayLike | None = None,
    frequencies: int | None = None,
) -> Loss:
    """Return the exact loss with its derivatives by M and by b, for descents.

    Parameters
    ----------
    M, b, law
        As for `exact_loss`.
    tol : float, optional
        Error of the loss to aim at, in units of E x_i^2. Its bound is far from sharp: at the default the
        gradient of models of 16 to 128 features is good to 1e-9. Up to 14 independent uniform features leave
        nothing but rounding.
    rows : sequence of int, optional
        Outputs to restrict loss and gradient to, as in `exact_loss`; all by default.
    frequencies : int, optional
        Terms of a lattice sum at most, whatever the bound; by default some 2^26/n_features. With it the error
        of the loss is an estimate as that of the gradient is.

    Returns
    -------
    Loss
        Where an output is exactly 0 with positive probability while its feature is on, as that of a zero row
        with bias 0, the loss has a kink. Each derivative is then the mean of those to both sides, for every
        law: the derivative itself along directions where there is one. (PyTorch takes such outputs as off.)

    Raises
    ------
    ValueError
        As in `exact_loss`, and if no more than two digits of a row's derivatives would be left, next to the
        largest of them and the largest E x_j^2.

    Notes
    -----
    `gradient_error` has rounding, in units of 2 E (x_i + |y_i|) max(1, x_j). The derivatives may be far
    below that where they cancel: by M_ii of the model M = 1 - 1e-15 alone it is 2e-15 p/3, and off by
    1e-16 p. Where a sum over frequencies is cut off, it also has what the upper half of them changes.
    Both are estimates; brute force in exact arithmetic has not exceeded them.

    Examples
    --------
    >>> loss, by_M, by_b = value_and_gradient(np.eye(3), np.full(3, -0.1), 0.1)
    >>> round(loss, 6), by_b.round(4)
    (0.000933, array([-0.006, -0.006, -0.006]))
    """
    most = None if frequencies is None else integer("frequencies", frequencies, 1, 2**24)
    return Evaluator(law, tol=_tol(tol), workers=None, frequencies=most).of_arrays(M, b, True, rows)


def exact_gradient(
    M: npt.ArrayLike, b: npt.ArrayLike, law: Any, *, tol: float = 1e-12
) -> tuple[FloatArray, FloatArray]:
    """Return the derivatives of the exact loss per feature by M and by b.

    Brute force agrees to 1e-10 of the largest entry of a row, with weights that differ by twelve decades, but
    where the derivatives themselves cancel: `value_and_gradient` returns them with their errors, and tells
    in which units these are.

    Parameters
    ----------
    M, b, law, tol
        As for `value_and_gradient`.

    Returns
    -------
    by_M : (n, n) ndarray of float64
    by_b : (n,) ndarray of float64

    Raises
    ------
    ValueError
        As in `exact_loss` and `value_and_gradient`.

    Examples
    --------
    >>> by_M, by_b = exact_gradient(np.eye(3), np.full(3, -0.1), 0.1)
    >>> by_M.round(4)[0], by_b.round(4)
    (array([-0.0033, -0.0003, -0.0003]), array([-0.006, -0.006, -0.006]))
    """
    found = value_and_gradient(M, b, law, tol=tol)
    return found.by_M.copy(), found.by_b.copy()

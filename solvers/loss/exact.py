r"""The exact expected loss of any affine + ReLU model at any law of the data, without sampling."""

from typing import Any

import numpy as np
import numpy.typing as npt

from ...theory.validation import FloatArray, integer, number, real, vector
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
        Law of the data. A number is the probability p = 1 - S in (0, 1] that a feature is on, of independent
        features uniform on [0, 1].
    tol : float, optional
        Error to aim at for each output, in units of its loss or of E x_i^2, whichever is larger.
    rows : sequence of int, optional
        Outputs to restrict the loss to; all by default.

    Returns
    -------
    Loss
        `loss` is the mean over the outputs in `rows`, whose order `per_feature` has. `evaluator` chooses the
        method, which the result names; the page "The exact loss at any law" describes them. With few features
        of bounded values only rounding is left; for 512 independent uniform features with random weights a
        lattice sum is good to 4e-12 of p/3. What is cut off is bounded; the rounding part of the estimate is
        heuristic, but for features with finitely many values. The cost is n^2 times the number of
        frequencies, 0.7 ns each for uniform values: a hundred where many features are on at once, up to some
        1e4 where few are. Results do not depend on the number of threads.

    Raises
    ------
    ValueError
        If an argument has another shape or is out of range, or rounding would leave at most two digits of a
        loss.

    Examples
    --------
    >>> pair = np.array([[1.0, -1.0], [-1.0, 1.0]])      # two features, one dimension, opposite signs
    >>> result = exact_loss(pair, 0.0, 0.1)
    >>> round(result.loss, 12), result.error_estimate < 1e-14        # both on: E min(u, v)^2 = 1/6
    (0.001666666667, True)
    """
    return Evaluator(law, tol=_tol(tol), workers=None).of_arrays(M, b, rows=rows)


def row_loss(row: npt.ArrayLike, i: int, b: float, law: Any, *, tol: float = 1e-12) -> Loss:
    """Exact expected loss of one output, E (x_i - ReLU(row . x + b))^2.

    As `exact_loss`, with vectors of size 1; `loss` includes the importance of feature i.

    Parameters
    ----------
    row, i, b : (n,) array_like of float, int, float
        The output's weights, up to 1e50, the feature that it is to reconstruct, and its bias.
    law, tol : optional
        As for `exact_loss`.

    Examples
    --------
    >>> row = np.r_[0.5, np.full(4, 0.25)]
    >>> round(row_loss(row, 0, -0.1, 0.2).loss, 12)
    0.026922302302
    """
    row = real("row", vector("row", row), -LARGEST, LARGEST)
    evaluator = Evaluator(law, tol=_tol(tol))
    features_law, feature = evaluator.law(row.size), np.array([integer("i", i, 0, row.size - 1)])
    bias = np.array([number("b", b, -LARGEST, LARGEST)])
    return evaluator.mean(features_law, row[np.newaxis], feature, bias, False)


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
    M, b, law, rows : optional
        As for `exact_loss`.
    tol : float, optional
        Error of the loss to aim at, in units of E x_i^2. Its bound is far from sharp: at the default the
        gradient of models of 16 to 128 features is good to 1e-9.
    frequencies : int, optional
        Terms of a lattice sum at most, by default some 2^26/n_features. With it the error of the loss is an
        estimate, not a bound.

    Returns
    -------
    Loss
        Where an output is exactly 0 with positive probability while its feature is on, the loss has a kink,
        and each derivative is the mean of those to both sides. (PyTorch takes such outputs as off.)
        `gradient_error` has rounding, in units of 2 E (x_i + |y_i|) max(1, x_j), and four times the largest
        change that the last frequencies of a sum make: estimates. Brute force has exceeded them in one of a
        thousand rows of binary features with few frequencies, by a factor of 2.2, and never otherwise.

    Raises
    ------
    ValueError
        As in `exact_loss`, and if at most two digits of a row's derivatives would be left.

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

    Good to 1e-10 of the largest entry of a row, except where the derivatives themselves cancel:
    `value_and_gradient`, whose arguments and errors these are, returns them with their errors.

    Examples
    --------
    >>> by_M, by_b = exact_gradient(np.eye(3), np.full(3, -0.1), 0.1)
    >>> by_M.round(4)[0], by_b.round(4)
    (array([-0.0033, -0.0003, -0.0003]), array([-0.006, -0.006, -0.006]))
    """
    gradient = value_and_gradient(M, b, law, tol=tol)
    return gradient.by_M.copy(), gradient.by_b.copy()

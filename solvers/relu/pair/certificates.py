"""A numerical lower bound of the loss of every model of two features in one dimension."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ....theory import validation
from ....theory.features import Features
from ....theory.validation import FloatArray
from ...minimise import Certificate, Minimum, descend
from .diagram import phase_diagram
from .kernels import bound_below

__all__ = ["certify", "solve_pair"]

_LEAST_GAP = 1e-7  # the bounds are sums of a few hundred rounded terms; below this they would bound rounding
# Nearest that the loss may come to p/3 per feature when the a-priori bound on the encodings is formed.
_ALMOST_ONE = 1.0 - 1e-12
# A range that holds the imbalance of all models: no square of an encoding is beyond 2/(1 - _ALMOST_ONE).
ANY = (0.0, 1e13)


def certify(
    loss: float,
    p: float,
    importance: float = 1.0,
    *,
    bias: bool = True,
    gap: float = 1e-3,
    most_boxes: int = 1_000_000,
    imbalance: npt.ArrayLike = ANY,
) -> Certificate:
    r"""Return a numerical lower bound of the loss of all models of two features in one dimension.

    Branch and bound in double precision over boxes of the two encodings, the box of least bound first; the
    page "Small ReLU models" has the bound of a box. Encodings outside the first box lose more than `loss`, by
    `theory.relu.steep_bound`. The number of boxes, of 25 microseconds each, grows like 1/gap and with p.
    Rounding is not directed; its error, 1e-15, is far below the least gap.

    Parameters
    ----------
    loss : float
        Loss per feature of the model that others are compared with, positive. It is (F1 + importance F2)/2,
        with the losses F1 and F2 of the two outputs.
    p, importance : float
        Probability that a feature is on, and importance of the second feature, as for `phase_diagram`.
    bias, imbalance : bool, (2,) array_like of float, optional
        Whether the bound is for models with free biases, or with b = 0; and the range of abs(w1² - w2²) of
        their encodings w1 and w2, by default any.
    gap, most_boxes : float, int, optional
        Gap to reach, relative to `loss`, at least 1e-7; most boxes, after which the bound reached is
        returned.

    Returns
    -------
    Certificate
        Its `gap` is above `gap` times `loss` if the boxes ran out, or if a model has a loss below `loss`.

    Examples
    --------
    >>> certificate = certify(0.00276393, 0.1291549665, gap=1e-2)
    >>> certificate.kind, bool(certificate.gap <= 1e-2 * 0.00276393)
    ('branch and bound', True)
    """
    on = validation.number("p", p, 1e-4, 1)
    r = validation.number("importance", importance, 1e-4, 1e4)
    wanted = validation.number("gap", gap, _LEAST_GAP, 1)
    most = validation.integer("most_boxes", most_boxes, 1, 10**7)
    bias = validation.flag("bias", bias)
    low, high = validation.vector("imbalance", imbalance, 2)
    if not 0.0 <= low <= high:
        raise ValueError(f"`imbalance` must be from 0 or more to no less; got {low:g} to {high:g}.")
    # Without biases, a dropped feature costs p/3.
    dropped = 0.5 * min(r, 1.0) * (on / 3.0 - (on * on / 4.0 if bias else 0.0))
    loss_bound = validation.number("loss", loss, 0, dropped * (1.0 + 1e-9), brackets="(]")
    # An output whose part of the loss is at most `loss_bound` has (a - 1)/(a + 1) <= kappa.
    kappa = np.sqrt(np.minimum(loss_bound * 2.0 / (np.array([1.0, r]) * on / 3.0), _ALMOST_ONE))
    edges: FloatArray = np.sqrt((1.0 + kappa) / (1.0 - kappa))
    lower, boxes = bound_below(loss_bound, r, on, bias, wanted * loss_bound, edges, most, (low, high))
    lower = min(lower, loss_bound)
    kind = "branch and bound" if bias else "branch and bound, zero bias"
    return Certificate(kind, float(lower), float(loss_bound - lower), int(boxes))


def solve_pair(p: float, importance: float = 1.0, *, bias: bool = True, gap: float = 1e-3) -> Minimum:
    """Return the best model of two features in one dimension, with a bound on how much better others can be.

    Parameters
    ----------
    p, importance : float
        Probability that a feature is on, in [1e-4, 1], and importance of the second feature, in [1e-4, 1e4];
        the first one's is 1.
    bias : bool, optional
        Whether the biases are free, or else 0.
    gap : float, optional
        Largest (loss - lower bound)/loss to reach. Errors are those of `certify`.

    Returns
    -------
    Minimum
        With its certificate, which has the lower bound.

    Examples
    --------
    >>> model = solve_pair(0.1, 0.5, gap=0.01)
    >>> model.W.ravel().round(6), round(model.loss, 9)
    (array([ 1.00962 , -0.997986]), 0.001242382)
    """
    r = validation.number("importance", importance, 1e-4, 1e4)
    diagram = phase_diagram([validation.number("p", p, 1e-4, 1)], [r], bias=bias)
    W, b = diagram.W[0, 0], diagram.b[0, 0]
    law = Features(2, float(diagram.p[0]), importance=[1.0, r])
    model = descend(W, W.T, b, law, tied=True, bias=bias)
    return replace(model, certificate=certify(model.loss, p, r, bias=bias, gap=gap))

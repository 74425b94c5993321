"""Loss of the naive network, which computes some targets exactly and answers the others by their means."""

from typing import Any

import numpy as np

from ....theory.features import Features
from ....theory.validation import FloatArray, integer, short_repr
from ..problem import Law
from . import assemble
from .neuron_means import NeuronContext


def naive_loss(
    law: Any, n_hidden: int, target: Any = "identity", n_outputs: int | None = None
) -> tuple[float, int]:
    r"""Return (loss, features computed) of the naive network: it computes as many targets as neurons permit.

    The loss is the mean over outputs of importance times squared error. The computed features are those whose
    targets reduce the loss most; outputs of others are their means. A feature takes one hidden ReLU, or two
    if one cannot compute its target: \|x\| for values of both signs, or x itself for unbounded values of both
    signs. For targets \|x\| + B x one ReLU(x) or ReLU(-x) for each feature is tried too. It is enough where a
    residual path x leaves \|x\| - x = 2 ReLU(-x) to compute.

    Parameters
    ----------
    law : Features
        Of independent features.
    n_hidden : int
        Number of hidden neurons.
    target : str, array_like or tuple, optional
        What the outputs are to be: "identity" (the features), "relu", "abs" or "x+relu" of them, or arrays:
        A for A x, (A, name) for A f(x), (A, name, B) for A f(x) + B x, as for `solvers.loss.evaluator`.
    n_outputs : int, optional
        By default one for each feature of the law.

    Returns
    -------
    loss : float
        Exact; 0 where neurons suffice for all targets.
    count : int
        Number of features whose targets are computed.

    Examples
    --------
    >>> naive_loss(Features(4, 0.1, "symmetric"), 2, "relu")     # E relu(x)^2 = p/6, of mean p/4
    (0.008020833333333333, 2)
    """
    if not isinstance(law, Features):
        raise ValueError(f"`law` must be Features; got {short_repr(law)}.")
    n_hidden = integer("n_hidden", n_hidden, 1)
    if not law.independent:
        raise ValueError("`law` must be of independent features; got groups or `exactly`.")
    outputs = law.n_features if n_outputs is None else integer("n_outputs", n_outputs, 1)
    A, name, B = assemble.parse_target(target, outputs, law.n_features)
    context, mean = NeuronContext.of(Law(law), name, 1e-12, 1.0), float(law.values.moment(1))
    importance = law.importance if outputs == law.n_features else np.full(outputs, law.importance[0])
    A, B = (np.zeros(A.shape) if matrix is None else matrix * law.scale for matrix in (A, B))
    # Variances of f(x) and of x, and their covariance.
    of_f = law.p * context.square - (law.p * context.mean) ** 2
    of_x = law.p * float(law.values.moment(2)) - (law.p * mean) ** 2
    shared = law.p * context.cross - law.p**2 * context.mean * mean
    shares = importance @ (A**2 * of_f + 2.0 * A * B * shared + B**2 * of_x) / outputs
    low, high = law.values.support
    two = low < 0.0 and (name == "abs" or (name == "identity" and not np.isfinite([low, high]).all()))
    computed = shares
    if B.any() and not two:  # a neuron f(x) is read for its part of B x
        computed = importance @ (A * of_f + B * shared) ** 2 / np.where(of_f > 0.0, of_f, 1.0) / outputs
    saved = _sum_of_largest(computed, n_hidden // (2 if two else 1))
    if B.any() and name == "abs" and two and context.half is not None:
        size, square = law.p * context.mean, law.p * context.square
        variance = square / 2.0 - size**2 / 4.0  # of ReLU(x); then its covariances with |x| and x
        with_size, with_x = (square - size**2) / 2.0, square / 2.0
        by_sign = [
            importance @ (A * with_size + sign * B * with_x) ** 2 / variance / outputs for sign in (1.0, -1.0)
        ]
        saved = max(saved, _sum_of_largest(np.maximum(*by_sign), n_hidden), key=lambda pair: pair[0])
    return float(np.sum(shares)) - saved[0], saved[1]


def _sum_of_largest(gains: FloatArray, count: int) -> tuple[float, int]:
    """Return the sum of the `count` largest gains, or of all if there are fewer; and their number."""
    largest = np.sort(gains)[::-1][:count]
    return float(largest.sum()), largest.size

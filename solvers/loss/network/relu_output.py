r"""Losses of networks whose outputs pass a ReLU, where each output reads neurons of one direction.

Such an output is a function of one sum z = w x, linear between a few places: where a neuron turns on, and
where the output itself does. So it is a linear readout of ReLUs of z and -z, which `assemble` integrates.
With more than one direction an output is no such sum, and there is no exact loss here.
"""

from dataclasses import replace

import numpy as np

from ....theory.model import Model
from ....theory.validation import FloatArray

__all__ = ["covers", "linear_readout"]

_PARALLEL = 1e-12
_FLAT = 1e-14  # slopes below this share of their terms are rounding


def _common_direction(model: Model, k: int) -> tuple[FloatArray, FloatArray] | None:
    """Return (w, c) if all hidden neurons that output k reads have encoder rows c_i w; else None.

    w (n_features,) has length 1, or is 0 if the output reads none; c (n_hidden,) is 0 for neurons that it
    does not read.
    """
    reads = (model.W_out[k] != 0.0) & np.any(model.W_in != 0.0, axis=1)
    if not reads.any():
        return np.zeros(model.n_features), np.zeros(model.n_hidden)
    size = np.linalg.norm(model.W_in, axis=1)
    w = model.W_in[reads][np.argmax(size[reads])] / size[reads].max()
    encoder_part = np.where(reads, model.W_in @ w, 0.0)
    off = np.abs(model.W_in - np.outer(encoder_part, w)).max(axis=1)
    return None if np.any(off[reads] > _PARALLEL * size[reads]) else (w, encoder_part)


def covers(model: Model) -> bool:
    """Return whether outputs pass a ReLU, and each reads only hidden neurons with parallel encoder rows."""
    if not model.output == model.hidden == "relu":
        return False
    return all(_common_direction(model, k) is not None for k in range(model.n_outputs))


def _segment_points(kinks: FloatArray) -> FloatArray:
    """Return a point between any two neighbours of sorted `kinks`, and one below and one above all."""
    return np.asarray(np.r_[kinks[0] - 1.0, 0.5 * (kinks[1:] + kinks[:-1]), kinks[-1] + 1.0])


def linear_readout(model: Model, k: int) -> Model | None:
    """Return a network with one linear output that equals output k of the model ReLU(V ReLU(U x + b) + c).

    None where the output reads hidden neurons whose encoder rows are not parallel.
    """
    direction = _common_direction(model, k)
    if direction is None:
        return None
    w, projection = direction
    V, is_nonlinear = model.W_out[k], projection != 0.0

    def inner(z: FloatArray) -> FloatArray:
        """Return what output k has before its ReLU, at pre-activations z = w x of the common direction w."""
        h = np.maximum(np.outer(z, projection) + model.b_in, 0.0)
        return np.asarray(h @ V + model.b[k])

    kinks = np.unique(-model.b_in[is_nonlinear] / projection[is_nonlinear])
    if not kinks.size:
        constant = np.maximum(inner(np.zeros(1)), 0.0)
        return replace(model, W_in=w[None], b_in=0.0, W_out=np.zeros((1, 1)), b=constant, output="identity")
    middles = _segment_points(kinks)
    on = np.outer(middles, projection) + model.b_in > 0.0
    slopes = on @ (V * projection)
    slopes[np.abs(slopes) < _FLAT * (on @ np.abs(V * projection))] = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        zeros = middles - inner(middles) / slopes  # of the line of each segment
    inside = (zeros > np.r_[-np.inf, kinks]) & (zeros < np.r_[kinks, np.inf])
    ends, kinks = kinks, np.unique(np.r_[kinks, zeros[inside]])
    middles = _segment_points(kinks)
    slopes = slopes[np.searchsorted(ends, middles)] * (inner(middles) > 0.0)
    # From the first kink on: left of it one ReLU of -z, right of it one of z for each change of slope.
    readout = np.r_[-slopes[0], slopes[1], np.diff(slopes[1:])]
    U = np.concatenate([-w[None], np.repeat(w[None], kinks.size, axis=0)])
    start = np.maximum(inner(kinks[:1]), 0.0)
    bias = np.r_[kinks[0], -kinks]
    return replace(model, W_in=U, b_in=bias, W_out=readout[None], b=start, output="identity")

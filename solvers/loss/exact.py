"""First form of the room: independent features that are on equally often; any law is to follow."""

from typing import Any

import numpy as np
import numpy.typing as npt

from ...theory.arguments import FloatArray
from ...theory.features import as_features
from ...theory.results import result

__all__ = ["Loss", "exact_gradient", "exact_loss", "value_and_gradient"]


@result
class Loss:
    """Expected loss of a model and how far from the truth it may be.

    Attributes
    ----------
    loss : float
        Mean over the outputs of importance times `per_feature`.
    error_estimate : float
        What `loss` is off by at most.
    per_feature : (n,) ndarray of float64
        Expected squared error of each output, E (x_i - ReLU((M x + b)_i))^2, without importance.
    per_feature_error : (n,) ndarray of float64
        What each of them is off by at most.
    """

    loss: float
    error_estimate: float
    per_feature: FloatArray
    per_feature_error: FloatArray


def exact_loss(M: npt.ArrayLike, b: npt.ArrayLike, law: Any, *, tol: float = 1e-12) -> Loss:
    """Exact expected loss per feature of the model ReLU(M x + b)."""
    from ..rug import exact_loss as uniform

    features = as_features(law, np.shape(M)[0])
    found = uniform(M, b, float(features.p[0]), tol=tol)
    weights = features.importance / features.n_features
    losses, errors = found.per_feature, found.per_feature_error
    return Loss(float(weights @ losses), float(weights @ errors), losses, errors)


def value_and_gradient(
    M: npt.ArrayLike, b: npt.ArrayLike, law: Any, *, tol: float = 1e-9
) -> tuple[float, FloatArray, FloatArray]:
    """Return the exact expected loss per feature (importance included), its derivatives by M and by b."""
    from ..codes.hessian_kernels import loss_and_gradient

    features = as_features(law, np.shape(M)[0])
    M, b = np.require(M, np.float64, ["C", "W"]), np.require(b, np.float64, ["C", "W"])
    losses, by_M, by_b = loss_and_gradient(M, b, float(features.p[0]), 1024)
    weights = features.importance / features.n_features
    return float(weights @ losses), weights[:, None] * by_M, weights * by_b


def exact_gradient(
    M: npt.ArrayLike, b: npt.ArrayLike, law: Any, *, tol: float = 1e-9
) -> tuple[FloatArray, FloatArray]:
    """Return the derivatives of the exact expected loss per feature by M and by b."""
    return value_and_gradient(M, b, law, tol=tol)[1:]

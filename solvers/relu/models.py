"""Solved small models: ground truth for sparse autoencoders and parameter decomposition."""

from ...theory.arguments import FloatArray
from ..minimise import Certificate
from ..results import result

__all__ = ["SmallModel"]


@result
class SmallModel:
    """A model ReLU(W W' x + b), the data it is meant for, its exact loss.

    Attributes
    ----------
    W : (n_features, n_hidden) ndarray of float64
        Encodings, one a row.
    b : (n_features,) ndarray of float64
        Biases.
    importance : (n_features,) ndarray of float64
        Weights of the features' squared errors.
    p : float
        Probability that a feature is on; its value is then uniform on [0, 1].
    loss : float
        Exact expected loss per feature, mean of importance times squared error.
    certificate : Certificate
        How sure it is that no model of this size has a lower loss.
    """

    W: FloatArray
    b: FloatArray
    importance: FloatArray
    p: float
    loss: float
    certificate: Certificate

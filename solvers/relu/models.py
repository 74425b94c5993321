"""Solved small models: ground truth for sparse autoencoders and parameter decomposition."""

from ...theory.arguments import FloatArray
from ..results import result

__all__ = ["Certificate", "SmallModel"]


@result
class Certificate:
    """How sure it is that a model has the least loss.

    Attributes
    ----------
    kind : str
        "branch and bound": no model with free biases has a loss below `lower_bound`, proven up to rounding;
        the same for all models with b = 0 if "zero bias" is added. "many starts": the lowest of the local
        minima found
        from `work` starts, and `lower_bound` is zero.
    lower_bound : float
        Loss per feature that no model goes below.
    gap : float
        The model's loss minus `lower_bound`.
    work : int
        Boxes or starts used.
    """

    kind: str
    lower_bound: float
    gap: float
    work: int


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

"""Models of two affine layers, from features to hidden neurons to outputs, each with an activation."""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from . import validation
from .results import result
from .validation import FloatArray

__all__ = ["ACTIVATIONS", "Model", "is_above", "rounding_of_sum"]

ACTIVATIONS = ("identity", "relu", "jumprelu")

# Entries whose products, summed over neurons, are doubles.
_LARGEST = 1e100
# Roundings of a pre-activation beside one for each of its terms: bias, threshold, their difference, and those
# of its weights where these were computed.
_MORE_TERMS = 8


def rounding_of_sum(size: Any, terms: int) -> Any:
    """Return a bound on the rounding error of a sum of `terms` terms; `size` is the sum of their sizes."""
    return (terms + _MORE_TERMS) * 2.0**-52 * size


def is_above(z: Any, threshold: Any, size: Any, terms: int) -> Any:
    """Return whether pre-activations lie above their thresholds, by more than rounding.

    A unit whose sum is *at* its threshold is off. A sum counts as at the threshold if the difference is below
    its rounding error: 0.1 + 0.2 is not above 0.3, whatever the doubles are.

    Parameters
    ----------
    z, threshold : array_like of float
        Sums as computed, and thresholds.
    size : array_like of float
        Sums of the absolute values of all terms and of the threshold.
    terms : int
        How many terms the sums have.

    Examples
    --------
    >>> 0.1 + 0.2 > 0.3, bool(is_above(0.1 + 0.2, 0.3, 0.6, 2))
    (True, False)
    """
    return np.subtract(z, threshold) > rounding_of_sum(size, terms)


@result
class Model:
    r"""A model of one hidden layer, :math:`y = g(W_{out}\, h + b)` with :math:`h = f(W_{in}\, x + b_{in})`.

    >>> Model([[1.0, -1.0]])([0.5, 0.2]).round(12).tolist()  # two features on one neuron, tied
    [0.3, 0.0]

    The toy model ReLU(W' W x + b) is ``Model(W)``, and ReLU(M x + b) is ``Model(np.eye(n), W_out=M, b=b)``. A
    network with hidden ReLUs is ``Model(U, b_in=beta, hidden="relu", W_out=V, b=c, output="identity")``.
    ``Model.of(x)`` reads one from a PyTorch module, a state dict, a file or arrays.

    Parameters
    ----------
    W_in : (n_hidden, n_features) array_like of float
        Encoder; column i is the encoding of feature i. Entries up to 1e100, as those of all arrays here.
    b_in : float or (n_hidden,) array_like, optional
        Bias of the hidden neurons.
    hidden : {"identity", "relu", "jumprelu"}, optional
        Activation f of the hidden neurons.
    W_out : (n_outputs, n_hidden) array_like of float, optional
        Decoder; by default the transpose of the encoder: a tied model.
    b : float or (n_outputs,) array_like, optional
        Bias of the outputs.
    output : {"relu", "identity", "jumprelu"}, optional
        Activation g of the outputs.
    thresholds : float or array_like, optional
        For the layer that is "jumprelu", one for each of its units, at least 0: JumpReLU(z) is z where
        z > threshold, else 0. At most one layer may be "jumprelu".

    Raises
    ------
    ValueError
        If an array has another shape, is not finite or lies outside its range, or thresholds are missing or
        have no layer to belong to.

    Examples
    --------
    >>> pair = Model([[1.0, -1.0]])
    >>> pair, pair.n_hidden, pair.M.tolist()
    (Model(2 features -> 1 hidden (identity) -> 2 outputs (relu), tied), 1, [[1.0, -1.0], [-1.0, 1.0]])
    """

    # The function that reads modules and files; `validate.loading` sets it, as this layer reads none.
    of: ClassVar[Callable[..., "Model"]]

    W_in: Any
    b_in: Any = 0.0
    hidden: str = "identity"
    W_out: Any = None
    b: Any = 0.0
    output: str = "relu"
    thresholds: Any = None

    def __post_init__(self) -> None:
        W_in = validation.matrix("W_in", self.W_in, largest=_LARGEST)
        n_hidden, W_out, jumps = W_in.shape[0], W_in.T, []
        if self.W_out is not None:
            W_out = validation.matrix("W_out", self.W_out, (None, n_hidden), _LARGEST)
        for name, n in {"hidden": n_hidden, "output": W_out.shape[0]}.items():
            if validation.choice(name, getattr(self, name), ACTIVATIONS) == "jumprelu":
                jumps.append(n)
        if len(jumps) > 1:
            raise ValueError("`output` must not be 'jumprelu' where `hidden` is; got 'jumprelu'.")
        if bool(jumps) is (self.thresholds is None):
            rule = "given for the layer that is" if jumps else "None where no layer is"
            raise ValueError(
                f"`thresholds` must be {rule} 'jumprelu'; got {validation.short_repr(self.thresholds)}."
            )
        thresholds = validation.numbers_or_repeat("thresholds", self.thresholds, jumps[0]) if jumps else None
        if thresholds is not None:
            validation.real("thresholds", thresholds, 0.0, _LARGEST)
        b_in = validation.numbers_or_repeat("b_in", self.b_in, n_hidden, _LARGEST)
        b = validation.numbers_or_repeat("b", self.b, W_out.shape[0], _LARGEST)
        arrays = {"W_in": W_in, "b_in": b_in, "W_out": W_out, "b": b, "thresholds": thresholds}
        for name, value in arrays.items():
            object.__setattr__(self, name, value)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.W_in.shape[1])

    @property
    def n_hidden(self) -> int:
        """Number of hidden neurons."""
        return int(self.W_in.shape[0])

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return int(self.W_out.shape[0])

    @property
    def tied(self) -> bool:
        """Whether the decoder is the transpose of the encoder."""
        return np.array_equal(self.W_out, self.W_in.T)

    @property
    def M(self) -> FloatArray:
        """Decoder times encoder, (n_outputs, n_features), for a model with linear hidden neurons.

        The outputs are then g(M x + `bias`).
        """
        self._require_linear_hidden("M")
        return np.asarray(self.W_out @ self.W_in)

    @property
    def bias(self) -> FloatArray:
        """The outputs' bias W_out b_in + b, (n_outputs,), for a model with linear hidden neurons."""
        self._require_linear_hidden("bias")
        return np.asarray(self.W_out @ self.b_in + self.b)

    def _require_linear_hidden(self, name: str) -> None:
        """Raise a ValueError unless the hidden neurons are linear, as the attribute `name` requires."""
        if self.hidden != "identity":
            raise ValueError(f"`hidden` must be 'identity' for {name} to exist; got {self.hidden!r}.")

    def __call__(self, x: npt.ArrayLike) -> FloatArray:
        """Return the outputs for inputs x of shape (..., n_features), features last.

        Examples
        --------
        >>> Model(np.eye(2), hidden="jumprelu", b=-0.1, thresholds=0.3)([[1.0, 0.2]])
        array([[0.9, 0. ]])
        """
        at = validation.real("x", x)
        if at.shape[-1:] != (self.n_features,):
            raise ValueError(f"`x` must have {self.n_features} features last; got shape {at.shape}.")
        h = self._layer(at, self.W_in, self.b_in, self.hidden)
        return self._layer(h, self.W_out, self.b, self.output)

    def _layer(self, x: FloatArray, W: FloatArray, b: FloatArray, activation: str) -> FloatArray:
        """Return activation(x W' + b), the activations of a layer of units, with an input in each row of x.

        `activation` is "identity", "relu" or "jumprelu", with the model's thresholds.
        """
        z = np.asarray(x @ W.T + b)
        if activation == "jumprelu":
            size = np.abs(x) @ np.abs(W.T) + np.abs(b) + self.thresholds
            return np.where(is_above(z, self.thresholds, size, x.shape[-1]), z, 0.0)
        return np.maximum(z, 0.0) if activation == "relu" else z

    def __repr__(self) -> str:
        tied = ", tied" if self.tied else ""
        into = f"{self.n_features} features -> {self.n_hidden} hidden ({self.hidden})"
        return f"Model({into} -> {self.n_outputs} outputs ({self.output}){tied})"

r"""The exact loss of a toy model as a function of its weights, and its derivatives to fourth order.

Weights w are W_in, W_out unless the model is tied, and b, one after the other; f is a `ToyLoss`. The
derivatives are differences of exact gradients at :math:`w + \delta(\sigma e_i + \tau e_j)` with signs
:math:`\sigma, \tau` or 0, the step :math:`\delta`, and the rows e_i of `axes`.
"""

from typing import Any

import numpy as np

from ...theory.features import Features, as_features
from ...theory.loss.localised import ExpectedLLC, expected_llc
from ...theory.model import Model
from ...theory.results import result
from ...theory.validation import FloatArray, instance, short_repr
from .descent import DescentLoss
from .dispatch import solve
from .problem import Accuracy, LossProblem, law_of

__all__ = ["LossExpansion", "ToyLoss", "loss_expansion"]

# Weights at most: third derivatives are a table of its cube.
_MOST_WEIGHTS = 120
# Points whose gradients are taken at once.
_POINTS = 512
# Steps of the differences, in units of the largest weight: for the Hessian, and for what comes after it.
_HESSIAN_STEP, _STEP = 1e-3, 4e-3


class ToyLoss:
    """Exact loss per feature of a toy model, with its gradient, at many weights at once.

    Parameters
    ----------
    model : Model
        With linear hidden neurons without bias, tied or not.
    law : float or Features
        As for `exact_loss`.

    Examples
    --------
    >>> f = ToyLoss(Model([[1.0, -1.0]]), 0.1)
    >>> losses, gradients = f(f.weights + np.array([[0.0], [0.1]]))
    >>> f.weights.tolist(), losses.round(6), gradients.shape
    ([1.0, -1.0, 0.0, 0.0], array([0.001667, 0.011668]), (2, 4))
    """

    def __init__(self, model: Model, law: float | Features):
        model = instance("model", model, Model)
        is_toy = model.hidden == "identity" and model.output == "relu" and not model.b_in.any()
        if not (is_toy and model.n_outputs == model.n_features):
            rule = "one of linear hidden neurons without bias, and a ReLU output for each feature"
            raise ValueError(f"`model` must be {rule}; got {short_repr(model)}.")
        self.n, self.tied, shape = model.n_features, model.tied, model.W_in.shape
        self.law = law_of(as_features(law, self.n), self.n)
        self._shape = shape
        descent_loss = DescentLoss(self.law.features, None, Accuracy())
        # Where one method leaves rounding alone it serves all points, and none has to be chosen.
        self._accuracy = Accuracy(1e-13, method=descent_loss.method if descent_loss.exact else "auto")
        parts = [model.W_in.ravel(), *([] if self.tied else [model.W_out.ravel()]), model.b]
        self.weights = np.concatenate(parts)
        """The model's weights, (size,)."""
        if self.weights.size > _MOST_WEIGHTS:
            rule = f"have at most {_MOST_WEIGHTS} weights and biases"
            raise ValueError(f"`model` must {rule}; got {self.weights.size}.")

    def __call__(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return losses (k,) and gradients (k, size) at `weights` (k, size), in the order of the model's."""
        W_in, W_out, b = self._layers(np.asarray(weights, np.float64))
        n, count = self.n, len(b)
        rows = LossProblem.scaled(
            self.law, (W_out @ W_in).reshape(-1, n), b.ravel(), np.tile(np.arange(n), count)
        )
        outputs, _ = solve(rows, self._accuracy, True)
        share = self.law.features.importance / n
        by_M = outputs.by_M.reshape(count, n, n) * share[:, None]
        by = self._by_weights(W_in, W_out, by_M, outputs.by_b.reshape(count, n) * share)
        return outputs.losses.reshape(count, n) @ share, by

    def _layers(self, points: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return W_in (k, m, n), W_out (k, n, m) and b (k, n) of the weights `points`, (k, size).

        A row of `points` is all entries of W_in, of W_out unless the model is tied, and of b, in this order.
        """
        size = self._shape[0] * self._shape[1]
        W_in = points[:, :size].reshape(-1, *self._shape)
        W_out = W_in.swapaxes(1, 2)
        if not self.tied:
            W_out = points[:, size : 2 * size].reshape(-1, *self._shape[::-1])
        return W_in, W_out, points[:, -self.n :]

    def _by_weights(
        self, W_in: FloatArray, W_out: FloatArray, by_M: FloatArray, by_b: FloatArray
    ) -> FloatArray:
        """Return the derivatives (k, size) of the loss with respect to all weights, at k points.

        `by_M`, (k, n, n), and `by_b`, (k, n), are those with respect to M = W_out W_in and b.
        """
        by_in, by_out = W_out.swapaxes(1, 2) @ by_M, by_M @ W_in.swapaxes(1, 2)
        by = [by_in + by_out.swapaxes(1, 2)] if self.tied else [by_in, by_out]
        return np.concatenate([*(part.reshape(len(by_M), -1) for part in by), by_b], axis=1)

    def kinks(self) -> tuple[FloatArray, FloatArray]:
        """Return pre-activations (k,), and their gradients by the model's weights, (k, size).

        Where one of these pre-activations is 0, derivatives of the loss jump. The inputs are 0, and all with
        one feature on whose value is an atom or an end of the range of values; each output has a
        pre-activation at each.
        """
        values, n = self.law.values, self.n
        ends = {float(v) for v in (*values.support, *(atom for atom, _ in values.atoms))}
        sizes = [0.0, *sorted(v for v in ends if v and np.isfinite(v))]
        inputs = np.unique(np.concatenate([v * np.diag(self.law.scale) for v in sizes]), axis=0)
        W_in, W_out, b = self._layers(self.weights[None])
        z = (inputs @ (W_out @ W_in)[0].T + b).ravel()
        on_output = np.tile(np.eye(n), (len(inputs), 1))
        by_M = on_output[:, :, None] * np.repeat(inputs, n, axis=0)[:, None, :]
        return z, self._by_weights(W_in, W_out, by_M, on_output)


@result
class LossExpansion:
    """Derivatives of the exact loss per feature in the weights, along the Hessian's d eigenvectors."""

    loss: float
    gradient: FloatArray
    """About 0 at a minimum, shape (d,)."""
    eigenvalues: FloatArray
    """Of the Hessian, ascending, shape (d,)."""
    eigenvectors: FloatArray
    """One a column, shape (d, d)."""
    third: FloatArray
    """L_ijk, shape (d, d, d)."""
    fourth: FloatArray
    """L_iijj, shape (d, d)."""
    errors: tuple[float, float]
    """Largest errors of `third` and of `fourth`: the change by extrapolation from two steps of differences.
    Large where a kink of the third derivatives lies within the step."""

    kinks: FloatArray
    """Pre-activations as `ToyLoss.kinks` has them, shape (k,)."""
    kink_slopes: FloatArray
    """Derivatives of `kinks` along the eigenvectors, shape (k, d)."""

    def margin(self, nbeta: float, localization: float) -> float:
        r"""Return the distance of the nearest kink in standard deviations of the localised posterior.

        A kink is where derivatives of the loss jump. The posterior is :math:`\propto \exp(-n\beta L(w) -
        \tfrac\gamma2 |w - w^*|^2)` about the model w*, with L to second order: `nbeta` is :math:`n\beta`,
        sample size times inverse temperature, `localization` is :math:`\gamma`. The expansion ignores kinks:
        below 3 or so `expected_llc` is not to be trusted.
        """
        precisions = nbeta * self.eigenvalues + localization
        return float(np.min(np.abs(self.kinks) / np.sqrt(self.kink_slopes**2 @ (1.0 / precisions))))

    def expected_llc(self, nbeta: float, localization: float) -> ExpectedLLC:
        """Return the expected estimate of the local learning coefficient, over a localised posterior.

        This is `theory.loss.expected_llc` with these eigenvalues and derivatives. `nbeta` is sample size
        times inverse temperature, `localization` the strength of the quadratic term that holds the posterior
        at the model.
        """
        return expected_llc(self.eigenvalues, nbeta, localization, self.third, self.fourth)


def loss_expansion(model: Model, law: float | Features) -> LossExpansion:
    r"""Return second to fourth derivatives of a toy model's exact loss, along its Hessian's eigenvectors.

    Parameters
    ----------
    model : Model
        With linear hidden neurons without bias and a ReLU output for each feature, tied or not. At most 120
        weights and biases; 30 take half a second.
    law : float or Features
        Law of the data; a number is the probability that a feature is on, as for `exact_loss`.

    Returns
    -------
    LossExpansion
        Loss, gradient, eigenvalues, eigenvectors, third and fourth derivatives along these, and their errors:
        by differences of exact gradients, extrapolated from two steps. The loss must be smooth about the
        model: third derivatives jump where a weight M_ij and the bias b_i add up to 0.

    Examples
    --------
    >>> found = loss_expansion(Model([[1.0, -1.0]], b=-0.1), 0.1)
    >>> found.eigenvalues.round(3), found.third.shape
    (array([-0.   ,  0.   ,  0.176,  0.184]), (4, 4, 4))
    """
    f = ToyLoss(model, law)
    w, unit = f.weights, max(float(np.abs(f.weights).max()), 1e-3)
    loss, gradient = f(w[None])
    slopes = [_gradient_differences(f, w, np.eye(w.size), k * _HESSIAN_STEP * unit)[2] for k in (1.0, 2.0)]
    hessian = (4.0 * slopes[0] - slopes[1]) / 3.0
    values, vectors = np.linalg.eigh(0.5 * (hessian + hessian.T))
    fine, coarse = (_third_and_fourth_derivatives(f, w, vectors.T, k * _STEP * unit) for k in (1.0, 2.0))
    third, fourth = ((4.0 * x - y) / 3.0 for x, y in zip(fine, coarse, strict=True))
    derivative_changes = [float(np.abs(x - y).max()) for x, y in zip((third, fourth), fine, strict=True)]
    z, slopes_of_z = f.kinks()
    errors = derivative_changes[0], derivative_changes[1]
    return LossExpansion(
        float(loss[0]),
        gradient[0] @ vectors,
        values,
        vectors,
        third,
        fourth,
        errors,
        z,
        slopes_of_z @ vectors,
    )


def _gradients(f: ToyLoss, points: FloatArray) -> FloatArray:
    """Return gradients (k, size) of f at the weights `points`, (k, size), in batches of `_POINTS`."""
    parts = [f(points[k : k + _POINTS])[1] for k in range(0, len(points), _POINTS)]
    return np.concatenate(parts)


def _gradient_differences(f: ToyLoss, w: FloatArray, axes: FloatArray, step: float) -> Any:
    """Return gradients of f at w + step e_i, those at w - step e_i, and their difference over 2 step.

    e_i is row i of `axes`, and row i of each array belongs to it.
    """
    plus, minus = _gradients(f, w + step * axes), _gradients(f, w - step * axes)
    return plus, minus, (plus - minus) / (2.0 * step)


def _third_and_fourth_derivatives(
    f: ToyLoss, w: FloatArray, axes: FloatArray, step: float
) -> tuple[FloatArray, FloatArray]:
    """Return third and fourth derivatives L_ijk, (d, d, d), and L_iijj, (d, d), of the loss f at w, (d,).

    Index i stands for the derivative along row i of `axes`, (d, d). They are central differences of gradients
    with this `step`.
    """
    i, j = np.triu_indices(w.size)
    ends = {
        (p, q): _gradients(f, w + step * (p * axes[i] + q * axes[j])) @ axes.T
        for p in (1, -1)
        for q in (1, -1)
    }
    mixed = (ends[1, 1] - ends[1, -1] - ends[-1, 1] + ends[-1, -1]) / (4.0 * step**2)
    third = np.empty((w.size,) * 3)
    third[i, j] = third[j, i] = mixed
    # The order of derivatives is free: the mean over the place of the third one.
    third = (third + third.transpose(1, 2, 0) + third.transpose(2, 0, 1)) / 3.0
    plus, minus, _ = _gradient_differences(f, w, axes, step)
    along_j = np.sum((plus - minus) * axes, axis=1)
    fourth = np.empty((w.size,) * 2)
    at = np.arange(i.size)
    # Of the derivative along j: its second difference along i.
    fourth[i, j] = (ends[1, 1] - ends[1, -1] + ends[-1, 1] - ends[-1, -1])[at, j] - 2.0 * along_j[j]
    fourth[j, i] = fourth[i, j]
    return third, fourth / (2.0 * step**3)

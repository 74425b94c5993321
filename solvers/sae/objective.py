"""The objectives that sparse autoencoders are trained on, as exact expectations with gradients."""

from typing import Any

import numpy as np
import numpy.typing as npt

from ...theory import validation
from ...theory.features import as_features
from ...theory.model import Model
from ...theory.results import frozen, result
from ...theory.validation import FloatArray
from ..loss.network.assemble import hidden_neurons, network_loss
from ..loss.network.neuron_means import HiddenNeuron, NeuronContext, unit_means
from ..loss.problem import Accuracy, Law, NetworkProblem
from .measure import check_dictionary, network_on_features, without_importance

__all__ = ["AutoencoderObjective", "ObjectiveValue"]


@result
class ObjectiveValue:
    """Value of an objective, its parts, and its gradient with respect to the autoencoder's arrays."""

    value: float
    """`mse` + l1 times `l1` + l0 times `l0`."""
    mse: float
    """Expected squared error, summed over the coordinates of the activations."""
    l1: float
    """Sum over latents of the norm of the decoder column times E h."""
    l0: float
    """Expected number of latents that are on; 0 where it has no part in the objective."""
    gradient: Any
    """Derivatives of `value` by 'W_in', 'b_in', 'W_out', 'b', and 'thresholds' of a JumpReLU."""


class AutoencoderObjective:
    r"""Squared error plus l1 and L0 penalties of an autoencoder on activations :math:`\Phi x`, exactly.

    .. math:: E\|\Phi x - V h - c\|^2 + \lambda_1 \sum_i \|v_i\|\, E h_i + \lambda_0 \sum_i P(h_i > 0)

    with the columns v_i of the decoder V, as SAELens weights its l1 penalty (`StandardTrainingSAE`) and
    counts L0 (`JumpReLUTrainingSAE`, without the surrogate gradient: these are derivatives of the
    expectation).

    Parameters
    ----------
    law : float or Features
        Of the features; as in `measure`.
    dictionary : (d, n_features) array_like
        The dictionary.
    l1, l0 : float, optional
        Strengths of the penalties, at least 0.
    tol : float, optional
        Error to aim at, in units of the latents' sizes.

    Raises
    ------
    ValueError
        If an argument lies outside its range; by the call as `measure` does.

    Examples
    --------
    >>> from superposition.theory.features import Features, parent_child
    >>> law = Features(2, 0.5, "binary", groups=[parent_child(0, [1], 0.5, 0.4)])
    >>> f = AutoencoderObjective(law, np.eye(2), l1=0.1)
    >>> true = Model(np.eye(2), b_in=-0.05, hidden="relu", W_out=np.eye(2), output="identity")
    >>> absorbing = Model([[1.0, -1.0], [0.0, 2**0.5]], b_in=-0.05, hidden="relu",
    ...                   W_out=[[1.0, 0.5**0.5], [0.0, 0.5**0.5]], output="identity")
    >>> round(f(true).value, 6), round(f(absorbing).value, 6)
    (0.06825, 0.057034)
    """

    def __init__(
        self, law: Any, dictionary: npt.ArrayLike, *, l1: float = 0.0, l0: float = 0.0, tol: float = 1e-9
    ):
        self.phi = validation.real("dictionary", validation.matrix("dictionary", dictionary))
        self.l1, self.l0 = validation.number("l1", l1, 0.0), validation.number("l0", l0, 0.0)
        self.tol = validation.number("tol", tol, 0.0, 1.0, brackets="()")
        self.law = without_importance(as_features(law, self.phi.shape[1]))
        self._law = Law(self.law)  # with what is computed of it once

    def __call__(self, sae: Model) -> ObjectiveValue:
        """Return the objective at the autoencoder `sae`, with gradient; ValueError if shapes do not fit."""
        check_dictionary(sae, self.law, self.phi)
        all_features, tol, ones = network_on_features(sae, self.phi), self.tol, np.ones(len(self.phi))
        d, n = self.phi.shape
        problem = NetworkProblem(self._law, all_features, self.phi, "identity", None, ones)
        outputs = network_loss(problem, Accuracy(tol), True)
        by = {name: d * slope for name, slope in (outputs.gradient or {}).items()}
        norms = np.linalg.norm(all_features.W_out, axis=0)
        directions = all_features.W_out / np.where(norms > 0.0, norms, 1.0)
        l1 = l0 = 0.0
        for i, unit in enumerate(
            hidden_neurons(all_features, NeuronContext.of(self._law, "identity", tol, 1.0))
        ):
            means = unit_means(unit, float(self.l1 * norms[i]), np.zeros(n))
            l1 += float(norms[i]) * means.mean
            by_w, by_b, flux = means.by_w, means.by_b, means.flux
            if self.l0 > 0.0:
                rate, rate_by_w, density = rate_slopes(unit)
                l0 += rate
                by_w, by_b, flux = (
                    by_w + self.l0 * rate_by_w,
                    by_b + self.l0 * density,
                    flux + self.l0 * density,
                )
            by["W_in"][i] += by_w * self.law.scale
            by["b_in"][i] += by_b
            by["W_out"][:, i] += self.l1 * directions[:, i] * means.mean
            if all_features.thresholds is not None:
                by["thresholds"][i] -= flux
        by["W_in"] = by["W_in"] @ self.phi.T  # the encoder reads activations, not features
        mse = max(float(outputs.losses.sum()), 0.0)
        value = mse + self.l1 * l1 + self.l0 * l0
        return ObjectiveValue(value, mse, l1, l0, {name: frozen(means) for name, means in by.items()})


def rate_slopes(unit: HiddenNeuron) -> tuple[float, FloatArray, float]:
    """Return P(z > t) of a latent, its derivatives with respect to w, (n,), and to b.

    z = w.v + b is the latent's pre-activation at the features v, and t its threshold, all of `unit`. The
    derivative of E z 1(z > t) with respect to w is E v 1(z > t) plus a flux, t E v delta(z - t) = t dP/dw. If
    b and t are raised by the same amount, the latent is on for the same v, and the first term stays: the
    difference of two such derivatives is that of the fluxes.
    """
    nothing, shift = np.zeros(unit.w.size), unit.b - unit.t
    width = float(np.abs(unit.w).max(initial=0.0)) or 1.0
    at_one, at_zero = (
        unit_means(HiddenNeuron(unit.context, unit.w, shift + at, at), 1.0, nothing) for at in (width, 0.0)
    )
    return at_one.active, (at_one.by_w - at_zero.by_w) / width, at_one.flux / width

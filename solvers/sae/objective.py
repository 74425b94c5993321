"""The objectives that sparse autoencoders are trained on, as exact expectations with gradients."""

from typing import Any

import numpy as np
import numpy.typing as npt

from ...theory import arguments
from ...theory.arguments import FloatArray
from ...theory.features import as_features
from ...theory.models import Model
from ...theory.results import frozen, result
from ..loss.hidden.layer import unit_means
from ..loss.networks import evaluator
from .measure import checked, of_features, without_importance
from .patterns import (
    alone,
    listed,
    means_by_patterns,
    rate_slopes,
    second_moments,
    setting_and_units,
    squared_error,
)

__all__ = ["Objective", "ObjectiveValue"]

# Independent features whose patterns are listed nevertheless.
FEW_INDEPENDENT = 3


@result
class ObjectiveValue:
    """Value of an objective, its parts, and its gradient.

    Attributes
    ----------
    value : float
        `mse` + l1 times `l1` + l0 times `l0`.
    mse : float
        Expected squared error, summed over the coordinates of the activations.
    l1 : float
        Sum over latents of the norm of the decoder column times E h.
    l0 : float
        Expected number of latents that are on; 0 where it has no part in the objective.
    gradient : dict of str to ndarray, or None
        Derivatives of `value` by "W_in", "b_in", "W_out", "b", and "thresholds" of a JumpReLU.
    """

    value: float
    mse: float
    l1: float
    l0: float
    gradient: Any


class Objective:
    r"""Squared error plus l1 and L0 penalties of an autoencoder on activations :math:`\Phi x`, exactly.

    .. math:: E\|\Phi x - V h - c\|^2 + \lambda_1 \sum_i \|v_i\|\, E h_i + \lambda_0 \sum_i P(h_i > 0)

    with the columns v_i of the decoder V, as SAELens weights its l1 penalty (`StandardTrainingSAE`) and
    counts L0 (`JumpReLUTrainingSAE`, without the surrogate gradient: these are derivatives of the
    expectation).

    Parameters
    ----------
    law : float or Features
        Of the features; correlated ones need to be few, as in `measure`.
    mixing : (d, n_features) array_like
        The dictionary.
    l1, l0 : float, optional
        Strengths of the penalties, at least 0. The L0 penalty is for laws whose patterns are listed.
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
    >>> f = Objective(law, np.eye(2), l1=0.1)
    >>> true = Model(np.eye(2), b_in=-0.05, hidden="relu", W_out=np.eye(2), output="identity")
    >>> absorbing = Model([[1.0, -1.0], [0.0, 2**0.5]], b_in=-0.05, hidden="relu",
    ...                   W_out=[[1.0, 0.5**0.5], [0.0, 0.5**0.5]], output="identity")
    >>> round(f(true).value, 6), round(f(absorbing).value, 6)
    (0.06825, 0.057034)
    """

    def __init__(
        self, law: Any, mixing: npt.ArrayLike, *, l1: float = 0.0, l0: float = 0.0, tol: float = 1e-9
    ):
        self.phi = arguments.real("mixing", arguments.matrix("mixing", mixing))
        self.l1, self.l0 = arguments.number("l1", l1, 0.0), arguments.number("l0", l0, 0.0)
        self.tol = arguments.number("tol", tol, 0.0, 1.0, brackets="()")
        features = as_features(law, self.phi.shape[1])
        self.law = without_importance(features)
        self._rows: Any = None
        if not features.independent or features.n_features <= FEW_INDEPENDENT:
            self._rows = listed(self.law)
        elif self.l0 > 0.0:
            rule = f"0 for more than {FEW_INDEPENDENT} independent features"
            raise ValueError(f"`l0` must be {rule}; got {self.l0}.")

    def __call__(self, sae: Model) -> ObjectiveValue:
        """Return the objective of an autoencoder, with its gradient."""
        checked(sae, self.law, self.phi)
        whole = of_features(sae, self.phi)
        by = self._by_patterns(whole) if self._rows is not None else self._independent(whole)
        return self._inside(*by)

    def _inside(self, parts: tuple[float, float, float], by: dict[str, FloatArray]) -> ObjectiveValue:
        """Return the value with derivatives by the encoder that reads activations, not features."""
        mse, l1, l0 = parts
        by["W_in"] = by["W_in"] @ self.phi.T
        value = mse + self.l1 * l1 + self.l0 * l0
        return ObjectiveValue(value, mse, l1, l0, {name: frozen(one) for name, one in by.items()})

    def _norms(self, whole: Model) -> tuple[FloatArray, FloatArray]:
        """Return norms of decoder columns, and their directions: 0 for a column that is 0."""
        norms = np.linalg.norm(whole.W_out, axis=0)
        return norms, whole.W_out / np.where(norms > 0.0, norms, 1.0)

    def _by_patterns(self, whole: Model) -> tuple[tuple[float, float, float], dict[str, FloatArray]]:
        rows, chances = self._rows
        setting, units = setting_and_units(whole, self.law, self.tol)
        phi, V, c = self.phi * self.law.scale, whole.W_out, whole.b
        means = means_by_patterns(setting, units, rows, chances, slopes=True)
        moments = second_moments(setting, rows, chances)
        mse, _ = squared_error(whole, means, phi, moments)
        norms, directions = self._norms(whole)
        count, n = whole.n_hidden, self.law.n_features
        by_W, by_b, flux = np.zeros((count, n)), np.zeros(count), np.zeros(count)
        K = V.T @ V
        for i, j, found, slope in means.pairs:
            share = K[i, j] if i == j else 2.0 * K[i, j]
            for at, side in ((i, 0), (j, 1)):
                by_W[at] += share * slope[side]
                by_b[at] += share * found[1 + side]
                flux[at] += share * found[3 + side]
        g0, g = 2.0 * V.T @ c + self.l1 * norms, -2.0 * V.T @ phi
        loud, l0 = np.full(n, np.nan), 0.0
        for i, unit in enumerate(units):
            found, slope = alone(unit, rows, chances, unit.b, unit.t, loud, g[i], float(g0[i]))
            by_W[i] += slope[0]
            by_b[i] += found[1]
            flux[i] += found[3]
            if self.l0 > 0.0:
                rate, rate_by_w, density = rate_slopes(unit, rows, chances)
                l0 += rate
                by_W[i] += self.l0 * rate_by_w
                by_b[i] += self.l0 * density
                flux[i] += self.l0 * density
        by_out = 2.0 * (V @ means.products - phi @ means.by_targets.T + np.outer(c, means.mean))
        by = {
            "W_in": by_W * self.law.scale, "b_in": by_b, "W_out": by_out + self.l1 * directions * means.mean,
            "b": 2.0 * (c + V @ means.mean - phi @ moments[0]),
        }  # fmt: skip
        if whole.thresholds is not None:
            by["thresholds"] = -flux
        return (mse, float(norms @ means.mean), l0), by

    def _independent(self, whole: Model) -> tuple[tuple[float, float, float], dict[str, FloatArray]]:
        d, n = self.phi.shape
        loss = evaluator(self.law, tol=self.tol)(whole, gradient=True, target=self.phi)
        assert loss.gradient is not None
        by = {name: d * one for name, one in loss.gradient.items()}
        if whole.tied:  # the evaluator's derivative is that of both at once
            raise ValueError(
                "`sae` must not be tied for a gradient; got a decoder that is the encoder's transpose."
            )
        norms, directions = self._norms(whole)
        _, units = setting_and_units(whole, self.law, self.tol)
        total = 0.0
        for i, unit in enumerate(units):
            one = unit_means(unit, float(self.l1 * norms[i]), np.zeros(n))
            total += norms[i] * one.mean
            by["W_in"][i] += one.by_w * self.law.scale
            by["b_in"][i] += one.by_b
            by["W_out"][:, i] += self.l1 * directions[:, i] * one.mean
            if whole.thresholds is not None:
                by["thresholds"][i] -= one.flux
        return (d * loss.loss, total, 0.0), by

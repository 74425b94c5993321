"""The objectives that sparse autoencoders are trained on, as expectations with gradients."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ...theory import validation
from ...theory.features import as_features
from ...theory.model import Model
from ...theory.results import frozen, result
from ...theory.validation import FloatArray
from ..loss.network.assemble import hidden_neurons, network_loss
from ..loss.network.neuron_means import HiddenNeuron, NeuronContext, least_terms, unit_means
from ..loss.network.nonzero import nonzero_features
from ..loss.network.time_limit import OutOfTime
from ..loss.problem import Accuracy, Law, NetworkProblem
from ..parallel import parallel_map, single_blas_thread
from .measure import check_dictionary, keep_first_latents, network_on_features, without_importance
from .sampled import LatentMeans, ObjectiveWeights, sample_objective

__all__ = ["AutoencoderObjective", "ObjectiveValue"]

# Seconds of a term of these sums, at least.
TERM = 5e-9
# Samples for each latent from which on exact means of single latents are worth their time beside them, where
# features are independent and where they are not; and the error that these aim at, times the root of the
# number of samples.
_LATENT_SAMPLES, _LATENT_TOL = {True: 1000, False: 5000}, 0.01


@result
class ObjectiveValue:
    """Value of an objective, its parts, and its gradient with respect to the autoencoder's arrays."""

    value: float
    """`mse` + l1 times `l1` + l0 times `l0`."""
    error_estimate: float
    """Error of `value`, or one standard error if `value` is a mean over samples."""
    mse: float
    """Expected squared error, summed over the coordinates of the activations; with `prefixes` the sum of
    weight times squared error over prefixes."""
    l1: float
    """Sum over latents of the norm of the decoder column times E h."""
    l0: float
    """Expected number of latents that are on; 0 if it is not needed and not sampled."""
    gradient: Any
    """Derivatives of `value` by 'W_in', 'b_in', 'W_out', 'b', and 'thresholds' of a JumpReLU; None if not
    requested."""
    gradient_error: Any
    """Errors of the derivatives, by the same names: standard errors for samples; for exact sums one bound for
    all entries, which may be a thousand times their error."""
    method: str
    """Method of computation: 'exact', by sums and integrals, or 'samples', as means over samples."""


class AutoencoderObjective:
    r"""Squared error plus l1 and L0 penalties of an autoencoder on activations :math:`\Phi x`.

    .. math:: E\|\Phi x - V h - c\|^2 + \lambda_1 \sum_i \|v_i\|\, E h_i + \lambda_0 \sum_i P(h_i > 0)

    with the columns v_i of the decoder V, as SAELens weights its l1 penalty (`StandardTrainingSAE`) and
    counts L0 (`JumpReLUTrainingSAE`, without the surrogate gradient: these are derivatives of the
    expectation). Half the squared error plus :math:`\lambda` times l1 is half of this at
    :math:`\lambda_1 = 2 \lambda`.

    Parameters
    ----------
    law : float or Features
        Law of the features, as for `measure`.
    dictionary : (d, n_features) array_like
        The dictionary.
    l1, l0 : float, optional
        Strengths of the penalties, at least 0.
    prefixes : mapping of int to float, optional
        Weights of the squared errors of the first k latents alone, by k, in place of the squared error of all
        (Matryoshka): 1 each if prefixes are fixed, probabilities if they are drawn. The error of all latents
        counts only if their number is a key.
    centred : bool, optional
        Whether activations have their mean subtracted, so that their mean is 0.
    method : {"auto", "exact", "samples"}, optional
        Expectations by sums and integrals, or as means over samples. "auto" takes samples if exact ones do
        not cover the law or would need more than `seconds`, as estimated from the number of terms or after
        the first pairs of latents; later calls with as many latents use the method of the first.
    seconds : float, optional
        Seconds of a call with exact sums above which "auto" takes samples.
    samples : int, optional
        Number of samples, 1000 to 1e9, rounded up to whole batches; the error is proportional to
        samples^(-1/2). A call without gradient, with at least 1000 samples a latent (5000 if features depend
        on each other) and values with a density, takes the means of single latents exactly, and samples only
        for pairs: the error is 1.1 to 3.5 times smaller.
    rng : None, int or numpy.random.Generator, optional
        Source of the samples, which are the same at every call.
    tol : float, optional
        Error to aim at with exact sums, in units of the latents' sizes.

    Raises
    ------
    ValueError
        If an argument lies outside its range; by the call as `measure` does.

    Notes
    -----
    Derivatives of L0, and of the squared error where a JumpReLU's latents jump, are densities of the
    pre-activations at thresholds. Samples have no such density. They are put on a threshold instead, by the
    value of one feature, whose density is known: the estimate is without bias. Values without a density have
    such derivatives nowhere but at single weights, and they are 0 here.

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
        self, law: Any, dictionary: npt.ArrayLike, *, l1: float = 0.0, l0: float = 0.0,
        prefixes: Mapping[int, float] | None = None, centred: bool = False, method: str = "auto",
        seconds: float = 60.0, samples: int = 100_000, rng: Any = 0, tol: float = 1e-9,
    ):  # fmt: skip
        self.phi = validation.real("dictionary", validation.matrix("dictionary", dictionary))
        self.l1, self.l0 = validation.number("l1", l1, 0.0), validation.number("l0", l0, 0.0)
        self.tol = validation.number("tol", tol, 0.0, 1.0, brackets="()")
        if not isinstance(prefixes, Mapping | None) or (prefixes is not None and not prefixes):
            rule = "a mapping of numbers of latents to weights"
            raise ValueError(f"`prefixes` must be {rule}; got {validation.short_repr(prefixes)}.")
        self.prefixes = prefixes and {
            validation.integer("prefixes keys", size, 1): validation.number("prefixes", weight, 0.0)
            for size, weight in prefixes.items()
        }
        self.method = validation.choice("method", method, ("auto", "exact", "samples"))
        self.seconds = validation.number("seconds", seconds, 0.0)
        self.samples = validation.integer("samples", samples, 1000, 10**9)
        self._seed = int(validation.generator("rng", rng).integers(2**62))
        self.law = without_importance(as_features(law, self.phi.shape[1]))
        self._law = Law(self.law)  # with what is computed of it once
        self._methods: dict[int, str] = {}  # by number of latents: none changes within a descent
        self._centre = self.phi @ self.law.mean * validation.flag("centred", centred)

    def __call__(self, sae: Model, *, gradient: bool = True) -> ObjectiveValue:
        """Return the objective at `sae`, with derivatives if `gradient`; ValueError if shapes do not fit."""
        check_dictionary(sae, self.law, self.phi)
        validation.flag("gradient", gradient)
        for size in self.prefixes or ():
            validation.integer("prefixes", size, 1, sae.n_hidden)
        # Activations less their mean, as those with the mean to another autoencoder.
        sae = replace(sae, W_out=sae.W_out, b_in=sae.b_in - sae.W_in @ self._centre, b=sae.b + self._centre)
        network = network_on_features(sae, self.phi)
        method = self._methods.get(sae.n_hidden, self.method)
        if method != "samples":
            limit = self.seconds if method == "auto" else np.inf
            try:
                objective_value = self._exact_objective(network, gradient, limit)
                method = "exact"
            except OutOfTime:
                method = "samples"
            except ValueError:
                if method == "exact" or self.law.has_exact_sums:
                    raise
                method = "samples"
        if method == "samples":
            objective_value = self._sampled_objective(network, gradient)
        self._methods[sae.n_hidden] = method
        return objective_value

    def _value(self, parts: Any, error: float, by: Any, errors: Any, method: str) -> ObjectiveValue:
        """Return the `ObjectiveValue` of `parts`, the unweighted means (mse, l1, L0).

        `error` is that of the weighted sum; `by` and `errors` map the names of the parameters ("W_in", ...)
        to the derivatives and their errors, or are None; `method` is "exact" or "samples".
        """
        mse, l1, l0 = (float(part) for part in parts)
        value = mse + self.l1 * l1 + self.l0 * l0
        if by is not None:
            by, errors = ({name: frozen(array) for name, array in x.items()} for x in (by, errors))
        return ObjectiveValue(value, float(error), mse, l1, l0, by, errors, method)

    def _sampled_objective(self, network: Model, gradient: bool) -> ObjectiveValue:
        """Return the objective of `network`, which reads features, and its `gradient`, as sample means."""
        tail = np.zeros(network.n_hidden + 1)
        for size, weight in (self.prefixes or {network.n_hidden: 1.0}).items():
            tail[:size] += weight
        weights = ObjectiveWeights(self.l1, self.l0, tail)
        latents = None
        if not gradient and self.samples >= _LATENT_SAMPLES[self._law.independent] * network.n_hidden:
            latents = self._latent_means(network, tail)
        law = nonzero_features(self.law)
        means = sample_objective(
            network, law, self.phi, self._centre, weights, self.samples, self._seed, gradient, latents
        )
        return self._value(means.parts, means.error, means.gradient, means.gradient_error, "samples")

    def _latent_means(self, network: Model, tail: FloatArray) -> LatentMeans | None:
        """Return exact means of four sums over latents i of `network`; None if they would take too long.

        The sums are of h_i v_i . (c - a), tail_i |v_i|^2 h_i^2, |v_i| h_i and 1(h_i > 0): h_i is the latent,
        v_i its decoder column, c the decoder's bias, a the activations, tail_i the total weight of the
        prefixes with latent i. Laws with atoms of values or with many patterns take too long.
        """
        if not self.law.has_exact_sums or self.law.values.atoms:
            return None
        tol = _LATENT_TOL / np.sqrt(self.samples)
        try:
            units = hidden_neurons(network, NeuronContext.of(self._law, "identity", tol, 1.0))
        except ValueError:  # too many patterns
            return None
        nothing, c = np.zeros(self.law.n_features), network.b

        def of_latent(i: int) -> tuple[FloatArray, FloatArray]:
            """Return what latent i adds to the four means, and to their errors."""
            means = unit_means(units[i], 0.0, nothing, by_weights=False)
            v, w = network.W_out[:, i], network.W_in[i]
            with_x, norm, b = means.by_targets * self.law.scale, np.linalg.norm(v), network.b_in[i]
            gains, errors = v @ self.phi, self.law.scale * means.target_errors
            return (
                np.array(
                    [
                        (v @ c) * means.mean - gains @ with_x,
                        tail[i] * norm**2 * (w @ with_x + b * means.mean),
                        norm * means.mean,
                        means.active,
                    ]
                ),
                np.array(
                    [
                        abs(v @ c) * means.error + np.abs(gains) @ errors,
                        tail[i] * norm**2 * (np.abs(w) @ errors + abs(b) * means.error),
                        norm * means.error,
                        means.active_error,
                    ]
                ),
            )

        with single_blas_thread():
            parts = parallel_map(of_latent, len(units))
        means, errors = (np.sum(part, axis=0) for part in zip(*parts, strict=True))
        return LatentMeans(means, errors)

    def _exact_objective(self, network: Model, gradient: bool, limit: float) -> ObjectiveValue:
        """Return the exact objective of `network`, which reads features; with `gradient` its derivatives too.

        Raise `OutOfTime` if this would take more than `limit` seconds.
        """
        d, n = self.phi.shape
        prefixes = self.prefixes or {network.n_hidden: 1.0}
        accuracy = Accuracy(self.tol, time_limit=limit / len(prefixes))
        by = {name: np.zeros_like(getattr(network, name)) for name in ("W_in", "b_in", "W_out", "b")}
        if network.thresholds is not None:
            by["thresholds"] = np.zeros(network.n_hidden)
        units = hidden_neurons(network, NeuronContext.of(self._law, "identity", self.tol, 1.0))
        pairs = sum(size * (size + 1) // 2 for size in prefixes)
        least = TERM * pairs * least_terms(units[0], units[-1])
        if least > limit:
            raise OutOfTime(least)
        mse = l1 = l0 = error = slope_error = 0.0
        for size, weight in prefixes.items():
            first = keep_first_latents(network, size)
            problem = NetworkProblem(self._law, first, self.phi, "identity", None, np.ones(d))
            outputs = network_loss(problem, accuracy, gradient)
            mse += weight * max(float(outputs.losses.sum()), 0.0)
            error += weight * d * outputs.mean_error
            slope_error += weight * d * outputs.gradient_error
            for name, slope in (outputs.gradient or {}).items():
                rows = by[name].T if name == "W_out" else by[name]
                rows[: len(rows) if name == "b" else size] += (
                    weight * d * (slope.T if name == "W_out" else slope)
                )
        norms = np.linalg.norm(network.W_out, axis=0)
        directions = network.W_out / np.where(norms > 0.0, norms, 1.0)
        for i, unit in enumerate(units):
            strength = float(self.l1 * norms[i])
            means = unit_means(unit, strength, np.zeros(n))
            l1 += float(norms[i]) * means.mean
            error += strength * means.error
            slope_error += strength * means.slope_error
            by_w, by_b, flux = means.by_w, means.by_b, means.flux
            if self.l0 > 0.0:
                rate, rate_by_w, density, rate_error = rate_slopes(unit)
                l0 += rate
                error += self.l0 * rate_error
                by_w, by_b, flux = (
                    by_w + self.l0 * rate_by_w,
                    by_b + self.l0 * density,
                    flux + self.l0 * density,
                )
            by["W_in"][i] += by_w * self.law.scale
            by["b_in"][i] += by_b
            by["W_out"][:, i] += self.l1 * directions[:, i] * means.mean
            if network.thresholds is not None:
                by["thresholds"][i] -= flux
        if not gradient:
            return self._value((mse, l1, l0), error, None, None, "exact")
        # The encoder reads activations, not features.
        by["W_in"] = by["W_in"] @ self.phi.T - np.outer(by["b_in"], self._centre)
        slope_error *= max(1.0, float(np.max(np.abs(self.phi).sum(axis=1) + np.abs(self._centre))))
        errors = {name: np.full(array.shape, slope_error) for name, array in by.items()}
        return self._value((mse, l1, l0), error, by, errors, "exact")


def rate_slopes(unit: HiddenNeuron) -> tuple[float, FloatArray, float, float]:
    """Return P = P(z > t) of a latent, its derivatives with respect to w, (n,), and to b, and the error of P.

    z = w.v + b is the pre-activation of the latent `unit` at the features v, and t its threshold. The
    derivative of E z 1(z > t) with respect to w is E v 1(z > t) + t dP/dw. If b and t are raised by the same
    amount, the first term stays: the difference of two such derivatives, over that of the thresholds, is
    dP/dw. Neither threshold is 0, where one-sided derivatives would be averaged and values may have atoms.
    """
    nothing, shift = np.zeros(unit.w.size), unit.b - unit.t
    width = float(np.abs(unit.w).max(initial=0.0)) or 1.0
    at_two, at_one = (
        unit_means(HiddenNeuron(unit.context, unit.w, shift + at, at), 1.0, nothing)
        for at in (2.0 * width, width)
    )
    by_w = (at_two.by_w - at_one.by_w) / width
    return at_one.active, by_w, at_one.flux / width, at_one.active_error

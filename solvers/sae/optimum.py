"""Small autoencoders that minimise an exact objective, by many starts, and names for what they do."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize

from ...theory import validation
from ...theory.model import Model
from ...theory.results import result
from ...theory.validation import FloatArray
from ..deadline import Deadline, DeadlineOver, deadline_of, work_seconds
from ..progress import call_progress, report_progress, status, time_left
from .measure import Autoencoder, check_dictionary
from .objective import AutoencoderObjective

__all__ = ["PHASES", "BestAutoencoder", "best_autoencoder", "descend", "phase"]

PHASES = ("recovers", "hedges", "absorbs", "merges", "drops")
# Criteria of `phase`.
DETECTED = 0.5  # recall of a feature's best latent, below which the feature is dropped
MIXED = 0.02  # cosine with a second feature that counts as mixing
EVEN = 0.5  # cosine with both features from which on they are merged
ABSORBED = 0.5  # how much less often a feature's latent is on where the other feature is


@result
class BestAutoencoder:
    """The best autoencoder of several starts, its objective, and how many starts ended at it."""

    sae: Model
    """The autoencoder."""
    value: float
    """Objective of the autoencoder."""
    hits: int
    """Number of starts that ended at `value`, within 1e-6 of the squared error of the output 0."""
    starts: int
    """Number of starts that were made."""
    planned: int
    """Number of starts that were planned; more than `starts` if the seconds ran out."""


@dataclass(frozen=True)
class _Layout:
    """Conversions between an autoencoder of k latents on d dimensions and a flat array of its parameters.

    The parameters are W_in, b_in, W_out, b if `decoder_bias`, and the square roots of the thresholds if
    `hidden` is "jumprelu".
    """

    k: int
    d: int
    hidden: str
    decoder_bias: bool

    @property
    def sizes(self) -> list[int]:
        """Numbers of entries of W_in, b_in, W_out, b and thresholds in the flat array, 0 for absent ones."""
        k, d = self.k, self.d
        return [k * d, k, k * d, d if self.decoder_bias else 0, k if self.hidden == "jumprelu" else 0]

    def model_at(self, theta: FloatArray) -> Model:
        """Return the autoencoder with the flat parameters `theta`."""
        W, b, V, c, t = np.split(theta, np.cumsum(self.sizes)[:-1])
        bias = c if self.decoder_bias else 0.0
        thresholds = t * t if self.hidden == "jumprelu" else None
        return Model(W.reshape(self.k, self.d), b_in=b, hidden=self.hidden, W_out=V.reshape(self.d, self.k),
                     b=bias, output="identity", thresholds=thresholds)  # fmt: skip

    def parameters_of(self, sae: Model) -> FloatArray:
        """Return the flat parameters of an autoencoder."""
        arrays = [sae.W_in, sae.b_in, sae.W_out, sae.b if self.decoder_bias else np.empty(0)]
        arrays.append(np.empty(0) if sae.thresholds is None else np.sqrt(sae.thresholds))
        return np.concatenate([array.ravel() for array in arrays])

    def function(self, objective: AutoencoderObjective) -> Callable[[FloatArray], Any]:
        """Return the function theta -> (objective, its gradient) of flat parameters theta."""

        def f(theta: FloatArray) -> Any:
            """Return the objective of the autoencoder at theta, and its gradient with respect to theta."""
            objective_value = objective(self.model_at(theta))
            by = objective_value.gradient
            parts = [by["W_in"].ravel(), by["b_in"], by["W_out"].ravel()]
            if self.decoder_bias:
                parts.append(by["b"])
            if self.hidden == "jumprelu":
                parts.append(2.0 * theta[-self.k :] * by["thresholds"])
            return objective_value.value, np.concatenate(parts)

        return f


def descend(
    objective: AutoencoderObjective,
    sae: Model,
    *,
    decoder_bias: bool = True,
    seconds: float | Deadline | None = None,
) -> tuple[Model, float]:
    """Return (autoencoder, objective) at the end of L-BFGS from a given autoencoder.

    Parameters
    ----------
    objective : AutoencoderObjective
    sae : Model
        Autoencoder from which to start.
    decoder_bias : bool, optional
        Whether the decoder's bias is free; else it must be 0.
    seconds : float or Deadline, optional
        Budget after which the best autoencoder so far is returned.

    Returns
    -------
    (Model, float)

    Examples
    --------
    >>> from superposition.theory.features import Features
    >>> f = AutoencoderObjective(Features(1, 0.5, "binary"), [[1.0]], l1=0.2)
    >>> start = Model([[0.8]], hidden="relu", W_out=[[0.8]], output="identity")
    >>> round(descend(f, start, decoder_bias=False)[1], 6)
    0.095
    """
    if not isinstance(objective, AutoencoderObjective):
        raise ValueError(
            f"`objective` must be an AutoencoderObjective; got {validation.short_repr(objective)}."
        )
    check_dictionary(sae, objective.law, objective.phi)
    if not validation.flag("decoder_bias", decoder_bias) and np.any(sae.b):
        raise ValueError(
            f"`decoder_bias` must be True where the decoder's bias is not 0; got {decoder_bias}."
        )
    layout = _Layout(sae.n_hidden, sae.n_outputs, sae.hidden, decoder_bias)
    theta, value = _descent(layout.function(objective), layout.parameters_of(sae), deadline_of(seconds))
    return layout.model_at(theta), value


def best_autoencoder(
    objective: AutoencoderObjective,
    n_latents: int,
    *,
    hidden: str = "relu",
    decoder_bias: bool = True,
    starts: int = 20,
    rng: Any = 0,
    seconds: float | Deadline | None = None,
    progress: Callable[[int, int, float], None] | bool | None = None,
) -> BestAutoencoder:
    """Return the best autoencoder that L-BFGS finds from random starts.

    Parameters
    ----------
    objective : AutoencoderObjective
    n_latents : int
    hidden : {"relu", "jumprelu"}, optional
    decoder_bias : bool, optional
        Whether the decoder has a bias; else it is 0.
    starts : int, optional
        Number of starts: half have encoder rows near directions of features, half random ones.
    rng : Generator or int, optional
    seconds : float or Deadline, optional
        Budget after which the best so far is returned; compiling does not count. Without one the same seed
        gives the same numbers.
    progress : callable or False, optional
        Called after each start with the number of starts so far, that of all, and the least objective. By
        default standard error shows a line after two seconds; with False it does not.

    Returns
    -------
    BestAutoencoder

    Examples
    --------
    >>> from superposition.theory.features import Features
    >>> f = AutoencoderObjective(Features(1, 0.5, "binary"), [[1.0]], l1=0.2)
    >>> best = best_autoencoder(f, 1, decoder_bias=False, starts=4)
    >>> round(best.value, 6)  # 0.5 (0.2 - 0.2²/4)
    0.095
    """
    if not isinstance(objective, AutoencoderObjective):
        raise ValueError(
            f"`objective` must be an AutoencoderObjective; got {validation.short_repr(objective)}."
        )
    k, d = validation.integer("n_latents", n_latents, 1), len(objective.phi)
    validation.check_fits("n_latents", k, 50.0 * d * min(k, 2**62))  # L-BFGS copies all 20 times
    validation.choice("hidden", hidden, ("relu", "jumprelu"))
    starts = validation.integer("starts", starts, 1, 10_000)
    layout = _Layout(k, d, hidden, validation.flag("decoder_bias", decoder_bias))
    f, draw = layout.function(objective), validation.generator("rng", rng)
    deadline, begin = deadline_of(seconds), work_seconds()
    if progress is not None and progress is not False and not callable(progress):
        raise ValueError(f"`progress` must be a function; got {validation.short_repr(progress)}.")
    values, best, best_value = [], np.empty(0), np.inf
    with report_progress("best_autoencoder") if progress is None else nullcontext():
        for start in range(starts):
            if start and deadline.is_over():
                break
            theta, value = _descent(f, _random_parameters(objective, layout.sizes, start, draw), deadline)
            values.append(value)
            if value < best_value:
                best, best_value = theta, value
            if callable(progress):
                call_progress(progress, start + 1, starts, best_value)
            elif progress is None:
                left = time_left(work_seconds() - begin, start + 1, starts)
                status(f"{start + 1} of {starts} starts, least objective {best_value:.6g}{left}")
    law = objective.law
    nothing = float(np.sum(objective.phi**2 @ law.second_moment))
    hits = int(np.sum(np.array(values) <= best_value + 1e-6 * nothing))
    return BestAutoencoder(layout.model_at(best), float(best_value), hits, len(values), starts)


def _random_parameters(
    objective: AutoencoderObjective, sizes: list[int], start: int, draw: np.random.Generator
) -> FloatArray:
    """Return random flat parameters for the start number `start`.

    They are W_in, b_in, W_out, b and square roots of thresholds, with `sizes` entries each. Encoder rows lie
    near directions of features of `objective` if `start` is even, and are random if it is odd.
    """
    (d, n), k = objective.phi.shape, sizes[1]
    rows = objective.phi.T[draw.integers(n, size=k)] if start % 2 == 0 else draw.normal(size=(k, d))
    noise = 0.3 if start % 2 == 0 else 0.0
    W = rows + noise * draw.normal(size=(k, d))
    V = W.T / np.maximum(np.linalg.norm(W, axis=1), 1e-9)
    return np.concatenate([
        W.ravel(), 0.2 * draw.normal(size=k), V.ravel(), np.zeros(sizes[3]), draw.uniform(0.2, 0.6, sizes[4])
    ])  # fmt: skip


def _descent(
    f: Callable[[FloatArray], Any], theta: FloatArray, deadline: Deadline
) -> tuple[FloatArray, float]:
    """Return (parameters, objective) at the end of L-BFGS on f from theta, or the best before `deadline`.

    f(theta) returns (objective, gradient).
    """
    least, least_theta = np.inf, theta

    def finite_objective(theta: FloatArray) -> Any:
        """Return the objective and its gradient after a check of the deadline, and store the best."""
        nonlocal least, least_theta
        if least < np.inf:
            deadline.check()
        values = f(theta)
        if values[0] < least:
            least, least_theta = values[0], theta.copy()
        return values

    options: Any = {"maxiter": 2000, "ftol": 1e-15, "gtol": 1e-10}
    optimise: Any = minimize  # its stubs know no objective that returns its gradient too
    try:
        for _ in range(2):  # where the objective has a kink L-BFGS may stop early
            theta = optimise(finite_objective, theta, jac=True, method="L-BFGS-B", options=options).x
    except DeadlineOver:
        return least_theta, float(least)
    return theta, float(f(theta)[0])


def phase(autoencoder: Autoencoder, parent: int = 0, child: int = 1) -> str:
    """Return the name, one of `PHASES`, of what an autoencoder does with two features.

    The first of these criteria that holds gives the name. *drops*: one of the features has no latent that is
    on in at least half of the inputs with the feature on and whose decoder direction has an absolute cosine
    of more than 0.02 with it. *absorbs*: the probability that the latent of one feature is on, given the
    feature, is lower by 0.5 or more if the other feature is on too. *merges*: a latent has absolute cosines
    of at least 0.5 with both. *hedges*: a latent has absolute cosines of more than 0.02 with both. Else
    *recovers*. Only latents that are ever on count.

    Parameters
    ----------
    autoencoder : Autoencoder
        Result of `measure`, or answer of `sp.sae`.
    parent, child : int, optional
        The two features.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If `autoencoder` is no measured autoencoder, or a feature's index is out of range.

    Examples
    --------
    >>> from superposition.solvers.sae import measure
    >>> merged = Model([[1.0, 1.0]], hidden="relu", W_out=[[0.5], [0.5]], output="identity")
    >>> phase(measure(merged, 0.1))
    'merges'
    """
    autoencoder = getattr(autoencoder, "result", autoencoder)
    if not isinstance(autoencoder, Autoencoder):
        raise ValueError(
            f"`autoencoder` must be an Autoencoder, from measure; got {validation.short_repr(autoencoder)}."
        )
    n = autoencoder.p.size
    two = [validation.integer("parent", parent, 0, n - 1), validation.integer("child", child, 0, n - 1)]
    live = ~autoencoder.dead
    parts = np.abs(autoencoder.cosines[live][:, two])
    recall = autoencoder.recall[live][:, two]
    is_represented = (recall >= DETECTED) & (parts > MIXED)
    if not is_represented.any(axis=0).all():
        return "drops"
    if any(_is_absorbed(autoencoder, live, i, j) for i, j in (two, two[::-1])):
        return "absorbs"
    if np.any(parts.min(axis=1) >= EVEN):
        return "merges"
    return "hedges" if np.any(parts.min(axis=1) > MIXED) else "recovers"


def _is_absorbed(autoencoder: Autoencoder, live: Any, i: int, j: int) -> bool:
    """Return whether P(latent on | i on, j off) - P(latent on | i and j on) >= 0.5 for feature i's latent.

    The latent of feature i is the one of largest decoder cosine with it among those with
    P(latent on | i on, j off) >= 0.5. Only latents of the mask `live` count.
    """
    without = autoencoder.fires_without(i, j)[live]
    if live.sum() < 2 or not np.any(without >= DETECTED):  # never on without the other: nothing to absorb
        return False
    own_latent = int(np.argmax(np.where(without >= DETECTED, autoencoder.cosines[live][:, i], -np.inf)))
    return bool(without[own_latent] - autoencoder.fires_pairs[live][own_latent, i, j] >= ABSORBED)

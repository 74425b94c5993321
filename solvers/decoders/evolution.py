"""State evolution: the loss that iterated decoding of a linear projection attains (page "Decoders")."""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from ...theory import validation
from ...theory.decoders import bayes_loss
from ...theory.decoders.loss import LARGEST_SIGMA, LEAST_P, pointwise
from ...theory.features import ValueDistribution
from ...theory.features.values import law_named
from ...theory.results import result
from ...theory.validation import FloatArray
from ..results import Status

__all__ = ["PROJECTIONS", "Evolution", "first_noise", "recovery_ratio", "state_evolution"]

PROJECTIONS = ("orthogonal", "gaussian")
RECOVERED = 1e-7  # interference below which nothing is left to find


@result
class Evolution:
    """Interference and loss of iterated Bayes decoding, in the limit of many features.

    `loss` is the loss per feature after the last of the `steps`; `status` says why they ended.
    """

    sigma: FloatArray
    """Standard deviation of the interference at each step, in units of the diagonal."""
    path: FloatArray
    """Loss per feature after each step."""
    loss: float
    steps: int
    status: Status


def variance_of(p: float, values: ValueDistribution) -> float:
    """Return Var(x) of a feature at scale 1 that is on with probability p and then has the law `values`."""
    return p * values.moment(2) - (p * values.moment(1)) ** 2


def first_noise(p: float, ratio: float, projection: str, values: ValueDistribution) -> float:
    """Return the interference's standard deviation in the first step, where the estimate of x is its mean.

    p is the probability that a feature is on, with a value of the law `values`, `ratio` is
    n_hidden/n_features, and `projection` "orthogonal" or "gaussian".
    """
    missing = 1.0 / ratio - (1.0 if projection == "orthogonal" else 0.0)
    return float(np.sqrt(variance_of(p, values) * missing))


def state_evolution(
    p: float,
    ratio: float,
    *,
    projection: str = "orthogonal",
    values: str | ValueDistribution = "uniform",
    steps: int = 1000,
    tol: float = 1e-10,
) -> Evolution:
    """Return interference and loss of the iterated Bayes decoder at its fixed point, or at recovery.

    References: Donoho, Maleki and Montanari (2009) and Bayati and Montanari (2011) for Gaussian projections,
    Ma and Ping (2017) and Rangan, Schniter and Fletcher (2019) for orthogonal ones.

    Parameters
    ----------
    p, values : float, str or ValueDistribution
        Probability that a feature is on, in [1e-100, 1], and the law of its value then, at scale 1.
    ratio : float
        n_hidden / n_features, in (0, 1]; so large that the interference is at most 1e3.
    projection : {"orthogonal", "gaussian"}
        Orthogonal rows, as random Hadamard rows have, or independent normal entries.
    steps, tol : int, float, optional
        Most steps. They end where a step changes the loss by less than `tol` times the loss, or where the
        interference is below 1e-7: the features are recovered.

    Returns
    -------
    Evolution
        Each step's relative error is below 1e-9.

    Examples
    --------
    >>> one, many = (state_evolution(0.05, 0.25, steps=t).loss for t in (1, 100))
    >>> round(one, 6), many < 1e-12                   # what one step loses, iteration recovers
    (0.005398, True)
    """
    p = float(validation.number("p", p, LEAST_P, 1.0))
    ratio = validation.number("ratio", ratio, 0.0, 1.0, brackets="(]")
    law = law_named("values", values)
    projection = validation.choice("projection", projection, PROJECTIONS)
    steps, tol = validation.integer("steps", steps, 1), validation.number("tol", tol, 0.0, 1.0)
    sigma = first_noise(p, ratio, projection, law)
    if sigma > LARGEST_SIGMA:
        raise ValueError(
            f"`ratio` must give an interference of {LARGEST_SIGMA:g} at most; "
            f"got {ratio:g}, with {sigma:.3g}."
        )
    sigmas, losses, status = [], [], Status.STEPS
    for _ in range(steps):
        recovered = sigma < RECOVERED
        sigmas.append(sigma)
        losses.append(0.0 if recovered else float(bayes_loss(p, sigma, values=law)))
        if recovered or (len(losses) > 1 and abs(losses[-1] - losses[-2]) <= tol * losses[-1]):
            status = Status.CONVERGED
            break
        missing, left = 1.0 / ratio - 1.0, losses[-1]
        gain = left / ratio if projection == "gaussian" else missing * left / (1.0 - left / sigma**2)
        sigma = float(np.sqrt(gain))
    return Evolution(np.array(sigmas), np.array(losses), losses[-1], len(losses), status)


def recovery_ratio(p: npt.ArrayLike, *, values: str | ValueDistribution = "uniform") -> Any:
    r"""Return the ratio n_hidden/n_features above which `message_passing` recovers all features exactly.

    .. math:: \max_\sigma E\,\mathrm{Var}(x \mid x + \sigma Z)/\sigma^2, \qquad Z \sim N(0, 1)

    The ratio is the threshold in the limit of many features: above it sigma = 0 is the only fixed point of
    `state_evolution`, for orthogonal and for Gaussian projections. No decoder recovers values with a density
    below the ratio p (Wu and Verdu 2010). The relative error is below 1e-8. `p`, the probability that a
    feature is on, may be an array; the result has its shape. `values` is the distribution of a feature's
    value when on, or the name of one. A ValueError is raised as in `state_evolution`.

    Examples
    --------
    >>> round(recovery_ratio(0.05), 4)
    0.1122
    """
    on = validation.probability("p", p, low=LEAST_P)
    law = law_named("values", values)

    def line(p: float) -> float:
        """Return the recovery ratio at one p."""

        def ratio(log_sigma: float) -> float:
            """Return minus the least loss over sigma² at this log of sigma."""
            return float(-bayes_loss(p, np.exp(log_sigma), values=law) * np.exp(-2.0 * log_sigma))

        scan = np.log(np.geomspace(1e-6, 3.0, 46))
        ratios = [ratio(x) for x in scan]
        k = int(np.argmin(ratios))
        ends = scan[max(k - 1, 0)], scan[min(k + 1, scan.size - 1)]
        return -float(minimize_scalar(ratio, bounds=ends, method="bounded", options={"xatol": 1e-6}).fun)

    return pointwise(line)(on)[()]

r"""What an estimator of the local learning coefficient returns at finite inverse temperature: closed forms.

The estimate of Lau et al. (2023), arXiv:2308.12108, is :math:`n\beta\,(E L(w) - L(w^*))` over the localised
posterior, :math:`\propto \exp(-n\beta L(w) - \tfrac\gamma2 |w - w^*|^2)`. Here L is the population loss:
the expectation depends on the minimum and on :math:`(n\beta, \gamma)` alone. Names are those of devinterp.
"""

import numpy as np
import numpy.typing as npt

from ..results import result
from ..validation import FloatArray, check_fits, integer, number, real, vector

__all__ = ["ChainLLC", "ExpectedLLC", "expected_llc", "langevin_llc"]

# Numbers beyond it have products that leave the doubles.
_HUGE = 1e30
# Draws of a chain: a list of that length is held.
_MOST_DRAWS = 10**7


@result
class ExpectedLLC:
    """Expectation of the estimated local learning coefficient over the localised posterior."""

    leading: float
    """Half the sum of nbeta h / (nbeta h + localization) over the Hessian's eigenvalues h."""
    next_order: float
    """The next term, from third and fourth derivatives; 0 if they were not passed."""

    @property
    def value(self) -> float:
        """The expected estimate, `leading` + `next_order`."""
        return self.leading + self.next_order


@result
class ChainLLC:
    """Mean and deviation of the estimate by one Langevin chain on a quadratic loss."""

    mean: float
    """Expected estimate, biased by the step size, too short a burn-in and the localisation."""
    std: float
    """Standard deviation of the estimate from chain to chain."""


def _precisions(
    eigenvalues: npt.ArrayLike, nbeta: float, localization: float
) -> tuple[FloatArray, FloatArray, float]:
    """Return a = nbeta h + localization, the ratio nbeta h/a, and nbeta, for checked arguments.

    h are the `eigenvalues` of the Hessian, nbeta is the inverse temperature times the sample size.
    """
    h = real("eigenvalues", vector("eigenvalues", eigenvalues), -_HUGE, _HUGE)
    nbeta = number("nbeta", nbeta, 0.0, _HUGE)
    localization = number("localization", localization, 0.0, _HUGE)
    a = nbeta * h + localization
    if not a.min(initial=np.inf) > 1.0 / _HUGE:
        rule = "exceed -nbeta times each eigenvalue: the posterior is no Gaussian otherwise"
        raise ValueError(
            f"`localization` must {rule}; got {localization:g}, at least eigenvalue {h.min():g}."
        )
    return a, nbeta * h / a, nbeta


def expected_llc(
    eigenvalues: npt.ArrayLike,
    nbeta: float,
    localization: float,
    third: npt.ArrayLike | None = None,
    fourth: npt.ArrayLike | None = None,
) -> ExpectedLLC:
    r"""Return the expected estimate of the local learning coefficient, to second order in Laplace's method.

    With :math:`t = n\beta`, :math:`a_i = t h_i + \gamma` and :math:`s_i = t h_i / a_i` the estimate is

    .. math:: \tfrac12 \sum_i s_i
       + \frac t8 \sum_{ij} \frac{L_{iijj}}{a_i a_j} (1 - s_i - s_j)
       - t^2 \sum_{ijk} \frac{2 - s_i - s_j - s_k}{a_i a_j a_k}
         \Bigl(\frac{L_{iij} L_{jkk}}8 + \frac{L_{ijk}^2}{12}\Bigr) .

    Parameters
    ----------
    eigenvalues : (d,) array_like of float
        Eigenvalues h of the Hessian of the loss at the minimum.
    nbeta : float
        Inverse temperature times sample size, not negative.
    localization : float
        Strength :math:`\gamma` of the localisation, not negative; it must make all a positive.
    third, fourth : (d, d, d) and (d, d) array_like of float, optional
        Derivatives L_ijk and L_iijj along the Hessian's eigenvectors, as from `solvers.loss.loss_expansion`;
        pass both or neither.

    Returns
    -------
    ExpectedLLC
        Terms of the order of the square of `next_order` are left out; rounding errors are negligible.

    Examples
    --------
    >>> round(expected_llc([2.0, 0.0], 100.0, 1.0).leading, 6)        # one direction of two has curvature
    0.497512
    >>> found = expected_llc([1.0], 100.0, 0.0, [[[0.0]]], [[6.0]])   # L = u²/2 + u⁴/4
    >>> round(found.leading, 6), round(found.next_order, 6)
    (0.5, -0.0075)
    """
    a, s, t = _precisions(eigenvalues, nbeta, localization)
    if (third is None) is not (fourth is None):
        raise ValueError(f"`fourth` must be passed with `third`, and only then; got {fourth!r:.60}.")
    if third is None or fourth is None:
        return ExpectedLLC(0.5 * float(s.sum()), 0.0)
    T, F = real("third", third, -_HUGE, _HUGE), real("fourth", fourth, -_HUGE, _HUGE)
    for name, array, order in (("third", T, 3), ("fourth", F, 2)):
        if array.shape != (a.size,) * order:
            raise ValueError(f"`{name}` must have shape {(a.size,) * order}; got {array.shape}.")
    sums = s[:, None] + s
    quartic = np.sum(F / np.outer(a, a) * (1.0 - sums))
    weights = (2.0 - sums[:, :, None] - s) / (np.outer(a, a)[:, :, None] * a)
    traces = np.einsum("iij->ij", T)
    pairs = np.einsum("ij,kj->ijk", traces, traces) / 8.0 + T**2 / 12.0
    return ExpectedLLC(0.5 * float(s.sum()), float(t * quartic / 8.0 - t * t * np.sum(weights * pairs)))


def _one_minus_power(x: float, k: FloatArray) -> FloatArray:
    """Return 1 - (1 - x)^k for x in [0, 1], to full relative precision."""
    return -np.expm1(k * np.log1p(-x)) if x < 0.5 else 1.0 - (1.0 - x) ** k


def langevin_llc(
    eigenvalues: npt.ArrayLike,
    nbeta: float,
    localization: float,
    *,
    lr: float,
    num_draws: int,
    num_burnin_steps: int = 0,
) -> ChainLLC:
    r"""Return mean and deviation of a Langevin chain's estimate of the local learning coefficient: exact.

    A step is :math:`u' = u - \tfrac\varepsilon2 a u + \sqrt\varepsilon\,\xi` along each eigenvector of the
    Hessian, with :math:`a = n\beta h + \gamma` as in `expected_llc`, the gradient of the population loss and
    standard normal :math:`\xi`. The loss is quadratic. This is devinterp's SGLD, which takes each draw before
    the step, the first at the minimum. So :math:`E u_k^2 = (1 - \rho^{2k}) / (a (1 - \varepsilon a/4))` with
    :math:`\rho = 1 - \varepsilon a/2`. Once the chain is stationary, this variance exceeds the exact 1/a by a
    share :math:`\varepsilon a/4`; for the first :math:`1/(\varepsilon a)` steps or so it is too small.

    Parameters
    ----------
    eigenvalues, nbeta, localization : (d,) array_like of float, float, float
        Eigenvalues h of the Hessian of the loss at the minimum, inverse temperature times sample size, and
        strength :math:`\gamma` of the localisation, as for `expected_llc`.
    lr : float
        Step size :math:`\varepsilon`, below 4/max a; beyond, the chain diverges.
    num_draws, num_burnin_steps : int
        Number of draws, one a step, that the estimate averages (at most 1e7), and of steps before the first
        draw.

    Returns
    -------
    ChainLLC

    Examples
    --------
    >>> found = langevin_llc([2.0], 100.0, 1.0, lr=0.005, num_draws=1000, num_burnin_steps=100)
    >>> round(found.mean, 6), round(found.std, 4)
    (0.664457, 0.0383)
    """
    a, s, _ = _precisions(eigenvalues, nbeta, localization)
    lr = number("lr", lr, 0.0, 4.0 / float(a.max(initial=4.0 / _HUGE)), brackets="()")
    num_draws = integer("num_draws", num_draws, 1, _MOST_DRAWS)
    k = integer("num_burnin_steps", num_burnin_steps, 0, 2**53) + np.arange(num_draws, dtype=np.float64)
    check_fits("num_draws", num_draws, 8.0 * num_draws)
    mean = variance = 0.0
    for precision, share in zip(a, s, strict=True):
        inflation = 1.0 - 0.25 * lr * precision
        forgotten = lr * precision * inflation  # 1 - rho²
        # Of a u², whose covariance at a lag m is 2 rho^2m times the squared variance at the earlier draw.
        now = _one_minus_power(forgotten, k) / inflation
        later = (1.0 - forgotten) * (_one_minus_power(forgotten, k[-1] - k) / forgotten)
        mean += 0.5 * share * float(now.mean())
        variance += 0.5 * share**2 * float(np.mean(now**2 * (1.0 + 2.0 * later))) / num_draws
    return ChainLLC(mean, variance**0.5)

"""The data of every model here: independent features, off with probability 1 - p, else uniform on [0, 1]."""

from typing import cast

import numpy as np
import numpy.typing as npt
from scipy import special

from .. import validation
from ..results import result
from ..validation import FloatArray, Real

__all__ = ["SparseUniform"]

_EPS = float(np.finfo(np.float64).eps)
_TINY = float(np.finfo(np.float64).tiny)
_LARGEST_INTEGER = 2**53  # so far doubles count


@result
class SparseUniform:
    """Distribution of x_i = c_i u_i, with c_i ~ Bernoulli(p), u_i ~ Uniform[0, 1], all independent.

    Closed forms, accurate to a few 2^-53 unless a method says otherwise. "Off" and "x = 0" mean the same. See
    Cowsik et al. (2024), section 2 and appendix C; Elhage et al. (2022), section 2.

    Parameters
    ----------
    p : array_like of float
        Probability that a feature is on, in (0, 1]; p = 1 - S for the sparsity S of Elhage et al. An array is
        a grid of distributions, one value for all features of each; results then have its shape in front. A
        number gives numbers.

    Raises
    ------
    ValueError
        If `p` is not in (0, 1]. Methods raise it if `n` or `k` is not a whole number in range.

    Examples
    --------
    >>> x = SparseUniform(0.3)
    >>> x.mean, round(x.second_moment, 12), round(x.variance, 12)
    (0.15, 0.1, 0.0775)
    >>> SparseUniform([0.01, 1.0]).mean
    array([0.005, 0.5  ])
    """

    p: npt.ArrayLike

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", validation.scalar_or_array(validation.probability("p", self.p)))

    @property
    def _p(self) -> Real:
        """The probability p, a number or an array."""
        return cast(Real, self.p)

    def _fitting_count(self, n: int, power: int) -> int:
        """Return n; raise a ValueError unless it is a count and n^power doubles for each p fit in memory."""
        n = validation.integer("n", n, 1, _LARGEST_INTEGER)
        validation.check_fits("n", n, float(n) ** power * np.size(self.p))
        return n

    @property
    def mean(self) -> Real:
        """E x = p/2."""
        return self._p / 2

    @property
    def second_moment(self) -> Real:
        """E x² = p/3, the loss per feature if the output is always 0."""
        return self._p / 3

    @property
    def variance(self) -> Real:
        """Var x = p/3 - p²/4."""
        return self._p * (4 - 3 * self._p) / 12  # 4 - 3p is at least 1: hardly any cancellation

    def moment(self, k: int) -> Real:
        """E x^k = p/(k + 1), for an integer k of at least 1.

        >>> SparseUniform(0.5).moment(4)
        0.1
        """
        return self._p / (validation.integer("k", k, 1, _LARGEST_INTEGER) + 1)

    @property
    def pair_moment(self) -> Real:
        """E x_i x_j = p²/4 for i != j."""
        return self._p**2 / 4

    @property
    def pair_zero_probability(self) -> Real:
        """P(x_i x_j = 0) = 1 - p² for i != j: not both are on."""
        return (1 - self._p) * (1 + self._p)

    def covariance(self, n: int) -> FloatArray:
        """Covariance matrix of n features, shape (..., n, n): diagonal, as features are independent.

        >>> SparseUniform(1.0).covariance(2) * 12
        array([[1., 0.],
               [0., 1.]])
        """
        return np.expand_dims(self.variance, (-2, -1)) * np.eye(self._fitting_count(n, 2))

    def covariance_eigenvalues(self, n: int) -> FloatArray:
        """Eigenvalues of `covariance`, shape (..., n): all equal to the variance.

        >>> SparseUniform(1.0).covariance_eigenvalues(3) * 12
        array([1., 1., 1.])
        """
        return np.expand_dims(self.variance, -1) * np.ones(self._fitting_count(n, 1))

    def second_moment_matrix(self, n: int) -> FloatArray:
        """E x x' of n features, shape (..., n, n): p/3 on the diagonal, p²/4 off it.

        >>> SparseUniform(1.0).second_moment_matrix(2) * 12
        array([[4., 3.],
               [3., 4.]])
        """
        n = self._fitting_count(n, 2)
        diagonal = np.expand_dims(self.second_moment, (-2, -1))
        return np.where(np.eye(n, dtype=np.bool_), diagonal, np.expand_dims(self.pair_moment, (-2, -1)))

    def second_moment_eigenvalues(self, n: int) -> FloatArray:
        """Eigenvalues of `second_moment_matrix`, shape (..., n), largest first.

        The first, p/3 - p²/4 + n p²/4, belongs to the vector of ones; the others equal the variance.

        >>> SparseUniform(1.0).second_moment_eigenvalues(3) * 12
        array([10.,  1.,  1.])
        """
        values = self.covariance_eigenvalues(n)
        values[..., 0] += n * self.pair_moment
        return values

    def sparsity_pmf(self, n: int) -> FloatArray:
        """Probabilities that exactly 0, 1, ..., n of n features are on, shape (..., n + 1): binomial.

        Relative error below 2e-14 n^(1/2) where the result is above 1e-290; smaller ones may underflow.

        >>> SparseUniform(0.5).sparsity_pmf(2).round(12)
        array([0.25, 0.5 , 0.25])
        """
        from scipy.stats import binom  # a quarter of a second of import, which only this method needs

        k = np.arange(self._fitting_count(n, 1) + 1)
        return np.asarray(binom.pmf(k, n, np.expand_dims(self._p, -1)))

    def tail(self, n: int, k: npt.ArrayLike) -> Real:
        """P(at least k of n features are on), for integers k >= 0 that broadcast against `p`.

        Relative error, however far in the tail, below 2e-14 n^(1/2), as for `sparsity_pmf`. For "more than k"
        pass k + 1.

        >>> SparseUniform(0.5).tail(3, [0, 1, 3, 4])
        array([1.   , 0.875, 0.125, 0.   ])
        """
        n, k = validation.integer("n", n, 1, _LARGEST_INTEGER), validation.whole_numbers("k", k, 0)
        # P(Binomial(n, p) >= k) is the regularised incomplete beta function I_p(k, n - k + 1).
        inside = special.betainc(np.clip(k, 1, n), n + 1 - np.clip(k, 1, n), self._p)
        return validation.scalar_or_array(np.where(k == 0, 1.0, np.where(k > n, 0.0, inside)))

    def chernoff_bound(self, n: int, k: npt.ArrayLike) -> Real:
        """Chernoff's upper bound exp(-n KL(k/n, p)) on `tail`; 1 where k is at most n p.

        KL(q, p) = q log(q/p) + (1 - q) log((1 - q)/(1 - p)). The bound is sharp at k = n. For n p < k < n it
        exceeds the tail by a factor of at most (2 n)^(1/2). It includes a bound on its rounding error, of
        relative size 1e-15 (n + exponent) or so, and is never below the exact tail.

        >>> x = SparseUniform(0.01)
        >>> print(f"{x.tail(1000, 40):.3g} <= {x.chernoff_bound(1000, 40):.3g}")
        4.69e-13 <= 5.58e-12
        """
        n, k = validation.integer("n", n, 1, _LARGEST_INTEGER), validation.whole_numbers("k", k, 0)
        on = np.minimum(k, n)
        off = n - on
        terms = special.rel_entr(on, n * self._p), special.rel_entr(off, n * (1 - self._p))
        # Each argument of a logarithm is off by at most 3 roundings, each term by a few of its own.
        rounding = 4 * _EPS * (n + np.abs(terms[0]) + np.abs(terms[1]))
        with np.errstate(invalid="ignore"):  # p = 1, k < n: inf - inf, replaced by 1 below
            bound = np.exp(rounding - terms[0] - terms[1])
        bound = np.where(on <= n * self._p, 1.0, np.clip(bound, _TINY, 1.0))
        return validation.scalar_or_array(np.where(k > n, 0.0, bound))

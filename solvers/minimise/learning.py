"""The local learning coefficient of a minimum, from its Hessian's rank and its directions of constant loss.

With V(eps) the volume of {L <= L(w) + eps} in a small ball around a minimum w, log V / log eps tends to the
coefficient. Theorems and proofs are on the page `learning-coefficient`. In short, where the gradient is
Lipschitz: if all Hessians near w are above a positive multiple of 1 on r dimensions, it is at least r/2; if w
lies in a manifold of codimension k on which the loss is constant, it is at most k/2.

For features that are uniform on [low, 1], independent or one at a time, gradient and Hessian are
means of F_k(y) = max(y, 0)^k / k! of the pre-activation y, folded out feature by feature: with many digits,
as small weights divide. The minimum is then found to 30 digits. All other laws have `row_hessian`.

Arguments that several functions share: `w`, (of.size,), the parameters of a model as one vector, in doubles
or decimals; `of`, their `ParameterMap`, with n features and m hidden neurons. "By the rows" means with
respect to the rows of (W_out W_in, b), (n, n + 1): row i is all that the loss of output i depends on.
"""

from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from math import factorial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg

from ...theory import validation
from ...theory.features import Features, as_features
from ...theory.validation import BoolArray, FloatArray, IntArray
from ..loss import row_hessian
from ..results import result

__all__ = ["LearningCoefficient", "ParameterMap", "learning_coefficient", "polished"]

_MOST_FEATURES = 10
_DIGITS = 30  # of minima
_EXTRA_DIGITS = 4  # digits by which weights are below others and count as 0
# A place this near to a kink counts as at it.
_AT_KINK = 1e-10
# Eigenvalues, and singular values of generators, below this share of the largest are rounding.
_ROUNDING, _DEPENDENT = 1e-9, 1e-9
_NEWTON_STEPS = 30
# A fall of the gradient that is less than this asks for a new Hessian.
_SLOW = 1e-3
# Largest gradient over the zero model's loss of a minimum that is found in doubles.
_STILL = 1e-8
# How far Newton's method may go from the weights to the minimum, and beyond which weights are at infinity.
_NEAR = 0.05

Mean = Callable[[int, tuple[int, ...]], Decimal]


@result
class LearningCoefficient:
    """Bracket of the local learning coefficient of a minimum, or the reason why there is none."""

    lower: float
    """Half the rank; nan if there is no bracket."""
    upper: float
    """Half the codimension; nan if there is no bracket. If it equals `lower`, the multiplicity is 1."""
    rank: int
    """Number of positive eigenvalues of the Hessian; at a kink, of the least one-sided Hessian."""
    codimension: int
    """`n_parameters` minus the dimensions of constant loss: symmetries, and parameters without effect."""
    n_parameters: int
    """Entries of the weights and biases."""
    reason: str
    """Sentence that says why there is no bracket; empty if there is one."""

    @property
    def value(self) -> float:
        """The coefficient if the ends of the bracket are equal, else nan."""
        return self.lower if self.lower == self.upper else np.nan

    def __repr__(self) -> str:
        if self.reason:
            return f"no local learning coefficient: {self.reason}"
        to = "" if self.lower == self.upper else f" to {self.upper:g}"
        flat = f"{self.n_parameters - self.codimension} of {self.n_parameters} dimensions"
        rank = f"Hessian of rank {self.rank}"
        return f"local learning coefficient {self.lower:g}{to}: {rank}, {flat} leave the loss alone"


class ParameterMap:
    """Conversions between a vector of parameters and (W, b) if `tied`, else (W_out, W_in, b).

    The model has n features and m hidden neurons; `size` is the length of the vector.
    """

    def __init__(self, n: int, m: int, tied: bool) -> None:
        self.n, self.m, self.tied = n, m, tied
        self.size = n * m * (1 if tied else 2) + n

    def vector(self, W_out: Any, W_in: Any, b: Any) -> Any:
        """Return (W_out, b) if tied, else (W_out, W_in, b), as one vector."""
        return np.concatenate([np.ravel(x) for x in ([W_out] if self.tied else [W_out, W_in]) + [b]])

    def split(self, w: Any) -> tuple[Any, Any, Any]:
        """Return W_out (n, m), W_in (m, n) and b (n,) from the vector w of parameters."""
        n, m = self.n, self.m
        W_out = w[: n * m].reshape(n, m)
        W_in = W_out.T if self.tied else w[n * m : 2 * n * m].reshape(m, n)
        return W_out, W_in, w[-n:]

    def gradient(self, w: Any, rows: Any) -> Any:
        """Return the gradient of the loss with respect to the vector w of parameters.

        `rows`, (n, n + 1), is its gradient with respect to the rows of (W_out W_in, b).
        """
        W_out, W_in, _ = self.split(w)
        G = rows[:, :-1]
        return self.vector((G + G.T) @ W_out if self.tied else G @ W_in.T, W_out.T @ G, rows[:, -1])

    def jacobian(self, w: FloatArray) -> FloatArray:
        """Return the Jacobian of (W_out W_in, b) with respect to the parameters at w, (n, n + 1, size)."""
        W_out, W_in, _ = self.split(w)
        n, m = self.n, self.m
        steps = np.zeros((n, n + 1, self.size))
        for i in range(n):
            steps[i, :n, i * m : (i + 1) * m] = W_in.T
            steps[i, n, self.size - n + i] = 1.0
            for j in range(n):
                at = j * m + np.arange(m) if self.tied else n * m + np.arange(m) * n + j
                steps[i, j, at] += W_out[i]
        return steps

    def hessian(self, w: FloatArray, gradients: FloatArray, hessians: FloatArray) -> FloatArray:
        """Return the Hessian of the loss with respect to the parameters at w, (size, size).

        `gradients`, (n, n + 1), and `hessians`, (n, n + 1, n + 1), are those of each output's loss with
        respect to its row of (W_out W_in, b).
        """
        steps, G = self.jacobian(w), gradients[:, :-1]
        H: FloatArray = np.einsum("ijp,ijk,ikq->pq", steps, hessians, steps, optimize=True)
        n, m = self.n, self.m
        order = "ij,ab->iajb" if self.tied else "ij,ab->iabj"
        second = np.einsum(order, G, np.eye(m)).reshape(n * m, n * m)
        columns = slice(0, n * m) if self.tied else slice(n * m, 2 * n * m)
        H[: n * m, columns] += second
        H[columns, : n * m] += second.T
        return H

    def unused(self, active: BoolArray) -> IntArray:
        """Return the indices of the parameters without effect on the loss.

        `active`, (n, n), is a mask of the entries of W_out W_in on which the loss depends.
        """
        m = self.m
        row, column = active.any(axis=1), active.any(axis=0)
        decoder = np.repeat(row | (column & self.tied), m)
        encoder = np.empty(0, bool) if self.tied else np.tile(column, m)
        return np.flatnonzero(~np.concatenate([decoder, encoder, row]))

    def rotations(self, w: FloatArray) -> FloatArray:
        """Return directions at w, columns of (size, count), along which W_out W_in does not change.

        A tied model has those of rotations of the hidden space, another one those of all linear maps.
        """
        W_out, W_in, b = self.split(w)
        columns = []
        for a in range(self.m):
            for c in range(a) if self.tied else range(self.m):
                A = np.zeros((self.m, self.m))
                A[a, c] = 1.0
                if self.tied:
                    A[c, a] = -1.0
                columns.append(self.vector(W_out @ A, -A @ W_in, 0.0 * b))
        return np.array(columns).reshape(len(columns), self.size).T


def learning_coefficient(
    W_out: npt.ArrayLike, W_in: npt.ArrayLike, b: npt.ArrayLike, law: Any, *, tied: bool | None = None
) -> LearningCoefficient:
    r"""Return the local learning coefficient of a minimum of the exact loss, bracketed.

    Parameters
    ----------
    W_out, W_in, b : (n_features, n_hidden), (n_hidden, n_features), (n_features,) array_like of float
        A model ReLU(W_out W_in x + b) of at most 10 features, at or near a minimum.
    law : float or Features
        Law of the data.
    tied : bool, optional
        Whether the parameters are W = W_out and b alone. By default, whether W_out is W_in transposed.

    Returns
    -------
    LearningCoefficient
        Its bracket is computed, not proved; `validate.proofs.certificates.learning_certificate` proves it.
        Equal ends show that the model is a minimum; if they differ, the bracket assumes that it is one. Both
        ends are nan where the theorems do not apply, which `reason` explains: the model is not at a minimum,
        or an output is at the kink of its ReLU.

    Examples
    --------
    >>> from superposition.solvers.minimise import minimise
    >>> pair = minimise(2, 1, 0.3, starts=4, rng=0)
    >>> learning_coefficient(pair.W_out, pair.W_in, pair.b, 0.3)
    local learning coefficient 2: Hessian of rank 4, 0 of 4 dimensions leave the loss alone
    """
    W_out = validation.real("W_out", validation.matrix("W_out", W_out), -1e6, 1e6)
    n, m = W_out.shape
    if n > _MOST_FEATURES:
        raise ValueError(f"`W_out` must have at most {_MOST_FEATURES} rows; got shape {W_out.shape}.")
    W_in = validation.real("W_in", validation.matrix("W_in", W_in, (m, n)), -1e6, 1e6)
    b, features = validation.real("b", validation.vector("b", b, n), -1e6, 1e6), as_features(law, n)
    tied = np.array_equal(W_out, W_in.T) if tied is None else validation.flag("tied", tied)
    if tied and not np.array_equal(W_out, W_in.T):
        raise ValueError("`tied` must be False where `W_in` is not `W_out` transposed; got True.")
    of = ParameterMap(n, m, tied)
    w = of.vector(W_out, W_in, b)
    problem = "" if has_all_digits(features) else _kink(of, w, features)
    if not problem:
        at, problem = polished(of, w, features)
        w = at.astype(float)
    problem = problem or _kink(of, w, features)
    return _without_bracket(of, problem) if problem else _bracket(of, w, features)


def _without_bracket(of: ParameterMap, reason: str) -> LearningCoefficient:
    """Return a `LearningCoefficient` without bracket because of `reason`; `of` counts the parameters."""
    return LearningCoefficient(np.nan, np.nan, 0, 0, of.size, reason)


def has_all_digits(law: Features) -> bool:
    """Return whether the law makes gradient and Hessian finite sums, exact in decimal arithmetic."""
    is_plain = not law.groups and law.exactly in (None, 1) and bool(np.all(law.scale == 1.0))
    is_uniform = not law.values.atoms and [(high, len(c)) for _, high, c in law.values.pieces] == [(1.0, 1)]
    return is_plain and is_uniform and (law.exactly is None or bool(np.all(law.p < 1.0)))


def _gradients(of: ParameterMap, w: Any, law: Features, zero: Decimal) -> Any:
    """Return importances times gradients of the outputs' losses by rows of (W_out W_in, b), (n, n + 1).

    `of` splits the vector w of parameters. If `has_all_digits(law)`, the entries of w and of the result are
    Decimals, and weights and biases of size up to `zero` count as 0.
    """
    W_out, W_in, b = of.split(w)
    M, n = W_out @ W_in, of.n
    if not has_all_digits(law):
        rows = [row_hessian(M[i], i, float(b[i]), law).gradient for i in range(n)]
        return np.array(rows) * law.importance[:, None]
    sums = []
    for i in range(n):
        E = _mean(M[i], b[i], law, zero)
        scale = 2 * Decimal(repr(float(law.importance[i])))
        sums.append([scale * (E(1, _powers(n, j)) - E(0, _powers(n, i, j))) for j in range(n + 1)])
    return np.array(sums)


def _hessians(of: ParameterMap, w: Any, law: Features, zero: Decimal) -> tuple[FloatArray, FloatArray]:
    """Return (Hessians, errors) of the outputs' losses by their rows of (W_out W_in, b), times importances.

    The shapes are (n, n + 1, n + 1) and (n,); `of` splits the vector w of parameters. If
    `has_all_digits(law)`, the entries of w are Decimals, weights and biases of size up to `zero` count as 0,
    and an output at its kink counts as off, which gives the least of its one-sided Hessians.
    """
    W_out, W_in, b = of.split(w)
    M, n = W_out @ W_in, of.n
    hessians, errors = np.empty((n, n + 1, n + 1)), np.zeros(n)
    for i in range(n):
        if not has_all_digits(law):
            row = row_hessian(M[i], i, float(b[i]), law)
            hessians[i], errors[i] = row.hessian, row.hessian_error
            continue
        E = _mean(M[i], b[i], law, zero)
        for j in range(n + 1):
            for k in range(j + 1):
                entry = E(0, _powers(n, j, k)) - E(-1, _powers(n, i, j, k))
                hessians[i, j, k] = hessians[i, k, j] = 2 * entry
    return hessians * law.importance[:, None, None], errors * law.importance


def _precision(of: ParameterMap, w: Any, digits: int) -> int:
    """Return the number of decimal digits to compute with at w for about `digits` correct ones.

    A weight M_ij < 1 costs log10(1/M_ij) digits, since means are divided by each weight of a row; the
    smallest weight costs three times as many again. `of` splits the vector w of parameters.
    """
    W_out, W_in, _ = of.split(w)
    with localcontext() as context:
        context.prec = 4 * digits
        M = np.abs(W_out @ W_in).astype(float)
    smallest = 10.0 ** -(digits + _EXTRA_DIGITS)
    lost = np.maximum(0.0, -np.log10(np.where(smallest < M, M, 1.0)))
    return 2 * digits + int(lost.sum(axis=1).max() + 3.0 * lost.max())


def _powers(n: int, *indices: int) -> tuple[int, ...]:
    """Return the exponent of each of n features in the product of the features `indices`; index n means 1."""
    return tuple(indices.count(j) for j in range(n))


def _mean(row: Any, b: Any, law: Features, zero: Decimal) -> Mean:
    """Return the function (k, powers) -> E x^powers F_k(row . x + b), F_k(y) = max(y, 0)^k / k!.

    The mean is over the features x of `law`; `powers` has the exponent of each feature in x^powers. Weights
    and biases of size up to `zero` count as 0.
    """
    low = Decimal(repr(float(law.values.pieces[0][0])))
    of_law = _one_at_a_time if law.exactly == 1 else _independent
    p = [Decimal(q.numerator) / q.denominator for q in chances(law)]
    bias = b if abs(b) > zero else Decimal(0)
    return of_law([w if abs(w) > zero else Decimal(0) for w in row], bias, p, low)


def chances(law: Features) -> list[Fraction]:
    """Return each feature's probability to be on, as a fraction equal to the decimals of `repr(law.p)`.

    If exactly one feature is on, entry j is the probability that it is feature j.
    """
    p = [Fraction(repr(float(q))) for q in law.p]
    if law.exactly is None:
        return p
    odds = [q / (1 - q) for q in p]
    return [x / sum(odds) for x in odds]


def _one_at_a_time(row: Any, b: Any, p: list[Decimal], low: Decimal) -> Mean:
    """Return the function (k, powers) -> E x^powers F_k(row . x + b) for exactly one feature on.

    Feature j is on with probability p_j, and uniform on [low, 1] then; `powers` has the exponent of each
    feature. F_k(y) = max(y, 0)^k / k!, F_0(0) = 0, and F_-1 is the derivative of F_0, a delta function.
    """
    means = [_independent([weight], b, [Decimal(1)], low) for weight in row]

    def mean(k: int, powers: tuple[int, ...]) -> Decimal:
        """Return E x^powers F_k(row . x + b) as a sum over the feature that is on."""
        indices = [j for j in range(len(row)) if sum(powers) == powers[j]]
        return sum((p[j] * means[j](k, (powers[j],)) for j in indices), Decimal(0))

    return mean


def _independent(row: Any, b: Any, p: list[Decimal], low: Decimal) -> Mean:
    """Return the function (k, powers) -> E x^powers F_k(row . x + b), k >= -1, of independent features x.

    `powers` has the exponent of each feature. F_k(y) = max(y, 0)^k / k!, and F_0(0) = 0. F_-1 is the
    derivative of F_0, a delta function: its means are differences of F_0, and its values count as 0. Feature
    j is on with probability p_j, and uniform on [low, 1] then.
    """
    rises = np.cumsum([max(Decimal(0), w, low * w) for w in row])
    inverse: list[Decimal] = [1 / w if w else w for w in row]
    width, cache = 1 - low, dict[Any, Decimal]()

    def fold(k: int, y: Decimal, path: int, powers: tuple[int, ...]) -> Decimal:
        """Return E x^powers F_k(y + row . x) over the first len(powers) features; `path` is a key for y."""
        key = k, path, powers
        if key not in cache:
            cache[key] = _ramp(k, y) if not powers else on_or_off(k, y, path, powers)
        return cache[key]

    def on_or_off(k: int, y: Decimal, path: int, powers: tuple[int, ...]) -> Decimal:
        """Return `fold`, from means over the features before its last one, with that one on or off.

        It is E x^powers F_k(y + row . x) over the first len(powers) features.
        """
        at, a, rest = len(powers) - 1, powers[-1], powers[:-1]
        if y + rises[at] < 0:
            return Decimal(0)
        if inverse[at]:
            on = directional_part(k, a, y, path, rest)
        else:
            on = (1 - low ** (a + 1)) / ((a + 1) * width) * fold(k, y, 4 * path, rest)
        return p[at] * on + (1 - p[at]) * fold(k, y, 4 * path, rest) if a == 0 else p[at] * on

    def directional_part(k: int, a: int, y: Decimal, path: int, rest: tuple[int, ...]) -> Decimal:
        """Return E x^a fold(k, y + w x, ...) over the features `rest`, x uniform on [low, 1], by parts."""
        w = row[len(rest)]
        total = fold(k + 1, y + w, 4 * path + 1, rest)
        if low:
            total -= low**a * fold(k + 1, y + low * w, 4 * path + 2, rest)
        elif a == 0:
            total -= fold(k + 1, y, 4 * path, rest)
        if a:
            total -= width * a * directional_part(k + 1, a - 1, y, path, rest)
        return total * inverse[len(rest)] / width

    return lambda k, powers: fold(k, b, 1, powers)


def _ramp(k: int, y: Decimal) -> Decimal:
    """Return F_k(y) = max(y, 0)^k / k!, with F_0(0) = 0 and F_-1 = 0 everywhere."""
    if k < 0 or y <= 0:
        return Decimal(0)
    return y**k / factorial(k)


def polished(of: ParameterMap, w: FloatArray, law: Features, digits: int = _DIGITS) -> tuple[Any, str]:
    """Return (minimum near w, "") by Newton's method, or (last point, reason) if none was found near w.

    `of` splits the vector w of parameters. As many of them stay fixed as there are directions of constant
    loss. If `has_all_digits(law)`, the minimum has Decimals and a gradient below 10^-digits; else the
    gradient is as small as doubles allow.
    """
    is_decimal = has_all_digits(law)
    with localcontext() as context:
        at = np.array([Decimal(float(x)) for x in w]) if is_decimal else w.copy()
        moving = np.setdiff1d(np.arange(of.size), fixed_parameters(of, w, law))
        last_slope, H, zero = np.inf, np.empty(0), Decimal(10) ** -(digits + _EXTRA_DIGITS)
        for _ in range(_NEWTON_STEPS):
            if is_decimal:
                context.prec = _precision(of, at, digits)
            rows = _gradients(of, at, law, zero)
            gradient = of.gradient(at, rows).astype(float)
            slope = float(np.linalg.norm(gradient))
            if slope < 10.0**-digits or (not is_decimal and slope > 0.5 * last_slope):
                return at, ""
            if slope > _SLOW * last_slope or not H.size:
                now = at.astype(float)
                H = of.hessian(now, rows.astype(float), _hessians(of, at, law, zero)[0])
                H = H[np.ix_(moving, moving)]
            last_slope = slope
            step = np.linalg.lstsq(H, gradient[moving], _ROUNDING)[0]
            at[moving] -= np.array([Decimal(float(x)) for x in step]) if is_decimal else step
            if not np.linalg.norm(at.astype(float) - w) <= _NEAR * max(1.0, float(np.linalg.norm(w))):
                break
        return at, f"no minimum within {_NEAR:g} of these weights, as Newton's method leaves them."


def _active(of: ParameterMap, w: FloatArray, law: Features) -> BoolArray:
    """Return a mask, (n, n), of the entries of W_out W_in that the loss depends on near w.

    An entry has no effect if its output is always off. `of` splits the vector w of parameters.
    """
    W_out, W_in, b = of.split(w)
    low, high = law.values.support
    M, low, high = W_out @ W_in, min(low, 0.0), max(high, 0.0)
    if not np.isfinite([low, high]).all():
        return np.ones(M.shape, bool)
    rises = np.maximum(M * high, M * low) * law.scale
    if law.exactly == 1:
        active = b[:, None] + rises > -_AT_KINK
        return np.asarray(active)
    return np.repeat((b + rises.sum(axis=1) > -_AT_KINK)[:, None], of.n, axis=1)


def _directions(of: ParameterMap, w: FloatArray, law: Features) -> tuple[IntArray, FloatArray]:
    """Return (indices of the parameters without effect on the loss at w, directions of symmetry).

    Along directions of symmetry, orthonormal columns, the other parameters change but W_out W_in does not.
    `of` splits the vector w of parameters.
    """
    unused = of.unused(_active(of, w, law))
    turns = of.rotations(w)
    turns[unused] = 0.0
    left, sizes, _ = np.linalg.svd(turns, full_matrices=False)
    return unused, left[:, sizes > _DEPENDENT * max(1.0, float(np.linalg.norm(w)))]


def fixed_parameters(of: ParameterMap, w: FloatArray, law: Features) -> IntArray:
    """Return indices of parameters, one for each dimension of constant loss at w.

    With these parameters fixed, no direction of constant loss is left. `of` splits the vector w.
    """
    unused, turns = _directions(of, w, law)
    pivots = linalg.qr(turns.T, pivoting=True)[2][: turns.shape[1]] if turns.size else np.empty(0, int)
    return np.sort(np.concatenate([unused, pivots])).astype(int)


def _kink(of: ParameterMap, w: FloatArray, law: Features) -> str:
    """Return "", or a sentence if a pre-activation is 0 at an end or atom of the features' values.

    There the gradient may not be Lipschitz, or the Hessian not as computed. `of` splits the vector w of
    parameters.
    """
    W_out, W_in, b = of.split(w)
    M, values = W_out @ W_in * law.scale, law.values
    ends = {e for e in values.support if np.isfinite(e)} - {0.0}
    if values.discrete:
        atoms = sorted({0.0, *(atom for atom, _ in values.atoms)})
        states = np.stack(np.meshgrid(*[atoms] * of.n), -1).reshape(-1, of.n)
        near = np.abs(states @ M.T + b).min(axis=0) <= _AT_KINK
    elif has_all_digits(law):
        diagonal = np.diag(M)
        near = (np.abs(b) <= _AT_KINK) & (np.abs(diagonal) <= _AT_KINK)
        for end in ends:
            near |= np.abs(diagonal * end + b) <= _AT_KINK
            if law.exactly is None:
                at_end = np.abs(M * end + b[:, None]).min(axis=1) <= _AT_KINK
                near |= at_end & (np.abs(diagonal) <= _AT_KINK)
    else:
        near = np.abs(b) <= _AT_KINK
        for end in ends:
            near |= (np.abs(M * end + b[:, None]) <= _AT_KINK).any(axis=1)
    if not near.any():
        return ""
    return f"output {int(np.argmax(near))} is at the kink of its ReLU where values have an end or an atom."


def hessian_at(of: ParameterMap, w: FloatArray, law: Features) -> FloatArray:
    """Return the Hessian of the loss with respect to the parameters, (w.size, w.size), in doubles.

    `of` splits the vector w of parameters.
    """
    return _derivatives(of, w, law)[1]


def _derivatives(of: ParameterMap, w: FloatArray, law: Features) -> tuple[FloatArray, FloatArray, float]:
    """Return (gradient, Hessian, the Hessian's error in norm) of the loss with respect to the parameters.

    `of` splits the vector w of parameters.
    """
    with localcontext() as context:
        at = np.array([Decimal(float(x)) for x in w]) if has_all_digits(law) else w
        context.prec = _precision(of, at, _DIGITS) if has_all_digits(law) else context.prec
        rows = _gradients(of, at, law, Decimal(_AT_KINK)).astype(float)
        hessians, errors = _hessians(of, at, law, Decimal(_AT_KINK))
    steps = np.linalg.norm(of.jacobian(w), axis=(1, 2))
    return of.gradient(w, rows), of.hessian(w, rows, hessians), (of.n + 1) * float(errors @ steps**2)


def _bracket(of: ParameterMap, w: FloatArray, law: Features) -> LearningCoefficient:
    """Return the bracket of the learning coefficient at w, with nan and a reason if there is none.

    The ends are half the Hessian's rank and half the codimension of the known directions of constant loss.
    `of` splits the vector w of parameters.
    """
    gradient, H, error = _derivatives(of, w, law)
    slope, unit = float(np.linalg.norm(gradient)), float(law.importance @ law.second_moment)
    if slope > _STILL * unit:
        return _without_bracket(of, f"the gradient has length {slope:.2g} here, so that it is no minimum.")
    values = np.linalg.eigvalsh(H)
    # Weyl: an eigenvalue moves by the norm of the error of the Hessian at most.
    margin = _ROUNDING * float(np.abs(values).max()) + error
    if values[0] < -margin:
        return _without_bracket(
            of, f"the Hessian has the eigenvalue {values[0]:.2g}, so that it is a saddle."
        )
    unused, turns = _directions(of, w, law)
    codimension = of.size - len(unused) - turns.shape[1]
    rank = min(int(np.sum(values > margin)), codimension)
    return LearningCoefficient(rank / 2, codimension / 2, rank, codimension, of.size, "")

r"""The limit law of sparsification: expected numbers and norms at any time, and their spread over runs.

Many weights: the scalar equation driven by the mean of Q. Few weights: expectations over the largest weights
of the sample, whose order statistics are known exactly, by a fixed quadrature rule. Spread of single runs: to
first order in 1/m by the influence of one weight, for few weights by the same quadrature.
"""

import math
import warnings
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from scipy.integrate import cumulative_simpson, solve_ivp
from scipy.special import betaincinv, erfcinv

from ...theory import validation
from ...theory.compile.kernels import check_interrupt, inlined, inner, kernel, non_literal
from ...theory.sparsification.moments import LARGEST, moments, truncated_moments
from ...theory.sparsification.spread import sums_above
from ...theory.validation import FloatArray, number
from ..results import Status, result

__all__ = ["LimitLaw", "limit_law"]

_TOP = 128  # largest weights that are followed one by one
_EARLY = 16  # they are set free when this many times as many are left
_POINTS = 4096  # of the quadrature rule over their order statistics
_PANELS = 48  # for the way from there to the largest weights
_PARTS = 8  # steps while Q falls by a factor e, once few are left
_LAST, _SHRINK = 64, 0.85  # steps of the last weight, and by how much each brings it nearer to the threshold
# No encoding is trained at a strength or a length beyond these; LSODA gives up far beyond them.
_SMALLEST, _GREATEST = 1e-12, 1e6
# Tails of the largest of more weights are beyond the inverse of the incomplete beta function.
_MOST_WEIGHTS = 10**15

_State = tuple[float, float, float, float]  # number, sum, sum of squares, g


@result
class LimitLaw:
    """Expected course of the l1 flow for normal initial weights; see :func:`limit_law`.

    All arrays have the shape of the times `t`. `nonzeros` is the expected number of nonzero weights,
    `l1_norm` the expected sum of their sizes, with `nonzeros_std` and `l1_norm_std` in a single run.
    """

    t: FloatArray
    nonzeros: FloatArray
    l1_norm: FloatArray
    relative_variance: FloatArray
    """Expected variance of the nonzero absolute weights over their squared mean (0 for one weight)."""
    nonzeros_std: FloatArray
    l1_norm_std: FloatArray
    status: Status
    """Whether the integration succeeded; what it did not reach is nan."""


def _integrate_mean_threshold(
    t: FloatArray, force: float, scale: float, stop: float
) -> tuple[FloatArray, FloatArray, float, float, bool]:
    """Return (zeta, y, end, y at the end, success), with zeta and y at the times t before the end.

    Let x be the m absolute initial weights, in units of their standard deviation scale/sqrt(m). Weights with
    x above the threshold zeta are nonzero, and have become (x - zeta)/sqrt(m y). The end is the time at which
    zeta reaches `stop`, or the last of the times t.

    With force = lam sqrt(m), d zeta/dt = force sqrt(y) and dy/dt = 2 (M_2(zeta) - y), from zeta = 0 and
    y = scale^-2, where M_2 is the mean of (x - zeta)_+^2; log y is integrated.
    """
    start = scale**-2.0
    if force == 0.0:
        return np.zeros_like(t), 1 + (start - 1) * np.exp(-2 * np.minimum(t, 1e3)), math.inf, 1.0, True
    q = np.empty(3)

    def slope(_: float, state: FloatArray) -> tuple[float, float]:
        """Return the time derivatives of the `state` (zeta, log y): force sqrt(y), 2 (M_2(zeta)/y - 1).

        zeta is the threshold in standard deviations of the initial weights, M_2 the mean of (x - zeta)_+^2.
        """
        zeta, v = state.tolist()
        moments(min(max(zeta, 0.0), LARGEST), q)
        return force * math.exp(v / 2), 2 * (float(q[2]) * math.exp(-v) - 1)

    def arrival(_: float, state: FloatArray) -> float:
        """Return by how much zeta exceeds `stop`: the integration ends at 0."""
        return float(state[0]) - stop

    arrival.terminal = True  # type: ignore[attr-defined]
    # As y is at least its start times exp(-2 t), and M_2(stop) times what of 1 - exp(-2 t) is there, the
    # threshold arrives by the earliest of these times.
    least = float(truncated_moments(stop, 2)[2])
    slowest = stop / (force * math.sqrt(0.86 * least))
    early = min((1.5 * slowest) ** (2 / 3), math.e * stop * scale / force)
    latest = early if early < 1 else 1 + slowest
    span = (0.0, min(max(float(t[-1]), 1e-9 * latest), 1.1 * latest))
    # LSODA: stiff when lam is small (the length relaxes at rate 2, everything else in times 1/lam). The
    # law needs a few digits less than this.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the status says it
        run = solve_ivp(
            slope,
            span,
            (0.0, math.log(start)),
            method="LSODA",
            rtol=1e-9,
            atol=1e-11,
            dense_output=True,
            events=arrival,
            first_step=1e-3 * min(1.0, span[1], start, 1 / (force * start**0.5)),
        )
    end = float(run.t[-1])
    good = run.status == 1 or (run.status == 0 and t[-1] <= span[1])
    times = t[t < end] if run.status else t[t <= end]
    zeta, v = run.sol(times) if run.sol is not None and times.size else np.empty((2, 0))
    return np.clip(zeta, 0, stop), np.exp(v), end, math.exp(run.y[1, -1]), good


def _influence(zeta: FloatArray) -> tuple[FloatArray, ...]:
    r"""Return five integrals, each at every zeta, of the influence of one of many weights on the threshold.

    Weights x are m absolute standard normals, of which those above the threshold :math:`\zeta` are nonzero.
    Q(z) is the sum of (x - z)_+², M_2(z) the mean of one term. A weight x adds (x - z)_+² to Q(z), and so
    :math:`\tfrac12 \sqrt{M_2(\zeta)} J(x)/m` to the threshold at a given time, with :math:`J(x) =
    \int_0^\zeta (x - z)_+^2 M_2^{-3/2} dz`. The integrals are :math:`\int_0^\zeta (\zeta - z)^k M_2^{-3/2}
    dz` for k = 0, 1, 2, and the means of J and J² over the weights x < zeta.
    """
    z = np.linspace(0, max(1.0, zeta.max(initial=0.0)), 4001)

    def integral(y: FloatArray) -> FloatArray:
        """Return the integrals of y, given on the grid z, from 0 to each z."""
        return np.asarray(cumulative_simpson(y, x=z, initial=0))

    k0 = integral(truncated_moments(z, 2)[:, 2] ** -1.5)
    k1 = integral(k0)
    k2 = 2 * integral(k1)
    density = math.sqrt(2 / math.pi) * np.exp(-(z**2) / 2)
    curves = k0, k1, k2, integral(k2 * density), integral(k2**2 * density)
    return tuple(np.interp(zeta, z, curve) for curve in curves)


def _spread_of_many(t: FloatArray, zeta: FloatArray, y: FloatArray, m: int) -> tuple[FloatArray, FloatArray]:
    """Return standard deviations over runs of (number, l1 norm) of nonzero weights, to first order in 1/m.

    Of m absolute standard normals x those above the threshold are nonzero, and have become
    (x - zeta)/sqrt(m y); `zeta` and `y` are at the times t.
    """
    moments = truncated_moments(zeta, 4)
    share, first, second = moments[:, 0], moments[:, 1], moments[:, 2]
    k0, k1, k2, j1, j2 = _influence(zeta)
    moved = np.sqrt(second) / 2
    density = math.sqrt(2 / math.pi) * np.exp(-(zeta**2) / 2)
    g = np.sqrt(y)
    relaxed = -np.expm1(-2 * np.minimum(t, 1e3))  # how far the length has followed Q by now
    slope = first**2 / second**1.5 - share / np.sqrt(second)  # of the l1 norm in the threshold

    def deviation(direct: FloatArray, by_threshold: FloatArray) -> FloatArray:
        """Return the standard deviation over runs, (n_times,), of a sum over weights: number or l1 norm.

        A weight x moves the threshold zeta by J(x), of `_influence`, and so the sum by `by_threshold` J(x),
        (n_times,). If x is above zeta, its own term direct_0 + direct_1 e + direct_2 e², with e = x - zeta
        and `direct` (3, n_times), is added.
        """
        a = direct + by_threshold * np.array([k2, 2 * k1, k0])
        mean = np.einsum("in,ni->n", a, moments[:, :3]) + by_threshold * j1
        square = by_threshold**2 * j2
        for i in range(3):
            for j in range(3):
                square = square + a[i] * a[j] * moments[:, i + j]
        return _standard_deviation(square, mean)

    zero = np.zeros_like(zeta)
    number = deviation(np.array([zero + 1, zero, zero]), -density * moved)
    norm = deviation(np.array([zero, 1 / g, -relaxed * first / (2 * g**3)]), slope * moved)
    return m**0.5 * number, norm


def _rows_while_many(t: FloatArray, zeta: FloatArray, y: FloatArray, m: int) -> FloatArray:
    """Return five rows of results at the times t, (5, n_times), while many of m weights are nonzero.

    Rows are mean number, mean l1 norm, relative variance, and the standard deviations of number and l1 norm.
    Of m absolute standard normals x those above the threshold `zeta` are nonzero, and have become
    (x - zeta)/sqrt(m y).
    """
    share, first, second = np.moveaxis(truncated_moments(zeta, 2), -1, 0)
    spread = share * second / first**2 - 1
    # What fluctuations add to the means: in the tail 1 and a share 4/(3 m') (derived), at the start nothing.
    number = m * share + (1 - share)
    norm = m**0.5 * first / np.sqrt(y) * (1 + 4 / 3 * (1 - share) / number)
    return np.vstack((number, norm, spread, *_spread_of_many(t, zeta, y, m)))


def _rows_when_few(
    t: FloatArray, lam: float, m: int, top: int, stop: float, begin: float, y: float
) -> FloatArray:
    """Return five rows of results at the times t, (5, n_times), after the threshold has reached `stop`.

    Rows are those of `_rows_while_many`. The threshold is at `stop` at the time `begin`, with g^2 = m y;
    nonzero weights have become (x - threshold)/g, and `lam` is the l1 force. The `top` largest of m weights
    are followed one by one.
    """
    largest, tails = _largest_weights(top, m)
    edges = truncated_moments(np.minimum(largest[:, -1], LARGEST), 2)
    nodes = np.linspace(stop, max(stop, float(largest[:, -1].max())), _PANELS)
    at_nodes = truncated_moments(nodes, 2)
    means = _means_over_points(largest, tails, edges, nodes, at_nodes, float(m), lam, begin, m * y, t).T
    number, norm = means[0], means[2]
    rows = np.vstack(
        (number, norm, means[4], _standard_deviation(means[1], number), _standard_deviation(means[3], norm))
    )
    # With many left, most of the spread is from weights that are not followed.
    many = number > max(top / 4, 2)
    zeta = math.sqrt(2) * erfcinv(np.minimum((number[many] - 1) / m, 1))
    rows[3:, many] = _spread_of_many(t[many], zeta, truncated_moments(zeta, 2)[:, 2], m)
    return rows


def _standard_deviation(square: FloatArray, mean: FloatArray) -> FloatArray:
    """Return sqrt(square - mean^2), 0 where rounding makes the difference negative."""
    return np.asarray(np.sqrt(np.maximum(square - mean**2, 0.0)))


def _largest_weights(top: int, m: int) -> tuple[FloatArray, FloatArray]:
    """Return (largest, tails): the `top` largest of m absolute normals at each point of a quadrature rule.

    An expectation is the plain mean over the points. `largest`, (points, top), descends along a row; `tails`,
    (points,), is the probability that an absolute normal exceeds the last entry of the row.
    """
    primes = [n for n in range(2, 8 * top + 8) if all(n % d for d in range(2, int(n**0.5) + 1))]
    # Multiples of square roots of primes fill the cube evenly (Richtmyer's rule): equal weights, error
    # near 1/n.
    u = np.outer(np.arange(1, _POINTS + 1), np.sqrt(primes[:top])) % 1
    # Tails of ordered uniforms, from the inside out: the last is a beta variable, U_j = U_(j+1) V^(1/j).
    log_tail = np.empty_like(u)
    log_tail[:, top - 1] = np.log(betaincinv(top, m - top + 1, u[:, top - 1]))
    for j in range(top - 1, 0, -1):
        log_tail[:, j - 1] = log_tail[:, j] + np.log(u[:, j - 1]) / j
    return math.sqrt(2) * erfcinv(np.exp(log_tail)), np.exp(log_tail[:, top - 1])


@inner
def _advance_length(y: float, q_from: float, q_to: float, width: float, lam: float) -> tuple[float, float]:
    """Return (y, time passed) after a step of the threshold c by `width`, along dy/dt = 2 (Q - y).

    `y` = g^2 is that before the step; nonzero weights are (x - c)/g. Q, the sum of (x - c)^2 over them, goes
    from `q_from` to `q_to`, and dc/dt = lam g.
    """
    # Exact for Q exponential in time, with the time that of a g linear in c: no phase needs short steps.
    g, y_new, time = math.sqrt(y), y, 0.0
    for _ in range(3):
        change = math.sqrt(y_new) - g
        slow = math.log1p(change / g) / change if abs(change) > 1e-6 * g else 1 / g
        time = width / lam * slow
        past = math.exp(-2 * time)
        rise = 2 * time - math.log(q_from / q_to)  # how far Q outgrows the decay exp(-2 t)
        if rise > 1:
            driven = (q_to - q_from * past) / rise
        else:
            driven = q_from * past * (math.expm1(rise) / rise if abs(rise) > 1e-9 else 1.0)
        y_new = y * past + 2 * time * driven
    return y_new, time


@inner
def _add_interpolated(
    sums: FloatArray, times: FloatArray, k: int, now: float, step: float, old: _State, new: _State
) -> int:
    """Add five values to row k of `sums` for each times[k] within a step; return the first k after it.

    The step begins at the time `now`, lasts `step` and leads from the state `old` to `new`; k is the first
    index on entry. Nonzero weights are (x - c)/g; a state is their number m', the sum of x - c, that of its
    square, and g. The values are m', m'^2, l1 norm, its square, and relative variance.
    """
    while k < times.size and times[k] < now + step:
        x = (times[k] - now) / step
        n = old[0] + x * (new[0] - old[0])
        norm_1 = old[1] + x * (new[1] - old[1])
        length = math.sqrt(old[2]) + x * (math.sqrt(new[2]) - math.sqrt(old[2]))
        norm = norm_1 / (old[3] + x * (new[3] - old[3]))
        sums[k, 0] += n
        sums[k, 1] += n * n
        sums[k, 2] += norm
        sums[k, 3] += norm * norm
        sums[k, 4] += n * (length / norm_1) ** 2 - 1.0
        k += 1
    return k


@inlined
def _threshold_path(
    z: FloatArray,
    norm_1: FloatArray,
    two: FloatArray,
    rest: float,
    edge: FloatArray,
    nodes: FloatArray,
    at_nodes: FloatArray,
) -> Iterator[_State]:
    """Move the threshold c; yield (width, number, sum of x - c, sum of its square) after each step.

    Number and sums are over the weights x > c. z are the largest weights, descending; entry k of `norm_1` and
    `two` has the sums over i <= k of z_i - z_k and of its square. Up to the last of z the threshold steps
    over `nodes`; the other weights, about `rest`, then count by their means of (x - c)_+^k, k = 0, 1, 2,
    which are `edge` at c = z[-1], and the rows of `at_nodes` at the nodes. After that the threshold goes from
    weight to weight; where it passes one, a step of width 0 has the number and sums without this weight.
    """
    top, c = z.size, nodes[0]
    for node in range(nodes.size):
        if node == 0 or nodes[node] < z[top - 1]:
            d = z[top - 1] - nodes[node]
            n = top + rest * (at_nodes[node, 0] - edge[0])
            s1 = norm_1[top - 1] + top * d + rest * (at_nodes[node, 1] - edge[1] - d * edge[0])
            s2 = two[top - 1] + d * (2 * norm_1[top - 1] + top * d)
            s2 += rest * (at_nodes[node, 2] - edge[2] - d * (2 * edge[1] + d * edge[0]))
            yield nodes[node] - c, n, s1, s2
            c = nodes[node]
    yield z[top - 1] - c, float(top), norm_1[top - 1], two[top - 1]
    for n in range(top - 1, 0, -1):
        d = z[n - 1] - z[n]
        s2 = two[n - 1] + d * (2 * norm_1[n - 1] + n * d)
        yield 0.0, float(n), norm_1[n - 1] + n * d, s2
        parts = 1 + int(_PARTS * math.log(s2 / two[n - 1])) if n > 1 else _LAST
        part_step = d / parts
        for part in range(1, parts + 1):
            # Equal steps; but a weight alone runs away from the threshold, so its steps shrink with the
            # distance.
            width = part_step if n > 1 else d * (1 - _SHRINK)
            d = part_step * (parts - part) if n > 1 else d * _SHRINK
            yield width, float(n), norm_1[n - 1] + n * d, two[n - 1] + d * (2 * norm_1[n - 1] + n * d)


@kernel
def _means_over_points(
    largest: FloatArray,
    tails: FloatArray,
    edges: FloatArray,
    nodes: FloatArray,
    at_nodes: FloatArray,
    m: float,
    lam: float,
    begin: float,
    start: float,
    times: FloatArray,
) -> FloatArray:
    """Return means of m', m'^2, |W|_1, |W|_1^2 and relative variance at the `times`, (times.size, 5).

    m' is the number of nonzero weights, (x - c)/g with the threshold c, and means are over quadrature points.
    Each row of `largest`, (points, top), has the largest of m weights x; `tails` is the probability of a
    weight above the last one in the row, and `edges` has the means of (x - c)_+^k, k = 0, 1, 2, at c = this
    last one. The threshold moves over `nodes`, at which these means are `at_nodes`, under the l1 force `lam`,
    from the first node at the time `begin`, where g^2 = `start`.
    """
    n_points, top = largest.shape
    sums = np.zeros((times.size, 5))
    norm_1, norm_2 = np.empty(top), np.empty(top)
    for i in range(n_points):
        check_interrupt(True)
        k, now, y, old = non_literal(0), begin, start, (0.0, 0.0, 0.0, 0.0)
        rest = (m - top) / (1 - tails[i])
        sums_above(largest[i], norm_1, norm_2)
        for width, n, s1, s2 in _threshold_path(largest[i], norm_1, norm_2, rest, edges[i], nodes, at_nodes):
            if width != 0.0:
                y, step = _advance_length(y, old[2], s2, width, lam)
                k = _add_interpolated(sums, times, k, now, step, old, (n, s1, s2, math.sqrt(y)))
                now += step
            old = (n, s1, s2, math.sqrt(y))
        if old[2] > y / 3:  # |W|^2 > 1/3 and small steps: it has settled
            _add_interpolated(sums, times, k, now, np.inf, old, old)
    return np.asarray(sums / n_points)


def limit_law(t: npt.ArrayLike, lam: float, m: int, scale: float) -> LimitLaw:
    r"""Return the expected course of sparsification for many normal initial weights, without fitted numbers.

    The flow is that of :func:`solve`; initial weights are independent normals of s.d. scale/sqrt(m). The law
    is asymptotic for m -> infinity: expectations have relative errors O(1/m), less than 1 % at m = 100, and a
    few thousandths from the quadrature rule where few weights are left. Standard deviations are leading order
    in 1/m and lam sqrt(m): good to 10 % for lam sqrt(m) < 0.1. The limit of small lam sqrt(m) is
    :func:`superposition.theory.sparsification.parametric_law`. It replaces the scalings in Lecomte et al.
    (2024), §2.4 and Fig. 2.

    Parameters
    ----------
    t : array_like of float
        Flow times, not negative, any shape and order.
    lam : float
        Strength of the l1 force, 0 or from 1e-12 to 1e6; the theory is for lam <= 1/sqrt(m).
    m, scale : int, float
        Number of weights, from 8 to 1e15, and initial length, from 1e-6 to 1e6.

    Returns
    -------
    LimitLaw

    Examples
    --------
    >>> law = limit_law([0, 1e4, 1e6], lam=1e-5, m=100_000, scale=0.9)
    >>> law.nonzeros.round().astype(int)
    array([100000,    244,      1])
    """
    t = validation.real("t", t, 0)
    if t.size == 0:
        raise ValueError(f"`t` must not be empty; got shape {t.shape}.")
    lam = number("lam", lam, 0, _GREATEST)
    if 0 < lam < _SMALLEST:
        raise ValueError(f"`lam` must be 0 or at least {_SMALLEST:g}; got {lam:g}.")
    m = validation.integer("m", m, 8, _MOST_WEIGHTS)
    scale = number("scale", scale, 1 / _GREATEST, _GREATEST)
    times, time_index = np.unique(t, return_inverse=True)
    top = min(_TOP, m // 4)
    stop = math.sqrt(2) * float(erfcinv(min(_EARLY * top / m, 0.5)))
    zeta, y, begin, y_begin, good = _integrate_mean_threshold(times, lam * m**0.5, scale, stop)
    columns = _rows_while_many(times[: zeta.size], zeta, y, m)
    if zeta.size < times.size:
        late = times[zeta.size :]
        rest = (
            _rows_when_few(late, lam, m, top, stop, begin, y_begin)
            if good
            else np.full((5, late.size), np.nan)
        )
        columns = np.hstack((columns, rest))
    count, norm, spread, count_std, norm_std = (column[time_index].reshape(t.shape) for column in columns)
    status = Status.REACHED if good else Status.STALLED
    return LimitLaw(t, count, norm, spread, count_std, norm_std, status)

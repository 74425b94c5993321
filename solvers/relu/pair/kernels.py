"""Kernels of two features in one dimension: exact loss, best bias, minima, lower bounds.

Output 1 is ReLU(a x1 + m x2 + b) with a = w1^2 and m = w1 w2. Its loss F(a, m, b) is the mean over x2 of
h(b + m x2), where h(t) = E (x1 - ReLU(a x1 + t))^2 is piecewise cubic in t. So two Gauss points between the
breakpoints are exact for F and its first and second derivatives. In b, F is piecewise quartic: its global
minimum is found from cubic roots. The kernels of `theory.loss` take ten times as long.

Arguments that several kernels share: the point x = (w1, w2, b1, b2); the probability p that a feature is on;
the importance r of the second feature, so that the loss of both is L = (F1 + r F2)/2; `biased`, whether
biases are free, else 0.
"""

import heapq
from collections.abc import Iterator

import numpy as np

from ....theory.compile.kernels import check_interrupt, inlined, inner, kernel
from ....theory.special.order import ascending
from ....theory.validation import FloatArray, IntArray

_NODE = 0.5 / np.sqrt(3.0)  # distance of the two Gauss points from the middle of [0, 1]

# The derivatives of F are means over x2 of these derivatives of h, times these powers of x2.
_PART = (0, 2, 1, 1, 5, 4, 4, 3, 3, 3)
_POWER = (0, 0, 1, 0, 0, 1, 0, 2, 1, 0)


@inner
def _zero_crossing(level: float, slope: float) -> float:
    """Return the v where level + slope v changes sign, clipped to [0, 1]; 0 if the slope is 0."""
    return min(max(-level / slope, 0.0), 1.0) if slope != 0.0 else 0.0


@inner
def _mean_square_of_relu(c: float, t: float) -> tuple[float, float]:
    """Return the mean of ReLU(c u + t)^2 over u in [0, 1] and its derivative with respect to t."""
    first, last = max(t, 0.0), max(c + t, 0.0)
    cut = _zero_crossing(t, c)
    width = 1.0 - cut if first == 0.0 else cut if last == 0.0 else 1.0
    return width * (first * first + first * last + last * last) / 3.0, width * (first + last)


@inner
def _conditional_loss(a: float, t: float, p: float, out: FloatArray) -> None:
    """Write h(t), h_t, h_a, h_tt, h_at, h_aa to `out`, for h(t) = E (x1 - ReLU(a x1 + t))^2.

    Indices t and a are derivatives; x1 is on with probability p and then uniform on [0, 1].
    """
    low = 1.0  # the u that make a u + t positive are [low, 1]
    if t > 0.0:
        low = 0.0
    elif a + t > 0.0:
        low = -t / a
    width = 1.0 - low
    c = a - 1.0
    middle, node = 0.5 * (1.0 + low), width * _NODE
    left, right = middle - node, middle + node
    e0, e1 = c * left + t, c * right + t
    half = 0.5 * width
    edge = low / a if 0.0 < low < 1.0 else 0.0  # the corner of the ReLU, which moves with t and a
    above = max(t, 0.0)
    q = 1.0 - p
    out[0] = q * above * above + p * (low**3 / 3.0 + half * (e0 * e0 + e1 * e1))
    out[1] = 2.0 * (q * above + p * half * (e0 + e1))
    out[2] = 2.0 * p * half * (e0 * left + e1 * right)
    out[3] = 2.0 * (p * (width - edge) + (q if t > 0.0 else 0.0))
    out[4] = 2.0 * p * (half * (left + right) - edge * low)
    out[5] = 2.0 * p * (half * (left * left + right * right) - edge * low * low)


@inlined
def _gauss_nodes(a: float, m: float, b: float, p: float) -> Iterator[tuple[float, float]]:
    """Yield (x2, weight) of a quadrature rule for means over feature 2, exact for piecewise cubics of x2.

    The breakpoints are where b + m x2 is 0 or -a. Feature 2 is on with probability p and then uniform on
    [0, 1], else 0.
    """
    yield 0.0, 1.0 - p  # the other feature is off
    first, second = _zero_crossing(b, m), _zero_crossing(a + b, m)
    ends = (0.0, min(first, second), max(first, second), 1.0)
    for i in range(3):
        width = ends[i + 1] - ends[i]
        if width > 0.0:
            for side in (-_NODE, _NODE):
                yield 0.5 * (ends[i] + ends[i + 1]) + side * width, 0.5 * width * p


@kernel
def output_loss(a: float, m: float, b: float, p: float, out: FloatArray) -> None:
    """Write F, F_a, F_m, F_b, F_aa, F_am, F_ab, F_mm, F_mb, F_bb to `out`: an output's loss and derivatives.

    F is E (x1 - ReLU(a x1 + m x2 + b))^2; features are on with probability p, and uniform on [0, 1] then.
    """
    h = np.empty(6)
    out[:] = 0.0
    for v, weight in _gauss_nodes(a, m, b, p):
        _conditional_loss(a, b + m * v, p, h)
        for k in range(10):
            out[k] += weight * v ** _POWER[k] * h[_PART[k]]


@inner
def _loss_and_slope(a: float, m: float, b: float, p: float) -> tuple[float, float]:
    """Return E (x1 - ReLU(a x1 + m x2 + b))^2, the loss of one output, and its derivative in b.

    x1 and x2 are on with probability p, and uniform on [0, 1] then.
    """
    out = np.empty(10)
    output_loss(a, m, b, p, out)
    return out[0], out[3]


@inner
def _mean_square_of_output(c: float, m: float, b: float, p: float) -> tuple[float, float]:
    """Return E ReLU(c x1 + m x2 + b)^2 and its derivative in b.

    x1 and x2 are on with probability p, and uniform on [0, 1] then.
    """
    value, slope = 0.0, 0.0
    for v, weight in _gauss_nodes(c, m, b, p):
        off = max(b + m * v, 0.0)
        on, on_slope = _mean_square_of_relu(c, b + m * v)
        value += weight * ((1.0 - p) * off * off + p * on)
        slope += weight * (2.0 * (1.0 - p) * off + p * on_slope)
    return value, slope


@inner
def _box_output_bound(a0: float, a1: float, m0: float, m1: float, b: float, p: float) -> tuple[float, float]:
    """Return a lower bound of an output's loss over a0 <= a <= a1, m0 <= m <= m1, and its derivative in b.

    The loss is E (x1 - ReLU(a x1 + m x2 + b))^2; features are on with probability p, and uniform on [0, 1]
    then.
    """
    # F = E min(x, (x - z)+)^2 + E (z - x)+^2: the first falls with every parameter, the second rises.
    value, slope = _loss_and_slope(a1, m1, b, p)
    if a0 == a1 and m0 == m1:
        return value, slope
    high, high_slope = _mean_square_of_output(a1 - 1.0, m1, b, p)
    low, low_slope = _mean_square_of_output(a0 - 1.0, m0, b, p)
    return value - high + low, slope - high_slope + low_slope


@inner
def _evaluate_cubic(c: FloatArray, s: float) -> float:
    """Return the cubic polynomial with the coefficients c, from the lowest power on, at s."""
    return float(((c[3] * s + c[2]) * s + c[1]) * s + c[0])


@inner
def _rising_roots(y: FloatArray, roots: FloatArray) -> int:
    """Write where the cubic through y at 0, 1/3, 2/3, 1 rises through 0 to `roots`; return their number.

    Only roots between -1/6 and 7/6 are written.
    """
    c = np.empty(4)
    d1, d2, d3 = y[1] - y[0], y[2] - 2.0 * y[1] + y[0], y[3] - 3.0 * y[2] + 3.0 * y[1] - y[0]
    c[0] = y[0]
    c[1] = 3.0 * d1 - 1.5 * d2 + d3
    c[2] = 4.5 * d2 - 4.5 * d3
    c[3] = 4.5 * d3
    ends = np.array([-1.0, 7.0, 7.0, 7.0]) / 6.0
    # monotone parts lie between the turning points
    inside = c[2] * c[2] - 3.0 * c[1] * c[3]
    if inside > 0.0:
        root = -(c[2] + np.copysign(np.sqrt(inside), c[2]))
        for turn in (root / (3.0 * c[3]) if c[3] != 0.0 else -1.0, c[1] / root if root != 0.0 else -1.0):
            if -1.0 / 6.0 < turn < 7.0 / 6.0:
                ends[3] = turn
                ends = ends[ascending(ends)]
    count = 0
    for i in range(3):
        low, high = ends[i], ends[i + 1]
        if high > low and _evaluate_cubic(c, low) <= 0.0 < _evaluate_cubic(c, high):
            for _ in range(50):
                middle = 0.5 * (low + high)
                if _evaluate_cubic(c, middle) <= 0.0:
                    low = middle
                else:
                    high = middle
            roots[count] = 0.5 * (low + high)
            count += 1
    return count


@kernel
def least_over_bias(a0: float, a1: float, m0: float, m1: float, p: float) -> tuple[float, float]:
    """Return (bias, lower bound of an output's loss over a box at this bias), with the bias of least bound.

    The loss is E (x1 - ReLU(a x1 + m x2 + b))^2, the box a0 <= a <= a1, m0 <= m <= m1; if the box is a point,
    the bound is the loss. Features are on with probability p, and uniform on [0, 1] then.
    """
    point = a0 == a1 and m0 == m1
    n = 4 if point else 10
    breaks = np.empty(n)
    breaks[:4] = (0.0, -a1, -m1, -a1 - m1)
    if not point:
        breaks[4:] = (1.0 - a1, 1.0 - a1 - m1, -m0, 1.0 - a0, 1.0 - a0 - m0, -a1)
    breaks = breaks[ascending(breaks)]
    best, bias = p / 3.0, breaks[0]
    y, roots = np.empty(4), np.empty(3)
    for i in range(n - 1):
        start, width = breaks[i], breaks[i + 1] - breaks[i]
        if width > 0.0:
            # inner points only: where a is 0 the slope jumps at a breakpoint
            for j in range(4):
                y[j] = _box_output_bound(a0, a1, m0, m1, start + width * (0.125 + 0.25 * j), p)[1]
            for j in range(_rising_roots(y, roots) + 1):
                # the breakpoint itself: rounding may hide a minimum that lies on it
                b = start + width * (0.125 + 0.75 * roots[j - 1]) if j > 0 else start
                value = _box_output_bound(a0, a1, m0, m1, b, p)[0]
                if value < best:
                    best, bias = value, b
    # beyond the last breakpoint the loss is a parabola, and the bound only rises
    b = breaks[n - 1]
    if point:
        b = max(b, 0.5 * p * (1.0 - a1 - m1))
    value = _box_output_bound(a0, a1, m0, m1, b, p)[0]
    if value < best:
        best, bias = value, b
    return bias, best


@kernel
def derivatives(x: FloatArray, r: float, p: float, grad: FloatArray, hess: FloatArray) -> tuple[float, float]:
    """Write gradient and Hessian of L = (F1 + r F2)/2 by x to `grad` (4,), `hess` (4, 4); return F1 and F2.

    F_i = E (u_i - ReLU(w_i (w1 u1 + w2 u2) + b_i))^2 is the loss of output i for features u1 and u2, at x =
    (w1, w2, b1, b2). r is the importance of the second feature, p the probability that a feature is on.
    """
    w, v = x[0], x[1]
    out = np.empty(10)
    losses = np.empty(2)
    grad[:] = 0.0
    hess[:] = 0.0
    for i in range(2):
        w_i, w_j = (w, v) if i == 0 else (v, w)
        j, b = 1 - i, 2 + i
        output_loss(w_i * w_i, w_i * w_j, x[b], p, out)
        losses[i] = out[0]
        s = 0.5 if i == 0 else 0.5 * r
        grad[i] += s * (2.0 * w_i * out[1] + w_j * out[2])
        grad[j] += s * w_i * out[2]
        grad[b] += s * out[3]
        hess[i, i] += s * (
            2.0 * out[1] + 4.0 * w_i * w_i * out[4] + 4.0 * w_i * w_j * out[5] + w_j * w_j * out[7]
        )
        hess[1, 0] += s * (out[2] + 2.0 * w_i * w_i * out[5] + w_i * w_j * out[7])
        hess[j, j] += s * w_i * w_i * out[7]
        hess[b, i] = s * (2.0 * w_i * out[6] + w_j * out[8])
        hess[b, j] = s * w_i * out[8]
        hess[b, b] = s * out[9]
    for i in range(4):
        hess[i, i + 1 :] = hess[i + 1 :, i]
    return losses[0], losses[1]


@kernel
def _polish(x: FloatArray, r: float, p: float, free: int) -> float:
    """Minimise L = (F1 + r F2)/2 over the first `free` entries of x = (w1, w2, b1, b2) in place; return L.

    F1 and F2 are the losses of the two outputs, r is the importance of the second feature, p the probability
    that a feature is on. Newton's method takes the absolute values of the Hessian's eigenvalues, so that L
    falls.
    """
    grad, hess = np.empty(4), np.empty((4, 4))
    first, second = derivatives(x, r, p, grad, hess)
    loss = 0.5 * (first + r * second)
    trial, g1, h1 = np.empty(4), np.empty(4), np.empty((4, 4))
    for _ in range(200):
        values, vectors = np.linalg.eigh(hess[:free, :free].copy())
        size = np.abs(values)
        size = np.maximum(size, 1e-9 * np.max(size) + 1e-300)
        step = -vectors @ ((vectors.T @ grad[:free].copy()) / size)
        largest = np.max(np.abs(step))
        if largest > 0.5:
            step *= 0.5 / largest
        fall = -np.dot(step, grad[:free])
        if fall <= 1e-17 * loss or largest < 1e-15:
            break
        scale, moved = 1.0, False
        for _ in range(40):
            trial[:] = x
            trial[:free] += scale * step
            first, second = derivatives(trial, r, p, g1, h1)
            new = 0.5 * (first + r * second)
            if new < loss - 1e-4 * scale * fall or (new <= loss and fall < 1e-13 * loss):
                moved = True
                break
            scale *= 0.5
        if not moved:
            break
        x[:] = trial
        grad[:] = g1
        hess[:] = h1
        loss = new
    return loss


@inner
def _least_output_loss(w: float, v: float, p: float, biased: bool) -> tuple[float, float]:
    """Return (least E (x1 - ReLU(w (w x1 + v x2) + b))^2 over b, this b); b is 0 unless `biased`.

    Features are on with probability p, and uniform on [0, 1] then.
    """
    if biased:
        b, loss = least_over_bias(w * w, w * w, w * v, w * v, p)
        return loss, b
    return _loss_and_slope(w * w, w * v, 0.0, p)[0], 0.0


@kernel
def least_loss_table(first: FloatArray, second: FloatArray, p: float, biased: bool) -> FloatArray:
    """Return both outputs' losses for all encodings w of `first` and v of `second`.

    The shape is (first.size, second.size, 2). Output 1 is ReLU(w (w x1 + v x2) + b1), output 2 is
    ReLU(v (w x1 + v x2) + b2). Biases are the best ones if `biased`, else 0; features are on with probability
    p, and uniform on [0, 1] then.
    """
    losses = np.empty((first.size, second.size, 2))
    for i in range(first.size):
        check_interrupt(True)
        for j in range(second.size):
            losses[i, j, 0] = _least_output_loss(first[i], second[j], p, biased)[0]
            losses[i, j, 1] = _least_output_loss(second[j], first[i], p, biased)[0]
    return losses


@kernel
def polish_all(x: FloatArray, r: FloatArray, p: float, biased: bool, fit: bool) -> FloatArray:
    """Minimise the loss from each row (w1, w2, b1, b2) of x, in place, at the importances r; return losses.

    The loss of row k is (F1 + r[k] F2)/2, with the losses F1 and F2 of the outputs and the importance r[k] of
    the second feature; p is the probability that a feature is on. Biases are free if `biased`, else they
    stay. With `fit` they start at the best ones for the encodings.
    """
    losses = np.empty(x.shape[0])
    for i in range(x.shape[0]):
        check_interrupt(True)
        if fit:
            x[i, 2] = _least_output_loss(x[i, 0], x[i, 1], p, biased)[1]
            x[i, 3] = _least_output_loss(x[i, 1], x[i, 0], p, biased)[1]
        losses[i] = _polish(x[i], r[i], p, 4 if biased else 2)
    return losses


@inner
def _box_bound(box: tuple[float, float, float, float], r: float, p: float, biased: bool) -> float:
    """Return a lower bound of (F1 + r F2)/2 over a box (w0, w1, v0, v1) of encodings, w0 >= 0.

    Encodings are in [w0, w1] and [v0, v1]; biases are free if `biased`, else 0. F1 and F2 are the outputs'
    losses, r is the importance of the second feature, p the probability that a feature is on.
    """
    w0, w1, v0, v1 = box
    corners = np.array([w0 * v0, w0 * v1, w1 * v0, w1 * v1])
    m0, m1 = np.min(corners), np.max(corners)
    total = 0.0
    for i in range(2):
        low, high = (w0, w1) if i == 0 else (v0, v1)
        a1 = max(low * low, high * high)
        a0 = 0.0 if low <= 0.0 <= high else min(low * low, high * high)
        bound = (
            least_over_bias(a0, a1, m0, m1, p)[1] if biased else _box_output_bound(a0, a1, m0, m1, 0.0, p)[0]
        )
        if a0 > 1.0:
            bound = max(bound, p / 3.0 * ((a0 - 1.0) / (a0 + 1.0)) ** 2)
        total += 0.5 * bound if i == 0 else 0.5 * r * bound
    return total


@inner
def _imbalance(box: tuple[float, float, float, float]) -> tuple[float, float]:
    """Return an interval that holds |w1^2 - w2^2| over a box (w0, w1, v0, v1) of encodings, w0 >= 0."""
    w0, w1, v0, v1 = box
    far, near = max(v0 * v0, v1 * v1), 0.0 if v0 <= 0.0 <= v1 else min(v0 * v0, v1 * v1)
    return max(0.0, w0 * w0 - far, near - w1 * w1), max(w1 * w1 - near, far - w0 * w0)


@kernel
def bound_below(
    loss: float,
    r: float,
    p: float,
    biased: bool,
    gap: float,
    edges: FloatArray,
    most: int,
    imbalance: tuple[float, float],
) -> tuple[float, int]:
    """Return a lower bound of (F1 + r F2)/2 over encodings (w1, w2), and the number of boxes used.

    F1 and F2 are the outputs' losses. Encodings have |w1| <= edges[0], |w2| <= edges[1], and |w1^2 - w2^2| in
    the interval `imbalance`; r is the importance of the second feature, p the probability that a feature is
    on, and biases are free if `biased`, else 0. Boxes are halved until the bound is above `loss` - `gap`, or
    `most` boxes are used. The bound is inf if no encodings have such an imbalance.
    """
    # Best first: the box with the lowest bound is halved until that bound is within `gap` of `loss`.
    box = (0.0, edges[0], -edges[1], edges[1])
    heap = [(_box_bound(box, r, p, biased), box)]
    boxes = 1
    while len(heap) > 0 and heap[0][0] < loss - gap and boxes < most:
        check_interrupt(boxes % 256 < 2)  # it grows by two at most
        bound, box = heapq.heappop(heap)
        w0, w1, v0, v1 = box
        if w1 - w0 > v1 - v0:
            middle = 0.5 * (w0 + w1)
            halves = ((w0, middle, v0, v1), (middle, w1, v0, v1))
        else:
            middle = 0.5 * (v0 + v1)
            halves = ((w0, w1, v0, middle), (w0, w1, middle, v1))
        for half in halves:
            least_here, most_here = _imbalance(half)
            if least_here <= imbalance[1] and most_here >= imbalance[0]:
                boxes += 1
                heapq.heappush(heap, (max(bound, _box_bound(half, r, p, biased)), half))
    return heap[0][0] if len(heap) > 0 else np.inf, boxes


@inner
def _follow_flow(x: FloatArray, r: float, p: float, free: int, most: int) -> tuple[float, int]:
    """Follow dx/dt = -grad L in place by at most `most` Heun steps; return (L, 1 if at a minimum, else 0).

    L is (F1 + r F2)/2 of both outputs' losses, r the importance of the second feature, p the probability that
    a feature is on; the first `free` entries of x = (w1, w2, b1, b2) move.
    """
    grad, ahead, hess, unused = np.empty(4), np.empty(4), np.empty((4, 4)), np.empty((4, 4))
    trial = x.copy()
    dt = 0.1
    first, second = derivatives(x, r, p, grad, hess)
    for k in range(most):
        check_interrupt(k % 1000 == 999)
        if k % 10 == 0:  # the Hessian tells when Newton's method can finish
            values, vectors = np.linalg.eigh(hess[:free, :free].copy())
            eigen_gradient = vectors.T @ grad[:free].copy()
            if values[0] > 1e-7 * p and np.max(np.abs(eigen_gradient / values)) < 0.01:
                return _polish(x, r, p, free), 1
            # a flat bottom, as at the onset of a feature, is left to Newton once the fall is rounding
            if np.dot(eigen_gradient, eigen_gradient) < 1e-16 * p * p and values[0] > -1e-7 * p:
                return _polish(x, r, p, free), 1
        trial[:free] = x[:free] - dt * grad[:free]
        derivatives(trial, r, p, ahead, unused)
        error = 0.5 * dt * np.max(np.abs(ahead[:free] - grad[:free])) / 1e-4
        if error <= 1.0:
            x[:free] -= 0.5 * dt * (grad[:free] + ahead[:free])
            first, second = derivatives(x, r, p, grad, hess)
        dt *= min(max(0.9 / np.sqrt(error + 1e-12), 0.2), 4.0)
    return 0.5 * (first + r * second), 0


@kernel
def follow_flows(x: FloatArray, r: float, p: float, biased: bool, most: int) -> tuple[FloatArray, IntArray]:
    """Follow gradient flow from every row of x in place; return (losses, 1 where at a minimum, else 0).

    Rows are (w1, w2, b1, b2), encodings and biases; the biases stay unless `biased`. The flow descends
    (F1 + r F2)/2, with the losses of the outputs at the probability p that a feature is on and the importance
    r of the second feature, in at most `most` steps.
    """
    losses, statuses = np.empty(x.shape[0]), np.empty(x.shape[0], np.int64)
    for i in range(x.shape[0]):
        check_interrupt(True)
        losses[i], statuses[i] = _follow_flow(x[i], r, p, 4 if biased else 2, most)
    return losses, statuses

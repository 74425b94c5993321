"""Kernels of the class losses: moments of the ReLU of an affine function over the cube, without cancellation.

Write z(u) = b + g.u for u in the cube [0, 1]^k and take a point t of the cube on the plane z = 0. There
z = g.(u - t), so ReLU(z)^q is homogeneous around t, and Euler's theorem with Gauss's turns its mean over the
cube into its means over the faces,

    (k + q) E ReLU(z)^q = sum_j (1 - t_j) E[ReLU(z)^q | u_j = 1] + t_j E[ReLU(z)^q | u_j = 0].

All terms are positive, where the sum over the vertices that solves this recursion has alternating signs and
divides by the product of the weights. Faces that the plane does not cut are leaves: there ReLU(z) is z or 0.

A face is a number in base 3, whose digit j says whether u_j is held at 0, held at 1 or free (2). The faces of
a face have smaller numbers, so that one pass downwards hands the weight of each face on to its own faces.
Few of the 3^k faces are reached (about 4 times 2^k).
"""

import numpy as np

from ..compile.kernels import check_interrupt, inner, kernel, ufunc
from ..validation import FloatArray, IntArray

__all__ = ["class_gradient", "class_losses", "other_loss", "own_loss", "pattern_gradient", "pattern_loss"]


@inner
def _decode_face(face: int, g: FloatArray, b: float, digit: IntArray) -> tuple[int, float, float]:
    """Write which u_j are 0, 1 or free (2) on a face to `digit`; return (number free, least z, largest z).

    The face is one of the cube [0, 1]^n, and z is b + g.u. The number `face` has the digits written in base
    3, the lowest first.
    """
    free, low, high = 0, b, b
    for j in range(g.size):
        digit[j] = face % 3
        face //= 3
        if digit[j] == 1:
            low += g[j]
            high += g[j]
        elif digit[j] == 2:
            free += 1
            low += min(g[j], 0.0)
            high += max(g[j], 0.0)
    return free, low, high


@inner
def _write_crossing_point(
    g: FloatArray, low: float, digit: IntArray, t: FloatArray, rest: FloatArray
) -> None:
    """Write to `t` a point of a face of the cube with z = b + g.u = 0, and 1 - t, not cancelled, to `rest`.

    The point is on a path along edges from the corner of the face where z takes its least value, `low`.
    `digit` says which u_j are 0, 1 or free (2) on the face.
    """
    z = low
    for j in range(g.size):
        step = abs(g[j])
        if digit[j] != 2:
            first, second = float(digit[j]), 1.0 - digit[j]
            t[j], rest[j] = first, second
            continue
        if z >= 0.0:
            first, second = 0.0, 1.0
        elif z + step <= 0.0:
            first, second, z = 1.0, 0.0, z + step
        else:
            first, second, z = -z / step, (z + step) / step, 0.0
        t[j], rest[j] = (first, second) if g[j] >= 0.0 else (second, first)


@inner
def _cut_loss(g: FloatArray, b: float, target: int, work: FloatArray) -> float:
    """Return E (u_target - ReLU(z))^2, or E ReLU(z)^2 if `target` < 0, where z = b + g.u takes both signs.

    u is uniform on the cube [0, 1]^k. `work` is scratch space of shape (3, 3^k) or larger, zero before and
    after.
    """
    k = g.size
    digit, t, rest = np.empty(k, np.int64), np.empty(k), np.empty(k)
    square, cross, mean = work  # weights of E ReLU(z)^2, E u_target ReLU(z) and E ReLU(z) on each face
    last, loss = 3**k - 1, 0.0
    square[last] = 1.0
    if target >= 0:
        cross[last], loss = 2.0, 1.0 / 3.0
    for face in range(last, -1, -1):
        if square[face] == 0.0 and cross[face] == 0.0 and mean[face] == 0.0:
            continue
        first, second, third = square[face], cross[face], mean[face]
        square[face] = cross[face] = mean[face] = 0.0
        free, low, high = _decode_face(face, g, b, digit)
        if high <= 0.0:
            continue
        if low >= 0.0:
            middle, spread = 0.5 * (low + high), 0.0
            for j in range(k):
                if digit[j] == 2:
                    spread += g[j] * g[j]
            loss += first * (middle * middle + spread / 12.0) - third * middle
            if target >= 0:
                loss -= second * (
                    0.5 * middle + g[target] / 12.0 if digit[target] == 2 else middle * digit[target]
                )
            continue
        _write_crossing_point(g, low, digit, t, rest)
        if target >= 0:
            third += second * t[target] / (free + 2)
        first, second, third = first / (free + 2), second / (free + 2), third / (free + 1)
        power = 1
        for j in range(k):
            if digit[j] == 2:
                face_one, face_zero = face - power, face - 2 * power
                square[face_one] += first * rest[j]
                square[face_zero] += first * t[j]
                cross[face_one] += second * rest[j]
                cross[face_zero] += second * t[j]
                mean[face_one] += third * rest[j]
                mean[face_zero] += third * t[j]
            power *= 3
    return loss


@kernel
def _own_feature_loss(m: float, b: float) -> float:
    """Return the mean of (u - ReLU(m u + b))^2 over u in [0, 1], a sum of squares."""
    low, high = min(b, b + m), max(b, b + m)
    if high <= 0.0:
        return 1.0 / 3.0
    if low >= 0.0:
        error = 0.5 * (low + high) - 0.5
        return error * error + (m - 1.0) ** 2 / 12.0
    edge = -b / m
    if m > 0.0:
        end = 1.0 - high
        return (edge**3 + (1.0 - edge) * (edge * edge + edge * end + end * end)) / 3.0
    return (1.0 - edge**3 + edge * (b * b - b * edge + edge * edge)) / 3.0


@inner
def _other_feature_loss(c: float, b: float) -> float:
    """Return the mean of ReLU(c u + b)^2 over u in [0, 1]."""
    low, high = min(b, b + c), max(b, b + c)
    if high <= 0.0:
        return 0.0
    if low >= 0.0:
        middle = 0.5 * (low + high)
        return middle * middle + c * c / 12.0
    return high * high * (high / abs(c)) / 3.0


@ufunc
def own_loss(m: float, b: float) -> float:
    """Return the mean of (u - ReLU(m u + b))^2 over u in [0, 1], broadcasting."""
    return float(_own_feature_loss(m, b))


@ufunc
def other_loss(c: float, b: float) -> float:
    """Return the mean of ReLU(c u + b)^2 over u in [0, 1], broadcasting."""
    return float(_other_feature_loss(c, b))


@kernel
def pattern_loss(g: FloatArray, b: float, target: int, work: FloatArray) -> float:
    """Return E (u_target - ReLU(b + g.u))^2 over u uniform on [0, 1]^k, or E ReLU(b + g.u)^2 if `target` < 0.

    `work` is scratch space of shape (3, 3^k) or larger, zero before and after.
    """
    if g.size == 1:
        return _own_feature_loss(g[0], b) if target >= 0 else _other_feature_loss(g[0], b)
    low, high, spread = b, b, 0.0
    for j in range(g.size):
        low += min(g[j], 0.0)
        high += max(g[j], 0.0)
        spread += (g[j] - (j == target)) ** 2
    if high <= 0.0:
        return 1.0 / 3.0 if target >= 0 else 0.0
    if low >= 0.0:
        error = 0.5 * (low + high) - (0.5 if target >= 0 else 0.0)
        return error * error + spread / 12.0
    return max(_cut_loss(g, b, target, work), 0.0)


@inner
def _shift_weights(work: FloatArray, face: int, free: int, t: FloatArray, t_target: float) -> None:
    """Prepare the weights in column `face` of `work` for the bounding faces, which get them times a factor.

    The factor is 1 - t_i for the bounding face with u_i = 1, and t_i for that with u_i = 0.
    `pattern_gradient` has the identities used and the rows of `work`. `free` is the dimension of the face, t
    a point of it with z = 0, and `t_target` the coordinate of t for the target, 0 without one.
    """
    k = t.size
    both, side, alone, volume = work[0], work[1], work[2 : k + 3], work[k + 3 :]
    for j in range(k):
        alone[j, face] += both[face] * t[j] / (free + 2)
    side[face] += both[face] * t_target / (free + 2)
    both[face] /= free + 2
    for j in range(k + 1):
        volume[j, face] += alone[j, face] * t_target / (free + 1)
        if j < k:
            volume[j, face] += side[face] * t[j] / (free + 1)
        alone[j, face] /= free + 1
        volume[j, face] /= free
    side[face] /= free + 1


@inner
def _leaf_gradient(
    work: FloatArray, face: int, g: FloatArray, target: int, digit: IntArray, middle: float, slope: FloatArray
) -> float:
    """Add the contribution of a face with z >= 0 to E e u_j to `slope`; return its contribution to E e.

    e is u_target - z, or -z for `target` < 0, with z = b + g.u; `middle` is the mean of z on the face, whose
    u_j are 0, 1 or free (2) by `digit`. Column `face` of `work` has the weights of means over the face, in
    rows that `pattern_gradient` lists.
    """
    k = g.size
    both, side, alone, volume = work[0], work[1], work[2 : k + 3], work[k + 3 :]
    error = -middle
    if target >= 0:
        error += 0.5 if digit[target] == 2 else float(digit[target])
    for j in range(k):
        inside = 0.5 if digit[j] == 2 else float(digit[j])
        moment = error * inside
        if digit[j] == 2:
            moment += ((j == target) - g[j]) / 12.0
        slope[j] += both[face] * moment + side[face] * inside
        slope[j] += alone[j, face] * error + volume[j, face]
    return float(alone[k, face] * error + volume[k, face])


@kernel
def pattern_gradient(g: FloatArray, b: float, target: int, work: FloatArray, slope: FloatArray) -> float:
    """Return E e and write E e u_j to `slope` (k,), for e = (u_target - z) 1(z > 0) with z = b + g.u.

    u is uniform on [0, 1]^k; for `target` < 0, e = -z 1(z > 0). If z = 0 on the whole cube, 1(z > 0) counts
    as 1/2. The derivatives of `pattern_loss` are -2 E e by b and -2 E e u_j by g_j. `work` is scratch space
    of shape (2 k + 4, 3^k) or larger, zero before and after.
    """
    # With s = 1(z > 0), a point t of the cube at which z = 0, t_target = 0 for `target` < 0, and the sum
    # F[f] = sum_i (1 - t_i) E[f | u_i = 1] + t_i E[f | u_i = 0] over the faces of the cube:
    #     (k + 2) E e u_j = t_j E e + t_target E s u_j + F[e u_j],     (k + 1) E e = t_target E s + F[e],
    #     (k + 1) E s u_j = t_j E s + F[s u_j],                              k E s = F[s].
    # Column `face` of `work` has the weights of means over that face in the results E e u_j and E e: row 0 of
    # E e u_j and row 1 of E s u_j in E e u_j, each the same for all j; rows 2 to k + 1 of E e in E e u_j for
    # each j, and row k + 2 of E e in E e; rows k + 3 to 2 k + 3 of E s, in the same order.
    k = g.size
    digit, t, rest = np.empty(k, np.int64), np.empty(k), np.empty(k)
    slope[:] = 0.0
    error = 0.0
    last = 3**k - 1
    work[0, last] = work[k + 2, last] = 1.0
    for face in range(last, -1, -1):
        if work[k + 2, face] == 0.0:  # a face that is reached has a weight of E e
            continue
        free, low, high = _decode_face(face, g, b, digit)
        if low >= 0.0:
            if low == high == 0.0 and face == last:  # half on
                work[:, face] *= 0.5
            error += _leaf_gradient(work, face, g, target, digit, 0.5 * (low + high), slope)
        elif high > 0.0:
            _write_crossing_point(g, low, digit, t, rest)
            _shift_weights(work, face, free, t, t[target] if target >= 0 else 0.0)
            power = 1
            for j in range(k):
                if digit[j] == 2:
                    face_one, face_zero = face - power, face - 2 * power
                    for line in range(2 * k + 4):
                        work[line, face_one] += work[line, face] * rest[j]
                        work[line, face_zero] += work[line, face] * t[j]
                power *= 3
        for line in range(2 * k + 4):
            work[line, face] = 0.0
    return error


@inner
def _next_pattern(on: IntArray, n: int) -> bool:
    """Replace `on`, k of n features, by the next choice in lexical order; return False after the last one."""
    k = on.size
    last = k - 1
    while last >= 0 and on[last] == n - k + last:
        last -= 1
    if last < 0:
        return False
    on[last] += 1
    for j in range(last + 1, k):
        on[j] = on[j - 1] + 1
    return True


@inner
def _write_active_weights(row: FloatArray, on: IntArray, i: int, g: FloatArray) -> int:
    """Write row[on], the weights of features that are on, to `g`; return the position of i in `on`, or -1."""
    target = -1
    for j in range(on.size):
        g[j] = row[on[j]]
        if on[j] == i:
            target = j
    return target


@kernel
def class_losses(M: FloatArray, b: FloatArray, k: int) -> FloatArray:
    """Return the mean squared error of each output, summed over the patterns with exactly k >= 1 features on.

    Output i is ReLU(M x + b)_i, with values of x uniform on [0, 1]; the result has shape (n,).
    """
    n = b.size
    losses, lost = np.zeros(n), np.zeros(n)  # compensated: there may be millions of patterns
    on, g = np.arange(k), np.empty(k)
    work, count = np.zeros((3, 3**k)), 0
    while True:
        count += 1
        check_interrupt(k > 7 or count % 256 == 0)
        for i in range(n):
            target = _write_active_weights(M[i], on, i, g)
            step = pattern_loss(g, b[i], target, work) - lost[i]
            new = losses[i] + step
            lost[i] = (new - losses[i]) - step
            losses[i] = new
        if not _next_pattern(on, n):
            return losses


@kernel
def class_gradient(M: FloatArray, b: FloatArray, k: int) -> tuple[FloatArray, FloatArray]:
    """Return the derivatives of `class_losses`, of output i by row i of M and by b_i: (n, n) and (n,).

    Exactly k features are on.
    """
    n = b.size
    by_row, by_bias = np.zeros((n, n)), np.zeros(n)
    on, g, slope = np.arange(k), np.empty(k), np.empty(k)
    work, count = np.zeros((2 * k + 4, 3**k)), 0
    while True:
        count += 1
        check_interrupt(k > 7 or count % 256 == 0)
        for i in range(n):
            target = _write_active_weights(M[i], on, i, g)
            by_bias[i] -= 2.0 * pattern_gradient(g, b[i], target, work, slope)
            for j in range(k):
                by_row[i, on[j]] -= 2.0 * slope[j]
        if not _next_pattern(on, n):
            return by_row, by_bias

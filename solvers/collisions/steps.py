"""Kernels of one step of the interference flow: Bogacki and Shampine's 3(2) pair on frozen signs.

During a step every weight keeps its sign s, so that its velocity f - lam*s is smooth; a weight at zero rests
unless its smooth force f exceeds lam. What the signs do within the step is then put right weight by weight:

- `_landed`: a weight that crossed zero stops there if lam holds it (|f| <= lam at the crossing), and
  otherwise goes on with the other sign;
- `_woken`: a weight at rest whose force came to exceed lam starts at that moment.

Both are right to second order in the step for the weight itself. What the other weights feel of it in the
meantime is wrong by O(lam h^2), which makes the scheme third order between events and second order through
them.

The weights w of a step are a vector, whole arrays or listed ones; `rows` has the encoding of each, `lam` the
l1 strength of each encoding, f the forces at the four stages.
"""

import math

import numpy as np
import numpy.typing as npt

from ...theory.arguments import FloatArray
from ...theory.kernels import kernel

IntArray = npt.NDArray[np.int64]

# Bogacki and Shampine (1989): nodes 0, 1/2, 3/4, 1; weights of the third-order result, and of its
# difference from the embedded second-order one.
_B1, _B2, _B3 = 2.0 / 9.0, 1.0 / 3.0, 4.0 / 9.0
_E1, _E2, _E3, _E4 = -5.0 / 72.0, 1.0 / 12.0, 1.0 / 9.0, -1.0 / 8.0

# Norms of encodings are at most about 1 and grow no faster than their gradient, whose largest rate in the
# late phase is the radial one, -2; the pair is stable up to 2.51 there. A cap of 1.2 keeps long quiet
# phases quiet.
LONGEST_STEP = 1.2

# Step-size control, as usual: an estimate of third order, a margin of 0.9, changes between 0.2 and 4.
_MARGIN, _LEAST, _MOST = 0.9, 0.2, 4.0
# An estimate may vanish by accident, above all that of a single weight, and a step far too long would follow.
# So the next step is chosen as if the error, over the cube of the step, fell at most to this share at a time.
_TRUST = 0.5

ARRIVED, STEP_LIMIT, NOT_FINITE, TOO_FINE = 0, 1, 2, 3


@kernel
def _sign(w: float, force: float, lam: float) -> float:
    if w > 0.0:
        return 1.0
    if w < 0.0:
        return -1.0
    if force > lam:
        return 1.0
    if force < -lam:
        return -1.0
    return 0.0


@kernel
def _landed(
    w: float, end: float, slope: float, f1: float, f3: float, s: float, lam: float, h: float
) -> float:
    """Put right the `end` of a step of a weight that started at `w` with the given slope and sign."""
    if end * s >= 0.0:
        return end
    a, c = h * slope, end - w - h * slope  # w + a x + c x^2 passes through both ends
    q = -0.5 * (a + math.copysign(math.sqrt(max(a * a - 4.0 * c * w, 0.0)), a))
    x = w / q if q != 0.0 else 0.0
    if w == 0.0 or not 0.0 <= x <= 1.0:
        x = q / c if c != 0.0 else 0.0
        if not 0.0 <= x <= 1.0:
            x = 0.0 if w == 0.0 else 1.0
    force = f1 + (f3 - f1) * (x / 0.75)
    if force * s >= -lam:
        return 0.0
    other = end + 2.0 * lam * s * (1.0 - x) * h
    return other if other * s < 0.0 else 0.0


@kernel
def _woken(f1: float, f4: float, lam: float, h: float) -> float:
    """Where a weight is that rested at zero when the step began, the force f1 on it within lam."""
    excess = abs(f4) - lam
    if excess <= 0.0:
        return 0.0
    rise = abs(f4 - f1)
    return math.copysign(0.5 * excess * min(excess / rise, 1.0) * h, f4) if rise > 0.0 else 0.0


@kernel
def next_step(h: float, error: float, tolerance: float, curve: float) -> tuple[float, float]:
    """Return the length of the step after one of length h with that error, and the error over h^3.

    `curve` is that of the last step that was kept. An error of nan counts as large.
    """
    if error <= tolerance:
        error = max(error, _TRUST * curve * h**3)
    if not error > 0.0:
        factor = _MOST if error == 0.0 else _LEAST
    else:
        factor = min(_MOST, max(_LEAST, _MARGIN * (tolerance / error) ** (1.0 / 3.0)))
    return min(h * factor, LONGEST_STEP), error / h**3


@kernel
def force_coefficients(G: FloatArray) -> None:
    """Turn the Gram matrix W W' into the matrix C with smooth force = C W, in place."""
    for i in range(G.shape[0]):
        for j in range(G.shape[1]):
            G[i, j] = min(-G[i, j], 0.0) if i != j else 1.0 - G[i, i]


@kernel
def move(
    w: FloatArray, f1: FloatArray, f: FloatArray, rows: IntArray, lam: FloatArray, h: float, out: FloatArray
) -> None:
    """Write w + h times the velocity of the forces f, signs frozen at the beginning of the step."""
    for e in range(w.size):
        pull = lam[rows[e]]
        s = _sign(w[e], f1[e], pull)
        out[e] = w[e] + h * (f[e] - pull * s) if s != 0.0 else 0.0


@kernel
def arrive(w: FloatArray, f: FloatArray, rows: IntArray, lam: FloatArray, h: float, out: FloatArray) -> None:
    """Write the weights at the end of the step, those put right that crossed zero."""
    for e in range(w.size):
        strength = lam[rows[e]]
        s = _sign(w[e], f[0, e], strength)
        pull = strength * s
        out[e] = 0.0
        if s != 0.0:
            end = w[e] + h * (_B1 * f[0, e] + _B2 * f[1, e] + _B3 * f[2, e] - pull)
            out[e] = _landed(w[e], end, f[0, e] - pull, f[0, e], f[2, e], s, strength, h)


@kernel
def judge(
    w: FloatArray, f: FloatArray, rows: IntArray, lam: FloatArray, h: float, out: FloatArray, work: FloatArray
) -> float:
    """Error estimate of a step, the largest of any encoding; weights that woke are moved in `out`.

    `work` has two places for each encoding.
    """
    work[:] = 0.0
    for e in range(w.size):
        s = _sign(w[e], f[0, e], lam[rows[e]])
        if s != 0.0:
            # lam*s drops out: the four coefficients add up to zero. A weight that was stopped at zero
            # counts too: a step far too long would throw all weights across it.
            work[0, rows[e]] += (_E1 * f[0, e] + _E2 * f[1, e] + _E3 * f[2, e] + _E4 * f[3, e]) ** 2
            work[1, rows[e]] += out[e] * out[e]
        else:
            out[e] = _woken(f[0, e], f[3, e], lam[rows[e]], h)
    worst = 0.0
    for i in range(lam.size):
        error = h * math.sqrt(work[0, i]) / max(1.0, math.sqrt(work[1, i]))
        if not error <= worst:  # so written that nan wins
            worst = error
    return worst


@kernel
def _packed_force(
    start: IntArray, rows: IntArray, w: FloatArray, G: FloatArray, square: FloatArray, out: FloatArray
) -> None:
    """Smooth force on the packed weights.

    Leaves the overlaps of pairs that share a neuron in G, above its diagonal, and square lengths in `square`.
    """
    square[:] = 0.0
    for e in range(rows.size):
        square[rows[e]] += w[e] * w[e]
    for e in range(rows.size):
        out[e] = (1.0 - square[rows[e]]) * w[e]
    for k in range(start.size - 1):
        for a in range(start[k], start[k + 1]):
            for b in range(a + 1, start[k + 1]):
                G[rows[a], rows[b]] = 0.0
    for k in range(start.size - 1):
        for a in range(start[k], start[k + 1]):
            for b in range(a + 1, start[k + 1]):
                G[rows[a], rows[b]] += w[a] * w[b]
    for k in range(start.size - 1):
        for a in range(start[k], start[k + 1]):
            for b in range(a + 1, start[k + 1]):
                overlap = max(G[rows[a], rows[b]], 0.0)
                out[a] -= overlap * w[b]
                out[b] -= overlap * w[a]


@kernel
def packed_run(
    start: IntArray,
    rows: IntArray,
    w: FloatArray,
    G: FloatArray,
    lam: float,
    meet: bool,
    t: float,
    until: float,
    h: float,
    tol: float,
    most: int,
    curve: float,
) -> tuple[float, float, float, int, int, int]:
    """Integrate the listed weights `w` in place till `until`, or for `most` steps; all others rest at zero.

    Returns the time reached, the next step's length, the last error over the cube of its step, the numbers of
    steps taken and rejected, and a code. Weights of neuron k: start[k]:start[k + 1].
    """
    if not meet:
        start = start[:1]  # no neuron on which to meet
    f, end = np.empty((4, w.size)), np.empty(w.size)
    work, strengths = np.empty((2, G.shape[0])), np.full(G.shape[0], lam)
    square = work[1]
    _packed_force(start, rows, w, G, square, f[0])
    steps, rejected, quiet = 0, 0, 0
    seen = w.copy()
    while t < until and steps + rejected < most:
        last = t + h >= until
        step = until - t if last else h
        move(w, f[0], f[0], rows, strengths, 0.5 * step, end)
        _packed_force(start, rows, end, G, square, f[1])
        move(w, f[0], f[1], rows, strengths, 0.75 * step, end)
        _packed_force(start, rows, end, G, square, f[2])
        arrive(w, f, rows, strengths, step, end)
        _packed_force(start, rows, end, G, square, f[3])
        error = judge(w, f, rows, strengths, step, end, work)
        if not error <= tol:
            rejected += 1
            h = next_step(step, error, tol, curve)[0]
            if not t + h > t:
                return t, h, curve, steps, rejected, TOO_FINE if math.isfinite(error) else NOT_FINITE
            continue
        steps += 1
        proposed, fresh = next_step(step, error, tol, curve)
        curve = max(curve, fresh) if last else fresh
        t = until if last else t + step
        h = max(h, proposed) if last else proposed
        w[:], f[0] = end, f[3]
        if step < LONGEST_STEP or proposed < LONGEST_STEP:
            quiet = 0
        elif quiet and np.all(w == seen):  # as in `march.dense_run`: these weights come back for ever
            t = until
        else:
            quiet += 1
            if quiet & (quiet - 1) == 0:
                seen[:] = w
    return t, h, curve, steps, rejected, ARRIVED

"""Losses of networks with hidden neurons that bend, compared with brute force over all patterns of features.

Two oracles share no code with the engine, nor with each other. In mpmath, for uniform values, a product of
two thresholded lines is a sum over vertices of the cube of truncated powers of two variables: at 600 digits,
with weights moved by 1e-32 so that no two directions are parallel. Derivatives are differences. `_nested`
integrates any density by Gauss points between the vertices of the arrangement of the box and the two
thresholds, the innermost integral in closed form.
"""

import itertools
from dataclasses import replace
from math import erf, pi, sqrt

import mpmath
import numba
import numpy as np
import pytest

from superposition.solvers.loss import evaluator
from superposition.solvers.loss.network import neuron_means
from superposition.solvers.loss.network.assemble import hidden_means, without_linear_pairs
from superposition.solvers.loss.network.relu_output import covers, linear_readout
from superposition.solvers.loss.problem import Law
from superposition.theory.features import Features
from superposition.theory.features.values import Values
from superposition.theory.model import Model

DIGITS, MOVED, STEP = 600, mpmath.mpf(10) ** -32, mpmath.mpf(10) ** -14


# --- Brute force in mpmath ----------------------------------------------------------------------------------


def _det(a, b):
    return a[0] * b[1] - a[1] * b[0]


def _truncated_power(x, directions):
    """Return the inverse Laplace transform of 1/prod(d s) at x, by partial fractions."""
    m, total = len(directions), mpmath.mpf(0)
    side = (mpmath.mpf(1), mpmath.mpf(10) / 9)
    directions = sorted(directions, key=lambda d: _det(side, d) / (d[0] * side[0] + d[1] * side[1]))
    first = directions[0]  # the outermost one
    for j in range(1, m):
        d = directions[j]
        base = _det(first, d)
        along, other = _det(x, d) / base, _det(first, x) / base
        if along > 0 and other > 0:
            coefficient = _det(d, first) ** (m - 2)
            for i in range(1, m):
                if i != j:
                    coefficient /= _det(d, directions[i])
            total += coefficient * along ** (m - 2) / mpmath.factorial(m - 2) / abs(base)
    return total


def _kinds(t):
    """Return the activation z 1(z > t) as coefficients of powers of 1/s."""
    return [(2, mpmath.mpf(1))] + ([(1, t)] if t else [])


def _of_uniform(one, two, p):
    """Return E h_1 h_2 of features uniform on [0, 1] if on; a neuron is (weights, bias, threshold)."""
    (u, b1, t1), (v, b2, t2) = one, two
    # All directions on one side: a feature that points to the other is turned round, v -> 1 - v.
    side = (mpmath.mpf(1), mpmath.mpf(10) / 9)
    ways = []
    for i in range(len(p)):
        d = (u[i] + MOVED * (i + 2), v[i] + MOVED * (3 * i + 7) ** 2)
        turned = d[0] * side[0] + d[1] * side[1] < 0
        back = (-d[0], -d[1]) if turned else d
        start = d if turned else (mpmath.mpf(0), mpmath.mpf(0))
        end = (start[0] + back[0], start[1] + back[1])
        ways.append([(1 - p[i], None, (0, 0)), (p[i], back, end), (-p[i], back, start)])
    total = mpmath.mpf(0)
    for choice in itertools.product(*ways):
        share = mpmath.fprod(c[0] for c in choice)
        if share == 0:
            continue
        x = b1 - t1 + sum(c[2][0] for c in choice), b2 - t2 + sum(c[2][1] for c in choice)
        for many1, size1 in _kinds(t1):
            for many2, size2 in _kinds(t2):
                fixed = [(mpmath.mpf(1), MOVED * k**2) for k in range(many1)]
                fixed += [(MOVED * (k + 1) * 5, mpmath.mpf(1)) for k in range(many2)]
                total += share * size1 * size2 * _truncated_power(x, fixed + [c[1] for c in choice if c[1]])
    return total


def _active(z, t):
    return z if z > t else mpmath.mpf(0)


def _of_binary(one, two, p):
    total = mpmath.mpf(0)
    for on in itertools.product((0, 1), repeat=len(p)):
        share = mpmath.fprod(q if o else 1 - q for q, o in zip(p, on, strict=True))
        z1 = one[1] + sum(x * o for x, o in zip(one[0], on, strict=True))
        z2 = two[1] + sum(x * o for x, o in zip(two[0], on, strict=True))
        total += share * _active(z1, one[2]) * _active(z2, two[2])
    return total


def _of_symmetric(one, two, p):
    """Return the same for v = 2 u - 1: each pattern by itself, as features that are on shift the sums."""
    total = mpmath.mpf(0)
    for on in itertools.product((0, 1), repeat=len(p)):
        share = mpmath.fprod(q if o else 1 - q for q, o in zip(p, on, strict=True))
        which = [i for i, o in enumerate(on) if o]
        moved = [([2 * w[i] for i in which], b - sum(w[i] for i in which), t) for w, b, t in (one, two)]
        total += share * _of_uniform(*moved, [mpmath.mpf(1)] * len(which))
    return total


PRODUCTS = {"uniform": _of_uniform, "binary": _of_binary, "symmetric": _of_symmetric}


def _network_loss(model, law, target, importance=None):
    """Return the loss in mpmath, from means of products of neurons and of the targets' halves."""
    product, values = PRODUCTS[str(law.values)], str(law.values)
    n, p, scale = law.n_features, [mpmath.mpf(float(q)) for q in law.p], law.scale
    U, beta, V, c, theta = model
    units = [([U[i][j] * scale[j] for j in range(n)], beta[i], theta[i]) for i in range(len(beta))]
    none = [mpmath.mpf(0)] * n

    def axis(j, sign):
        return [mpmath.mpf(sign * scale[j]) if k == j else mpmath.mpf(0) for k in range(n)], mpmath.mpf(0), 0

    one = none, mpmath.mpf(1), 0
    H = [[product(a, b, p) for b in units] for a in units]
    mean = [product(a, one, p) for a in units]
    up = [[product(a, axis(j, 1), p) for j in range(n)] for a in units]
    A, name = target
    signed = values == "symmetric"
    down = [[product(a, axis(j, -1), p) for j in range(n)] for a in units] if signed else None
    sign = {"identity": -1, "relu": 0, "abs": 1}[name]
    T = [[up[i][j] + (sign * down[i][j] if signed else 0) for j in range(n)] for i in range(len(units))]
    first = mpmath.mpf(1) / 2 if values == "uniform" else mpmath.mpf(1)
    second = mpmath.mpf(1) if values == "binary" else mpmath.mpf(1) / 3
    if signed:
        first = {"identity": 0, "relu": mpmath.mpf(1) / 4, "abs": mpmath.mpf(1) / 2}[name]
        second = second / 2 if name == "relu" else second
    m = [p[j] * first * scale[j] for j in range(n)]
    s = [p[j] * second * scale[j] ** 2 for j in range(n)]
    losses = []
    for k in range(len(c)):
        at = sum(A[k][j] * m[j] for j in range(n))
        loss = at**2 + sum(A[k][j] ** 2 * (s[j] - m[j] ** 2) for j in range(n)) + c[k] ** 2 - 2 * c[k] * at
        for i in range(len(units)):
            loss += 2 * c[k] * V[k][i] * mean[i]
            loss -= 2 * V[k][i] * sum(A[k][j] * T[i][j] for j in range(n))
            loss += sum(V[k][i] * V[k][j] * H[i][j] for j in range(len(units)))
        losses.append(loss)
    weights = law.importance if importance is None else importance
    return sum(mpmath.mpf(float(w)) * x for w, x in zip(weights, losses, strict=True)) / len(losses)


# --- Nested integrals ---------------------------------------------------------------------------------------


def _phi(x):
    return np.exp(-0.5 * x * x) / sqrt(2 * pi)


_erf = np.vectorize(erf)


def _normal_moments(low, high, centre):
    """Return integrals of v^r times the density of a normal value around `centre`, r = 0, 1, 2."""
    a, b = low - centre, high - centre
    m0 = 0.5 * (_erf(b / sqrt(2)) - _erf(a / sqrt(2)))
    m1 = _phi(a) - _phi(b)
    m2 = m0 + a * _phi(a) - b * _phi(b)
    return np.stack([m0, m1 + centre * m0, m2 + 2 * centre * m1 + centre**2 * m0])


def _exponential_moments(low, high):
    def tails(v):
        return np.exp(-v) * np.stack([np.ones_like(v), v + 1, v * v + 2 * v + 2])

    return tails(low) - tails(high)


# Panels from end to end, the density, its integrals, and an atom at 0.
DENSITIES = {
    "half-normal": (
        np.r_[0:9.5:1.0, 9.5], lambda v: 2 * _phi(v), lambda a, b: 2 * _normal_moments(a, b, 0.0), 0.0,
    ),
    "exponential": (
        np.r_[0:6:1.0, 6:16:2.0, 16:43:4.0], lambda v: np.exp(-v), _exponential_moments, 0.0,
    ),
    "normal": (np.r_[-9.5, -8:9:1.0, 9.5], _phi, lambda a, b: _normal_moments(a, b, 0.0), 0.0),
    "rectified-normal(2)": (
        np.r_[0:12:1.0], lambda v: _phi(v - 2), lambda a, b: _normal_moments(a, b, 2.0),
        0.5 * (1 + erf(-sqrt(2))),
    ),
}  # fmt: skip
GAUSS, GAUSS_WEIGHTS = np.polynomial.legendre.leggauss(22)


def _places(level, y, w, panels):
    """Return the coordinate `level` of the vertices of the arrangement of the box and both lines."""
    rows = y.shape[1]
    ends = panels[0], panels[-1]
    found = [np.tile(panels, (rows, 1))]
    corners = list(itertools.product(ends, repeat=level))
    for unit in range(2):
        if w[unit, level] != 0.0:
            for corner in corners:
                at = -(y[unit] + w[unit, :level] @ np.array(corner)) / w[unit, level]
                found.append(at[:, None])
            blur = np.abs(w[unit, :level]).max(initial=0.0) / abs(w[unit, level])
            if blur < 1.0:
                near = -y[unit] / w[unit, level]
                found.append(near[:, None] + blur * np.array([-12, -8, -4, -2, -1, 1, 2, 4, 8, 12.0]))
    for free in range(level):
        det = w[0, level] * w[1, free] - w[1, level] * w[0, free]
        if det != 0.0:
            for corner in itertools.product(ends, repeat=level - 1):
                full = np.insert(np.array(corner), free, 0.0)
                a, b = y[0] + w[0, :level] @ full, y[1] + w[1, :level] @ full
                found.append(((b * w[0, free] - a * w[1, free]) / det)[:, None])
    return np.sort(np.clip(np.concatenate(found, axis=1), *ends), axis=1)


def _on_together(w, b, t, values, first=None):
    """Return means over values that are all on: of h_1 h_2, and its derivatives by b, t and w."""
    panels, density, moments, _ = DENSITIES[values]
    k = w.shape[1]
    if k == 0:
        z = b * (b > t)
        on = np.where(b > t, 1.0, np.where((b == t) & (t == 0), 0.5, 0.0))
        return z[0] * z[1], np.array([on[0] * z[1], on[1] * z[0]]), np.zeros(2), np.zeros((2, 0))
    order = np.argsort(-np.minimum(abs(w[0]), abs(w[1])), kind="stable")
    if np.all(w[1] == 0) or np.all(w[0] == 0):
        order = np.argsort(-np.abs(w).max(axis=0), kind="stable")
    if first is not None:
        order = np.r_[first, np.delete(np.arange(k), first)]
    given, w = w, w[:, order]
    y, v, share = b[:, None].copy(), np.zeros((0, 1)), np.ones(1)
    for level in range(k - 1, 0, -1):
        places = _places(level, y - t[:, None], w, panels)
        step = 0.5 * np.diff(places, axis=1)[:, :, None]
        at = (places[:, :-1, None] + step * (1 + GAUSS)).reshape(len(share), -1)
        mass = (step * GAUSS_WEIGHTS).reshape(len(share), -1) * density(at)
        kept = (mass > 0).nonzero()
        y = y[:, kept[0]] + w[:, level, None] * at[kept]
        v = np.concatenate([at[kept][None], v[:, kept[0]]])
        share = share[kept[0]] * mass[kept]
    low, high, half = (
        np.full(share.size, panels[0]),
        np.full(share.size, panels[-1]),
        np.ones((2, share.size)),
    )
    by = np.full((2, share.size), -1)
    for unit in range(2):
        with np.errstate(divide="ignore", invalid="ignore"):
            at = (t[unit] - y[unit]) / w[unit, 0]
        if w[unit, 0] > 0:
            by[0][at > low] = unit
            low = np.maximum(low, at)
        elif w[unit, 0] < 0:
            by[1][at < high] = unit
            high = np.minimum(high, at)
        else:
            kink = (y[unit] == t[unit]) & (t[unit] == 0)  # the mean of both sides
            half[unit] = np.where(kink, 0.5, 1.0)
            low = np.where((y[unit] > t[unit]) | kink, low, np.inf)
    none = ~(low < high)
    low, high = np.where(none, 0.0, low), np.where(none, 0.0, high)
    m = moments(low, high) * share
    value = np.sum(y[0] * y[1] * m[0] + (y[0] * w[1, 0] + y[1] * w[0, 0]) * m[1] + w[0, 0] * w[1, 0] * m[2])
    by_b, by_t, by_w = np.zeros(2), np.zeros(2), np.zeros((2, k))
    for unit in range(2):
        o = 1 - unit
        one = half[unit] * (y[o] * m[0] + w[o, 0] * m[1])
        by_b[unit] += one.sum()
        by_w[unit, 0] += np.sum(half[unit] * (y[o] * m[1] + w[o, 0] * m[2]))
        by_w[unit, 1:] += v @ one
        for side, at in enumerate((low, high)):
            flux = (by[side] == unit) * ~none * share * density(at) * t[unit] / max(abs(w[unit, 0]), 1e-300)
            flux = flux * (y[o] + w[o, 0] * at)
            by_b[unit] += flux.sum()
            by_t[unit] -= flux.sum()
            by_w[unit, 0] += np.sum(flux * at)
            by_w[unit, 1:] += v @ flux
    by_w = by_w[:, np.argsort(order)]
    for unit in range(2):  # a threshold that the innermost value does not cross
        if first is None and w[unit, 0] == 0 and t[unit] > 0 and np.any(w[unit]):
            other = _on_together(given, b, t, values, int(np.argmax(np.abs(given[unit]))))
            by_b[unit], by_t[unit], by_w[unit] = other[1][unit], other[2][unit], other[3][unit]
    return value, by_b, by_t, by_w


def _nested(one, two, p, values):
    """Return E h_1 h_2 over all patterns, with derivatives by b, t (2,) and w (2, n)."""
    w, b, t = np.array([one[0], two[0]]), np.array([one[1], two[1]]), np.array([one[2], two[2]])
    n, atom = len(p), DENSITIES[values][3]
    total = [0.0, np.zeros(2), np.zeros(2), np.zeros((2, n))]
    for on in itertools.product((0, 1), repeat=n):  # 1: within the density
        share = np.prod([q if o else 1 - q + q * atom for q, o in zip(p, on, strict=True)])
        which = np.flatnonzero(on)
        part = _on_together(w[:, which], b, t, values)
        for k in range(3):
            total[k] = total[k] + share * part[k]
        total[3][:, which] += share * part[3]
    return total


def _nested_loss(model, law, A, name):
    """Return loss and gradient."""
    U, beta, V, c, theta = (np.asarray(one, float) for one in model)
    n, hidden, p, scale, values = law.n_features, beta.size, law.p, law.scale, str(law.values)
    units = [(U[i] * scale, beta[i], theta[i]) for i in range(hidden)]
    weights = law.importance / c.size if law.importance.size == c.size else np.ones(c.size) / c.size
    mean_v, square_v, down = law.values.moment(1), law.values.moment(2), 0.0
    if values == "normal":
        mean_v = {"identity": 0.0, "relu": 1 / sqrt(2 * pi), "abs": 2 / sqrt(2 * pi)}[name]
        square_v, down = (0.5 if name == "relu" else 1.0), {"identity": -1.0, "relu": 0.0, "abs": 1.0}[name]
    m, s = p * mean_v * scale, p * square_v * scale**2
    H = np.zeros((hidden, hidden))
    K = (V.T * weights) @ V
    by_U, by_beta, by_theta = np.zeros((hidden, n)), np.zeros(hidden), np.zeros(hidden)
    for i in range(hidden):
        for j in range(i, hidden):
            value, by_b, by_t, by_w = _nested(units[i], units[j], p, values)
            H[i, j] = H[j, i] = value
            share = K[i, j] * (1 if i == j else 2)
            for unit, side in ((i, 0), (j, 1)):
                by_U[unit] += share * by_w[side] * scale
                by_beta[unit] += share * by_b[side]
                by_theta[unit] += share * by_t[side]
    mean, T = np.zeros(hidden), np.zeros((hidden, n))
    g0, g = 2 * (V.T * weights) @ c, -2 * (V.T * weights) @ A
    for i in range(hidden):
        for j in range(-1, n):
            axis = np.zeros(n) if j < 0 else np.eye(n)[j] * scale
            value, by_b, by_t, by_w = _nested(units[i], (axis, 1.0 if j < 0 else 0.0, 0.0), p, values)
            if down and j >= 0:  # f(x) = x_+ + down (-x)_+
                other = _nested(units[i], (-axis, 0.0, 0.0), p, values)
                value, by_b = value + down * other[0], by_b + down * other[1]
                by_t, by_w = by_t + down * other[2], by_w + down * other[3]
            share = g0[i] if j < 0 else g[i, j]
            if j < 0:
                mean[i] = value
            else:
                T[i, j] = value
            by_U[i] += share * by_w[0] * scale
            by_beta[i] += share * by_b[0]
            by_theta[i] += share * by_t[0]
    at = A @ m
    loss = at**2 + A**2 @ (s - m**2) + c**2 - 2 * c * at + 2 * c * (V @ mean)
    loss += np.einsum("ki,ij,kj->k", V, H, V) - 2 * np.einsum("ki,il,kl->k", V, T, A)
    by_V = 2 * weights[:, None] * (V @ H - A @ T.T + np.outer(c, mean))
    by_c = 2 * weights * (c + V @ mean - at)
    return weights @ loss, {"W_in": by_U, "b_in": by_beta, "W_out": by_V, "b": by_c, "thresholds": by_theta}


# --- Networks -----------------------------------------------------------------------------------------------


def _drawn(rng, values, most=4, differ=False):
    """Return a random network of few features, its law and its target; degenerate ones among them."""
    n, hidden = int(rng.integers(1, most + 1)), int(rng.integers(1, most + 1))
    outputs = n if rng.random() < 0.7 else int(rng.integers(1, 4))
    p = rng.choice([0.02, 0.1, 0.4, 1.0]) if rng.random() < 0.5 else rng.uniform(0.01, 1.0, n)
    scale = 1.0 if rng.random() < 0.5 else rng.uniform(0.3, 3.0, n)
    importance = rng.uniform(0.5, 2.0, n) if rng.random() < 0.3 and outputs == n else 1.0
    if differ:
        p, scale, importance = rng.uniform(0.01, 1.0, n), rng.uniform(0.3, 3.0, n), rng.uniform(0.5, 2.0, n)
        outputs = n
    law = Features(n, p, values, scale, importance)
    U = rng.normal(size=(hidden, n))
    beta = rng.normal(size=hidden) * 0.4
    V, c = rng.normal(size=(outputs, hidden)) * 0.7, rng.normal(size=outputs) * 0.2
    theta = np.zeros(hidden)
    kind = rng.integers(6)
    if kind == 0:
        U[rng.integers(hidden)] = 0.0
    elif kind == 1:
        beta[:] = 0.0
        c[:] = 0.0
    elif kind == 2:
        U[:, rng.integers(n)] = 0.0
        beta[rng.integers(hidden)] = 0.0
    elif kind == 3 and hidden > 1:
        U[1] = -U[0] if rng.random() < 0.5 else 2.0 * U[0]  # parallel lines
        beta[1] = rng.choice([0.0, 0.3])
    elif kind == 4:
        U[rng.random(U.shape) < 0.5] = 0.0
    jumps = rng.random() < 0.3
    if jumps:
        theta = np.where(rng.random(hidden) < 0.8, rng.uniform(0.0, 0.6, hidden), 0.0)
    name = str(rng.choice(["identity", "relu", "abs"]))
    A = np.eye(n) if outputs == n and rng.random() < 0.7 else rng.normal(size=(outputs, n))
    network = Model(
        W_in=U, b_in=beta, hidden="jumprelu" if jumps else "relu", W_out=V, b=c, output="identity",
        thresholds=theta if jumps else None,
    )  # fmt: skip
    return network, law, (A, name)


def _numbers(network):
    theta = np.zeros(network.n_hidden) if network.thresholds is None else network.thresholds
    return [network.W_in, network.b_in, network.W_out, network.b, theta]


KEYS = ("W_in", "b_in", "W_out", "b", "thresholds")
LAWS = (*PRODUCTS, *DENSITIES)


def _in_mpmath(network):
    return [np.vectorize(lambda x: mpmath.mpf(float(x)), otypes=[object])(one) for one in _numbers(network)]


def _oracle(network, law, target, rng, some):
    """Return loss, and derivatives by some of the parameters with their places, of an oracle for the law."""
    values = str(law.values)
    if values in DENSITIES:
        loss, by = _nested_loss(_numbers(network), law, *target)
        return loss, [(key, place, by[key][place]) for key in KEYS for place in np.ndindex(by[key].shape)]
    importance = law.importance if law.importance.size == network.n_outputs else np.ones(network.n_outputs)
    with mpmath.workdps(DIGITS):
        given, A = (
            _in_mpmath(network),
            np.vectorize(lambda x: mpmath.mpf(float(x)), otypes=[object])(target[0]),
        )
        loss = _network_loss(given, law, (A, target[1]), importance)
        places = [(k, place) for k in range(5) for place in np.ndindex(given[k].shape)]
        if network.thresholds is None:
            places = [one for one in places if one[0] < 4]
        found = []
        for at in rng.permutation(len(places))[:some]:
            k, place = places[at]
            ends = []
            for sign in (1, -1):
                moved = [one.copy() for one in given]
                moved[k][place] += sign * STEP
                ends.append(_network_loss(moved, law, (A, target[1]), importance))
            found.append((KEYS[k], place, float((ends[0] - ends[1]) / (2 * STEP))))
        return float(loss), found


def _checked(network, law, target, rng, some=2):
    """Assert that loss and gradient agree to 1e-10, and that no error exceeds its estimate."""
    loss, slopes = _oracle(network, law, target, rng, some)
    found = evaluator(law)(network, gradient=True, target=target)
    about = (str(law.values), network, law, target, found.method)
    unit = float(np.mean(law.second_moment)) * max(1.0, float(np.sum(target[0] ** 2)))
    assert abs(found.loss - loss) <= 1e-10 * (loss + 1e-3 * unit), about
    assert abs(found.loss - loss) <= found.error_estimate + 1e-14 * abs(loss), about
    size = max(np.abs(one).max() for one in found.gradient.values())
    for key, place, wanted in slopes:
        if key == "thresholds" and (network.thresholds is None or network.thresholds[place] == 0.0):
            continue
        error = abs(found.gradient[key][place] - wanted)
        assert error <= 1e-10 * (size + unit), (key, place, wanted, about)
        assert error <= found.gradient_error.max() + 1e-14 * size, (key, place, wanted, about)


# Features and hidden neurons at most: what the oracles take a second for.
_FEW = {"uniform": 3, "symmetric": 3, "binary": 4} | dict.fromkeys(DENSITIES, 2)


@pytest.mark.parametrize("values", LAWS)
def test_loss_and_gradient_agree_with_brute_force(values):
    for seed in range(3):
        rng = np.random.default_rng([seed, LAWS.index(values)])
        _checked(*_drawn(rng, values, _FEW[values]), rng)


@pytest.mark.slow
@pytest.mark.parametrize("values", [*LAWS, "features that differ"])
def test_loss_and_gradient_of_300_networks_agree_with_brute_force(values):
    differ = values == "features that differ"
    for seed in range(38):
        rng = np.random.default_rng([7, seed, len(values)])
        law = LAWS[seed % len(LAWS)] if differ else values
        _checked(*_drawn(rng, law, 3 if law in DENSITIES else 4, differ), rng)


def _random(rng, n, hidden, outputs=None, sparse=1.0, jumps=False):
    """Return a network of ordinary sizes; each neuron has a share `sparse` of the features."""
    outputs = outputs or n
    U = (
        rng.normal(size=(hidden, n))
        * (rng.random((hidden, n)) < sparse)
        / np.sqrt(max(1.0, 0.1 * n * sparse))
    )
    V, c = rng.normal(size=(outputs, hidden)) / np.sqrt(hidden), 0.05 * rng.normal(size=outputs)
    return Model(
        W_in=U, b_in=0.1 * rng.normal(size=hidden), hidden="jumprelu" if jumps else "relu", W_out=V, b=c,
        output="identity", thresholds=rng.uniform(0.0, 0.2, hidden) if jumps else None,
    )  # fmt: skip


@pytest.mark.parametrize(
    "values", ["uniform", "symmetric", "normal", pytest.param("exponential", marks=pytest.mark.slow)]
)
def test_sums_over_frequencies_agree_with_exact_integrals(values, monkeypatch):
    rng = np.random.default_rng(len(values))
    law, target = Features(4, [0.1, 0.2, 0.05, 0.3], values), (np.eye(4), "relu")
    network = _random(rng, 4, 2)
    network = replace(network, W_in=network.W_in * [[1, 1, 1, 0], [1, 1, 0, 1]])
    exact = evaluator(law)(network, gradient=True, target=target)
    assert exact.method == "boxes"
    for few in ("FEW", "FEW_TARGETS"):
        monkeypatch.setattr(neuron_means, few, {True: 0, False: 0})
    monkeypatch.setattr(neuron_means, "FEW_NORMAL", 0)
    for tol in (1e-3, 1e-5):
        found = evaluator(law, tol=tol)(network, gradient=True, target=target)
        assert found.method == "lattice of pairs"
        assert abs(found.loss - exact.loss) <= found.error_estimate + exact.error_estimate
        for key, by in exact.gradient.items():
            assert np.abs(found.gradient[key] - by).max() <= found.gradient_error.max() + 1e-12, key


@pytest.mark.parametrize(
    "values",
    ["half-normal", "symmetric", "exponential", pytest.param("rectified-normal(2)", marks=pytest.mark.slow)],
)
def test_neurons_that_are_nearly_parallel_have_no_images_in_their_sums(values, monkeypatch):
    """Values beyond the period of both neurons at once count with the square of a neuron's weight."""
    rng = np.random.default_rng(1)
    w = rng.normal(size=3)
    law = Law(Features(3, 0.3, values))
    setting = neuron_means.NeuronContext.of(law, "identity", 1e-6, 1e7)
    one, two = (
        neuron_means.HiddenNeuron(setting, scale * w, b, 0.0) for scale, b in ((1.0, 0.1), (1.1, -0.2))
    )
    exact = [neuron_means.pair_means(one, other, False) for other in (one, two)]
    for few in ("FEW", "FEW_TARGETS"):
        monkeypatch.setattr(neuron_means, few, {True: 0, False: 0})
    for other, wanted in zip((one, two), exact, strict=True):
        found = neuron_means.pair_means(one, other, False)
        assert (wanted.method, found.method) == ("boxes", "lattice of pairs")
        assert abs(found.value - wanted.value) <= found.off
        assert found.off < 1e-4


def test_a_neuron_of_one_feature_has_a_stated_error_beside_one_of_many():
    """What the other is off by counts with a bound of the neuron's size, which nothing else asks for here."""
    rng, n = np.random.default_rng(4), 30
    W_in = np.stack([np.eye(n)[0], rng.normal(size=n) * (np.arange(n) < 9)])
    found = evaluator(Features(n, 0.1), tol=1e-6)(Model(W_in, hidden="relu", output="identity"))
    assert found.error_estimate < 1e-5 * found.loss


@pytest.mark.parametrize("values", DENSITIES)
def test_integrals_behind_small_weights_have_as_many_nodes_as_they_need(values):
    """Behind a small weight the mean over one value changes as fast with the next as the weights differ."""
    w, p = np.array([[0.0520889, 0.94496851], [-0.87846804, -0.0287607]]), np.array([0.4, 0.3])
    setting = neuron_means.NeuronContext.of(Law(Features(2, p, values)), "identity", 1e-12, 1e7)
    for b in ([0.0, 0.0], [0.02, -0.7], [-0.3, 0.4]):
        units = [neuron_means.HiddenNeuron(setting, *one, 0.0) for one in zip(w, b, strict=True)]
        found = neuron_means.pair_means(*units, True)
        value, by_b, _, by_w = _nested((w[0], b[0], 0.0), (w[1], b[1], 0.0), p, values)
        assert abs(found.value - value) <= found.off
        assert np.abs(found.by_b - by_b).max() <= found.slope_error
        assert np.abs(found.by_w - by_w).max() <= found.slope_error


def _sampled(network, law, name, samples, rng, block=20_000):
    """Return mean and standard error of the loss over samples."""
    of = {"identity": lambda x: x, "relu": lambda x: np.maximum(x, 0.0), "abs": np.abs}[name]
    total, squares, done = 0.0, 0.0, 0
    while done < samples:
        x = law.sample(block, rng)
        each = np.mean(law.importance * (of(x) - network(x)) ** 2, axis=1)
        total, squares, done = total + each.sum(), squares + np.sum(each**2), done + block
    mean = total / done
    return mean, np.sqrt((squares / done - mean**2) / done)


def _of_many_features(seed):
    """Return a network of 20 to 100 features, its law and its target."""
    rng = np.random.default_rng([11, seed])
    n, hidden = int(rng.integers(20, 101)), int(rng.integers(2, 7))
    values = LAWS[seed % len(LAWS)]
    p = float(rng.choice([0.01, 0.05, 0.2])) if rng.random() < 0.5 else rng.uniform(0.01, 0.1, n)
    scale = 1.0 if rng.random() < 0.5 else rng.uniform(0.5, 2.0, n)
    network = _random(rng, n, hidden, None, rng.choice([0.1, 1.0]), rng.random() < 0.2)
    name = str(rng.choice(["identity", "relu", "abs"]))
    return network, Features(n, p, values, scale), name


@pytest.mark.parametrize("seed", range(3))
def test_losses_of_many_features_agree_with_samples(seed):
    """By chance one in 5e4 runs of these three fails: 4.5 standard errors."""
    network, law, name = _of_many_features(seed)
    found = evaluator(law, tol=1e-5)(network, target=name)
    mean, error = _sampled(network, law, name, 200_000, np.random.default_rng(seed))
    assert abs(found.loss - mean) <= found.error_estimate + 4.5 * error
    assert found.error_estimate < error


KINDS = ("binary", "uniform", "symmetric", "exponential", "normal", "half-normal", "rectified-normal(2)")


@numba.njit
def _value(rng, kind):
    """Return the value of a feature that is on."""
    if kind == 0:
        return 1.0
    if kind < 3:
        return rng.random() if kind == 1 else 2.0 * rng.random() - 1.0
    if kind == 3:
        return -np.log(1.0 - rng.random())
    v = rng.normal()
    return v if kind == 4 else (abs(v) if kind == 5 else max(v + 2.0, 0.0))


@numba.njit
def _on(rng, p, most, step, at):
    """Write down which features are on, and return how many: a walk at `most`, thinned to their own p."""
    count, i = 0, -1
    while True:
        i += 1 + int(np.log(1.0 - rng.random()) * step)
        if i >= p.size:
            return count
        if p[i] == most or rng.random() * most < p[i]:
            at[count] = i
            count += 1


@numba.njit
def _of_neurons(h, theta, K, g):
    """Put out the neurons below their thresholds, and return h K h + g h."""
    loss = 0.0
    for i in range(h.size):
        if h[i] > theta[i]:
            loss += h[i] * (g[i] + K[i, i] * h[i])
            for j in range(i):
                loss += 2.0 * h[i] * K[i, j] * h[j]
        else:
            h[i] = 0.0
    return loss


@numba.njit
def _drawn_losses(rng, samples, kind, name, p, scale, weights, U, beta, theta, V, c):
    """Return sum and sum of squares of `samples` losses, drawing only the features that are on.

    A loss is the sum of importance times (t - V h - c)^2, with its square expanded, so that features that are
    off cost nothing.
    """
    most, U = p.max(), np.ascontiguousarray(U.T)
    step = 1.0 / np.log1p(-most)
    W = np.ascontiguousarray(V.T) * weights
    K, g, always = W @ V, 2.0 * (W @ c), np.sum(weights * c**2)
    at, targets = np.zeros(p.size, np.int64), np.zeros(p.size)
    total, squares, done = 0.0, 0.0, 0
    while done < samples:
        part, part_squares, block = 0.0, 0.0, min(100_000, samples - done)
        for _ in range(block):
            h = beta.copy()
            count = _on(rng, p, most, step, at)
            for m in range(count):
                i = at[m]
                v = scale[i] * _value(rng, kind)
                for j in range(h.size):
                    h[j] += U[i, j] * v
                targets[m] = v if name == 0 else (max(v, 0.0) if name == 1 else abs(v))
            loss = always + _of_neurons(h, theta, K, g)
            for m in range(count):
                k = at[m]
                y = c[k]
                for j in range(h.size):
                    y += V[k, j] * h[j]
                loss += weights[k] * targets[m] * (targets[m] - 2.0 * y)
            part += loss
            part_squares += loss * loss
        total, squares, done = total + part, squares + part_squares, done + block
    return total, squares


def _many_samples(network, law, name, samples, seed):
    """Return mean and standard error of the loss, as `_sampled` does, some hundred times as fast."""
    U, beta, V, c, theta = (np.ascontiguousarray(one, float) for one in _numbers(network))
    kind, of = KINDS.index(str(law.values)), ("identity", "relu", "abs").index(name)
    total, squares = _drawn_losses(
        np.random.default_rng(seed),
        samples,
        kind,
        of,
        law.p,
        law.scale,
        law.importance / c.size,
        U,
        beta,
        theta,
        V,
        c,
    )
    mean = total / samples
    return mean, np.sqrt(max(squares / samples - mean**2, 0.0) / samples)


@pytest.mark.slow  # as the test that samples the second way
def test_both_ways_to_sample_agree():
    """Seven laws; by chance one in 2e4 runs fails: 4.5 standard errors."""
    for seed in range(7):
        network, law, name = _of_many_features(seed)
        mean, error = _sampled(network, law, name, 100_000, np.random.default_rng([2, seed]))
        other, off = _many_samples(network, law, name, 1_000_000, seed)
        assert abs(mean - other) <= 4.5 * np.hypot(error, off), seed


@pytest.mark.slow
@pytest.mark.parametrize("first", range(7))
def test_losses_of_60_networks_of_many_features_agree_with_samples(first):
    """By chance one in 260 runs of all 60 fails: 4 standard errors each (two-sided 6.3e-5, times 60).

    The first of each law has 10^8 samples, the others 10^7.
    """
    for seed in range(first, 60, 7):
        network, law, name = _of_many_features(seed)
        found = evaluator(law, tol=1e-6)(network, target=name)
        mean, error = _many_samples(network, law, name, 10**8 if seed == first else 10**7, 1000 + seed)
        deviation, own = (found.loss - mean) / error, found.error_estimate / error
        assert abs(deviation) <= own + 4.0, (seed, law)
        # Sums over frequencies of jumps of a law of atoms converge slowly, and say so.
        assert own < (20.0 if network.thresholds is not None and law.values.discrete else 1.0), (seed, law)


# --- Without a nonlinearity, groups -------------------------------------------------------------------------

GROUPS = Features(
    4,
    [0.3, 0.2, 0.2, 0.1],
    groups=[([1, 2], [[1, 1], [1, 0], [0, 0]], [0.2, 0.3, 0.5])],
    scale=[1.0, 2.0, 1.0, 0.5],
)
PAIRS = Features(5, [0.3, 0.2, 0.2, 0.1, 0.4], "symmetric", exactly=2)


@pytest.mark.parametrize("law", [Features(5, 0.2, "exponential", [1.0, 2.0, 1.0, 0.5, 1.0]), GROUPS, PAIRS])
def test_linear_hidden_neurons_have_the_numbers_of_the_existing_engine(law):
    rng = np.random.default_rng(5)
    n = law.n_features
    W_in, W_out = rng.normal(size=(2, n)), rng.normal(size=(n, 2))
    linear = Model(W_in, 0.1, W_out=W_out, b=0.2, output="identity")
    f = evaluator(law)
    one, other = (f(linear, gradient=True, target=target) for target in ("identity", np.eye(n)))
    assert other.method == "second moments" != one.method
    assert other.loss == pytest.approx(one.loss, rel=1e-13)
    np.testing.assert_allclose(other.per_feature, one.per_feature, rtol=1e-12)
    for key in ("W_in", "W_out", "b_in", "b"):
        np.testing.assert_allclose(other.gradient[key], one.gradient[key], atol=1e-13)


@pytest.mark.parametrize(
    "law", [Features(4, [0.3, 0.1, 0.6, 1.0], "symmetric", [1, 2, 0.5, 1]), PAIRS, GROUPS]
)
@pytest.mark.parametrize("name", ["identity", "relu", "abs"])
def test_a_linear_part_of_the_targets_is_one_of_the_outputs(law, name):
    """Outputs y - B x for targets t are y for t + B x: two more neurons for each feature compute B x."""
    rng, n = np.random.default_rng(9), law.n_features
    network, A, B = _random(rng, n, 2, 3), rng.normal(size=(3, n)), rng.normal(size=(3, n))
    ends = np.concatenate([np.eye(n), -np.eye(n)])
    wide = replace(
        network, W_in=np.concatenate([network.W_in, ends]), b_in=np.r_[network.b_in, np.zeros(2 * n)],
        W_out=np.concatenate([network.W_out, -B, B], axis=1),
    )  # fmt: skip
    f = evaluator(law)
    found, other = f(network, gradient=True, target=(A, name, B)), f(wide, gradient=True, target=(A, name))
    np.testing.assert_allclose(found.per_feature, other.per_feature, rtol=1e-11)
    for key, by in found.gradient.items():
        whole = other.gradient[key]
        part = whole[:, :2] if key == "W_out" else whole[: len(by)]
        np.testing.assert_allclose(by, part, atol=1e-11, err_msg=key)
    # Without a gradient such neurons are found, and left out of the sums.
    assert f(wide, target=(A, name)).loss == pytest.approx(other.loss, rel=1e-11)
    rest, linear = without_linear_pairs(wide)
    np.testing.assert_array_equal(rest.W_in, network.W_in)
    np.testing.assert_array_equal(linear, -B)
    flat = Model(np.zeros((1, n)), W_out=np.zeros((3, 1)), b=network.b, output="identity")
    skip = replace(wide, W_in=ends, b_in=0.0, W_out=np.concatenate([B, -B], axis=1))
    assert f(skip, target=(A, name, B)).loss == pytest.approx(f(flat, target=(A, name)).loss, rel=1e-11)


def test_neurons_that_are_nearly_linear_together_are_kept():
    model = Model([[1.0, 0.5], [-1.0, -0.5]], hidden="relu", W_out=[[1.0, -1.0]], output="identity")
    assert without_linear_pairs(model)[1] is not None
    for other in (
        replace(model, b_in=[0.0, 1e-9]), replace(model, W_in=[[1.0, 0.5], [-1.0, 0.5]]),
        replace(model, W_out=[[1.0, 1.0]]), replace(model, hidden="jumprelu", thresholds=0.0),
    ):  # fmt: skip
        assert without_linear_pairs(other) == (other, None)


@pytest.mark.parametrize(
    "law", [Features(3, [0.1, 0.4, 1.0]), Features(3, 0.3, "half-normal"), GROUPS, PAIRS]
)
def test_neurons_that_are_always_on_are_linear(law):
    rng = np.random.default_rng(6)
    n = law.n_features
    W_in, V, c = rng.uniform(0.0, 0.3, (2, n)), rng.normal(size=(n, 2)), rng.normal(size=n)
    bends = Model(W_in, 2.0, "relu", V, c, "identity")
    linear = Model(W_in, 2.0, W_out=V, b=c, output="identity")
    a, b = (evaluator(law)(one, gradient=True) for one in (bends, linear))
    assert a.loss == pytest.approx(b.loss, rel=1e-12)
    assert a.method == "boxes"
    for key in ("W_in", "W_out", "b_in", "b"):
        np.testing.assert_allclose(a.gradient[key], b.gradient[key], atol=1e-12)


@pytest.mark.parametrize(("law", "name"), [(GROUPS, "identity"), (PAIRS, "abs"), (PAIRS, "relu")])
def test_groups_are_mixtures_of_patterns(law, name):
    """Given its pattern a law has independent features, each always on: so the loss is a mean of such."""
    rng = np.random.default_rng(8)
    n = law.n_features
    network = _random(rng, n, 3)
    if law is GROUPS:
        rows = [(a, *pair, d) for a in (0, 1) for pair in ((1, 1), (1, 0), (0, 0)) for d in (0, 1)]
        table = {(1, 1): 0.2, (1, 0): 0.3, (0, 0): 0.5}
        chances = [(0.3 if r[0] else 0.7) * table[r[1:3]] * (0.1 if r[3] else 0.9) for r in rows]
    else:
        p = [0.3, 0.2, 0.2, 0.1, 0.4]
        rows = [r for r in itertools.product((0, 1), repeat=n) if sum(r) == 2]
        chances = [np.prod([q if o else 1 - q for q, o in zip(p, r, strict=True)]) for r in rows]
        chances = np.array(chances) / np.sum(chances)
    total, by = 0.0, {"W_in": 0.0, "b_in": 0.0, "W_out": 0.0, "b": 0.0}
    for row, chance in zip(rows, chances, strict=True):
        which = np.flatnonzero(row)
        A = np.eye(n)[:, which]
        given = replace(network, W_in=network.W_in[:, which] if which.size else np.zeros((3, 1)))
        if not which.size:
            total += chance * np.mean(network(np.zeros(n)) ** 2)
            h = np.maximum(network.b_in, 0.0)
            y = 2.0 / n * network(np.zeros(n))
            back = (network.W_out.T @ y) * (network.b_in > 0.0)
            parts = {"b_in": back, "W_out": np.outer(y, h), "b": y}
        else:
            one = Features(which.size, 1.0, law.values, law.scale[which])
            found = evaluator(one)(given, gradient=True, target=(A, name))
            total += chance * found.loss
            W_in = np.zeros((3, n))
            W_in[:, which] = found.gradient["W_in"]
            parts = dict(found.gradient) | {"W_in": W_in}
        for key, part in parts.items():
            by[key] = by[key] + chance * part
    found = evaluator(law)(network, gradient=True, target=name)
    assert found.loss == pytest.approx(total, rel=1e-12)
    for key, part in by.items():
        np.testing.assert_allclose(found.gradient[key], part, atol=1e-12, err_msg=key)


def test_means_of_hidden_neurons():
    """Two neurons, x_0 and x_0 - x_1, of two features that are always on."""
    network = Model([[1.0, 0.0], [1.0, -1.0]], hidden="relu", W_out=np.eye(2), output="identity")
    found = hidden_means(network, Law(Features(2, 1.0)))
    np.testing.assert_allclose(found.active, [1.0, 0.5], rtol=1e-14)
    np.testing.assert_allclose(found.mean, [1 / 2, 1 / 6], rtol=1e-14)
    np.testing.assert_allclose(found.products, [[1 / 3, 1 / 8], [1 / 8, 1 / 12]], rtol=1e-14)
    np.testing.assert_allclose(found.by_targets, [[1 / 3, 1 / 4], [1 / 8, 1 / 24]], rtol=1e-14)
    assert found.errors.max() < 1e-12
    assert found.unit_errors.max() < 1e-12


# --- Outputs that pass a ReLU -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_outputs_that_read_one_direction_are_linear_readouts_of_other_neurons(seed):
    rng = np.random.default_rng([12, seed])
    n, hidden = rng.integers(1, 5, 2)
    W_in = np.outer(rng.normal(size=hidden) * (rng.random(hidden) < 0.9), rng.normal(size=n))
    b_in = rng.normal(size=hidden) * (rng.random(hidden) < 0.7)
    W_out = rng.normal(size=(3, hidden)) * (rng.random((3, hidden)) < 0.8)
    model = Model(W_in, b_in, "relu", W_out, rng.normal(size=3), "relu")
    assert covers(model)
    x = 3.0 * rng.normal(size=(100, n))
    for k in range(3):
        np.testing.assert_allclose(linear_readout(model, k)(x)[:, 0], model(x)[:, k], atol=1e-12)


@pytest.mark.parametrize(("turn", "is_covered"), [(0.0, True), (1e-9, False)])
def test_neurons_of_nearly_one_direction_have_two(turn, is_covered):
    model = Model([[1.0, 2.0], [1.0, 2.0 + turn]], 0.1, "relu", [[1.0, -1.0]], 0.0, "relu")
    assert covers(model) == is_covered


@pytest.mark.parametrize(
    "values", ["symmetric", "binary", pytest.param("exponential", marks=pytest.mark.slow)]
)
def test_losses_of_outputs_that_pass_a_relu_agree_with_samples(values):
    """By chance one in 5e4 runs of these three fails: 4.5 standard errors."""
    rng, n = np.random.default_rng(len(values)), 8
    directions, which = rng.normal(size=(2, n)), np.array([0, 0, 1, 1])
    W_out = rng.normal(size=(n, 4)) * (which == rng.integers(2, size=n)[:, None])
    model = Model(directions[which] * [[1], [-2], [1], [0.5]], 0.3 * rng.normal(size=4), "relu", W_out, -0.1)
    law = Features(n, rng.uniform(0.05, 0.3, n), values, importance=rng.uniform(0.5, 2.0, n))
    found = evaluator(law, tol=1e-4)(model, target="abs")
    x = law.sample(200_000, rng)
    each = np.mean(law.importance * (np.abs(x) - model(x)) ** 2, axis=1)
    error = each.std() / np.sqrt(each.size)
    assert abs(found.loss - each.mean()) <= found.error_estimate + 4.5 * error
    assert found.error_estimate < error
    assert found.loss == pytest.approx(np.mean(law.importance * found.per_feature))


# --- Bad input ----------------------------------------------------------------------------------------------

TWO = Model(np.eye(2), hidden="relu", output="identity")


def test_laws_without_what_is_needed_are_refused_by_name():
    plain = {"moment": lambda k: 1.0, "draw": lambda rng, size: np.ones(size)}
    law = Features(2, 0.1, Values("one", (1.0, 1.0), **plain, atoms=[(1.0, 1.0)]))
    with pytest.raises(ValueError, match="`law` must be values with a transform; got 'one'"):
        evaluator(law)(TWO)
    with pytest.raises(ValueError, match=r"`model` must have hidden neurons that bend: .*; got 'identity'"):
        hidden_means(Model(np.eye(2)), Law(Features(2, 0.1)))
    lopsided = [(-1.0, 0.0, [0.3]), (0.0, 1.0, [0.7])]
    law = Features(
        2, 0.1, Values("lopsided", (-1.0, 1.0), **plain, pieces=lopsided, transform=lambda z: (z, z, z))
    )
    with pytest.raises(ValueError, match="`target` must be 'identity' for 'lopsided' values"):
        evaluator(law)(TWO, target="relu")


def test_a_neuron_that_hardly_moves_at_its_threshold():
    """The neuron z 1(z > t) is (z - t)_+ + t 1(z > t), from the same weights a million times as large."""
    W, small, t = np.random.default_rng(5).normal(size=(2, 7)), 1e-6, 0.65
    given = {"b_in": t - 0.1 * small, "hidden": "jumprelu", "thresholds": t, "output": "identity"}
    law = Law(Features(7, 0.2))
    near = hidden_means(Model(small * W, **given), law, tol=1e-6)
    plain = hidden_means(Model(W, b_in=-0.1, hidden="relu", output="identity"), law, tol=1e-6)
    assert near.active == pytest.approx(plain.active, abs=1e-5)
    assert near.mean == pytest.approx(small * plain.mean + t * plain.active, abs=1e-5)
    off = np.abs(near.mean - small * plain.mean - t * plain.active)
    assert np.all(off <= near.unit_errors + t * plain.unit_errors)

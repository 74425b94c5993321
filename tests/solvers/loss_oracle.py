"""The loss of one output by all patterns of features, at all digits of the numbers that are given.

The losses of bounded values are sums over the corners of cubes in exact fractions, those of exponential and
normal values have a closed form. Those of half-normal and rectified normal ones are integrals along a ray, by
Gauss points at 32 digits, to whose transforms all patterns add.
"""

from fractions import Fraction
from functools import cache
from itertools import product
from math import factorial

import numpy as np
from mpmath import mp, mpc, mpf

from superposition.theory.features.values import law_named

from ..oracles import patterns

DIGITS = 32
BOUNDED = ("uniform", "binary", "symmetric", "uniform(0.5)", "uniform(-0.25)")
CLOSED = ("exponential", "normal")
RAYS = ("half-normal", "rectified-normal")


# --- Values with bounds, in fractions ----------------------------------------------------------------------


def ramps(weights, shift, most):
    """Return E (shift + sum_j weights_j u_j)_+^k over uniform u for k = 1, ..., most."""
    weights = [w for w in weights if w]
    sums, volume = [Fraction(0)] * most, Fraction(1)
    for corner in product((0, 1), repeat=len(weights)):
        y = shift + sum((w for w, on in zip(weights, corner, strict=True) if on), Fraction(0))
        if y > 0:
            sign = (-1) ** (len(weights) - sum(corner))
            for k in range(most):
                sums[k] += sign * y ** (k + 1 + len(weights))
    for w in weights:
        volume *= w
    return [
        total * factorial(k + 1) / factorial(k + 1 + len(weights)) / volume for k, total in enumerate(sums)
    ]


def cube_loss(others, a, shift, target):
    """Return E (x - R)^2 with R = ReLU(a u + shift + others.u), x = target[0] + target[1] u."""
    start, length = target
    square = start * start + start * length + length * length / 3
    if a == 0:
        first, second = ramps(others, shift, 2)
        return square - 2 * (start + length / 2) * first + second
    low, high = ramps(others, shift, 3), ramps(others, a + shift, 3)
    first = (high[1] - low[1]) / (2 * a)  # E R
    second = (high[2] - low[2]) / (3 * a)  # E R^2
    times = (high[1] - second) / (2 * a)  # E u R, by parts
    return square - 2 * start * first - 2 * length * times + second


def by_corners(values, row, scale, i, b, found):
    """Return the loss of one output of values with bounds."""
    total, g = Fraction(0), [w * s for w, s in zip(row, scale, strict=True)]
    for on, chance in found:
        if values == "binary":
            y = b + sum((x for x, there in zip(g, on, strict=True) if there), Fraction(0))
            total += chance * (on[i] * scale[i] - max(y, 0)) ** 2
            continue
        low = Fraction(law_named("values", values).support[0])
        width = 1 - low
        shift = b + sum((low * x for x, there in zip(g, on, strict=True) if there), Fraction(0))
        others = [width * x for j, (x, there) in enumerate(zip(g, on, strict=True)) if there and j != i]
        a, target = (
            (width * g[i], (low * scale[i], width * scale[i])) if on[i] else (Fraction(0), 2 * (Fraction(0),))
        )
        total += chance * cube_loss(others, a, shift, target)
    return total


# --- Values without bounds, in closed form -----------------------------------------------------------------


def hypoexponential(weights, b, power):
    """Return E (b + sum_j weights_j v_j)_+^power over exponential v, by partial fractions; power 1 or 2."""
    if b > 0:  # y^2 = y_+^2 + (-y)_+^2, and y = y_+ - (-y)_+
        mean = b + sum(weights)
        other = hypoexponential([-w for w in weights], -b, power)
        return mean + other if power == 1 else mean**2 + sum(w * w for w in weights) - other
    # ties are moved apart, by less than what the digits of doubles could show
    apart = [w * (1 + (k + 1) * mpf(10) ** -40) for k, w in enumerate(weights) if w]
    total = mpf(0)
    for k, w in enumerate(apart):
        if w > 0:
            share = mp.fprod(w / (w - other) for j, other in enumerate(apart) if j != k)
            total += share * power * w**power * mp.exp(b / w)
    return total


def closed(values, row, scale, i, b, found):
    """Return the loss of one output; E v R(y) has a further v in y if v is exponential, else it is E R'."""
    total = mpf(0)
    for on, chance in found:
        g = [w * s for w, s, one in zip(row, scale, on, strict=True) if one]
        own = row[i] * scale[i]
        if values == "exponential":
            square, times = hypoexponential(g, b, 2), hypoexponential([*g, own], b, 1) if on[i] else 0
        else:
            sd = mp.sqrt(sum(x * x for x in g))
            above = mp.ncdf(b / sd) if sd else mpf(b > 0)
            square = (b * b + sd * sd) * above + (b * sd * mp.npdf(b / sd) if sd else 0)
            times = own * above
        second = 2 if values == "exponential" else 1
        total += chance * (square - on[i] * (2 * scale[i] * times - second * scale[i] ** 2))
    return total


# --- Values without bounds, along a ray --------------------------------------------------------------------


@cache
def gauss_points():
    """Return 20 nodes and weights on [0, 1] at 50 digits."""
    with mp.workdps(50):
        n, found = 20, []
        for node in np.polynomial.legendre.leggauss(n)[0]:
            x = mpf(float(node))
            for _ in range(3):  # Newton's method, from 16 digits on
                value = mp.legendre(n, x)
                slope = n * (x * value - mp.legendre(n - 1, x)) / (x * x - 1)
                x -= value / slope
            found.append(((1 + x) / 2, 1 / ((1 - x * x) * slope**2)))
        return found


def half_line(z):
    """Return e^(z^2/2) erfc(-z/sqrt 2), which is E e^(z |N|), and its derivative."""
    root = mp.sqrt(2 / mp.pi)
    if abs(z) < 14:
        value = mp.exp(z * z / 2) * mp.erfc(-z / mp.sqrt(2))
        return value, z * value + root
    term, value, slope = -root / z, mpc(0), mpc(0)  # e^(z^2/2) is below e^-65 where it is not cancelled
    for k in range(60):
        value, slope = value + term, slope - (2 * k + 1) * term / z
        term *= -(2 * k + 1) / (z * z)
        if abs(term) < mpf(10) ** -DIGITS * abs(value):
            break
    return value, slope


def spread(values):
    """Return the probability that a value is 0, the rest of its transform with its slope, and two moments."""
    if values == "exponential":
        return mpf(0), lambda z: (1 / (1 - z), 1 / (1 - z) ** 2), mpf(1), mpf(2)
    if values == "normal":

        def bell(z):
            value = mp.exp(z * z / 2) if (z * z).real > -400 else mpc(0)
            return value, z * value

        return mpf(0), bell, mpf(0), mpf(1)
    if values == "half-normal":
        return mpf(0), half_line, mp.sqrt(2 / mp.pi), mpf(1)
    ratio = mpf(repr(values.shape) if hasattr(values, "shape") else 1)
    share = mp.exp(-ratio * ratio / 2) / 2

    def cut(z):
        value, slope = half_line(z + ratio)
        return share * value, share * slope

    above, height = mp.ncdf(ratio), mp.npdf(ratio)
    return 1 - above, cut, ratio * above + height, (ratio**2 + 1) * above + ratio * height


def transform(on, i, parts, turned, none, mean):
    """Return the transform of y without its atom, and that of x_i y likewise, over the scale of feature i."""
    far, all_off, mine, my_atom = mpc(0), mpf(1), mpc(0), mpf(0)
    for j, (value, slope) in enumerate(parts):
        if on[j] and turned[j]:
            if j == i:
                mine = slope * (far + all_off)
            else:
                mine, my_atom = mine * (none + value) + my_atom * value, my_atom * none
            far, all_off = far * (none + value) + all_off * value, all_off * none
        elif on[j] and j == i:
            mine, my_atom = mean * far, mean * all_off
    return far, mine


def mirrored(row_scale, scale, i, b, found, mean, second):
    """Return the loss less E x^2 of the output y without its ReLU."""
    total, variance = mpf(0), second - mean**2
    for on, chance in found:
        there = [x for x, one in zip(row_scale, on, strict=True) if one]
        level = b + mean * sum(there)
        total += chance * (level**2 + variance * sum(x * x for x in there))
        total -= 2 * chance * on[i] * scale[i] * (mean * level + variance * row_scale[i])
    return total


def by_ray(values, row, scale, i, b, found, pieces=5):
    """Return the loss of one output; E R^2 and E x R are integrals of transforms where b <= 0.

    Where b > 0, R(y) = y + R(-y) and R(y)^2 = y^2 - R(-y)^2. What is 0 or constant is taken out of the
    transforms before they are integrated, by sums without cancellation.
    """
    none, rest, mean, second = spread(values)
    g = [w * s for w, s in zip(row, scale, strict=True)]
    total = sum(chance * on[i] for on, chance in found) * second * scale[i] ** 2
    side = -1 if b > 0 else 1
    if b > 0:
        total += mirrored(g, scale, i, b, found, mean, second)
    turned, bias = [side * x for x in g], side * b
    sizes = [abs(x) for x in [*turned, bias] if x]
    if str(values).startswith(RAYS):  # the others never raise the output above 0
        found = [one for one in found if any(x > 0 for x, there in zip(turned, one[0], strict=True) if there)]
    if not sizes or not found:
        return total
    start, direction = 1 / (4 * max(sizes)), mp.expjpi(mpf("0.37"))

    def integrand(s):
        parts, loss = [rest(x * s) if x else (1 - none, mean) for x in turned], mpc(0)
        for on, chance in found:
            far, mine = transform(on, i, parts, turned, none, mean)
            loss += chance * (side * far * 2 / s**3 - on[i] * 2 * scale[i] * mine / s**2)
        return loss * mp.exp(s * bias)

    sums, piece, quiet = mpf(0), 0, 0
    last = pieces * mp.log(60 / min(sizes) / start)
    while quiet < 2:
        part = mpf(0)
        for x, weight in gauss_points():
            grown = mp.exp((piece + x) / pieces)
            value = integrand(start + start * (grown - 1) * direction)
            part += weight * (value * start * grown * direction).imag / (pieces * mp.pi)
        sums += part
        piece += 1
        small = abs(part) < mpf(10) ** -26 * (abs(sums) + total * mpf(10) ** -3)
        quiet = quiet + 1 if small and piece > last else 0
    return total + sums  # atoms: max(bias, 0) = 0


# --- Losses and slopes -------------------------------------------------------------------------------------


def brute_force(law, row, i, b, classes=None, way=None, omit=None):
    """Return the loss of one output; `omit` says which patterns to forget."""
    values = str(law.values)
    way = way or (by_corners if values in BOUNDED else closed if values in CLOSED else by_ray)
    number = Fraction if way is by_corners else mpf
    with mp.workdps(300 if way is closed else DIGITS):
        if classes == 0:  # per p, as p falls to 0
            found = [(on, number(1)) for on in product((0, 1), repeat=law.n_features) if sum(on) == 1]
        else:
            most = law.n_features if classes is None else classes
            found = [(on, chance) for on, chance in patterns(law, number) if sum(on) <= most]
        found = [one for one in found if omit is None or not omit(one[0])]
        given = [number(x) for x in row], [number(float(x)) for x in law.scale], i, number(b)
        return way(values if way in (by_corners, closed) else law.values, *given, found)


def slope(law, row, i, b, place):
    """Return the derivative by an entry of the row, or by b where the place is beyond it.

    It is a central difference, which at kinks is the mean of both sides.
    """
    number = Fraction if str(law.values) in BOUNDED else mpf
    with mp.workdps(300):
        h = number(10) ** (-60 if str(law.values) in (*BOUNDED, *CLOSED) else -8)
        given = [*map(number, row), number(b)]
        ends = []
        for step in (h, -h):
            given[place] += step
            ends.append(brute_force(law, given[:-1], i, given[-1]))
            given[place] -= step
        return (ends[0] - ends[1]) / (2 * h)


# --- Finitely many values ----------------------------------------------------------------------------------


def states(law):
    """Return all states of features of finitely many values, as rows, and their probabilities."""
    x, chance = np.zeros((1, law.n_features), np.longdouble), np.ones(1, np.longdouble)
    grouped = {j for members, _, _ in law.groups for j in members}
    p = law.p.astype(np.longdouble)
    alone = [([j], [[0], [1]], [1 - p[j], p[j]]) for j in range(law.n_features) if j not in grouped]
    for members, patterns_on, weights in (*law.groups, *alone):
        table, likely = [], []
        for pattern, weight in zip(patterns_on, weights, strict=True):
            for values in product(*(law.values.atoms if on else ((0.0, 1.0),) for on in pattern)):
                table.append([value for value, _ in values])
                likely.append(weight * np.prod([share for _, share in values]))
        x = np.repeat(x, len(table), axis=0)
        x[:, members] = np.tile(np.array(table), (chance.size, 1))
        chance = np.multiply.outer(chance, np.array(likely, np.longdouble)).ravel()
    if law.exactly is not None:
        some = (x != 0.0).sum(axis=1) == law.exactly
        x, chance = x[some], chance[some] / chance[some].sum()
    return x, chance

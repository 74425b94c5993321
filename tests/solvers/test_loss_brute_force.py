"""Every method's error beside brute force over all patterns: all laws of values, features that differ, ties.

The losses of bounded values are sums over the corners of cubes in exact fractions, those of exponential and
normal values have a closed form. Those of half-normal and rectified normal ones are integrals along a ray, by
Gauss points at 32 digits, to whose transforms all patterns add.
"""

from collections import Counter
from fractions import Fraction
from functools import cache, partial
from itertools import product
from math import factorial

import numpy as np
import pytest
from mpmath import mp, mpc, mpf

from superposition.solvers.loss import row_loss
from superposition.solvers.loss.dispatch import METHODS
from superposition.solvers.loss.exact import evaluate
from superposition.solvers.loss.problem import Accuracy, Law, LossProblem
from superposition.theory.features import Features
from superposition.theory.features.values import law_named

from .. import oracles

DIGITS = 32
WORK = 2.0**20  # terms of each sum: errors are to say what is missing
BOUNDED = ("uniform", "binary", "symmetric", "uniform(0.5)", "uniform(-0.25)")
CLOSED = ("exponential", "normal")
RAYS = ("half-normal", "rectified-normal")


# --- Patterns ----------------------------------------------------------------------------------------------


def patterns(law, classes, number):
    """Return all patterns of on and off that count, with their probabilities."""
    if classes == 0:  # per p, as p falls to 0
        return [(on, number(1)) for on in product((0, 1), repeat=law.n_features) if sum(on) == 1]
    found = oracles.patterns(law, number)
    return found if classes is None else [(on, chance) for on, chance in found if sum(on) <= classes]


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


# --- Cases -------------------------------------------------------------------------------------------------


def brute_force(law, row, i, b, classes=None, way=None):
    """Return the loss of one output, to all digits of the numbers that are given."""
    values = str(law.values)
    way = way or (by_corners if values in BOUNDED else closed if values in CLOSED else by_ray)
    number = Fraction if way is by_corners else mpf
    with mp.workdps(300 if values == "exponential" and way is closed else DIGITS):
        found = patterns(law, classes, number)
        given = [number(float(x)) for x in row], [number(float(x)) for x in law.scale], i, number(float(b))
        return way(values if way in (by_corners, closed) else law.values, *given, found)


def chances(rng, n):
    """Draw probabilities: at both ends, in the middle, alike or not."""
    kinds = [
        1.0,
        0.5,
        10.0 ** rng.uniform(-8, 0),
        1.0 - 10.0 ** rng.uniform(-8, 0),
        10.0 ** rng.uniform(-60, 0),
    ]
    if rng.random() < 0.4:
        return np.full(n, rng.choice(kinds))
    return np.array([rng.choice([*kinds, 10.0 ** rng.uniform(-3, 0)]) for _ in range(n)])


def case(rng, rays):
    """Draw a law, a row with ties, zeros or weights over twelve decades, its feature and a bias."""
    costly = rng.random() < rays
    values = str(rng.choice(RAYS if costly else (*BOUNDED, *CLOSED)))
    if values == "rectified-normal" and rng.random() < 0.5:
        values = f"rectified-normal({rng.choice([-2, -0.5, 0, 3])})"
    n = int(rng.integers(1, 4 if costly else 6))
    p, given, classes = chances(rng, n), {}, None
    if costly:  # 32 digits of all inputs together
        p = np.maximum(p, 1e-12)
    alike = rng.random() < 0.3
    scale = np.ones(n) if alike or rng.random() < 0.4 else 10.0 ** rng.uniform(-2, 2, n)
    kind = rng.integers(5)
    if alike:
        p = np.full(n, p[0])
        classes = int(rng.integers(0, n + 1)) if values == "uniform" and kind < 3 else None
    elif kind == 1 and n > 1:
        members = rng.permutation(n)[: int(rng.integers(2, n + 1))]
        table = np.unique(rng.integers(0, 2, (3, members.size)), axis=0)
        given["groups"] = [(members, table, np.full(len(table), 1 / len(table)))]
    elif kind == 2 and n > 1:
        given["exactly"] = int(rng.integers(1, n))
        p = np.clip(p, 1e-30, 0.9)
    law = Features(n, p, values, scale, **given)
    row = rng.standard_normal(n)
    kind = rng.integers(6)
    if kind == 0:
        row[:] = 0.0
    elif kind == 1:
        row *= 10.0 ** rng.uniform(-12, 0, n)
    elif kind == 2:
        row = rng.choice([-1, -0.5, 0, 0.25, 0.5, 1], n).astype(float) / scale
    elif kind == 3:
        row *= 10.0 ** rng.uniform(-3, 1)
    i = int(rng.integers(n))
    if kind and rng.random() < 0.4:
        row[i] = 1 - rng.choice([0.0, 10.0 ** rng.uniform(-12, 0)])
    g = row * scale
    b = rng.choice(
        [0, 0.3 * rng.standard_normal(), -g.sum(), -g[i], g[0] / 2, -(10.0 ** rng.uniform(-12, 0))]
    )
    return law, row, i, float(b), classes


def assert_honest(rng, seen, rays=0.0):
    """Compare each method that covers a case with brute force; `seen` counts, and keeps the worst ratios."""
    law, row, i, b, classes = case(rng, rays)
    n, tol = law.n_features, 10.0 ** rng.uniform(-13, -2)
    M, bias = np.zeros((n, n)), np.zeros(n)
    M[i], bias[i] = row, b
    true = brute_force(law, row, i, b, classes)
    exact = Fraction(true) if isinstance(true, Fraction) else true
    for method in ("auto", *METHODS):
        rows = None if classes is not None else [i]  # classes want all outputs
        try:
            problem = LossProblem.of(M, bias, Law(law, classes), rows)
            found = evaluate(problem, Accuracy(tol, method=method, budget=WORK))
        except ValueError as error:  # not covered, or fewer than two digits left, which is refused
            kind = "refused" if "tell apart" in str(error) else "not covered"
            seen[method, kind] += 1
            continue
        at = i if classes is not None else 0
        number = type(exact)
        assert number is not float, law
        loss, bound = float(found.per_feature[at]), float(found.per_feature_error[at])
        error = abs(number(loss) - exact)
        told = (method, found.method, law, row.tolist(), i, b, classes, tol, loss, float(error), bound)
        assert error <= bound or loss < 1e-290, told
        seen[found.method, str(law.values).partition("(")[0]] += 1
        ratio = float(error / bound) if bound else 0.0
        seen["worst", found.method] = max(seen["worst", found.method], ratio)


@pytest.mark.parametrize(
    "values",
    [
        *CLOSED,
        *(
            pytest.param(values, marks=pytest.mark.slow)
            for values in ("half-normal", "rectified-normal(-2)", "rectified-normal(3)")
        ),
    ],
)
@pytest.mark.parametrize("b", [-0.1, 0.2])
def test_integrals_along_rays_are_the_closed_forms(values, b):
    """Where there is none, those with twice as many points."""
    law, row = Features(2, [0.1, 0.9], values, [1, 2]), [0.7, -0.04]
    other = closed if values in CLOSED else partial(by_ray, pieces=10)
    one, two = (brute_force(law, row, 0, b, way=way) for way in (by_ray, other))
    assert abs(one - two) < 1e-19 * two


def test_error_estimates_are_never_below_the_error():
    seen = Counter()
    for k in range(120):
        assert_honest(np.random.default_rng([5, k]), seen)


@pytest.mark.parametrize("p", [1e-9, 1e-7, 1e-5, 1e-3])
@pytest.mark.parametrize("together", [False, True])
def test_sums_whose_images_are_rare_keep_a_period(p, together):
    """One of 15 disturbing features raises the output, to 1/2, the others push it below 0."""
    group = [([2, 3], [[0, 0], [1, 1]], [1 - p, p])] if together else []
    found = row_loss(np.r_[0.0, 0.5, -np.ones(14)], 0, 0.0, Features(16, p, "binary", groups=group))
    chance = Fraction(p)
    alone = chance * (1 - chance) ** (13 if together else 14)
    exact = chance + alone / 4 - chance * alone
    assert abs(Fraction(found.loss) - exact) <= Fraction(found.error_estimate) < exact


@pytest.mark.parametrize("ratio", [10.0, 20.0, 30.0])
def test_values_whose_mean_is_large_beside_their_spread_are_normal(ratio):
    """Beyond ten deviations the cut at 0 moves the loss by less than rounding."""
    row, b, p, s = [mpf("0.75"), mpf("-1.25")], mpf("0.125"), (0.3, 0.6), 1 / mpf(ratio)
    with mp.workdps(40):
        exact = mpf(0)
        for on in product((0, 1), repeat=2):
            chance = mp.fprod(mpf(q) if there else 1 - mpf(q) for there, q in zip(on, p, strict=True))
            weights = [w * s for w, there in zip(row, on, strict=True) if there]
            mean, sd = b + ratio * sum(weights), mp.sqrt(sum(w * w for w in weights))
            above = mp.ncdf(mean / sd) if sd else mpf(mean > 0)
            bell = sd * mp.npdf(mean / sd) if sd else mpf(0)
            square = (mean * mean + sd * sd) * above + mean * bell
            times = mean * above + bell + s * s * row[0] * above  # of ReLU and 1 + s N, by parts
            exact += chance * (square + on[0] * (1 + s * s - 2 * times))
    law = Features(2, p, f"rectified-normal({ratio:g})", 1 / ratio)
    found = row_loss([float(w) for w in row], 0, float(b), law)
    # The scale is 1/ratio in double precision.
    assert abs(found.loss - exact) <= found.error_estimate + 4e-16


@pytest.mark.slow
def test_error_estimates_are_never_below_the_error_in_many_cases(random_seed):
    """A hundred more than the 5,000 are integrals along rays, which take a second each."""
    seen = Counter()
    for k in range(5100):
        assert_honest(np.random.default_rng([random_seed, k]), seen, rays=float(k >= 5000))
    for name in METHODS:
        assert any(one == name and kind in (*BOUNDED, *CLOSED, *RAYS) for one, kind in seen), name

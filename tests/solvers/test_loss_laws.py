"""The exact loss and its gradient at every law of the data: all patterns in mpmath, and samples."""

from itertools import product

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import stats

from superposition.solvers.loss import exact_gradient, exact_loss, row_hessian, row_loss, value_and_gradient
from superposition.theory.features import Features

from ..oracles import patterns

TOGETHER = ([0, 1], [[1, 1], [0, 0]], [0.3, 0.7])
EXCLUSIVE = ([0, 2, 3], [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]], [0.1, 0.2, 0.15, 0.55])
PARENT = ([1, 2], [[0, 0], [1, 0], [1, 1]], [0.6, 0.3, 0.1])
P = (0.1, 0.35, 0.02, 0.6)
SCALE, IMPORTANCE = (1.0, 0.5, 2.0, 3.0), (1.0, 0.1, 5.0, 2.0)

LAWS = {
    "alike": Features(4, 0.2),
    "unequal": Features(4, P, scale=SCALE, importance=IMPORTANCE),
    "binary": Features(4, P, "binary", SCALE, IMPORTANCE),
    "exponential": Features(4, P, "exponential", SCALE, IMPORTANCE),
    "symmetric": Features(4, P, "symmetric", SCALE, IMPORTANCE),
    "normal": Features(4, P, "normal", SCALE, IMPORTANCE),
    "half-normal": Features(2, P[:2], "half-normal", SCALE[:2], IMPORTANCE[:2]),
    "together": Features(4, P, groups=[TOGETHER]),
    "exclusive": Features(4, P, "exponential", groups=[EXCLUSIVE]),
    "parent and child": Features(4, P, "symmetric", groups=[PARENT]),
    "exactly two": Features(4, P, exactly=2),
    "exactly two exponential": Features(4, P, "exponential", exactly=2),
    "exactly two with a group": Features(4, P, "normal", groups=[PARENT], exactly=2),
}


def ramp(values, b, g):
    """E ReLU(b + g.v)^2 in closed form."""
    k = len(g)
    if k == 0 or values == "binary":
        return max(b + sum(g), 0) ** 2
    if values in ("uniform", "symmetric"):
        low, width = (0, 1) if values == "uniform" else (-1, 2)
        total = mpf(0)
        for corner in product((low, 1), repeat=k):
            z = b + sum(c * x for c, x in zip(corner, g, strict=True))
            total += (-1) ** sum(c == low for c in corner) * max(z, 0) ** (k + 2)
        return 2 * total / mp.factorial(k + 2) / mp.fprod(width * x for x in g)
    if values == "normal":
        s = mp.sqrt(sum(x * x for x in g))
        return (b * b + s * s) * mp.erfc(-b / s / mp.sqrt(2)) / 2 + b * s * mp.npdf(b / s)
    if b > 0:  # z_+^2 = z^2 - (-z)_+^2
        return (b + sum(g)) ** 2 + sum(x * x for x in g) - ramp(values, -b, [-x for x in g])
    return sum(
        2 * x**2 * mp.exp(b / x) / mp.fprod(1 - y / x for j, y in enumerate(g) if j != i)
        for i, x in enumerate(g)
        if x > 0
    )


SQUARE = {"uniform": 3, "symmetric": 3, "binary": 1, "exponential": mpf(1) / 2, "normal": 1, "half-normal": 1}


def by_differences(values, b, g):
    """Return the function that differentiates `ramp` by places of (g, b), by differences at 150 digits."""

    def derivative(*places):
        orders = tuple(places.count(place) for place in range(len(g) + 1))
        whole = (*g, b)
        if not places:
            return ramp(values, b, g)
        return mp.diff(lambda *x: ramp(values, x[-1], list(x[:-1])), whole, orders, h=mpf(10) ** -30)

    return derivative


def moments(b, g, places):
    """Differentiate E z^2 by places of (g, b), z = b + g.v for half-normal v."""
    root = mp.sqrt(2 / mp.pi)
    mean, lead = b + root * sum(g), [root] * len(g) + [1]
    if not places:
        return mean**2 + (1 - root**2) * sum(x * x for x in g)
    if len(places) == 1:
        spread = 2 * (1 - root**2) * g[places[0]] if places[0] < len(g) else 0
        return 2 * mean * lead[places[0]] + spread
    spread = 2 * (1 - root**2) if places[0] == places[1] < len(g) else 0
    return 2 * lead[places[0]] * lead[places[1]] + spread


def by_rays(values, b, g):
    """Do the same for half-normal values by Bromwich integrals along two rays, at 30 digits."""
    side = 1 if b <= 0 else -1
    turned, bias, root = [side * x for x in g], side * b, mp.sqrt(2 / mp.pi)
    sizes = {abs(x) for x in g} | {abs(b)}
    start = 1 / (4 * max(sizes))
    direction = mp.expjpi(mpf("0.37"))
    corners = {start, *(c / x for x in sizes for c in (mpf(1) / 4, 2, 12, 60))}
    ends = [mpf(0), *sorted(corners), *(max(corners) * mpf(10) ** k for k in (2, 6, 16))]

    def integral(places):
        def f(t):
            s = start + t * direction
            weight = 2 / s**3 * mp.exp(s * bias) * direction / mp.pi
            for j, x in enumerate(turned):
                z = x * s
                part = mp.exp(z * z / 2) * mp.erfc(-z / mp.sqrt(2))
                first = z * part + root  # phi' = z phi + root, phi'' = phi + z phi'
                weight *= (part, first * s, (part + z * first) * s * s)[places.count(j)]
            return mp.im(weight * s ** places.count(len(g)))

        return mp.quad(f, ends, method="gauss-legendre", maxdegree=5)

    def derivative(*places):
        if not g:
            return [max(b, 0) ** 2, 2 * max(b, 0)][len(places)]
        part = side ** (1 + len(places)) * integral(places)
        return part if side > 0 else moments(b, g, places) + part

    return derivative


def brute_force(row, i, b, law, slopes):
    """Loss of one output and its derivatives by the row and b: E x^2 - 2 E x R + E R^2, 2 E x R = dF/dg_i."""
    rays = law.values == "half-normal"
    with mp.workdps(30 if rays else 150):
        n = row.size
        total, by = mpf(0), [mpf(0)] * (n + 1)
        for on, chance in patterns(law, mpf):
            active = [j for j in range(n) if on[j]]
            scale = [mpf(float(law.scale[j])) for j in active]
            g = [mpf(float(row[j])) * s for j, s in zip(active, scale, strict=True)]
            derivative = (by_rays if rays else by_differences)(law.values, mpf(float(b)), g)
            mine = active.index(i) if on[i] else None
            value = derivative()
            if mine is not None:
                value += scale[mine] ** 2 / SQUARE[law.values] - scale[mine] * derivative(mine)
            total += chance * value
            for place, j in [*enumerate(active), (len(active), n)] if slopes else []:
                slope = derivative(place)
                if mine is not None:
                    slope -= scale[mine] * derivative(mine, place)
                by[j] += chance * slope * (scale[place] if j < n else 1)
        return total, np.array([float(x) for x in by])


def wide(rng, n):
    """Weights over twelve decades, and a bias of the size of one of them."""
    M = rng.choice([-1, 1], (n, n)) * 10 ** rng.uniform(-6, 6, (n, n))
    return M, rng.choice([-1, 1], n) * np.abs(M[np.arange(n), rng.integers(n, size=n)]) * rng.uniform(
        0.1, 1, n
    )


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "half-normal")) for name in LAWS]
)
@pytest.mark.parametrize(("seed", "gradients"), [(0, [0]), pytest.param(1, [0, 1], marks=pytest.mark.slow)])
def test_brute_force_with_weights_over_twelve_decades(name, seed, gradients):
    law, rng = LAWS[name], np.random.default_rng([seed, len(name)])
    n = law.n_features
    M, b = wide(rng, n)
    # weights of a size, too: these have a loss far below the square of the outputs
    M[1], b[1] = rng.normal(size=n), 0.3 * rng.normal()
    found = exact_loss(M, b, law)
    by_M, by_b = exact_gradient(M, b, law)
    for i in range(n):
        true, slopes = brute_force(M[i], i, b[i], law, i in gradients)
        error = abs(mpf(float(found.per_feature[i])) - true)
        assert error <= found.per_feature_error[i]
        assert error <= 1e-10 * true
        if i in gradients:
            got = np.append(by_M[i], by_b[i]) * n / law.importance[i]
            assert np.abs(got - slopes).max() <= 1e-10 * np.abs(slopes).max()
    assert found.loss == pytest.approx(np.mean(law.importance * found.per_feature), rel=1e-14)


GROUPS = [
    ([0, 1, 2], [[1, 1, 1], [0, 0, 0]], [0.1, 0.9]),
    ([10, 20, 30], np.eye(3, dtype=int), [0.2, 0.3, 0.5]),
]


OF_64 = [
    *(Features(64, np.geomspace(0.01, 0.3, 64), v, np.linspace(0.5, 2, 64)) for v in ("uniform", "normal")),
    Features(64, 0.05, "symmetric"),
    Features(64, 0.05, groups=GROUPS),
    Features(64, 0.05, "exponential", groups=GROUPS),
    Features(64, np.geomspace(0.01, 0.3, 64), "rectified-normal"),
    Features(64, 0.05, exactly=3),
]
MORE_OF_64 = [
    *(Features(64, 0.05, v) for v in ("binary", "half-normal", "exponential")),
    Features(64, 0.05, "rectified-normal(4)", 0.25, groups=GROUPS),
    *(Features(64, 0.05, v, exactly=3) for v in ("half-normal", "rectified-normal(-1)")),
]


@pytest.mark.parametrize(
    ("law", "batches"),
    [
        *((law, 20) for law in OF_64),
        *(pytest.param(law, 2000, marks=pytest.mark.slow) for law in (*OF_64, *MORE_OF_64)),
    ],
    ids=lambda x: f"{x.values}-{len(x.groups)}-{x.exactly}" if isinstance(x, Features) else None,
)
def test_samples_of_64_features(law, batches):
    """A false alarm in 1e-3 for each law: loss and directional derivative, two-sided; 10^5 or 10^7."""
    rng = np.random.default_rng(batches)
    W = rng.normal(size=(64, 16)) / 4
    M, b = W @ W.T, np.full(64, -0.1)
    rows = np.array([0, 40])
    D, d = rng.normal(size=(rows.size, 64)), rng.normal(size=rows.size)
    losses, slopes = [], []
    for _ in range(batches):
        x = law.sample(5000, rng)
        y = x @ M[rows].T + b[rows]
        error = x[:, rows] - np.maximum(y, 0)
        losses.append(np.mean(error**2 @ law.importance[rows]) / rows.size)
        slopes.append(np.mean(-2 * error * (y > 0) * (x @ D.T + d) @ law.importance[rows]))
    exact = exact_loss(M, b, law, rows=rows, tol=1e-8)
    # sums of binary values have atoms, on which the bound of the lattice sum is far from sharp
    assert exact.error_estimate <= (1e-3 if law.values == "binary" else 1e-6) * exact.loss
    by = np.array([row_gradient(M[i], int(i), b[i], law, tol=1e-8) for i in rows])
    slope = np.sum(law.importance[rows, None] * by * np.c_[D, d])
    for got, seen in ((exact.loss, losses), (slope, slopes)):
        assert stats.ttest_1samp(seen, got).pvalue > 5e-4


def row_gradient(row, i, b, law, tol=1e-13):
    """Gradient of one output's loss, from the model whose other rows are silent."""
    M, bias = np.zeros((row.size, row.size)), np.zeros(row.size)
    M[i], bias[i] = row, b
    _, by_M, by_b = value_and_gradient(M, bias, law, tol=tol, rows=[i])
    return np.append(by_M[0], by_b[0]) / law.importance[i]


@pytest.mark.parametrize(
    ("values", "n"),
    [
        *((values, 5) for values in ("uniform", "symmetric", "exponential", "half-normal", "normal")),
        ("exponential", 12),
        *(
            pytest.param(values, 12, marks=pytest.mark.slow)
            for values in ("uniform", "normal", "symmetric", "half-normal")
        ),
    ],
)
def test_hessian_is_the_derivative_of_the_gradient(values, n):
    law = Features(n, np.linspace(0.05, 0.3, n), values, np.linspace(0.5, 1.5, n))
    rng = np.random.default_rng(n)
    row, b, h = 0.3 * rng.normal(size=n), -0.1, 1e-4
    found = row_hessian(row, 1, b, law)
    assert found.loss == pytest.approx(row_loss(row, 1, b, law).loss, rel=1e-8)
    for j in range(n + 1):
        ends = []
        for side in (-1, 1):
            at = np.append(row, b)
            at[j] += side * h
            ends.append(row_gradient(at[:-1], 1, at[-1], law))
        numeric = (ends[1] - ends[0]) / (2 * h)
        # second-order differences: h^2 times a third derivative, which is of the order of 1/|row|
        assert np.abs(found.hessian[j] - numeric).max() <= 1e-5 * np.abs(found.hessian).max()


def test_value_and_gradient_are_those_of_the_loss():
    rng = np.random.default_rng(3)
    law = Features(9, rng.uniform(0.05, 0.3, 9), "symmetric", importance=rng.uniform(0.5, 2, 9))
    M, b = rng.normal(size=(9, 9)), rng.normal(size=9)
    loss, by_M, by_b = value_and_gradient(M, b, law)
    assert loss == pytest.approx(exact_loss(M, b, law).loss, rel=1e-8)
    tight = exact_gradient(M, b, law, tol=1e-12)
    assert np.abs(by_M - tight[0]).max() < 1e-7
    assert np.abs(by_b - tight[1]).max() < 1e-7


@pytest.mark.parametrize("p", [1e-200, 1e-240, 1e-290])
def test_the_rarest_features(p):
    """One feature on at a time: the loss is p times a number, and the estimate knows it."""
    row = np.r_[1.0, 0.5, -0.3, 0.2, 0.4, 0.1, 0.3, 0.2]
    rare, rarer = row_loss(row, 0, -0.1, 1e-100), row_loss(row, 0, -0.1, p)
    assert rarer.loss / p == pytest.approx(rare.loss / 1e-100, rel=1e-14)
    assert rarer.error_estimate < 1e-9 * rarer.loss


@pytest.mark.parametrize("values", ["uniform", "symmetric"])
@pytest.mark.parametrize("size", [1e-12, 1e-6, 0.05])
def test_outputs_whose_relu_never_bends_hear_what_they_hear_alone(values, size):
    """Rows of dropped features with small weights: beside features that they do not hear nothing changes.

    The four features alone are summed over their patterns; among 20 the rows take another way, by moments,
    where a sum over frequencies would want some 1/size of them.
    """
    rng, table = np.random.default_rng(5), [[0, 0], [1, 1], [0, 1]]
    M, b = size * rng.normal(size=(4, 4)), np.array([0.4, -0.4, 0.3, 0.5])
    p, scale = [0.2, 0.5, 0.6, 0.7], [1.0, 2.0, 0.5, 1.0]
    alone = Features(4, p, values=values, scale=scale, groups=[([1, 3], table, [0.5, 0.3, 0.2])])
    law = Features(20, [*p, *[0.5] * 16], values=values, scale=[*scale, *[1.0] * 16], groups=alone.groups)
    wide, rest = np.zeros((20, 20)), np.ones(16)
    wide[:4, :4] = M
    wanted, found = exact_loss(M, b, alone), exact_loss(wide, [*b, *rest], law, rows=range(4))
    assert np.all(np.abs(found.per_feature - wanted.per_feature) <= 1e-15 + 1e-14 * wanted.per_feature)
    by_M, by_b = exact_gradient(wide, [*b, *rest], law)
    for part, whole in zip(exact_gradient(M, b, alone), (by_M[:4, :4], by_b[:4]), strict=True):
        np.testing.assert_allclose(20 * whole, 4 * part, rtol=1e-12, atol=1e-14)


# --- Errors at corners ------------------------------------------------------------------------------------


def corner(seed):
    """Return a law, a row, its feature and its bias that differ by many decades; p falls to 1e-120."""
    rng = np.random.default_rng(seed)
    while True:
        values = ("uniform", "binary", "symmetric", "exponential", "normal")[rng.integers(5)]
        n, kind = int(rng.integers(2, 6)), rng.integers(4)
        p = 10 ** rng.uniform(-rng.choice([1, 5, 120]), 0, n)
        scale = 10 ** rng.uniform(-3, 3, n) if rng.random() < 0.5 else np.ones(n)
        given = {"exactly": int(rng.integers(1, n))} if kind < 2 else {}
        if kind == 2:
            members = rng.permutation(n)[: max(2, n - 1)]
            table = np.unique(rng.integers(0, 2, (3, members.size)), axis=0)
            given = {"groups": [(members, table, np.full(len(table), 1 / len(table)))]}
        i, decades = int(rng.integers(n)), rng.choice([0, 1, 3, 17])
        row = rng.choice([-1, 1], n) * 10 ** rng.uniform(-decades, 0, n)
        if rng.random() < 0.5:
            row *= 10.0 ** -rng.integers(0, 20, n)
            row[i] = 1.0
        b = float(rng.choice([0, 1, -1]) * 10 ** rng.uniform(-decades, 1))
        try:
            law = Features(n, p, values, scale, **given)
        except ValueError:  # a feature that is never on
            continue
        if values != "exponential" or np.unique(row * scale).size == n:  # what brute force divides by
            return law, row, i, b


@pytest.mark.parametrize("seeds", [range(25), pytest.param(range(25, 1000), marks=pytest.mark.slow)])
def test_losses_of_corners_are_within_their_errors(seeds):
    for seed in seeds:
        law, row, i, b = corner(seed)
        if seed == 232:  # the sum along the contour bounds its error by 9 % of the loss alone
            with pytest.raises(ValueError, match="off by up to"):
                row_loss(row, i, b, law)
            continue
        found = row_loss(row, i, b, law)
        true, _ = brute_force(row, i, b, law, False)
        assert found.loss < 1e-290 or abs(mpf(found.loss) - true) <= found.error_estimate, seed


@pytest.mark.parametrize(("seed", "i"), [(seed, i) for seed in range(8) for i in range(2)])
def test_rare_features_of_which_one_is_on(seed, i):
    """Ratios of 1e-17 between weights of 1e-110: their logarithms would lose two digits."""
    p = [7.5e-110, 7.2e-127 * (1 + seed / 7)]
    law = Features(2, p, ("uniform", "binary", "symmetric")[seed % 3], [172, 0.053], exactly=1)
    found = exact_loss(np.zeros((2, 2)), 0.0, law, rows=[i])
    true, _ = brute_force(np.full(2, 1e-200), i, 0.0, law, False)  # weights that brute force can divide by
    assert abs(found.loss - true) <= 1e-15 * true
    assert abs(found.loss - true) <= found.error_estimate


@pytest.mark.parametrize("values", ["uniform", "binary", "symmetric"])
def test_entries_too_small_for_the_sum_are_in_the_error(values):
    n = 16
    row = np.r_[1.0, [1e-15, -1e-15, 1e-15, -1e-15], np.zeros(n - 5)]
    group = ([0, 1, 2, 3, 4], [[0] * 5, [1] * 5, [1, 0, 1, 0, 1], [0, 1, 0, 0, 1]], [0.4, 0.3, 0.2, 0.1])
    found = row_loss(row, 0, 0.0, Features(n, 0.1, values, groups=[group]))
    alone = Features(5, 0.1, values, groups=[group])
    true, _ = brute_force(row[:5], 0, 0.0, alone, False)
    assert 0 < abs(found.loss - true) <= found.error_estimate < 1e-11

"""Capacities, the window and the bound for features that differ: against definitions and exact losses."""

import itertools

import numpy as np
import pytest
from scipy import optimize

from superposition.solvers import loss
from superposition.theory import codes, rug, unequal
from superposition.theory.features import Features, exclusive, parent_child, synchronous
from superposition.theory.unequal import bounds, priority
from superposition.theory.unequal.blocks import table


def drawn(rng, n, **more):
    """Return a law whose p and scales differ by orders of magnitude."""
    p = np.exp(rng.uniform(np.log(3e-3), np.log(0.9), n))
    return Features(n, p, scale=np.exp(rng.normal(0, 0.7, n)), importance=rng.uniform(0, 3, n), **more)


# --- Capacities ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", ["uniform", "binary", "exponential", "normal"])
def test_capacities_sum_to_the_rank_at_most(values):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        law, m = drawn(rng, 9, values=values), int(rng.integers(1, 9))
        M = rng.standard_normal((9, m)) @ rng.standard_normal((m, 9)) * np.exp(rng.normal(0, 2, 9))
        found = unequal.capacities(M, law)
        assert found.sum() <= m + 1e-9
        # the definition: squared correlation of each output with its own feature
        by_definition = np.diag(M) ** 2 * law.variance / (M**2 @ law.variance)
        np.testing.assert_allclose(found, by_definition, rtol=1e-12)
        # and what each leaves of interference
        received = interference_weights(M) ** 2 @ law.variance
        np.testing.assert_allclose(unequal.interference_variance(found, law), received, rtol=1e-6)


def interference_weights(M):
    """Return the weights of other features over an output's own."""
    return M / np.diag(M)[:, None] - np.eye(len(M))


def test_finite_size_correction_of_features_alike_is_that_of_the_rug():
    M = np.eye(30) * 1.2 + 0.02 * np.random.default_rng(2).standard_normal((30, 30))
    b, p = -0.1, 0.2
    off, a = interference_weights(M), np.diag(M)
    sigma = np.sqrt((off**2).sum(axis=1) * (p / 3 - p * p / 4))
    sums = (off**3).sum(axis=1), (off**4).sum(axis=1)
    expected = rug.edgeworth_correction(a, b + a * off.sum(axis=1) * p / 2, sigma, p, *sums)
    np.testing.assert_allclose(unequal.finite_size_correction(M, b, p), expected, rtol=1e-12)
    # in other units, each feature's own
    s = np.linspace(0.5, 2.0, 30)
    found = unequal.finite_size_correction(M * s[:, None] / s, b * s, Features(30, p, scale=s))
    np.testing.assert_allclose(found, s**2 * expected, rtol=1e-12)


def test_finite_size_correction_is_what_normal_noise_misses():
    p, rows = np.repeat([0.5, 0.2], 60), [0, 70, 119]
    law = Features(120, p)
    M = np.eye(120) + 0.1 * np.random.default_rng(3).choice([-1.0, 1.0], (120, 120))
    np.fill_diagonal(M, 1.0)
    off = M - np.eye(120)
    exact = loss.exact_loss(M, -0.2, law, rows=rows).per_feature
    normal = rug.loss(1.0, -0.2 + (off @ law.mean)[rows], np.sqrt(off**2 @ law.variance)[rows], p[rows])
    # the next terms are a tenth of it at this size
    np.testing.assert_allclose(exact - normal, unequal.finite_size_correction(M, -0.2, law)[rows], rtol=0.15)


# --- Weak interference --------------------------------------------------------------------------------------


def test_power_laws_sum_to_the_number_on():
    for alpha, n, on in [(0.0, 10, 3.0), (1.5, 100, 1.0), (2.0, 50, 20.0), (1.0, 4, 3.9)]:
        p = unequal.power_law(alpha, n, on).p
        assert p.sum() == pytest.approx(on, rel=1e-12)
        assert p.max() <= 1
        assert unequal.power_law(alpha, n, on, scale=2.0).scale.tolist() == [2.0] * n
        assert np.ptp((p * np.arange(1, n + 1) ** alpha)[p < 1 - 1e-12]) <= 1e-12 * on


@pytest.mark.parametrize("m", [3, 17, 60])
def test_the_weak_interference_allocation_is_the_best_one_of_its_loss(m):
    law = Features(80, np.geomspace(1e-5, 0.02, 80), scale=np.linspace(1, 2, 80))
    capacity, value = unequal.weak_interference(law, m)
    assert capacity.sum() == pytest.approx(m, rel=1e-12)
    assert capacity.max() <= 1
    t = rug.asymptotic_shift(law.p)
    kappa = law.variance * (rug.asymptotic_loss(law.p, 1 - 1e-9) / 1e-9 / (law.p / 3 - law.p**2 / 4))
    assert np.all(t > 0)
    assert value == pytest.approx(np.sum(kappa * (1 / capacity - 1)) / 80, rel=1e-3)
    # no small exchange between two features lowers it
    below = np.flatnonzero(capacity < 1)
    slope = kappa / capacity**2
    assert np.ptp(slope[below]) <= 2e-3 * slope[below].max()
    assert np.all(slope[capacity == 1] >= slope[below].min() * (1 - 2e-3))


# --- Bounds -------------------------------------------------------------------------------------------------


def test_alike_the_bound_is_that_of_codes_or_better():
    for p in (1e-6, 0.05, 0.8):
        for n, m in [(400, 4), (400, 130), (7, 7)]:
            assert unequal.loss_bound(Features(n, p), m) >= codes.relu_bound(p, m / n) * (1 - 1e-7)
        far = unequal.loss_bound(Features(400, p, scale=3.0, importance=2.0), 100)
        assert far == pytest.approx(18 * unequal.loss_bound(Features(400, p), 100), rel=1e-9, abs=0)
    # that of any decoder where that is larger
    law = Features(100, 0.9, scale=2.0, importance=np.linspace(3, 5, 100))
    assert unequal.loss_bound(law, 5) == 12 * codes.decoder_bound(0.9, 0.05)
    # rare ones: with p squared, by a closed form, whose mu has an optimum of its own
    limit = float(codes.relu_bound(1e-12, 0.01)) / 1e-24
    for p in (1e-12, 1e-17, 1e-40, 1e-90):
        assert unequal.loss_bound(Features(1000, p), 10) / p**2 == pytest.approx(limit, rel=1e-9)


def test_the_bound_of_many_classes_of_one_probability():
    """The bound of each class has a kink at the same multiplier."""
    law = Features(40, 0.1, importance=0.9 ** np.arange(40))
    bound = unequal.loss_bound(law, 20)
    assert 0.5 * unequal.priority_loss(law, 20) < bound <= unequal.priority_loss(law, 20)


def test_the_bound_of_features_alike_is_the_best_over_all_mu():
    """The closed form against the search for mu, on both sides of each of its cases."""
    rng = np.random.default_rng(1)
    p = np.exp(rng.uniform(np.log(1e-8), np.log(0.99), 7))
    ratio = np.append(np.exp(rng.uniform(np.log(1e-4), 0, 5)), [0.103, 0.118])
    families = [
        (bounds._line_bound, bounds.FIRST),
        (bounds._line_bound, bounds.SECOND),
        (bounds._logarithm_bound, bounds.FIRST),
    ]
    for p_i, r, value in zip(p, ratio, bounds.alike_bound(p, ratio), strict=True):
        rows = np.array([[p_i], [1.0], [1.0]])
        best = max(one(rows, r, bounds._best_mu(one, rows, r, family), family) for one, family in families)
        assert best * (1 - 1e-12) <= value == pytest.approx(best, rel=1e-7, abs=0)
    assert np.all(np.diff(bounds.alike_bound(0.1, np.linspace(1e-3, 1, 200))) < 0)
    assert bounds.alike_bound(0.3, 1.0) == 0


def test_the_line_is_the_linear_programme_of_the_proof():
    for seed in range(6):
        rng = np.random.default_rng(seed)
        law, m, mu = drawn(rng, 12), 2, float(np.exp(rng.uniform(-5, -1)))
        p, w = law.p, law.importance * law.scale**2
        C, h = bounds.SECOND
        D, q = 1 / (h / p + 9 / (4 * (1 - p))), mu / C
        theta, cost = np.minimum(1, p * (1 - p) / mu), w * D * p * q / (D + p * q)
        # z of each in [0, 1], and sum theta (1 - z) <= m
        solved = optimize.linprog(cost, A_ub=[-theta], b_ub=[m - theta.sum()], bounds=(0, 1))
        found = bounds._line_bound(np.stack([p, w, np.ones(12)]), m, mu, bounds.SECOND)
        assert found == pytest.approx(solved.fun, abs=1e-12)


@pytest.mark.parametrize("mu", [0.003, 0.03, 0.3, 3.0])
def test_the_logarithm_is_below_every_feasible_point_and_near_one(mu):
    """By brute force: z of three classes on a grid, and the dual against the least of the convex hull."""
    p, w, counts, m = np.array([0.02, 0.1, 0.4]), np.array([1.0, 3.0, 0.2]), np.full(3, 10.0), 2
    C, h = bounds.FIRST
    D = 1 / (h / p + 9 / (4 * (1 - p)))
    kappa = p * (1 - p) / mu
    theta = np.minimum(kappa, 1 - np.exp(-7 / 6 * kappa))
    share = np.concatenate([[0.0], np.geomspace(1e-9, 1, 4000)])
    z = theta[:, None] * share
    with np.errstate(divide="ignore"):
        q = mu / C * -np.log(share)
    lost = (w * D)[:, None] * (1 - 1 / (1 + p[:, None] * q / D[:, None]))

    def dual(price):
        return counts @ np.min(lost + price * z, axis=1) - price * m

    by_hand = -optimize.minimize_scalar(lambda x: -dual(np.exp(x)), bounds=(-25, 5), method="bounded").fun
    found = bounds._logarithm_bound(np.stack([p, w, counts]), m, mu, bounds.FIRST)
    assert found <= max(by_hand, 0) * (1 + 1e-9) + 1e-15  # the grid has not all z
    assert found >= by_hand * (1 - 2e-3)


def test_rows_lose_what_their_interference_costs_at_different_p():
    """Steps 1 to 5: exact losses of random rows, half of them near the row that the proof is tight for."""
    rng = np.random.default_rng(5)
    closest = np.inf
    for _ in range(150):
        n = int(rng.integers(2, 6))
        p = np.exp(rng.uniform(np.log(1e-3), np.log(0.95), n))
        c = rng.choice([-1, 1], n) * np.exp(rng.uniform(-2.5, 1.5, n))
        c[0], a = 1, rng.uniform(0.3, 1.5)
        M, b = np.zeros((n, n)), np.zeros(n)
        M[0], b[0] = a * c, rng.uniform(-0.3, 0.2)
        exact = loss.exact_loss(M, b, Features(n, p), tol=1e-9, rows=[0]).per_feature[0]
        chi = c[1:] ** 2 / (1 + c[1:] ** 2)
        for (C, h), psi in ((bounds.FIRST, chi + chi**2 / 6), (bounds.SECOND, chi)):
            D = 1 / (h / p[0] + 9 / (4 * (1 - p[0])))
            q = p[1:] * (1 - p[1:]) @ psi / C
            least = D * p[0] * q / (D + p[0] * q)
            assert exact >= least
            closest = min(closest, exact / least)
    assert closest < 5  # the comparison would see a bound that is five times too high


def grouped(rng, size):
    """Return a law of groups of one to three features in tables of any kind, and of some that are alone."""
    groups, first = [], 0
    while first < size - 2:
        members = np.arange(first, first + int(rng.integers(1, 4)))
        patterns = np.array(list(itertools.product((0, 1), repeat=members.size)))
        chances = rng.dirichlet(np.full(len(patterns), 0.5))
        groups.append((members, patterns, chances))
        first = int(members[-1]) + 1
    weights = {"scale": np.exp(rng.normal(0, 0.5, size)), "importance": rng.uniform(0.2, 2, size)}
    return Features(size, rng.uniform(0.05, 0.9, size), groups=groups, **weights)


def test_the_bound_of_groups_is_below_its_mean_given_all_features_but_one_of_each():
    """What is proved, with every pattern of the others written out, and the bound of independent features."""
    rng = np.random.default_rng(1)
    law, m = grouped(rng, 5), int(rng.integers(1, 3))
    inside = [i for members, _, _ in law.groups for i in members]
    alone = [([i], [[0], [1]], [1 - law.p[i], law.p[i]]) for i in range(5) if i not in inside]
    blocks = [*alone, *law.groups]
    sizes = [len(members) for members, _, _ in blocks]
    total = 0.0
    for k in range(max(sizes)):
        chosen = [k % size for size in sizes]
        picked = [int(members[one]) for (members, _, _), one in zip(blocks, chosen, strict=True)]
        times = [
            sum(j % size == one for j in range(max(sizes))) for size, one in zip(sizes, chosen, strict=True)
        ]
        rests = []
        for (_, patterns, chances), one in zip(blocks, chosen, strict=True):
            rest = {}  # by the others of the block: the chances that the chosen one is off, or on
            for row, chance in zip(np.asarray(patterns), chances, strict=True):
                rest.setdefault(tuple(np.delete(row, one)), np.zeros(2))[row[one]] += chance
            rests.append(list(rest.values()))
        for given in itertools.product(*rests):
            chance = np.prod(np.sum(given, axis=1))
            p = np.array([on / (off + on) if off + on else 0.0 for off, on in given])
            live = (p >= 1e-100) & (p < 1.0)
            if chance and live.sum() > m:
                scale, importance = law.scale[picked][live], (law.importance[picked] / times)[live]
                some = Features(int(live.sum()), p[live], scale=scale, importance=importance)
                total += chance * some.n_features * unequal.loss_bound(some, m)
    assert total > 0
    assert 0.02 * total / 5 < unequal.loss_bound(law, m) <= total / 5 * (1 + 1e-9)


def test_the_bound_of_groups_of_one_is_that_of_independent_features():
    p = np.array([0.3, 0.2, 0.1, 0.05])
    alone = [([i], [[0], [1]], [1 - q, q]) for i, q in enumerate(p)]
    found = unequal.loss_bound(Features(4, p, groups=alone), 1)
    assert found == pytest.approx(unequal.loss_bound(Features(4, p), 1), rel=1e-9)
    sure = [synchronous([i, i + 1], 0.2) for i in range(0, 20, 2)]
    assert unequal.loss_bound(Features(20, 0.2, groups=sure), 2) == 0.0


def test_the_bound_is_below_the_priority_code_however_rare_features_are():
    for decades in (2, 20, 100):
        rng = np.random.default_rng(decades)
        p = np.exp(rng.uniform(-decades * np.log(10), np.log(0.999), 12))
        law = Features(12, p, scale=np.exp(rng.normal(0, 1, 12)), importance=rng.uniform(0, 2, 12))
        assert 0 <= unequal.loss_bound(law, 5) <= unequal.priority_loss(law, 5)
    for alpha, m, most in ((0.5, 20, 3.6), (1.5, 20, 3.6), (1.0, 170, 2)):  # and near it where few are on
        law = unequal.power_law(alpha, 200, 0.5)
        assert 1 < unequal.priority_loss(law, m) / unequal.loss_bound(law, m) < most


def test_the_weights_of_the_priority_code_tend_to_its_loss():
    """Also with a kept feature, planes of two sizes, and one of three features; then all but one dropped."""
    M = codes.priority_map(6, 30.0)
    W_out, W_in, b = unequal.priority_weights(Features(6, 0.02), 2, 30.0**5)
    np.testing.assert_allclose(W_out @ W_in, M, rtol=1e-12, atol=1e-14 * np.abs(M).max())
    for n, m in ((3, 2), (8, 3), (14, 6)):
        law = unequal.power_law(0.5, n, 0.1, scale=2.0)
        limit, off = unequal.priority_loss(law, m), []
        for reach in (1e4, 1e6):
            W_out, W_in, b = unequal.priority_weights(law, m, reach)
            assert W_out.shape == W_in.T.shape == (n, m)
            off.append(abs(loss.exact_loss(W_out @ W_in, b, law).loss / limit - 1))
        assert off[1] < off[0] / 4
    law = unequal.power_law(1.0, 4, 0.5)
    W_out, W_in, b = unequal.priority_weights(law, 1)
    found = loss.exact_loss(W_out @ W_in, b, law).loss
    assert found == pytest.approx(unequal.priority_loss(law, 1), rel=1e-9)
    W_out, W_in, b = unequal.priority_weights(law, 5)
    np.testing.assert_array_equal(W_out @ W_in, np.eye(4))
    np.testing.assert_array_equal(b, 0.0)


def silenced(law, planes, most=1.0):
    """Loss of planes of features by priority, over all patterns; an output loses `most` variances at most."""
    patterns, chances = table(law)
    total = 0.0
    for plane in planes:
        for i, j in enumerate(plane):
            heard = plane[(i == len(plane) - 1 and i > 2) : max(i - 1, 0)]
            lost = chances @ (patterns[:, j] * patterns[:, heard].any(axis=1)) / 3
            worth = law.importance[j] * law.scale[j] ** 2
            total += worth * min(lost, most * (law.p[j] / 3 - law.p[j] ** 2 / 4))
    return total / law.n_features


def pairs(kind, strength, count):
    law = Features(2, 0.1, groups=[unequal.partial_dependence(kind([0, 1], 0.1), strength)])
    return unequal.independent_copies(law, count)


def groups_of_eight():
    """Pairs of three kinds, three that are on together, and features alone, of several p, scales, weights."""
    p = [0.2, 0.2, 0.1, 0.1, 0.3, 0.12, 0.1, 0.05]
    scale, importance = np.array([1, 1, 2, 0.5, 1, 1, 1, 3]), np.array([1, 1, 1, 1, 0.2, 1, 1, 1])
    together = [synchronous([2, 3, 6], 0.1), exclusive([0, 7], [0.2, 0.05])]
    family = [parent_child(4, [5, 7], 0.3, [0.4, 0.1])]
    yield Features(8, p, scale=scale, groups=[exclusive([4, 1], [0.3, 0.2])])
    yield Features(8, p, scale=scale, groups=together)
    yield Features(8, p, scale=scale, importance=importance, groups=family)
    yield pairs(exclusive, 0.5, 4)
    yield pairs(synchronous, 0.5, 4)


@pytest.mark.parametrize("m", [2, 3, 4])
def test_the_priority_loss_of_groups_counts_patterns_and_their_weights_tend_to_it(m):
    for law in groups_of_eight():
        _, held, planes = priority._best_code(law, m)
        assert sorted([*held, *np.concatenate(planes)]) == list(range(8))
        assert unequal.priority_loss(law, m) == pytest.approx(silenced(law, planes), rel=1e-13, abs=0)
        limit = silenced(law, planes, most=np.inf)  # these weights drop nothing
        off = []
        for reach in (1e5, 1e8):
            W_out, W_in, b = unequal.priority_weights(law, m, reach)
            off.append(loss.exact_loss(W_out @ W_in, b, law, tol=1e-5).loss / limit - 1)
        assert -1e-4 < off[1] < max(off[0] / 3, 1e-4), (m, off)


def test_no_order_of_a_plane_is_better_for_pairs_alike():
    """All 720 orders of three pairs; with an independent table pairs are as if there were none."""
    for kind, strength in itertools.product((exclusive, synchronous), (0.0, 0.5, 1.0)):
        law = pairs(kind, strength, 3)
        best = min(silenced(law, [list(order)]) for order in itertools.permutations(range(6)))
        assert unequal.priority_loss(law, 2) == pytest.approx(best, rel=1e-13, abs=0)
    assert best < unequal.priority_loss(Features(6, 0.1), 2)


def test_groups_share_planes_where_that_is_better():
    """What excludes each other fills a plane and loses nothing; three that are on together are kept apart."""
    alone = [exclusive(range(5 * g, 5 * g + 5), 0.2) for g in range(3)]
    assert unequal.priority_loss(Features(15, 0.2, groups=alone), 6) == 0
    together = [synchronous(range(3 * g, 3 * g + 3), 0.05) for g in range(4)]
    law = Features(12, 0.05, groups=together)
    same_plane = silenced(law, np.arange(12).reshape(2, 6))
    assert unequal.priority_loss(law, 4) < 0.6 * same_plane

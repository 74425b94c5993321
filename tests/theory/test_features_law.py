"""Features that differ, in groups or exactly k: against enumeration at 22 digits, and samples."""

import copy
import pickle
from dataclasses import replace
from fractions import Fraction
from itertools import product

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from superposition.theory.features import (
    VALUES,
    Features,
    SparseUniform,
    as_features,
    exclusive,
    parent_child,
    synchronous,
)

from ..oracles import patterns
from .test_features_values import exact as value

P = [0.3, 0.05, 0.9, 1e-7, 0.4]
SCALES = [1.0, 0.2, 3.0, 1e-3, 2.0]
TABLE = ([4, 0, 1], [[1, 1, 1], [0, 1, 0], [0, 0, 0]], [0.7, 1e-4, 0.2999])
LAWS = {
    **{values: {"p": P, "values": values, "scale": SCALES} for values in VALUES},
    "synchronous": {"p": P, "groups": [synchronous([3, 1], 0.2)], "scale": SCALES},
    "exclusive": {"p": 0.1, "values": "half-normal", "groups": [exclusive([0, 2, 4], [0.5, 0.1, 0.3])]},
    "parent and child": {"p": P, "values": "normal", "groups": [parent_child(4, [0, 1], 0.3, [0.9, 1e-3])]},
    "two groups": {"p": 0.7, "groups": [synchronous([3, 1], 1e-6), exclusive([0, 4], 0.5)]},
    "exactly": {"p": P, "exactly": 2, "values": "exponential", "scale": SCALES},
    "exactly the rare": {"p": [1e-12, 1e-9, 0.5, 1e-3, 1e-7], "exactly": 4},
    "sure": {"p": [1.0, 0.2, 1.0, 0.3, 1e-9], "exactly": 3},
    "exactly and a group": {"p": P, "exactly": 3, "groups": [synchronous([3, 1], 1e-8)], "scale": SCALES},
    "fewer than a group": {"p": 0.3, "exactly": 1, "groups": [synchronous([0, 1, 2, 4], 0.2)]},
    "exactly and a table": {"p": 0.2, "values": "normal", "exactly": 2, "groups": [TABLE]},
}


def assert_close(found, exact, relative=1e-13, absolute=0.0):
    """Compare with exact numbers entry by entry."""
    for have, want in zip(np.ravel(found), exact, strict=True):
        assert abs(mp.mpmathify(have) - want) <= relative * abs(want) + absolute, (have, want)


@pytest.mark.parametrize("name", LAWS)
def test_laws_match_enumeration(name):
    """On and off, moments, and transforms, at 22 digits."""
    law, values = Features(5, **LAWS[name]), LAWS[name].get("values", "uniform")
    n, s = range(5), [mp.mpf(x) for x in law.scale.tolist()]
    with mp.workdps(22):
        chances = patterns(law, mp.mpf)
        on = [mp.fsum(chance for state, chance in chances if state[i]) for i in n]
        both = [[mp.fsum(chance for state, chance in chances if state[i] * state[j]) for j in n] for i in n]
        count = [mp.fsum(chance for state, chance in chances if sum(state) == k) for k in range(6)]
        assert_close(law.sparsity_pmf(), count)
        assert_close(law.on_probability(), on)
        assert_close(law.pair_probability(), np.ravel(both))
        if law.exactly is None:
            assert np.array_equal(law.p, law.on_probability())

        first, second, third = (value(values, r, mp.mpf(0)) for r in (1, 2, 3))
        mean, square = [on[i] * s[i] * first for i in n], [on[i] * s[i] ** 2 * second for i in n]
        joint = [[square[i] if i == j else both[i][j] * s[i] * s[j] * first**2 for j in n] for i in n]
        assert_close(law.mean, mean, absolute=1e-25)
        assert_close(law.second_moment, square)
        assert_close(law.moment(3), [on[i] * s[i] ** 3 * third for i in n], absolute=1e-25)
        assert_close(law.variance, [square[i] - mean[i] ** 2 for i in n], absolute=1e-25)
        assert_close(law.second_moment_matrix(), np.ravel(joint), absolute=1e-25)
        for (i, j), have in np.ndenumerate(law.covariance()):
            want = joint[i][j] - mean[i] * mean[j]
            # What is subtracted is as large as the products of means and of mean values.
            large = abs(s[i] * s[j]) * first**2
            assert abs(have - want) <= 1e-13 * abs(want) + 1e-15 * large + 1e-40  # of the quadrature
        assert np.array_equal(np.diag(law.covariance()), law.variance)

        z = np.array([0.1 + 0j, 0.2 - 3j, -1.5 + 0.5j])
        found = law.transform(z)
        for i in n:
            assert np.array_equal(law.transform(z, i), found[:, i])
            exact = [1 - on[i] + on[i] * value(values, 0, mp.mpmathify(x * law.scale[i])) for x in z.tolist()]
            assert_close(found[:, i], exact, absolute=1e-15)


def random_law(rng):
    """Up to 6 features: some sure, some in groups by tables with zeros, for most laws exactly k."""
    n, groups, start = int(rng.integers(1, 7)), [], 0
    p, order = np.where(rng.random(n) < 0.2, 1.0, 10 ** rng.uniform(-8, 0, n)), rng.permutation(n)
    while start < n and rng.random() < 0.6:
        size = int(rng.integers(1, n - start + 1))
        table = rng.permutation(np.array(list(product((0, 1), repeat=size))))
        table = table[: rng.integers(1, len(table) + 1)]
        weights = 10 ** rng.uniform(-8, 0, len(table)) * (rng.random(len(table)) < 0.8)
        weights = np.full(len(table), 1 / len(table)) if weights.sum() == 0 else weights / weights.sum()
        groups.append((order[start : start + size], table, weights))
        start += size
    exactly = int(rng.integers(0, n + 1)) if rng.random() < 0.7 else None
    return {"n_features": n, "p": p, "groups": groups, "exactly": exactly}


def test_random_laws_match_enumeration():
    rng = np.random.default_rng(4)
    for _ in range(200):
        given = random_law(rng)
        n, exactly = given["n_features"], given["exactly"]
        free = patterns(Features(**{**given, "exactly": None}))
        chances = {on: chance for on, chance in free if exactly in (None, sum(on))}
        if not chances:
            with pytest.raises(ValueError, match="`exactly` must have a positive probability"):
                Features(**given)
            continue
        law, on = Features(**given), np.array(list(chances))
        weights = np.array(list(chances.values())) / sum(chances.values())
        count = np.bincount(on.sum(axis=1), weights, n + 1)
        assert law.on_probability() == pytest.approx(weights @ on, rel=2e-14, abs=0)
        assert law.pair_probability() == pytest.approx((on.T * weights) @ on, rel=2e-14, abs=0)
        assert law.sparsity_pmf() == pytest.approx(count, rel=2e-14, abs=0)
        assert set(map(tuple, (law.sample(20, rng) != 0).astype(int).tolist())) <= set(chances)


def test_many_features_match_sums_of_products():
    """Unequal p over 12 decades, 60 features: the number on, and exactly 25, at 50 digits."""
    p = 10.0 ** np.random.default_rng(1).uniform(-12, 0, 60)
    law, given = Features(60, p), Features(60, p, exactly=25)
    on, pair = given.on_probability(), given.pair_probability()
    with mp.workdps(50):

        def polynomial(members):
            out = [mp.mpf(1)]
            for q in map(mp.mpf, map(float, members)):
                out = [(1 - q) * a + q * b for a, b in zip([*out, 0], [0, *out], strict=True)]
            return out

        whole = polynomial(p)
        assert_close(law.sparsity_pmf(), whole, 60 * 2.0**-52, 1e-300)
        assert_close(on[:3], [p[i] * polynomial(np.delete(p, i))[24] / whole[25] for i in range(3)])
        assert_close(pair[0, 5], [p[0] * p[5] * polynomial(np.delete(p, [0, 5]))[23] / whole[25]])
    assert on.sum() == pytest.approx(25, rel=1e-13, abs=0)
    assert pair.sum(axis=1) == pytest.approx(25 * on, rel=1e-12, abs=0)


def test_rare_numbers_do_not_underflow():
    law = Features(400, 1e-3, exactly=390, groups=[synchronous(np.arange(8), 1e-200)])
    on = law.on_probability()
    assert on.sum() == pytest.approx(390, rel=1e-12, abs=0)
    # With the group, 382 of 392; without it, 390 of 392: their odds are 1e-200 C(392, 382)/(C(392, 390) p^8).
    odds = mp.mpf(1e-200) * mp.binomial(392, 382) / mp.binomial(392, 390) * ((1 - mp.mpf(1e-3)) / 1e-3) ** 8
    assert on[0] == pytest.approx(float(odds / (1 + odds)), rel=1e-11, abs=0)


def test_samples_have_the_patterns():
    """Chi-square of all patterns; false alarm 1 in 1000 for all laws together."""
    names = list(LAWS)[len(VALUES) - 1 :]  # which law values have does not matter
    for name in names:
        law = Features(5, **LAWS[name])
        x = law.sample(100_000, np.random.default_rng(3)) != 0
        expected = {on: float(100_000 * chance) for on, chance in patterns(law)}
        common = [on for on in expected if expected[on] > 10]
        seen = {on: np.count_nonzero((x == np.array(on, bool)).all(axis=1)) for on in common}
        statistic = sum((seen[on] - expected[on]) ** 2 / expected[on] for on in common)
        assert statistic <= stats.chi2.isf(1e-3 / len(names), len(common)), name
        assert 100_000 - sum(seen.values()) < 40


def test_values_are_drawn_from_their_law():
    """Kolmogorov and Smirnov, each with a false alarm of 1 in 5000."""
    laws = {
        "uniform": stats.uniform, "half-normal": stats.halfnorm, "exponential": stats.expon,
        "symmetric": stats.uniform(-1, 2), "normal": stats.norm,
        "rectified-normal": stats.truncnorm(-1, np.inf, 1), "binary": None,
    }  # fmt: skip
    assert set(laws) == set(VALUES)
    for values, law in laws.items():
        x = Features(2, [1.0, 0.1], values, scale=[2.0, 1e-3]).sample(20_000, np.random.default_rng(11))
        for column, scale in zip(x.T, (2.0, 1e-3), strict=True):
            v = column[column != 0] / scale
            assert stats.kstest(v, law.cdf).pvalue > 2e-4 if law else np.all(v == 1), values


def test_uniform_law_agrees_with_the_plain_one():
    law, plain = Features(7, 0.3), SparseUniform(0.3)
    assert law.has_equal_features
    for other in ({"p": [0.3, 0.2]}, {"values": "binary"}, {"exactly": 1}, {"scale": [1, 2]}):
        assert not Features(2, **{"p": 0.3, **other}).has_equal_features
    assert law.covariance() == pytest.approx(plain.covariance(7), rel=1e-15, abs=0)
    assert np.array_equal(law.sparsity_pmf(), plain.sparsity_pmf(7))
    for same in (law, 0.3, plain):
        assert as_features(same, 7) == law


def test_a_law_is_a_value():
    given = {"p": np.array(P), "groups": [synchronous([3, 1], 0.2)], "exactly": 3}
    law = Features(5, **given)
    assert law == Features(5, **given) != Features(5, P)
    assert hash(law) == hash(Features(5, **given))
    given["p"][0] = 0.9
    assert law.p[0] == 0.3
    for array in (law.p, law.scale, law.importance, *law.groups[0], law.on_probability()):
        assert not array.flags.writeable
    assert law == Features(5, **{**given, "p": P})  # what is computed once does not count


def test_samples_repeat_and_generators_go_on():
    law = Features(5, P, exactly=2)
    assert np.array_equal(law.sample(10, 1), law.sample(10, np.random.default_rng(1)))
    rng = np.random.default_rng(1)
    assert not np.array_equal(law.sample(10, rng), law.sample(10, rng))


def test_sparsity_is_what_is_left_of_p():
    for sparsity in (0.95, 0.999, 0.0, 0.9999999999, [0.7, 0.9, 0.1]):
        law = Features(3, sparsity=sparsity, importance=[1, 2, 3])
        exact = [float(1 - Fraction(str(one))) for one in np.broadcast_to(sparsity, 3).tolist()]
        assert law.p.tolist() == exact  # of 0.95 exactly 0.05
        assert law == Features(3, exact, importance=[1, 2, 3])
        assert law.sparsity == pytest.approx(np.broadcast_to(sparsity, 3), rel=1e-15, abs=0)
        assert replace(law, p=0.25).sparsity.tolist() == [0.75] * 3
        assert copy.deepcopy(law) == pickle.loads(pickle.dumps(law)) == law

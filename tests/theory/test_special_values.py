"""Moments and transforms of the value laws against mpmath at 50 digits."""

import mpmath as mp
import numpy as np
import pytest

from superposition.theory.special import VALUES, value_moment, value_transform
from superposition.theory.special.derive import derive_value_moment, derive_value_transform


def exact(values, r, z):
    """E v^r exp(z v): derivatives of closed forms, or hypergeometric series near 0, at many digits."""
    if values == "binary":
        return mp.exp(z)
    if values == "exponential":
        return mp.factorial(r) / (1 - z) ** (r + 1)
    if values == "uniform":
        return mp.hyp1f1(r + 1, r + 2, z) / (r + 1)
    if values == "symmetric":
        return (mp.hyp1f1(r + 1, r + 2, z) + (-1) ** r * mp.hyp1f1(r + 1, r + 2, -z)) / (2 * (r + 1))
    normal = [mp.exp(z * z / 2) * f for f in (1, z, 1 + z * z)]
    if values == "normal":
        return normal[r]
    first = mp.exp(z * z / 2) * mp.erfc(-z / mp.sqrt(2))
    second = z * first + mp.sqrt(2 / mp.pi)
    return (first, second, z * second + first)[r]


def points(seed, size):
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 2 * np.pi, size)
    angle[: size // 4] = rng.choice([0.0, np.pi / 2, np.pi, -np.pi / 2], size // 4)
    z = 10.0 ** rng.uniform(-9, 2.5, size) * np.exp(1j * angle)
    edges = [radius * turn for radius in (1.0, 1.5, 2.0) for turn in (1, -1, 1j, np.exp(0.7j))]
    return np.concatenate([z, np.array([*edges, 0, 1e-300, -1e-20j])])


@pytest.mark.parametrize("values", VALUES)
def test_transforms_reach_the_stated_error(values):
    z = points(5, 150)
    large = np.abs(z.real) > 600
    if values in ("normal", "half-normal"):
        large = (z * z).real > 1000
    if values == "exponential":
        large = z.real > 0.99
    z = z[~large]
    found = value_transform(values, z)
    assert found.shape == (3, z.size)
    gaussian = values in ("normal", "half-normal")
    for r in range(3):
        for have, at in zip(found[r], z, strict=True):
            with mp.workdps(700 if 0 < abs(at) < 1e-20 else 70):
                want = exact(values, r, mp.mpmathify(complex(at)))
                # The stated error; relative to the transform at the real part, which bounds it, near zeros.
                turn = max(1.0, abs(at) ** (2 if gaussian else 1))
                near = mp.mpf(1e-290)  # underflow
                if values in ("uniform", "symmetric") and abs(at) > 1:
                    near += 1e-15 * mp.exp(abs(at.real)) / abs(at)
                assert abs(mp.mpmathify(complex(have)) - want) <= 4e-15 * turn * abs(want) + near, (r, at)


def test_half_normal_is_accurate_left_of_the_axis():
    """No loss however large |z|: relative 2e-15 r-th derivatives, on the axis too."""
    rng = np.random.default_rng(2)
    z = -(10.0 ** rng.uniform(-3, 4, 200)) * np.exp(1j * rng.uniform(-1, 1, 200) * np.pi / 2)
    found = value_transform("half-normal", z)
    with mp.workdps(90):
        for r in range(3):
            for have, at in zip(found[r], z, strict=True):
                want = exact("half-normal", r, mp.mpmathify(complex(at)))
                assert abs(mp.mpmathify(complex(have)) / want - 1) < 4e-15, (r, at)


@pytest.mark.parametrize("values", VALUES)
def test_moments_are_derivatives_at_zero(values):
    assert value_transform(values, 0.0) == pytest.approx(
        [value_moment(values, r) for r in range(3)], rel=1e-15
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: value_transform("beta", 0), "`values` must be one of 'uniform'.*; got 'beta'"),
        (lambda: value_transform("uniform", "x"), "`z` must be real numbers; got 'x'"),
        (lambda: value_transform("uniform", [0, np.nan]), "`z` must be finite; got .*nan"),
        (
            lambda: value_transform("uniform", 1e4),
            r"`z` must be smaller: the transform overflows; got \(10000",
        ),
        (
            lambda: value_transform("exponential", 1 + 1j),
            r"`z` must have a real part \(times scale\) below 1; got 1",
        ),
        (
            lambda: value_moment("normal", 151),
            "`k` must be an integer of at least 0 and at most 150; got 151",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("values", VALUES)
def test_the_derived_laws_are_those(values):
    moment, transform = derive_value_moment(values), derive_value_transform(values)
    for k in (1, 2, 3, 4, 7, 20, 150):
        want = moment.evaluate({"k": k}) if moment.expression.free_symbols else mp.mpf(1)
        assert value_moment(values, k) == pytest.approx(float(want), rel=2e-14 if k > 20 else 1e-15, abs=0)
    for z in (-20.0, -1.5, -1e-3, 0.3 + 2j, 0.9, -2j):
        derived = [transform.evaluate({"z": z})]
        with mp.workdps(250):
            function = transform._compiled("mpmath")
            derived += [mp.diff(function, mp.mpmathify(z), r) for r in (1, 2)]
        for have, want, r in zip(value_transform(values, z), derived, range(3), strict=True):
            with mp.workdps(50):
                assert abs(want / exact(values, r, mp.mpmathify(z)) - 1) < mp.mpf(10) ** (
                    -45 if r == 0 else -30
                )
                assert abs(mp.mpmathify(complex(have)) - want) <= 4e-15 * (1 + abs(z) ** 2) * abs(want)


class Broken:
    def __array__(self, dtype=None, copy=None):
        raise KeyError("of its own")


def test_what_an_array_of_a_user_raises_is_passed_on():
    with pytest.raises(KeyError, match="of its own"):
        value_transform("uniform", Broken())


@pytest.mark.parametrize(
    "bad", [True, np.ma.array([1j, 2.0], mask=[False, True]), np.array([1j, None]), [[1], [2, 3]]]
)
def test_what_is_no_complex_number_is_refused(bad):
    with pytest.raises(ValueError, match="`z` must be real numbers; got"):
        value_transform("uniform", bad)

"""Moments and transforms of the value laws against mpmath at 50 digits."""

import pickle

import mpmath as mp
import numpy as np
import pytest

from superposition.theory.features import VALUES, Features, rectified_normal, uniform_from
from superposition.theory.features.values import law_named
from superposition.theory.features.values.law import transforms_at

EDGES = ("symmetric", "uniform")  # transforms that are differences of ends
GAUSSIAN = ("half-normal", "normal", "rectified-normal")


def value_transform(values, z):
    return transforms_at(law_named("values", values), "z", np.asarray(z, complex))


def exact(values, r, z):
    """E v^r exp(z v), r up to 3: derivatives of closed forms, or hypergeometric series, at many digits."""
    name, _, end = values.rstrip(")").partition("(")
    if name == "binary":
        return mp.exp(z)
    if name == "exponential":
        return mp.factorial(r) / (1 - z) ** (r + 1)
    if name in ("uniform", "symmetric"):
        low = mp.mpf(float(end)) if end else mp.mpf(-1 if name == "symmetric" else 0)
        s = z * (1 - low)
        parts = [mp.hyp1f1(k + 1, k + 2, s) / (k + 1) * (1 - low) ** k * low ** (r - k) for k in range(r + 1)]
        return mp.exp(z * low) * mp.fsum(mp.binomial(r, k) * x for k, x in enumerate(parts))
    if name == "normal":
        return mp.exp(z * z / 2) * (1, z, 1 + z * z, z * (3 + z * z))[r]
    if name == "rectified-normal":
        ratio = mp.mpf(float(end or 1))
        tilted = exact("half-normal", r, z + ratio) * mp.exp(-(ratio**2) / 2) / 2
        return tilted + (mp.ncdf(-ratio) if r == 0 else 0)
    first = mp.exp(z * z / 2) * mp.erfc(-z / mp.sqrt(2))
    second = z * first + mp.sqrt(2 / mp.pi)
    third = z * second + first
    return (first, second, third, z * third + 2 * second)[r]


def points(seed, size):
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 2 * np.pi, size)
    angle[: size // 4] = rng.choice([0.0, np.pi / 2, np.pi, -np.pi / 2], size // 4)
    z = 10.0 ** rng.uniform(-9, 2.5, size) * np.exp(1j * angle)
    edges = [radius * turn for radius in (0.5, 0.500001, 1.0, 1.5, 2.0) for turn in (1, -1, 1j, np.exp(0.7j))]
    return np.concatenate([z, np.array([*edges, 0, 1e-300, -1e-20j])])


@pytest.mark.parametrize(
    "values", [*VALUES, *(f"uniform({low})" for low in (-0.999, -0.25, 1e-9, 0.5, 0.999))]
)
def test_transforms_reach_the_stated_error(values):
    z, gaussian, from_low = points(5, 100), values in GAUSSIAN, values.startswith("uniform(")
    if gaussian:
        large = (z * z).real + 2 * z.real > 1000
    elif values == "exponential":
        large = z.real > 0.99
    else:
        large = np.abs(z.real) > (300 if from_low else 600)
    z = z[~large]
    found, low = value_transform(values, z), law_named("values", values).support[0]
    assert found.shape == (3, z.size)
    for r in range(3):
        for have, at in zip(found[r], z, strict=True):
            with mp.workdps(700 if 0 < abs(at) < 1e-20 else 70):
                want = exact(values, r, mp.mpmathify(complex(at)))
                # The stated error; relative to the transform at the real part, which bounds it, near zeros.
                bound = 4e-15 * max(1.0, abs(at) ** (2 if gaussian else 1)) * abs(want) + mp.mpf(1e-290)
                if values in EDGES and abs(at) > 1:
                    bound += 1e-15 * mp.exp(abs(at.real)) / abs(at)
                if from_low:
                    size = mp.exp(max(at.real, at.real * low))
                    size /= max(1, (1 - low) * abs(at)) if abs(at) > 1 else 1
                    bound = 8e-15 * max(1.0, abs(at)) * size
                assert abs(mp.mpmathify(complex(have)) - want) <= bound, (r, at)
    if values == "half-normal":  # no loss left of the axis however large |z|, on the axis too
        rng = np.random.default_rng(2)
        z = -(10.0 ** rng.uniform(-3, 4, 200)) * np.exp(1j * rng.uniform(-1, 1, 200) * np.pi / 2)
        for r, row in enumerate(value_transform(values, z)):
            for have, at in zip(row, z, strict=True):
                with mp.workdps(90):
                    want = exact(values, r, mp.mpmathify(complex(at)))
                    assert abs(mp.mpmathify(complex(have)) / want - 1) < 4e-15, (r, at)


OTHERS = ["rectified-normal(-2)", "rectified-normal(6.5)", "uniform(0.5)", "uniform(-0.25)", "uniform(0.99)"]


@pytest.mark.parametrize("values", [*VALUES, *OTHERS])
def test_what_a_law_says_of_itself_agrees(values):
    """Moments, nodes, ramp moments and parts of one law, by each other and by samples."""
    one = law_named("values", values)
    v, weights = one.nodes()
    for k in range(9):
        assert weights @ v**k == pytest.approx(one.moment(k), rel=1e-12, abs=1e-13)
    assert value_transform(values, 0.0) == pytest.approx([one.moment(r) for r in range(3)], rel=2e-15, abs=0)
    drawn = np.broadcast_to(one.draw(np.random.default_rng(3), 100_000), 100_000)
    for t, m in ((0.3, -0.8), (-0.4, 1.1), (0.2, 0.0), (-1.0, 0.0)):
        ramps = np.maximum(t + m * drawn, 0.0)
        for k, found in enumerate(one.ramp_moments(t, m, 2)):
            sample = ramps**k if k else t + m * drawn > 0
            assert abs(sample.mean() - found) < 5 * sample.std() / drawn.size**0.5 + 1e-6  # rare ones
    assert one.support[0] <= drawn.min()
    assert drawn.max() <= one.support[1]
    for place, chance in one.atoms:
        # Of order 0 it is a probability; an output of exactly 0 is off.
        assert one.ramp_moments(-place, 1.0, 0)[0] == pytest.approx(weights @ (v > place), abs=1e-12)
        assert one.ramp_moments(place, -1.0, 0)[0] == pytest.approx(weights @ (v < place), abs=1e-12)
        assert abs(np.mean(drawn == place) - chance) < 5 * np.sqrt(chance * (1 - chance) / drawn.size) + 1e-12


@pytest.mark.parametrize("values", [*VALUES, *OTHERS])
def test_quantiles_of_uniform_numbers_have_the_laws_moments(values):
    """By the midpoints of so many strips; what the outermost ones lose of a normal law is below 1e-3."""
    torch = pytest.importorskip("torch", reason="values for training are PyTorch's")
    one, size = law_named("values", values), 200_000
    v = one.quantile(torch, (torch.arange(size, dtype=torch.float64) + 0.5) / size).numpy()
    assert v.shape == (size,)
    for k in (1, 2):
        scale = np.mean(np.abs(v) ** k)
        assert np.mean(v**k) == pytest.approx(one.moment(k), abs=1e-3 * scale)
    for at in np.quantile(v, [0.1, 0.4, 0.8]):
        assert np.mean(v > at) == pytest.approx(one.ramp_moments(-at, 1.0, 0)[0], abs=1e-5)


@pytest.mark.parametrize("values", [*VALUES, *OTHERS])
@pytest.mark.parametrize("sigma", [0.03, 0.4])
def test_what_noise_leaves_known_of_a_value_is_bayes_theorem(values, sigma):
    one = law_named("values", values)
    low, high = max(one.reach[0], -2.0), min(one.reach[1], 2.0)
    y = np.array([low - 2 * sigma, low, 0.6 * low + 0.4 * high, high + sigma])
    found = np.stack(one.posterior(y, sigma))
    for at, *have in zip(y, *found, strict=True):
        v, weights = one.nodes(at, sigma)
        weights = weights * np.exp(-0.5 * ((at - v) / sigma) ** 2) / sigma / np.sqrt(2 * np.pi)
        mean = weights @ v / weights.sum()
        want = np.log(weights.sum()), mean, weights @ (v - mean) ** 2 / weights.sum()
        assert have == pytest.approx(want, rel=1e-9, abs=1e-12), at


@pytest.mark.parametrize("values", [*VALUES, "uniform(0.5)", "uniform(-0.25)", "uniform(0.99)"])
def test_bounds_of_transforms_hold(values):
    """What the sum over frequencies takes from the jumps of a density."""
    parts = law_named("values", values).parts
    if not np.isfinite(parts.reach) or parts.atoms.size:
        return
    rng = np.random.default_rng(1)
    z = rng.uniform(-5, 5, 300) + 1j * 10 ** rng.uniform(-1, 3, 300)
    size = np.abs(value_transform(values, z)[0])
    assert np.all(size <= parts.edge * (1 + np.exp(parts.reach * np.abs(z.real))) / np.abs(z) * (1 + 1e-12))
    jumps = sum(j * np.exp(z.real * at) / np.abs(z) ** (order + 1) for at, j, order in parts.jumps)
    assert np.all(size <= jumps * (1 + 1e-12))


@pytest.mark.parametrize("ratio", [-5.0, 0.0, 2.5, 10.0, 30.0])
def test_rectified_normal_values_at_any_ratio(ratio):
    values = rectified_normal(ratio)
    with mp.workdps(60):
        for z in (0.7 - 2j, -3 + 0.1j, 30j, 1e-9):
            for r, have in enumerate(value_transform(values, z)):
                want = exact(f"rectified-normal({ratio})", r, mp.mpmathify(complex(z)))
                turn = (abs(z) + abs(ratio) + 1) ** 2
                assert abs(mp.mpmathify(complex(have)) - want) <= 4e-15 * turn * abs(want) + 1e-15 * (r == 0)
    for k in (1, 2, 9, 150):
        with mp.workdps(25):
            ends = [0, 3, 6, 9, 12, 16, 20, 26, 32, 40, 60]
            want = mp.quad(lambda v, k=k: v**k * mp.npdf(v - ratio), ends)
        assert values.moment(k) == pytest.approx(float(want), rel=1e-12, abs=0)


def test_values_with_a_number_have_a_name():
    for values in (rectified_normal(2.5), uniform_from(-0.999), uniform_from(0.5)):
        assert law_named("values", values.name) is values
        assert pickle.loads(pickle.dumps(Features(2, 0.1, values))).values is values
    assert uniform_from(0.0) is law_named("values", "uniform")
    assert law_named("values", "uniform(-1)") is law_named("values", "symmetric")
    for low in (-0.999, -0.25, 1e-9, 0.5, 0.999):
        for k in (1, 2, 9, 150):
            want = (1 - mp.mpf(low) ** (k + 1)) / (k + 1) / (1 - mp.mpf(low))
            assert uniform_from(low).moment(k) == pytest.approx(float(want), rel=1e-13, abs=1e-15)


class Broken:
    def __array__(self, dtype=None, copy=None):
        raise KeyError("of its own")


def test_what_an_array_of_a_user_raises_is_passed_on():
    with pytest.raises(KeyError, match="of its own"):
        Features(1, 1.0).transform(Broken())


def test_moments_given_a_value_that_is_not_0():
    law = law_named("values", "rectified-normal")
    for k in range(4):
        assert law.nonzero.moment(k) == pytest.approx(law.moment(k) / (1.0 - law.zero) if k else 1.0)

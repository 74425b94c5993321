"""Sampled objectives of sparse autoencoders: against exact ones, enumeration and central differences."""

import numba
import numpy as np
import pytest
from scipy import stats

from superposition.solvers.sae import AutoencoderObjective, sampled
from superposition.theory.features import Features, parent_child
from superposition.theory.model import Model

from ..oracles import autoencoder, differences, patterns

SCALE = (1.0, 1.5, 0.5)
PAIR = parent_child(0, [1], 0.5, 0.4)
# Chance that the comparison of a number is a false alarm.
ALPHA = 1e-6
BAR = stats.norm.isf(ALPHA / 2)


def both(law, d, latents, hidden, samples=200_000, **settings):
    """Return an autoencoder's exact and sampled objective."""
    rng = np.random.default_rng(5)
    phi, sae = rng.normal(size=(d, law.n_features)), autoencoder(rng, d, latents, hidden)
    return [
        AutoencoderObjective(law, phi, method=method, samples=samples, **settings)(sae)
        for method in ("exact", "samples")
    ]


def deviations(exact, means):
    """Return what sampled values differ by from exact ones, over their standard errors.

    Where a latent is never on, samples are exact.
    """
    off, error = [means.value - exact.value], [means.error_estimate]
    for name in exact.gradient:
        off.extend((means.gradient[name] - exact.gradient[name]).ravel())
        error.extend(means.gradient_error[name].ravel())
    off, error = np.array(off), np.array(error)
    assert np.all(np.abs(off[error == 0.0]) < 1e-9)
    return off[error > 0.0] / error[error > 0.0]


@pytest.mark.parametrize(
    ("law", "hidden", "prefixes", "centred"),
    [
        (Features(3, (0.3, 0.2, 0.6), scale=SCALE, groups=[PAIR]), "relu", None, False),
        (Features(3, (0.3, 0.2, 0.6), scale=SCALE), "jumprelu", None, True),
        (Features(3, (0.3, 0.2, 0.6), scale=SCALE), "jumprelu", {1: 0.5, 2: 0.2, 5: 1.0}, True),
        (Features(4, 0.3, "exponential", exactly=2), "relu", {2: 0.4, 3: 0.6}, False),
        (Features(2, 0.3, "normal"), "relu", None, True),
        (Features(3, 0.5, "rectified-normal(0)"), "jumprelu", None, False),
    ],
    ids=["groups", "jumps", "prefixes", "exactly", "normal", "zeros"],
)
def test_samples_have_the_exact_value_and_gradient(law, hidden, prefixes, centred):
    exact, means = both(law, 2, 5, hidden, l1=0.2, l0=0.1, prefixes=prefixes, centred=centred)
    off = deviations(exact, means)
    # 33 numbers at most, with errors from 98 batches: a false alarm in 30,000. Errors are what they say: the
    # mean square is 1, here of numbers that depend on each other.
    assert np.abs(off).max() < stats.t.isf(ALPHA / 2, 97), off
    assert 0.2 < np.sqrt(np.mean(off**2)) < 3.0
    assert means.error_estimate < 5e-3 * exact.value
    assert (exact.method, means.method) == ("exact", "samples")
    assert means.value == pytest.approx(means.mse + 0.2 * means.l1 + 0.1 * means.l0, rel=1e-12)
    assert means.l0 == pytest.approx(exact.l0, rel=0.02)
    # A value that is five percent too low would be seen.
    assert abs(means.value / 1.05 - exact.value) > BAR * means.error_estimate


@pytest.mark.parametrize(
    ("law", "hidden", "prefixes"),
    [
        (Features(3, (0.3, 0.2, 0.6), scale=SCALE, groups=[PAIR]), "relu", None),
        pytest.param(
            Features(3, (0.3, 0.2, 0.6), "half-normal", scale=SCALE),
            "jumprelu",
            {1: 0.5, 2: 0.2, 5: 1.0},
            marks=pytest.mark.slow,
        ),
    ],
    ids=["groups", "prefixes"],
)
def test_exact_means_of_single_latents_leave_a_smaller_error(law, hidden, prefixes):
    rng = np.random.default_rng(5)
    phi, sae = rng.normal(size=(2, 3)), autoencoder(rng, 2, 5, hidden)

    def objective(method, seed=0):
        return AutoencoderObjective(
            law, phi, l1=0.2, l0=0.1, prefixes=prefixes, method=method, samples=25_000, rng=seed
        )

    exact = objective("exact")(sae, gradient=False)
    all_means = [objective("samples", seed)(sae, gradient=False) for seed in range(60)]
    off = np.array([(means.value - exact.value) / means.error_estimate for means in all_means])
    # Squares of 60 normal numbers: a false alarm in a million. The error is a standard one, not a wide bound.
    low, high = stats.chi2.ppf([ALPHA / 2, 1 - ALPHA / 2], off.size)
    assert low < np.sum(off**2) < high
    assert abs(off.mean()) * np.sqrt(off.size) < BAR
    plain = objective("samples")(sae)
    assert all_means[0].error_estimate < 0.7 * plain.error_estimate
    for means in all_means:
        assert (means.l1, means.l0) == pytest.approx((exact.l1, exact.l0), rel=1e-4)
    assert plain.l1 != pytest.approx(exact.l1, rel=1e-4)


@pytest.mark.slow
def test_many_latents_share_the_inputs_that_are_put_on_thresholds():
    rng, law = np.random.default_rng(7), Features(2, 0.4)
    one = autoencoder(rng, 2, 70, "jumprelu")
    settings = {"l1": 0.05, "l0": 0.3}
    f = AutoencoderObjective(law, np.eye(2), method="samples", samples=500_000, **settings)
    exact = AutoencoderObjective(law, np.eye(2), method="exact", **settings)
    means, right = f(one), exact(one)
    # 423 numbers: a false alarm in 2,400.
    assert np.abs(deviations(right, means)).max() < stats.t.isf(ALPHA / 2, 244)
    without = means.gradient["b_in"] + means.gradient["thresholds"]  # no inputs at thresholds
    assert np.max(np.abs(without - right.gradient["b_in"])) > 2 * BAR * means.gradient_error["b_in"].max()


def test_the_sampled_gradient_is_that_of_the_sampled_mean():
    """By central differences on the same samples: without jumps a mean over samples has a gradient."""
    law, rng = Features(6, 0.3), np.random.default_rng(3)
    phi, one = rng.normal(size=(3, 6)), autoencoder(rng, 3, 4, "relu")
    weights = sampled.ObjectiveWeights(0.3, 0.0, np.array([1.7, 0.9, 0.2, 0.2, 0.0]))
    names = ["W_in", "b_in", "W_out", "b"]

    def at(arrays):
        """Return the plain mean of the objective: controls are the same for all weights, and cancel."""
        model = Model(**arrays, hidden="relu", output="identity")
        x = np.concatenate([law.sample(64, np.random.default_rng([11, k])) for k in range(32)])
        a, h = x @ phi.T, np.maximum(x @ phi.T @ model.W_in.T + model.b_in, 0.0)
        value = 0.3 * np.mean(h, axis=0) @ np.linalg.norm(model.W_out, axis=0)
        for size, weight in ((1, 0.8), (2, 0.7), (4, 0.2)):
            error = a - h[:, :size] @ model.W_out[:, :size].T - model.b
            value += weight * np.mean(np.sum(error**2, axis=1))
        return value

    arrays = {name: np.array(getattr(one, name)) for name in names}
    network = Model(one.W_in @ phi, one.b_in, "relu", one.W_out, one.b, "identity")
    found = sampled.sample_objective(network, law, phi, np.zeros(3), weights, 2000, 11, True)
    for name in names:
        want = differences(lambda x, name=name: at(arrays | {name: x}), arrays[name], 1e-6)
        # Inputs within 1e-6 of a kink, some of 2048, change by as much: 1e-5.
        assert found.gradient[name] == pytest.approx(want, abs=2e-5), name


def test_the_same_seed_gives_the_same_numbers_whatever_the_threads():
    law, rng = Features(20, 0.1), np.random.default_rng(2)
    phi, one = rng.normal(size=(4, 20)), autoencoder(rng, 4, 30, "jumprelu")

    def value(seed):
        return AutoencoderObjective(law, phi, l1=0.1, l0=0.1, method="samples", samples=20_000, rng=seed)(one)

    before = numba.get_num_threads()
    numba.set_num_threads(1)
    alone = value(3)
    numba.set_num_threads(before)
    again, other = value(3), value(4)
    assert alone.value == again.value != other.value
    assert all(np.array_equal(alone.gradient[name], again.gradient[name]) for name in alone.gradient)
    bar = BAR * np.hypot(alone.error_estimate, other.error_estimate)
    assert abs(alone.value - other.value) < bar


def test_atoms_at_thresholds_are_off_in_samples_too():
    law = Features(8, 0.3, "binary")
    phi = np.random.default_rng(0).choice([-0.25, 0.25], (16, 8))
    one = Model(phi.T, b_in=0.1, hidden="jumprelu", W_out=phi, output="identity", thresholds=0.6)
    f, g = (AutoencoderObjective(law, phi, l1=0.1, l0=0.1, method=method) for method in ("exact", "samples"))
    exact, means = f(one), g(one)
    # 289 numbers: a false alarm in 3,500.
    assert np.abs(deviations(exact, means)).max() < stats.t.isf(ALPHA / 2, 48)
    # All patterns, each with the latents that are on in it.
    x, chances = map(np.array, zip(*patterns(law), strict=True))
    a = x @ phi.T
    z = a @ phi + 0.1
    on = z > 0.6 + 1e-9
    error = np.where(on, z, 0.0) @ phi.T - a
    slopes = (2.0 * error @ phi + 0.1) * on * chances[:, None]
    assert exact.gradient["W_in"] == pytest.approx(slopes.T @ a, abs=1e-12)
    assert exact.gradient["b_in"] == pytest.approx(slopes.sum(axis=0), abs=1e-12)
    # Half of the probability at thresholds, which sums over frequencies would count, would be seen.
    moved = f(Model(phi.T, b_in=0.1 + 1e-9, hidden="jumprelu", W_out=phi, output="identity", thresholds=0.6))
    assert abs(means.l0 - moved.l0) > 0.1


def test_exact_prefixes_are_sums_of_autoencoders_of_the_first_latents():
    law, rng = Features(3, 0.3), np.random.default_rng(1)
    phi, one = rng.normal(size=(2, 3)), autoencoder(rng, 2, 3, "jumprelu")
    found = AutoencoderObjective(law, phi, prefixes={1: 0.25, 3: 2.0})(one)
    value, by_b = 0.0, 0.0
    for size, weight in ((1, 0.25), (3, 2.0)):
        cut = Model(one.W_in[:size], one.b_in[:size], "jumprelu", one.W_out[:, :size], one.b, "identity",
                    thresholds=one.thresholds[:size])  # fmt: skip
        part = AutoencoderObjective(law, phi)(cut)
        value, by_b = value + weight * part.value, by_b + weight * part.gradient["b"]
    assert found.value == pytest.approx(value, rel=1e-12)
    assert found.gradient["b"] == pytest.approx(by_b, rel=1e-10)


def test_samples_are_taken_where_exact_sums_take_longer():
    law, rng = Features(40, 0.1), np.random.default_rng(0)
    phi, one = rng.normal(size=(3, 40)), autoencoder(rng, 3, 6, "relu")
    f = AutoencoderObjective(law, phi, l1=0.1, tol=1e-4, samples=1000, seconds=1e-3)
    assert f(one, gradient=False).method == "samples"
    f.seconds = 600.0
    assert f(one, gradient=False).method == "samples", "the method changes within a descent"
    exact = AutoencoderObjective(law, phi, l1=0.1, tol=1e-4)(one, gradient=False)
    assert (exact.method, exact.gradient, exact.gradient_error) == ("exact", None, None)


def test_samples_are_taken_where_the_law_has_no_exact_sums():
    law = Features(20, 0.2, exactly=10)
    one = Model(np.ones((1, 20)), hidden="relu", output="identity")
    means = AutoencoderObjective(law, np.eye(20), samples=100_000)(one)
    # One latent reads the sum s of ten uniform values: E |x - s 1|^2 = E x^2 - 2 E s^2 + 20 E s^2.
    right = 10 / 3 + 18 * (10 / 12 + 25)
    assert means.method == "samples"
    assert abs(means.value - right) < BAR * means.error_estimate < 1.0

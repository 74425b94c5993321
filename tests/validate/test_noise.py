"""Experiments on hidden noise: their numbers by other routes, their arguments, their figures."""

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure as Canvas
from scipy import optimize, stats

from superposition.solvers import noise as solvers
from superposition.theory import noise as theory
from superposition.validate import noise
from superposition.validate.noise.runs import starts

ALARM = 1e-4  # rate at which each random comparison rejects what is true


@pytest.fixture(scope="module")
def fig4():
    return noise.run_fig4(4, 4, (0.2, 0.3), 0.05, 400, 3, averaged_runs=2, averaged_time=10.0, points=8)


@pytest.fixture(scope="module")
def fig5():
    return noise.run_fig5(4, 4, (1e-3, 2e-3, 0.1, 1.0, 2.0), (0.05, 0.2, 0.4), 0.05, 2000, 6)


@pytest.fixture(scope="module")
def mechanism():
    return noise.run_mechanism(
        4, 4, 0.25, (0.01, 0.02), (-2.0, 0.0, 2.0), 40.0, 6, lone_runs=20, averaged_runs=3
    )


@pytest.fixture(scope="module")
def fig6():
    return noise.run_fig6(4, 4, 0.25, 0.02, 20_000, 8, points=10)


@pytest.fixture(scope="module")
def often():
    return noise.run_stuck((3, 4, 6), 4, 0.25, time=400.0, runs=8)


# Figures 4 and 5


def test_fig4_is_descent_from_its_starts(fig4):
    made = solvers.descend(
        starts(4, 4, 3, 0), "normal", 0.3, 0.05, 400, np.random.default_rng([0, 1, 1]), shared=True
    )
    last = fig4["fourth_norm"].sel(noise="normal", noise_std=0.3, step=400)
    np.testing.assert_array_equal(last, made.fourth_norm[:, 0].mean(axis=1))
    np.testing.assert_array_equal(fig4["t"], 0.05 * fig4["step"])


def test_fig4_averaged_descent_has_the_same_clock(fig4):
    """The flow, whose time is 4 * learning_rate * steps, but for the error of Euler's rule."""
    sure = solvers.flow(starts(4, 4, 2, 0), "bipolar", 0.2, [20.0, 40.0]).fourth_norm.mean(axis=2)
    there = fig4["averaged"].sel(noise_std=0.2).swap_dims(step="t").sel(t=[5.0, 10.0]).values.T
    np.testing.assert_allclose(there, sure, atol=0.03)
    late = fig4["averaged"].where(fig4["t"] > 10.0, drop=True)
    assert np.isnan(late).all()
    assert late.size


def test_fig4_times(fig4):
    expected = [theory.sparsification_time(4, 4, std, -2.0) for std in (0.2, 0.3)]
    np.testing.assert_allclose(fig4["predicted_time"], expected)
    mean = fig4["fourth_norm"].sel(noise="bipolar").mean("run")
    for k in range(2):
        half = float(fig4["half_time"][k])
        curve = mean.isel(noise_std=k)
        if np.isnan(half):
            assert float(curve.max()) < 0.5
        elif half > 0:
            assert float(np.interp(half, fig4["t"], curve)) == pytest.approx(0.5)
        else:
            assert float(curve[0]) >= 0.5


def test_fig5_one_hot_encodings(fig5):
    """The l1 force on a one-hot encoding, and the noise that other inputs send through it."""
    for lam, w4 in zip(fig5["lam"].values, fig5["lam_drop"].values, strict=True):
        least = optimize.minimize_scalar(
            lambda w, lam=lam: (1 - w * w) ** 2 + lam * w, bounds=(0.5, 1.1), method="bounded"
        )
        expected = least.x**4 if lam < 1.5 else 0.0
        assert float(w4) == pytest.approx(expected, abs=1e-4)

    def shortened(s, std):
        W = np.sqrt(s) * np.eye(4)
        return theory.noise_averaged_loss(W, "bipolar", std)

    for std, s2 in zip(fig5["noise_std"].values, fig5["noise_drop"].values, strict=True):
        least = optimize.minimize_scalar(shortened, args=(std,), bounds=(0.05, 1.0), method="bounded")
        assert least.x**2 == pytest.approx(float(s2), abs=1e-4)


def test_fig5_strong_l1_reaches_the_one_hot_encodings(fig5):
    at = fig5.sel(lam=0.1)
    np.testing.assert_allclose(at["by_lam"], float(at["lam_drop"]), atol=0.01)
    assert float(fig5["by_lam"].sel(lam=2.0).max()) < 0.01
    assert fig5.attrs["silent_std"] == pytest.approx(np.sqrt(np.pi / 8) / 3)


def test_power_finds_a_power_and_covers_it():
    rng = np.random.default_rng(1)
    x = np.geomspace(0.01, 1, 12)
    inside = 0
    for _ in range(10):
        growth = 0.5 * x**3 * rng.normal(1, 0.3, (40, 1)) + rng.normal(scale=1e-4, size=(40, 12))
        estimate, low, high = noise.power(x, growth, 0.95)
        assert abs(estimate - 3) < 0.3
        inside += low <= 3 <= high
    assert stats.binom.cdf(inside, 10, 0.85) > ALARM
    assert np.isnan(noise.power(x[:2], np.zeros((3, 2)), 0.9)).all()


def test_drop_is_descent():
    ds = noise.run_drop(3, 4, (0.2, 0.4), (0.1,), 20.0, 2, seed=5)
    made = solvers.descend(
        starts(3, 4, 2, 5), "bipolar", 0.4, 0.1, 200, np.random.default_rng([5, 700, 1, 0])
    )
    square = np.sum(made.W**2, axis=2)
    np.testing.assert_allclose(ds["square"].isel(noise_std=1, learning_rate=0), square.mean(axis=1))
    shape = np.sum(made.W**4, axis=2) / square**2
    np.testing.assert_allclose(ds["shape"].isel(noise_std=1, learning_rate=0), shape.mean(axis=1))


# The mechanism


def lines(slope, first, runs=30, rates=(0.01, 0.02, 0.04)):
    """Return what an experiment with growth of known law would have found."""
    rng = np.random.default_rng(2)
    rates, scatter = np.array(rates), rng.normal(scale=1e-3, size=runs)
    kurtosis = np.array([-2.0, -1.0, 1.0])
    return xr.Dataset(
        {
            "by_rate": (("learning_rate", "run"), first + slope * rates[:, None] + scatter),
            "averaged": ("averaged_run", np.full(3, first) + scatter[:3]),
            "by_kurtosis": (("excess_kurtosis", "run"), -0.1 * (kurtosis[:, None] + 0.5) + scatter),
            "by_normal": ("run", 0 * scatter),
            "lone": ("lone_run", scatter),
            "lone_predicted": 0.0,
        },
        {"learning_rate": rates, "excess_kurtosis": kurtosis},
        {"source_rate": 0.02},
    )


def test_judged_tells_first_from_second_order():
    first, second = (noise.judged(lines(*law)) for law in ((0.0, 0.3), (10.0, 0.0)))
    for found, power, share in ((first, 0.0, 1.0), (second, 1.0, 0.0)):
        assert found["power"][1] - 0.02 < power < found["power"][2] + 0.02
        assert found["share"][1] - 0.02 < share < found["share"][2] + 0.02
    assert first["crossing"][1] < -0.5 < first["crossing"][2]
    assert abs(first["gap"][0]) < 1e-9
    assert "gap" not in noise.judged(lines(0.0, 0.3).isel(averaged_run=slice(1)))
    with pytest.raises(ValueError, match=r"`confidence`.*1\.5"):
        noise.judged(lines(0.0, 0.3), 1.5)


def test_mechanism_lone_encodings_by_hand(mechanism):
    alone = starts(1, 4, 20, 1)
    made = solvers.descend(alone, "bipolar", 0.15, 0.02, 2000, np.random.default_rng([0, 300]))
    shape = [np.sum(W**4, axis=-1)[:, 0] / np.sum(W**2, axis=-1)[:, 0] ** 2 for W in (alone, made.W)]
    np.testing.assert_allclose(mechanism["lone"], shape[1] - shape[0], atol=1e-12)
    unit = alone[:, 0] / np.linalg.norm(alone[:, 0], axis=1)[:, None]
    drift = theory.fourth_norm_drift(unit, "bipolar", 0.15, 0.02)
    assert float(mechanism["lone_predicted"]) == pytest.approx(2000 * drift.mean())


def test_mechanism_regulariser_is_its_descent(mechanism):
    """Descend 16 eta^2 sigma^4 kappa |W|_4^4 on the sphere, step by step."""
    rate, std, steps = 0.02, 0.25, 2000
    still = solvers.descend(starts(4, 4, 6, 0), "bipolar", 0.0, 0.02, 2000, 0).W
    W = still.copy()
    before = (np.sum(W**4, axis=-1) / np.sum(W**2, axis=-1) ** 2).mean()
    for _ in range(steps):
        force = 128 * rate**2 * std**4 * W**3
        W += (
            rate * 0
            + force
            - W * np.sum(force * W, axis=-1, keepdims=True) / np.sum(W * W, axis=-1, keepdims=True)
        )
    after = (np.sum(W**4, axis=-1) / np.sum(W**2, axis=-1) ** 2).mean()
    assert float(mechanism["regulariser"].sel(learning_rate=rate)) == pytest.approx(after - before, rel=0.01)


@pytest.mark.slow
def test_first_order_has_the_growth_of_training():
    """Extrapolated to rate 0, training grows as the flow of the averaged loss does from the same starts."""
    ds = noise.run_mechanism(
        4, 4, 0.25, (0.0025, 0.005, 0.01), (-2.0, 2.0), 40.0, 40, lone_runs=2, averaged_runs=40
    )
    _, low, high = noise.judged(ds, 1 - ALARM)["gap"]
    assert low < 0 < high
    assert low > -float(ds["averaged"].mean())  # an effect of second order would leave all of it as the gap


# Figure 6


def test_stuck_by_hand():
    assert noise.stuck([[1, 0, 0], [0, 1, 0], [0.4, 0.5, 0.3]]).tolist() == [False, False, True]
    assert not noise.stuck([[0.4, 0.5, 0.3], [0.3, 0.4, 0.5]]).any()  # nobody is sparse
    assert noise.stuck(np.eye(3)[None]).shape == (1, 3)


def test_symmetric_minima_are_minima():
    for spread in (True, False):
        W = noise.symmetric_minimum(5, 0.2, spread=spread)
        slope, least = noise.curvature(W, "bipolar", 0.2)
        assert slope < 0.01 * least  # weights are within 0.01 of it
        assert least > 0
    assert noise.stuck(noise.symmetric_minimum(5, 0.2, spread=True)).tolist() == [False] * 4 + [True]


def test_curvature_of_normal_noise_by_differences_of_the_loss():
    W = np.array([[0.9, -0.2], [-0.3, 0.8]])
    slope, least = noise.curvature(W, "normal", 0.3)
    step, flat = 1e-3, np.eye(4).reshape(4, 2, 2)

    def loss(V):
        return theory.noise_averaged_loss(V, "normal", 0.3)

    first = [(loss(W + step * e) - loss(W - step * e)) / (2 * step) for e in flat]
    second = [
        [
            (
                loss(W + step * (a + b))
                - loss(W + step * (a - b))
                - loss(W - step * (a - b))
                + loss(W - step * (a + b))
            )
            / (4 * step**2)
            for b in flat
        ]
        for a in flat
    ]
    assert slope == pytest.approx(np.linalg.norm(first), rel=1e-3)
    assert least == pytest.approx(np.linalg.eigvalsh(second)[0], abs=1e-3)


def test_fig6_shows_a_stuck_encoding(fig6):
    assert int(fig6["found"]) > 0
    assert fig6["stuck"].values.sum() >= 1
    assert bool(fig6["stuck"][0])
    np.testing.assert_allclose(np.sum(fig6["W"].values ** 4, axis=1), fig6["fourth_norm"].isel(step=-1))
    assert np.all(np.diff(fig6["fourth_norm"].isel(step=-1)) >= 0)
    assert 0 <= float(fig6["owned"]) <= 1
    assert float(fig6["loss"]) == pytest.approx(
        theory.noise_averaged_loss(fig6["settled"].values, "bipolar", 0.25), abs=1e-12
    )


def test_stuck_intervals(often):
    for n in often["n_features"].values:
        at = often.sel(n_features=n)
        hits = int((at["stuck"] > 0).sum())
        assert float(at["frequency"]) == hits / 8
        if hits:  # as many or more have probability 2.5 % at the lower limit
            assert stats.binom.sf(hits - 1, 8, float(at["low"])) == pytest.approx(0.025, rel=1e-6)
        if hits < 8:
            assert stats.binom.cdf(hits, 8, float(at["high"])) == pytest.approx(0.025, rel=1e-6)


# PyTorch


def test_torch_follows_the_solver_without_noise():
    pytest.importorskip("torch", reason="training needs PyTorch")
    W0 = starts(4, 5, 3, 0)
    trained = noise.train_noise(W0, "normal", 0.0, learning_rate=0.05, steps=50, record=[0, 50])
    made = solvers.descend(W0, "normal", 0.0, 0.05, 50)
    np.testing.assert_allclose(trained["W"], made.W, atol=1e-4)
    np.testing.assert_allclose(trained["fourth_norm"].sel(step=50), made.fourth_norm[:, 0], atol=1e-4)
    np.testing.assert_allclose(trained["l2_norm"].sel(step=0), np.linalg.norm(W0, axis=2), atol=1e-6)


@pytest.mark.parametrize("name", ["bipolar", "uniform", "normal", "laplace"])
def test_torch_noise_has_its_moments(name):
    torch = pytest.importorskip("torch", reason="training needs PyTorch")
    from superposition.validate.noise.training import _noise

    x = _noise(torch, name, (200_000,), torch.Generator().manual_seed(3)).double().numpy()
    moments = theory.noise_moments(name)  # mu2, mu4, mu6, mu8
    for power, mean, spread in ((2, moments[0], moments[1]), (4, moments[1], moments[3])):
        error = np.sqrt(max(spread - mean**2, 1e-9) / x.size)
        assert abs(np.mean(x**power) - mean) < stats.norm.isf(ALARM / 16) * error + 1e-4


def test_torch_agrees_in_distribution():
    pytest.importorskip("torch", reason="training needs PyTorch")
    ds = noise.run_agreement(4, 4, 0.25, 0.1, 150, 60, seed=1)  # one run in 200 diverges, at seed 0 too
    for name in ("bipolar", "normal"):
        here, there = ds["fourth_norm"].sel(noise=name).values
        assert stats.ks_2samp(here, there).pvalue > ALARM


def test_shared_noise_differs():
    pytest.importorskip("torch", reason="training needs PyTorch")
    W0 = np.eye(3)[None]
    one, other = (
        noise.train_noise(W0, "normal", 0.2, steps=1, shared=shared)["W"] for shared in (True, False)
    )
    assert not np.array_equal(one, other)


# Arguments and figures


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: noise.run_fig4(1), r"`n_features`.*1"),
        (lambda: noise.run_fig4(runs=1), r"`runs`.*1"),
        (lambda: noise.run_fig4(noise_std=(0.0,)), r"`noise_std`.*0"),
        (lambda: noise.run_fig4(steps=1), r"`steps`.*1"),
        (lambda: noise.run_fig5(lam=(-1.0,)), r"`lam`.*-1"),
        (lambda: noise.run_fig5(confidence=1.0), r"`confidence`.*1"),
        (lambda: noise.run_mechanism(6), r"`n_features`.*6"),
        (lambda: noise.run_mechanism(1), r"`n_features`.*1"),
        (lambda: noise.run_mechanism(learning_rate=(0.2, 0.1)), r"`learning_rate`.*0\.2, 0\.1"),
        (lambda: noise.run_mechanism(excess_kurtosis=(-3.0,)), r"`excess_kurtosis`.*-3"),
        (lambda: noise.run_fig6(2), r"`n_features`.*2"),
        (lambda: noise.run_fig6(n_hidden=41), r"`n_hidden`.*41"),
        (lambda: noise.run_stuck(confidence=0.0), r"`confidence`.*0"),
        (lambda: noise.run_drop(time=0.0), r"`time`.*0"),
        (lambda: noise.run_agreement(runs=1), r"`runs`.*1"),
        (lambda: noise.train_noise(np.eye(2), "cauchy", 0.1), r"`noise`.*cauchy"),
        (lambda: noise.train_noise(np.eye(2), "normal", -0.1), r"`noise_std`.*-0\.1"),
        (lambda: noise.symmetric_minimum(2, 0.1, spread=True), r"`n_features`.*2"),
    ],
)
def test_bad_arguments_are_named(call, text):
    with pytest.raises(ValueError, match=text):
        call()


def test_every_figure_draws_on_its_axes(fig4, fig5, mechanism, fig6, often):
    drop = noise.run_drop(2, 2, (0.2, 0.3), (0.1, 0.05), 1.0, 2)
    for plot, ds in (
        (noise.plot_fig4, fig4),
        (noise.plot_fig5_lam, fig5),
        (noise.plot_fig5_noise, fig5),
        (noise.plot_rates, mechanism),
        (noise.plot_number, mechanism),
        (noise.plot_kurtosis, mechanism),
        (noise.plot_fig6, fig6),
        (noise.plot_weights, fig6),
        (noise.plot_stuck, often),
        (noise.plot_drop, drop),
    ):
        ax = Canvas().subplots()
        assert plot(ds, ax) is ax
        assert ax.get_xlabel()
        assert ax.get_ylabel()

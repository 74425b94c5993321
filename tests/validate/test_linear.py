"""Trained linear autoencoders against exact flows, critical losses, growth rates and weighted PCA."""

import numpy as np
import pytest

from superposition.solvers.linear import gradient_flow
from superposition.validate.experiments import linear
from superposition.validate.experiments.linear.descent import RULES, expected_losses, largest_angles
from superposition.validate.experiments.linear.plateaus import _escape_times, euler_delays

SIGMA = np.array([[2.0, 0.6, 0.1], [0.6, 1.0, -0.2], [0.1, -0.2, 0.5]])
TINY = {
    "plateaus": {"eigenvalues": (4.0, 1.0, 0.2), "n_hidden": 1, "runs": 2, "points": 40, "rate": 0.01},
    "flows": {"runs": 2, "end": 4.0, "points": 6, "rate": 0.02},
    "saddles": {"eigenvalues": (3.0, 1.0, 1.0), "n_hidden": 1, "runs": 1, "step": 0.1},
    "subspaces": {"n_features": 3, "n_hidden": 2, "samples": 50, "runs": 1, "end": 4.0, "points": 6},
    "representation": {"n_features": 3, "n_hidden": 1, "p": (0.1, 0.5), "runs": 2, "steps": 200},
}


@pytest.mark.parametrize("rule", RULES)
def test_descent_tends_to_its_flow_as_the_steps_do_to_zero(torch, rule):
    rng = np.random.default_rng(1)
    A, C = 0.5 * rng.normal(size=(2, 2, 3, 2))
    x, t = linear.moment_points(SIGMA), 1.6
    exact = gradient_flow(A[1], SIGMA, t, rule, B0=C[1].T if rule == "pair" else None)
    exact = exact.W[0], exact.B[0].T
    rates = (0.02, 0.01, 0.005)
    coarse, middle, fine = (linear.descend(A, C, x, r, [0, round(t / (2 * r))], rule) for r in rates)
    for name, end in zip(("A", "C"), exact, strict=True):
        a, b, c = (getattr(one, name)[1, 1] for one in (coarse, middle, fine))
        # Euler's error is c1 eta + c2 eta^2 + ...: two extrapolations leave the third order, where c_k is of
        # the order of rate^k, so 8 (2 * 0.005 * 2 * 2)^3 = 5e-4 of what remains at worst.
        limit = (8 * c - 6 * b + a) / 3
        np.testing.assert_allclose(limit, end, atol=5e-4)
        assert np.abs(c - end).max() > 10 * np.abs(limit - end).max()
    if rule != "encoder":  # a canary: the flow of Eq. 22 is another
        assert np.abs(limit - gradient_flow(A[1], SIGMA, t, "encoder").W[0]).max() > 0.02


def test_a_trained_bias_centres_the_inputs_and_each_run_has_its_own(torch):
    mean = np.array([0.3, -1.0, 2.0])
    rng = np.random.default_rng(2)
    W = 0.3 * rng.normal(size=(3, 3, 1))
    trained = linear.descend(W, W, linear.moment_points(SIGMA, mean), 0.04, [1500], "tied", bias=True)
    A = trained.A[-1]
    np.testing.assert_allclose(trained.bias[-1], mean - A @ (mean @ A)[..., None] @ [1.0], atol=1e-6)
    least = np.linalg.eigvalsh(SIGMA)[:2].sum() / 3
    np.testing.assert_allclose(expected_losses(A, A, SIGMA), least, rtol=1e-9)
    A, C = 0.5 * rng.normal(size=(2, 2, 3, 2))
    x, options = rng.normal(size=(2, 5, 3)), {"importance": rng.random(3), "momentum": 0.5}
    both = linear.descend(A, C, x, 0.01, [30], "pair", **options)
    for r in range(2):
        alone = linear.descend(A[[r]], C[[r]], x[r], 0.01, [30], "pair", **options)
        np.testing.assert_allclose(both.A[:, r], alone.A[:, 0], rtol=1e-12)
    assert np.abs(both.A - linear.descend(A, C, x, 0.01, [30], "pair").A).max() > 1e-3


@pytest.fixture(scope="module")
def plateaus(torch):
    return linear.run_plateaus((8.0, 2.0, 0.5, 0.1), 2, samples=30, runs=2, rate=0.002, points=80)


@pytest.mark.slow
def test_losses_rest_at_the_saddles_and_leave_them_on_time(plateaus):
    ds = plateaus
    # Modes two factors of four apart overlap by powers of the initial weights, 1e-3: far below 1 %.
    flow, trained = (ds.sel(route=route) for route in ("flow", "trained"))
    np.testing.assert_allclose(flow["escape"] / ds["predicted"], 1, atol=0.01)
    lag = ds.attrs["learning_rate"] * ds["rate"]
    late = trained["escape"] / flow["escape"] - 1
    # The first order of Euler's steps is the lag itself; its half is what the nonlinear part may take back.
    assert bool(((late > 0.5 * lag) & (late < 1.1 * lag)).all())
    np.testing.assert_allclose(euler_delays(ds) / lag, 1, atol=0.03)
    for data in ds["data"].values:
        levels = ds["level"].sel(data=data).values
        for values in (flow["loss"], trained["loss"], ds["law_loss"]):
            gaps = [np.abs(values.sel(data=data) - level).min("step").max() for level in levels]
            assert max(gaps) < 0.01 * levels[0], values.name
    # Chance makes the samples' optimum no better in expectation.
    least = ds["level"].sel(data="expected").values[-1]
    ends = ds["population_loss"].sel(route="trained")
    assert bool((ends > least * (1 - 1e-6)).all())
    np.testing.assert_allclose(ends.sel(data="expected"), least, rtol=1e-3)


def test_predicted_escapes_need_the_start_and_the_rate(plateaus):
    measured, predicted = plateaus["escape"].values[0], plateaus["predicted"].values
    assert np.all(measured / (predicted / 1.03) > 1.01)  # a wrong rate
    # Without Gram and Schmidt all directions would begin at the standard deviation.
    plain = np.log(1 / plateaus.attrs["initial"]) / plateaus["rate"].values[:, :, None]
    assert np.abs(measured / plain - 1).max() > 0.05


def test_escape_times_are_interpolated():
    loss, t, levels = np.array([3.0, 3.0, 1.0, 1.0]), np.arange(4.0), np.array([3.0, 1.0, 0.0])
    np.testing.assert_allclose(_escape_times(loss, t, levels), [1.5, np.nan])


@pytest.mark.slow
def test_flows_end_where_they_should(torch):
    ds = linear.run_flows(end=25.0, runs=4, rate=0.01, points=9)
    last, trained = (ds.isel(time=-1).sel(route=route) for route in ("flow", "trained"))
    for rule in ("tied", "decoder", "pair"):
        # The slowest rotation of the pair has the rate sqrt(.25 + 4) - 2.5 < -0.3.
        assert float(last["angle"].sel(rule=rule).max()) < 0.2, rule
    assert float(last["angle"].sel(rule="encoder").min()) > 5
    # Eq. 22 rests at orthonormal columns: its loss is at least the minimum, and here above it.
    assert bool((last["loss"].sel(rule="encoder") > 1.05 * ds["optimum"]).all())
    loss = ds["loss"]
    np.testing.assert_allclose(loss[0], loss[1], atol=0.02 * float(loss.max()))
    np.testing.assert_allclose(trained["angle"], last["angle"], atol=0.3)
    # Decoder and encoder part and meet again.
    assert float(ds["parting"].max("time").min()) > 0.02
    assert float(ds["parting"].isel(time=-1).max()) < 2e-3


def test_angles_are_those_of_planes():
    rotated = np.array([[np.cos(0.3), 0.0], [np.sin(0.3), 0.0], [0.0, 1.0]])
    same_span = rotated @ [[2.0, 1.0], [0.0, 3.0]]
    angles = largest_angles(np.stack([rotated, same_span]), np.eye(3)[:, [0, 2]])
    np.testing.assert_allclose(angles, np.degrees(0.3))
    tiny = largest_angles(np.array([[1.0], [1e-12]]), np.eye(2, 1))
    np.testing.assert_allclose(tiny, np.degrees(1e-12))


@pytest.mark.parametrize(("eigenvalues", "saddles"), [((3.0, 2.0, 1.0), 6), ((2.5, 1.0, 1.0), 4)])
def test_models_leave_saddles_at_the_predicted_rate(torch, eigenvalues, saddles):
    """Saddles are all choices of up to two eigenvalues but the two largest."""
    ds = linear.run_saddles(eigenvalues, 2, runs=3, step=0.1)
    assert ds.sizes["saddle"] == saddles
    np.testing.assert_allclose(ds["measured"] / ds["predicted"] + 0 * ds["measured"], 1, atol=2e-3)
    # Canaries: the rate of the flow, and that of Prop. 3's rotation.
    assert np.all(np.abs(ds["measured"] / ds["flow_rate"] - 1) > 0.01)
    full = ds.where(ds["rank"] == 2, drop=True).sel(model="pair")
    assert np.all(full["measured"] > 1.02 * full["rotation_rate"])


def test_equal_eigenvalues_leave_the_choice_to_start_or_samples(torch):
    ds = linear.run_subspaces(4, 2, samples=50, runs=2, end=30.0, step=0.15, points=20)
    last, flown = (ds.isel(time=-1).sel(route=route) for route in ("trained", "flow"))
    # Both terms left out are of the order of the initial weights: 1e-3, in degrees 0.06.
    assert float(last["angle_start"].sel(data="expected").max()) < 0.5
    assert float(last["angle_samples"].sel(data="samples").max()) < 0.5
    assert float(last["angle_samples"].sel(data="expected").min()) > 2
    np.testing.assert_allclose(last["excess"].sel(data="expected"), 0, atol=1e-9)
    assert bool((last["excess"].sel(data="samples") > 0).all())
    for name in ("angle_start", "angle_samples"):
        np.testing.assert_allclose(last[name], flown[name], atol=0.5)


@pytest.fixture(scope="module")
def shares(torch):
    return linear.run_representation(5, 2, [0.1, 0.5], runs=2, steps=400)


def test_shares_add_up_to_the_dimensions(shares):
    total = shares["share"].sum("feature")
    # The trace of a projection, similar to the product where the loss is least, is its rank.
    np.testing.assert_allclose(total.sel(model="pair"), 2, atol=1e-3)
    assert float(total.max()) < 2 + 1e-3
    falling = shares.sel(importance="falling", bias="bias")
    kept = falling["share"].transpose(..., "feature")
    np.testing.assert_allclose(kept, np.broadcast_to([1, 1, 0, 0, 0], kept.shape), atol=1e-3)
    assert bool((shares["share"].sel(importance="falling", bias="no bias", p=0.5) > 0.02).all())


def test_trained_models_reach_weighted_pca(shares):
    excess, free = shares["loss"] / shares["optimum"] - 1, shares.sel(bias="bias")
    tied = excess.sel(model="tied")
    for reached in (excess.sel(model="pair"), tied.sel(bias="bias"), tied.sel(importance="equal")):
        np.testing.assert_allclose(reached, 0, atol=1e-4)
    # Tied weights cannot where the optimal product is not symmetric.
    assert (tied.sel(importance="falling", bias="no bias") > 1e-3).all()
    np.testing.assert_allclose(free["optimum"], free["dedicated"], rtol=1e-10)
    assert (shares["optimum"] < 0.99 * shares["dedicated"]).sel(bias="no bias").all()


def test_the_section_shows_all_of_its_topics(torch, sections, tmp_path):
    sections.show("linear", TINY, tmp_path)

"""Sparse autoencoders on known features: against quadrature, enumeration and samples."""

from itertools import combinations

import numpy as np
import pytest

from superposition.solvers.sae import (
    AutoencoderObjective,
    best_autoencoder,
    best_pair,
    circle,
    measure,
    measure_samples,
    optimum,
    pair_encoder,
    phase,
)
from superposition.solvers.sae.circle import pair_codes
from superposition.theory import sae as theory
from superposition.theory.features import Features, exclusive, parent_child
from superposition.theory.model import Model

from ..oracles import autoencoder, differences, patterns

SCALE = (1.0, 1.5, 0.5)


def relu(W_in, W_out=None, b_in=0.0, b=0.0):
    return Model(W_in, b_in, "relu", W_out, b, "identity")


def what_counts(sae, phi, x):
    """Return squared error, activations and whether latents are on, for features (n, points)."""
    a = phi @ x
    z = sae.W_in @ a + sae.b_in[:, None]
    on = z > (0.0 if sae.thresholds is None else sae.thresholds[:, None])
    h = np.where(on, z, 0.0)
    error = np.sum((a - sae.W_out @ h - sae.b[:, None]) ** 2, axis=0)
    return np.concatenate([error[None], h, on])


def over_values(sae, phi, scale, on, density):
    """Return the means of what counts over the values of the features that are on, by quadrature.

    The faces of the cube of values and the planes on which latents turn on cut it. As a function of its last
    value the integral over the others is a polynomial, or smooth, between the places where planes meet in a
    point; the same holds for the others in turn, so that few Gauss points between these places are exact.
    """
    members, (low, high), points = np.flatnonzero(on), density[0], density[2]
    k = members.size
    W = (sae.W_in @ phi * scale)[:, members]
    base = sae.b_in - (0.0 if sae.thresholds is None else sae.thresholds)
    nodes, weights = np.polynomial.legendre.leggauss(points)
    v, share = np.zeros((1, k)), np.ones(1)
    for m in range(k - 1, -1, -1):
        # Planes normal v + c = 0 in the first m + 1 values, given the later ones.
        faces = [(np.eye(m + 1)[at], np.full(len(v), -end)) for at in range(m) for end in (low, high)]
        planes = faces + [(W[i, : m + 1], base[i] + v[:, m + 1 :] @ W[i, m + 1 :]) for i in range(len(W))]
        places = [np.full(len(v), low), np.full(len(v), high)]
        for some in combinations(planes, m + 1):
            normals = np.array([normal for normal, _ in some])
            if abs(np.linalg.det(normals)) > 1e-12:
                places.append(np.linalg.solve(normals, -np.array([c for _, c in some]))[m])
        ends = np.sort(np.clip(places, low, high).T, axis=1)
        width, middle = np.diff(ends)[:, :, None] / 2, (ends[:, 1:] + ends[:, :-1])[:, :, None] / 2
        at = (middle + width * nodes).reshape(len(v), -1)
        part = (width * weights).reshape(len(v), -1) * density[1](at) * share[:, None]
        v = np.repeat(v, at.shape[1], axis=0)
        v[:, m], share = at.ravel(), part.ravel()
        v, share = v[share > 0.0], share[share > 0.0]
    x = np.zeros((3, len(v)))
    x[members] = v.T * scale[members, None]
    return what_counts(sae, phi, x) @ share


UNIFORM = (0.0, 1.0), np.ones_like, 4
# To 60 an exponential value lacks 1e-26; pieces of at most that length and 60 points are good to 1e-12.
EXPONENTIAL = (0.0, 60.0), lambda v: np.exp(-v), 120
PAIR = parent_child(0, [1], 0.5, 0.4)
QUADRATURE = {
    "uniform": (Features(3, (0.3, 0.2, 0.6), scale=SCALE), UNIFORM),
    "uniform, one sure": (Features(3, (0.3, 0.2, 1.0), scale=SCALE), UNIFORM),
    "parent and child": (Features(3, (0.3, 0.2, 0.6), scale=SCALE, groups=[PAIR]), UNIFORM),
    "exactly two": (Features(3, (0.3, 0.2, 0.6), scale=SCALE, exactly=2), UNIFORM),
    "exclusive exponential": (
        Features(3, 0.3, "exponential", SCALE, groups=[exclusive([0, 1, 2], (0.2, 0.3, 0.1))]), EXPONENTIAL,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", QUADRATURE)
@pytest.mark.parametrize("hidden", ["relu", "jumprelu"])
def test_three_features_by_quadrature(name, hidden):
    law, density = QUADRATURE[name]
    rng = np.random.default_rng([len(name), len(hidden)])
    phi = rng.normal(size=(2, 3))
    sae = autoencoder(rng, 2, 3, hidden)
    found = measure(sae, law, phi)
    whole, both, joint = 0.0, 0.0, 0.0
    for on, chance in patterns(law):
        means = over_values(sae, phi, np.array(SCALE), np.array(on), density)
        whole, both = whole + chance * means, both + chance * np.outer(on, on)
        joint = joint + chance * means[4:, None, None] * np.outer(on, on)
    mse, l1, l0 = whole[0], whole[1:4], whole[4:]
    with np.errstate(divide="ignore", invalid="ignore"):
        fires = np.where(both > 0.0, joint / both, np.nan)
    assert found.mse == pytest.approx(mse, abs=1e-9)
    assert found.l1 == pytest.approx(l1, abs=1e-9)
    assert found.l0 == pytest.approx(l0, abs=1e-9)
    assert found.fires_pairs == pytest.approx(fires, abs=1e-9, nan_ok=True)
    assert found.fires == pytest.approx(np.diagonal(fires, axis1=1, axis2=2), abs=1e-9)
    live = l0 > 1e-9
    assert found.dead.tolist() == (~live).tolist()
    assert found.precision[live] == pytest.approx(found.fires[live] * found.p / l0[live, None], abs=1e-8)
    spread = np.trace(phi @ law.covariance() @ phi.T)
    assert found.explained_variance == pytest.approx(1.0 - mse / spread, abs=1e-9)


SAMPLED = {
    "uniform": Features(7, 0.15, scale=np.linspace(0.5, 1.5, 7)),
    "exponential": Features(6, np.linspace(0.05, 0.5, 6), "exponential"),
    "binary": Features(9, 0.2, "binary", np.linspace(0.5, 1.5, 9)),
    "normal": Features(6, 0.2, "normal"),
    "rectified": Features(5, 0.3, "rectified-normal(1.0)"),
    "groups": Features(5, 0.2, groups=[parent_child(0, [1, 2], 0.4, 0.5), exclusive([3, 4], 0.3)]),
}


@pytest.mark.parametrize(
    ("name", "samples"),
    [(name, 200_000) for name in SAMPLED if name not in ("uniform", "rectified")]  # whose sums take seconds
    + [pytest.param(name, 10**7, marks=pytest.mark.slow) for name in SAMPLED],
)
def test_samples_measure_what_sums_do(name, samples):
    """Within errors of 4 standard errors each: of some 40 comparisons one in 400 laws would be outside."""
    law, rng = SAMPLED[name], np.random.default_rng(3)
    phi = rng.normal(size=(4, law.n_features)) / 2.0
    phi[:, 4] = 0.0  # few enough on for exact integrals
    sae = autoencoder(rng, 4, 3)
    exact = measure(sae, law, phi, prefixes=[2])
    sampled = measure_samples(sae, law, phi, prefixes=[2], samples=samples, rng=1)
    assert (exact.method, sampled.method) == ("exact", "samples")
    assert abs(sampled.mse - exact.mse) < sampled.mse_error + exact.mse_error < 0.05 * exact.mse
    apart = abs(sampled.prefix_mse[0] - exact.prefix_mse[0])
    assert apart < sampled.prefix_errors[0] + exact.prefix_errors[0]
    assert np.all(np.abs(sampled.l0 - exact.l0) < 4.0 * np.sqrt(exact.l0 / samples) + exact.firing_error)
    assert np.all(np.abs(sampled.fires - exact.fires) < sampled.firing_error + exact.firing_error)
    together = np.sqrt(np.maximum(exact.pairs, 1e-12) * samples)
    gaps = np.abs(sampled.fires_pairs - exact.fires_pairs) * together
    assert np.all(gaps[~np.isnan(gaps)] < 2.0 + exact.firing_error * together.max())
    np.testing.assert_allclose(sampled.cosines, exact.cosines)


@pytest.mark.parametrize("hidden", ["relu", "jumprelu"])
def test_prefixes_are_autoencoders_of_the_first_latents(hidden):
    law, rng = Features(6, 0.2, "binary", np.linspace(0.5, 1.5, 6)), np.random.default_rng(4)
    phi, sae = rng.normal(size=(4, 6)), autoencoder(rng, 4, 3, hidden)
    found = measure(sae, law, phi, prefixes=[2, 3, 1])
    assert found.prefix_mse[1] == found.mse
    x, chances = map(np.array, zip(*patterns(law), strict=True))
    for size, mse in zip((2, 1), found.prefix_mse[[0, 2]], strict=True):
        thresholds = None if sae.thresholds is None else sae.thresholds[:size]
        first = Model(
            sae.W_in[:size], b_in=sae.b_in[:size], hidden=hidden, W_out=sae.W_out[:, :size], b=sae.b,
            output="identity", thresholds=thresholds,
        )  # fmt: skip
        assert mse == pytest.approx(chances @ what_counts(first, phi, (x * law.scale).T)[0], abs=1e-12)


def test_a_transcoder_is_compared_with_its_target():
    law, rng = Features(5, 0.3, "binary"), np.random.default_rng(6)
    phi, psi = rng.normal(size=(3, 5)), rng.normal(size=(2, 5))
    encoder, decoder = rng.normal(size=(2, 3)), rng.normal(size=(2, 2))
    one = relu(encoder, decoder, 0.1, [0.1, -0.2])
    found = measure(one, law, phi, target=psi)
    x, chances = map(np.array, zip(*patterns(law), strict=True))
    h = np.maximum(x @ phi.T @ one.W_in.T + one.b_in, 0.0)
    off = np.sum((h @ one.W_out.T + one.b - x @ psi.T) ** 2, axis=1)
    assert found.mse == pytest.approx(chances @ off, abs=1e-12)
    spread = np.trace(psi @ law.covariance() @ psi.T)
    assert found.explained_variance == pytest.approx(1.0 - found.mse / spread, abs=1e-12)
    u, v = one.W_out[:, 1], psi[:, 2]
    assert found.cosines[1, 2] == pytest.approx(u @ v / np.linalg.norm(u) / np.linalg.norm(v))


def test_a_latent_that_is_on_less_often_than_rounding_is_dead():
    both = relu([[1.0, 1.0]], b_in=-1.5)
    for p, dead in ((2e-6, False), (1e-7, True)):  # on with probability p^2, beside 1e-12
        found = measure(both, Features(2, p, "binary"))
        assert found.l0 == pytest.approx([p * p], rel=1e-9, abs=0)
        assert found.dead.tolist() == [dead]
        assert found.precision == pytest.approx(np.full((1, 2), 0.0 if dead else 1.0))


def test_a_dead_latent_and_one_without_a_decoder():
    sae = relu([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]], [[1.0, 2.0, 0.0], [0.0, 2.0, 0.0]])
    for groups in ((), (PAIR,)):
        found = measure(sae, Features(2, 0.2, groups=groups))
        assert found.dead.tolist() == [False, True, False]
        assert not np.any([found.precision[1], found.f1[1], found.cosines[2]])
        assert found.match.tolist() == [0, 2]
    found = measure(relu(np.zeros((1, 2)), [[1.0], [0.0]], 0.5, [-0.5, 0.0]), Features(2, 0.2))
    assert (found.l0[0], found.l1[0]) == pytest.approx((1.0, 0.5))
    assert found.precision == pytest.approx(np.full((1, 2), 0.2))
    assert found.mse == pytest.approx(2 * 0.2 / 3)
    assert sorted(found.match.tolist()) == [-1, 0]


def test_features_that_are_always_on_have_no_variance():
    found = measure(relu([[1.0]]), Features(1, 1.0, "binary"))
    assert np.isnan(found.explained_variance)
    assert found.mse == pytest.approx(0.0, abs=1e-15)
    assert found.l0 == pytest.approx([1.0])


def test_absorption_of_a_latent_that_is_silent_where_the_child_fires():
    law = Features(2, 0.5, "binary", groups=[parent_child(0, [1], 0.5, 0.4)])
    found = measure(relu([[1.0, -1.0], [0.0, 1.0]], [[1.0, 1.0], [0.0, 1.0]]), law)
    assert found.mse == pytest.approx(0.0, abs=1e-15)
    assert found.absorbed(0, 1) == pytest.approx(1.0)
    assert found.absorption() == pytest.approx(np.array([[np.nan, 1.0], [np.nan, np.nan]]), nan_ok=True)
    assert found.fires_without(0, 1) == pytest.approx([1.0, 0.0])
    assert np.isnan(found.fires_without(1, 0)).all(), "a child is never on without its parent"
    assert found.fires_without(0, 0).tolist() == pytest.approx([np.nan, np.nan], nan_ok=True)
    assert measure(relu(np.eye(2)), law).absorbed(0, 1) == pytest.approx(0.0)
    assert np.isnan(measure(relu(-np.eye(2)), law).absorbed(0, 1))


def pair_law(parent, child, both):
    chances = [1.0 - parent - child - both, parent, child, both]
    return Features(2, 0.5, "binary", groups=[([0, 1], [[0, 0], [1, 0], [0, 1], [1, 1]], chances)])


@pytest.mark.parametrize(
    ("law", "hidden"),
    [
        (Features(3, (0.3, 0.2, 0.6), scale=SCALE, groups=[PAIR]), "relu"),
        (Features(3, (0.3, 0.2, 0.6), scale=SCALE), "jumprelu"),
        (Features(2, 0.3, "exponential", groups=[PAIR]), "jumprelu"),
        (Features(2, 0.3, "normal"), "relu"),
        (Features(4, 0.3, exactly=2), "jumprelu"),
        (Features(6, 0.3), "jumprelu"),
    ],
    ids=["groups", "independent", "exponential", "normal", "exactly", "six"],
)
def test_the_gradient_of_an_objective(law, hidden):
    rng = np.random.default_rng(3)
    few = law.n_features <= 4
    phi = rng.normal(size=(2, law.n_features))
    f = AutoencoderObjective(law, phi, l1=0.2, l0=0.1, tol=1e-12 if few else 1e-6)
    one = autoencoder(rng, 2, 2, hidden)
    names = ["W_in", "b_in", "W_out", "b"] + ["thresholds"] * (hidden == "jumprelu")
    arrays = {name: np.array(getattr(one, name)) for name in names}

    def at(turn, shift):
        moved = {name: array + shift * turn.get(name, 0.0) for name, array in arrays.items()}
        return f(Model(**moved, hidden=hidden, output="identity")).value

    found, h = f(one), 1e-4 if few else 1e-2
    turns = [{name: x.reshape(array.shape)} for name, array in arrays.items() for x in np.eye(array.size)]
    if not few:  # each loss takes seconds: all entries at once, by random signs
        turns = [{name: rng.choice([-1.0, 1.0], array.shape) for name, array in arrays.items()}]
    for turn in turns:
        far, near = (at(turn, k * h) - at(turn, -k * h) for k in (2, 1))
        # The rule's own error is of order h^4, and rounding over h; sums over a lattice are good to 1e-6.
        bar = 1e-8 if few else 1e-4
        slope = sum(np.sum(found.gradient[name] * part) for name, part in turn.items())
        assert slope == pytest.approx((8 * near - far) / (12 * h), abs=bar)
    told, bar = measure(one, law, phi), 1e-12 if few else 1e-3
    assert (found.mse, found.l0) == pytest.approx((told.mse, told.l0.sum()), abs=bar)
    assert found.l1 == pytest.approx(np.linalg.norm(one.W_out, axis=0) @ told.l1, abs=bar)
    assert found.value == pytest.approx(found.mse + 0.2 * found.l1 + 0.1 * found.l0)


def test_a_tied_autoencoder_has_both_gradients():
    f, eye = AutoencoderObjective(0.3, np.eye(3), l1=0.1), np.eye(3)
    by, near = (f(relu(eye, out, -0.05)).gradient for out in (None, eye * (1.0 + 1e-9)))
    for name in ("W_in", "b_in", "W_out", "b"):
        assert by[name] == pytest.approx(near[name], abs=1e-7)


def test_two_atoms_and_their_codes():
    rng = np.random.default_rng(4)
    for _ in range(200):
        x, angles, l1 = rng.uniform(0.0, 1.0, 2), rng.uniform(-np.pi, np.pi, 2), rng.uniform(0.01, 1.5)
        want = least_cost(x, np.array([np.cos(angles), np.sin(angles)]), l1, 0.0)
        assert pair_codes(tuple(x), *angles, l1)[2] == pytest.approx(want, abs=1e-9)


@pytest.mark.parametrize(
    ("parent", "child", "both", "l1", "what"),
    [
        (0.2, 0.0, 0.05, 0.2, "absorbs"), (0.1, 0.1, 0.05, 0.2, "hedges"), (0.1, 0.1, 0.2, 0.5, "hedges"),
        pytest.param(0.1, 0.1, 0.5, 0.5, "absorbs", marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_two_latents_reach_the_lower_bound_of_all_encoders(parent, child, both, l1, what):
    law = pair_law(parent, child, both)
    pair = best_pair(parent, child, both, l1, gap=5e-4)
    assert pair.lower_bound <= pair.value <= pair.lower_bound + 5e-4 * (parent + child + 2 * both)
    best = best_autoencoder(AutoencoderObjective(law, np.eye(2), l1=l1), 2, decoder_bias=False, starts=5)
    assert pair.lower_bound <= best.value <= pair.value + 1e-9
    assert phase(measure(best.sae, law)) == what
    if child == 0.0:
        assert best.value == pytest.approx(theory.absorbing_pair(parent, child, both, l1)[1], abs=1e-8)
    else:
        kinds = theory.absorbing_pair(parent, child, both, l1)[1], theory.tilted_pair(parent, both, l1)[1]
        assert best.value == pytest.approx(min(kinds), abs=1e-8)
        assert (kinds[0] < kinds[1]) == (what == "absorbs")


@pytest.mark.parametrize("kind", ["turned", "along", "apart", "shared"])
def test_pairs_of_a_kind_have_the_least_objective_of_a_grid(kind):
    q, both, l1, near = 0.1, 0.085, 1.0, 0.15
    found = best_pair(q, q, both, l1, gap=1e-3, kind=kind, near=near)
    at = np.linspace(-np.pi, np.pi, 721)
    by_feature = [np.abs(at), np.minimum(np.abs(at - np.pi / 2), 2 * np.pi - np.abs(at - np.pi / 2))]
    first, second = at[:, None], at
    costs = sum(
        share * pair_codes(x, first, second, l1)[2]
        for share, x in ((q, (1.0, 0.0)), (q, (0.0, 1.0)), (both, (1.0, 1.0)))
    )
    has_atom = [(off[:, None] <= near) | (off <= near) for off in by_feature]
    along, apart = has_atom[0] | has_atom[1], has_atom[0] & has_atom[1]
    least = costs[{"along": along, "turned": ~along, "apart": apart, "shared": ~apart}[kind]].min()
    assert found.lower_bound <= least
    assert found.value <= least + 1e-3 * (2 * q + 2 * both)
    every = best_pair(q, q, both, l1, gap=1e-3)
    assert every.lower_bound <= found.value


def plane_dictionary(cosine):
    return np.array([[1.0, cosine], [0.0, np.sqrt(1.0 - cosine**2)]])


def least_cost(x, D, l1, w):
    """Return the least cost of codes of the atoms D, of all sets of latents that may be on."""
    rows = np.concatenate([np.sqrt(1.0 - w) * D, np.sqrt(w) * D * [1.0, 0.0]])
    y = np.concatenate([np.sqrt(1.0 - w) * x, np.sqrt(w) * x])
    least = y @ y
    for on in ([0], [1], [0, 1]):
        B = rows[:, on]
        h = np.linalg.lstsq(B.T @ B, B.T @ y - 0.5 * l1, rcond=None)[0]
        if h.min() >= 0.0:
            least = min(least, np.sum((y - B @ h) ** 2) + l1 * h.sum())
    return least


@pytest.mark.parametrize("seed", range(4))
def test_the_bound_of_pairs_at_any_angle_and_prefix_is_below_a_grid_of_all_active_sets(seed):
    rng = np.random.default_rng(seed)
    cosine, l1, w = rng.uniform(-0.8, 0.8), rng.uniform(0.3, 1.7), (0.0, 0.3, 0.6, 0.9)[seed]
    q, phi = rng.uniform(0.02, 0.3, 3), plane_dictionary(cosine)
    found = best_pair(*q, l1, cosine=cosine, prefix_weight=w, gap=2e-3)
    nothing = q[:2].sum() + q[2] * (2.0 + 2.0 * cosine)
    xs = (*phi.T, phi.sum(axis=1))
    values = [
        sum(
            share * least_cost(x, np.array([np.cos(at), np.sin(at)]), l1, w)
            for share, x in zip(q, xs, strict=True)
        )
        for at in (
            *rng.uniform(-np.pi, np.pi, (800, 2)),
            *(found.angles + rng.normal(0, 0.03, (100, 2))),
            found.angles,
        )
    ]
    assert found.value == pytest.approx(values[-1], abs=1e-12)
    assert found.lower_bound <= min(values)
    assert found.value <= min(values) + 2e-3 * nothing
    without = best_pair(*q, l1, cosine=cosine, gap=2e-3)
    assert found.value >= without.lower_bound - 1e-12  # the prefix's error is never below the whole one's


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_the_slopes_of_costs_keep_their_bound_and_come_close_to_it(seed):
    rng, largest, step = np.random.default_rng(seed), np.zeros(2), 1e-6
    for w in (0.0, 0.3, 0.9):
        for _ in range(40):
            l1, size = rng.uniform(0.05, 1.9), rng.uniform(0.2, 2.0)
            at = rng.uniform(-np.pi, np.pi, (2, 20_000))
            slopes = 0.0
            for move in step * np.eye(2)[:, :, None]:
                ends = [pair_codes((size, 0.0), *(at + side * move), l1, w)[2] for side in (-1, 1)]
                slopes = slopes + np.abs(ends[1] - ends[0]) / (2.0 * step)
            cost = pair_codes((size, 0.0), *at, l1, w)[2]
            limits = np.array([np.full_like(cost, 16.0 * size**3), np.sqrt(432.0) * cost**1.5]) / (27.0 * l1)
            # The difference of two costs of some `size`^2 has their rounding over the step.
            assert np.all(slopes <= limits * (1 + 1e-5) + 1e-8)
            largest = np.maximum(largest, (slopes / limits).max(axis=1))
    assert np.all(largest > 0.95)  # so that a bound a tenth smaller is wrong


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_no_pair_near_a_pair_is_below_its_bound(share):
    rng = np.random.default_rng(3)
    for _ in range(200):
        l1, reach, x = rng.uniform(0.05, 1.9), 10.0 ** rng.uniform(-3, -0.5), rng.normal(size=2)
        patterns, at = [(1.0, (float(x[0]), float(x[1])))], rng.uniform(-np.pi, np.pi, (20, 2))
        values, lower = circle._bounds(patterns, l1, share, at, reach)
        near = at[:, None, :] + reach * rng.uniform(-1.0, 1.0, (20, 300, 2))
        near[:, :4] = at[:, None, :] + reach * np.array([(-1, -1), (-1, 1), (1, -1), (1, 1)])
        costs = pair_codes(tuple(x), near[..., 0], near[..., 1], l1, share)[2]
        assert np.all(lower <= costs.min(axis=1) + 1e-12)
        assert np.all(lower <= values)


@pytest.mark.parametrize(("cosine", "w"), [(0.3, 0.0), (-0.3, 0.3), (0.6, 0.5)])
def test_an_encoder_attains_the_value_of_a_pair(cosine, w):
    q, l1, phi = (0.15, 0.05, 0.1), 0.6, plane_dictionary(cosine)
    found = best_pair(*q, l1, cosine=cosine, prefix_weight=w, gap=3e-3)
    sae = pair_encoder(found.angles, l1, cosine=cosine, prefix_weight=w)
    of_it = measure(sae, pair_law(*q), phi, prefixes=[1])
    value = (1.0 - w) * of_it.mse + w * of_it.prefix_mse[0] + l1 * np.sum(of_it.l1)
    assert value == pytest.approx(found.value, abs=1e-12)
    if w == 0.0:
        objective = AutoencoderObjective(pair_law(*q), phi, l1=l1)
        assert objective(sae).value == pytest.approx(found.value, abs=1e-12)
        assert best_autoencoder(objective, 2, decoder_bias=False, starts=2).value >= found.lower_bound


def test_two_atoms_that_are_both_on_for_all_patterns_may_have_no_encoder():
    assert pair_encoder((0.86, -1.45), 0.05) is None


def test_a_decoder_bias_keeps_independent_features_apart():
    law = Features(2, [0.25, 0.2], "binary")
    f = AutoencoderObjective(law, np.eye(2), l1=1e-3)
    free = best_autoencoder(f, 1, starts=6).sae
    assert abs(free.W_out[1, 0]) < 1e-5 * abs(free.W_out[0, 0])
    assert free.b == pytest.approx([0.0, 0.2], abs=1e-3)
    without = best_autoencoder(f, 1, decoder_bias=False, starts=6).sae.W_out[:, 0]
    moment = law.covariance() + np.outer(law.mean, law.mean)
    assert np.arctan2(without[1], without[0]) == pytest.approx(theory.hedging_angle(moment), abs=1e-3)


def test_names_of_phases():
    law = pair_law(0.2, 0.1, 0.05)
    eye, merged = np.eye(2), np.full((1, 2), 0.5**0.5)

    def of(W_in, W_out=None):
        return phase(measure(relu(W_in, W_out), law))

    assert of(eye) == "recovers"
    assert of([[1.0, -2.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]) == "absorbs"
    assert of(merged) == "merges"
    assert of([[1.0, 0.1]]) == "hedges"
    assert of([[1.0, 0.0]]) == "drops"
    assert of(-eye) == "drops"


@pytest.mark.parametrize("hidden", ["relu", "jumprelu"])
@pytest.mark.parametrize("decoder_bias", [True, False])
def test_descents_have_the_gradient_of_their_parameters(monkeypatch, hidden, decoder_bias):
    """Thresholds are squares of theirs."""
    seen = []

    def stay(f, theta, deadline):
        seen.append((f, theta))
        return theta, f(theta)[0]

    monkeypatch.setattr(optimum, "_descent", stay)
    objective = AutoencoderObjective(Features(3, 0.3), np.eye(2, 3) + 0.2, l1=0.1)
    best_autoencoder(objective, 2, hidden=hidden, decoder_bias=decoder_bias, starts=2, rng=1)
    for f, theta in seen:
        assert theta.size == 2 * 2 + 2 + 2 * 2 + 2 * decoder_bias + 2 * (hidden == "jumprelu")
        want = differences(lambda theta, f=f: f(theta)[0], theta, 1e-5)
        assert f(theta)[1] == pytest.approx(want, rel=1e-5, abs=1e-8)

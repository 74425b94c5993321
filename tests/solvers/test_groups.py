"""Groups of features behind hidden neurons: products of transforms against enumeration and samples."""

import itertools

import numpy as np
import pytest

from superposition.solvers.loss import evaluator
from superposition.solvers.loss.methods.transform_sums import coefficient
from superposition.solvers.loss.methods.transforms import pack_units
from superposition.solvers.loss.network import neuron_means
from superposition.solvers.loss.network.groups import unit_factors
from superposition.solvers.loss.network.time_limit import OutOfTime
from superposition.solvers.sae import measure
from superposition.theory.features import Features, exclusive, parent_child, synchronous
from superposition.theory.features.counts import IndependentGroup
from superposition.theory.features.trees import Node, hierarchy_group
from superposition.theory.model import Model

from ..oracles import differences
from .loss_oracle import states

VALUES = ("uniform", "uniform(0.5)", "symmetric", "half-normal", "exponential", "normal")
MEASURES = ("l0", "l1", "fires", "fires_pairs", "f1")


def _some_group(rng, members):
    """Return a group of any kind; where its patterns are drawn, features may never be on together."""
    kind = rng.integers(4)
    if kind == 0:
        return synchronous(members, rng.uniform(0.1, 0.9))
    if kind == 1:
        return exclusive(members, rng.dirichlet(np.ones(members.size + 1))[:-1])
    if kind == 2:
        return _tree([int(rng.integers(j)) for j in range(1, members.size)], rng, members)
    patterns = np.array(list(itertools.product((0, 1), repeat=members.size)))
    some = rng.permutation(len(patterns))[: int(rng.integers(2, len(patterns) + 1))]
    return members, patterns[some], rng.dirichlet(np.ones(some.size))


def _tree(parents, rng, members, exclude=0.5):
    """Return the group of a tree: feature j is a child of number parents[j - 1]; some are exclusive."""
    nodes = [Node(int(j)) for j in members]
    for j in range(members.size - 1, 0, -1):
        above, is_exclusive = nodes[parents[j - 1]], rng.random() < exclude
        nodes[parents[j - 1]] = above._replace(children=(nodes[j], *above.children), exclusive=is_exclusive)
    p = np.zeros(members.max() + 1)
    p[members] = rng.uniform(0.1, 0.9, members.size)
    return hierarchy_group(nodes[0], p)


def _some_case(seed, values, most=6):
    """Return a law of a few groups, a network at it, with weights of 0 in a third of the cases."""
    rng = np.random.default_rng(seed)
    n, hidden = int(rng.integers(3, most + 1)), 2
    order, groups = rng.permutation(n), []
    while order.size > 1:
        size = min(int(rng.integers(2, 4)), order.size)
        groups, order = [*groups, _some_group(rng, order[:size])], order[size + int(rng.integers(2)) :]
    law = Features(n, rng.uniform(0.1, 0.9, n), values, rng.uniform(0.5, 2.0, n), groups=groups)
    W_in = rng.normal(size=(hidden, n)) * (rng.random((hidden, n)) > 0.4 * (rng.random() < 1 / 3))
    jumps = {"hidden": "relu"}
    if rng.random() < 0.4:
        jumps = {"hidden": "jumprelu", "thresholds": rng.random(hidden) / 2}
    model = Model(W_in, b_in=0.3 * rng.normal(size=hidden), W_out=rng.normal(size=(n, hidden)),
                  b=0.1 * rng.normal(size=n), output="identity", **jumps)  # fmt: skip
    target = ("identity", "relu", "abs")[rng.integers(3)] if values in ("symmetric", "normal") else "identity"
    return law, model, target


def _compute(law, model, target):
    loss = evaluator(law, tol=1e-8)(model, gradient=True, target=target)
    return loss, measure(model, law, tol=1e-8)


def _without_listing(monkeypatch, few):
    """Let patterns be listed up to `few` features on at once."""
    for name in ("MOST_EXACT", "MOST_EXACT_TARGETS"):
        monkeypatch.setattr(neuron_means, name, {True: few, False: few})
    for name in ("MOST_EXACT_ATOMS", "MOST_EXACT_NORMAL"):
        monkeypatch.setattr(neuron_means, name, few)
    monkeypatch.setattr(neuron_means, "MOST_EXACT_PATTERNS", 2**few)


@pytest.mark.parametrize(
    ("seed", "values"),
    [(seed, "uniform") for seed in (0, 1, 8)]
    + [pytest.param(s, VALUES[s % 6], marks=pytest.mark.slow) for s in range(10, 210)],
)
def test_products_of_transforms_are_what_all_patterns_sum_to(monkeypatch, seed, values):
    """Loss, gradient and measures within their stated errors."""
    case = _some_case(seed, values, 3 if values in ("half-normal", "exponential", "normal") else 6)
    _without_listing(monkeypatch, 12)
    listed, listed_scores = _compute(*case)
    assert listed.method == "pair_exact"
    _without_listing(monkeypatch, 0)
    found, scores = _compute(*case)
    assert "pair_fourier" in found.method
    # Frequencies of exponential values fall slowly: 1e-4 was asked of them too, until four were above it.
    assert found.error_estimate < (1e-2 if values == "exponential" else 1e-4) * listed.loss
    assert abs(found.loss - listed.loss) <= found.error_estimate + listed.error_estimate
    assert np.all(np.abs(found.per_feature - listed.per_feature) <= found.per_feature_error + 1e-12)
    for name, by in listed.gradient.items():
        error = float(np.max(found.gradient_error) + np.max(listed.gradient_error))
        np.testing.assert_allclose(found.gradient[name], by, rtol=0, atol=error, err_msg=name)
    assert abs(scores.mse - listed_scores.mse) <= scores.mse_error + listed_scores.mse_error
    for name in MEASURES:
        ours, theirs = getattr(scores, name), getattr(listed_scores, name)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=scores.firing_error + 1e-9, err_msg=name)


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(s, marks=pytest.mark.slow) for s in range(3, 60))]
)
def test_binary_groups_by_enumeration(monkeypatch, seed):
    """All values are atoms: each pattern is one input, of which everything is a mean."""
    law, model, _ = _some_case(seed, "binary", most=12)
    _without_listing(monkeypatch, 0)
    on, chances = (one.astype(float) for one in states(law))
    x = on * law.scale
    z = x @ model.W_in.T + model.b_in
    active = z > (0.0 if model.thresholds is None else model.thresholds)
    error = (z * active) @ model.W_out.T + model.b - x
    loss, scores = _compute(law, model, "identity")
    assert loss.per_feature == pytest.approx(chances @ error**2, rel=1e-10, abs=1e-12)
    back = 2.0 / law.n_features * (error @ model.W_out) * active * chances[:, None]
    np.testing.assert_allclose(loss.gradient["W_in"], back.T @ x, atol=1e-10)
    np.testing.assert_allclose(loss.gradient["b_in"], back.sum(axis=0), atol=1e-10)
    assert scores.mse == pytest.approx(chances @ (error**2).sum(axis=1), rel=1e-10)
    pairs = (on.T * chances) @ on
    with np.errstate(invalid="ignore", divide="ignore"):
        given = np.stack([(on.T * (chances * is_on)) @ on / pairs for is_on in active.T])
    np.testing.assert_allclose(scores.fires_pairs, given, atol=1e-10)


@pytest.mark.parametrize("values", ["uniform", "binary"])
@pytest.mark.parametrize("W_in", [[0.7, 1.0, 0.0, 0.0], [0.0, 1.0, 0.0, -0.7]])
def test_the_gradient_by_weights_of_features_that_a_neuron_does_not_read(monkeypatch, values, W_in):
    """A parent whose child alone is read; and a group that no input of the neuron depends on, but targets."""
    law = Features(4, 0.3, values, groups=[parent_child(0, [1], 0.4, 0.5), parent_child(2, [3], 0.5, 0.4)])
    W_in, W_out = np.array(W_in), [[0.5], [0.8], [-0.6], [0.9]]

    def loss_of(W_in, **gradient):
        return evaluator(law, tol=1e-9)(Model([W_in], -0.1, "relu", W_out, 0.1, "identity"), **gradient)

    listed = loss_of(W_in, gradient=True)
    _without_listing(monkeypatch, 0)
    found = loss_of(W_in, gradient=True)
    assert abs(found.loss - listed.loss) < 1e-9
    np.testing.assert_allclose(found.gradient["W_in"], listed.gradient["W_in"], atol=1e-6)
    slopes, unread = differences(lambda W_in: loss_of(W_in).loss, W_in, 1e-3), W_in == 0.0
    assert np.abs(slopes[unread]).min() > 1e-3
    assert found.gradient["W_in"][0, unread] == pytest.approx(slopes[unread], rel=1e-4)


@pytest.mark.parametrize("dependence", [{"exactly": 2}, {"groups": [exclusive([0, 1, 2], 0.3)]}])
def test_outputs_that_no_other_feature_turns_on(dependence):
    """Without bias, and with negative weights on all others: given that its own is off, nothing is left."""
    law, M = Features(5, 0.2, **dependence), -np.random.default_rng(0).uniform(0, 0.3, (5, 5))
    np.fill_diagonal(M, 1.0)
    listed, summed = (
        evaluator(law, method=method, tol=1e-10)((M, np.zeros(5)), True)
        for method in ("enumeration", "fourier")
    )
    np.testing.assert_allclose(summed.per_feature, listed.per_feature, rtol=1e-7)
    np.testing.assert_allclose(summed.by_M, listed.by_M, atol=1e-6)


@pytest.mark.parametrize("size", [70, 300])
def test_large_groups_have_the_factor_of_their_patterns(size):
    """Of features that exclude each other it is q_0 + sum of q_j phi_j, with derivatives q_j."""
    rng = np.random.default_rng(size)
    members, patterns, chances = exclusive(np.arange(size), 0.9 / size)
    phi = rng.normal(size=size) + 1j * rng.normal(size=size)
    factor, slope = chances[0] + chances[1:] @ phi, np.empty(size, np.complex128)
    packed = pack_units([IndependentGroup(members, patterns, chances)], np.ones(size, bool), None)
    assert coefficient(packed, 0, 0, phi, slope) == pytest.approx(factor, rel=1e-13)
    assert slope == pytest.approx(chances[1:], rel=1e-13, abs=0)
    assert len(unit_factors([IndependentGroup(members, patterns, chances)]).steps[0]) == size


def test_steps_have_the_factor_of_their_patterns_however_alike_these_are():
    """Steps are c + x + r y phi_z; those of patterns whose chances differ by a millionth are not shared."""
    rng = np.random.default_rng(8)
    for size in (1, 2, 3, 5, 5):
        patterns = rng.permutation(list(itertools.product((0, 1), repeat=size)))[: max(2**size * 3 // 4, 1)]
        chances = 1.0 + 10.0 ** rng.uniform(-6, -1, len(patterns))
        chances /= chances.sum()
        units = unit_factors([IndependentGroup(np.arange(size), patterns, chances)])
        rows = [*(rng.normal(size=size) + 1j * rng.normal(size=size))]
        want = chances @ np.prod(np.where(patterns, rows, 1.0), axis=1)
        for (x, y, z), (c, r) in zip(*units.steps, strict=True):
            rows.append(c + (0.0 if x < 0 else rows[x]) + r * (1.0 if y < 0 else rows[y]) * rows[z])
        assert units.p_off[0] + units.p_on[0] * rows[-1] == pytest.approx(want, rel=1e-10)
        assert units.most_rows == len(rows)
    never = unit_factors([IndependentGroup(np.arange(2), np.zeros((1, 2), int), np.ones(1))])
    assert (never.p_off[0], never.p_on[0]) == (1.0, 0.0)


@pytest.mark.parametrize("parents", [[0] * 12, range(12), [j // 2 for j in range(12)]])
def test_features_of_a_tree_cost_few_steps(parents):
    """A star has 4,097 patterns, a tree of twos 287; but children are independent given their parent."""
    tree = _tree(parents, np.random.default_rng(0), np.arange(13), exclude=0.0)
    assert len(unit_factors([IndependentGroup(*tree)]).steps[0]) == 13


def test_many_nested_pairs_stop_at_a_limit_of_time():
    law = Features(64, groups=[parent_child(j, [j + 1], 0.05, 0.3) for j in range(0, 64, 2)])
    D = np.random.default_rng(0).normal(size=(16, 64)) / 4.0
    sae = Model(D.T, b_in=-0.3, hidden="relu", W_out=D, output="identity")
    with pytest.raises(OutOfTime):
        measure(sae, law, D, time_limit=0.5)


@pytest.mark.slow
def test_128_nested_pairs_agree_with_two_million_samples():
    """Eight latents on 256 features: within four standard errors, of 2,048 derivatives within five."""
    n, latents, blocks, size = 256, 8, 40, 50_000
    rng = np.random.default_rng(0)
    law = Features(n, groups=[parent_child(j, [j + 1], 0.05, 0.3) for j in range(0, n, 2)])
    W_out = rng.normal(size=(n, latents)) / 16.0
    model = Model(rng.normal(size=(latents, n)), b_in=-0.3, hidden="relu", W_out=W_out, output="identity")
    exact, scores = evaluator(law, tol=1e-5)(model, gradient=True), measure(model, law, tol=1e-5)
    shapes = {"loss": (), "l0": (latents,), "b_in": (latents,), "W_in": (latents, n)}
    sums = {name: np.zeros((2, *shape)) for name, shape in shapes.items()}
    for _ in range(blocks):
        x = law.sample(size, rng)
        z = x @ model.W_in.T + model.b_in
        error = np.maximum(z, 0.0) @ W_out.T - x
        loss, back = np.mean(error**2, axis=1), 2.0 / n * (error @ W_out) * (z > 0.0)
        sums["loss"] += loss.sum(), (loss**2).sum()
        sums["l0"] += (z > 0.0).sum(axis=0)
        sums["b_in"] += back.sum(axis=0), (back**2).sum(axis=0)
        sums["W_in"] += back.T @ x, (back**2).T @ x**2
    for name, want in (("loss", exact.loss), ("l0", scores.l0), *exact.gradient.items()):
        if name in sums:
            mean, square = sums[name] / (blocks * size)
            se = np.sqrt((square - mean**2) / (blocks * size))
            limit = 5.0 if name == "W_in" else 4.0
            assert np.max(np.abs(mean - want) / se) < limit, name

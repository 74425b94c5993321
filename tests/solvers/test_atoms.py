"""Thresholds on atoms of the pre-activation: scores and losses against enumeration that decides in integers.

Weights, biases and thresholds are whole numbers times one factor, which is no binary fraction. Whether a
latent is on is decided in whole numbers; only its size is rounded, in long doubles.
"""

import numpy as np
import pytest

from superposition.solvers.loss import evaluator
from superposition.solvers.loss.network import firing as firing_module
from superposition.solvers.loss.network import neuron_means
from superposition.solvers.loss.network.assemble import hidden_means, hidden_neurons
from superposition.solvers.loss.network.firing import firing
from superposition.solvers.loss.problem import Law
from superposition.solvers.sae import AutoencoderObjective, measure
from superposition.theory.features import Features, exclusive, parent_child
from superposition.theory.features.values import ValueDistribution
from superposition.theory.model import Model, is_above

from .loss_oracle import states

FACTORS = (1.0, 0.1, 1.0 / 3.0, 7.0**-0.5)
BESIDE = 1e-6


def atoms(name, *places):
    """Return a law of values at whole places, with their probabilities."""

    def transform(z):
        a, b, c = 0j, 0j, 0j
        for v, chance in places:
            e = chance * np.exp(z * v)
            a, b, c = a + e, b + v * e, c + v * v * e
        return a, b, c

    at, chances = np.array(places).T
    return ValueDistribution(
        name, (at.min(), at.max()), lambda k: float(chances @ at**k),
        lambda rng, size: rng.choice(at, size, p=chances), atoms=places, transform=transform,
    )  # fmt: skip


LAWS = {
    "binary": "binary",
    "signs": atoms("signs", (1.0, 0.5), (-1.0, 0.5)),
    "one or two": atoms("one or two", (1.0, 0.75), (2.0, 0.25)),
    "zero or one": atoms("zero or one", (0.0, 0.25), (1.0, 0.75)),
}


class Case:
    """An autoencoder in whole numbers, times a factor, and the law of the features."""

    def __init__(self, rng, kind="binary", n=None):
        most = 10 if kind != "binary" else 20 if rng.random() < 0.1 else 16
        n = n or int(rng.integers(2, most + 1))
        d, latents = int(rng.integers(1, 6)), int(rng.integers(1, 5))
        self.phi = rng.choice([-1, 0, 1] if rng.random() < 0.5 else [-1, 1], (d, n))
        self.encoder = 4 * self.phi[:, rng.integers(n, size=latents)].T
        if rng.random() < 0.5:
            self.encoder = rng.integers(-4, 5, (latents, d))
        self.b, self.t = rng.integers(-6, 5, latents), rng.integers(0, 13, latents)
        self.jumps = bool(rng.random() < 0.7)
        if not self.jumps:
            self.t[:] = 0
        self.aside = rng.choice([-1, 0, 0, 1], latents) * (self.t > 0)
        self.factor, self.kind = float(rng.choice(FACTORS)), kind
        p = rng.uniform(0.02, 0.6, n) if rng.random() < 0.5 else np.full(n, rng.uniform(0.02, 0.5))
        p[rng.random(n) < 0.05] = 1.0
        groups = []
        if kind == "binary" and n <= 12 and rng.random() < 0.3:
            groups = [parent_child(0, [1], 0.4, 0.3) if rng.random() < 0.5 else exclusive([0, 1], [0.3, 0.2])]
        self.law = Features(n, p, LAWS[kind], groups=groups)
        unit = self.factor / 4
        thresholds = unit * (self.t + BESIDE * self.aside) if self.jumps else None
        self.V, self.c = rng.normal(size=(d, latents)), rng.normal(size=d)
        self.model = Model(
            unit * self.encoder, b_in=unit * self.b, hidden="jumprelu" if self.jumps else "relu",
            W_out=self.V, b=self.c, output="identity", thresholds=thresholds,
        )  # fmt: skip

    def true(self):
        """Return squared error, L0, L1, and P(on | i, j) with the probabilities of both, by enumeration."""
        x, chances = states(self.law)
        x = x.astype(int)
        a = x @ self.phi.T
        z = a @ self.encoder.T + self.b
        on = (z > self.t) | ((z == self.t) & (self.aside < 0))
        h = np.where(on, np.longdouble(self.factor) / 4 * z, 0)
        left = a - h @ self.V.T.astype(np.longdouble) - self.c
        mse = np.sum(chances * np.sum(left**2, axis=1))
        there = (x != 0) * 1.0
        share = np.asarray(chances, float)
        pairs = (there.T * share) @ there
        joint = np.stack([(there.T * (share * one)) @ there for one in on.T])
        l0, l1 = (np.array([np.sum(chances * one) for one in of.T], float) for of in (on, h))
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(mse), l0, l1, np.where(pairs > 0.0, joint / pairs, np.nan), pairs


def check(case):
    """Compare all that is stated with enumeration."""
    found = measure(case.model, case.law, case.phi)
    mse, l0, l1, fires, pairs = case.true()
    assert abs(found.mse - mse) <= found.mse_error, (found.mse, mse, found.mse_error)
    error = found.firing_error + 2.0**-46  # the enumeration's own
    assert found.l0 == pytest.approx(l0, rel=0, abs=error)
    if found.firing_error < 1e-9:
        assert found.l1 == pytest.approx(l1, rel=1e-8, abs=1e-8)
    assert found.p == pytest.approx(pairs.diagonal(), rel=0, abs=1e-12)  # of sums of 2^20 terms
    known = pairs > 0.0
    assert found.fires_pairs[:, known] == pytest.approx(fires[:, known], rel=0, abs=error)
    one = np.diagonal(fires, axis1=1, axis2=2)
    assert np.asarray(found.fires) == pytest.approx(np.nan_to_num(one), rel=0, abs=error)
    p = pairs.diagonal()
    f1 = np.where(l0[:, None] > 1e-12, 2.0 * p * np.nan_to_num(one) / (l0[:, None] + p), 0.0)
    assert np.all(np.abs(found.f1 - f1) <= (2.0 + 1.0 / (l0[:, None] + p)) * error)
    for i in range(p.size):
        for j in range(p.size):
            left = p[i] - pairs[i, j]
            if found.match[i] < 0 or i == j or left < 1e-6 or pairs[i, j] == 0.0:
                continue
            k = found.match[i]
            alone = (one[k, i] * p[i] - fires[k, i, j] * pairs[i, j]) / left
            assert abs(found.absorbed(i, j) - alone + fires[k, i, j]) <= error * (2.0 + 2.0 / left)
    one = case.model
    network = Model(one.W_in @ case.phi, b_in=one.b_in, hidden=one.hidden, W_out=one.W_out, b=one.b,
                    output="identity", thresholds=one.thresholds)  # fmt: skip
    loss = evaluator(case.law)(network, target=case.phi)
    assert abs(loss.loss * len(case.phi) - mse) <= loss.error_estimate * len(case.phi)


@pytest.mark.parametrize("first", range(4))
def test_scores_at_atoms_are_those_of_enumeration(first):
    for seed in range(first, 30, 4):
        rng = np.random.default_rng([48, seed])
        check(Case(rng, "binary", 13 + seed % 4) if seed % 2 else Case(rng, list(LAWS)[seed // 2 % 4]))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_2000_scores_at_atoms_are_those_of_enumeration(part):
    for seed in range(500):
        rng = np.random.default_rng([2000, part, seed])
        kind = list(LAWS)[seed % 4] if rng.random() < 0.4 else "binary"
        check(Case(rng, kind))


# --- The other ways -----------------------------------------------------------------------------------------


def without(monkeypatch, *names):
    """Leave out ways to compute means, so that others are taken."""
    for name in names:
        for module in (neuron_means, firing_module):
            monkeypatch.setattr(module, name, lambda *_: None, raising=False)


@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 40), marks=pytest.mark.slow)])
def test_sums_over_frequencies_state_what_a_threshold_on_an_atom_does_to_them(seeds, monkeypatch):
    without(monkeypatch, "on_moments", "pair_product", "merged_product", "lattice_series")
    for seed in seeds:
        check(Case(np.random.default_rng([3, seed]), "binary", 13 + seed % 3))


@pytest.mark.parametrize("seeds", [range(12), pytest.param(range(12, 40), marks=pytest.mark.slow)])
def test_series_on_a_lattice_and_merged_sums_are_exact(seeds, monkeypatch):
    without(monkeypatch, "on_moments", "pair_product")
    for seed in seeds:
        case = Case(np.random.default_rng([4, seed]), "binary", 13 + seed % 3)
        check(case)
        found, true = measure(case.model, case.law, case.phi), case.true()
        assert found.firing_error < 1e-9, seed
        if case.jumps:
            assert found.mse_error < 1e-6 * max(true[0], 1.0), seed


def joint(weights, b, p, fixed=()):
    """Return the law of whole sums b + w x of two neurons, (sums, sums), and its first places."""
    low = b + np.minimum(weights, 0).sum(axis=1)
    size = np.abs(weights).sum(axis=1) + 1
    law = np.zeros(size, np.longdouble)
    law[tuple(b - low)] = 1.0
    for j in range(p.size):
        moved = np.roll(law, tuple(weights[:, j]), axis=(0, 1))
        law = moved if j in fixed else (1 - np.longdouble(p[j])) * law + np.longdouble(p[j]) * moved
    return law, low


@pytest.mark.parametrize("n", [30, 60])
def test_a_dictionary_of_signs_of_many_features(n):
    rng = np.random.default_rng(n)
    weights, b, t = rng.choice([-1, 1], (2, n)), rng.integers(-3, 3, 2), rng.integers(1, 4, 2)
    p, unit = rng.uniform(0.02, 0.3, n), 0.1
    law, low = joint(weights, b, p)

    def means(law):
        z = [start + np.arange(size) for start, size in zip(low, law.shape, strict=True)]
        on = [one > at for one, at in zip(z, t, strict=True)]
        h = [np.where(one, at, 0) for one, at in zip(on, z, strict=True)]
        return law @ on[1] @ on[0], h[0] @ law @ h[1], h[0] @ law.sum(axis=1), on[0] @ law.sum(axis=1)

    model = Model(unit * weights, b_in=unit * b, hidden="jumprelu", W_out=np.ones((1, 2)), output="identity",
                  thresholds=unit * t)  # fmt: skip
    features = Features(n, p, "binary")
    found = hidden_means(model, Law(features))
    _, product, mean, active = means(law)
    assert found.products[0, 1] == pytest.approx(float(product) * unit**2, rel=1e-10, abs=0)
    assert abs(found.products[0, 1] - product * unit**2) <= found.errors[0, 1]
    assert abs(found.mean[0] - mean * unit) <= found.unit_errors[0] < 1e-9
    assert abs(found.active[0] - active) <= found.unit_errors[0]
    context = neuron_means.NeuronContext.of(Law(features), "identity", 1e-6, 1.0)
    one = firing(hidden_neurons(model, context)[0], pairs=True)
    for i, k in ((0, 1), (2, n - 1)):
        given, both = (means(joint(weights, b, p, fixed)[0]) for fixed in ((i,), (i, k)))
        assert abs(one.p_given[i] - given[3]) <= one.error
        assert abs(one.p_given_pairs[i, k] - both[3]) <= one.error
        assert abs(found.by_targets[0, i] - given[2] * unit * p[i]) <= found.unit_errors[0]
    assert one.error < 1e-9


def test_gradients_of_sums_of_atoms_are_those_of_all_patterns(monkeypatch):
    rng = np.random.default_rng(5)
    n, phi = 7, rng.choice([-1.0, 1.0], (3, 7))
    for hidden in ("relu", "jumprelu"):
        thresholds = np.array([0.5, 1.0, 0.0, 2.0]) if hidden == "jumprelu" else None
        b_in, V = [0.0, -0.5, -1.0, 0.5], rng.normal(size=(3, 4))
        sae = Model(0.5 * phi[:, :4].T, b_in=b_in, hidden=hidden, W_out=V, b=rng.normal(size=3),
                    output="identity", thresholds=thresholds)  # fmt: skip
        f = AutoencoderObjective(Features(n, rng.uniform(0.05, 0.5, n), "binary"), phi, l1=0.1)
        listed = f(sae)
        monkeypatch.setattr(neuron_means, "MOST_EXACT_ATOMS", 2)
        halved = f(sae)
        monkeypatch.undo()
        assert halved.value == pytest.approx(listed.value, rel=1e-13)
        for name, one in listed.gradient.items():
            assert halved.gradient[name] == pytest.approx(one, rel=0, abs=1e-12)


def test_a_sum_that_rounding_lifts_above_its_threshold_is_at_it():
    assert 0.1 + 0.2 > 0.3
    assert not is_above(0.1 + 0.2, 0.3, 0.6, 2)
    assert is_above(0.3 + 1e-12, 0.3, 0.6, 2)
    model = Model([[0.1, 0.2]], hidden="jumprelu", W_out=[[1.0]], output="identity", thresholds=0.3)
    assert model([1.0, 1.0]) == 0.0
    for n in (2, 13):
        weights = np.full((1, n), 0.1)
        one = Model(weights, hidden="jumprelu", W_out=np.ones((n, 1)), output="identity", thresholds=0.1 * n)
        found = measure(one, Features(n, 1.0, "binary"))
        assert found.l0 == 0.0, n


@pytest.mark.parametrize(
    "law",
    [
        Features(3, 0.3, "rectified-normal(1)"),
        Features(3, 0.3, LAWS["zero or one"]),
        Features(3, 0.3, LAWS["zero or one"], groups=[parent_child(0, [2], 0.5, 0.4)]),
        Features(3, 0.3, LAWS["zero or one"], exactly=2),
        Features(8, 0.3, "rectified-normal(0)"),
    ],
)
def test_a_feature_is_on_where_it_is_not_0(law):
    n = law.n_features
    found = measure(Model(np.eye(n), hidden="relu", output="identity"), law)
    assert found.f1.diagonal() == pytest.approx(np.ones(n), rel=0, abs=1e-9)
    assert found.l0 == pytest.approx(found.p, rel=0, abs=1e-9)
    x = law.sample(20_000, rng=0) != 0.0
    assert found.p == pytest.approx(x.mean(axis=0), abs=0.02)
    assert found.pairs == pytest.approx((1.0 * x.T) @ x / len(x), abs=0.02)
    assert found.fires_pairs[0, 1, 2] == pytest.approx(x[x[:, 1] & x[:, 2], 0].mean(), abs=0.05)


def test_the_slope_by_a_bias_at_atoms_is_the_mean_of_both_sides():
    """With 40 binary features and weights of 1 and -1, pre-activations of 0 have a probability."""
    rng = np.random.default_rng(0)
    law, b_in, h = Features(40, 0.3, "binary"), np.array([0.0, 1.0]), 0.1
    W_in, W_out, target = rng.choice([-1.0, 1.0], (2, 40)), rng.normal(size=(3, 2)), rng.normal(size=(3, 40))

    def at(b_in, gradient=False):
        network = Model(W_in, b_in=b_in, hidden="relu", W_out=W_out, b=np.zeros(3), output="identity")
        return evaluator(law)(network, gradient=gradient, target=target)

    found = at(b_in, True)
    assert found.method == "pair_fourier"
    for i, unit in enumerate(np.eye(2)):
        # The loss is a parabola up to the next whole number, on each side.
        sides = [
            s * (-3.0 * found.loss + 4.0 * at(b_in + s * h * unit).loss - at(b_in + 2.0 * s * h * unit).loss)
            / (2.0 * h)
            for s in (1.0, -1.0)
        ]  # fmt: skip
        allowed = found.gradient_error.max()
        assert abs(sides[0] - sides[1]) > 3.0 * allowed
        assert abs(found.gradient["b_in"][i] - np.mean(sides)) < allowed

"""Losses of networks with hidden neurons that bend, compared with brute force over all patterns of features.

The oracle shares no code with the engine: `_nested` integrates any density by Gauss points between the
vertices of the arrangement of the box and the two thresholds, the innermost integral in closed form.
"""

import itertools
from dataclasses import replace
from math import erf, pi, sqrt

import numpy as np
import pytest
from scipy import stats

from superposition.solvers.loss import evaluator
from superposition.solvers.loss.network import neuron_means, pair_fourier
from superposition.solvers.loss.network.assemble import hidden_means, without_linear_pairs
from superposition.solvers.loss.network.density_table import table_of
from superposition.solvers.loss.network.relu_output import covers, linear_readout
from superposition.solvers.loss.problem import Law
from superposition.theory.features import VALUES, Features, parent_child
from superposition.theory.features.values import law_named
from superposition.theory.features.values.law import ValueDistribution
from superposition.theory.model import Model

from ..oracles import patterns


def _tabulated(table, r, low, high):
    """Return the integral of v^r times the density of a table, by Gauss points between its edges."""
    x, weights = np.polynomial.legendre.leggauss(20)
    total = 0.0
    for k, (a, b) in enumerate(itertools.pairwise(table.edges)):
        start, end = max(a, low), min(b, high)
        if start < end:
            v = 0.5 * (start + end) + 0.5 * (end - start) * x
            f = np.polynomial.polynomial.polyval((2 * v - a - b) / (b - a), table.density[k])
            total += 0.5 * (end - start) * weights @ (v**r * f)
    return total


OVERLAPPING = ValueDistribution(
    "overlapping", (-0.5, 1.0), lambda k: (1 + 0.5**k) / 4 / (k + 1) + (1 - (-0.5) ** (k + 1)) / 3 / (k + 1),
    lambda rng, size: rng.random(size), pieces=[(0.0, 1.0, [0.25]), (0.0, 0.5, [0.5]), (-0.5, 1.0, [1 / 3])],
)  # fmt: skip


@pytest.mark.parametrize("values", [*map(law_named, ["values"] * len(VALUES), VALUES), OVERLAPPING], ids=str)
def test_a_table_has_the_density_and_the_moments_of_its_law(values):
    table = table_of(values)
    atoms = [sum(chance * at**r for at, chance in values.atoms) for r in range(3)]
    assert table.cumulative[:, -1] + atoms == pytest.approx([values.moment(r) for r in range(3)], abs=1e-13)
    if values.density is None:
        return
    low, high = table.edges[[0, -1]]
    for to in np.linspace(low, high, 8)[1:]:
        v = low + (to - low) * (np.arange(20_000) + 0.5) / 20_000
        for r in range(3):  # by midpoints, whose error at each of three jumps is at most the half of a step
            want = np.mean(values.density(v) * v**r) * (to - low)
            assert _tabulated(table, r, low, to) == pytest.approx(want, abs=1e-3)
    for r in range(3):
        for k in range(len(table.density)):
            ends = np.polynomial.polynomial.polyval([-1.0, 0.3, 1.0], table.integrals[r, k])
            a, b = table.edges[k : k + 2]
            want = [_tabulated(table, r, a, a + (b - a) * share) for share in (0.0, 0.65, 1.0)]
            assert ends == pytest.approx(want, abs=1e-13)


# --- Nested integrals ---------------------------------------------------------------------------------------


def _phi(x):
    return np.exp(-0.5 * x * x) / sqrt(2 * pi)


_erf = np.vectorize(erf)


def _normal_moments(low, high, centre):
    """Return integrals of v^r times the density of a normal value around `centre`, r = 0, 1, 2."""
    a, b = low - centre, high - centre
    m0 = 0.5 * (_erf(b / sqrt(2)) - _erf(a / sqrt(2)))
    m1 = _phi(a) - _phi(b)
    m2 = m0 + a * _phi(a) - b * _phi(b)
    return np.stack([m0, m1 + centre * m0, m2 + 2 * centre * m1 + centre**2 * m0])


def _exponential_moments(low, high):
    def tails(v):
        return np.exp(-v) * np.stack([np.ones_like(v), v + 1, v * v + 2 * v + 2])

    return tails(low) - tails(high)


# Panels from end to end, the density, its integrals, and an atom at 0.
def _power_moments(low, high):
    return np.stack([(high**r - low**r) / r for r in (1, 2, 3)])


# Panels from end to end, Gauss points of each, the density, its integrals, and an atom at 0.
DENSITIES = {
    "uniform": (np.r_[0.0, 1.0], 6, np.ones_like, _power_moments, 0.0),
    "symmetric": (
        np.r_[-1.0, 1.0], 6, lambda v: 0.5 + 0.0 * v, lambda a, b: 0.5 * _power_moments(a, b), 0.0,
    ),
    "half-normal": (
        np.r_[0:9.5:1.0, 9.5], 22, lambda v: 2 * _phi(v), lambda a, b: 2 * _normal_moments(a, b, 0.0), 0.0,
    ),
    "exponential": (
        np.r_[0:6:1.0, 6:16:2.0, 16:43:4.0], 22, lambda v: np.exp(-v), _exponential_moments, 0.0,
    ),
    "normal": (np.r_[-9.5, -8:9:1.0, 9.5], 22, _phi, lambda a, b: _normal_moments(a, b, 0.0), 0.0),
    "rectified-normal(2)": (
        np.r_[0:12:1.0], 22, lambda v: _phi(v - 2), lambda a, b: _normal_moments(a, b, 2.0),
        0.5 * (1 + erf(-sqrt(2))),
    ),
}  # fmt: skip
LAWS = ("binary", *DENSITIES)


def _places(level, y, w, panels):
    """Return the coordinate `level` of the vertices of the arrangement of the box and both lines."""
    rows = y.shape[1]
    ends = panels[0], panels[-1]
    found = [np.tile(panels, (rows, 1))]
    corners = list(itertools.product(ends, repeat=level))
    for unit in range(2):
        if w[unit, level] != 0.0:
            for corner in corners:
                at = -(y[unit] + w[unit, :level] @ np.array(corner)) / w[unit, level]
                found.append(at[:, None])
            blur = np.abs(w[unit, :level]).max(initial=0.0) / abs(w[unit, level])
            if blur < 1.0:
                near = -y[unit] / w[unit, level]
                found.append(near[:, None] + blur * np.array([-12, -8, -4, -2, -1, 1, 2, 4, 8, 12.0]))
    for free in range(level):
        det = w[0, level] * w[1, free] - w[1, level] * w[0, free]
        if det != 0.0:
            for corner in itertools.product(ends, repeat=level - 1):
                full = np.insert(np.array(corner), free, 0.0)
                a, b = y[0] + w[0, :level] @ full, y[1] + w[1, :level] @ full
                found.append(((b * w[0, free] - a * w[1, free]) / det)[:, None])
    return np.sort(np.clip(np.concatenate(found, axis=1), *ends), axis=1)


def _on_together(w, b, t, values, first=None):
    """Return means over values that are all on: of h_1 h_2, and its derivatives by b, t and w."""
    k = w.shape[1]
    if k == 0:
        z = b * (b > t)
        on = np.where(b > t, 1.0, np.where((b == t) & (t == 0), 0.5, 0.0))
        return z[0] * z[1], np.array([on[0] * z[1], on[1] * z[0]]), np.zeros(2), np.zeros((2, 0))
    panels, gauss, density, moments, _ = DENSITIES[values]
    nodes, weights = np.polynomial.legendre.leggauss(gauss)
    order = np.argsort(-np.minimum(abs(w[0]), abs(w[1])), kind="stable")
    if np.all(w[1] == 0) or np.all(w[0] == 0):
        order = np.argsort(-np.abs(w).max(axis=0), kind="stable")
    if first is not None:
        order = np.r_[first, np.delete(np.arange(k), first)]
    given, w = w, w[:, order]
    y, v, share = b[:, None].copy(), np.zeros((0, 1)), np.ones(1)
    for level in range(k - 1, 0, -1):
        places = _places(level, y - t[:, None], w, panels)
        step = 0.5 * np.diff(places, axis=1)[:, :, None]
        at = (places[:, :-1, None] + step * (1 + nodes)).reshape(len(share), -1)
        mass = (step * weights).reshape(len(share), -1) * density(at)
        kept = (mass > 0).nonzero()
        y = y[:, kept[0]] + w[:, level, None] * at[kept]
        v = np.concatenate([at[kept][None], v[:, kept[0]]])
        share = share[kept[0]] * mass[kept]
    low, high = np.full(share.size, panels[0]), np.full(share.size, panels[-1])
    half, by = np.ones((2, share.size)), np.full((2, share.size), -1)
    for unit in range(2):
        with np.errstate(divide="ignore", invalid="ignore"):
            at = (t[unit] - y[unit]) / w[unit, 0]
        if w[unit, 0] > 0:
            by[0][at > low] = unit
            low = np.maximum(low, at)
        elif w[unit, 0] < 0:
            by[1][at < high] = unit
            high = np.minimum(high, at)
        else:
            kink = (y[unit] == t[unit]) & (t[unit] == 0)  # the mean of both sides
            half[unit] = np.where(kink, 0.5, 1.0)
            low = np.where((y[unit] > t[unit]) | kink, low, np.inf)
    none = ~(low < high)
    low, high = np.where(none, 0.0, low), np.where(none, 0.0, high)
    m = moments(low, high) * share
    value = np.sum(y[0] * y[1] * m[0] + (y[0] * w[1, 0] + y[1] * w[0, 0]) * m[1] + w[0, 0] * w[1, 0] * m[2])
    by_b, by_t, by_w = np.zeros(2), np.zeros(2), np.zeros((2, k))
    for unit in range(2):
        o = 1 - unit
        one = half[unit] * (y[o] * m[0] + w[o, 0] * m[1])
        by_b[unit] += one.sum()
        by_w[unit, 0] += np.sum(half[unit] * (y[o] * m[1] + w[o, 0] * m[2]))
        by_w[unit, 1:] += v @ one
        for side, at in enumerate((low, high)):
            flux = (by[side] == unit) * ~none * share * density(at) * t[unit] / max(abs(w[unit, 0]), 1e-300)
            flux = flux * (y[o] + w[o, 0] * at)
            by_b[unit] += flux.sum()
            by_t[unit] -= flux.sum()
            by_w[unit, 0] += np.sum(flux * at)
            by_w[unit, 1:] += v @ flux
    by_w = by_w[:, np.argsort(order)]
    for unit in range(2):  # a threshold that the innermost value does not cross
        if first is None and w[unit, 0] == 0 and t[unit] > 0 and np.any(w[unit]):
            other = _on_together(given, b, t, values, int(np.argmax(np.abs(given[unit]))))
            by_b[unit], by_t[unit], by_w[unit] = other[1][unit], other[2][unit], other[3][unit]
    return value, by_b, by_t, by_w


def _nested(one, two, p, values):
    """Return E h_1 h_2 over all patterns, with derivatives by b, t (2,) and w (2, n)."""
    w, b, t = np.array([one[0], two[0]]), np.array([one[1], two[1]]), np.array([one[2], two[2]])
    n, atom = len(p), 0.0 if values == "binary" else DENSITIES[values][-1]
    total = [0.0, np.zeros(2), np.zeros(2), np.zeros((2, n))]
    for on in itertools.product((0, 1), repeat=n):  # 1: within the density
        share = np.prod([q if o else 1 - q + q * atom for q, o in zip(p, on, strict=True)])
        which = np.flatnonzero(on)
        if values == "binary":
            part = list(_on_together(w[:, :0], b + w[:, which].sum(axis=1), t, values))
            part[3] = np.repeat(part[1][:, None], len(which), axis=1)
        else:
            part = _on_together(w[:, which], b, t, values)
        for k in range(3):
            total[k] = total[k] + share * part[k]
        total[3][:, which] += share * part[3]
    return total


def _nested_loss(model, law, A, name):
    """Return loss and gradient; the loss is a quadratic form in neurons, 1, and halves of the targets."""
    n, hidden, outputs, values = law.n_features, model.n_hidden, model.n_outputs, str(law.values)
    down = {"identity": -1.0, "relu": 0.0, "abs": 1.0}[name] if values in ("symmetric", "normal") else 0.0
    ends = [np.diag(law.scale), -np.diag(law.scale)] if down else [np.diag(law.scale)]
    w = np.concatenate([model.W_in * law.scale, np.zeros((1, n)), *ends])
    b, t = np.zeros(len(w)), np.zeros(len(w))
    b[: hidden + 1], t[:hidden] = (
        np.r_[model.b_in, 1.0],
        0.0 if model.thresholds is None else model.thresholds,
    )
    R = np.column_stack([model.W_out, model.b, -A, -down * A])[:, : len(w)]
    weights = (law.importance if law.importance.size == outputs else np.ones(outputs)) / outputs
    Q, P = (R.T * weights) @ R, np.zeros((len(w), len(w)))
    by_w, by_b, by_t = np.zeros(w.shape), np.zeros(b.shape), np.zeros(t.shape)
    for i, j in itertools.combinations_with_replacement(range(len(w)), 2):
        value, *by = _nested((w[i], b[i], t[i]), (w[j], b[j], t[j]), law.p, values)
        P[i, j] = P[j, i] = value
        for unit, side in ((i, 0), (j, 1)):
            share = Q[i, j] * (1 if i == j else 2)
            by_b[unit] += share * by[0][side]
            by_t[unit] += share * by[1][side]
            by_w[unit] += share * by[2][side]
    by_R = 2 * weights[:, None] * (R @ P)
    return np.sum(Q * P), {
        "W_in": by_w[:hidden] * law.scale, "b_in": by_b[:hidden], "W_out": by_R[:, :hidden],
        "b": by_R[:, hidden], "thresholds": by_t[:hidden],
    }  # fmt: skip


# --- Networks -----------------------------------------------------------------------------------------------


def _drawn(rng, values, most=4):
    """Return a random network of few features, its law and its target; degenerate ones among them."""
    n, hidden = rng.integers(1, most + 1, 2)
    p, scale, importance = rng.uniform(0.01, 1.0, n), rng.uniform(0.3, 3.0, n), rng.uniform(0.5, 2.0, n)
    p = rng.choice([0.02, 0.1, 0.4, 1.0]) if rng.random() < 0.5 else p
    scale = 1.0 if rng.random() < 0.5 else scale
    outputs = n if rng.random() < 0.7 else int(rng.integers(1, 4))
    importance = importance if rng.random() < 0.3 and outputs == n else 1.0
    U, beta = rng.normal(size=(hidden, n)), rng.normal(size=hidden) * 0.4
    V, c = rng.normal(size=(outputs, hidden)) * 0.7, rng.normal(size=outputs) * 0.2
    kind, theta = rng.integers(6), None
    if kind == 0:
        U[rng.integers(hidden)] = 0.0
    elif kind == 1:
        beta[:] = c[:] = 0.0
    elif kind == 2:
        U[:, rng.integers(n)] = beta[rng.integers(hidden)] = 0.0
    elif kind == 3 and hidden > 1:
        U[1], beta[1] = rng.choice([-1.0, 2.0]) * U[0], rng.choice([0.0, 0.3])  # parallel lines
    elif kind == 4:
        U[rng.random(U.shape) < 0.5] = 0.0
    if rng.random() < 0.3:
        theta = np.where(rng.random(hidden) < 0.8, rng.uniform(0.0, 0.6, hidden), 0.0)
    A = np.eye(n) if outputs == n and rng.random() < 0.7 else rng.normal(size=(outputs, n))
    jumps = "relu" if theta is None else "jumprelu"
    network = Model(U, beta, jumps, V, c, "identity", thresholds=theta)
    target = A, str(rng.choice(["identity", "relu", "abs"]))
    return network, Features(n, p, values, scale, importance), target


def _checked(network, law, target):
    """Assert that loss and gradient agree to 1e-10, and that no error exceeds its estimate."""
    loss, slopes = _nested_loss(network, law, *target)
    found = evaluator(law)(network, gradient=True, target=target)
    about = (str(law.values), network, law, target, found.method)
    unit = float(np.mean(law.second_moment)) * max(1.0, float(np.sum(target[0] ** 2)))
    assert abs(found.loss - loss) <= 1e-10 * (loss + 1e-3 * unit), about
    assert abs(found.loss - loss) <= found.error_estimate + 1e-14 * abs(loss), about
    size = max(np.abs(one).max() for one in found.gradient.values())
    for key, by in found.gradient.items():
        error = np.abs(by - slopes[key])
        if key == "thresholds":  # at one of 0 the derivative has one side
            error = error[network.thresholds != 0.0]
        error = error.max(initial=0.0)
        assert error <= 1e-10 * (size + unit), (key, about)
        assert error <= found.gradient_error.max() + 1e-14 * size, (key, about)


def test_neurons_that_read_different_features():
    W_out = np.array([[1.0, 0.3], [-0.2, 0.8]])
    network = Model(np.eye(2), 0.0, "jumprelu", W_out, 0.0, "identity", thresholds=[0.35, 0.23])
    _checked(network, Features(2, 0.4), (np.eye(2), "identity"))


@pytest.mark.parametrize("seeds", [range(3), pytest.param(range(3, 43), marks=pytest.mark.slow)])
@pytest.mark.parametrize("values", LAWS)
def test_loss_and_gradient_agree_with_brute_force(values, seeds):
    for seed in seeds:
        rng = np.random.default_rng([seed, LAWS.index(values)])
        _checked(*_drawn(rng, values, {"binary": 4, "uniform": 3, "symmetric": 3}.get(values, 2)))


@pytest.mark.slow
def test_stated_errors_of_derivatives_with_a_neuron_that_is_never_on():
    _checked(*_drawn(np.random.default_rng([7, 24, 19]), "rectified-normal(2)", 3))


def _random(rng, n, hidden, outputs=None, sparse=1.0, jumps=False):
    """Return a network of ordinary sizes; each neuron has a share `sparse` of the features."""
    outputs = outputs or n
    U = rng.normal(size=(hidden, n)) * (rng.random((hidden, n)) < sparse)
    U /= np.sqrt(max(1.0, 0.1 * n * sparse))
    V, c = rng.normal(size=(outputs, hidden)) / np.sqrt(hidden), 0.05 * rng.normal(size=outputs)
    return Model(
        W_in=U, b_in=0.1 * rng.normal(size=hidden), hidden="jumprelu" if jumps else "relu", W_out=V, b=c,
        output="identity", thresholds=rng.uniform(0.0, 0.2, hidden) if jumps else None,
    )  # fmt: skip


@pytest.fixture
def sum_frequencies(monkeypatch):
    """Return what lets sums over frequencies take the place of integrals over few features."""

    def none():
        for few in ("MOST_EXACT", "MOST_EXACT_TARGETS"):
            monkeypatch.setattr(neuron_means, few, {True: 0, False: 0})
        monkeypatch.setattr(neuron_means, "MOST_EXACT_NORMAL", 0)

    return none


@pytest.mark.parametrize(
    "values", ["uniform", "symmetric", "normal", pytest.param("exponential", marks=pytest.mark.slow)]
)
def test_sums_over_frequencies_agree_with_exact_integrals(values, sum_frequencies):
    rng = np.random.default_rng(len(values))
    law, target = Features(4, [0.1, 0.2, 0.05, 0.3], values), (np.eye(4), "relu")
    network = _random(rng, 4, 2)
    network = replace(network, W_in=network.W_in * [[1, 1, 1, 0], [1, 1, 0, 1]])
    exact = evaluator(law)(network, gradient=True, target=target)
    assert exact.method == "pair_exact"
    sum_frequencies()
    for tol in (1e-3, 1e-5):
        found = evaluator(law, tol=tol)(network, gradient=True, target=target)
        assert found.method == "pair_fourier"
        assert abs(found.loss - exact.loss) <= found.error_estimate + exact.error_estimate
        for key, by in exact.gradient.items():
            assert np.abs(found.gradient[key] - by).max() <= found.gradient_error.max() + 1e-12, key


@pytest.mark.parametrize(
    "values",
    ["half-normal", "symmetric", "exponential", pytest.param("rectified-normal(2)", marks=pytest.mark.slow)],
)
def test_neurons_that_are_nearly_parallel_have_no_images_in_their_sums(values, sum_frequencies):
    """Values beyond the period of both neurons at once count with the square of a neuron's weight."""
    w = np.random.default_rng(1).normal(size=3)
    setting = neuron_means.NeuronContext.of(Law(Features(3, 0.3, values)), "identity", 1e-6, 1e7)
    one, two = (
        neuron_means.HiddenNeuron(setting, scale * w, b, 0.0) for scale, b in ((1.0, 0.1), (1.1, -0.2))
    )
    exact = [neuron_means.pair_means(one, other, False) for other in (one, two)]
    sum_frequencies()
    for other, wanted in zip((one, two), exact, strict=True):
        found = neuron_means.pair_means(one, other, False)
        assert (wanted.method, found.method) == ("pair_exact", "pair_fourier")
        assert abs(found.value - wanted.value) <= found.largest_error
        assert found.largest_error < 1e-4


def test_what_a_sum_along_the_diagonal_leaves_out_follows_from_its_tapers():
    k = np.arange(1.0, 4e6)
    for jumps in range(3):  # so many of two neurons jump, and coefficients fall more slowly
        left = [np.sum(k[k > (1e5 * taper) ** (2 / 3)] ** (jumps - 4.0)) for taper in pair_fourier.TAPERS]
        wanted = left[0] / (np.array(left[1:]) - left[0])
        np.testing.assert_allclose(pair_fourier.tail_factors(jumps), wanted, rtol=0.02)


def test_a_neuron_of_one_feature_has_a_stated_error_beside_one_of_many():
    """What the other is off by counts with a bound of the neuron's size, which nothing else asks for here."""
    rng, n = np.random.default_rng(4), 30
    W_in = np.stack([np.eye(n)[0], rng.normal(size=n) * (np.arange(n) < 9)])
    found = evaluator(Features(n, 0.1), tol=1e-6)(Model(W_in, hidden="relu", output="identity"))
    assert found.error_estimate < 1e-5 * found.loss


@pytest.mark.parametrize("values", list(DENSITIES)[2:])
def test_integrals_behind_small_weights_have_as_many_nodes_as_they_need(values):
    """Behind a small weight the mean over one value changes as fast with the next as the weights differ."""
    w, p = np.array([[0.0520889, 0.94496851], [-0.87846804, -0.0287607]]), np.array([0.4, 0.3])
    setting = neuron_means.NeuronContext.of(Law(Features(2, p, values)), "identity", 1e-12, 1e7)
    for b in ([0.0, 0.0], [0.02, -0.7], [-0.3, 0.4]):
        units = [neuron_means.HiddenNeuron(setting, *one, 0.0) for one in zip(w, b, strict=True)]
        found = neuron_means.pair_means(*units, True)
        value, by_b, _, by_w = _nested((w[0], b[0], 0.0), (w[1], b[1], 0.0), p, values)
        assert abs(found.value - value) <= found.largest_error
        assert np.abs(found.by_b - by_b).max() <= found.slope_error
        assert np.abs(found.by_w - by_w).max() <= found.slope_error


def _sampled(network, law, name, samples, rng, block=20_000):
    """Return mean and standard error of the loss over samples."""
    of = {"identity": lambda x: x, "relu": lambda x: np.maximum(x, 0.0), "abs": np.abs}[name]
    total, squares, done = 0.0, 0.0, 0
    while done < samples:
        x = law.sample(block, rng)
        each = np.mean(law.importance * (of(x) - network(x)) ** 2, axis=1)
        total, squares, done = total + each.sum(), squares + np.sum(each**2), done + block
    mean = total / done
    return mean, np.sqrt((squares / done - mean**2) / done)


def _of_many_features(seed):
    """Return a network of 20 to 100 features, its law and its target."""
    rng = np.random.default_rng([11, seed])
    n, hidden = int(rng.integers(20, 101)), int(rng.integers(2, 7))
    values = LAWS[seed % len(LAWS)]
    p = float(rng.choice([0.01, 0.05, 0.2])) if rng.random() < 0.5 else rng.uniform(0.01, 0.1, n)
    scale = 1.0 if rng.random() < 0.5 else rng.uniform(0.5, 2.0, n)
    network = _random(rng, n, hidden, None, rng.choice([0.1, 1.0]), rng.random() < 0.2)
    name = str(rng.choice(["identity", "relu", "abs"]))
    return network, Features(n, p, values, scale), name


@pytest.mark.parametrize(
    ("seeds", "samples"),
    [(range(3), 200_000)]
    + [pytest.param(range(first, 60, 7), 10**6, marks=pytest.mark.slow) for first in range(7)],
)
def test_losses_of_many_features_agree_with_samples(seeds, samples):
    """By chance one in 2500 runs of all 63 networks fails: 4.5 standard errors each."""
    for seed in seeds:
        network, law, name = _of_many_features(seed)
        found = evaluator(law, tol=1e-5)(network, target=name)
        mean, error = _sampled(network, law, name, samples, np.random.default_rng(seed))
        assert abs(found.loss - mean) <= found.error_estimate + 4.5 * error, (seed, law)
        # Sums over frequencies of jumps of a law of atoms converge slowly, and say so.
        jumps = network.thresholds is not None and law.values.discrete
        assert found.error_estimate < (20.0 if jumps else 1.0) * error, (seed, law)


# --- Without a nonlinearity, groups -------------------------------------------------------------------------

GROUPS = Features(
    4,
    [0.3, 0.2, 0.2, 0.1],
    groups=[([1, 2], [[1, 1], [1, 0], [0, 0]], [0.2, 0.3, 0.5])],
    scale=[1.0, 2.0, 1.0, 0.5],
)
PAIRS = Features(5, [0.3, 0.2, 0.2, 0.1, 0.4], "symmetric", exactly=2)


@pytest.mark.parametrize(
    "law", [Features(4, [0.3, 0.1, 0.6, 1.0], "symmetric", [1, 2, 0.5, 1]), PAIRS, GROUPS]
)
@pytest.mark.parametrize("name", ["identity", "relu", "abs"])
def test_a_linear_part_of_the_targets_is_one_of_the_outputs(law, name):
    """Outputs y - B x for targets t are y for t + B x: two more neurons for each feature compute B x."""
    rng, n = np.random.default_rng(9), law.n_features
    network, A, B = _random(rng, n, 2, 3), rng.normal(size=(3, n)), rng.normal(size=(3, n))
    ends = np.concatenate([np.eye(n), -np.eye(n)])
    wide = replace(
        network, W_in=np.concatenate([network.W_in, ends]), b_in=np.r_[network.b_in, np.zeros(2 * n)],
        W_out=np.concatenate([network.W_out, -B, B], axis=1),
    )  # fmt: skip
    f = evaluator(law)
    found, other = f(network, gradient=True, target=(A, name, B)), f(wide, gradient=True, target=(A, name))
    np.testing.assert_allclose(found.per_feature, other.per_feature, rtol=1e-11)
    for key, by in found.gradient.items():
        whole = other.gradient[key]
        part = whole[:, :2] if key == "W_out" else whole[: len(by)]
        np.testing.assert_allclose(by, part, atol=1e-11, err_msg=key)
    # Without a gradient such neurons are found, and left out of the sums.
    assert f(wide, target=(A, name)).loss == pytest.approx(other.loss, rel=1e-11)
    rest, linear = without_linear_pairs(wide)
    np.testing.assert_array_equal(rest.W_in, network.W_in)
    np.testing.assert_array_equal(linear, -B)
    flat = Model(np.zeros((1, n)), W_out=np.zeros((3, 1)), b=network.b, output="identity")
    skip = replace(wide, W_in=ends, b_in=0.0, W_out=np.concatenate([B, -B], axis=1))
    assert f(skip, target=(A, name, B)).loss == pytest.approx(f(flat, target=(A, name)).loss, rel=1e-11)


def test_neurons_that_are_nearly_linear_together_are_kept():
    model = Model([[1.0, 0.5], [-1.0, -0.5]], hidden="relu", W_out=[[1.0, -1.0]], output="identity")
    assert without_linear_pairs(model)[1] is not None
    for other in (
        replace(model, b_in=[0.0, 1e-9]), replace(model, W_in=[[1.0, 0.5], [-1.0, 0.5]]),
        replace(model, W_out=[[1.0, 1.0]]), replace(model, hidden="jumprelu", thresholds=0.0),
    ):  # fmt: skip
        assert without_linear_pairs(other) == (other, None)


@pytest.mark.parametrize(("law", "name"), [(GROUPS, "identity"), (PAIRS, "abs"), (PAIRS, "relu")])
def test_groups_are_mixtures_of_patterns(law, name):
    """Given its pattern a law has independent features, each always on: so the loss is a mean of such."""
    n = law.n_features
    network = _random(np.random.default_rng(8), n, 3)
    total, by = 0.0, {"W_in": 0.0, "b_in": 0.0, "W_out": 0.0, "b": 0.0}
    for row, chance in patterns(law):
        # Of no feature that is on, one that is read by nothing and is no target stands for it.
        on = np.diag(row)[:, np.flatnonzero(row)] if any(row) else np.zeros((n, 1))
        one = Features(on.shape[1], 1.0, law.values, law.scale @ on + (0 if any(row) else 1.0))
        given = replace(network, W_in=network.W_in @ on)
        found = evaluator(one)(given, gradient=True, target=(on.astype(float), name))
        total += chance * found.loss
        for key, part in found.gradient.items():
            by[key] = by[key] + chance * (part @ on.T if key == "W_in" else part)
    found = evaluator(law)(network, gradient=True, target=name)
    assert found.loss == pytest.approx(total, rel=1e-12, abs=0)
    for key, part in by.items():
        np.testing.assert_allclose(found.gradient[key], part, atol=1e-12, err_msg=key)


# --- Outputs that pass a ReLU -------------------------------------------------------------------------------


def test_outputs_that_read_one_direction_are_linear_readouts_of_other_neurons():
    for seed in range(40):
        rng = np.random.default_rng([12, seed])
        n, hidden = rng.integers(1, 5, 2)
        W_in = np.outer(rng.normal(size=hidden) * (rng.random(hidden) < 0.9), rng.normal(size=n))
        b_in = rng.normal(size=hidden) * (rng.random(hidden) < 0.7)
        W_out = rng.normal(size=(3, hidden)) * (rng.random((3, hidden)) < 0.8)
        model = Model(W_in, b_in, "relu", W_out, rng.normal(size=3), "relu")
        assert covers(model)
        x = 3.0 * rng.normal(size=(100, n))
        for k in range(3):
            np.testing.assert_allclose(linear_readout(model, k)(x)[:, 0], model(x)[:, k], atol=1e-12)
    for turn in (0.0, 1e-9):  # nearly one direction are two
        model = Model([[1.0, 2.0], [1.0, 2.0 + turn]], 0.1, "relu", [[1.0, -1.0]], 0.0, "relu")
        assert covers(model) == (turn == 0.0)


@pytest.mark.parametrize(
    "values", ["symmetric", "binary", pytest.param("exponential", marks=pytest.mark.slow)]
)
def test_losses_of_outputs_that_pass_a_relu_agree_with_samples(values):
    """By chance one in 5e4 runs of these three fails: 4.5 standard errors."""
    rng, n = np.random.default_rng(len(values)), 8
    directions, which = rng.normal(size=(2, n)), np.array([0, 0, 1, 1])
    W_out = rng.normal(size=(n, 4)) * (which == rng.integers(2, size=n)[:, None])
    model = Model(directions[which] * [[1], [-2], [1], [0.5]], 0.3 * rng.normal(size=4), "relu", W_out, -0.1)
    law = Features(n, rng.uniform(0.05, 0.3, n), values, importance=rng.uniform(0.5, 2.0, n))
    found = evaluator(law, tol=1e-4)(model, target="abs")
    x = law.sample(200_000, rng)
    each = np.mean(law.importance * (np.abs(x) - model(x)) ** 2, axis=1)
    error = each.std() / np.sqrt(each.size)
    assert abs(found.loss - each.mean()) <= found.error_estimate + 4.5 * error
    assert found.error_estimate < error
    assert found.loss == pytest.approx(np.mean(law.importance * found.per_feature))


def test_a_neuron_that_hardly_moves_at_its_threshold():
    """The neuron z 1(z > t) is (z - t)_+ + t 1(z > t), from the same weights a million times as large."""
    W, small, t = np.random.default_rng(5).normal(size=(2, 7)), 1e-6, 0.65
    given = {"b_in": t - 0.1 * small, "hidden": "jumprelu", "thresholds": t, "output": "identity"}
    law = Law(Features(7, 0.2))
    near = hidden_means(Model(small * W, **given), law, tol=1e-6)
    plain = hidden_means(Model(W, b_in=-0.1, hidden="relu", output="identity"), law, tol=1e-6)
    assert near.active == pytest.approx(plain.active, abs=1e-5)
    assert near.mean == pytest.approx(small * plain.mean + t * plain.active, abs=1e-5)
    off = np.abs(near.mean - small * plain.mean - t * plain.active)
    assert np.all(off <= near.unit_errors + t * plain.unit_errors)


@pytest.mark.parametrize("values", ["uniform", "binary"])
@pytest.mark.parametrize(
    "weights", [[1, -1], [1, -1] * 6, [1, 0, -1] + [1, -1] * 4], ids=["few", "12", "group"]
)
def test_a_neuron_at_its_kink_is_off(values, weights):
    """The input z is symmetric: P(z > 0) = (1 - P(z = 0)) / 2, z = 0 where as many +1 as -1 are on."""
    W = np.array([weights], float)
    count, grouped = int(np.sum(W > 0.0)), weights[1] == 0
    groups = [parent_child(0, [1], 0.3, 0.4)] * grouped
    law = Law(Features(W.size, 0.3, values, groups=groups))
    found = hidden_means(Model(W, hidden="relu", output="identity"), law)
    balanced = np.sum(stats.binom.pmf(np.arange(count + 1), count, 0.3) ** 2)
    at_kink = balanced if values == "binary" else 0.7 ** (2 * count)
    assert abs(found.active[0] - 0.5 * (1.0 - at_kink)) < found.unit_errors[0] < 1e-9
    assert abs(found.active[0] - 0.5) > 1e-3  # half of the kink

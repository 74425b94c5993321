"""Every derivation has one form, and the closed form in doubles agrees with it at 50 digits.

A function NAME_REST draws values for the symbols of theory.NAME.derive_REST and gives what the function in
doubles makes of them. Other derivations are tested in files of their room.
"""

import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from superposition import theory
from superposition.theory.derivation import Derivation
from superposition.theory.features import VALUES, Features
from superposition.theory.features.values import law_named
from superposition.theory.features.values.law import transforms_at


def _functions() -> dict[str, Any]:
    found = {}
    for module in pkgutil.walk_packages(theory.__path__, theory.__name__ + "."):
        _, _, room, *_ = module.name.split(".")
        for name, one in vars(importlib.import_module(module.name)).items():
            if name.startswith("derive_") and inspect.isroutine(one) and one.__module__ == module.name:
                found[f"{room}.{name}"] = one
    return found


FUNCTIONS = _functions()

# Arguments of those that need some.
CALLS: dict[str, list[tuple[Any, ...]]] = {
    "computation.derive_fan": [("abs",), ("mixed",)],
    "computation.derive_moments": [("relu",), ("abs",), ("mixed",)],
    "computation.derive_single": [("relu",), ("abs",), ("mixed",)],
    "decoders.derive_posterior": [(values,) for values in VALUES],
    "features.derive_eigenvalues": [("covariance",), ("second_moment",)],
    "features.derive_value_moment": [(values,) for values in VALUES],
    "features.derive_value_transform": [(values,) for values in VALUES],
    "features.derive_moments": [
        (name,)
        for name in ("moment", "mean", "second_moment", "variance", "pair_moment", "pair_zero_probability")
    ],
    "linear.derive_critical_rates": [("pair",), ("encoder",), ("decoder",), ("tied",)],
    "loss.derive_class_gradient": [(1,), (3,)],
    "loss.derive_class_loss": [(1,), (2,), (4,)],
    "loss.derive_localised_llc": [(1,), (2,)],
    "relu.derive_onset": [(-1,), (1,)],
    "rug.derive_gradient": [("a",), ("b",), ("sigma",)],
    "rug.derive_loss": [("loss",), ("on",), ("off",)],
    "special.derive_ramp_moment": [(0,), (1,), (4,), (9,)],
}

# --- Ties ---------------------------------------------------------------------------------------------------


def _logarithmic(draw: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(draw.uniform(np.log(low), np.log(high))))


def _bipolar(std: float, *orders: int) -> dict[str, Any]:
    return {f"mu{k}": mp.mpf(std) ** k for k in orders}


def computation_moments(draw, target):
    p = _logarithmic(draw, 1e-12, 1.0)
    law = Features(1, p, "symmetric")
    made = {"target": "relu", "mixing": [[1.0]]} if target == "mixed" else {"target": target}
    found = theory.computation.target_moments(law, **made)
    return {"p": p}, [found.mean[0], found.second[0, 0], found.covariance[0, 0]]


def computation_single(draw, target):
    p = _logarithmic(draw, 1e-12, 1.0)
    return {"p": p}, theory.computation.equal_features_loss("naive", p, 1, 1, target=target)


def computation_readout(draw):
    """Take v and mu of ReLU at p, whose closed form has nothing else."""
    p, n = _logarithmic(draw, 1e-12, 1.0), int(draw.integers(1, 400))
    exact = mp.mpf(p)
    values = {"mu": exact / 4, "n": n, "v": exact / 6 - exact**2 / 16}
    return values, theory.computation.equal_features_loss("readout", p, n + 1, n) * (n + 1)


def computation_bent(draw):
    a, left = theory.computation.rare.best_single_neuron()
    return {"a": a}, [left, None]


def computation_shared(draw):
    g = int(draw.integers(2, 1000))
    found = theory.computation.shared_loss(g, 1)
    return {"k": mp.cbrt(g - 1)}, [found.weight, mp.mpf(found.loss) * 10]


def codes_pair_cost(draw):
    """Two of three draws lie near 1, where the form changes."""
    c = _logarithmic(draw, 1e-6, 1e6) ** draw.choice([1.0, 0.05, 0.05])
    return {"c": c}, theory.codes.pair_cost(c)


def codes_priority_plane_loss(draw):
    p = draw.choice([1.0, 0.99999, _logarithmic(draw, 1e-12, 1.0)])
    n = int(draw.choice([4, 5, 2000, draw.integers(4, 400)]))
    return {"p": p, "n": n}, theory.codes.priority_plane_loss(p, n)


def codes_collision_loss(draw):
    p, n = _logarithmic(draw, 1e-12, 1.0), int(draw.integers(1, 400))
    return {"p": p, "n": n}, theory.codes.collision_loss(p, n)


def codes_decoder_bound(draw):
    # r/(p - r) is the exponent; the bound leaves the doubles where it is large.
    p = _logarithmic(draw, 1e-12, 1.0)
    r = p * float(draw.uniform(0, 0.9))
    return {"p": p, "r": r}, theory.codes.decoder_bound(p, r)


def codes_relu_bound(draw):
    """Take the largest of the three bounds, at the theta of each."""
    bounds, u, beta = theory.unequal.bounds, 0.0, 1.0
    while beta * u * u > np.expm1(u) - u or u <= 0.0:  # elsewhere the bound is the chord of derive_chord_loss
        p, r = _logarithmic(draw, 1e-9, 0.99), float(np.exp(draw.uniform(np.log(1e-3), 0)))
        C, k_over_d = _families(p)[0]
        drawn = bounds._best_draw(np.array(r))
        s = float(bounds._sampled_weights(drawn))
        u, beta = np.log(s / r), k_over_d / (C * float(drawn))
    value = theory.codes.relu_bound(p, r)
    numeric = FUNCTIONS["codes.derive_relu_bound"]().numeric()
    theta = [min(r + np.sqrt(r * r + r * k_over_d / C), 1.0) for C, k_over_d in _families(p)]
    found = [float(numeric(p, r, s, theta[max(k - 1, 0)])[k, 0]) for k in range(3)]
    best = int(np.argmax(found))
    if best == 2:  # computed with a C that is 1e-12 larger, which lowers the bound to first order by
        C, k_over_d = _families(p)[1]
        value *= 1.0 + 1e-12 * C * theta[1] / (C * theta[1] + k_over_d)
    expected = [value if k == best else None for k in range(3)]
    return {"p": p, "r": r, "s": s, "theta": theta[max(best - 1, 0)]}, expected


def _families(p: float) -> list[tuple[float, float]]:
    return [(C, h * p * (1 - p) + 9 / 4 * p * p) for C, h in ((19 / 5, 11 / 3), (81 / 25, 37 / 2))]


def codes_skew_pair(draw):
    # F p² for p → 0; the next order of the loss is p³.
    return {}, [None, theory.codes.skew_pair_loss(1e-14) / 1e-28]


def decoders_posterior(draw, values):
    s = _logarithmic(draw, 1e-3, 10.0)
    low = -1.0 if values in ("symmetric", "normal") else 0.0
    y = float(draw.uniform(low - 3 * s, 1.0 + 3 * s))
    height, mean, variance = law_named("values", values).posterior(np.array([y]), s)
    density = float(np.exp(height[0])) if height[0] > -600 else None
    return {"sigma": s, "y": y}, [density, float(mean[0]), float(variance[0])]


def decoders_line_loss(draw):
    s, a, v = _logarithmic(draw, 1e-3, 10.0), _logarithmic(draw, 0.1, 10.0), float(draw.uniform(0, 1))
    theta = float(draw.uniform(-s, 1))
    b = float(draw.uniform(-1, 0)) * a * theta
    found = theory.decoders.line.line_errors(np.array([v]), theta, a, 1 - a, b, s)[0]
    return {"a": a, "b": b, "sigma": s, "theta": theta, "v": v}, float(found)


def features_moments(draw, name):
    p = draw.choice([_logarithmic(draw, 1e-140, 1.0), 0.9, 1 - 1e-9, 1.0])
    law = theory.features.SparseUniform(p)
    if name == "moment":
        k = int(draw.integers(1, 40))
        return {"p": p, "k": k}, law.moment(k)
    return {"p": p}, getattr(law, name)


def features_eigenvalues(draw, matrix):
    p, n = _logarithmic(draw, 1e-12, 1.0), int(draw.choice([draw.integers(2, 40), 100_000]))
    values = getattr(theory.features.SparseUniform(p), f"{matrix}_eigenvalues")(n)
    found = np.unique(values, return_counts=True)
    return {"p": p, "n": n}, [float(x) for pair in list(zip(*found, strict=True))[::-1] for x in pair]


def features_chernoff_bound(draw):
    # The function adds a bound of its own rounding, some 1e-15 (n + exponent).
    n, p = int(draw.integers(2, 200)), _logarithmic(draw, 1e-3, 0.3)
    k = int(draw.integers(int(n * p) + 1, n)) if int(n * p) + 1 < n else None
    if k is None:
        return None
    bound = theory.features.SparseUniform(p).chernoff_bound(n, k)
    return {"n": n, "k": k, "p": p}, float(mp.log(mp.mpf(bound)))


def loss_class_gradient(draw, k):
    """Central differences of the loss of the one output whose feature is on, in mpmath."""
    values = {name: mp.mpf(draw.normal()) for name in ("b", *(f"g{j + 1}" for j in range(k)))}
    loss, step = theory.loss.derive_class_loss(k), mp.mpf(10) ** -20

    def at(name, shift):
        return loss.evaluate({**values, name: values[name] + shift}, 60)

    with mp.workdps(60):
        return values, [
            (at(name, step)[entry] - at(name, -step)[entry]) / (2 * step)
            for name in values
            for entry in (0, 1)
        ]


def noise_random_drift(draw):
    m, std, rate = int(draw.integers(2, 999)), _logarithmic(draw, 1e-3, 1.0), _logarithmic(draw, 1e-3, 0.1)
    values = {"eta": rate, "m": m, **_bipolar(std, 2, 4)}
    return values, theory.noise.random_fourth_norm_drift(m, "bipolar", std, rate)


def _two_alike(draw):
    """Two encodings of two weights that mirror each other, so that both outputs are the same."""
    a, b = draw.uniform(0.3, 1.2, 2)
    W = np.array([[a, -b], [-b, a]])
    std, kurtosis = _logarithmic(draw, 0.3, 3.0), float(draw.uniform(-2, 3))
    a, b = mp.mpf(float(a)), mp.mpf(float(b))
    values = {"g": -2 * a * b, "s": a**2 + b**2, "sigma": std, "kurtosis": kurtosis}
    return W, values, {"p4": a**4 + b**4}, std, kurtosis


def noise_edgeworth(draw):
    W, values, fourth, std, kurtosis = _two_alike(draw)
    return values | fourth, theory.noise.effective_potential(W, std, kurtosis) / 2


def noise_sparsifying_rate(draw):
    W, values, _, std, kurtosis = _two_alike(draw)
    return values, theory.noise.sparsifying_rate(W, std, kurtosis)[0]


def relu_sphere_losses(draw):
    c, a = draw.uniform(0.01, 1, 2)
    found = theory.relu.interference(c, 0.0), theory.relu.obtuse_pair_loss(-a)
    return {"a": a, "c": c}, [0.0, mp.mpf(1) / 3, *found]


def relu_steep_bound(draw):
    a = float(1 + _logarithmic(draw, 1e-3, 1e3))
    return {"a": a}, theory.relu.steep_bound(a, 1.0)


def relu_thomson_bound(draw):
    m = int(draw.integers(2, 9))
    n, t = int(draw.integers(4 * m, 99)), float(draw.uniform(0.0, 0.25 / m))
    values = {"n": n, "m": m, "t": t, "u": 1, "c": 1}
    return values, [None, None, theory.relu.thomson_bound(n, m, -t)]


def rug_variance_bound(draw):
    n, p = 2 ** int(draw.integers(1, 30)), _logarithmic(draw, 1e-140, 1.0)
    m = int(draw.integers(1, n))
    return {"n_features": n, "n_hidden": m, "p": p}, [float(theory.rug.sigma(p, m / n)) ** 2, n / m]


def rug_zero_ratio_limit(draw):
    p = _logarithmic(draw, 1e-300, 1.0)
    return {"z": float(draw.uniform(-3, 3)), "p": p}, [None, theory.rug.zero_ratio_loss(p)]


def rug_linear_optimum(draw):
    p, ratio = _logarithmic(draw, 1e-300, 1.0), _logarithmic(draw, 1e-6, 1.0)
    return {"p": p, "ratio": ratio}, [None, None, theory.rug.linear_loss(p, ratio)]


def rug_edgeworth_correction(draw):
    a, sigma, p = (_logarithmic(draw, low, high) for low, high in ((0.3, 3), (1e-4, 10), (1e-9, 1)))
    at = {"a": a, "b": a * sigma * float(draw.uniform(-6, 3)), "sigma": sigma, "p": p}
    at |= {"sum_of_cubes": float(draw.normal()), "sum_of_fourths": float(draw.exponential())}
    return at, theory.rug.edgeworth_correction(**at)


def unequal_interference_variance(draw):
    p, c = _logarithmic(draw, 1e-6, 1.0), _logarithmic(draw, 1e-6, 1.0)
    law = theory.features.Features(1, p)
    values = {"variance": float(law.variance[0]), "capacity": c}
    return values, float(theory.unequal.interference_variance(c, law)[0])


def unequal_chord_loss(draw):
    """Compute the chord at a tangent point u, whose beta is the strength over the draw."""
    bounds = theory.unequal.bounds
    u, strength = _logarithmic(draw, 0.3, 30), _logarithmic(draw, 1e-6, 1.0)
    theta = float(bounds._sampled_weights(strength * u * u / (np.expm1(u) - u)))
    r = theta * float(draw.uniform(0.01, 0.9))
    return {"u": u, "r": r, "theta": theta}, [None, -float(bounds._negative_chord(u, strength, r))]


def unequal_row_loss(draw):
    """One row of the line of the bound, where nothing is left out: mu = C q and w = 1."""
    bounds = theory.unequal.bounds
    p, q = _logarithmic(draw, 1e-3, 0.9), _logarithmic(draw, 1e-3, 1.0)
    (C, h), rows = bounds.FIRST, np.array([[p], [1.0], [1.0]])
    D = p * (1 - p) / (h * (1 - p) + 2.25 * p)
    return {"D": D, "p": p, "q": q}, bounds._line_bound(rows, 0, C * q, bounds.FIRST)


def unequal_weak_interference_loss(draw):
    """Two rare features that differ in importance; kappa is read off the split at two widths."""
    law = theory.features.Features(3, 1e-3, importance=[1.0, float(draw.uniform(1, 3)), 0.0])
    capacity, loss = theory.unequal.weak_interference(law, 1)
    # loss = (sum of roots)² - sum of squares, and the roots are in proportion to the capacities
    square = 3 * loss / (1 - capacity[0] ** 2 - capacity[1] ** 2)
    values = {"kappa_1": capacity[0] ** 2 * square, "kappa_2": capacity[1] ** 2 * square, "m": 1}
    return values, 3 * loss


def unequal_tail_loss(draw):
    alpha, m = float(draw.uniform(1.1, 4)), _logarithmic(draw, 12, 1e4)
    return {"alpha": alpha, "m": m}, theory.unequal.tail_loss(alpha, m)


def special_ramp_moment(draw, order):
    w = float(draw.uniform(-20, 20))
    return {"w": w}, theory.special.ramp_moments(-w, order)[order]


def features_value_moment(draw, values):
    k = int(draw.integers(1, 151))
    return {"k": k}, law_named("values", values).moment(k)


def features_value_transform(draw, values):
    z = -_logarithmic(draw, 1e-6, 20)
    return {"z": z}, float(transforms_at(law_named("values", values), "z", np.array([complex(z)]))[0, 0].real)


def _sae(draw):
    """Draw probabilities of two patterns, half an l1 strength, and an angle below 45°."""
    return draw.uniform(0.01, 0.4, 3), float(draw.uniform(0.01, 0.9)), float(draw.uniform(0.05, 0.7))


def sae_code(draw):
    k, mu = float(draw.uniform(0.5, 2.0)), float(draw.uniform(0.0, 0.4))
    return {"X": 4.0, "k": k, "mu": mu}, theory.sae.hedging.code_cost(4.0, k, 2.0 * mu)


def sae_hedging(draw):
    m11, m22, share = draw.uniform((0.5, 0.1, 0.1), (1.0, 0.4, 0.9)).tolist()
    m12 = share * (m11 * m22) ** 0.5
    angle = theory.sae.hedging_angle([[m11, m12], [m12, m22]])
    return {"m_11": m11, "m_12": m12, "m_22": m22}, float(np.tan(2.0 * angle))


def sae_hedging_quartic(draw):
    (q1, q12, _), mu, _ = _sae(draw)
    return {"q_1": q1, "q_12": q12, "mu": mu}, theory.sae.hedging.hedging_quartic(q1, q12, 2.0 * mu)


def sae_tilt_slope(draw):
    (q1, q12, _), mu, angle = _sae(draw)
    found = theory.sae.absorption.tilt_slope(q1, q12, 2.0 * mu, angle)
    # Its two terms may cancel.
    return {"q_1": q1, "q_12": q12, "mu": mu, "theta": angle}, found if abs(found) > 1e-3 else None


def sae_absorbing_slope(draw):
    (q2, q12, _), mu, angle = _sae(draw)
    mu = min(mu, 0.7)  # beyond, the child alone may be dropped
    found = theory.sae.absorption.absorbing_slope(q2, q12, 2.0 * mu, 0.8 + angle)
    return {"q_2": q2, "q_12": q12, "mu": mu, "theta": 0.8 + angle}, found if abs(found) > 1e-3 else None


# How far off the functions above may be, relatively: theory.NAME.derive_REST is tied by NAME_REST.
BARS = {
    1e-14: "codes_collision_loss codes_pair_cost computation_moments computation_shared computation_single "
    "features_moments noise_random_drift rug_linear_optimum rug_variance_bound rug_zero_ratio_limit "
    "unequal_interference_variance",
    2e-14: "features_value_moment",
    1e-13: "codes_skew_pair computation_bent computation_readout features_eigenvalues "
    "features_value_transform noise_edgeworth noise_sparsifying_rate relu_sphere_losses sae_code "
    "unequal_row_loss",
    1e-12: "codes_decoder_bound codes_priority_plane_loss codes_relu_bound features_chernoff_bound "
    "relu_steep_bound relu_thomson_bound rug_edgeworth_correction sae_absorbing_slope sae_hedging "
    "sae_hedging_quartic sae_tilt_slope special_ramp_moment unequal_tail_loss unequal_weak_interference_loss",
    1e-11: "unequal_chord_loss",
    1e-10: "decoders_line_loss decoders_posterior loss_class_gradient",
}
TIES = {
    name.replace("_", ".derive_", 1): (globals()[name], bar)
    for bar, names in BARS.items()
    for name in names.split()
}


def _calls(keys: Any) -> list[Any]:
    calls = [(key, args) for key in keys for args in CALLS.get(key, [()])]
    return [pytest.param(key, args, id="-".join((key, *map(str, args)))) for key, args in calls]


@pytest.mark.parametrize(("key", "args"), _calls(TIES))
def test_closed_forms_agree_with_their_derivation_at_50_digits(key, args):
    tie, bar = TIES[key]
    derivation = FUNCTIONS[key](*args)
    draw = np.random.default_rng(sum(key.encode()))
    for values, found in filter(None, (tie(draw, *args) for _ in range(8))):
        want = derivation.evaluate(values, digits=50)
        wanted = list(want) if isinstance(want, mp.matrix) else [want]
        given = list(found) if isinstance(found, list | np.ndarray) else [found]
        for have, exact in zip(given, wanted, strict=True):
            if have is not None:
                assert abs(mp.mpf(have) - exact) <= bar * abs(exact), (values, have, exact)


def test_every_derivation_is_tied_or_stands_in_a_test_of_its_room():
    tests = Path(__file__).parents[1]
    for key in FUNCTIONS.keys() - TIES.keys():
        room, name = key.split(".")
        texts = (path.read_text(encoding="utf-8") for path in tests.rglob(f"test_{room}*.py"))
        said = f"{name} needs an entry of BARS, or a test in a file that is called test_{room}….py"
        assert any(re.search(rf"\b{name}\b", text) for text in texts), said


def test_every_derivation_is_one():
    for key in FUNCTIONS:
        for args in CALLS.get(key, [()]):
            assert isinstance(FUNCTIONS[key](*args), Derivation), key

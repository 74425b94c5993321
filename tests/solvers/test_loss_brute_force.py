"""Every method's error beside brute force over all patterns, where features differ or tie."""

from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from mpmath import mp, mpf

from superposition.solvers.loss import row_loss
from superposition.solvers.loss.dispatch import METHODS
from superposition.solvers.loss.exact import evaluate
from superposition.solvers.loss.problem import Accuracy, Law, LossProblem
from superposition.theory.features import Features

from .loss_oracle import BOUNDED, CLOSED, RAYS, brute_force

WORK = 2.0**20  # terms of each sum: errors are to say what is missing

# --- Cases -------------------------------------------------------------------------------------------------


def chances(rng, n):
    """Draw probabilities: at both ends, in the middle, alike or not."""
    rare, often, rarest = 10.0 ** rng.uniform([-8, -8, -120], 0)
    kinds = [1.0, 0.5, rare, 1.0 - often, rarest]
    if rng.random() < 0.4:
        return np.full(n, rng.choice(kinds))
    return np.array([rng.choice([*kinds, 10.0 ** rng.uniform(-3, 0)]) for _ in range(n)])


def case(rng, rays):
    """Draw a law, a row with ties, zeros or weights over twelve decades, its feature and a bias."""
    costly = rng.random() < rays
    values = str(rng.choice(RAYS if costly else (*BOUNDED, *CLOSED)))
    if values == "rectified-normal" and rng.random() < 0.5:
        values = f"rectified-normal({rng.choice([-2, -0.5, 0, 3])})"
    n = int(rng.integers(1, 4 if costly else 6))
    p, given, classes = chances(rng, n), {}, None
    if costly:  # 32 digits of all inputs together
        p = np.maximum(p, 1e-12)
    alike = rng.random() < 0.3
    scale = np.ones(n) if alike or rng.random() < 0.4 else 10.0 ** rng.uniform(-2, 2, n)
    kind = rng.integers(5)
    if alike:
        p = np.full(n, p[0])
        classes = int(rng.integers(0, n + 1)) if values == "uniform" and kind < 3 else None
    elif kind == 1 and n > 1:
        members = rng.permutation(n)[: int(rng.integers(2, n + 1))]
        table = np.unique(rng.integers(0, 2, (3, members.size)), axis=0)
        given["groups"] = [(members, table, np.full(len(table), 1 / len(table)))]
    elif kind == 2 and n > 1:
        given["exactly"] = int(rng.integers(1, n))
        p = np.clip(p, 1e-30, 0.9)
    law = Features(n, p, values, scale, **given)
    row = rng.standard_normal(n)
    kind = rng.integers(6)
    if kind == 0:
        row[:] = 0.0
    elif kind == 1:
        row *= 10.0 ** rng.uniform(-17, 0, n)
    elif kind == 2:
        row = rng.choice([-1, -0.5, 0, 0.25, 0.5, 1], n).astype(float) / scale
    elif kind == 3:
        row *= 10.0 ** rng.uniform(-3, 1)
    i = int(rng.integers(n))
    if kind and rng.random() < 0.4:
        row[i] = 1 - rng.choice([0.0, 10.0 ** rng.uniform(-12, 0)])
    g = row * scale
    # Hardly above 0 at its largest: what is left of b and of weights that cancel.
    top = -np.maximum(g[rng.random(n) < 0.6], 0.0).sum() * (1.0 - 10.0 ** rng.uniform(-9, -0.5))
    b = rng.choice(
        [0, 0.3 * rng.standard_normal(), -g.sum(), -g[i], g[0] / 2, -(10.0 ** rng.uniform(-12, 0)), top]
    )
    return law, row, i, float(b), classes


def assert_honest(rng, seen, rays=0.0):
    """Compare each method that covers a case with brute force; `seen` counts, and keeps the worst ratios."""
    law, row, i, b, classes = case(rng, rays)
    n, tol = law.n_features, 10.0 ** rng.uniform(-13, -2)
    M, bias = np.zeros((n, n)), np.zeros(n)
    M[i], bias[i] = row, b
    exact = brute_force(law, row, i, b, classes)
    for method in ("auto", *METHODS):
        rows = None if classes is not None else [i]  # classes want all outputs
        try:
            problem = LossProblem.of(M, bias, Law(law, classes), rows)
            found = evaluate(problem, Accuracy(tol, method=method, budget=WORK))
        except ValueError as error:  # not covered, or fewer than two digits left, which is refused
            kind = "refused" if "tell apart" in str(error) else "not covered"
            seen[method, kind] += 1
            continue
        at = i if classes is not None else 0
        loss, bound = float(found.per_feature[at]), float(found.per_feature_error[at])
        error = abs(type(exact)(loss) - exact)
        told = (method, found.method, law, row.tolist(), i, b, classes, tol, loss, float(error), bound)
        assert error <= bound or loss < 1e-290, told
        seen[found.method, str(law.values).partition("(")[0]] += 1
        ratio = float(error / bound) if bound else 0.0
        seen["worst", found.method] = max(seen["worst", found.method], ratio)


def test_error_estimates_are_never_below_the_error():
    seen = Counter()
    for k in range(120):
        assert_honest(np.random.default_rng([5, k]), seen)


@pytest.mark.parametrize("together", [False, True])
def test_sums_whose_images_are_rare_keep_a_period(together):
    """One of 15 disturbing features raises the output, to 1/2, the others push it below 0."""
    for p in (1e-9, 1e-7, 1e-5, 1e-3):
        group = [([2, 3], [[0, 0], [1, 1]], [1 - p, p])] if together else []
        found = row_loss(np.r_[0.0, 0.5, -np.ones(14)], 0, 0.0, Features(16, p, "binary", groups=group))
        chance = Fraction(p)
        alone = chance * (1 - chance) ** (13 if together else 14)
        exact = chance + alone / 4 - chance * alone
        assert abs(Fraction(found.loss) - exact) <= Fraction(found.error_estimate) < exact


@pytest.mark.parametrize("ratio", [10.0, 20.0, 30.0])
def test_values_whose_mean_is_large_beside_their_spread_are_normal(ratio):
    """Beyond ten deviations the cut at 0 moves the loss by less than rounding."""
    row, b, p, s = [mpf("0.75"), mpf("-1.25")], mpf("0.125"), (0.3, 0.6), 1 / mpf(ratio)
    with mp.workdps(40):
        exact = mpf(0)
        for on in product((0, 1), repeat=2):
            chance = mp.fprod(mpf(q) if there else 1 - mpf(q) for there, q in zip(on, p, strict=True))
            weights = [w * s for w, there in zip(row, on, strict=True) if there]
            mean, sd = b + ratio * sum(weights), mp.sqrt(sum(w * w for w in weights))
            above = mp.ncdf(mean / sd) if sd else mpf(mean > 0)
            bell = sd * mp.npdf(mean / sd) if sd else mpf(0)
            square = (mean * mean + sd * sd) * above + mean * bell
            times = mean * above + bell + s * s * row[0] * above  # of ReLU and 1 + s N, by parts
            exact += chance * (square + on[0] * (1 + s * s - 2 * times))
    law = Features(2, p, f"rectified-normal({ratio:g})", 1 / ratio)
    found = row_loss([float(w) for w in row], 0, float(b), law)
    # The scale is 1/ratio in double precision.
    assert abs(found.loss - exact) <= found.error_estimate + 4e-16


@pytest.mark.slow
def test_error_estimates_are_never_below_the_error_in_many_cases(random_seed):
    """A hundred more than the 5,000 are integrals along rays, which take a second each."""
    seen = Counter()
    for k in range(5100):
        assert_honest(np.random.default_rng([random_seed, k]), seen, rays=float(k >= 5000))
    for name in METHODS:
        assert any(one == name and kind in (*BOUNDED, *CLOSED, *RAYS) for one, kind in seen), name

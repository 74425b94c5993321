"""Elementwise decoders against 40-digit integrals, brute force over samples of n outputs, and each other."""

from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest
from mpmath import mpf
from scipy import integrate, special, stats

from superposition.theory import decoders, rug
from superposition.theory.decoders import line
from superposition.theory.decoders.channel import output_nodes
from superposition.theory.decoders.line import line_losses
from superposition.theory.features import VALUES
from superposition.theory.features.values import law_named


def density(values, y, s):
    """Return f_1(y) and its derivative in closed form."""

    def step(x):
        return mp.ncdf(x / s), mp.npdf(x / s) / s

    if values == "binary":
        f = mp.npdf((y - 1) / s) / s
        return f, -(y - 1) / s**2 * f
    if values in ("uniform", "symmetric"):
        low = 0 if values == "uniform" else -1
        (a, da), (b, db) = step(y - low), step(y - 1)
        if y > 0.5:  # the two parts that are left out would be 1
            a, b = mp.ncdf((1 - y) / s), mp.ncdf((low - y) / s)
        return (a - b) / (1 - low), (da - db) / (1 - low)
    if values == "exponential":
        share, slope = step(y - s * s)
        f = mp.exp(s * s / 2 - y) * share
        return f, -f + mp.exp(s * s / 2 - y) * slope
    total = 1 + s * s
    if values == "rectified-normal":  # the value 0, and a normal one around 1 that is cut off
        width = s / mp.sqrt(total)
        at = (y + s * s) / total / width
        f = mp.npdf((y - 1) / mp.sqrt(total)) / mp.sqrt(total)
        on, share, slope = f * mp.ncdf(at), mp.ncdf(at), mp.npdf(at) / total / width
        off = mp.ncdf(-1) * mp.npdf(y / s) / s
        return on + off, -(y - 1) / total * f * share + f * slope - y / s**2 * off
    f = mp.exp(-y * y / (2 * total)) / mp.sqrt(2 * mp.pi * total)
    if values == "normal":
        return f, -y / total * f
    width = mp.sqrt(total)
    share, slope = step(y / width)
    return 2 * f * share, -y / total * 2 * f * share + 2 * f * slope / width


def ends(values, s):
    low, high = {
        "normal": (-16, 16), "half-normal": (0, 16), "exponential": (0, 100), "symmetric": (-1, 1),
        "rectified-normal": (0, 17),
    }.get(values, (0, 1))  # fmt: skip
    places = {low - 16 * s, high + 16 * s}
    places |= {x + k * s for x in (low, 0, high) for k in range(-14, 30)}
    places |= {mpf(low) + (high - low) * mpf(k) / 16 for k in range(17)}
    if values == "binary":
        places |= {mpf(1) / 2 + k * s * s * 4 for k in range(-20, 21)}
    return sorted(x for x in places if low - 16 * s <= x <= high + 16 * s)


def bayes(values, p, s):
    """E x^2 - E (E[x | y])^2 with Tweedie's formula: E[v | y] f_1 = y f_1 + s^2 f_1'."""
    with mp.workdps(40):
        p, s = mpf(p), mpf(s)

        def square(y):
            f, slope = density(values, y, s)
            return (p * (y * f + s * s * slope)) ** 2 / ((1 - p) * mp.npdf(y / s) / s + p * f)

        second = {"uniform": mpf(1) / 3, "symmetric": mpf(1) / 3, "exponential": mpf(2)}.get(values, mpf(1))
        if values == "rectified-normal":
            second = 2 * mp.ncdf(1) + mp.npdf(1)
        return p * second - mp.quad(square, ends(values, s), method="gauss-legendre", maxdegree=4)


def drawn(seed, number):
    rng = np.random.default_rng(seed)
    corners = [(1e-10, 1e-6), (0.05, 0.061), (1e-10, 10.0), (1.0, 1e-6), (1.0, 10.0), (0.05, 0.059)]
    return corners + [(10 ** rng.uniform(-10, 0), 10 ** rng.uniform(-6, 1)) for _ in range(number)]


def laws(few, many):
    """Parametrise by laws of values: on an interval, without bounds or signs, and in the slow suite all."""
    slow = [pytest.param(values, many, marks=pytest.mark.slow) for values in VALUES]
    return pytest.mark.parametrize(("values", "points"), [("uniform", few), ("normal", few), *slow])


@laws(1, 12)
def test_the_least_loss_against_forty_digits(values, points):
    for p, s in drawn(3, 6)[:points]:
        if values == "binary" and s < 0.05:
            continue  # the difference of the oracle has no digits left; see the next test
        true = bayes(values, p, s)
        found = decoders.bayes_loss(p, s, values=values)
        assert abs(found - true) <= 1e-10 * true + 1e-36, (p, s)


@pytest.mark.parametrize("p", [0.3, 1e-8])
def test_the_least_loss_of_binary_values_under_little_noise(p):
    """It is the mean of P(on | y) P(off | y), which is large only where both are: within some sigma^2."""
    for s in (0.015, 0.04):
        with mp.workdps(40):
            P, S = mpf(p), mpf(s)
            even = mpf("0.5") + S * S * mp.log((1 - P) / P)
            odds = [S * S * k for k in range(-160, 161, 8)]

            def both(y, P=P, S=S):
                on, off = P * mp.npdf((y - 1) / S) / S, (1 - P) * mp.npdf(y / S) / S
                return on * off / (on + off)

            unit = both(even)  # the rule stops at an absolute error
            true = unit * mp.quad(lambda x, e=even, u=unit, f=both: f(e + x) / u, odds)
            assert abs(decoders.bayes_loss(p, s, values="binary") - true) <= 1e-12 * true, s


@pytest.mark.parametrize("values", [*VALUES, "uniform(0.5)", "rectified-normal(-2)"])
@pytest.mark.parametrize("s", [0.03, 1.0, 7.0])
def test_nodes_have_the_moments_of_outputs_and_of_values_given_them(values, s):
    law, p = law_named("values", values), 0.2
    y, off, on, mean, variance, share_off = output_nodes(law, s, p)
    first, second = law.moment(1), law.moment(2)
    assert (off.sum(), on.sum()) == pytest.approx((1 - p, p), rel=1e-12)
    assert (off + on) @ y == pytest.approx(p * first, abs=1e-11 * s)
    assert (off + on) @ y**2 == pytest.approx(p * second + s * s, rel=1e-11)
    assert (on @ mean, on @ (variance + mean**2)) == pytest.approx(
        (p * first, p * second), rel=1e-10, abs=1e-12
    )
    assert share_off @ (off + on) == pytest.approx(1 - p, rel=1e-10)


def test_values_may_be_away_from_0():
    """With all outputs kept the error of y is sigma Z; a threshold may be among features that are off."""
    for values in ("uniform(0.5)", "uniform(0.9)"):
        for a, b in ((1.0, 0.0), (0.8, 0.1)):
            law, p, s = law_named("values", values), 0.1, 0.03
            away = law.moment(2) * (1 - a) ** 2 - 2 * (1 - a) * b * law.moment(1) + b * b
            want = a * a * s * s + (1 - p) * b * b + p * away
            assert decoders.topk_loss(8, 8, a, b, s, p, values=values) == pytest.approx(want, rel=1e-10)
        theta = line.threshold(law, 0.5, s, p)
        assert theta == pytest.approx(-s * special.ndtri((0.5 - p) / (1 - p)), rel=1e-9)
        halves = decoders.topk_loss(512, 1024, 1.0, 0.0, s, p, values=values)
        assert halves == pytest.approx(decoders.jumprelu_loss(theta, 1.0, 0.0, s, p, values=values), rel=1e-2)


@pytest.mark.parametrize("share", [1e-200, 1e-30, 1e-3, 0.3, 0.999])
def test_a_share_of_outputs_is_above_its_threshold(share):
    p, s = 0.1, 0.3
    theta = line.threshold(law_named("values", "binary"), share, s, p)
    with mp.workdps(40):
        above = (1 - mpf(p)) * mp.ncdf(-mpf(theta) / s) + p * mp.ncdf((1 - mpf(theta)) / s)
        assert float(above) == pytest.approx(share, rel=1e-9, abs=0)


def conditional(theta, a, b, s, v):
    """E (v - D(v + s Z))^2 by the definition."""

    def lost(z):
        y = v + s * z
        return (v - (a * y + b if y > theta else 0)) ** 2 * mp.npdf(z)

    edge = (theta - v) / s
    reach = max(mpf(18), min(abs(edge), mpf(60)) + 4)  # beyond 60 all is below 1e-780
    places = sorted(
        {-reach, reach, -18, -4, 4, 18, *(x for x in (edge, edge - 1, edge + 1) if abs(x) < reach)}
    )
    # the rule stops at an absolute error: where all is lost beyond a far threshold it needs the tail's unit
    unit = mp.exp(-(edge**2) / 2) if v == 0 and 0 < edge < 60 else mpf(1)
    return unit * mp.quad(lambda z: lost(z) / unit, places, method="gauss-legendre", maxdegree=4)


@laws(0, 8)
def test_thresholds_against_the_definition(values, points):
    """At fixed values of the feature, where only the noise is integrated, by a law that is always on."""
    rng, law = np.random.default_rng(7), law_named("values", values)
    for p, s in drawn(11, points):
        a, gap = 10 ** rng.uniform(-0.5, 0.5), rng.uniform(0, 1)
        theta = rng.choice([s * rng.uniform(-3, 9), rng.uniform(0, 0.9)])
        b = gap * theta - a * theta if theta > 0 else 0.0
        v, weights = law.nodes(theta, s)
        keep = weights > 1e-18 * weights.max()
        picked = np.flatnonzero(keep)[:: max(1, keep.sum() // 6)]
        with mp.workdps(25):
            at = [mpf(x) for x in (theta, a, b, s)]
            off = (1 - mpf(p)) * conditional(*at, mpf(0))
            on = sum(mpf(float(weights[k])) * conditional(*at, mpf(float(v[k]))) for k in picked)
        own_off, own = line_losses(law, theta, a, 1 - a, b, s, p)
        whole = decoders.jumprelu_loss(theta, a, b, s, p, values=values)
        assert own + own_off == pytest.approx(whole, rel=1e-15, abs=0)
        assert abs(own_off - off) <= 1e-10 * off + 1e-300
        assert abs(weights[picked] @ line.line_errors(v[picked], theta, a, 1 - a, b, s) - on) <= 1e-10 * on


def test_the_rule_over_values_integrates_them():
    smooth = {"uniform": stats.uniform(), "symmetric": stats.uniform(-1, 2), "normal": stats.norm()}
    smooth |= {"half-normal": stats.halfnorm(), "exponential": stats.expon()}
    for values in VALUES:
        own, law = law_named("values", values), smooth.get(values)
        for theta, s in ((0.3, 1e-6), (-2.0, 0.1), (0.9, 10.0), (40.0, 1.0)):
            v, weights = own.nodes(theta, s)
            for k in range(5):
                assert weights @ v**k == pytest.approx(own.moment(k), rel=1e-12, abs=1e-13)
            # a step of the noise's width: E P(Z < (v - theta)/s), by SciPy
            if law and abs(theta) < 1:
                low, high = np.clip(law.support(), -38.0, 60.0)
                ends = np.unique(np.clip([low, theta - 9 * s, theta, theta + 9 * s, high], low, high))

                def above(x, law=law, theta=theta, s=s):
                    return law.pdf(x) * special.ndtr((x - theta) / s)

                true = sum(integrate.quad(above, *pair, epsabs=1e-14)[0] for pair in pairwise(ends))
                assert weights @ special.ndtr((v - theta) / s) == pytest.approx(true, rel=1e-9)


def test_a_relu_is_that_of_the_rug():
    for p, s in drawn(5, 20):
        a = 10 ** np.random.default_rng(int(1e6 * s)).uniform(-0.3, 0.3)
        b = -1.5 * a * s
        found = decoders.jumprelu_loss(-b / a, a, b, s, p)
        assert found == pytest.approx(rug.loss(a, b, s, p), rel=1e-10, abs=0)


def test_no_decoder_is_below_that_of_bayes():
    """The integral over y of E (x - D)^2 is least for the posterior mean, and equal to its loss there."""
    rng = np.random.default_rng(2)
    for values in VALUES:
        for p, s in [(1e-3, 0.05), (0.1, 0.3), (0.9, 1.0)]:
            y, off, on, mean, variance, silent = output_nodes(law_named("values", values), s, p)
            assert [off.sum(), on.sum()] == pytest.approx(
                [1 - p, p], rel=1e-10, abs=0
            )  # no part of the law is cut
            best, least = (1 - silent) * mean, decoders.bayes_loss(p, s, values=values)
            for D in (best, best * (1 + 0.01 * rng.normal()), best + 0.01 * rng.normal()):
                loss = off @ D**2 + on @ (variance + (mean - D) ** 2)
                assert loss >= least * (1 - 1e-12)
            assert off @ best**2 + on @ (variance + (mean - best) ** 2) == pytest.approx(
                least, rel=1e-9, abs=0
            )
            inside = np.flatnonzero(silent < 1 - 1e-5)[::50]
            found = decoders.bayes_decoder(y[inside], p, s, values=values)
            np.testing.assert_allclose(found, best[inside], rtol=1e-10)


def test_topk_against_samples():
    """A false alarm in 1e-3 for each case, two-sided."""
    a, b, s = 1.1, -0.05, 0.15
    for k, n, p in [(1, 8, 0.1), (4, 64, 0.05), (5, 5, 0.5), (20, 32, 0.3)]:
        rng, losses = np.random.default_rng(n), []
        for _ in range(100):
            x = (rng.random((2000, n)) < p) * rng.random((2000, n))
            y = x + s * rng.normal(size=x.shape)
            kept = y >= np.sort(y, axis=1)[:, [n - k]]
            losses.append(np.mean((x - np.where(kept, a * y + b, 0)) ** 2))
        assert stats.ttest_1samp(losses, decoders.topk_loss(k, n, a, b, s, p)).pvalue > 1e-3, k


@pytest.mark.slow
def test_topk_of_many_is_a_threshold():
    for theta, p, s in [(0.3, 0.05, 0.1), (0.05, 0.2, 0.3), (0.5, 1e-3, 0.1)]:
        n = 2**50
        k = round(n * decoders.active_fraction(theta, p, s))
        jump = decoders.jumprelu_loss(theta, 1.1, -0.02, s, p)
        assert decoders.topk_loss(k, n, 1.1, -0.02, s, p) == pytest.approx(jump, rel=1e-6)

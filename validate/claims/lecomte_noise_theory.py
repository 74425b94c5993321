"""Lecomte et al. (2024), L21-L30, L32, L33: one step of descent under hidden noise, and the loss after it."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ...theory import noise
from ...theory.arguments import FloatArray
from ...theory.derivation import sp
from ..statistics import Family, mean
from .ledger import Evidence, Finding, allowed, between, claim, evidence, says, symbolic

SOURCE = "lecomte2024"
SEED = 2024
SAMPLED = Family(alarm=1e-4, limits=4)  # two kinds of noise, two sides


def _symbols() -> tuple[Any, ...]:
    found: tuple[Any, ...] = sp.symbols("eta u R m p2 p4 mu2 mu4")
    return found


def _unit(expression: Any) -> Any:
    """Put |W| = 1, as the source does."""
    return expression.subs(_symbols()[4], 1)


def next_step_error() -> Any:
    """Return E (|W'|^2 - 1)^2 at |W| = 1."""
    return _unit(noise.expectation((noise.derive_squared_norm().expression - 1) ** 2)).expand()


def _sampled(
    text: str, quick: bool, statistic: Callable[[FloatArray, FloatArray, str], tuple[FloatArray, float]]
) -> list[Finding]:
    """Return the findings that samples do not refute a mean, under two kinds of noise.

    `statistic` maps a unit encoding, noise of unit variance on its neurons, and the noise's name, to samples
    and to the mean that they should have.
    """
    w = np.array([0.7, -0.5, 0.4, 0.3, 0.1])
    w /= np.linalg.norm(w)
    shape = (200_000 if quick else 5_000_000, w.size)
    found = []
    for name in ("bipolar", "laplace"):
        rng = np.random.default_rng([SEED, len(name)])
        draws = rng.choice([-1.0, 1.0], shape) if name == "bipolar" else rng.laplace(0.0, 0.5**0.5, shape)
        samples, expected = statistic(w, draws, name)
        told = f"{text}, {name} noise, {shape[0]} draws, relative gap to theory"
        found += between(allowed, "corrected", told, SAMPLED.of(mean, samples / expected - 1), 0.0, 0.0)
    return found


@claim("L21", SOURCE, "3.2, C.1")
def l21(quick: bool) -> Evidence:
    """gradient on input e_i with learned, interference-free encodings: 2(W_i.xi)(2W_i+xi), all other
    gradients 0
    """
    n, m = (3, 3) if quick else (4, 5)
    W, xi = (sp.Matrix(1, m, lambda _, j, s=s: sp.Symbol(f"{s}{j}", real=True)) for s in ("W_0", "xi_"))
    printed = sp.zeros(n, m)
    printed[0, :] = 2 * W.dot(xi) * (2 * W + xi)  # on input e_1
    # A rational unit vector: the projection of a point of a plane on the sphere.
    plane = sp.symbols(f"t1:{m}", real=True)
    height = sum(t**2 for t in plane)
    unit = [(1 - height) / (1 + height), *(2 * t / (1 + height) for t in plane)]
    off = (noise.derive_gradient(n, m).expression - printed).subs(dict(zip(W, unit, strict=True)))
    silent = float(noise.silent_l1_norm(8, "bipolar", 0.1))
    return evidence(
        f"Differentiated for {n} features and {m} neurons with a symbol for each ReLU. It needs |W_i| = 1, "
        "the own ReLU on (W_i.xi > -1) and all others off. The last is the source's assumption 2, and a "
        "strong one: noise of size at most c is silent only if the mean of |W_i|_1 is at most "
        "|W|^2/((n-1)c): random encodings are not in such a state, and at n = 8 from a bipolar noise of 1/7 "
        "on none is. In the chain rule of C.1 the Jacobian of h is I_m, not I_n.",
        symbolic("printed", "gradient on the unit sphere less the printed one", off.applyfunc(sp.simplify)),
        numbers={"largest mean |W_i|_1 of a silent state, n = 8, bipolar noise of 0.1": silent},
    )


@claim("L22", SOURCE, "C.2")
def l22(quick: bool) -> Evidence:
    """expected next-step loss splits into E[(|W'|^2-1)^2] + sigma^2 E|W'|^2"""
    *_, mu2, _ = _symbols()
    error = noise.expectation((noise.derive_squared_norm().expression - 1) ** 2)
    whole, square = noise.derive_next_step_loss().expression, noise.derive_next_step_square().expression
    return evidence(
        "The new noise is independent of the step, of mean 0 and variance sigma^2 on each neuron. Exact for "
        "any number of neurons, length of W and learning rate, while the ReLU is on.",
        symbolic("printed", "whole loss less the two parts", (whole - error - mu2 * square).expand()),
    )


@claim("L23", SOURCE, "C.2")
def l23(quick: bool) -> Evidence:
    """|W'|^2 = 1 - 4 eta (W.xi)(2+(W.xi)) + 4 eta^2 (W.xi)^2 (4+4(W.xi)+|xi|^2)"""
    eta, u, R, *_ = _symbols()
    printed = 1 - 4 * eta * u * (2 + u) + 4 * eta**2 * u**2 * (4 + 4 * u + R)
    residual = _unit(noise.derive_squared_norm().expression) - printed
    return evidence(
        "At |W| = 1. (The loss averaged over the noise is stationary at |W|^2 = 1 - sigma^2/2.)",
        symbolic("printed", "squared length less the printed one", residual),
    )


@claim("L24", SOURCE, "C.2")
def l24(quick: bool) -> Evidence:
    """E|W'|^2 = 1 - 4 eta(1-4 eta) E(W.xi)^2 + 4 eta^2 E[(W.xi)^2 |xi|^2]"""
    eta = _symbols()[0]
    second, mixed = (_unit(noise.derive_moment(2, k).expression) for k in (0, 1))
    printed = 1 - 4 * eta * (1 - 4 * eta) * second + 4 * eta**2 * mixed
    residual = _unit(noise.derive_next_step_square().expression) - printed
    return evidence(
        "Odd moments vanish by symmetry.",
        symbolic("printed", "mean squared length less the printed one", residual),
    )


@claim("L25", SOURCE, "C.2")
def l25(quick: bool) -> Evidence:
    """E[(W.xi)^2 |xi|^2] = |W|^2 (mu4 + (m-1) sigma^4)"""
    eta, _, _, m, p2, p4, mu2, mu4 = _symbols()
    moment = noise.derive_moment(2, 1).expression - p2 * (mu4 + (m - 1) * mu2**2)
    part = _unit(mu2 * noise.derive_next_step_square().expression)
    right = mu2 * (1 - 4 * eta * (1 - 4 * eta) * mu2 + 4 * eta**2 * (mu4 + (m - 1) * mu2**2))
    return evidence(
        "The part of the loss with new noise follows; it is constant on the unit sphere, as printed.",
        symbolic("printed", "moment less the printed one", moment),
        symbolic("printed", "what the part with new noise knows of |W|_4", part.diff(p4)),
        says(
            "the display after it, sigma^2 (1 - 4 eta(1 - 4 eta) sigma^2 +- 4 eta^2 (mu4 + (m-1) sigma^4)), "
            "needs + for +-",
            symbolic("corrected", "part with new noise, + for +-, less the derivation", part - right),
        ),
    )


@claim("L26", SOURCE, "C.2")
def l26(quick: bool) -> Evidence:
    """|W'|^2 - 1 = -4 eta (2(W.xi) + eta (W.xi)^2) ± O(eta^2)"""
    eta, u, *_ = _symbols()
    error = _unit(noise.derive_squared_norm().expression) - 1
    printed, right = (error + 4 * eta * (2 * u + factor * u**2) for factor in (eta, 1))
    return evidence(
        "The coefficient of eta. With the print's factor eta the square is of the order that is dropped, and "
        "the fourth moment never enters L27.",
        symbolic("printed", "coefficient of eta of what is left", printed.expand().coeff(eta, 1)),
        says(
            "|W'|^2 - 1 = -4 eta (2(W.xi) + (W.xi)^2) + O(eta^2): no eta before the square, or L27 would not "
            "follow",
            symbolic("corrected", "coefficient of eta of what is left", right.expand().coeff(eta, 1)),
            symbolic("corrected", "value at eta = 0", error.subs(eta, 0)),
        ),
    )


@claim("L27", SOURCE, "C.2")
def l27(quick: bool) -> Evidence:
    """E[(|W'|^2-1)^2] = 16 eta^2 (4 sigma^2 + E(W.xi)^4) ± O(eta^3)"""
    eta, _, _, _, _, _, mu2, _ = _symbols()
    error = next_step_error()
    fourth, mixed = (_unit(noise.derive_moment(4, k).expression) for k in (0, 1))
    second = error.coeff(eta, 2) - 16 * (4 * mu2 + fourth)
    third = error.coeff(eta, 3) + 32 * (12 * fourth + mixed)
    rate, std = 0.05, 0.4

    def step(w: FloatArray, draws: FloatArray, name: str) -> tuple[FloatArray, float]:
        xi = std * draws
        square = np.sum((w - 2 * rate * (xi @ w)[:, None] * (2 * w + xi)) ** 2, axis=1)
        return (square - 1) ** 2 + std**2 * square, noise.next_step_loss(w, name, std, rate)

    return evidence(
        "At |W| = 1, by L26 as corrected. The polynomial in eta ends at eta^4; all its coefficients are "
        f"derived, and the loss after a step, which has it, is sampled at sigma = {std}, eta = {rate}.",
        *(symbolic("printed", f"coefficient of eta^{k}", error.coeff(eta, k)) for k in (0, 1)),
        symbolic("printed", "eta^2, less 16(4 sigma^2 + E(W.xi)^4)", second),
        says(
            "the term of eta^3 is -32 eta^3 (12 E(W.xi)^4 + E(W.xi)^4|xi|^2)",
            symbolic("corrected", "eta^3, plus 32(12 E(W.xi)^4 + E(W.xi)^4|xi|^2)", third),
            *_sampled("loss after a step, all orders", quick, step),
        ),
    )


@claim("L28", SOURCE, "C.2")
def l28(quick: bool) -> Evidence:
    """E(W.xi)^4 = sum_j W_j^4 mu4 + 6 sum_{j!=j'} W_j^2 W_{j'}^2 sigma^4"""
    *_, p2, p4, mu2, mu4 = _symbols()
    rest = noise.derive_moment(4).expression - mu4 * p4
    printed, right = (rest - factor * mu2**2 * (p2**2 - p4) for factor in (6, 3))

    def fourth(w: FloatArray, draws: FloatArray, name: str) -> tuple[FloatArray, float]:
        return (draws @ w) ** 4, float(noise.fourth_moment(w, 1.0, noise.noise_moments(name)[1]))

    return evidence(
        "The print's next line, 3 (sigma^2 |W|^2)^2 + (mu4 - 3 sigma^4) |W|_4^4, has the right factor: L29.",
        symbolic("printed", "moment less the formula with 6", printed),
        says(
            "E(W.xi)^4 = sum_j W_j^4 mu4 + 3 sum_{j!=j'} W_j^2 W_{j'}^2 sigma^4, as the sum over j != j' "
            "counts each pair twice (6 is right for j < j')",
            symbolic("corrected", "moment less the formula with 3", right),
            *_sampled("moment", quick, fourth),
        ),
    )


@claim("L29", SOURCE, "C.2")
def l29(quick: bool) -> Evidence:
    """E(W.xi)^4 = 3 sigma^4 |W|_2^4 + |W|_4^4 (mu4 - 3 sigma^4)"""
    *_, p2, p4, mu2, mu4 = _symbols()
    residual = noise.derive_moment(4).expression - 3 * mu2**2 * p2**2 - p4 * (mu4 - 3 * mu2**2)
    return evidence(
        "By the cumulants of W.xi, for any m.", symbolic("printed", "moment less the print", residual)
    )


@claim("L30", SOURCE, "3.2")
def l30(quick: bool) -> Evidence:
    """16 eta^2 E(W.xi)^4 = 3 sigma^4 16 eta^2 (|W|_2^4 + |W|_4^4 (mu4 - 3 sigma^4))"""
    *_, p2, p4, mu2, mu4 = _symbols()
    exact, kurtosis = noise.derive_moment(4).expression, mu4 - 3 * mu2**2
    return evidence(
        "Its terms do not even have the same dimension: sigma^4 against sigma^8. What the source makes of "
        "it, 16 eta^2 sigma^4 |W|_4^4 times the excess kurtosis, follows from the corrected one. It is a "
        "term of the loss after a step, not where encodings go: without interference E|W|_4^4/|W|_2^4 moves "
        "by 8 eta^2 [sigma^4 (3 - (m+2) |W|_4^4) + 2 (mu4 - 3 sigma^4)(|W|_4^4 - 4 |W|_6^6 + 3 |W|_4^8)] a "
        "step, which for random encodings has the sign of the excess kurtosis.",
        symbolic("printed", "moment less the print", exact - 3 * mu2**2 * (p2**2 + p4 * kurtosis)),
        says(
            "16 eta^2 E(W.xi)^4 = 16 eta^2 (3 sigma^4 |W|_2^4 + |W|_4^4 (mu4 - 3 sigma^4)): 3 sigma^4 "
            "belongs to the first term alone",
            symbolic("corrected", "moment less this", exact - 3 * mu2**2 * p2**2 - p4 * kurtosis),
        ),
    )


@claim("L32", SOURCE, "3.2")
def l32(quick: bool) -> Evidence:
    """|W|_4^4 is 1/m for a flat and 1 for a one-hot unit encoding; 3/m for a random unit vector,
    asymptotically
    """
    m = sp.Symbol("m")
    mean = noise.derive_random_fourth_norm().expression
    limit = sp.limit(m * mean, m, sp.oo)
    return evidence(
        f"The mean for a random unit vector is {mean} for every m.",
        symbolic("printed", "flat, less 1/m", m * (1 / sp.sqrt(m)) ** 4 - 1 / m),
        symbolic("printed", "one-hot, less 1", sp.Integer(1) ** 4 - 1),
        symbolic("printed", "random, limit of m times the mean, less 3", limit - 3),
    )


@claim("L33", SOURCE, "3.2")
def l33(quick: bool) -> Evidence:
    """excess kurtosis: bipolar -2, normal 0"""
    x, sigma = sp.symbols("t sigma", positive=True)
    laws = (("bipolar", sp.cosh(sigma * x), -2), ("normal", sp.exp(sigma**2 * x**2 / 2), 0))
    return evidence(
        "From the moment generating functions. Uniform noise has -6/5, Laplace noise 3.",
        *(
            symbolic(
                "printed",
                f"fourth cumulant over sigma^4, {name}, less {printed}",
                sp.diff(sp.log(transform), x, 4).subs(x, 0) / sigma**4 - printed,
            )
            for name, transform, printed in laws
        ),
        numbers={name: noise.excess_kurtosis(name) for name in ("bipolar", "uniform", "normal", "laplace")},
    )

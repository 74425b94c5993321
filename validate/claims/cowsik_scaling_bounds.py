"""Cowsik et al. (2024), C22-C25: the lower bound of the loss, the scaling, and what other decoders gain."""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import integrate
from scipy.special import ndtr

from ...solvers.decoders import optimum as best_decoder
from ...solvers.decoders import state_evolution
from ...solvers.loss import exact_loss
from ...solvers.rug import optimum
from ...theory import decoders, rug
from ...theory.arguments import FloatArray
from ...theory.decoders.chain import WITHIN_ONE, chain_constant, interior_probability
from ...theory.rug.asymptotics import small_law
from .cowsik_scaling import TEN
from .ledger import Evidence, bound, claim, evidence, numeric, says

SOURCE = "cowsik2024"
_INV_SQRT_2PI = 1 / np.sqrt(2 * np.pi)
SAME = 1e-7  # relative: losses of one decoder, found in two ways


def _density(x: npt.ArrayLike) -> FloatArray:
    return np.asarray(_INV_SQRT_2PI * np.exp(-0.5 * np.square(x)))


def posterior_loss(sigma: npt.ArrayLike) -> FloatArray:
    """Return E Var[u | u + nu] / sigma^2 for u uniform on [0, 1] and nu ~ N(0, sigma^2)."""
    found: FloatArray = decoders.bayes_loss(1.0, sigma) / np.square(sigma)
    return found


@claim("C22", SOURCE, "App. D")
def c22(quick: bool) -> Evidence:
    """P(|u - y| <= sigma given y) >= erf(2^-1/2) for y in [sigma, 1 - sigma]"""
    count = 60 if quick else 600
    sigma = np.geomspace(1e-3, 0.5, count)[:, None]
    y = sigma + np.linspace(0, 1, count) * (1 - 2 * sigma)
    mass = ndtr((1 - y) / sigma) - ndtr(-y / sigma)
    probability = WITHIN_ONE / mass
    least, worst = float(probability.min()), 0.0
    for s, place in ((0.5, 0.5), (0.2, 0.3), (0.05, 0.05), (0.25, 0.75)):

        def kernel(u: float, s: float = s, place: float = place) -> float:
            return float(np.exp(-0.5 * ((u - place) / s) ** 2))

        near = integrate.quad(kernel, place - s, place + s)[0]
        direct = near / integrate.quad(kernel, 0, 1, points=[place])[0]
        cut = WITHIN_ONE / (ndtr((1 - place) / s) - ndtr(-place / s))
        worst = max(worst, abs(float(direct / cut) - 1))
    return evidence(
        "u given y is a normal variable cut to [0, 1], and [y - sigma, y + sigma] lies inside, so the "
        "probability is erf(2^-1/2) divided by the mass that is not cut away, which is below 1. It lies "
        f"between {least:.6f} and {probability.max():.4f}; erf(2^-1/2) = {WITHIN_ONE:.6f}.",
        # Deep inside the mass is 1 up to rounding, so equality is met to the last digits.
        bound("printed", "smallest probability less erf(2^-1/2)", least - WITHIN_ONE, ">=", -2e-16),
        bound("printed", "largest mass inside [0, 1]", float(mass.max()), "<=", 1.0),
        # The quadrature's default accuracy is 1.5e-8; it does far better on a smooth integrand.
        numeric("printed", "formula against quadrature of Eq. 26", worst, "<=", 1e-8),
    )


@claim("C23", SOURCE, "Eq. 29-31")
def c23(quick: bool) -> Evidence:
    """L_on >= C' sigma^2 for sigma < 1/4 and any decoder that acts elementwise; C' is not given"""
    chain, sharp = chain_constant(), float(posterior_loss(0.25))
    sigma = np.geomspace(1e-4, 0.25, 200 if quick else 4000)
    posterior = posterior_loss(sigma)
    interior = np.array([interior_probability(float(s)) for s in sigma])
    best = optimum(np.geomspace(1e-6, 1, 30)[:, None], np.geomspace(1e-5, 0.999, 60))
    small = best.sigma < 0.25
    relu = float((rug.on_loss(best.a, best.b, best.sigma) / best.sigma**2)[small].min())

    def weighted(u: float, y: float, power: int) -> float:
        return float(u**power * _density((y - u) / 0.25) / 0.25)

    def variance(y: float) -> float:
        m0, m1, m2 = (integrate.quad(weighted, 0, 1, args=(y, k))[0] for k in range(3))
        return float(m2 - m1 * m1 / m0)

    direct = integrate.quad(variance, -2.0, 3.0, points=[0.0, 1.0], epsrel=1e-9)[0] / 0.25**2
    gap, at_zero, steepest = abs(direct / sharp - 1), abs(posterior[0] - 1), np.diff(posterior).max()
    over = posterior.min() - chain
    return evidence(
        "No elementwise decoder, even one that knows that the feature is on, beats the posterior mean, "
        "whose loss is E Var[u | u + nu]. Divided by sigma^2 this falls from 1 at sigma = 0 to "
        f"{sharp:.6f} at 1/4, so C' = {sharp:.4f} is the largest constant. The source's chain (P(R = 1) >= "
        f"{WITHIN_ONE:.4f}, the variance of a normal variable cut at one standard deviation, P(y inside) "
        f">= {interior.min():.4f}) gives C' = {chain:.4f}.",
        says(
            f"the largest C' is {sharp:.4f}, the value of E Var[u | u + nu]/sigma^2 at sigma = 1/4",
            numeric("order", "posterior loss at sigma = 1/4 against direct quadrature", gap, "<=", 1e-7),
            bound("order", "largest slope of posterior loss / sigma^2 in sigma", steepest, "<", 1e-14),
            bound("order", "ReLU's smallest on-loss / sigma^2 less C'", relu - sharp, ">="),
            numeric("order", "posterior loss / sigma^2 at sigma = 1e-4, less 1", at_zero, "<=", 1e-3),
        ),
        says(
            f"the source's chain of inequalities gives {chain:.4f}",
            bound("order", "smallest posterior loss / sigma^2 less C' of the chain", over, ">"),
            bound("order", "largest slope of P(y inside) in sigma", np.diff(interior).max(), "<", 1e-14),
        ),
        numbers={"smallest on-loss / sigma^2 of a ReLU decoder": relu},
    )


@claim("C24", SOURCE, "4.3.3")
def c24(quick: bool) -> Evidence:
    """L ~ p^2/r up to logarithms when p/r << 1"""
    count = 60 if quick else 400
    p = np.geomspace(1e-12, 0.1, count)[:, None]
    ratio = np.geomspace(1e-9, 0.999, count)
    best = optimum(p, ratio)
    inside = best.sigma < 0.25
    scaled = best.loss * ratio / p**2
    lower = (scaled / (chain_constant() * (1 / 3 - p / 4) * (1 - ratio)))[inside].min()
    upper = (scaled / (0.5 + 2 / 3 * np.log(1 / p)))[inside].max()
    # Two features on one line, M = [[1, -3], [-1/3, 1]]: what they add to each other is not normal.
    uneven = exact_loss([[1.0, -3.0], [-1 / 3, 1.0]], np.zeros(2), 1e-4).loss * 0.5 / 1e-8
    below = uneven / (float(posterior_loss(0.25)) * (1 / 3 - 1e-4 / 4) * 0.5)
    pair = np.array([0.01, 0.02])
    in_ratio = float(np.diff(np.log(optimum(1e-10, pair).loss))[0] / np.diff(np.log(1 / pair - 1))[0])
    in_p = float(-np.diff(np.log(optimum(np.array([1e-22, 1e-23]), 0.5).loss))[0] / TEN)
    laws = [(d * TEN, *small_law(d * TEN)) for d in (40, 160, 640)]
    powers = [growth * log_inverse_p / size for log_inverse_p, _, size, growth in laws]
    return evidence(
        "L >= p L_on >= C' p sigma^2 (C21, C23) and the bound of C20 enclose the optimum for sigma < 1/4: "
        f"over the lower bound it is {lower:.2f} in the least case, over the upper {upper:.3f} in the "
        f"largest. The exponent of (1/r - 1) is {in_ratio:.4f}, that of p is {in_p:.4f} around 1e-22. What "
        "is missing from 2, times log(1/p), is the power of the logarithm: "
        f"{', '.join(f'{v:.3f}' for v in powers)} at p = 1e-40, 1e-160, 1e-640 by the law of C20.",
        says(
            "where the interference is Gaussian and independent of x, as on the rug, C' (1/3 - p/4)(1 - r) "
            "<= L r/p^2 <= 1/2 + (2/3) log(1/p) for sigma < 1/4 (C' of C23)",
            bound("order", "smallest L over its lower bound, sigma < 1/4", lower, ">=", 1.0),
            bound("order", "largest L over its upper bound, sigma < 1/4", upper, "<=", 1.0),
        ),
        says(
            f"other codes go below: uneven pairs at r = 1/2 have {below:.2f} times the lower bound with "
            "the largest C'",
            numeric("order", "loss of uneven pairs at p = 1e-4 over that bound", below, "<", 1.0),
        ),
        says(
            "the logarithm enters to the first power: L = (p^2/3)(1/r - 1)(1 + t^2/4 + ...) with t^2 ~ 2 "
            "log(1/p)",
            # The next term is of relative size t sigma = 4e-3.
            numeric("order", "|exponent of (1/r - 1) - 1| at p = 1e-10", abs(in_ratio - 1), "<=", 0.01),
            # The logarithm takes 1/log(1/p) = 0.02 away.
            numeric("order", "|exponent of p - 2| at p = 1e-22", abs(in_p - 2), "<=", 0.03),
            numeric("order", "|logarithm's power - 1| at p = 1e-640", abs(powers[-1] - 1), "<=", 0.02),
        ),
        numbers={"L r/p^2 at p = 1e-6, r = 0.01": float(optimum(1e-6, 0.01).loss * 0.01 / 1e-12)},
    )


def _gain(p: Any, ratio: float) -> Any:
    """Return ReLU's least loss over that of JumpReLU, on the same noise."""
    best = optimum(p, ratio)
    return best.loss / best_decoder(p, best.sigma).loss


def _limit_factor(log_inverse_p: float) -> float:
    """Return ReLU's loss over that of JumpReLU for sigma -> 0, from below, by one threshold for each p."""
    tau = np.sqrt(2 * log_inverse_p + 4 * np.log(log_inverse_p))
    # P(Z > t) < phi(t)/t
    off = np.exp(-0.5 * tau * tau + log_inverse_p) * (tau + 1 / tau) / np.sqrt(2 * np.pi)
    return float(small_law(log_inverse_p)[1] / (1 + off))


@claim("C25", SOURCE, "Abstract")
def c25(quick: bool) -> Evidence:
    """changing or adding to the activation any elementwise or filtering operation improves the loss at most
    by a constant factor
    """
    ratio = 0.25
    p = np.array([1e-2, 1e-4, 1e-8, 1e-16, 1e-1])
    best = optimum(p, ratio)
    noise = best.sigma
    factor, floor = _gain(p, ratio), p * noise**2 * posterior_loss(noise)
    jump, recovered = best.loss / factor, state_evolution(float(p[0]), ratio).loss
    low, high = np.log(1e-3), np.log(1e-1)  # a jump pays at the lower end, and from some p on it does not
    for _ in range(10):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _gain(np.exp(middle), ratio) > 1 + SAME else (low, middle)
    even = float(np.exp(low))
    far = [_limit_factor(digits * TEN) for digits in (160, 320, 640)]
    rise, rise_far = factor[3] / factor[2] - 1, far[2] / far[1] - 1
    growth = abs((far[2] - far[1]) / (320 * TEN) - 0.5)

    grid = np.geomspace(1e-12, 1, 30 if quick else 200)[:, None]
    all_best = optimum(grid, np.geomspace(1e-9, 0.999, 30 if quick else 200))
    inside = all_best.sigma < 0.25
    allowed = grid * all_best.sigma**2 * (1.5 + 2 * np.log(1 / grid))
    over = float((all_best.loss / allowed)[inside].max())

    tau, sigma = 1.5, 0.2

    def error(y: float, u: float) -> float:
        return float((u - y * (y > tau * sigma)) ** 2 * _density((y - u) / sigma) / sigma)

    direct = sum(
        integrate.dblquad(error, 0, 1, low, high, epsabs=1e-10)[0]
        for low, high in ((-2.0, tau * sigma), (tau * sigma, 3.0))
    )
    gap = abs(direct / decoders.jumprelu_loss(tau * sigma, 1.0, 0.0, sigma, 1.0) - 1)
    return evidence(
        "A threshold tau sigma with tau^2 = 2 log(1/p) + 4 log log(1/p) leaves an off-loss of order p "
        "sigma^2 log(1/p)^(-3/2), and an on-loss of sigma^2 and, for what falls below, of order (tau "
        "sigma)^3. So JumpReLU's loss is p sigma^2 (1 + o(1)) for p -> 0 at a fixed ratio, which is the "
        "floor of every elementwise decoder (C23), while ReLU pays for its shift: 1 + t^2/4 + ... with t^2 "
        f"~ 2 log(1/p) (C18, C20). At ratio {ratio} and p = {', '.join(f'{x:g}' for x in p)} JumpReLU, "
        "with the best scale, bias and threshold, gains the factors "
        f"{', '.join(f'{x:.2f}' for x in factor)}; the floor leaves room for "
        f"{', '.join(f'{x:.2f}' for x in best.loss / floor)}. ReLU is a stationary point of the JumpReLU's "
        "loss, and the best one where features are not rare.",
        numeric("printed", "factor at p = 1e-16 over that at 1e-8, less 1", rise, "<=", 0),
        numeric("printed", "the same at 1e-640 over 1e-320, sigma -> 0, less 1", rise_far, "<=", 0),
        says(
            "by no constant: on the same noise JumpReLU (a y + b above a threshold, else 0) gains a factor "
            f"of about (1/2) log(1/p) for p -> 0: {factor[1]:.0f} at p = 1e-4, {factor[2]:.0f} at 1e-8 (r "
            "= 1/4)",
            # What is missing from 1/2 is (3/2)/t^2 and the vanishing off-loss, with t^2 = 2900.
            numeric("corrected", "|growth of the factor per log(1/p) - 1/2|", growth, "<=", 0.01),
            numeric("corrected", "JumpReLU's on-loss against a double integral", gap, "<=", 1e-6),
        ),
        says(
            f"this holds for rare features: the gain begins below p = {even:.1g}; at {p[4]:g} the best "
            "JumpReLU is a ReLU",
            numeric("corrected", "|factor at p = 0.1, less 1|", abs(factor[4] - 1), "<=", SAME),
            numeric("corrected", "p below which JumpReLU gains, r = 1/4", even, ">", p[0] / 10),
        ),
        says(
            f"a decoder that sees all outputs may lose nothing: message passing at p = {p[0]:g}, r = 1/4",
            numeric("corrected", "what it loses by state evolution", recovered, "<=", 0.0),
        ),
        says(
            f"no elementwise decoder gains more than (3/2 + 2 log(1/p))/{posterior_loss(0.25):.4f} for "
            "sigma < 1/4",
            bound("corrected", "largest optimal loss over p sigma^2 (3/2 + 2 log(1/p))", over, "<=", 1.0),
            bound("corrected", "least JumpReLU's loss over the floor", (jump / floor).min(), ">=", 1.0),
        ),
    )

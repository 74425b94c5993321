"""Cowsik et al. (2024), C25: what an elementwise decoder other than ReLU gains on the same noise."""

import numpy as np
from scipy import integrate, optimize
from scipy.special import ndtr

from ...solvers.rug import optimum
from .cowsik_scaling import small_law
from .cowsik_scaling_bounds import posterior_loss
from .ledger import Claim, Evidence, bound, claim, numeric, says

__all__ = ["DECODERS", "jumprelu_parts", "least_jumprelu"]

SOURCE = "cowsik2024"
TEN = np.log(10)


def _density(x: float) -> float:
    return float(np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi))


def _above(x: float) -> float:
    """Return E Z^2 where Z > x, for a standard normal Z."""
    return x * _density(x) + float(ndtr(-x))


def jumprelu_parts(tau: float, sigma: float) -> tuple[float, float]:
    """Return on- and off-loss of the decoder y where y > tau sigma and else 0, for noise N(0, sigma^2)."""

    def of_value(u: float) -> float:
        x = tau - u / sigma
        return sigma**2 * _above(x) + u * u * float(ndtr(x))

    edges = [v for v in sigma * (tau + np.array([-8.0, -3.0, 0.0, 3.0, 8.0])) if 0 < v < 1]
    on = integrate.quad(of_value, 0, 1, points=edges or None, epsabs=0, epsrel=1e-10, limit=400)[0]
    return float(on), sigma**2 * _above(tau)


def least_jumprelu(p: float, sigma: float) -> float:
    """Return the least loss of that decoder over its threshold."""

    def loss(tau: float) -> float:
        on, off = jumprelu_parts(tau, sigma)
        return p * on + (1 - p) * off

    highest = np.sqrt(2 * np.log(1 / p)) + 4
    return float(optimize.minimize_scalar(loss, bounds=(0.1, highest), method="bounded").fun)


def _limit_factor(log_inverse_p: float) -> float:
    """Return ReLU's loss over that of JumpReLU for sigma -> 0, from below, by one threshold for each p."""
    tau = np.sqrt(2 * log_inverse_p + 4 * np.log(log_inverse_p))
    off = (
        np.exp(-0.5 * tau * tau + log_inverse_p) * (tau + 1 / tau) / np.sqrt(2 * np.pi)
    )  # P(Z > t) < phi(t)/t
    return float(small_law(log_inverse_p)[1] / (1 + off))


@claim(
    "C25",
    SOURCE,
    "Abstract",
    "changing or adding to the activation any elementwise or filtering operation improves the loss at most "
    "by a constant factor",
)
def c25(quick: bool) -> Evidence:
    ratio = 0.25
    p = np.array([1e-2, 1e-4, 1e-8, 1e-16, 1e-1])
    best = optimum(p, ratio)
    jump = np.array([least_jumprelu(float(q), float(s)) for q, s in zip(p, best.sigma, strict=True)])
    floor = p * best.sigma**2 * [posterior_loss(float(s)) for s in best.sigma]
    factor = best.loss / jump

    def gain(log_p: float) -> float:
        at = optimum(np.exp(log_p), ratio)
        return float(at.loss / least_jumprelu(float(np.exp(log_p)), float(at.sigma)) - 1)

    even = float(np.exp(optimize.brentq(gain, np.log(1e-3), np.log(1e-1), xtol=1e-4)))
    far = [_limit_factor(digits * TEN) for digits in (160, 320, 640)]

    grid = np.geomspace(1e-12, 1, 30 if quick else 200)[:, None]
    all_best = optimum(grid, np.geomspace(1e-9, 0.999, 30 if quick else 200))
    inside = all_best.sigma < 0.25
    allowed = grid * all_best.sigma**2 * (1.5 + 2 * np.log(1 / grid))
    over = float((all_best.loss / allowed)[inside].max())

    tau, sigma = 1.5, 0.2

    def error(y: float, u: float) -> float:
        return (u - y * (y > tau * sigma)) ** 2 * _density((y - u) / sigma) / sigma

    direct = sum(
        integrate.dblquad(error, 0, 1, low, high, epsabs=1e-10)[0]
        for low, high in ((-2.0, tau * sigma), (tau * sigma, 3.0))
    )
    gap = abs(direct / jumprelu_parts(tau, sigma)[0] - 1)
    return Evidence(
        "A threshold tau sigma with tau^2 = 2 log(1/p) + 4 log log(1/p) leaves an off-loss of order p "
        "sigma^2 log(1/p)^(-3/2), and an on-loss of sigma^2 and, for what falls below, of order (tau "
        "sigma)^3. "
        "So JumpReLU's loss is p sigma^2 (1 + o(1)) for p -> 0 at a fixed ratio, which is the floor of every "
        "elementwise decoder (C23), while ReLU pays for its shift: 1 + t^2/4 + ... with t^2 ~ 2 log(1/p) "
        f"(C18, C20). At ratio {ratio} and p = {', '.join(f'{x:g}' for x in p)} JumpReLU, its scale left at "
        f"1, gains the factors {', '.join(f'{x:.2f}' for x in factor)}; the floor leaves room for "
        f"{', '.join(f'{x:.2f}' for x in best.loss / floor)}. What filters, which see all outputs, can "
        "gain at most is not bounded here.",
        [
            numeric(
                "printed",
                "factor at p = 1e-16 over that at 1e-8, less 1",
                factor[3] / factor[2] - 1,
                "<=",
                0.0,
            ),
            numeric(
                "printed",
                "the same at 1e-640 over 1e-320, sigma -> 0, less 1",
                far[2] / far[1] - 1,
                "<=",
                0.0,
            ),
        ],
        {f"factor gained at p = {x:g}": float(y) for x, y in zip(p, factor, strict=True)},
        [
            says(
                "by no constant: on the same noise JumpReLU (y above a threshold, else 0) gains a factor of "
                f"about (1/2) log(1/p) for p -> 0: {factor[1]:.0f} at p = 1e-4, {factor[2]:.0f} at 1e-8 "
                "(r = 1/4)",
                # What is missing from 1/2 is (3/2)/t^2 and the vanishing off-loss, with t^2 = 2900.
                numeric(
                    "corrected",
                    "|growth of the factor per log(1/p) - 1/2|, p = 1e-320 to 1e-640",
                    abs((far[2] - far[1]) / (320 * TEN) - 0.5),
                    "<=",
                    0.01,
                ),
                numeric("corrected", "JumpReLU's on-loss against a double integral", gap, "<=", 1e-6),
            ),
            says(
                f"this holds for rare features: the gain begins below p = {even:.1g}, and at {p[4]:g} the "
                f"factor is {factor[4]:.2f}, a loss",
                numeric("corrected", "factor at p = 0.1", factor[4], "<", 1.0),
                numeric("corrected", "p below which JumpReLU gains, r = 1/4", even, ">", p[0] / 10),
            ),
            says(
                f"no elementwise decoder gains more than (3/2 + 2 log(1/p))/{posterior_loss(0.25):.4f} "
                "for sigma < 1/4",
                bound("corrected", "largest optimal loss over p sigma^2 (3/2 + 2 log(1/p))", over, "<=", 1.0),
                bound(
                    "corrected",
                    "least JumpReLU's loss over the floor",
                    float((jump / floor).min()),
                    ">=",
                    1.0,
                ),
            ),
        ],
    )


DECODERS: tuple[Claim, ...] = (c25,)

"""The loss that each decoder can attain at a law of the data and a ratio of neurons to features."""

from typing import Any

import numpy as np

from ...theory import validation
from ...theory.decoders.loss import LARGEST_SIGMA, LEAST_P, LEAST_SIGMA
from ...theory.features import Features, SparseUniform, ValueDistribution
from ...theory.features.values import law_named
from ...theory.results import result
from ...theory.validation import FloatArray
from .evolution import first_noise, recovery_ratio, state_evolution
from .optimum import DECODERS, optimum, topk_optimum

__all__ = ["Attainable", "attainable"]

ACCURACY = 1e-9


@result
class Attainable:
    """Losses that decoders attain; `print` shows a table."""

    decoder: tuple[str, ...]
    """Names of the decoders; 'topk' only if the law has a number of features, 'iterated' message passing."""
    loss: FloatArray
    """Loss per feature of each decoder, times the mean importance."""
    error_estimate: FloatArray
    """Largest numerical error of each loss."""
    sigma: float
    """Standard deviation of the interference in one step, relative to M_ii times the scale of features."""
    recovery_ratio: float
    """Ratio above which iteration recovers the features exactly."""

    def __str__(self) -> str:
        least = self.loss[self.decoder.index("bayes")]
        rows = [
            f"{name:<10}{loss:>12.4g}{loss / least if least else np.nan:>12.4g}"
            for name, loss in zip(self.decoder, self.loss, strict=True)
        ]
        return "\n".join([f"{'decoder':<10}{'loss':>12}{'/ bayes':>12}", *rows])


def _checked_law(law: Any) -> tuple[float, ValueDistribution, float, float, int | None]:
    """Return (p, law of the values, scale, mean importance, number of features) of a law of features.

    The law is a `Features`, or p or a `SparseUniform`: then scale and importance are 1 and the number is
    None. Raise a ValueError unless the features are independent, with one p and one scale.
    """
    if not isinstance(law, Features):
        p = law.p if isinstance(law, SparseUniform) else law
        return float(validation.number("law", p, LEAST_P, 1.0)), law_named("law", "uniform"), 1.0, 1.0, None
    if not law.independent or np.ptp(law.p) > 0.0 or np.ptp(law.scale) > 0.0:
        raise ValueError("`law` must have independent features with one p and one scale; got others.")
    p = float(validation.number("law", law.p[0], LEAST_P, 1.0))
    return p, law.values, float(law.scale[0]), float(law.importance.mean()), law.n_features


def attainable(law: Any, ratio: float) -> Attainable:
    """Return the losses that each decoder attains at the least interference, in the limit of many features.

    Decoders estimate a feature x from its output y = x + interference: those of `optimum` from y alone,
    "iterated" from all outputs (`state_evolution`). An optimal linear projection has Gaussian interference
    of variance Var(x) (1/ratio - 1) in this limit (Cowsik et al. 2024, Eq. 6).

    Parameters
    ----------
    law : float, SparseUniform or Features
        A number is the probability p in [1e-100, 1] that a feature is on. Features must be independent, with
        one p and one scale.
    ratio : float
        n_hidden / n_features, in (0, 1); the interference must lie in [1e-100, 1e3].

    Returns
    -------
    Attainable

    Examples
    --------
    >>> print(attainable(0.05, 0.25))
    decoder           loss     / bayes
    affine         0.01203       2.229
    soft          0.006008       1.113
    hard          0.007195       1.333
    relu          0.005789       1.073
    jumprelu      0.005789       1.073
    bayes         0.005398           1
    iterated             0           0
    """
    p, values, scale, importance, n = _checked_law(law)
    ratio = validation.number("ratio", ratio, 0.0, 1.0, brackets="()")
    sigma = first_noise(p, ratio, "orthogonal", values)
    if not LEAST_SIGMA <= sigma <= LARGEST_SIGMA:
        allowed = f"interference in [{LEAST_SIGMA:g}, {LARGEST_SIGMA:g}]"
        raise ValueError(f"`ratio` must give an {allowed}; got {ratio:g}, with {sigma:.3g}.")
    losses = {name: float(optimum(p, sigma, name, values=values).loss) for name in DECODERS}
    if n is not None:
        losses["topk"] = topk_optimum(n, p, sigma, values=values).loss
    losses["iterated"] = state_evolution(p, ratio, values=values).loss
    unit = importance * scale**2
    loss = np.array(list(losses.values())) * unit
    line = float(recovery_ratio(p, values=values))
    return Attainable(tuple(losses), loss, ACCURACY * loss, sigma, line)

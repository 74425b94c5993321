"""Laws of the data that public toy models use, by name."""

from typing import Any

import numpy as np

from ...theory import validation
from ...theory.features import Features
from ...theory.features.copula import CopulaFeatures
from ...theory.unequal import power_law
from ..loading.synthetic import synthetic_law
from .entry import entry

__all__ = ["PRESETS", "from_saelens", "laws"]

# Name: what it is, and how it is made from the number of features and p.
PRESETS: dict[str, tuple[str, int, float, Any]] = {
    "elhage": (
        "Elhage et al. (2022), 'Demonstrating superposition': importance 0.7^i, uniform values",
        20, 0.1, lambda n, p: Features(n, p, importance=0.7 ** np.arange(n)),
    ),
    "elhage-notebook": (
        "The paper's public notebook, and ARENA: importance 0.9^i, uniform values",
        5, 0.05, lambda n, p: Features(n, p, importance=0.9 ** np.arange(n)),
    ),
    "uniform": (
        "Elhage et al. (2022), 'Geometry', Lecomte, Cowsik: features that are alike, uniform values",
        400, 0.01, Features,
    ),
    "power": (
        "Liu et al. (2025): frequencies that fall as 1/i, one feature on on average",
        1000, 1.0, lambda n, p: power_law(1.0, n, p),
    ),
    "symmetric": (
        "Models of computation (ARENA, parameter decomposition): values uniform on [-1, 1]",
        100, 0.01, lambda n, p: Features(n, p, "symmetric"),
    ),
}  # fmt: skip


@entry
def laws(
    name: str | None = None, n_features: int | None = None, p: Any = None, *, sparsity: Any = None
) -> Any:
    """Return the law of the data (`Features`) of a public toy model by name; without a name, all names.

    ``laws.from_saelens`` returns the law of a configuration of SAELens' synthetic data.

    >>> laws("elhage", 5, p=0.1).importance.round(3)
    array([1.   , 0.7  , 0.49 , 0.343, 0.24 ])

    Parameters
    ----------
    name : {"elhage", "elhage-notebook", "uniform", "power", "symmetric"}, optional
        Without one, a dict from all names to a line on each is returned. Values are uniform on [0, 1], of
        "symmetric" on [-1, 1]. Importance falls as 0.7^i for "elhage", 0.9^i for "elhage-notebook"; features
        are equal for "uniform" and "symmetric". Probabilities fall as 1/i for "power" (Liu et al. 2025).
    n_features : int, optional
        Number of features; by default that of the source.
    p : float, optional
        Probability that a feature is on; of "power" the mean number that is on.
    sparsity : float, optional
        S = 1 - p, instead of p; not of "power".
    """
    if name is None:
        return {key: text for key, (text, *_) in PRESETS.items()}
    _, n, on, make = PRESETS[validation.choice("name", name, tuple(PRESETS))]
    count = n if n_features is None else validation.integer("n_features", n_features, 1)
    if sparsity is not None:
        if p is not None or name == "power":
            got = f"p = {validation.short_repr(p)} as well" if p is not None else "it with 'power'"
            raise ValueError(f"`sparsity` must stand without p, and not with 'power'; got {got}.")
        p = validation.from_sparsity("sparsity", sparsity)
    return make(count, on if p is None else p)


@entry
def from_saelens(config: Any) -> Features | CopulaFeatures:
    """Return the law of the features of SAELens' synthetic data, as SAELens 6.54 draws them.

    The law is a `Features` if features are independent, or fire in independent hierarchies of at most 65,537
    patterns each, and if values are constant or have one ratio of mean to standard deviation for all. In a
    `Features`, a feature is on where its activation is positive. Any other law (low-rank correlations, values
    scaled by those of parents, a ratio for each feature) is a `CopulaFeatures`, which can only be drawn, with
    ``sample(size, rng)``, for `ceiling` or a training loop. Available as ``laws.from_saelens``.

    Parameters
    ----------
    config : mapping, path, SyntheticModelConfig, SyntheticModel or ActivationGenerator
        A mapping has the keys of ``SyntheticModelConfig.to_dict()``; a path is of such a JSON file, or of a
        folder that ``SyntheticModel.save`` wrote. What SAELens draws at random from the seed of the
        configuration is drawn in the same way here; what it draws with PyTorch needs PyTorch here too.

    Examples
    --------
    >>> law = from_saelens({
    ...     "num_features": 7, "firing_probability": {"generator_name": "constant", "probability": 0.25},
    ...     "hierarchy": {"total_root_nodes": 1, "branching_factor": 2, "mutually_exclusive_portion": 1.0},
    ... })
    >>> law.p.round(4)
    array([0.25  , 0.0547, 0.0547, 0.012 , 0.012 , 0.012 , 0.012 ])
    """
    return synthetic_law(config)


setattr(laws, "from_saelens", from_saelens)  # noqa: B010 a plain assignment is no attribute for mypy

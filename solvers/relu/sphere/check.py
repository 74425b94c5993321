"""The best arrangement on the sphere beside minimisers of the loss with one feature on."""

import numpy as np

from ....theory import validation
from ....theory.relu import common_norm_loss
from ....theory.validation import FloatArray
from ...minimise import Minimum, minimise
from ...results import result
from ..arrangement import represented
from .arrange import Thomson, thomson


@result
class SphereCheck:
    """Losses of the best arrangement on the sphere and of minimisers; see :func:`sphere_check`.

    Attributes
    ----------
    sphere : Thomson
        The best arrangement of unit vectors.
    unit_loss, common_loss : float
        L_1/n, the loss per feature with one feature on: of unit vectors, energy/(3 n); and of vectors of the
        best common length.
    unbiased, biased : Minimum
        The models of least L_1/n without bias, and with a bias for each output.
    unbiased_gap, biased_gap : float
        Largest difference between sorted inner products of their directions and the sphere's; nan if some
        features are not represented.
    """

    sphere: Thomson
    unit_loss: float
    common_loss: float
    unbiased: Minimum
    biased: Minimum
    unbiased_gap: float
    biased_gap: float


def _inner_product_gap(sphere: FloatArray, model: Minimum) -> float:
    """Return the largest difference between the sorted inner products of unit vectors and a model's.

    `sphere` has the unit vectors as rows; a model's inner products are those of its encodings' directions.
    Return nan if the model does not represent all features.
    """
    if not represented(model.W, model.b).all():
        return float("nan")
    directions = model.W / np.linalg.norm(model.W, axis=1, keepdims=True)
    pairs = np.triu_indices(len(sphere), 1)
    known, minimiser = (np.sort((V @ V.T)[pairs]) for V in (sphere, directions))
    return float(np.max(np.abs(known - minimiser)))


def sphere_check(
    n_features: int, n_hidden: int, *, starts: int = 32, rng: np.random.Generator | int | None = 0
) -> SphereCheck:
    """Return the best arrangement on the sphere and the tied models of least loss with one feature on.

    The losses are those of unit vectors, of the same vectors at their best common length, and of the best
    models without biases and with biases.

    The documentation of the small ReLU models lists what was found for a dozen sizes.

    Parameters
    ----------
    n_features, n_hidden : int
        Number of unit vectors, from 2 to 64, and their dimension, from 1 to 64.
    starts, rng : int, Generator, int or None, optional
        Random starts of each of the three searches, and what draws them.

    Returns
    -------
    SphereCheck
        All losses are upper bounds on minima. Errors are those of `thomson`.

    Examples
    --------
    >>> found = sphere_check(5, 2, starts=4)
    >>> losses = found.unit_loss, found.common_loss, found.unbiased.loss, found.biased.loss
    >>> print(" ".join(f"{5 * loss:.4f}" for loss in losses))
    0.3183 0.2673 0.2673 0.0791
    """
    n = validation.integer("n_features", n_features, 2, 64)
    m = validation.integer("n_hidden", n_hidden, 1, 64)
    starts = validation.integer("starts", starts, 1)
    rng = validation.generator("rng", rng)
    sphere = thomson(n, m, starts=starts, rng=rng)
    unbiased, biased = (
        minimise(n, m, 0, bias=bias, starts=starts, rng=rng, first=[sphere.W]) for bias in (False, True)
    )
    return SphereCheck(
        sphere=sphere,
        unit_loss=sphere.energy / (3 * n),
        common_loss=float(common_norm_loss(n, sphere.energy)) / n,
        unbiased=unbiased,
        biased=biased,
        unbiased_gap=_inner_product_gap(sphere.W, unbiased),
        biased_gap=_inner_product_gap(sphere.W, biased),
    )

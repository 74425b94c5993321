"""What a sparse autoencoder does on known features, without samples."""

from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from ...theory import arguments
from ...theory.arguments import FloatArray
from ...theory.features import Features, as_features
from ...theory.models import Model
from ...theory.results import frozen, result
from ..loss.hidden.firing import firing, on_in_patterns
from ..loss.hidden.layer import Setting, Unit
from ..loss.methods.outputs import Law
from ..loss.networks import evaluator

__all__ = ["Autoencoder", "measure"]

# Features whose patterns are listed where they are not independent.
MOST_LISTED = 12
# A latent that is on less often than that is dead.
DEAD = 1e-12


@result
class Autoencoder:
    """What a sparse autoencoder does at a law of features; latents are numbered as its neurons.

    Attributes
    ----------
    mse, mse_error : float
        Expected squared error summed over the coordinates of the activations, and what it is off by.
    explained_variance : float
        1 - `mse` over the variance of the activations.
    l0, l1 : (n_latents,) ndarray of float64
        Probability that each latent is on, and its mean; the sums are the expected L0 and L1.
    fires : (n_latents, n_features) ndarray of float64
        Probability that a latent is on, given that a feature is.
    fires_pairs : (n_latents, n_features, n_features) ndarray of float64
        Given that both features are on; nan where they never are. The diagonal is `fires`.
    precision, recall, f1 : (n_latents, n_features) ndarray of float64
        Of a latent as detector of a feature; recall is `fires`. A dead latent has precision and f1 0.
    match : (n_features,) ndarray of int
        The latent that stands for each feature: the assignment of largest summed f1, one feature a latent;
        -1 if there is none.
    cosines : (n_latents, n_features) ndarray of float64
        Between decoder and dictionary directions.
    dead : (n_latents,) ndarray of bool
        Which latents are never on.
    p : (n_features,) ndarray of float64
        Probability that a feature is on.
    pairs : (n_features, n_features) ndarray of float64
        Probability that two are.
    firing_error : float
        What the probabilities are off by.
    """

    mse: float
    mse_error: float
    explained_variance: float
    l0: FloatArray
    l1: FloatArray
    fires: FloatArray
    fires_pairs: FloatArray
    precision: FloatArray
    recall: FloatArray
    f1: FloatArray
    match: Any
    cosines: FloatArray
    dead: Any
    p: FloatArray
    pairs: FloatArray
    firing_error: float

    def fires_without(self, feature: int, other: int) -> FloatArray:
        """Return the probability that each latent is on, given that `feature` is on and `other` is off.

        nan where that never happens.
        """
        n = self.p.size
        i, j = arguments.integer("feature", feature, 0, n - 1), arguments.integer("other", other, 0, n - 1)
        both, one = self.pairs[i, j], self.p[i]
        left = one - both
        if i == j or left <= 1e-15:
            return np.full(self.l0.size, np.nan)
        joint = self.fires_pairs[:, i, j] * both if both > 0.0 else 0.0
        return np.asarray(np.clip((self.fires[:, i] * one - joint) / left, 0.0, 1.0))

    def absorbed(self, parent: int, child: int) -> float:
        """Return how much less often the parent's latent is on where its child is on than where it is off.

        Feature absorption (Chanin et al. 2024): 1 if the latent for the parent is silent exactly where the
        child's fires. nan if no latent stands for the parent.
        """
        latent = int(self.match[arguments.integer("parent", parent, 0, self.p.size - 1)])
        if latent < 0:
            return float("nan")
        return float(self.fires_without(parent, child)[latent] - self.fires_pairs[latent, parent, child])


def _listed(features: Features) -> tuple[FloatArray, FloatArray]:
    """Return all patterns of few features, with their probabilities."""
    n, blocks = features.n_features, features.blocks
    if n > MOST_LISTED:
        rule = f"of independent features, or of at most {MOST_LISTED}"
        raise ValueError(f"`law` must be {rule}; got {n} features that are not independent.")
    rows, chances = [], []
    for choice in product(*(range(len(block.weights)) for block in blocks)):
        row, chance = np.zeros(n), 1.0
        for block, at in zip(blocks, choice, strict=True):
            row[block.members] = block.patterns[at]
            chance *= float(block.weights[at])
        if chance > 0.0 and (features.exactly is None or row.sum() == features.exactly):
            rows.append(row)
            chances.append(chance)
    total = np.array(chances)
    return np.array(rows), total / total.sum()


def measure(sae: Model, law: Any, mixing: npt.ArrayLike | None = None, *, tol: float = 1e-7) -> Autoencoder:
    r"""Return what a sparse autoencoder does with the activations :math:`a = \Phi x` of known features x.

    Parameters
    ----------
    sae : Model
        ``Model(W_in=encoder, b_in=…, hidden="relu" or "jumprelu", W_out=decoder, b=…, output="identity")``, the
        encoder of shape (n_latents, d), the decoder (d, n_latents). Where a decoder bias is taken off the
        input, that belongs to `b_in`.
    law : float or Features
        Of the features x.
    mixing : (d, n_features) array_like of float, optional
        The dictionary: column j is the direction of feature j. By default the identity.
    tol : float, optional
        Error to aim at, in units of the latents' sizes.

    Returns
    -------
    Autoencoder

    Raises
    ------
    ValueError
        If the model has linear latents or an output that bends, shapes do not fit, or the law is not covered.

    Examples
    --------
    >>> from superposition.theory.features import Features
    >>> perfect = Model(np.eye(3), b_in=-0.2, hidden="relu", W_out=np.eye(3), output="identity")
    >>> found = measure(perfect, Features(3, 0.1, "binary"))
    >>> round(found.mse, 9), found.l0, found.f1.diagonal()
    (0.012, array([0.1, 0.1, 0.1]), array([1., 1., 1.]))
    """
    if not isinstance(sae, Model) or sae.hidden == "identity" or sae.output != "identity":
        rule = "a Model with hidden='relu' or 'jumprelu' and output='identity'"
        raise ValueError(f"`sae` must be {rule}; got {arguments.shown(sae)}.")
    d, latents = sae.n_features, sae.n_hidden
    if sae.n_outputs != d:
        raise ValueError(f"`sae` must rebuild its {d} inputs; got {sae.n_outputs} outputs.")
    phi = np.eye(d) if mixing is None else arguments.real("mixing", arguments.matrix("mixing", mixing, (d, None)))
    n = phi.shape[1]
    features = as_features(law, n)
    whole = Model(sae.W_in @ phi, b_in=sae.b_in, hidden=sae.hidden, W_out=sae.W_out, b=sae.b,
                  output="identity", thresholds=sae.thresholds)  # fmt: skip
    plain = Features(n, features.p, features.values, features.scale, 1.0, features.groups, features.exactly)
    loss = evaluator(plain, tol=tol)(whole, target=phi)
    spread = float(np.trace(phi @ features.covariance() @ phi.T))
    l0, l1, fires, fires_pairs, error = _latents(whole, plain, tol)
    p, pairs = np.asarray(features.on_probability()), features.pair_probability()
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(l0[:, None] > DEAD, fires * p / l0[:, None], 0.0)
        f1 = np.where(precision + fires > 0.0, 2.0 * precision * fires / (precision + fires), 0.0)
        norms = np.outer(np.linalg.norm(sae.W_out, axis=0), np.linalg.norm(phi, axis=0))
        cosines = np.where(norms > 0.0, sae.W_out.T @ phi / norms, 0.0)
    match = np.full(n, -1)
    rows, columns = linear_sum_assignment(-f1)
    match[columns] = np.where(f1[rows, columns] > 0.0, rows, -1)
    variance = 1.0 - d * loss.loss / spread if spread > 0.0 else float("nan")
    arrays = (l0, l1, fires, fires_pairs, np.minimum(precision, 1.0), fires, np.minimum(f1, 1.0))
    assert latents == l0.size
    return Autoencoder(
        d * loss.loss, d * loss.error_estimate, variance, *map(frozen, arrays), frozen(match), frozen(cosines),
        frozen(l0 <= DEAD), frozen(p), frozen(pairs), error,
    )  # fmt: skip


def _latents(
    whole: Model, law: Features, tol: float
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, float]:
    """Return how often latents are on, their means, how often given features and pairs, and the error."""
    from ..loss.hidden.layer import unit_means

    n, count = law.n_features, whole.n_hidden
    setting = Setting.of(Law(law), "identity", tol, 1.0)
    thresholds = np.zeros(count) if whole.thresholds is None else whole.thresholds
    weights = whole.W_in * law.scale
    l0, l1, fires, fires_pairs = np.zeros(count), np.zeros(count), np.zeros((count, n)), np.zeros((count, n, n))
    error = 0.0
    listed = None if law.independent else _listed(law)
    for i in range(count):
        unit = Unit(setting, weights[i], float(whole.b_in[i]), float(thresholds[i]))
        if listed is None:
            found = firing(unit, pairs=True)
            l0[i], fires[i], fires_pairs[i] = found.active, found.given, found.given_pairs
            one = unit_means(unit, 0.0, np.zeros(n))
            l1[i], error = one.mean, max(error, found.error)
            continue
        rows, chances = listed
        on = on_in_patterns(unit, rows) * chances
        joint, both = (rows.T * on) @ rows, (rows.T * chances) @ rows
        with np.errstate(divide="ignore", invalid="ignore"):
            fires_pairs[i] = np.where(both > 0.0, joint / both, np.nan)
        l0[i], fires[i] = on.sum(), fires_pairs[i].diagonal()
        l1[i] = _mean(unit, rows, chances)
    clipped = (np.clip(one, 0.0, 1.0) for one in (l0, fires, fires_pairs))
    l0, fires, fires_pairs = clipped
    return l0, l1, fires, fires_pairs, error + 2.0**-44


def _mean(unit: Unit, rows: FloatArray, chances: FloatArray) -> float:
    """Return the mean of a latent over listed patterns."""
    from ..loss.hidden.layer import _patterns

    heard = unit.heard
    w = np.zeros((2, heard.size))
    w[0] = unit.w[heard]
    quiet = np.full(heard.size, np.nan)
    units = (w, np.array([unit.b, 1.0]), np.array([unit.t, 0.0]))
    found, _ = _patterns(unit.setting, units, rows[:, heard], chances, False, quiet)
    return float(found[0])

"""Exact errors, sparsity, F1 and absorption of a sparse autoencoder on known features."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from ...theory import validation
from ...theory.features import Features, SparseUniform, as_features
from ...theory.model import Model, rounding_of_sum
from ...theory.results import frozen, result
from ...theory.validation import FloatArray
from ..deadline import work_seconds
from ..loss.exact import evaluate, problem_of
from ..loss.network.assemble import hidden_neurons
from ..loss.network.firing import firing
from ..loss.network.neuron_means import NeuronContext, unit_means
from ..loss.network.nonzero import nonzero_features
from ..loss.network.time_limit import Stopwatch
from ..loss.problem import Accuracy, law_of
from ..progress import status, time_left

__all__ = ["Autoencoder", "fold_norms", "measure", "measure_samples"]

# Error to aim at for probabilities.
FIRING = 1e-6
# Inputs that are drawn at once.
_BATCH = 10_000
# A latent that is on less often than that is dead.
DEAD = 1e-12


@result
class Autoencoder:
    """Measures of a sparse autoencoder at a law of features; latents are numbered as its neurons."""

    mse: float
    """Expected squared error, summed over the coordinates of the activations, or of the targets."""
    mse_error: float
    """Estimated error of `mse`."""
    explained_variance: float
    """1 - `mse` over the variance of the activations, or of the targets."""
    l0: FloatArray
    """(n_latents,): probability that each latent is on; the sum is the expected L0."""
    l1: FloatArray
    """(n_latents,): mean of each latent; the sum is the expected L1."""
    fires: FloatArray
    """(n_latents, n_features): probability that a latent is on, given that a feature is. A latent is on above
    its threshold, a feature where it is not 0."""
    fires_pairs: FloatArray
    """(n_latents, n_features, n_features): probability that a latent is on, given that both features are; nan
    where they never are. The diagonal is `fires`."""
    precision: FloatArray
    """(n_latents, n_features): precision of a latent as detector of a feature; 0 for a dead latent."""
    recall: FloatArray
    """The same as `fires`."""
    f1: FloatArray
    """(n_latents, n_features): F1 of a latent as detector of a feature; 0 for a dead latent."""
    match: Any
    """(n_features,): latent of each feature, in the one-to-one assignment of largest sum of f1; -1 for a
    feature without one."""
    cosines: FloatArray
    """(n_latents, n_features): cosines of decoder and dictionary directions."""
    dead: Any
    """(n_latents,): whether the latent is never on."""
    p: FloatArray
    """(n_features,): probability that a feature is not 0."""
    pairs: FloatArray
    """(n_features, n_features): probability that two features are both on."""
    firing_error: float
    """Estimated error of the probabilities."""
    prefix_mse: FloatArray
    """(len(prefixes),): `mse` with only the first `prefixes[k]` latents."""
    prefix_errors: FloatArray
    """Estimated error of `prefix_mse`."""
    method: str = "exact"
    """Method of computation: 'exact', by sums, or 'samples', as means over samples."""

    def fires_without(self, feature: int, other: int) -> FloatArray:
        """Return the probability that each latent is on, given that `feature` is on and `other` is off.

        All are nan if this never happens.
        """
        n = self.p.size
        i, j = validation.integer("feature", feature, 0, n - 1), validation.integer("other", other, 0, n - 1)
        both, p_i = self.pairs[i, j], self.p[i]
        left = p_i - both
        if i == j or left <= 1e-15:
            return np.full(self.l0.size, np.nan)
        joint = self.fires_pairs[:, i, j] * both if both > 0.0 else 0.0
        return np.asarray(np.clip((self.fires[:, i] * p_i - joint) / left, 0.0, 1.0))

    def absorbed(self, parent: int, child: int) -> float:
        """Return P(parent's latent on | parent on, child off) - P(parent's latent on | both on).

        This measures feature absorption (Chanin et al. 2024): 1 if the parent's latent is off exactly where
        the child is on, 0 if the child makes no difference, negative if the latent is on more often with the
        child. nan if no latent stands for the parent.
        """
        n = self.p.size
        i, j = (validation.integer(name, k, 0, n - 1) for name, k in (("parent", parent), ("child", child)))
        return float(self.absorption()[i, j])

    def absorption(self) -> FloatArray:
        """Return the matrix, (n_features, n_features), of `absorbed(i, j)` for parent i and child j.

        Entries are nan on the diagonal, where no latent stands for the parent, and where the child is always
        or never on with the parent.
        """
        n = self.p.size
        fires_both = self.fires_pairs[self.match, np.arange(n)]
        p_single = self.p[:, None] - self.pairs
        alone = (self.fires[self.match, np.arange(n)] * self.p)[:, None] - np.nan_to_num(
            fires_both
        ) * self.pairs
        without = np.full((n, n), np.nan)
        np.divide(alone, p_single, out=without, where=p_single > 1e-15)
        defined = (self.match[:, None] >= 0) & ~np.eye(n, dtype=bool)
        return np.where(defined, np.clip(without, 0.0, 1.0) - fires_both, np.nan)


def measure(
    sae: Model, law: Any, dictionary: npt.ArrayLike | None = None, *, target: npt.ArrayLike | None = None,
    prefixes: Sequence[int] | None = None, tol: float = 1e-3, time_limit: float = np.inf,
) -> Autoencoder:  # fmt: skip
    r"""Return measures of a sparse autoencoder on the activations :math:`a = \Phi x` of known features x.

    Parameters
    ----------
    sae : Model
        ``Model(W_in=encoder, b_in=…, hidden="relu" or "jumprelu", W_out=decoder, b=…, output="identity")``,
        the encoder of shape (n_latents, d), the decoder (d, n_latents). If a decoder bias is subtracted from
        the input, `b_in` has to include that.
    law : float or Features
        Of the features x.
    dictionary : (d, n_features) array_like of float, optional
        The dictionary: column j is the direction of feature j. By default the identity.
    target : (d_out, n_features) array_like of float, optional
        Directions of the features in the output of a transcoder or crosscoder, in place of the dictionary.
        Its decoder is (d_out, n_latents).
    prefixes : sequence of int, optional
        Numbers of first latents for which to compute the squared error, as for a Matryoshka autoencoder.
    tol : float, optional
        Error to aim at of each pair of latents' part of the squared error, in units of their sizes. With few
        features the squared error is exact. At 1e-5 a pair on 128 features takes some 20 milliseconds for
        uniform values, three times that for half-normal ones, and seconds for exponential ones; with fewer
        features on, or discrete values, errors fall more slowly. Probabilities aim at 1e-6, or at `tol` if
        that is smaller.
    time_limit : float, optional
        Seconds, without compiling. `OutOfTime` is raised as soon as the squared error or the probabilities
        are seen to take longer.

    Returns
    -------
    Autoencoder

    Raises
    ------
    ValueError
        If the model has linear latents or a nonlinear output, shapes do not fit, or the law is not covered.

    Examples
    --------
    >>> from superposition.theory.features import Features
    >>> perfect = Model(np.eye(3), b_in=-0.2, hidden="relu", W_out=np.eye(3), output="identity")
    >>> found = measure(perfect, Features(3, 0.1, "binary"))
    >>> round(found.mse, 9), found.l0, found.f1.diagonal()
    (0.012, array([0.1, 0.1, 0.1]), array([1., 1., 1.]))
    """
    phi, features, psi, sizes = _checked_inputs(sae, law, dictionary, target, prefixes)
    tol = validation.number("tol", tol, 0.0, 1.0, brackets="()")
    if not (isinstance(time_limit, float) and time_limit == np.inf):  # the value for none
        time_limit = validation.number("time_limit", time_limit, 0.0, brackets="()")
    n = phi.shape[1]
    all_features = network_on_features(sae, phi)
    known_law, accuracy = law_of(without_importance(features), n), Accuracy(tol, time_limit=time_limit)
    models = [keep_first_latents(all_features, size) for size in sizes]
    losses = [evaluate(problem_of(model, known_law, None, psi), accuracy) for model in models]
    units = hidden_neurons(all_features, NeuronContext.of(known_law, "identity", min(tol, FIRING), 1.0))
    watch = Stopwatch(len(units), limit=time_limit)
    rates = watch.parallel_map(0, lambda i: firing(units[i], pairs=True), 1)
    means = _Means(
        mse=len(psi) * np.array([loss.loss for loss in losses]),
        mse_error=len(psi) * np.array([loss.error_estimate for loss in losses]),
        l0=np.array([rate.active for rate in rates]),
        l1=np.array([unit_means(unit, 0.0, np.zeros(n), by_weights=False).mean for unit in units]),
        fires=np.array([rate.p_given for rate in rates]),
        fires_pairs=np.array([rate.p_given_pairs for rate in rates]),
        firing_error=max(rate.error for rate in rates),
        p=np.asarray(features.on_probability()),
    )
    return _summary(sae, features, psi, means, "exact")


def measure_samples(
    sae: Model, law: Any, dictionary: npt.ArrayLike | None = None, *, target: npt.ArrayLike | None = None,
    prefixes: Sequence[int] | None = None, samples: int = 100_000, rng: Any = 0,
) -> Autoencoder:  # fmt: skip
    """Return measures of a sparse autoencoder as means over samples, for laws that `measure` does not cover.

    Error estimates are four standard errors. `firing_error` covers the `fires` of all features, but not
    probabilities given a pair of features, which may be on together too rarely.

    Parameters
    ----------
    sae : Model
        The autoencoder, with "relu" or "jumprelu" latents and the output "identity"; errors are those of
        `measure`.
    law : float or Features
        Of the features x.
    dictionary, target : (d, n_features), (d_out, n_features) array_like of float, optional
        Directions of the features, one a column, by default the identity; and directions in the output, by
        default the same.
    prefixes : sequence of int, optional
        Numbers of first latents for which to compute the squared error.
    samples : int, optional
        How many inputs are drawn, 1000 to 1e8.
    rng : None, int or numpy.random.Generator, optional
        Source of the samples.

    Returns
    -------
    Autoencoder

    Examples
    --------
    >>> perfect = Model(np.eye(3), b_in=-0.2, hidden="relu", W_out=np.eye(3), output="identity")
    >>> found = measure_samples(perfect, Features(3, 0.1, "binary"))
    >>> abs(found.mse - 0.012) < found.mse_error, found.f1.diagonal(), found.method
    (True, array([1., 1., 1.]), 'samples')
    """
    phi, features, psi, sizes = _checked_inputs(sae, law, dictionary, target, prefixes)
    samples = validation.integer("samples", samples, 1000, 10**8)
    generator = validation.generator("rng", rng)
    n, latents = phi.shape[1], sae.n_hidden
    all_features = network_on_features(sae, phi)
    models = [keep_first_latents(all_features, size) for size in sizes]
    hidden = replace(all_features, W_out=np.eye(latents), b=np.zeros(latents))
    errors = np.zeros((2, len(models)))
    active, total, with_feature = np.zeros(latents), np.zeros(latents), np.zeros((latents, n))
    with_pair, on_together = np.zeros((latents, n, n)), np.zeros((n, n))
    begin = work_seconds()
    for start in range(0, samples, _BATCH):
        remaining = time_left(work_seconds() - begin, start, samples)
        status(f"{start:,} of {samples:,} samples{remaining}")
        x = features.sample(min(_BATCH, samples - start), generator)
        squares = np.array([np.sum((x @ psi.T - model(x)) ** 2, axis=1) for model in models])
        errors += squares.sum(axis=1), (squares**2).sum(axis=1)
        h = hidden(x)
        is_on, feature_on = (h != 0.0).astype(float), (x != 0.0).astype(float)
        active += is_on.sum(axis=0)
        total += h.sum(axis=0)
        with_feature += is_on.T @ feature_on
        on_together += feature_on.T @ feature_on
        for j in range(n):
            seen = feature_on[:, j] > 0.0
            with_pair[:, j] += is_on[seen].T @ feature_on[seen]
    mse = errors[0] / samples
    spread = np.sqrt(np.maximum(errors[1] / samples - mse**2, 0.0) / samples)
    seen = on_together.diagonal()
    with np.errstate(divide="ignore", invalid="ignore"):
        fires, fires_pairs = with_feature / seen, with_pair / on_together
        firing_error = float(min(2.0 / np.sqrt(seen.min()), 1.0))  # 4 sqrt(1/4/count) at most
    means = _Means(
        mse, 4.0 * spread, active / samples, total / samples, fires, fires_pairs, firing_error,
        seen / samples,
    )  # fmt: skip
    return _summary(sae, features, psi, means, "samples")


@dataclass(frozen=True)
class _Means:
    """Means from which measures follow; of the squared error also with the first latents alone."""

    mse: FloatArray  # (1 + len(prefixes),): of all latents, then of each prefix
    mse_error: FloatArray
    l0: FloatArray
    l1: FloatArray
    fires: FloatArray
    fires_pairs: FloatArray
    firing_error: float
    p: FloatArray  # (n_features,): how often each is on


def _checked_inputs(
    sae: Model,
    law: Any,
    dictionary: npt.ArrayLike | None,
    target: npt.ArrayLike | None,
    prefixes: Sequence[int] | None,
) -> tuple[FloatArray, Features, FloatArray, list[int]]:
    """Return (dictionary, law without values of 0, targets, [n_latents, *prefixes]), checked.

    `law` is the law of the features, `dictionary` has their directions in the input of `sae`, `target` their
    directions in the output, by default those of the dictionary; each of `prefixes` is a number of first
    latents.
    """
    phi, features = check_dictionary(sae, law, dictionary, target is None)
    psi = phi
    if target is not None:
        shape = (sae.n_outputs, phi.shape[1])
        psi = validation.real("target", validation.matrix("target", target, shape))
    if not isinstance(prefixes, Sequence | np.ndarray | None):
        raise ValueError(f"`prefixes` must be a sequence of integers; got {validation.short_repr(prefixes)}.")
    listed = () if prefixes is None else prefixes
    sizes = [validation.integer("prefixes", prefix, 1, sae.n_hidden) for prefix in listed]
    return phi, nonzero_features(features), psi, [sae.n_hidden, *sizes]


def _summary(sae: Model, features: Features, psi: FloatArray, means: _Means, method: str) -> Autoencoder:
    """Return the `Autoencoder` of the `means`, with precision, F1, matches and cosines.

    `psi`, (d_out, n_features), has the features' directions in the output of `sae`, `features` is the law;
    `method` is "exact" or "samples".
    """
    l0 = np.clip(means.l0, 0.0, 1.0)
    fires = np.clip(np.nan_to_num(means.fires), 0.0, 1.0)  # a feature that is never on: 0
    fires_pairs = np.clip(means.fires_pairs, 0.0, 1.0)
    precision, f1 = np.zeros_like(fires), np.zeros_like(fires)
    live = l0 > DEAD
    precision[live] = np.minimum(fires[live] * means.p / l0[live, None], 1.0)
    both = precision + fires
    np.divide(2.0 * precision * fires, both, out=f1, where=both > 0.0)
    norms = np.outer(np.linalg.norm(sae.W_out, axis=0), np.linalg.norm(psi, axis=0))
    cosines = np.zeros_like(fires)
    np.divide(sae.W_out.T @ psi, norms, out=cosines, where=norms > 0.0)
    match = np.full(psi.shape[1], -1)
    rows, columns = linear_sum_assignment(-f1)
    match[columns] = np.where(f1[rows, columns] > 0.0, rows, -1)
    p, pairs = np.asarray(features.on_probability()), features.pair_probability()
    mse, *prefix_mse = means.mse
    mse_error, *prefix_errors = means.mse_error
    spread = float(np.trace(psi @ features.covariance() @ psi.T))
    variance = float(1.0 - mse / spread) if spread > 0.0 else float("nan")
    return Autoencoder(
        float(mse), float(mse_error), variance, frozen(l0), frozen(means.l1), frozen(fires),
        frozen(fires_pairs), frozen(precision), frozen(fires), frozen(np.minimum(f1, 1.0)), frozen(match),
        frozen(np.clip(cosines, -1.0, 1.0)), frozen(~live), frozen(p), frozen(pairs), means.firing_error,
        frozen(np.array(prefix_mse)), frozen(np.array(prefix_errors)), method,
    )  # fmt: skip


def keep_first_latents(model: Model, size: int) -> Model:
    """Return the model with only its first `size` hidden neurons."""
    if size == model.n_hidden:
        return model
    thresholds = None if model.thresholds is None else model.thresholds[:size]
    W_in, b_in, W_out = model.W_in[:size], model.b_in[:size], model.W_out[:, :size]
    return replace(model, W_in=W_in, b_in=b_in, W_out=W_out, thresholds=thresholds)


def check_dictionary(
    sae: Any, law: Any, dictionary: npt.ArrayLike | None, rebuilds: bool = True
) -> tuple[FloatArray, Features]:
    """Return (dictionary (d, n_features), law), checked; ValueError if they do not fit the autoencoder `sae`.

    By default the dictionary is the identity. With `rebuilds` the numbers of inputs and outputs must agree.
    """
    if not isinstance(sae, Model) or sae.hidden == "identity" or sae.output != "identity":
        rule = "a Model with hidden='relu' or 'jumprelu' and output='identity'"
        raise ValueError(f"`sae` must be {rule}; got {validation.short_repr(sae)}.")
    d = sae.n_features
    if rebuilds and sae.n_outputs != d:
        raise ValueError(f"`sae` must rebuild its {d} inputs; got {sae.n_outputs} outputs.")
    phi = (
        np.eye(d)
        if dictionary is None
        else validation.real("dictionary", validation.matrix("dictionary", dictionary, (d, None)))
    )
    known = isinstance(law, Features | SparseUniform)
    p = law if known else validation.number("law", law, 0.0, 1.0, brackets="(]")
    return phi, as_features(p, phi.shape[1])


def without_importance(features: Features) -> Features:
    """Return `features` with importance 1, as errors are of activations, not of features."""
    return Features(
        features.n_features,
        features.p,
        features.values,
        features.scale,
        1.0,
        features.groups,
        features.exactly,
    )


def network_on_features(sae: Model, phi: FloatArray) -> Model:
    """Return the network from features to outputs: the dictionary `phi`, then the autoencoder `sae`.

    Weights of latents on features that are as small as rounding errors are set to 0.
    """
    W_in = sae.W_in @ phi
    W_in[np.abs(W_in) <= rounding_of_sum(np.abs(sae.W_in) @ np.abs(phi), len(phi))] = 0.0
    return Model(W_in, b_in=sae.b_in, hidden=sae.hidden, W_out=sae.W_out, b=sae.b,
                 output="identity", thresholds=sae.thresholds)  # fmt: skip


def fold_norms(sae: Model) -> Model:
    r"""Return the same autoencoder with decoder columns of norm 1.

    Row i of the encoder, its bias and its threshold are multiplied by the norm of column i: :math:`h_i`
    becomes :math:`\|d_i\| h_i`. A latent whose decoder column is 0 stays as it is.

    Parameters
    ----------
    sae : Model
        With latents that are "relu" or "jumprelu", with the errors of `measure`.

    Examples
    --------
    >>> one = Model([[1.0, 0.0]], b_in=-0.1, hidden="jumprelu", W_out=[[2.0], [0.0]], output="identity",
    ...             thresholds=0.3)
    >>> found = fold_norms(one)
    >>> found.W_in, found.b_in, found.thresholds, found.W_out.ravel()
    (array([[2., 0.]]), array([-0.2]), array([0.6]), array([1., 0.]))
    """
    if not isinstance(sae, Model) or sae.hidden == "identity":
        raise ValueError(
            f"`sae` must be a Model with hidden='relu' or 'jumprelu'; got {validation.short_repr(sae)}."
        )
    norms = np.linalg.norm(sae.W_out, axis=0)
    size = np.where(norms > 0.0, norms, 1.0)
    thresholds = sae.thresholds * size if sae.hidden == "jumprelu" else sae.thresholds
    return Model(sae.W_in * size[:, None], b_in=sae.b_in * size, hidden=sae.hidden, W_out=sae.W_out / size,
                 b=sae.b, output=sae.output, thresholds=thresholds)  # fmt: skip

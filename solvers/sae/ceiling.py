r"""Error and F1 that decoders reach at each L0 if they know the features' law and their dictionary.

One-step decoders read :math:`z = W a`, a latent for a feature, with rows scaled to :math:`w_i \varphi_i = 1`,
JumpReLU thresholds, a common one or one for each latent, and activations :math:`\alpha_i z_i + \beta_i`,
regressions of x_i on z_i where the latent is on. `pursuit` is matching pursuit. The page `sae` says what the
rows of `dictionary`, `linear`, `logistic` and `trained` are, and why.

Arrays that several functions share: `phi`, (d, n), the dictionary, a column for each feature's direction;
`x`, or `known` and `fresh`, (samples, n), samples of the features, that fix thresholds and that evaluate;
`W`, (n, d), a latent's weights in each row; z, (samples, n), the readings x phi' W'; `target_l0`, the L0s
asked for; `owners`, (latents,), the features that own a latent. `features` is the features' law, or draws.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq, linear_sum_assignment, minimize
from scipy.sparse import csr_array, hstack
from scipy.sparse import vstack as stacked
from scipy.special import expit, ndtr

from ...theory import validation
from ...theory.decoders.line import share_above
from ...theory.features import Features, as_features
from ...theory.model import Model, is_above
from ...theory.results import frozen, result
from ...theory.validation import FloatArray
from ..deadline import work_seconds
from ..loss.network.nonzero import nonzero_features
from ..progress import status, time_left
from .measure import measure

__all__ = ["DECODERS", "Ceiling", "ceiling"]

THRESHOLDS = ("common threshold", "thresholds for F1", "thresholds for error")
DECODERS = (
    *(
        f"{decoder}, {kind}"
        for decoder in ("dictionary", "linear", "logistic", "trained")
        for kind in THRESHOLDS
    ),
    "pursuit",
)
EXACT, EXACT_ATOMS = 4, 10  # features up to which decoders are evaluated without samples; of atoms alone
MOST = 16_384  # features
DENSE = 2048  # of more, samples are sparse, latents are taken block by block, and fewer rows are tried
CELLS = 2**24  # of a block's readings
BATCHES = 20  # whose spread gives the standard errors
CUTS = 200  # places at most at which the threshold of a latent may be, between the samples that fix it
NORMAL = 200  # features at most whose interference is compared with a normal one
SMALL = 1e-6  # least gain: an activation must rise with what the latent reads
RIDGE = 10.0  # of logistic regressions on whitened activations, for the sum over samples
STEPS = 60  # of them
TRAINED, BATCH, RATE = 400, 1024, 0.1  # steps of the smooth F1, samples of each, rate over the weights' size
SHARP = 10.0  # slope of its steps, for a mean value of 1 where a feature is on
_LARGEST = 1e50  # entry of a dictionary or of draws: its square times those of the features is a double
PAIRS, SURE = 10, 5.0  # draws with both features on, and standard errors, from which a covariance counts
_ROUNDING = 1e-12  # of what a latent reads, as a share of the largest
_CUTOFF = 1e-10  # of eigenvalues of the activations' covariance, as a share of the largest


@result
class Ceiling:
    """Scores of decoders that know features and dictionary, each at several numbers of latents on.

    Arrays have a row for each decoder and a column for each requested L0.
    """

    decoders: tuple[str, ...]
    """`DECODERS`, or for more than 2048 features those whose rows need no training."""
    mean_active: float
    """Expected number of features that are on."""
    target_l0: FloatArray
    """(count,): expected numbers of latents that are on, as requested."""
    l0: FloatArray
    """Expected number of latents that are on, attained by each decoder."""
    f1: FloatArray
    """Mean over latents of F1 of a latent for the feature that owns it."""
    mse: FloatArray
    """Expected squared error, summed over the coordinates of the activations."""
    l0_error: FloatArray
    """One standard error of `l0`, or the numerical error where it is exact."""
    f1_error: FloatArray
    """One standard error of `f1`, or its numerical error."""
    mse_error: FloatArray
    """One standard error of `mse`, or its numerical error."""
    explained_variance: FloatArray
    """1 - `mse` over the variance of the activations."""
    mcc: FloatArray
    """Mean absolute cosine of decoder columns and features, in their best one-to-one matching."""
    uniqueness: FloatArray
    """(Number of features with the largest absolute cosine for some latent)/(number of latents)."""
    owners: Any
    """(decoders, count, latents): the feature that owns each latent, in increasing order."""
    exact: Any
    """(decoders,): whether the numbers are expectations, not means over samples."""
    models: Any
    """Tuples of the autoencoders, by decoder and L0; none for pursuit, which has several steps, and none for
    more than 2048 features."""
    normal_f1: FloatArray
    """(count,): mean F1 of the linear rows at a common threshold if interference were normal of the same
    mean and variance. nan if features are not independent, or latents are fewer than features. Of more than
    200 features 200 stand for all."""
    samples: int
    """Number of samples that fixed thresholds and regressions, and of others that evaluated."""
    draws: int
    """Number of draws given in place of a law, of which 2 `samples` are used; 0 if a law was given."""

    def standard_errors_above(self, l0: float, f1: float, f1_error: float = 0.0) -> float:
        """Return how many standard errors an autoencoder's mean F1 lies above the best one-step decoder's.

        One-step decoders, all of `decoders` but matching pursuit, are a linear map of the activations and a
        threshold for each latent. A result far above 0 means that the autoencoder reads more than the
        activations, that its score is not this F1, that several of its latents share a feature, or that it is
        better than any known decoder.

        Parameters
        ----------
        l0 : float
            Expected number of the autoencoder's latents that are on, in the range of the attribute `l0`.
        f1, f1_error : float
            Mean over the latents of F1 for the feature that each belongs to, and its standard error.

        Returns
        -------
        float
            (f1 - best)/error, where `best` is the largest F1 of the one-step decoders at the L0s next below
            and above `l0`, and `error` combines both standard errors. Infinite if both are 0.

        Raises
        ------
        ValueError
            If `l0` or `f1` is out of range.

        Examples
        --------
        >>> found = ceiling(0.1, np.eye(3), l0=[0.2, 0.28])
        >>> found.standard_errors_above(0.25, 0.97) > 3, found.standard_errors_above(0.25, 0.5) < -3
        (True, True)
        """
        score = validation.number("f1", f1, 0.0, 1.0)
        own_error = validation.number("f1_error", f1_error, 0.0)
        return standard_errors_above(
            self.l0[:-1], self.f1[:-1], self.f1_error[:-1], l0, score=score, error=own_error
        )


def standard_errors_above(
    l0s: FloatArray, scores: FloatArray, errors: FloatArray, l0: float, score: float, error: float
) -> float:
    """Return (score - best)/(error of the difference), `best` the largest of `scores` next to `l0`.

    `l0s`, `scores` and their `errors` have a row for each decoder, by ascending L0; `error` is that of
    `score`. "Next to `l0`" are, in each row, the L0s next below and above it.
    """
    at = validation.number("l0", l0, float(l0s.min()), float(l0s.max()))
    most = max(1, l0s.shape[1] - 1)
    right = np.clip([np.searchsorted(row, at) for row in l0s], 1, most)
    beside = np.stack([right - 1, np.minimum(right, l0s.shape[1] - 1)], axis=1)
    best, best_error = (np.take_along_axis(quantity, beside, axis=1) for quantity in (scores, errors))
    k = np.unravel_index(int(best.argmax()), best.shape)
    gap, both = score - float(best[k]), float(np.hypot(error, best_error[k]))
    return gap / both if both > 0.0 else float(np.copysign(np.inf, gap)) if gap else 0.0


def ceiling(
    law: Any,
    dictionary: npt.ArrayLike,
    l0: npt.ArrayLike | None = None,
    *,
    latents: int | None = None,
    samples: int = 10_000,
    rng: Any = 0,
) -> Ceiling:
    r"""Return squared error and F1 of decoders that know the features' law and the dictionary, at each L0.

    Parameters
    ----------
    law : float, Features, or (count, n_features) array or sparse array
        The law of up to 16,384 features; or draws of them, a row each, such as those of a benchmark's own
        generator.
    dictionary : (d, n_features) array_like of float
        The dictionary :math:`\Phi`: activations are :math:`\Phi x`.
    l0 : float or sequence of float, optional
        Expected numbers of latents that are on, between 0 and n_features; by default from a half to twice the
        expected number of features that are on.
    latents : int, optional
        Number of latents, at most n_features, the default. If there are fewer, the features with a latent and
        the thresholds are chosen together, for the largest sum of F1 or the least squared error at each L0;
        on the samples that fix thresholds the choice is the best one. Two choices are heuristics: a common
        threshold takes the features of the best F1, pursuit those of largest second moment.
    samples : int, optional
        Number of samples that fix thresholds and regressions, and of others that evaluate, unless evaluation
        is exact. If `law` is draws, each gets at most half of them, and the linear regression neglects
        covariances of features that are less than five standard errors from 0.
    rng : Generator or int, optional
        Source of the samples.

    Returns
    -------
    Ceiling
        One-step decoders (all but matching pursuit: a linear map and a threshold for each latent) of up to 4
        features, or 10 of binary values, are evaluated exactly, all others on samples. A feature is on where
        it is not 0. All scores are attained by the decoders of `Ceiling.models`; the page `sae` says how
        thresholds are found. Another autoencoder may have a larger F1, and one whose latents mix features a
        smaller error. With more than 2048 features only the rows of the dictionary and of the linear
        regression are tried, and the decoder is the dictionary.

    Examples
    --------
    >>> found = ceiling(0.1, np.eye(3), l0=0.25)
    >>> found.decoders[4], found.f1[4].round(2), found.exact[4]
    ('linear, thresholds for F1', array([0.9]), True)
    """
    phi = validation.real("dictionary", validation.matrix("dictionary", dictionary), -_LARGEST, _LARGEST)
    n = phi.shape[1]
    if n > MOST:
        raise ValueError(f"`dictionary` must have at most {MOST} columns; got {n}.")
    latents = n if latents is None else validation.integer("latents", latents, 1, n)
    draw = validation.generator("rng", rng)
    samples = validation.integer("samples", samples, 10 * BATCHES)
    features: Any = _Draws.of(law, n, samples, draw) if _is_draws(law) else as_features(law, n)
    _check_activations(phi, features)
    samples = features.known.shape[0] if isinstance(features, _Draws) else samples
    active = features if isinstance(features, _Draws) else nonzero_features(features)
    on = float(active.on_probability().sum())
    usual = np.minimum(on * np.array([0.5, 0.75, 1.0, 1.5, 2.0]), 0.9 * latents)
    target_l0 = validation.vector("l0", usual if l0 is None else np.atleast_1d(validation.doubles("l0", l0)))
    validation.real("l0", target_l0, 0.0, float(latents), brackets="()")
    dense = n <= DENSE
    validation.check_fits(
        "samples", samples, min(samples, 2**62) * (8.0 * n if dense else 8.0 * on + 60.0 * target_l0.max())
    )
    if isinstance(features, _Draws):
        known, fresh, exact = features.known, features.fresh, False
    else:
        known, fresh = (_sample_data(features, samples, draw) for _ in range(2))
        values = features.values
        exact = n <= (EXACT_ATOMS if values.discrete else EXACT)
    spread = float(np.trace(_covariance(features, phi)))
    count = target_l0.size
    linear = _scale_rows(_linear_regression(features, phi), phi)
    readings = [_scale_rows(phi.T, phi), linear]
    if dense:
        first = known if isinstance(features, _Draws) else features.sample(samples, draw)
        readings.append(_scale_rows(_logistic_regression(features, phi, first), phi))
        readings.append(_scale_rows(_train_rows(features, phi, linear, draw.spawn(1)[0]), phi))
    decoders = (*DECODERS[: len(readings) * len(THRESHOLDS)], DECODERS[-1])
    estimates, models = np.zeros((len(decoders), count, 8)), []
    owners = np.zeros((len(decoders), count, latents), int)
    begin = work_seconds()
    for k, W in enumerate(readings):
        status(f"{k} of {len(readings)} decoders{time_left(work_seconds() - begin, k, len(readings))}")
        cuts, chosen = _thresholds(W, phi, known, target_l0, latents)
        saes = [
            _make_autoencoder(W, phi, known, *item, dense and k > 0)
            for item in zip(cuts, chosen, _fit_latents(W, phi, known, fresh, cuts, chosen), strict=True)
        ]
        autoencoders = [sae.model() for sae in saes] if dense else []
        rows = (
            [_exact_scores(item, features, phi, of) for item, of in zip(autoencoders, chosen, strict=True)]
            if exact
            else [_sampled_scores(item, phi, fresh) for item in saes]
        )
        at = slice(k * len(THRESHOLDS), (k + 1) * len(THRESHOLDS))
        if dense:
            matched = [match_columns(sae.V, phi) for sae in saes]
        else:  # decoders are columns of the dictionary
            decoders_of = {sae.owners.tobytes(): sae.V for sae in saes}
            pairs = {key: match_columns(V, phi) for key, V in decoders_of.items()}
            matched = [pairs[sae.owners.tobytes()] for sae in saes]
        values = [(*row, *pair) for row, pair in zip(rows, matched, strict=True)]
        estimates[at] = np.reshape(values, (-1, count, 8))
        owners[at] = np.reshape(chosen, (-1, count, latents))
        models += [tuple(autoencoders[j : j + count]) for j in range(0, len(autoencoders), count)]
    status("matching pursuit")
    owners[-1] = np.sort(np.argsort(-_second_moments(features, phi), kind="stable")[:latents])
    estimates[-1, :, :6] = _pursuit(phi, owners[-1, 0], known, fresh, target_l0)
    estimates[-1, :, 6:] = match_columns(phi[:, owners[-1, 0]], phi)
    l0s, f1, mse, l0_error, f1_error, mse_error, mcc, uniqueness = (
        frozen(item.copy()) for item in np.moveaxis(estimates, 2, 0)
    )
    variance = 1.0 - mse / spread if spread > 0.0 else np.full(mse.shape, np.nan)
    exactly = frozen(np.array([exact] * (len(decoders) - 1) + [False]))
    normal = _f1_of_normal_noise(features, phi, linear, target_l0) if latents == n else np.full(count, np.nan)
    return Ceiling(
        decoders, on, frozen(target_l0.copy()), l0s, f1, mse, l0_error, f1_error, mse_error, frozen(variance),
        mcc, uniqueness, frozen(owners), exactly, tuple(models), frozen(normal), samples,
        np.shape(law)[0] if _is_draws(law) else 0,
    )  # fmt: skip


def _check_activations(phi: FloatArray, features: Any) -> None:
    """Raise ValueError if the largest entry of `phi`, or activation, is not 0 or from 1e-50 to 1e50."""
    if isinstance(features, _Draws):
        draws = abs(features.known).max(axis=0)
        sizes = np.asarray(draws.toarray() if hasattr(draws, "toarray") else draws, float).ravel()
    else:
        sizes = np.sqrt(features.second_moment)
    largest = np.abs(phi).max(axis=0)
    for what, largest_value in (("columns", largest.max()), ("activations", (largest * sizes).max())):
        if largest_value and not 1.0 / _LARGEST <= largest_value <= _LARGEST:
            rule = f"give {what} of sizes from {1.0 / _LARGEST:g} to {_LARGEST:g}"
            raise ValueError(f"`dictionary` must {rule}; got {largest_value:g} as the largest.")


def _sample_data(features: Features, samples: int, rng: np.random.Generator) -> Any:
    """Return samples of the features, (samples, n): an array, or a sparse one for over 2048 features."""
    if features.n_features <= DENSE:
        return features.sample(samples, rng)
    size = max(1, CELLS // features.n_features)
    parts = [features.sample(min(size, samples - k), rng) for k in range(0, samples, size)]
    return stacked([csr_array(part) for part in parts], "csr")


def _second_moments(features: Any, phi: FloatArray) -> FloatArray:
    """Return the second moment of each feature times the squared length of its direction, (n,)."""
    if isinstance(features, _Draws):
        square = np.asarray((features.known * features.known).mean(axis=0), float)
    else:
        square = features.second_moment
    return np.asarray(square * np.sum(phi**2, axis=0))


class _Draws(NamedTuple):
    """Draws of features in two halves: `known` fixes thresholds and regressions, `fresh` evaluates."""

    known: Any
    fresh: Any

    @classmethod
    def of(cls, law: Any, n: int, samples: int, rng: np.random.Generator) -> "_Draws":
        """Return the rows of `law`, (count, n), in two random halves of at most `samples` rows each.

        ValueError if there are too few rows.
        """
        law = law * 1.0 if "bool" in str(getattr(law, "dtype", "")) else law  # of binary features
        sparse = hasattr(law, "tocsr")
        rows: Any = csr_array(law, dtype=float) if sparse else validation.matrix("law", law, (None, n))
        validation.real("law", rows.data if sparse else rows, -_LARGEST, _LARGEST)
        count, columns = rows.shape
        if columns != n or count < 20 * BATCHES:
            rule = f"draws of {n} features, at least {20 * BATCHES}"
            raise ValueError(f"`law` must be {rule}; got shape {(count, columns)}.")
        order, size = rng.permutation(count), min(samples, count // 2)
        known, fresh = rows[order[:size]], rows[order[size : 2 * size]]
        if n > DENSE:
            return cls(csr_array(known), csr_array(fresh))
        return cls(known.toarray(), fresh.toarray()) if sparse else cls(known, fresh)

    def on_probability(self) -> FloatArray:
        """Return the fraction of the draws `known` in which each feature is on, (n,)."""
        return np.asarray(np.asarray((self.known != 0.0).sum(axis=0), float) / self.known.shape[0])

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Return `size` random rows, with replacement, of the draws `known`."""
        return np.asarray(self.known[rng.integers(self.known.shape[0], size=size)])


def _is_draws(law: Any) -> bool:
    """Return whether `law` is an array of draws."""
    return len(getattr(law, "shape", ())) == 2


def _covariance(features: Features | _Draws, phi: FloatArray) -> FloatArray:
    """Return the covariance of the activations phi x of these features, (d, d)."""
    if isinstance(features, _Draws):
        return np.asarray(np.atleast_2d(np.cov(features.known @ phi.T, rowvar=False)))
    return np.asarray(phi @ _covariance_with_activations(features, phi))


def _covariance_with_activations(features: Features | _Draws, phi: FloatArray) -> FloatArray:
    """Return the covariance of features with activations, (n, d).

    For draws, covariances of two features that are not significant, or with both on too rarely, count as 0: a
    thresholded covariance matrix (Bickel and Levina 2008).
    """
    if isinstance(features, _Draws):
        x = csr_array(features.known)
        on = csr_array((np.ones(x.nnz), x.indices, x.indptr), shape=x.shape)
        mean, both = np.asarray(x.mean(axis=0), float), (on.T @ on).tocoo()
        often = both.data >= PAIRS
        rows, columns = both.row[often], both.col[often]
        values = csr_array(x.T @ x)[rows, columns] / x.shape[0] - mean[rows] * mean[columns]
        variance = np.maximum(np.asarray((x * x).mean(axis=0), float) - mean**2, 0.0)
        error = np.sqrt(variance[rows] * variance[columns] / x.shape[0])
        sure = (rows != columns) & (np.abs(values) > SURE * error)
        covariance = csr_array((values[sure], (rows[sure], columns[sure])), shape=(x.shape[1], x.shape[1]))
        return np.asarray(covariance @ phi.T + variance[:, None] * phi.T)
    if features.independent:
        return np.asarray(features.variance[:, None] * phi.T)
    return np.asarray(features.covariance() @ phi.T)


def _blocks_of_latents(features: Any, samples: int) -> list[Any]:
    """Return consecutive blocks of the indices `features`: all of up to 2048 in one, else memory permitting.

    The memory of a block is that of the readings of `samples` samples.
    """
    size = features.size if features.size <= DENSE else max(1, CELLS // samples)
    return [features[k : k + size] for k in range(0, features.size, size)]


def _dense_columns(x: Any, columns: Any) -> FloatArray:
    """Return x[:, columns] as a dense array, for a dense or sparse array x of samples."""
    return np.asarray(x[:, columns] if isinstance(x, np.ndarray) else x[:, columns].toarray())


def _readings(W: FloatArray, phi: FloatArray, *samples: Any) -> list[FloatArray]:
    """Return, for each array of samples x, the readings x (W phi)' of the activations by the rows of W."""
    read = W @ phi
    read[np.abs(read) < _ROUNDING * np.abs(read).max()] = 0.0  # so that rounding turns no latent on
    return [np.asarray(x @ read.T) for x in samples]


def match_columns(V: FloatArray, phi: FloatArray) -> tuple[float, float]:
    """Return MCC and uniqueness of a decoder V, (d, latents), for the dictionary `phi`, as SAELens has them.

    MCC is the mean absolute cosine in the best one-to-one matching of columns. Uniqueness is (number of
    features with the largest absolute cosine for some latent)/(number of latents). Cosines of over 2048
    features are in single precision.
    """
    kind: Any = np.float64 if phi.shape[1] <= DENSE else np.float32
    norms = [np.linalg.norm(part, axis=0) for part in (V, phi)]
    columns, directions = (
        np.asarray(part / np.where(norm > 0.0, norm, 1.0), kind)
        for part, norm in zip((V, phi), norms, strict=True)
    )
    size = max(1, CELLS // phi.shape[1])
    blocks = [np.abs(columns[:, k : k + size].T @ directions) for k in range(0, V.shape[1], size)]
    best = np.concatenate([cosines.argmax(axis=1) for cosines in blocks])
    uniqueness = np.unique(best).size / best.size
    if uniqueness == 1.0:  # each latent has its largest cosine: no matching has more
        return float(np.mean(np.concatenate([cosines.max(axis=1) for cosines in blocks]))), 1.0
    cosines = np.concatenate(blocks)
    return float(cosines[linear_sum_assignment(-cosines)].mean()), uniqueness


def _thresholds(
    W: FloatArray, phi: FloatArray, x: Any, target_l0: FloatArray, latents: int
) -> tuple[list[FloatArray], list[Any]]:
    """Return lists (thresholds, owners) with an entry for each rule and, within a rule, for each L0.

    The three rules are one threshold for all latents, thresholds of largest mean F1, and of least error. An
    entry of `thresholds`, (n,), is for the readings of activations phi x by the rows of W, fixed on the
    samples x; an entry of `owners`, (latents,), has the indices of the features with a latent. By the last
    two rules a feature without a latent has a threshold that is never exceeded. `target_l0` are the mean
    numbers of latents on.
    """
    n, tables = len(W), []
    for columns in _blocks_of_latents(np.arange(n), x.shape[0]):
        (z,) = _readings(W[columns], phi, x)
        tables.append(_threshold_candidates(z, _dense_columns(x, columns), phi[:, columns]))
    cuts, chosen = _thresholds_per_latent(np.concatenate(tables, axis=1), target_l0, latents)
    by_f1 = chosen[: target_l0.size]
    most = [int(min(l0 * x.shape[0] + 2.0, float(x.shape[0]) * latents)) for l0 in target_l0]
    largest, sizes = [np.empty(0)] * target_l0.size, np.zeros(target_l0.size)
    for columns in _blocks_of_latents(np.unique(by_f1), x.shape[0]):
        (z,) = _readings(W[columns], phi, x)
        for k, owners in enumerate(by_f1):
            read = z[:, np.isin(columns, owners)]
            sizes[k] = max(sizes[k], float(np.abs(read).max(initial=0.0)))
            read = np.concatenate([largest[k], read.ravel()])
            largest[k] = read if read.size <= most[k] else np.partition(read, read.size - most[k])[-most[k] :]
    common = [
        np.full(n, _threshold_for_count(values, l0 * x.shape[0], size))
        for values, l0, size in zip(largest, target_l0, sizes, strict=True)
    ]
    return [*common, *cuts], [*by_f1, *chosen]


def _scale_rows(W: FloatArray, phi: FloatArray) -> FloatArray:
    """Return W (n, d) with row w_i scaled so that w_i . phi_i = 1, for phi_i, column i of `phi` (d, n).

    Rows with w_i . phi_i <= `_CUTOFF` |w_i| |phi_i| become 0.
    """
    overlap = np.sum(W * phi.T, axis=1)
    size = np.linalg.norm(W, axis=1) * np.linalg.norm(phi, axis=0)
    read = overlap > _CUTOFF * size
    return np.where(read[:, None], W / np.where(read, overlap, 1.0)[:, None], 0.0)


def _whitening(features: Features | _Draws, phi: FloatArray) -> FloatArray:
    """Return a whitening matrix A, (d, rank): phi x A has unit covariance for samples x of the features."""
    values, vectors = np.linalg.eigh(_covariance(features, phi))
    is_large = values > _CUTOFF * max(float(values.max()), 0.0)
    return np.asarray(vectors[:, is_large] / np.sqrt(values[is_large]))


def _logistic_regression(features: Features | _Draws, phi: FloatArray, x: FloatArray) -> FloatArray:
    """Return the weights, (n, d), of logistic regressions on activations phi x of whether each feature is on.

    The weights are fitted on samples x, with the covariance of `features` to whiten activations. The penalty
    is `RIDGE`/2 times the squared distance from the linear discriminant of normal classes, in whitened
    activations: with few samples of a feature on, the row is close to that discriminant.
    """
    white = _whitening(features, phi)
    u, on, (count, n), rank = x @ (phi.T @ white), x != 0.0, x.shape, white.shape[1]
    u -= u.mean(axis=0)
    chance = np.clip(on.mean(axis=0), 0.5 / count, 1.0 - 0.5 / count)
    # For normal classes of one covariance: between the means, over what is left within the classes.
    separation = (u.T @ on) / (count * chance * (1.0 - chance))
    within_variance = 1.0 - chance * (1.0 - chance) * np.sum(separation**2, axis=0)
    prior = separation / np.maximum(within_variance, 0.01)
    shift = np.log(chance / (1.0 - chance)) - 0.5 * (1.0 - 2.0 * chance) * np.sum(prior * separation, axis=0)

    def f(theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the mean penalised negative log-likelihood of weights and intercepts theta, and gradient."""
        B, c = theta[:-n].reshape(rank, n), theta[-n:]
        z = u @ B + c
        loss = np.logaddexp(0.0, z).sum() - z[on].sum() + 0.5 * RIDGE * float(np.sum((B - prior) ** 2))
        left = expit(z) - on
        slopes = np.r_[(u.T @ left + RIDGE * (B - prior)).ravel(), left.sum(axis=0)]
        return float(loss) / count, slopes / count

    start = np.r_[prior.ravel(), shift]
    minimum = minimize(f, start, jac=True, method="L-BFGS-B", options={"maxiter": STEPS}).x
    return np.asarray((white @ minimum[:-n].reshape(rank, n)).T)


def _float32_unit(largest: float) -> float:
    """Return a unit by which an array of this `largest` entry is divided to fit float32.

    The unit is 1 if `largest` is 0 or between 1e-9 and 1e9, else a power of two near `largest`.
    """
    return 1.0 if largest == 0.0 or 1e-9 < largest < 1e9 else 2.0 ** round(np.log2(largest))


def _train_rows(
    features: Features | _Draws, phi: FloatArray, W: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Return linear detectors of features, rows of (n, d), trained by Adam from W for the largest mean F1.

    A detector is on where row . (phi x) exceeds a threshold, in training a logistic function. Each step draws
    new samples x of the features, whose directions are the columns of `phi`.
    """
    white, x = _whitening(features, phi), features.sample(BATCH, rng)
    by_x, by_phi = _float32_unit(float(np.abs(x).max())), _float32_unit(float(np.abs(phi).max()))
    with np.errstate(over="ignore"):  # features too far apart in size for these numbers keep their rows
        white = (white * by_phi * by_x).astype(np.float32)
    if not white.size or not np.isfinite(white).all():
        return W
    directions, chances = (phi / by_phi).T.astype(np.float32) @ white, features.on_probability()
    x = x / by_x
    size = np.abs(x).mean() / max(float(chances.mean()), 1e-6)  # of a value where its feature is on
    k = np.float32(SHARP / size if size > 0.0 else 1.0)
    B = (np.linalg.pinv(white) @ (W.T * by_phi)).astype(np.float32)
    cut = np.full(W.shape[0], 0.5 * size, np.float32)
    units = np.abs(B).mean(), np.float32(size)
    parts = [
        (parameter, unit, np.zeros_like(parameter), np.zeros_like(parameter))
        for parameter, unit in zip((B, cut), units, strict=True)
    ]
    for step in range(1, TRAINED + 1):
        on = x != 0.0
        u = x.astype(np.float32) @ directions
        s = expit(k * (u @ B - cut))
        both, all_ = (s * on).sum(axis=0), np.maximum(s.sum(axis=0) + on.sum(axis=0), 1e-6)
        # Of 2 both/all, by what the logistic functions are of.
        slope = 2.0 * (on * all_ - both) / all_**2 * k * s * (1.0 - s)
        rate = 0.5 * RATE * (1.0 + np.cos(np.pi * step / TRAINED))
        for (parameter, unit, mean, square), rise in zip(
            parts, (u.T @ slope, -slope.sum(axis=0)), strict=True
        ):
            mean[...] += 0.1 * (rise - mean)
            square[...] += 0.001 * (rise**2 - square)
            parameter[...] += (
                unit * rate * (mean / (1.0 - 0.9**step)) / (np.sqrt(square / (1.0 - 0.999**step)) + 1e-12)
            )
        x = features.sample(BATCH, rng) / by_x
    return np.asarray((white @ B).T, np.float64) / by_phi


def _linear_regression(features: Features | _Draws, phi: FloatArray) -> FloatArray:
    """Return the rows, (n, d), of the linear regression of the features on the activations phi x."""
    white = _whitening(features, phi)
    return np.asarray(_covariance_with_activations(features, phi) @ white @ white.T)


def _threshold_for_count(values: FloatArray, count: float, size: float) -> float:
    """Return a threshold that `count` of the `values` exceed, ties aside; `size` is their largest size.

    The threshold is half-way between values, so that rounding does not decide which are above. If the
    count-th largest value ties with the next one, it is half-way from these to the next larger value.
    """
    k = min(max(round(count), 1), values.size - 1)
    low, high = np.partition(values, [values.size - k - 1, values.size - k])[[-k - 1, -k]]
    tie = _ROUNDING * size
    if high - low <= tie:
        larger = values[values > high + tie]
        low, high = high, float(larger.min()) if larger.size else high + size
    # Not 0, where latents that read nothing are: rounding would turn them on.
    return float(0.5 * (low + high)) or 1e-6 * size


def _threshold_candidates(z: FloatArray, x: FloatArray, phi: FloatArray) -> FloatArray:
    """Return candidates for each latent's threshold, (4, n, count): thresholds, rates, F1, error saved.

    z, (samples, n), are the readings of latents for samples x of their features. A rate is the fraction of
    samples with the latent on. The error saved is the fall of the feature's squared error, summed over
    samples, by regression on the latent, times the squared length of the feature's column of `phi`.
    """
    count, n = z.shape
    grid = np.unique(np.geomspace(1, count - 1, CUTS).astype(int))
    size = grid.size + 3
    rates, f1, saved, cuts = np.zeros((4, n, size))
    for i in range(n):
        order = np.argsort(-z[:, i], kind="stable")
        read, values = z[order, i], x[order, i]
        tie = _ROUNDING * max(abs(read[0]), abs(read[-1]))
        counts = np.flatnonzero(read[:-1] - read[1:] > tie) + 1  # so many are above
        cuts[i] = read[0] + 1.0 + abs(read[0])  # never on, and where there are fewer counts
        if not counts.size:
            continue
        on = values != 0.0
        score = 2.0 * np.cumsum(on)[counts - 1] / (counts + on.sum())
        # Of regressions on those above: k mean^2 + covariance^2/variance, from centred sums.
        u = read - read.mean()
        first, second, cross, square = (
            np.cumsum(terms)[counts - 1] for terms in (values, u, u * values, u * u)
        )
        left = np.maximum(square - second**2 / counts, 0.0)
        slope = np.maximum(cross - second * first / counts, 0.0)
        better = np.divide(slope**2, left, out=np.zeros(left.size), where=left > 1e-9 * square)
        worth = first**2 / counts + better
        positions = np.searchsorted(counts, grid)
        positions = np.unique(np.r_[np.minimum(positions, counts.size - 1), score.argmax(), worth.argmax()])
        at, k = slice(1, positions.size + 1), counts[positions]
        cuts[i, at], rates[i, at] = 0.5 * (read[k - 1] + read[k]), k / count
        f1[i, at], saved[i, at] = score[positions], worth[positions]
    saved *= np.sum(phi**2, axis=0)[:, None]
    return np.stack([cuts, rates, f1, saved])


def _thresholds_per_latent(
    candidates: FloatArray, target_l0: FloatArray, latents: int
) -> tuple[list[FloatArray], list[Any]]:
    """Return lists (thresholds, owners) with an entry for each L0 for largest F1, then for least error.

    An entry of `thresholds` is (n,); one of `owners`, (latents,), has the indices of the features with a
    latent. The mean number of latents on is at most the L0, in `target_l0`. `candidates` are those of
    `_threshold_candidates`.
    """
    cuts, rates, f1, saved = candidates
    rows = np.arange(len(cuts))
    choices = [
        choice
        for worth in (f1, saved / max(float(saved.max()), 1e-300))
        for choice in _choose_columns(worth, rates, target_l0, latents)
    ]
    return [cuts[rows, at] for at, _ in choices], [owners for _, owners in choices]


def _choose_columns(worth: FloatArray, rates: FloatArray, target_l0: FloatArray, latents: int) -> list[Any]:
    """Return, for each of `target_l0`, (column of each row, chosen rows) of largest total worth.

    `worth` and `rates` are tables, (rows, columns); their first column is 0. The total rate of the `latents`
    chosen rows, at their columns, is at most the target. A row takes the column of largest
    worth - price * rate, the rows where this is largest are chosen, and the price is adjusted to the target;
    at ties, as many rows take the larger rate as the target allows. Other rows take the first column.
    """
    rows, choices = np.arange(len(worth)), []

    def best(price: float) -> Any:
        """Return for each row the column of largest worth - price rate, and the rows that count."""
        gains = worth - price * rates
        at = np.argmax(gains, axis=1)
        return at, np.sort(np.argsort(-gains[rows, at], kind="stable")[:latents])

    def total(at: Any, owners: Any) -> float:
        """Return the total rate of the rows that count."""
        return float(rates[owners, at[owners]].sum())

    for wanted in target_l0:
        low, high = 0.0, 15.0  # prices are their hyperbolic sines: of too many on, and of few enough
        if total(*best(0.0)) <= wanted:
            high = 0.0
        for _ in range(60 if high else 0):
            middle = 0.5 * (low + high)
            if total(*best(np.sinh(middle))) > wanted:
                low = middle
            else:
                high = middle
        fewest, owners = best(np.sinh(high))
        many, _ = best(np.sinh(low))
        # At the price between, both are as good: so many rows take the larger one as make up the number.
        extra_rate = np.cumsum(rates[owners, many[owners]] - rates[owners, fewest[owners]])
        taken = np.where(extra_rate <= wanted - total(fewest, owners), many[owners], fewest[owners])
        at = np.zeros(rows.size, int)
        at[owners] = taken
        choices.append((at, owners))
    return choices


def _f1_of_normal_noise(
    features: Features | _Draws, phi: FloatArray, W: FloatArray, target_l0: FloatArray
) -> FloatArray:
    """Return the mean F1 at each of `target_l0` for latents of one threshold, if their noise were normal.

    The noise of row w_i of W is the sum over the other features j of w_i . phi_j x_j. The threshold gives
    the mean number `target_l0` of latents on. All are nan for draws and for features that are not
    independent.
    """
    if isinstance(features, _Draws) or not features.independent:
        return np.full(target_l0.size, np.nan)
    n, values = len(W), features.values
    sample = np.unique(np.linspace(0, n - 1, min(n, NORMAL)).astype(int))
    read, rows = W[sample] @ phi, np.arange(sample.size)
    is_read = read[rows, sample] > 0.5  # 1, or 0 of rows that do not read their feature
    read[rows, sample] = 0.0
    scale, chances = features.scale[sample], features.p[sample]
    mean = (read @ features.mean) / scale
    size = np.sqrt(read**2 @ features.variance) / scale + _ROUNDING
    zero = sum(chance for value, chance in values.atoms if value == 0.0)

    def shares(t: float) -> FloatArray:
        """Return the probability that each latent is above the threshold t."""
        return np.array(
            [
                share_above(values, t / scale[i] - mean[i], size[i], chances[i]) if is_read[i] else 0.0
                for i in rows
            ]
        )

    low, high = values.reach_with_zero
    ends = [scale * (mean + end + side * 40.0 * size) for end, side in ((low, -1.0), (high, 1.0))]
    thresholds = []
    for l0 in target_l0:
        wanted = min(float(l0) / n, 0.999 * float(is_read.mean())) * sample.size
        if not wanted > 0.0:
            thresholds.append(0.0)
            continue
        t = brentq(lambda t, wanted=wanted: shares(t).sum() - wanted, ends[0].min(), ends[1].max(), xtol=1e-9)
        share = shares(t)
        on = chances * (1.0 - zero)
        hits = np.where(is_read, share - (1.0 - on) * ndtr((mean - t / scale) / size), 0.0)
        thresholds.append(float(np.mean(2.0 * hits / (share + on))))
    return np.array(thresholds)


class _Latents(NamedTuple):
    """Latents with thresholds on readings z: gain and bias of their activations, gain z + bias where on.

    `known` and `anew` are the activations, sparse, on the samples that fix thresholds and on fresh ones.
    """

    gain: FloatArray
    bias: FloatArray
    known: Any
    anew: Any


class _Autoencoder(NamedTuple):
    """An autoencoder: features of its latents, rows W, thresholds t on readings, decoder V, bias b."""

    owners: Any
    W: FloatArray
    t: FloatArray
    latents: _Latents
    V: FloatArray
    b: FloatArray

    def model(self) -> Model:
        """Return the autoencoder as a `Model` with JumpReLU latents."""
        gain, bias = self.latents.gain, self.latents.bias
        thresholds = np.maximum(gain * self.t + bias, 0.0)
        return Model(gain[:, None] * self.W, b_in=bias, hidden="jumprelu", W_out=self.V, b=self.b,
                     output="identity", thresholds=thresholds)  # fmt: skip


def _fit_latents(
    W: FloatArray, phi: FloatArray, known: Any, fresh: Any, cuts: list[FloatArray], chosen: list[Any]
) -> list[_Latents]:
    """Return the fitted `_Latents` for each entry of `cuts`, thresholds (n,), and of `chosen`, owners.

    Owners are the indices of the features with a latent. A latent's activation is the regression of its
    feature i on the reading W_i . (phi x), fitted on the samples `known`; the result has the activations on
    `known` and on the samples `fresh`. `phi` has a feature's direction in each column.
    """
    parts: list[list[_Latents]] = [[] for _ in cuts]
    for columns in _blocks_of_latents(np.unique(chosen), known.shape[0]):
        z, anew = _readings(W[columns], phi, known, fresh)
        x = _dense_columns(known, columns)
        for part, t, owners in zip(parts, cuts, chosen, strict=True):
            is_owner = np.isin(columns, owners)
            part.append(
                _fit_regression(z[:, is_owner], anew[:, is_owner], x[:, is_owner], t[columns[is_owner]])
            )
    latents = []
    for some_of in parts:
        gain, bias = (
            np.concatenate([getattr(block, name) for block in some_of]) for name in ("gain", "bias")
        )
        of_known, of_fresh = (
            hstack([getattr(block, name) for block in some_of], "csr") for name in ("known", "anew")
        )
        latents.append(_Latents(gain, bias, of_known, of_fresh))
    return latents


def _fit_regression(z: FloatArray, anew: FloatArray, x: FloatArray, t: FloatArray) -> _Latents:
    """Return latents of thresholds t, whose activations are regressions of features x on readings z.

    z and x are (samples, latents), t is (latents,); `anew` has the readings of fresh samples.
    """
    size = np.maximum(np.abs(z).max(axis=0), np.abs(anew).max(axis=0)) + np.abs(t)
    rows, of = np.nonzero(is_above(z, t, size, x.shape[1]))
    read, target, n = z[rows, of], x[rows, of], z.shape[1]

    def sums(values: FloatArray) -> FloatArray:
        """Return for each latent the sum of `values` over the samples where it is on, (n,)."""
        return np.asarray(np.bincount(of, values, n), float)

    count = np.maximum(np.bincount(of, minlength=n), 1)
    mean_z, mean_x = sums(read) / count, sums(target) / count
    centred = read - mean_z[of]
    square = sums(centred**2)
    moves = square > count * (_ROUNDING * size) ** 2  # not where one value is read, but for rounding
    gain = np.where(moves, sums(centred * target) / np.where(moves, square, 1.0), 0.0)
    gain = np.maximum(gain, SMALL)
    bias = np.maximum(mean_x - gain * mean_z, -gain * t)  # the threshold of a JumpReLU is not negative
    known = csr_array((gain[of] * read + bias[of], (rows, of)), shape=z.shape)
    rows, of = np.nonzero(is_above(anew, t, size, x.shape[1]))
    fresh = csr_array((gain[of] * anew[rows, of] + bias[of], (rows, of)), shape=anew.shape)
    return _Latents(gain, bias, known, fresh)


def _make_autoencoder(
    W: FloatArray, phi: FloatArray, x: Any, t: FloatArray, owners: Any, latents: _Latents, fitted: bool
) -> _Autoencoder:
    """Return the autoencoder of the features `owners`, with their rows of W, thresholds t and `latents`.

    The decoder is the regression of the activations phi x on the latents, over samples x, if `fitted`, else
    the columns of `phi`.
    """
    h, size, n = latents.known, x.shape[0], owners.size
    mean_h, mean_a = np.asarray(h.sum(axis=0)) / size, phi @ np.asarray(x.mean(axis=0))
    V = phi[:, owners]
    if fitted:
        joint = (h.T @ h).toarray() / size
        ridge = 1e-9 * float(joint.trace()) / n or 1.0
        joint -= np.outer(mean_h, mean_h)
        joint[np.diag_indices_from(joint)] += ridge
        V = np.linalg.solve(joint, (h.T @ x) @ phi.T / size - np.outer(mean_h, mean_a)).T
    return _Autoencoder(owners, W[owners], t[owners], latents, V, mean_a - V @ mean_h)


class Scores(NamedTuple):
    """Mean number of latents on (L0), mean F1 and squared error of an autoencoder, and their errors."""

    l0: float
    f1: float
    mse: float
    l0_error: float
    f1_error: float
    mse_error: float


def _exact_scores(sae: Model, features: Features, phi: FloatArray, owners: Any) -> Scores:
    """Return the exact `Scores` of `sae` on the activations phi x of the features x.

    `owners` has for each latent the index of the feature for which its F1 is computed.
    """
    measures = measure(sae, features, phi)
    error = measures.firing_error * sae.n_hidden
    return Scores(
        float(measures.l0.sum()),
        float(measures.f1[np.arange(owners.size), owners].mean()),
        measures.mse,
        error,
        error,
        measures.mse_error,
    )


def _sampled_scores(sae: _Autoencoder, phi: FloatArray, x: Any) -> Scores:
    """Return the `Scores` of an autoencoder on the activations phi x of the fresh samples x."""
    h = sae.latents.anew
    left = x @ phi.T - h @ sae.V.T - sae.b
    fires = csr_array((np.ones(h.nnz), h.indices, h.indptr), shape=h.shape)
    return _scores_by_batches(fires, x[:, sae.owners], np.einsum("ij,ij->i", left, left))


def _scores_by_batches(fires: Any, x: Any, squares: FloatArray) -> Scores:
    """Return `Scores` with standard errors, that of F1 by the jackknife over batches.

    `fires`, (samples, latents), is sparse, 1 where a latent is on; `x`, (samples, latents), has the values of
    the latents' features, and `squares`, (samples,), the squared errors.
    """
    on = csr_array(x)
    on = csr_array((np.ones(on.nnz), on.indices, on.indptr), shape=on.shape)
    batches = np.array_split(np.arange(len(squares)), BATCHES)
    hits, fired, is_on = (
        np.array([batch_counts[at[0] : at[-1] + 1].sum(axis=0) for at in batches])
        for batch_counts in (fires.multiply(on).tocsr(), fires, on)
    )

    def f1(hits: FloatArray, fired: FloatArray, is_on: FloatArray) -> float:
        """Return the mean over latents of F1 = 2 hits/(fired + there), each an array of counts, (latents,).

        They count samples with the latent and its feature on (`hits`), the latent (`fired`), the feature
        (`is_on`).
        """
        total = fired + is_on  # 0 for a feature that was never on and a latent that never was: left out
        return float(np.mean(2.0 * hits[total > 0.0] / total[total > 0.0])) if np.any(total > 0.0) else np.nan

    f1_all = f1(*(batch_counts.sum(axis=0) for batch_counts in (hits, fired, is_on)))
    without = np.array(
        [
            f1(*(batch_counts.sum(axis=0) - batch_counts[k] for batch_counts in (hits, fired, is_on)))
            for k in range(BATCHES)
        ]
    )
    f1_error = np.sqrt((BATCHES - 1) * np.mean((without - without.mean()) ** 2))
    counts = np.asarray(fires.sum(axis=1))
    root = np.sqrt(len(squares))
    return Scores(
        l0=float(counts.mean()),
        f1=f1_all,
        mse=float(squares.mean()),
        l0_error=float(counts.std() / root),
        f1_error=float(f1_error),
        mse_error=float(squares.std() / root),
    )


def _pursuit(phi: FloatArray, owners: Any, known: Any, fresh: Any, target_l0: FloatArray) -> FloatArray:
    """Return scores of matching pursuit at each L0, (target_l0.size, 6).

    A row has the six `Scores`. The atoms are the columns `owners` of `phi`. Pursuit stops where no inner
    product of the residual with an atom exceeds a threshold. The samples `known` fix the threshold so that
    the mean number of atoms is the L0 of `target_l0`; the samples `fresh` evaluate.
    """
    steps = min(2 * owners.size, int(2.0 * target_l0.max()) + 10)
    _, least, new, _ = _pursuit_path(phi, owners, known, steps)
    size = float(least.max()) or 1.0
    flat = np.where(new, least, -size).ravel()
    atoms, least, new, squares = _pursuit_path(phi, owners, fresh, steps)
    results = []
    for l0 in target_l0:
        taken = least > max(_threshold_for_count(flat, l0 * known.shape[0], size), 0.0)
        rows, at = np.nonzero(taken & new)
        fires = csr_array((np.ones(rows.size), (rows, atoms[rows, at])), shape=(fresh.shape[0], owners.size))
        left = np.take_along_axis(squares, taken.sum(axis=1)[:, None], axis=1)[:, 0]
        results.append(_scores_by_batches(fires, fresh[:, owners], left))
    return np.array(results)


def _pursuit_path(
    phi: FloatArray, owners: Any, x: Any, steps: int
) -> tuple[Any, FloatArray, Any, FloatArray]:
    """Return (atom, least inner product so far, whether the atom is new, squared norms) of pursuit's steps.

    Matching pursuit of the activations phi x has the columns `owners` of `phi`, scaled to length 1, as atoms.
    A step replaces the residual r by r - (d . r) d for the atom d of largest d . r. Arrays are (samples,
    steps), atoms as indices; the squared norms of r have one more column, for r before the first step. Inner
    products of over 2048 features are in single precision.
    """
    count, n = x.shape
    norms = np.linalg.norm(phi[:, owners], axis=0)
    kind: Any = np.float64 if n <= DENSE else np.float32
    atoms: Any = np.asarray(phi[:, owners] / np.where(norms > 0.0, norms, 1.0), kind)
    gram = atoms.T @ atoms
    taken, size = np.zeros((count, steps), int), np.zeros((count, steps))
    new, left = np.zeros((count, steps), bool), np.zeros((count, steps + 1))
    many = count if n <= DENSE else max(1, CELLS // (4 * n))
    for first in range(0, count, many):
        samples = slice(first, min(first + many, count))
        a = np.asarray(x[samples] @ phi.T)
        unit = _float32_unit(float(np.abs(a).max(initial=0.0)))
        inner = np.asarray(a / unit, kind) @ atoms
        seen, rows = np.zeros(inner.shape, bool), np.arange(len(a))
        left[samples, 0] = np.sum(a**2, axis=1)
        for k in range(steps):
            taken[samples, k] = best = np.argmax(inner, axis=1)
            size[samples, k] = step = np.maximum(inner[rows, best], 0.0)
            size[samples, k] *= unit
            new[samples, k] = ~seen[rows, best]
            seen[rows, best] = True
            inner -= step[:, None] * gram[best]
            left[samples, k + 1] = np.maximum(left[samples, k] - size[samples, k] ** 2, 0.0)
    return taken, np.minimum.accumulate(size, axis=1), new, left

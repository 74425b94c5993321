"""Error, L0, F1 and firing of a sparse autoencoder, in any form, on known features."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ...solvers import sae as solver
from ...solvers.deadline import Deadline
from ...solvers.loss.network.time_limit import OutOfTime
from ...solvers.sae.optimum import ABSORBED
from ...theory.features import Features, as_features
from ...theory.model import Model
from ...theory.validation import FloatArray, count_noun, number, short_repr
from ..experiments.drawing import DIVERGING
from ..loading import model_of
from ..loading.models import require_autoencoder
from .answer import Answer, Certainty, certainty_with, law_in_words, sampled_or_exact
from .entry import entry

__all__ = ["draw_f1", "sae"]

_SECONDS = 60.0  # of exact sums, above which samples are taken
_UNCERTAIN = 1e-4  # error of a probability that is said
_SAMPLES, _FRESH = 20_000, 400_000  # of an objective in descents, where it is sampled, and at their ends
_TOL = 1e-6  # of an objective that is exact
_CALLS, _SHORT = 20, 0.5  # an exact objective is called so often in a descent, or takes so few seconds
_STARTS = 8  # of the search for a better autoencoder
_SAME = 1e-6  # difference of objectives, as a share of the error of rebuilding nothing, that is none
_SAMPLED_PAIR = 1e-3  # probability of a pair that 100 of 100,000 samples hold

_SOURCES = (
    "Chanin et al. (2024), A is for Absorption, arXiv 2409.14507: feature absorption",
    "Chanin et al. (2025), Feature Hedging, arXiv 2505.11756: narrow autoencoders mix correlated features",
    "superposition, page `sae`: how the expectations are taken without samples",
)


@entry
def sae(
    model: Any, law: Any, dictionary: Any = None, *, target: Any = None,
    prefixes: Sequence[int] | None = None, tol: float = 1e-3, l1: float | None = None,
    l0: float | None = None, seconds: float = 20.0,
) -> Answer:  # fmt: skip
    r"""Return error, L0, F1 and firing of a sparse autoencoder on known features, without sampling.

    >>> import numpy as np
    >>> arrays = {"W_enc": np.eye(3), "W_dec": np.eye(3), "b_enc": -0.1 * np.ones(3), "b_dec": np.zeros(3)}
    >>> answer = sae(arrays, 0.1)
    >>> round(answer.mse, 6), answer.l0.round(12), answer.match
    (0.0028, array([0.09, 0.09, 0.09]), array([0, 1, 2]))

    Parameters
    ----------
    model : Model, mapping, torch.nn.Module or path
        The autoencoder, as `Model.of` takes it: arrays by name, a live object or a SAELens folder.
    law : Features or float
        Law of the features x.
    dictionary : (d, n_features) array_like, optional
        The dictionary :math:`\Phi`: activations are :math:`\Phi x`. By default the identity.
    target : (d_out, n_features) array_like, optional
        The matrix T of a transcoder or crosscoder, whose output should be T x instead of the activations.
    prefixes : sequence of int, optional
        For each number k, the squared error with the first k latents alone is added (Matryoshka).
    tol : float, optional
        Error of E h_i h_j to aim at for each pair of latents, over the product of the root mean squares of
        their pre-activations. The squared error is a sum of such means; with few features it is exact.
    l1, l0 : float, optional
        Strengths of the penalties that it was trained with, those of `solvers.sae.AutoencoderObjective`. With
        one of them ``verdict`` and ``advice`` say whether the autoencoder is at the optimum of squared error
        and penalties: "unfinished" (descent from it goes on down), "stuck" (a search found a better one),
        "best known", or "not known" (the seconds ran out). Beside them are ``objective``, ``descended`` and
        ``best_known``.
    seconds : float, optional
        Budget for that: half for the descent, half for a search from other starts.

    Returns
    -------
    Answer
        The fields and methods of `solvers.sae.Autoencoder`. ``mse`` is summed over coordinates; beside it is
        ``explained_variance``. Of each latent there are ``l0`` (probability that it is on), ``l1`` (mean) and
        ``dead`` (never on); of shape (n_latents, n_features) ``fires`` (probability that a latent is on,
        given that a feature is; ``recall`` too), ``precision``, ``f1`` and ``cosines`` of decoder and
        dictionary; ``match`` has each feature's latent, or -1. ``absorbed(i, j)`` is by how much less the
        latent of feature i is on where feature j is on, ``absorption()`` the matrix of these. ``method``:
        "exact", or "samples" where exact sums would take more than a minute, for laws with too many joint
        patterns of exactly k features, or with values that have no transform: then all are means over 100,000
        samples, with four standard errors as errors.
    """
    autoencoder = require_autoencoder(model_of(model))
    measures = _exact_or_sampled(autoencoder, law, dictionary, target, prefixes, tol)
    latents, n = measures.f1.shape
    matched = measures.match >= 0
    best = np.where(matched, measures.f1[measures.match, np.arange(n)], 0.0)
    mse = measures.mse if measures.mse > measures.mse_error else 0.0
    spread = mse / (1.0 - measures.explained_variance) if measures.explained_variance < 1.0 else 0.0
    is_sampled = measures.method == "samples"
    certainty, note = (
        sampled_or_exact(True) if is_sampled else certainty_with(mse, measures.mse_error, spread)
    )
    todo = "The error is large next to the value: compare with a mean over law.sample(…), or lower `tol`."
    # Probabilities of many features may be uncertain where thresholds lie among atoms.
    doubt = measures.firing_error > _UNCERTAIN
    rates = f"; each probability off by up to {measures.firing_error:.1g}" if doubt else ""
    off = "sampled: four standard errors are" if is_sampled else "off by about"
    lines = (
        f"{count_noun(latents, 'latent')}, {count_noun(n, 'feature')}; {law_in_words(as_features(law, n))}",
        f"mean squared error     {mse:.6g}, {off} {measures.mse_error:.1g}",
        f"explained variance     {100 * measures.explained_variance:.4g} %",
        f"latents on             {measures.l0.sum():.4g} of {latents}, "
        f"dead {int(measures.dead.sum())}{rates}",
        f"features on            {measures.p.sum():.4g} of {n}",
        *_f1_lines(best, matched, latents),
        *_absorption_lines(measures),
        *(
            f"{'first ' + count_noun(size, 'latent'):23}squared error {part:.6g}"
            for size, part in zip(prefixes or (), measures.prefix_mse, strict=True)
        ),
        *[todo] * (certainty is Certainty.COMPUTED),
    )
    verdict = {}
    if l1 is not None or l0 is not None:
        if target is not None:
            raise ValueError(f"`target` must be None with `l1` or `l0`; got {short_repr(target)}.")
        seconds = number("seconds", seconds, 0.0)
        verdict = _verdict(autoencoder, law, dictionary, l1 or 0.0, l0 or 0.0, seconds)
        size = (
            f"{verdict['objective']:.6g}"
            + f", standard error {verdict['objective_error']:.1g}" * verdict["is_sampled"]
        )
        lines += (f"objective              {size}", f"{verdict['verdict']}. {verdict['advice']}")
        if prefixes:
            lines += ("Errors of prefixes are no part of that objective; AutoencoderObjective has them.",)
    data = xr.Dataset(
        {
            **{
                name: (("latent", "feature"), getattr(measures, name))
                for name in ("f1", "precision", "recall", "fires", "cosines")
            },
            **{name: ("latent", getattr(measures, name)) for name in ("l0", "l1", "dead")},
            **{name: ("feature", getattr(measures, name)) for name in ("match", "p")},
            "mse": measures.mse,
        }
    )
    return Answer(lines, certainty, note, _SOURCES, measures, data, draw_f1, _added=verdict)


def _verdict(
    autoencoder: Model, law: Any, dictionary: Any, l1: float, l0: float, seconds: float
) -> dict[str, Any]:
    """Return by name the verdict on an autoencoder, advice, and objectives: its own and lower ones found.

    The objective is the expected squared error, plus `l1` times the sum of the latents' means, each times the
    length of its decoder column, plus `l0` times the L0, for activations `dictionary` x (None: x) with x of
    the `law`. Keys are "verdict", "advice", "objective", "objective_error", "descended", "best_known"
    (numbers) and "is_sampled". Half of the `seconds` is for a descent from the autoencoder, the rest for a
    search. Objectives are means over samples if exact ones are too slow for a descent; the verdict compares
    them on fresh samples.
    """
    phi = np.eye(autoencoder.n_features) if dictionary is None else dictionary
    budget = seconds / 2
    objective = solver.AutoencoderObjective(
        law, phi, l1=l1, l0=l0, tol=_TOL, seconds=max(budget / _CALLS, _SHORT), samples=_SAMPLES
    )
    method = objective(autoencoder).method
    bias, deadline = bool(np.any(autoencoder.b)), Deadline(budget)
    descended, _ = solver.descend(objective, autoencoder, decoder_bias=bias, seconds=deadline)
    is_over = deadline.is_over()
    search = solver.best_autoencoder(
        objective, autoencoder.n_hidden, hidden=autoencoder.hidden, decoder_bias=bias, starts=_STARTS,
        seconds=budget, progress=False,
    )  # fmt: skip
    fresh = solver.AutoencoderObjective(
        law, phi, l1=l1, l0=l0, tol=_TOL, method=method, samples=_FRESH, rng=1
    )
    now, low, best = (fresh(sae, gradient=False) for sae in (autoencoder, descended, search.sae))
    is_sampled = method == "samples"
    nothing = float(np.sum(np.asarray(phi) ** 2 @ objective.law.second_moment))
    errors = now.error_estimate + max(low.error_estimate, best.error_estimate)
    margin = _SAME * nothing + (4.0 if is_sampled else 1.0) * errors
    known = min(now.value, low.value, best.value)
    of_search = f"{count_noun(search.starts, 'start')} of a search"
    if now.value - low.value > margin:
        verdict = "unfinished"
        advice = f"Train on: descent from here goes down by {now.value - low.value:.3g} at least"
        advice += f"; {of_search} reached {known:.6g}." if low.value > known + margin else "."
    elif now.value - known > margin:
        verdict = "stuck"
        advice = (
            f"Start again from other weights: {of_search} reached {known:.6g}, {now.value - known:.3g} below."
        )
    elif is_over:
        verdict = "not known"
        advice = f"Give it more `seconds`: a descent from here had not ended, nor gone down by {margin:.1g}."
    else:
        verdict = "best known"
        advice = f"Leave it: neither descent nor {of_search} went lower by {margin:.1g}."
    return {
        "verdict": verdict, "advice": advice, "objective": now.value, "objective_error": now.error_estimate,
        "descended": low.value, "best_known": known, "is_sampled": is_sampled,
    }  # fmt: skip


def _exact_or_sampled(
    autoencoder: Model, law: Any, dictionary: Any, target: Any, prefixes: Any, tol: float
) -> solver.Autoencoder:
    """Return error, L0, F1 and firing of an autoencoder: exact, or means over samples.

    Samples are taken if the law has no exact sums, or if these need more than a minute. `dictionary` has the
    features' directions as columns; `target` is a matrix T, if outputs should be T x instead; for each k of
    `prefixes` the error with the first k latents alone is added. `tol` is that of `sae`.
    """
    number("tol", tol, 0.0, 1.0, brackets="()")
    try:
        return solver.measure(
            autoencoder, law, dictionary, target=target, prefixes=prefixes, tol=tol, time_limit=_SECONDS
        )
    except OutOfTime:
        pass
    except ValueError:
        if not isinstance(law, Features) or law.has_exact_sums:
            raise
    return solver.measure_samples(autoencoder, law, dictionary, target=target, prefixes=prefixes)


def _f1_lines(best: FloatArray, matched: Any, latents: int) -> list[str]:
    """Return the lines on F1: its mean over all features, and its mean and least over matched features.

    `best` (n_features,) is each feature's F1 with its latent, 0 without one; `matched` (n_features,) says
    whether the feature has a latent of its own. `latents` is the number of latents, which limits the mean if
    features are more.
    """
    features, n = np.flatnonzero(matched), matched.size
    if features.size == n:
        worst = int(best.argmin())
        return [f"F1 of matched latents  mean {best.mean():.4g}, worst {best[worst]:.4g} (feature {worst})"]
    latent = "a latent of its own" if n - features.size == 1 else "a latent of their own"
    most = f"; at most {latents / n:.4g} with {count_noun(latents, 'latent')}" if latents < n else ""
    of_all = (
        f"mean {best.mean():.4g} over {count_noun(n, 'feature')}, {n - features.size} of them without "
        f"{latent}{most}"
    )
    if not features.size:
        return [f"F1                     {of_all}"]
    worst = int(features[best[features].argmin()])
    of_some = f"mean {best[features].mean():.4g}, worst {best[worst]:.4g} (feature {worst})"
    return [f"F1                     {of_all}", f"F1 of matched latents  {of_some}"]


def _absorption_lines(measures: solver.Autoencoder) -> list[str]:
    """Return the line on the largest absorption of pairs of features on together more often than by chance.

    Absorption is P(latent of i on | i on, j off) - P(latent of i on | i on, j on), for features i and j. The
    list is empty if there is no such pair, or no estimate for one. `measures` are those of the autoencoder.
    """
    p, pairs = measures.p, measures.pairs
    is_pair = pairs > (1.0 + 1e-9) * np.outer(p, p)
    if measures.method == "samples":
        is_pair &= pairs > _SAMPLED_PAIR
    absorption = np.where(is_pair, measures.absorption(), np.nan)
    if np.isnan(absorption).all():
        return []
    parent, child = np.unravel_index(np.nanargmax(absorption), absorption.shape)
    largest, count = absorption[parent, child], int((absorption >= ABSORBED).sum())
    if largest <= measures.firing_error:
        return ["absorption             none"]
    many = f"; {count_noun(count, 'pair')} at {ABSORBED:g} or more" if count > 1 else ""
    return [f"absorption             largest {largest:.4g} (feature {parent} by feature {child}){many}"]


def draw_f1(data: xr.Dataset, ax: Axes, what: str = "f1") -> Axes:
    """Draw the (latent, feature) matrix `what`: "f1", "fires", "precision", "recall" or "cosines".

    `data` is the dataset of an answer of `sae`, which has these matrices. "fires" is the probability that a
    latent is on where a feature is, "cosines" are those of decoder columns with features. Return `ax`.
    """
    values = data[what].values
    low = -1.0 if what == "cosines" else 0.0
    picture = ax.imshow(
        values, cmap=DIVERGING if low else "Blues", vmin=low, vmax=1.0, interpolation="nearest", aspect="auto"
    )
    ax.set(xlabel="feature", ylabel="latent", title={"f1": "F1"}.get(what, what))
    ax.grid(False)
    ax.figure.colorbar(picture, ax=ax)
    return ax

"""Scores of decoders with known features and dictionary: a scale for sparse autoencoders."""

from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from ...solvers.sae import Ceiling
from ...solvers.sae import ceiling as reached
from ...theory.validation import count_noun
from ..experiments.sae import plot_reached
from .answer import Answer, Certainty
from .entry import entry

__all__ = ["ceiling"]

_SOURCES = (
    "Rajamanoharan et al. (2024), arXiv 2407.14435: JumpReLU autoencoders",
    "Mallat and Zhang (1993), Matching pursuits with time-frequency dictionaries",
    "superposition, page `sae`: which decoders these are, and what is not proved of them",
)


@entry
def ceiling(
    law: Any,
    dictionary: npt.ArrayLike,
    l0: npt.ArrayLike | None = None,
    *,
    latents: int | None = None,
    samples: int = 10_000,
    rng: Any = 0,
) -> Answer:
    r"""Return the error and F1 of decoders that know the features and the dictionary, at each L0.

    >>> import numpy as np
    >>> from superposition.theory.features import Features
    >>> angles = np.pi * np.arange(3) / 3
    >>> print(ceiling(Features(3, 0.1), [np.cos(angles), np.sin(angles)], l0=[0.2, 0.3]))
    3 features in 2 dimensions, 0.3 on; one latent each, F1 is their mean
    L0     F1, one step      error, one step   F1, pursuit       error, pursuit
    0.2    0.7769            0.005763          0.771 ± 0.006     0.00389 ± 0.0002
    0.3    0.871             0.003978          0.947 ± 0.003     0.00039 ± 5e-05
    Linear rows, common threshold, L0 0.3: F1 0.662; normal interference: 0.757

    Parameters
    ----------
    law : Features, float, or (count, n_features) array or sparse array
        Law of the features x; or draws of them, such as those of a benchmark's own generator.
    dictionary : (d, n_features) array_like
        The dictionary :math:`\Phi`: activations are :math:`\Phi x`.
    l0 : float or sequence of float, optional
        Expected numbers of latents that are on; by default from a half to twice the expected number of
        features that are.
    latents : int, optional
        Number of latents, at most n_features; by default as many. If they are fewer, the features with a
        latent of their own are those with the largest score (F1, or the error saved) at that L0.
    samples : int, optional
        Number of draws that fix thresholds and regressions; as many others evaluate the decoders that are not
        evaluated exactly. If `law` is draws, half of them at most: ``samples=len(law) // 2`` takes all.
    rng : Generator or int, optional
        Draws the samples.

    Returns
    -------
    Answer
        The fields of `solvers.sae.Ceiling`. ``decoders`` names them: encoders in one step, of rows of the
        dictionary, linear or logistic regression or training, with one of three choices of thresholds each;
        and matching pursuit. Arrays of shape (decoders, L0s) are ``l0`` (as reached), ``f1`` (mean over
        latents of the F1 for each one's feature), ``mse`` (summed over coordinates),
        ``explained_variance``, ``mcc`` and ``uniqueness`` (of the decoder's columns, as in SAELens) and the
        errors ``l0_error``, ``f1_error``, ``mse_error``; ``owners`` (decoders, L0s, latents) has the feature
        of each latent, ``models`` the autoencoders of the one-step decoders. `to_frame` has a row for each
        decoder and L0, with its certainty; `plot` draws ``what="f1"``, "mse" or "explained_variance".
    """
    attained = reached(law, dictionary, l0, latents=latents, samples=samples, rng=rng)
    exact = bool(attained.exact[0])
    error = "± one standard error; attained, not proved to be the best"
    samples_note = f"on {attained.samples:,} samples, {error}"
    kinds = ["exact" if is_exact else "measured" for is_exact in attained.exact]
    names = (
        "l0", "f1", "mse", "l0_error", "f1_error", "mse_error", "explained_variance", "mcc", "uniqueness",
    )  # fmt: skip
    data = xr.Dataset(
        {
            **{name: (("decoder", "target_l0"), getattr(attained, name)) for name in names},
            "certainty": ("decoder", kinds),
        },
        {"decoder": list(attained.decoders), "target_l0": attained.target_l0},
    )
    certainty = Certainty.EXACT if exact else Certainty.MEASURED
    note = f"for one step; pursuit measured {samples_note}" if exact else samples_note
    lines = tuple(_summary_lines(attained, np.shape(dictionary)))
    return Answer(lines, certainty, note, _SOURCES, attained, data, plot_reached)


def _summary_lines(attained: Ceiling, shape: tuple[int, ...]) -> list[str]:
    """Return the lines of the answer `attained`: a table of F1 and error at each L0, and notes.

    At each L0 the table has the best F1 and the least error of the decoders in one step, and both of matching
    pursuit. `shape` is that of the dictionary, (dimensions, features).
    """
    d, n = shape
    used = 2 * attained.samples
    size = f"{count_noun(n, 'feature')} in {count_noun(d, 'dimension')}"
    latents = attained.owners.shape[-1]
    whose = "one latent each" if latents == n else count_noun(latents, "latent")
    lines = [
        f"{size}, {attained.mean_active:.4g} on; {whose}, F1 is their mean",
        f"{'L0':7}{'F1, one step':18}{'error, one step':18}{'F1, pursuit':18}error, pursuit",
    ]
    for k, target in enumerate(attained.target_l0):
        best, least = int(attained.f1[:-1, k].argmax()), int(attained.mse[:-1, k].argmin())
        cells = [
            f"{value:.3g} ± {error:.1g}" if measured else f"{value if value > error else 0.0:.4g}"
            for value, error, measured in (
                (attained.f1[best, k], attained.f1_error[best, k], not attained.exact[best]),
                (attained.mse[least, k], attained.mse_error[least, k], not attained.exact[least]),
                (attained.f1[-1, k], attained.f1_error[-1, k], True),
                (attained.mse[-1, k], attained.mse_error[-1, k], True),
            )
        ]
        lines.append((f"{target:<7.4g}" + "".join(f"{cell:18}" for cell in cells)).rstrip())
    at = int(np.argmin(np.abs(attained.target_l0 - attained.mean_active)))
    row = attained.decoders.index("linear, common threshold")
    if np.isfinite(attained.normal_f1[at]):
        seen, normal, l0 = attained.f1[row, at], attained.normal_f1[at], attained.target_l0[at]
        description = f"F1 {seen:.3g}; normal interference: {normal:.3g}"
        lines.append(f"Linear rows, common threshold, L0 {l0:.4g}: {description}")
    if attained.draws > used + 1:
        taken = f"{used:,} of {attained.draws:,} draws taken"
        lines.append(f"{taken}, half of them to evaluate; `samples` says how many")
    return lines

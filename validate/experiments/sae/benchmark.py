"""Scores of decoders that know law and dictionary, for the configurations of a benchmark of SAEs.

SynthSAEBench (Chanin and Garriga-Alonso 2026, arXiv 2602.14687) trains autoencoders of 4096 latents on 16,384
features in 256 to 1536 dimensions. Its settings are those of the authors' script
``experiments/sweeps/common.py`` in decoderesearch/synth-sae-bench-experiments.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from scipy.sparse import csr_array, vstack

from ....solvers import sae
from ....solvers.sae.ceiling import standard_errors_above
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.features import Features
from ....theory.features.copula import CopulaFeatures
from ...loading.synthetic import synthetic_dictionary, synthetic_law
from ...runner.declarations import Figure, ReproductionCheck, Run, Topic, TopicContent
from ..drawing import plot_function
from .ceiling import plot_reached


class Published(NamedTuple):
    """A published F1 of 4096 detectors on SynthSAEBench-16k, in 768 dimensions, at an L0 of about 25."""

    detectors: str
    f1: float
    digits: int
    """How many digits of `f1` were printed."""
    is_one_step: bool
    source: str


# Read in November 2026: two before any ceiling was stored, the others when the rows of the stored ones were
# fixed and these were being computed. Others print their scores in figures alone.
_POST = "Chanin (2026), LessWrong rbqJoxFZtae9x93mx"
_GIST = "bigsnarfdude (2026), gist d5e38c5aa45c9c21b76ed45d53c2f3a8 and its retrospective"
PUBLISHED = (
    Published("BatchTopK, 50 million samples", 0.6103, 4, True, _GIST),
    Published("Matryoshka, the paper's best", 0.88, 2, True, _POST),
    Published("logistic probes with labels", 0.97, 2, True, _POST),
    Published("LISTA and Matryoshka", 0.97, 2, False, _POST),
    Published("leave-one-out refinement", 0.989, 3, False, "Bussmann (2026), comment on the post"),
    Published("ISTA and Matryoshka", 0.9894, 4, False, _GIST),
)
_PUBLISHED_L0, _PUBLISHED_N_HIDDEN = 25.0, 768
_FEATURES_PER_ROOT = 128  # 128 roots of trees among 16,384 features
_DRAWS_AT_ONCE = 2000


def configuration(n_features: int, n_hidden: int, seed: int) -> dict[str, Any]:
    """Return settings of SynthSAEBench, by SAELens' keys, for these numbers of features and dimensions.

    The settings define how probabilities, hierarchy, magnitudes, correlation and directions of the features
    are drawn.
    """
    return {
        "num_features": n_features,
        "hidden_dim": n_hidden,
        "firing_probability": {
            "generator_name": "zipfian", "max_prob": 0.4, "min_prob": 5e-4, "exponent": 0.5,
        },
        "hierarchy": {
            "total_root_nodes": max(1, n_features // _FEATURES_PER_ROOT), "branching_factor": 4,
            "max_depth": 3, "mutually_exclusive_portion": 1.0, "mutually_exclusive_min_depth": 0,
            "compensate_probabilities": True, "scale_children_by_parent": True,
        },
        "mean_firing_magnitudes": {"generator_name": "linear", "start": 5.0, "end": 4.0},
        "std_firing_magnitudes": {"generator_name": "folded_normal", "mean": 0.5, "std": 0.5},
        "correlation": {"correlation_scale": 0.1, "rank": 25},
        "orthogonalization": {"num_steps": 100, "lr": 3e-4},
        "seed": seed,
    }  # fmt: skip


def sample_sparse(law: Features | CopulaFeatures, size: int, rng: np.random.Generator) -> Any:
    """Return `size` draws of the features of `law`, (size, n_features), as a sparse array."""
    sizes = [min(_DRAWS_AT_ONCE, size - k) for k in range(0, size, _DRAWS_AT_ONCE)]
    return vstack([csr_array(law.sample(count, rng)) for count in sizes], format="csr")


@as_annotated
def run_benchmark(
    n_hidden: Sequence[int] = (16,),
    l0: Sequence[float] = (1.0, 2.0),
    *,
    n_features: int = 128,
    latents: int = 32,
    samples: int = 1000,
    seed: int = 42,
) -> xr.Dataset:
    """Return scores that decoders of known directions reach in configurations of SynthSAEBench.

    Decoders and scores are those of `solvers.sae.ceiling`.

    Parameters
    ----------
    n_hidden : sequence of int
        Dimensions of the activations.
    l0 : sequence of float
        Expected numbers of latents that are on.
    n_features, latents : int
        Number of features, and of latents, which have the direction of one feature each.
    samples : int
        Number of samples that determine thresholds, and number of further ones that evaluate.
    seed : int
        Seed of dictionary and law, as SAELens draws them on a CPU, and of the samples.

    Returns
    -------
    xarray.Dataset
        Of (n_hidden, decoder, target_l0): ``l0``, ``f1`` (mean over latents), ``explained_variance``, each
        with its standard error (``l0_error`` and so on), ``mcc`` and ``uniqueness``. Of (n_hidden):
        ``mean_active``, the mean number of features on, and ``mean_max_cosine``, the mean over features of
        the largest absolute cosine with another one.

    Examples
    --------
    >>> ds = run_benchmark([4], [0.5], n_features=16, latents=4, samples=200)
    >>> float(ds["mcc"].sel(decoder="dictionary, common threshold").squeeze())
    1.0
    """
    n, latents = validation.integers(n_features=(n_features, 2), latents=(latents, 1))
    validation.integers(samples=(samples, 200), seed=(seed, 0))
    names = ("l0", "l0_error", "f1", "f1_error", "explained_variance", "mcc", "uniqueness")
    datasets = []
    for d in (validation.integer("n_hidden", size, 1) for size in n_hidden):
        settings = configuration(n, d, seed)
        draws = sample_sparse(synthetic_law(settings), 2 * samples, np.random.default_rng([1, seed]))
        phi = synthetic_dictionary(settings)
        ceiling = sae.ceiling(
            draws, phi, l0, latents=latents, samples=samples, rng=np.random.default_rng([2, seed])
        )
        largest = [_largest_cosines(phi, k) for k in range(0, n, _DRAWS_AT_ONCE)]
        # mse is 1 - explained variance in units of the variance of the activations.
        variance = ceiling.mse / (1.0 - ceiling.explained_variance)
        columns: dict[str, Any] = {
            name: (("decoder", "target_l0"), getattr(ceiling, name)) for name in names
        } | {
            "explained_variance_error": (("decoder", "target_l0"), ceiling.mse_error / variance),
            "mean_active": ceiling.mean_active,
            "mean_max_cosine": float(np.concatenate(largest).mean()),
        }
        coords = {"decoder": list(ceiling.decoders), "target_l0": list(l0), "n_hidden": d}
        datasets.append(xr.Dataset(columns, coords))
    attrs = {"n_features": n, "latents": latents, "samples": int(samples), "seed": int(seed)}
    return xr.concat(datasets, "n_hidden").assign_attrs(attrs)


def _largest_cosines(phi: Any, first: int) -> Any:
    """Return for up to 2000 columns of `phi`, from `first` on, the largest |cosine| with another column.

    Columns of `phi`, (dimensions, features), are of length 1.
    """
    cosines = np.abs(phi[:, first : first + _DRAWS_AT_ONCE].T @ phi)
    cosines[np.arange(len(cosines)), first + np.arange(len(cosines))] = 0.0
    return cosines.max(axis=1)


def f1_above(ds: xr.Dataset, n_hidden: int, l0: float, f1: float, f1_error: float = 0.0) -> float:
    """Return by how many standard errors a mean F1 exceeds that of all one-step decoders at the same L0.

    The decoders are those in `ds`, from `run_benchmark`, at `n_hidden` dimensions and the L0 `l0`, except
    matching pursuit; `f1_error` is the standard error of `f1`.
    """
    one_step = ds.sel(n_hidden=n_hidden).drop_sel(decoder="pursuit")
    l0s, scores, errors = (one_step[name].values for name in ("l0", "f1", "f1_error"))
    return standard_errors_above(l0s, scores, errors, l0, score=f1, error=f1_error)


def compare_published(ds: xr.Dataset) -> pd.DataFrame:
    """Return published F1s beside the best stored decoder of the same number of steps, at an L0 of 25.

    A row has the published detector and its F1, "one" or "more" steps, the best decoder and its F1, and the
    difference in standard errors. The errors are those of the stored score and of the printed one's rounding;
    they include neither the spread of published scores over seeds nor the change with the drawn directions.
    `ds` is from `run_benchmark` in 768 dimensions.
    """
    at, rows = ds.sel(n_hidden=_PUBLISHED_N_HIDDEN, target_l0=_PUBLISHED_L0), []
    for score in PUBLISHED:
        decoders = [
            name for name in ds["decoder"].values.tolist() if (name != "pursuit") == score.is_one_step
        ]
        best = at.sel(decoder=decoders)
        best = best.isel(decoder=int(np.argmax(best["f1"].values)))
        rounding = 10.0**-score.digits / np.sqrt(12.0)
        gap = score.f1 - float(best["f1"])
        rows.append(
            {
                "published": score.detectors,
                "F1": f"{score.f1:.{score.digits}f}",
                "steps": "one" if score.is_one_step else "more",
                "best known": best["decoder"].item(),
                "its F1": f"{float(best['f1']):.4f}",
                "above, in SE": f"{gap / np.hypot(rounding, float(best['f1_error'])):.0f}",
            }
        )
    return pd.DataFrame(rows)


@plot_function
def plot_benchmark(ds: xr.Dataset, ax: Axes, what: str = "f1") -> Axes:
    """Draw `what`, "f1" or "explained_variance", against L0 for each decoder, at the largest n_hidden.

    `ds` is from `run_benchmark`.
    """
    return plot_reached(ds.isel(n_hidden=int(np.argmax(ds["n_hidden"].values))), ax, what=what)


def _show_benchmark(ds: xr.Dataset) -> TopicContent:
    """Return text and figure of the report's part "benchmark", from `ds` of `run_benchmark`.

    The figure has mean F1 against L0 for each decoder, at the largest n_hidden. The text has the best F1 and
    explained variance of decoders of one step and of matching pursuit.
    """
    at = ds.isel(n_hidden=int(np.argmax(ds["n_hidden"].values)))
    one_step = at.drop_sel(decoder="pursuit")
    best = one_step["f1"].isel(one_step["f1"].argmax(...))
    text = (
        f"SynthSAEBench's law of {ds.attrs['n_features']:,} features, {float(at['mean_active']):.3g} on at "
        f"once, in {int(at['n_hidden'])} dimensions: each of {ds.attrs['latents']:,} latents is for one "
        f"feature, which is chosen for the score. Of encoders in one step that know law and dictionary the "
        f"best has a mean F1 of {float(best):.3f} ({best['decoder'].item()}, at L0 "
        f"{float(best['target_l0']):g}), the largest explained variance is "
        f"{float(one_step['explained_variance'].max()):.3f}; of matching pursuit "
        f"{float(at['f1'].sel(decoder='pursuit').max()):.3f} and "
        f"{float(at['explained_variance'].sel(decoder='pursuit').max()):.3f}. The directions are those that "
        "SAELens draws from the seed on a CPU; the published ones were drawn on a GPU."
    )
    caption = f"Means over {ds.attrs['samples']:,} samples, ± 1 SE; thresholds were fitted to other samples."
    return TopicContent(text, [Figure("benchmark", "What a benchmark leaves", caption, ds, plot_benchmark)])


_SETTINGS = {
    "n_hidden": [768], "l0": [15.0, 25.0, 35.0, 45.0], "n_features": 16_384,
    "latents": 4096, "samples": 20_000,
}  # fmt: skip
RUNS = {
    "benchmark": Run.shipped(
        "sae_benchmark",
        "scores of decoders that know law and dictionary of SynthSAEBench-16k",
        run_benchmark,
        _SETTINGS,
        torch=True,
        check=ReproductionCheck(
            {"l0": [25.0]},
            ["l0", "f1", "explained_variance", "mcc", "uniqueness"],
            1e-3,
            "processors round the steps of Adam that spread the directions differently",
        ),
    )
}
TOPICS = [Topic("benchmark", ["benchmark"], _show_benchmark)]

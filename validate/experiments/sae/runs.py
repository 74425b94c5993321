"""The best small autoencoders, by searches and in closed form, and decoders that know the dictionary."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import xarray as xr
from scipy.optimize import brentq

from ....solvers.sae import Objective, best_autoencoder, best_pair, ceiling, measure, phase
from ....theory import sae as theory
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.features import Features
from ....theory.sae.hedging import code_cost
from ...runner.declarations import from_rows

__all__ = ["run_hedging", "run_pairs", "run_reached"]

# Both features together, in units of one alone, between which the boundary is looked for.
LEAST, MOST = 1e-3, 1e3
# On both sides of it, as a factor, and by pairs whose atoms are at an angle from the features' directions,
# certificates say which kind is better.
BESIDE, NEAR = 1.1, 0.1


def _law(parent: float, child: float, both: float) -> Features:
    """Return two binary features with given probabilities of one alone, the other, and both."""
    chances = [max(1.0 - parent - child - both, 0.0), parent, child, both]
    return Features(2, 0.5, "binary", groups=[([0, 1], [[0, 0], [1, 0], [0, 1], [1, 1]], chances)])


@as_annotated
def run_hedging(
    l1: Sequence[float] = (0.0, 0.2, 0.5, 1.0, 1.5),
    both: Sequence[float] = (0.02, 0.05, 0.1, 0.2),
    parent: float = 0.2,
    *,
    starts: int = 6,
    seed: int = 0,
) -> xr.Dataset:
    """Search for the best latent on a binary parent and child, beside the angle in closed form.

    Parameters
    ----------
    l1 : sequence of float
        Strengths of the penalty, in [0, 2).
    both : sequence of float
        Probabilities that parent and child are on; the child is never on alone.
    parent : float
        Probability that the parent is on alone.
    starts : int
        Of each search.
    seed : int
        Of the starts.

    Returns
    -------
    xarray.Dataset
        ``angle`` (both, l1) in degrees from the parent, in closed form, ``found`` by the search, and
        ``excess``: the objective that was found over the one in closed form, minus 1.

    Examples
    --------
    >>> ds = run_hedging([0.2], [0.05])
    >>> bool(abs(ds["found"] - ds["angle"]) < 1e-3)
    True
    """
    rows = []
    for q12, strength in itertools.product(both, l1):
        angle = theory.hedging_angle_l1(parent, q12, strength)
        c, s = math.cos(angle), math.sin(angle)
        least = parent * code_cost(1.0, c, strength) + q12 * code_cost(2.0, c + s, strength)
        objective = Objective(_law(parent, 0.0, q12), np.eye(2), l1=strength)
        best = best_autoencoder(objective, 1, decoder_bias=False, starts=starts, rng=seed)
        d = best.sae.W_out[:, 0]
        rows.append(
            {
                "angle": math.degrees(angle),
                "found": math.degrees(math.atan2(d[1], d[0])),
                "excess": best.value / least - 1.0,
            }
        )
    ds = from_rows(rows, both=list(both), l1=list(l1))
    return ds.assign_attrs(parent=float(parent), starts=int(starts))


def _absorbs(alone: float, together: float, l1: float) -> float:
    """Return the objective of a pair that tilts, less that of one in which one atom stands for both."""
    return theory.tilted_pair(alone, together, l1)[1] - theory.absorbing_pair(alone, alone, together, l1)[1]


@as_annotated
def run_pairs(
    l1: Sequence[float] = (0.1, 0.3, 0.6, 1.0, 1.4),
    ratio: Sequence[float] = (0.2, 0.5, 1.0, 2.0, 5.0),
    alone: float = 0.1,
    *,
    gap: float = 1e-3,
    starts: int = 6,
    seed: int = 0,
) -> xr.Dataset:
    """Compute the best pair of latents on two binary features that are alike: closed forms, floor, search.

    Parameters
    ----------
    l1 : sequence of float
        Strengths of the penalty, in (0, 2).
    ratio : sequence of float
        Probability that both features are on, over that of one alone.
    alone : float
        Probability that a given feature is on alone.
    gap : float
        Of the certified floor, as a share of the error of rebuilding nothing.
    starts : int
        Of each search.
    seed : int
        Of the starts.

    Returns
    -------
    xarray.Dataset
        Objectives (ratio, l1) over that of rebuilding nothing: ``tilted``, ``absorbing``, ``true``, ``bound``
        and ``value`` of the certified floor, ``found`` by the search; ``phase`` of what was found;
        ``boundary`` (l1): the ratio from which absorbing is better, nan if none is; ``low`` and ``high``: the
        ratios beside it at which branch and bound certifies that the better pairs are turned, and that they
        are not, nan where it does not.

    Examples
    --------
    >>> ds = run_pairs([1.0], [0.5])
    >>> ds["phase"].item()
    'hedges'
    """
    rows = []
    for r, strength in itertools.product(ratio, l1):
        q, q12 = float(alone), float(r) * float(alone)
        nothing = 2.0 * q + 2.0 * q12
        floor = best_pair(q, q, q12, strength, gap=gap)
        objective = Objective(law := _law(q, q, q12), np.eye(2), l1=strength)
        best = best_autoencoder(objective, 2, decoder_bias=False, starts=starts, rng=seed)
        values = {
            "tilted": theory.tilted_pair(q, q12, strength)[1],
            "absorbing": theory.absorbing_pair(q, q, q12, strength)[1],
            "true": theory.true_pair_loss(q, q, q12, strength),
            "bound": floor.bound,
            "value": floor.value,
            "found": best.value,
        }
        told = {name: one / nothing for name, one in values.items()}
        rows.append({**told, "phase": phase(measure(best.sae, law))})
    ds = from_rows(rows, ratio=list(ratio), l1=list(l1))
    at = [_boundary(float(alone), float(one)) for one in l1]
    ds["boundary"] = ("l1", at)
    for name, factor in (("low", 1.0 / BESIDE), ("high", BESIDE)):
        there = zip(l1, at, strict=True)
        kept = [_certified(float(alone), factor * ratio, float(one)) for one, ratio in there]
        ds[name] = ("l1", np.where(kept, factor * np.array(at), np.nan))
    return ds.assign_attrs(alone=float(alone), gap=float(gap), starts=int(starts))


def _boundary(alone: float, l1: float) -> float:
    """Return the ratio from which absorbing is better than tilting."""
    low, high = LEAST, min(MOST, (1.0 - 2.0 * alone) / alone)
    if high <= low or _absorbs(alone, high * alone, l1) <= 0.0:
        return math.nan
    if _absorbs(alone, low * alone, l1) > 0.0:
        return low
    return float(brentq(lambda ratio: _absorbs(alone, ratio * alone, l1), low, high))


def _certified(alone: float, ratio: float, l1: float) -> bool:
    """Return whether no pair of the kind that the closed forms say is worse comes below the better one.

    The kinds are pairs in which both atoms are turned away from the features by more than `NEAR`, and all
    others.
    """
    both = ratio * alone
    if not 0.0 < both <= 1.0 - 2.0 * alone:
        return False
    tilted, absorbing = (
        theory.tilted_pair(alone, both, l1)[1], theory.absorbing_pair(alone, alone, both, l1)[1]
    )  # fmt: skip
    gap = max(0.12 * abs(tilted - absorbing) / (2.0 * alone + 2.0 * both), 1e-9)
    try:
        worse = best_pair(
            alone, alone, both, l1, gap=gap, kind="along" if tilted < absorbing else "turned", near=NEAR
        )
    except ValueError:  # too many boxes
        return False
    return worse.bound > min(tilted, absorbing)


@as_annotated
def run_reached(
    n_features: int = 64,
    n_hidden: int = 16,
    p: float = 0.03,
    share: Sequence[float] = (0.5, 0.75, 1.0, 1.5, 2.0),
    *,
    samples: int = 4000,
    seed: int = 0,
) -> xr.Dataset:
    """Sample what decoders reach that know a random dictionary of unit directions; see `ceiling`.

    Parameters
    ----------
    n_features, n_hidden : int
        Features, and dimensions of the activations.
    p : float
        Probability that a feature is on; values are uniform then.
    share : sequence of float
        Expected L0, over the expected number of features that are on.
    samples : int
        That fix thresholds, and that evaluate.
    seed : int
        Of the dictionary and the samples.

    Returns
    -------
    xarray.Dataset
        ``l0``, ``f1``, ``explained_variance`` (decoder, share), and ``f1_error``.

    Examples
    --------
    >>> ds = run_reached(8, 4, 0.1, [1.0], samples=500)
    >>> bool(ds["f1"].sel(decoder="pursuit") > 0.5)
    True
    """
    n = validation.integer("n_features", n_features, 1, 16_384)
    d = validation.integer("n_hidden", n_hidden, 1, 16_384)
    rng = np.random.default_rng(validation.integer("seed", seed, 0))
    phi = rng.normal(size=(d, n))
    law = Features(n, p)
    asked = np.asarray(validation.real("share", share, 0.0)) * float(law.p.sum())
    found = ceiling(law, phi / np.linalg.norm(phi, axis=0), asked, samples=samples, rng=rng)
    names = ("l0", "f1", "f1_error", "explained_variance")
    return xr.Dataset(
        {name: (("decoder", "share"), getattr(found, name)) for name in names},
        {"decoder": list(found.decoders), "share": list(share)},
        {"n_features": n, "n_hidden": d, "p": float(p), "samples": int(samples)},
    )

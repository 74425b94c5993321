"""Pairs of dependent features: their laws, trained models, and the directions that they share."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from ....theory import validation
from ....theory.features import Features, exclusive, synchronous
from ....theory.unequal import block_capacities, partial_dependence
from ....theory.validation import FloatArray
from ...runner.declarations import entry_of
from ...training import DROPPED
from ...training.engine import ModelState, load_torch, new_model, run_block
from ...training.schedule import CONVERGED, learning_rates

KINDS: dict[str, Callable[..., Any]] = {"exclusive": exclusive, "synchronous": synchronous}
PEAK_RATE = 1e-2  # largest rate of Adam
OPPOSED = -0.5  # a feature counts as opposed from this share of the diagonal on

Case = Sequence[Any]  # kind, strength, p, ratio
CASE_COORDS = ("kind", "strength", "p", "ratio")


def _stored_cases(p: float, ratio: float) -> list[list[Any]]:
    """Return the cases (kind, strength, p, ratio) of "exclusive" and "synchronous", strengths 1/2 and 1."""
    return [[kind, strength, p, ratio] for kind in KINDS for strength in (0.5, 1.0)]


# The cases of the stored runs, by how many features are on.
FEW_ON = _stored_cases(0.1, 0.25)
OFTEN_ON = _stored_cases(0.4, 0.125)
HALF_ON = _stored_cases(0.5, 0.25)


def pair_law(kind: str, strength: float, p: float) -> Features:
    """Return the law of two features, each on with probability p, that depend on each other.

    The law is a mixture: the share `strength` of "exclusive" (never on together) or "synchronous" (always on
    together) features, by `kind`, and the rest of independent ones.
    """
    table = KINDS[validation.choice("cases", kind, tuple(KINDS))]([0, 1], p)
    return Features(2, p, groups=[partial_dependence(table, strength)])


def check_cases(cases: Sequence[Case]) -> None:
    """Raise ValueError unless all cases are (kind, strength, p, ratio), with a ratio in (0, 1].

    kind, strength and p must be valid arguments of `pair_law`.
    """
    for case in cases:
        if len(case) != 4:
            raise ValueError(
                f"`cases` must be (kind, strength, p, ratio); got {validation.short_repr(case)}."
            )
        validation.number("cases", case[3], 0, 1, brackets="(]")
        with entry_of("cases"):
            pair_law(*case[:3])


def even_integer(name: str, value: int) -> int:
    """Return `value` as an integer; ValueError, naming `name`, unless it is even and at least 4."""
    number = validation.integer(name, value, 4)
    if number % 2:
        raise ValueError(f"`{name}` must be even, as features come in pairs; got {number}.")
    return number


def case_coords(cases: Sequence[Case]) -> dict[str, Any]:
    """Return the coordinates kind, strength, p and ratio of `cases` along the dimension ``case``."""
    columns = zip(*cases, strict=True)
    return {name: ("case", list(column)) for name, column in zip(CASE_COORDS, columns, strict=True)}


def case_label(at: xr.Dataset) -> str:
    """Return kind and strength of the case of `at`, data of one case, as text."""
    return f"{at['kind'].values}, strength {float(at['strength']):g}"


def common_cases(*datasets: xr.Dataset) -> list[xr.Dataset]:
    """Return the datasets with the cases that all of them have, ordered as in the first.

    ValueError if there is no such case.
    """
    keys = [[*zip(*(ds[name].values.tolist() for name in CASE_COORDS), strict=True)] for ds in datasets]
    common = [key for key in keys[0] if all(key in other for other in keys)]
    if not common:
        raise ValueError(f"`datasets` must have a case in common; got {keys}.")
    return [
        ds.isel(case=[ds_keys.index(key) for key in common])
        for ds, ds_keys in zip(datasets, keys, strict=True)
    ]


def train_pairs(law: Features, m: int, steps: int, batch: int, seed: int) -> ModelState:
    """Train a model with free weights on m neurons, by samples of `law`; return its state.

    There are `steps` steps, each on a `batch` of samples; `seed` draws the first weights and the samples.
    """
    torch = load_torch()
    model = new_model(torch, torch.device("cpu"), law.n_features, m, law, seed, False, "aligned")
    run_block(torch, [model], learning_rates(0, steps, steps, PEAK_RATE)[:, None], batch)
    model.ends[CONVERGED] = model.parameters.numpy()
    return model


def geometry(M: FloatArray, law: Features) -> dict[str, float]:
    """Return by name how features share directions in a model of independent pairs 2j, 2j + 1.

    M is W_out W_in, `law` that of its features. ``dropped``: share of the features with M_ii below a tenth of
    the largest. Over the other features i: ``partner``, mean of M_ij/M_ii with j the other feature of the
    pair; ``opposed``, share with M_ij <= -M_ii/2 for a feature j of another pair. ``together`` and ``apart``:
    mean capacities, shares of a hidden dimension, of the sums and differences of pairs.
    """
    diagonal = M.diagonal()
    is_kept = diagonal >= DROPPED * diagonal.max()
    partner = (np.arange(len(M)) ^ 1)[is_kept, None]
    relative = M[is_kept] / diagonal[is_kept, None]
    partner_weight = np.take_along_axis(relative, partner, axis=1)[:, 0]
    np.put_along_axis(relative, partner, 0.0, axis=1)
    C = np.mean(block_capacities(M, law), axis=0)
    return {
        "partner": float(partner_weight.mean()),
        "opposed": float(np.mean(relative.min(axis=1) <= OPPOSED)),
        "dropped": float(np.mean(~is_kept)),
        "together": float(C.sum() / 2),
        "apart": float(np.trace(C) - C.sum() / 2),
    }

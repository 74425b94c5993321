"""Features that depend on each other: trained models beside the best codes of blocks, and pattern tables."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from ....solvers.loss import exact_loss
from ....solvers.minimise import descend as polish
from ....solvers.unequal import BlockOptimum, block_optimum, realise_blocks
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.features import Features, exclusive, synchronous
from ....theory.unequal import (
    block_capacities,
    independent_copies,
    partial_dependence,
    priority_loss,
    priority_weights,
)
from ....theory.validation import FloatArray
from ...runner.declarations import entry_of, from_rows
from ...training import DROPPED
from ...training.engine import Model, evaluate, load_torch, new_model, product, run_block
from ...training.schedule import CONVERGED, learning_rates

KINDS: dict[str, Callable[..., Any]] = {"exclusive": exclusive, "synchronous": synchronous}
PEAK = 1e-2  # largest rate of Adam
OPPOSED = -0.5  # a feature counts as opposed from this share of the diagonal on
REACHES = 1e4, 1e6, 1e8  # longest over shortest encodings of priority codes that are built

Case = Sequence[Any]  # kind, strength, p, ratio


def pair_law(kind: str, strength: float, p: float) -> Features:
    """Return the law of a pair: so much of the kind's own table, the rest independent."""
    table = KINDS[validation.choice("cases", kind, tuple(KINDS))]([0, 1], p)
    return Features(2, p, groups=[partial_dependence(table, strength)])


def _check_groups(cases: Sequence[Case]) -> None:
    """Refuse cases that are none: kind, strength, p, ratio."""
    for case in cases:
        if len(case) != 4:
            raise ValueError(
                f"`cases` must be (kind, strength, p, ratio); got {validation.short_repr(case)}."
            )
        validation.number("cases", case[3], 0, 1, brackets="(]")
        with entry_of("cases"):
            pair_law(*case[:3])


def _even(name: str, value: int) -> int:
    found = validation.integer(name, value, 4)
    if found % 2:
        raise ValueError(f"`{name}` must be even, as features come in pairs; got {found}.")
    return found


def _coordinates(cases: Sequence[Case]) -> dict[str, Any]:
    columns = list(zip(*cases, strict=True))
    names = "kind", "strength", "p", "ratio"
    return {name: ("case", list(column)) for name, column in zip(names, columns, strict=True)}


def _train(law: Features, m: int, steps: int, batch: int, seed: int) -> Model:
    """Train a model on the law of all blocks."""
    torch = load_torch()
    model = new_model(torch, torch.device("cpu"), law.n_features, m, law, seed, False, "aligned")
    run_block(torch, [model], learning_rates(0, steps, steps, PEAK)[:, None], batch)
    model.ends[CONVERGED] = model.parameters.numpy()
    return model


def geometry(M: FloatArray, law: Features) -> dict[str, float]:
    """Say who shares a direction with whom, of a model of independent pairs 2j, 2j + 1.

    ``partner``: mean of M_ij/M_ii over the features that are kept, j the other of the pair. ``opposed``:
    share of them that receive some feature of another pair with half their own weight or more and the
    opposite sign. ``dropped``: share of all features. ``together`` and ``apart``: mean capacities of the
    pairs' sums and differences.
    """
    own = M.diagonal()
    kept = own >= DROPPED * own.max()
    others = np.arange(len(M)) ^ 1
    relative = M[kept] / own[kept, None]
    inside = np.take_along_axis(relative, others[kept, None], axis=1)[:, 0]
    np.put_along_axis(relative, others[kept, None], 0.0, axis=1)
    C = np.mean(block_capacities(M, law), axis=0)
    return {
        "partner": float(inside.mean()),
        "opposed": float(np.mean(relative.min(axis=1) <= OPPOSED)),
        "dropped": float(np.mean(~kept)),
        "together": float(C.sum() / 2),
        "apart": float(np.trace(C) - C.sum() / 2),
    }


@as_annotated
def run_groups(
    cases: Sequence[Case] = (("exclusive", 1.0, 0.1, 0.25),),
    sizes: Sequence[int] = (32, 64),
    seeds: Sequence[int] = range(3),
    *,
    steps: Sequence[int] = (500, 2000),
    batch: int = 256,
    samples: int = 2**16,
) -> xr.Dataset:
    """Train models on independent pairs of features that are exclusive or synchronous.

    Encoder and decoder are free, from random encodings of length 1; Adam with the rates of
    `training.schedule.learning_rates`, at most 0.01 and zero in the end; always fresh samples.

    Parameters
    ----------
    cases : sequence of (kind, strength, p, ratio)
        Kind "exclusive" or "synchronous"; the strength is the share of its table, see
        `theory.unequal.partial_dependence`; p of each feature, n_hidden/n_features.
    sizes : sequence of int
        Numbers of features, even.
    seeds : sequence of int
        Of first weights and data; two or more.
    steps : sequence of int
        Lengths of training, each with its own schedule: what the losses still gain tells how far they are
        from convergence.
    batch, samples : int
        Fresh samples in each step, and to measure losses on; each seed has its own.

    Returns
    -------
    xarray.Dataset
        ``trained`` (case, n_features, steps, seed), losses per feature; ``partner``, ``opposed``,
        ``dropped``, ``together``, ``apart`` (case, n_features, seed) of those trained longest, see
        `geometry`.

    Examples
    --------
    >>> ds = run_groups(sizes=[16], seeds=[0, 1], steps=[50], samples=1024)
    >>> ds["trained"].shape
    (1, 1, 1, 2)
    """
    sizes = [_even("sizes", n) for n in sizes]
    seeds = list(seeds)
    lengths = [validation.integer("steps", one, 1) for one in steps]
    batch, samples = validation.integer("batch", batch, 1), validation.integer("samples", samples, 2)
    validation.check_fits("batch", batch, 8.0 * batch * max(sizes))
    _check_groups(cases)
    laws = [pair_law(kind, strength, p) for kind, strength, p, _ in cases]
    rows = []
    for (case, law), n, seed in itertools.product(zip(cases, laws, strict=True), sizes, seeds):
        m, every = max(1, round(case[-1] * n)), independent_copies(law, n // 2)
        models = [_train(every, m, length, batch, seed) for length in lengths]
        trained = [evaluate(load_torch(), model, CONVERGED, samples, 1024)[0] for model in models]
        W_out, W_in, _ = product(models[-1], models[-1].ends[CONVERGED])
        rows.append({"trained": ("steps", trained), **geometry(W_out @ W_in, every)})
    ds = from_rows(rows, case=len(cases), n_features=len(sizes), seed=len(seeds))
    places = {**_coordinates(cases), "n_features": sizes, "steps": lengths, "seed": seeds}
    ds = ds.transpose("case", "n_features", "steps", "seed").assign_coords(places)
    return ds.assign_attrs(batch=batch, samples=samples)


@as_annotated
def run_polished(
    cases: Sequence[Case] = (("synchronous", 1.0, 0.1, 0.25),),
    seeds: Sequence[int] = range(2),
    *,
    n_features: int = 16,
    steps: int = 3000,
    batch: int = 256,
    descents: int = 40,
) -> xr.Dataset:
    """Train small models as `run_groups` does, and descend from there by the exact gradient.

    Parameters
    ----------
    cases, seeds, steps, batch
        As for `run_groups`.
    n_features : int
        Even.
    descents : int
        Steps of L-BFGS on the exact loss.

    Returns
    -------
    xarray.Dataset
        ``trained``, ``polished`` (case, seed), exact losses per feature before and after; ``partner`` and
        the others of `geometry`, after.

    Examples
    --------
    >>> ds = run_polished(n_features=4, seeds=[0], steps=100, descents=5)
    >>> bool((ds["polished"] <= ds["trained"]).all())
    True
    """
    n = _even("n_features", n_features)
    seeds = list(seeds)
    steps, batch = validation.integer("steps", steps, 1), validation.integer("batch", batch, 1)
    validation.check_fits("batch", batch, 8.0 * batch * n)
    _check_groups(cases)
    rows = []
    for kind, strength, p, ratio in cases:
        law = pair_law(kind, strength, p)
        every = independent_copies(law, n // 2)
        for seed in seeds:
            model = _train(every, max(1, round(ratio * n)), steps, batch, seed)
            W_out, W_in, b = product(model, model.ends[CONVERGED])
            start = exact_loss(W_out @ W_in, b, every, tol=1e-7).loss
            end = polish(W_out, W_in, b, every, steps=descents)
            rows.append({"trained": start, "polished": end.loss, **geometry(end.W_out @ end.W_in, every)})
    ds = from_rows(rows, case=len(cases), seed=len(seeds))
    return ds.assign_coords({**_coordinates(cases), "seed": seeds}).assign_attrs(n_features=n, steps=steps)


def _exact(model: Sequence[FloatArray], law: Features) -> float:
    W_out, W_in, b = model
    return exact_loss(W_out @ W_in, b, law, tol=1e-5).loss


def _dropped(code: BlockOptimum) -> float:
    """Return the share of the features that have no capacity."""
    return float(sum(part.share * np.mean(part.coefficients.diagonal() == 0) for part in code.parts))


def _coefficients(code: BlockOptimum, size: int) -> FloatArray:
    """Return those of the part that most blocks with neurons have, zeros added up to a size."""
    main = max((part for part in code.parts if part.ratio > 0), key=lambda part: part.share)
    return np.pad(main.coefficients, (0, size - len(main.b)))


@as_annotated
def run_blocks(
    cases: Sequence[Case] = (("exclusive", 1.0, 0.1, 0.25),),
    sizes: Sequence[int] = (32, 64),
    seeds: Sequence[int] = range(3),
    *,
    pairs: Sequence[int] = (1,),
    starts: int = 3,
) -> xr.Dataset:
    """Solve for the best codes of blocks in the limit; exact losses of matrices of these and priority codes.

    Parameters
    ----------
    cases, sizes
        As for `run_groups`.
    seeds : sequence of int
        Of the matrices.
    pairs : sequence of int
        Pairs in a block, 1 or 2: two pairs may share directions (minutes a case).
    starts : int
        Random starts of each search.

    Returns
    -------
    xarray.Dataset
        ``predicted``, ``gap`` (case, pairs): losses per feature in the limit, and gaps of the searches;
        ``coefficients`` (case, pairs, output, feature) of the part that most blocks with neurons have, with
        zeros outside the block; ``dropped`` (case, pairs), the share of the features without capacity;
        ``constructed`` (case, n_features, seed), exact losses of matrices of these sizes, of the code of
        blocks that has the least. ``priority`` (case, n_features), of `theory.unequal.priority_loss`;
        ``built`` (case, reach), the exact loss of its weights at the smallest size.

    Examples
    --------
    >>> ds = run_blocks([("exclusive", 1.0, 0.1, 0.4)], sizes=[16], seeds=[0])
    >>> bool(ds["predicted"] < ds["constructed"].min()), ds["coefficients"].sel(pairs=1)[0, 0, 1].item() < 0
    (True, True)
    """
    sizes = [_even("sizes", n) for n in sizes]
    pair, rows = ("output", "feature"), []
    for kind, strength, p, ratio in cases:
        law = pair_law(kind, strength, p)
        codes = [block_optimum(independent_copies(law, count), ratio, starts=starts) for count in pairs]
        best, count = min(zip(codes, pairs, strict=True), key=lambda one: one[0].loss)
        block = independent_copies(law, count)
        places = [(independent_copies(law, n // 2), max(1, round(ratio * n))) for n in sizes]
        small, m = min(places, key=lambda one: one[0].n_features)
        constructed = [
            [_exact(realise_blocks(best, block, n // block.n_features, rng=seed), every) for seed in seeds]
            for n, (every, _) in zip(sizes, places, strict=True)
        ]
        rows.append(
            {
                "predicted": ("pairs", [code.loss for code in codes]),
                "gap": ("pairs", [code.gap for code in codes]),
                "dropped": ("pairs", [_dropped(code) for code in codes]),
                "coefficients": (("pairs", *pair), [_coefficients(code, 2 * max(pairs)) for code in codes]),
                "constructed": (("n_features", "seed"), constructed),
                "priority": ("n_features", [priority_loss(*place) for place in places]),
                "built": ("reach", [_exact(priority_weights(small, m, reach), small) for reach in REACHES]),
            }
        )
    ds = from_rows(rows, case=len(cases)).assign_coords(_coordinates(cases))
    return ds.assign_coords(reach=list(REACHES), pairs=list(pairs), n_features=sizes, seed=list(seeds))

"""The best codes of blocks of dependent features in the limit of many, and exact losses of their matrices."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from ....solvers.loss import exact_loss
from ....solvers.unequal import BlockOptimum, block_optimum, realise_blocks
from ....theory.annotations import as_annotated
from ....theory.features import Features
from ....theory.unequal import independent_copies, priority_loss, priority_weights
from ....theory.validation import FloatArray
from ...runner.declarations import SUMS, ReproductionCheck, Run, from_rows
from .pairs import FEW_ON, HALF_ON, OFTEN_ON, Case, case_coords, even_integer, pair_law

REACHES = 1e4, 1e6, 1e8  # longest over shortest encodings of priority codes that are built


def _exact_loss(model: Sequence[FloatArray], law: Features) -> float:
    """Return the exact loss per feature of a model (W_out, W_in, b)."""
    W_out, W_in, b = model
    return exact_loss(W_out @ W_in, b, law, tol=1e-5).loss


def _dropped_share(code: BlockOptimum) -> float:
    """Return the share of a code's features that are dropped: they have no part of a hidden dimension."""
    return float(sum(part.share * np.mean(part.coefficients.diagonal() == 0) for part in code.parts))


def _commonest_block(code: BlockOptimum, size: int) -> FloatArray:
    """Return the coefficients of a code's commonest block that has neurons, (size, size), padded with zeros.

    `code` is the best mixture of kinds of blocks, small groups of features; the commonest kind has the
    largest share of the blocks. Row i has the weights with which output i reads the features of the block.
    """
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
    """Return losses of the best codes of blocks in the limit, and of matrices of these and priority codes.

    A block is one or two pairs of features that depend on each other, see `solvers.unequal.block_optimum`;
    the limit is that of many blocks. In a priority code larger features turn the outputs of smaller ones off
    (`theory.unequal.priority_loss`).

    Parameters
    ----------
    cases : sequence of (kind, strength, p, ratio)
        Laws of pairs of features: a mixture of the share `strength` of "exclusive" or "synchronous" (the
        kind) and the rest of independent features; p of each feature; ratio = n_hidden/n_features.
    sizes : sequence of int
        Numbers of features, even.
    seeds : sequence of int
        Seeds of the matrices.
    pairs : sequence of int
        Pairs in a block, 1 or 2. Features of two pairs may share hidden directions; the search with 2 takes
        minutes a case.
    starts : int
        Random starts of each search.

    Returns
    -------
    xarray.Dataset
        ``predicted`` and ``gap`` (case, pairs): losses per feature in the limit, and their excess over the
        least Lagrangian found, 0 where the search is finished; ``coefficients`` (case, pairs, output,
        feature) of the commonest block that has neurons, with zeros outside the block; ``dropped`` (case,
        pairs), the share of the features that are dropped; ``constructed`` (case, n_features, seed), exact
        losses of matrices of these sizes, of the best code of blocks. ``priority`` (case, n_features), losses
        of priority codes with encodings of very different lengths; ``built`` (case, reach), the exact loss of
        weights of a priority code at the smallest size, if the longest encoding in a plane is ``reach`` times
        the shortest.

    Examples
    --------
    >>> ds = run_blocks([("exclusive", 1.0, 0.1, 0.4)], sizes=[16], seeds=[0])
    >>> bool(ds["predicted"] < ds["constructed"].min()), ds["coefficients"].sel(pairs=1)[0, 0, 1].item() < 0
    (True, True)
    """
    sizes = [even_integer("sizes", n) for n in sizes]
    rows = []
    for kind, strength, p, ratio in cases:
        law = pair_law(kind, strength, p)
        codes = [block_optimum(independent_copies(law, count), ratio, starts=starts) for count in pairs]
        best, count = min(zip(codes, pairs, strict=True), key=lambda pair: pair[0].loss)
        block = independent_copies(law, count)
        problems = [(independent_copies(law, n // 2), max(1, round(ratio * n))) for n in sizes]
        small, m = min(problems, key=lambda problem: problem[0].n_features)
        constructed = []
        for whole, _ in problems:
            copies = whole.n_features // block.n_features
            models = [realise_blocks(best, block, copies, rng=seed) for seed in seeds]
            constructed.append([_exact_loss(model, whole) for model in models])
        row = {
            "predicted": ("pairs", [code.loss for code in codes]),
            "gap": ("pairs", [code.gap for code in codes]),
            "dropped": ("pairs", [_dropped_share(code) for code in codes]),
            "coefficients": (
                ("pairs", "output", "feature"),
                [_commonest_block(code, 2 * max(pairs)) for code in codes],
            ),
            "constructed": (("n_features", "seed"), constructed),
            "priority": ("n_features", [priority_loss(*problem) for problem in problems]),
            "built": ("reach", [_exact_loss(priority_weights(small, m, reach), small) for reach in REACHES]),
        }
        rows.append(row)
    ds = from_rows(rows, case=len(cases)).assign_coords(case_coords(cases))
    return ds.assign_coords(reach=list(REACHES), pairs=list(pairs), n_features=sizes, seed=list(seeds))


def _stored_run(what: str, cases: list[list[Any]], sizes: list[int], *, whole: bool = False) -> Run:
    """Declare a stored run of `run_blocks` for blocks of one and two pairs, split by case unless `whole`.

    A case is (kind, strength, p, ratio). If split, cases of strength 1 are searched without random starts,
    others with one. `what` is a line on the run's purpose; `cases` and `sizes` are settings of the run. Its
    check searches the first case anew, with one pair.
    """
    settings = {"cases": cases, "sizes": sizes, "seeds": [0], "pairs": [1, 2], "starts": 1}
    check = ReproductionCheck({"cases": cases[:1], "pairs": [1]}, ["predicted", "dropped"], 1e-6, SUMS)
    pieces = [{"cases": [case], "starts": int(case[1] < 1)} for case in cases]
    split: dict[str, Any] = {} if whole else {"split_by": pieces, "concat_dim": "case"}
    return Run.shipped("unequal_blocks", what, run_blocks, settings, check=check, **split)


RUNS = {
    "blocks": _stored_run("their best codes", FEW_ON, [32, 64, 128]),
    "blocks_often": _stored_run("pairs at p = 0.4: codes", OFTEN_ON, [64, 128]),
    # Made in one run.
    "blocks_dense": _stored_run("pairs at p = 0.5: codes", HALF_ON, [64, 128], whole=True),
}

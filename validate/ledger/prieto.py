"""Prieto et al. (2026), P1-P3: words that are correlated, and interference that helps; P5: a prediction.

The source trains on words of real text and on small synthetic tables, of which one is words around a circle.
Here the best model of that table is found by the exact loss, and models are trained with the published code's
settings. Where interference helps and where the ReLU filters it is decided for pairs of features. What was
predicted of trained pairs before they were trained has a row of its own, whatever became of it.
"""

from functools import partial

import numpy as np
import xarray as xr

from ...solvers.statistics import Family, mean
from ...solvers.unequal import block_optimum
from ...theory.features import Features, exclusive, synchronous
from ..experiments.papers.prieto import around, constructive
from ..experiments.unequal.pairs import common_cases
from ..experiments.unequal.small_models import AT_CODE, count_at_code
from ..runner.declarations import span
from ..training import DROPPED
from .claim import (
    Evidence,
    claim,
    confirmed,
    corrected_statement,
    derived,
    enough_runs,
    evidence,
    experiment,
    numeric,
    post_hoc,
    preregistered,
    rounding,
)

SOURCE, OURS = "prieto2026", "superposition"


@claim("P1", SOURCE, "abstract", needs=["unequal.tables"])
def p1(quick: bool, ds: xr.Dataset) -> Evidence:
    """where features are correlated, interference can be constructive, not only noise to be filtered out"""
    least = float(ds["best_constructive"].sel(strength=1.0).min())
    added = float(ds["trained_constructive"].sel(strength=1.0).isel(decay=0).min())
    laws = Features(2, 0.1, groups=[synchronous([0, 1], 0.1)]), Features(2, 0.1)
    pair, apart = (block_optimum(law, 0.25, starts=1) for law in laws)
    alpha = pair.parts[-1].coefficients
    return evidence(
        "Interference is constructive where sum_{j!=i} M_ij S_ij > 0: what the others add to output i goes "
        "with feature i. Words around a circle, tied models of least exact loss: the other words add "
        f"{least:.0%} or more of tr(M S); trained without decay {added:.0%} or more; with independent words "
        "the sum is 0 whatever M. Of two features that are on together (p = 0.1, ratio 1/4) the best code of "
        f"blocks of one pair reads both for each, with weights {alpha[0, 0]:.3f} and {alpha[0, 1]:.3f}; that "
        "of independent features has one against the other, and loses more.",
        experiment("least share of others, best", least, ">", post_hoc(0.3), origin=ds),
        experiment("least share of others, trained", added, ">", post_hoc(0.3), origin=ds),
        numeric("loss of pairs on together / independent", pair.loss / apart.loss, "<", derived(1)),
    )


@claim("P2", SOURCE, "7", needs=["unequal.blocks", "unequal.blocks_often", "unequal.blocks_dense"])
def p2(quick: bool, ds: xr.Dataset, often: xr.Dataset, dense: xr.Dataset) -> Evidence:
    """left open: when constructive interference and when filtering by the ReLU dominates"""
    kind, strength = ds["kind"].values, ds["strength"].values
    own = ds["coefficients"].sel(pairs=1)
    partner = (own[:, 0, 1] / own[:, 0, 0]).values
    alone = block_optimum(Features(2, 0.1, groups=[exclusive([0, 1], 0.1)]), 0.5, starts=1).loss
    apart = partner[kind == "exclusive"]
    together = [one.isel(case=one["kind"].values == "synchronous") for one in (ds, often, dense)]
    wide = np.concatenate([one["coefficients"].isel(pairs=-1).values for one in together])
    mate = (wide[:, 0, 1] / wide[:, 0, 0])[: together[0].sizes["case"]].min()
    # weights of partners, or of two pairs on each other, may be skew, w and 1/w: their product is not
    mates = (wide[:, 0, 1] * wide[:, 1, 0] / (wide[:, 0, 0] * wide[:, 1, 1])).min()
    helps = wide[:, 0, 1].min()
    weight = np.diagonal(wide, axis1=1, axis2=2)
    lone = int(np.sum(weight.min(axis=1) < DROPPED * weight.max(axis=1)))
    stranger = (wide[:, 0, 2:].min(axis=1) * wide[:, 2, :2].min(axis=1)) / (wide[:, 0, 0] * wide[:, 2, 2])
    few, *many = (
        (one["priority"].min("n_features") / one["predicted"].min("pairs")).values
        for one in (ds, *together[1:])
    )
    everywhere = ds, often, dense
    places = [f"p = {float(one['p'][0]):g}, ratio {float(one['ratio'][0]):g}" for one in (ds, often, dense)]
    return evidence(
        f"For independent pairs of features with equal p, at {'; '.join(places)}, and the best codes "
        "found: of blocks of one or two pairs in the limit of many, and of planes by priority. Weights of "
        "the partner over the own one, blocks of one pair, in the first place: "
        + "; ".join(f"{a} {s:g}: {w:+.2f}" for a, s, w in zip(kind, strength, partner, strict=True))
        + ". In blocks of two pairs that are on together a direction has one pair at each end "
        f"(in {lone} of {len(wide)} cases at one end a feature whose partner is dropped: it has less than "
        f"{DROPPED:g} of the largest weight): "
        "constructive inside, filtered between, in the same model. That no better codes exist is not proved. "
        "In the second place the two weights of a pair were seen to differ, w one way and 1/w the other, so "
        "the findings are about their product there and in the third place. The third place was added when "
        "its codes had been seen, with the limits as they were.",
        corrected_statement(
            "features that exclude each other take opposite ends of one direction, where the ReLU filters",
            experiment(
                "largest weight of the partner / own, exclusive", apart.max(), "<", post_hoc(-0.3), origin=ds
            ),
            numeric("loss of exclusive pairs at ratio 1/2", alone, "<=", rounding(1e-9)),
        ),
        corrected_statement(
            "in blocks features that are on together take one end of a direction (constructive), and another "
            "such pair the opposite end (filtered)",
            experiment("least weight of the partner / own, few on", mate, ">", post_hoc(0.3), origin=ds),
            experiment("least weight of the partner, all places", helps, ">", derived(0), origin=everywhere),
            experiment(
                "least product of two partners' weights / own",
                mates,
                ">",
                post_hoc(0.3**2),
                origin=everywhere,
            ),
            experiment(
                "least product of two pairs' weights / own",
                stranger.min(),
                ">",
                post_hoc(0.5),
                origin=everywhere,
            ),
            experiment(
                "largest weight of another pair", wide[:, 0, 2:].max(), "<", derived(0), origin=everywhere
            ),
        ),
        corrected_statement(
            f"where many features are on ({' and '.join(places[1:])}) that is the best code found: priority "
            f"codes have {span(np.array(many), '.2f')} times its loss",
            experiment(
                "least priority code / blocks, many on", np.min(many), ">", derived(1), origin=(often, dense)
            ),
        ),
        corrected_statement(
            f"where few are on ({places[0]}) filtering does better: planes in which the first feature that "
            f"is on silences the others have {span(few, '.2f')} times the loss of blocks",
            experiment(
                "largest priority code / blocks, few on", float(few.max()), "<", derived(1), origin=ds
            ),
        ),
        about="answer",
    )


@claim("P3", SOURCE, "abstract", needs=["unequal.tables"])
def p3(quick: bool, ds: xr.Dataset) -> Evidence:
    """correlated words give cyclical structures: words around a circle are encoded on one"""
    at = ds.sel(strength=1.0).isel(n_hidden=0)
    gram, trained = at["gram"].values, at.isel(decay=0)
    n, m = len(gram), int(ds["n_hidden"][0])
    spread, rise = around(gram)
    family = Family(0.01, 2)
    own, climbs = (family.of(mean, trained[f"trained_{name}"].values) for name in ("spread", "rise"))
    keeps = partial(confirmed, origin=ds)
    return evidence(
        f"{n} words, {m} neurons. With M = W W', entries M_ij of the best tied model that was found differ "
        f"by {spread:.1%} of M_ii at equal distances around the circle, and fall with the distance; of "
        f"{ds.sizes['seed']} trained ones by {own.value:.1%} on average. The other words add "
        f"{constructive(gram, at['covariance'].values):.0%} of tr(M S). Two seeds had been seen when the "
        "limits were chosen; the trained models that decide have other seeds.",
        enough_runs("trained models", ds.sizes["seed"], origin=ds),
        experiment("best: spread of M_ij at one distance / M_ii", spread, "<=", post_hoc(0.05), origin=ds),
        experiment("best: largest rise of M_ij to the next / M_ii", rise, "<", derived(0), origin=ds),
        keeps("trained: spread / M_ii", own, "<=", preregistered(0.1)),
        keeps("trained: largest rise / M_ii", climbs, "<", derived(0)),
    )


def _case(ds: xr.Dataset, i: int) -> str:
    at = ds.isel(case=i)
    of = f"{at['kind'].values} pairs of strength {float(at['strength']):g}"
    return f"{of} at p = {float(at['p']):g} and ratio {float(at['ratio']):g}"


@claim(
    "P5",
    OURS,
    "before training",
    needs=["unequal.reached_16", "unequal.reached_32", "unequal.blocks_often", "unequal.blocks_dense"],
)
def p5(quick: bool, small: xr.Dataset, large: xr.Dataset, often: xr.Dataset, dense: xr.Dataset) -> Evidence:
    """where many features are on, some of eight trained models of 16 and of 32 features end at the best code
    of blocks of one or two pairs, in each case, and none ends below it
    """
    codes = xr.concat([ds[["predicted"]].min("pairs") for ds in (often, dense)], "case")
    counts, ends, none, origin = [], [], [], (small, large)
    for ds in origin:
        trained, code = common_cases(ds, codes)
        for i, (count, best, _) in enumerate(count_at_code(trained, code["predicted"])):
            counts.append(count)
            ends.append(best)
            if not count:
                none.append(f"{_case(trained, i)} with {int(ds['n_features'][0])} features")
    seeds = min(ds.sizes["seed"] for ds in origin)
    return evidence(
        f"Predicted before the models were trained: {len(counts)} cases, {seeds} seeds each. The matrices of "
        "these codes have their loss at any size, so small models can reach it. At the code means a loss "
        f"within {AT_CODE:.1%} of the code's, two or three times the error of sampling. The documentation "
        "(correlations) has the numbers.",
        enough_runs("seeds of each case", seeds, origin=origin),
        experiment(
            "least loss of a model / code", min(ends), ">=", preregistered(1 - AT_CODE.limit), origin=origin
        ),
        corrected_statement(
            f"some are at the code in {len(counts) - len(none)} of {len(counts)} cases, and none below it in "
            f"any; none is at it of {'; of '.join(none)}",
            experiment(
                "least count of models at the code", min(counts), ">=", preregistered(1), origin=origin
            ),
        ),
        about="printed",
    )

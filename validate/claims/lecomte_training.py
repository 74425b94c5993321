"""Lecomte et al. (2024), L37: the remedy that §5 proposes, splitting polysemantic neurons."""

import xarray as xr

from ...theory.collisions import derive_split, splitting
from ..collisions.counts import ZERO
from ..statistics import Estimate, Family, share
from .lecomte_collisions import ALPHA, SOURCE, value
from .ledger import Claim, Evidence, Finding, allowed, claim, numeric, says, shown, symbolic

__all__ = ["REMEDY"]

# Perturbations for which the prediction is meant, and the time, times lam_normal, at which it is compared.
SMALL, WHILE = 0.05, 4.0
# The clock of the prediction is good to O(lam_normal), 1 % to 4 % here.
CLOCK = 0.05
# "All" parts, if at least nine in ten do with confidence.
ALL = 0.9


@claim(
    "L37",
    SOURCE,
    "5",
    "proposed remedy: split a polysemantic neuron in two, halve its outgoing weights, perturb the incoming "
    "ones, train on",
    needs=["collisions.remedy", "collisions.variants"],
)
def l37(quick: bool, remedy: xr.Dataset, variants: xr.Dataset) -> Evidence:
    import sympy

    family = Family(ALPHA, 9)
    small = remedy.isel(eps=remedy["eps"].values < SMALL)

    def of(ds: xr.Dataset, among: tuple[str, ...] = ()) -> Estimate:
        """Return the share that parted, of all split neurons or of those with these outcomes."""
        trials = (
            sum(int(ds[name].sum()) for name in among)
            if among
            else int((ds["pairs"] + 0 * ds["apart"]).sum())
        )
        return family.of(share, int(ds["apart"].sum()), trials)

    def half(text: str, found: Estimate) -> list[Finding]:
        return [allowed("answer", f"{text}: share that parts", found, side, 0.5) for side in (">=", "<=")]

    tied = of(small.isel(time=-1))
    way = {str(name): variants.sel(variant=name).isel(time=-1) for name in variants["variant"].values}
    proposed, weights, shared, free = (
        way[name]
        for name in (
            "as proposed: untied, outgoing weights halved",
            "the same, l1 term on encoder and decoder",
            "one shift for all incoming weights of a copy",
            "no l1 term after the split",
        )
    )
    decided = of(proposed, ("apart", "together"))
    undecided = int(proposed["undecided"].sum()) / max(int(proposed["pairs"].sum()), 1)
    at = small.sel(time=WHILE, method="nearest").isel(eps=-1)
    halfway, time, eps = of(at), float(at["time"]), float(at["eps"])
    bands = [
        value(splitting.separated_share(time * c, 1.0, eps, left=ZERO)[0]) for c in (1 - CLOCK, 1 + CLOCK)
    ]
    rest, difference, _ = derive_split().expression
    w, w1, w2, v1, v2 = sympy.symbols("w w1 w2 v1 v2", positive=True)
    still = int(free["apart"].sum() + free["together"].sum())
    clock = float(variants["time"][-1])
    everyone = of(shared)
    return Evidence(
        "The encodings of the two features have a negative product, so they do not feel each other; each "
        "plays for itself which copy it keeps. All is said of the source's l1 model, n = m = "
        f"{remedy.attrs['n_features']}, where nothing but the l1 term prefers one large weight to two equal "
        "ones. As proposed, with outgoing weights halved and the l1 term on activations, and so on the "
        f"encoder, {undecided:.0%} of the split neurons are still undecided at time {clock:g} in units of "
        "4/lambda. The sentences were worded after the shares with tied weights had been seen.",
        [],
        corrections=[
            says(
                "it takes luck: each feature falls to a copy by itself, so half of the pairs part "
                f"({tied.value:.2f} of {tied.runs} with tied weights; {decided.value:.2f} of the "
                f"{decided.runs} decided with outgoing weights halved, {of(weights).value:.2f} if the l1 "
                "term acts on the decoder too)",
                symbolic("answer", "interference of the two features", sympy.Max(0, -w1 * v1 - w2 * v2)),
                *half("tied weights", tied),
                *half("outgoing weights halved, of the decided", decided),
                *half("the same, l1 term on both", of(weights)),
            ),
            says(
                "it takes the l1 term, or else something that prefers one large weight: about equal copies "
                "a difference grows at the rate lambda/w, sqrt(2) lambda in the normal form, and not at "
                "all without",
                symbolic("answer", "growth rate less lam/w", difference - rest / w),
                numeric("answer", "split neurons decided without an l1 term", still, "==", 0),
            ),
            says(
                "it takes a time ln(1/perturbation)/(sqrt(2) lambda), as long as the training before "
                f"({halfway.value:.2f} have parted at {time:g}/lambda with perturbation {eps:g})",
                allowed(
                    "answer",
                    f"share parted by then, over that at {1 + CLOCK:g} of the time",
                    halfway,
                    "<=",
                    bands[1],
                ),
                allowed("answer", f"the same, {1 - CLOCK:g} of the time", halfway, ">=", bands[0]),
            ),
            says(
                f"a perturbation shared by all incoming weights of a copy parts all ({everyone.value:.2f} "
                f"of {everyone.runs})",
                shown("answer", "shared perturbation: share that parts", everyone, ">=", ALL),
            ),
        ],
    )


REMEDY: tuple[Claim, ...] = (l37,)

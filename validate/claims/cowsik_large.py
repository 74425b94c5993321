"""Cowsik et al. (2024), C33 and C34: models as large as the source's, trained on a GPU.

Predictions were written down, as findings of these rows, before a model of more than 512 features had been
trained; what became of each is told in the evidence. Limits that they had are those marked as chosen before.
Up to 4096 features there are five seeds in each cell, as of 8192 at ratio 1/4; at ratio 1/2 there is one
model of 8192.
"""

from functools import partial

import numpy as np
import xarray as xr

from ..codes.symmetry import by_cell, change
from ..statistics import Estimate, Family, mean
from ..training.schedule import BLOCK
from .cowsik_structure import CONVERGED, ENDS, HALF, LOW, MIDDLE, QUARTER, SOURCE, STOP
from .ledger import Evidence, after, allowed, before, claim, derived, evidence, experiment, runs, says, shown

FEW, SOME, MANY, MOST = 1024, 2048, 4096, 8192
LARGEST = {LOW: MANY, QUARTER: MOST, HALF: MANY}  # of five seeds, by ratio
ALARM = 1e-2
BATCH = 1024  # samples
# "Essentially the same" and "identical" are given this much room.
SAME = before(0.1)
CELLS = ", ".join(f"{r:g} ({n} features)" for r, n in LARGEST.items())


class _Models:
    """The models by cell, and estimates of a row, whose limits are one family."""

    def __init__(self, trained: xr.Dataset) -> None:
        self.trained, self.at = trained, by_cell(trained).sel(p=MIDDLE)
        self.steps = f"{trained.attrs['steps']} steps"
        # Two sides of a statistic in each cell at both ends, of a change, and of the fall of losses.
        self.family = Family(ALARM, 2 * len(LARGEST) * len(ENDS) + 4)
        self.keeps = partial(allowed, origin=trained)
        self.true = partial(shown, origin=trained)
        at = self.at["loss"].sel(end=STOP)
        least = min(int(at.sel(ratio=r, n_features=n).count()) for r, n in LARGEST.items())
        self.enough = runs("models in each cell that decides", least, origin=trained)

    def of(self, statistic: str, ratio: float, n: int, end: str = STOP) -> Estimate:
        """Return the mean over the seeds that have it."""
        values = self.at[statistic].sel(ratio=ratio, n_features=n, end=end)
        return self.family.of(mean, values.dropna("seed").values)

    def largest(self, statistic: str) -> list[Estimate]:
        """Return means at the largest sizes, in the order of ratios, where the rule ended training."""
        return [self.of(statistic, *cell) for cell in LARGEST.items()]

    def single(self, statistic: str) -> float:
        """Return it of the one model of most features at ratio 1/2, where the rule ended training."""
        found = self.at[statistic].sel(end=STOP, ratio=HALF, n_features=MOST).dropna("seed")
        return float(found.item())

    def told(self) -> str:
        """Say of how many models the further phase left nothing."""
        here = self.trained.isel(model=np.isclose(self.trained["p"], MIDDLE))
        sizes, broken = here["n_features"].values, here["broken"].values
        counts = ((n, broken[sizes == n]) for n in np.unique(sizes))
        return ", ".join(f"{one.sum()} of {one.size} models of {n}" for n, one in counts)


def _list(found: list[Estimate], digits: str) -> str:
    return ", ".join(f"{one.value:{digits}}" for one in found)


@claim("C33", SOURCE, "2, Fig. 2, at 8192 features", needs=["codes.large", "codes.slow"])
def c33(quick: bool, ds: xr.Dataset, slow: xr.Dataset) -> Evidence:
    """models of thousands of features, trained to completion by the stopping rule, have essentially the loss
    of the Persian rug
    """
    models = _Models(ds)
    steps, early = models.steps, models.largest("excess")
    fall = models.at["fall"].sel(n_features=[MANY, MOST]).values
    fall = fall[np.isfinite(fall)]
    falls = models.family.of(mean, fall)
    late = [models.of("excess", QUARTER, n, CONVERGED) for n in (FEW, SOME)]
    pairs = models.of("excess", HALF, FEW, CONVERGED)
    left = models.at["excess"].sel(end=CONVERGED, ratio=HALF, n_features=SOME).dropna("seed").values
    rise = models.family.of(change, models.at["loss"].sel(end=CONVERGED, ratio=QUARTER), FEW, SOME)
    # By how much two means over 100 batches differ by chance, over the loss: by the error of other samples.
    at = models.at.sel(end=STOP, n_features=[MANY, MOST])
    share = ds.attrs["samples"] / (BLOCK * BATCH)
    chance = np.sqrt(2 * share) * float((at["loss_se"] / at["loss"]).mean())
    lower, rate = float(slow["excess"].max()), slow.attrs["peak_learning_rate"]
    return evidence(
        f"At p = {MIDDLE} and ratios {CELLS} the loss over the rug's, less 1, is {_list(early, '+.1%')} "
        f"where the stopping rule ends training, and {models.single('excess'):+.1%} in one model of {MOST} "
        f"features at ratio {HALF}. Before that the loss falls by {fall.min():.2%} to {fall.max():.2%} in "
        f"100 batches in {fall.size} models of {MANY} and more features, and the means compared differ by "
        f"{chance:.2%} by chance, one standard error: so chance ends training, the sooner the slower a model "
        "leaves the rug, which is a saddle of the loss. Predictions that were made before: within a tenth of "
        f"the rug at ratios {LOW} and {QUARTER} (so it is); at most half of its loss at ratio {HALF} (false: "
        f"from {SOME} features on the rule ends at the rug there too); after {steps} more below the rug at "
        f"all three ratios, by three quarters at {HALF}; more loss then at {MOST} features than at {FEW}. "
        "The last two were not tested: the largest rate of that phase is too much for large models, and took "
        f"what was learned from {models.told()} features at p = {MIDDLE}. One more model of {SOME} features "
        f"was then trained from the start with a quarter of that rate, {rate:g}, said before to end at a "
        f"quarter of the rug's loss or less: it ended at {1 + lower:.2f}. At ratio {QUARTER} the loss after "
        f"{steps} changes from {FEW} to {SOME} features by a factor of {rise:.3f}. The public code of "
        "the source compares means over 200 batches, which was not tried.",
        models.enough,
        models.keeps("loss / rug - 1, stopping rule", early, "<=", SAME),
        models.keeps("loss / rug - 1, stopping rule", early, ">=", -SAME),
        models.keeps("completed: part by which the loss falls in 100 batches", falls, "<=", derived(0)),
        says(
            f"at the stopping rule models of {MANY} to {MOST} features agree with the rug within a tenth",
            # Ratio 1/2 was predicted to be elsewhere, so that this limit is not from before.
            models.true("loss / rug - 1 there", early, "<=", after(float(SAME))),
            models.true("loss / rug - 1 there", early, ">=", after(-float(SAME))),
        ),
        says(
            "but training is not complete there: the loss still falls",
            models.true("part by which it falls in 100 batches", falls, ">", derived(0)),
        ),
        says(
            f"trained on for {steps}, models of {FEW} and {SOME} features at ratio {QUARTER} are a fifth and "
            f"more below the rug ({_list(late, '+.1%')}), those of {FEW} at {HALF} three quarters and more",
            models.true(f"loss / rug - 1 at ratio {QUARTER}", late, "<=", after(-0.2)),
            # Predicted for the largest models, which were not tested.
            models.true(f"loss / rug - 1 at ratio {HALF}, {FEW} features", pairs, "<=", after(-0.75)),
        ),
        says(
            f"so are models of {SOME} features at ratio {HALF}, which the rule leaves at the rug: those "
            f"{left.size} that the further phase did not break, and one trained at a quarter of its rate",
            experiment("loss / rug - 1, the largest", left.max(), "<=", after(-0.75), origin=ds),
            experiment("the same at the lower rate", lower, "<=", before(-0.75), origin=slow),
        ),
    )


@claim("C34", SOURCE, "Fig. 6, caption", needs=["codes.large"])
def c34(quick: bool, ds: xr.Dataset) -> Evidence:
    """once n_s reaches 8192 all noise variables have identical variances"""
    models = _Models(ds)
    name, text = "row_variance_spread", "s.d. over mean of row variances"
    early = models.largest(name)
    pairs = models.of(name, HALF, FEW, CONVERGED)
    return evidence(
        f"Where the stopping rule ends training, at p = {MIDDLE} and ratios {CELLS}, the standard deviation "
        f"over the mean of row variances is {_list(early, '.2g')}, and {models.single(name):.2g} in one "
        f"model of {MOST} features at ratio {HALF}: so it is as printed there. Training is not complete "
        f"(C33), and in pairs, which have less loss, it is not so: after {models.steps} more models of {FEW} "
        f"features at ratio {HALF} have {pairs:.2f}. That it is a twentieth at most at ratio {QUARTER} was "
        "predicted before, and holds at this end; what was predicted of the other end was not tested, as the "
        f"further phase broke {models.told()} features. The variance over rows, which the caption shows, "
        "falls like 1/n_s^2 for any code (C30).",
        models.enough,
        models.keeps(text, early, "<=", SAME),
        models.keeps(f"{text} at ratio {QUARTER}", early[1], "<=", before(0.05)),
    )

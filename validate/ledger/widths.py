"""Capacities (Scherlis et al. 2022), U1 and U2: how features share the neurons."""

import numpy as np
import xarray as xr

from ...solvers.statistics import Family, mean
from ...theory.features import Features
from ...theory.unequal import capacities, power_law
from ...theory.validation import FloatArray
from ..experiments.unequal.models import normal_losses
from ..runner.findings import confirmed, derived, enough_runs, numeric, post_hoc, rounding, searched
from .claim import Evidence, claim, corrected_statement, evidence

SCHERLIS = "scherlis2022"


@claim("U1", SCHERLIS, "capacity", "sum_i C_i <= D, where C_i = (W_i.W_i)^2/sum_j (W_i.W_j)^2")
def check_u1(quick: bool) -> Evidence:
    rng = np.random.default_rng(1)
    over, least = -np.inf, np.inf
    for _ in range(100 if quick else 2000):
        n = int(rng.integers(2, 12))
        m = int(rng.integers(1, n + 1))
        W = rng.standard_t(2, size=(n, m)) * np.exp(3 * rng.standard_normal((n, 1)))
        # At unit variances the capacity of a tied model's output is C_i.
        total = float(np.sum(capacities(W @ W.T, Features(n, 0.5, scale=(5 / 48) ** -0.5))))
        over, least = max(over, total - m), min(least, total)
    return evidence(
        "C_i is the squared cosine of row i of W W' and the unit vector e_i, so at most |P e_i|^2 for the "
        "projection P on the rows, whose trace is the rank. With variances v_j the same holds of M "
        "diag(v)^(1/2) for any M of rank D, tied or not. The sum is at least 1, as (W_i.W_j)^2 <= |W_i|^2 "
        "|W_j|^2.",
        searched(
            "largest sum less D, random encodings of very different lengths", over, "<=", rounding(1e-9)
        ),
        searched("least sum", least, ">=", rounding(1 - 1e-9)),
    )


def _exchange_capacities(law: Features, n_hidden: int) -> FloatArray:
    """Return capacities (n_features,) of sum `n_hidden` at which no exchange between two lowers the loss.

    A capacity is a feature's share of a hidden dimension. The loss is the sum of `normal_losses`, the
    features' losses if all interference is normal. Exchanges are tried in steps from 1/8 down to 1e-5.
    """
    capacity, step = np.full(law.n_features, n_hidden / law.n_features), 0.125
    while step > 1e-5:
        losses, after_gain, after_loss = (normal_losses(capacity + by, law) for by in (0.0, step, -step))
        gain = np.where(capacity + step <= 1, losses - after_gain, -np.inf)
        taker = int(gain.argmax())
        cost = np.where(capacity >= step, after_loss - losses, np.inf)
        cost[taker] = np.inf
        giver = int(cost.argmin())
        if gain[taker] > cost[giver]:
            capacity[[taker, giver]] += step, -step
        else:
            step /= 2
    return capacity


@claim(
    "U2",
    SCHERLIS,
    "allocation",
    "L = sum_i L_i(C_i), sum_i C_i = D: at the least L all features with 0 < C_i < 1 have one -dL_i/dC_i",
    needs=["unequal.fresh"],
)
def check_u2(quick: bool, ds: xr.Dataset) -> Evidence:
    law = power_law(1.0, 32, 1.0, scale=2.0)
    best = _exchange_capacities(law, 8)
    inside = (best > 0) & (best < 0.999)
    step = 1e-4 * best
    below, above = (normal_losses(capacity, law) for capacity in (best - step, best + step))
    slopes = ((below - above) / (2 * step))[inside]
    off = float(np.max(np.abs(slopes / slopes.mean() - 1)))
    free = ds.sel(tied=0, alpha=1.0, n_hidden=[10, 32]).isel(weight_decay=0, steps=-1)
    family = Family(0.01, 2)
    shape = [family.of(mean, (free["loss"] / free["normal"]).sel(n_hidden=m).values) for m in (10, 32)]
    return evidence(
        "Kuhn and Tucker. The loss of a ReLU model is such a sum where interference is normal, as with many "
        "features on: the slopes at a split found by exchanges alone are equal. With few on trained models "
        f"lose {shape[0].value:.2f} (m = 10) and {shape[1].value:.2f} (m = 32) times what normal "
        "interference of their capacities would. On two seeds the alarm rate had been raised to 0.02 after "
        f"a look, and four more were seen; these are {free.sizes['seed']} others, at 0.01.",
        enough_runs("trained models at each m", free.sizes["seed"], origin=ds),
        numeric("largest |slope / their mean - 1|, alpha = 1, m = 8 of 32", off, "<=", post_hoc(0.01)),
        corrected_statement(
            "with few features on at a time the loss is no function of the capacities",
            confirmed("trained loss over that of normal interference", shape, "<", derived(1), origin=ds),
        ),
    )

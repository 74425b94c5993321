"""What features that are on together do to collisions: the one-hot input of Lecomte et al. (2024) relaxed."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from ...theory import arguments
from .counts import ON
from .training import merged, train_l1, with_shifted

# Of the printed loss for one feature at a time. The curvature grows with the number that are on together.
RATE = 0.05


def run_cooccurrence(
    n_features: int = 16,
    n_hidden: int = 16,
    lam: Sequence[float] = (0.16,),
    p: Sequence[float] = (0.0, 0.004, 0.012, 0.04, 0.12),
    seeds: Sequence[int] = tuple(range(32)),
    *,
    time: float = 5.0,
    device: str = "auto",
) -> xr.Dataset:
    r"""Train with every feature on with probability p, independently, and count polysemantic neurons.

    Inputs are fresh at each step. The loss is normalised per feature that is on, so that for p → 0 it is the
    printed one (Lecomte et al. 2024, §2.1), and each feature is on four times in a batch on average, whatever
    p is: gradients have the same expected size and the same noise.

    Parameters
    ----------
    n_features, n_hidden : int
        Sizes of the model; see `train_l1`.
    lam, p : sequence of float
        l1 strengths of the printed loss, positive, on the activations; chances in [0, 1], where 0 means the
        source's setting, the standard basis as one batch.
    seeds : sequence of int
        Runs; their first weights are the same for every `lam` and `p`.
    time : float
        Length of the training in units of 1/lam_normal, lam_normal = lam/4.
    device : {"auto", "cpu", "cuda"}

    Returns
    -------
    xarray.Dataset
        Of (lam, p, run): what `collision_counts` gives at the end; ``polysemantic_0.25`` and
        ``polysemantic_0.8``, counts at shifted thresholds; ``diverged``; ``after``, the polysemantic neurons
        of models that were trained with one feature at a time before, with as many as at p = 0, in ``before``
        (lam, run). Coordinates ``lam_normal`` (lam) and ``on`` (p), the expected number of features on, p n.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    Expect the count to fall where p reaches lam_normal, not where p n reaches 1 (heuristic, from a reduced
    model). Let feature j have the weight -v on a neuron where feature i has :math:`w_1`, and let i have
    :math:`w_2` on a free neuron, both encodings of unit length. On inputs with both on, both outputs are too
    small by :math:`v w_1`, and to first order in p (exactly in p but for the l1 term) the flow becomes

    .. math:: \frac{d}{dt}\ln\frac{w_1}{w_2}
              = \lambda\Bigl(\frac1{w_2} - \frac1{w_1}\Bigr) - p\,v^2 .

    So the shared neuron wins only with a head start, :math:`1/w_2 - 1/w_1 > p v^2/\lambda`. Once it has won,
    :math:`w_2` is zero, and so is the force on it: co-occurrence does not part a pair that has formed.

    In place of a shared neuron there can be a *Hadamard pair*: two features on two neurons with the encodings
    (1, 1) and (1, -1) over sqrt(2). They are orthogonal, so that nothing interferes, and the l1 term on the
    activations, of which one cancels when both features are on, holds them at just this angle: about it the
    l1 norm has a kink of slope :math:`\sqrt2\,p`, and the single features only a maximum that is smooth. Each
    counts as two polysemantic neurons below a threshold of sqrt(1/2), and as one ``malign`` and one
    ``benign`` pair.

    Where p n is well above 1, several encodings add up in each activation, and the l1 term on it no longer
    singles out one-hot encodings: ``nonzeros`` says so. There a neuron carries parts of many features, and
    the count depends on the threshold.

    Examples
    --------
    >>> ds = run_cooccurrence(8, 8, [0.2], [0.0, 0.1], range(8), device="cpu")
    >>> bool(ds.polysemantic.sel(p=0.1).mean() < ds.polysemantic.sel(p=0.0).mean())
    True
    """
    lams = arguments.real("lam", arguments.vector("lam", lam), 0, brackets="()")
    ps = arguments.real("p", arguments.vector("p", p), 0, 1)
    time = arguments.number("time", time, 0, brackets="()")
    seeds = list(seeds)

    def trained(strength: float, prob: float, start: np.ndarray | None) -> xr.Dataset:
        rate = RATE / (1 + prob * n_features)
        options: dict[str, Any] = {
            "optimiser": "sign",
            "device": device,
            "keep_weights": True,
            "start": start,
        }
        options |= {"learning_rate": rate, "steps": round(time / (strength * rate)), "p": prob or None}
        return train_l1(n_features, n_hidden, strength, seeds, **options).isel(step=0, drop=True)

    rows = []
    for strength in map(float, lams):
        basis = trained(strength, 0.0, None)
        columns = []
        for prob in map(float, ps):
            ds = trained(strength, prob, None) if prob else basis
            later = trained(strength, prob, basis["W"].values) if prob else basis
            kept = with_shifted(ds).drop_vars(["W", "loss", "t", "lam", "lam_normal"])
            columns.append(kept.assign(after=later["polysemantic"]))
        rows.append(merged(columns, p=ps).assign(before=basis["polysemantic"]))
    ds = merged(rows, lam=lams).drop_vars("seed").transpose("lam", "p", "run")
    ds = ds.assign_coords(lam_normal=("lam", lams / 4), on=("p", ps * n_features), seed=("run", seeds))
    return ds.assign_attrs(n_features=n_features, n_hidden=n_hidden, time=time, threshold=ON)

"""Encoder and decoder of their own: App. A of Lecomte et al. (2024) tested."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from ...theory import arguments
from .training import merged, train_l1

__all__ = ["CASES", "run_untied"]


class Case(NamedTuple):
    """How encoder and decoder begin, and what acts on them."""

    penalty: str = "activations"
    l1: float = 1.0  # over lam
    decay: float = 0.0  # over lam, decoupled
    scale: float = 0.9
    equal: bool = False  # both begin equal


CASES = {
    "l1 on activations": Case(),
    "equal start": Case(equal=True),
    "small start": Case(scale=0.1),
    "decay = λ": Case(decay=1.0),
    "decay = 10 λ": Case(decay=10.0),
    "l1 on both": Case(penalty="weights"),
    "no l1": Case(l1=0.0),
    "no l1, small start": Case(l1=0.0, scale=0.1),
    "no l1, decay = λ": Case(l1=0.0, decay=1.0),
}
# Of the printed loss. A feature's fastest rate is 2 (|D|^2 + |E|^2), and |D|^2 grows to about 10.
RATE = 0.05


def run_untied(
    n_features: int = 16,
    n_hidden: int = 32,
    lam: float = 0.02,
    seeds: Sequence[int] = tuple(range(16)),
    *,
    times: Sequence[float] = (0.5, 1.0, 2.0, 4.0, 8.0),
    cases: Sequence[str] = tuple(CASES),
    device: str = "auto",
) -> xr.Dataset:
    """Train encoders and decoders of their own and compare them (Lecomte et al. 2024, App. A, "Tied weights").

    Parameters
    ----------
    n_features, n_hidden, lam, seeds
        As in `train_l1`; `lam` positive.
    times, cases : increasing sequence of float, sequence of str
        When to look, in units of 1/lam_normal, which is 2/lam for untied weights; which of `CASES`: where the
        l1 term is, if anywhere ("both": on the weights of encoder and decoder, as in the authors' code), how
        strong the decoupled weight decay is, how the weights begin.
    device : {"auto", "cpu", "cuda"}

    Returns
    -------
    xarray.Dataset
        Of (case, time, run): ``mismatch``, ``cosine`` and ``norm_ratio`` over the features that are learned,
        ``dead`` features, ``polysemantic`` neurons, ``nonzeros``, ``loss``; see `train_l1`.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> ds = run_untied(8, 16, 0.05, range(4), times=[4.0], cases=["equal start"], device="cpu")
    >>> bool((ds.norm_ratio > 2).all())
    True
    """
    lam = arguments.number("lam", lam, 0, brackets="()")
    clock = arguments.real("times", arguments.vector("times", times), 0, brackets="()")
    cases = [arguments.choice("cases", case, tuple(CASES)) for case in cases]
    steps = np.maximum(np.round(clock / (lam * RATE)), 1).astype(int).tolist()
    names = ["mismatch", "cosine", "norm_ratio", "dead", "polysemantic", "nonzeros", "loss"]
    seeds, found = list(seeds), []
    for case in map(CASES.__getitem__, cases):
        options: dict[str, Any] = {"scale": case.scale, "device": device}
        if case.equal:
            drawn = train_l1(n_features, n_hidden, lam, seeds, steps=0, keep_weights=True, **options)
            options |= {"start": drawn["W"].values[0], "start_decoder": drawn["W"].values[0]}
        options |= {"penalty": case.penalty, "weight_decay": case.decay * lam, "learning_rate": RATE}
        ds = train_l1(n_features, n_hidden, case.l1 * lam, seeds, tied=False, steps=steps, **options)
        found.append(ds[names].rename(step="time").assign_coords(time=clock))
    ds = merged(found, case=cases)
    ds.attrs = {"n_features": n_features, "n_hidden": n_hidden, "lam": lam}
    return ds

"""Lecomte et al. (2024) by training: Fig. 3 as printed, by optimiser, untied (App. A), with co-occurrence."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from ....solvers import collisions as solvers
from ....solvers.collisions.counts import ON
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.collisions import quoted_polysemantic
from .fig3 import RTOL
from .training import RATES, merge_settings, train_l1, with_shifted

# Of the authors' code: weights that it counts, in absolute value, and s.d. of first weights times sqrt(m).
WINDOW, SCALE = (0.8, 1.2), 1.0
NAMES = {"flow": "flow", "gd": "gradient descent", "sign": "gradient descent with sign(W)", "adamw": "AdamW"}


@as_annotated
def run_trained(
    n_features: int = 32,
    n_hidden: Sequence[int] = (32, 64, 128),
    lam: float = 0.02,
    seeds: Sequence[int] = tuple(range(16)),
    *,
    optimisers: Sequence[str] = ("gd", "adamw"),
    time: float = 6.0,
    adamw_steps: int = 6000,
    device: str = "auto",
) -> xr.Dataset:
    """Train by plain gradient descent and by AdamW from the same first weights, and count (§2.5, Fig. 3).

    Parameters
    ----------
    n_features, n_hidden : int, sequence of int
        n, and values of m.
    lam, seeds : float, sequence of int
        l1 strength of the printed loss, positive, four times that of the normal form; at least two runs.
    optimisers : sequence of {"flow", "gd", "sign", "adamw"}
        "flow" is no training but `solvers.collisions.flow` at lam/4, from the same first weights.
    time, adamw_steps : float, int
        Length of the flow and of gradient descent in units of 1/lam_normal; steps of AdamW, which moves
        weights by about its learning rate a step, whatever lam is: it takes some thousand until encodings are
        one-hot.
    device : {"auto", "cpu", "cuda"}

    Returns
    -------
    xarray.Dataset
        Of (optimiser, n_hidden, run): what `collision_counts` gives, ``polysemantic_0.25`` and
        ``polysemantic_0.8`` at shifted thresholds, ``loss``, ``diverged``. Of (n_hidden): ``quoted``,
        n^2/(4 m).

    Examples
    --------
    >>> ds = run_trained(8, [8], 0.1, range(4), optimisers=["gd"], device="cpu")
    >>> float(ds.quoted[0]), int(ds.dead.sum())
    (2.0, 0)
    """
    sizes, lam, seeds = _checked(n_hidden, lam, seeds)
    time = validation.number("time", time, 0, brackets="()")
    optimisers = validation.choices("optimisers", optimisers, tuple(NAMES))

    def counted(optimiser: str, m: int) -> xr.Dataset:
        options: dict[str, Any] = {"scale": SCALE, "device": device, "keep_weights": True}
        if optimiser == "flow":
            first = train_l1(n_features, m, lam, seeds, steps=0, **options)["W"].values[0].astype(float)
            # No step of training: the end of the flow, counted as the others are.
            options |= {"steps": 0, "start": solvers.flow(first, lam / 4, time / (lam / 4), tol=RTOL).W}
        elif optimiser == "adamw":
            options |= {"optimiser": optimiser, "steps": adamw_steps}
        else:
            options |= {"optimiser": optimiser, "steps": round(time / (lam * RATES[optimiser]))}
        ds = with_shifted(train_l1(n_features, m, lam, seeds, **options).isel(step=0, drop=True))
        return ds.drop_vars(["W", "t", "seed", "lam", "lam_normal"], errors="ignore")

    rows = [merge_settings([counted(one, m) for m in sizes], n_hidden=sizes) for one in optimisers]
    ds = merge_settings(rows, optimiser=optimisers).transpose("optimiser", "n_hidden", "run")
    ds["quoted"] = ("n_hidden", np.atleast_1d(quoted_polysemantic(n_features, sizes)))
    ds.attrs = {"n_features": n_features, "lam": lam, "time": time, "adamw_steps": adamw_steps}
    return ds.assign_coords(seed=("run", seeds)).assign_attrs(scale=SCALE, threshold=ON)


def _checked(n_hidden: Sequence[int], lam: float, seeds: Sequence[int]) -> tuple[list[int], float, list[int]]:
    if len(seeds) < 2:
        raise ValueError(f"`seeds` must be at least two, for an interval; got {list(seeds)}.")
    sizes = [validation.integer("n_hidden", m, 1) for m in n_hidden]
    return sizes, validation.number("lam", lam, 0, brackets="()"), list(seeds)


@as_annotated
def run_printed(
    n_hidden: Sequence[int] = (256, 512, 1024, 2048, 4096),
    seeds: Sequence[int] = tuple(range(16)),
    *,
    n_features: int = 256,
    lam: float = 1e-3,
    steps: Sequence[int] = (1500, 2500, 3500, 5000, 7500),
    device: str = "auto",
) -> xr.Dataset:
    """Train what Fig. 3 shows, by the settings of the authors' published code, and count as it does.

    Parameters
    ----------
    n_hidden, seeds, n_features, lam, device
        As in `run_trained`.
    steps : increasing sequence of int
        Steps of AdamW at which to count; the published code makes 7500.

    Returns
    -------
    xarray.Dataset
        Of (step, n_hidden, run): ``polysemantic``, neurons on which two or more features have weights between
        0.8 and 1.2 in absolute value; ``polysemantic_0.5``, with weights above `ON`; ``dead`` and
        ``nonzeros`` of `collision_counts`; ``loss``. Of (n_hidden): ``quoted``, n^2/(4 m). Coordinate
        ``seed``.

    References
    ----------
    .. [1] Lecomte et al. (2024), §2.5, Fig. 3, and github.com/tmychow/accidental-polysemanticity,
       experiments/collisions.py: AdamW with learning rate 1e-3, lam = 1e-3, 7500 steps, s.d. 1/sqrt(m).

    Examples
    --------
    >>> ds = run_printed([8], range(4), n_features=8, lam=0.1, steps=[1500], device="cpu")
    >>> ds.polysemantic.dims, float(ds.quoted[0])
    (('step', 'n_hidden', 'run'), 2.0)
    """
    sizes, lam, seeds = _checked(n_hidden, lam, seeds)
    options: dict[str, Any] = {"optimiser": "adamw", "steps": steps, "scale": SCALE, "keep_weights": True}
    columns = []
    for m in sizes:
        ds = train_l1(n_features, m, lam, seeds, device=device, **options)
        size = np.abs(ds["W"].values)
        among = np.sum((size >= WINDOW[0]) & (size <= WINDOW[1]), axis=-2)
        kept = ds[["polysemantic", "dead", "nonzeros", "loss"]].rename(polysemantic="polysemantic_0.5")
        columns.append(kept.assign(polysemantic=(("step", "run"), np.sum(among >= 2, axis=-1).astype(float))))
    found = merge_settings(columns, n_hidden=sizes).transpose("step", "n_hidden", "run")
    found["quoted"] = ("n_hidden", np.atleast_1d(quoted_polysemantic(n_features, sizes)))
    return found.assign_coords(seed=("run", seeds)).assign_attrs(n_features=n_features, lam=lam, scale=SCALE)


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
UNTIED_RATE = 0.05
MOST_STEPS = 10**9


@as_annotated
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
    """Train encoders and decoders of their own and compare them (App. A, "Tied weights").

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

    Examples
    --------
    >>> ds = run_untied(8, 16, 0.05, range(4), times=[4.0], cases=["equal start"], device="cpu")
    >>> bool((ds.norm_ratio > 2).all())
    True
    """
    lam = validation.number("lam", lam, 0, brackets="()")
    clock = validation.real("times", validation.vector("times", times), 0, brackets="()")
    cases = [validation.choice("cases", case, tuple(CASES)) for case in cases]
    validation.real("times", clock, 0, MOST_STEPS * lam * UNTIED_RATE)
    steps = np.maximum(np.round(clock / (lam * UNTIED_RATE)), 1).astype(int).tolist()
    if sorted(set(steps)) != steps:
        rule = f"increase by {lam * UNTIED_RATE:g}, a step, or more"
        raise ValueError(f"`times` must {rule}; got {validation.short_repr(clock.tolist())}.")
    names = ["mismatch", "cosine", "norm_ratio", "dead", "polysemantic", "nonzeros", "loss"]
    seeds, found = list(seeds), []
    for case in map(CASES.__getitem__, cases):
        options: dict[str, Any] = {"scale": case.scale, "device": device}
        if case.equal:
            drawn = train_l1(n_features, n_hidden, lam, seeds, steps=0, keep_weights=True, **options)
            options |= {"start": drawn["W"].values[0], "start_decoder": drawn["W"].values[0]}
        options |= {"penalty": case.penalty, "weight_decay": case.decay * lam, "learning_rate": UNTIED_RATE}
        ds = train_l1(n_features, n_hidden, case.l1 * lam, seeds, tied=False, steps=steps, **options)
        found.append(ds[names].rename(step="time").assign_coords(time=clock))
    ds = merge_settings(found, case=cases)
    ds.attrs = {"n_features": n_features, "n_hidden": n_hidden, "lam": lam}
    return ds


# Of the printed loss for one feature at a time. The curvature grows with the number that are on together.
TOGETHER_RATE = 0.05


@as_annotated
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
    """Train with every feature on with probability p, independently, and count polysemantic neurons.

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

    Notes
    -----
    Expect the count to fall where p reaches lam_normal, not where p n reaches 1: heuristic, from the reduced
    model of the documentation. Where p n is well above 1, several encodings add up in each activation, and
    the l1 term on it no longer singles out one-hot encodings: ``nonzeros`` says so. There a neuron carries
    parts of many features, and the count depends on the threshold.

    Examples
    --------
    >>> ds = run_cooccurrence(8, 8, [0.2], [0.0, 0.1], range(8), device="cpu")
    >>> bool(ds.polysemantic.sel(p=0.1).mean() < ds.polysemantic.sel(p=0.0).mean())
    True
    """
    lams = validation.real("lam", validation.vector("lam", lam), 0, brackets="()")
    ps = validation.real("p", validation.vector("p", p), 0, 1)
    time = validation.number("time", time, 0, brackets="()")
    seeds = list(seeds)

    def trained(strength: float, prob: float, start: np.ndarray | None) -> xr.Dataset:
        rate = TOGETHER_RATE / (1 + prob * n_features)
        options: dict[str, Any] = {"optimiser": "sign", "device": device, "keep_weights": True}
        options |= {"learning_rate": rate, "steps": round(time / (strength * rate))}
        options |= {"start": start, "p": prob or None}
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
        rows.append(merge_settings(columns, p=ps).assign(before=basis["polysemantic"]))
    ds = merge_settings(rows, lam=lams).drop_vars("seed").transpose("lam", "p", "run")
    ds = ds.assign_coords(lam_normal=("lam", lams / 4), on=("p", ps * n_features), seed=("run", seeds))
    return ds.assign_attrs(n_features=n_features, n_hidden=n_hidden, time=time, threshold=ON)

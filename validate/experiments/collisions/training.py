"""PyTorch training of the l1 model of Lecomte et al. (2024), §2, many runs at once, on CPU or CUDA."""

import itertools
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from ....solvers.collisions.counts import ON, SHIFTED, agreement, collision_counts, printed_loss, signed_root
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.validation import FloatArray
from ...training.engine import choose_device, load_torch, provenance
from ...training.points import broadcast
from .engine import Rule, batch_size_and_weight, train_stack

OPTIMISERS = ("gd", "sign", "adamw")
PENALTIES = ("activations", "weights")

# Of the printed loss. 0.05 is a step of 0.2 in the clock of the normal form, whose rates are at most about 6
# at the start (n_hidden = n_features) and 2 later; AdamW's is that of the authors' published code.
RATES = {"gd": 0.05, "sign": 0.05, "adamw": 1e-3}
DECAYS = {"gd": 0.0, "sign": 0.0, "adamw": 0.01}  # AdamW: PyTorch's default, which that code leaves alone

AUTHORS_SCALE = 1.0  # of their code: standard deviation of first weights times sqrt(m)

# Floats of one stack's largest array: a few of them stay in the cache of a core, and on a GPU in its memory.
STACK_CPU, STACK_CUDA = 2**18, 2**29


@as_annotated
def train_l1(
    n_features: int,
    n_hidden: int,
    lam: npt.ArrayLike,
    seeds: npt.ArrayLike,
    *,
    optimiser: str = "gd",
    learning_rate: float | None = None,
    steps: int | Sequence[int] = 2000,
    p: float | None = None,
    tied: bool = True,
    penalty: str = "activations",
    weight_decay: float | None = None,
    scale: float = 0.9,
    start: npt.ArrayLike | None = None,
    start_decoder: npt.ArrayLike | None = None,
    device: str = "auto",
    keep_weights: bool = False,
) -> xr.Dataset:
    r"""Train autoencoders ReLU(W W' x) with an l1 term and count their collisions.

    The loss is the one that is printed (Lecomte et al. 2024, §2.1), a sum over the features,

    .. math:: \sum_i\Bigl[(1-\|W_i\|^2)^2 + \sum_{j\ne i}\mathrm{ReLU}(W_i\cdot W_j)^2
              + \lambda\|W_i\|_1\Bigr].

    Its gradient has a factor 4, which the sources' normal form drops (their footnote 5): a run of plain
    gradient descent follows the flow of the normal form with ``lam_normal = lam/4`` to the time
    ``t = 4 * learning_rate * step``. Untied weights share the gradient between encoder and decoder: there
    the factors are 2. AdamW has no such clock.

    Parameters
    ----------
    n_features, n_hidden : int
        n and m, at least 1.
    lam, seeds : scalar or (runs,) array_like
        l1 strength of the printed loss, and seed, not negative. A run's first weights depend on its seed,
        `n_features` and `n_hidden` only.
    optimiser : {"gd", "sign", "adamw"}
        "gd" takes gradient steps on the squared errors, each followed by a soft threshold of size
        ``learning_rate * lam`` (the proximal step of the l1 term): weights reach zero and stay there until
        the force on them exceeds lam, as in the flow. "sign" has the sign of the activations in the
        gradient, and chatters about zero. "adamw" is ``torch.optim.AdamW`` on that gradient, as in the
        authors' published code.
    learning_rate : float, optional
        0.05 for "gd" and "sign", 1e-3 for "adamw" if not given.
    steps : int or increasing sequence of int
        Number of steps, or several numbers of steps after each of which collisions are counted.
    p : float, optional
        If given, inputs are drawn afresh at every step, each feature on with this probability, independently;
        (0, 1]. Not possible with "gd" unless the penalty is on the weights. A feature is on four times in one
        batch, on average, and the loss is normalised per feature that is on: it becomes the printed one for
        p → 0, and gradients have the same size and noise at every p.
    tied : bool
        Whether to train one W; if not, an encoder and a decoder with separate first weights.
    keep_weights : bool
        Whether to return the weights, too, at each of `steps`.
    penalty : {"activations", "weights"}
        What the l1 term acts on. "weights" is encoder and decoder, as in the authors' code for untied
        weights; for tied weights and one feature at a time both are the same.
    weight_decay : float, optional
        Decoupled: each step first multiplies the weights by 1 - learning_rate * weight_decay. 0.01 for
        "adamw", 0 otherwise, if not given.
    scale, start, start_decoder : float, (runs, n_features, n_hidden) array_like
        First weights are independent normals of standard deviation scale/sqrt(n_hidden); the authors' code
        has 1 and their Fig. 2 has 0.9. Or pass the first weights of W, or of encoder and decoder.
    device : {"auto", "cpu", "cuda"}

    Returns
    -------
    xarray.Dataset
        Of (run): ``seed``, ``lam``, ``lam_normal``. Of (step): ``t``, in the normal form (not for "adamw").
        Of (step, run), from `solvers.collisions.collision_counts`: ``polysemantic`` neurons, which hold two
        features or more; pairs of features on a neuron with opposite (``benign``) and equal signs
        (``malign``); ``dead`` features; ``nonzeros`` and ``l1_norm``, means over encodings. Also ``loss``
        (printed, on the standard basis), ``diverged`` (0 or 1; all else is NaN then). For untied weights,
        encoder E and decoder D, also means over the features that are learned, those with D_i.E_i of at least
        `solvers.collisions.counts.DEAD`: ``mismatch``, |E_i - D_i|/|D_i|; ``cosine`` of E_i and D_i;
        ``norm_ratio``, |D_i|/|E_i|. Collisions are then counted of the signed root of E_ik D_ik, which is
        W_ik if E = D = W. With `keep_weights`: ``W``, or ``encoder`` and ``decoder``, (step, run, feature,
        hidden), float32.

    Examples
    --------
    >>> ds = train_l1(8, 8, 0.1, range(4), steps=2000, device="cpu")
    >>> bool((ds.nonzeros == 1).all()), int(ds.dead.sum()), int(ds.malign.sum())
    (True, 0, 0)
    """
    n, m = validation.integers(n_features=(n_features, 1), n_hidden=(n_hidden, 1))
    # weights, inputs and the steps of one run
    validation.check_fits("n_features", n_features, 4.0 * n * (m + n))
    lams, seed_row = map(np.array, broadcast(lam=validation.real("lam", lam, 0, 1e30), seeds=seeds))
    seed_list = [validation.integer("seeds", item, 0) for item in seed_row]
    rule = _checked_rule(optimiser, learning_rate, weight_decay, penalty, tied, p)
    stops = [validation.integer("steps", item, 0) for item in np.atleast_1d(np.asarray(steps))]
    if not stops or any(b <= a for a, b in itertools.pairwise(stops)):
        raise ValueError(f"`steps` must be one number or increasing; got {stops}.")
    scale = validation.number("scale", scale, 0)
    E, D = _first_weights(n, m, seed_list, scale, rule.tied, start, start_decoder)
    torch = load_torch()
    torch_device = choose_device(torch, device)
    batch = n if rule.p is None else batch_size_and_weight(n, rule.p)[0]
    began = time.perf_counter()

    def train(chunk: slice) -> list[tuple[FloatArray, ...]]:
        """Return copies of encoder and decoder of some runs after each of `steps`; `chunk` is their slice."""
        arrays = (E[chunk], D[chunk], lams[chunk])
        first, second, strengths = (torch.from_numpy(a.astype(np.float32)).to(torch_device) for a in arrays)
        second = first if rule.tied else second
        models = [(seed, n, m) for seed in seed_list[chunk]]
        generators = [_seeded_generator(torch, torch_device, model, rule.p) for model in models if rule.p]
        stages = train_stack(torch, first, second, strengths, generators, rule, stops)
        return [tuple(W.cpu().numpy().astype(np.float64) for W in weights) for weights in stages]

    with torch.no_grad():
        chunks = [train(chunk) for chunk in _run_chunks(len(seed_list), n, m, batch, torch_device.type)]
    # Of each chunk the encoders and decoders at each stop; of each stop those of all runs.
    ends = [[np.concatenate(part) for part in zip(*at, strict=True)] for at in zip(*chunks, strict=True)]
    factor = 4 if rule.tied else 2
    ds = xr.concat([_measure_runs(E, D, lams, rule) for E, D in ends], "step")
    ds = ds.assign_coords(step=stops, run=np.arange(len(seed_list)))
    ds["seed"], ds["lam"], ds["lam_normal"] = ("run", seed_list), ("run", lams), ("run", lams / factor)
    if rule.optimiser != "adamw":
        ds["t"] = ("step", factor * rule.learning_rate * np.array(stops, dtype=float))
    if keep_weights:
        for part, name in enumerate(("W",) if rule.tied else ("encoder", "decoder")):
            weights = np.stack([end[part] for end in ends]).astype(np.float32)
            ds[name] = (("step", "run", "feature", "hidden"), weights)
    facts = {"n_features": n, "n_hidden": m, **asdict(rule), "tied": int(rule.tied), "p": rule.p or 0.0}
    facts |= {"batch": batch, "scale": scale, "threshold": ON}
    return ds.assign_attrs(facts | provenance(torch, torch_device, began))


def check_runs(lam: float, seeds: Sequence[int]) -> tuple[float, list[int]]:
    """Return validated `lam` and `seeds`; ValueError unless lam > 0 and there are two seeds or more."""
    if len(seeds) < 2:
        raise ValueError(f"`seeds` must be at least two, for an interval; got {list(seeds)}.")
    return validation.number("lam", lam, 0, brackets="()"), list(seeds)


def merge_settings(parts: Sequence[xr.Dataset], **axes: Iterable[Any]) -> xr.Dataset:
    """Return `parts`, datasets of trained models (`train_l1`), joined along one new dimension.

    `axes` is a single keyword: the name of the dimension, with its labels as value.
    """
    (name, labels), *_ = axes.items()
    return xr.concat(parts, name, combine_attrs="drop_conflicts").assign_coords({name: list(labels)})


def with_shifted(ds: xr.Dataset) -> xr.Dataset:
    """Return `ds`, from `train_l1` at one step, with counts of polysemantic neurons at other thresholds.

    A neuron is polysemantic if two features have a weight on it above the threshold. The thresholds are in
    the names of the added counts (run): ``polysemantic_0.25`` and ``polysemantic_0.8``.
    """
    for threshold in SHIFTED:
        counts = collision_counts(ds["W"].values, threshold)["polysemantic"]
        ds = ds.assign({f"polysemantic_{threshold:g}": ("run", counts)})
    return ds


def _checked_rule(
    optimiser: str, rate: float | None, decay: float | None, penalty: str, tied: bool, p: float | None
) -> Rule:
    """Return the validated settings of a training step, a `Rule`; ValueError if they do not go together.

    `optimiser` is "gd", "sign" or "adamw". `rate` is the learning rate and `decay` the weight decay; None is
    the optimiser's default. `penalty`, "activations" or "weights", is what the l1 term acts on. p is the
    probability that a feature is on; None is one-hot inputs.
    """
    optimiser = validation.choice("optimiser", optimiser, OPTIMISERS)
    p = None if p is None else validation.number("p", p, 0, 1, brackets="(]")
    rate = RATES[optimiser] if rate is None else rate
    decay = DECAYS[optimiser] if decay is None else decay
    rule = Rule(
        optimiser,
        validation.number("learning_rate", rate, 0, brackets="()"),
        validation.number("weight_decay", decay, 0),
        validation.choice("penalty", penalty, PENALTIES),
        validation.flag("tied", tied),
        p,
    )
    if p is not None and optimiser == "gd" and penalty == "activations":
        where = "where activations are sums of weights, and a soft threshold no step of the l1 term"
        raise ValueError(f"`optimiser` must be 'sign' or 'adamw' {where}; got 'gd'.")
    return rule


def _first_weights(
    n: int, m: int, seeds: Sequence[int], scale: float, tied: bool, start: Any, start_decoder: Any
) -> tuple[FloatArray, FloatArray]:
    """Return first encoders and decoders (run, n, m): normal with s.d. scale/sqrt(m), or validated starts.

    The normal ones of a run depend on its entry of `seeds`, n and m. `start` and `start_decoder` replace
    them, unless None; `tied` models have their encoders as decoders.
    """
    if tied and start_decoder is not None:
        got = f"got shape {np.shape(start_decoder)}"
        raise ValueError(f"`start_decoder` must be left out with tied weights; {got}.")
    shape = (len(seeds), n, m)
    normals = [np.random.default_rng([seed, n, m]).standard_normal((2, n, m)) for seed in seeds]
    first = scale / np.sqrt(m) * np.stack(normals, axis=1)
    for k, (name, weights) in enumerate((("start", start), ("start_decoder", start_decoder))):
        if weights is not None:
            W = validation.real(name, weights)
            if W.shape != shape:
                raise ValueError(f"`{name}` must have shape {shape}; got {W.shape}.")
            first[k] = W
    return first[0], first[0] if tied else first[1]


def _seeded_generator(torch: Any, torch_device: Any, model: Sequence[int], p: float) -> Any:
    """Return a torch generator on `torch_device`, seeded by p and `model`, which is (seed, n, m)."""
    stream = np.random.SeedSequence([*model, int(np.float64(p).view(np.uint64))])
    return torch.Generator(torch_device).manual_seed(int(stream.generate_state(1, np.uint64)[0]))


def _run_chunks(runs: int, n: int, m: int, batch: int, device: str) -> list[slice]:
    """Return slices of the runs that fit the cache (`device` "cpu") or the memory ("cuda") together.

    Arrays of a run are weights (n, m), and `batch` inputs and outputs (n) and activations (m). At most 2^18
    (cpu) or 2^29 (cuda) entries of the largest of these are stacked.
    """
    largest = max(n * m, batch * m, batch * n)
    size = max(1, (STACK_CPU if device == "cpu" else STACK_CUDA) // largest)
    return [slice(first, first + size) for first in range(0, runs, size)]


def _measure_runs(E: FloatArray, D: FloatArray, lams: FloatArray, rule: Rule) -> xr.Dataset:
    """Return for each run collision counts and loss, and whether it diverged; if untied, how weights differ.

    Variables, of (run): counts ``polysemantic`` (neurons), ``benign``, ``malign`` (pairs of features on a
    neuron, of opposite and of equal signs) and ``dead`` (features); means over encodings ``nonzeros`` and
    ``l1_norm``; ``loss`` with the l1 term; ``diverged`` (0 or 1); if untied ``mismatch``, ``cosine`` and
    ``norm_ratio`` of E_i and D_i. E and D are encoders and decoders (run, n, m), `lams` the l1 strengths
    (run,); `rule` has the penalty, and whether weights are tied.
    """
    columns = collision_counts(E if rule.tied else signed_root(E, D))
    columns["loss"] = printed_loss(E, D, lams, both=rule.penalty == "weights" and not rule.tied)
    columns["diverged"] = (~np.isfinite(columns["loss"])).astype(np.int8)
    if not rule.tied:
        columns |= agreement(E, D)
    return xr.Dataset({name: ("run", values) for name, values in columns.items()})

"""Features that depend on each other: trained models beside the best codes of blocks, and pattern tables."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from ...solvers.loss import exact_loss
from ...solvers.minimise import descend as polish
from ...solvers.unequal import block_optimum, realise_blocks
from ...theory import arguments
from ...theory.arguments import FloatArray
from ...theory.features import Features, exclusive, synchronous
from ...theory.unequal import block_capacities, repeated, weakened
from ..experiment import from_rows
from ..training import DROPPED
from ..training.engine import load_torch
from ..training.loop import descend

KINDS: dict[str, Callable[..., Any]] = {"exclusive": exclusive, "synchronous": synchronous}
RATE, END_RATE = 3e-3, 3e-5  # of Adam, falling geometrically
OPPOSED = -0.5  # a feature counts as opposed from this share of the diagonal on

Case = Sequence[Any]  # kind, strength, p, ratio


def pair_law(kind: str, strength: float, p: float) -> Features:
    """Return the law of a pair: so much of the kind's own table, the rest independent."""
    table = KINDS[arguments.choice("cases", kind, tuple(KINDS))]([0, 1], p)
    return Features(2, p, groups=[weakened(table, strength)])


def _even(name: str, value: int) -> int:
    found = arguments.integer(name, value, 4)
    if found % 2:
        raise ValueError(f"`{name}` must be even, as features come in pairs; got {found}.")
    return found


def _coordinates(cases: Sequence[Case]) -> dict[str, Any]:
    columns = list(zip(*cases, strict=True))
    names = "kind", "strength", "p", "ratio"
    return {name: ("case", list(column)) for name, column in zip(names, columns, strict=True)}


def sampler(torch: Any, law: Features, copies: int, generator: Any) -> Callable[[int, int], Any]:
    """Return a function that draws (models, batch, n) samples of independent blocks, uniform or binary."""
    ((_, patterns, chances),) = law.groups
    table = torch.tensor(patterns, dtype=torch.float32)
    edges = torch.tensor(np.cumsum(chances)[:-1], dtype=torch.float32)

    def draw(models: int, batch: int) -> Any:
        which = torch.bucketize(torch.rand((models, batch, copies), generator=generator), edges)
        on = table[which].flatten(2)
        return on * torch.rand(on.shape, generator=generator) if law.values == "uniform" else on

    return draw


def _train(law: Features, copies: int, m: int, steps: int, batch: int, seeds: Sequence[int]) -> Any:
    """Train a stack of models, one a seed; return decoders, encoders and biases."""
    torch = load_torch()
    n = copies * law.n_features
    W = np.stack([np.random.default_rng([seed, n, m]).normal(size=(n, m)) for seed in seeds])
    W /= np.linalg.norm(W, axis=2, keepdims=True)
    encoder = torch.tensor(W, dtype=torch.float32, requires_grad=True)
    decoder = encoder.detach().clone().requires_grad_(True)
    bias = torch.zeros(len(W), 1, n, requires_grad=True)
    draw = sampler(torch, law, copies, torch.Generator().manual_seed(1000 * seeds[0] + m))
    unit = batch * float(law.p.mean())

    def loss() -> Any:
        x = draw(len(W), batch)
        return (x - (x @ encoder @ decoder.mT + bias).relu()).square().sum() / unit

    def rate(step: int) -> float:
        return float(RATE * (END_RATE / RATE) ** (step / steps))

    parameters = [encoder, decoder, bias]
    list(descend(torch.optim.Adam(parameters, lr=RATE), loss, [steps], rate))
    return [one.detach() for one in parameters]


def _measured(found: Any, law: Features, copies: int, samples: int, seed: int) -> FloatArray:
    """Return losses per feature of a stack on fresh samples, the same for all its models."""
    torch = load_torch()
    encoder, decoder, bias = found
    draw, sums = sampler(torch, law, copies, torch.Generator().manual_seed(seed)), 0.0
    with torch.no_grad():
        for _ in range(samples // 1024):
            x = draw(1, 1024)
            error = x - (x @ encoder @ decoder.mT + bias).relu()
            sums = sums + error.square().double().mean(dim=(1, 2)).numpy()
    return np.asarray(sums / (samples // 1024))


def geometry(M: FloatArray, law: Features) -> dict[str, float]:
    """Say who shares a direction with whom, of a model of independent pairs 2j, 2j + 1.

    ``partner``: mean of M_ij/M_ii over the features that are kept, j the other of the pair. ``opposed``:
    share of them that hear some feature of another pair with half their own weight or more, and the opposite
    sign. ``dropped``: share of all features. ``together`` and ``apart``: mean capacities of the pairs' sums
    and differences.
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

    Encoder and decoder are free, from random encodings of length 1; Adam, rates falling geometrically from
    3e-3 to 3e-5; always fresh samples.

    Parameters
    ----------
    cases : sequence of (kind, strength, p, ratio)
        Kind "exclusive" or "synchronous"; the strength is the share of its table, see
        `theory.unequal.weakened`; p of each feature, n_hidden/n_features.
    sizes : sequence of int
        Numbers of features, even.
    seeds : sequence of int
        Of first weights and data; two or more.
    steps : sequence of int
        Lengths of training, each with its own schedule: what the losses still gain tells how far they are
        from convergence.
    batch, samples : int
        Fresh samples in each step, and to measure losses on; the same for all seeds.

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
    seeds = [arguments.integer("seeds", seed, 0) for seed in seeds]
    lengths = [arguments.integer("steps", one, 1) for one in steps]
    batch, samples = arguments.integer("batch", batch, 1), arguments.integer("samples", samples, 1024)
    laws = [pair_law(kind, strength, p) for kind, strength, p, _ in cases]
    shape = len(cases), len(sizes), len(seeds)
    trained = np.empty((*shape[:2], len(lengths), len(seeds)))
    seen: dict[str, FloatArray] = {}
    for i, ((_, _, _, ratio), law) in enumerate(zip(cases, laws, strict=True)):
        for j, n in enumerate(sizes):
            m = max(1, round(ratio * n))
            for at, length in enumerate(lengths):
                found = _train(law, n // 2, m, length, batch, seeds)
                trained[i, j, at] = _measured(found, law, n // 2, samples, 7)
            encoders, decoders, _ = (one.double().numpy() for one in found)
            every = repeated(law, n // 2)
            for s in range(len(seeds)):
                for name, value in geometry(decoders[s] @ encoders[s].T, every).items():
                    seen.setdefault(name, np.empty(shape))[i, j, s] = value
    place = ("case", "n_features", "seed")
    return xr.Dataset(
        {
            "trained": (("case", "n_features", "steps", "seed"), trained),
            **{name: (place, values) for name, values in seen.items()},
        },
        {**_coordinates(cases), "n_features": sizes, "steps": lengths, "seed": seeds},
        {"batch": batch, "samples": samples},
    )


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
    seeds = [arguments.integer("seeds", seed, 0) for seed in seeds]
    steps, batch = arguments.integer("steps", steps, 1), arguments.integer("batch", batch, 1)
    rows = []
    for kind, strength, p, ratio in cases:
        law = pair_law(kind, strength, p)
        every = repeated(law, n // 2)
        found = _train(law, n // 2, max(1, round(ratio * n)), steps, batch, seeds)
        for encoder, decoder, bias in zip(*(one.double().numpy() for one in found), strict=True):
            start = exact_loss(decoder @ encoder.T, bias[0], every, tol=1e-7).loss
            end = polish(decoder, encoder.T, bias[0], every, steps=descents)
            row = {"trained": start, "polished": end.loss, **geometry(end.W_out @ end.W_in, every)}
            rows.append(row)
    ds = from_rows(rows, case=len(cases), seed=len(seeds))
    return ds.assign_coords({**_coordinates(cases), "seed": seeds}).assign_attrs(n_features=n, steps=steps)


def run_blocks(
    cases: Sequence[Case] = (("exclusive", 1.0, 0.1, 0.25),),
    sizes: Sequence[int] = (32, 64),
    seeds: Sequence[int] = range(3),
    *,
    pairs: Sequence[int] = (1,),
    starts: int = 3,
) -> xr.Dataset:
    """Solve for the best codes of blocks in the limit, and take the exact loss of their matrices.

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
        ``coefficients`` (case, pairs, output, feature) of the part that most blocks have, with zeros
        outside the block; ``dropped`` (case, pairs), the share of the features without capacity;
        ``constructed`` (case, n_features, seed), exact losses of matrices of these sizes, of the code that
        has the least.

    Examples
    --------
    >>> ds = run_blocks([("exclusive", 1.0, 0.1, 0.4)], sizes=[16], seeds=[0])
    >>> bool(ds["predicted"] < ds["constructed"].min()), ds["coefficients"].sel(pairs=1)[0, 0, 1].item() < 0
    (True, True)
    """
    sizes = [_even("sizes", n) for n in sizes]
    shape, most = (len(cases), len(pairs)), 2 * max(pairs)
    predicted, gap, dropped = (np.empty(shape) for _ in range(3))
    coefficients = np.zeros((*shape, most, most))
    constructed = np.empty((len(cases), len(sizes), len(seeds)))
    for i, (kind, strength, p, ratio) in enumerate(cases):
        law = pair_law(kind, strength, p)
        codes = [block_optimum(repeated(law, count), ratio, starts=starts) for count in pairs]
        for k, code in enumerate(codes):
            predicted[i, k], gap[i, k] = code.loss, code.gap
            main = max(code.parts, key=lambda part: part.share)
            size = len(main.b)
            coefficients[i, k, :size, :size] = main.coefficients
            dropped[i, k] = sum(
                part.share * np.mean(part.coefficients.diagonal() == 0) for part in code.parts
            )
        best = int(np.argmin(predicted[i]))
        for j, n in enumerate(sizes):
            every = repeated(law, n // 2)
            for s, seed in enumerate(seeds):
                block = repeated(law, pairs[best])
                W_out, W_in, b = realise_blocks(codes[best], block, n // block.n_features, rng=seed)
                constructed[i, j, s] = exact_loss(W_out @ W_in, b, every, tol=1e-5).loss
    return xr.Dataset(
        {
            "predicted": (("case", "pairs"), predicted),
            "gap": (("case", "pairs"), gap),
            "dropped": (("case", "pairs"), dropped),
            "coefficients": (("case", "pairs", "output", "feature"), coefficients),
            "constructed": (("case", "n_features", "seed"), constructed),
        },
        {**_coordinates(cases), "pairs": list(pairs), "n_features": sizes, "seed": list(seeds)},
    )

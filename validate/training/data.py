"""Samplers of any law of features in PyTorch, on the device of the tensors."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...theory.features import Features
from ...theory.features.values.law import require

# Below this p it is faster to draw the gaps between the entries that are on than every entry.
GAPS_BELOW = 0.03

# Below this mean of -log(1 - p) it is faster to draw the features that are on than every entry.
FEW_ON = 0.25

# Law of the data: a number is the p of features that are alike and uniform on [0, 1].
Law = float | Features

# Fills a contiguous float32 tensor (samples, features) from a torch.Generator of its device.
Draw = Callable[[Any, Any], None]


def sampler(torch: Any, law: Law, device: Any) -> Draw:
    """Return a function ``draw(x, generator)`` that fills x (samples, features) with samples of a law.

    x is a float32 tensor on `device`, `generator` a torch.Generator there; a seed gives the same numbers on
    one device. A number as `law` is the p of equal features uniform on [0, 1]. `torch` is the module.

    The count of random numbers does not depend on their values, so that a step can be captured as a CUDA
    graph, with two exceptions, which draw on the CPU: a law of exactly k features on draws its own samples,
    seeded by the generator; and for uniform features that are rarely on, if `device` is the CPU, only the
    entries that are on are drawn.
    """
    if not isinstance(law, Features):
        return partial(_draw_gaps, torch, law) if law <= GAPS_BELOW else partial(_draw_entries, law)
    if law.exactly is not None:
        return partial(_draw_on_host, torch, law)
    if device.type == "cpu" and law.independent and law.values.uniform and law.p.max() < 1:
        edges = np.cumsum(-np.log1p(-law.p))
        if edges[-1] < FEW_ON * law.n_features:
            return _point_sampler(torch, law, torch.from_numpy(edges))
    return _quantile_sampler(torch, law, device)


def _draw_entries(p: float, x: Any, generator: Any) -> None:
    """Fill x (samples, features) with samples of equal uniform features, by drawing every entry.

    p is the probability that an entry is on. One uniform v of the `generator` decides whether it is, v < p,
    and its value: 1 - v/p is then uniform.
    """
    x.uniform_(generator=generator).mul_(-1 / p).add_(1).relu_()


def _draw_gaps(torch: Any, p: float, x: Any, generator: Any) -> None:
    """Fill x (samples, features) with samples of equal uniform features, by drawing gaps between those on.

    p is the probability that an entry is on. `generator` draws the gaps, geometric variables in float64,
    since the 2^-24 grid of float32 is coarse beside a small p.
    """
    size = x.numel()
    # So many gaps reach the end of x but for a chance below 1e-15 (10 standard deviations).
    count = math.ceil(size * p + 10 * math.sqrt(size * p) + 20)
    gaps = torch.empty(count, dtype=torch.float64, device=x.device).exponential_(generator=generator)
    on = gaps.mul_(-1 / math.log1p(-p)).floor_().add_(1).cumsum_(0).sub_(1)
    values = torch.empty(count, device=x.device).uniform_(generator=generator)
    # Entries past the end are added as zeros to the last place, which needs no data-dependent size.
    values.mul_(on < size)
    x.zero_().view(-1).index_add_(0, on.clamp_(max=size - 1).long(), values)


def _point_sampler(torch: Any, law: Features, edges: Any) -> Draw:
    """Return a sampler of independent uniform features whose cost is the number of entries that are on.

    A sampler is a function draw(x, generator) that fills x (samples, features). `edges`, a float64 tensor,
    are the cumulated sums of -log(1 - p) over the features.

    Points of a Poisson process fall on each entry, -log(1 - p) on average. An entry without points, which has
    probability 1 - p, is off; any other has the value of its last point.
    """
    scale = torch.tensor(np.array(law.scale), dtype=torch.float32)

    def draw(x: Any, generator: Any) -> None:
        """Fill x (samples, features) with samples of the law."""
        count = int(torch.poisson(edges[-1] * len(x), generator=generator))
        draws = torch.rand(count, dtype=torch.float64, generator=generator).mul_(edges[-1])
        feature = torch.searchsorted(edges, draws, right=True).clamp_(max=len(edges) - 1)
        sample = torch.randint(len(x), (count,), generator=generator)
        values = torch.rand(count, generator=generator).mul_(scale[feature])
        x.zero_().index_put_((sample, feature), values)

    return draw


def _quantile_sampler(torch: Any, law: Features, device: Any) -> Draw:
    """Return a sampler of any law, by quantiles of one float64 uniform v for each entry, on `device`.

    A sampler is a function draw(x, generator) that fills x (samples, features). The law may not be one of
    exactly k features on. An entry is on if v < p; its value is then the quantile at v/p. For features in
    groups p is replaced by 1, and one more uniform for each group picks its pattern of features on.
    """
    alone = np.array(law.p)
    # Groups with the same patterns and probabilities are drawn together.
    alike: dict[Any, list[Any]] = {}
    for indices, patterns, probabilities in law.groups:
        alone[indices] = 1.0
        key = patterns.shape, (patterns > 0).tobytes(), probabilities.tobytes()
        alike.setdefault(key, [patterns > 0, probabilities.cumsum()[:-1], []])[2].append(indices)
    # The last pattern takes what rounding leaves.
    groups = [[torch.tensor(np.array(part)).to(device) for part in parts] for parts in alike.values()]
    p, scale = torch.tensor(alone, device=device), torch.tensor(np.array(law.scale), device=device)
    quantile = require(law.values, "law", "quantile")

    def draw(x: Any, generator: Any) -> None:
        """Fill x (samples, features) with samples of the law."""
        u = torch.empty(x.shape, dtype=torch.float64, device=x.device).uniform_(generator=generator).div_(p)
        on = u < 1
        for patterns, edges, indices in groups:
            v = torch.empty(len(x), len(indices), dtype=torch.float64, device=x.device)
            which = torch.searchsorted(edges, v.uniform_(generator=generator), right=True)
            on.index_copy_(1, indices.flatten(), patterns.index_select(0, which.flatten()).view(len(x), -1))
        x.copy_(torch.where(on, quantile(torch, u) * scale, 0.0))

    return draw


def _draw_on_host(torch: Any, law: Features, x: Any, generator: Any) -> None:
    """Fill x (samples, features) with the law's own samples from the CPU, seeded by the generator."""
    seed = torch.randint(2**62, (), generator=generator, device=x.device)
    x.copy_(torch.from_numpy(law.sample(len(x), int(seed))))

"""Samples of any law, drawn by PyTorch on the device where they are needed."""

import math
from collections.abc import Callable
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

    A seed gives the same numbers on one device. How many random numbers it takes does not depend on them, so
    that a step with it can be captured, but for what is drawn on the CPU: a law with `exactly` samples
    itself, seeded by the generator, and of uniform features of which few are on only those are drawn.
    """
    if not isinstance(law, Features):
        return _gaps(torch, law) if law <= GAPS_BELOW else _entries(law)
    if law.exactly is not None:
        return _from_host(torch, law)
    if device.type == "cpu" and law.independent and law.values.uniform and law.p.max() < 1:
        edges = np.cumsum(-np.log1p(-law.p))
        if edges[-1] < FEW_ON * law.n_features:
            return _points(torch, law, torch.from_numpy(edges))
    return _unequal(torch, law, device)


def _entries(p: float) -> Draw:
    """Return a sampler of equal uniform features that draws every entry.

    One uniform v serves for an entry's being on and for its value: 1 - v/p is uniform if v < p.
    """

    def draw(x: Any, generator: Any) -> None:
        x.uniform_(generator=generator).mul_(-1 / p).add_(1).relu_()

    return draw


def _gaps(torch: Any, p: float) -> Draw:
    """Return a sampler of equal uniform features that draws the gaps between entries that are on.

    For small p most entries are zero and the 2^-24 grid of float32 is coarse beside p: gaps are geometric and
    in float64.
    """

    def draw(x: Any, generator: Any) -> None:
        size = x.numel()
        # So many gaps reach the end of x but for a chance below 1e-15 (10 standard deviations).
        count = math.ceil(size * p + 10 * math.sqrt(size * p) + 20)
        gaps = torch.empty(count, dtype=torch.float64, device=x.device).exponential_(generator=generator)
        on = gaps.mul_(-1 / math.log1p(-p)).floor_().add_(1).cumsum_(0).sub_(1)
        values = torch.empty(count, device=x.device).uniform_(generator=generator)
        # Entries past the end are added as zeros to the last place, which needs no data-dependent size.
        values.mul_(on < size)
        x.zero_().view(-1).index_add_(0, on.clamp_(max=size - 1).long(), values)

    return draw


def _points(torch: Any, law: Features, edges: Any) -> Draw:
    """Return a sampler of independent uniform features at a cost of the number that are on.

    `edges` are cumulated -log(1 - p) of the features.

    Points of a Poisson process fall on the entries, -log(1 - p) on average, so that none falls on an entry
    with probability 1 - p. One on which some fall is on, with the value that came last.
    """
    scale = torch.tensor(np.array(law.scale), dtype=torch.float32)

    def draw(x: Any, generator: Any) -> None:
        count = int(torch.poisson(edges[-1] * len(x), generator=generator))
        places = torch.rand(count, dtype=torch.float64, generator=generator).mul_(edges[-1])
        feature = torch.searchsorted(edges, places, right=True).clamp_(max=len(edges) - 1)
        sample = torch.randint(len(x), (count,), generator=generator)
        values = torch.rand(count, generator=generator).mul_(scale[feature])
        x.zero_().index_put_((sample, feature), values)

    return draw


def _unequal(torch: Any, law: Features, device: Any) -> Draw:
    """Return a sampler of any law without `exactly`, by quantiles of one float64 uniform v for each entry.

    Given v < p, v/p is uniform, and its quantile is the value. Features in groups have their p replaced by 1,
    and one more uniform for each group picks its pattern; groups that have one table are drawn together.
    """
    alone = np.array(law.p)
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
        u = torch.empty(x.shape, dtype=torch.float64, device=x.device).uniform_(generator=generator).div_(p)
        on = u < 1
        for patterns, edges, indices in groups:
            v = torch.empty(len(x), len(indices), dtype=torch.float64, device=x.device)
            which = torch.searchsorted(edges, v.uniform_(generator=generator), right=True)
            on.index_copy_(1, indices.flatten(), patterns.index_select(0, which.flatten()).view(len(x), -1))
        x.copy_(torch.where(on, quantile(torch, u) * scale, 0.0))

    return draw


def _from_host(torch: Any, law: Features) -> Draw:
    def draw(x: Any, generator: Any) -> None:
        seed = torch.randint(2**62, (), generator=generator, device=x.device)
        x.copy_(torch.from_numpy(law.sample(len(x), int(seed))))

    return draw

"""The numerical core in PyTorch of the l1 model: inputs, gradients by hand, steps, for stacked runs."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

# Floats of inputs that are drawn ahead for each run: drawing step by step costs more than the steps.
_DRAWN = 2**17
DRAWS = 4.0  # how often a random feature is on in one batch, on average


@dataclass(frozen=True)
class Rule:
    """Settings of a training step: optimiser, penalty, weights and inputs.

    ``optimiser`` "gd" takes a gradient step on the squared errors and then a soft threshold, "sign" and
    "adamw" the gradient with the sign in it. ``penalty`` is what the l1 term acts on, "activations" or
    "weights" (encoder and decoder, as in the authors' code; the same for tied weights and one-hot inputs).
    Features are on independently with probability ``p``; None stands for the standard basis as one batch.
    """

    optimiser: str
    learning_rate: float
    weight_decay: float
    penalty: str
    tied: bool
    p: float | None


def batch_size_and_weight(n: int, p: float) -> tuple[int, float]:
    """Return (inputs in a batch, weight of each in the loss) if inputs that are all zero are left out.

    Each of n features is on with probability p. The batch is so large that a feature is on four times in it,
    on average. The loss is normalised per feature that is on: for p -> 0 it tends to the loss on the standard
    basis.
    """
    share = -math.expm1(n * math.log1p(-p)) if p < 1 else 1.0  # of the inputs that have a feature on
    batch = max(1, round(DRAWS * share / p))
    return batch, share / (batch * p)


def draw_inputs(torch: Any, count: int, n: int, p: float, generator: Any) -> Any:
    """Return (count, n) random inputs of 0 and 1, features on with probability p, given at least one is.

    `generator` is a torch generator, on whose device the inputs are. All-zero inputs have no gradient:
    leaving them out changes the mean by a known factor only.
    """
    device = generator.device
    # In float64: the 2^-24 grid of float32 would be coarse beside a small p.
    u = torch.rand((count, n + 1), generator=generator, device=device, dtype=torch.float64)
    first = torch.zeros((count, 1), device=device, dtype=torch.float64)
    if p < 1:
        rate = math.log1p(-p)
        first = (torch.log1p(u[:, n:] * math.expm1(n * rate)) / rate).floor_().clamp_(max=n - 1)
    index = torch.arange(n, device=device)
    return (((u[:, :n] < p) & (index > first)) | (index == first)).to(torch.float32)


def _draw_batches(
    torch: Any, runs: int, n: int, p: float, batch: int, generators: Sequence[Any], most: int
) -> Iterator[Any]:
    """Yield for each step a batch of inputs of 0 and 1, (runs, batch, n), without end.

    Features are on with probability p, and no input is all 0. `generators` has a torch generator for each
    run; `most` is the number of steps to come, which bounds the inputs drawn ahead.
    """
    ahead = max(1, min(_DRAWN // (batch * n), most))
    while True:
        drawn = [draw_inputs(torch, ahead * batch, n, p, g) for g in generators]
        yield from torch.stack(drawn).view(runs, ahead, batch, n).unbind(1)


def gradients(
    torch: Any, E: Any, D: Any, x: Any, target: Any, weight: float, lam: Any, tied: bool
) -> tuple[Any, Any]:
    """Return gradients in E and D of ``weight * sum |ReLU(D E' x) - target|^2 + lam |E' x|_1`` over a batch.

    Tensors are stacked by run: E and D (runs, n, m), x and `target` (runs, batch, n). x None is the standard
    basis, lam None leaves out the l1 term. If `tied`, E and D are the same tensor, and (sum of both
    gradients, None) is returned.
    """
    h = E if x is None else torch.bmm(x, E)
    y = torch.bmm(h, D.mT)
    error = torch.relu(y).sub_(target).mul_(y > 0).mul_(2 * weight)
    if tied and x is None:
        # Here the matrix of errors is symmetric, and both gradients are equal.
        slope = torch.bmm(error, D).mul_(2)
        return (slope if lam is None else slope.add_(E.sign().mul_(lam * weight))), None
    back = torch.bmm(error, D)
    if lam is not None:
        back.add_(h.sign().mul_(lam * weight))
    slope_E = back if x is None else torch.bmm(x.mT, back)
    slope_D = torch.bmm(error.mT, h)
    return (slope_E + slope_D, None) if tied else (slope_E, slope_D)


def train_stack(
    torch: Any,
    E: Any,
    D: Any,
    lam: Any,
    generators: Sequence[Any],
    rule: Rule,
    stops: Sequence[int],
) -> Iterator[tuple[Any, Any]]:
    """Train stacked encoders E and decoders D in place; yield (E, D), not copied, after the steps `stops`.

    Both are (runs, n, m), and the same tensor if tied. `lam` has the l1 strength of each run (runs,),
    `generators` the torch generators of their inputs, which are not used for one-hot inputs; `rule` has the
    settings: optimiser, learning rate, decay, penalty, p, and whether weights are tied.
    """
    n = E.shape[1]
    eye = torch.eye(n, device=E.device, dtype=E.dtype)[None]
    lam = lam[:, None, None]
    weight, x, target = 1.0, None, eye
    if rule.p is not None:
        batch, weight = batch_size_and_weight(n, rule.p)
        batches = _draw_batches(torch, E.shape[0], n, rule.p, batch, generators, stops[-1])
    both = [E] if rule.tied else [E, D]
    adamw = None
    if rule.optimiser == "adamw":
        # Fused: one pass over the weights in place of a dozen, which took as long as the gradients.
        adamw = torch.optim.AdamW(both, lr=rule.learning_rate, weight_decay=rule.weight_decay, fused=True)
    on_weights = rule.penalty == "weights"
    step = 0
    for stop in stops:
        while step < stop:
            if rule.p is not None:
                target = x = next(batches)
            smooth_only = rule.optimiser == "gd" or on_weights
            slopes = gradients(torch, E, D, x, target, weight, None if smooth_only else lam, rule.tied)
            if on_weights and rule.optimiser != "gd":
                for W, slope in zip(both, slopes, strict=False):
                    slope.add_(W.sign().mul_(lam))
            if adamw is not None:
                for W, slope in zip(both, slopes, strict=False):
                    W.grad = slope
                adamw.step()
            else:
                _step_weights(torch, both, slopes, lam, rule)
            step += 1
        yield E, D


def _step_weights(torch: Any, both: Sequence[Any], slopes: Sequence[Any], lam: Any, rule: Rule) -> None:
    """Take a gradient step of each tensor in `both`, [E, D] or [E] if tied, in place.

    Weights are first multiplied by 1 - learning rate * decay; then the step is subtracted. The optimiser "gd"
    adds a soft threshold of size learning rate * `lam` to E, or to E and D if the penalty is on weights.
    `slopes` are the gradients (runs, n, m), `lam` the l1 strengths (runs, 1, 1), `rule` the settings.
    """
    for k, (W, slope) in enumerate(zip(both, slopes, strict=False)):
        W.mul_(1 - rule.learning_rate * rule.weight_decay)
        W.sub_(slope, alpha=rule.learning_rate)
        if rule.optimiser == "gd" and (k == 0 or rule.penalty == "weights"):
            # Soft threshold, the exact step of the l1 term alone: it stops at zero.
            by = rule.learning_rate * lam
            torch.sub(W, torch.clamp(W, -by, by), out=W)

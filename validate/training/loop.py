"""The training loop for losses that are differentiated by autograd.

`train`, for many large models of one size, and the stacks of `collisions.training` have gradients by hand
instead: their steps are short, and autograd would take most of the time.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any


def take_steps(
    optimiser: Any, loss: Callable[[], Any], stops: Sequence[int], rate: Callable[[int], float] | None = None
) -> Iterator[int]:
    """Take steps of a torch optimiser; yield the number of steps so far at each entry of `stops`.

    The function `loss` returns the loss at the current parameters, of one model or summed over a stack, so
    that each model has its own gradient; it is called once in each step, and may draw new data. `stops`
    increase; 0 is the start. The learning rate of a step, counted from 0, is `rate(step)`, or by default the
    optimiser's.

    Examples
    --------
    >>> import torch
    >>> w = torch.tensor([1.0], requires_grad=True)
    >>> sgd = torch.optim.SGD([w], lr=0.25)
    >>> [(step, w.item()) for step in take_steps(sgd, lambda: (w**2).sum(), [0, 1, 2])]
    [(0, 1.0), (1, 0.5), (2, 0.25)]
    """
    done = 0
    for stop in stops:
        for step in range(done, stop):
            if rate is not None:
                for group in optimiser.param_groups:
                    group["lr"] = rate(step)
            optimiser.zero_grad()
            loss().backward()
            optimiser.step()
        done = stop
        yield stop

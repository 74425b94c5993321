"""The loop of training by autograd: one for all models whose loss is written down as such.

`train`, for many large models of one size, and the stacks of `collisions.training` have gradients by hand
instead: their steps are short, and autograd would take most of the time.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any


def descend(
    optimiser: Any, loss: Callable[[], Any], stops: Sequence[int], rate: Callable[[int], float] | None = None
) -> Iterator[int]:
    """Take steps of a torch optimiser, and yield the number of steps so far at each one in `stops`.

    The function `loss` returns the loss at the parameters as they are, of one model or summed over a stack,
    so that each has its own gradient; it is called once a step, so that it may draw new data. After each of
    the numbers of steps in `stops`, which increase, and of which 0 is the start, that number is yielded. The
    learning rate of a step, counted from 0, is that of `rate`, or the optimiser's own if there is none.

    Examples
    --------
    >>> import torch
    >>> w = torch.tensor([1.0], requires_grad=True)
    >>> sgd = torch.optim.SGD([w], lr=0.25)
    >>> [(step, w.item()) for step in descend(sgd, lambda: (w**2).sum(), [0, 1, 2])]
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

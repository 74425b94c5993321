"""The loop of training by autograd: one for all models whose loss is written down as such.

`train`, for many large models of one size, and the stacks of `collisions.training` have gradients by hand
instead: their steps are short, and autograd would take most of the time.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

__all__ = ["descend"]


def descend(
    optimiser: Any,
    loss: Callable[[], Any],
    stops: Sequence[int],
    rate: Callable[[int], float] | None = None,
) -> Iterator[int]:
    """Take steps of a torch optimiser, and pause after given numbers of them.

    Parameters
    ----------
    optimiser : torch.optim.Optimizer
        Of the parameters that are trained, of one model or of a stack of them.
    loss : callable
        Returns the loss at the parameters as they are; called once a step, so that it may draw new data. The
        losses of the models of a stack are summed: then each has its own gradient.
    stops : increasing sequence of int
        Numbers of steps after which to pause; 0 is the start.
    rate : callable, optional
        Learning rate of each step, counted from 0; the optimiser's own if not given.

    Yields
    ------
    int
        The number of steps taken.

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

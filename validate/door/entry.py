"""What all functions of the front door share: a wrong keyword names the right one, long runs are shown."""

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from ...solvers.progress import quiet, shown
from ...theory.arguments import keywords
from ..annotations import as_annotated

__all__ = ["entry"]

P = ParamSpec("P")
R = TypeVar("R")


def entry(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a public function: arguments are checked by annotations, wrong keywords named, progress shown.

    A caller who gives `progress` is told there and sees no line.
    """
    checked = keywords(as_annotated(function))
    own = "progress" in inspect.signature(function).parameters

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        if own and callable(kwargs.get("progress")):
            return checked(*args, **kwargs)
        if own and kwargs.get("progress") is False:
            with quiet():
                return checked(*args, **kwargs)
        with shown(function.__name__):
            return checked(*args, **kwargs)

    return called

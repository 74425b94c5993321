"""The decorator of all public functions: argument checks, help with wrong keywords, a progress line."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from ...solvers.progress import no_status_line, report_progress
from ...theory.annotations import as_annotated
from ...theory.features import Features
from ...theory.model import Model
from ...theory.validation import check_keywords

__all__ = ["entry"]

P = ParamSpec("P")
R = TypeVar("R")


def entry(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a public function: convert arguments by annotations, refuse unknown keywords, show progress.

    If `progress` is passed, messages go there and no status line appears.
    """
    converted = as_annotated(function, check_keywords(function))
    names = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function with checked arguments and a progress line."""
        _refuse_swapped(function.__name__, names, dict(zip(names, args, strict=False)) | kwargs)
        progress: Any = kwargs.get("progress")
        with no_status_line() if progress is False else report_progress(function.__name__, progress):
            return converted(*args, **kwargs)

    return call


def _refuse_swapped(function: str, names: Sequence[str], values: Mapping[str, Any]) -> None:
    """Raise ValueError if a law is passed for a model or a size, or a model for a law.

    `function` is the public function's name, `names` are those of its parameters, `values` the arguments by
    name.
    """
    if "law" not in names:
        return
    order = f"call {function}({', '.join(names[:2])}, ...)"
    for name in names[:2]:
        value: Any = values.get(name)
        # A number is a law of that probability, and no model or dictionary.
        is_number = isinstance(value, float) and name != "n_hidden"
        is_number = is_number and not isinstance(values.get("law"), float | int | str | Features | None)
        if name != "law" and (isinstance(value, Features) or is_number):
            what = f"the number {value:g}" if is_number else f"a law of {value.n_features} features"
            raise ValueError(f"`{name}` must be no law; got {what}. The order is another: {order}.")
        if name == "law" and isinstance(value, Model):
            raise ValueError(f"`law` must be a law; got a model. The order is another: {order}.")

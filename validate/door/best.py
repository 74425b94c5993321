"""The best model of a size: what a toy model should reach."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from ...solvers.minimise import Minimum, minimise
from ...solvers.progress import status
from ...solvers.relu import named_groups
from ...theory import arguments
from ...theory.features import Features
from ...theory.models import Model
from ...theory.relu import feature_dimensionality
from ..audit.models import usual_starts
from .answer import Answer, counted
from .entry import entry

__all__ = ["best", "geometry", "in_words"]

_SOURCES = (
    "Elhage et al. (2022), Toy Models of Superposition: model and loss",
    "superposition, page `minimise`: descents on the exact loss from many starts; pages `codes` and "
    "`unequal`: the lower bound",
)
# Features up to which groups of encodings are named.
_NAMED = 40
# Features of a single group up to which they are listed.
_LISTED = 9


def geometry(W: Any) -> str:
    """Return which features share directions, and how, in words; empty above 40 features."""
    return named_groups(np.asarray(W)) if len(W) <= _NAMED else ""


def in_words(shape: str) -> str:
    """Return names of groups of features with those that have none spelt out.

    >>> in_words("antipodal pair 0-1, 5 in 2 at 3 positions 2-3-4-5-6")
    'antipodal pair 0-1, 5 features in 2 dimensions along 3 directions (2-3-4-5-6)'
    """

    def told(found: re.Match[str]) -> str:
        n, rank, positions, members = found.groups()
        along = f" along {counted(int(positions), 'direction')}" if positions else ""
        whole = found.group() == shape and int(n) > _LISTED  # the list would be of all features
        which = "" if whole else f" ({members})"
        return f"{counted(int(n), 'feature')} in {counted(int(rank), 'dimension')}{along}{which}"

    parts = shape.split(", ")
    dropped = [one for one in parts if one.startswith("dropped")]
    if len(dropped) > 3:  # as many as are read at a glance
        shape = ", ".join([*(one for one in parts if one not in dropped), f"{len(dropped)} dropped"])
    return re.sub(r"(\d+) in (\d+)(?: at (\d+) positions)? ([\d-]+)", told, shape)


def certainty_of(found: Minimum) -> str:
    """Return how sure it is that nothing of this size has a lower loss."""
    bound, gap = found.certificate.lower_bound, found.loss - found.certificate.lower_bound
    if bound > 0.0 and gap <= 1e-9 * found.loss:
        return "proved: the loss is that of the lower bound"
    moved = "" if found.hits else ", found by moving features of another minimum"
    return f"best of {found.starts} starts ({found.hits} hits{moved})"


@entry
def best(
    law: Any,
    n_hidden: int,
    *,
    tied: bool = True,
    bias: Any = True,
    starts: int | None = None,
    seconds: float | None = None,
    rng: Any = 0,
    progress: Callable[[str], None] | None = None,
) -> Answer:
    """Find the best model ReLU(W_out W_in x + b) with so many hidden neurons.

    >>> from superposition.theory.features import Features
    >>> found = best(Features(5, p=0.05), 2)
    >>> round(found.loss, 7), found.geometry
    (0.0017807, 'pentagon 0-1-2-3-4')

    Parameters
    ----------
    law : Features
        Law of the data, with the features' importances.
    n_hidden : int
        Number of hidden neurons.
    tied : bool, optional
        Whether W_out is the transpose of W_in, as in the toy models of the literature.
    bias : {True, False, "common"}, optional
        A bias for each output, none, or one for all.
    starts : int, optional
        Random starts; by default 60 for tied models of up to 9 features, else 20.
    seconds : float, optional
        Budget. Without one, the same seed gives the same numbers.
    rng : Generator, int or None, optional
        Draws the starts.
    progress : callable, optional
        Called with a line of text now and then; on a terminal a line is shown without it.

    Returns
    -------
    Answer
        ``model``, ``loss`` (mean over features of importance times squared error), ``error_estimate``,
        ``bound`` (what no model of this size can beat, proved; 0 if none is known), ``hits``, ``starts``,
        ``certainty``, ``geometry``, and all of `superposition.solvers.minimise.Minimum`.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    if not isinstance(law, Features):
        raise ValueError(
            f"`law` must be a Features, such as Features(20, p=0.05); got {arguments.shown(law)}."
        )
    n, m = law.n_features, arguments.integer("n_hidden", n_hidden, 1)
    count = usual_starts(n, tied) if starts is None else arguments.integer("starts", starts, 1)
    tell = progress or status
    found = minimise(
        n, m, law, tied=tied, bias=bias, starts=count, seconds=seconds, rng=rng,
        progress=lambda done, of, least: tell(f"{done} of {of} descents, least loss {least:.6g}"),
    )  # fmt: skip
    return answer_of(found, law)


def answer_of(found: Minimum, law: Features) -> Answer:
    """Return a minimum as an answer."""
    n, m = found.W_out.shape
    one = Model(
        found.W_in, W_out=None if np.array_equal(found.W_out, found.W_in.T) else found.W_out, b=found.b
    )
    bound, zero = found.certificate.lower_bound, float(np.mean(law.importance * law.second_moment))
    shape, sure = geometry(found.W), certainty_of(found)
    kept = int(np.sum(np.linalg.norm(found.W, axis=1) > 1e-3))
    lines = [
        f"best model found of {counted(n, 'feature')} on {counted(m, 'hidden neuron')}",
        f"loss per feature   {found.loss:.7g} ({100 * found.loss / zero:.3g} % of answering 0), {sure}",
        f"proved floor       {bound:.7g}" if bound else "proved floor       none is known for this law",
        f"represented        {kept} of {n} features" + (f": {in_words(shape)}" if shape else ""),
    ]
    if found.starts < found.planned:
        lines.append(f"the budget ended the search after {found.starts} of {found.planned} starts")
    named = {name: getattr(found, name) for name in type(found).__dataclass_fields__}
    values = {**named, "W": found.W, "model": one, "bound": bound, "law": law, "geometry": shape}
    data = xr.Dataset(
        {
            "W": (("feature", "hidden"), found.W),
            "W_out": (("feature", "hidden"), found.W_out),
            "b": ("feature", found.b),
            "importance": ("feature", law.importance),
            "dimensionality": ("feature", feature_dimensionality(found.W)),
            "loss": found.loss,
            "bound": bound,
        },
        attrs={"geometry": shape, "certainty": sure},
    )
    from .picture import draw_model

    return Answer(tuple(lines), sure, _SOURCES, values, data, draw_model)

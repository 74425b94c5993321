"""The explorer: one HTML page that loads nothing, with the exact loss of small models under the pointer."""

import functools
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ....solvers.minimise import minimise
from ....solvers.relu import PHASES, phase_diagram
from ....theory.annotations import as_annotated
from ....theory.features import Features, exclusive
from ...experiments import atlas
from ...experiments.codes import run_envelope
from ...reference import files

__all__ = ["explore"]

_FOLDER = Path(__file__).parent
# Cells of the phase diagram, and losses over ratio: p from stored codes, every so many.
_CELLS, _STEP = 24, 4
# Features that can be dragged.
_FEATURES = 6
# Of the solved models with features that exclude each other: P(on); random starts, besides ordered ones; and
# how many of the minima are taken, as another may be the least at another p.
_P_EXCLUSIVE = 0.1
_STARTS = 10
_MINIMA = 4


@as_annotated
def explore(path: str | Path) -> Path:
    """Write a page on which models can be dragged, trained and compared, and return its path.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     explore(f"{folder}/page.html").name
    'page.html'

    The page computes the loss of up to six features on two neurons by itself, to 1e-9: the expectation over
    each pattern of features that are on is a sum over the corners of a cube, in double-double arithmetic.
    Descent on that loss and training with samples run beside each other, below them the best known model and
    the proved lower bound. The address of the page holds the setting and both models; the page also shows one
    model as Python code.

    Parameters
    ----------
    path : path
        HTML file to write, whole or not at all; a page that is there is replaced, nothing else is.
    """
    if Path(path).suffix != ".html":
        raise ValueError(f"`path` must end in .html; got {str(path)!r}.")
    target = files.page_file(path)
    page = (_FOLDER / "page.html").read_text(encoding="utf-8")
    page = re.sub(r"/\*(\w+\.\w+)\*/", lambda mark: (_FOLDER / mark[1]).read_text(encoding="utf-8"), page)
    data = json.dumps(_data(), default=_as_list)
    files.write_text(target, page.replace("/*DATA*/", data.replace("</", "<\\/")))
    return target


@functools.cache
def _data() -> dict[str, Any]:
    """Return the page's data by name: "diagram", "widths" and "models".

    "diagram" has the axes sparsity and importance of two features on one neuron, and phase, W, b and loss at
    each point. "widths" has the axes p and ratio of neurons to features; over both it has the losses per
    feature of codes, random codes and the best affine model, and a lower bound. "models" is a list of solved
    models.
    """
    sparsity, importance = np.linspace(0.0, 0.98, _CELLS), np.geomspace(0.1, 10.0, _CELLS + 1)
    diagram = phase_diagram(1.0 - sparsity, importance)
    codes = run_envelope(64).isel(p=slice(2, None, _STEP))
    curves = {name: codes[name] for name in ("rug", "linear", "lower_bound")}
    curves |= {name: codes["loss"].sel(models=name) for name in ("tied", "free")}
    return {
        "diagram": {
            "sparsity": sparsity,
            "importance": importance,
            "phases": list(PHASES),
            "W": diagram.W[..., 0],
            **{name: getattr(diagram, name) for name in ("phase", "b", "loss")},
        },
        "widths": {
            "p": codes["p"].values,
            "ratio": codes["ratio"].values,
            **{name: curve.transpose("p", "ratio").values for name, curve in curves.items()},
        },
        "models": [*_solved_models()],
    }


def _solved_models() -> Iterator[dict[str, Any]]:
    """Yield solved models: those of the atlas, and of features in groups that exclude each other.

    A model has the encodings W (n_features, 2), b, and in "group" the number of features that exclude each
    other in a group, 1 if features are independent.
    """
    for entry in atlas.entries(n_hidden=2, tied=True):
        if entry.n_features <= _FEATURES:
            yield {"W": entry.W_in.T, "b": entry.b, "group": 1}
    for n, decay in itertools.product(range(3, _FEATURES + 1), atlas.IMPORTANCES.values()):
        for group in sorted({2, 3, n}):
            groups = [exclusive(range(k, min(k + group, n)), _P_EXCLUSIVE) for k in range(0, n, group)]
            law = Features(n, importance=decay ** np.arange(n), groups=groups)
            for local in minimise(n, 2, law, tied=True, starts=_STARTS, rng=0).minima[:_MINIMA]:
                yield {"W": local.W_out, "b": local.b, "group": group}


def _as_list(array: Any) -> Any:
    """Return an array as a list, for JSON; of two axes or more, floats with nine digits."""
    return array.tolist() if array.ndim < 2 or array.dtype.kind != "f" else _rounded(array)


def _rounded(values: Any) -> Any:
    """Return nested arrays of floats as lists, with nine digits."""
    return [_rounded(row) if np.ndim(row) else float(f"{row:.9g}") for row in values]

"""The atlas on disk: the tensors as safetensors, and a manifest of everything else as JSON."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from .... import __version__
from ....solvers.loss import exact_loss
from ....solvers.minimise import LearningCoefficient, learning_coefficient
from ....solvers.relu import named_groups
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.features import Features
from ....theory.results import result
from ....theory.validation import FloatArray
from ...loading import LAYOUTS, Weights
from ...reference.files import (
    atomic_write,
    error_text,
    output_file,
    quoted_path,
    refuse_same_file,
    write_arrays,
    write_text,
)
from ...reference.read import REFERENCE
from .grid import IMPORTANCES, LARGEST, Problem

PARTS = ("W_out", "W_in", "b")
# Losses within this of the best, in units of the zero model's loss, count as the same.
_SAME_LOSS = 1e-6


@result
class Entry:
    """The best known model ReLU(W_out W_in x + b) of a problem.

    Losses are per feature, weighed by importance.
    """

    name: str
    n_features: int
    n_hidden: int
    p: float
    """Probability that a feature is on; its value is then uniform on [0, 1]."""
    importance: str
    """"equal", or "falling": 0.7^i for feature i."""
    tied: bool
    """Whether W_out is the transpose of W_in."""
    W_out: FloatArray
    """Decoder. Shape (n_features, n_hidden), entries in [-2, 2]."""
    W_in: FloatArray
    """Encoder. Shape (n_hidden, n_features), entries in [-2, 2]."""
    b: FloatArray
    """Bias. Shape (n_features,)."""
    loss: float
    """Exact expected loss."""
    error_estimate: float
    """What `loss` is off by at most."""
    zero_loss: float
    """Loss of the model that always answers 0."""
    gradient_norm: float
    """Length of the gradient in all free weights and biases over `zero_loss`; none at weights held at 2."""
    curvature: float | None
    """Least eigenvalue of the Hessian over `zero_loss`, symmetries and weights at 2 apart; None at a kink."""
    held: int
    """Weights at the bound 2."""
    grade: str
    """How sure it is that no model is better: "many starts" is a search, not a proof."""
    lower_bound: float
    """What no model of this size can beat, proved in `theory.codes.relu_bound`; 0 where no bound is known."""
    starts: int
    """Starts of all searches, random and ordered."""
    hits: int
    """How many of these ended within 1e-6 of the best loss, in units of `zero_loss`."""
    minima: int
    """Distinct ends of the first search, up to symmetries."""
    structure: str
    """Which encodings hang together, and how; those of free weights balanced with the decoder."""

    @property
    def law(self) -> Features:
        """Law of the data: independent features, uniform on [0, 1] where they are on."""
        return self.problem.law

    @property
    def learning_coefficient(self) -> LearningCoefficient:
        """Local learning coefficient, computed when it is first read; from 8 features on this takes seconds.

        >>> load("n5-m2-p0.1-equal-tied").learning_coefficient
        local learning coefficient 7: Hessian of rank 14, 1 of 15 dimensions leave the loss alone
        """
        return learning_coefficient(self.W_out, self.W_in, self.b, self.law, tied=self.tied)

    @property
    def problem(self) -> Problem:
        """The problem that the model solves."""
        return Problem(self.n_features, self.n_hidden, self.p, self.importance, self.tied)


# --- Writing ------------------------------------------------------------------------------------------------


def hits(problem: Problem, solution: Mapping[str, Any]) -> int:
    """Return how many starts of the searches ended at the loss of `solution`, or below it.

    The solution is one of `problem`, with its loss and the losses of all starts by name. A start counts if
    its loss is at most 1e-6 above, in units of the loss of the model that always answers 0.
    """
    limit = solution["loss"] + _SAME_LOSS * problem.zero_loss
    return int(np.sum(np.asarray(solution["losses"]) <= limit))


def _manifest_entry(problem: Problem, solution: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest's entry of a solved problem: all but its tensors, with the loss computed anew.

    `solution` is a dictionary as from `search.solve`. The entry has the problem's name and settings, the
    exact loss with its error estimate, the zero model's loss, the solution's numbers (no curvature unless
    positive), and the number of starts. "held" is the number of weights at the largest size allowed, "hits"
    the number of starts that end at the loss, "structure" the name of the arrangement of the encodings.
    """
    M = solution["W_out"] @ solution["W_in"]
    exact = exact_loss(M, solution["b"], problem.law)
    # Encodings of free weights are told apart up to a linear map only: those balanced with their decoder.
    _, sizes, right = np.linalg.svd(M)
    encodings = (np.sqrt(sizes)[:, None] * right)[: problem.n_hidden].T
    weights = [solution["W_in"]] if problem.tied else [solution["W_in"], solution["W_out"]]
    curvature = float(solution["curvature"])
    return {
        "name": problem.name,
        **vars(problem),
        "loss": exact.loss,
        "error_estimate": exact.error_estimate,
        "zero_loss": problem.zero_loss,
        "gradient_norm": float(solution["gradient_norm"]),
        # At a kink the differences that miss it may say anything; descents along them have come back.
        "curvature": curvature if curvature > 0.0 else None,
        "held": int(sum(np.sum(np.abs(W) >= LARGEST) for W in weights)),
        "grade": "many starts",
        "lower_bound": float(solution["lower_bound"]),
        "starts": int(np.size(solution["losses"])),
        "hits": hits(problem, solution),
        "minima": int(solution["minima"]),
        "structure": named_groups(encodings),
    }


def write(
    folder: Path, solutions: Sequence[tuple[Problem, Mapping[str, Any]]], settings: Mapping[str, Any]
) -> Path:
    """Write `atlas.safetensors` and the manifest `atlas.json` into a folder; return the manifest's path.

    `solutions` has each problem with its solution, by name: W_out, W_in, b, loss, losses (of all starts),
    gradient_norm, curvature, minima (how many) and lower_bound. `settings` are kept in the manifest.
    """
    tensors = {
        f"{problem.name}.{part}": np.ascontiguousarray(solution[part], np.float64)
        for problem, solution in solutions
        for part in PARTS
    }
    content = save_tensors(tensors)
    manifest = {
        "made_by": f"superposition {__version__}: superposition atlas --make",
        "settings": dict(settings),
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    rows = [_manifest_entry(*pair) for pair in solutions]
    manifest["sum"] = _checksum({**manifest, "entries": rows})
    lines = [json.dumps(row, allow_nan=False) for row in rows]
    head = json.dumps(manifest)[:-1]
    with atomic_write(folder / "atlas.safetensors") as part:
        part.write_bytes(content)
    path = folder / "atlas.json"
    write_text(path, head + ', "entries": [\n' + ",\n".join(lines) + "\n]}\n")
    return path


def _checksum(manifest: Mapping[str, Any]) -> str:
    """Return the SHA-256 of all fields of a manifest except `sum`."""
    rest = {name: value for name, value in manifest.items() if name != "sum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, allow_nan=False).encode()).hexdigest()


# --- Reading ------------------------------------------------------------------------------------------------


@cache
def read(folder: Path = REFERENCE) -> dict[str, Entry]:
    """Return the entries of an atlas in `folder` by name; ValueError if a file is missing or damaged."""
    path = folder / "atlas.json"
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        if manifest["sum"] != _checksum(manifest):
            raise ValueError("it is not as it was written")
        path = folder / "atlas.safetensors"
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != manifest["sha256"]:
            raise ValueError("it has not the tensors that atlas.json names")
        tensors = load_tensors(content)
        atlas = {}
        for row in manifest["entries"]:
            parts: dict[str, Any] = {part: tensors[f"{row['name']}.{part}"] for part in PARTS}
            atlas[row["name"]] = Entry(**row, **parts)
    except (OSError, ValueError, KeyError, TypeError, RecursionError, SafetensorError) as error:
        raise ValueError(
            f"`folder` must hold a whole atlas; got {quoted_path(path)} ({error_text(error)})."
        ) from error
    return atlas


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "n_features": partial(validation.integer, low=1),
    "n_hidden": partial(validation.integer, low=1),
    "p": partial(validation.number, low=0, high=1, brackets="(]"),
    "importance": partial(validation.choice, options=tuple(IMPORTANCES)),
    "tied": validation.flag,
}


@as_annotated
def entries(
    *,
    n_features: int | None = None,
    n_hidden: int | None = None,
    p: float | None = None,
    importance: str | None = None,
    tied: bool | None = None,
) -> tuple[Entry, ...]:
    """Return the solved models with the given properties, all by default.

    Parameters
    ----------
    n_features : int, optional
        From 2 to 9.
    n_hidden : int, optional
        From 1 to 4.
    p : float, optional
        One of 0.01, 0.03, 0.1, 0.3, 0.7.
    importance : {"equal", "falling"}, optional
        1 for all features, or 0.7^i.
    tied : bool, optional
        Whether the decoder is the transpose of the encoder.

    Returns
    -------
    tuple of Entry
        Empty if the atlas has none.

    Examples
    --------
    >>> for entry in entries(n_features=5, n_hidden=2, p=0.03, tied=True):
    ...     print(entry.name, round(entry.loss, 9), entry.structure)
    n5-m2-p0.03-equal-tied 0.000841791 pentagon 0-1-2-3-4
    n5-m2-p0.03-falling-tied 0.000439463 5 in 2 0-1-2-3-4
    """
    filters = {"n_features": n_features, "n_hidden": n_hidden, "p": p, "importance": importance, "tied": tied}
    wanted = {name: _CHECKS[name](name, value) for name, value in filters.items() if value is not None}
    return tuple(
        entry
        for entry in read().values()
        if all(getattr(entry, name) == value for name, value in wanted.items())
    )


@as_annotated
def names(**properties: Any) -> tuple[str, ...]:
    """Return the names of the solved models with the given properties; arguments are those of `entries`.

    Examples
    --------
    >>> names(n_features=2, p=0.1, importance="equal")
    ('n2-m1-p0.1-equal-tied', 'n2-m1-p0.1-equal-free')
    """
    return tuple(entry.name for entry in entries(**properties))


@as_annotated
def load(name: str) -> Entry:
    """Return the atlas entry of a solved model.

    Parameters
    ----------
    name : str
        Such as "n5-m2-p0.1-equal-tied": features, hidden neurons, p, importance, and "tied" or "free".

    Examples
    --------
    >>> load("n5-m2-p0.1-equal-tied").W_in.shape
    (2, 5)
    """
    atlas = read()
    if name not in atlas:
        rule = "the name of a solved model, such as n5-m2-p0.1-equal-tied"
        raise ValueError(f"`name` must be {rule}; got {validation.short_repr(name)}.")
    return atlas[name]


@as_annotated
def export(name: str, *, path: str | Path, layout: str = "Anthropic notebook") -> None:
    """Write a solved model to a file, as the state dict of public code.

    Parameters
    ----------
    name : str
        Such as "n5-m2-p0.1-equal-tied", as for `load`.
    path : path
        A file that ends in .safetensors or .npz.
    layout : str, optional
        Name of one of `superposition.validate.audit.LAYOUTS`. Layouts that hold several models get one.

    Raises
    ------
    ValueError
        If the layout is not known, or cannot hold free weights or biases that the model has, or if the file
        cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from superposition.validate import audit
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export("n5-m2-p0.1-equal-tied", path=f"{folder}/model.npz", layout="SAELens")
    ...     audit.recognise(audit.state_of(f"{folder}/model.npz"))[0]
    'SAELens'
    """
    entry = load(name)
    kinds = [kind for kind in LAYOUTS if kind.name == layout]
    if not kinds:
        known = "; ".join(kind.name for kind in LAYOUTS)
        raise ValueError(f"`layout` must be one of {known}; got {validation.short_repr(layout)}.")
    arrays = kinds[0].arrays(Weights(entry.W_out, entry.W_in, entry.b))
    target = output_file(path, "path")
    refuse_same_file(target, {"atlas": REFERENCE / "atlas.safetensors"}, "path")
    if target.suffix not in (".npz", ".safetensors"):
        raise ValueError(f"`path` must end in .safetensors or .npz; got {quoted_path(path)}.")
    if target.suffix == ".npz":
        write_arrays(target, arrays)
        return
    with atomic_write(target) as part:
        part.write_bytes(save_tensors(arrays))

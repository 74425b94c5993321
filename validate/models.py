"""Solved small models and files of them: ground truth for sparse autoencoders, parameter decomposition.

Files are read without pickles, and checked when written and when read.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..solvers.loss import exact_loss
from ..solvers.minimise import Certificate, Minimum
from ..solvers.results import result
from ..theory import arguments
from ..theory.arguments import FloatArray
from ..theory.features import Features, as_features
from . import files

__all__ = ["SmallModel", "load_models", "save_models", "small_model"]

_FORMAT = "superposition small models 1"

# The stored loss may differ from the recomputed one by this, relative to the loss of the zero model.
_AGREE = 1e-10

_SCALARS = ("p", "loss", "certificate_lower_bound", "certificate_gap", "certificate_work")


@result
class SmallModel:
    """A tied model ReLU(W W' x + b), the data it is meant for, its exact loss.

    Attributes
    ----------
    W : (n_features, n_hidden) ndarray of float64
        Encodings, one a row.
    b, importance : (n_features,) ndarray of float64
        Biases, and weights of the features' squared errors.
    p : float
        Probability that a feature is on; its value is then uniform on [0, 1].
    loss : float
        Exact expected loss per feature, mean of importance times squared error.
    certificate : Certificate
        How sure it is that no model of this size has a lower loss.
    """

    W: FloatArray
    b: FloatArray
    importance: FloatArray
    p: float
    loss: float
    certificate: Certificate


def small_model(found: Minimum, law: float | Features) -> SmallModel:
    """Return a minimum together with its data, as it is written to files.

    Parameters
    ----------
    found : Minimum
        A tied model, from `solvers.minimise.minimise` or `solvers.relu.solve_pair`.
    law : float or Features
        The law that it was found for: features on equally often, independent and uniform on [0, 1].

    Raises
    ------
    ValueError
        If the model is not tied, or the file has no place for the law.

    Examples
    --------
    >>> from superposition.solvers.minimise import minimise
    >>> small_model(minimise(2, 1, 0.1, starts=1), 0.1).certificate.kind
    'many starts'
    """
    n = len(found.b)
    data = as_features(law, n)
    alike = np.ptp(data.p) == 0.0 and not data.groups and data.exactly is None
    if not (alike and data.values == "uniform" and np.all(data.scale == 1.0)):
        said = "`law` must be of independent features on [0, 1] that are alike"
        raise ValueError(f"{said}; got {arguments.shown(law)}.")
    if not np.array_equal(found.W_out, found.W_in.T):
        raise ValueError("`found` must be tied, W_out the transpose of W_in; got other matrices.")
    return SmallModel(found.W_out, found.b, data.importance, float(data.p[0]), found.loss, found.certificate)


def _checked(model: SmallModel, name: str) -> SmallModel:
    """Return the model with its arrays as float64 after checking shapes, ranges and the loss."""
    given = model.certificate
    W = arguments.matrix(f"{name}.W", model.W)
    b, importance = (
        arguments.vector(f"{name}.{part}", getattr(model, part), len(W)) for part in ("b", "importance")
    )
    arguments.real(f"{name}.importance", importance, 0)
    p = arguments.number(f"{name}.p", model.p, 0, 1, brackets="(]")
    loss = arguments.number(f"{name}.loss", model.loss, 0)
    lower, gap = (
        arguments.number(f"{name}.certificate.{part}", getattr(given, part), 0)
        for part in ("lower_bound", "gap")
    )
    work = arguments.integer(f"{name}.certificate.work", given.work, 0)
    if not isinstance(given.kind, str):
        raise ValueError(f"`{name}.certificate.kind` must be text; got {given.kind!r}.")
    slack = _AGREE * max(float(importance.mean()) * p / 3.0, loss)
    true = float(np.mean(importance * exact_loss(W @ W.T, b, p).per_feature))
    if abs(true - loss) > slack:
        raise ValueError(f"`{name}.loss` must be the exact loss {true!r}; got {loss!r}.")
    if abs(loss - lower - gap) > slack:
        raise ValueError(f"`{name}.certificate.gap` must be the loss minus the lower bound; got {gap!r}.")
    return SmallModel(W, b, importance, p, loss, Certificate(given.kind, lower, gap, work))


def save_models(path: str | os.PathLike[str], models: Sequence[SmallModel]) -> None:
    """Write models to a NumPy file (npz) that reads without pickles.

    Parameters
    ----------
    path : str or path-like
        Written as named, beside it first under a temporary name, so that a crash leaves the old file. An
        existing file is replaced.
    models : sequence of SmallModel
        Of any sizes, also mixed; may be empty.

    Raises
    ------
    ValueError
        If a model's arrays do not fit each other, are not finite or out of range, or if its loss is not the
        exact one (to 1e-10 of the zero model's).

    Notes
    -----
    Arrays in the file: `format` (text), `p`, `loss`, `certificate_kind`, `certificate_lower_bound`,
    `certificate_gap`, `certificate_work` (one entry a model), and `W_0`, `b_0`, `importance_0`, `W_1`, …

    Examples
    --------
    >>> import tempfile
    >>> pair = SmallModel(
    ...     np.array([[1.0], [-1.0]]), np.zeros(2), np.ones(2), 0.1, 0.1**2 / 6,
    ...     Certificate("many starts", 0.0, 0.1**2 / 6, 1),
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_models(f"{folder}/pair.npz", [pair])
    ...     loaded = load_models(f"{folder}/pair.npz")
    >>> loaded[0].W.ravel(), loaded[0].certificate.kind
    (array([ 1., -1.]), 'many starts')
    """
    good = [_checked(model, f"models[{i}]") for i, model in enumerate(models)]
    arrays: dict[str, npt.NDArray[np.generic]] = {
        "format": np.array(_FORMAT),
        **{name: np.array([getattr(model, name) for model in good], np.float64) for name in ("p", "loss")},
    }
    kinds = {"kind": np.str_, "lower_bound": np.float64, "gap": np.float64, "work": np.int64}
    for name, kind in kinds.items():
        column = [getattr(model.certificate, name) for model in good]
        arrays[f"certificate_{name}"] = np.array(column, kind)
    for i, model in enumerate(good):
        arrays |= {f"W_{i}": model.W, f"b_{i}": model.b, f"importance_{i}": model.importance}
    files.write_arrays(os.fspath(path), arrays)


def load_models(path: str | os.PathLike[str]) -> list[SmallModel]:
    """Read models that `save_models` wrote, and check them: each exact loss is computed anew and compared.

    Parameters
    ----------
    path : str or path-like
        File to read. Pickled objects are refused, so a file of unknown origin is safe to read.

    Raises
    ------
    ValueError
        If it is not such a file, if something is missing or misshapen, or if a stored loss is not the exact
        one.
    FileNotFoundError
        If there is no such file.
    """
    name = os.fspath(path)
    if not Path(name).exists():
        raise FileNotFoundError(f"`path` must be a file of small models; {name!r} does not exist.")
    arrays = files.read_arrays(name, "a file of small models")
    missing = ", ".join(sorted({"format", "certificate_kind", *_SCALARS} - set(arrays)))
    if missing:
        raise ValueError(f"`path` must be a file of small models; {name!r} lacks {missing}.")
    if str(arrays["format"]) != _FORMAT:
        raise ValueError(f"`path` must have the format {_FORMAT!r}; got {str(arrays['format'])!r}.")
    if arrays["p"].ndim != 1:
        raise ValueError(f"`p` in the file must have shape (any,); got {arrays['p'].shape}.")
    count = arrays["p"].size
    for key in ("certificate_kind", *_SCALARS):
        if arrays[key].shape != (count,):
            raise ValueError(f"`{key}` in the file must have shape ({count},); got {arrays[key].shape}.")
    models = []
    for i in range(count):
        names = [f"{part}_{i}" for part in ("W", "b", "importance")]
        lacking = [key for key in names if key not in arrays]
        if lacking:
            raise ValueError(f"`path` must hold {count} models; {name!r} lacks {', '.join(lacking)}.")
        W, b, importance = (arrays[key] for key in names)
        arguments.matrix(names[0], W)  # said here by the names in the file
        arguments.vector(names[1], b)
        p, loss, lower, gap, work = (arrays[key][i].item() for key in _SCALARS)
        certificate = Certificate(str(arrays["certificate_kind"][i]), lower, gap, work)
        models.append(_checked(SmallModel(W, b, importance, p, loss, certificate), f"models[{i}]"))
    return models

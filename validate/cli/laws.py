"""Options for the law of the data, the same for all commands that take a law."""

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .options import option, options_of

# How often features are on, and all that says what a law is, of which presets take the first two.
_CHANCES = ("p", "sparsity", "p_feature", "alpha")
LAW_OPTIONS = (*_CHANCES, "exactly", "values", "scale", "importance")

ONE_LAW = (
    option("--p", "probability that a feature is on: one, or one for each model", type=float, nargs="+"),
    option("--sparsity", "instead of --p: S = 1 - p", type=float, nargs="+"),
    option("--p-feature", "instead of --p: one p for each feature", type=float, nargs="+"),
    option("--alpha", "instead of --p: p_i falls as i^-ALPHA, with one feature on on average", type=float),
    option("--exactly", "condition on exactly this many features on; --p may be left out", type=int),
    option("--values", "distribution of the value of a feature that is on (default: uniform)"),
    option(
        "--scale", "scale of the values: one (default: 1), or one for each feature", type=float, nargs="+"
    ),
    option(
        "--importance",
        "one for all features, one for each, or R^i or geometric:R for 1, R, R^2, ... (default: 1)",
        nargs="+",
    ),
)
((_, _preset),) = options_of("api.laws.laws", "name")
SIZED_LAW = (
    option("--n-features", "number of features; with --p-feature it may be left out", type=int),
    option("--law", "data of public models, instead of --p and the like", choices=_preset["choices"]),
    option("--p", "probability p that a feature is on", type=float, nargs="+"),
    *ONE_LAW[1:],
)
_FILES = "a .npy file, or a .json file of a list"
TARGET = (
    *options_of("api.loss.loss", "target", target={"help": "what the outputs are to be (default: identity)"}),
    option(
        "--coefficients",
        f"c where targets are c_i relu(x_i), or a matrix A where they are A relu(x): {_FILES}",
        metavar="FILE",
    ),
    option("--mixing", f"a matrix M, to add M x to the targets: {_FILES}", metavar="FILE"),
)


def _read_matrix_or_diagonal(name: str, file: str, n: int) -> Any:
    """Return the matrix of n columns in a file, or diag(c) of n numbers c in it; `name` is the option."""
    import numpy as np

    path = Path(file)
    try:
        if not path.is_file():  # a pipe would never end
            raise OSError
        matrix = (
            json.loads(path.read_bytes()) if path.suffix == ".json" else np.load(path, allow_pickle=False)
        )
        array = np.asarray(matrix, float)
    except (OSError, ValueError, TypeError, EOFError) as error:
        raise ValueError(f"`{name}` must be a .npy or .json file of numbers; got {file!r}.") from error
    if array.ndim not in (1, 2) or array.shape[-1] != n:
        raise ValueError(f"`{name}` must be {n} numbers, or rows of {n}; got shape {array.shape}.")
    return np.diag(array) if array.ndim == 1 else array


def target_of(options: argparse.Namespace, n: int) -> Any:
    """Return the target of networks with n features by the options: a name, or (A, name, B).

    (A, name, B) stands for A f(x) + B x with the function f of this name.
    """
    import numpy as np

    if options.coefficients is None and options.mixing is None:
        return options.target
    A = (
        np.eye(n)
        if options.coefficients is None
        else _read_matrix_or_diagonal("coefficients", options.coefficients, n)
    )
    B = np.zeros(A.shape) if options.mixing is None else _read_matrix_or_diagonal("mixing", options.mixing, n)
    name = options.target
    if name == "x+relu":
        if len(A) != n:
            raise ValueError(f"`coefficients` must be of {n} targets x + relu; got {len(A)}.")
        name, B = "relu", B + np.eye(n)
    return A, name, B


def _chances_from_sparsity(sparsity: Any) -> list[float]:
    """Return the probabilities p = 1 - S of validated sparsities S."""
    from ...theory.validation import from_sparsity

    return [] if sparsity is None else from_sparsity("sparsity", sparsity).ravel().tolist()


def chances_of(options: argparse.Namespace) -> list[float]:
    """Return the probabilities p in `options`, --p or --sparsity; ValueError unless exactly one is given."""
    if (options.p is None) is (options.sparsity is None):
        got = "neither" if options.p is None else "both"
        raise ValueError(f"`p` must be given, or `sparsity` instead; got {got}.")
    return _chances_from_sparsity(options.sparsity) or list(options.p)


def _number_or_list(values: list[float]) -> Any:
    """Return a list of several numbers unchanged, or the number of a list of one."""
    return values if len(values) > 1 else values[0]


def importances(words: Sequence[str], n: int) -> Any:
    """Return one importance, or a list, from the words of --importance.

    Words are numbers, with spaces or commas between, or R^i, R**i or geometric:R for n features.

    >>> importances(["0.5^i"], 3), importances(["1,.8", "0.5"], 3)
    ([1.0, 0.5, 0.25], [1.0, 0.8, 0.5])
    """
    text = " ".join(words)
    powers = re.fullmatch(r"geometric:(.*)|(.*?)(?:\^|\*\*)i", text)
    try:
        if powers:
            return [float(powers[powers.lastindex or 1]) ** k for k in range(n)]
        return _number_or_list([float(word) for word in ",".join(words).split(",")])
    except (ValueError, OverflowError) as error:
        raise ValueError(f"`importance` must be numbers, R^i or geometric:R; got {text!r}.") from error


def laws_of(options: argparse.Namespace, sizes: Sequence[int]) -> list[Any]:
    """Return the law of each model by the options; `sizes` are the models' numbers of features."""
    from ...theory.features import Features
    from ...theory.unequal import power_law

    chance_by_name = {name: getattr(options, name) for name in _CHANCES}
    chosen = [name for name, value in chance_by_name.items() if value is not None]
    if len(chosen) > 1 or (not chosen and options.exactly is None):
        got = " and ".join(f"--{name.replace('_', '-')}" for name in chosen) or "none"
        raise ValueError(f"`p` must be given, or --sparsity, --p-feature, --alpha or --exactly; got {got}.")
    if options.p_feature is not None:
        chances: list[Any] = [options.p_feature] * len(sizes)
    elif options.alpha is not None:
        chances = [power_law(options.alpha, n).p for n in sizes]
    else:  # given so many on, features that are alike are on with any p
        p = options.p or _chances_from_sparsity(options.sparsity) or [0.5]
        chances = p * len(sizes) if len(p) == 1 else p
    if len(chances) != len(sizes):
        raise ValueError(f"`p` must be one, or one for each of {len(sizes)} models; got {len(chances)}.")
    values, scale = options.values or "uniform", _number_or_list(options.scale or [1.0])
    importance = options.importance or ["1"]
    return [
        Features(n, p, values, scale, importances(importance, n), exactly=options.exactly)
        for n, p in zip(sizes, chances, strict=True)
    ]


def law_of(options: argparse.Namespace) -> Any:
    """Return the single law of the options; ValueError without --law, --n-features and --p-feature."""
    if options.law is not None:
        from ..api.laws import laws

        others = [name for name in LAW_OPTIONS[2:] if getattr(options, name) is not None]
        if others:
            raise ValueError(f"`law` must stand without --{others[0].replace('_', '-')}; got both.")
        chances = {name: getattr(options, name) or [None] for name in _CHANCES[:2]}
        for name, values in chances.items():
            if len(values) > 1:
                raise ValueError(f"`{name}` must be one number with --law; got {len(values)}.")
        return laws(options.law, options.n_features, **{name: values[0] for name, values in chances.items()})
    if options.n_features is None and options.p_feature is not None:
        return laws_of(options, [len(options.p_feature)])[0]
    if options.n_features is None:
        raise ValueError("`n-features` must be given, or --law; got neither.")
    return laws_of(options, [options.n_features])[0]

"""``superposition best | how-many | loss | phases | plot | explore``: public functions as commands."""

import argparse
import csv
from pathlib import Path
from typing import Any

from .laws import ONE_LAW, SIZED_LAW, TARGET, chances_of, law_of, laws_of, target_of
from .options import (
    INSTANCE,
    LAYOUT,
    MODEL,
    PLOT,
    RESULTS,
    SEED,
    WRITES_FILE,
    arguments,
    command,
    option,
    options_of,
)
from .text import as_json, columns, format_pairs, print_json, print_written, say

_MODEL_FIELDS = (
    "loss", "error_estimate", "lower_bound", "hits", "starts", "certainty", "note", "geometry", "represented",
    "W_out", "W_in", "b",
)  # fmt: skip
_OUT = option("--out", PLOT[1]["help"], metavar="FILE", required=True)


@command(
    "superposition best --n-features 5 --n-hidden 2 --p 0.05 --out best.npz --plot best.png",
    *SIZED_LAW,
    option("--free", "let the decoder differ from the encoder's transpose", action="store_true"),
    *options_of("api.best.best", "n_hidden", "starts", "seconds"),
    SEED,
    option("--names", "names of the features: the first column of a CSV file, a row each", metavar="FILE"),
    option("--out", "write the model here, as arrays W_out, W_in, b (.npz)", metavar="FILE"),
    *RESULTS,
)
def best(options: argparse.Namespace) -> None:
    """Find the best model ReLU(W_out W_in x + b) of a size, and a proved lower bound."""
    from ..api import best as api
    from ..reference import files

    if options.out is not None:
        files.output_file(options.out, "out")
    check_picture(options.plot, out=options.out)
    law = law_of(options)
    names = None if options.names is None else names_of(options.names, law.n_features)
    settings = arguments("api.best.best", options) | {"law": law, "names": names}
    answer = api.best(**settings, tied=not options.free, rng=options.seed)
    if options.out is not None:
        files.write_arrays(options.out, {"W_out": answer.W_out, "W_in": answer.W_in, "b": answer.b})
    show(answer, options, _MODEL_FIELDS)


def names_of(path: str, n: int) -> list[str]:
    """Return the names of n features: the first column of a CSV file, with or without a heading."""
    try:
        if not Path(path).is_file():  # a pipe would never end
            raise OSError
        text = Path(path).read_text(encoding="utf-8-sig")
        rows = [row[0].strip() for row in csv.reader(text.splitlines()) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"`names` must be a CSV file; got {path!r}.") from error
    if len(rows) not in (n, n + 1):
        raise ValueError(f"`names` must be a CSV file with {n} rows and perhaps a heading; got {len(rows)}.")
    return rows[-n:]


@command(
    "superposition how-many --p 0.05 --n-hidden 30 --loss 0.001",
    option("--p", "probability that a feature is on; values are uniform", type=float, nargs=1),
    option("--sparsity", "instead of --p: S = 1 - p", type=float, nargs=1),
    *options_of("api.how_many.how_many", "n_hidden", "n_features", "loss", "relative"),
    *RESULTS,
)
def how_many(options: argparse.Namespace) -> None:
    """Print how many features fit on a number of neurons at a loss, or how few neurons the features need."""
    from ..api import how_many as api

    check_picture(options.plot)
    (p,) = chances_of(options)
    answer = api.how_many(p, **arguments("api.how_many.how_many", options))
    if not options.json:
        show(answer, options)
        return
    numbers = {name: as_json(getattr(answer, name)) for name in ("known", "proved", "limit")}
    print_json(numbers | columns(answer.to_dataset()))


@command(
    "superposition loss best.npz --p 0.05",
    MODEL, *ONE_LAW, INSTANCE, LAYOUT, *TARGET,
    *options_of("api.loss.loss", "tol", "seconds"),
    *RESULTS,
)  # fmt: skip
def loss(options: argparse.Namespace) -> None:
    """Print the exact expected loss of a model."""
    from ..api import loss as api
    from ..loading import model_of

    check_picture(options.plot, model=options.file)
    model = model_of(options.file, instance=options.instance, layout=options.layout)
    (law,) = laws_of(options, [model.n_features])
    settings = arguments("api.loss.loss", options) | {"target": target_of(options, model.n_features)}
    answer = api.loss(model, law, **settings)
    show(answer, options, ("loss", "error_estimate", "per_feature", "per_feature_error"))


@command(
    "superposition phases --plot phases.png",
    *options_of(
        "api.phases.phases",
        "x", "y", "n_features", "n_hidden", "p", "sparsity", "importance", "starts",
        y={"default": None, "help": "second axis (default: importance, of 2 features on 1 neuron)"},
    ),
    option("--grid", "values along the axes, such as p=[0.1,0.2]", nargs="+", metavar="NAME=LIST"),
    *RESULTS,
)  # fmt: skip
def phases(options: argparse.Namespace) -> None:
    """Draw the diagram of Elhage et al.: the best model at each point of a grid."""
    from ..api import phases as api
    from ..runner import execute

    check_picture(options.plot)
    options.grid = execute.parse_settings(format_pairs("grid", options.grid or []))
    is_pair = (options.n_features, options.n_hidden) == (2, 1) and options.x != "importance"
    options.y = options.y or ("importance" if is_pair else None)
    show(api.phases(**arguments("api.phases.phases", options)), options)


@command("superposition plot best.npz --out best.png", MODEL, INSTANCE, LAYOUT, _OUT, WRITES_FILE)
def plot(options: argparse.Namespace) -> None:
    """Draw a model from a file."""
    from ..api import plot as api
    from ..loading import model_of

    check_picture(options.out, "out", model=options.file)
    model = model_of(options.file, instance=options.instance, layout=options.layout)
    save(api.plot(model), options.out)
    print_written(options.json, options.out)


@command(
    "superposition explore page.html", option("file", "page to write (.html)", metavar="FILE"), WRITES_FILE
)
def explore(options: argparse.Namespace) -> None:
    """Write one page on which small models can be dragged and trained, with their exact loss."""
    from ..api import explore as api

    print_written(options.json, api.explore(options.file))


def show(answer: Any, options: argparse.Namespace, names: tuple[str, ...] = ()) -> None:
    """Print an answer as text, or with --json its attributes `names` or its dataset; draw it with --plot."""
    if options.plot is not None:
        save(answer.plot(), options.plot)
    if not options.json:
        say(answer)
    elif names:
        print_json({name: as_json(getattr(answer, name)) for name in names})
    else:
        print_json(columns(answer.to_dataset()))


def check_picture(path: str | None, name: str = "plot", **others: str | None) -> None:
    """Raise ValueError if a picture cannot be written at `path`, or `path` is one of the other files.

    `name` is the option, `others` are by option the paths of the command's other files. A path of None means
    no picture.
    """
    if path is None:
        return
    from ..reference import files

    files.output_file(path, name)
    if Path(path).suffix not in (".png", ".svg", ".pdf"):
        raise ValueError(f"`{name}` must end in .png, .svg or .pdf; got {path!r}.")
    files.refuse_same_file(path, others, name)


def save(ax: Any, path: str) -> None:
    """Write the figure of axes to a file in the format of its suffix, whole or not at all."""
    from ..reference import files

    with files.atomic_write(path) as part:
        ax.figure.savefig(part, format=Path(path).suffix[1:], dpi=200)

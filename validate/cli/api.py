"""``superposition best | loss | phases | plot | explore``: public functions as commands."""

import argparse
from pathlib import Path
from typing import Any

from .laws import add_law, add_layout, add_target, law_of
from .text import Add, as_json, columns, format_pairs, format_written, print_json, say

_PICTURE = "write a picture here: .png, .svg or .pdf"


def add(add_command: Add) -> None:
    """Add the commands to the program."""
    option = add_command(
        "best",
        "find the best model ReLU(W_out W_in x + b) of a size, and a proved lower bound",
        "superposition best --n-features 5 --n-hidden 2 --p 0.05 --out best.npz --plot best.png",
        _best,
    ).add_argument
    add_law(option)
    option("--n-hidden", type=int, required=True, help="number of hidden neurons")
    option("--free", action="store_true", help="let the decoder differ from the encoder's transpose")
    option("--starts", type=int, help="random starts (default: 60 for few features, else 20)")
    option("--seconds", type=float, help="time budget of the search, in seconds")
    option("--seed", type=int, default=0, help="seed of the starts (default: 0)")
    option("--out", metavar="FILE", help="write the model here, as arrays W_out, W_in, b (.npz)")
    _results(option)

    option = add_command(
        "loss", "print the exact expected loss of a model", "superposition loss best.npz --p 0.05", _loss
    ).add_argument
    option("file", metavar="FILE", help="a state dict: .npz, .safetensors, or a PyTorch file (.pt)")
    add_law(option, sizes=False)
    option("--instance", type=int, help="which model, from 0, where there are several")
    add_layout(option)
    add_target(option)
    _results(option)

    option = add_command(
        "phases",
        "draw the diagram of Elhage et al.: the best model at each point of a grid",
        "superposition phases --plot phases.png",
        _phases,
    ).add_argument
    axes = ("sparsity", "p", "importance", "n_hidden", "n_features")
    option("--x", default="sparsity", choices=axes, help="first axis (default: sparsity)")
    option(
        "--y",
        default=None,
        choices=axes,
        help="second axis (default: importance, of 2 features on 1 neuron)",
    )
    option("--grid", nargs="+", metavar="NAME=LIST", help="values along the axes, such as p=[0.1,0.2]")
    option("--n-features", type=int, default=2, help="number of features (default: 2)")
    option("--n-hidden", type=int, default=1, help="number of hidden neurons (default: 1)")
    option("--p", type=float, help="probability that a feature is on, if not an axis (default: 0.1)")
    option("--sparsity", type=float, help="instead of --p: S = 1 - p")
    option(
        "--importance",
        type=float,
        default=1.0,
        help="importance of the last feature, if not an axis (default: 1)",
    )
    option("--starts", type=int, default=10, help="random starts at each point (default: 10)")
    _results(option)

    option = add_command(
        "plot", "draw a model from a file", "superposition plot best.npz --out best.png", _plot
    ).add_argument
    option("file", metavar="FILE", help="a state dict: .npz, .safetensors, or a PyTorch file (.pt)")
    option("--instance", type=int, help="which model, from 0, where there are several")
    add_layout(option)
    option("--out", metavar="FILE", required=True, help=_PICTURE)
    option("--json", action="store_true", help="an object: the file that was written")

    option = add_command(
        "explore",
        "write one page on which small models can be dragged and trained, with their exact loss",
        "superposition explore page.html",
        _explore,
    ).add_argument
    option("file", metavar="FILE", help="page to write (.html)")
    option("--json", action="store_true", help="an object: the file that was written")


def _results(option: Any) -> None:
    option("--plot", metavar="FILE", help=_PICTURE)
    option("--json", action="store_true", help="an object with all numbers")


def _best(options: argparse.Namespace) -> None:
    from ..api.best import best
    from ..reference import files

    check_picture(options.plot, "plot")
    if options.out is not None:
        files.output_file(options.out, "out")
        if options.plot is not None:
            files.refuse_same_file(options.plot, {"out": options.out}, "plot")
    answer = best(
        law_of(options),
        options.n_hidden,
        tied=not options.free,
        starts=options.starts,
        seconds=options.seconds,
        rng=options.seed,
    )
    if options.out is not None:
        files.write_arrays(options.out, {"W_out": answer.W_out, "W_in": answer.W_in, "b": answer.b})
    names = ("loss", "error_estimate", "bound", "hits", "starts", "certainty", "geometry")
    _show(answer, options, (*names, "W_out", "W_in", "b"))


def _loss(options: argparse.Namespace) -> None:
    from ..api.loss import loss
    from ..loading import model_of
    from ..reference import files
    from .laws import laws_of, target_of

    check_picture(options.plot, "plot")
    if options.plot is not None:
        files.refuse_same_file(options.plot, {"model": options.file}, "plot")
    model = model_of(options.file, instance=options.instance, layout=options.layout)
    answer = loss(model, laws_of(options, [model.n_features])[0], target=target_of(options, model.n_features))
    _show(answer, options, ("loss", "error_estimate", "per_feature", "per_feature_error"))


def _phases(options: argparse.Namespace) -> None:
    from ..api.phases import phases
    from ..runner import execute

    check_picture(options.plot, "plot")
    grid = execute.parse_settings(format_pairs("grid", options.grid or []))
    size = options.n_features, options.n_hidden
    y = options.y or ("importance" if size == (2, 1) and options.x != "importance" else None)
    answer = phases(
        options.x,
        y,
        grid=grid,
        n_features=size[0],
        n_hidden=size[1],
        p=options.p,
        sparsity=options.sparsity,
        importance=options.importance,
        starts=options.starts,
    )
    _show(answer, options, ())


def _plot(options: argparse.Namespace) -> None:
    from ..api.plot import plot
    from ..loading import model_of
    from ..reference import files

    check_picture(options.out, "out")
    files.refuse_same_file(options.out, {"model": options.file})
    model = model_of(options.file, instance=options.instance, layout=options.layout)
    save(plot(model), options.out)
    format_written(options.out, options.json)


def _explore(options: argparse.Namespace) -> None:
    from ..api.explore import explore

    format_written(explore(options.file), options.json)


def _show(answer: Any, options: argparse.Namespace, names: tuple[str, ...]) -> None:
    if options.plot is not None:
        save(answer.plot(), options.plot)
    if not options.json:
        say(answer)
        return
    if names:
        print_json({name: as_json(getattr(answer, name)) for name in names})
    else:
        print_json(columns(answer.to_dataset()))


def check_picture(path: str | None, name: str) -> None:
    """Refuse a picture that cannot be written, before the work."""
    if path is None:
        return
    from ..reference import files

    files.output_file(path, name)
    if Path(path).suffix not in (".png", ".svg", ".pdf"):
        raise ValueError(f"`{name}` must end in .png, .svg or .pdf; got {path!r}.")


def save(ax: Any, path: str) -> None:
    """Write a picture, whole or not at all."""
    from ..reference import files

    with files.atomic_write(path) as part:
        ax.figure.savefig(part, format=Path(path).suffix[1:], dpi=200)

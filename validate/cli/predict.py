"""``superposition predict``: numbers from theory alone."""

import argparse

from ..api.predictions import PREDICTIONS, predict
from .api import check_picture, save
from .laws import add_law, chances_of, law_of
from .text import Add, format_value, number, print_json, print_table, say


def add(add_command: Add) -> None:
    """Add the command to the program, with a command of its own for each phenomenon."""
    command = add_command(
        "predict",
        "print predictions for given parameters, with the equation that each number comes from",
        "superposition predict rug --p 0.01 0.05 --ratio 0.1 0.25 --json\n\n"
        "'superposition predict PHENOMENON --help' lists its parameters.",
        _predict,
    )
    phenomena = command.add_subparsers(
        dest="phenomenon", metavar="PHENOMENON", required=True, parser_class=type(command)
    )
    for name, prediction in PREDICTIONS.items():
        subcommand = phenomena.add_parser(
            name, help=prediction.title, description=f"{prediction.title}.", allow_abbrev=False
        )
        for parameter in prediction.parameters:
            default = "" if parameter.default is None else f" (default: {parameter.default:g})"
            pair = parameter.name == "p"  # which sparsity may stand for
            subcommand.add_argument(
                f"--{parameter.name.replace('_', '-')}",
                dest=parameter.name,
                type=int if parameter.whole else float,
                nargs="+",
                required=parameter.default is None and not pair,
                default=None if parameter.default is None else [parameter.default],
                help=parameter.help + default,
            )
            if pair:
                help_text = "instead of --p: S = 1 - p"
                subcommand.add_argument("--sparsity", type=float, nargs="+", help=help_text)
        subcommand.add_argument(
            "--json", action="store_true", help="a list of objects, one for each combination"
        )
    law = phenomena.add_parser(
        "law",
        help="all that theory says of a law of the data and a width",
        allow_abbrev=False,
        description="All that theory says of a law of the data and widths, each number with its kind.",
    )
    add_law(law.add_argument)
    law.add_argument("--n-hidden", type=int, nargs="+", required=True, help="numbers of hidden neurons")
    law.add_argument("--plot", metavar="FILE", help="write a picture here: .png, .svg or .pdf")
    law.add_argument("--json", action="store_true", help="a list of objects, one for each prediction")


def _law(options: argparse.Namespace) -> None:
    from ..api.predict import predict

    check_picture(options.plot, "plot")
    answer = predict(law_of(options), options.n_hidden)
    if options.plot is not None:
        save(answer.plot(), options.plot)
    if options.json:
        columns = answer.to_dataset()
        names = list(map(str, columns.data_vars))
        rows = zip(*(columns[name].values.tolist() for name in names), strict=True)
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        say(answer)


def _predict(options: argparse.Namespace) -> None:
    if options.phenomenon == "law":
        _law(options)
        return
    prediction = PREDICTIONS[options.phenomenon]
    grids = {parameter.name: getattr(options, parameter.name) for parameter in prediction.parameters}
    if "p" in grids:
        grids["p"] = chances_of(options)
    columns = predict(options.phenomenon, **grids)
    rows = list(zip(*columns.values(), strict=True))
    if options.json:
        sources = dict(prediction.sources)
        print_json([dict(zip(columns, map(number, row), strict=True), sources=sources) for row in rows])
        return
    print_table(prediction.title, list(columns), [[format_value(value) for value in row] for row in rows])
    for name, source in prediction.sources.items():
        say(f"{name:>18}  {source}")

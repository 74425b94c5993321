"""``superposition predict``: numbers from theory alone."""

import argparse

from ..predictions import PREDICTIONS, predict
from .text import Add, number, print_json, print_table, say, shown


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
        one = phenomena.add_parser(
            name, help=prediction.title, description=f"{prediction.title}.", allow_abbrev=False
        )
        for parameter in prediction.parameters:
            default = "" if parameter.default is None else f" (default: {parameter.default:g})"
            one.add_argument(
                f"--{parameter.name.replace('_', '-')}",
                dest=parameter.name,
                type=int if parameter.whole else float,
                nargs="+",
                required=parameter.default is None,
                default=None if parameter.default is None else [parameter.default],
                help=parameter.help + default,
            )
        one.add_argument("--json", action="store_true", help="a list of objects, one for each combination")


def _predict(options: argparse.Namespace) -> None:
    prediction = PREDICTIONS[options.phenomenon]
    grids = {one.name: getattr(options, one.name) for one in prediction.parameters}
    columns = predict(options.phenomenon, **grids)
    rows = list(zip(*columns.values(), strict=True))
    if options.json:
        sources = dict(prediction.sources)
        print_json([dict(zip(columns, map(number, row), strict=True), sources=sources) for row in rows])
        return
    print_table(prediction.title, list(columns), [[shown(value) for value in row] for row in rows])
    for name, source in prediction.sources.items():
        say(f"{name:>18}  {source}")

"""``superposition predict``: numbers from theory alone."""

import argparse

from ..api.predictions import PREDICTIONS, Parameter
from ..api.predictions import predict as predict_phenomenon
from .api import check_picture, save
from .laws import SIZED_LAW, chances_of, law_of
from .options import PLOT, Option, command, json_option, option
from .text import format_value, number, print_json, print_table, say


def _options_of(parameter: Parameter) -> list[Option]:
    """Return the options of a parameter: its own, and for p also --sparsity, which may replace it."""
    has_default, is_p = parameter.default is not None, parameter.name == "p"
    parsed = option(
        f"--{parameter.name.replace('_', '-')}",
        parameter.help + (f" (default: {parameter.default:g})" if has_default else ""),
        type=int if parameter.whole else float,
        nargs="+",
        required=not has_default and not is_p,
        default=[parameter.default] if has_default else None,
    )
    return [parsed, option("--sparsity", "instead of --p: S = 1 - p", type=float, nargs="+")][: 1 + is_p]


_PHENOMENA = [
    (
        name,
        prediction.title,
        [
            *(parsed for parameter in prediction.parameters for parsed in _options_of(parameter)),
            json_option("a list of objects, one for each combination"),
        ],
    )
    for name, prediction in PREDICTIONS.items()
]
_LAW = [
    *SIZED_LAW,
    option("--n-hidden", "numbers of hidden neurons", type=int, nargs="+", required=True),
    PLOT,
    json_option("a list of objects, one for each prediction"),
]


@command(
    "superposition predict rug --p 0.01 0.05 --ratio 0.1 0.25 --json\n\n"
    "'superposition predict PHENOMENON --help' lists its parameters.",
    subcommands=[*_PHENOMENA, ("law", "All that theory says of a law of the data and widths", _LAW)],
)
def predict(options: argparse.Namespace) -> None:
    """Print predictions for given parameters, with the equation that each number comes from."""
    if options.phenomenon == "law":
        _predict_law(options)
        return
    prediction = PREDICTIONS[options.phenomenon]
    grids = {parameter.name: getattr(options, parameter.name) for parameter in prediction.parameters}
    if "p" in grids:
        grids["p"] = chances_of(options)
    columns = predict_phenomenon(options.phenomenon, **grids)
    rows = list(zip(*columns.values(), strict=True))
    if options.json:
        sources = dict(prediction.sources)
        print_json([dict(zip(columns, map(number, row), strict=True), sources=sources) for row in rows])
        return
    print_table(prediction.title, list(columns), [[format_value(value) for value in row] for row in rows])
    for name, source in prediction.sources.items():
        say(f"{name:>18}  {source}")


def _predict_law(options: argparse.Namespace) -> None:
    """Print the predicted losses for a law of the data, at each of several numbers of hidden neurons.

    Both are in `options`.
    """
    from ..api.predict import predict

    check_picture(options.plot)
    answer = predict(law_of(options), options.n_hidden)
    if options.plot is not None:
        save(answer.plot(), options.plot)
    if options.json:
        print_json(answer.to_dataset().to_dataframe().to_dict("records"))
    else:
        say(answer)

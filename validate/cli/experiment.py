"""``superposition experiment``: one experiment with settings of your own."""

import argparse
from typing import Any

from .text import Add, columns, pairs, print_json, say


def add(add_command: Add) -> None:
    """Add the command to the program."""
    option = add_command(
        "experiment",
        "run one experiment of the report with settings of your own, and write its data as netCDF; without "
        "a name, list the experiments",
        "superposition experiment collisions.fig3 n_features=64 'n_hidden=[64,256]' runs=32 --out fig3.nc",
        _experiment,
    ).add_argument
    settings = "arguments of its function; values as JSON, or text"
    option("name", nargs="?", help="such as collisions.fig3; none lists them all")
    option("settings", nargs="*", metavar="NAME=VALUE", help=settings)
    option("--out", metavar="FILE", help="results, as netCDF")
    option(
        "--json", action="store_true", help="without a name a list of objects; else an object of all numbers"
    )


def _told(name: str, function: Any) -> dict[str, Any]:
    import inspect

    summary = (inspect.getdoc(function) or "").splitlines()[0]
    return {"name": name, "summary": summary, "parameters": list(inspect.signature(function).parameters)}


def _experiment(options: argparse.Namespace) -> None:
    import inspect

    from ...theory.arguments import choice
    from .. import experiments, files

    known = experiments.experiments()
    if options.name is None:
        if options.json:
            print_json([_told(name, function) for name, function in known.items()])
            return
        for name, function in known.items():
            say(f"{name:32} {(inspect.getdoc(function) or '').splitlines()[0]}")
            say(f"{'':32}   {', '.join(inspect.signature(function).parameters)}")
        return
    given = experiments.settings(pairs("settings", options.settings))
    experiments.checked(known[choice("experiment", options.name, sorted(known))], given)
    if options.out is None:
        raise ValueError("`out` must be a file for the results, as --out FILE; got nothing.")
    out = files.output_file(options.out, "out", make_folder=True)  # before the hours of a run, not after
    files.another_file(out, given)
    ds = experiments.run(options.name, given)
    files.write_dataset(out, ds)
    if options.json:
        print_json(columns(ds))
        return
    say(ds)
    say(f"written to {out}")

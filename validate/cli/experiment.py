"""``superposition experiment``: one experiment with settings of your own."""

import argparse

from .text import Add, pairs, say


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


def _experiment(options: argparse.Namespace) -> None:
    import inspect

    from ...theory.arguments import choice
    from .. import experiments, files

    known = experiments.experiments()
    if options.name is None:
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
    say(ds)
    say(f"written to {out}")

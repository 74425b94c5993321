"""``superposition experiment``: one experiment with settings of your own."""

import argparse
from collections.abc import Sequence

from .text import Add


def add(add_command: Add) -> None:
    """Add the command to the program."""
    option = add_command(
        "experiment",
        "run one experiment of the report with settings of your own, and write its data as netCDF; without "
        "a name, list the experiments",
        "superposition experiment collisions.fig3 n_features=64 n_hidden=[64,256] runs=32 --out fig3.nc",
        _experiment,
    ).add_argument
    settings = "arguments of its function; values as JSON, or text"
    option("name", nargs="?", help="such as collisions.fig3; none lists them all")
    option("settings", nargs="*", metavar="NAME=VALUE", help=settings)
    option("--out", metavar="FILE", help="results, as netCDF")


def read_pairs(words: Sequence[str]) -> dict[str, str]:
    """Return what stands before and after the first = of each word."""
    pairs: dict[str, str] = {}
    for pair in words:
        key, separator, value = pair.partition("=")
        if not separator:
            raise ValueError(f"`settings` must be NAME=VALUE; got {pair!r}.")
        if key in pairs:
            raise ValueError(f"`{key}` must be given once; got {pairs[key]!r} and {value!r}.")
        pairs[key] = value
    return pairs


def _experiment(options: argparse.Namespace) -> None:
    import inspect

    from .. import experiments, files

    if options.name is None:
        for name, function in experiments.experiments().items():
            print(f"{name:32} {(inspect.getdoc(function) or '').splitlines()[0]}")
            print(f"{'':32}   {', '.join(inspect.signature(function).parameters)}")
        return
    given = experiments.settings(read_pairs(options.settings))
    if options.out is None:
        raise ValueError("`out` must be a file for the results, as --out FILE; got nothing.")
    out = files.output_file(options.out, "out", make_folder=True)  # before the hours of a run, not after
    ds = experiments.run(options.name, given)
    files.write_dataset(out, ds)
    print(ds)
    print(f"written to {out}")

"""``superposition sweep``: an experiment or a solver at each point of a grid, on one machine or a cluster."""

import argparse
from pathlib import Path

from .text import Add, pairs, say, tell


def add(add_command: Add) -> None:
    """Add the command to the program."""
    option = add_command(
        "sweep",
        "run an experiment or a solver at each point of a grid, into a store that survives any interruption; "
        "the same command goes on",
        "superposition sweep solvers.relu.pair_basins 'p=[0.05,0.1,0.2]' 'importance=[0.5,1]' rng=0:10 \\\n"
        "      --store runs/basins.zarr --keep fraction low high",
        _sweep,
    ).add_argument
    settings = "arguments, as JSON or text; a list, or a range such as 0:10, is an axis of the grid"
    option("name", help="an experiment, such as collisions.fig3, or a function, such as solvers.rug.optimum")
    option("settings", nargs="*", metavar="NAME=VALUE", help=settings)
    option("--store", metavar="FOLDER", required=True, help="Zarr store: a folder, or a URL of fsspec")
    option("--out", metavar="FILE", help="write the results also as netCDF")
    option("--keep", nargs="+", metavar="NAME", default=[], help="results that are kept (default: all)")
    option(
        "--together", metavar="NAME", help="dimension of the points, for a function that takes many at once"
    )
    option("--batch", type=int, help="points of a chunk (default: so many that there are about 1000 chunks)")
    option("--jobs", type=int, help="processes (default: one for each core), or tasks on a cluster at a time")
    option("--scheduler", metavar="ADDRESS", help="of a Dask cluster, such as tcp://host:8786")
    option("--gpu", action="store_true", help="only workers that have the Dask resource GPU")
    option("--retry", action="store_true", help="try again what failed")


def _sweep(options: argparse.Namespace) -> None:
    from .. import experiments, files, sweep

    given = experiments.settings(pairs("settings", options.settings))
    grid = {name: value for name, value in given.items() if isinstance(value, list)}
    settings = {name: value for name, value in given.items() if name not in grid}
    if options.out is not None and Path(options.out).resolve().is_relative_to(Path(options.store).resolve()):
        raise ValueError(f"`out` must be a file outside of `store`; got {options.out!r}.")
    out = None if options.out is None else files.output_file(options.out, "out", make_folder=True)
    if out is not None:
        files.another_file(out, settings)
    names = ("keep", "together", "batch", "jobs", "scheduler", "gpu", "retry")
    others = {name: getattr(options, name) for name in names}
    ds = sweep.run(options.name, grid, store=options.store, settings=settings, tell=tell, **others)
    say(ds)
    failed, count = int((ds["point_state"] == 2).sum()), ds["point_state"].size
    if failed:
        tell(f"{failed} of {count} points failed, as point_error says; --retry tries them again")
    if out is not None:
        files.write_dataset(out, ds.load())
        say(f"written to {out}")

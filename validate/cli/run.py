"""``superposition run``: any run by name, with settings of your own."""

import argparse
from typing import Any

from .options import arguments, command, json_option, option, options_of
from .text import format_pairs, number, print_json, print_result, print_table, tell


@command(
    "superposition run collisions.fig3 --set n_features=64 'n_hidden=[64,256]' runs=32 --out runs\n"
    "  superposition run 'rug_n8192*' --out runs --precision tf32 --cuda-graph\n"
    "  superposition run training.grid --set n_features=128 'p=[0.05]' 'ratio=[0.25,0.5]' seeds=0:3",
    option("names", "such as collisions.fig3, rug_n128, or 'rug_n8192*'", nargs="*", metavar="NAME"),
    option(
        "--set",
        "settings of its function; values as JSON, a range such as 0:10, or text",
        nargs="+",
        metavar="NAME=VALUE",
        default=[],
    ),
    *options_of(
        "runner.commands.make_runs",
        *("out", "profile", "seed", "jobs", "device", "precision", "cuda_graph"),
        out={"default": "out/runs", "required": False},
    ),
    option("--list", "say what would be made, and do nothing", action="store_true"),
    json_option("a list: of objects, or of the files that were made"),
)
def run(options: argparse.Namespace) -> None:
    """Execute runs of the report, the ledger and the stored datasets, and write one netCDF file for each.

    After an interruption the same command continues. Without names, or with --list, print the runs and their
    expected time.
    """
    from ..runner import commands, execute

    overrides = execute.parse_settings(format_pairs("set", options.set))
    chosen = commands.select_runs(options.names)
    if options.list or not options.names:
        _list_runs(chosen, options)
        return
    options.names = [run.name for run in chosen]
    settings = arguments("runner.commands.make_runs", options)
    files = commands.make_runs(**settings, overrides=overrides, progress=tell)
    paths = [str(path) for path in files]
    print_result(options.json, paths, "\n".join(f"written to {path}" for path in paths))


def _list_runs(chosen: list[Any], options: argparse.Namespace) -> None:
    """Print a table of the `chosen` runs with their purpose and expected time, or JSON, as `options` ask."""
    import inspect

    from ..reference import read
    from ..runner import commands, provenance

    dates = {name: read.facts(run.dataset)[name]["made"] for name, run in provenance.shipped_runs().items()}
    rows = [
        {
            "name": run.name,
            "dataset": run.dataset,
            "for": run.summary,
            "made": dates.get(run.name, ""),
            "hours": number(commands.expected_seconds(run) / 3600),
        }
        for run in chosen
    ]
    if options.json:
        settings = (list(inspect.signature(run.function).parameters) for run in chosen)
        print_json([{**row, "settings": names} for row, names in zip(rows, settings, strict=True)])
        return
    for row in rows:
        row["hours"] = "" if row["hours"] is None else f"{row['hours']:.2g}"
    print_table("runs, and the hours that each takes", list(rows[0]), [[*row.values()] for row in rows])

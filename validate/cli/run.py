"""``superposition run``: any run by name, with settings of your own."""

import argparse
from typing import Any

from .text import DEVICES, PRECISIONS, Add, format_pairs, number, print_json, print_table, say, tell


def add(add_command: Add) -> None:
    """Add the command to the program."""
    option = add_command(
        "run",
        "make what the report, the ledger and the stored datasets name, one netCDF file a run; the same "
        "command goes on after an interruption. Without names, or with --list, say what there is and what it "
        "costs",
        "superposition run collisions.fig3 --set n_features=64 'n_hidden=[64,256]' runs=32 --out runs\n"
        "  superposition run 'rug_n8192*' --out runs --precision tf32 --captured\n"
        "  superposition run training.grid --set n_features=128 'p=[0.05]' 'ratio=[0.25,0.5]' seeds=0:3",
        _run,
    ).add_argument
    option("names", nargs="*", metavar="NAME", help="such as collisions.fig3, rug_n128, or 'rug_n8192*'")
    values = "settings of its function; values as JSON, a range such as 0:10, or text"
    option("--set", nargs="+", metavar="NAME=VALUE", default=[], help=values)
    option("--out", metavar="FOLDER", default="out/runs", help="where to write (default: out/runs)")
    profile = "settings that are not given: for minutes (quick, the default) or hours (full)"
    option("--profile", default="quick", choices=("quick", "full"), help=profile)
    option("--seed", type=int, default=0, help="seed of what has no seed of its own (default: 0)")
    option("--jobs", type=int, default=1, help="processes (default: 1)")
    option("--list", action="store_true", help="say what would be made, and do nothing")
    device = "auto (CUDA where there is one, the default), cpu or cuda"
    option("--device", default="auto", choices=DEVICES, help=device)
    precision = "of factors of products: float32 (default), tf32 or bf16"
    option("--precision", default="float32", choices=PRECISIONS, help=precision)
    option("--captured", action="store_true", help="repeat a step of training as one CUDA graph")
    option("--json", action="store_true", help="a list: of objects, or of the files that were made")


def _run(options: argparse.Namespace) -> bool:
    from ..runner import commands, execute

    overrides = execute.parse_settings(format_pairs("set", options.set))
    chosen = commands.select_runs(options.names)
    if options.list or not options.names:
        _list(chosen, options)
        return False
    names = ("out", "profile", "seed", "jobs", "device", "precision", "captured")
    given: dict[str, Any] = {name: getattr(options, name) for name in names}
    made = commands.make_runs([run.name for run in chosen], overrides=overrides, progress=tell, **given)
    if options.json:
        print_json([str(path) for path in made])
    else:
        for path in made:
            say(f"written to {path}")
    return False


def _list(chosen: list[Any], options: argparse.Namespace) -> None:
    import inspect

    from ..reference import read
    from ..runner import commands, provenance

    made = {name: read.facts(run.stored)[name]["made"] for name, run in provenance.shipped_runs().items()}
    rows = [
        {
            "name": run.name,
            "dataset": run.stored,
            "for": run.summary,
            "made": made.get(run.name, ""),
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

"""``superposition reference``: whether stored data still hold, and how fast this machine trains."""

import argparse
from typing import Any

from .text import DEVICES, PRECISIONS, Add, number, print_json, print_table, say, shown, tell


def add(add_command: Add) -> None:
    """Add the command to the program."""
    option = add_command(
        "reference",
        "say whether stored files are still what today's code and settings make, and exit 1 if one is not; "
        "or store one that `superposition run` made",
        "superposition reference --check\n"
        "  superposition reference 'codes_*' --confirm\n"
        "  superposition reference --store out/runs/codes_known.nc\n"
        "  superposition reference --measure 512 8192 --precision tf32 --captured",
        _reference,
    ).add_argument
    option("names", nargs="*", metavar="NAME", help="of stored files, or patterns such as 'codes_*'")
    option("--check", action="store_true", help="compare stored files with the index (the default)")
    option("--confirm", action="store_true", help="make a small part of stored files anew, and compare")
    option("--store", nargs="+", metavar="FILE", help="enter files of `run` in validate/reference")
    option("--measure", type=int, nargs="+", metavar="N_FEATURES", help="time training at these sizes")
    option("--models", type=int, default=1, help="in a stack, for --measure (default: 1)")
    device = "of --measure: auto (CUDA where there is one, the default), cpu or cuda"
    option("--device", default="auto", choices=DEVICES, help=device)
    precision = "of --measure, of factors of products: float32 (default), tf32 or bf16"
    option("--precision", default="float32", choices=PRECISIONS, help=precision)
    option("--captured", action="store_true", help="of --measure: repeat a step as one CUDA graph")
    option("--json", action="store_true", help="a list of objects, or of names that were stored")


def _reference(options: argparse.Namespace) -> bool:
    from .. import index, running, stored, training

    if options.measure is not None:
        how = {name: getattr(options, name) for name in ("device", "precision", "captured")}
        found = [training.measure(n, models=options.models, **how) for n in options.measure]
        _print("training, beside the plain loop of one model and a bare product", found, options.json)
        return False
    if options.store:
        names = []
        for path in options.store:
            names.append(str(index.store(path=path)))
            if not options.json:
                say(f"stored as {names[-1]}")
        if options.json:
            print_json(names)
        return False
    chosen = [run.stored for run in running.select(options.names) if run.stored]
    if options.confirm:
        found = [_confirmed(name, options.json) for name in chosen if name in stored.read_index()]
        if options.json:
            print_json(found)
        return not all(one["passed"] for one in found)
    said = index.check(chosen if options.names else ())
    rows = [{"name": name, "found": "; ".join(faults) or "accepted"} for name, faults in said.items()]
    wrong = sum(map(bool, said.values()))
    _print(f"{wrong} of {len(said)} stored files are not accepted", rows, options.json)
    return wrong > 0


def _confirmed(name: str, as_json: bool) -> dict[str, Any]:
    from ..index import confirm

    tell(f"{name}: making a part anew")
    found = confirm(name)
    if not as_json:
        off = f"{found['compared']} numbers, difference {found['difference']:.2g} {found['variable']}".strip()
        say(f"{name}: {'confirmed' if found['passed'] else 'not repeated'}, {off}, {found['seconds']} s")
    plain = {key: number(value) if isinstance(value, float) else value for key, value in found.items()}
    return {"name": name, **plain}


def _print(title: str, rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json([{name: number(value) for name, value in row.items()} for row in rows])
    else:
        print_table(title, list(rows[0]), [[shown(value) for value in row.values()] for row in rows])

"""``superposition reference``: data that take long or a GPU, and how fast this machine trains."""

import argparse
from typing import Any

from .text import DEVICES, PRECISIONS, Add, number, pairs, print_json, print_table, say, shown, tell


def add(add_command: Add) -> None:
    """Add the command to the program."""
    option = add_command(
        "reference",
        "make reference data, which take hours or a GPU, one file a job; without names, or with --list, say "
        "what there is and what it costs. --check says whether stored files are still what today's code and "
        "settings make, and exits 1 if one is not",
        "superposition reference 'rug_n8192*' --out runs --precision tf32 --captured\n"
        "  superposition reference --check\n"
        "  superposition reference 'codes_*' --confirm\n"
        "  superposition reference rug_n8192_p0.05_r0.25 --out try --set n_features=64 steps=100\n"
        "  superposition reference --measure 512 8192 --precision tf32 --captured",
        _reference,
    ).add_argument
    option("names", nargs="*", metavar="NAME", help="jobs, or patterns such as 'rug_n8192*'")
    option("--out", metavar="FOLDER", default="out/reference", help="where to write (default: out/reference)")
    option("--list", action="store_true", help="say what would be made, and do nothing")
    option(
        "--check", action="store_true", help="compare data, settings and code of stored files with the index"
    )
    option("--confirm", action="store_true", help="make a small part of stored files anew, and compare")
    option("--store", nargs="+", metavar="FILE", help="enter files of this command in validate/reference")
    option("--set", nargs="+", metavar="NAME=VALUE", default=[], help="other settings, to try a job small")
    device = "auto (CUDA where there is one, the default), cpu or cuda"
    option("--device", default="auto", choices=DEVICES, help=device)
    precision = "of factors of products: float32 (default), tf32 or bf16"
    option("--precision", default="float32", choices=PRECISIONS, help=precision)
    option("--captured", action="store_true", help="repeat a step as one CUDA graph")
    option(
        "--rate",
        type=float,
        help="operations a second to compute costs with (default: those of stored runs, or measured)",
    )
    option("--measure", type=int, nargs="+", metavar="N_FEATURES", help="time training at these sizes")
    option("--models", type=int, default=1, help="in a stack, for --measure (default: 1)")
    option("--json", action="store_true", help="a list: of objects, or of the files that were made")


def _reference(options: argparse.Namespace) -> bool:
    from .. import experiments, index, jobs, stored, training

    how = {name: getattr(options, name) for name in ("device", "precision", "captured")}
    if options.measure is not None:
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
    chosen = jobs.select(options.names)
    if options.confirm:
        found = [_confirmed(job.name, options.json) for job in chosen if job.name in stored.read_index()]
        if options.json:
            print_json(found)
        return not all(one["passed"] for one in found)
    if options.check:
        said = index.check([job.name for job in chosen] if options.names else ())
        rows = [{"name": name, "found": "; ".join(faults) or "accepted"} for name, faults in said.items()]
        _print(
            f"{sum(map(bool, said.values()))} of {len(said)} stored files are not accepted",
            rows,
            options.json,
        )
        return any(said.values())
    if options.list or not options.names:
        rate = jobs.stored_rate() if options.rate is None else options.rate
        files = stored.read_index()
        listed: list[dict[str, Any]] = [
            {
                "name": job.name,
                "for": job.what,
                **index.told_of(job.name, files),
                "hours": jobs.cost(job, rate) / 3600,
            }
            for job in chosen
        ]
        _print(f"jobs, and hours to expect of each at {rate:.3g} operations a second", listed, options.json)
        return False
    changed = experiments.settings(pairs("set", options.set))
    made = jobs.make(chosen, out=options.out, changed=changed, rate=options.rate, tell=tell, **how)
    if options.json:
        print_json([str(path) for path in made])
    else:
        for path in made:
            say(f"written to {path}")
    return False


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

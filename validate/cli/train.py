"""``superposition train``: reference models of the rug."""

import argparse
import sys
from typing import Any

from ...solvers.progress import hush
from .laws import chances_of
from .text import DEVICES, PRECISIONS, Add, number, print_json, print_table


def add(add_command: Add) -> None:
    """Add the command to the program."""
    command = add_command(
        "train",
        "train models ReLU(W_out W_in x + b), for every p x size x seed, and write weights' statistics and "
        "losses",
        "superposition train --n-features 128 --p 0.01 0.05 --ratio 0.25 --seeds 0 1 2 --out runs/first.nc",
        _train,
    )
    option = command.add_argument
    option("--n-features", type=int, required=True, help="number of features, at least 2")
    size = command.add_mutually_exclusive_group(required=True)
    size.add_argument(
        "--ratio", type=float, nargs="+", help="n_hidden/n_features, (0, 1]; rounded to whole neurons"
    )
    size.add_argument("--n-hidden", type=int, nargs="+", help="number of hidden neurons, instead of --ratio")
    option("--p", type=float, nargs="+", help="probability that a feature is on, (0, 1]")
    option("--sparsity", type=float, nargs="+", help="instead of --p: S = 1 - p")
    option(
        "--seeds", type=int, nargs="+", default=[0], help="seeds; one model is trained for each (default: 0)"
    )
    option("--tied", action="store_true", help="W_out is the transpose of W_in")
    init = "first weights: aligned (the default), linear (of Cowsik et al.) or normal (of Liu et al.)"
    option("--init", default="aligned", choices=("aligned", "linear", "normal"), help=init)
    schedule = "paper (the stopping rule of Cowsik et al.), converged, both, or liu (that of Liu et al.)"
    option("--schedule", default="both", choices=("paper", "converged", "both", "liu"), help=schedule)
    option("--steps", type=int, default=10_000, help="steps of the converging phase (default: 10000)")
    rate = "learning rate up to the stopping rule (default: 3e-3 / sqrt(n_features))"
    option("--learning-rate", type=float, help=rate)
    option("--peak-learning-rate", type=float, help="largest rate of the converging phase (default: 0.01)")
    option("--batch-size", type=int, default=1024, help="samples in a batch (default: 1024)")
    option("--evaluation-samples", type=int, default=2**20, help="fresh samples for a loss (default: 2^20)")
    precision = "of the factors in matrix products: float32 (default), tf32 or bf16"
    option("--precision", default="float32", choices=PRECISIONS, help=precision)
    option("--captured", action="store_true", help="repeat a step as one CUDA graph")
    device = "auto (CUDA where there is one, the default), cpu or cuda"
    option("--device", default="auto", choices=DEVICES, help=device)
    option("--threads", type=int, help="CPU threads (default: all cores)")
    option("--checkpoint", metavar="FILE", help="save here every minute; go on from it if it exists")
    option("--keep-weights", action="store_true", help="write the weights as well")
    option("--out", metavar="FILE", required=True, help="results, as netCDF")
    option("--json", action="store_true", help="print the losses as a list of objects")


def _train(options: argparse.Namespace) -> None:
    import itertools

    import numpy as np

    from ...solvers import rug as solver
    from .. import files, training

    on = chances_of(options)
    out = files.output_file(options.out, "out", make_folder=True)  # before the hours of training, not after
    files.another_file(out, {"checkpoint": options.checkpoint})
    if options.ratio is not None:
        n_hidden, p, seed = training.grid(options.n_features, on, options.ratio, options.seeds)
    else:
        columns = zip(*itertools.product(on, options.n_hidden, options.seeds), strict=True)
        p, n_hidden, seed = (np.array(column) for column in columns)
    others = {"n_features", "n_hidden", "ratio", "p", "sparsity", "seeds", "out", "json", "command", "act"}
    given = {name: value for name, value in vars(options).items() if name not in others}
    talks = sys.stdout.isatty() and not options.json
    if talks:
        hush()
    results = training.train(options.n_features, n_hidden, p, seed, progress=talks, **given)
    files.write_dataset(out, results)
    best = solver.optimum(p, n_hidden / options.n_features).loss
    rows: list[dict[str, Any]] = []
    for k, (e, end) in itertools.product(range(len(p)), enumerate(results.end.values)):
        row = {"p": float(p[k]), "n_hidden": int(n_hidden[k]), "seed": int(seed[k]), "end": str(end)}
        row |= {"status": str(results.status.values[e, k]), "steps": int(results.steps.values[e, k])}
        row |= {name: number(results[name].values[e, k]) for name in ("loss", "loss_se")}
        rows.append({**row, "rug_loss": number(best[k])})
    if options.json:
        print_json(rows)
        return
    shown = [
        ["-" if v is None else f"{v:.5g}" if isinstance(v, float) else str(v) for v in r.values()]
        for r in rows
    ]
    print_table(f"trained models, n_features = {options.n_features} (written to {out})", list(rows[0]), shown)

"""The command line: ``superposition report | predict | claims | train``."""

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from typing import Any, NoReturn

__all__ = ["main"]

# The libraries behind a command are imported inside it: `--help` must not wait for torch or Matplotlib.

DESCRIPTION = """\
Toy models of superposition and polysemanticity: what theory predicts, what experiments say, and which
statements of the literature hold."""

EXAMPLES = """\
examples:
  superposition report --out out                      everything, as one HTML page (minutes)
  superposition predict rug --p 0.05 --ratio 0.25     predicted losses of one model
  superposition claims --id C8 --evidence             is this statement of the paper right?
  superposition train --n-features 128 --p 0.05 --ratio 0.25 0.5 --seeds 0 1 2 --out runs/first.nc

'superposition COMMAND --help' explains a command."""

# What `predict rug` shows: name, heading, source, function of the optimum and of (p, ratio).
RUG_SOURCES = {
    "sigma": "least interference: Cowsik et al. (2024), Eq. 6",
    "a": "optimal scale: Cowsik et al. (2024), Eq. 16",
    "b": "optimal bias: minimum of Cowsik et al. (2024), Eq. 5",
    "loss": "optimal loss per feature: minimum of Cowsik et al. (2024), Eq. 5, large n_features",
    "linear_loss": "best affine model: Cowsik et al. (2024), sec. 2; Notes (2022), Cor. 2",
    "zero_ratio_loss": "ratio -> 0: Cowsik et al. (2024), sec. 4.3.1, corrected to p/3 - p^2/4",
    "asymptotic_loss": "p -> 0: Cowsik et al. (2024), Eq. 13, with its constants",
}


class _Parser(argparse.ArgumentParser):
    """An argument parser whose complaint is one line, like every other error of this program."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def _parser() -> argparse.ArgumentParser:
    layout = argparse.RawDescriptionHelpFormatter
    parser = _Parser(
        prog="superposition",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=layout,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"superposition {version('superposition')}")
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", title="commands", parser_class=_Parser
    )

    def add(name: str, summary: str, example: str, act: Callable[[argparse.Namespace], None]) -> Any:
        command = commands.add_parser(
            name,
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            epilog="example:\n  " + example,
            formatter_class=layout,
            allow_abbrev=False,
        )
        command.set_defaults(act=act)
        return command

    report = add(
        "report",
        "compare theory and experiment, and write one HTML page with figures, data and the ledger of claims",
        "superposition report --out out --profile quick",
        _report,
    )
    report.add_argument("--out", metavar="FOLDER", default="out", help="where to write (default: out)")
    report.add_argument(
        "--profile", default="quick", help="quick (minutes on two cores, the default) or full (hours)"
    )
    report.add_argument(
        "--only", metavar="PHENOMENON", help="one phenomenon, such as rug, with the ledger; or ledger"
    )
    report.add_argument("--seed", type=int, default=0, help="seed of everything random (default: 0)")
    report.add_argument("--jobs", type=int, default=1, help="processes for the ledger (default: 1)")

    predict = add(
        "predict",
        "print predictions for given parameters, with the equation that each number comes from",
        "superposition predict rug --p 0.01 0.05 --ratio 0.1 0.25 --json",
        _predict,
    )
    predict.add_argument("phenomenon", help="rug (the macroscopic loss of large symmetric autoencoders)")
    predict.add_argument(
        "--p", type=float, nargs="+", required=True, help="probability that a feature is on, (0, 1]"
    )
    predict.add_argument("--ratio", type=float, nargs="+", required=True, help="n_hidden/n_features, (0, 1]")
    predict.add_argument(
        "--json", action="store_true", help="a list of objects, one for each pair (p, ratio)"
    )

    claims = add(
        "claims",
        "check statements of the sources by computation, and print the verdicts",
        'superposition claims --source cowsik2024 --verdict "holds with a correction"',
        _claims,
    )
    claims.add_argument("--id", nargs="+", metavar="ID", help="only these claims, such as C8")
    claims.add_argument("--source", help="only claims of this source, such as cowsik2024")
    claims.add_argument(
        "--verdict",
        help="only rows with this verdict: holds, 'holds with a correction', fails, "
        "'order only', open (hyphens for spaces are fine)",
    )
    claims.add_argument("--evidence", action="store_true", help="print the computed evidence as well")
    claims.add_argument("--full", action="store_true", help="larger searches (minutes)")
    claims.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    claims.add_argument("--json", action="store_true", help="a list of objects with all evidence")

    _add_train(add)
    return parser


def _add_train(add: Callable[..., Any]) -> None:
    train = add(
        "train",
        "train models ReLU(W_out W_in x + b), for every p x size x seed, and write weights' statistics and "
        "losses",
        "superposition train --n-features 128 --p 0.01 0.05 --ratio 0.25 --seeds 0 1 2 --out runs/first.nc",
        _train,
    )
    train.add_argument("--n-features", type=int, required=True, help="number of features, at least 2")
    size = train.add_mutually_exclusive_group(required=True)
    size.add_argument(
        "--ratio", type=float, nargs="+", help="n_hidden/n_features, (0, 1]; rounded to whole neurons"
    )
    size.add_argument("--n-hidden", type=int, nargs="+", help="number of hidden neurons, instead of --ratio")
    train.add_argument(
        "--p", type=float, nargs="+", required=True, help="probability that a feature is on, (0, 1]"
    )
    train.add_argument("--seeds", type=int, nargs="+", default=[0], help="one model for each (default: 0)")
    train.add_argument("--tied", action="store_true", help="W_out is the transpose of W_in")
    train.add_argument(
        "--init",
        default="aligned",
        help="first weights: aligned (W_out = W_in', the default) or linear (the source's, independent)",
    )
    train.add_argument(
        "--schedule", default="both", help="paper (the source's stopping rule), converged, or both"
    )
    train.add_argument(
        "--steps", type=int, default=10_000, help="batches of the converging phase (default: 10000)"
    )
    train.add_argument(
        "--learning-rate", type=float, help="up to the stopping rule (default: 3e-3 / sqrt(n_features))"
    )
    train.add_argument(
        "--peak-learning-rate", type=float, help="largest one of the converging phase (default: 0.01)"
    )
    train.add_argument("--batch-size", type=int, default=1024, help="samples in a batch (default: 1024)")
    train.add_argument(
        "--evaluation-samples", type=int, default=2**20, help="fresh samples for each loss (default: 2^20)"
    )
    train.add_argument(
        "--device", default="auto", help="auto (CUDA where there is one, the default), cpu or cuda"
    )
    train.add_argument("--threads", type=int, help="CPU threads (default: all cores)")
    train.add_argument(
        "--checkpoint", metavar="FILE", help="save here every minute; go on from it if it exists"
    )
    train.add_argument("--keep-weights", action="store_true", help="write the weights as well")
    train.add_argument("--out", metavar="FILE", required=True, help="results, as netCDF")
    train.add_argument("--json", action="store_true", help="print the losses as a list of objects")


def _number(value: Any) -> float | None:
    """Return a float for JSON, which has no nan: None stands for a number that does not exist."""
    return float(value) if math.isfinite(value) else None


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def _print_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], right: bool = True
) -> None:
    from rich.console import Console
    from rich.table import Table

    # A file or pipe has no width; lines there are for other programs and must not be broken.
    console = Console(width=None if sys.stdout.isatty() else 200, markup=False, highlight=False)
    table = Table(title=title, title_justify="left", show_lines=not right)
    for column in columns:
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _report(options: argparse.Namespace) -> None:
    import time

    from .report import write_report

    start = time.perf_counter()

    def progress(line: str) -> None:
        print(f"[{time.perf_counter() - start:6.0f} s] {line}", file=sys.stderr, flush=True)

    path = write_report(options.out, options.profile, options.only, options.seed, options.jobs, progress)
    print(path)


def _predict(options: argparse.Namespace) -> None:
    import numpy as np

    from ..solvers import rug as solver
    from ..theory import rug
    from ..theory.arguments import choice

    choice("phenomenon", options.phenomenon, ("rug",))
    p, ratio = (grid.ravel() for grid in np.meshgrid(options.p, options.ratio, indexing="ij"))
    best = solver.optimum(p, ratio)
    columns = {
        "p": p,
        "ratio": ratio,
        "sigma": best.sigma,
        "a": best.a,
        "b": best.b,
        "loss": best.loss,
        "linear_loss": rug.linear_loss(p, ratio),
        "zero_ratio_loss": rug.zero_ratio_loss(p),
        "asymptotic_loss": rug.asymptotic_loss(p, ratio),
    }
    if options.json:
        rows = zip(*columns.values(), strict=True)
        _print_json(
            [{**dict(zip(columns, map(_number, row), strict=True)), "sources": RUG_SOURCES} for row in rows]
        )
        return
    _print_table(
        "Persian rug: optimal symmetric autoencoder, loss per feature",
        list(columns),
        [[f"{value:.6g}" for value in row] for row in zip(*columns.values(), strict=True)],
    )
    for name, source in RUG_SOURCES.items():
        print(f"{name:>16}  {source}")


def _claims(options: argparse.Namespace) -> None:
    from . import claims

    verdict = options.verdict and options.verdict.replace("-", " ")

    def progress(row: claims.Checked) -> None:
        if sys.stderr.isatty():
            print(f"\r\033[Kchecked {row.claim.id}", end="", file=sys.stderr, flush=True)

    rows = claims.run(options.id, options.source, verdict, not options.full, options.jobs, progress)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    if options.json:
        _print_json([claims.as_record(row) for row in rows])
        return

    def statement(row: claims.Checked) -> str:
        lines = [row.claim.statement]
        if row.correction:
            lines.append(f"-> {row.correction}")
        if options.evidence:
            lines.append(row.evidence.text)
            lines.extend(
                f"  [{'kept' if f.passed else 'broken'}] {f.about}, {f.label}: {f.text}: {f.value:.6g} "
                f"{f.relation} {f.limit:g}"
                for f in row.evidence.findings
            )
        return "\n".join(lines)

    _print_table(
        f"{len(rows)} claims",
        ["id", "source", "where", "statement", "verdict"],
        [[row.claim.id, row.claim.source, row.claim.where, statement(row), str(row.verdict)] for row in rows],
        right=False,
    )


def _train(options: argparse.Namespace) -> None:
    import itertools
    from pathlib import Path

    import numpy as np

    from ..solvers import rug as solver
    from . import files, training

    out = Path(options.out)
    files.output_folder(out.parent)  # before the hours of training, not after
    if options.ratio is not None:
        n_hidden, p, seed = training.grid(options.n_features, options.p, options.ratio, options.seeds)
    else:
        columns = zip(*itertools.product(options.p, options.n_hidden, options.seeds), strict=True)
        p, n_hidden, seed = (np.array(column) for column in columns)
    results = training.train(
        options.n_features,
        n_hidden,
        p,
        seed,
        tied=options.tied,
        init=options.init,
        schedule=options.schedule,
        steps=options.steps,
        batch_size=options.batch_size,
        learning_rate=options.learning_rate,
        peak_learning_rate=options.peak_learning_rate,
        evaluation_samples=options.evaluation_samples,
        device=options.device,
        threads=options.threads,
        checkpoint=options.checkpoint,
        keep_weights=options.keep_weights,
        progress=sys.stdout.isatty() and not options.json,
    )
    files.write_dataset(out, results)
    best = solver.optimum(p, n_hidden / options.n_features).loss
    rows = [
        {
            "p": float(p[k]),
            "n_hidden": int(n_hidden[k]),
            "seed": int(seed[k]),
            "end": str(end),
            "status": str(results.status.values[e, k]),
            "steps": int(results.steps.values[e, k]),
            "loss": _number(results.loss.values[e, k]),
            "loss_se": _number(results.loss_se.values[e, k]),
            "rug_loss": _number(best[k]),
        }
        for k in range(len(p))
        for e, end in enumerate(results.end.values)
    ]
    if options.json:
        _print_json(rows)
        return
    shown = [
        ["-" if v is None else f"{v:.5g}" if isinstance(v, float) else str(v) for v in r.values()]
        for r in rows
    ]
    _print_table(
        f"trained models, n_features = {options.n_features} (written to {out})", list(rows[0]), shown
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code: 0 well, 1 something is missing, 2 bad input, 130 interrupted.

    Parameters
    ----------
    arguments : sequence of str, optional
        Command line without the program's name; that of the process if not given.

    Examples
    --------
    >>> main(["predict", "rug", "--p", "0.05", "--ratio", "1", "--json"])  # doctest: +ELLIPSIS
    [
      {
        "p": 0.05,
        ...
    0
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 2
    try:
        options.act(options)
        sys.stdout.flush()
    except (ValueError, ImportError) as error:
        message = " ".join(str(error).split())
        print(f"superposition {options.command}: {message}", file=sys.stderr)
        return 2 if isinstance(error, ValueError) else 1
    except KeyboardInterrupt:
        print(f"\nsuperposition {options.command}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader went away, as in `| head`. Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""``superposition claims``: the ledger."""

import argparse
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

from ...solvers.progress import status
from ..ledger import stored_verdicts
from .options import LazyChoices, command, json_option, option
from .text import print_json, print_table, say, tell

Record = dict[str, Any]
VERDICTS = tuple(map(str, stored_verdicts.Verdict))


def _source_named(word: str) -> str:
    """Return the only source whose name begins with `word`; without one `word`, which argparse refuses."""
    try:
        return str(stored_verdicts.source_named(word))
    except ValueError as error:  # the ledger is damaged
        raise argparse.ArgumentTypeError(str(error)) from error


@command(
    "superposition claims --source cowsik2024 --wrong",
    option("--id", "only these claims, such as C8", nargs="+", action="extend", metavar="ID"),
    option(
        "--source",
        "only claims of this source, such as cowsik2024, or how its name begins",
        metavar="SOURCE",
        type=_source_named,
        choices=LazyChoices(stored_verdicts.sources),
    ),
    option(
        "--wrong",
        "what does not hold as printed, of which kind its fault is, and what is true instead",
        action="store_true",
    ),
    option(
        "--verdict",
        f"only rows with this verdict: {', '.join(map(repr, VERDICTS))}; hyphens for spaces are fine",
        metavar="VERDICT",
        type=lambda word: word.replace("-", " "),
        choices=VERDICTS,
    ),
    option("--evidence", "print the computed evidence as well", action="store_true"),
    option("--run", "check by computation now (minutes for all)", action="store_true"),
    option("--full", "the same with larger searches", action="store_true"),
    option("--jobs", "processes, for --run and --full (default: 1)", type=int),
    option("--data", "of a report, whose runs and rows --run does not make again", metavar="FOLDER"),
    json_option("a list of objects with all evidence"),
    option("--errata", "what is wrong or left open in print, as Markdown tables", action="store_true"),
    option("--store", "keep what is checked now as the stored evidence", action="store_true"),
)
def claims(options: argparse.Namespace) -> bool:
    """Print statements of the sources with verdicts: from stored evidence, or checked now with --run.

    The exit status is 1 if a check ended with an error, other than that PyTorch is
    missing.
    """
    for name in ("json", "evidence", "verdict", "wrong"):
        if options.errata and getattr(options, name):
            raise ValueError(f"`--errata` chooses its rows and their form itself; got `--{name}` as well.")
    if options.wrong and options.verdict:
        raise ValueError(f"`--wrong` chooses verdicts itself; got `--verdict {options.verdict}` as well.")
    fresh = options.run or options.full
    for name in ("jobs", "data"):
        if not fresh and getattr(options, name) is not None:
            option_text = f"`--{name} {getattr(options, name)}`"
            raise ValueError(f"`--{name}` must stand with `--run` or `--full`; got {option_text} alone.")
    if options.store and (options.full or not options.run):
        raise ValueError("`--store` must stand with `--run`, and not with `--full`; got other options.")
    records = _judge_rows(options) if fresh else _stored_rows(options)
    if options.wrong:
        records = [record for record in records if record["verdict"] in stored_verdicts.WRONG]
    if options.json:
        print_json(records)
    elif options.errata:
        from ..report import page

        say(page.errata(_rows_from_records(records)))
    elif options.wrong:
        _print_wrong(records, options)
    else:
        columns = ["id", "source", "where", "statement", "verdict"]
        records_shown = [
            {**record, "statement": _format_statement(record, options.evidence)} for record in records
        ]
        rows = [[record[column] for column in columns] for record in records_shown]
        noun = "claim" if len(rows) == 1 else "claims"
        print_table(f"{len(rows)} {noun}{_describe_origin(records)}", columns, rows, right=False)
    if options.verdict == stored_verdicts.Verdict.WRONG:
        tell("Misprints and what is incomplete, overstated or not reproduced are not among them: --wrong.")
    return any(record["trouble"] and "needs PyTorch" not in record["trouble"] for record in records)


def _stored_rows(options: argparse.Namespace) -> list[Record]:
    """Return the stored records of claims with the ids, source and verdict in the command's `options`.

    If the stored verdicts lack one of these, the claims are judged by computation.
    """
    known = stored_verdicts.read()
    selection = {"id": options.id or (), "source": [options.source], "verdict": [options.verdict]}
    if any(set(values) - {None, *(row[key] for row in known.values())} for key, values in selection.items()):
        return _judge_rows(options)  # which names what is wrong, or has a row that is not stored yet
    rows = [
        row for id, row in known.items()
        if (options.id is None or id in options.id) and options.source in (None, row["source"])
    ]  # fmt: skip
    _refuse_other_ids(options, [row["id"] for row in rows])
    return [row for row in rows if options.verdict in (None, row["verdict"])]


def _judge_rows(options: argparse.Namespace) -> list[Record]:
    """Judge claims by computation; return the records of those with the verdict in `options`, if it has one.

    The claims are those with the ids and source in `options`; with --wrong those whose stored verdict is
    right are left out. With --store the records are stored.
    """
    from datetime import date

    from .. import ledger

    ids = [claim.id for claim in ledger.select_claims(options.id, options.source)]
    _refuse_other_ids(options, ids)
    if options.wrong:  # those without stored evidence may be
        right = {row.claim.id for row in ledger.read_stored(ids) if row.verdict not in ledger.WRONG}
        ids = [id for id in ids if id not in right]
    jobs = 1 if options.jobs is None else options.jobs
    rows = ledger.run(
        ids, None, options.verdict, not options.full, jobs,
        lambda row: status(f"checked {row.claim.id}"), data=options.data,
    )  # fmt: skip
    records = [ledger.as_record(row) for row in rows]
    if options.store:
        ledger.store(_rows_from_records(records), date.today().isoformat())
    return records


def _rows_from_records(records: Sequence[Record]) -> list[Any]:
    """Return the ledger's row, a `CheckedClaim`, of each of `records`, its stored form."""
    from .. import ledger

    return [ledger.from_record(ledger.select_claims([record["id"]])[0], record) for record in records]


def _refuse_other_ids(options: argparse.Namespace, chosen: Sequence[str]) -> None:
    """Raise ValueError if `options` have ids that are not in `chosen`, the ids of the chosen source."""
    left_out = set(options.id or ()) - set(chosen)
    if left_out:
        raise ValueError(f"`id` must be of the source {options.source!r}; got {', '.join(sorted(left_out))}.")


def _describe_origin(records: Sequence[Record]) -> str:
    """Return a phrase on the origin of records: stored evidence with its dates, or checked now."""
    days = sorted({record["judged"] for record in records if record["judged"]})
    if not days:
        return ", checked now" if records else ""
    span = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return f", from stored evidence of {span}; --run checks again"


def _format_statement(record: Record, evidence: bool) -> str:
    """Return the statement of a ledger's record with its correction and, if asked, its evidence, as lines."""
    lines = [record["statement"]]
    remark = record["correction"] or record["trouble"]
    if remark:
        lines.append(f"-> {remark}")
    if evidence:
        lines.append(record["evidence"]["text"])
        lines.extend(map(_format_finding, record["evidence"]["findings"]))
    return "\n".join(lines)


def _format_finding(record: Record) -> str:
    """Return a finding's record as a line, "[kept] statement, kind: text: value relation limit (facts)".

    The statement is the tested one, such as "printed". The first word is "broken" if the value violates the
    limit; facts are the origin of the data, how the limit was set, false-alarm rate and resolution.
    """
    value, limit = float(record["value"]), float(record["limit"])
    is_refuted = record["about"] == "printed" and not record["passed"]
    alarm, resolution = record["alarm_rate"], record["resolution"]
    facts = [
        record["origin"],
        record["limit_in_words"],
        "" if alarm is None else f"alarm rate {alarm:.1g}",
        "" if resolution is None else f"resolves {resolution:.2g}",
    ]
    return (
        f"  [{'kept' if record['passed'] else 'broken'}] {record['about']}, "
        f"{'counterexample' if is_refuted else record['kind']}: {record['text']}: {value:.6g} "
        f"{record['relation']} {limit:g} ({', '.join(filter(None, facts))})"
    )


def _print_wrong(records: Sequence[Record], options: argparse.Namespace) -> None:
    """Print each of the ledger's `records` as printed and as corrected, with --evidence also the evidence.

    `options` are the command's.
    """
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 100

    def filled(head: str, words: str) -> str:
        """Return `words` after a head, wrapped and indented."""
        return textwrap.fill(
            words, max(width, 40), initial_indent=f"  {head}", subsequent_indent=" " * 12,
            break_on_hyphens=False,
        )  # fmt: skip

    of = f" of {options.source}" if options.source else ""
    whole = sum(options.source in (None, row["source"]) for row in stored_verdicts.read().values())
    among = f" of {whole}" if options.id is None and whole else ""
    verb = "statement{} does" if len(records) == 1 and not among else "statements{} do"
    parts = [f"{len(records)}{among} {verb.format(of)} not hold as printed{_describe_origin(records)}"]
    for record in records:
        lines = [
            f"{record['id']}, {record['source']}, {record['where']}: {record['verdict']}",
            filled("printed   ", record["statement"]),
            filled("true      ", record["correction"] or "not that; no correction is known"),
        ]
        if options.evidence:
            lines.append(filled("evidence  ", record["evidence"]["text"]))
            lines.extend(map(_format_finding, record["evidence"]["findings"]))
        parts.append("\n".join(lines))
    say("\n\n".join(parts))

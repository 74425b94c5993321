"""The report: every comparison of theory with experiment, and the ledger, on one self-contained page.

A phenomenon joins by a function ``report_section(profile, seed, progress) -> Section`` in its module and
its name in `PHENOMENA`.
"""

import html
import importlib
import os
import platform
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from ..theory.arguments import choice, integer
from . import claims, files, page, parts
from .drawing import svg, with_prefix
from .parts import Part
from .progress import Clock
from .section import Section

__all__ = ["PHENOMENA", "PROFILES", "provenance", "render", "section", "svg", "write_report", "write_section"]

PHENOMENA = ("rug", "codes", "sparsification", "collisions", "noise", "linear", "relu")
LEDGER = "ledger"
PROFILES = ("quick", "full")
PAGE = "report.html"
NEEDS_TORCH = "needs PyTorch: pip install 'superposition[torch]'"

Progress = Callable[[str], None]


def section(name: str, profile: str, seed: int, progress: Progress) -> Section:
    """Run the experiments of a phenomenon and return its section.

    Parameters
    ----------
    name : str
        One of `PHENOMENA`.
    profile : {"quick", "full"}
        Sizes for minutes on two cores, or for hours.
    seed : int
        Seed of everything random.
    progress : callable
        Called with a line of text from time to time.

    Returns
    -------
    Section
        One that only says so where the phenomenon cannot do without PyTorch and there is none.
    """
    module = importlib.import_module(f".{choice('name', name, PHENOMENA)}", __package__)
    try:
        return module.report_section(profile, seed, progress)
    except ImportError as error:
        # Any other import that fails is a mistake in the code and must be seen.
        if "torch" not in (error.name, getattr(error.__cause__, "name", None)):
            raise
        progress(f"{name}: left out, {NEEDS_TORCH}")
        return Section(name, name.capitalize(), f"This part is left out: it {NEEDS_TORCH}.")


def write_section(folder: Path, section: Section) -> tuple[str, list[str]]:
    """Write the data and drawings of a section's figures; return its HTML and the names of the files.

    Parameters
    ----------
    folder : Path
        Where the page will be; each section has a folder of its own in it.
    section : Section
    """
    place = page.slug(section.name)
    (folder / place).mkdir(exist_ok=True)
    body, written = [page.paragraphs(section.text)], []
    for figure in section.figures:
        name = page.slug(figure.name)
        anchor = f"{place}-{name}"
        data = folder / place / f"{name}.nc"
        files.write_dataset(data, figure.dataset)
        tables = files.write_tables(data.with_suffix(".csv"), figure.dataset)
        drawing, picture = data.with_suffix(".svg"), svg(figure)
        files.write_text(drawing, picture)
        inline = with_prefix(picture, f"{anchor}-")
        links = [path.relative_to(folder).as_posix() for path in (*tables, data, drawing)]
        written += links
        # Panels beside each other would be too small on a phone: there the reader scrolls through them.
        wide = not callable(figure.draw) and min(figure.columns, len(figure.draw)) > 1
        body.append(
            f"<figure id='{anchor}'><h3>{page.formulas(figure.title)} "
            f"<a class='anchor' href='#{anchor}' aria-label='link to this figure'>#</a></h3>"
            f"<div class='{'plot wide' if wide else 'plot'}' tabindex='0'>{inline}</div>"
            f"<figcaption>{page.formulas(figure.caption)}<br>Data and drawing: "
            + ", ".join(f"<a href='{link}'>{Path(link).name}</a>" for link in links)
            + "</figcaption></figure>"
        )
    body.extend(page.table(t.title, t.columns, t.rows, t.caption) for t in section.tables)
    return "\n".join(body), written


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass  # not Linux
    return platform.processor() or platform.machine()


def provenance(profile: str, seed: int, seconds: float) -> list[tuple[str, str]]:
    """Return what a reader needs to repeat the run: machine, versions, seed, profile, wall time."""
    return [
        ("made", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")),
        ("profile", profile),
        ("seed", str(seed)),
        ("wall time", f"{seconds:.0f} s"),
        ("processor", f"{_processor()}, {os.cpu_count()} cores"),
        ("system", platform.platform()),
        ("Python", platform.python_version()),
        ("versions", ", ".join(f"{name} {parts.version(name)}" for name in parts.PACKAGES)),
    ]


def render(
    done: Sequence[Part],
    ledger: Sequence[claims.Checked],
    facts: Sequence[tuple[str, str]],
    missing: Sequence[str] = (),
) -> str:
    """Return the page: the summary, a part for each section, the ledger.

    Parameters
    ----------
    done : sequence of Part
        The sections that are finished.
    ledger : sequence of Checked
        Rows of the ledger, as from `claims.run`.
    facts : sequence of (str, str)
        Name and value of what the summary says about the run.
    missing : sequence of str, optional
        What a run that was stopped did not reach.
    """
    counts = {v: sum(row.verdict is v for row in ledger) for v in claims.Verdict}
    seen = [verdict for verdict, count in counts.items() if count]
    sources = list(dict.fromkeys(row.claim.source for row in ledger))
    by_source = [
        [source, *(sum(row.claim.source == source and row.verdict is v for row in ledger) for v in seen)]
        for source in sources
    ]
    undecided = (
        f" Open: {counts[claims.Verdict.OPEN]}; an open row says what is missing to decide it."
        if counts[claims.Verdict.OPEN]
        else ""
    )
    stopped = (
        "<p class='warning'>This run was stopped before its end; the same command continues it. "
        f"Missing: {html.escape(', '.join(missing))}.</p>"
        if missing
        else ""
    )
    summary = (
        stopped
        + f"<p>{len(ledger)} claims of the sources; each verdict follows from computed evidence."
        + f"{undecided}</p>"
        + page.badges({verdict: counts[verdict] for verdict in seen})
        + page.table("Claims by source", ["source", *map(str, seen)], by_source)
        + page.table("This run", ["what", "value"], facts)
    )
    body = [
        ("Summary", summary),
        *((part.title, part.html) for part in done),
        ("Ledger of claims", page.ledger(ledger)),
    ]
    lead = (
        "What the theory of toy models of superposition predicts, and what experiments on this machine say."
    )
    return page.page("superposition: theory against experiment", lead, body)


def write_report(
    out: str | Path,
    profile: str = "quick",
    only: str | None = None,
    seed: int = 0,
    jobs: int = 1,
    progress: Progress = lambda line: None,
    fresh: bool = False,
) -> Path:
    """Run the comparisons and the ledger, and write the page with its data.

    Parameters
    ----------
    out : str or Path
        Folder; made if it does not exist. Every file is written whole or not at all, the page last. A run
        that is stopped writes the page with what is finished, and the next run with the same settings, code
        and libraries continues from there.
    profile : {"quick", "full"}, optional
        Sizes for minutes on two cores, or for hours.
    only : str, optional
        One phenomenon with the ledger, or ``"ledger"``.
    seed : int, optional
        Seed of everything random; not negative.
    jobs : int, optional
        Number of processes for the ledger.
    progress : callable, optional
        Called with a line of text from time to time.
    fresh : bool, optional
        Run everything, even what an earlier run has left finished.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    ValueError
        If an argument is out of range or the folder cannot be written.
    """
    choice("profile", profile, PROFILES)
    if only is not None:
        choice("only", only, (*PHENOMENA, LEDGER))
    seed = integer("seed", seed, 0)
    jobs = integer("jobs", jobs, 1)
    folder = files.output_folder(out)
    key = parts.key(profile, seed)
    names = [name for name in PHENOMENA if only in (None, name)]
    rows = [] if fresh else parts.load_rows(folder, key)
    kept = [] if fresh else [part for name in names if (part := parts.load(folder, key, name))]
    done = {part.name: part for part in kept}
    if done or rows:
        progress(f"kept from an earlier run: {', '.join([*done, f'{len(rows)} claims'])}")
    ahead = [claim.id for claim in claims.CLAIMS if claim.id not in {row.claim.id for row in rows}]
    steps = [*(name for name in names if name not in done), LEDGER]
    earlier = {name: parts.last_seconds(folder, profile, name) for name in steps}
    if earlier[LEDGER] is not None:
        earlier[LEDGER] *= len(ahead) / jobs
    clock = Clock(earlier, progress)

    def reached(row: claims.Checked) -> None:
        rows.append(row)
        parts.save_rows(folder, key, profile, rows)
        count = f"{len(rows)} of {len(claims.CLAIMS)}"
        clock(f"claim {row.claim.id}: {row.verdict} ({row.seconds:.1f} s; {count})")

    try:
        for name in steps[:-1]:
            clock.begin(name)
            part = _run(folder, name, profile, seed, clock)
            parts.save(folder, key, profile, part)
            done[name] = part
            clock.end(part.seconds)
            clock(f"{part.title}: {_when(part)}")
        clock.begin(LEDGER)
        claims.run(ahead, quick=profile == "quick", jobs=jobs, progress=reached)
    finally:
        # Also after Ctrl-C or an error: what is finished can be read.
        if done or rows:
            finished = [done[name] for name in names if name in done]
            missing = [name for name in names if name not in done]
            if len(rows) < len(claims.CLAIMS):
                missing.append(f"{len(claims.CLAIMS) - len(rows)} claims")
            facts = provenance(profile, seed, clock.elapsed)
            facts += [(part.name, _when(part)) for part in finished]
            order = [claim.id for claim in claims.CLAIMS]
            ledger = sorted(rows, key=lambda row: order.index(row.claim.id))
            files.write_text(folder / PAGE, render(finished, ledger, facts, missing))
    return folder / PAGE


def _run(folder: Path, name: str, profile: str, seed: int, clock: Clock) -> Part:
    made = section(name, profile, seed, clock)
    text, written = write_section(folder, made)
    return Part(name, made.title, text, written, clock.in_part)


def _when(part: Part) -> str:
    return f"{part.seconds:.0f} s" + (
        ", in an earlier run with the same settings and code" if part.reused else ""
    )

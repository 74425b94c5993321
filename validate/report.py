"""The report: every comparison of theory with experiment, and the ledger, on one self-contained page.

What is run, shown and judged is declared by the sections (`laboratory.PHENOMENA`) and the ledger's rows. Here
it becomes tasks: the pieces of the experiments, the topics that show them, the rows that judge them.
"""

import html
import os
import platform
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from ..theory.arguments import choice, integer
from . import claims, files, page, parts, tasks
from .drawing import svg, with_prefix
from .experiment import PROFILES, Figure, Shown, Topic
from .laboratory import PACKAGES, PHENOMENA, Lab, pieces_of, section, version
from .parts import Part
from .progress import Clock

__all__ = ["PAGE", "provenance", "render", "write_report", "write_topic"]

LEDGER = "ledger"
PAGE = "report.html"
NEEDS_TORCH = "This part is left out: it needs PyTorch (pip install 'superposition[torch]')."

Progress = Callable[[str], None]


# --- Tasks --------------------------------------------------------------------------------------------------


def full_names(room: str, topic: Topic) -> list[str]:
    """Return the full names of the experiments that a topic needs."""
    return [need if "." in need else f"{room}.{need}" for need in topic.needs]


def _show(folder: Path, profile: str, seed: int, room: str, topic_name: str) -> Part:
    lab = Lab(folder, profile, seed)
    topic = next(one for one in section(room).topics if one.name == topic_name)
    needs = full_names(room, topic)
    key = parts.key(lab, needs, f"{room}-{topic_name}")
    kept = parts.load_topic(folder, key, f"{room}-{topic_name}")
    if kept is not None:
        return kept
    start = time.perf_counter()
    missing = [need for need in needs if not lab.available(need)]
    shown = Shown(NEEDS_TORCH) if missing else topic.show(*(lab[need] for need in needs))
    part = write_topic(folder, room, topic_name, shown, time.perf_counter() - start)
    parts.save_topic(folder, key, profile, part)
    return part


def _judge(folder: Path, profile: str, seed: int, id: str) -> tuple[claims.Evidence, float]:
    lab = Lab(folder, profile, seed)
    (claim,) = claims.select([id])
    key = parts.key(lab, claim.needs, f"claim-{id}")
    row = parts.load_row(folder, key, claim)
    if row is None:
        row = claims.judge(claim, lab)
        parts.save_row(folder, key, profile, row)
    return row.evidence, row.seconds  # a claim holds its check, which cannot be sent back


def _tasks(lab: Lab, rooms: Sequence[str], ledger: Sequence[claims.Claim]) -> list[tasks.Task]:
    """List what is to be done; pieces of experiments whose data are there are not."""
    settings = (lab.folder, lab.profile, lab.seed)
    topics = [(room, topic) for room in rooms for topic in section(room).topics]
    names = [name for room, topic in topics for name in full_names(room, topic)]
    found, pieces = pieces_of(lab, [*names, *(name for claim in ledger for name in claim.needs)])

    def after(needs: Sequence[str]) -> list[str]:
        return [piece for name in needs for piece in pieces[name]]

    found += [
        tasks.Task(
            f"{room}: {topic.name}", _show, (*settings, room, topic.name), after(full_names(room, topic))
        )
        for room, topic in topics
    ]
    found += [tasks.Task(f"claim {one.id}", _judge, (*settings, one.id), after(one.needs)) for one in ledger]
    return found


def write_report(
    out: str | Path,
    profile: str = "quick",
    only: str | None = None,
    seed: int = 0,
    jobs: int | None = None,
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
        One phenomenon with its rows of the ledger, or ``"ledger"``; on a page of its own.
    seed : int, optional
        Seed of everything random; not negative.
    jobs : int, optional
        Number of processes; as many as there are cores if not given. The results do not depend on it.
    progress : callable, optional
        Called with a line of text from time to time.
    fresh : bool, optional
        Run everything, even what an earlier run has left finished.

    Returns
    -------
    Path
        The page: ``report.html``, or ``report-….html`` with `only`.

    Raises
    ------
    ValueError
        If an argument is out of range, the folder cannot be written, or another report is writing to it.
    """
    choice("profile", profile, PROFILES)
    if only is not None:
        choice("only", only, (*PHENOMENA, LEDGER))
    seed = integer("seed", seed, 0)
    jobs = tasks.cores() if jobs is None else integer("jobs", jobs, 1)
    folder = files.output_folder(out)
    target = files.output_file(folder / (PAGE if only is None else f"report-{only}.html"), "out")
    rooms = [name for name in PHENOMENA if only in (None, name)]
    ledger = [one for one in claims.CLAIMS if only in (None, LEDGER) or _shown_by(one, rooms)]
    with files.locked(folder):
        if fresh:
            _forget(folder)
        lab = Lab(folder, profile, seed)
        todo = _tasks(lab, rooms, ledger)
        clock = Clock(todo, progress)
        done: dict[str, Part] = {}
        rows: dict[str, claims.Checked] = {}

        def reached(task: tasks.Task, found: object, seconds: float) -> None:
            said = f"{seconds:.1f} s"
            if isinstance(found, Part):
                done[task.name] = found
                said = "kept from an earlier run" if found.reused else said
            elif found is not None:
                evidence, spent = found  # type: ignore[misc]
                row = claims.Checked(claims.select([task.name.removeprefix("claim ")])[0], evidence, spent)
                rows[row.claim.id] = row
                said = f"{row.verdict} ({said})"
            clock.finished(task, f"{task.name}: {said}")

        try:
            tasks.perform(todo, jobs, reached)
        finally:
            # Also after Ctrl-C or an error: what is finished can be read.
            if done or rows:
                missing = [one.name for one in todo if one.work is _show and one.name not in done]
                if len(rows) < len(ledger):
                    missing.append(f"{len(ledger) - len(rows)} claims")
                shown = [done[name] for name in (one.name for one in todo) if name in done]
                judged = [rows[one.id] for one in ledger if one.id in rows]
                facts = provenance(profile, seed, clock.elapsed, jobs)
                files.write_text(target, render(shown, judged, facts, missing))
    return target


def _shown_by(claim: claims.Claim, rooms: Sequence[str]) -> bool:
    topics = [topic for room in rooms for topic in section(room).topics]
    return any(claim.id in topic.claims for topic in topics)


def _forget(folder: Path) -> None:
    for place in ("data", parts.FOLDER):
        for path in (folder / place).glob("*"):
            path.unlink()


# --- A topic ------------------------------------------------------------------------------------------------


def write_topic(folder: Path, room: str, topic: str, shown: Shown, seconds: float = 0.0) -> Part:
    """Write the data and drawings of a topic's figures; return it as a part of the page.

    Parameters
    ----------
    folder : Path
        Where the page will be; each section has a folder of its own in it.
    room, topic : str
        Names of the section and of the topic.
    shown : Shown
    seconds : float, optional
        How long the topic has taken.
    """
    place = page.slug(room)
    (folder / place).mkdir(exist_ok=True)
    body, written, anchors = [page.paragraphs(shown.text)], {}, []
    for figure in shown.figures:
        text, made = _figure(folder, place, figure)
        body.append(text)
        anchors.append(f"{place}-{page.slug(figure.name)}")
        written |= {link: files.digest(folder / link) for link in made}
    body.extend(page.table(t.title, t.columns, t.rows, t.caption) for t in shown.tables)
    picture = anchors[0] if anchors else ""
    return Part(room, topic, "\n".join(body), written, shown.headline, picture, seconds)


def _figure(folder: Path, place: str, figure: Figure) -> tuple[str, list[str]]:
    """Write a figure's data, tables and drawing; return its HTML and the names of the files."""
    name = page.slug(figure.name)
    anchor = f"{place}-{name}"
    data = folder / place / f"{name}.nc"
    files.write_dataset(data, figure.dataset)
    tables = files.write_tables(data.with_suffix(".csv"), figure.dataset)
    drawing, picture = data.with_suffix(".svg"), svg(figure)
    files.write_text(drawing, picture)
    links = [path.relative_to(folder).as_posix() for path in (*tables, data, drawing)]
    inline = with_prefix(picture, f"{anchor}-").replace("<svg ", f"<svg id='{anchor}-drawing' ", 1)
    # Panels beside each other would be too small on a phone: there the reader scrolls through them.
    wide = not callable(figure.draw) and min(figure.columns, len(figure.draw)) > 1
    text = (
        f"<figure id='{anchor}'><h3>{page.formulas(figure.title)} "
        f"<a class='anchor' href='#{anchor}' aria-label='link to this figure'>#</a></h3>"
        f"<div class='{'plot wide' if wide else 'plot'}' tabindex='0'>{inline}</div>"
        f"<figcaption>{page.formulas(figure.caption)}<br>Data and drawing: "
        + ", ".join(f"<a href='{link}'>{Path(link).name}</a>" for link in links)
        + "</figcaption></figure>"
    )
    return text, links


# --- The page -----------------------------------------------------------------------------------------------


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass  # not Linux
    return platform.processor() or platform.machine()


def provenance(profile: str, seed: int, seconds: float, jobs: int) -> list[tuple[str, str]]:
    """Return what a reader needs to repeat the run: machine, versions, seed, profile, wall time."""
    return [
        ("made", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")),
        ("profile", profile),
        ("seed", str(seed)),
        ("wall time", f"{seconds:.0f} s, {jobs} processes"),
        ("processor", f"{_processor()}, {os.cpu_count()} cores"),
        ("system", platform.platform()),
        ("Python", platform.python_version()),
        ("versions", ", ".join(f"{name} {version(name)}" for name in PACKAGES)),
    ]


def render(
    done: Sequence[Part],
    ledger: Sequence[claims.Checked],
    facts: Sequence[tuple[str, str]],
    missing: Sequence[str] = (),
) -> str:
    """Return the page: what was found, a part for each section, the ledger, and how it was made.

    Parameters
    ----------
    done : sequence of Part
        The topics that are finished.
    ledger : sequence of Checked
        Rows of the ledger.
    facts : sequence of (str, str)
        Name and value of what the page says about the run.
    missing : sequence of str, optional
        What a run that was stopped did not reach.
    """
    body = [("What was found", _found(done, ledger, missing))]
    judged = {row.claim.id: row for row in ledger}
    for room in dict.fromkeys(part.section for part in done):
        made = section(room)
        text = [page.paragraphs(made.text)]
        for part in (one for one in done if one.section == room):
            topic = next((one for one in made.topics if one.name == part.topic), None)
            ids = () if topic is None else topic.claims
            text += [part.html, page.judged([judged[id] for id in ids if id in judged])]
        body.append((made.title, "\n".join(text)))
    body.append(("Ledger of claims", page.ledger(ledger)))
    body.append(("How this page was made", page.table("This run", ["what", "value"], facts)))
    lead = (
        "What the theory of toy models of superposition predicts, and what experiments on this machine say."
    )
    return page.page("superposition: theory against experiment", lead, body)


def _found(done: Sequence[Part], ledger: Sequence[claims.Checked], missing: Sequence[str]) -> str:
    """Return the first screen: the results that matter with small pictures, and the count of verdicts."""
    counts = {v: sum(row.verdict is v for row in ledger) for v in claims.Verdict}
    stopped = (
        "<p class='warning'>This run was stopped before its end; the same command continues it. "
        f"Missing: {html.escape(', '.join(missing))}.</p>"
        if missing
        else ""
    )
    headlines = [(part.headline, part.picture) for part in done if part.headline]
    seen = [verdict for verdict, count in counts.items() if count]
    by_source = [
        [source, *(sum(row.claim.source == source and row.verdict is v for row in ledger) for v in seen)]
        for source in dict.fromkeys(row.claim.source for row in ledger)
    ]
    return (
        stopped
        + page.headlines(headlines)
        + f"<p>{len(ledger)} claims of the sources; each verdict follows from computed evidence.</p>"
        + page.badges({verdict: counts[verdict] for verdict in seen})
        + page.table("Claims by source", ["source", *map(str, seen)], by_source)
    )

"""The report: every comparison of theory with experiment, and the ledger, on one self-contained page.

What is run, shown and judged is declared by the sections (`registry.PHENOMENA`) and the ledger's rows. Here
it becomes tasks: the pieces of the experiments, the topics that show them, the rows that judge them.
"""

import html
import os
import platform
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...theory.annotations import as_annotated
from ...theory.validation import choice, integer
from .. import ledger as claims
from ..experiments.drawing import svg
from ..reference import files
from ..runner import registry, tasks
from ..runner.cache import NOTES_FOLDER, ResultCache, plan_tasks
from ..runner.declarations import Figure, Topic, TopicContent
from ..runner.provenance import PACKAGES, package_version
from . import page

__all__ = ["PAGE", "RenderedTopic", "Report", "provenance", "render", "write_report", "write_topic"]

LEDGER = "ledger"
PAGE = "report.html"
NEEDS_TORCH = "This part is left out: it needs PyTorch (pip install -e '.[torch]' in the checkout)."

Progress = Callable[[str], None]


def full_names(room: str, topic: Topic) -> list[str]:
    """Return the full names of the experiments that a topic needs."""
    return [need if "." in need else f"{room}.{need}" for need in topic.needs]


@dataclass(frozen=True)
class RenderedTopic:
    """A topic of the page as HTML, its card for the first screen, and its files with their checksums."""

    section: str
    topic: str
    html: str
    files: Mapping[str, str]
    card: str = ""
    reused: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Report:
    """A page that was written, and what failed on the way."""

    page: Path
    failed: tuple[str, ...] = ()
    """Parts and checks that raised an error, with what it says, and claims of which a finding fails."""


@dataclass(frozen=True)
class _Failed:
    """What a task raised."""

    text: str


def _result_or_failure(work: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function returns, or what it raised: one part that fails must not take the others along.

    A disk or memory that is full is raised, as nothing else would be finished either.
    """
    try:
        return work(*arguments)
    except (OSError, MemoryError):
        raise
    except Exception as error:
        return _Failed(f"{type(error).__name__}: {error}")


def _show(results: ResultCache, place: str, room: str, topic_name: str) -> RenderedTopic:
    """Return a topic, that of an earlier run if it is kept and its files are as they were written."""
    topic = next(one for one in registry.load_section(room).topics if one.name == topic_name)
    needs = full_names(room, topic)
    name = page.slug(f"{place} {room} {topic_name}")
    kept = results.read_note(name, needs)
    if kept and all(files.digest(results.folder / file) == sum for file, sum in kept["files"].items()):
        return RenderedTopic(**{**kept, "reused": True})
    missing = [need for need in needs if not results.is_available(need)]
    shown = TopicContent(NEEDS_TORCH) if missing else topic.content(*(results[need] for need in needs))
    part = write_topic(results.folder, room, topic_name, shown, place)
    results.store_note(name, needs, asdict(part))
    return part


@as_annotated
def write_report(
    out: str | Path,
    profile: str = "quick",
    only: str | None = None,
    seed: int = 0,
    jobs: int | None = None,
    progress: Progress = lambda line: None,
) -> Report:
    """Run the comparisons and the ledger, and write the page with its data.

    Parameters
    ----------
    out : str or Path
        Folder; made if it does not exist, and else empty or one that this program fills. Files of other names
        in it stay as they are. Every file is written whole or not at all, the page last. A run that is
        stopped writes the page with what is finished; the next run with the same settings, code and libraries
        continues there, and its results are those of a run that was never stopped. To begin anew is to name
        another folder.
    profile : {"quick", "full"}, optional
        Sizes for minutes on two cores, or for hours.
    only : str, optional
        One phenomenon with its rows of the ledger, or ``"ledger"``; on a page and with files of its own.
    seed : int, optional
        Seed of everything random, from 0 to 2^30.
    jobs : int, optional
        Number of processes; as many as there are cores if not given. The results do not depend on it.
    progress : callable, optional
        Called with a line of text from time to time.

    Returns
    -------
    Report
        The page, ``report.html``, or ``report-….html`` with `only`; and what failed, which the page names.

    Raises
    ------
    ValueError
        If an argument is out of range, or the folder cannot be written, is neither empty nor marked as ours,
        or another process writes to it.
    """
    if only is not None:
        choice("only", only, (*registry.PHENOMENA, LEDGER))
    jobs = tasks.available_cores() if jobs is None else integer("jobs", jobs, 1)
    place = "" if only is None else f"report-{only}"
    results = ResultCache(Path(out), profile, seed)
    rooms = [name for name in registry.PHENOMENA if only in (None, name)]
    topics = [(room, topic) for room in rooms for topic in registry.load_section(room).topics]
    named = {id for _, topic in topics for id in topic.claims}
    ledger = [one for one in claims.CLAIMS if only in (None, LEDGER) or one.id in named]
    with files.exclusive_folder(out) as folder:
        target = files.output_file(folder / (f"{place}.html" if place else PAGE), "out")
        for below in (Path("data"), Path(NOTES_FOLDER), *(Path(place, room) for room in rooms)):
            files.output_folder(folder / below)
        works: list[Any] = [
            (f"{room}: {topic.name}", _show, full_names(room, topic), (place, room, topic.name))
            for room, topic in topics
        ]
        works += [(f"claim {one.id}", claims.judge_or_recall, one.needs, (one.id,)) for one in ledger]
        todo = [
            replace(task, work=_result_or_failure, arguments=(task.work, *task.arguments))
            for task in plan_tasks(results, works)
        ]
        began = time.perf_counter()
        done: dict[str, RenderedTopic] = {}
        rows: dict[str, claims.CheckedClaim] = {}
        spent: dict[str, float] = {}
        failed: list[str] = []

        def reached(task: tasks.Task, found: Any, seconds: float) -> str:
            spent[task.name], said = seconds, f"{seconds:.1f} s"
            if isinstance(found, _Failed):
                said = f"failed: {' '.join(found.text.split())}"
                failed.append(f"{task.name}: {found.text}")
            elif isinstance(found, RenderedTopic):
                done[task.name] = found
                said = "kept from an earlier run" if found.reused else said
            elif found is not None:
                row = claims.from_record(claims.select_claims([found["id"]])[0], found)
                rows[row.claim.id] = row
                said = f"{row.verdict} ({said})"
                missing_torch = not all(map(results.is_available, row.claim.needs))
                if row.verdict is claims.Verdict.UNSETTLED or (row.trouble and not missing_torch):
                    failed.append(f"{task.name}: {row.trouble or row.verdict}")
            return f"{task.name}: {said}"

        try:
            tasks.run_tasks(todo, jobs, reached, tell=progress)
        finally:
            # Also after Ctrl-C or an error: what is finished can be read.
            if done or rows or failed:
                shown = [name for name, work, *_ in works if work is _show]
                missing = [name for name in shown if name not in spent]
                left = sum(f"claim {one.id}" not in spent for one in ledger)
                missing += [f"{left} claims"] if left else []
                finished = [done[name] for name in shown if name in done]
                judged = [rows[one.id] for one in ledger if one.id in rows]
                wall = time.perf_counter() - began
                facts = [*provenance(profile, seed, wall, jobs), _work_done(spent, wall, jobs)]
                files.write_text(target, render(finished, judged, facts, missing, failed))
    return Report(target, tuple(failed))


@as_annotated
def write_topic(folder: Path, room: str, topic: str, shown: TopicContent, place: str = "") -> RenderedTopic:
    """Write the data and drawings of a topic's figures; return it as a part of the page.

    The page will be in `folder`, and the files in a folder named for the `room` under `place` in it.
    """
    for name, value in {"room": room, "place": place}.items():
        if not re.fullmatch(r"[\w-]{1,200}", value) and (name, value) != ("place", ""):
            rule = "at most 200 letters, digits, underscores and hyphens"
            raise ValueError(f"`{name}` must be {rule}; got {files.quoted_path(value)}.")
    files.output_folder(files.output_folder(folder, "folder") / place / room, "room")
    figures = [_figure(folder, Path(place) / room, figure) for figure in shown.figures]
    written = {link: files.digest(folder / link) for _, links, _ in figures for link in links}
    tables = [page.table(t.title, t.columns, t.rows, t.caption) for t in shown.tables]
    body = [page.paragraphs(shown.text), *(text for text, _, _ in figures), *tables]
    card = page.card(shown.headline, *(figures[0][2] if figures else ())) if shown.headline else ""
    return RenderedTopic(room, topic, "\n".join(body), written, card)


def _figure(folder: Path, place: Path, figure: Figure) -> tuple[str, list[str], tuple[str, str]]:
    """Write a figure's data, tables and drawing; return HTML, names of the files, anchor and drawing."""
    name = page.slug(figure.name)
    anchor = f"{place.name}-{name}"
    data = folder / place / f"{name}.nc"
    files.write_dataset(data, figure.dataset)
    tables = files.write_tables(data.with_suffix(".csv"), figure.dataset)
    drawing, picture = data.with_suffix(".svg"), svg(figure)
    files.write_text(drawing, picture)
    links = [path.relative_to(folder).as_posix() for path in (*tables, data, drawing)]
    named = ", ".join(f"<a href='{link}'>{Path(link).name}</a>" for link in links)
    text = page.render_figure(figure, anchor, picture, f"<br>Data and drawing: {named}")
    return text, links, (anchor, picture)


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass  # not Linux
    return platform.processor() or platform.machine()


@as_annotated
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
        ("versions", ", ".join(f"{name} {package_version(name)}" for name in PACKAGES)),
    ]


def _work_done(spent: Mapping[str, float], wall: float, jobs: int) -> tuple[str, str]:
    """Return how well a run used its processes."""
    work = sum(spent.values())
    share = work / max(jobs * wall, 1e-9)
    return "work", f"{work:.0f} s in {len(spent)} tasks: {share:.0%} of all processes"


@as_annotated
def render(
    done: Collection[RenderedTopic],
    ledger: Collection[claims.CheckedClaim],
    facts: Collection[tuple[str, str]],
    missing: Collection[str] = (),
    failed: Collection[str] = (),
) -> str:
    """Return the page: what was found, a part for each section, the ledger, and how it was made.

    Parameters
    ----------
    done : sequence of Part
        The topics that are finished.
    ledger : sequence of Checked
    facts : sequence of (str, str)
        Name and value of what the page says about the run.
    missing : sequence of str, optional
        What a run that was stopped did not reach.
    failed : sequence of str, optional
        What failed, and how.
    """
    body = [("What was found", _count_verdicts(done, ledger, missing, failed))]
    judged = {row.claim.id: row for row in ledger}
    for room in dict.fromkeys(part.section for part in done):
        made = registry.load_section(room)
        text = [page.paragraphs(made.text)]
        for part in (one for one in done if one.section == room):
            ids = next((one.claims for one in made.topics if one.name == part.topic), ())
            text += [part.html, page.judged_on([judged[id] for id in ids if id in judged])]
        body.append((made.title, "\n".join(text)))
    body.append(("Ledger of claims", page.ledger(ledger)))
    body.append(("How this page was made", page.table("This run", ["what", "value"], facts)))
    lead = "What the theory of toy models of superposition predicts, and what experiments say."
    return page.page("superposition: theory against experiment", lead, body)


def _count_verdicts(
    done: Collection[RenderedTopic],
    ledger: Collection[claims.CheckedClaim],
    missing: Collection[str],
    failed: Collection[str],
) -> str:
    """Return the first screen: the results that matter with small pictures, and the count of verdicts."""
    judged = Counter(row.verdict for row in ledger)
    counts = {verdict: judged[verdict] for verdict in claims.Verdict if judged[verdict]}
    stopped = (
        "<p class='warning'>This run was stopped before its end; the same command continues it. "
        f"Missing: {html.escape(', '.join(missing))}.</p>"
        if missing
        else ""
    )
    if failed:
        stopped += f"<p class='warning'>Failed: {html.escape('; '.join(failed))}.</p>"
    cards = "".join(part.card for part in done)
    pairs = Counter((row.claim.source, row.verdict) for row in ledger)
    sources = dict.fromkeys(row.claim.source for row in ledger)
    by_source = [[source, *(pairs[source, verdict] for verdict in counts)] for source in sources]
    return (
        stopped
        + (f"<ul class='headlines'>{cards}</ul>" if cards else "")
        + f"<p>{len(ledger)} claims of the sources; each verdict follows from computed evidence.</p>"
        + page.badges(counts)
        + page.table("Claims by source", ["source", *map(str, counts)], by_source)
    )

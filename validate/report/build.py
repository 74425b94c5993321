"""The report: every comparison of theory with experiment, and the ledger, on one self-contained page.

Sections declare runs and topics, the ledger declares claims. They become tasks here: the pieces of runs, the
topics that show their data, the claims that are judged by them.
"""

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

from markupsafe import Markup

from ...theory.annotations import as_annotated
from ...theory.validation import choice, integer
from .. import ledger as claims
from ..experiments.drawing import svg
from ..reference import files
from ..runner import registry
from ..runner.cache import NOTES_FOLDER, PIECES_FOLDER, DataTask, ResultCache, plan_tasks
from ..runner.declarations import Figure, TopicContent
from ..runner.provenance import PACKAGES, package_version
from ..runner.tasks import Task, available_cores, run_tasks
from . import page

__all__ = ["PAGE", "RenderedTopic", "Report", "render_page", "run_facts", "write_report", "write_topic"]

LEDGER = "ledger"
PAGE = "report.html"
NEEDS_TORCH = "This part is left out: it needs PyTorch (pip install -e '.[torch]' in the checkout)."


@dataclass(frozen=True)
class RenderedTopic:
    """A topic as HTML, its card for the first screen, and its files with their checksums."""

    section: str
    topic: str
    html: str
    files: Mapping[str, str]
    card: str = ""
    reused: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Report:
    """The page of a report, and a line for each topic or claim that failed."""

    page: Path
    failures: tuple[str, ...] = ()


def _result_or_message(work: Callable[..., Any], *arguments: Any) -> Any:
    """Return ``work(*arguments)``, which is no text, or the text of the error that it raised.

    A full disk or memory raises the error, as no other task could finish either.
    """
    try:
        return work(*arguments)
    except (OSError, MemoryError):
        raise
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _render_topic(results: ResultCache, subfolder: str, section: str, topic_name: str) -> RenderedTopic:
    """Return a topic's HTML and files, from an earlier run if nothing has changed.

    A topic, `topic_name`, is a part of the report's `section`, a phenomenon; its text and figures are made
    from the datasets in `results`, and its files are written to the `subfolder` of the report. HTML of an
    earlier run is a note of `results`, with checksums of the files; it is valid for the same data and code.
    If the topic needs PyTorch and there is none, its text says so.
    """
    topic = next(t for t in registry.load_section(section).topics if t.name == topic_name)
    needs = topic.run_names(section)
    name = page.slug(f"{subfolder} {section} {topic_name}")
    note = results.read_note(name, needs)
    if note and all(files.digest(results.folder / file) == sum for file, sum in note["files"].items()):
        return RenderedTopic(**{**note, "reused": True})
    is_complete = all(map(results.is_available, needs))
    content = topic.content(*(results[need] for need in needs)) if is_complete else TopicContent(NEEDS_TORCH)
    rendered = write_topic(results.folder, section, topic_name, content, subfolder)
    results.store_note(name, needs, asdict(rendered))
    return rendered


class _ReportRun:
    """The tasks of a report, and the topics, claims, seconds and failures of finished tasks.

    `results` gives the datasets of runs by name. `only` is the phenomenon to which the report is limited,
    "ledger" for the claims alone, or None for all; `jobs` is the number of processes.
    """

    def __init__(self, results: ResultCache, only: str | None, jobs: int) -> None:
        self.results, self.jobs = results, jobs
        self.subfolder = "" if only is None else f"report-{only}"
        self.sections = [name for name in registry.PHENOMENA if only in (None, name)]
        topics = [(name, topic) for name in self.sections for topic in registry.load_section(name).topics]
        ids = {id for _, topic in topics for id in topic.claims}
        self.claims = {
            f"claim {claim.id}": claim for claim in claims.CLAIMS if only in (None, LEDGER) or claim.id in ids
        }
        self.topic_tasks = [
            DataTask(f"{name}: {topic.name}", _render_topic, topic.run_names(name), arguments)
            for name, topic in topics
            for arguments in [(self.subfolder, name, topic.name)]
        ]
        self.topics: dict[str, RenderedTopic] = {}
        self.rows: dict[str, claims.CheckedClaim] = {}
        self.seconds: dict[str, float] = {}
        self.failures: list[str] = []
        self._start = time.perf_counter()

    def tasks(self) -> list[Task]:
        """Return the tasks for missing parts of runs, for topics (parts of a section), and for claims.

        A task that fails returns the error as text.
        """
        claim_tasks = [
            DataTask(name, claims.read_or_judge, claim.needs, (claim.id,))
            for name, claim in self.claims.items()
        ]
        return [
            replace(task, work=_result_or_message, arguments=(task.work, *task.arguments))
            for task in plan_tasks(self.results, [*self.topic_tasks, *claim_tasks])
        ]

    def add(self, task: Task, result: Any, seconds: float) -> str:
        """Store the result of a finished task and its `seconds`, and return a line for the progress.

        `result` is a topic's `RenderedTopic`, a claim's row as data for JSON, None for a part of a run, or
        the text of the error if the task failed.
        """
        self.seconds[task.name], outcome = seconds, f"{seconds:.1f} s"
        if isinstance(result, str):
            outcome = f"failed: {' '.join(result.split())}"
            self.failures.append(f"{task.name}: {result}")
        elif isinstance(result, RenderedTopic):
            self.topics[task.name] = result
            outcome = "kept from an earlier run" if result.reused else outcome
        elif task.name in self.claims:
            row = self.rows[task.name] = claims.from_record(self.claims[task.name], result)
            outcome = f"{row.verdict} ({outcome})"
            lacks_torch = not all(map(self.results.is_available, row.claim.needs))
            if row.verdict is claims.Verdict.UNSETTLED or (row.trouble and not lacks_torch):
                self.failures.append(f"{task.name}: {row.trouble or row.verdict}")
        return f"{task.name}: {outcome}"

    def page(self) -> str:
        """Return the HTML page of all finished topics (parts of a section) and claims, in their order.

        The page also names missing and failed ones, and time and machine of the run.
        """
        names = [task.name for task in self.topic_tasks]
        missing = [name for name in names if name not in self.seconds]
        unchecked = sum(name not in self.seconds for name in self.claims)
        missing += [f"{unchecked} claims"] if unchecked else []
        topics = [self.topics[name] for name in names if name in self.topics]
        rows = [self.rows[name] for name in self.claims if name in self.rows]
        wall = time.perf_counter() - self._start
        work = sum(self.seconds.values())
        share = work / max(self.jobs * wall, 1e-9)
        usage = f"{work:.0f} s in {len(self.seconds)} tasks: {share:.0%} of all processes"
        facts = [*run_facts(self.results.profile, self.results.seed, wall, self.jobs), ("work", usage)]
        return render_page(topics, rows, facts, missing, self.failures)


@as_annotated
def write_report(
    out: str | Path,
    profile: str = "quick",
    only: str | None = None,
    seed: int = 0,
    jobs: int | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> Report:
    """Run the comparisons and the ledger, and write the page with its data; return its path and failures.

    Every file is written whole or not at all, the page last. A run that is stopped writes the page with what
    is finished; the next run with the same settings, code and libraries continues there, and its results are
    those of a run that was never stopped.

    Parameters
    ----------
    out : str or Path
        Folder; made if it does not exist, and else empty or one that this program fills. Files of other names
        in it stay as they are.
    profile : {"quick", "full"}, optional
        Sizes for minutes on two cores, or for hours.
    only : str, optional
        One phenomenon with its rows of the ledger, or ``"ledger"``; on a page and with files of its own.
    seed : int, optional
        Seed of everything random, from 0 to 2^30.
    jobs : int, optional
        Number of processes, by default that of cores. The results do not depend on it.
    progress : callable, optional
        Called with a line of text from time to time.

    Returns
    -------
    Report
        The page, ``report.html``, or ``report-….html`` with `only`; and what failed, which the page names.
    """
    if only is not None:
        choice("only", only, (*registry.PHENOMENA, LEDGER))
    jobs = available_cores() if jobs is None else integer("jobs", jobs, 1)
    run = _ReportRun(ResultCache(Path(out), profile, seed), only, jobs)
    with files.exclusive_folder(out) as folder:
        target = files.output_file(folder / (f"{run.subfolder}.html" if only else PAGE), "out")
        subfolders = [Path(run.subfolder, section) for section in run.sections]
        for path in (Path(PIECES_FOLDER), Path(NOTES_FOLDER), *subfolders):
            files.output_folder(folder / path)
        try:
            run_tasks(run.tasks(), jobs, run.add, progress=progress)
        finally:
            # Also after Ctrl-C or an error: what is finished can be read.
            if run.topics or run.rows or run.failures:
                files.write_text(target, run.page())
    return Report(target, tuple(run.failures))


@as_annotated
def write_topic(
    folder: Path, section: str, topic: str, content: TopicContent, subfolder: str = ""
) -> RenderedTopic:
    """Write the data and drawings of a topic's figures, and return its HTML for a page in `folder`.

    `content` has the topic's text, figures and tables. The files are in a folder named for the `section`, in
    the `subfolder`.
    """
    for name, value in {"section": section, "subfolder": subfolder}.items():
        if not re.fullmatch(r"[\w-]{1,200}", value) and (name, value) != ("subfolder", ""):
            rule = "at most 200 letters, digits, underscores and hyphens"
            raise ValueError(f"`{name}` must be {rule}; got {files.quoted_path(value)}.")
    files.output_folder(files.output_folder(folder, "folder") / subfolder / section, "section")
    figures, card = [], ""
    digests: dict[str, str] = {}
    for figure in content.figures:
        name = page.slug(figure.name)
        anchor, picture = f"{section}-{name}", svg(figure)
        paths = _write_figure(folder / subfolder / section / name, figure, picture)
        links = [path.relative_to(folder).as_posix() for path in paths]
        digests |= {link: files.digest(folder / link) for link in links}
        figures.append(page.render_figure(figure, anchor, picture, links))
        if content.headline and not card:
            card = page.card(content.headline, anchor, picture)
    if content.headline and not card:
        card = page.card(content.headline)
    text = page.render("topic.html", text=content.text, figures=figures, tables=content.tables)
    return RenderedTopic(section, topic, text, digests, card)


def _write_figure(path: Path, figure: Figure, picture: str) -> list[Path]:
    """Write the data and drawing of a figure, beside each other; return the paths of the files.

    The files are CSV tables and a netCDF of the figure's dataset, and its SVG, `picture`; `path` is their
    common name without an ending.
    """
    data, drawing = path.with_name(f"{path.name}.nc"), path.with_name(f"{path.name}.svg")
    files.write_dataset(data, figure.dataset)
    tables = files.write_tables(data.with_suffix(".csv"), figure.dataset)
    files.write_text(drawing, picture)
    return [*tables, data, drawing]


def _processor() -> str:
    """Return the name of this machine's processor."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass  # not Linux
    return platform.processor() or platform.machine()


@as_annotated
def run_facts(profile: str, seed: int, seconds: float, jobs: int) -> list[tuple[str, str]]:
    """Return (name, text) pairs of a run's date, profile, seed, wall time, machine and versions.

    The wall time is `seconds`, on `jobs` processes.
    """
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


@as_annotated
def render_page(
    topics: Collection[RenderedTopic],
    ledger: Collection[claims.CheckedClaim],
    facts: Collection[tuple[str, str]],
    missing: Collection[str] = (),
    failures: Collection[str] = (),
) -> str:
    """Return a report's HTML page: a summary, a part for each section, the ledger, and how it was made.

    `facts` are names and values on the run, `missing` names the topics and claims that a stopped run did not
    reach, `failures` are texts on those that failed.
    """
    parts = [("What was found", _summary(topics, ledger, missing, failures))]
    rows = {row.claim.id: row for row in ledger}
    for name in dict.fromkeys(topic.section for topic in topics):
        section = registry.load_section(name)
        claims_of = {topic.name: topic.claims for topic in section.topics}
        topics_with_rows = [
            (topic, [rows[id] for id in claims_of.get(topic.topic, ()) if id in rows])
            for topic in topics
            if topic.section == name
        ]
        parts.append((section.title, page.render("section.html", text=section.text, topics=topics_with_rows)))
    parts.append(("Ledger of claims", page.ledger(ledger)))
    parts.append(("How this page was made", page.table("This run", ["what", "value"], facts)))
    lead = "What the theory of toy models of superposition predicts, and what experiments say."
    return page.page("superposition: theory against experiment", lead, parts)


def _summary(
    topics: Collection[RenderedTopic],
    ledger: Collection[claims.CheckedClaim],
    missing: Collection[str],
    failures: Collection[str],
) -> Markup:
    """Return the HTML of the first screen: warnings, headlines with small pictures, counts of verdicts.

    `topics` and the claims of the `ledger` are those that are finished, `missing` the names of other tasks,
    `failures` lines on those that failed.
    """
    cards = [topic.card for topic in topics if topic.card]
    numbers = Counter(row.verdict for row in ledger)
    counts = {verdict: numbers[verdict] for verdict in claims.Verdict if numbers[verdict]}
    pairs = Counter((row.claim.source, row.verdict) for row in ledger)
    sources = dict.fromkeys(row.claim.source for row in ledger)
    by_source = [[source, *(pairs[source, verdict] for verdict in counts)] for source in sources]
    return page.render(
        "summary.html", missing=missing, failures=failures, cards=cards, counts=counts, by_source=by_source
    )

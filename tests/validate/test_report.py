"""The page of the report: self-contained, well formed, complete, and written whole or not at all."""

import functools
import html
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
import xarray as xr

from superposition.validate import cli, ledger
from superposition.validate.ledger import catalogue
from superposition.validate.reference import files
from superposition.validate.report import build as report
from superposition.validate.report import page
from superposition.validate.runner import cache, provenance, registry
from superposition.validate.runner.declarations import Figure, Run, Section, Table, Topic, TopicContent

VOID = {"meta", "input", "br", "hr", "img", "link"}
LINKS = {"src", "href", "xlink:href", "srcset", "data"}


def draw(dataset, ax, scale=1.0):
    ax.plot(dataset.ratio, scale * dataset.loss, label="theory")
    ax.set_xlabel("ratio n_hidden / n_features")
    ax.set_ylabel("loss per feature")
    ax.legend()
    return ax


def draw_image(dataset, ax):
    ax.imshow(np.outer(dataset.loss, dataset.loss))
    return ax


def run_losses(count=10, seed=0):
    ratio = np.linspace(0.1, 1, count)
    return xr.Dataset({"loss": ("ratio", 1 / ratio)}, {"ratio": ratio}, {"seed": seed})


def show_losses(ds):
    one = Figure("Loss curve", "Loss against ratio", "A <toy> & its caption.", ds, draw)
    panels = [functools.partial(draw, scale=2), draw, draw_image]
    three = Figure("panels", "Three of them", "Several.", ds, panels)
    table = Table("Sizes", ["n", "loss", "kind"], [[128, 1 / 3, "rug <b>"], [256, np.float64(0.25), None]])
    return TopicContent("Second.", [one, three], [table], f"The least loss is {float(ds.loss.min()):.0%}.")


def toy(name="toy"):
    """Return a section of one experiment, with a topic that has figures and one that has none."""
    topics = [
        Topic("losses", ["losses"], show_losses, ["C9"]),
        Topic("text", [], lambda: TopicContent("Nothing but words.")),
    ]
    return Section(name, "A toy phenomenon", "First & foremost.", {"losses": Run(run_losses)}, topics)


@pytest.fixture(scope="module")
def shown():
    return show_losses(run_losses())


@pytest.fixture(scope="module")
def rows():
    return ledger.run(["C8", "C9", "C18"])


@pytest.fixture(scope="module")
def text(shown, rows, tmp_path_factory):
    part = report.write_topic(tmp_path_factory.mktemp("out"), "toy", "losses", shown)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "load_section", toy)
        return report.render_page([part], rows, report.run_facts("quick", 3, 12.0, 2))


class Reader(HTMLParser):
    """Collects what a browser would see, and checks that every element is closed."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links, self.rows = [], [], [], []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.handle_startendtag(tag, attributes)
        if tag not in VOID:
            self.open.append(tag)
        if "data-verdict" in values:
            self.rows.append((values["data-source"], values["data-verdict"]))

    def handle_startendtag(self, tag, attributes):
        self.ids += [value for name, value in attributes if name == "id"]
        self.links += [value for name, value in attributes if name in LINKS]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, (tag, self.getpos())


def read(text):
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


def test_the_page_is_well_formed_and_loads_nothing(text):
    reader = read(text)
    assert len(reader.ids) == len(set(reader.ids))
    inside = [link for link in reader.links if link.startswith("#")]
    assert {link[1:] for link in inside} <= set(reader.ids)
    images = [link for link in reader.links if link.startswith("data:image/png;base64,")]
    assert len(images) == 1
    data = [link for link in reader.links if re.fullmatch(r"toy/[\w-]+\.(nc|csv|svg)", link)]
    assert len(inside) + len(images) + len(data) == len(reader.links)
    assert "@import" not in text
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", text))


def test_the_page_shows_verdicts_evidence_and_escaped_text(text, rows):
    reader = read(text)
    assert reader.rows == [("cowsik2024", str(row.verdict)) for row in rows]
    assert {"c8", "c9", "c18"} <= set(reader.ids)
    for row in rows:
        assert page.formulas(row.claim.statement) in text
        assert page.paragraphs(row.evidence.text) in text
        words = re.search(f'<tr id="{page.slug(row.claim.id)}".*? data-words="(.*?)">', text, re.DOTALL)[1]
        assert row.evidence.text in html.unescape(words)
    for words in ("A &lt;toy&gt; &amp; its caption.", "rug &lt;b&gt;", "<p>First &amp; foremost.</p>"):
        assert words in text


def test_formulas_are_set():
    for plain, formula in {
        "erf(2^-1/2), D^1/2": "erf(2<sup>-1/2</sup>), D<sup>1/2</sup>",
        "(n_s/n_d)^(-1/2)": "(n<sub>s</sub>/n<sub>d</sub>)<sup>-1/2</sup>",
        "dgamma/dt, mu4 -> int_0^1 sqrt(m)": "dγ/dt, μ<sub>4</sub> → ∫<sub>0</sub><sup>1</sup> √(m)",
        "`x_i ^ sigma` of run_fig3, lambda": "<code>x_i ^ sigma</code> of run_fig3, λ",
        "a lone ` stays": "a lone ` stays", "<b> & nullity": "&lt;b&gt; &amp; nullity",
    }.items():  # fmt: skip
        assert page.formulas(plain) == formula


@pytest.fixture
def small(monkeypatch):
    """Two toy phenomena and two claims in place of the report's contents; tells what was run and shown."""
    made, stop = [], {}
    monkeypatch.setattr(report, "svg", lambda figure: f"<svg><title>{figure.name}</title></svg>")

    def noted(word, function):
        @functools.wraps(function)
        def work(*arguments, **settings):
            if word in stop:
                raise stop[word]
            made.append(word)
            return function(*arguments, **settings)

        return work

    def section(name):
        whole = toy(name)
        run, first = noted(f"run {name}", lambda count=10, seed=0: run_losses(count, seed)), whole.topics[0]
        topics = [replace(first, show=noted(f"show {name}", first.show)), whole.topics[1]]
        return replace(whole, runs={"losses": Run(run)}, topics=topics)

    monkeypatch.setattr(registry, "load_section", section)
    monkeypatch.setattr(registry, "PHENOMENA", ("one", "two"))
    judge = ledger.judge
    monkeypatch.setattr(catalogue, "judge", lambda claim, results: noted(claim.id, judge)(claim, results))
    monkeypatch.setattr(report.claims, "CLAIMS", ledger.select_claims(["C8", "C9"]))
    monkeypatch.setattr(cache, "code_digest", lambda: "a text")  # somebody may be editing while tests run
    return made, stop


EVERYTHING = ["run one", "run two", "show one", "show two", "C8", "C9"]
KINDS = ("csv", "nc", "svg")
FILES = {f"{a}/{b}.{kind}" for a in ("one", "two") for b in ("loss-curve", "panels") for kind in KINDS}


def below(folder):
    return {item.relative_to(folder).as_posix() for item in folder.rglob("*") if item.is_file()}


def write(folder, **settings):
    made = report.write_report(folder, **{"jobs": 1, **settings})
    assert made.failures == ()
    return made.page


def content(path):
    """Return a page without what differs from run to run: its date and the seconds."""
    text = path.read_text(encoding="utf-8").partition('id="how-this-page-was-made"')[0]
    return re.sub(r"Checked in [\d.]+ s", "", text)


def test_everything_is_written(small, tmp_path):
    path = write(tmp_path / "new" / "out")
    kept = {f"parts/{name}.json" for name in ("one-losses", "two-losses", "one-text", "two-text")}
    data = {f"data/{room}-losses-0.{kind}" for room in ("one", "two") for kind in ("nc", "json")}
    claimed = {"parts/claim-C8.json", "parts/claim-C9.json"}
    assert below(path.parent) == {"report.html", files.LOCK, files.MARKER, *kept, *data, *claimed, *FILES}
    assert set(re.findall(r'href="([^"#:]+)"', path.read_text(encoding="utf-8"))) == FILES
    back = files.read_dataset(path.parent / "one" / "loss-curve.nc")
    xr.testing.assert_identical(back, files.read_dataset(path.parent / "data" / "one-losses-0.nc"))


@pytest.mark.parametrize(
    ("word", "names", "lost"),
    [("run one", ["one.losses 0", "one: losses"], {"run one", "show one"}),
     ("show one", ["one: losses"], {"show one"}), ("C8", ["claim C8"], {"C8"})],
)  # fmt: skip
def test_what_fails_is_told_and_takes_nothing_else_along(small, word, names, lost, tmp_path, capsys):
    made, stop = small
    stop[word] = KeyError("a key")
    command, path = ["report", "--out", str(tmp_path), "--jobs", "1"], tmp_path / "report.html"
    assert cli.main(command) == 1
    err, text = capsys.readouterr().err, path.read_text(encoding="utf-8")
    assert made == [name for name in EVERYTHING if name not in lost]
    read(text)
    for name in names:
        assert f"failed: {name}: KeyError: 'a key'\n" in err
        assert f"{name}: KeyError: &#39;a key&#39;" in text
    stop.clear()
    made.clear()
    assert cli.main(command) == 0
    assert capsys.readouterr().out.strip() == str(path)
    assert set(made) == lost
    assert "Failed:" not in path.read_text(encoding="utf-8")


def test_a_claim_of_which_a_finding_fails_is_a_negative_result(small, tmp_path, capsys, monkeypatch):
    broken = ledger.Evidence("", [ledger.Finding("answer", "numeric", "x", 2.0, "<=", 1.0)])
    monkeypatch.setattr(catalogue, "judge", lambda claim, results: ledger.CheckedClaim(claim, broken, 0.0))
    assert cli.main(["report", "--out", str(tmp_path), "--jobs", "1", "--only", "ledger"]) == 1
    assert "failed: claim C8: unsettled: a finding fails" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["run two", "show two", "C8"])
def test_an_interrupted_run_is_readable_and_continues(small, word, tmp_path, capsys):
    made, stop = small
    whole = write(tmp_path / "whole")
    made.clear()
    stop[word] = KeyboardInterrupt()
    path = tmp_path / "stopped" / "report.html"
    command = ["report", "--out", str(path.parent), "--jobs", "1"]
    assert cli.main(command) == 130
    reached = EVERYTHING.index(word)
    assert made == EVERYTHING[:reached]
    assert path.exists() == (reached > 2)  # something to show
    if reached > 2:
        text = path.read_text(encoding="utf-8")
        read(text)
        assert "This run was stopped before its end" in text
        assert ("Missing: two: losses" in text) == (word == "show two")
    stop.clear()
    assert cli.main(command) == 0
    assert made == EVERYTHING  # each once
    assert content(path) == content(whole)
    assert "interrupted" in capsys.readouterr().err


def test_what_is_finished_is_used_again_only_if_nothing_has_changed(small, monkeypatch, tmp_path):
    made, _ = small

    def asked(**settings):
        made.clear()
        write(tmp_path, **settings)
        return made

    assert asked() == EVERYTHING
    assert asked() == []
    assert asked(seed=1) == EVERYTHING
    assert asked(seed=1, only="two") == ["show two"]  # C9 is kept, its files are those of a page of its own
    (tmp_path / "one" / "loss-curve.csv").unlink()
    assert asked(seed=1) == ["show one"]
    monkeypatch.setattr(cache, "code_digest", lambda: "another text")
    assert asked(seed=1) == EVERYTHING


def damaged(path):
    """Return contents that a crash, a disk or an editor may leave of a file."""
    whole = path.read_bytes()
    # At a letter: another last digit of a number may be the same number.
    middle = next(k for k in range(len(whole) // 2, len(whole)) if whole[k : k + 1].isalpha())
    flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
    edited = whole.replace(b"<p>", b"<p><script>alert(1)</script>")
    return {b"", whole[:middle], flipped, b'{"key": 1, "content": [], "sum": "x"}', edited} - {whole}


@pytest.mark.parametrize(
    ("name", "again"),
    [("data/one-losses-0.nc", "run one"), ("data/one-losses-0.json", "run one"),
     ("parts/one-losses.json", "show one"), ("parts/claim-C9.json", "C9"), ("one/panels.nc", "show one")],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:'.*' was damaged, or is missing; made anew:RuntimeWarning")
def test_what_is_damaged_is_made_again(small, tmp_path, name, again):
    made, _ = small
    first = content(write(tmp_path))
    for other in damaged(tmp_path / name):
        (tmp_path / name).write_bytes(other)
        made.clear()
        assert content(write(tmp_path)) == first
        assert made == [again]


def test_a_page_of_one_phenomenon_leaves_the_other_page_and_its_files(small, tmp_path):
    write(tmp_path)
    before = {name: (tmp_path / name).read_bytes() for name in ("report.html", *FILES)}
    path = write(tmp_path, only="one", seed=3)
    assert path == tmp_path / "report-one.html"
    text = path.read_text(encoding="utf-8")
    links = {f"report-one/{name}" for name in FILES if name.startswith("one/")}
    assert set(re.findall(r'href="([^"#:]+)"', text)) == links
    assert re.findall(r'<tr id="(\w+)"', text) == ["c9"]  # the row that its topic names
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    assert files.read_dataset(tmp_path / "report-one/one/panels.nc").attrs["seed"] == 3


def test_what_is_in_the_way_is_refused_before_work_begins(small, tmp_path):
    for name in ("report.html", "data", "parts", "one", files.LOCK):
        path = tmp_path / f"at {name}" / name
        path.parent.mkdir()
        path.mkdir() if name in ("report.html", files.LOCK) else path.write_text("mine", encoding="utf-8")
        assert cli.main(["report", "--out", str(path.parent), "--jobs", "1"]) == 2
        assert small[0] == []
        assert path.is_dir() or path.read_text(encoding="utf-8") == "mine"


# A kill between a file and the note beside it: the next run says that it makes that file anew.
@pytest.mark.filterwarnings("ignore:.*made anew:RuntimeWarning")
def test_a_run_that_was_killed_continues_to_the_same_results(small, tmp_path):
    """A file is written whole, so that a kill leaves the first ones, here of twenty or more."""
    whole = write(tmp_path / "whole").parent
    made = sorted(below(whole), key=lambda name: (whole / name).stat().st_mtime_ns)
    assert len(made) > 20
    for count in range(1, len(made), 4):
        killed = tmp_path / str(count)
        for name in made[:count]:
            (killed / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(whole / name, killed / name)
        (killed / f".{'0' * 16}{files.PART}").write_text("half")
        assert content(write(killed)) == content(whole / "report.html")
        assert all((killed / name).read_bytes() == (whole / name).read_bytes() for name in FILES)


def test_every_file_of_the_package_counts(tmp_path):
    digest, module = provenance.code_digest.__wrapped__, tmp_path / "solvers" / "rug" / "loss.py"
    module.parent.mkdir(parents=True)
    seen = [digest(tmp_path)]
    for change in ("x = 1", "x = 2"):
        module.write_text(change, encoding="utf-8")
        seen.append(digest(tmp_path))
    module.rename(module.with_name("losses.py"))
    seen.append(digest(tmp_path))
    assert len(set(seen)) == 4
    (tmp_path / "loss.pyc").write_bytes(b"compiled")
    assert digest(tmp_path) == seen[-1]


def test_only_the_ledger_runs_no_experiment_that_no_row_needs(small, tmp_path):
    write(tmp_path, only="ledger")
    assert small[0] == ["C8", "C9"]
    kept = {"parts/claim-C8.json", "parts/claim-C9.json"}
    assert below(tmp_path) == {"report-ledger.html", files.LOCK, files.MARKER, *kept}


def test_a_topic_that_needs_torch_is_left_out_without_it(small, monkeypatch, tmp_path):
    made, _ = small
    monkeypatch.setattr(cache.ResultCache, "is_available", staticmethod(lambda name: name != "two.losses"))
    assert write(tmp_path).read_text(encoding="utf-8").count("This part is left out: it needs PyTorch") == 1
    assert made == ["run one", "show one", "C8", "C9"]


def test_panels_beside_each_other_scroll_on_a_phone():
    def draw(ds, ax):
        return ax

    for panels, columns, wide in ((draw, 2, 0), ([draw], 2, 0), ([draw, draw], 1, 0), ([draw, draw], 2, 1)):
        figure = Figure("name", "x_i > 0", "a < b", xr.Dataset(), panels, columns)
        svg = "<svg id='a' width='3'><g id='b'/></svg>"
        text = page.render_figure(figure, "part-name", svg, ["part/<name>.nc"])
        assert ('class="plot wide"' in text) == wide, columns
        for part in ("<svg id='part-name-drawing' ", "x<sub>i</sub> &gt; 0", "a &lt; b", "&lt;name&gt;.nc<"):
            assert part in text

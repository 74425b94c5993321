"""The page of the report: self-contained, well formed, complete, and written whole or not at all."""

import functools
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
import xarray as xr

from superposition.validate import claims, cli, files, page, parts, report
from superposition.validate.experiment import Figure, Section, Table

VOID = {"meta", "input", "br", "hr", "img", "link"}


def draw(dataset, ax, scale=1.0):
    ax.plot(dataset.ratio, scale * dataset.loss, label="theory")
    ax.set_xlabel("ratio n_hidden / n_features")
    ax.set_ylabel("loss per feature")
    ax.legend()
    return ax


def draw_image(dataset, ax):
    ax.imshow(np.outer(dataset.loss, dataset.loss))
    return ax


@pytest.fixture(scope="module")
def section():
    ratio = np.linspace(0.1, 1, 10)
    data = xr.Dataset({"loss": ("ratio", 1 / ratio)}, {"ratio": ratio}, {"seed": 3})
    one = Figure("Loss curve", "Loss against ratio", "A <toy> & its caption.", data, draw)
    panels = [functools.partial(draw, scale=2), draw, draw_image]
    three = Figure("panels", "Three of them", "Several.", data, panels)
    table = Table("Sizes", ["n", "loss", "kind"], [[128, 1 / 3, "rug <b>"], [256, np.float64(0.25), None]])
    return Section("toy", "A toy phenomenon", "First & foremost.\n\nSecond.", [one, three], [table])


@pytest.fixture(scope="module")
def rows():
    return claims.run(["C8", "C9", "C18"])


@pytest.fixture(scope="module")
def part(section, tmp_path_factory):
    return parts.Part(
        "toy", section.title, *report.write_section(tmp_path_factory.mktemp("out"), section), 12.0
    )


@pytest.fixture(scope="module")
def text(part, rows):
    return report.render([part], rows, report.provenance("quick", 3, 12.0))


class Reader(HTMLParser):
    """Collects what a browser would see, and checks that every element is closed."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links, self.rows, self.problems = [], [], [], [], []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.handle_startendtag(tag, attributes)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr" and "data-verdict" in values:
            self.rows.append((values["data-source"], values["data-verdict"]))

    def handle_startendtag(self, tag, attributes):
        for name, value in attributes:
            if name == "id":
                self.ids.append(value)
            if name in ("src", "href", "xlink:href", "srcset", "data"):
                self.links.append(value)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.problems.append((tag, self.getpos()))


def read(text):
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.problems == []
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


def test_the_page_fits_phones_dark_screens_and_paper(text):
    for needed in ("width=device-width", "prefers-color-scheme: dark", "@media print", "max-width: 44rem"):
        assert needed in text


def test_the_summary_counts_the_verdicts_and_names_the_machine(text, rows):
    for verdict in ("holds", "holds with a correction", "order only"):
        assert f"1 {verdict}</a></li>" in text
    assert "cowsik2024</td><td class='number'>1</td><td class='number'>1</td>" in text
    for word in ("Python", "numpy", "torch", "seed", "12 s", "quick", "processor"):
        assert word in text


def test_the_ledger_is_a_table_with_filters_and_evidence(text, rows):
    reader = read(text)
    assert reader.rows == [("cowsik2024", str(row.verdict)) for row in rows]
    assert {"filter-verdict", "filter-source", "filter-words", "claims", "c8", "c9", "c18"} <= set(reader.ids)
    for row in rows:
        assert page.formulas(row.claim.statement) in text
        assert page.paragraphs(row.evidence.text) in text
    assert "True instead:" in text
    assert "With the constants:" in text
    assert "counterexample" in text
    assert "def c9(quick: bool)" in text
    assert f"{rows[1].claim.check.__module__}:c9</code>" in text


def test_text_is_escaped(text):
    assert "A &lt;toy&gt; &amp; its caption." in text
    assert "rug &lt;b&gt;" in text
    assert "<p>First &amp; foremost.</p>" in text


def test_figures_are_vector_graphics_with_the_right_panels(section):
    space = "{http://www.w3.org/2000/svg}"
    for figure, panels in zip(section.figures, (1, 3), strict=True):
        drawing = ElementTree.fromstring(report.svg(figure))
        groups = [g.get("id") for g in drawing.iter(f"{space}g")]
        assert (
            sum(name is not None and re.fullmatch(r"axes_\d+", name) is not None for name in groups) == panels
        )
        assert drawing.get("role") == "img"
        assert drawing.get("aria-label") == figure.title
    assert report.svg(section.figures[0]) == report.svg(section.figures[0])


def test_a_panel_must_return_its_axes(section):
    silent = Figure("x", "x", "x", section.figures[0].dataset, lambda dataset, ax: None)
    with pytest.raises(TypeError, match="`draw` of 'x' must return the axes"):
        report.svg(silent)


def test_tables_show_numbers_with_four_digits():
    shown = page.table("Sizes", ["n", "x", "note"], [[1024, 1 / 3, None], [2, np.float64(1e-9), "<"]], "End.")
    assert "<td class='number'>1024</td><td class='number'>0.3333</td><td></td>" in shown
    assert "<td class='number'>1e-09</td><td>&lt;</td>" in shown


@pytest.mark.parametrize(
    ("plain", "shown"),
    [
        ("W_i.xi and W_ik, |W|_2^4", "W<sub>i</sub>.ξ and W<sub>ik</sub>, |W|<sub>2</sub><sup>4</sup>"),
        ("p/3 - p^2/4", "p/3 - p<sup>2</sup>/4"),
        ("erf(2^-1/2), D^1/2", "erf(2<sup>-1/2</sup>), D<sup>1/2</sup>"),
        ("(n_s/n_d)^(-1/2)", "(n<sub>s</sub>/n<sub>d</sub>)<sup>-1/2</sup>"),
        ("dgamma/dt <= lambda, mu4 -> 0", "dγ/dt ≤ λ, μ<sub>4</sub> → 0"),
        ("int_0^1 sqrt(m)", "∫<sub>0</sub><sup>1</sup> √(m)"),
        ("`x_i ^ sigma` of run_fig3, lambda", "<code>x_i ^ sigma</code> of run_fig3, λ"),
        ("a lone ` stays", "a lone ` stays"),
        ("<b> & nullity", "&lt;b&gt; &amp; nullity"),
    ],
)
def test_formulas_are_set(plain, shown):
    assert page.formulas(plain) == shown


@pytest.fixture
def small(monkeypatch, section):
    """Replace the contents of the report by one toy section and two claims."""
    monkeypatch.setattr(report, "PHENOMENA", ("toy",))
    monkeypatch.setattr(report, "section", lambda name, profile, seed, progress: section)
    monkeypatch.setattr(report.claims, "CLAIMS", claims.select(["C8", "C9"]))
    monkeypatch.setattr(parts, "code", lambda: "a text")  # somebody may be editing while the tests run


FILES = {f"toy/{name}.{kind}" for name in ("loss-curve", "panels") for kind in ("csv", "nc", "svg")}


def below(folder):
    return {item.relative_to(folder).as_posix() for item in folder.rglob("*") if item.is_file()}


def test_everything_is_written(small, section, tmp_path):
    lines = []
    path = report.write_report(tmp_path / "new" / "out", progress=lines.append)
    assert below(path.parent) == {"report.html", "parts/toy.json", "parts/ledger.json", *FILES}
    links = set(re.findall(r"href='([^'#]+)'", path.read_text(encoding="utf-8")))
    assert links == FILES
    back = files.read_dataset(path.parent / "toy" / "loss-curve.nc")
    xr.testing.assert_identical(back, section.figures[0].dataset)
    assert "part 1 of 2" in lines[0]
    assert "A toy phenomenon: " in lines[0]
    assert "part 2 of 2" in lines[1]
    assert "claim C8: holds with a correction" in lines[1]
    assert "; 2 of 2)" in lines[2]


def test_the_command_prints_where_the_page_is(small, tmp_path, capsys):
    assert cli.main(["report", "--out", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert captured.out.strip() == str(tmp_path / "report.html")
    assert "claim C9: holds" in captured.err


class Runs:
    """Stands for the phenomena; counts their runs, and can be interrupted in one of them."""

    def __init__(self, section):
        self.made, self.section, self.stop = [], section, None

    def __call__(self, name, profile, seed, progress):
        if name == self.stop:
            raise KeyboardInterrupt
        self.made.append(name)
        return Section(name, f"On {name}", "Text.", self.section.figures[:1])


@pytest.fixture
def runs(small, section, monkeypatch):
    monkeypatch.setattr(report, "PHENOMENA", ("one", "two"))
    monkeypatch.setattr(report, "section", Runs(section))
    return report.section


def test_an_interrupted_run_is_readable_and_continues(runs, tmp_path, capsys):
    runs.stop = "two"
    assert cli.main(["report", "--out", str(tmp_path)]) == 130
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    read(text)
    assert "Missing: two, 2 claims." in text
    assert "On one" in text
    runs.stop = None
    assert cli.main(["report", "--out", str(tmp_path)]) == 0
    assert runs.made == ["one", "two"]
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Missing:" not in text
    assert "in an earlier run with the same settings and code" in text
    assert "kept from an earlier run: one, 0 claims" in capsys.readouterr().err


def test_an_interrupted_ledger_continues(runs, monkeypatch, tmp_path):
    asked, judge = [], claims.run

    def first_only(ids, progress, **options):
        asked.append(ids)
        judge(ids[:1], progress=progress, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(report.claims, "run", first_only)
    with pytest.raises(KeyboardInterrupt):
        report.write_report(tmp_path)
    page_now = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Missing: 1 claims." in page_now
    with pytest.raises(KeyboardInterrupt):
        report.write_report(tmp_path)
    assert asked == [["C8", "C9"], ["C9"]]
    whole = judge(["C8", "C9"])
    for kept, row in zip(parts.load_rows(tmp_path, parts.key("quick", 0)), whole, strict=True):
        assert (kept.claim, kept.verdict) == (row.claim, row.verdict)
        assert claims.as_record(kept)["evidence"] == claims.as_record(row)["evidence"]


def test_what_is_finished_is_used_again_only_if_nothing_has_changed(runs, monkeypatch, tmp_path):
    def made(**settings):
        runs.made.clear()
        report.write_report(tmp_path, **settings)
        return runs.made

    assert made() == ["one", "two"]
    assert made() == []
    assert made(fresh=True) == ["one", "two"]
    assert made(seed=1) == ["one", "two"]
    assert made(seed=1, only="two") == []
    (tmp_path / "one" / "loss-curve.csv").unlink()
    assert made(seed=1) == ["one"]
    (tmp_path / "parts" / "two.json").write_text("{", encoding="utf-8")
    assert made(seed=1) == ["two"]
    monkeypatch.setattr(parts, "version", lambda package: "another")
    assert made(seed=1) == ["one", "two"]


def test_every_file_of_the_package_counts(tmp_path):
    module = tmp_path / "solvers" / "rug" / "loss.py"
    module.parent.mkdir(parents=True)
    seen = [parts.code(tmp_path)]
    for change in ("x = 1", "x = 2"):
        module.write_text(change, encoding="utf-8")
        seen.append(parts.code(tmp_path))
    module.rename(module.with_name("losses.py"))
    seen.append(parts.code(tmp_path))
    assert len(set(seen)) == 4
    cache = tmp_path / "solvers" / "__pycache__"
    cache.mkdir()
    (cache / "loss.pyc").write_bytes(b"compiled")
    assert parts.code(tmp_path) == seen[-1]
    assert len(parts.code()) == 64


def test_nothing_is_written_over_the_page_before_anything_is_finished(runs, tmp_path):
    runs.stop = "one"
    with pytest.raises(KeyboardInterrupt):
        report.write_report(tmp_path)
    assert below(tmp_path) == set()


def test_an_unknown_phenomenon():
    with pytest.raises(ValueError, match=r"`name` must be .*; got 'weather'"):
        report.section("weather", "quick", 0, print)


def test_only_the_ledger_runs_no_experiment(runs, tmp_path):
    report.write_report(tmp_path, only="ledger")
    assert runs.made == []
    assert below(tmp_path) == {"report.html", "parts/ledger.json"}


@pytest.mark.parametrize(
    ("arguments", "name", "value"),
    [
        ({"profile": "huge"}, "profile", "'huge'"),
        ({"only": "weather"}, "only", "'weather'"),
        ({"seed": -1}, "seed", "-1"),
        ({"jobs": 0}, "jobs", "0"),
        ({"out": "/dev/null/x"}, "out", "'/dev/null/x'"),
    ],
)
def test_bad_arguments(tmp_path, arguments, name, value):
    with pytest.raises(ValueError, match=f"`{name}` must be .*; got {value}|`{name}` must be .*got {value} "):
        report.write_report(**{"out": tmp_path, **arguments})
    assert list(tmp_path.iterdir()) == []

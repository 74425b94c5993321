"""The page of the report: self-contained, well formed, complete, and written whole or not at all."""

import functools
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
import xarray as xr

from superposition.validate import claims, cli, files, page, report
from superposition.validate.section import Figure, Section, Table

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


@pytest.fixture
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


@pytest.fixture
def text(section, rows):
    return report.render([section], rows, report.provenance("quick", 3, 12.0))


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
    data = [link for link in reader.links if re.fullmatch(r"[\w-]+\.nc", link)]
    assert len(inside) + len(images) + len(data) == len(reader.links)
    assert "@import" not in text
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", text))


def test_the_page_fits_phones_dark_screens_and_paper(text):
    for needed in ("width=device-width", "prefers-color-scheme: dark", "@media print", "max-width: 44rem"):
        assert needed in text


def test_the_summary_counts_the_verdicts_and_names_the_machine(text, rows):
    for verdict in ("holds", "holds with a correction", "order only"):
        assert f"1 {verdict}</li>" in text
    for word in ("Python", "numpy", "torch", "seed", "12 s", "quick", "processor"):
        assert word in text


def test_the_ledger_is_a_table_with_filters_and_evidence(text, rows):
    reader = read(text)
    assert reader.rows == [("cowsik2024", str(row.verdict)) for row in rows]
    assert {"filter-verdict", "filter-source", "filter-words", "claims", "c8", "c9", "c18"} <= set(reader.ids)
    for row in rows:
        assert row.evidence.text.replace("<", "&lt;").replace(">", "&gt;").replace("'", "&#x27;") in text
    assert "True instead:" in text
    assert "With the constants:" in text
    assert "counterexample" in text
    assert "def c9(quick: bool)" in text


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


@pytest.fixture
def small(monkeypatch, section):
    """Replace the contents of the report by one toy section and two claims."""
    monkeypatch.setattr(report, "sections", lambda profile, seed, progress, only: iter([section]))
    monkeypatch.setattr(report.claims, "run", functools.partial(claims.run, ["C8", "C9"]))


def test_everything_is_written(small, section, tmp_path):
    lines = []
    path = report.write_report(tmp_path / "new" / "out", progress=lines.append)
    names = sorted(item.name for item in path.parent.iterdir())
    assert names == [
        "report.html",
        "toy-loss-curve.nc",
        "toy-loss-curve.svg",
        "toy-panels.nc",
        "toy-panels.svg",
    ]
    links = set(re.findall(r"href='([^'#]+)'", path.read_text(encoding="utf-8")))
    assert links == {name for name in names if name.endswith(".nc")}
    back = files.read_dataset(path.parent / "toy-loss-curve.nc")
    xr.testing.assert_identical(back, section.figures[0].dataset)
    assert lines[0].startswith("A toy phenomenon: 2 figures")
    assert lines[1].startswith("claim C8: holds with a correction")


def test_the_command_prints_where_the_page_is(small, tmp_path, capsys):
    assert cli.main(["report", "--out", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert captured.out.strip() == str(tmp_path / "report.html")
    assert "claim C9: holds" in captured.err


def test_an_interruption_leaves_data_but_no_half_page(small, monkeypatch, tmp_path, capsys):
    def interrupted(**arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(report.claims, "run", interrupted)
    assert cli.main(["report", "--out", str(tmp_path)]) == 130
    names = {item.name for item in tmp_path.iterdir()}
    assert names == {f"toy-{figure}.{kind}" for figure in ("loss-curve", "panels") for kind in ("nc", "svg")}


def test_only_the_ledger_runs_no_experiment():
    assert list(report.sections("quick", 0, print, only="ledger")) == []


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

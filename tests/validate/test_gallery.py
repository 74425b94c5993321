"""The gallery: a small, repeatable picture of what has a headline in the report."""

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import xarray as xr

from superposition.validate import cli, ledger
from superposition.validate.reference import files
from superposition.validate.report import gallery
from superposition.validate.runner import cache, registry
from superposition.validate.runner.declarations import Figure, Run, Section, Topic, TopicContent


def plain(ds, ax):
    ax.plot(ds["x"], ds["x"] ** 2)
    return ax


def show(ds):
    figures = [Figure(f"toy-{k}", f"seed {ds.attrs['seed']}, figure {k}", "", ds, plain) for k in range(2)]
    return TopicContent("Text.", figures, headline="It is so.")


def section(name):
    runs = {
        "x": Run(lambda seed: xr.Dataset({"x": ("k", np.arange(4.0))}, attrs={"seed": seed})),
        "trained": Run(lambda seed: 1 / 0, torch=True),
    }
    topics = [
        Topic("silent", ["x"], lambda ds: TopicContent("Text.", show(ds).figures)),
        Topic("bare", [], lambda: TopicContent("Text.", headline="It has no figure.")),
        Topic("first", ["x"], show), Topic("second", ["one.x"], show), Topic("third", ["trained"], show),
    ]  # fmt: skip
    return Section(name, name, "", runs, topics)


@pytest.fixture
def toy(monkeypatch):
    """Stand-ins that tell their seed: what the command does around the pictures."""
    monkeypatch.setattr(registry, "load_section", section)
    monkeypatch.setattr(registry, "PHENOMENA", ("one", "two"))
    monkeypatch.setattr(cache, "_has_torch", lambda: False)


def check_picture(path):
    assert path.stat().st_size < 200_000  # bytes, as for the pictures of the README
    assert ElementTree.fromstring(path.read_text(encoding="utf-8")).get("aria-label")


def test_pictures_of_the_documentation_are_small():
    pictures = list(Path(files.__file__).parent.glob("*.svg"))
    assert len(pictures) > 10
    for path in pictures:
        check_picture(path)


def test_the_command_writes_the_first_figure_of_each_topic_with_a_headline(toy, tmp_path, capsys):
    out = tmp_path / "new" / "folder"
    assert cli.main(["gallery", "--out", str(out), "--only", "two", "--seed", "3"]) == 0
    assert capsys.readouterr().out.split() == [str(out / "two.svg"), str(out / "two-second.svg")]
    assert names_in(out) == ["two-second.svg", "two.svg"]
    assert 'aria-label="seed 3, figure 0"' in (out / "two.svg").read_text(encoding="utf-8")
    assert cli.main(["gallery", "--out", str(out)]) == 0
    assert names_in(out) == ["one-second.svg", "one.svg", "two-second.svg", "two.svg"]
    for path in out.glob("*.svg"):
        check_picture(path)


def test_a_picture_that_fails_leaves_the_old_one(toy, tmp_path, monkeypatch):
    first, _ = gallery.write_gallery(tmp_path, ["one"], data=tmp_path)  # which may lie in the same folder
    before, names = first.read_bytes(), names_in(tmp_path)
    monkeypatch.setattr(gallery, "svg", lambda figure: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        gallery.write_gallery(tmp_path, ["one"])
    assert first.read_bytes() == before
    assert names_in(tmp_path) == names


def names_in(folder):
    """Return the names of the files, but of those that mark the folder as the command's."""
    return sorted({path.name for path in folder.iterdir()} - {files.MARKER, files.LOCK})


def test_pictures_and_rows_take_what_a_report_has_made(toy, tmp_path, monkeypatch):
    made, run, kept = [], cache.ResultCache.run_piece, tmp_path / "report"
    with monkeypatch.context() as patch:
        patch.setattr(cache.ResultCache, "run_piece", lambda *given: made.append(given[1:]) or run(*given))
        first, again = (gallery.write_gallery(tmp_path / name, data=kept) for name in "ab")
    assert made == [("one.x", 0), ("two.x", 0)]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]
    monkeypatch.undo()
    first, again = (ledger.run(["C28"], data=kept) for _ in range(2))
    assert first == again, "the row is kept as well, with the seconds that it took"

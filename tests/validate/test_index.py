"""The index of stored files: what it says is checked on load, and a change of anything is noticed."""

import ast
import dataclasses
import functools
import json
import random
import shutil
from functools import partial

import numpy as np
import pytest
import xarray as xr

from superposition.validate import cli, index, laboratory, running, stamps, stored
from superposition.validate.codes import run_envelope
from superposition.validate.experiment import Part
from superposition.validate.files import digest, read_dataset, write_dataset
from superposition.validate.stored import REFERENCE

RUNS = index.stored_runs()
CODE = "code of making changed since"
UNTOLD = "not repeated"


@pytest.fixture(scope="module")
def code(tmp_path_factory):
    """Return a copy of the package's code."""
    folder = tmp_path_factory.mktemp("code")
    for floor in ("theory", "solvers", "validate"):
        skip = shutil.ignore_patterns("__pycache__", "reference")
        shutil.copytree(stamps.ROOT / floor, folder / floor, ignore=skip)
    return folder


@functools.cache
def stamped(experiment):
    return stamps.stamp(experiment)


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """Return a copy of the stored files, whose index takes the code of today for theirs."""
    folder = tmp_path / "reference"
    folder.mkdir()
    for path in REFERENCE.iterdir():
        if path.suffix == ".nc" or path.name in ("README.md", stored.INDEX):
            shutil.copy(path, folder)
    monkeypatch.setattr(stored, "REFERENCE", folder)
    files = stored.read_index()
    for name, entry in files.items():
        entry.pop("not_repeated", None)
        entry["code"] = stamped(RUNS[name].experiment)
    index.write_index(files)
    return folder


def test_the_index_has_every_file_and_what_the_jobs_say():
    """But for code that has changed since, which does not stop anybody: see CONTRIBUTING."""
    found = index.check()
    assert set(found) == {path.stem for path in REFERENCE.glob("*.nc")}
    wrong = {
        name: [one for one in said if not one.startswith((CODE, UNTOLD))] for name, said in found.items()
    }
    assert {name: said for name, said in wrong.items() if said} == {}


def test_the_readme_has_the_table_of_the_index():
    text = (REFERENCE / "README.md").read_text(encoding="utf-8")
    table = text.partition(index.BEGIN)[2].partition(index.END)[0]
    assert table == "\n" + index.table(stored.read_index())


def test_the_index_says_of_every_file_how_it_was_made():
    files = stored.read_index()
    needed = ("command", "experiment", "settings", "settings_sha256", "seeds", "commit", "machine", "seconds")
    for name, entry in files.items():
        assert {*needed, "sha256", "code", "libraries", "origin", "made"} <= set(entry), name
        given = read_dataset(REFERENCE / f"{name}.nc").attrs
        assert given.get("experiment", "training.grid") == entry["experiment"]
    told = {name for name, entry in files.items() if "settings" in entry["origin"]}
    recorded = set(files) - told
    for name in recorded:
        given = json.loads(read_dataset(REFERENCE / f"{name}.nc").attrs["settings"])
        given = {key: value for key, value in given.items() if key not in index.HOW}
        assert given.items() <= entry_settings(files[name]).items(), name


def entry_settings(entry):
    return {**entry["settings"], "parts": entry.get("parts"), "along": entry.get("along")}


def test_every_copy_is_accepted(copy):
    assert {name: said for name, said in index.check().items() if said} == {}


def flipped(rng, copy, name):
    """Change a byte of a file."""
    path = copy / f"{name}.nc"
    before = path.read_bytes()
    where = rng.randrange(len(before))
    path.write_bytes(before[:where] + bytes([before[where] ^ rng.randrange(1, 256)]) + before[where + 1 :])
    return lambda: path.write_bytes(before), {}


def other_value(rng, value):
    if isinstance(value, dict) and value:
        key = rng.choice(sorted(value))
        return {**value, key: other_value(rng, value[key])}
    if isinstance(value, list) and value:
        k = rng.randrange(len(value))
        return [*value[:k], other_value(rng, value[k]), *value[k + 1 :]]
    if isinstance(value, bool) or value is None or not isinstance(value, str | int | float):
        return 1.25
    return value + "x" if isinstance(value, str) else value + rng.choice([1, 0.5, -3])


def retold(rng, copy, name):
    """Change something in a file's entry of the index; at times with a checksum to match."""
    files = stored.read_index()
    path, entry = copy / stored.INDEX, dict(files[name])
    before = path.read_bytes()
    keys = ["settings", "settings_sha256", "experiment", "sha256", "code", "seeds"]
    matching = rng.random() < 0.5
    key = rng.choice(keys if matching else sorted(entry))
    entry[key] = other_value(rng, entry[key])
    if matching:
        entry["sum"] = index._sum(entry)
    path.write_text(json.dumps({"files": {**files, name: entry}}))
    return lambda: path.write_bytes(before), {}


def replanned(rng, copy, name):
    """Change a setting of the job, or the experiment's name for one of them."""
    job = RUNS[name]
    settings = index.full_settings(job)
    if not settings:
        return lambda: None, {"jobs": {name: dataclasses.replace(job, function=run_envelope)}}
    key = rng.choice(sorted(settings))
    changed = dataclasses.replace(job, full={**job.full, key: other_value(rng, settings[key])})
    if job.apart and not isinstance(job.apart, str) and rng.random() < 0.3:
        changed = dataclasses.replace(job, apart=other_value(rng, list(job.apart)))
    return lambda: None, {"jobs": {name: changed}}


def recoded(rng, code, name):
    """Change a number, an operator or a comparison in a definition that the experiment reaches."""
    reached = sorted(stamps.reached(RUNS[name].experiment))
    for place in rng.sample(reached, len(reached)):
        module, _, definition = place.partition(":")
        path = code.joinpath(*module.split("."))
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        before = path.read_text(encoding="utf-8")
        if (text := another_text(rng, before, definition)) is not None:
            path.write_text(text, encoding="utf-8")
            return partial(path.write_text, before, encoding="utf-8"), {"root": code}
    raise AssertionError(name)


OTHERS = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Lt: ast.Gt,
    ast.Gt: ast.Lt,
}


def another_text(rng, text, definition):
    tree = ast.parse(text)
    (node, *_) = [
        one
        for one in tree.body
        if definition in set(stamps._binds(one)) or (not definition and one is tree.body[-1])
    ] or [None]
    if node is None:
        return None
    places = []
    pending = [node]
    while pending:
        one = pending.pop()
        for field, value in stamps._parts(one):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    pending.append(child)
            if isinstance(one, ast.Constant) and type(value) in (int, float):
                places.append((one, field, 2 * value + 1))
            if isinstance(one, ast.BinOp) and type(value) in OTHERS:
                places.append((one, field, OTHERS[type(value)]()))
    if not places:
        return None
    setattr(*rng.choice(places))
    return ast.unparse(tree)


def changes(count, copy, code, seed):
    """Make random changes, one at a time; yield whether the file is accepted all the same."""
    rng = random.Random(seed)
    names = sorted(stored.read_index())
    kinds = {flipped: copy, retold: copy, replanned: copy, recoded: code}
    for _ in range(count):
        name, kind = rng.choice(names), rng.choice(list(kinds))
        undo, given = kind(rng, kinds[kind], name)
        yield f"{kind.__name__} {name}", not index.check([name], **given)[name]
        undo()


@pytest.mark.parametrize("count", [15, pytest.param(1000, marks=pytest.mark.slow)])
def test_no_change_of_data_settings_or_code_is_accepted(count, copy, code):
    assert [what for what, accepted in changes(count, copy, code, count) if accepted] == []
    assert {name: said for name, said in index.check(root=code).items() if said} == {}, "all is put back"


def test_a_file_that_was_changed_is_not_read(copy):
    before = (copy / "codes_lines.nc").read_bytes()
    assert stored.read_reference("codes_lines.nc").attrs["stored_file"] == "codes_lines.nc"
    (copy / "codes_lines.nc").write_bytes(before[:-1] + b"?")
    with pytest.raises(
        ValueError, match=r"`codes_lines.nc` must be the file that index.json names, unchanged"
    ):
        stored.read_reference("codes_lines.nc")
    (copy / "codes_lines.nc").unlink()
    with pytest.raises(ValueError, match=r"`codes_lines.nc` must be .*; got none"):
        stored.read_reference("codes_lines.nc")
    (copy / stored.INDEX).write_text("{}")
    with pytest.raises(ValueError, match=r"`index.json` must be the index"):
        stored.read_reference("codes_known.nc")


def test_a_file_that_is_not_in_the_index_is_in_no_verdict(copy):
    before = set(stored.read_jobs(["rug_n", "codes_n"]))
    shutil.copy(copy / "rug_n128.nc", copy / "rug_n1024_p0.4_r0.12.nc")
    assert set(stored.read_jobs(["rug_n", "codes_n"])) == before
    assert index.check()["rug_n1024_p0.4_r0.12"] == ["not in the index"]
    with pytest.raises(ValueError, match=r"`folder` must be a folder with a file of a run, such as rug_n9\*"):
        stored.read_jobs(["rug_n9"])


SMALL = {"n_features": 4, "n_hidden": [4], "runs": 2}
TOY = dataclasses.replace(RUNS["collisions_fresh"], stored="toy", name="toy.run", quick=SMALL, full=SMALL)


@pytest.fixture
def toy(copy, monkeypatch):
    """Return the job of a file that takes no time, which is made and stored."""
    job = dataclasses.replace(TOY, part=Part({"runs": 2}))
    monkeypatch.setattr(index, "stored_runs", lambda: {"toy": job, **RUNS})
    for module in (laboratory, running):
        monkeypatch.setattr(module, "experiment", lambda name: {"toy.run": job}[name])
    made = copy.parent / "made"
    (path,) = running.make([job.name], out=made, device="cpu")
    assert index.store(path=path) == "toy"
    return job


def test_what_the_command_makes_is_entered_and_accepted(toy, copy):
    entry = stored.read_index()["toy"]
    assert entry["origin"] == "recorded by the command"
    assert entry["sha256"] == digest(copy / "toy.nc")
    assert entry["settings"]["lam"] == 0.003, "a default is told as well"
    assert entry["seeds"] == [0]
    assert index.check(["toy"], jobs={"toy": toy})["toy"] == []
    assert "`toy.nc`" in (copy / "README.md").read_text()
    with pytest.raises(ValueError, match=r"`store` must be a file NAME.nc that `superposition run NAME`"):
        index.store(path=copy / "rug_n128.nc")


def test_a_part_is_made_anew_and_entered(toy, copy):
    found = index.confirm("toy")
    assert (found["passed"], found["difference"]) == (True, 0.0)
    assert found["compared"] > 4
    assert stored.read_index()["toy"]["confirmed"]["part"] == {"runs": 2}
    ds = read_dataset(copy / "toy.nc")
    write_dataset(copy / "toy.nc", ds.assign(dead=ds["dead"] + 1))
    files = stored.read_index()
    files["toy"]["sha256"] = digest(copy / "toy.nc")
    index.write_index(files)
    found = index.confirm("toy")
    assert (found["passed"], found["variable"]) == (False, "dead")
    said = index.check(["toy"], jobs={"toy": toy})["toy"]
    assert any(one.startswith("not repeated: code of") for one in said)
    with pytest.raises(ValueError, match="`confirm` must be a stored file of a run; got 'nothing'"):
        index.confirm("nothing")


def test_changed_definitions_are_named(code, tmp_path):
    path = code / "solvers" / "collisions" / "flow.py"
    before = path.read_text(encoding="utf-8")
    assert index._changed("collisions.fig3", "no commit", code) == []
    path.write_text(f"{before}\nflow = None\n", encoding="utf-8")
    try:
        found = index._changed("collisions.fig3", "HEAD", code)
    finally:
        path.write_text(before, encoding="utf-8")
    assert found == [] or "solvers.collisions.flow:flow" in found, "none where there is no repository"


def test_parts_are_compared_where_their_labels_are():
    one = {"n_hidden": ("model", [1, 2, 3]), "p": ("model", [0.1] * 3), "seed": ("model", [0, 0, 1])}
    old = xr.Dataset({"loss": ("model", [1.0, np.nan, 3.0]), "name": ("case", ["a", "b"]), **one})
    new = old.isel(model=[2, 1])
    assert index.compared(old, new)["difference"] == 0
    assert index.compared(old, new.assign(loss=("model", [3.5, np.nan])))["difference"] == pytest.approx(
        1 / 7
    )
    assert index.compared(old, new.assign(loss=("model", [3.0, 1.0])))["difference"] == np.inf
    assert index.compared(old, new.assign(name=("case", ["a", "c"])))["variable"] == "name"
    assert index.compared(old, new.assign(seed=("model", [7, 0])))["difference"] == np.inf
    assert index.compared(old, new.drop_vars("loss"))["not_made"] == ["loss"]
    # Exact descents have no n_hidden: places in the plane tell them apart.
    plane = old.drop_vars("n_hidden").assign(p=("model", [0.1, 0.4, 0.4]), ratio=("model", [0.5, 0.25, 0.5]))
    assert index.compared(plane, plane.isel(model=[2]))["difference"] == 0
    # Where p is another axis, models are told apart by their own label.
    grid = {"p": [0.1, 0.4, 0.5], "model": ["tied", "free"]}
    maps = xr.Dataset({"loss": (("model", "p"), [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])}, grid)
    assert index.compared(maps, maps.isel(model=[1]))["difference"] == 0


def test_the_command_checks_stores_and_confirms(toy, copy, capsys):
    assert cli.main(["reference", "codes_lines", "--check", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"name": "codes_lines", "found": "accepted"}]
    (copy / "codes_lines.nc").write_bytes(b"")
    assert cli.main(["reference", "codes_lines", "--check"]) == 1
    assert "the file was changed" in capsys.readouterr().out
    assert cli.main(["reference", "--store", str(copy / "nothing.nc")]) == 2
    assert "got" in capsys.readouterr().err
    assert cli.main(["run", "rug_n8192_fig2*", "--list", "--json"]) == 0
    assert {one["made"] for one in json.loads(capsys.readouterr().out)} == {""}

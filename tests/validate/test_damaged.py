"""Stored files that are damaged, whatever the damage: everything that reads them refuses them by name."""

import shutil

import pytest

import superposition as sp
from superposition.validate import cli
from superposition.validate.experiments import atlas
from superposition.validate.ledger import stored_verdicts
from superposition.validate.reference.read import REFERENCE

from ..oracles import damaged

READERS = {
    "claims.json": [sp.claims, stored_verdicts.sources, lambda: stored_verdicts.store([], [])],
    "atlas.json": [atlas.names],
    "atlas.safetensors": [atlas.names],
}
COMMANDS = {
    "claims.json": ["claims --json", "claims --errata", "claims --wrong --id C8", "claims --source no"],
    "atlas.json": ["atlas"],
    "atlas.safetensors": ["atlas n2-m1-p0.01-equal-tied"],
}
VARIANTS = 40


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """Let all read copies of the stored files, and read them again at each call."""
    for name in READERS:
        shutil.copy(REFERENCE / name, tmp_path / name)
    for function in (stored_verdicts.read, stored_verdicts.store):
        monkeypatch.setitem(function.__kwdefaults__, "path", tmp_path / "claims.json")
    monkeypatch.setattr(atlas.store, "read", lambda read=atlas.store.read.__wrapped__: read(tmp_path))
    return tmp_path


@pytest.mark.parametrize("name", READERS)
def test_forty_of_forty_damaged_files_are_refused_by_name(name, copied):
    whole = (copied / name).read_bytes()
    for k in range(VARIANTS):
        (copied / name).write_bytes(damaged(whole, k))
        for read in READERS[name] if k < 4 else READERS[name][:1]:
            with pytest.raises(ValueError, match=f"` must .*; got '.*{name}' "):
                read()
    (copied / name).unlink()
    with pytest.raises(ValueError, match=f"` must .*; got '.*{name}' "):
        READERS[name][0]()


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_say_which_file_is_damaged(name, copied, capsys):
    whole = (copied / name).read_bytes()
    for k, words in enumerate(COMMANDS[name]):
        (copied / name).write_bytes(damaged(whole, k))
        assert cli.main(words.split()) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n"), name in err) == ("", 1, True)

"""What a user's type checker knows of the package."""

import subprocess
import sys
from pathlib import Path

import pytest

import superposition

ROOT = Path(superposition.__file__).parent

USE = """\
import superposition as sp

law = sp.Features(2, 0.1)
reveal_type(law)
reveal_type(sp.loss(([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0]), law).loss)
reveal_type(sp.best(law, 1))
sp.this_does_not_exist
sp.best(law, n_hiden=1)
"""


def test_all_names_of_the_front_door_have_types():
    text = (ROOT / "__init__.py").read_text()
    for name in superposition.__all__:
        assert f" import {name} as {name}\n" in text
    assert (ROOT / "py.typed").exists()


@pytest.mark.slow
def test_a_users_program_is_checked(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "superposition").symlink_to(ROOT)
    program = tmp_path / "user" / "use.py"
    program.parent.mkdir()
    program.write_text(USE)
    options = ["--strict", "--follow-imports=silent", "--config-file", str(ROOT / "pyproject.toml")]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "--cache-dir", tmp_path / "cache", program.name],
        cwd=program.parent,
        env={"MYPYPATH": str(tmp_path), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line.partition(" ")[2].replace("builtins.", "") for line in done.stdout.splitlines()]
    assert 'note: Revealed type is "superposition.theory.features.law.Features"' in lines, done.stdout
    assert 'note: Revealed type is "float"' in lines
    assert 'note: Revealed type is "superposition.validate.api.answer.Answer"' in lines
    assert any('has no attribute "this_does_not_exist"' in line for line in lines)
    assert any('Unexpected keyword argument "n_hiden"' in line for line in lines)
    assert len([line for line in lines if line.startswith("error")]) == 2

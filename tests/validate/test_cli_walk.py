"""A walk over all commands and all their options with bad values: exit code 0 or 2, one line of complaint.

Options are read off the parser, so that a new one joins the walk. Where a command accepts a value, its work
is a stand-in that only says that it was reached; checks before the work are the real ones.
"""

import importlib
import os
import warnings
from itertools import product

import numpy as np
import pytest
import xarray as xr

from superposition.solvers import progress
from superposition.theory import validation
from superposition.validate import cli, ledger, training
from superposition.validate.audit import page
from superposition.validate.experiments import atlas
from superposition.validate.ledger import catalogue
from superposition.validate.proofs import certificates
from superposition.validate.report import build, gallery
from superposition.validate.runner import registry, sweep
from superposition.validate.runner.declarations import Figure, Run, Section, Topic, TopicContent

WORDS = ["", "x", "None", "[]", "{}", "é", "\u202e", "a b", "\udc80", "$(x)", "x" * 5000]
NUMBERS = [
    "nan", "inf", "-inf", "-1", "0", "-0.0", "0.5", "1e400", "1e-320", "1e300", "９", "9" * 30, "9" * 5000,
]  # fmt: skip
PATHS = [
    ".", "..", "folder", "folder/", "link", "broken", "pipe", "file/x", "/dev/null", "/dev/null/x",
    "/proc/x",
]  # fmt: skip

# A valid call of each command, without the option that is being tried.
BASE = {
    "report": {"--out": ["out"], "--jobs": ["1"]}, "gallery": {"--out": ["out"], "--only": ["one"]},
    "claims": {"--id": ["C8"]}, "run": {"names": ["one.toy"], "--out": ["out"]},
    "reference": {"files": ["x.nc"]},
    "sweep": {"name": ["one.toy"], "settings": ["size=[1,2]"], "--store": ["store"]},
    "atlas": {"name": ["n2-m1-p0.1-equal-tied"], "--out": ["x.npz"]},
    "audit": {"file": ["model.npz"], "--p": ["0.1"], "--steps": ["0"], "--starts": ["0"]},
    "check": {"file": ["certificate.json"]},
    "best": {"--n-features": ["3"], "--p": ["0.1"], "--n-hidden": ["2"]},
    "how-many": {"--p": ["0.1"], "--n-hidden": ["3"], "--relative": ["0.5"]},
    "loss": {"file": ["model.npz"], "--p": ["0.1"]}, "sae": {"file": ["sae.npz"], "--p": ["0.1"]},
    "ceiling": {"file": ["phi.npz"], "--p": ["0.1"], "--samples": ["200"]},
    "phases": {"--grid": ["sparsity=[0.5]", "importance=[1]"]},
    "plot": {"file": ["model.npz"], "--out": ["x.png"]}, "explore": {"file": ["x.html"]},
    "predict law": {"--n-features": ["8"], "--p": ["0.1"], "--n-hidden": ["2"]},
    "predict rug": {"--p": ["0.1"], "--ratio": ["0.5"]},
    "predict collisions": {"--n-features": ["8"], "--n-hidden": ["8"]},
    "predict linear": {"--p": ["0.1"], "--n-features": ["8"], "--n-hidden": ["2"]},
    "predict noise": {"--n-features": ["8"], "--n-hidden": ["8"], "--noise-std": ["0.1"]},
    "predict sparsification": {"--t": ["1"], "--lam": ["0.1"], "--n-hidden": ["100"]},
    "predict relu": {"--p": ["0.1"]}, "predict codes": {"--p": ["0.1"], "--ratio": ["0.5"]},
    "predict decoders": {"--p": ["0.1"], "--ratio": ["0.5"]}, "interface": {},
    "predict computation": {"--p": ["0.1"], "--n-features": ["8"], "--n-hidden": ["2"]},
    "predict unequal": {"--alpha": ["1"], "--n-features": ["8"], "--n-hidden": ["2"]},
}  # fmt: skip
SLOW = {
    "audit", "best", "how-many", "loss", "phases", "plot", "sae", "ceiling", "explore", "predict law",
    "predict sparsification", "predict relu", "predict codes", "predict decoders", "predict unequal",
}  # fmt: skip
# One of these is enough.
INSTEAD = {("best", "--law"): "--n-features", ("how-many", "--sparsity"): "--p"}
INSTEAD |= {("how-many", "--n-features"): "--n-hidden", ("how-many", "--loss"): "--relative"}
WITH_LAWS = "audit", "best", "ceiling", "loss", "predict law", "sae"
INSTEAD |= dict.fromkeys(product(WITH_LAWS, ("--p-feature", "--sparsity", "--alpha")), "--p")


class Reached(BaseException):
    """The work was reached, so all that was given is accepted."""


def reach(*_, **__):
    raise Reached


def section(name):
    def draw(ds, ax):
        ax.plot(ds["x"])
        return ax

    def show(ds):
        return TopicContent("", [Figure("x", "x", "x", ds, draw)], headline="It is so.")

    run = Run(lambda seed: xr.Dataset({"x": ("k", [1.0, 2.0])}, attrs={"seed": seed}))
    toy = Run(run_toy, {"size": 3}, dataset="toy")
    return Section(name, name, "", {"x": run, "toy": toy}, [Topic("x", ["x"], show)])


def run_toy(size=3, seed=0, seeds=(), scale=1.0):
    """Return numbers, or fail as a function does that was given something else."""
    size, scale = validation.integer("size", size, 1, 1000), validation.number("scale", scale)
    return xr.Dataset({"x": ("k", scale * np.zeros(size))}, attrs={"first": float([*seeds, seed][0])})


@pytest.fixture
def stand_ins(monkeypatch, tmp_path):
    monkeypatch.setattr(registry, "load_section", section)
    monkeypatch.setattr(registry, "PHENOMENA", ("one",))
    monkeypatch.setattr(gallery, "svg", lambda figure: "<svg/>")
    monkeypatch.setattr(page, "render", lambda *found: "")
    monkeypatch.setattr(build, "run_tasks", reach)
    monkeypatch.setattr(atlas.search, "run_tasks", reach)
    monkeypatch.setattr(catalogue, "run_tasks", reach)  # of the claims
    for module in (ledger, catalogue):  # in this order: the ledger takes the name from there when it is asked
        monkeypatch.setattr(module, "CLAIMS", catalogue.select_claims(["C8", "C9", "L1"]))
    monkeypatch.setattr(training.run.engine, "new_model", reach)
    monkeypatch.setattr(sweep.running, "dispatch", reach)
    for name in ("best", "phases"):  # the searches, not what is said of their arguments
        module = importlib.import_module(f"superposition.validate.api.{name}")
        monkeypatch.setattr(module, "minimise", reach)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe")
    certificates.certify([[1]], [0], 0.5, path=tmp_path / "certificate.json")
    np.savez(tmp_path / "model.npz", W=np.ones((3, 2)), b=np.zeros(3))
    np.savez(tmp_path / "phi.npz", phi=np.eye(2))
    np.savez(tmp_path / "sae.npz", W_enc=np.eye(2), W_dec=np.eye(2), b_enc=np.zeros(2), b_dec=np.zeros(2))


def values_of(action):
    """List bad values of an option, each as a list of words, but for a flag's."""
    if action.nargs == 0:
        return [[]]
    if action.metavar in ("FILE", "FOLDER"):
        values = [*WORDS, *PATHS]
    else:  # the parser itself turns away what is no number: three of these words are enough
        values = [*(WORDS if action.type is None else WORDS[:3]), *NUMBERS]
    if action.dest == "settings":
        values += [f"size={value}" for value in [*WORDS, *NUMBERS]]
        values += [f"{name}={v}" for name in ("seed", "seeds", "scale") for v in [*WORDS[:3], *NUMBERS]]
        values += ["=", "==", "size", "seeds=[[1]]", "scale=[1,[2]]"]
    several = [[], ["0.5", "0.5"], ["1", "x"], ["size=1", "size=2"]] if action.nargs in ("+", "*") else []
    return [*([value] for value in values), *several]


def tries(command, parser):
    """List the command lines: as it should be, then each option with each bad value."""

    def line(values):
        options = [word for name, words in values.items() if name[0] == "-" for word in (name, *words)]
        # What has no name goes first, in the order in which the command has it.
        places = [a.dest for a in parser._actions if not a.option_strings]
        return [*command.split(), *(word for name in places for word in values.get(name, ())), *options]

    yield line(BASE[command])
    for action in parser._actions:
        option = action.option_strings[-1] if action.option_strings else action.dest
        if option not in ("--help", "--version"):
            left_out = option, INSTEAD.get((command, option))
            rest = {name: words for name, words in BASE[command].items() if name not in left_out}
            for words in values_of(action):
                yield line({**rest, option: words})


def test_every_command_is_in_the_walk(commands):
    assert set(commands) == set(BASE)


@pytest.mark.parametrize(
    "command", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in BASE]
)
def test_a_walk(command, commands, stand_ins, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "_SILENT", 60.0)  # no line of it on a busy machine
    if command == "reference":
        pytest.importorskip("torch")
    codes = []
    for words in tries(command, commands[command]):
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a warning would be a line more
            try:
                codes.append(cli.main(words))
            except SystemExit as end:
                codes.append(end.code)
            except Reached:
                codes.append(0)
        err = capsys.readouterr().err
        shown = [word[:40] for word in words], err
        assert codes[-1] in (0, 1, 2), shown
        if codes[-1] == 2:
            assert err.startswith("superposition"), shown
            assert err.count("\n") == 1, shown
            assert "`" in err or "argument" in err or "required" in err, shown
        assert "Traceback" not in err, shown
    assert codes.count(0) > 0
    assert codes.count(2) > 10
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "pipe").is_fifo()
    assert not (tmp_path / "nowhere").exists()

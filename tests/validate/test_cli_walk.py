"""A walk over all commands and all their options with bad values: exit code 0 or 2, one line of complaint.

Options are read off the parser, so that a new one joins the walk. Where a command accepts a value, its work
is a stand-in that only says that it was reached; checks before the work are the real ones.
"""

import argparse
import importlib
import os
import warnings

import numpy as np
import pytest
import xarray as xr

from superposition.solvers import progress
from superposition.theory import validation
from superposition.validate import cli, ledger, training
from superposition.validate.audit import page
from superposition.validate.cli.parser import make_parser
from superposition.validate.experiments import atlas
from superposition.validate.ledger import catalogue
from superposition.validate.proofs import certificates
from superposition.validate.report import build, gallery
from superposition.validate.runner import registry, sweep
from superposition.validate.runner.declarations import Figure, Run, Section, Topic, TopicContent

WORDS = ["", "x", "None", "[]", "{}", "é", "\u202e", "a b", "\udc80", "$(x)", "x" * 5000]
NUMBERS = [
    "nan",
    "inf",
    "-inf",
    "-1",
    "0",
    "-0.0",
    "0.5",
    "1e400",
    "1e-320",
    "1e300",
    "９",
    "9" * 30,
    "9" * 5000,
]
PATHS = [
    ".", "..", "folder", "folder/", "link", "broken", "pipe", "file/x", "/dev/null", "/dev/null/x",
    "/proc/x",
]  # fmt: skip

# A valid call of each command, without the option that is being tried.
BASE = {
    "report": {"--out": ["out"], "--jobs": ["1"]},
    "gallery": {"--out": ["out"], "--only": ["one"]},
    "claims": {"--id": ["C8"]},
    "run": {"names": ["one.toy"], "--out": ["out"]},
    "reference": {"files": ["x.nc"]},
    "sweep": {"name": ["one.toy"], "settings": ["size=[1,2]"], "--store": ["store"]},
    "atlas": {"name": ["n2-m1-p0.1-equal-tied"], "--out": ["x.npz"]},
    "audit": {"file": ["model.npz"], "--p": ["0.1"], "--steps": ["0"], "--starts": ["0"]},
    "check": {"file": ["certificate.json"]},
    "best": {"--n-features": ["3"], "--p": ["0.1"], "--n-hidden": ["2"]},
    "how-many": {"--p": ["0.1"], "--n-hidden": ["3"], "--relative": ["0.5"]},
    "loss": {"file": ["model.npz"], "--p": ["0.1"]},
    "sae": {"file": ["sae.npz"], "--p": ["0.1"]},
    "ceiling": {"file": ["phi.npz"], "--p": ["0.1"], "--samples": ["200"]},
    "phases": {"--grid": ["sparsity=[0.5]", "importance=[1]"]},
    "plot": {"file": ["model.npz"], "--out": ["x.png"]},
    "explore": {"file": ["x.html"]},
    "predict law": {"--n-features": ["8"], "--p": ["0.1"], "--n-hidden": ["2"]},
    "predict rug": {"--p": ["0.1"], "--ratio": ["0.5"]},
    "predict collisions": {"--n-features": ["8"], "--n-hidden": ["8"]},
    "predict linear": {"--p": ["0.1"], "--n-features": ["8"], "--n-hidden": ["2"]},
    "predict noise": {"--n-features": ["8"], "--n-hidden": ["8"], "--noise-std": ["0.1"]},
    "predict sparsification": {"--t": ["1"], "--lam": ["0.1"], "--n-hidden": ["100"]},
    "predict relu": {"--p": ["0.1"]},
    "predict codes": {"--p": ["0.1"], "--ratio": ["0.5"]},
    "predict decoders": {"--p": ["0.1"], "--ratio": ["0.5"]},
    "interface": {},
    "predict computation": {"--p": ["0.1"], "--n-features": ["8"], "--n-hidden": ["2"]},
    "predict unequal": {"--alpha": ["1"], "--n-features": ["8"], "--n-hidden": ["2"]},
}
SLOW = {
    "audit", "best", "how-many", "loss", "phases", "plot", "sae", "ceiling", "explore", "predict law",
    "predict sparsification", "predict relu", "predict codes", "predict decoders", "predict unequal",
}  # fmt: skip
# One of these is enough.
INSTEAD = {
    ("best", "--law"): "--n-features",
    ("how-many", "--sparsity"): "--p",
    ("how-many", "--n-features"): "--n-hidden",
    ("how-many", "--loss"): "--relative",
    **{
        (command, option): "--p"
        for command in ("audit", "best", "ceiling", "loss", "predict law", "sae")
        for option in ("--p-feature", "--sparsity", "--alpha")
    },
}


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
    toy = Run(run_toy, {"size": 3}, stored="toy")
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
    for module in (catalogue, ledger):
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


def parsers():
    """Return the parser of each command, those of the phenomena included."""
    found = {}
    (commands,) = (a for a in make_parser()._actions if isinstance(a, argparse._SubParsersAction))
    for name, one in commands.choices.items():
        below = [a for a in one._actions if isinstance(a, argparse._SubParsersAction)]
        found |= {f"{name} {inner}": p for a in below for inner, p in a.choices.items()} or {name: one}
    return found


def tries(command, parser):
    """List the command lines: as it should be, then each option with each bad value."""
    yield [*command.split(), *(w for k, v in BASE[command].items() for w in [k] * (k[0] == "-") + v)]
    for action in parser._actions:
        option = action.option_strings[-1] if action.option_strings else action.dest
        if option in ("--help", "--version"):
            continue
        rest = {k: v for k, v in BASE[command].items() if k not in (option, INSTEAD.get((command, option)))}
        is_path = action.metavar in ("FILE", "FOLDER")
        # The parser itself turns away what is no number: three of these words are enough.
        values = [*WORDS, *PATHS] if is_path else [*(WORDS if action.type is None else WORDS[:3]), *NUMBERS]
        if action.nargs == 0:
            values = [None]
        elif action.nargs in ("+", "*"):
            values = [*values, [], ["0.5", "0.5"], ["1", "x"]]
        if action.dest == "settings":
            settings = [
                f"{name}={v}"
                for name in ("size", "seed", "seeds", "scale")
                for v in [*(WORDS if name == "size" else WORDS[:3]), *NUMBERS]
            ]
            values = [
                *values,
                *settings,
                "=",
                "==",
                "size",
                ["size=1", "size=2"],
                "seeds=[[1]]",
                "scale=[1,[2]]",
            ]
        for value in values:
            given = [] if value is None else value if isinstance(value, list) else [value]
            order = {**rest, option: given} if action.option_strings else {option: given, **rest}
            if not action.option_strings and option == "settings":
                order = {
                    "name": rest["name"],
                    "settings": given,
                    **{k: v for k, v in rest.items() if k[0] == "-"},
                }
            words = [w for name, v in order.items() for w in ([name] if name[0] == "-" else []) + v]
            yield [*command.split(), *words]


def test_every_command_is_in_the_walk():
    assert set(parsers()) == set(BASE)


@pytest.mark.parametrize(
    "command", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in BASE]
)
def test_a_walk(command, stand_ins, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "_SILENT", 60.0)  # no line of it on a busy machine
    if command == "reference":
        pytest.importorskip("torch")
    accepted, refused = 0, 0
    for words in tries(command, parsers()[command]):
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a warning would be a line more
            try:
                code = cli.main(words)
            except SystemExit as end:
                code = end.code
            except Reached:
                code = 0
        err = capsys.readouterr().err
        shown = [word[:40] for word in words]
        assert code in (0, 1, 2), (shown, err)
        if code == 2:
            assert err.startswith("superposition"), (shown, err)
            assert err.count("\n") == 1, (shown, err)
            assert "`" in err or "argument" in err or "required" in err, (shown, err)
        assert "Traceback" not in err, shown
        accepted, refused = accepted + (code == 0), refused + (code == 2)
    assert accepted > 0
    assert refused > 10
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "pipe").is_fifo()
    assert not (tmp_path / "nowhere").exists()

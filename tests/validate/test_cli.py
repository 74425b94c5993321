"""The command line: what it prints, how it complains, what it leaves unimported."""

import argparse
import inspect
import json
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import superposition as sp
from superposition import solvers, theory, validate
from superposition.solvers import rug as solver
from superposition.theory import rug
from superposition.theory.lazy import public_modules
from superposition.validate import cli, ledger, training
from superposition.validate.api.predictions import PREDICTIONS
from superposition.validate.audit import audit as audit_models
from superposition.validate.cli import claims as claims_cli
from superposition.validate.cli import parser
from superposition.validate.cli.api import names_of
from superposition.validate.cli.parser import make_parser
from superposition.validate.cli.text import number, print_json
from superposition.validate.experiments import atlas
from superposition.validate.reference import files
from superposition.validate.reference.read import REFERENCE
from superposition.validate.report.build import write_report
from superposition.validate.report.gallery import write_gallery
from superposition.validate.runner import registry, sweep
from superposition.validate.runner.commands import make_runs
from superposition.validate.runner.declarations import Run


def complaint(capsys, *arguments):
    """Exit code and the one line on stderr of a command that must fail."""
    try:
        code = cli.main(list(arguments))
    except SystemExit as end:
        code = end.code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("superposition")
    assert captured.err.count("\n") == 1
    return code, captured.err


def test_help_and_version_import_nothing_heavy():
    script = (
        "import sys\n"
        "from superposition.validate import cli\n"
        "for words in (['--help'], ['train', '--help'], ['--version']):\n"
        "    try: cli.main(words)\n"
        "    except SystemExit as end: assert end.code == 0, end.code\n"
        "print([m for m in ('torch', 'matplotlib', 'numba', 'scipy', 'numpy', 'xarray') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    for word in ("report", "predict", "claims", "run", "examples:", "superposition 0."):
        assert word in done.stdout


def test_the_module_is_the_same_program():
    command = [sys.executable, "-m", "superposition.validate.cli", "weather"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("superposition: argument COMMAND: invalid choice: 'weather'")
    assert done.stderr.count("\n") == 1


def test_without_a_command_it_explains_itself(capsys):
    assert cli.main([]) == 2
    assert "examples:" in capsys.readouterr().out


def test_predict_as_json(capsys):
    assert cli.main(["predict", "rug", "--p", "0.01", "0.05", "--ratio", "0.1", "0.25", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["p"], row["ratio"]) for row in rows] == [
        (0.01, 0.1),
        (0.01, 0.25),
        (0.05, 0.1),
        (0.05, 0.25),
    ]
    best = solver.optimum(0.05, 0.25)
    last = rows[-1]
    assert (last["a"], last["b"], last["sigma"], last["loss"]) == (best.a, best.b, best.sigma, best.loss)
    assert last["linear_loss"] == rug.linear_loss(0.05, 0.25)
    assert last["zero_ratio_loss"] == rug.zero_ratio_loss(0.05)
    assert last["asymptotic_loss"] == rug.asymptotic_loss(0.05, 0.25)
    assert set(last["sources"]) == set(last) - {"p", "ratio", "sources"}


def test_predict_as_a_table(capsys):
    assert cli.main(["predict", "rug", "--p", "0.05", "--ratio", "0.25"]) == 0
    text = capsys.readouterr().out
    assert f"{solver.optimum(0.05, 0.25).loss:.6g}" in text
    for name, source in PREDICTIONS["rug"].sources.items():
        assert name in text
        assert source in text


def test_numbers_that_do_not_exist_are_null_in_json(capsys):
    print_json([number(np.nan), number(np.inf), number(np.float64(0.5))])
    assert json.loads(capsys.readouterr().out) == [None, None, 0.5]


TRAIN, GRID = (
    f"run training.{name} --device cpu --set {more}"
    for name, more in {"train": "n_hidden=[4]", "grid": "p=[0.1]"}.items()
)


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        ("predict rug --p nan --ratio 0.5", "`p`", "got nan"),
        ("predict weather --p 0.1", "PHENOMENON", "'weather'"),
        ("predict collisions --n-features 8 --n-hidden 0", "`n_hidden`", "got 0"),
        ("predict sparsification --t -1 --lam 0.1 --n-hidden 100", "`t`", "got -1"),
        ("run weather", "`name`", "got 'weather'"),
        ("run relu.trianed", "`name`", "did you mean relu.trained?"),
        ("run collisions.fig3 --set colour=2 --out OUT", "`set`", "got 'colour'"),
        ("run rug.reference --set folder=OUT/rug.reference.nc --out OUT/.", "`out`", "than `folder`"),
        ("run collisions.fig3 --set runs --out OUT", "`set`", "got 'runs'"),
        ("run collisions.fig3 --set runs=1 --out OUT", "`runs`", "got 1"),
        ("run collisions.fig3 --set runs=2 runs=3 --out OUT", "`runs`", "got '2' and '3'"),
        ("run collisions.fig3 --set n_features=8 n_hidden=[] --out OUT", "`n_hidden`", "got []"),
        ("run collisions.fig3 --set seed=-1 --out OUT", "`seed`", "got -1"),
        ("run collisions.fig3 --set seed=abc --out OUT", "`seed`", "got 'abc'"),
        ("run rug.trained --set seeds=[0,-1] --out OUT", "`seeds`", "got -1"),
        ("run collisions.fig3 --set runs=2 --out /dev/null", "`out`", "/dev/null"),
        ("run collisions.fig3 --jobs 0 --out OUT", "`jobs`", "got 0"),
        ("claims --id C8 --source lecomte2024", "`id`", "got C8"),
        (f"predict sparsification --t 1 --lam 0.1 --n-hidden {10**23}", "`n_hidden`", f"got {10**23}"),
        ("predict rug --p 1e-12 --ratio 1e-300", "`ratio`", "e-300"),
        (
            "predict linear --p 0.1 --n-features 100000000 --n-hidden 2",
            "`n_features` must be smaller",
            "100000000",
        ),
        ("run collisions.fig3 --set n_hidden=many --out OUT", "`n_hidden`", "'many'"),
        ("predict rug --p x --ratio 0.5", "--p", "'x'"),
        ("predict rug --ratio 0.5", "`p`", "must be given, or `sparsity` instead; got neither"),
        ("claims --id C99", "`id`", "got 'C99'"),
        ("claims --source nobody2000", "`source`", "got 'nobody2000'"),
        ("claims --verdict maybe", "`verdict`", "got 'maybe'"),
        ("claims --run --jobs 0", "`jobs`", "got 0"),
        ("report --profile huge", "`profile`", "got 'huge'"),
        ("report --only weather", "`only`", "got 'weather'"),
        ("report --seed -1", "`seed`", "got -1"),
        ("report --out /dev/null/x", "`out`", "got '/dev/null/x'"),
        (f"{TRAIN} n_features=8 p=[0.1] --out /dev/null/x", "`out`", "/dev/null/x"),
        (f"{GRID} seeds=[0] n_features=8 ratio=[1.5] --out OUT", "`ratio`", "got 1.5"),
        (f"{GRID} seeds=[0] ratio=[0.5] n_features={2**31} --out OUT", "`n_features`", f"got {2**31}"),
        (f"{GRID} ratio=[0.5] n_features=8 seeds=[{10**30}] --out OUT", "`seeds`", f"got {10**30}"),
        (f"{GRID} seeds=[0] ratio=[0.5] n_features=10000000 --out OUT", "`n_features`", "smaller"),
        (f"{TRAIN} n_features=8 p=[0.1] batch_size=2147483647 --out OUT", "`batch_size`", "GiB"),
        (f"{TRAIN} n_features=8 p=[0.1] checkpoint=OUT --out OUT", "`checkpoint`", "folder"),
        (f"{TRAIN} p=[0.1] n_features=8 n_hidden=[9] --out OUT", "`n_hidden`", "9"),
        (f"{TRAIN} n_features=8 --out OUT", "`p`", "must be given"),
        (f"{TRAIN} n_features=8 p=[0.1] schedule=fast --out OUT", "`schedule`", "got 'fast'"),
        ("weather", "COMMAND", "'weather'"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(capsys, tmp_path, words, name, value):
    code, line = complaint(capsys, *words.replace("OUT", str(tmp_path)).split())
    assert code == 2
    assert name in line
    assert value in line
    assert not [path for path in tmp_path.rglob("[!.]*") if path.is_file()]


def test_a_command_line_of_anything_but_words_is_bad_input(capsys):
    for wrong in (3, ["predict", 4], 0.5):
        assert cli.main(wrong) == 2
        assert "`arguments` must be a list of words" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "stated", "kept", "refused"),
    [
        ("rug --p P --ratio 0.5", "[1e-100, 1]", "1e-100 1", "9e-101 1.1"),
        ("rug --p 0.1 --ratio P", "(0, 1]", "1e-9 1", "0 1.1"),
        ("codes --p P --ratio 0.5", "[1e-6, 1)", "", "9e-7 1"),
        ("decoders --p 0.1 --ratio P", "(0, 1)", "", "0 1 1e-9"),
        ("relu --p P", "[1e-4, 1]", "1e-4 1", "9e-5 1.1"),
        ("relu --p 0.1 --importance P", "[1e-4, 1e4]", "1e-4 1e4", "9e-5 1.1e4"),
        ("linear --p P --n-features 4 --n-hidden 2", "(0, 1]", "1e-300 1", "0 1.1"),
        ("collisions --n-hidden 4 --n-features P", "from 1 to 2 n_hidden", "1 8", "0 9"),
        ("sparsification --t 1 --lam P --n-hidden 8", "[0, 1e6]", "0 1e6", "-1 2e6"),
        ("sparsification --t 1 --lam 1 --n-hidden P", "at least 8", "8", "7"),
        ("sparsification --t 1 --lam 1 --n-hidden 8 --scale P", "[1e-6, 1e6]", "1e-6 1e6", "0 2e6"),
        ("noise --n-features P --n-hidden 4 --noise-std 0.1", "at least 2", "2", "1"),
        ("noise --n-features 4 --n-hidden P --noise-std 0.1", "at least n_features - 1", "3", "2"),
        ("noise --n-features 4 --n-hidden 4 --noise-std P", "(0, 1e30]", "1e30", "0 2e30"),
        ("noise --n-features 4 --n-hidden 4 --noise-std 1 --learning-rate P", "(0, 1e60]", "1", "0 2e60"),
        ("computation --p P --n-features 4 --n-hidden 2", "(0, 1]", "1e-9 1", "0 1.1"),
        ("computation --p 0.1 --n-features 4 --n-hidden P", "from 1 to n_features", "1 4", "0 5"),
        ("unequal --alpha P --n-features 4 --n-hidden 2", "[0, 20]", "", "-1 21"),
        ("unequal --alpha 1 --n-features 4 --n-hidden P", "from 1 to n_features - 1", "3", "0 4"),
        ("unequal --alpha 1 --n-features 4 --n-hidden 2 --number-on P", "(0, n_features]", "", "0 5 1e-100"),
    ],
)
def test_the_help_of_a_prediction_states_what_is_allowed(capsys, words, stated, kept, refused):
    with pytest.raises(SystemExit):
        cli.main(["predict", words.split()[0], "--help"])
    assert stated in " ".join(capsys.readouterr().out.split())
    for value in kept.split():
        assert cli.main(["predict", *words.replace("P", value).split()]) == 0
    capsys.readouterr()
    for value in refused.split():
        code, line = complaint(capsys, "predict", *words.replace("P", value).split())
        assert (code, "must" in line) == (2, True)


def test_training_without_torch_says_what_is_missing(capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    code, line = complaint(capsys, *f"{TRAIN} n_features=8 p=[0.1] --out {tmp_path}".split())
    assert (code, "pip install -e '.[torch]'" in line) == (2, True)


def test_claims_as_json(capsys):
    assert cli.main(["claims", "--id", "C8", "C9", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["id"] for row in rows] == ["C8", "C9"]
    for row in rows:
        assert {"id", "source", "where", "statement", "verdict", "evidence"} <= set(row)
    assert rows[0]["verdict"] == "misprint"
    assert rows[0]["evidence"]["findings"]


def test_claims_as_a_table(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    words = ["claims", "--id", "C8", "C9", "--source", "cowsik2024", "--verdict", "misprint"]
    assert cli.main([*words, "--evidence"]) == 0
    text = capsys.readouterr().out
    assert "1 claim, from" in text
    assert "C8" in text
    assert "C9" not in text
    assert "[broken] printed, counterexample" in text


def test_one_word_too_much_has_a_name(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["plot", "model.npz", "--out", ""]
    (tmp_path / "model.npz").touch()
    code, line = complaint(capsys, *words)
    assert (code, "`out` must be the name of a file; got ''" in line) == (2, True)
    code, line = complaint(capsys, *words[:-1], "pipe/")
    assert (code, "`out` must be the name of a file; got 'pipe/'" in line) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["model.npz"]


def run_toy(size=3, seed=0, seeds=()):
    return xr.Dataset({"x": ("k", np.arange(float(size)))})


@pytest.mark.parametrize("words", [f"{TRAIN} n_features=8 p=[0.2] steps=100", "run toy.run --set size=3000"])
@pytest.mark.filterwarnings("error")
def test_a_full_disk_is_one_line(words, tmp_path, capsys, monkeypatch):
    """A limit on the size of files stands for the disk."""
    if "train" in words:
        pytest.importorskip("torch")
        words += " schedule=converged evaluation_samples=64 threads=2"
    else:
        toy = {"toy.run": Run(run_toy, name="toy.run")}
        monkeypatch.setattr(registry, "list_runs", lambda room="": toy)
        monkeypatch.setattr(registry, "find_run", lambda name: toy[name])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, limits[1]))
    try:
        code, line = complaint(capsys, *words.split(), "--out", str(tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (code, "File too large" in line) == (2, True)
    assert list(tmp_path.rglob("*.nc")) == []


PREDICT = f"{sys.executable} -m superposition.validate.cli predict collisions --n-features 8 --n-hidden 8"


def without_status(text):
    """Return what is on standard error but for lines that say how long a command works, on a busy machine."""
    return re.sub(r"(?m)^superposition \w+: \d+ s\n", "", text)


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ("> /dev/full", "superposition predict: [Errno 28] No space left on device"),
        (">&-", "superposition: standard output is closed"),
    ],
)
def test_standard_output_that_cannot_be_written_is_one_line(rest, said):
    done = subprocess.run(["bash", "-c", f"{PREDICT} {rest}"], capture_output=True, text=True, check=False)
    assert (done.returncode, without_status(done.stderr).strip()) == (2, said)


def test_standard_error_may_be_closed():
    done = subprocess.run(
        ["bash", "-c", f"{PREDICT} --json 2>&-"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)


def test_a_fault_of_the_program_is_one_line_too(capsys, monkeypatch):
    monkeypatch.setattr(ledger, "run", lambda *_, **__: {}["a key"])
    assert cli.main(["claims", "--run"]) == cli.FAULT
    captured = capsys.readouterr()
    assert captured.err == "superposition claims: a fault of the program, KeyError: 'a key'\n"


def test_ctrl_c_while_the_program_loads(capsys, monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(parser, "make_parser", interrupted)
    assert cli.main(["claims", "--run"]) == 130
    assert capsys.readouterr().err == "\nsuperposition: interrupted\n"
    # Before `main` runs, hardly anything is imported.
    script = "import sys, superposition.validate.cli; print('argparse' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_ctrl_c_in_training_leaves_a_checkpoint_to_go_on_from(capsys, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    run, block, rounds = training.run, training.run.engine.run_block, []
    words = f"{TRAIN} n_features=8 p=[0.2] n_hidden=[2,2,4,4] seed=[0,1,0,1] steps=500 schedule=converged"
    words = [*words.replace("n_hidden=[4] ", "").split(), "evaluation_samples=64", "threads=2", "--out"]
    assert cli.main([*words, str(tmp_path / "whole")]) == 0

    def interrupting(*arguments):
        rounds.append(1)
        if len(rounds) == 6:  # in the middle of the second round of four models
            os.kill(os.getpid(), signal.SIGINT)
        return block(*arguments)

    monkeypatch.setattr(run.engine, "run_block", interrupting)
    handler = signal.getsignal(signal.SIGINT)
    words += [str(tmp_path / "stopped")]
    assert cli.main(words) == 130
    assert signal.getsignal(signal.SIGINT) is handler
    assert len(rounds) == 8  # the round is finished
    left = [path.name for path in (tmp_path / "stopped").rglob("[!.]*") if path.is_file()]
    assert left == ["training-train-0.checkpoint.npz"]
    assert cli.main(words) == 0
    assert len(rounds) == 20
    whole, stopped = (tmp_path / name / "training.train.nc" for name in ("whole", "stopped"))
    xr.testing.assert_equal(files.read_dataset(whole), files.read_dataset(stopped))
    assert "interrupted" in capsys.readouterr().err


def test_a_second_ctrl_c_does_not_wait():
    with training.run._defer_interrupt() as pressed:
        assert not pressed()
        os.kill(os.getpid(), signal.SIGINT)
        assert pressed()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_interruption(capsys, monkeypatch):
    def interrupted(*arguments, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr(ledger, "run", interrupted)
    assert cli.main(["claims", "--run"]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_error():
    pipe = ["bash", "-c", f"set -o pipefail; {PREDICT} | true"]
    done = subprocess.run(pipe, capture_output=True, text=True, check=False)
    assert (done.returncode, without_status(done.stderr)) == (0, "")


# --- Every command ------------------------------------------------------------------------------------------


def _commands(parser=None, words=()):
    """Yield each command, as words, with its parser."""
    for action in (parser or make_parser())._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                yield from _commands(command, (*words, name))
                if not any(isinstance(one, argparse._SubParsersAction) for one in command._actions):
                    yield " ".join((*words, name)), command


COMMANDS = dict(_commands())
# Text that has no fixed set of values: names of models, jobs, functions, rows; lists; numbers with a word.
FREE = {
    ("atlas", "name"), ("claims", "--id"), ("run", "names"), ("run", "--set"),
    ("sweep", "name"), ("sweep", "settings"), ("sweep", "--keep"),
    ("sweep", "--together"), ("audit", "--fail-on"),
    *((name, "--values") for name in ("best", "ceiling", "loss", "audit", "predict law", "sae")),
    *((name, "--importance") for name in ("best", "ceiling", "loss", "audit", "predict law", "sae")),
}  # fmt: skip
PLACES = {"FILE", "FOLDER", "ADDRESS", "NAME=VALUE", "NAME=ARRAY", "NAME=LIST"}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_prints_json(command):
    assert any("--json" in action.option_strings for action in COMMANDS[command]._actions)


@pytest.mark.parametrize("command", COMMANDS)
def test_options_with_a_fixed_set_of_values_declare_it(command):
    for action in COMMANDS[command]._actions:
        name = action.option_strings[0] if action.option_strings else action.dest
        takes_text = action.nargs != 0 and action.type in (None, str)
        if takes_text and action.metavar not in PLACES and (command, name) not in FREE:
            assert action.choices is not None, name
            values = list(action.choices)
            assert values
            assert all(value in action.choices for value in values)
            assert "no such thing" not in action.choices


FUNCTIONS = {
    "best": sp.best, "phases": sp.phases, "sae": sp.sae, "ceiling": sp.ceiling, "audit": audit_models,
    "report": write_report, "gallery": write_gallery, "run": make_runs, "sweep": sweep.run,
    "atlas": atlas.make, "how-many": sp.how_many,
}  # fmt: skip
# Options with another default or meaning than the parameter of the same name.
OTHERWISE = {("best", "law"), ("report", "out"), ("run", "out"), ("phases", "y"), ("sweep", "settings")}


@pytest.mark.parametrize("command", FUNCTIONS)
def test_options_have_the_defaults_and_the_help_of_the_function(command):
    function, described = FUNCTIONS[command], 0
    signature, text = inspect.signature(function), " ".join(inspect.getdoc(function).split())
    for action in COMMANDS[command]._actions:
        parameter = signature.parameters.get(action.dest)
        if parameter is None or (command, action.dest) in OTHERWISE:
            continue
        assert action.required == (parameter.default is inspect.Parameter.empty), action.dest
        if not action.required and parameter.default is not None:
            assert action.default == parameter.default, action.dest
        words = action.help.removeprefix("With --make: ").partition(" (default")[0].rstrip(".")[1:]
        described += words.replace("%%", "%") in text.replace("`", "")
    assert described


def test_declared_choices_are_those_of_the_package():
    assert tuple(claims_cli.VERDICTS) == tuple(map(str, ledger.Verdict))
    (law,) = (action for action in COMMANDS["best"]._actions if action.dest == "law")
    assert law.choices == tuple(sp.laws())
    wrong = [["report", "--profile", "long"], ["claims", "--verdict", "maybe"], ["report", "--only", "x"]]
    for words in wrong:
        assert cli.main(words) == 2
    assert cli.main(["claims", "--verdict", "holds,-up-to-constants", "--id", "C18", "--json"]) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("bset --p 0.1", "invalid choice: 'bset'; did you mean 'best'?"),
        ("predict rgu --p 0.1", "invalid choice: 'rgu'; did you mean 'rug'?"),
        ("claims --source elhgae", "got 'elhgae'; did you mean 'elhage2022'?"),
        ("best --n-feature 5 --n-hidden 2 --p 0.1", "--n-feature 5; did you mean '--n-features'?"),
        ("loss x.npz --p 0.1 --qqq", "unrecognized arguments: --qqq (see superposition loss --help)"),
        ("report --profile quik", "got 'quik'; did you mean 'quick'?"),
    ],
)
def test_a_wrong_word_names_the_one_that_was_meant(words, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, line = complaint(capsys, *words.split())
    assert code == 2
    assert said in line


def test_files_and_checks_as_json(capsys, tmp_path, monkeypatch):
    def told(*words, code=0):
        assert cli.main([*map(str, words), "--json"]) == code
        return json.loads(capsys.readouterr().out)

    certificate = str(REFERENCE / "certificates" / "wiring-n2-m1-p1-4.json")
    assert told("check", certificate)[0]["accepted"] is True
    text = json.loads(Path(certificate).read_text("utf-8"))
    (tmp_path / "no.json").write_text(json.dumps({**text, "format": "another"}))
    (row,) = told("check", tmp_path / "no.json", code=1)
    assert (row["accepted"], bool(row["text"])) == (False, True)
    names = [row["name"] for row in told("run")]
    assert "collisions.fig3" in names
    np.savez(tmp_path / "pair.npz", W_out=[[1.0], [-1.0]], W_in=[[1.0, -1.0]], b=[0.0, 0.0])
    page, picture = tmp_path / "page.html", tmp_path / "pair.png"
    assert told("explore", page) == {"written": str(page)}
    assert told("plot", tmp_path / "pair.npz", "--out", picture) == {"written": str(picture)}
    pytest.importorskip("zarr")
    grid = "theory.rug.sigma", "p=[0.1,0.2]", "ratio=[0.5]"
    swept = told("sweep", *grid, "--store", tmp_path / "store", "--jobs", "0")
    assert swept["p"] == [0.1, 0.2]
    assert swept["dims"]["value"] == ["p", "ratio"]


def test_the_interface_has_every_public_name(capsys, tmp_path):
    assert cli.main(["interface"]) == 0
    text = capsys.readouterr().out
    for name in sp.__all__:
        if name not in ("theory", "solvers", "validate"):
            assert f"\n## sp.{name}(" in text
            assert inspect.getdoc(getattr(sp, name)) in text
    for package in (theory, solvers, validate):
        for room in public_modules(package):
            path = room.__name__.partition(".")[2]
            if path.startswith(("validate.api", "validate.cli")):
                continue
            for name in getattr(room, "__all__", ()):
                assert f"\n- `{path}.{name}" in text
    for command in COMMANDS:
        assert f"- `superposition {command.split()[0]}`: " in text
    assert not re.search(r"0x[0-9a-f]{6}|/root|/home|/tmp", text)  # nothing of this machine
    assert max(map(len, text.splitlines())) < 1000
    assert cli.main(["interface", "--out", str(tmp_path / "llms.txt"), "--json"]) == 0
    assert (tmp_path / "llms.txt").read_text("utf-8").strip() == text.strip()


def test_how_many_prints_what_the_function_answers(capsys):
    words = ["--p", "0.05", "--n-hidden", "30", "--loss", "0.001"]
    answer = sp.how_many(0.05, n_hidden=30, loss=0.001)
    assert cli.main(["how-many", *words]) == 0
    assert capsys.readouterr().out == f"{answer}\n"
    assert cli.main(["how-many", *words, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["known"], printed["proved"], printed["limit"]) == (81, 160, 46)
    assert printed["n_features"] == answer.to_frame()["n_features"].tolist()


def test_names_come_from_the_first_column(capsys, tmp_path):
    file = tmp_path / "names.csv"
    for text in ('name,p\nred,.1\n"blue, dark",.1\n', 'red\n"blue, dark"\n'):
        file.write_text(text)
        assert names_of(str(file), 2) == ["red", "blue, dark"]
        with pytest.raises(
            ValueError, match="`names` must be a CSV file with 9 rows and perhaps a heading; got"
        ):
            names_of(str(file), 9)
    words = ["--n-features", "2", "--n-hidden", "1", "--p", "0.05", "--starts", "2", "--names", str(file)]
    assert cli.main(["best", *words]) == 0
    assert "antipodal pair red-blue, dark" in capsys.readouterr().out


def test_sparsity_stands_for_p_in_every_command(capsys):
    def told(*words):
        assert cli.main([*words, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    rug = ("predict", "rug", "--ratio", "0.25")
    assert told(*rug, "--sparsity", "0.95", "0.9") == told(*rug, "--p", "0.05", "0.1")
    best = ("best", "--n-features", "3", "--n-hidden", "1", "--starts", "1")
    assert told(*best, "--sparsity", "0.95") == told(*best, "--p", "0.05")
    line = ("phases", "--x", "importance", "--grid", "importance=[0.5]")
    assert told(*line, "--sparsity", "0.95") == told(*line, "--p", "0.05")
    few = ("atlas", "--n-features", "3", "--n-hidden", "1")
    assert told(*few, "--sparsity", "0.97") == told(*few, "--p", "0.03") != []
    preset = ("best", "--law", "elhage", "--n-features", "3", "--n-hidden", "1", "--starts", "1")
    assert told(*preset, "--sparsity", "0.95") == told(*preset, "--p", "0.05")
    assert cli.main([*preset, "--p", "0.1", "0.2"]) == 2
    assert "`p` must be one number with --law; got 2" in capsys.readouterr().err
    assert cli.main(["atlas", "--p", "0.1", "--sparsity", "0.9"]) == 2
    assert "`p` must be given, or `sparsity` instead; got both" in capsys.readouterr().err
    assert cli.main([*rug, "--p", "0.1", "--sparsity", "0.9"]) == 2
    assert "`p` must be given, or `sparsity` instead; got both" in capsys.readouterr().err


def test_sources_of_claims_may_be_begun(capsys):
    assert cli.main(["claims", "--source", "lecomte", "--wrong"]) == 0
    assert "of lecomte2024 do not hold as printed" in capsys.readouterr().out
    try:
        code = cli.main(["claims", "--source", "c"])  # of Cowsik or of Chanin
    except SystemExit as end:
        code = end.code
    assert code == 2
    assert "'lecomte2024'" in capsys.readouterr().err

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
from itertools import product
from unittest.mock import Mock

import numpy as np
import pytest
import xarray as xr

import superposition as sp
from superposition import solvers
from superposition.solvers import rug as solver
from superposition.theory import rug
from superposition.theory.lazy import public_modules
from superposition.validate import cli, ledger, training
from superposition.validate.audit import audit as audit_models
from superposition.validate.cli import claims as claims_cli
from superposition.validate.cli import options, parser
from superposition.validate.cli.api import names_of
from superposition.validate.cli.text import number, print_json
from superposition.validate.experiments import atlas
from superposition.validate.reference.read import REFERENCE
from superposition.validate.report.build import write_report
from superposition.validate.report.gallery import write_gallery
from superposition.validate.runner import registry, sweep
from superposition.validate.runner.commands import make_runs
from superposition.validate.runner.declarations import Run


def without_status(text):
    """Return what is on standard error but for lines that say how long a command works, on a busy machine."""
    return re.sub(r"(?m)^superposition \w+: \d+ s\n", "", text)


def complaint(capsys, *arguments):
    """Exit code and the one line on stderr of a command that must fail."""
    try:
        code = cli.main(list(arguments))
    except SystemExit as end:
        code = end.code
    captured = capsys.readouterr()
    err = without_status(captured.err)
    assert captured.out == ""
    assert err.startswith("superposition")
    assert err.count("\n") == 1
    return code, err


def answer(capsys, words, code=0):
    """Return what a command prints as JSON."""
    assert cli.main([*words.split(), "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_help_and_version_import_nothing_heavy():
    script = (
        "import sys\n"
        "from superposition.validate import cli\n"
        "for words in (['--help'], ['run', '--help'], ['--version']):\n"
        "    try: cli.main(words)\n"
        "    except SystemExit as end: assert end.code == 0, end.code\n"
        "print([m for m in ('torch', 'matplotlib', 'numba', 'scipy', 'numpy', 'xarray') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "examples:" in done.stdout


def test_predict_as_json(capsys):
    rows = answer(capsys, "predict rug --p 0.01 0.05 --ratio 0.1 0.25")
    assert [(row["p"], row["ratio"]) for row in rows] == list(product((0.01, 0.05), (0.1, 0.25)))
    best, last = solver.optimum(0.05, 0.25), rows[-1]
    assert (last["a"], last["b"], last["sigma"], last["loss"]) == (best.a, best.b, best.sigma, best.loss)
    assert last["linear_loss"] == rug.linear_loss(0.05, 0.25)
    assert set(last["sources"]) == set(last) - {"p", "ratio", "sources"}


def test_numbers_that_do_not_exist_are_null_in_json(capsys):
    print_json([number(np.nan), number(np.inf), number(np.float64(0.5))])
    assert json.loads(capsys.readouterr().out) == [None, None, 0.5]


TRAIN = "run training.train --device cpu --set n_hidden=[4]"
GRID = "run training.grid --device cpu --set p=[0.1]"
FIG3 = "run collisions.fig3 --out OUT --set"


# A command line, and what its one line of complaint has.
WRONG = [
    ("predict rug --ratio 0.5", "`p`", "must be given, or `sparsity` instead; got neither"),
    (f"predict sparsification --t 1 --lam 0.1 --n-hidden {10**23}", "`n_hidden`", f"got {10**23}"),
    ("predict linear --p 0.1 --n-features 100000000 --n-hidden 2", "`n_features`", "got 100000000"),
    ("run relu.trianed", "`name`", "did you mean relu.trained?"),
    (f"{FIG3} runs=2 runs=3", "`runs`", "got '2' and '3'"),
    ("run rug.trained --set seeds=[0,-1] --out OUT", "`seeds`", "got -1"),
    ("run rug.reference --set folder=OUT/rug.reference.nc --out OUT/.", "`out`", "than `folder`"),
    ("run collisions.fig3 --set runs=2 --out /dev/null", "`out`", "/dev/null"),
    ("plot OUT/model.npz --out pipe/", "`out` must be the name of a file", "got 'pipe/'"),
    ("claims --id C8 --source lecomte2024", "`id`", "got C8"),
    ("claims --source elhgae", "`source`", "got 'elhgae'; did you mean 'elhage2022'?"),
    ("claims --wrong --verdict holds", "`--wrong`", "chooses verdicts itself"),
    ("claims --id C21 --errata --evidence", "`--errata`", "form itself; got `--evidence`"),
    ("claims --store", "`--store`", "must stand with `--run`"),
    ("claims --id l15", "`id`", "got 'l15' (did you mean L15?)"),
    ("predict", "PHENOMENON", "the following arguments are required"),
    ("bset --p 0.1", "COMMAND", "invalid choice: 'bset'; did you mean 'best'?"),
    ("best --n-feature 5 --n-hidden 2 --p 0.1", "--n-feature 5", "did you mean '--n-features'?"),
    ("loss x.npz --p 0.1 --qqq", "unrecognized arguments: --qqq", "(see superposition loss --help)"),
    ("best --law x --n-hidden 2", "`law`", "must be one of 'elhage'"),
    ("predict rug --p 0.1 --sparsity 0.9 --ratio 1", "`p`", "or `sparsity` instead; got both"),
    ("phases --grid p", "`grid`", "must be NAME=VALUE; got 'p'"),
    ("phases --plot x.gif", "`plot`", "must end in .png, .svg or .pdf; got 'x.gif'"),
    (f"{GRID} seeds=[0] ratio=[0.5] n_features=10000000 --out OUT", "`n_features`", "smaller"),
    (f"{TRAIN} n_features=8 p=[0.1] batch_size=2147483647 --out OUT", "`batch_size`", "GiB"),
    (f"{TRAIN} n_features=8 --out OUT", "`p`", "must be given"),
]


@pytest.mark.parametrize(("words", "name", "value"), WRONG)
def test_bad_input_is_one_line_and_exit_code_2(capsys, tmp_path, words, name, value):
    code, line = complaint(capsys, *words.replace("OUT", str(tmp_path)).split())
    assert code == 2
    assert name in line
    assert value in line
    assert not [path for path in tmp_path.rglob("[!.]*") if path.is_file()]


# Words of `predict`, the range that its help states, values in it and values that are not.
RANGES = [
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
]


def test_a_command_line_of_anything_but_words_is_bad_input(capsys):
    for wrong in (3, ["predict", 4], 0.5):
        assert cli.main(wrong) == 2
        assert "`arguments` must be a list of words" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "stated", "allowed", "refused"), RANGES)
def test_the_help_of_a_prediction_states_what_is_allowed(capsys, words, stated, allowed, refused):
    with pytest.raises(SystemExit):
        cli.main(["predict", words.split()[0], "--help"])
    assert stated in " ".join(capsys.readouterr().out.split())
    for value in allowed.split():
        assert cli.main(["predict", *words.replace("P", value).split()]) == 0
    capsys.readouterr()
    for value in refused.split():
        code, line = complaint(capsys, "predict", *words.replace("P", value).split())
        assert (code, "must" in line) == (2, True)


@pytest.mark.parametrize(
    ("rest", "status", "said"),
    [
        ("> /dev/full", 2, "superposition predict: [Errno 28] No space left on device"),
        (">&-", 2, "superposition: standard output is closed"),
        ("2>&-", 0, ""),
        ("| true", 0, ""),
    ],
)
def test_standard_output_and_error_that_cannot_be_written(rest, status, said):
    words = ["bash", "-c", f"set -o pipefail; {PREDICT} {rest}"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, without_status(done.stderr).strip()) == (status, said)


def test_ctrl_c_while_the_program_loads(capsys, monkeypatch):
    monkeypatch.setattr(parser, "make_parser", Mock(side_effect=KeyboardInterrupt))
    assert cli.main(["claims", "--run"]) == 130
    assert capsys.readouterr().err == "\nsuperposition: interrupted\n"
    # Before `main` runs, hardly anything is imported.
    script = "import sys, superposition.validate.cli; print('argparse' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def run_toy(size=3, seed=0, seeds=()):
    return xr.Dataset({"x": ("k", np.arange(float(size)))})


@pytest.mark.filterwarnings("error")
def test_a_full_disk_is_one_line(tmp_path, capsys, monkeypatch):
    """A limit on the size of files stands for the disk."""
    toy = {"toy.run": Run(run_toy, name="toy.run")}
    monkeypatch.setattr(registry, "list_runs", lambda room="": toy)
    monkeypatch.setattr(registry, "find_run", lambda name: toy[name])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, limits[1]))
    try:
        code, line = complaint(capsys, *f"run toy.run --set size=3000 --out {tmp_path}".split())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (code, "File too large" in line) == (2, True)
    assert list(tmp_path.rglob("*.nc")) == []


def test_claims_as_json_and_as_a_table(capsys, monkeypatch):
    rows = {row["id"]: row for row in answer(capsys, "claims --id C8 --id C9 L1")}
    assert set(rows) == {"C8", "C9", "L1"}
    assert rows["C8"]["verdict"] == "misprint"
    assert answer(capsys, "claims --verdict holds,-up-to-constants --id C18")
    monkeypatch.setenv("COLUMNS", "200")
    words = "claims --id C8 C9 --source cowsik2024 --verdict misprint --evidence"
    assert cli.main(words.split()) == 0
    assert "[broken] printed, counterexample" in capsys.readouterr().out


PREDICT = f"{sys.executable} -m superposition.validate.cli predict collisions --n-features 8 --n-hidden 8"


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (ValueError("`x` is bad"), 2, "`x` is bad"), (ImportError("needs it"), 2, "needs it"),
        (OSError(28, "full"), 2, "[Errno 28] full"), (MemoryError(), 2, "MemoryError"),
        (ZeroDivisionError("by 0"), cli.FAULT, "a fault of the program, ZeroDivisionError: by 0"),
        (BrokenPipeError(), 0, None), (KeyboardInterrupt(), 130, "interrupted"),
    ],
)  # fmt: skip
def test_what_went_wrong_decides_the_status(capsys, monkeypatch, error, status, said):
    monkeypatch.setattr(ledger, "run", Mock(side_effect=error))
    assert cli.main(["claims", "--run"]) == status
    assert capsys.readouterr().err.strip() == ("" if said is None else f"superposition claims: {said}")


def test_ctrl_c_in_training_leaves_a_checkpoint_to_go_on_from(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    run, block, rounds = training.run, training.run.engine.run_block, []
    words = f"{TRAIN} n_features=8 p=[0.2] n_hidden=[2,2,4,4] seed=[0,1,0,1] steps=500 schedule=converged"
    words = [*words.replace("n_hidden=[4] ", "").split(), "evaluation_samples=64", "threads=2", "--out"]

    def interrupting(*arguments):
        rounds.append(1)
        if len(rounds) == 6:  # in the middle of the second round of four models
            os.kill(os.getpid(), signal.SIGINT)
        return block(*arguments)

    monkeypatch.setattr(run.engine, "run_block", interrupting)
    words += [str(tmp_path)]
    assert cli.main(words) == 130
    assert len(rounds) == 8  # the round is finished
    left = [path.name for path in tmp_path.rglob("[!.]*") if path.is_file()]
    assert left == ["training-train-0.checkpoint.npz"]
    assert cli.main(words) == 0
    assert len(rounds) == 20
    assert (tmp_path / "training.train.nc").is_file()


def test_a_second_ctrl_c_does_not_wait():
    handler = signal.getsignal(signal.SIGINT)
    with training.run._defer_interrupt() as pressed:
        assert not pressed()
        os.kill(os.getpid(), signal.SIGINT)
        assert pressed()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is handler


FUNCTIONS = {
    "best": sp.best, "phases": sp.phases, "sae": sp.sae, "ceiling": sp.ceiling, "audit": audit_models,
    "report": write_report, "gallery": write_gallery, "run": make_runs, "sweep": sweep.run,
    "atlas": atlas.make, "how-many": sp.how_many,
}  # fmt: skip


def test_every_command_prints_json_and_has_the_defaults_of_its_function(commands):
    for command, one in commands.items():
        assert any("--json" in action.option_strings for action in one._actions), command
    # Options with another default or meaning than the parameter of the same name.
    otherwise = {("best", "law"), ("report", "out"), ("run", "out"), ("phases", "y"), ("sweep", "settings")}
    for command, function in FUNCTIONS.items():
        parameters = inspect.signature(function).parameters
        actions = [a for a in commands[command]._actions if (command, a.dest) not in otherwise]
        compared = [(a, parameters[a.dest]) for a in actions if a.dest in parameters]
        assert compared, command
        for action, parameter in compared:
            assert action.required == (parameter.default is inspect.Parameter.empty), (command, action.dest)
            if not action.required and parameter.default is not None:
                assert action.default == parameter.default, (command, action.dest)
    assert tuple(claims_cli.VERDICTS) == tuple(map(str, ledger.Verdict))


def test_options_follow_from_types_and_defaults(monkeypatch):
    parameters = {
        "n_out": ("int", "", "Number `n` in %."), "size": ("float, optional", "0.5", "A size."),
        "l0": ("float or sequence of float, optional", "None", "Some, by default none."),
        "keep": ("collection of str, optional", "()", "Names."), "free": ("bool, optional", "False", "Free."),
        "both": ("bool, optional", "None", "Both."), "out": ("path", "", "A Folder."),
        "file": ("str or Path, optional", "None", "A file."),
        "kind": ('{"a", "b"}, optional', "'a'", "A kind."),
    }  # fmt: skip
    monkeypatch.setattr(options, "parameters", lambda function: parameters)
    assert dict(options.options_of("a.b", *parameters, out={"metavar": "OUT"})) == {
        "--n-out": {"help": "Number n in %%.", "type": int, "required": True},
        "--size": {"help": "A size (default: 0.5).", "type": float, "default": 0.5},
        "--l0": {"help": "Some, by default none.", "type": float, "nargs": "+"},
        "--keep": {"help": "Names.", "nargs": "+", "default": ()},
        "--free": {"help": "Free.", "action": "store_true"},
        "--both": {"help": "Both.", "action": argparse.BooleanOptionalAction},
        "--out": {"help": "A Folder.", "metavar": "OUT", "required": True},
        "--file": {"help": "A file.", "metavar": "FILE"},
        "--kind": {"help": "A kind (default: a).", "choices": ("a", "b"), "default": "a"},
    }
    ((_, folder),) = options.options_of("a.b", "out", about="Of all: ")
    assert folder == {"help": "Of all: a Folder.", "metavar": "FOLDER", "required": True}


def test_files_and_checks_as_json(capsys, tmp_path):
    certificate = REFERENCE / "certificates" / "wiring-n2-m1-p1-4.json"
    assert answer(capsys, f"check {certificate}")[0]["accepted"] is True
    text = json.loads(certificate.read_text("utf-8"))
    (tmp_path / "no.json").write_text(json.dumps({**text, "format": "another"}))
    (row,) = answer(capsys, f"check {tmp_path}/no.json", code=1)
    assert (row["accepted"], bool(row["text"])) == (False, True)
    assert "collisions.fig3" in [row["name"] for row in answer(capsys, "run")]
    pytest.importorskip("zarr")
    grid = "theory.rug.sigma p=[0.1,0.2] ratio=[0.5]"
    swept = answer(capsys, f"sweep {grid} --store {tmp_path}/store --jobs 0")
    assert swept["p"] == [0.1, 0.2]
    assert swept["dims"]["value"] == ["p", "ratio"]


def test_the_interface_has_every_public_name(commands, capsys):
    assert cli.main(["interface"]) == 0
    text = capsys.readouterr().out
    for name in set(sp.__all__) - {"theory", "solvers", "validate"}:
        assert f"\n## sp.{name}(" in text
        assert inspect.getdoc(getattr(sp, name)) in text
    for module in public_modules(solvers):
        path = module.__name__.partition(".")[2]
        assert all(f"\n- `{path}.{name}" in text for name in getattr(module, "__all__", ()))
    assert all(f"- `superposition {command.split()[0]}`: " in text for command in commands)
    assert not re.search(r"0x[0-9a-f]{6}|/root|/home|/tmp", text)  # nothing of this machine


def test_names_come_from_the_first_column(capsys, tmp_path):
    file = tmp_path / "names.csv"
    message = "`names` must be a CSV file with 9 rows and perhaps a heading; got"
    for text in ('name,p\nred,.1\n"blue, dark",.1\n', 'red\n"blue, dark"\n'):
        file.write_text(text)
        assert names_of(str(file), 2) == ["red", "blue, dark"]
        with pytest.raises(ValueError, match=message):
            names_of(str(file), 9)
    words = f"best --n-features 2 --n-hidden 1 --p 0.05 --starts 2 --names {file}"
    assert cli.main(words.split()) == 0
    assert "antipodal pair red-blue, dark" in capsys.readouterr().out


def test_sparsity_stands_for_p_in_every_command(capsys):
    for words, sparsity, p in (
        ("predict rug --ratio 0.25", "0.95 0.9", "0.05 0.1"),
        ("best --n-features 3 --n-hidden 1 --starts 1", "0.95", "0.05"),
        ("phases --x importance --grid importance=[0.5]", "0.95", "0.05"),
        ("atlas --n-features 3 --n-hidden 1", "0.97", "0.03"),
        ("best --law elhage --n-features 3 --n-hidden 1 --starts 1", "0.95", "0.05"),
    ):
        found = answer(capsys, f"{words} --sparsity {sparsity}")
        assert found
        assert found == answer(capsys, f"{words} --p {p}")

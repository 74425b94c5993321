"""The wheel: what is in it, and that it works away from the checkout and without torch.

It runs under ``python -S``, which leaves out the link that an editable install sets to the checkout.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

import superposition
from superposition.validate.api.predictions import PREDICTIONS

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(not (ROOT / "pyproject.toml").exists(), reason="builds from a checkout")

LAYERS = ("theory", "solvers", "validate")
DATA = [f"validate/report/{path}" for path in ("explorer/*.css", "explorer/*.html", "explorer/*.js")]
DATA += [f"validate/report/page/{path}" for path in ("*.css", "*.js", "templates/*")] + ["py.typed"]
DATA += [
    f"validate/reference/{path}"
    for path in ("atlas.*", "*.json", "*.nc", "SHA256SUMS", "certificates/*.json")
]
# The report's ledger has one claim here; it is tested elsewhere.
# None in sys.modules would hide torch as well, but SciPy looks there for it and takes what it finds.
WITHOUT_TORCH = """
import sys
class Hidden:
    def find_spec(name, path=None, target=None):
        if name == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
sys.meta_path.insert(0, Hidden)
from superposition.validate import ledger, cli
print(cli.__file__)
ledger.CLAIMS = ledger.select_claims(["C8"])
for line in (
    "run rug.picture --set n_features=8 n_hidden=4 --out runs",
    "report --only rug --jobs 1 --out report", "claims --json",
):
    assert cli.main(line.split()) == 0, line
"""


ALL_ROOMS = """
import importlib, json, pkgutil, sys
from superposition import solvers, theory
for layer in (theory, solvers):
    for module in pkgutil.walk_packages(layer.__path__, layer.__name__ + "."):
        importlib.import_module(module.name)
print(json.dumps(sorted(sys.modules)))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    # From a copy, as setuptools leaves build/ behind and would pack what an earlier build has left there.
    source, place = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for layer in LAYERS:
        shutil.copytree(ROOT / layer, source / layer, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("__init__.py", "py.typed", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = ["wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", place]
    subprocess.run([sys.executable, "-m", "pip", *build, source], check=True, capture_output=True)
    (found,) = place.glob("superposition-*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def output_of(program, installed, cwd):
    paths = [str(installed), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}
    command = [sys.executable, "-S", "-c", program]
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_holds_the_layers_with_their_data_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    code = [ROOT / "__init__.py", *(path for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))]
    data = [path for pattern in DATA for path in ROOT.glob(pattern)]
    expected = {f"superposition/{path.relative_to(ROOT).as_posix()}" for path in (*code, *data)}
    about = f"{'-'.join(wheel.name.split('-')[:2])}.dist-info"
    own = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "top_level.txt", "licenses/LICENSE")
    assert names == expected | {f"{about}/{name}" for name in own}


def test_torch_is_an_extra(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        needed = message_from_bytes(archive.read(name)).get_all("Requires-Dist")
    assert [line for line in needed if re.match(r"torch\W", line)] == ['torch>=2.4; extra == "torch"']


def test_theory_and_solvers_import_no_more_than_they_compute_with(installed, tmp_path):
    found = set(json.loads(output_of(ALL_ROOMS, installed, tmp_path)))
    assert "superposition.solvers.loss.exact" in found
    heavy = "torch", "matplotlib", "sympy", "mpmath", "scipy.stats", "xarray", "pandas", "rich", "hypothesis"
    assert not found.intersection((*heavy, "jinja2"))


def test_the_predictions_that_are_tried_with_the_wheel_are_all():
    lines = (ROOT / ".ci/predictions").read_text().splitlines()
    assert sorted(line.split()[0] for line in lines) == sorted(PREDICTIONS)


@pytest.mark.slow
def test_a_run_the_report_and_the_ledger_need_no_torch(installed, tmp_path):
    file = output_of(WITHOUT_TORCH, installed, tmp_path).splitlines()[0]
    assert Path(file).is_relative_to(installed)
    assert (tmp_path / "runs" / "rug.picture.nc").stat().st_size > 0
    page = (tmp_path / "report" / "report-rug.html").read_text(encoding="utf-8")
    assert "This part is left out: it needs PyTorch" in page
    assert "This run was stopped" not in page


def test_the_citation_has_the_version_of_the_package():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    lines = (ROOT / "CITATION.cff").read_text(encoding="utf-8").splitlines()
    assert "cff-version: 1.2.0" in lines
    assert f'version: "{version}"' in lines
    assert superposition.__version__ == version

"""The documentation: its examples run, what it names exists, and it builds offline and without a warning."""

import ast
import doctest
import importlib.util
import math
import pkgutil
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy import integrate, stats

from superposition.theory import codes, linear, noise, relu, rug, sparsification
from superposition.theory.lazy import public_modules
from superposition.validate import audit, ledger
from superposition.validate.runner.registry import PHENOMENA

FOLDER = Path(__file__).parents[1] / "docs"
PAGES = sorted(path.name for path in FOLDER.glob("*.rst"))
WHY = "the documentation is built by Sphinx: pip install -e '.[docs]'"


def _text(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


@pytest.mark.usefixtures("found_once")
@pytest.mark.parametrize("name", [page for page in PAGES if ">>>" in _text(page)])
def test_examples(name):
    if "import torch" in _text(name):
        pytest.importorskip("torch", reason="examples that train need PyTorch")
    with np.printoptions(legacy="1.25"):
        failed, tried = doctest.testfile(
            str(FOLDER / name), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE
        )
    assert failed == 0
    assert tried > 1


@pytest.mark.parametrize("name", PAGES)
def test_names_exist(name):
    for target in re.findall(r"(?<![:\w])`~?(superposition\.[\w.]+)`", _text(name)):
        room, _, last = target.rpartition(".")
        if last not in getattr(importlib.import_module(room), "__all__", ()):
            importlib.import_module(target)  # raises if it is no module either


def test_what_is_to_be_installed_is_installed_from_the_checkout():
    # The README installs from a checkout; a registry's package of the same name may be another's.
    root = FOLDER.parent
    files = [*root.glob("*.md"), *FOLDER.glob("*.rst"), *root.glob("notebooks/*.ipynb")]
    files += [path for floor in ("theory", "solvers", "validate") for path in (root / floor).rglob("*.py")]
    found = [one for path in files for one in re.findall(r"pip install.{,40}", path.read_text("utf-8"))]
    assert len(found) > 8
    extras = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    for one in found:
        given = re.match(r"pip install -e (?:`|\.`|'\.\[(\w+)\]')", one)
        assert given, one
        assert given[1] is None or given[1] in extras, one


@pytest.mark.parametrize("layer", ["theory", "solvers", "validate"])
def test_the_architecture_page_names_every_module_of_a_layer(layer):
    names = set(re.findall(r"``(\w+)``", _text("architecture.rst")))
    package = importlib.import_module(f"superposition.{layer}")
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    assert modules - set(PHENOMENA) <= names


def test_the_audit_page_names_all_layouts():
    rows = re.findall(r"^   \* - (.*)$", _text("audit.rst"), re.MULTILINE)
    assert rows == ["layout", *(one.name for one in audit.LAYOUTS)]


@pytest.mark.parametrize("name", PHENOMENA)
def test_points_to_its_room_on_each_floor(name):
    pages = [*FOLDER.glob(f"{name}.rst"), *FOLDER.glob(f"{name}-*.rst")]  # one, or some beneath it
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    for floor in ("theory", "solvers", "validate"):
        if importlib.util.find_spec(f"superposition.{floor}.{name}"):
            assert f"`superposition.{floor}.{name}`" in text


@pytest.mark.parametrize("name", PAGES)
def test_corrections_are_those_of_the_ledger(name):
    section = _text(name).partition("What the sources have wrong\n")[2].partition("In the code\n")[0]
    letters = "".join({claim.id[0] for claim in ledger.CLAIMS})
    cited = re.findall(rf"\b[{letters}]\d+\b", " ".join(re.findall(r"\*\*(.*?)\*\*", section)))
    assert cited or not section, f"{name} cites no row of the ledger in bold"
    ledger.select_claims(cited)  # raises if one is not in the ledger
    errata = (FOLDER / "errata.md").read_text(encoding="utf-8").partition("<!-- errata")[2]
    assert [id for id in cited if f"\n| {id} | " not in errata] == []


# --- Formulas ----------------------------------------------------------------------------------------------


def _ramp(k: int, x: float) -> float:
    density = lambda z: (z + x) ** k * stats.norm.pdf(z) / math.factorial(k)  # noqa: E731
    return integrate.quad(density, -x, 40, epsabs=1e-13)[0]


@pytest.mark.parametrize(("a", "b", "sigma"), [(1.25, -0.44, 0.22), (0.8, 0.1, 0.5), (1.0, 0.0, 0.1)])
def test_the_rug_page_has_the_losses_right(a, b, sigma):
    z, far = b / (a * sigma), b / (a * sigma) + 1 / sigma
    off = 2 * a**2 * sigma**2 * _ramp(2, z)
    on = 1 / 3 - 2 * a * sigma**2 * _ramp(2, far)
    on += 2 * a * (1 + a) * sigma**3 * (_ramp(3, far) - _ramp(3, z))
    assert rug.off_loss(a, b, sigma) == pytest.approx(off, rel=1e-9)
    assert rug.on_loss(a, b, sigma) == pytest.approx(on, rel=1e-9)


@pytest.mark.parametrize("kind", ["bipolar", "normal", "laplace"])
def test_the_noise_page_has_drift_and_potential_right(kind):
    rng = np.random.default_rng(5)
    w = rng.normal(size=6)
    w /= np.linalg.norm(w)
    m, std, eta, kurtosis = 6, 0.1, 0.01, noise.excess_kurtosis(kind)
    p4, p6 = np.sum(w**4), np.sum(w**6)
    drift = 8 * eta**2 * std**4 * (3 - (m + 2) * p4 + 2 * kurtosis * (p4 - 4 * p6 + 3 * p4**2))
    assert noise.fourth_norm_drift(w, kind, std, eta) == pytest.approx(drift, rel=1e-9)
    mean = 48 * eta**2 * kurtosis * std**4 * m * (m - 1) / ((m + 2) * (m + 4) * (m + 6))
    assert noise.random_fourth_norm_drift(m, kind, std, eta) == pytest.approx(mean, rel=1e-12)

    W, std = rng.normal(size=(3, 6)), 0.7
    square = np.sum(W**2, axis=1)
    z = W @ W.T / (std * np.sqrt(square))  # z[i, k]
    pull = z * stats.norm.pdf(z) * (1 - np.eye(3))
    potential = -kurtosis * std**2 / 12 * np.sum(np.sum(W**4, axis=1) / square * pull.sum(axis=0))
    assert noise.effective_potential(W, std, kurtosis) == pytest.approx(potential, rel=1e-9, abs=1e-15)
    rate = kurtosis * std**2 / (3 * square) * pull.sum(axis=0)
    assert noise.sparsifying_rate(W, std, kurtosis) == pytest.approx(rate, rel=1e-9, abs=1e-15)


def test_the_codes_page_has_the_constants_right():
    def cost(c: float) -> float:
        return c**2 / 3 - c**3 / 6 if c <= 1 else 1 / 3 - 1 / (6 * c)

    n = 12
    turn = np.cos(2 * np.pi / n)
    row = [(turn - np.cos(2 * np.pi * j / n)) / (1 - turn) for j in range(1, n)]
    assert codes.small_p_constant(codes.cut_polygon(n)) == pytest.approx(sum(map(cost, row)), rel=1e-9)
    assert codes.priority_constant(n) == pytest.approx(((n - 1) * (n - 2) / 2 - 1) / (3 * n))
    p, r = 0.1, 0.04
    bound = (p - r) / (2 * np.pi * np.e) * (6 / (np.pi * np.e)) ** (r / (p - r))
    assert codes.decoder_bound(p, r) == pytest.approx(bound, rel=1e-9)
    assert codes.relu_bound(1e-12, 0.7) / 1e-24 == pytest.approx(25 / 81 * 0.3, rel=1e-9)
    assert codes.relu_bound(1e-12, 0.01) / (1e-24 / 0.01) == pytest.approx(5 / 19 / np.e, rel=1e-9)
    assert codes.antipodal_loss(1e-3) == pytest.approx(1e-6 / 6 - 1e-9 / 192, rel=1e-6)


def test_the_sparsification_page_has_the_limit_law_right():
    def moment(k: int, zeta: float) -> float:
        return 2 * integrate.quad(lambda x: (x - zeta) ** k * stats.norm.pdf(x), zeta, 40, epsabs=1e-13)[0]

    zeta = 1.7
    law = sparsification.parametric_law(zeta)
    time = integrate.quad(lambda z: moment(2, z) ** -0.5, 0, zeta)[0]
    assert float(law.scaled_time) == pytest.approx(time, rel=1e-7)
    assert float(law.nonzero_share) == pytest.approx(moment(0, zeta), rel=1e-9)
    assert float(law.scaled_l1_norm) == pytest.approx(moment(1, zeta) / moment(2, zeta) ** 0.5, rel=1e-9)


def test_the_linear_page_has_sparse_losses_and_rates_right():
    rng = np.random.default_rng(3)
    W, importance, p = rng.normal(size=(5, 2)), rng.uniform(size=5), 0.3
    M, v = W @ W.T, p / 3 - p**2 / 4
    own = (1 - np.diag(M)) ** 2
    beside = (M**2).sum(axis=1) - np.diag(M) ** 2
    F = np.mean(importance * (own + beside))
    extra = p**2 / 4 * np.mean(importance * (1 - M.sum(axis=1)) ** 2)
    assert linear.sparse_loss(W, p, importance) == pytest.approx(v * F)
    assert linear.sparse_loss(W, p, importance, "none") == pytest.approx(v * F + extra)

    kept, left = 1.0, 3.0
    pair = linear.critical_hessian(np.diag([left, kept]), [1])
    assert pair.escape_rate == pytest.approx(((left - kept) ** 2 / 4 + left**2) ** 0.5 - (left + kept) / 2)
    assert linear.critical_hessian(np.diag([left, kept]), [1], 2, tied=True).escape_rate == 2 * left


def test_the_relu_page_has_interference_and_bound_right():
    c, b = 0.5, -0.2
    assert relu.interference(c, b) == pytest.approx((c + b) ** 3 / (3 * c))
    assert relu.feature_benefit(1.0, b) == pytest.approx(1 / 3 - (b**2 - 2 / 3 * abs(b) ** 3))
    n, m = 9, 3
    assert relu.thomson_bound(n, m) == pytest.approx(n * (n - 2 * m) ** 2 / (m * (n * (m + 1) - 4 * m)))


def _docstrings() -> str:
    return "\n\n".join(
        ast.get_docstring(node) or ""
        for layer in ("theory", "solvers", "validate")
        for path in (FOLDER.parent / layer).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
    )


def _formulas(text: str) -> list[str]:
    inline = re.findall(r":math:`([^`]+)`", text)
    blocks = re.findall(r"^( *)\.\. math::(.*\n(?:\1 +.*\n|\s*\n)*)", text + "\n", re.MULTILINE)
    return inline + [block for _, block in blocks]


@pytest.fixture(scope="module")
def conf():
    pytest.importorskip("sphinx", reason=WHY)
    spec = importlib.util.spec_from_file_location("conf", FOLDER / "conf.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_formula_has_mathml(conf):
    formulas = _formulas("\n\n".join([_text(page) for page in PAGES] + [_docstrings()]))
    assert len(formulas) > 300
    children = {"msup": 2, "msub": 2, "mfrac": 2, "mover": 2, "munder": 2, "msubsup": 3, "munderover": 3}
    for latex in formulas:
        # The space of LaTeX at the end of a line, and a command that is not known, would show as a backslash.
        formula = conf.mathml(latex.strip())
        assert "\\" not in formula, latex
        for element in ElementTree.fromstring(formula).iter():
            kind = element.tag.rpartition("}")[2]
            assert len(element) == children.get(kind, len(element)), latex


# --- The pages as built ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    pytest.importorskip("sphinx", reason=WHY)
    folder = tmp_path_factory.mktemp("docs")
    sources = folder / "sources"
    # A copy: what is generated for the reference is written beside the sources.
    shutil.copytree(FOLDER, sources, ignore=shutil.ignore_patterns("api"))
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", sources, folder / "html"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "html"


@pytest.mark.slow
def test_pages_know_neither_the_network_nor_the_machine(built):
    loads = r"<(?:script|img|iframe|source|link)[^>]*\s(?:src|href)=[\"']?(?:https?:)?//"
    pages = list(built.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert not re.search(loads, text), page.name
        assert str(FOLDER.parent) not in text, page.name  # nor anything of the machine that built it
    for sheet in built.rglob("*.css"):
        assert not re.search(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", sheet.read_text(encoding="utf-8"))


def _indexed(package, name, documented):
    """Return the name under which the index has what a package exports: of a class its own package's name."""
    value = getattr(package, name)
    if isinstance(value, type) and not value.__module__.startswith(package.__name__):
        parts = value.__module__.split(".")
        while ".".join(parts) not in documented:  # the package that exports it, or its module
            parts.pop()
        return f"{'.'.join(parts)}.{value.__name__}"
    return f"{package.__name__}.{name}"


@pytest.mark.slow
def test_every_public_name_has_an_entry(built, conf):
    from sphinx.util.inventory import InventoryFile

    with (built / "objects.inv").open("rb") as file:
        entries = {name for kind in InventoryFile.load(file, "", lambda *parts: "").values() for name in kind}
    documented = conf.autosummary_context["parts"]
    for layer in ("theory", "solvers", "validate"):
        top = importlib.import_module(f"superposition.{layer}")
        for module in public_modules(top):
            names = [n for n in getattr(module, "__all__", ()) if not conf.is_type_alias(getattr(module, n))]
            assert {_indexed(module, name, documented) for name in names} <= entries


@pytest.mark.slow
def test_pages_show_formulas_and_link_to_the_reference(built):
    for name in PHENOMENA:
        pages = [*built.glob(f"{name}.html"), *built.glob(f"{name}-*.html")]
        page = "".join(page.read_text(encoding="utf-8") for page in pages)
        assert page.count("<math") > 10
        for above in ("theory", "solvers", "validate.experiments"):
            assert f'href="api/superposition.{above}.{name}.html' in page

"""Settings of the documentation: `make docs` builds it from the docstrings and the pages beside this."""

import csv
import importlib
import pkgutil
import re
import shutil
from collections import Counter
from importlib import metadata
from pathlib import Path, PurePath
from types import ModuleType, UnionType
from typing import get_origin

import numpy as np
from docutils.nodes import SkipNode
from docutils.parsers.rst.states import Inliner
from latex2mathml.converter import convert
from markdown_it import MarkdownIt
from sphinx.ext import autosummary

from superposition.solvers.progress import no_status_line
from superposition.theory.lazy import public_modules
from superposition.validate.experiments import atlas
from superposition.validate.runner import registry

project = "superposition"
HERE = Path(__file__).parent
LAYERS = ("theory", "solvers", "validate")
author = "the superposition authors"
version = release = metadata.version(project)
extensions = ["sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.viewcode", "numpydoc", "myst_nb"]
# Notebooks are shown as they were run; `make notebooks` runs them.
nb_execution_mode = "off"
myst_enable_extensions = ["dollarmath"]
templates_path = ["_templates"]
html_static_path = ["_static"]
exclude_patterns = ["_templates", "errata.md"]

# A name in single backquotes becomes a link where there is an entry of that name, and code elsewhere.
default_role = "py:obj"
add_module_names = False
# Docstrings give types in words and shapes; `npt.ArrayLike`, spelt out by autodoc, fills half a page.
autodoc_typehints = "none"
autosummary_generate = True
numpydoc_show_class_members = False
numpydoc_attributes_as_param_list = True

html_theme = "furo"
html_title = "superposition"
html_css_files = ["style.css"]
html_copy_source = html_show_sourcelink = html_show_sphinx = html_show_copyright = False
html_math_renderer = "mathml"
pygments_style = "friendly"
pygments_dark_style = "native"
toc_object_entries_show_parents = "hide"

# --- What is made from other files of the project ----------------------------------------------------------


def _kinds(structure):
    """Return the groups of a structure, counted, without the features; what is dropped is last."""
    counts = Counter(group.rpartition(" ")[0] for group in structure.split(", "))
    order = sorted(counts, key=lambda name: (name == "dropped", name))
    return ", ".join(name if counts[name] == 1 else f"{name} ({counts[name]})" for name in order)


def structures():
    """Return which groups the encodings of tied models form: a row for each size, a column for each p."""
    found = atlas.entries(importance="equal", tied=True)
    rows = {}
    for one in found:
        rows.setdefault((one.n_features, one.n_hidden), []).append(_kinds(one.structure))
    heads = [f"p = {p:g}" for p in dict.fromkeys(one.p for one in found)]
    return [["n, m", *heads], *([f"{n}, {m}", *texts] for (n, m), texts in rows.items())]


def comparison():
    """Return free weights beside tied ones, and how many minima there are, for all p and importances."""
    heads = ["p, importance", "free better by 1 %", "at most by", "free weights at 2 (median)"]
    rows = [[*heads, "several minima: tied, free", "best found at most once: tied, free"]]
    for importance in dict.fromkeys(one.importance for one in atlas.entries()):
        for p in dict.fromkeys(one.p for one in atlas.entries()):
            pair = [atlas.entries(p=p, importance=importance, tied=tied) for tied in (True, False)]
            gains = np.array([1.0 - two.loss / one.loss for one, two in zip(*pair, strict=True)])
            most = pair[0][int(np.argmax(gains))]
            at_most = f"{gains.max():.0%} ({most.n_features} in {most.n_hidden})"
            row = [f"{p:g}, {importance}", f"{np.sum(gains > 0.01)} of {len(gains)}", at_most]
            row.append(f"{np.median([one.held for one in pair[1]]):g}")
            row.append("{}, {}".format(*(sum(one.minima > 1 for one in some) for some in pair)))
            row.append("{}, {}".format(*(sum(one.hits <= 1 for one in some) for some in pair)))
            rows.append(row)
    return rows


def architecture():
    """Return the first line of each phenomenon's package in each layer."""
    layers = [
        importlib.import_module(f"{project}.{path}") for path in ("theory", "solvers", "validate.experiments")
    ]
    rows = [["phenomenon", *LAYERS]]
    for name in registry.PHENOMENA:
        known = [name in {module.name for module in pkgutil.iter_modules(layer.__path__)} for layer in layers]
        packages = [getattr(layer, name) if has else None for layer, has in zip(layers, known, strict=True)]
        lines = ["" if package is None else package.__doc__.partition("\n")[0] for package in packages]
        rows.append([f"``{name}``", *lines])
    return rows


def _make(folder):
    """Copy pictures and notebooks, and set the Markdown of the errata, where the pages look for them."""
    folder.mkdir(exist_ok=True)
    for notebook in (HERE.parent / "notebooks").glob("*.ipynb"):
        shutil.copy(notebook, folder)
    reference = Path(importlib.import_module(f"{project}.validate").__path__[0]) / "reference"
    for picture in reference.glob("*.svg"):
        shutil.copy(picture, folder)
    _, _, tables = (HERE / "errata.md").read_text(encoding="utf-8").partition("<!--")
    shown = MarkdownIt("commonmark", {"html": True}).enable("table").render("<!--" + tables)
    (folder / "errata.html").write_text(shown, encoding="utf-8")
    for name, table in {
        "atlas-structures": structures,
        "atlas-comparison": comparison,
        "architecture": architecture,
    }.items():
        with open(folder / f"{name}.csv", "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(table())


_make(HERE / "made")

# --- What the pages of the reference list ------------------------------------------------------------------


def _entry(value, target, package):
    """Return directive, target and option; values with paths of this machine are not shown."""
    if isinstance(value, type):  # a class that another package has too is indexed there
        return "autoclass", target, "members" if value.__module__.startswith(package.__name__) else "no-index"
    if callable(value):
        return "autofunction", target, ""
    return "autodata", target, "no-value" if isinstance(value, PurePath | ModuleType) else ""


def is_type_alias(value):
    """Say whether a public name stands for a type, which has no docstring and no entry."""
    return get_origin(value) is not None or isinstance(value, UnionType)


def _part(package, module):
    """Return name, whether a function has it too, and entries of a module of a package."""
    word = module.__name__.rpartition(".")[2]
    exported = getattr(package, "__all__", ())
    # A module without a list of its own has what the package exports of it.
    made = [name for name in exported if getattr(getattr(package, name), "__module__", "") == module.__name__]
    names = getattr(module, "__all__", made)
    entries = []
    for name in names:
        value = getattr(module, name)
        if is_type_alias(value):
            continue
        if name in exported and getattr(package, name) is value:
            entries.append(_entry(value, f"{package.__name__}.{name}", package))
        elif package is module or word == "derive" or name.startswith("derive_"):
            entries.append(_entry(value, f"{module.__name__}.{name}", package))
    return module.__name__, word in exported, entries


def _parts(package):
    """Return the modules of a package that have entries, or something to say on how they work."""
    if not hasattr(package, "__path__"):
        return [_part(package, package)]
    inside = (
        m.name for m in pkgutil.iter_modules(package.__path__, package.__name__ + ".") if m.name[-1] != "_"
    )
    modules = [importlib.import_module(name) for name in inside]
    parts = [_part(package, module) for module in modules]
    parts = [part for part, m in zip(parts, modules, strict=True) if part[2] or "\n" in (m.__doc__ or "")]
    # Modules of which the package exports nothing, derivations and methods, come last.
    parts.sort(key=lambda part: all(target.startswith(part[0] + ".") for _, target, _ in part[2]))
    elsewhere = {target for part in parts for _, target, _ in part[2]}
    own = [entry for entry in _part(package, package)[2] if entry[1] not in elsewhere]
    return [(package.__name__, False, own), *parts]


def _packages():
    for layer in LAYERS:
        top = importlib.import_module(f"{project}.{layer}")
        yield from public_modules(top)


# What the template `module.rst` needs to know of each package.
autosummary_context = {"parts": {package.__name__: _parts(package) for package in _packages()}}
# Packages that export nothing themselves list those that they hold.
autosummary_context["below"] = {
    above: [
        name.rpartition(".")[2] for name in autosummary_context["parts"] if name.rpartition(".")[0] == above
    ]
    for above in {name.rpartition(".")[0] for name in autosummary_context["parts"] if name.count(".") == 3}
}


# --- Formulas ----------------------------------------------------------------------------------------------


# What the converter leaves to be mended: the letters of a name are one identifier, a function is set off from
# its argument, bars and slashes have no space, and browsers do not know spaces by name.
MENDING = (
    (r'(?:<mi mathvariant="normal">\w</mi>){2,}', lambda m: f"<mi>{re.sub('<[^>]+>', '', m[0])}</mi>"),
    (r"<mo>([A-Za-z]{2,})</mo>", r"<mi>\1</mi>"),
    (r'<mo stretchy="false">&#x0007C;</mo>', '<mo stretchy="false" lspace="0" rspace="0">|</mo>'),
    (r"<mo>&#x0002F;</mo>", '<mo lspace="0" rspace="0">/</mo>'),
    (r"<mi>&#x0007E;</mi>", "<mo>&#x0223C;</mo>"),
    (r"(?<!<msu[bp]>)(<mi>(?:log|ln|cos|arcsin|max|min)</mi>)(?!<mo)", r'\1<mspace width="0.167em" />'),
    (r'width="negativethinmathspace"', 'width="-0.167em"'),
)


def mathml(latex, display="inline"):
    """Return a formula as MathML, which browsers draw by themselves: no script, no font from the network."""
    if "\\\\" in latex and "\\begin" not in latex:
        latex = rf"\begin{{split}} {latex} \end{{split}}"
    formula = convert(latex, display=display)
    for pattern, mended in MENDING:
        formula = re.sub(pattern, mended, formula)
    return formula


def _inline(writer, node):
    writer.body.append(mathml(node.astext()))
    raise SkipNode


def _block(writer, node):
    writer.body.append(f'<div class="formula">{mathml(node.astext(), "block")}</div>\n')
    raise SkipNode


# --- Plain text --------------------------------------------------------------------------------------------


def _bar(inliner, match, line):
    """Take a bar as it is: docstrings write norms as |W|, and nothing here is a substitution."""
    return match.string[: match.end("start")], [], match.string[match.end("start") :], []


Inliner.dispatch["|"] = _bar


def _first_line(docstring, settings):
    """Return the summary of a docstring, one line here: Sphinx would end it after "Fig."."""
    return next((line.strip() for line in docstring if line.strip()), "")


autosummary.extract_summary = _first_line


def _without_paths(app, what, name, value, options, signature, returns):
    """Leave the path of this machine out of a signature whose default is a folder of the package."""
    return re.sub(r"\w*Path\('[^']*'\)", "...", signature or "") or signature, returns


def _figures(app):
    """Draw made/NAME.svg by the block of code that is printed with it and saves NAME.png."""
    import contextlib
    import textwrap

    import matplotlib

    matplotlib.use("agg")
    for page in HERE.glob("*.rst"):
        text = page.read_text(encoding="utf-8")
        for block in re.findall(r"code-block:: python\n\n((?:   .*\n|\n)+)", text):
            saved = re.findall(r'"(\w+)\.png"', block)
            if any(f"figure:: made/{name}.svg" in text for name in saved):
                with (
                    contextlib.chdir(HERE / "made"),
                    no_status_line(),
                ):  # a line of progress would count as a warning
                    exec(textwrap.dedent(block).replace(".png", ".svg"), {})


def _interface(app, exception):
    """Write the whole interface beside the pages, as one text that language models read."""
    if exception is None and app.builder.format == "html":
        from superposition.validate.cli.interface import describe_interface

        (Path(app.outdir) / "llms.txt").write_text(describe_interface(), encoding="utf-8")


def setup(app):
    """Register what draws figures and formulas, and what cleans the signatures."""
    app.connect("builder-inited", _figures)
    app.connect("build-finished", _interface)
    app.connect("autodoc-process-signature", _without_paths)
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_block, None))

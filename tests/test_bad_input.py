"""Bad input to every public function: each call refuses it by name, or answers well.

A valid call of each function is taken from its docstring, or from the tables below. One argument after the
other is then replaced by something absurd. What may happen: a `ValueError` or `TypeError` that names an
argument in backquotes, finite numbers, or a result whose status says what went wrong. A warning, another
exception, nan or inf that no docstring mentions, more than ten seconds of processor time, a file outside of
the working folder, and a number made of what is none are faults.
"""

import contextlib
import dataclasses
import doctest
import faulthandler
import functools
import importlib
import inspect
import io
import itertools
import os
import random
import re
import resource
import shutil
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

import superposition
from superposition import solvers, theory, validate
from superposition.solvers import statistics
from superposition.theory.lazy import public_modules
from superposition.validate import ledger
from superposition.validate.experiments import atlas
from superposition.validate.experiments.codes.structure import code_structure
from superposition.validate.reference import read, run_datasets
from superposition.validate.reference.read import REFERENCE
from superposition.validate.runner import cache, declarations

SECONDS = 10
LATE = f"takes more than {SECONDS} s"
# Calls of the two lower layers, and of the upper one.
ORDINARY, MANY = (1000, 250), (10_000, 10_000)
# What a call may take beside what is there: sizes without memory must be refused before they are made.
SPARE_BYTES = 8 * 2**30

LOWER = {
    package.__name__.partition(".")[2]: package
    for layer in (theory, solvers)
    for package in public_modules(layer)
    if hasattr(package, "__path__") or package is statistics
}
UPPER = {
    package.__name__.partition(".")[2]: package
    for package in public_modules(validate)
    if not package.__name__.startswith("superposition.validate.api")
}
UPPER["sp"] = superposition
PACKAGES = LOWER | UPPER

# Valid calls where the docstring shows none, or one that takes more than a tenth of a second. They see what
# the function's own module sees, and `np`.
_PAIR = "Features(2, 0.1)"
CALLS: dict[str, str] = {
    "solvers.codes.lines": "lines(['triangle'], low=0.8, tol=0.1)",
    "solvers.noise.descend": "descend(np.eye(3), 'normal', 0.1, 0.01, 20, 0)",
    "solvers.relu.pair_transitions": "pair_transitions([0.2], lowest=0.5)",
    "solvers.rug.RugMatrix.matvec": "(np.ones(4))",
    "solvers.unequal.realise_blocks": f"realise_blocks(block_optimum({_PAIR}, 0.5, starts=1), {_PAIR}, 8)",
    "theory.features.Values.nodes": "()",
    "solvers.sparsification.limit_law": "limit_law([1.0], 0.1, 100, 0.9)",
}

# Calls in validate see `A`, axes, too, and write to the working folder. Experiments are small ones.
_ONE_CLAIM = "CheckedClaim(CLAIMS[0], Evidence('x', [], {}), 0.0)"
_FIGURE = "Figure('a', 'b', 'c', xr.Dataset(), lambda ds, ax: ax)"
# Keys leave out "validate." and the packages of `_CONTAINERS`.
SHORT = {
    "atlas.export": "export('n2-m1-p0.1-equal-tied', path='model.npz')",
    "atlas.make": "make(folder='atlas', problems=[Problem(2, 1, 0.1, 'equal', True)], progress=len)",
    "files.error_text": "error_text(ValueError('x'))",
    "files.exclusive_folder": "exclusive_folder(HERE / 'filled')",
    "files.quoted_path": "quoted_path('a.nc')",
    "files.refuse_same_file": "refuse_same_file('page.html', dict(model='model.npz'))",
    "page.slug": "slug('Holds, up to constants')",
    "commands.expected_seconds": "expected_seconds(select_runs(['rug.curves'])[0])",
    "files.require_same_settings": "require_same_settings('out', 'here', dict(p=0), dict(p=0), 'x')",
    "audit.audit": "audit(dict(W=np.eye(2)), 0.3, layout='rows', steps=3, starts=1, seconds=0.0)",
    "audit.read": "read(dict(W=np.ones((3, 2)), b=np.zeros(3)), None, None)",
    "audit.state_of": "state_of(dict(W=np.eye(2)))",
    "loading.load": "load(dict(W=np.ones((3, 2)), b=np.zeros(3)))",
    "loading.state_of": "state_of(dict(W=np.eye(2)))",
    "certificates.alignment_certificate": "alignment_certificate(2, 1, '1/4', '1/100', path='pair.json')",
    "certificates.certify": "certify([[1], [-1]], [0, 0], '1/10', '1/299', path='pair.json')",
    "certificates.check": "check(CERTIFICATE)",
    "certificates.lean_goal": "lean_goal(CERTIFICATE)",
    "certificates.learning_certificate": (
        "learning_certificate([[1.01], [-1.01]], [[1.01, -1.01]], [0.02, 0.02], 0.3, path='one.json')"
    ),
    "certificates.pentagon_certificate": "pentagon_certificate(path='pentagon.json')",
    "certificates.network_certificate": "network_certificate(2, 1, '1/10', path='network.json')",
    "certificates.wiring_certificate": "wiring_certificate(2, 1, '1/4', path='wiring.json')",
    "ledger.as_record": f"as_record({_ONE_CLAIM})",
    "ledger.from_record": f"from_record(CLAIMS[0], as_record({_ONE_CLAIM}))",
    "ledger.judge": "judge(CLAIMS[0], ResultCache(HERE))",
    "ledger.judge_or_recall": "judge_or_recall(ResultCache(HERE), 'E4')",
    "ledger.run": "run(['E4'])",
    "ledger.store": f"store([{_ONE_CLAIM}], '2026-01-01', path=HERE / 'claims.json')",
    "ledger.text": f"text([{_ONE_CLAIM}], width=72)",
    "cli.main": "main(['predict', 'rug', '--p', '0.1', '--ratio', '0.5'])",
    "codes.run_departure": "run_departure(8, [(0.1, 0.5)], steps=3)",
    "codes.run_hessian": "run_hessian([(0.1, 0.5)], [8], frequencies=64)",
    "codes.run_pair": "run_pair([0.05], starts=1)",
    "codes.run_polished": "run_polished(4, [0.2], [0.5], [0], train_steps=5, steps=2)",
    "codes.run_structure": "run_structure(8, [0.2], [0.5], [0], steps=5, device='cpu')",
    "codes.run_envelope": "run_envelope(size=2, codes=['pair'])",
    "codes.run_known": "run_known(HERE)",
    "codes.run_lines": "run_lines(['triangle'], lowest=0.8, tol=0.1)",
    "collisions.run_cooccurrence": "run_cooccurrence(4, 4, [0.16], [0.1], [0], time=0.1, device='cpu')",
    "collisions.run_printed": "run_printed([8], [0], n_features=4, steps=[5], device='cpu')",
    "relu.run_phases": "run_phases(2, 2)",
    "relu.run_polygons": "run_polygons([0.1], [3], [3], starts=1)",
    "sparsification.run_agreement": "run_agreement(8, 0.02, runs=2)",
    "linear.run_representation": "run_representation(3, 1, [0.3], runs=1, steps=5)",
    "unequal.run_blocks": "run_blocks(sizes=[8], seeds=[0, 1], starts=1)",
    "unequal.run_bracket": "run_bracket([1.0], [0.5], [1.0], n_features=20)",
    "unequal.run_codes": "run_codes([1.0], [0.5], [1.0], n_features=20)",
    "unequal.run_descended": "run_descended([1.0], [1], n_features=4, train_steps=5, batch=16, steps=2)",
    "unequal.run_width": "run_width([1.0], [1], n_features=4, tied=[0], steps=[5], seeds=[0], batch=16)",
    "sp.audit": "audit(np.array([[1.0], [-1.0]]), 0.3, starts=1, steps=3, seconds=0.0)",
    "sp.best": "best(Features(2, 0.3), 1, starts=1)",
    "sp.explore": "explore('page.html')",
    "sp.sweep": "sweep(lambda p: p, dict(p=[0.1]))",
    "sp.phases": "phases(grid=dict(sparsity=[0.1], importance=[0.5]))",
    "sp.predict": "predict(Features(3, 0.3), 2)",
    "drawing.draw_estimates": "draw_estimates(A, [1.0, 2.0], [Estimate(0.1, 0.0, 0.2, 0.95, 3)] * 2)",
    "drawing.draw_interference": "draw_interference(A, np.eye(2), np.eye(2))",
    "drawing.draw_means": "draw_means(A, [1.0, 2.0], np.array([[1.0, 2.0], [2.0, 3.0]]))",
    "drawing.finish_axes": "finish_axes(A, legend=None)",
    "drawing.size_axis": "size_axis(A, [8, 16])",
    "drawing.svg": f"svg({_FIGURE})",
    "execute.check_settings": "check_settings(len, dict(obj=[]))",
    "explorer.explore": "explore('page.html')",
    "files.digest": "digest(HERE / 'x')",
    "files.output_file": "output_file('x')",
    "files.page_file": "page_file('x.html')",
    "files.output_folder": "output_folder(HERE)",
    "files.read_arrays": "read_arrays(ARRAYS)",
    "files.read_dataset": "read_dataset(STORED)",
    "files.write_marker": "write_marker(HERE)",
    "files.atomic_write": "atomic_write('x')",
    "files.write_arrays": "write_arrays('x.npz', dict(a=np.eye(2)))",
    "files.write_dataset": "write_dataset('x.nc', xr.Dataset(dict(a=1.0)))",
    "files.write_tables": "write_tables('x.csv', xr.Dataset(dict(a=1.0)))",
    "files.write_text": "write_text('x.txt', 'text')",
    "gallery.write_gallery": "write_gallery('gallery', ['rug'])",
    "provenance.add_run": "add_run(path=BRACKET)",
    "provenance.full_settings": "full_settings(shipped_runs()['codes.lines'], {})",
    "commands.make_runs": "make_runs([], out='runs')",
    "ledger.stored_verdicts.store": "store([], ['C1'], path=HERE / 'claims.json')",
    "cache.ResultCache": "ResultCache(HERE)",
    "cache.ResultCache.load_pieces": "('rug.curves')",
    "cache.ResultCache.is_available": "('rug.curves')",
    "cache.ResultCache.piece_settings": "('rug.curves')",
    "cache.ResultCache.missing_pieces": "('rug.curves')",
    "cache.ResultCache.run_piece": "('rug.curves', 0)",
    "cache.ResultCache.digest": "('rug.curves')",
    "cache.ResultCache.store_note": "('x', ['rug.curves'], 1)",
    "cache.ResultCache.read_note": "('x', ['rug.curves'])",
    "declarations.Run.shipped": "('a', 'b', len)",
    "declarations.Run.settings": "('quick', 0)",
    "declarations.Run.piece_settings": "('quick', 0)",
    "declarations.Run.pieces": "({})",
    "declarations.Topic.run_names": "('rug')",
    "declarations.Topic.content": "(xr.Dataset({'loss': ('p', [0.25])}))",
    "findings.Criterion.finding": "([0.1])",
    "findings.Criterion.satisfied": "([0.1])",
    "solvers.statistics.Family.of": "(mean, [1.0, 2.0])",
    "registry.find_run": "find_run('rug.curves')",
    "cache.plan_tasks": "plan_tasks(ResultCache(HERE), [])",
    "registry.load_section": "load_section('rug')",
    "linear.descend": "descend([[0.5]], [[0.5]], [[1.0]], 0.1, [1, 2])",
    "noise.run_agreement": "run_agreement(2, 3, steps=10, runs=2)",
    "noise.run_drop": "run_drop(2, 2, (0.2,), (0.1,), 1.0, 2)",
    "noise.run_fig4": "run_fig4(4, 4, (0.2,), steps=200, runs=2, points=4, averaged_time=1.0)",
    "noise.run_fig5": "run_fig5(3, 4, (0.01, 0.1), (0.1, 0.2), steps=(20, 50), runs=2)",
    "noise.run_fig6": "run_fig6(3, 4, steps=20, runs=1, settle=1.0)",
    "noise.run_mechanism": "run_mechanism(2, 4, time=2.0, runs=2, lone_runs=2, averaged_runs=1)",
    "noise.run_stuck": "run_stuck((3, 4), 4, time=1.0, runs=2, settle=1.0)",
    "noise.curvature": "curvature(np.eye(2), 'normal', 0.1)",
    "noise.symmetric_minimum": "symmetric_minimum(3, 0.1, spread=True)",
    "page.badges": "badges({})",
    "page.render_figure": f"render_figure({_FIGURE}, 'a', '<svg></svg>')",
    "page.errata": f"errata([{_ONE_CLAIM}])",
    "page.judged_on": f"judged_on([{_ONE_CLAIM}])",
    "page.ledger": f"ledger([{_ONE_CLAIM}])",
    "page.page": "page('a', 'b', [('c', 'd')], script=False)",
    "page.paragraphs": "paragraphs('a')",
    "build.run_facts": "run_facts('quick', 0, 1.0, 1)",
    "build.render_page": "render_page([], [], [('a', 'b')])",
    "build.write_report": "write_report('report', only='rug.theory')",
    "build.write_topic": "write_topic(HERE, 'rug', 'theory', TopicContent('a'))",
    "rug.run_bias": "run_bias(0.1, [0.25], [0.0])",
    "rug.run_checked": "run_checked(8, [0.1], [0.5], [0], steps=2, samples=64)",
    "rug.run_finite_size": "run_finite_size(0.1, 0.25, [16], draws=2, samples=8)",
    "rug.run_theory": "run_theory([0.1], [0.25])",
    "rug.run_trained": "run_trained(8, [0.1], [0.5], [0], steps=2, evaluation_samples=64, device='cpu')",
    "solvers.statistics.crossing": "crossing([0.0, 1.0], np.array([[1.0, -1.0], [0.5, -1.0]]))",
    "solvers.statistics.growth_power": "growth_power([1.0, 2.0])",
    "read.load": "load('codes_lines')",
    "read.read": "read('codes_lines')",
    "read.read_runs": "read_runs('codes_lines')",
    "run_datasets.combine_runs": "combine_runs(dict(a=RUN), ['x'])",
    "run_datasets.extract_run": "extract_run(RUN, '')",
    "run_datasets.read_facts": "read_facts(RUN)",
    "sweep.open": "open('no.zarr')",
    "sweep.run": "run(abs, dict(x=[1.0]), store='sweep.zarr', jobs=1)",
    "tasks.dask_pool": "dask_pool('127.0.0.1:1')",
    "tasks.run_tasks": "run_tasks([], 1, len)",
    "tasks.process_pool": "process_pool(1)",
    "tasks.dispatch": "dispatch(lambda k: None, len, process_pool(1))",
    "training.models_at": "models_at(TRAINED, 0.05, 0.25)",
    "rug.with_theory": "with_theory(TRAINED, 'trained')",
    "training.train": "train(8, [4], [0.1], [0], steps=2, evaluation_samples=64, device='cpu')",
}
_CONTAINERS = ("experiments", "proofs", "reference", "report", "runner")


def _full_key(key: str) -> str:
    """Return a key with the packages that `SHORT` leaves out."""
    if key.startswith(("sp.", "solvers.")):
        return key
    name = key.partition(".")[0]
    above = next((one for one in _CONTAINERS if f"validate.{one}.{name}" in PACKAGES), "")
    return ".".join(filter(None, ("validate", above, key)))


CALLS |= {_full_key(key): call for key, call in SHORT.items()}
# Where the valid call takes minutes, or needs data that takes as long: it is made by other tests alone.
LONG = {
    "validate.experiments.atlas.make",
    "validate.report.gallery.write_gallery",
    "validate.report.build.write_report",
    "validate.ledger.judge",
    "validate.runner.sweep.open",
    "validate.runner.tasks.dask_pool",
}

# What the command line, or a function that is handed on, calls an argument.
OPTIONS = {
    "validate.ledger.judge_or_recall": ("name",),
    "validate.ledger.recall": ("id",),
    "validate.ledger.run": ("id",),
    "validate.ledger.select_claims": ("id",),
    "validate.runner.execute.check_settings": ("obj",),
    "validate.runner.execute.run_with_provenance": ("p", "ratio"),
    "validate.reference.files.exclusive_folder": ("out",),
    "validate.reference.files.write_marker": ("path",),
    "validate.reference.files.output_folder": ("out",),
    "validate.loading.autoencoder_of": ("model",),
    "validate.loading.load": ("model",),
    "validate.loading.model_of": ("model",),
    "validate.runner.commands.select_runs": ("name",),
    "solvers.statistics.Family.of": ("values",),
    "validate.runner.tasks.dask_pool": ("scheduler",),
    "validate.experiments.unequal.run_width": ("checkpoint",),
}

# --- Valid calls --------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Case:
    """A public function with arguments that it takes."""

    key: str
    function: Callable[..., Any]
    bound: inspect.BoundArguments | None
    documents: str


AXES = Canvas().subplots()
AXES.plot([0.0, 1.0], label="a line")


class _Seen(BaseException):
    pass


def _around(module: Any) -> dict[str, Any]:
    """Return what the calls of a module see."""
    scope: dict[str, Any] = dict(vars(module), np=np, sympy=sympy)
    if module.__name__.startswith("superposition.validate"):
        scope |= {name: getattr(ledger, name) for name in ("CLAIMS", "CheckedClaim", "Evidence")}
        scope |= {name: getattr(declarations, name) for name in ("Figure", "TopicContent")}
        scope |= {"COPY": read.REFERENCE}
        scope |= {"A": AXES, "ResultCache": cache.ResultCache, "HERE": Path.cwd(), "xr": xr}
        scope |= {"TRAINED": xr.Dataset()}
        scope |= {"Estimate": statistics.Estimate}
        facts = dict.fromkeys(run_datasets.FACTS, "")
        scope |= {
            "RUN": xr.Dataset({"loss": ("x", [0.1])}, attrs=facts),
            "BRACKET": read.REFERENCE / "unequal_bracket.nc",
        }
        scope |= {
            "STORED": REFERENCE / "codes_lines.nc",
            "ARRAYS": Path("arrays.npz"),
            "Problem": atlas.Problem,
        }
        scope |= {"CERTIFICATE": REFERENCE / "certificates" / "wiring-n2-m1-p1-4.json"}
    return scope


def _first_call(key: str, name: str, around: Any, function: Any) -> inspect.BoundArguments | None:
    """Return the arguments of the first call of the name in the examples, without making that call."""

    def seen(*args: Any, **kwargs: Any) -> Any:
        raise _Seen(args, kwargs)

    scope = _around(importlib.import_module(around.__module__))
    if inspect.isfunction(function) or inspect.isclass(function):
        scope[name] = seen
    examples = doctest.DocTestParser().get_examples(inspect.getdoc(around) or "")
    for source in [CALLS[key]] if key in CALLS else [one.source for one in examples if not one.exc_msg]:
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(source.strip(), key, "single"), scope)
        except _Seen as call:
            bound = inspect.signature(function).bind(*call.args[0], **call.args[1])
            bound.apply_defaults()
            return bound
    return None


def _with_a_dataset(function: Any) -> inspect.BoundArguments | None:
    """Return likely arguments of a function of a dataset: other tests call it with its own."""
    signature = inspect.signature(function)
    likely = {xr.Dataset: xr.Dataset(), Axes: AXES, float: 0.25, str: "loss", Path: Path.cwd()}
    kinds = {one.name: one.annotation for one in signature.parameters.values() if one.default is one.empty}
    if xr.Dataset not in kinds.values() or not likely.keys() >= set(kinds.values()):
        return None
    bound = signature.bind(**{name: likely[kind] for name, kind in kinds.items()})
    bound.apply_defaults()
    return bound


def _made_elsewhere(case: Case) -> bool:
    """Whether other tests alone make the valid call."""
    empty = [isinstance(one, xr.Dataset) and not one for one in case.bound.arguments.values()]
    return case.key in LONG or any(empty)


def cases(package_name: str) -> Sequence[Case]:
    """All public functions of a package, the classes that its users make themselves, and their methods."""
    return _lower_cases(package_name) if package_name in LOWER else tuple(_cases(package_name))


@functools.cache
def _lower_cases(package_name: str) -> Sequence[Case]:
    """Return the cases of a package that sees no folder: examples before the first call may take seconds."""
    return tuple(_cases(package_name))


def _cases(package_name: str) -> Iterator[Case]:
    package = PACKAGES[package_name]
    for name in getattr(package, "__all__", ()):
        public, key = getattr(package, name), f"{package_name}.{name}"
        if not callable(public) or not hasattr(public, "__module__"):
            continue
        bound = _first_call(key, name, public, public)
        if bound is None and inspect.isfunction(public):
            parameters = inspect.signature(public).parameters.values()
            if all(one.default is not one.empty for one in parameters):
                bound = inspect.signature(public).bind()
                bound.apply_defaults()
        if bound is None and inspect.isfunction(public):
            bound = _with_a_dataset(public)
        if bound is not None or inspect.isfunction(public):
            yield Case(key, public, bound, _documents(public))
        if inspect.isclass(public) and bound is not None:
            made = public(*bound.args, **bound.kwargs)
            for method in (one for one in vars(public) if not one.startswith("_") and one != "from_rows"):
                function = getattr(made, method)
                if inspect.ismethod(function) and inspect.signature(function).parameters:
                    words = re.search(rf"\.{method}\((.*?)\)", inspect.getdoc(function) or "")
                    text = CALLS.get(f"{key}.{method}", f"({words[1]})" if words else None)
                    given = None
                    if text is not None:
                        scope = _around(importlib.import_module(public.__module__))
                        given = eval(f"bind{text}", scope | {"bind": inspect.signature(function).bind})
                        given.apply_defaults()
                    yield Case(f"{key}.{method}", function, given, _documents(public) + _documents(function))


def _documents(public: Any) -> str:
    """Return the docstring with those of the classes that it returns."""
    returned = str(inspect.signature(public).return_annotation) if callable(public) else ""
    module = importlib.import_module(public.__module__)
    classes = [one for name, one in vars(module).items() if inspect.isclass(one) and name in returned]
    return "\n".join(inspect.getdoc(one) or "" for one in (public, *classes))


# --- Bad input ----------------------------------------------------------------------------------------------


class Tensor:
    """What torch does with a tensor that has a gradient."""

    requires_grad = True
    shape, ndim = (2, 2), 2

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad.")

    def __len__(self) -> int:
        return 2


ANYWHERE: dict[str, Any] = {
    "None": None,
    "text": "abc",
    "a number as text": "0.1",
    "True": True,
    "complex": 1j,
    "a date": np.datetime64("2020-01-01"),
    "a span of time": np.timedelta64(3, "ns"),
    "bytes": b"abc",
    "a view of bytes": memoryview(b"abc"),
    "nan": np.nan,
    "inf": np.inf,
    "-inf": -np.inf,
    "1e300": 1e300,
    "-1e300": -1e300,
    "5e-324": 5e-324,
    "10**400": 10**400,
    "-1": -1,
    "0": 0,
    "0.0": 0.0,
    "2.5": 2.5,
    "1e-150": 1e-150,
    "[]": [],
    "ragged": [[1.0, 2.0], [3.0]],
    "a dict": {},
    "objects": np.array([object(), 1.0]),
    "masked": np.ma.array([1.0, 2.0], mask=[False, True]),
    "a tensor": Tensor(),
    "three axes": np.ones((2, 2, 2)),
    "a function": len,
    "[None]": [None],
    "['a']": ["a"],
    "[True]": [True],
    "[nan]": [np.nan],
    "[-1.0]": [-1.0],
}
SIZES: dict[str, Any] = {"10**9": 10**9, "10**12": 10**12, "-10**9": -(10**9)}
# What NumPy or Python would turn into numbers: where a number is wanted, no answer may come.
NO_NUMBERS = {
    "text", "a number as text", "True", "complex", "a date", "a span of time", "bytes", "a view of bytes",
    "nan", "a dict", "objects", "masked", "a function", "[None]", "['a']", "[True]", "[nan]",
    "complex entries", "text entries", "flags", "masked of it", "dates of it", "with nan",
}  # fmt: skip
PATHS: dict[str, Any] = {
    "no name": "",
    "a folder": ".",
    "in no folder": "no/such/folder.nc",
    "a null character": "a\0b",
    "a long name": "x" * 10**6,
    "no UTF-8": "\udcff.nc",
    "a device": "/dev/full",
}
# Names as good as others.
NAMES = {"text", "a number as text", "another word", "letters", "in no folder", "a folder"}
SETS: dict[str, Any] = {"another dataset": xr.Dataset({"a": ("x", [1.0])}), "no dataset": xr.DataArray([1.0])}
WORDS: dict[str, Any] = {
    "no word": "",
    "another word": "nonsense",
    "letters": "ABC",
    "a list of words": ["a"],
}


def _arrays(value: np.ndarray) -> dict[str, Any]:
    """Spoil an array in all ways."""
    with_nan, with_inf, negative = value.copy(), value.copy(), -value
    with_nan.flat[:1], with_inf.flat[-1:] = np.nan, np.inf
    return {
        "with nan": with_nan,
        "with inf": with_inf,
        "negative": negative,
        "zeros": 0 * value,
        "all 1e300": np.full(value.shape, 1e300),
        "all 5e-324": np.full(value.shape, 5e-324),
        "times 1e150": value * 1e150,
        "times 1e-150": value * 1e-150,
        "a row less": value[1:],
        "a row more": np.concatenate([value, value[:1]]),
        "a column more": np.concatenate([value, value[..., :1]], axis=-1),
        "flat": value.ravel() if value.ndim > 1 else value[:, None],
        "an axis more": value[None, None],
        "no rows": value[:0],
        "complex entries": value + 0j,
        "text entries": value.astype(str),
        "flags": value > 0,
        "objects of it": value.astype(object),
        "masked of it": np.ma.array(value, mask=value == value.flat[0]),
        "dates of it": np.zeros(value.shape, "datetime64[s]"),
    }


# Arguments of the upper layer that ask for work, or are a seed: many of them are no bad input.
WORK = {"draws", "descents", "examples", "runs", "samples", "seed", "starts", "steps", "train_steps", "reach"}


def mutations(value: Any) -> Iterator[tuple[str, Any]]:
    """Values that are absurd in place of the valid one, each with its name."""
    pools = [ANYWHERE]
    if isinstance(value, int) and not isinstance(value, bool):
        pools.append(SIZES)
    if isinstance(value, str):
        pools.append(WORDS)
    if isinstance(value, str | Path):
        pools.append(PATHS)
    if isinstance(value, xr.Dataset):
        pools.append(SETS)
    if isinstance(value, list | tuple | np.ndarray):
        with contextlib.suppress(TypeError, ValueError):
            array = np.asarray(value, dtype=np.float64)
            if array.ndim and array.size:
                pools.append(_arrays(array))
    for pool in pools:
        for name, bad in pool.items():
            if callable(bad) and callable(value):
                continue
            if not (type(bad) is type(value) and isinstance(bad, int | float | str | None) and bad == value):
                yield name, bad


# --- What may happen ----------------------------------------------------------------------------------------


class _Late(BaseException):
    rung, spent = False, 0.0


def _ring(number: int, _: Any) -> None:
    spent = time.process_time()
    if number == signal.SIGALRM and spent > _Late.spent + 1:  # it works, on a busy machine
        _Late.spent = spent
        return
    _Late.rung = True  # also where compiled code makes another error of it
    raise _Late


def wants_numbers(case: Case, argument: str) -> bool:
    """Whether an argument is made of numbers alone."""
    value = case.bound.arguments[argument]
    kind = str(case.bound.signature.parameters[argument].annotation)
    if isinstance(value, str | bool) or re.search(r"\b(Features|None|Any|str\]|tuple|Model|dict)\b", kind):
        return False
    if isinstance(value, int | float | np.ndarray):
        return True
    return (
        isinstance(value, list | tuple)
        and bool(_leaves(value))
        and all(isinstance(one, int | float) and not isinstance(one, bool) for one in _leaves(value))
    )


def _leaves(value: Any) -> list[Any]:
    return [leaf for one in value for leaf in _leaves(one)] if isinstance(value, list | tuple) else [value]


def outcome(case: Case, argument: str | None = None, name: str = "", bad: Any = None) -> str:
    """Call, with one bad argument if one is named; return what is wrong with what happens, or nothing."""
    given = dict(case.bound.arguments)
    if argument is not None:
        several = case.bound.signature.parameters[argument].kind is inspect.Parameter.VAR_POSITIONAL
        given[argument] = (bad,) if several else bad
    bound = inspect.BoundArguments(case.bound.signature, given)  # type: ignore[arg-type]
    names = "|".join((*case.bound.signature.parameters, *OPTIONS.get(case.key, ())))
    _Late.rung, _Late.spent = False, time.process_time()
    signal.signal(signal.SIGPROF, _ring)
    signal.signal(signal.SIGALRM, _ring)
    # Processor time, which other work on the machine does not lengthen. A valid call may take longer.
    signal.setitimer(signal.ITIMER_PROF, SECONDS if argument else 0)
    waits = 10 * SECONDS if argument else 0
    signal.setitimer(signal.ITIMER_REAL, waits, waits)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = case.function(*bound.args, **bound.kwargs)
        if argument is not None and name in NO_NUMBERS and wants_numbers(case, argument):
            return f"makes a number of it: {found!r}"[:200]
        return _trouble(found, case.documents)
    except _Late:
        return LATE
    except SystemExit as end:  # of a command, which has said why
        return "" if end.code == 2 else f"ends with {end.code!r}"
    except Exception as error:
        # what a function of the user raises is passed on, with a note that names its argument
        notes = "\n".join(getattr(error, "__notes__", ()))
        if _Late.rung:
            return LATE
        words = str(error) if isinstance(error, ValueError | TypeError) else ""
        if re.search(rf"`({names})\b", f"{words}\n{notes}"):
            return ""
        return f"does not name an argument: {type(error).__name__}: {error}"[:200].replace("\n", " ")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


def _trouble(found: Any, documents: str) -> str:
    """Say what is not finite in a result, unless a status or a docstring owns up to it."""
    status = getattr(found, "status", None)
    if isinstance(status, Enum) and not getattr(status, "good", True):
        return ""
    if dataclasses.is_dataclass(found):
        parts = [(field.name, getattr(found, field.name)) for field in dataclasses.fields(found)]
        documents += inspect.getdoc(type(found)) or ""
        documents += inspect.getsource(type(found)) if "__dataclass_fields__" in vars(type(found)) else ""
    elif isinstance(found, dict):
        parts = list(found.items())
    elif isinstance(found, list | tuple):
        parts = list(enumerate(found))
    else:
        if isinstance(found, float | np.floating | np.ndarray) and np.asarray(found).dtype.kind in "fc":
            if np.any(np.isnan(found)) and not re.search(r"\bnan\b|\bNaN\b", documents):
                return "gives nan"
            if np.any(np.isinf(found)) and not re.search(r"\binf\b|infinit", documents):
                return "gives inf"
        return ""
    for name, part in parts:
        trouble = _trouble(part, documents)
        if trouble:
            return f"{name}: {trouble}"
    return ""


# --- The tests ----------------------------------------------------------------------------------------------


def _end_at_last() -> None:
    """End the process in ten minutes, should a compiled loop never come back; each call begins them anew."""
    faulthandler.dump_traceback_later(600, exit=True, file=sys.__stderr__)


@contextlib.contextmanager
def _limits() -> Iterator[None]:
    """Bound the memory, and end the process should a compiled loop never come back."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + SPARE_BYTES, hard))
    _end_at_last()
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _is_asked_for(case: Case, argument: str, name: str, value: Any) -> bool:
    """Whether a value is no bad input: much work, the default, or another name for the files of long work."""
    default = case.bound.signature.parameters[argument].default
    is_default = value is default or (isinstance(value, str | int | float) and value == default)
    is_named = isinstance(case.bound.arguments[argument], str | Path) and name in NAMES
    long = case.key in LONG
    return is_default or (long and is_named) or (name in SIZES and argument in WORK)


def all_calls(package: str) -> list[list[tuple[Case, str, str, Any]]]:
    """Return the bad calls of each function."""
    return [
        [
            (case, argument, name, bad)
            for argument, value in case.bound.arguments.items()
            if case.bound.signature.parameters[argument].kind is not inspect.Parameter.VAR_KEYWORD
            for name, bad in mutations(value)
            if not (package in UPPER and _is_asked_for(case, argument, name, bad))
        ]
        for case in cases(package)
        if case.bound is not None and case.bound.arguments
    ]


def chosen(package: str, calls: tuple[int, int], seed: int) -> Iterator[tuple[Case, str, str, Any]]:
    """Draw the package's share of so many calls of its layers, spread evenly over its functions."""
    layer_packages, all_of_them = (LOWER, calls[0]) if package in LOWER else (UPPER, calls[1])
    sizes = {name: len(getattr(one, "__all__", ())) for name, one in layer_packages.items()}
    share = -(-all_of_them * sizes[package] // sum(sizes.values()))
    draw = random.Random(f"{package} {seed}")
    functions = [draw.sample(one, len(one)) for one in all_calls(package)]
    turns = itertools.zip_longest(*functions)
    yield from itertools.islice((call for turn in turns for call in turn if call is not None), share)


@functools.cache
def at_first(package: str) -> dict[str, str]:
    """Return what is wrong with the valid call of each function, but for derivations.

    Those take seconds, and `theory/test_derivations.py` makes all of them.
    """
    called = [
        one for one in cases(package) if one.bound and "derive_" not in one.key and not _made_elsewhere(one)
    ]
    found = {}
    for one in called:
        _end_at_last()
        found[one.key] = outcome(one)
    return found


def _faults(package: str, calls: tuple[int, int], seed: int) -> list[str]:
    drawn = list(chosen(package, calls, seed))
    with _limits():
        if package in LOWER or calls is MANY:
            at_first(package)  # compiles what the others use
        return [
            f"{case.key}({argument}={name}): {wrong}"
            for case, argument, name, bad in drawn
            if (wrong := _twice(case, argument, name, bad))
        ]


def _twice(case: Case, argument: str, name: str, bad: Any) -> str:
    """Return what is wrong with a call; one that is late is made again, as it may have compiled kernels."""
    _end_at_last()
    found = outcome(case, argument, name, bad)
    return outcome(case, argument, name, bad) if found == LATE else found


def _around_the_folder(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the size and the time of each file of the package and beside the working folder."""
    found = {}
    for root in (folder.parent, Path(theory.__file__).parents[1]):
        for at, below, names in os.walk(root):
            below[:] = [one for one in below if one[0] not in "._" and Path(at, one) != folder]
            found |= {f"{at}/{one}": os.stat(f"{at}/{one}") for one in names}
    return {name: (one.st_size, one.st_mtime_ns) for name, one in found.items()}


def _stored_copy(folder: Path) -> Path:
    """Return a folder with what `provenance` writes, copied, and links to the other stored files."""
    folder.mkdir()
    for path in REFERENCE.iterdir():
        if path.name in (read.SUMS, "README.md", "unequal_bracket.nc"):
            shutil.copy(path, folder)
        elif path.suffix == ".nc":
            (folder / path.name).symlink_to(path)
    return folder


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Work in a folder of one's own; nothing outside of it may change."""
    inside = tmp_path / "inside"
    inside.mkdir()
    np.savez(inside / "arrays.npz", a=np.eye(2))
    monkeypatch.chdir(inside)
    monkeypatch.setattr(read, "REFERENCE", _stored_copy(inside / "reference"))
    monkeypatch.setattr("sys.argv", ["superposition"])
    before = _around_the_folder(inside)
    yield inside
    assert _around_the_folder(inside) == before


@pytest.mark.parametrize("package", PACKAGES)
def test_every_function_has_a_valid_call(package):
    assert [case.key for case in cases(package) if case.bound is None] == []


@pytest.mark.parametrize("package", LOWER)
def test_the_valid_calls_are_answered(package):
    with _limits():
        assert [f"{key}: {trouble}" for key, trouble in at_first(package).items() if trouble] == []


@pytest.mark.slow
@pytest.mark.parametrize("package", UPPER)
def test_the_valid_calls_of_the_upper_floor_are_answered(package):
    with _limits():
        assert [f"{key}: {trouble}" for key, trouble in at_first(package).items() if trouble] == []


@pytest.mark.parametrize("package", LOWER)
def test_bad_input_is_refused_by_name_or_answered_well(package):
    assert _faults(package, ORDINARY, seed=0) == []


@pytest.mark.slow
@pytest.mark.parametrize("package", LOWER)
def test_much_bad_input_is_refused_by_name_or_answered_well(package, random_seed):
    assert (random_seed, _faults(package, MANY, random_seed)) == (random_seed, [])


def _above(calls: tuple[int, int], seed: int) -> list[str]:
    """Return the faults of the upper layer; none is a call without end, or a number made of what is none."""
    found = [fault for package in UPPER for fault in _faults(package, calls, seed)]
    assert (
        seed,
        [fault for fault in found if LATE in fault or " makes a number " in fault],
    ) == (
        seed,
        [],
    )
    return found


def test_bad_input_of_the_upper_floor_is_nearly_always_refused_by_name():
    found = _above(ORDINARY, seed=0)
    assert len(found) < 0.01 * ORDINARY[1], found


@pytest.mark.slow
def test_much_bad_input_of_the_upper_floor_is_nearly_always_refused_by_name(random_seed):
    found = _above(MANY, random_seed)
    assert len(found) < 0.01 * MANY[1], (random_seed, found)


# --- Single calls -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1e-200, 1.0, 1e200, 1e308])
def test_the_structure_of_a_matrix_has_no_scale(size):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert code_structure(np.eye(4) * size) == code_structure(np.eye(4))

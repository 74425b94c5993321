"""Each finding of the ledger can fail: it is judged in wrong worlds, and seen to fail in one at least.

A world is wrong in one thing. Its data are wrong, or a function of ours that a check calls, a helper of the
check's module, a function of SymPy or SciPy that does the check's work, or, last, one number or sign of a
formula that stands in the check itself. What is said, limits and statistics stay right. Only a finite number
against the limit of the right world counts; a check that raises in a wrong world counts for nothing.
"""

import ast
import copy
import dataclasses
import functools
import inspect
import itertools
import json
import math
import re
import sys
import types
from fractions import Fraction

import numpy as np
import pytest
import sympy
import xarray as xr

from superposition.validate.ledger import select_claims
from superposition.validate.ledger.claim import claim, evidence
from superposition.validate.runner import cache
from superposition.validate.runner.findings import numeric, rounding


def _places(x):
    return np.arange(np.size(x)).reshape(np.shape(x))


def _whole(x):
    return np.copysign(np.ceil(np.abs(x)), x)


# Wrong numbers, and wrong expressions.
WRONG = {
    "shifted": (lambda x: x + 0.3 * (1 + abs(x)), lambda x: x + sympy.Rational(3, 7)),
    "larger": (lambda x: 1.5 * x, lambda x: 3 * x / 2),
    "negated": (lambda x: -x, lambda x: -x),
    "lower": (lambda x: x - 0.3 * (1 + abs(x)), lambda x: x - sympy.Rational(3, 7)),
    "uneven": (lambda x: x * (1 + 0.4 * np.cos(1 + 2.4 * _places(x))), lambda x: x + sum(x.free_symbols)),
    "steeper": (lambda x: x * abs(x), lambda x: x**2),
    "tiny": (lambda x: 0.01 * x, lambda x: x / 100),
    "huge": (lambda x: 100 * x, lambda x: 100 * x),
    "nothing": (lambda x: 0.0 * x, lambda x: 0 * x),
}


def _wrong_array(value, how):
    if value.dtype.kind in "iu":
        return _whole(WRONG[how][0](value.astype(float))).astype(value.dtype)
    if value.dtype.kind == "b":
        return value ^ (how == "negated")
    return WRONG[how][0](value) if value.dtype.kind in "fc" else value


def _wrong_sequence(value, how):
    made = [wrong(one, how) for one in value]
    return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)


# By type, the first that fits.
RULES = [
    ((bool, np.bool_), lambda value, how: not value if how == "negated" else value),
    ((int, np.integer), lambda value, how: type(value)(_whole(WRONG[how][0](float(value))))),
    ((float, complex, np.inexact), lambda value, how: WRONG[how][0](value)),
    (Fraction, lambda value, how: Fraction(WRONG[how][0](float(value))).limit_denominator(10**6)),
    (np.ndarray, _wrong_array),
    ((type, sympy.Symbol), lambda value, how: value),
    (sympy.MatrixBase, lambda value, how: value.applyfunc(WRONG[how][1])),
    (sympy.Expr, lambda value, how: WRONG[how][1](value)),
    (xr.Dataset, lambda value, how: value.map(wrong, keep_attrs=True, how=how)),
    (xr.DataArray, lambda value, how: value.copy(data=wrong(value.values, how))),
    ((tuple, list), _wrong_sequence),
    (dict, lambda value, how: {key: wrong(one, how) for key, one in value.items()}),
]


def wrong(value, how):
    """Return a value with all its numbers wrong, in a copy; words, symbols and types stay."""
    for kinds, rule in RULES:
        if isinstance(value, kinds):
            return rule(value, how)
    if dataclasses.is_dataclass(value):
        made = copy.copy(value)
        for one in dataclasses.fields(value):
            object.__setattr__(made, one.name, wrong(getattr(value, one.name), how))
        return made
    if callable(value):
        return lambda *args, **kwargs: wrong(value(*args, **kwargs), how)
    return value


class Wrong:
    """An object of which all numbers are wrong that it gives."""

    def __init__(self, value, how):
        self._value, self._how = value, how

    def __getattr__(self, name):
        return wrong(getattr(self._value, name), self._how)


class Instead:
    """A module of which one name means something else."""

    def __init__(self, module, name, value):
        self._module, self._changed = module, {name: value}

    def __getattr__(self, name):
        return self._changed[name] if name in self._changed else getattr(self._module, name)


def names_of(own, module):
    """Return the global names of functions and of the helpers that it calls, with the code that has them."""
    found, todo = {}, [*own]
    while todo:
        function = inspect.unwrap(todo.pop())
        codes = [function.__code__]
        for code in codes:
            codes += [one for one in code.co_consts if isinstance(one, types.CodeType)]
        used = {name for code in codes for name in code.co_names}
        for name in used & set(vars(module)):
            helper = inspect.unwrap(value) if callable(value := vars(module)[name]) else None
            own_one = isinstance(helper, types.FunctionType) and helper.__module__ == module.__name__
            if own_one and name not in found:
                todo.append(helper)
            found.setdefault(name, set()).update(used)
    return found


# What of SymPy and NumPy does the work of a check; of SciPy all does.
ENGINE = {"sp": {"integrate", "diff", "limit", "series", "solve", "Sum"}, "np": {"linalg"}}


def functions(own, module):
    """List what these functions call, as kind and path of names from their module."""
    found = []

    def look(path, value, used):
        home = getattr(value, "__name__" if isinstance(value, types.ModuleType) else "__module__", None) or ""
        if path[-1] in ENGINE or isinstance(value, types.ModuleType):
            if path[-1] in ENGINE or home.startswith(("superposition", "scipy", "numpy.linalg")):
                for name in sorted(used & ENGINE.get(path[-1], used)):
                    if hasattr(value, name):
                        look((*path, name), getattr(value, name), used)
        elif callable(value):
            if home == module.__name__:
                found.append(("helper", path))
            elif home.startswith("superposition."):
                if not home.endswith(("ledger.claim", "findings", "statistics")):
                    found.append(("theory", path))
            elif len(path) > 1 or home.startswith("scipy") or isinstance(value, np.ufunc):
                found.append(("engine", path))

    for name, used in sorted(names_of(own, module).items()):
        look((name,), vars(module)[name], used)
    return found


def instead(module, path, how):
    """Return the value that makes the function of this path wrong, for its first name in the module."""
    outer = [vars(module)[path[0]]]
    for name in path[1:]:
        outer.append(getattr(outer[-1], name))
    right = outer.pop()

    def value(*args, **kwargs):
        if isinstance(right, type):
            return Wrong(right(*args, **kwargs), how)
        if how in WRONG:
            return wrong(right(*args, **kwargs), how)
        others = [wrong(np.asarray(one) if isinstance(one, list) else one, "uneven") for one in args]
        return right(*others, **kwargs)

    for name in path[:0:-1]:
        value = Instead(outer.pop(), name, value)
    return {path[0]: value}


# Which argument of a call is a formula; the others are words and limits.
FORMULA = {"corrected_statement": slice(1, None), "evidence": slice(1, None), "in_range": slice(2, 3)}
SECOND = "symbolic", "numeric", "searched", "experiment", "confirmed", "not_refuted", "_run"
FORMULA |= dict.fromkeys(SECOND, slice(1, 2))
FORMULA |= dict.fromkeys(("derived", "rounding", "preregistered", "post_hoc", "Family"), slice(0))
# A difference of two routes stays one.
OTHER = {ast.Add: ast.Sub, ast.Mult: ast.Div, ast.Div: ast.Mult}


def formulas(node):
    """Find the numbers and operations of formulas."""
    if isinstance(node, ast.JoinedStr | ast.Slice):
        return
    children = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in FORMULA:
        children = [one for one in node.args[FORMULA[node.func.id]] if not isinstance(one, ast.Starred)]
    elif isinstance(node, ast.Subscript):
        children = [node.value]
    elif isinstance(node, ast.BinOp):
        if type(node.op) in OTHER:
            yield node, "op", OTHER[type(node.op)]()
        for one in (node.left, node.right):
            if isinstance(one, ast.Constant) and type(one.value) in (int, float):
                yield one, "value", one.value + 1 if isinstance(one.value, int) else 1.5 * one.value + 0.3
    for child in children:
        yield from formulas(child)


def slips(own, module):
    """Make the check, or a helper of it, anew with one number or sign of a formula wrong."""
    tree = ast.parse(inspect.getsource(module))
    helpers = {path[0] for kind, path in functions(own, module) if kind == "helper"}
    for function in tree.body:
        if not (isinstance(function, ast.FunctionDef) and function.name in {own[0].__name__, *helpers}):
            continue
        function.decorator_list = []
        function.body = function.body[ast.get_docstring(function) is not None :]
        for node, what, value in [one for line in function.body for one in formulas(line)]:
            before, line = getattr(node, what), ast.unparse(node)
            setattr(node, what, value)
            made = dict(vars(module))
            exec(compile(ast.Module([function], []), module.__file__, "exec"), made)
            label = f"{function.name}: {line} → {ast.unparse(node)}"
            setattr(node, what, before)
            yield label, function.name, made[function.name]


def interfered(flow):
    """Make a flow wrong in what interference does."""

    def made(*args, interference=True, **others):
        found = flow(*args, interference=interference, **others)
        return wrong(found, "larger") if interference else found

    return made


def with_fourth_power(noise):
    """Make the square of a step depend on |W|_4^4."""
    found = noise.derive_next_step_square().expression + sympy.Symbol("p4")
    return Instead(noise, "derive_next_step_square", lambda: types.SimpleNamespace(expression=found))


def no_rugs(right):
    """Make rugs whose dense matrices are none."""
    return type("Rugs", (right,), {"todense": lambda self: wrong(right.todense(self), "uneven")})


def signed(total):
    """Make a loss that knows the sign of a weight."""
    return lambda W, b, p: total(W, b, p) + (W[1][0] < 0)


def turned(linear):
    """Make a loss that knows directions."""

    def sparse_loss(W, *rest, **others):
        return linear.sparse_loss(W, *rest, **others) + abs(np.asarray(W)[0, 0])

    return Instead(linear, "sparse_loss", sparse_loss)


def forged(text):
    """Read a certificate with another bias and with ends of the loss that are apart."""
    said = json.loads(text)
    for name in {"bias", "loss"} & said["statement"].keys():
        said["statement"][name] = [str(-(10**6) * Fraction(end)) for end in said["statement"][name][::-1]]
    return said


def other_codes(module):
    """Make wrong what the row of sparse graphs rests on, all at once, as one of its worlds takes seconds."""
    rugs, optimum, exact, priority = (
        getattr(module, name) for name in ("RugMatrix", "optimum", "exact_loss", "priority_loss")
    )

    def exact_loss(M, *rest, **others):
        found = exact(M, *rest, **others)
        return wrong(wrong(found, "huge"), "huge") if len(M) == 8 else found

    return {
        "_loss_gaps": lambda n, count: [0.1 + 0.01 * np.cos(k) for k in range(count)],
        "RugMatrix": lambda n, S: Wrong(rugs(n, S), "uneven"),
        "optimum": lambda p, ratio: wrong(optimum(p, ratio), "tiny"),
        "priority_loss": lambda law, n_hidden: priority(law, n_hidden) * (1000 if law.groups else 1),
        "exact_loss": exact_loss,
    }


def other_counts(module, data):
    """Make wrong what the row of Fig. 3 counts, as one world takes seconds: too many, then too few."""
    for factor, power in ((lambda ds: 100 * ds["n_hidden"], 1), (lambda ds: 1e-6, 2)):
        counts = np.array([factor({"n_hidden": 1.0}) + k for k in (0.0, 1e-7)])
        free = types.SimpleNamespace(polysemantic=counts)
        names = {
            "draw_weights": lambda *_: 0.0,
            "solvers": Instead(module.solvers, "assign", lambda W, free=free: free),
        }
        changed = [
            ds.assign(polysemantic=factor(ds) * ds["polysemantic"] ** power, dead=ds["dead"] + 1)
            for ds in data
        ]
        yield names, changed


def without_naive(module):
    """Make the loss of naive networks another one than that of the best ones."""
    right = module.equal_features_loss

    def equal_features_loss(name, *rest, **others):
        return right(name, *rest, **others) * (1.1 if name == "naive" else 1.0)

    return {"equal_features_loss": equal_features_loss}


def growing(_module, data):
    """Make spreads of diagonals that grow with the number of features."""
    return [({}, [ds.assign(diagonal_sd=ds["diagonal_sd"] * ds["n_features"] ** 2) for ds in data])]


def without_child(*_, **settings):
    """Return an answer of `best_autoencoder` whose one latent has nothing of the second feature."""
    return types.SimpleNamespace(sae=types.SimpleNamespace(W_out=np.array([[1.0], [0.0]])), value=0.0)


# Worlds for findings that no other reaches: from the module, what names in it mean instead, or from the data
# as well, such names and data.
NAMES_BY_HAND = {
    "C13": lambda module: {"RugMatrix": no_rugs(module.RugMatrix)},
    "C18": lambda _: {"best_shift": lambda digits: np.exp(0.01 * digits**0.5)},
    "C32": other_codes,
    "E2": lambda module: {"linear": turned(module.linear)},
    **dict.fromkeys(("K4", "K5"), without_naive),
    "L16": lambda module: {"solvers": Instead(module.solvers, "flow", interfered(module.solvers.flow))},
    **dict.fromkeys(("L25", "L41"), lambda module: {"noise": with_fourth_power(module.noise)}),
    **dict.fromkeys(("O40", "O42"), lambda _: {"json": Instead(json, "loads", forged)}),
    "O50": lambda _: {"_ends": lambda strength: 12},
    "O47": lambda module: {"exact_total": signed(module.exact_total)},
    "S2": lambda _: {"best_autoencoder": without_child},
}
BY_HAND = {"C29": growing, "L18": other_counts}


def wrong_data(data, apart):
    """Make the datasets of a row with one of them wrong, in all its variables or, `apart`, in one."""
    rng = np.random.default_rng(33)
    changes = {how: functools.partial(wrong, how=how) for how in WRONG}
    changes["shuffled"] = lambda x: rng.permutation(x.ravel()).reshape(x.shape)
    changes["noisy"] = lambda x: x + np.nanstd(x) * rng.standard_normal(x.shape)
    for k, ds in enumerate(data):
        for runs in () if apart else (1, 3):  # of one run alone there is no interval
            few = {dim: slice(runs) for dim in ("seed", "run") if dim in ds.dims}
            if "model" in ds.dims and "seed" in ds:
                few["model"] = np.flatnonzero(ds["seed"].values < runs)
            yield f"few runs of data {k}", [*data[:k], ds.isel(few), *data[k + 1 :]]
    for how, change in changes.items():
        for k, ds in enumerate(data):
            names = [name for name in ds.data_vars if ds[name].dtype.kind in "iuf"]
            for some in [[name] for name in names] if apart else [names]:
                made = ds.assign({name: ds[name].copy(data=change(ds[name].values)) for name in some})
                yield f"data {k}, {', '.join(some)} {how}", [*data[:k], made, *data[k + 1 :]]
            facts = {name: one for name, one in ds.attrs.items() if isinstance(one, int | float | np.number)}
            if apart and how in WRONG:
                made = ds.assign_attrs(wrong(facts, how))
                yield f"attributes of data {k} {how}", [*data[:k], made, *data[k + 1 :]]


def worlds(claim, data):
    """Make the wrong worlds of a row: kind, words, the check, names that are wrong in its module, data."""
    check, module = claim.check, sys.modules[claim.check.__module__]
    own = [check]

    def again(made):
        return made

    if check.__name__ == "<lambda>":  # of an open problem
        (problem,) = check.__defaults__
        own = [problem.sentences, module._judge_problem]

        def again(made):
            return lambda quick: module._judge_problem(dataclasses.replace(problem, sentences=made))

    calls = functions(own, module)

    def data_of(apart):
        for label, made in wrong_data(data, apart):
            yield "data", label, check, {}, made

    def calls_of(kind):
        paths = [path for one, path in calls if one == kind]
        for how, path in itertools.product([*WRONG, "of others"], paths):
            yield kind, f"{'.'.join(path)} {how}", check, instead(module, path, how), data

    if claim.id in NAMES_BY_HAND:
        yield "by hand", claim.id, check, NAMES_BY_HAND[claim.id](module), data
    for names, made in BY_HAND[claim.id](module, data) if claim.id in BY_HAND else ():
        yield "by hand", claim.id, check, names, made
    yield from data_of(apart=False)
    kinds = data_of(apart=True), *map(calls_of, ("theory", "helper", "engine"))
    for each in itertools.zip_longest(*kinds):  # in turn, as none of them reaches all
        yield from filter(None, each)
    for label, name, made in slips(own, module):
        mine = name == own[0].__name__
        yield "formula", label, again(made) if mine else check, {} if mine else {name: made}, data


def findings(module, check, names, data):
    """Judge in a world; return the findings by what they say without numbers."""
    known = {name: vars(module)[name] for name in names}
    forget = [one.cache_clear for one in vars(module).values() if names and hasattr(one, "cache_clear")]
    try:
        for clear in forget:
            clear()
        vars(module).update(names)
        found = check(True, *data).findings
    finally:
        vars(module).update(known)
        for clear in forget:
            clear()
    each = {}
    for one in found:
        said = re.sub(r"-?\d[\d.]*(e[+-]?\d+)?", "#", one.text.split("; residual")[0])
        same = sum(key[:3] == (one.about, said, one.relation) for key in each)
        each[one.about, said, one.relation, same] = one
    return each


def failing(claim, data):
    """Return the findings of a row and, for each that fails in a wrong world, the first of these."""
    module = sys.modules[claim.check.__module__]
    right = findings(module, claim.check, {}, data)
    first = {key: ("as it is", "") for key, one in right.items() if not one.passed}
    for kind, label, check, names, made in worlds(claim, data):
        if len(first) == len(right):
            break
        try:
            found = findings(module, check, names, made)
        except Exception:
            continue
        for key in right.keys() & found.keys() - first.keys():
            one = found[key]
            same = one.limit == right[key].limit or kind in ("data", "theory")  # limits may follow from these
            if same and not one.passed and math.isfinite(one.value):
                first[key] = kind, label
    return right, first


# Rows for the ordinary suite: of every kind, and fast.
FAST = {"L1", "L2", "L17", "L23", "L29", "C1", "C3", "C12", "C21", "P3", "O4"}


# Questions of which nothing is known have no findings.
OPEN = {"L44", "C43"}


# What is wrong may warn.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """Keep the data of all rows, each computed once."""
    return cache.ResultCache(tmp_path_factory.mktemp("lab"))


@pytest.mark.parametrize(
    "id", [pytest.param(one.id, marks=[] if one.id in FAST else pytest.mark.slow) for one in select_claims()]
)
def test_each_finding_fails_in_a_wrong_world(id, lab):
    (claim,) = select_claims([id])
    right, first = failing(claim, [lab[name] for name in claim.needs])
    assert right or id in OPEN
    assert right.keys() - first.keys() == set()


def never(quick):
    """Twice the same, and what ought to be nothing but is a number."""
    x = np.linspace(0, 1, 5)
    same = np.abs(np.linalg.norm(x) - np.linalg.norm(x))
    one = numeric("one number less itself", same, "<=", rounding(1e-9))
    return evidence("", one, numeric("length", np.linalg.norm(x) ** 2, "<=", rounding(1.875)))


def test_a_finding_that_cannot_fail_is_told():
    right, first = failing(claim("X1", "nobody2000", "1", "x = x")(never), [])
    assert [key[1] for key in right.keys() - first.keys()] == ["one number less itself"]

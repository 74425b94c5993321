"""A table of exact losses, to compare bit for bit before and after a change that is to move no number.

``python tests/solvers/loss_table.py FILE`` writes the table, or compares with it if it is there.
"""

import json
import sys
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from superposition.solvers.computation.search import network_loss
from superposition.solvers.loss import evaluator, exact_loss, row_hessian, row_loss, value_and_gradient
from superposition.solvers.minimise import minimise
from superposition.solvers.minimise.objective import Objective
from superposition.theory.features import Features, exclusive, rectified_normal, synchronous
from superposition.theory.model import Model

VALUES = ("uniform", "binary", "half-normal", "exponential", "symmetric", "normal", rectified_normal(0.3))
METHODS = (
    "folding",
    "enumeration",
    "discrete",
    "uniform_fourier",
    "fourier",
    "contour",
    "affine",
    "exactly_k",
)
Case = tuple[str, partial[Any]]


def arrays(n: int, kind: str) -> tuple[Any, Any]:
    """Return (M, b) of n features: random, or at kinks, dead, over twelve decades, or with zeros."""
    rng = np.random.default_rng(n)
    W = rng.normal(size=(n, max(n // 3, 1))) / np.sqrt(max(n // 3, 1))
    M, b = W @ W.T, rng.normal(scale=0.2, size=n)
    if kind == "kinks":
        M[::2], b[::3] = np.where(np.eye(n, dtype=bool), 0.0, M)[::2], 0.0
    elif kind == "dead":
        M[0], b[0], b[1], M[:, -1], M[-1] = 0.0, -1.0, -50.0, 0.0, 0.0
        M[2 % n], b[2 % n] = np.abs(M[2 % n]), 0.3
    elif kind == "decades":
        M *= 10.0 ** rng.uniform(-8, 4, size=M.shape)
    elif kind == "zeros":
        M[:, 1::3] = 0.0
        M[1::3, 1::3] = np.eye(n)[1::3, 1::3]
    return M, b


def laws(n: int) -> Iterator[Features]:
    """Yield laws of n features: independent, unequal, of groups, with exactly k on, rare."""
    rng = np.random.default_rng(n)
    groups = [exclusive([0, 1, 2], 0.2), synchronous([3, 4], 0.1)] if n > 4 else [exclusive([0, 1], 0.2)]
    for values in VALUES:
        yield Features(n, 0.1, values)
        unequal = rng.uniform(0.01, 0.6, n), values, rng.uniform(0.3, 2.0, n), rng.uniform(0.1, 1.0, n)
        yield Features(n, *unequal)
        yield Features(n, 0.05, values, groups=groups)
        yield Features(n, 0.3, values, exactly=min(2, n))
        yield Features(n, 1e-100, values)


def toy_cases(n: int) -> Iterator[Case]:
    """Yield (name, function that returns numbers) of toy models."""
    rows = None if n < 10 else [0, 1, 2, n - 1] if n < 60 else [0, n - 1]
    for k, law in enumerate(laws(n)):
        if n == 64 and k % 5 not in (0, 1, 4):
            continue
        for kind in ("random", "kinks", "dead", "decades", "zeros")[: 5 if n < 10 else 2]:
            if kind == "random" or (k + len(kind)) % 3 == 0:
                is_long = n > 10 or kind == "decades"
                given, name = (*arrays(n, kind), law), f"{n} {k} {kind}"
                yield name, partial(exact_loss, *given, tol=1e-5 if is_long else 1e-12, rows=rows)
                most = 256 if k % 2 or is_long else None
                yield f"{name} gradient", partial(value_and_gradient, *given, rows=rows, frequencies=most)
    M, b = arrays(n, "random")
    for method in METHODS:
        law = Features(n, 0.1, {"discrete": "binary", "contour": "normal"}.get(method, "uniform"))
        yield f"{n} {method}", partial(evaluator(law, method=method, tol=1e-6), (M, b), True, rows)
    for budget in (1e3, 1e7, 1e9):
        f = evaluator(Features(n, 0.1), budget=budget, tol=1e-6)
        yield f"{n} budget {budget}", partial(f, (M, np.zeros(n)), True)
    yield f"{n} row", partial(row_loss, M[1], 1, b[1], 0.1)
    yield f"{n} Hessian", partial(row_hessian, M[1], 1, b[1], 0.1, frequencies=512)
    if n < 20:
        yield f"{n} Hessian normal", partial(row_hessian, M[1], 1, b[1], Features(n, 0.1, "normal"))
    W = np.random.default_rng(n).normal(size=(2, n))
    for output in ("relu", "identity"):
        model = Model(W, b_in=0.1, b=-0.1, output=output)
        yield f"{n} {output} model", partial(evaluator(0.2, tol=1e-6), model, True, rows)


def descent_numbers(n: int, law: Any, classes: int | None = None) -> list[Any]:
    """Return numbers of an objective at all its accuracies, at a random point and at the kink 0."""
    aim, x = Objective(n, 2, law, classes=classes), np.random.default_rng(n).normal(size=3 * n, scale=0.5)
    numbers = [*aim.smooth(x), aim.slope_error(x), aim.end(np.eye(n), np.zeros(n))]
    numbers.append(aim.smooth(np.zeros(x.size)))
    with aim.coarse():
        numbers += aim.smooth(x)
    if not aim.exact:
        aim.refine()
        numbers += aim.smooth(x)
        aim.restore()
    return [*numbers, *aim.smooth(x), aim.exact, aim.raced]


def descent_cases(n: int) -> Iterator[Case]:
    """Yield (name, function) of objectives of descents."""
    for k, law in enumerate((0.1, 0, 1e-100, *laws(n))):
        if n <= 20 or k < 4:
            yield f"descent {n} {k}", partial(descent_numbers, n, law)
    for classes in (1, 2, 4, n):
        yield f"classes {n} {classes}", partial(descent_numbers, n, 0.1, classes)


def network_cases(n: int) -> Iterator[Case]:
    """Yield (name, function) of networks."""
    rng = np.random.default_rng(0)
    U, V = rng.normal(size=(3, n)), rng.normal(size=(n, 3))
    for hidden in ("relu", "jumprelu"):
        thresholds = 0.2 if hidden == "jumprelu" else None
        tied = Model(U, 0.1, hidden, output="identity", thresholds=thresholds)
        model = Model(U, 0.1, hidden, V, 0.05, "identity", thresholds)
        for k, law in enumerate(laws(n)):
            if (n == 7 and k % 5) or (n > 2 and law.values == "exponential"):  # minutes
                continue
            f = evaluator(law, tol=1e-6)
            for target in ("identity", "relu", "x+relu")[: 3 if k % 5 == 0 else 1]:
                yield f"network {n} {hidden} {k} {target}", partial(f, model, True, target=target)
            yield f"tied {n} {hidden} {k}", partial(f, tied, True)
    f, linear = evaluator(0.1), Model(U, 0.1, W_out=V, output="identity")
    yield f"linear {n}", partial(f, linear, True, target=(np.ones((n, n)), "relu", np.eye(n)))
    yield f"ReLU output {n}", partial(f, Model(U[:1], 0.1, "relu", V[:, :1], -0.05))
    yield f"ReLU output {n} refused", partial(f, Model(U, 0.1, "relu", V))
    model = Model(U, 0.1, "relu", V, 0.05, "identity")
    for budget in (1e2, 1e6):
        yield f"network {n} {budget}", partial(evaluator(0.1, budget=budget, tol=1e-6), model)
    mixed = {"mixing": np.eye(n), "gradient": True}
    yield f"search {n}", partial(network_loss, model, Features(n, 0.1, "symmetric"), **mixed)


def all_cases() -> Iterator[Case]:
    """Yield (name, function) of all entries of the table."""
    for make, sizes in (
        (toy_cases, (2, 5, 9, 17, 30, 64)),
        (descent_cases, (2, 4, 9, 13, 17, 20, 70)),
        (network_cases, (2, 4, 7)),
    ):
        for n in sizes:
            yield from make(n)
    for n, law in ((5, 0.1), (20, 0.1), (5, Features(5, 0.2, "normal")), (6, 0)):
        yield f"minimise {n} {law}", partial(minimise, n, 2, law, starts=3, steps=60)


def flat(value: Any) -> Any:
    """Return a value as lists of texts, numbers by their bytes, seconds left out."""
    if isinstance(value, np.ndarray | float | int | np.generic):
        return np.asarray(value).tobytes().hex()
    if isinstance(value, dict):
        return [[name, flat(entry)] for name, entry in sorted(value.items())]
    if isinstance(value, tuple | list):
        return [flat(entry) for entry in value]
    if hasattr(value, "__dataclass_fields__"):
        return [[k, flat(getattr(value, k))] for k in value.__dataclass_fields__ if k != "seconds"]
    return str(value)


def numbers_or_refusal(compute: partial[Any]) -> Any:
    """Return what `flat` returns of all numbers; of a refusal its message."""
    try:
        return flat(compute())
    except ValueError as error:
        return str(error)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    file, now = Path(sys.argv[1]), {name: numbers_or_refusal(compute) for name, compute in all_cases()}
    if not file.exists():
        file.write_text(json.dumps(now), encoding="utf-8")
    before = json.loads(file.read_text(encoding="utf-8"))
    differing = [name for name in now if before.get(name) != now[name]]
    print(f"{len(now)} entries, {len(differing)} differ: {differing[:40]}")

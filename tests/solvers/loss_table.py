"""A table of exact losses, to compare bit for bit before and after a change that is to move no number.

``python tests/solvers/loss_table.py FILE`` writes the table, or compares with it if it is there.
"""

import pickle
import sys
import time
import warnings
from collections.abc import Iterator
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


def arrays(n: int, kind: str, seed: int = 0) -> tuple[Any, Any]:
    """Return (M, b) of n features: random, or at kinks, dead, or over twelve decades."""
    rng = np.random.default_rng(seed + n)
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
    """Yield laws of n features: independent, unequal, of groups, with exactly k on."""
    rng = np.random.default_rng(n)
    groups = [exclusive([0, 1, 2], 0.2), synchronous([3, 4], 0.1)] if n > 4 else [exclusive([0, 1], 0.2)]
    for values in VALUES:
        yield Features(n, 0.1, values)
        unequal = rng.uniform(0.01, 0.6, n), values, rng.uniform(0.3, 2.0, n), rng.uniform(0.1, 1.0, n)
        yield Features(n, *unequal)
        yield Features(n, 0.05, values, groups=groups)
        yield Features(n, 0.3, values, exactly=min(2, n))
        yield Features(n, 1e-100, values)


def toy_cases() -> Iterator[tuple[str, Any]]:
    """Yield (name, function that returns numbers) of toy models."""
    for n in (2, 5, 9, 17, 30, 64):
        rows = None if n < 10 else [0, 1, 2, n - 1] if n < 60 else [0, n - 1]
        for k, law in enumerate(laws(n)):
            if n == 64 and k % 5 not in (0, 1, 4):
                continue
            for kind in ("random", "kinks", "dead", "decades", "zeros")[: 5 if n < 10 else 2]:
                if kind != "random" and (k + len(kind)) % 3:
                    continue
                M, b = arrays(n, kind)
                name, tol = f"{n} {k} {kind}", 1e-12 if n < 10 and kind != "decades" else 1e-5
                yield (
                    name,
                    lambda M=M, b=b, law=law, rows=rows, tol=tol: exact_loss(M, b, law, tol=tol, rows=rows),
                )
                limited = {"frequencies": 256} if k % 2 or n > 10 or kind == "decades" else {}
                yield (
                    f"{name} gradient",
                    lambda M=M, b=b, law=law, rows=rows, limited=limited: value_and_gradient(
                        M, b, law, rows=rows, **limited
                    ),
                )
        M, b = arrays(n, "random")
        for method in ("folds", "patterns", "discrete", "uniform", "lattice", "wedge", "moments", "classes"):
            values = {"discrete": "binary", "wedge": "normal"}.get(method, "uniform")
            law = Features(n, 0.1, values)
            yield (
                f"{n} {method}",
                lambda M=M, b=b, law=law, m=method, rows=rows: evaluator(law, method=m, tol=1e-6)(
                    (M, b), gradient=True, rows=rows
                ),
            )
        for budget in (1e3, 1e7, 1e9):
            yield (
                f"{n} budget {budget}",
                lambda M=M, b=b, n=n, budget=budget: evaluator(Features(n, 0.1), budget=budget, tol=1e-6)(
                    (M, np.zeros(n)), gradient=True
                ),
            )
        yield f"{n} row", lambda M=M, b=b: row_loss(M[1], 1, b[1], 0.1)
        yield f"{n} Hessian", lambda M=M, b=b: row_hessian(M[1], 1, b[1], 0.1, frequencies=512)
        yield (
            f"{n} Hessian normal",
            lambda M=M, b=b, n=n: n < 20 and row_hessian(M[1], 1, b[1], Features(n, 0.1, "normal")),
        )
        W = np.random.default_rng(n).normal(size=(2, n))
        for output in ("relu", "identity"):
            model = Model(W, b_in=0.1, b=-0.1, output=output)
            yield (
                f"{n} {output} model",
                lambda model=model, rows=rows: evaluator(0.2, tol=1e-6)(model, True, rows),
            )


def descent_cases() -> Iterator[tuple[str, Any]]:
    """Yield (name, function) of objectives of descents."""

    def numbers(aim: Objective, x: Any) -> Any:
        value, slope = aim.smooth(x)
        M, b = np.eye(aim.n), np.zeros(aim.n)
        all_numbers = [value, slope, aim.slope_error(x), aim.end(M, b), aim.smooth(np.zeros(x.size))]
        with aim.coarse():
            all_numbers += [*aim.smooth(x)]
        if not aim.exact:
            aim.refine()
            all_numbers += [*aim.smooth(x)]
            aim.restore()
        return [*all_numbers, *aim.smooth(x), aim.exact, aim.work, aim.raced]

    for n in (2, 4, 9, 13, 17, 20, 70):
        x = np.random.default_rng(n).normal(size=3 * n, scale=0.5)
        for k, law in enumerate((0.1, 0, 1e-100, *laws(n))):
            if n <= 20 or k < 4:
                yield f"descent {n} {k}", lambda n=n, law=law, x=x: numbers(Objective(n, 2, law), x)
        for classes in (1, 2, 4, n):
            yield (
                f"classes {n} {classes}",
                lambda n=n, c=classes, x=x: numbers(Objective(n, 2, 0.1, classes=c), x),
            )
    for n, law in ((5, 0.1), (20, 0.1), (5, Features(5, 0.2, "normal")), (6, 0)):
        yield f"minimise {n} {law}", lambda n=n, law=law: minimise(n, 2, law, starts=3, steps=60)


def network_cases() -> Iterator[tuple[str, Any]]:
    """Yield (name, function) of networks."""
    rng = np.random.default_rng(0)
    for n in (2, 4, 7):
        U, V = rng.normal(size=(3, n)), rng.normal(size=(n, 3))
        for hidden in ("relu", "jumprelu"):
            thresholds = 0.2 if hidden == "jumprelu" else None
            for k, law in enumerate(laws(n)):
                if (n == 7 and k % 5) or (n > 2 and law.values == "exponential"):  # minutes
                    continue
                model = Model(U, 0.1, hidden, V, 0.05, "identity", thresholds)
                for target in ("identity", "relu", "x+relu")[: 3 if k % 5 == 0 else 1]:
                    yield (
                        f"network {n} {hidden} {k} {target}",
                        lambda m=model, law=law, t=target: evaluator(law, tol=1e-6)(
                            m, gradient=True, target=t
                        ),
                    )
                tied = Model(U, 0.1, hidden, output="identity", thresholds=thresholds)
                yield (
                    f"tied {n} {hidden} {k}",
                    lambda m=tied, law=law: evaluator(law, tol=1e-6)(m, gradient=True),
                )
        linear = Model(U, 0.1, W_out=V, output="identity")
        yield (
            f"linear {n}",
            lambda m=linear, n=n: evaluator(0.1)(m, True, target=(np.ones((n, n)), "relu", np.eye(n))),
        )
        rectified = Model(U[:1], 0.1, "relu", V[:, :1], -0.05)
        yield f"ReLU output {n}", lambda m=rectified: evaluator(0.1)(m)
        yield f"ReLU output {n} refused", lambda U=U, V=V: evaluator(0.1)(Model(U, 0.1, "relu", V))
        for budget in (1e2, 1e6):
            model = Model(U, 0.1, "relu", V, 0.05, "identity")
            yield (
                f"network {n} {budget}",
                lambda m=model, budget=budget: evaluator(0.1, budget=budget, tol=1e-6)(m),
            )
        model = Model(U, 0.1, "relu", V, 0.05, "identity")
        yield (
            f"search {n}",
            lambda m=model, n=n: network_loss(
                m, Features(n, 0.1, "symmetric"), mixing=np.eye(n), gradient=True
            ),
        )


def flat(value: Any) -> Any:
    """Return a value as tuples of bytes and texts."""
    if isinstance(value, np.ndarray | float | int | np.generic):
        return np.asarray(value).tobytes()
    if isinstance(value, dict):
        return tuple((name, flat(entry)) for name, entry in sorted(value.items()))
    if isinstance(value, tuple | list):
        return tuple(flat(entry) for entry in value)
    if hasattr(value, "__dataclass_fields__"):
        skipped = {"seconds"}
        return tuple((k, flat(getattr(value, k))) for k in value.__dataclass_fields__ if k not in skipped)
    return str(value)


def table() -> dict[str, Any]:
    """Return all numbers by name; of a refusal its message."""
    numbers = {}
    for cases in (toy_cases, descent_cases, network_cases):
        for name, compute in cases():
            start = time.perf_counter()
            try:
                numbers[name] = flat(compute())
            except ValueError as error:
                numbers[name] = str(error)
            if time.perf_counter() - start > 2.0:
                print(name, round(time.perf_counter() - start, 1), flush=True)
    return numbers


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    file, now = Path(sys.argv[1]), table()
    if not file.exists():
        file.write_bytes(pickle.dumps(now))
    before = pickle.loads(file.read_bytes())
    differing = [name for name in now if before.get(name) != now[name]]
    refused = sum(isinstance(entry, str) for entry in now.values())
    print(f"{len(now)} entries, {refused} of them refusals; {len(differing)} differ: {differing[:40]}")

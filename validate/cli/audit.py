"""``superposition audit``: what a trained model is, how good it could be, whether training found it."""

import argparse
from collections.abc import Callable
from typing import Any

from .text import number, print_json, print_table, shown

__all__ = ["add"]

COLUMNS = ("loss", "best_known", "lower_bound", "rug", "end_loss", "gradient_norm", "represented", "verdict")


def add(add_command: Callable[..., Any]) -> None:
    """Add the command to the program."""
    option = add_command(
        "audit",
        "say what trained models ReLU(W_out W_in x + b) are, how good they could be, if training found it",
        "superposition audit model.safetensors --p 0.05",
        _audit,
    ).add_argument
    option("file", metavar="FILE", help="a state dict: .npz, .safetensors, or PyTorch's of tensors alone")
    option("--p", type=float, nargs="+", required=True, help="that a feature is on: one, or one an instance")
    option("--values", default="uniform", help="law of the values of features that are on (default: uniform)")
    option("--layout", help="name of the layout, where shapes leave several")
    option("--keys", nargs="+", metavar="NAME=ARRAY", help="the arrays that are W_in, W_out and b")
    option("--instances", type=int, nargs="+", help="which instances, from 0 (default: all)")
    option("--steps", type=int, default=300, help="of descent on the exact loss (default: 300; 0: none)")
    option("--starts", type=int, default=20, help="of a search, up to 9 features (default: 20; 0: none)")
    option("--json", action="store_true", help="layout and a list of objects, one an instance")


def _audit(options: argparse.Namespace) -> None:
    from dataclasses import asdict

    from ...theory.features import Features
    from ..audit import audit, recognise, state_of

    keys = None
    if options.keys is not None:
        named = [pair.partition("=") for pair in options.keys]
        if not all(name and array for name, _, array in named):
            raise ValueError(f"`keys` must be NAME=ARRAY; got {' '.join(options.keys)!r}.")
        keys = {name: array for name, _, array in named}

    state = state_of(options.file)
    n = len(recognise(state, layout=options.layout, keys=keys)[1][0].b)
    laws = [Features(n, p, values=options.values) for p in options.p]
    found = audit(
        state,
        laws if len(laws) > 1 else laws[0],
        layout=options.layout,
        keys=keys,
        instances=options.instances,
        steps=options.steps,
        starts=options.starts,
    )
    numbers = options.instances or range(len(found.models))
    if options.json:
        models = [
            {
                "instance": at,
                **{
                    name: value if isinstance(value, bool) else number(value)
                    for name, value in asdict(model).items()
                    if not hasattr(value, "shape")
                },
                "per_feature": model.per_feature.tolist(),
                "dimensionality": model.dimensionality.tolist(),
                "sentence": model.sentence,
            }
            for at, model in zip(numbers, found.models, strict=True)
        ]
        print_json({"layout": found.layout, "models": models})
        return
    pairs = list(zip(numbers, found.models, strict=True))
    rows = [[str(at), *(shown(getattr(one, name)) for name in COLUMNS)] for at, one in pairs]
    first = found.models[0]
    title = f"{options.file}: {found.layout}, {first.n_features} features, {first.n_hidden} hidden neurons"
    print_table(title, ["instance", *COLUMNS], rows)
    for at, one in pairs:
        print(f"{at}: {one.sentence}" + (f" {one.structure}." if one.structure else ""))

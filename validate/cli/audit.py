"""``superposition audit``: what a trained model is, how good it could be, whether training found it."""

import argparse
import re
import sys
from typing import Any

from ...solvers.progress import status
from .laws import ONE_LAW, TARGET, laws_of, target_of
from .options import LAYOUT, MODEL, command, json_option, option, options_of
from .text import as_json, format_pairs, format_value, print_json, print_table, say, tell


@command(
    "superposition audit model.safetensors --p 0.05 --html model.html",
    MODEL,
    *ONE_LAW,
    LAYOUT,
    option("--keys", "the arrays that are W_in, W_out and b", nargs="+", metavar="NAME=ARRAY"),
    *options_of("audit.models.audit", "instances", "steps", "starts", "seconds"),
    option("--html", "write a page with pictures here", metavar="FILE"),
    option(
        "--fail-on",
        "verdicts, separated by commas without blanks, at which the exit status is 1, for scripts: "
        "unfinished,stuck,saddle; others are listed if one is misspelt",
        metavar="VERDICTS",
    ),
    json_option("an object: the layout, and a list with an object for each instance"),
    *TARGET,
)
def audit(options: argparse.Namespace) -> bool:
    """Say what trained models ReLU(W_out W_in x + b) are, how good they could be, and what to do next.

    The exit status is 1 if a verdict is one of those of --fail-on.
    """
    from dataclasses import replace

    from ...theory.validation import choices
    from ..api.answer import law_in_words
    from ..audit import COLUMNS, audit
    from ..audit.advice import advice, in_words
    from ..audit.results import VERDICTS
    from ..loading import Hints, load
    from ..reference import files
    from ..runner.tasks import ProgressClock, Task

    if options.html is not None:
        files.output_file(options.html, "html")  # before the work, not after
        files.refuse_same_file(options.html, {"model": options.file}, "html")
    words = [] if options.fail_on is None else re.split(",(?! )", options.fail_on)
    fail_on = choices("fail_on", words, VERDICTS) if words else ()
    keys = None if options.keys is None else format_pairs("keys", options.keys)
    loaded = load(options.file, None, Hints(options.layout, keys))
    layout = loaded.layout
    if loaded.models[0].hidden != "identity":
        _print_networks(options, layout, list(loaded.models))
        return False
    models = loaded.weights()
    laws = laws_of(options, [len(model.b) for model in models])
    several = len(options.instances or models) > 1
    talks = several and not options.json and sys.stderr.isatty()
    tasks = {k: Task(str(k), audit) for k in options.instances or range(len(models))}
    clock = ProgressClock(tasks.values(), tell)
    settings = {name: getattr(options, name) for name in ("instances", "steps", "starts", "seconds")}

    def finish(k: int) -> None:
        """Report that instance k is finished, if there are several and somebody reads it."""
        clock.mark_finished(tasks[k], f"instance {k}" if talks else None)

    audited = audit(models, laws, **settings, progress=status, on_audited=finish)
    audited = replace(audited, layout=layout)
    if options.html is not None:
        audited.write_page(options.html, options.file)
    fails = any(model.verdict in fail_on for model in audited.models)
    if options.json:
        print_json({"layout": layout, "models": [_json_object(model) for model in audited.models]})
        return fails
    columns = ("instance", *COLUMNS)
    rows = [[format_value(getattr(model, name)) for name in columns] for model in audited.models]
    sizes = {(model.n_features, model.n_hidden): None for model in audited.models}
    sizes_text = "; ".join(f"{n} features, {m} hidden neurons" for n, m in sizes)
    print_table(f"{options.file}: {layout}, {sizes_text}", columns, rows)
    say(f"The law: {law_in_words(*laws)}.")
    for model in audited.models:
        structure = f" Structure: {in_words(model.structure)}." if model.structure else ""
        say(f"{model.instance}: {model.sentence}{structure}")
        say(f"   What to do: {advice(model)}")
        if model.learning_coefficient is not None:
            say(f"   {str(model.learning_coefficient).capitalize()}.")
    return fails


def _json_object(audited: Any) -> dict[str, Any]:
    """Return `audited`, a `ModelAudit`, as an object for JSON: numbers, texts, and arrays over features."""
    from ..audit.advice import advice

    values: dict[str, Any] = {
        name: value for name, value in vars(audited).items() if isinstance(value, int | float | str)
    }
    arrays = ("per_feature", "share_saved", "dimensionality", "b", "dead")
    values |= {name: getattr(audited, name).astype(float) for name in arrays}
    values |= {name: getattr(audited, name) for name in ("sentence", "evidence", "gap", "left_out")}
    law = {name: getattr(audited.law, name) for name in ("p", "scale", "importance")}
    values["law"] = {"values": str(audited.law.values), "groups": len(audited.law.groups)} | law
    if audited.learning_coefficient is not None:
        values["learning_coefficient"] = vars(audited.learning_coefficient)
    return {name: as_json(value) for name, value in values.items()} | {"advice": advice(audited)}


def _format_cell(value: Any) -> str:
    """Return a number with six digits, or a decision as "yes", "no" or (None) "undecided", as text."""
    if value is None or isinstance(value, bool):
        return {True: "yes", False: "no", None: "undecided"}[value]
    return str(format_value(value))


_NETWORK_COLUMNS = (
    "loss", "loss_error", "naive", "naive_features", "lower_bound", "zero_loss", "gradient_norm",
    "beats_naive",
)  # fmt: skip


def _print_networks(options: argparse.Namespace, layout: str, models: list[Any]) -> None:
    """Print audits of networks with nonlinear hidden neurons, as a table with sentences or as JSON.

    The columns of the table are losses (of the network, of the naive solution, of answering the means), a
    lower bound and the gradient's norm. `options` are the command's, `models` the networks of a file, in a
    `layout`.
    """
    from ..api.answer import law_in_words
    from ..audit.networks import audit_networks

    for name, lacking in (("html", "page"), ("fail_on", "verdict")):
        if getattr(options, name) is not None:
            rule = f"left out for networks with nonlinear hidden neurons, of which there is no {lacking}"
            raise ValueError(f"`{name}` must be {rule}; got {getattr(options, name)!r}.")
    picked = list(range(len(models))) if options.instances is None else options.instances
    for k in picked:
        if not 0 <= k < len(models):
            raise ValueError(f"`instances` must lie between 0 and {len(models) - 1}; got {k}.")
    laws = laws_of(options, [models[k].n_features for k in picked])
    target = target_of(options, models[0].n_features)
    audits = audit_networks([models[k] for k in picked], laws, target, options.seconds)
    audited = dict(zip(picked, audits, strict=True))
    if options.json:
        names = (*_NETWORK_COLUMNS, "target", "method", "closer", "left_out", "sentence", "advice")
        objects = [
            {"instance": k} | {name: as_json(getattr(network, name)) for name in names}
            for k, network in audited.items()
        ]
        print_json({"layout": layout, "models": objects})
        return
    rows = [
        [str(k), *(_format_cell(getattr(network, name)) for name in _NETWORK_COLUMNS)]
        for k, network in audited.items()
    ]
    print_table(f"{options.file}: {layout}, {models[0]!r}", ["instance", *_NETWORK_COLUMNS], rows)
    say(f"The law: {law_in_words(*laws)}.")
    for k, network in audited.items():
        say(f"{k}: {network.sentence}")
        say(f"   What to do: {network.advice}")

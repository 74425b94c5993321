"""The advice on a trained model, a sentence with its evidence; its structure in words."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...theory.validation import count_noun
from .results import ModelAudit
from .search import HITS

# Features of a single group up to which they are listed, and dropped ones: so many are read at a glance.
_LISTED = 9
_DROPPED = 3


def chance_of_better(unseen: float, starts: int) -> str:
    """Return the clause that a better model is likely, with evidence if the search had 5 `starts` or more.

    `unseen`, the evidence, is the share of further starts of the search that would end at a new minimum.

    >>> chance_of_better(0.63, 27)
    'a better one is likely: some 63 % of further starts would end at a minimum not seen yet'
    >>> chance_of_better(0.999, 27)
    'a better one is likely: nearly all further starts would end at a minimum not seen yet'
    >>> chance_of_better(1.0, 2)
    'a better one is likely'
    """
    if starts < HITS:
        return "a better one is likely"
    part = f"some {100.0 * unseen:.0f} % of" if unseen < 0.995 else "nearly all"
    share = f"{part} further starts would end at a minimum not seen yet"
    return f"a better one is likely: {share}"


def in_words(shape: str, names: Sequence[Any] | None = None) -> str:
    """Return a model's structure, `shape`, in words: "5 in 2" is spelt out, dropped features are counted.

    The structure has parts such as "antipodal pair 0-1", each with its features; `names` of the features
    replace their numbers.

    >>> in_words("antipodal pair 0-1, 5 in 2 at 3 positions 2-3-4-5-6")
    'antipodal pair 0-1, 5 features in 2 dimensions along 3 directions (2-3-4-5-6)'
    >>> in_words("antipodal pair 0-2, dropped 1", ["red", "green", "blue"])
    'antipodal pair red-blue, dropped green'
    """
    parts = shape.split(", ") if shape else []
    represented = [part for part in parts if not part.startswith("dropped")]
    dropped = len(parts) - len(represented)
    count = sum(part.rpartition(" ")[2].count("-") + 1 for part in parts)
    words = []
    for part in parts if dropped <= _DROPPED else represented:
        kind, _, members = part.rpartition(" ")
        if names is not None:
            members = "-".join(str(names[int(k)]) for k in members.split("-"))
        if match := re.fullmatch(r"(\d+) in (\d+)(?: at (\d+) positions)?", kind):
            n, rank, positions = (int(number or 0) for number in match.groups())
            kind = f"{count_noun(n, 'feature')} in {count_noun(rank, 'dimension')}"
            kind += f" along {count_noun(positions, 'direction')}" if positions else ""
            is_rest = n > _LISTED and 2 * n > count  # the features that no other part names
            members = "" if is_rest else f"({members})"
        words.append(f"{kind} {members}".rstrip())
    if dropped > _DROPPED:
        words.append(f"{dropped} dropped")
    return ", ".join(words)


def _percent(share: float) -> str:
    """Return a share as text in per cent, with two digits."""
    return f"{100 * share:.2g} %"


def advice(model: ModelAudit) -> str:
    """Return a sentence on what to do with a model, with its distance to the best known and the evidence.

    If outputs are dead (0 for every input), the sentence is on the first of these.
    """
    basis = f"({model.gap}; {model.evidence})"
    silent = _silent_outputs(model)
    if silent.size:
        fall = ""
        if model.reset_loss < model.loss:
            fall = f"; descent then goes down by {_percent(1.0 - model.reset_loss / model.loss)}"
        why = "so that no gradient reaches it"
        if silent[0] not in model.dead:
            why = "and its bias is at the kink, where PyTorch's gradient is 0"
        return (
            f"Output {silent[0]} is dead: it answers to no input, {why}. Set its bias to the mean of its "
            f"feature, or start again{fall} {basis}."
        )
    if model.verdict in ("unfinished", "saddle"):
        return _advice_to_descend(model, basis)
    few_hits = f"only {model.hits} ended here, so give the search more seconds to be surer"
    if model.unseen > 0.0:
        few_hits += f": {chance_of_better(model.unseen, model.searched)}"
    return {
        "proved best": "Nothing: no model can be better, which is proved.",
        "best of a search": f"Nothing: it is as good as the best of {model.searched} starts {basis}.",
        "not beaten by a search": f"Probably nothing: none of {model.searched} starts is better; {few_hits} "
        f"{basis}.",
        "stuck": f"Train again from other starts: this one is stuck; longer training will not help {basis}.",
        "stays, not searched": "It stays where it is. How good a model could be is not known: give seconds "
        f"{basis}.",
        "flat": f"Reset the biases of its dead outputs and train on {basis}.",
        "not tried": f"Not decided: whether descent goes on was not tried {basis}.",
    }[model.verdict]


def _advice_to_descend(model: ModelAudit, basis: str) -> str:
    """Return the advice on a model whose loss descent lowers: how to train on, and by how much that helps.

    `basis` is the evidence in brackets, with which the sentence ends.
    """
    fall = 1.0 - model.end_loss / model.loss if model.loss else 0.0
    how = "Train on" if model.verdict == "unfinished" else "Kick the weights a little and train on"
    if fall < 0.05 and not model.hit_time_limit:
        how += " at a tenth of the rate"
    sentence = f"{how}: descent from here goes down by {_percent(fall)}"
    left = model.excess(model.end_loss)
    if model.hit_time_limit:
        return f"{sentence} and more; its seconds were over {basis}."
    if left:
        return f"{sentence}, still {left} above the best known: then try other starts {basis}."
    if not model.searched:
        return f"{sentence}; whether another start ends lower is not known {basis}."
    if model.best_name.startswith("descent from this model"):
        return f"{sentence}, lower than any start of the search {basis}."
    return f"{sentence}, to the best loss known {basis}."


def _silent_outputs(model: ModelAudit) -> Any:
    """Return the indices of outputs that are 0 for every input: dead, or with zero weights and bias.

    Outputs count only if their mean squared error is at least E x_i^2 / 2, half the error of answering 0.
    """
    top = model.per_feature >= 0.5 * model.law.second_moment
    at_kink = (model.b == 0.0) & ~(model.W_out @ model.W_in).any(axis=1) & (model.law.importance > 0.0)
    dead = np.zeros(model.n_features, np.bool_)
    dead[model.dead] = True
    return np.flatnonzero((dead | at_kink) & top)

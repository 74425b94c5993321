"""Errata of the sources as Markdown: a table for each source, made from the rows of the ledger."""

from collections.abc import Iterable, Sequence
from typing import Any

from ....theory.annotations import as_annotated
from ....theory.validation import count_noun
from ...ledger import MEANINGS, UNDECIDED, WRONG, CheckedClaim, Verdict
from .document import render

# Title of each source, and the letters of its formulas.
_SOURCES = {
    "lecomte2024": (
        "Lecomte et al. (2024)",
        "n features, m neurons; W_i is the encoding of feature i, m' of its weights are not zero; lambda is "
        "the strength of the l1 term, eta the learning rate, xi the noise on the neurons with variance "
        "sigma^2 and fourth moment mu4; W' is W after one step.",
    ),
    "cowsik2024": (
        "Cowsik et al. (2024)",
        "n_s features, each on with probability p; n_d neurons, r = n_d/n_s; W is decoder times encoder. "
        "Where a feature is on with value u, the output is ReLU(a(u + nu) + b) with interference nu of "
        "variance sigma^2, and the loss L_on; where it is off the loss is L_off.",
    ),
    "notes2022": (
        "Notes (2022)",
        "D features, d neurons; B encodes, A decodes, W = B = A' where weights are tied (' transposes) and "
        "w_i are its columns; Sigma is the sum of xx' over the data, with eigenvalues lambda_j and "
        "eigenvectors u_j; features are off with probability S, and L_k is the loss where k are on.",
    ),
    "elhage2022": (
        "Elhage et al. (2022)",
        "n features of importance I_i, m neurons; W_i is the encoding of feature i, b the bias; features are "
        "off with probability S, and L_k is the loss where k are on.",
    ),
    "scherlis2022": (
        "Scherlis et al. (2022)",
        "W_i is the encoding of feature i in D dimensions, C_i its capacity, L the loss.",
    ),
    "prieto2026": (
        "Prieto et al. (2026)",
        "M = W W' of a tied model with a ReLU, S the covariance of the words; a word is on or off.",
    ),
    "chen2023": (
        "Chen et al. (2023)",
        "c features, one on at a time and then uniform on [0, 1]; two hidden dimensions; a loss is summed "
        "over features.",
    ),
    "superposition": (
        "Predictions of this project, made before its runs",
        "Pairs are exclusive (never on together) or synchronous (on together or not at all); "
        "p is the probability that a feature is on, and the ratio that of neurons to features.",
    ),
    "mais2026": (
        "Open problems of mathematics for AI safety (lionellevine/MAIS, 2026)",
        "n features, on with probability p and then uniform on [0, 1], m neurons; a loss is summed over "
        "features, and v is that of a feature which is dropped.",
    ),
    "bhagat2026": (
        "Bhagat et al. (2026)",
        "n features, on with probability p and then uniform on [-1, 1]; d neurons.",
    ),
    "cistoy2026": (
        "FranciscoHS/cis-toy-models (2026)",
        "Features are on with probability p and then uniform on [-1, 1]; each output should be ReLU(x).",
    ),
    "spd2025": (
        "goodfire-ai/spd, issues (2025)",
        "A neuron is one ReLU; p is the probability that a feature is on.",
    ),
    "hedging2025": (
        "Chanin et al. (2025), Feature Hedging",
        "A latent is a ReLU that reads activations, sums of directions of the features that are on.",
    ),
    "absorption2024": (
        "Chanin et al. (2024), A is for Absorption",
        "A hierarchy is a child feature that is on only with its parent.",
    ),
}


@as_annotated
def errata(rows: Iterable[CheckedClaim]) -> str:
    """Return the statements that do not hold as printed as Markdown, a section to unfold for each source.

    A section's summary counts all statements of the source, and its faults by kind. Its table has the
    statements that do not hold; the ids of undecided ones follow. A last section has the statements that are
    printed as orders of magnitude and hold, with their constants. Formulas have HTML subscripts and
    superscripts.

    >>> from superposition.validate import ledger
    >>> from superposition.validate.report import page
    >>> print(page.errata(ledger.run(ids=["E4", "E5"])))  # doctest: +ELLIPSIS
    <details>
    <summary><b>Elhage et al. (2022)</b>, 2 statements: 1 misprint</summary>
    <BLANKLINE>
    n features of importance I<sub>i</sub>, ...
    <BLANKLINE>
    | | where | printed | verdict | what is true |
    |---|---|---|---|---|
    | E4 | ReLU output model | L<sub>0</sub> = ... | misprint | L<sub>0</sub> = ... |
    <BLANKLINE>
    </details>
    """
    by_source: dict[str, list[CheckedClaim]] = {}
    for row in rows:
        by_source.setdefault(row.claim.source, []).append(row)
    sources = [_describe_source(source, source_rows) for source, source_rows in by_source.items()]
    text = render("errata.md", sources=sources, meaning=MEANINGS[Verdict.UP_TO_CONSTANTS])
    return str(text).strip()


def _describe_source(source: str, rows: Sequence[CheckedClaim]) -> dict[str, Any]:
    """Return what the template shows of one source, by name; `rows` are its claims."""
    title, letters = _SOURCES.get(source, (source, ""))
    undecided = [row for row in rows if row.verdict in UNDECIDED]
    counts = {str(kind): sum(row.verdict is kind for row in rows) for kind in WRONG}
    counts["not decided"] = len(undecided)
    faults = ", ".join(
        count_noun(count, what) if what == Verdict.MISPRINT else f"{count} {what}"
        for what, count in counts.items()
        if count
    )
    ids = ", ".join(f"{row.claim.id} ({row.verdict})" for row in undecided)
    return {
        "title": title,
        "letters": letters,
        "summary": f"{count_noun(len(rows), 'statement')}: {faults or 'all hold as printed'}",
        "wrong": [row for row in rows if row.verdict in WRONG],
        "undecided": f"Not decided: {ids}." if ids else "",
        "orders": [row for row in rows if row.verdict is Verdict.UP_TO_CONSTANTS],
    }

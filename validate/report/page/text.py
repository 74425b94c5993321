"""Text, formulas and tables as HTML."""

import html
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ....theory.annotations import as_annotated
from ....theory.validation import short_repr
from ...ledger import Verdict

_NUMBER = " class='number'"

_LETTERS = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "eps": "ε", "zeta": "ζ", "eta": "η", "theta": "θ",
    "kappa": "κ", "lambda": "λ", "lam": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "pi": "π", "rho": "ρ",
    "sigma": "σ", "tau": "τ", "phi": "φ", "chi": "χ", "psi": "ψ", "omega": "ω", "Delta": "Δ", "Theta": "Θ",
    "Sigma": "Σ",
}  # fmt: skip
_SIGNS = {"&lt;&lt;": "≪", "&gt;&gt;": "≫", "&lt;=": "≤", "&gt;=": "≥", "!=": "≠", "==": "=", "-&gt;": "→"}
# A letter by itself or after a differential's d; names of more letters may be those of code.
_LETTER = re.compile(rf"(?<![A-Za-z_])(d?)({'|'.join(_LETTERS)})(?![A-Za-z])(\d*)")
_SIGN = re.compile("|".join(_SIGNS))
_SUBSCRIPT = re.compile(r"((?<![A-Za-z_])d?[A-Za-zα-ωΔΘΣ∑∫]|[|)\]])_(\{[^{}]*\}|[A-Za-z0-9]+(?!\w)|\+)")
# p^2/4 is a quarter of a square, but 2^-1/2 and D^1/2 are roots.
_SUPERSCRIPT = re.compile(r"\^(\{[^{}]*\}|\([^()]*\)|-?1/2(?!\d)|-?\d+(?:\.\d+)?|-?[A-Za-zα-ω]+|\+)")


@as_annotated
def slug(text: str) -> str:
    """Return text in lower case with hyphens for all but letters and digits, for anchors and file names."""
    return "-".join("".join(c if c.isalnum() else " " for c in text.lower()).split())


@as_annotated
def formulas(text: str) -> str:
    """Return plain text as HTML, its formulas with Greek letters, signs, subscripts and superscripts.

    Words and formulas are mixed, as in the ledger: ``sigma``, ``<=``, ``W_ik``, ``sum_{j!=i}``, ``p^2/4``,
    ``S^(n-k)``. Text between backticks is code and stays.

    >>> formulas("sum_{j!=i} |W_j|^2 <= sqrt m for lambda -> 0")
    '∑<sub>j≠i</sub> |W<sub>j</sub>|<sup>2</sup> ≤ √m for λ → 0'
    """
    words, *code = text.split("`", 1)
    if code and "`" in code[0]:
        inner, rest = code[0].split("`", 1)
        return f"{formulas(words)}<code>{html.escape(inner, quote=False)}</code>{formulas(rest)}"
    result = _SIGN.sub(lambda sign: _SIGNS[sign[0]], html.escape(text, quote=False))
    result = re.sub(r"\bsum_", "∑_", re.sub(r"\bint_", "∫_", re.sub(r"\bsqrt(?: |(?=\())", "√", result)))
    result = _LETTER.sub(_greek_letter, result)
    result = _SUBSCRIPT.sub(lambda match: f"{match[1]}<sub>{match[2].strip('{}')}</sub>", result)
    return _SUPERSCRIPT.sub(lambda match: f"<sup>{match[1].strip('{}()')}</sup>", result)


def _greek_letter(match: re.Match[str]) -> str:
    """Return the Greek letter for a matched name, digits behind it as its subscript."""
    d, name, digits = match.groups()
    return d + _LETTERS[name] + (f"_{digits}" if digits else "")


def _cell(value: Any) -> tuple[str, bool]:
    """Return (HTML of a table cell, whether it is a number); None is an empty cell."""
    if value is None or isinstance(value, bool | str):
        return formulas("" if value is None else str(value)), False
    if hasattr(value, "item"):
        value = value.item()
    return (str(value) if isinstance(value, int) else f"{value:.4g}"), True


@as_annotated
def paragraphs(text: str) -> str:
    """Return plain text as HTML, a paragraph for each block between empty lines."""
    blocks = [" ".join(block.split()) for block in textwrap.dedent(text).split("\n\n")]
    return "\n".join(f"<p>{formulas(block)}</p>" for block in blocks if block)


@as_annotated
def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> str:
    """Return an HTML table; numbers are aligned right and shown with four digits.

    `title` stands above, `caption` below. One of `rows` with more or fewer cells than `columns` raises a
    ValueError.

    >>> "<td class='number'>0.3333</td>" in table("", ["x"], [[1 / 3]])
    True
    """
    rows = list(rows)
    for row in rows:
        if len(row) != len(columns):
            rule = f"{len(columns)} cells, as `columns` has"
            raise ValueError(f"`rows` must have {rule}; got {short_repr(row)}.")
    cells = [[_cell(value) for value in row] for row in rows]
    numeric = [any(row[k][1] for row in cells) for k in range(len(columns))]

    def line(kind: str, texts: Iterable[tuple[str, bool]], scope: str = "") -> str:
        """Return an HTML row of cells of a kind, "td" or "th".

        `texts` has (text, whether a number) of each; `scope` is a further attribute of the cells.
        """
        return "".join(f"<{kind}{scope}{_NUMBER if number else ''}>{text}</{kind}>" for text, number in texts)

    head = line("th", zip(map(formulas, columns), numeric, strict=True), " scope='col'")
    heading = f"<caption>{formulas(title)}</caption>" if title else ""
    lines = "\n".join(f"<tr>{line('td', row)}</tr>" for row in cells)
    note = f"<p class='soft'>{formulas(caption)}</p>" if caption else ""
    return (
        f"<div class='scroll' tabindex='0'><table>{heading}<thead><tr>{head}</tr></thead>\n"
        f"<tbody>{lines}</tbody></table></div>{note}"
    )


@as_annotated
def badges(counts: Mapping[Verdict, int]) -> str:
    """Return an HTML list of the counts of claims by verdict; a click shows these claims in the ledger."""
    items = "".join(
        f"<li><a class='badge {slug(verdict)}' href='#ledger-of-claims' data-show='{verdict}'>"
        f"{count} {verdict}</a></li>"
        for verdict, count in counts.items()
    )
    return f"<ul class='counts'>{items}</ul>"


@as_annotated
def card(sentence: str, anchor: str = "", drawing: str = "") -> str:
    """Return the HTML of a headline: a sentence over a small copy of the figure that it links to.

    The figure is on the page under `anchor`, and its SVG `drawing` under that with ``-drawing`` at its end;
    without an anchor there is the sentence alone.

    >>> print(card("Half is enough.", "rug-loss", "<svg viewBox='0 0 30 20'></svg>"))
    <li><a href='#rug-loss'><svg class='small' viewBox='0 0 30 20' aria-hidden='true'><use \
    href='#rug-loss-drawing' width='30' height='20'/></svg><span>Half is enough.</span></a></li>
    """
    text = f"<span>{formulas(sentence)}</span>"
    if not anchor:
        return f"<li>{text}</li>"
    # A reference to the figure, which is further down on the page, needs no second copy of its data. The size
    # is in points there; the same numbers without a unit make it fill the box here.
    match = re.search(r"viewBox=['\"]0 0 ([\d.]+) ([\d.]+)['\"]", drawing)
    width, height = match.groups() if match else ("1", "1")
    small = (
        f"<svg class='small' viewBox='0 0 {width} {height}' aria-hidden='true'>"
        f"<use href='#{anchor}-drawing' width='{width}' height='{height}'/></svg>"
    )
    return f"<li><a href='#{anchor}'>{small}{text}</a></li>"

"""Text and formulas as HTML."""

import html
import re

from markupsafe import Markup

from ....theory.annotations import as_annotated

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

_MARKDOWN = str.maketrans({sign: f"&#{ord(sign)};" for sign in "\\`*_[]|~$"})


@as_annotated
def slug(text: str) -> str:
    """Return text in lower case with hyphens for all but letters and digits, for anchors and file names."""
    return "-".join("".join(c if c.isalnum() else " " for c in text.lower()).split())


@as_annotated
def formulas(text: str) -> Markup:
    """Return plain text as HTML, its formulas with Greek letters, signs, subscripts and superscripts.

    Words and formulas are mixed, as in the ledger: ``sigma``, ``<=``, ``W_ik``, ``sum_{j!=i}``, ``p^2/4``,
    ``S^(n-k)``. Text between backticks is code and stays.

    >>> print(formulas("sum_{j!=i} |W_j|^2 <= sqrt m for lambda -> 0"))
    ∑<sub>j≠i</sub> |W<sub>j</sub>|<sup>2</sup> ≤ √m for λ → 0
    """
    words, *code = text.split("`", 1)
    if code and "`" in code[0]:
        inner, rest = code[0].split("`", 1)
        return Markup(f"{formulas(words)}<code>{html.escape(inner, quote=False)}</code>{formulas(rest)}")
    result = _SIGN.sub(lambda sign: _SIGNS[sign[0]], html.escape(text, quote=False))
    result = re.sub(r"\bsum_", "∑_", re.sub(r"\bint_", "∫_", re.sub(r"\bsqrt(?: |(?=\())", "√", result)))
    result = _LETTER.sub(_greek_letter, result)
    result = _SUBSCRIPT.sub(lambda match: f"{match[1]}<sub>{match[2].strip('{}')}</sub>", result)
    return Markup(_SUPERSCRIPT.sub(lambda match: f"<sup>{match[1].strip('{}()')}</sup>", result))


def _greek_letter(match: re.Match[str]) -> str:
    """Return the Greek letter for a matched name, digits behind it as its subscript."""
    d, name, digits = match.groups()
    return d + _LETTERS[name] + (f"_{digits}" if digits else "")


@as_annotated
def markdown_cell(text: str) -> Markup:
    """Return text as a Markdown table cell: formulas as HTML, Markdown's signs as character references."""
    return Markup(formulas(text).translate(_MARKDOWN))

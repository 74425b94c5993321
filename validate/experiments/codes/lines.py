"""The best blocks of all codes at any p, from stored parameters, without a search."""

from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import xarray as xr

from ....solvers.codes import Block, Envelope, Line, blocks, envelope_of, lines
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.codes import CODES
from ...reference import read
from ...runner.declarations import ReproductionCheck, Run

# Which values of p the table holds depends on the last digits of losses; these are the same in every run.
TABLE_P = tuple(np.geomspace(1e-6, 0.9, 20).tolist())

# Names of the arrays of a line, in its order, in the table.
_COLUMNS = {"at": "p", "a": "a", "b": "b", "shift": "shift", "loss": "loss"}


@as_annotated
def run_lines(codes: Sequence[str] = CODES[1:], *, lowest: float = 1e-6, tol: float = 1e-6) -> xr.Dataset:
    """Compute the best scale, bias and shift of codes at values of p from the least one to 1.

    A code repeats a small model, its block, such as three features in two neurons, a triangle. A block's
    outputs are ReLU(a (G - shift)/(1 - shift) x + b), with G the Gram matrix of its encodings.

    Parameters
    ----------
    codes : sequence of str, optional
        Names in `theory.codes.CODES`, but for the pair, whose loss is a closed form.
    lowest : float, optional
        Least p.
    tol : float, optional
        Relative error allowed of the loss interpolated halfway between two values of p. Where it is larger,
        the value halfway is added.

    Returns
    -------
    xarray.Dataset
        Of (line), a code or a code with a shift: ``n_features`` and ``n_hidden`` of a block, and ``nodes``,
        the number of values of p. Of (node), such a value, line after line: ``at`` (p), scale ``a``, bias
        ``b``, ``shift`` (subtracted from all overlaps, entries of G), ``loss`` per feature. Of (line, p):
        ``least``, the interpolated loss, at values of p that are the same for all lines.

    Examples
    --------
    >>> ds = run_lines(["triangle"], lowest=0.5, tol=1e-3)
    >>> ds["line"].values.tolist(), int(ds["nodes"].sum()) == ds.sizes["node"]
    (['triangle'], True)
    """
    codes = validation.choices("codes", codes, CODES[1:])
    lowest = validation.number("lowest", lowest, 1e-6, 1, brackets="[)")
    code_lines = lines(codes, low=lowest, tol=tol)
    shared_p = [p for p in TABLE_P if p >= lowest]
    sizes = {name: [getattr(line, name) for line in code_lines] for name in ("n_features", "n_hidden")}
    sizes["nodes"] = [line.p.size for line in code_lines]
    columns = {name: [getattr(line, field) for line in code_lines] for name, field in _COLUMNS.items()}
    return xr.Dataset(
        {name: ("line", values) for name, values in sizes.items()}
        | {name: ("node", np.concatenate(values)) for name, values in columns.items()}
        | {"least": (("line", "p"), [[line.at(p).loss for p in shared_p] for line in code_lines])},
        {"line": [line.name for line in code_lines], "p": shared_p},
    )


@cache
def _read_lines() -> list[Line]:
    """Return the stored results of `run_lines`, a `Line` for each code: p, scale, bias, shift and loss.

    Codes are in the order of the stored file; a code with a shift has a line of its own.
    """
    ds = read.read("codes_lines")
    ends = np.cumsum(ds["nodes"].values)
    sizes = [ds[name].values.tolist() for name in ("line", "n_features", "n_hidden")]
    columns = [np.split(ds[name].values, ends[:-1]) for name in _COLUMNS]
    return [Line(*fields) for fields in zip(*sizes, *columns, strict=True)]


@as_annotated
def known_blocks(p: npt.ArrayLike, codes: Sequence[str] = CODES) -> list[list[Block]]:
    """Return the best blocks of each code at each p, from stored parameters, without a search.

    A block is the small model that a code repeats, such as an antipodal pair; a `Block` holds its best scale
    and bias. The result has a list for each code, and for each code with a shift; the list has a block for
    each p, all in [1e-6, 1]. Losses are, to 1e-5 relative, the lower of two: those that
    `solvers.codes.blocks` finds, and those of descents from the stored parameters. Below p = 1e-4 the former
    may be higher by more, as their descents end early.

    Examples
    --------
    >>> blocks = {block.name: block for (block,) in known_blocks(0.05)}
    >>> len(blocks), round(blocks["Clebsch shifted"].loss, 7)
    (35, 0.001947)
    """
    p_values = validation.real("p", p, 1e-6, 1).ravel().tolist()
    codes = validation.choices("codes", codes, CODES)
    code_lines = [line for line in _read_lines() if line.name.removesuffix(" shifted") in codes]
    return [
        *blocks(p_values, [name for name in codes if name == CODES[0]]),
        *([line.at(q) for q in p_values] for line in code_lines),
    ]


@as_annotated
def known_envelope(
    p: npt.ArrayLike, ratio: npt.ArrayLike, codes: Sequence[str] = CODES, *, models: str = "balanced"
) -> Envelope:
    """Return the least loss of known codes at each (p, ratio), from stored parameters, without a search.

    The minimum is over mixtures of `codes` (names in `theory.codes.CODES` such as "pair") with the rug and
    dropped features; ratio = n_hidden / n_features. `models` are "tied" (W_out = W_in'), "balanced" (other
    decoders too, with all features of a code alike) or "free" (weights of one code may also differ by orders
    of magnitude).

    Examples
    --------
    >>> envelopes = [known_envelope(1e-3, 0.25, ["pair"], models=models) for models in ("balanced", "free")]
    >>> [round(float(envelope.loss / envelope.rug), 3) for envelope in envelopes]
    [0.996, 0.228]
    """
    return envelope_of(known_blocks(np.unique(p), codes), p, ratio, models=models)


_NODES = ReproductionCheck(
    {"codes": ["pentagon"]},
    ["least"],
    1e-6,
    "which values of p are added depends on the last digits of losses, and what is interpolated on these; "
    "differences are in units of the largest loss",
)

RUNS = {
    "lines": Run.shipped("codes_lines", "the best blocks at any p", run_lines, seconds=1800.0, check=_NODES)
}

"""All predictions of theory for a law and a width, each number with its kind."""

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xarray as xr

from ...solvers import unequal as splits
from ...solvers.codes import Block
from ...solvers.minimise import lower_bound
from ...theory import unequal as theory
from ...theory.features import Features
from ...theory.validation import choice, count_noun, from_sparsity, short_repr, whole_numbers
from ..audit.search import best_known
from ..experiments.codes import known_blocks, known_envelope
from ..experiments.rug.models import mask_broken_phases
from ..reference import read
from .answer import Answer, Certainty, law_in_words
from .entry import entry
from .per_feature import has_equal_features
from .predictions import PREDICTIONS
from .predictions import predict as predict_phenomenon

__all__ = ["KINDS", "predict"]

LOWER_BOUND, ATTAINED, CODE, LIMIT, MEASURED = (
    "lower bound", "attained", "best known code", "limit of many features", "measured"
)  # fmt: skip
KINDS = {
    LOWER_BOUND: "no model of this size can lose less",
    ATTAINED: "a model of this very size loses so much",
    CODE: "models of this kind come arbitrarily close to this loss, from above",
    LIMIT: "what the loss tends to where many features are on; no bound, and not attained at this size",
    MEASURED: "what training reached, in stored runs",
}
SOURCES = (
    "Elhage et al. (2022): model and loss",
    "Notes (2022), Cor. 2: the best affine model",
    "Cowsik et al. (2024), Eq. 5: the random-code limit (the Persian rug)",
    "superposition, pages `codes` and `unequal`: lower bound, priority codes, best split",
)
# Stored runs of features that are alike: p and ratio must be within this of what is asked.
_NEAR = 0.01
# Features up to which eigenvalues of their covariance are taken.
_AFFINE = 3000
# Numbers of copies of a code that are tried.
_COUNTS = 200

COPIES = "whole copies of one or two codes, tied"
RANDOM_CODES = "random codes (the Persian rug)"
CODES = {"tied": "best known code, tied", "free": "best known code, free decoder"}


class PredictedLoss(NamedTuple):
    """A predicted loss at one width: its model, its kind (of `KINDS`), the loss, a note."""

    model: str
    kind: str
    loss: float
    note: str


@entry
def predict(law: Any, n_hidden: Any = None, **settings: Any) -> Answer:
    """Return every predicted loss for a law and one width or several, each with its kind.

    >>> from superposition.theory.features import Features
    >>> print(predict(Features(20, p=0.05), 5))
    20 features, 5 hidden neurons; each feature is on in 5 % of the inputs
    loss per feature
    0.000691023 lower bound             what no model of this size goes below
    0.00193345  limit of many features  best known code, free decoder
    0.00233477  best known code         priority codes, free decoder
    0.0037025   limit of many features  best known code, tied
    0.00445256  measured                trained models
    0.00533925  attained                whole copies of one or two codes, tied
    0.00578943  limit of many features  random codes (the Persian rug)
    0.0120313   attained                the 5 features that matter most, others dropped
    0.0120313   attained                best affine model, no ReLU
    the best known code's loss is an infimum; `best` finds models, tied or free

    Parameters
    ----------
    law : Features or str
        Law of the data; or the name of a phenomenon ("rug", "sparsification", "collisions", "relu",
        "linear", "codes", "unequal", "decoders", "computation" or "noise"), whose parameters are then
        `settings`.
    n_hidden : int or sequence of int, optional
        Number of hidden neurons; several make a curve. With a phenomenon: its parameter of this name, if it
        has one.
    **settings
        Parameters of a phenomenon, such as ``p=0.05, ratio=0.5`` of "rug", numbers or sequences of these:
        every combination is predicted. `sparsity` may stand for p.

    Returns
    -------
    Answer
        `to_frame` has a row for each prediction: ``n_hidden``, ``model``, ``kind``, ``loss`` (mean over
        features of importance times squared error) and ``note``. The kind is "lower bound" (proved for all
        models of this size), "attained" (by a model of this size), "best known code" (an infimum of models
        of this size), "limit of many features" (no bound, not attained) or "measured" (trained models).
        "free decoder" means untied. Of a phenomenon there is a row for each combination of parameters, with
        a column for each parameter and predicted number; `cite` says what these are. `plot` draws loss
        against n_hidden, beside ``points=(n_hidden, loss)`` of yours.
    """
    if isinstance(law, str):
        return _phenomenon_answer(law, settings if n_hidden is None else {"n_hidden": n_hidden, **settings})
    if not isinstance(law, Features):
        names = ", ".join(PREDICTIONS)
        rule = f"a Features, or the name of a phenomenon ({names})"
        raise ValueError(f"`law` must be {rule}; got {short_repr(law)}.")
    if settings:
        raise ValueError(f"`{next(iter(settings))}` must be a parameter of a phenomenon; got it with a law.")
    if n_hidden is None:
        raise ValueError("`n_hidden` must be given with a law; got None.")
    widths = [int(m) for m in whole_numbers("n_hidden", n_hidden, 1).ravel()]
    if not widths:
        raise ValueError("`n_hidden` must not be empty; got no width.")
    narrow = [m for m in dict.fromkeys(widths) if m < law.n_features]
    shared = _affine_rows(law, narrow), _equal_feature_rows(law, narrow)
    table = [(m, row) for m in widths for row in _predicted_rows(law, m, shared)]
    columns = {"n_hidden": ("prediction", [m for m, _ in table])}
    columns |= {
        name: ("prediction", [getattr(row, name) for _, row in table]) for name in PredictedLoss._fields
    }
    data = xr.Dataset(columns, attrs={"n_features": law.n_features})
    several = f"{len(widths)} widths from {min(widths)} to {max(widths)} hidden neurons"
    size = several if len(widths) > 1 else count_noun(widths[0], "hidden neuron")
    lines = [f"{count_noun(law.n_features, 'feature')}, {size}; {law_in_words(law)}", "loss per feature"]
    for m in widths if len(widths) <= 8 else []:
        if len(widths) > 1:
            lines.append(f"n_hidden = {m}")
        rows = sorted((row for width, row in table if width == m), key=lambda row: row.loss)
        lines += [f"{row.loss:<11.6g} {row.kind:23} {row.model}" for row in rows]
    kinds = dict.fromkeys(row.kind for _, row in table)
    if CODE in kinds:
        lines.append("the best known code's loss is an infimum; `best` finds models, tied or free")
    if len(widths) > 8:
        lines.append("to_frame() has the numbers, plot() draws them")
    note = "; ".join(f"{kind}: {KINDS[kind]}" for kind in kinds)
    values = {"table": data, "law": law}
    return Answer(tuple(lines), Certainty.COMPUTED, note, SOURCES, values, data, "draw_widths", True)


def _predicted_rows(
    law: Features, m: int, shared: tuple[dict[int, list[PredictedLoss]], ...]
) -> list[PredictedLoss]:
    """Return the predicted losses per feature for m neurons, each with its model, kind and a note.

    The predictions are lower bounds, losses of codes, limits and measured losses, as far as they are known
    for `law`. `shared` has dictionaries from the number of neurons to predictions made for all widths at
    once.
    """
    n = law.n_features
    if m >= n:
        return [PredictedLoss("all features kept", ATTAINED, 0.0, "W_out W_in = 1, b = 0")]
    bound = lower_bound(n, m, law)
    lower = PredictedLoss(
        "what no model of this size goes below", LOWER_BOUND, bound, "any ReLU(M x + b) of this rank"
    )
    dropped = float(np.sort(law.importance * law.variance)[: n - m].sum() / n)
    label = f"the {m} features that matter most, others dropped"
    rows = [lower] * (bound > 0.0) + [PredictedLoss(label, ATTAINED, dropped, "any kind of decoder")]
    rows += [row for rows_of in shared for row in rows_of.get(m, [])]
    return rows + _general_rows(law, m) + _solved_rows(law, m)


def _affine_rows(law: Features, widths: Sequence[int]) -> dict[int, list[PredictedLoss]]:
    """Return by number of neurons, for each of `widths`, a list of one row: the best affine model.

    Losses are per feature, with importance. Empty above 3,000 features.
    """
    n = law.n_features
    if n > _AFFINE:
        return {}
    root = np.sqrt(law.importance)
    values = np.linalg.eigvalsh(law.covariance() * np.outer(root, root))
    rows = {}
    for m in widths:
        loss = float(np.maximum(values[: n - m], 0.0).sum() / n)
        rows[m] = [PredictedLoss("best affine model, no ReLU", ATTAINED, loss, "principal components")]
    return rows


def _equal_feature_rows(law: Features, widths: Sequence[int]) -> dict[int, list[PredictedLoss]]:
    """Return the predicted losses for equal features by width: codes, random codes, trained models.

    A code is a block of features on neurons of its own, of which a model has many copies; random codes are
    the model of Cowsik et al. (2024). Losses are per feature, with importance. Empty unless features are
    independent and uniform on [0, scale], with one p in [1e-6, 1), scale and importance.
    """
    p, n = float(law.p[0]), law.n_features
    if not widths or not has_equal_features(law) or not 1e-6 <= p < 1.0:
        return {}
    unit = float(law.scale[0] ** 2 * law.importance[0])
    envelopes = {kind: known_envelope(p, np.array(widths) / n, models=kind) for kind in CODES}
    trained = _trained_rows(p, [m / n for m in widths])
    rows: dict[int, list[PredictedLoss]] = {}
    for k, m in enumerate(widths):
        codes = {what: envelopes[kind].loss[k] for kind, what in CODES.items()}
        note = "in the limit of many copies of a code; a size with room for a few may not reach it"
        rows[m] = [PredictedLoss(what, LIMIT, unit * float(loss), note) for what, loss in codes.items()]
        copies, note = tied_copies(p, n, m)
        rows[m].append(PredictedLoss(COPIES, ATTAINED, unit * copies, note))
        random = unit * float(envelopes["free"].rug[k])
        rows[m].append(PredictedLoss(RANDOM_CODES, LIMIT, random, "Cowsik et al. (2024), Eq. 5"))
        rows[m] += [row._replace(loss=unit * row.loss) for row in trained[k]]
    return rows


@cache
def _tied_blocks(p: float) -> list[Block]:
    """Return the known tied codes, each a few features on few neurons, at their best parameters at p.

    A code with the encodings W has outputs ReLU(a W W' x + b); its `Block` has the best a, b and the loss.
    """
    return [block for (block,) in known_blocks(p) if not block.shifted]


def tied_copies(p: float, n: int, m: int) -> tuple[float, str]:
    """Return the least loss per feature of whole copies of one or two tied codes, and these codes as text.

    A code is a tied model of a few features on fewer neurons; copies share no neuron. There are n features on
    m neurons in all; values are uniform on [0, 1]. Each neuron that no copy uses represents one feature; all
    other features are dropped. If the copies have more than n features, the mean over all of these is
    returned, an upper bound of the mean over the n best. The relative error is 1e-5, that of the codes'
    stored parameters (`known_blocks`).
    """
    blocks, dropped = _tied_blocks(p), p / 3.0 - p**2 / 4.0
    sizes = np.array([block.n_features for block in blocks])
    widths = np.array([block.n_hidden for block in blocks])
    totals = sizes * np.array([block.loss for block in blocks])
    least, note = dropped * max(n - m, 0) / n, "a feature on each neuron"
    for k, first in enumerate(blocks):
        counts = np.unique(np.linspace(0, m // widths[k], _COUNTS).astype(int))[:, None]
        others = (m - counts * widths[k]) // widths
        n_represented = m + counts * (sizes[k] - widths[k]) + others * (sizes - widths)
        total = counts * totals[k] + others * totals + dropped * np.maximum(n - n_represented, 0)
        loss = total / np.maximum(n, n_represented)
        row, column = np.unravel_index(np.argmin(loss), loss.shape)
        if loss[row, column] < least:
            least = float(loss[row, column])
            copies = Counter({first.name: int(counts[row, 0])})
            copies += Counter({blocks[column].name: int(others[row, column])})
            note = ", ".join(f"{count} x {name}" for name, count in copies.items())
    return least, note


def _trained_rows(p: float, ratios: Sequence[float]) -> list[list[PredictedLoss]]:
    """Return for each of `ratios`, n_hidden / n_features, a list with the measured loss of trained models.

    The models are those of the stored dataset "training" with this ratio and p, of the largest number of
    features; the list has one row with their mean loss, or is empty if there are none.
    """
    best: list[tuple[int, list[PredictedLoss]]] = [(0, [])] * len(ratios)
    known = {name: fact["settings"]["p"] for name, fact in read.facts("training").items()}
    run_names = [
        name for name, values in known.items() if any(abs(value / p - 1.0) <= _NEAR for value in values)
    ]
    runs = read.read_runs("training", run=run_names, experiment="training.grid") if run_names else {}
    for name, ds in runs.items():
        n = int(ds["n_features"])
        has_p = np.abs(ds["p"].values / p - 1.0) <= _NEAR
        all_losses = mask_broken_phases(ds)["loss"].isel(end=-1)
        for k, ratio in enumerate(ratios):
            mine = has_p & (np.abs(ds["n_hidden"].values / (n * ratio) - 1.0) <= 5.0 * _NEAR)
            losses = all_losses.isel(model=np.flatnonzero(mine)).dropna("model")
            if losses.size and n > best[k][0]:
                note = f"{n} features, mean of {losses.size} seeds, {name}"
                best[k] = n, [PredictedLoss("trained models", MEASURED, float(losses.mean()), note)]
    return [rows for _, rows in best]


def _general_rows(law: Features, m: int) -> list[PredictedLoss]:
    """Return the losses per feature on m neurons of priority codes and, if features differ, of two limits.

    Priority codes are models in which the lengths of encodings are very different. The limits are for
    independent features: the best split of the neurons into shares of the features (many on), and encodings
    of random directions (few on). Empty unless values are uniform, or if exactly k features are on.
    """
    if not law.values.uniform or law.exactly is not None:
        return []
    loss, note = theory.priority_loss(law, m), "encodings of very different lengths"
    rows = [PredictedLoss("priority codes, free decoder", CODE, loss, note)]
    if not law.independent or has_equal_features(law):
        return rows
    split, random = float(splits.allocate(law, m).loss), float(splits.mean_field(law, m).loss)
    note = "many features on; normal interference"
    rows.append(PredictedLoss("best split of the neurons, free decoder", LIMIT, split, note))
    note = "few features on; mean field"
    rows.append(PredictedLoss("encodings of random directions, tied", LIMIT, random, note))
    return rows


def _solved_rows(law: Features, m: int) -> list[PredictedLoss]:
    """Return the losses per feature, with importance, of the best stored models of this law on m neurons.

    The models are entries of the atlas (`experiments.atlas`), at most one tied and one free.
    """
    rows = []
    for tied in (True, False):
        for solution in best_known(law.n_features, m, law, tied):
            kind = "tied" if tied else "free decoder"
            hits = count_noun(solution.hits, "hit")
            note = f"best of {solution.starts} starts ({hits}), atlas {solution.name}"
            rows.append(PredictedLoss(f"best model found, {kind}", ATTAINED, solution.loss, note))
    return rows


# Points that are printed beside each other, 12 columns each.
_POINTS = 5


def _phenomenon_answer(name: str, settings: dict[str, Any]) -> Answer:
    """Return the answer of `predict` for the phenomenon `name`, at `settings` of its parameters."""
    prediction = PREDICTIONS[choice("law", name, tuple(PREDICTIONS))]
    if "sparsity" in settings and any(parameter.name == "p" for parameter in prediction.parameters):
        if "p" in settings:
            got = f"{short_repr(settings['p'])} and {short_repr(settings['sparsity'])}"
            raise ValueError(f"`p` must be given, or `sparsity` instead; got {got}.")
        settings = dict(settings)
        settings["p"] = from_sparsity("sparsity", settings.pop("sparsity"))
    columns = predict_phenomenon(name, **settings)
    data = xr.Dataset({key: ("point", np.asarray(values)) for key, values in columns.items()})
    lines, width = [prediction.title], max(map(len, columns))
    if data.sizes["point"] == 1:
        lines += [
            f"{key:{width}}  {_format_cell(v[0]):14} {prediction.sources.get(key, 'given')}"
            for key, v in columns.items()
        ]
    else:
        n_points = min(data.sizes["point"], _POINTS)
        for key, values in columns.items():
            cells = "".join(f"{_format_cell(value):12}" for value in values[:n_points])
            lines.append(f"{key:{width}}  {cells}".rstrip())
        left = data.sizes["point"] - n_points
        if left:
            lines.append(f"and {left} more of {data.sizes['point']} points, which to_frame() has as well")
    scalar = {key: values[0] if len(values) == 1 else values for key, values in columns.items()}
    sources = tuple(f"{key}: {source}" for key, source in prediction.sources.items())
    note = "or exact, as each column's source says"
    return Answer(tuple(lines), Certainty.ASYMPTOTIC, note, sources, scalar, data, "draw_columns")


def _format_cell(value: npt.ArrayLike) -> str:
    """Return a number with six digits, and text unchanged."""
    return str(value) if isinstance(value, str) else f"{float(np.asarray(value)):.6g}"

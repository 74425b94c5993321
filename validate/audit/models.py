"""What a trained model is, how good it could be, and whether training found it."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from ...solvers.codes import Envelope, envelope
from ...solvers.loss import exact_loss
from ...solvers.minimise import Minimum, descend, minimise
from ...solvers.minimise.objective import Objective
from ...solvers.relu import structure
from ...theory import arguments
from ...theory.arguments import FloatArray
from ...theory.features import Features, as_features
from ...theory.relu import feature_dimensionality
from ...theory.results import result
from .layouts import Weights, recognise
from .read import state_of

__all__ = ["Audit", "Audited", "audit"]

# A gradient below this, of the loss of the zero model, is that of single precision.
STILL = 1e-5
# Relative differences of losses below this are rounding of the weights.
SAME = 1e-6
# Kicks at weights that descent does not leave: how many, and their size in units of the weights'.
KICKS, KICK = 3, 0.01
# A feature whose output at its largest value is below this, of that value, counts as dropped.
KEPT = 1e-3
# Features: whose gradient, descent and structure are cheap; for which a search finds the least loss.
_GRADIENT, _DESCENT, _STRUCTURE, _SEARCH = 64, 128, 40, 9
_LARGEST = 2**14
VERDICTS = ("best known", "local minimum", "saddle", "unfinished", "not asked")


@result
class Audited:
    """One model beside what is known of its law. Losses are per feature, weighed by importance."""

    n_features: int
    n_hidden: int
    tied: bool
    """Whether the decoder is the transpose of the encoder."""
    loss: float
    """Exact expected loss."""
    loss_error: float
    """What `loss` is off by at most."""
    per_feature: FloatArray
    """Mean squared error of each feature, without its importance."""
    zero_loss: float
    """Loss of the model that always answers 0."""
    best_known: float
    """Least loss that is known at this size; infinite where none is (features that differ, above 9)."""
    best_name: str
    """What has it."""
    lower_bound: float
    """What no model of this size can beat; 0 where nothing is proved."""
    rug: float
    """Macroscopic loss of the rug at this ratio; nan for features that differ."""
    represented: int
    """Features to which the model answers at all."""
    dimensionality: FloatArray
    """Share of a hidden dimension that each feature has (Elhage et al. 2022)."""
    structure: str
    """Which features hang together, and how; empty above 40 features."""
    gradient_norm: float
    """Length of the gradient by weights and biases over `zero_loss`; nan above 64 features, if not asked."""
    end_loss: float
    """Where descent on the exact loss from these weights ends; nan where it was not asked for."""
    verdict: str
    """One of `VERDICTS`."""

    @property
    def sentence(self) -> str:
        """What was found, in one sentence."""
        above = self.loss / self.best_known - 1.0 if self.best_known > 0.0 else np.inf
        beside = (
            f"{above:.2%} above the best known ({self.best_name})"
            if above > SAME
            else f"no worse than the best known ({self.best_name})"
        )
        if not np.isfinite(self.best_known):
            beside = "nothing is known beside it"
        fall = 1.0 - self.end_loss / self.loss if self.loss > 0.0 else 0.0
        left = self.end_loss / self.best_known - 1.0 if self.best_known > 0.0 else np.nan
        end = f", to {left:.2%} above it" if np.isfinite(left) and left > SAME else ""
        known = {
            "best known": f"A minimum of the exact loss, {beside}.",
            "local minimum": f"A minimum of the exact loss, {beside}: stuck, longer training will not help.",
            "saddle": f"At a saddle, {beside}: descent on the exact loss falls by {fall:.2%}{end}.",
            "unfinished": f"Not at a minimum: {beside}; descent on the exact loss falls by {fall:.2%}{end}.",
            "not asked": f"Loss {self.loss:.4g}, {beside}.",
        }
        return known[self.verdict]


@result
class Audit:
    """The models of a file, one by one."""

    layout: str
    """Name of the layout in which the weights were found."""
    models: tuple[Audited, ...]


@cache
def _codes(p: float, ratio: float, models: str) -> Envelope:
    """Return the best known codes; the instances of a file often share them."""
    return envelope(p, ratio, models=models)


def _known(one: Weights, law: Features, found: Minimum | None) -> tuple[float, str, float, float]:
    """Return the least known loss, what has it, a proved lower bound, and the rug's loss."""
    n, m = one.W_out.shape
    known = [(np.inf, "nothing")]
    lower, rug = 0.0, np.nan
    if law.alike and np.all(law.importance == law.importance[0]) and 1e-6 <= law.p[0] < 1.0 and m < n:
        unit = float(law.scale[0] ** 2 * law.importance[0])
        codes = _codes(float(law.p[0]), m / n, "tied" if one.tied else "free")
        lower, rug = unit * float(codes.lower_bound), unit * float(codes.rug)
        names = [codes.names[int(k)] for k in (codes.first, codes.second)]
        if found is None:  # a mixture of codes need not be possible with few features
            name = f"{' and '.join(dict.fromkeys(names))}, in the limit of many features"
            known.append((unit * float(codes.loss), name))
    if found is not None:
        known.append((found.loss, f"the least of {found.starts} descents"))
        lower = max(lower, found.certificate.lower_bound)
    if m >= n:
        known.append((0.0, "features kept exactly"))
    return *min(known), lower, rug


def _end(one: Weights, law: Features, steps: int, loss: float, rng: np.random.Generator) -> float:
    """Return the loss where descent ends; from weights that it does not leave also after small kicks.

    At a saddle the gradient vanishes, and at a kink, as of a bias of 0, no Hessian tells.
    """
    W_in = one.W_out.T if one.tied else one.W_in
    end = descend(one.W_out, W_in, one.b, law, tied=one.tied, steps=steps).loss
    size = KICK * np.sqrt(np.mean(one.W_out**2))
    for _ in range(KICKS if end >= loss * (1.0 - SAME) else 0):
        out = one.W_out + size * rng.normal(size=one.W_out.shape)
        into = out.T if one.tied else W_in + size * rng.normal(size=W_in.shape)
        end = min(end, descend(out, into, one.b, law, tied=one.tied, steps=steps).loss)
    return end


def _audited(one: Weights, law: Features, steps: int, starts: int, rng: np.random.Generator) -> Audited:
    n, m = one.W_out.shape
    here = exact_loss(one.W_out @ one.W_in, one.b, law)
    aim = Objective(n, m, law, one.tied)
    search = minimise(n, m, law, tied=one.tied, starts=starts, rng=rng) if starts and n <= _SEARCH else None
    best, name, lower, rug = _known(one, law, search)
    asked = steps > 0 and n <= _DESCENT
    slope = np.nan
    if asked or n <= _GRADIENT:
        slope = float(np.linalg.norm(aim.slope(aim.join(one.W_out, one.W_in, one.b))))
    end, verdict = np.nan, "not asked"
    if asked:
        end = _end(one, law, steps, here.loss, rng)
        if end < best * (1.0 - SAME):
            best, name = end, "descent from these weights"
        rounding = SAME * here.loss + here.error_estimate
        if end < here.loss - rounding:
            verdict = "saddle" if slope < STILL else "unfinished"
        else:
            verdict = "best known" if here.loss <= best * (1.0 + SAME) + rounding else "local minimum"
    return Audited(
        n_features=n,
        n_hidden=m,
        tied=one.tied,
        loss=here.loss,
        loss_error=here.error_estimate,
        per_feature=here.per_feature,
        zero_loss=aim.unit,
        best_known=best,
        best_name=name,
        lower_bound=lower,
        rug=rug,
        represented=int(
            np.sum(np.sum(one.W_out * one.W_in.T, axis=1) * law.scale + one.b > KEPT * law.scale)
        ),
        dimensionality=feature_dimensionality(one.W_in.T),
        structure=structure(one.W_in.T) if n <= _STRUCTURE else "",
        gradient_norm=slope,
        end_loss=end,
        verdict=verdict,
    )


def audit(
    model: Any,
    law: Any,
    *,
    layout: str | None = None,
    keys: Mapping[str, str] | None = None,
    instances: Any = None,
    steps: int = 300,
    starts: int = 20,
    rng: Any = 0,
) -> Audit:
    """Say what a trained model ReLU(W_out W_in x + b) is, how good it could be, and if training found it.

    Parameters
    ----------
    model : torch.nn.Module, mapping or path
        A module, a state dict of tensors or arrays, or a file of one: .npz, .safetensors, or PyTorch's of
        tensors alone. Layouts of public code are recognised by names and shapes, see `LAYOUTS`.
    law : float, Features or sequence of these
        The data it is meant for: the probability that a feature is on, values then uniform on [0, 1], or any
        law; one for each instance, or one for all.
    layout : str, optional
        Name of a layout, where shapes leave several.
    keys : mapping of str to str, optional
        Names of the arrays that are "W_in", "W_out" and "b", for layouts that are not known.
    instances : sequence of int, optional
        Which instances to audit, from 0; all by default.
    steps : int, optional
        Steps of descent on the exact loss from the weights, which tell minima, saddles and unfinished models
        apart; for 128 features at most. None with 0.
    starts : int, optional
        Starts of a search for the least loss, for 9 features at most. None with 0.
    rng : Generator, int or None, optional
        For the search.

    Returns
    -------
    Audit

    Raises
    ------
    ValueError
        If the layout is not known, weights are not finite, or law and model do not fit.

    Notes
    -----
    Tied models are compared with tied ones. The best known loss of alike features is that of the envelope of
    codes (`solvers.codes.envelope`) in the limit of many features; where there is a search it is that of the
    search.

    Examples
    --------
    >>> pair = np.array([[1.0], [-1.0]])
    >>> found = audit({"W": pair, "b": np.zeros(2)}, 0.1)
    >>> found.layout, found.models[0].verdict, found.models[0].structure
    ('liuyz0/SuperpositionScaling', 'unfinished', 'antipodal pair 0-1')
    """
    steps = arguments.integer("steps", steps, 0, 10**6)
    starts = arguments.integer("starts", starts, 0, 10**6)
    generator = arguments.generator("rng", rng)
    name, found = recognise(state_of(model), layout=layout, keys=keys)
    picked = (
        range(len(found))
        if instances is None
        else [arguments.integer("instances", one, 0, len(found) - 1) for one in instances]
    )
    n, m = found[0].W_out.shape
    if max(n, m) > _LARGEST:
        raise ValueError(f"`model` must have at most {_LARGEST} features and neurons; got {n} and {m}.")
    for at in picked:
        for part, array in vars(found[at]).items():
            arguments.real(f"{part} of instance {at}", array, -1e6, 1e6)
    several = isinstance(law, Sequence | np.ndarray) and not isinstance(law, str) and np.ndim(law) == 1
    laws = list(law) if several else [law] * len(found)
    if len(laws) != len(found):
        raise ValueError(
            f"`law` must be one law, or one for each of {len(found)} instances; got {len(laws)}."
        )
    return Audit(
        layout=name,
        models=tuple(_audited(found[k], as_features(laws[k], n), steps, starts, generator) for k in picked),
    )

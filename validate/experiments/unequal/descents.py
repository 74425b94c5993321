"""Descents by exact gradients on the width law, from the priority code and from trained models."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from ....solvers.loss import exact_loss
from ....solvers.minimise import descend
from ....theory.annotations import as_annotated
from ....theory.features import Features
from ....theory.unequal import loss_bound, priority_loss, priority_weights
from ....theory.validation import FloatArray
from ...runner.declarations import UNCONVERGED, ReproductionCheck, Run, Table, from_rows, span
from ...runner.findings import Criterion, preregistered
from .models import PLACE_COLUMNS, Model, source_law, train_models

# Fixed before the descents were run.
LEVEL_END = Criterion("gain of the last tenth of steps", "<", preregistered(0.005))
NEAR_CODE = Criterion("|best end / code - 1|", "<=", preregistered(0.05))

# Noise that moves the exact zeros of a code's weights, relative to what an output answers to its own feature.
NOISE_SIZE = 0.01


def perturbed(model: Model, reach: float, rng: np.random.Generator) -> Model:
    """Return a model (W_out, W_in, b) with normal noise added to its weights.

    Noise on the weights of a dropped feature has a length of about 1/100; on those of another feature its
    length is about 1/(100 reach) times theirs. Here reach = (longest encoding)/(shortest encoding) of the
    model: noise of the longest then changes outputs by 1/100 of the effect of the shortest.

    Examples
    --------
    >>> code = np.eye(2, 1), np.eye(1, 2), np.zeros(2)
    >>> W_out, W_in, b = perturbed(code, 100.0, np.random.default_rng(0))
    >>> bool((W_out != code[0]).all()), float(abs(W_out[0] - 1.0).max()) < 1e-3
    (True, True)
    """

    def add_noise(W: FloatArray, axis: int) -> FloatArray:
        """Return weights with noise in units of the lengths along `axis`."""
        length = np.linalg.norm(W, axis=axis, keepdims=True)
        size = NOISE_SIZE * np.where(length > 0.0, length / reach, 1.0)
        return np.asarray(W + size * rng.normal(size=W.shape) / np.sqrt(W.shape[axis]))

    return add_noise(model[0], 1), add_noise(model[1], 0), model[2]


def off_diagonal_weights(model: Model) -> dict[str, float]:
    """Return "strongest", the largest off-diagonal |M_ij / M_ii|, and "negative", the share of M_ij < 0.

    M is W_out W_in of `model`. Only outputs with M_ii above 1/10 count; both are nan if there is none.
    """
    M = model[0] @ model[1]
    diagonal = np.diagonal(M)
    is_active = diagonal > 0.1
    if not is_active.any():
        return {"strongest": np.nan, "negative": np.nan}
    relative = (M / np.where(is_active, diagonal, 1.0)[:, None])[is_active]
    relative[np.arange(len(relative)), np.flatnonzero(is_active)] = 0.0
    return {"strongest": float(np.abs(relative).max()), "negative": float(np.mean(relative < 0.0))}


def _descent_row(model: Model, law: Features, steps: int) -> dict[str, float]:
    """Descend on the exact loss from `model`, (W_out, W_in, b); return losses and measures by name.

    "start" and "loss" are losses per feature before and after `steps` steps; "gain" is 1 - loss / (loss
    before the last tenth of steps); "gradient" is the gradient's norm at the end over the zero model's loss.
    With M = W_out W_in at the end, "strongest" is the largest off-diagonal |M_ij / M_ii|, "negative" the
    share of M_ij < 0.
    """
    last = max(1, steps // 10)
    first = descend(*model, law, steps=max(1, steps - last), tol=1e-9)
    end = descend(first.W_out, first.W_in, first.b, law, steps=last, tol=1e-9)
    return {
        "start": exact_loss(model[0] @ model[1], model[2], law, tol=1e-6).loss,
        "loss": end.loss,
        "gain": 1.0 - end.loss / first.loss,
        "gradient": end.gradient_norm,
        **off_diagonal_weights((end.W_out, end.W_in, end.b)),
    }


@as_annotated
def run_descended(
    alpha: Sequence[float] = (0.0, 1.0, 2.0),
    n_hidden: Sequence[int] = (1, 2, 4, 8, 16),
    *,
    n_features: int = 24,
    on: float = 1.0,
    seed: int = 0,
    train_steps: int = 2000,
    batch: int = 512,
    steps: int = 100,
    reach: float = 1e4,
) -> xr.Dataset:
    """Return losses and weights at the ends of descents by exact gradients, at some alpha and n_hidden.

    Descents start from trained models as in `run_width`, and from the priority code with a finite spread of
    lengths, in which larger features turn the outputs of smaller ones off
    (`theory.unequal.priority_weights`).

    Parameters
    ----------
    alpha, n_hidden : sequence of float, sequence of int
        Exponents of the frequencies, p_i proportional to i^-alpha; numbers of neurons.
    n_features, on : int, float
        Number of features, and mean number of them that are on.
    seed : int
        Seed of training, and of the noise that perturbs the code's exact zeros.
    train_steps, batch : int
        Steps of training before the descents, and fresh samples in each.
    steps : int
        Steps of L-BFGS on the exact loss. Its memory is cleared before the last tenth.
    reach : float
        (Longest encoding) / (shortest encoding) of a pair of dimensions, in the code from which a descent
        begins.

    Returns
    -------
    xarray.Dataset
        Losses are per feature. Of (alpha, n_hidden): ``bound``, a proved lower bound for all models, and
        ``priority``, the loss of the priority code. Of (alpha, n_hidden, begin), where begin is "code"
        or "trained": the exact losses ``start`` and ``loss``; ``gain`` of the last tenth of steps, relative;
        ``gradient``, the length of the gradient over the loss of the zero model; with M = W_out W_in,
        ``strongest``, the largest off-diagonal |M_ij / M_ii|, and ``negative``, the share of M_ij < 0.
    """
    rows: list[dict[str, float]] = []
    references: list[dict[str, float]] = []
    facts: dict[str, Any] = {}
    for exponent in alpha:
        law = source_law(exponent, n_features, on)
        losses, models = train_models(law, list(n_hidden), seed, train_steps, batch, device="cpu")
        facts = losses.attrs
        for m, (W_out, W_in, b) in zip(n_hidden, models, strict=True):
            rng = np.random.default_rng([seed, n_features, m])
            code = perturbed(priority_weights(law, m, reach), reach, rng)
            rows += [_descent_row(model, law, steps) for model in (code, (W_out[:, :m], W_in[:m], b))]
            references.append({"bound": loss_bound(law, m), "priority": priority_loss(law, m)})
    ends = from_rows(rows, alpha=alpha, n_hidden=n_hidden, begin=["code", "trained"])
    ds = ends.merge(from_rows(references, alpha=alpha, n_hidden=n_hidden))
    settings = {"n_features": n_features, "on": on, "seed": seed, "batch": batch, "reach": reach}
    return ds.assign_attrs(settings | {"steps": steps, "train_steps": train_steps} | facts)


def show_descents(ds: xr.Dataset) -> tuple[str, Table]:
    """Return the text and the table of exact descents; `ds` is from `run_descended`.

    The table has, by exponent and n_hidden: the lower bound, the priority code's loss, losses at start and
    end of descents from the code and from trained models, (best end) / (code's loss), and how far that end
    has converged.
    """
    best = ds["loss"].min("begin")
    winner = ds.isel(begin=ds["loss"].argmin("begin"))
    gradient_range = span(winner["gradient"].values, ".1g")
    level = LEVEL_END.satisfied(winner["gain"])
    ratio = best / ds["priority"]
    near, total = NEAR_CODE.satisfied(abs(ratio - 1)), best.size
    trained_ratio = ds["loss"].sel(begin="trained") / ds["start"].sel(begin="trained")
    start_ratio = ds["start"].sel(begin="code") / ds["priority"]
    text = (
        f"Is that the optimiser, or the optimum? At n = {ds.attrs['n_features']} we continue for "
        f"{ds.attrs['steps']} steps of the exact gradient, from models trained for "
        f"{ds.attrs['train_steps']} steps and from the code at finite lengths (the encodings of a plane "
        f"differ by at most {ds.attrs['reach']:g}). Fixed before these runs: at how many of 15 settings is "
        f"the code within {NEAR_CODE:.0%} of the best end? Of the {total} settings that were run (alpha = "
        f"{', '.join(f'{float(a):g}' for a in ds['alpha'].values)}) it is so at {int(near.sum())}, and at "
        f"{int((near & level).sum())} of the {int(level.sum())} whose last tenth of steps gains less than "
        f"{LEVEL_END:.1%}. That is no proof "
        f"of a minimum: gradients are still {gradient_range} of the loss of the zero model. "
        f"Descents take trained models to {span(trained_ratio, '.2f')} of their loss. The loss of the best "
        f"ends is {span(ratio, '.2f')} times that of the code, and below it at {int((ratio < 1).sum())} "
        "settings. Descents from the code's own weights end lower than those from trained models at "
        f"{int((winner['begin'] == 'code').sum())}: the code's loss is a limit of lengths that differ by "
        f"many decades, and at finite lengths it starts {span(start_ratio, '.2g')} times as high."
    )
    ends = {
        f"{begin} {end}": ds[name].sel(begin=begin, drop=True)
        for begin in ds["begin"].values
        for end, name in (("start", "start"), ("end", "loss"))
    }
    columns = PLACE_COLUMNS | {"bound": "{bound:.3g}", "code": "{priority:.3g}"}
    columns |= {name: f"{{{name}:.3g}}" for name in ends}
    columns |= {"ratio": "{ratio:.2f}", "last gain": "{gain:.3g}", "gradient": "{gradient:.3g}"}
    columns |= {"strongest": "{strongest:.3g}", "negative": "{negative:.0%}"}
    caption = (
        "Exact losses before and after the descents. Ratio: the best end over the code. Of the best end: "
        "what the last tenth of steps gains, the gradient over the loss of the zero model, the strongest "
        "weight of another feature over the output's own, and the share of others' weights that is negative."
    )
    rows = winner.drop_vars("begin").assign({**ends, "ratio": ratio})
    title = "Exact descents from the code and from trained models"
    return text, Table.formatted(title, rows, columns, caption)


# What is gained in flat directions, and the gradient left, are rounding.
_GAINED = ["start", "loss", "bound", "priority"]
# Frozen were 15 places, at alpha = 0, 1 and 2; those of alpha = 0 and 1 are run.
RUNS = {
    "descended": Run.shipped(
        "unequal_width",
        "the width law, exact descents",
        run_descended,
        {"alpha": [0, 1]},
        torch=True,
        check=ReproductionCheck({"alpha": [0], "n_hidden": [1]}, _GAINED, 1e-3, UNCONVERGED),
        split_by=[{"alpha": [0]}, {"alpha": [1]}],
        concat_dim="alpha",
    )
}

"""How fast training leaves each saddle."""

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.linear import critical_hessian, critical_loss, growth_rates, spectrum
from ....theory.validation import FloatArray
from ...runner.declarations import Run, Table, Topic, TopicContent, from_rows, span
from .descent import (
    LABELS,
    MODELS,
    check_eigenvalues,
    descend,
    expected_losses,
    list_eigenvalues,
    moment_points,
)

_DEVIATION = 1e-12  # mean size of the first deviation of each weight from a saddle
# What the loss has fallen by, over the largest eigenvalue, while its growth is measured: the deviation,
# about its square root, is still small, and the loss's roundings are smaller.
_WINDOW = (1e-9, 1e-5)
# From the first deviation to the end of the window and beyond.
_FOLDS = 32.0


@as_annotated
def run_saddles(
    eigenvalues: Sequence[float] = (3.0, 2.0, 1.0, 0.5),
    n_hidden: int = 2,
    runs: int = 4,
    seed: int = 0,
    *,
    step: float = 0.05,
) -> xr.Dataset:
    """Train from starts near each saddle and measure how fast the loss leaves it.

    Parameters
    ----------
    eigenvalues : sequence of float, optional
        Eigenvalues of the covariance, which is diagonal; positive, not rising. If some are equal, one saddle
        represents all that keep the same eigenvalues.
    n_hidden, runs, seed : int, optional
        Number of hidden neurons, below that of the eigenvalues; number of starts at each saddle, their seed.
    step : float, optional
        Learning rate times the largest eigenvalue.

    Returns
    -------
    xarray.Dataset
        Of (saddle): ``kept``, the indices of the eigenvectors that it keeps, as text, and ``rank``, their
        number. Of (model, saddle): the largest growth rates of the flow, ``flow_rate``, and of rotations of
        the kept eigenvectors, ``rotation_rate`` (Notes 2022, Prop. 3); ``predicted``, log(1 + 2 eta rate)/(2
        eta), which is the rate of steps at the learning rate eta; ``index``, the number of negative
        eigenvalues of the Hessian. Of (model, saddle, run): ``measured``, half the slope of log(fall) against
        time by least squares, where fall = (loss of the saddle) - loss is between 1e-9 and 1e-5 of the
        largest eigenvalue. Other growing directions and curvature shift this rate by about 1e-3.

    Examples
    --------
    >>> ds = run_saddles((3.0, 1.0), 1, runs=1)
    >>> ds.kept.values.tolist(), bool(abs(ds.measured.isel(run=0) / ds.predicted - 1).max() < 1e-3)
    (['none', '1'], True)
    """
    values = check_eigenvalues(eigenvalues, strictly=False)
    n, sigma = values.size, np.diag(values)
    d, runs = validation.integers(n_hidden=(n_hidden, 1, n - 1), runs=(runs, 1))
    rate = validation.number("step", step, 1e-9, 0.2) / values[0]
    rng = np.random.default_rng([seed, n, d])

    sets = _list_saddles(sigma, d)
    # Weights whose columns are the directions kept; columns of neurons to spare are zero.
    points = np.zeros((len(sets), n, d))
    for point, indices in zip(points, sets, strict=True):
        point[list(indices), range(len(indices))] = 1
    levels = np.array([critical_loss(sigma, indices) for indices in sets]) * n
    stride = max(1, int(0.2 / step))  # several looks at the fastest growth
    rows = []
    for model in MODELS:
        rates = np.array([growth_rates(sigma, indices, d, model)[0] for indices in sets])
        predicted = np.log1p(2 * rate * rates) / (2 * rate)
        steps = np.arange(0, int(_FOLDS / (2 * rate * predicted.min())), stride)
        # Equal signs in decoder and encoder, where growing deviations have them too: none begins near zero.
        signs = rng.choice([-1.0, 1.0], size=(len(sets) * runs, n, d))
        deviations = _DEVIATION * signs * rng.uniform(0.5, 1.5, size=(2, *signs.shape))
        start = np.repeat(points, runs, axis=0) + deviations
        trained = descend(start[0], start[1], moment_points(sigma), rate, steps.tolist(), model)
        losses = n * expected_losses(trained.A, trained.C, sigma).T.reshape(len(sets), runs, -1)
        for s, indices in enumerate(sets):
            measured = []
            for fallen in (levels[s] - losses[s]) / values[0]:
                window = slice(np.argmax(fallen > _WINDOW[0]), np.argmax(fallen > _WINDOW[1]))
                measured.append(np.polyfit(2 * rate * steps[window], np.log(fallen[window]), 1)[0] / 2)
            hessian = critical_hessian(sigma, indices, d, tied=model == "tied")
            row = {"flow_rate": rates[s], "predicted": predicted[s], "index": hessian.index}
            rows.append({**row, "rotation_rate": hessian.rotation_rate, "measured": ("run", measured)})
    ds = from_rows(rows, model=MODELS, saddle=len(sets)).assign(
        kept=("saddle", [" ".join(map(str, indices)) or "none" for indices in sets]),
        rank=("saddle", list(map(len, sets))),
    )
    return ds.assign_attrs(n_hidden=d, eigenvalues=values, deviation=_DEVIATION, learning_rate=rate)


def _list_saddles(covariance: FloatArray, n_hidden: int) -> list[tuple[int, ...]]:
    """Return the saddles of a linear autoencoder's loss, each as the indices of the eigenvectors it keeps.

    At a saddle the model projects on at most `n_hidden` eigenvectors of `covariance`; index 0 is the largest
    eigenvalue. If eigenvalues are equal, one saddle represents all that keep the same eigenvalues.
    """
    space = spectrum(covariance).space
    by_spaces: dict[tuple[int, ...], tuple[int, ...]] = {}
    for size in range(n_hidden + 1):
        for indices in itertools.combinations(range(space.size), size):
            if not critical_hessian(covariance, indices, n_hidden).is_minimum:
                by_spaces.setdefault(tuple(space[list(indices)]), indices)
    return list(by_spaces.values())


def span_of_runs(values: xr.DataArray, digits: str) -> xr.DataArray:
    """Return texts "least to largest" of values over ``run``, with numbers in the format `digits`."""
    options: dict[str, Any] = {"input_core_dims": [["run"]], "vectorize": True, "output_dtypes": [object]}
    texts: xr.DataArray = xr.apply_ufunc(partial(span, digits=digits), values, **options)
    return texts


def saddle_table(
    title: str, columns: dict[str, xr.DataArray], names: dict[str, str], caption: str = ""
) -> Table:
    """Return a table with a row for each combination of coordinates, and `columns`, values by heading.

    `names` maps each dimension, such as "saddle", to the heading of its column; `title` stands above,
    `caption` below the table.
    """
    rows = xr.Dataset(columns).to_dataframe(list(names)).reset_index()
    return Table.of(title, rows.replace(LABELS).rename(columns=names), caption)


def _show_saddles(ds: xr.Dataset) -> TopicContent:
    """Return text and table of the report's part "saddles", from `ds` of `run_saddles`.

    The table has, by saddle and tied or untied weights, the number of directions in which the loss falls, and
    growth rates: of the best rotation, of the steepest direction in the flow and in steps, and measured.
    """
    off = abs(ds["measured"] / ds["predicted"] - 1)
    full = ds.where(ds["rank"] == ds.attrs["n_hidden"], drop=True).sel(model="pair")
    eta = 2 * ds.attrs["learning_rate"]
    rotation = np.log1p(eta * full["rotation_rate"]) / eta
    text = (
        f"Started beside each saddle, at a distance of {ds.attrs['deviation']:g}, models leave it at a rate "
        f"that differs from the predicted one by at most {float(off.max()):.1e}, relative; steps at the "
        "learning rate η have log(1 + 2ηr)/(2η). Untied models that keep as many directions as they can "
        f"leave {span(full['measured'] / rotation, '.2f')} times as fast as along Prop. 3's rotation, which "
        "is not the steepest way down."
    )
    columns = {
        "index": ds["index"],
        "best rotation": ds["rotation_rate"],
        "steepest descent": ds["flow_rate"],
        "the same in steps": ds["predicted"],
        "measured": ds["measured"].mean("run"),
        "largest relative difference": span_of_runs(off, ".1e"),
    }
    columns = {name: values.assign_coords(saddle=ds["kept"].values) for name, values in columns.items()}
    caption = (
        f"Eigenvalues {list_eigenvalues(ds)}; d = {ds.attrs['n_hidden']}. Rates of the flow along the best "
        "rotation (Prop. 3) and of steepest descent, the latter in steps of this length, and measured in "
        "training. Index: dimensions in which the loss falls. Of equal eigenvalues one choice stands for all."
    )
    title = "Growth rates at the saddles"
    table = saddle_table(title, columns, {"saddle": "directions kept", "model": "weights"}, caption)
    return TopicContent(text, (), [table])


# Two equal eigenvalues, as the second moments of sparse inputs have.
QUICK = {"eigenvalues": (3.0, 2.0, 1.0, 1.0), "step": 0.1}
FULL = {"eigenvalues": (4.0, 3.0, 2.0, 1.0, 1.0), "n_hidden": 3, "runs": 16, "step": 0.02}
RUNS = {"saddles": Run(run_saddles, QUICK, FULL, torch=True, seconds=2)}
TOPICS = [Topic("saddles", ["saddles"], _show_saddles, claims=["B5"])]

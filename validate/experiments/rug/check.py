"""Exact losses of trained models beside losses on fresh samples."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from ....solvers import rug as solvers
from ....theory.annotations import as_annotated
from ...runner.declarations import Run, Table, Topic, TopicContent
from .models import run_trained


@as_annotated
def run_checked(
    n_features: int,
    p: Sequence[float],
    ratio: Sequence[float],
    seeds: Sequence[int],
    steps: int = 1000,
    samples: int = 2**21,
) -> xr.Dataset:
    """Return exact losses of trained models beside their losses on fresh samples.

    For each combination of p, `ratio` (n_hidden/n_features) and one of `seeds`, a model of `n_features`
    features is trained for `steps` steps; `samples` is the number of fresh samples.

    Returns
    -------
    xarray.Dataset
        Of (model), at the converged end, losses per feature: the ``exact`` one and its ``error_estimate``;
        ``sampled``, the mean over samples, and its standard error ``sampled_se``; ``z``, (sampled - exact) /
        sampled_se.
    """
    settings: dict[str, Any] = {"schedule": "converged", "keep_weights": True}
    trained = run_trained(n_features, p, ratio, seeds, steps=steps, evaluation_samples=samples, **settings)
    return compare_with_samples(trained).assign_attrs(samples=samples)


def compare_with_samples(trained: xr.Dataset) -> xr.Dataset:
    """Return exact losses of models, losses on samples and the difference in standard errors, ``z``.

    Of (model), at the last end of training: sizes and p, and, per feature, ``exact`` and its
    ``error_estimate``, ``sampled`` and its standard error ``sampled_se``, and ``z`` = (sampled - exact) /
    sampled_se. `trained` has models with weights, from `run_trained`.
    """
    end = trained.isel(end=-1)
    M = end["W_out"].values.astype(float) @ end["W_in"].values.astype(float)
    models = zip(M, end["bias"].values, end["p"].values, strict=True)
    exact_losses = [solvers.exact_loss(*model) for model in models]
    exact = np.array([exact_loss.loss for exact_loss in exact_losses])
    columns = {name: end[name] for name in ("n_features", "n_hidden", "p")}
    columns |= {"sampled": end["loss"], "sampled_se": end["loss_se"]}
    errors = [exact_loss.error_estimate for exact_loss in exact_losses]
    ds = xr.Dataset(columns).assign(exact=("model", exact), error_estimate=("model", errors))
    ds["z"] = (ds["sampled"] - ds["exact"]) / ds["sampled_se"]
    return ds.drop_vars("end")


def _show_checked(ds: xr.Dataset) -> TopicContent:
    """Return the content of the report's topic "check": a table of exact and sampled losses of models.

    `ds` is from `run_checked`. A row is a trained model; columns are its sizes and p, the exact loss per
    feature with its error estimate, the mean loss on samples with its standard error, and their difference in
    standard errors.
    """
    digits = {"n_features": "d", "n_hidden": "d", "p": "g", "exact": ".9g", "error_estimate": ".1e"}
    digits |= {"sampled": ".9g", "sampled_se": ".1e", "z": "+.2f"}
    title = "Exact loss of trained models against samples"
    caption = (
        f"Trained in this run; {ds.attrs['samples']:.1e} fresh samples. Their float32 arithmetic errs by "
        "about 1e-7 relative; z is the difference in standard errors."
    )
    table = Table.formatted(title, ds, {name: f"{{{name}:{form}}}" for name, form in digits.items()}, caption)
    return TopicContent("", (), [table])


RUNS = {
    "checked": Run(
        run_checked,
        {"n_features": 32, "p": (0.01, 0.1, 0.4), "ratio": (0.25,), "seeds": range(1)},
        {
            "n_features": 128,
            "p": (0.001, 0.01, 0.1, 0.4),
            "ratio": (0.125, 0.25),
            "seeds": range(1),
            "samples": 10**7,
        },
        torch=True,
        seconds=8,
    )
}
TOPICS = [Topic("check", ["checked"], _show_checked)]

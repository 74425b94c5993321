"""What a Langevin sampler returns as the local learning coefficient of a small model, and its prediction."""

import importlib.metadata
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ....solvers.loss import LossExpansion, ToyLoss, loss_expansion
from ....solvers.minimise import minimise
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.features import Features
from ....theory.loss import langevin_llc
from ....theory.model import Model
from ....theory.validation import FloatArray
from ...runner.declarations import Figure, ReproductionCheck, Run, Topic, TopicContent
from ...runner.findings import Criterion, Finding, preregistered
from ...training.engine import load_torch
from ..drawing import finish_axes, plot_function

SAMPLERS = ("devinterp", "numpy")
# Eigenvalues below this share of the largest are those of symmetries, or of kinks.
FLAT = 1e-6

# --- Fixed before the sampler ran on these minima ---------------------------------------------------------

# The expansion claims to hold where its next order is a small share of the leading one, and no kink is near.
SMALL = Criterion("|next order| / leading order", "<=", preregistered(0.05))
DISTANT = Criterion("standard deviations to the nearest kink", ">=", preregistered(3.0))
# What is then asked, in standard errors over the chains.
SIGMAS = 3.0
AGREE = Criterion(
    "share of places where |measured - predicted| <= 3 standard errors", ">=", preregistered(0.95)
)
POOLED = Criterion("|mean of all deviations| in standard errors", "<=", preregistered(3.0))
SPREAD = Criterion("|spread over predicted spread - 1|, mean over places", "<=", preregistered(0.1))
PLANTED = Criterion("share of places where a prediction that is off by 1/2 passes", "<=", preregistered(0.05))


def drawn_law(seed: int, minimum: int) -> tuple[Features, int]:
    """Return (law, n_hidden) of a small model, drawn at random from `seed` and the model's number `minimum`.

    If `minimum` is even, all features have the same p.
    """
    rng = np.random.default_rng([seed, minimum])
    n = int(rng.integers(3, 9))
    m = int(rng.integers(2, min(n, 4)))
    p = np.exp(rng.uniform(np.log(0.03), np.log(0.5)))
    return Features(n, p * np.exp(rng.uniform(-0.5, 0.5, n)) if minimum % 2 else p), m


@as_annotated
def run_localised(
    minima: Sequence[int],
    settings: Sequence[Sequence[float]] = ((1e4, 1000.0), (1e5, 100.0), (1e6, 100.0)),
    *,
    sampler: str = "devinterp",
    stiffness: float = 0.5,
    num_draws: int = 3000,
    num_burnin_steps: int = 1000,
    chains: int = 32,
    seed: int = 54,
) -> xr.Dataset:
    r"""Estimate local learning coefficients of small models with a Langevin sampler, and predict them.

    Laws and sizes are drawn: 3 to 8 features, 2 or 3 neurons, p from 0.03 to 0.5; in every second law the
    probabilities of features differ. Each model is the best of many starts; its loss is the expected one.

    Parameters
    ----------
    minima : sequence of int
        Numbers of the models, from 0 on; each draws a law and a size.
    settings : sequence of (float, float)
        (nbeta, localization) of the sampler; nbeta multiplies the loss per feature.
    sampler : {"devinterp", "numpy"}
        devinterp 1.3, to be installed separately, or the same steps in NumPy.
    stiffness : float
        lr (nbeta h + localization), in (0, 4), with the sampler's step size lr and h the largest eigenvalue
        of the Hessian.
    num_draws, num_burnin_steps, chains, seed : int
        Settings of the sampler; all chains start at the minimum. The seed also draws the laws.

    Returns
    -------
    xarray.Dataset
        Of (minimum, setting, chain): the estimate ``llc``. Of (minimum, setting): its prediction by expanding
        the loss (`solvers.loss.loss_expansion`), in orders ``leading`` and ``next_order``, and ``margin``,
        the distance of the nearest kink in standard deviations; ``chain_mean`` and ``chain_std`` of the
        estimate of one chain on a quadratic loss. Of (minimum): ``n_features``, ``n_hidden``, ``p`` (the
        mean), ``loss``, ``rank`` of the Hessian, and ``third_error``, (largest error of the third
        derivatives) / (largest third derivative).

    Examples
    --------
    >>> ds = run_localised([2], [[1e6, 100.0]], sampler="numpy", num_draws=20, num_burnin_steps=20)
    >>> ds["llc"].shape, int(ds["rank"][0])
    ((1, 1, 32), 20)
    """
    validation.choice("sampler", sampler, SAMPLERS)
    stiffness = validation.number("stiffness", stiffness, 0.0, 4.0, brackets="()")
    temperatures = validation.real("settings", validation.matrix("settings", settings, (None, 2)), 1e-6, 1e12)
    num_draws, chains = validation.integers(num_draws=(num_draws, 1), chains=(chains, 2))
    chain_settings: dict[str, Any] = {"num_draws": num_draws, "num_burnin_steps": num_burnin_steps}
    cells = []
    for minimum in minima:
        law, m = drawn_law(seed, validation.integer("minima", minimum, 0))
        best = minimise(law.n_features, m, law, rng=0, progress=False)
        model = Model(best.W_in, b=best.b)
        toy, expansion = ToyLoss(model, law), loss_expansion(model, law)
        values = expansion.eigenvalues
        facts = {
            "n_features": law.n_features, "n_hidden": m, "p": float(np.mean(law.p)), "loss": expansion.loss,
            "rank": int(np.sum(values > FLAT * values[-1])),
            "third_error": expansion.errors[0] / float(np.abs(expansion.third).max()),
        }  # fmt: skip
        rows = []
        for k, (nbeta, localization) in enumerate(temperatures.tolist()):
            lr = stiffness / (nbeta * float(values[-1]) + localization)
            where: dict[str, Any] = {"nbeta": nbeta, "localization": localization, "lr": lr, **chain_settings}
            sample = _devinterp_losses if sampler == "devinterp" else langevin_losses
            losses = sample(toy, chains=chains, seed=[seed, minimum, k], **where)
            llc = nbeta * (losses - expansion.loss).mean(axis=0)
            row = xr.Dataset({"llc": ("chain", llc), "lr": lr, **_predicted(expansion, where)})
            rows.append(row.assign_coords(nbeta=nbeta, localization=localization))
        cells.append(xr.concat(rows, "setting").assign(facts).assign_coords(minimum=minimum))
    ds = xr.concat(cells, "minimum", coords="different", compat="equals")
    version = importlib.metadata.version("devinterp") if sampler == "devinterp" else ""
    return ds.assign_attrs(sampler=sampler, devinterp=version, seed=seed)


def _predicted(expansion: LossExpansion, where: dict[str, Any]) -> dict[str, float]:
    """Return by name the terms of the predicted learning coefficient at a sampler's setting, and its spread.

    "leading" and "next_order" are the first two terms of the prediction by expanding the loss; "margin" is
    the distance of the nearest kink in standard deviations; "chain_mean" and "chain_std" are mean and
    standard deviation of one chain's estimate on a quadratic loss. All are nan where the Hessian does not
    make the posterior Gaussian. `expansion` is the loss's at the minimum; `where` has nbeta, localization, lr
    (the step size), num_draws and num_burnin_steps of the sampler.
    """
    names = ("leading", "next_order", "margin", "chain_mean", "chain_std")
    nbeta, localization = where["nbeta"], where["localization"]
    try:
        llc = expansion.expected_llc(nbeta, localization)
        chain = langevin_llc(expansion.eigenvalues, **where)
    except ValueError:
        return dict.fromkeys(names, np.nan)
    margin = expansion.margin(nbeta, localization)
    numbers = llc.leading, llc.next_order, margin, chain.mean, chain.std
    return dict(zip(names, numbers, strict=True))


def langevin_losses(
    toy: ToyLoss, *, nbeta: float, localization: float, lr: float, num_draws: int, num_burnin_steps: int,
    chains: int, seed: Sequence[int],
) -> FloatArray:  # fmt: skip
    """Return losses (num_draws, chains) at the draws of Langevin chains that start at the model's weights.

    `toy` is the loss L per feature. Chains sample exp(-nbeta L(w) - localization |w - start|^2 / 2) in steps
    of `lr`; the first `num_burnin_steps` are discarded.
    """
    rng, start = np.random.default_rng(list(seed)), toy.weights
    w, losses = np.tile(start, (chains, 1)), np.empty((num_draws, chains))
    for step in range(num_burnin_steps + num_draws):
        loss, gradient = toy(w)
        if step >= num_burnin_steps:
            losses[step - num_burnin_steps] = loss
        w = w - 0.5 * lr * (nbeta * gradient + localization * (w - start))
        w += np.sqrt(lr) * rng.standard_normal(w.shape)
    return losses


def evaluate(model: Any, _: Any) -> Any:
    """Return (sum over the chains of their losses, loss of each chain (chains,)), as devinterp requires.

    `model` is a PyTorch module that returns the loss of each chain; the second argument, a batch of data, is
    not used.
    """
    losses = model()
    return losses.sum(), losses.detach()


def _devinterp_losses(
    toy: ToyLoss, *, nbeta: float, localization: float, lr: float, num_draws: int, num_burnin_steps: int,
    chains: int, seed: Sequence[int],
) -> FloatArray:  # fmt: skip
    """Return losses (num_draws, chains) at the draws of devinterp's unchanged Langevin sampler.

    Arguments are those of `langevin_losses`, our own sampler. Chains are the rows of one parameter: its loss
    is the sum of theirs, and steps and noise act entry by entry.
    """
    torch = load_torch()
    try:
        from devinterp.slt.sampler import (  # type: ignore[import-not-found, unused-ignore]
            estimate_learning_coeff_with_summary,
        )
    except ImportError as error:
        raise ImportError("this sampler needs the package devinterp, below version 2") from error

    class Chains(torch.nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.weights = torch.nn.Parameter(torch.from_numpy(np.tile(toy.weights, (chains, 1))))

        def forward(self) -> Any:
            """Return the loss of each chain."""
            losses, gradients = map(torch.from_numpy, toy(self.weights.detach().numpy()))
            # The second term is 0; its derivatives are those of the losses.
            return losses + ((self.weights - self.weights.detach()) * gradients).sum(dim=1)

    losses = np.empty((num_draws, chains))

    def record(*, draw: int, results: Any, **_: Any) -> None:
        """Store the losses of all chains at a draw, the first of `results`."""
        losses[draw] = results[0].numpy()

    model = Chains()
    batches = torch.utils.data.DataLoader(torch.zeros(2 * num_draws), batch_size=2)
    initial = float(evaluate(model, None)[0].detach())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one that the data are few, and others about names
        summary = estimate_learning_coeff_with_summary(
            model, batches, [record], evaluate, num_draws=num_draws, num_chains=1,
            num_burnin_steps=num_burnin_steps, init_loss=initial, verbose=False,
            optimizer_kwargs={"lr": lr, "nbeta": nbeta, "localization": localization},
            seed=int(np.random.SeedSequence(list(seed)).generate_state(1)[0] >> 1),
        )  # fmt: skip
    mean_llc, total = summary["llc/mean"], nbeta * (losses.sum(axis=1).mean() - initial)
    # It holds losses in single precision.
    if abs(mean_llc - total) > 1e-6 * (nbeta * initial + abs(total)):
        raise ArithmeticError(f"devinterp's own mean is {mean_llc:g}, that of its losses {total:g}.")
    return losses


def _compare_llc(ds: xr.Dataset) -> xr.Dataset:
    """Return measured and predicted learning coefficients (minimum, setting), with errors and deviations.

    Variables are ``measured`` and its standard ``error``, ``predicted``, ``deviation`` (in standard errors)
    and ``claimed``, whether the prediction should hold: its term of the next order is small and no kink of
    the loss is near. `ds` is from `run_localised`.
    """
    error = ds["llc"].std("chain", ddof=1) / ds.sizes["chain"] ** 0.5
    predicted = ds["chain_mean"] + ds["next_order"]
    claimed = SMALL.satisfied(abs(ds["next_order"] / ds["leading"])) & DISTANT.satisfied(ds["margin"])
    return xr.Dataset(
        {
            "measured": ds["llc"].mean("chain"),
            "error": error,
            "predicted": predicted,
            "deviation": (ds["llc"].mean("chain") - predicted) / error,
            "claimed": claimed,
        }
    )


def _judge(ds: xr.Dataset) -> list[Finding]:
    """Return the findings on measured against predicted learning coefficients; `ds` is from `run_localised`.

    Where the prediction should hold, their numbers are: the share of (minimum, setting) within 3 standard
    errors; the mean deviation over its standard error; (spread of chains) / (predicted spread) - 1; and the
    share of predictions shifted by 1/2 that would pass.
    """
    at = _compare_llc(ds).stack(place=("minimum", "setting"))
    at = at.where(at["claimed"], drop=True)
    deviation = at["deviation"]
    off = xr.concat([abs(deviation + sign * 0.5 / at["error"]) for sign in (1, -1)], "sign")
    ratio = at["error"] / ds["chain_std"].stack(place=("minimum", "setting")) * ds.sizes["chain"] ** 0.5
    return [
        AGREE.finding((abs(deviation) <= SIGMAS).mean()),
        POOLED.finding(abs(deviation.sum()) / max(deviation.size, 1) ** 0.5),
        SPREAD.finding(abs(ratio.mean() - 1.0)),
        PLANTED.finding((off <= SIGMAS).mean()),
    ]


@plot_function
def plot_localised(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw measured against predicted learning coefficients; `ds` is from `run_localised`."""
    at = _compare_llc(ds)
    for claimed, colour in ((True, "C0"), (False, "C3")):
        mask = at["claimed"] == claimed
        label = "the expansion claims to hold" if claimed else "it does not"
        x, y, error = (at[name].where(mask).values.ravel() for name in ("predicted", "measured", "error"))
        ax.errorbar(x, y, error, fmt=".", color=colour, label=label)
    ax.axline((0.0, 0.0), slope=1.0, color="k", lw=0.8)
    ax.set(xlim=(0.0, 18.0), ylim=(0.0, 18.0))
    return finish_axes(ax, {"loc": "upper left"}, xlabel="predicted", ylabel="measured")


def _show(ds: xr.Dataset) -> TopicContent:
    """Return text and figure of the report's part on local learning coefficients, from `run_localised`.

    The figure has coefficients measured by a Langevin sampler against predicted ones; the text has their
    largest deviation, by setting of the sampler. `ds` is the dataset of the run.
    """
    at = _compare_llc(ds)
    claimed = at["claimed"]
    lines = []
    for k in range(ds.sizes["setting"]):
        minima = at.isel(setting=k).where(claimed.isel(setting=k), drop=True)
        half = 0.5 * ds["rank"]
        share = (at["measured"].isel(setting=k) / half).median()
        name = f"nβ = {float(ds['nbeta'][k]):g}, γ = {float(ds['localization'][k]):g}"
        lines.append(
            f"{name}: claimed at {minima.sizes['minimum']} of {ds.sizes['minimum']} minima, largest "
            f"deviation {float(abs(minima['deviation']).max()) if minima.sizes['minimum'] else np.nan:.2g} "
            f"standard errors; the median estimate is {float(share):.2f} of half the rank"
        )
    who = f"devinterp {ds.attrs['devinterp']}" if ds.attrs["devinterp"] else "NumPy"
    text = (
        f"Estimates of the local learning coefficient by Langevin chains ({who}, population loss), beside "
        "Laplace's expansion with its next order, and what a chain of this step and length does to a "
        f"quadratic. It claims to hold where the next order is at most {SMALL.limit:g} of the leading one "
        f"and no kink is within {DISTANT.limit:g} standard deviations. {'. '.join(lines)}."
    )
    title = "Estimated learning coefficients"
    figure = Figure("localised", title, "Bars: standard errors.", ds, plot_localised)
    return TopicContent(text, [figure])


RUNS = {
    "localised": Run.shipped(
        "relu_localised",
        "what a sampler returns as the learning coefficient",
        run_localised,
        {"minima": list(range(20))},
        split_by="minima",
        concat_dim="minimum",
        torch=True,
        check=ReproductionCheck(
            {"minima": [0, 1], "sampler": "numpy", "num_draws": 1, "num_burnin_steps": 0},
            ["leading", "next_order", "margin", "loss", "rank"],
            1e-5,
            "fourth derivatives are differences, whose rounding depends on the order of sums",
        ),
    )
}
TOPICS = [Topic("estimated learning coefficients", ["localised"], _show, judge=_judge)]

"""Three flows from one start: what training of tied and untied weights follows, and where it ends."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.linear import critical_loss
from ...runner.declarations import Figure, Run, Topic, TopicContent, from_rows, span
from ...runner.findings import Criterion, post_hoc
from ..drawing import finish_axes, plot_function
from .descent import (
    ROUTES,
    RULES,
    check_eigenvalues,
    expected_losses,
    follow_routes,
    largest_angles,
    list_eigenvalues,
    moment_points,
)

# What counts as having found the leading subspace.
ALIGNED = Criterion("angle from the leading subspace in degrees", "<", post_hoc(1.0))
NAMES = {
    "pair": "pair, Eqs. 20, 21",
    "encoder": "encoder alone, Eq. 22",
    "decoder": "decoder alone (Oja)",
    "tied": "tied loss",
}
_MOST_POINTS = 100_000  # of a course that is drawn
_LENGTH = 0.6  # singular values of the starts


@as_annotated
def run_flows(
    eigenvalues: Sequence[float] = (3.0, 2.0, 1.0, 0.5),
    n_hidden: int = 2,
    end: float = 12.0,
    runs: int = 8,
    seed: int = 0,
    *,
    rate: float = 0.004,
    points: int = 60,
) -> xr.Dataset:
    """Follow the flows of Eqs. 20-22 of the Notes (2022), and train, from the same random first weights.

    First weights have orthogonal columns of equal length.

    Parameters
    ----------
    eigenvalues : sequence of float, optional
        Eigenvalues of the covariance, which is diagonal; positive, falling.
    n_hidden : int, optional
        Number of hidden neurons, smaller than that of eigenvalues.
    end, rate : float, optional
        Last time of the flow; learning rate.
    runs, seed, points : int, optional
        Number of random starts, their seed, and number of times at which weights are measured.

    Returns
    -------
    xarray.Dataset
        Of (route, rule, run, time): route "flow" or "trained"; rule "tied" (shared weights), "pair" (separate
        decoder and encoder), "encoder" or "decoder" (shared weights that follow the gradient in one of them
        alone). Variables: ``loss`` per feature and ``angle``, in degrees, the largest angle between the span
        of the decoder's columns and that of the leading eigenvectors. ``optimum``, the least loss.
        ``parting`` (run, time), the largest entry of |decoder - encoder'| in the flow of the rule "pair".

    Examples
    --------
    >>> last = run_flows((2.0, 1.0, 0.5), 1, end=20.0, rate=0.1, runs=2).isel(route=0, time=-1)
    >>> bool((last.angle.sel(rule="tied") < 1e-3).all()), bool((last.angle.sel(rule="encoder") > 1).all())
    (True, True)
    """
    values = check_eigenvalues(eigenvalues)
    n, sigma = values.size, np.diag(values)
    d, runs = validation.integers(n_hidden=(n_hidden, 1, n - 1), runs=(runs, 1))
    points = validation.integer("points", points, 2, _MOST_POINTS)
    end = validation.number("end", end, 0, brackets="()")
    rate = validation.number("rate", rate, 0, 0.2 / values[0], brackets="(]")
    steps = np.rint(np.linspace(0, end, points) / (2 * rate)).astype(int)
    rng = np.random.default_rng([seed, n, d])
    first = _LENGTH * np.linalg.qr(rng.normal(size=(runs, n, d)))[0]

    rows = []
    for rule in RULES:
        A, C = follow_routes(first, first, moment_points(sigma), rate, steps, rule)
        columns = {
            "loss": (("route", "run", "time"), expected_losses(A, C, sigma)),
            "angle": (("route", "run", "time"), largest_angles(A, np.eye(n, d))),
            "parting": (("run", "time"), np.abs(A - C).max(axis=(-2, -1))[0]),
        }
        rows.append(columns)
    ds = from_rows(rows, rule=RULES).transpose("route", ...)
    ds = ds.assign_coords(route=list(ROUTES), time=2 * rate * steps)
    ds = ds.assign(parting=ds["parting"].sel(rule="pair", drop=True), optimum=critical_loss(sigma, range(d)))
    settings = {"n_features": n, "n_hidden": d, "length": _LENGTH, "learning_rate": rate}
    return ds.assign_attrs(settings, eigenvalues=values)


def _draw_rules(values: xr.DataArray, ax: Axes) -> Axes:
    """Draw values (route, rule, time) against time for each rule: the exact flow as a line, training as dots.

    Routes are "flow" and "trained"; rules "tied" (shared weights), "pair" (separate decoder and encoder),
    "encoder" and "decoder" (shared weights that follow the gradient in one of them alone).
    """
    for i, rule in enumerate(RULES):
        flow, trained = values.sel(rule=rule)
        ax.plot(flow["time"], flow, color=f"C{i + 1}", label=NAMES[rule])
        ax.plot(flow["time"][i::4], trained[i::4], "o", color=f"C{i + 1}", markersize=3.5)
    ax.plot([], [], "o", color="0.4", markersize=3.5, label="PyTorch")
    return finish_axes(ax, xlabel="time t")


@plot_function
def plot_losses(ds: xr.Dataset, ax: Axes, run: int = 0) -> Axes:
    """Draw loss - minimum against time under each flow and in training, for the start at position `run`.

    `ds` is from `run_flows`.
    """
    height = (ds["loss"] - ds["optimum"]).isel(run=run)
    ax.set(yscale="log", ylabel="loss per feature − minimum", ylim=(1e-4, 2 * float(height.max())))
    return _draw_rules(height, ax)


@plot_function
def plot_angles(ds: xr.Dataset, ax: Axes, run: int = 0) -> Axes:
    """Draw the largest angle between the decoder's column space and the leading eigenvectors against time.

    `ds` is from `run_flows`, `run` the position of the start.
    """
    ax.set(ylabel="angle to the leading subspace (degrees)", ylim=(0, 90))
    return _draw_rules(ds["angle"].isel(run=run), ax)


def _show_flows(ds: xr.Dataset) -> TopicContent:
    """Return text and figure of the report's part "flows", from `ds` of `run_flows`.

    The figure has loss - minimum and the angle to the leading eigenvectors against time, from flow and
    training, for four rules: shared or separate weights, and whose gradient they follow.
    """
    last, end = ds.isel(time=-1), float(ds["time"][-1])
    angles = last["angle"].sel(route="flow")
    aligned = ALIGNED.satisfied(angles).sum("run")
    counts = "; ".join(f"{name}: {int(aligned.sel(rule=rule))}" for rule, name in NAMES.items())
    flow, trained = (ds["loss"].sel(route=route) / ds["loss"].max() for route in ("flow", "trained"))
    gap = abs(trained - flow).max(["run", "time"])
    gap_to_encoder = float(abs(trained.sel(rule="tied") - flow.sel(rule="encoder")).max())
    excess = last["loss"].sel(route="flow", rule="encoder") / ds["optimum"]
    text = (
        "With A = B' the encoder's part of Eqs. 20 and 21 is Eq. 22, the decoder's is Oja's flow, and their "
        f"sum is the flow of the tied loss. Of {ds.sizes['run']} starts, those that are within {ALIGNED:g}° "
        f"of the leading subspace at t = {end:g}: {counts}. Under Eq. 22 the angle ends at "
        f"{span(angles.sel(rule='encoder'), '.0f')}° and the loss at {span(excess, '.2f')} times its "
        "minimum. Decoder and encoder of the pair, equal at the start, differ by up to "
        f"{span(ds['parting'].max('time'), '.2f')} on the way. The loss of models with shared weights that "
        f"autograd trains is within {float(gap.sel(rule='tied')):.2g} (in units of the largest loss, at "
        f"learning rate {ds.attrs['learning_rate']:g}) of that of the tied flow, and as far as "
        f"{gap_to_encoder:.2g} from that of Eq. 22; the other training rules are within "
        f"{span(gap.drop_sel(rule='tied'), '.2g')} of their flows."
    )
    caption = (
        f"Eigenvalues {list_eigenvalues(ds)}; d = {ds.attrs['n_hidden']}; A = B' at the start, a random "
        f"frame of length {ds.attrs['length']:g}. Lines are exact flows, markers gradient descent; “encoder "
        "alone” is trained by the gradient of the encoder, with the decoder as a copy."
    )
    figure = Figure("flows", "Four flows from the same start", caption, ds, (plot_losses, plot_angles))
    headline = (
        f"Eq. 22 of the Notes is not what tied training does: of {ds.sizes['run']} starts it leads "
        f"{int(aligned.sel(rule='encoder'))} within {ALIGNED:g}° of the leading eigenvectors by t = {end:g}, "
        f"the gradient flow of the tied loss {int(aligned.sel(rule='tied'))}."
    )
    return TopicContent(text, [figure], headline=headline)


QUICK = {"rate": 0.008, "end": 10.0, "points": 50}
EIGENVALUES = (4.0, 2.0, 1.0, 0.5, 0.25, 0.125)
FULL = {"eigenvalues": EIGENVALUES, "n_hidden": 3, "end": 40.0, "runs": 32, "rate": 0.002}
RUNS = {"flows": Run(run_flows, QUICK, FULL, torch=True, seconds=3)}
TOPICS = [Topic("flows", ["flows"], _show_flows, claims=["B10", "B13"])]

"""The weights of one encoding by four routes: limit law, exact solution, flow, PyTorch."""

from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from ....solvers import collisions
from ....solvers.statistics import LEVEL, student
from ....theory.annotations import as_annotated
from ....theory.validation import FloatArray, choice, number
from ...runner.declarations import Run, Table, Topic, TopicContent
from ...training.engine import load_torch
from ...training.loop import take_steps
from .encodings import SCALE, SYMBOLS, TABLE_TIMES, initial_weights, table_columns
from .fig2 import run_fig2

# PyTorch: gradient descent with the sign of a weight near zero chatters by a step; twice that is nonzero.
CHATTER = 2.0


@as_annotated
def run_agreement(
    m: int = 1000,
    lam: float = 1e-3,
    scale: float = SCALE,
    times: npt.ArrayLike | None = None,
    runs: int = 16,
    seed: int = 0,
    learning_rate: float = 0.2,
    optimizer: str = "sgd",
) -> xr.Dataset:
    """Return nonzeros and l1 norm of one encoding over time, by a limit law and by three solutions.

    The solutions are of the gradient flow of the normal form, whose loss is (1 - |W|²)²/4 + lam |W|_1, from
    the same first weights: exactly, by `solvers.collisions.flow`, and by training in PyTorch with autograd,
    whose time is the learning rate times the number of steps. The limit law is for many weights. The sign
    that autograd gives a weight near zero makes it chatter by one step of the l1 force, so trained weights
    below twice that count as zero.

    Parameters
    ----------
    m, lam, scale : int, float, float
        Number of weights, at least 8; strength of the l1 force, positive; initial length, the weights being
        normal with standard deviation scale/sqrt(m).
    times : array_like of float, optional
        Flow times, sorted; training takes max(times)/learning_rate steps. `default_times` if not given.
    runs, seed : int
        Independent initialisations, at least 2, and their seed, as in `run_fig2`.
    learning_rate, optimizer : float, {"sgd", "adamw"}
        At most 1. Plain gradient descent follows the flow. AdamW divides each weight's gradient by its size,
        so that all weights move alike, unlike in the flow.

    Returns
    -------
    xarray.Dataset
        The dataset of `run_fig2`: nonzeros and norms of the exact solution over (run, time), and the limit
        law over time. Added over (run, time): nonzeros and l1 norm by `solvers.collisions.flow`
        (`flow_nonzeros`, `flow_l1_norm`) and by training (`trained_nonzeros`, `trained_l1_norm`).
    """
    rate = number("learning_rate", learning_rate, 1e-9, 1)
    choice("optimizer", optimizer, ("sgd", "adamw"))
    load_torch()  # before the other routes, not after
    ds = run_fig2(m, lam, scale, times, runs, seed)
    t = ds["time"].values
    first = np.array([initial_weights(m, scale, seed, run) for run in range(runs)])
    flow = collisions.flow(first[:, None, :], lam, t, interference=False)
    nonzeros, l1_norm = _train_norms(first, lam, t, rate, optimizer)
    counts = {"flow_nonzeros": flow.nonzeros[..., 0], "trained_nonzeros": nonzeros}
    norms = {"flow_l1_norm": flow.l1_norm[..., 0], "trained_l1_norm": l1_norm}
    columns = {name: values.astype(np.int32) for name, values in counts.items()} | norms
    ds = ds.assign({name: (("run", "time"), values) for name, values in columns.items()})
    return ds.assign_attrs(learning_rate=rate, optimizer=optimizer)


def _train_norms(
    first: FloatArray, lam: float, t: FloatArray, rate: float, optimizer: str
) -> tuple[FloatArray, FloatArray]:
    """Train encodings in PyTorch; return their nonzeros and l1 norms, each (run, time).

    The loss of an encoding is (1 - |W|^2)^2/4 + lam |W|_1. `first` are first weights (run, m), `lam` is the
    l1 strength, `rate` the learning rate, t are times (learning rate times steps), `optimizer` is "sgd" or
    "adamw". Weights up to 2 `rate` `lam` in size count as 0, as autograd's sign makes weights at zero jump by
    one step of the l1 force.
    """
    torch = load_torch()
    W = torch.tensor(first, dtype=torch.float64, requires_grad=True)
    kind = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[optimizer]
    method = kind([W], lr=rate)
    nonzeros, norms = np.empty((first.shape[0], t.size)), np.empty((first.shape[0], t.size))

    def loss() -> Any:
        """Return the loss of the normal form, summed over runs."""
        return ((1 - (W**2).sum(dim=1)) ** 2 / 4 + lam * W.abs().sum(dim=1)).sum()

    for k, _ in enumerate(take_steps(method, loss, np.rint(t / rate).astype(int).tolist())):
        now = np.abs(W.detach().numpy())
        left = now > CHATTER * rate * lam
        nonzeros[:, k], norms[:, k] = left.sum(axis=1), np.where(left, now, 0).sum(axis=1)
    return nonzeros, norms


def _show_routes(ds: xr.Dataset) -> TopicContent:
    """Return the table of the report's part "routes", from `ds` of `run_agreement`.

    By time, it has nonzero weights and l1 norm of an encoding: exact, and expected for many weights (the
    limit law). Further columns are the largest relative differences from the exact ones, of the flow of all
    encodings and of training in PyTorch.
    """
    rows = []
    for t in ds["time"].values:
        at = ds.sel(time=t)
        row = [f"{t * ds.attrs['lam']:.3g}"]
        for name in SYMBOLS:
            exact = at[name].values.astype(float)
            mean, half = student(exact)
            row += [f"{mean:.4g} ± {half:.2g}", f"{float(at[f'law_{name}']):.4g}"]
            routes = [at[f"{route}_{name}"].values for route in ("flow", "trained")]
            row += [f"{np.max(np.abs(values / exact - 1)):.1e}" for values in routes]
        rows.append(row)
    caption = (
        f"m = {ds.attrs['m']}, lam = {ds.attrs['lam']:g}, {ds.sizes['run']} runs. For the full flow "
        "(interference off) and for PyTorch (plain gradient descent, learning rate "
        f"{ds.attrs['learning_rate']:g}) the largest relative difference, over runs, from the exact solution "
        "from the same first weights."
    )
    columns = table_columns(f"exact, {LEVEL:.0%}", "limit law", "flow", "PyTorch")
    return TopicContent("", (), [Table("One encoding by four routes", columns, rows, caption)])


RUNS = {
    "agreement": Run(
        run_agreement,
        quick={"m": 1000, "lam": 1e-3, "times": [u / 1e-3 for u in TABLE_TIMES], "runs": 16},
        full={"m": 10_000, "lam": 1e-4, "times": [u / 1e-4 for u in TABLE_TIMES], "runs": 32},
        torch=True,
        seconds=8,
    )
}
TOPICS = [Topic("routes", ["agreement"], _show_routes)]

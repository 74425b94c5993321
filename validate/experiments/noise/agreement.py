"""Hidden noise in training by PyTorch's autograd and by the compiled solver, at the same sizes."""

from typing import Any

import numpy as np
import xarray as xr

from ....solvers import noise as solvers
from ....solvers.statistics import LEVEL, mean
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.validation import FloatArray
from ...runner.declarations import Run, Table, Topic, TopicContent, from_rows
from ...training.engine import load_torch
from ...training.loop import take_steps
from .encodings import NOISES, draw_starts


@as_annotated
def run_agreement(
    n_features: int = 8,
    n_hidden: int = 16,
    noise_std: float = 0.15,
    learning_rate: float = 0.05,
    steps: int = 2000,
    runs: int = 32,
    *,
    seed: int = 0,
) -> xr.Dataset:
    """Return fourth norms of encodings trained with hidden noise by PyTorch, and by the compiled solver.

    Models are tied autoencoders of one-hot inputs e_i, with outputs ReLU(W (W' e_i + noise)), as in
    `solvers.noise.descend`.

    Parameters
    ----------
    n_features, n_hidden : int
        Sizes of a model; row i of W is the encoding of feature i.
    noise_std : float
        Standard deviation of the noise of each hidden neuron.
    learning_rate : float
        Length of a step over the gradient.
    steps : int
        Steps of gradient descent.
    runs : int
        Models that each engine trains, at least 2, from first weights of its own: engines agree in
        distribution only.
    seed : int
        Seed of first weights and noise.

    Returns
    -------
    xarray.Dataset
        ``fourth_norm`` (noise, engine, run), after the last step: the mean over encodings of the sum of
        W_ij^4 over j. Engines are "Numba" (the solver) and "PyTorch".
    """
    n, m, runs = validation.integers(n_features=(n_features, 1), n_hidden=(n_hidden, 1), runs=(runs, 2))
    learning_rate = validation.number("learning_rate", learning_rate, 0.0, 1e30)
    noise_std = validation.number("noise_std", noise_std, 0.0, 1e30)
    load_torch()  # before the compiled descents, not after
    # Starts of their own, so that the two samples are independent.
    W0 = draw_starts(n, m, 2 * runs, seed)
    rows = []
    for k, noise in enumerate(NOISES):
        rng = np.random.default_rng([seed, k])
        compiled = solvers.descend(W0[:runs], noise, noise_std, learning_rate, steps, rng).W
        trained = train_sgd(W0[runs:], noise, noise_std, learning_rate, steps, 2 * seed + k)
        norms = [np.sum(W**4, axis=-1).mean(axis=1) for W in (compiled, trained)]
        rows.append({"fourth_norm": (("engine", "run"), norms)})
    ds = from_rows(rows, noise=NOISES).assign_coords(engine=["Numba", "PyTorch"], run=range(runs))
    settings = {"noise_std": noise_std, "learning_rate": learning_rate, "steps": steps, "seed": seed}
    return ds.assign_attrs(n_features=n, n_hidden=m, **settings)


def train_sgd(W0: FloatArray, noise: str, std: float, rate: float, steps: int, seed: int) -> FloatArray:
    """Return encodings (runs, n, m) after `steps` of SGD from W0 on the loss of Lecomte et al. (2024).

    The loss is the sum over one-hot inputs e_i of |ReLU(W (W' e_i + noise)) - e_i|^2, with fresh noise,
    "normal" or "bipolar", of standard deviation `std`. `rate` is the learning rate, `seed` that of the noise.
    """
    torch = load_torch()
    generator = torch.Generator().manual_seed(seed)
    W = torch.tensor(W0, dtype=torch.float32, requires_grad=True)
    target = torch.eye(W0.shape[1])

    def loss() -> Any:
        """Return the summed loss of all runs under fresh noise."""
        hidden = W + std * draw_noise(torch, noise, W0.shape, generator)
        return ((torch.relu(hidden @ W.mT) - target) ** 2).sum()

    list(take_steps(torch.optim.SGD([W], lr=rate), loss, [steps]))
    return np.asarray(W.detach().numpy(), dtype=np.float64)


def draw_noise(torch: Any, noise: str, shape: tuple[int, ...], generator: Any) -> Any:
    """Return a tensor of this `shape` of noise of variance 1: normal if `noise` is "normal", else bipolar.

    `torch` is the imported package, `generator` one of its random generators.
    """
    if noise == "normal":
        return torch.randn(shape, generator=generator)
    return 2.0 * torch.randint(2, shape, generator=generator) - 1.0


def _show_agreement(ds: xr.Dataset) -> TopicContent:
    """Return the table of the report's part "agreement", from `ds` of `run_agreement`.

    The table has mean fourth norms |W_i|_4^4 with intervals, by kind of noise, from the compiled solver and
    PyTorch.
    """
    frame = ds["fourth_norm"].to_dataframe().groupby(["noise", "engine"])["fourth_norm"]
    cells = frame.apply(lambda values: f"{mean(values):.3f}").unstack().reset_index()
    caption = (
        f"Mean fourth norms after {ds.attrs['steps']} steps of {ds.attrs['learning_rate']:g} at σ = "
        f"{ds.attrs['noise_std']:g}, with intervals of {LEVEL:.0%}; {ds.sizes['run']} runs each with first "
        "weights and noise of their own."
    )
    return TopicContent("", (), [Table.of("The same by the compiled solver and by PyTorch", cells, caption)])


QUICK, FULL = {"steps": 1200, "runs": 24}, {"steps": 4000, "runs": 200}
RUNS = {"agreement": Run(run_agreement, QUICK, FULL, torch=True, seconds=5)}
TOPICS = [Topic("agreement", ["agreement"], _show_agreement)]

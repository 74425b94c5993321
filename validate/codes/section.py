"""The part of the report on structured codes and the symmetry of trained weights."""

from collections.abc import Callable
from functools import partial

import xarray as xr

from ..experiment import Figure, Section
from ..files import read_dataset
from ..stored import REFERENCE, stored
from . import plots, runs, tables
from .descent import run_departure, run_hessian, run_polished
from .envelope import envelope_figure, run_envelope
from .marks import map_figure, run_marks

__all__ = ["report_section"]

# Sizes that fit each profile: the quick one takes some twenty seconds on one core.
SIZES = {
    "quick": {
        "structure": {
            "n_features": 32,
            "p": (0.05, 0.4),
            "ratio": (0.25, 0.5),
            "seeds": 1,
            "steps": 1000,
        },
        "envelope": 12,
        "hessian": (16, 32, 64),
        "departure": {"n_features": 16, "cases": ((0.1, 0.5), (0.4, 0.5)), "steps": 40},
        "polished": {"n_features": 16, "p": (0.4,), "ratio": (0.5,), "steps": 60},
    },
    "full": {
        "structure": {
            "n_features": 64,
            "p": (0.01, 0.05, 0.1, 0.4),
            "ratio": (0.125, 0.25, 0.5, 0.75),
            "seeds": 3,
            "steps": 8000,
        },
        "envelope": 100,
        "hessian": (16, 32, 64, 128),
        "departure": {
            "n_features": 32,
            "cases": ((0.05, 0.25), (0.05, 0.5), (0.1, 0.5), (0.4, 0.25), (0.4, 0.5)),
            "steps": 400,
        },
        "polished": {"n_features": 32, "p": (0.05, 0.1, 0.4), "ratio": (0.25, 0.5), "steps": 300},
    },
}
CASES = ((0.05, 0.25), (0.05, 0.5), (0.4, 0.25), (0.4, 0.5))

TEXT = """
At the stopping rule of the source large trained models look like the rug where n_hidden/n_features is well
below 1/2, and the larger they are the more they do. Trained to convergence they leave it for codes with less
loss: pairs of features on one line, features left out, and weights of unequal rows, at every size that was
tried.

Pairs need not be even. With W_out and W_in free, one direction holds two features as M = [[1, -c], [-1/c,
1]], whose loss when both are on is (1 + c^-2) (1/3 - 1/(6c)) in sum for c >= 1. Its derivative by 1/c
vanishes at c = 1, the antipodal pair, which is its maximum, and at c = 3, the minimum: 25 p^2/162 for each
feature in place of p^2/6. Trained models find c near 3. Their rows then come in two kinds, so that
permutation symmetry is broken even where all features are served alike.

Convergence of training is not optimality. A large model can be made of copies of a small one, each with
features and neurons of its own, so that the least loss at a ratio never rises from n_features to a multiple
of it. Trained losses do rise, most at ratio 1/4: what looks like an approach to the rug with growing
n_features is in part an optimiser that finds good codes of few features and misses them among many. It is
not a matter of time: five times the steps close less than a tenth of the gap.

The rug is not a minimum. Its Hessian, exact on matrices of its rank and split by the rug's own symmetry into
n_features blocks, has negative eigenvalues at every (p, ratio) below. The macroscopic loss depends on the
diagonal, the biases and the sums of squares of the rows alone, so that rotations of the n_hidden dimensions
which keep the diagonal leave it as it is: these steps get their curvature from the deviation of the
interference from a normal law, of either sign. Where p is large and the ratio small, steps that favour one
half of the features lower even the macroscopic loss: the beginning of dropping.
"""

# Solving takes minutes, and the results depend on nothing of this run.
STORED = """
The map, the losses of known codes beside trained models and the descents of 64 features are stored results,
solved beforehand as validate/reference/README.md says; this run solves the first two where the files are
missing.
"""


def report_section(profile: str, seed: int, progress: Callable[[str], None]) -> Section:
    """Run the experiments on codes and symmetry and return their part of the report.

    Parameters
    ----------
    profile : {"quick", "full"}
    seed : int
        Seed of everything random here; models take the seeds from it on.
    progress : callable
        Called with a line of text from time to time.

    Returns
    -------
    Section
    """
    sizes = SIZES[profile]
    symmetry = runs.read_symmetry()
    progress("codes: the envelope")
    plane = stored("codes_envelope.nc", lambda: run_envelope(sizes["envelope"]))
    train = sizes["structure"]
    progress(f"codes: training models of {train['n_features']} features")
    found = runs.run_structure(
        train["n_features"],
        train["p"],
        train["ratio"],
        range(seed, seed + train["seeds"]),
        steps=train["steps"],
    )
    progress("codes: the Hessian at the rug")
    hessian = run_hessian(CASES, sizes["hessian"], seed)
    progress("codes: descent from the rug")
    departure = run_departure(
        sizes["departure"]["n_features"],
        sizes["departure"]["cases"],
        steps=sizes["departure"]["steps"],
        seed=seed,
    )
    progress("codes: descent on the exact loss from trained weights")
    small = sizes["polished"]
    polished = run_polished(small["n_features"], small["p"], small["ratio"], [seed], steps=small["steps"])
    larger = REFERENCE / "codes_polished.nc"
    if larger.exists():
        polished = xr.concat([read_dataset(larger), polished], "model", combine_attrs="drop")
    made = [
        tables.structure_table(found),
        tables.hessian_table(hessian),
        tables.departure_table(departure),
        tables.polished_table(polished),
    ]
    figures = [envelope_figure(plane)]
    if symmetry is not None:
        known = stored("codes_known.nc", runs.run_known)
        losses = [tables.loss_table(symmetry, known), tables.copies_table(symmetry, _longer())]
        made = [*losses, tables.trend_table(symmetry), *made]
        figures.append(map_figure(plane, run_marks(symmetry, known)))
    figures += _figures(symmetry, found, hessian)
    return Section(
        "codes", "Structured codes and the symmetry of trained weights", TEXT + STORED, figures, made
    )


def _longer() -> xr.Dataset | None:
    """Read the models that were trained for several times the steps, if they are there."""
    path = REFERENCE / "codes_long.nc"
    if not path.exists():
        return None
    trained = read_dataset(path)
    return runs.symmetry(trained).assign_attrs(steps=trained.attrs["steps"])


def _figures(symmetry: xr.Dataset | None, found: xr.Dataset, hessian: xr.Dataset) -> list[Figure]:
    figures = [
        Figure(
            "shares",
            "What codes converged models use",
            f"n_features = {int(found['n_features'][0])}, trained in this run: features in pairs, in "
            "larger blocks, left out, or in a noise-like remainder as in the rug.",
            found.drop_vars(("W_out", "W_in", "bias")),
            plots.plot_shares,
            size=(5.2, 3.8),
        ),
        Figure(
            "curvature",
            "The rug is a saddle: least curvature of the exact loss",
            "In units of p, for steps of unit length on matrices of the rug's rank; the sign is turned. "
            "Dashed: the rate at which interference becomes normal.",
            hessian,
            plots.plot_curvature,
            size=(5.2, 3.6),
        ),
    ]
    if symmetry is not None:
        figures.insert(
            0,
            Figure(
                "symmetry",
                "Figs. 4-7: does symmetry emerge as models grow?",
                "Reference runs, means over seeds with standard errors; open and dotted at the stopping "
                "rule of the source, filled at convergence.",
                symmetry,
                [
                    partial(plots.plot_symmetry, name=name, label=label, legend=k == 0)
                    for k, (name, label) in enumerate(plots.STATISTICS)
                ],
                size=(4.2, 3.3),
            ),
        )
    return figures

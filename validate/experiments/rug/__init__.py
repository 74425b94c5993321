"""The Persian rug against really trained models (Cowsik et al. 2024, Figs. 1 and 2)."""

from .plots import *  # noqa: F403  # its `__all__` says what
from .plots import __all__ as _plots
from .runs import (
    run_bias,
    run_checked,
    run_finite_size,
    run_reference,
    run_rug,
    run_theory,
    run_trained,
    with_theory,
)
from .section import PANELS, loss_curves

__all__ = [
    "PANELS", "loss_curves", "run_bias", "run_checked", "run_finite_size", "run_reference", "run_rug",
    "run_theory", "run_trained", "with_theory", *_plots,
]  # fmt: skip

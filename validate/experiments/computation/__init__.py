"""Do small networks compute in superposition? What they gain over naive networks, and the floor."""

from .runs import run_fans, run_map, run_powers, run_search, run_trained, run_unbiased
from .section import plot_fans, plot_map, plot_powers, plot_search, plot_trained, plot_unbiased

__all__ = [
    "plot_fans", "plot_map", "plot_powers", "plot_search",
    "plot_trained", "plot_unbiased",
    "run_fans", "run_map", "run_powers", "run_search",
    "run_trained", "run_unbiased",
]  # fmt: skip

"""The ReLU output model against its theory: phases, polygons, classes of inputs, the sphere, training.

Sources: Elhage et al. (2022), Notes (2022, section 3).
"""

from .phases import MODELS, phases_figure, plot_pattern_excess, plot_phases, run_phases
from .polygons import plot_polygons, run_polygons
from .section import report_section
from .sphere import SphereCheck, plot_thomson, run_thomson, sphere_check
from .trained import plot_excess, plot_reached, reached, run_trained
from .truncation import DroppingTable, dropping_table, plot_cost, plot_shares, run_truncation

__all__ = [
    "MODELS",
    "DroppingTable",
    "SphereCheck",
    "dropping_table",
    "phases_figure",
    "plot_cost",
    "plot_excess",
    "plot_pattern_excess",
    "plot_phases",
    "plot_polygons",
    "plot_reached",
    "plot_shares",
    "plot_thomson",
    "reached",
    "report_section",
    "run_phases",
    "run_polygons",
    "run_thomson",
    "run_trained",
    "run_truncation",
    "sphere_check",
]

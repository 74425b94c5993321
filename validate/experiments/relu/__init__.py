"""The ReLU output model against its theory: phases, polygons, classes of inputs, the sphere, training.

Sources: Elhage et al. (2022), Notes (2022, section 3).
"""

from ...runner.declarations import Section
from . import localised, phases, polygons, sphere, stages, trained, truncation
from .localised import plot_localised, run_localised
from .phases import MODELS, plot_pattern_excess, plot_phases, run_phases
from .polygons import plot_polygons, run_polygons
from .sphere import plot_thomson, run_thomson
from .stages import plot_stages, run_stages
from .trained import ends_in_least_minimum, plot_excess, plot_reached, run_trained
from .truncation import dropping_table, plot_cost, plot_shares, run_truncation

__all__ = [
    "MODELS", "SECTION", "dropping_table", "ends_in_least_minimum", "plot_cost", "plot_excess",
    "plot_localised", "plot_pattern_excess", "plot_phases", "plot_polygons", "plot_reached", "plot_shares",
    "plot_stages", "plot_thomson", "run_localised", "run_phases", "run_polygons", "run_stages",
    "run_thomson", "run_trained", "run_truncation",
]  # fmt: skip

TEXT = """
The loss of the ReLU output model is a mixture over how many features are on, and each class has a closed
form, so small models can be solved without sampling and without training. Everything below is on those exact
losses, except for the models that are trained. Losses are per feature unless said otherwise.
"""

SECTION = Section.of(
    "relu", "The ReLU output model", TEXT, phases, polygons, truncation, sphere, trained, localised, stages
)

"""A theory engine for toy models of superposition and polysemanticity.

The public names, by what they are for:

- data: `Features`, `laws`; a model: `Model`, `Model.of`
- `loss(model, law)`: exact, with its error
- `best(law, n_hidden)`: the best model of a size, and a proved lower bound
- `audit(model, law)`: is it trained, how good could it be, what to do
- `watch(law, n_hidden)`: the distance to the optimum, logged by a training loop
- `predict(law, n_hidden)`: all that theory says, each number with its kind
- `how_many(law, n_hidden=, loss=)`: how many features fit, or how few neurons hold them
- `sae(autoencoder, law, dictionary)`: what a sparse autoencoder does on known features
- `ceiling(law, dictionary)`: which F1 and error decoders reach that know the dictionary
- `phases(x, y)`: the diagram of Elhage et al.
- `sweep`, `refute`, `claims`, `plot`, `explore`

`theory`, `solvers` and `validate` are the layers below. All names are loaded when they are first used. Bad
input raises a ValueError that names the argument, its value and what is allowed.
"""

from typing import TYPE_CHECKING

from .theory.lazy import lazy_submodules

if TYPE_CHECKING:
    from . import solvers as solvers
    from . import theory as theory
    from . import validate as validate
    from .theory.features import Features as Features
    from .theory.model import Model as Model
    from .validate.api.audit import audit as audit
    from .validate.api.best import best as best
    from .validate.api.ceiling import ceiling as ceiling
    from .validate.api.claims import claims as claims
    from .validate.api.explore import explore as explore
    from .validate.api.how_many import how_many as how_many
    from .validate.api.laws import laws as laws
    from .validate.api.loss import loss as loss
    from .validate.api.phases import phases as phases
    from .validate.api.plot import plot as plot
    from .validate.api.predict import predict as predict
    from .validate.api.refute import refute as refute
    from .validate.api.sae import sae as sae
    from .validate.api.sweep import sweep as sweep
    from .validate.api.watch import watch as watch

__version__ = "0.1.0"

# Public functions, each of a module of its name in `validate.api`.
_NAMES = (
    "audit", "best", "ceiling", "claims", "explore", "how_many", "laws", "loss", "phases", "plot", "predict",
    "refute", "sae", "sweep", "watch",
)  # fmt: skip
_SOURCES = {
    "Features": "theory.features",
    "Model": "validate.loading.models",  # where it has `Model.of`
    **{name: f"validate.api.{name}" for name in _NAMES},
}
__all__ = [*sorted(_SOURCES), "solvers", "theory", "validate"]
_get, _names = lazy_submodules(__name__, __path__, ("solvers", "theory", "validate"), _SOURCES)

if not TYPE_CHECKING:  # which would take any name for one of this module
    __getattr__ = _get


def __dir__() -> list[str]:
    return sorted([*_names(), "__version__"])

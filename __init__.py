"""A theory engine for toy models of superposition and polysemanticity.

What people come with, and what takes it:

- data: `Features`, `laws`; a model: `Model`, `Model.of`
- `loss(model, law)`: exact, with its error
- `best(law, n_hidden)`: the best model of a size, and a proved floor
- `audit(model, law)`: is it trained, how good could it be, what to do
- `predict(law, n_hidden)`: all that theory says, each number with its kind
- `sae(autoencoder, law, mixing)`: what a sparse autoencoder does on known features
- `ceiling(law, mixing)`: which F1 and error decoders reach that know the dictionary
- `phases(x, y)`: the diagram of Elhage et al.
- `sweep`, `refute`, `claims`, `plot`, `explore`

`theory`, `solvers` and `validate` are the floors below. All names are loaded when they are first used.
"""

from typing import TYPE_CHECKING, Any

from .theory.interrupts import import_apart
from .theory.rooms import lazily

if TYPE_CHECKING:
    from . import solvers as solvers
    from . import theory as theory
    from . import validate as validate
    from .theory.features import Features as Features
    from .theory.models import Model as Model
    from .validate.door import explore as explore
    from .validate.door import refute as refute
    from .validate.door.advice import audit as audit
    from .validate.door.best import best as best
    from .validate.door.ceiling import ceiling as ceiling
    from .validate.door.exact import loss as loss
    from .validate.door.foresee import predict as predict
    from .validate.door.laws import laws as laws
    from .validate.door.ledger import claims as claims
    from .validate.door.phases import phases as phases
    from .validate.door.picture import plot as plot
    from .validate.door.sae import sae as sae
    from .validate.door.sweeps import sweep as sweep

__version__ = "0.1.0"

# Names of the front door, and the module that each comes from.
_NAMES = (
    "Model", "audit", "best", "ceiling", "claims", "explore", "laws", "loss", "phases", "plot", "predict",
    "refute", "sae", "sweep",
)  # fmt: skip
_DOOR = {
    "Features": "theory.features",
    **dict.fromkeys(_NAMES, "validate.door"),
}
__all__ = [*sorted(_DOOR), "solvers", "theory", "validate"]
_module, _modules = lazily(__name__, __path__, ("solvers", "theory", "validate"), _DOOR)


if not TYPE_CHECKING:  # which would take any name for one of this module

    def __getattr__(name: str) -> Any:
        if name not in _DOOR:
            return _module(name)
        found = getattr(import_apart(f"{__name__}.{_DOOR[name]}"), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted([*_modules(), *_DOOR, "__version__"])

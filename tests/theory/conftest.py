"""Each derivation is compiled once: SymPy takes longer to print an expression than mpmath to evaluate it."""

from typing import Any

import pytest

from superposition.theory.derivation import Derivation

_KEPT: dict[int, tuple[Derivation, Any]] = {}


@pytest.fixture(autouse=True, scope="module")
def _compiled_once():
    compiled = Derivation._lambdify

    def once(self, modules):
        if modules != "mpmath":
            return compiled(self, modules)
        if id(self) not in _KEPT:
            _KEPT[id(self)] = self, compiled(self, modules)
        return _KEPT[id(self)][1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Derivation, "_lambdify", once)
        yield

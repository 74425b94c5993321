"""Arguments in the form of annotations, and the words in which others are refused."""

import itertools
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import pytest

from superposition.theory.annotations import as_annotated


def test_arguments_come_in_the_form_of_their_annotations():
    class Law:
        pass

    @as_annotated
    def take(
        x: npt.ArrayLike | None = None,
        law: npt.ArrayLike | Law = 1.0,
        each: Iterable[float] = (),
        kinds: Mapping[str, int] = {},
        size: int | Sequence[int] = 1,
        word: Literal["a", "b"] = "a",
        rng: np.random.Generator | int | None = 0,
        tell: Callable[[str], None] = print,
        *more: float,
        **others: bool,
    ):
        return x, law, each, kinds, size, word, rng, tell, more, others

    law = Law()
    found = take([1, 2], law, (one for one in (1, 2)), {"a": 2.0}, (1, 2.0), "b", 7, len, 1, 2, flag=np.True_)
    assert found[0].dtype == np.float64
    assert found[1] is law
    assert repr(found[2:6]) == "([1.0, 2.0], {'a': 2}, (1, 2), 'b')"
    assert isinstance(found[6], np.random.Generator)
    assert found[7:] == (len, (1.0, 2.0), {"flag": True})
    assert take(None, 0.5, [], {}, 3.0)[:5] == (None, 0.5, [], {}, 3)
    masked = np.ma.array([1.0, 2.0], mask=[0, 1])
    wrong = [
        ("x", "abc"), ("law", None), ("law", [1j]), ("each", "12"), ("each", [None]), ("each", masked),
        ("each", itertools.count()), ("kinds", {"a": "b"}), ("kinds", {1: 1}), ("kinds", [1]), ("size", []),
        ("size", "1"), ("word", "c"), ("rng", -1), ("tell", 3), ("flag", 1),
    ]  # fmt: skip
    for name, value in wrong:
        with pytest.raises((TypeError, ValueError), match=f"^`{name}` must "):
            take(**{name: value})


def test_aliases_of_types_mean_what_they_stand_for():
    """As NumPy's own from 2.5 on, where each is a ``type`` statement."""
    alias = getattr(typing, "TypeAliasType", None) or pytest.importorskip("typing_extensions").TypeAliasType
    T = typing.TypeVar("T")
    dual = alias("dual", Sequence[T] | T, type_params=(T,))
    numbers = alias("numbers", dual[float])
    array = alias("array", np.ndarray[typing.Any, np.dtype[T]], type_params=(T,))
    arrays = alias("arrays", npt.ArrayLike)

    @as_annotated
    def take(
        x: arrays | None = None,
        each: numbers | None = None,
        a: array[np.float64] | None = None,
        several: str | Sequence[int] = "a",
    ):
        return x, each, a, several

    found = take([1, 2], [1, 2], [1, 2], [1.0, 2])
    assert [one.dtype for one in (found[0], found[2])] == [np.float64] * 2
    assert found[1] == [1.0, 2.0]
    assert isinstance(found[1][0], float)
    assert found[3] == [1, 2]
    assert take(None, 2, None)[:3] == (None, 2.0, None)
    for name, value in [("x", "abc"), ("each", "ab"), ("a", ["b"]), ("several", [0.5])]:
        with pytest.raises(ValueError, match=f"^`{name}` must "):
            take(**{name: value})

"""The contract of results: what `result` makes of a class."""

import copy
import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest

from superposition.solvers.results import Status
from superposition.theory.results import frozen, result


@result
class Inner:
    x: Any


@result
class Outer:
    """Everything that a field may be."""

    W: Any
    inner: Inner
    table: dict[str, Any]
    parts: tuple[Any, ...]
    loss: float
    status: Status = Status.STEPS

    @property
    def total(self) -> float:
        return 2 * self.loss


@result
class Checked:
    p: Any
    rest: Any = dataclasses.field(default=0.0, compare=False)

    def __post_init__(self) -> None:
        if np.any(np.asarray(self.p) > 1):
            raise ValueError("`p` must be at most 1.")


@result
class Ended:
    status: Any
    message: str = "as it was told"


@result
class Many:
    status: tuple[Status, ...]


def example(loss: float = 0.5) -> Outer:
    return Outer(np.eye(3), Inner(np.arange(4.0)), {"a": np.ones(2)}, [np.zeros(2), 1.5], loss)


def arrays(outer: Outer) -> list[Any]:
    return [outer.W, outer.inner.x, outer.table["a"], outer.parts[0]]


def test_arrays_are_owned_and_read_only():
    mine = np.eye(3)
    kept = dataclasses.replace(example(), W=mine)
    mine[0, 0] = 7
    assert kept.W[0, 0] == 1
    for array in arrays(kept):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 2
    with pytest.raises(TypeError, match="cannot be changed"):
        kept.table["b"] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        kept.loss = 1.0
    base = np.arange(6.0)
    view = base[:3]
    view.flags.writeable = False
    kept = Inner(view)  # a view of an array that can be changed is copied
    base[0] = 9
    assert kept.x[0] == 0
    given = frozen(np.arange(5.0))
    assert Inner(given).x is given


def test_numbers_of_numpy_become_numbers_of_python():
    assert type(Inner(np.float64(0.5)).x) is float
    assert type(Inner(np.bool_(True)).x) is bool


@pytest.mark.parametrize("remade", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copies_are_equal_and_as_protected(remade):
    other = remade(example())
    assert other == example()
    assert hash(other) == hash(example())
    assert not any(array.flags.writeable for array in arrays(other))
    with pytest.raises(TypeError, match="cannot be changed"):
        other.table.clear()


def test_equality_is_one_bool_and_agrees_with_hash():
    text = [np.array([Status.STEPS, "ab" + end], dtype=object) for end in ("cd", "cd", "")]
    equal = [
        (example(), example()),
        (Inner(np.array([np.nan, -0.0])), Inner(np.array([-np.nan, 0.0]))),
        (Inner(np.nan), Inner(np.nan)),
        (Inner(-0.0), Inner(0.0)),
        (Inner(text[0]), Inner(text[1])),
        (Checked(0.5, 1.0), Checked(0.5, 2.0)),  # a field that is left out of comparison
    ]
    for one, other in equal:
        assert one == other
        assert hash(one) == hash(other)
    for one, other in [
        (example(), example(0.25)), (example(), dataclasses.replace(example(), W=np.eye(3) * 2)),
        (example(), dataclasses.replace(example(), table={"a": np.zeros(2)})),
        (Inner(np.zeros(2)), Inner(np.zeros((1, 2)))), (Inner(1.0), Many(1.0)),
        (Inner(text[0]), Inner(text[2])), (Checked(0.5, 1.0), Checked(0.25, 1.0)),
    ]:  # fmt: skip
        assert one != other


def test_repr_is_short():
    assert repr(Inner(np.zeros(2))) == "Inner(x=[0., 0.])"
    assert repr(Inner(np.zeros((30, 40)))) == "Inner(x=<float64 array of shape (30, 40)>)"
    assert "\n" not in repr(Inner(np.eye(2)))
    assert "loss=0.5, status=Status.STEPS" in repr(example())
    large = Outer(np.zeros((9, 9)), Inner(list(range(10**4))), {k: k for k in range(99)}, ("a" * 999,), 0.1)
    wide = result(type("Wide", (), {"__annotations__": {f"a_field_{k}": Any for k in range(30)}}))
    for one in (large, wide(*[np.zeros((99, 99))] * 30)):
        assert len(repr(one)) < 400


def test_a_status_brings_a_message():
    assert example().message == Status.STEPS.value
    assert Ended(Status.STALLED).message == "as it was told"
    assert not hasattr(Inner(1), "message")
    both = Many((Status.REACHED, Status.STALLED, Status.REACHED)).message
    assert both == f"{Status.REACHED.value} {Status.STALLED.value}"


def test_own_checks_run_and_properties_work():
    assert example().total == 1.0
    with pytest.raises(ValueError, match="`p` must be at most 1"):
        Checked([0.5, 2.0])
    assert Checked([0.5]).p == (0.5,)

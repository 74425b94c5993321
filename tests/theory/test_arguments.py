"""The checks at the edge: what they let pass, and the words in which they refuse."""

import datetime
import decimal
import fractions

import mpmath
import numpy as np
import pytest

from superposition.theory import validation


def repr_of(value):
    return validation.short_repr(value, 40).partition(" at 0x")[0]


def test_good_values_pass_unchanged():
    assert validation.real("p", [0.5, 1], 0, 1, brackets="(]").tolist() == [0.5, 1.0]
    assert validation.integer("n", np.int32(3), 1) == 3
    assert validation.integer("n", 4.0, 1, 4) == 4
    assert validation.power_of_two("n", 1) == 1
    assert validation.vector("b", (1, 2), 2).dtype == np.float64
    assert validation.matrix("M", np.eye(2), (None, 2)).shape == (2, 2)
    assert validation.choice("device", "cpu", ("cpu", "cuda")) == "cpu"
    assert validation.flag("tied", np.bool_(False)) is False
    assert validation.probability("p", [1, 0.25]).tolist() == [1.0, 0.25]
    assert validation.probability("p", 0.1, low=0.1) == 0.1
    assert validation.numbers_or_repeat("b", [1, 2]).tolist() == [1.0, 2.0]
    assert validation.numbers_or_repeat("t", 3).tolist() == [3.0]
    validation.check_fits("n", 2**14, 2**28)


@pytest.mark.parametrize(
    "value", [1, 1.5, np.int8(1), np.float32(1.5), fractions.Fraction(3, 2), mpmath.mpf(1.5), np.array(1.5)]
)
def test_real_numbers_of_all_kinds_pass(value):
    assert validation.number("x", value) == float(value)
    assert validation.vector("x", [value, 1]).tolist() == [float(value), 1.0]


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_brackets_say_whether_ends_are_in_range(value):
    place = int(value)  # of the end's bracket
    for brackets in ("[]", "(]", "[)", "()"):
        if brackets[place] in "[]":
            assert validation.real("p", value, 0, 1, brackets=brackets) == value
        else:
            with pytest.raises(ValueError, match=f"`p` must lie in .0, 1.; got {value:g}"):
                validation.real("p", value, 0, 1, brackets=brackets)


def test_integers_beyond_64_bits_pass():
    assert validation.number("x", 10**30) == 1e30
    assert validation.vector("x", [10**30, 1]).tolist() == [1e30, 1.0]
    assert validation.integer("n", 10**30, 1) == 10**30


WHOLE = [
    3, 3.0, np.int32(3), np.uint8(3), np.float32(3), np.longdouble(3), np.array(3), np.array(3.0),
    np.array(3, np.longdouble), np.ma.array(3), fractions.Fraction(3), mpmath.mpf(3),
]  # fmt: skip


@pytest.mark.parametrize("value", WHOLE, ids=lambda one: type(one).__name__ + str(one))
def test_whole_numbers_of_all_kinds_become_integers(value):
    assert validation.integer("n", value, 1) == 3
    assert type(validation.integer("n", value, 1)) is int
    assert validation.power_of_two("n", np.longdouble(4)) == 4
    assert validation.generator("rng", value).random() == np.random.default_rng(3).random()


def test_masked_arrays_without_a_masked_entry_are_arrays():
    assert validation.vector("x", np.ma.array([1.0, 2.0])).tolist() == [1.0, 2.0]


def test_doubles_are_not_copied():
    mine = np.ones(3)
    assert validation.real("x", mine) is mine
    assert validation.vector("x", mine) is mine


class Tensor:
    """What torch does with a tensor that has a gradient."""

    requires_grad = True

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("Can't call numpy() on Tensor that requires grad.")

    def __float__(self):
        return 0.5

    def __repr__(self):
        return "tensor(0.5, requires_grad=True)"


NO_NUMBERS = [
    "0.1",
    b"0.1",
    True,
    np.bool_(True),
    None,
    1j,
    np.datetime64("2020-01-01"),
    np.timedelta64(1, "D"),
    np.timedelta64(1, "ns"),
    np.array(1, "timedelta64[ns]"),
    datetime.timedelta(1),
    b"abc",
    bytearray(b"abc"),
    memoryview(b"abc"),
    datetime.date(2020, 1, 1),
    decimal.Decimal("0.1"),
    10**400,
    fractions.Fraction(10**400),
    10**5000,
    {},
    {1.0},
    (x for x in (1, 2)),
    slice(3),
    np.ma.masked,
    Tensor(),
    object(),
]
IN_ARRAYS = [
    np.ma.array([1.0, 2.0], mask=[False, True]),
    np.array([0.5, None]),
    np.array([0.5, "a"], dtype=object),
    np.array([True, False]),
    np.array(["0.1"]),
    np.array([1j]),
    [[1, 2], [3]],
    [0.5, True],
    [0.5, np.array(True)],
    [np.array([True, False]), np.array([0.5, 0.5])],
    [np.ma.array([1.0, 2.0], mask=[False, True]), [1.0, 2.0]],
    np.array([np.timedelta64(1, "ns"), 1.0], dtype=object),
    range(2**31),
    np.zeros(2, dtype=[("x", float)]),
]


@pytest.mark.parametrize("value", [*NO_NUMBERS, *([one] for one in NO_NUMBERS), *IN_ARRAYS], ids=repr_of)
@pytest.mark.parametrize(
    "check", ["real", "number", "whole", "probability", "vector", "matrix", "numbers_or_repeat"]
)
def test_what_is_no_number_is_refused(check, value):
    with pytest.raises(ValueError, match=r"^`x` must be real numbers( below 1.8e308)?; got .+\.") as caught:
        getattr(validation, check)("x", value)
    assert len(str(caught.value)) < 170


@pytest.mark.parametrize(
    "value",
    [
        *(one for one in NO_NUMBERS if not isinstance(one, int | fractions.Fraction)),
        *IN_ARRAYS,
        1.5,
        np.inf,
        True,
    ],
    ids=repr_of,
)
def test_what_is_no_integer_is_refused(value):
    with pytest.raises(ValueError, match=r"^`n` must be an integer of at least 0; got .+\."):
        validation.integer("n", value, 0)


def test_a_tensor_with_a_gradient_is_told_to_lose_it():
    with pytest.raises(ValueError, match=r"requires_grad=True\)\. Detach it from its gradient first\."):
        validation.real("W", Tensor())


@pytest.mark.parametrize("value", [0, 1, "no", None, [True], np.array([True])])
def test_flags_are_true_or_false(value):
    with pytest.raises(ValueError, match=r"`tied` must be True or False; got .*\."):
        validation.flag("tied", value)


def test_generators_come_from_what_numpy_calls_a_seed():
    mine = np.random.default_rng(3)
    assert validation.generator("rng", mine) is mine
    first = np.random.default_rng(7).random()
    for seed in (7, np.int64(7), np.random.SeedSequence(7), np.random.PCG64(7)):
        assert validation.generator("rng", seed).random() == first
    assert validation.generator("rng", None).random() != validation.generator("rng", None).random()


@pytest.mark.parametrize("value", [-1, True, 1.5, "abc", [1], np.random.RandomState(1)])
def test_other_seeds_are_refused(value):
    with pytest.raises(
        ValueError, match=r"`rng` must be a numpy.random.Generator, an integer of at least 0 or"
    ):
        validation.generator("rng", value)


@validation.finite
def _quotient(x, y=1.0):
    """Divide."""
    return np.divide(x, y), np.float64(0.5)


def test_a_result_beyond_doubles_is_refused_by_the_names_of_the_arguments():
    assert _quotient(1.0, 2.0) == (0.5, 0.5)
    assert _quotient.__doc__ == "Divide."
    rule = r"`x`, `y` must be such that the result is a finite double; got x = \[1\.0, 0\.0\], y = 0\."
    with pytest.raises(ValueError, match=rule):
        _quotient([1.0, 0.0], y=0)


def test_lists_of_words_and_objects_of_a_class():
    assert validation.choices("codes", ["b", "a"], ("a", "b")) == ("b", "a")
    assert validation.instance("table", {1: 2}, dict) == {1: 2}
    with pytest.raises(TypeError, match=r"`law` must be a dict; got 0\.5\."):
        validation.instance("law", 0.5, dict)


@pytest.mark.parametrize("value", ["a", [], None, 3, ["a", "c"], [1], np.array(["a"])])
def test_other_lists_of_words_are_refused(value):
    with pytest.raises(ValueError, match="`codes` must be a list of words out of 'a', 'b'; got "):
        validation.choices("codes", value, ("a", "b"))


def test_what_overflows_in_python_or_does_not_broadcast_is_refused_by_the_names_of_the_arguments():
    @validation.finite
    def power(x, y):
        return x**y

    with pytest.raises(ValueError, match=r"`x`, `y` must be such that .*; got x = 1e\+300, y = 2\.0\."):
        power(1e300, 2.0)
    with pytest.raises(ValueError, match="`x`, `y` must be of shapes that broadcast together; got x = array"):
        power(np.ones(2), np.ones(3))


def test_an_error_that_speaks_of_broadcasting_is_passed_on_where_the_shapes_agree():
    @validation.finite
    def speak(x, y, name):
        raise ValueError("a broadcast is no station")

    for x in (1.0, [[1.0], [2.0]], [[1.0, 2.0], [3.0]]):
        with pytest.raises(ValueError, match=r"^a broadcast is no station$"):
            speak(x, np.ones(2), "radio")

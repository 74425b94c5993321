"""The checks at the edge: what they let pass, and the words in which they refuse."""

import datetime
import decimal
import fractions
import re

import mpmath
import numpy as np
import pytest

from superposition.theory import validation


def test_good_values_pass_unchanged():
    assert validation.power_of_two("n", 1) == 1
    assert validation.vector("x", np.ma.array([1.0, 2.0])).tolist() == [1.0, 2.0]  # none of it masked
    assert validation.choices("codes", ["b", "a"], ("a", "b")) == ("b", "a")
    assert validation.flag("tied", np.bool_(False)) is False
    assert validation.probability("p", 0.1, low=0.1) == 0.1
    assert validation.numbers_or_repeat("t", 3).tolist() == [3.0]
    mine = np.ones(3)
    assert validation.real("x", mine) is validation.vector("x", mine) is mine  # no copy


def test_numbers_of_all_kinds_pass():
    real = [1, 1.5, np.int8(1), np.float32(1.5), fractions.Fraction(3, 2), mpmath.mpf(1.5), np.array(1.5)]
    for value in [*real, 10**30]:
        assert validation.number("x", value) == float(value)
        assert validation.vector("x", [value, 1]).tolist() == [float(value), 1.0]
    assert validation.integer("n", 10**30, 1) == 10**30
    whole = [
        3, 3.0, np.int32(3), np.uint8(3), np.float32(3), np.longdouble(3), np.array(3), np.array(3.0),
        np.array(3, np.longdouble), np.ma.array(3), fractions.Fraction(3), mpmath.mpf(3),
    ]  # fmt: skip
    for value in whole:
        assert validation.integer("n", value, 1) == 3
        assert type(validation.integer("n", value, 1)) is int
        assert validation.generator("rng", value).random() == np.random.default_rng(3).random()
    assert validation.power_of_two("n", np.longdouble(4)) == 4


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_brackets_say_whether_ends_are_in_range(value):
    place = int(value)  # of the end's bracket
    for brackets in ("[]", "(]", "[)", "()"):
        if brackets[place] in "[]":
            assert validation.real("p", value, 0, 1, brackets=brackets) == value
        else:
            with pytest.raises(ValueError, match=f"`p` must lie in .0, 1.; got {value:g}"):
                validation.real("p", value, 0, 1, brackets=brackets)


class Tensor:
    """What torch does with a tensor that has a gradient."""

    requires_grad = True

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("Can't call numpy() on Tensor that requires grad.")

    def __float__(self):
        return 0.5

    def __repr__(self):
        return "tensor(0.5, requires_grad=True)"


LARGE = [10**400, 10**5000, fractions.Fraction(10**400)]
NO_NUMBERS = [
    "0.1", b"0.1", True, np.bool_(True), None, 1j, {}, {1.0}, (x for x in (1, 2)), slice(3), object(),
    np.datetime64("2020-01-01"), np.timedelta64(1, "D"), np.array(1, "timedelta64[ns]"), np.ma.masked,
    datetime.timedelta(1), datetime.date(2020, 1, 1), bytearray(b"abc"), memoryview(b"abc"),
    decimal.Decimal("0.1"), Tensor(),
]  # fmt: skip
IN_ARRAYS = [
    np.array([0.5, None]), np.array([0.5, "a"], dtype=object), np.array([True, False]), np.array(["0.1"]),
    np.array([1j]), [[1, 2], [3]], [0.5, True], [0.5, np.array(True)], range(2**31),
    [np.array([True, False]), np.array([0.5, 0.5])], np.zeros(2, dtype=[("x", float)]),
    np.ma.array([1.0, 2.0], mask=[False, True]), np.array([np.timedelta64(1, "ns"), 1.0], dtype=object),
    [np.ma.array([1.0, 2.0], mask=[False, True]), [1.0, 2.0]],
]  # fmt: skip


def wrong_messages(check, values, words):
    """Return what is accepted, or refused in other words or at length."""
    found = []
    for k, value in enumerate(values):
        message = "passes"
        try:
            check(value)
        except ValueError as error:
            message = str(error)
        if not re.search(words, message) or len(message) >= 170:
            found.append((k, message))
    return found


@pytest.mark.parametrize(
    "check", ["real", "number", "whole_numbers", "probability", "vector", "matrix", "numbers_or_repeat"]
)
def test_what_is_no_number_is_refused(check):
    alone = [*NO_NUMBERS, *LARGE]
    values = [*alone, *([one] for one in alone), *IN_ARRAYS]
    words = r"^`x` must be real numbers( below 1.8e308)?; got .+\."
    assert wrong_messages(lambda value: getattr(validation, check)("x", value), values, words) == []


NO_SEEDS = [-1, True, 1.5, "abc", [1], np.random.RandomState(1)]
NO_CODES = ["a", [], None, 3, ["a", "c"], [1], np.array(["a"])]


@pytest.mark.parametrize(
    ("check", "given", "values", "words"),
    [
        ("integer", [0], [*NO_NUMBERS, *IN_ARRAYS, 1.5, np.inf], r"^`x` must be an integer .* 0; got .+\."),
        ("flag", [], [0, 1, "no", None, [True], np.array([True])], r"`x` must be True or False; got .*\."),
        ("generator", [], NO_SEEDS, "`x` must be a numpy.random.Generator, an integer of at least 0 or"),
        ("choices", [("a", "b")], NO_CODES, "`x` must be a list of words out of 'a', 'b'; got "),
        ("real", [], [Tensor()], r"requires_grad=True\)\. Detach it from its gradient first\."),
    ],
)
def test_other_values_are_refused(check, given, values, words):
    assert wrong_messages(lambda value: getattr(validation, check)("x", value, *given), values, words) == []


def test_objects_of_another_class_are_refused():
    with pytest.raises(TypeError, match=r"`law` must be a dict; got 0\.5\."):
        validation.instance("law", 0.5, dict)


def test_generators_come_from_what_numpy_calls_a_seed():
    mine = np.random.default_rng(3)
    assert validation.generator("rng", mine) is mine
    first = np.random.default_rng(7).random()
    for seed in (7, np.int64(7), np.random.SeedSequence(7), np.random.PCG64(7)):
        assert validation.generator("rng", seed).random() == first
    assert validation.generator("rng", None).random() != validation.generator("rng", None).random()


@validation.finite
def quotient(x, y=1.0):
    """Divide."""
    return np.divide(x, y), np.float64(0.5)


@validation.finite
def power(x, y):
    return x**y


@validation.finite
def speak(x, y, name):
    raise ValueError("a broadcast is no station")


def test_results_beyond_doubles_and_shapes_are_refused_by_the_names_of_the_arguments():
    assert quotient(1.0, 2.0) == (0.5, 0.5)
    assert quotient.__doc__ == "Divide."
    rule = r"`x`, `y` must be such that the result is a finite double; got x = \[1\.0, 0\.0\], y = 0\."
    with pytest.raises(ValueError, match=rule):
        quotient([1.0, 0.0], y=0)
    with pytest.raises(ValueError, match=r"`x`, `y` must be such that .*; got x = 1e\+300, y = 2\.0\."):
        power(1e300, 2.0)
    with pytest.raises(ValueError, match="`x`, `y` must be of shapes that broadcast together; got x = array"):
        power(np.ones(2), np.ones(3))
    for x in (1.0, [[1.0], [2.0]], [[1.0, 2.0], [3.0]]):  # shapes agree: the error is the function's own
        with pytest.raises(ValueError, match=r"^a broadcast is no station$"):
            speak(x, np.ones(2), "radio")

"""Every row of the ledger is judged anew, and is what is stored of it: a difference fails with its name.

Words must be the same, and so must whole numbers and limits. Other numbers of a text may differ by one in
their last printed digit, and values by a part in a million. Below 1e-9, or a thousandth of a limit that is
the error of a computation, a number is what rounding left of zero, which differs from machine to machine: two
such numbers count as the same.
"""

import ast
import contextlib
import inspect
import math
import re
import sys
import textwrap

import pytest

from superposition.validate import ledger
from superposition.validate.ledger import stored_verdicts
from superposition.validate.runner.cache import ResultCache
from superposition.validate.runner.findings import Limit

ROUNDING = 1e-9
NUMBER = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?(?:e[-+]?\d+)?)(?!\w)")
# Rows whose runs are made here take longer than a few seconds: flows, descents, branch and bound. They are
# judged by `make verdicts`, which .ci/run calls.
SLOW = {
    "L7", "L8", "L9", "L18", "L19", "L20", "L21", "L31", "L34", "L35", "L36", "L37", "B10", "B13", "B14",
    "C19", "C29", "C32", "S1", "S3", "P1", "P2", "O50",
}  # fmt: skip


def last_digit(number):
    """Return the place value of the last digit of a number as it is printed."""
    digits, _, power = number.partition("e")
    return 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))


def same_number(new, old):
    a, b = float(new), float(old)
    if a == b or (abs(a) < ROUNDING and abs(b) < ROUNDING):
        return True
    if new.isdecimal() and old.isdecimal():
        return False
    return abs(a - b) <= 1.001 * max(last_digit(new), last_digit(old))


def same_text(new, old):
    """Return whether two texts are the same but for rounding."""
    if new is None or old is None:
        return new is old
    a, b = NUMBER.split(new), NUMBER.split(old)
    return a[::2] == b[::2] and all(map(same_number, a[1::2], b[1::2]))


def differences(new, old, place=""):
    """Return where two records differ."""
    if isinstance(new, dict) and isinstance(old, dict) and new.keys() == old.keys():
        if old.get("limit_set") == "rounding" and old["relation"] == "<=":
            sizes = abs(new["value"]), abs(old["value"])
            if new["limit"] == old["limit"] and max(sizes) <= 1e-3 * old["limit"]:
                new, old = new | {"value": 0.0}, old | {"value": 0.0}
        return [text for key in new for text in differences(new[key], old[key], f"{place} {key}")]
    if isinstance(new, list) and isinstance(old, list) and len(new) == len(old):
        pairs = enumerate(zip(new, old, strict=True))
        return [text for k, (a, b) in pairs for text in differences(a, b, f"{place} {k}")]
    if isinstance(new, float) and isinstance(old, float):
        same = math.isclose(new, old, rel_tol=1e-6, abs_tol=ROUNDING)
    else:
        same = same_text(new, old) if isinstance(new, str) and isinstance(old, str) else new == old
    return [] if same else [f"{place.strip()}: {new!r}, stored is {old!r}"]


def test_every_row_is_stored_and_no_other():
    """After a row was added: superposition claims --run --store --id ID."""
    assert list(stored_verdicts.read()) == [row.id for row in ledger.CLAIMS]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return ResultCache(tmp_path_factory.mktemp("results"))


ROWS = [pytest.param(row, id=row.id, marks=[pytest.mark.slow] * (row.id in SLOW)) for row in ledger.CLAIMS]


@pytest.mark.parametrize("row", ROWS)
def test_a_row_is_judged_as_it_is_stored(row, results):
    """After an edit of a check or its data: superposition claims --run --store --id ID."""
    if not all(map(results.is_available, row.needs)):
        pytest.skip("needs PyTorch")
    new, old = ledger.as_record(ledger.judge(row, results)), stored_verdicts.read([row.id]).get(row.id)
    assert old is not None, "is not stored"
    for record in (new, old):
        del record["judged"], record["seconds"]
    assert differences(new, old) == []


def test_what_rounding_left_is_compared_with_the_limit():
    finding = {"value": 2e-9, "limit": 1e-5, "relation": "<=", "limit_set": "rounding"}
    assert differences(finding | {"value": 9e-9}, finding) == []
    for change in ({"value": 2e-8}, {"value": -2e-8}, {"value": 9e-9, "limit": 2e-5}):
        assert differences(finding | change, finding)
    exact = finding | {"limit_set": "derived"}
    assert differences(exact | {"value": 9e-9}, exact)


def test_texts_are_compared_but_for_rounding():
    for new, old, same in (
        ("off by 7e-15 of 0.1234", "off by 3e-16 of 0.1235", True), ("0.1234", "0.1236", False),
        ("0.1234", "0.15", False), ("0.12", "0.124", True), ("151 matrices", "152 matrices", False),
        ("1e-7", "3e-7", False), ("C8 and n_2", "C9 and n_2", False), (None, "x", False),
    ):  # fmt: skip
        assert same_text(new, old) == same, new


LIMITS = {"derived": "derived", "rounding": "rounding", "preregistered": "before", "post_hoc": "after"}


def limits_in(function, module, seen=()):
    """Yield (number, basis) of the limits that a check and its helpers state without data."""
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
        value = vars(module).get(node.id) if isinstance(node, ast.Name) else None
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in LIMITS:
            with contextlib.suppress(NameError):  # of a local variable: computed from data
                value = eval(compile(ast.Expression(node), "", "eval"), vars(module))
        elif inspect.isfunction(value) and value.__module__ == module.__name__ and value not in seen:
            yield from limits_in(value, module, (*seen, value))
        for limit in value.values() if isinstance(value, dict) else [value]:
            if isinstance(limit, Limit):
                yield abs(limit), limit.basis


@pytest.mark.parametrize("id", sorted(SLOW))
def test_limits_that_a_check_states_are_those_that_are_stored(id):
    """Only `make verdicts` judges these rows. Limits of two sides differ in sign; 0 is that of a sign."""
    check = inspect.unwrap(ledger.select_claims([id])[0].check)
    stored = {(abs(finding["limit"]), finding["limit_set"])
              for finding in stored_verdicts.read([id])[id]["evidence"]["findings"]}  # fmt: skip
    assert set(limits_in(check, sys.modules[check.__module__])) <= stored | {(0.0, "derived")}

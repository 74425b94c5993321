"""The list of faults that tests must notice is of today's code; `mutations.py` makes them."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_each_fault_stands_once_in_its_file_and_names_tests():
    spec = importlib.util.spec_from_file_location("mutations", ROOT / "tests" / "mutations.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    faults = module.listed()
    assert len(faults) >= 40
    for one in faults:
        content = (ROOT / one.file).read_text(encoding="utf-8")
        assert content.count(one.old) == 1, one
        assert one.new != one.old, one
        words = [word.partition("::")[0] for word in one.tests.split()]
        tests = [word for word in words if word.endswith(".py")]
        assert tests, one
        assert all((ROOT / "tests" / test).is_file() for test in tests), one

"""The list of faults that tests must notice is of today's code; `mutations.py` makes them."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_each_fault_stands_once_in_its_file_and_names_tests():
    faults = runpy.run_path(str(ROOT / "tests" / "mutations.py"))["read_mutations"]()
    assert len(faults) >= 40
    for fault in faults:
        content = (ROOT / fault.file).read_text(encoding="utf-8")
        assert content.count(fault.old) == 1, fault
        assert fault.new != fault.old, fault
        words = [word.partition("::")[0] for word in fault.tests.split()]
        tests = [word for word in words if word.endswith(".py")]
        assert tests, fault
        assert all((ROOT / "tests" / test).is_file() for test in tests), fault

"""Make the faults that `mutations.txt` lists, one at a time, and say whether the tests named there notice.

``python tests/mutations.py [NUMBER ...]`` copies the package to a temporary folder, puts the fault into the
copy and runs the named tests there. Without the fault they must pass. A fault in a kernel takes minutes, as
all kernels are compiled anew; others take seconds.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent


class Mutation(NamedTuple):
    """A fault, and the tests that are to notice it."""

    number: int
    file: str
    old: str
    new: str
    tests: str


def listed() -> list[Mutation]:
    """Return the faults that are listed, numbered from 1 on."""
    lines = (HERE / "mutations.txt").read_text(encoding="utf-8").splitlines()
    found = []
    for line in (one for one in lines if one and not one.startswith("#")):
        change, tests = line.split(" @@ ")
        file, change = change.split(": ", 1)
        old, new = change.split(" => ")
        found.append(Mutation(len(found) + 1, file, old, new, tests))
    return found


def tried(root: Path, one: Mutation) -> str:
    """Say what the tests make of a fault in the package at a folder, which is afterwards as it was."""
    path, words = root / one.file, one.tests.split()
    text, times = path.read_text(encoding="utf-8"), path.stat()
    if text.count(one.old) != 1:
        return f"stale: the old text is there {text.count(one.old)} times"
    cache = root.parent / ("cache" if "kernels import" not in text else f"cache-{one.number}")
    serial = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    told = {"PYTHONPATH": str(root.parent), "NUMBA_CACHE_DIR": str(cache), **dict.fromkeys(serial, "1")}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=line", *(f"tests/{one}" for one in words)]
    path.write_text(text.replace(one.old, one.new), encoding="utf-8")
    try:
        done = subprocess.run(
            command, cwd=root, env={**os.environ, **told}, capture_output=True, text=True, check=False
        )
    finally:
        path.write_text(text, encoding="utf-8")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # Numba looks at it
    first = next((line for line in done.stdout.splitlines() if line.startswith("FAILED")), "")
    return {0: "MISSED", 1: f"caught {first[7:]}"}.get(done.returncode, f"no tests ran: {done.stdout[-500:]}")


def main(numbers: list[str]) -> int:
    """Try the faults of these numbers, or all; return how many the tests do not notice."""
    chosen = [one for one in listed() if not numbers or str(one.number) in numbers]
    left = 0
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "superposition"
        ignored = shutil.ignore_patterns(".git", ".venv", "__pycache__", "out", "build", "dist", ".*_cache")
        shutil.copytree(HERE.parent, root, ignore=ignored)
        for one in chosen:
            begun = time.perf_counter()
            said = tried(root, one)
            left += not said.startswith("caught")
            print(f"{one.number:3d} {one.file}: {said} ({time.perf_counter() - begun:.0f} s)", flush=True)
    return left


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 99))

"""Make the faults that `mutations.txt` lists, one at a time, and say whether the tests named there notice.

``python tests/mutations.py [NUMBER or part of a file's name ...]`` copies the package to a temporary folder,
puts the fault into the copy and runs the named tests there. Without the fault they must pass. A fault in a
kernel takes up to minutes, as the kernels that use it are compiled anew; others take seconds.
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
LONGEST = 1200  # seconds: a fault that lets threads wait for each other has no end


class Mutation(NamedTuple):
    """A fault, and the tests that are to notice it."""

    number: int
    file: str
    old: str
    new: str
    tests: str


def read_mutations() -> list[Mutation]:
    """Return the faults that are listed, numbered from 1 on."""
    lines = (HERE / "mutations.txt").read_text(encoding="utf-8").splitlines()
    mutations: list[Mutation] = []
    for line in (line for line in lines if line and not line.startswith("#")):
        change, tests = line.split(" @@ ")
        file, change = change.split(": ", 1)
        old, new = change.split(" => ")
        mutations.append(Mutation(len(mutations) + 1, file, old, new, tests))
    return mutations


def run_tests_with(root: Path, mutation: Mutation) -> str:
    """Return what the named tests make of a fault in the package at `root`, which is then restored."""
    path, words = root / mutation.file, mutation.tests.split()
    options = words[sum(word.endswith(".py") for word in words) :]  # of pytest, after the files
    files = [f"tests/{word}" for word in words if word not in options]
    text, times = path.read_text(encoding="utf-8"), path.stat()
    if text.count(mutation.old) != 1:
        return f"stale: the old text is there {text.count(mutation.old)} times"
    cache = root.parent / "cache"
    if (
        "kernels import" in text
    ):  # else what the fault has compiled anew would take the place of the right code
        own = root.parent / f"cache-{mutation.number}"
        cache = Path(shutil.copytree(cache, own, copy_function=os.link)) if cache.exists() else own
    serial = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    settings = {"PYTHONPATH": str(root.parent), "NUMBA_CACHE_DIR": str(cache), **dict.fromkeys(serial, "1")}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=line", *files, *options]
    path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
    try:
        done = subprocess.run(
            command, cwd=root, env={**os.environ, **settings}, capture_output=True, text=True, check=False,
            timeout=LONGEST,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"caught no end within {LONGEST} s"
    finally:
        path.write_text(text, encoding="utf-8")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # Numba looks at it
    first = next((line for line in done.stdout.splitlines() if line.startswith("FAILED")), "")
    return {0: "MISSED", 1: f"caught {first[7:]}"}.get(done.returncode, f"no tests ran: {done.stdout[-500:]}")


def main(names: list[str]) -> int:
    """Try the faults of these numbers or files, or all; return how many the tests do not notice."""
    chosen = [
        fault
        for fault in read_mutations()
        if not names
        or any(name == str(fault.number) or (not name.isdigit() and name in fault.file) for name in names)
    ]
    left = 0
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "superposition"
        ignored = shutil.ignore_patterns(".git", ".venv", "__pycache__", "out", "build", "dist", ".*_cache")
        shutil.copytree(HERE.parent, root, ignore=ignored)
        # Those of kernels last: they begin with a copy of what the others have compiled.
        for mutation in sorted(chosen, key=lambda m: "kernels import" in (root / m.file).read_text("utf-8")):
            begun = time.perf_counter()
            outcome = run_tests_with(root, mutation)
            left += not outcome.startswith("caught")
            print(
                f"{mutation.number:3d} {mutation.file}: {outcome} ({time.perf_counter() - begun:.0f} s)",
                flush=True,
            )
    return left


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 99))

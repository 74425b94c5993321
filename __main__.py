"""``python -m superposition`` is the same program as ``superposition``."""

from superposition.validate.cli import run_program

if __name__ == "__main__":
    run_program()

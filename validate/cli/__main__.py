"""``python -m superposition.validate.cli`` is the same program as ``superposition``."""

from . import run_program

if __name__ == "__main__":
    run_program()

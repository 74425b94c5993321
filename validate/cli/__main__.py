"""``python -m superposition.validate.cli`` is the same program as ``superposition``."""

import sys

from . import main

if __name__ == "__main__":
    sys.exit(main())

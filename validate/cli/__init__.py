"""What a shell calls: the program ``superposition``, a module for each group of its commands."""

import os
import signal
import sys
import warnings
from collections.abc import Sequence
from typing import Any, NoReturn

__all__ = ["main", "run_program"]

FAULT = 70  # EX_SOFTWARE of sysexits.h: no result, and nothing that the user gave
INTERRUPTED = 130  # 128 and the number of SIGINT, as shells say it

# Everything else is imported inside `main`, where Ctrl-C and errors become one line.


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit status.

    0: success; 1: a negative result, such as a rejected certificate, failed points of a sweep, a failed check
    of a report; 2: bad input, a missing library or a full disk; 70: a fault of the program; 130: interrupted.
    An error is one line on standard error. ``python -X dev -m superposition.validate.cli`` shows the
    traceback of a fault of the program.

    Parameters
    ----------
    arguments : sequence of str, optional
        Command line without the program's name; that of the process if not given.

    Examples
    --------
    >>> main(["predict", "rug", "--p", "0.05", "--ratio", "1", "--json"])  # doctest: +ELLIPSIS
    [
      {
        "p": 0.05,
        ...
    0
    """
    if sys.stderr is None:  # closed by whoever started the program; what is printed would go to stdout
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    command = "superposition"
    try:
        from ...solvers.progress import report_progress
        from . import text
        from .parser import parse

        if sys.stdout is None:
            raise OSError("standard output is closed")
        for stream in (sys.stdout, sys.stderr):  # what an encoding lacks is escaped, no error after the work
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        options = parse(arguments)
        if options is None:
            return 2
        command += f" {options.command}"
        with report_progress(command), warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: text.tell(
                text.complaint(f"{command}: {message}")
            )
            negative = options.act(options)  # a command returns whether its result is negative, or nothing
        sys.stdout.flush()
        return int(bool(negative))
    except KeyboardInterrupt:
        print(f"\n{command}: interrupted", file=sys.stderr, flush=True)
        return INTERRUPTED
    except BrokenPipeError:
        return 0  # the reader went away, as in `| head`
    except (ValueError, ImportError, OSError, MemoryError) as error:
        message, code = str(error) or type(error).__name__, 2
    except Exception as error:
        if sys.flags.dev_mode:
            raise
        message, code = f"a fault of the program, {type(error).__name__}: {error}", FAULT
    finally:
        _flush_stdout()
    text.tell(text.complaint(f"{command}: {message}"))
    return code


def run_program() -> NoReturn:
    """Run the command line of this process, and exit with its status."""
    try:
        status = main()
    except KeyboardInterrupt:  # another one, while the first was answered
        status = INTERRUPTED
    # The work is done: Ctrl-C would only change the status of the process while Python ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if status == INTERRUPTED:
        # At its end Python would wait for threads that still compile or compute, and be interrupted in that.
        _release_semaphores()
        os._exit(INTERRUPTED)
    sys.exit(status)


def _release_semaphores() -> None:
    """Release the semaphores of worker processes; else Python's own process for them says that they leak."""
    multiprocessing: Any = sys.modules.get("multiprocessing.util")
    if multiprocessing is not None:
        multiprocessing._run_finalizers(0)


def _flush_stdout() -> None:
    """Flush standard output, or redirect it to nowhere if that fails: Python would complain at exit."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

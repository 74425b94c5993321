"""Interrupts of long work: Python runs signal handlers in the main thread, between its steps.

Work that must not be broken off, as compiling and imports, is done by `call_apart` in another thread, while
the main one waits for it and can be interrupted. Kernels that may take longer than a second ask now and then,
by `theory.compile.kernels.check_interrupt`, and end by the handler's exception; in the threads of
`solvers.parallel`, by `Cancelled` as soon as their caller has been interrupted.
"""

import _imp
import atexit
import contextlib
import ctypes
import importlib
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

__all__ = ["Cancelled", "call_apart", "import_apart", "is_importing", "raise_if_interrupted", "worker"]

T = TypeVar("T")

# Seconds between two looks at a signal, where the system does not wake the main thread for it.
_LOOK = 0.1
# Seconds that the end of the program waits for a compiler that was left alone.
_LEAVE = 10.0


class Cancelled(Exception):
    """The work of this thread has been cancelled."""


class _Worker(threading.local):
    """For each thread, the function that returns whether its work was cancelled; None outside of pools."""

    is_stopped: Callable[[], bool] | None = None


worker = _Worker()


def raise_if_interrupted() -> None:
    """Raise `Cancelled` if this thread's work was cancelled; in the main thread, handle pending signals."""
    if worker.is_stopped is not None and worker.is_stopped():
        raise Cancelled


def is_importing() -> bool:
    """Return whether any module is being imported.

    Another thread that needs such a module would wait for this one.
    """
    specs = (getattr(module, "__spec__", None) for module in reversed(list(sys.modules.values())))
    return any(getattr(spec, "_initializing", False) for spec in specs)


def call_apart(work: Callable[[], T]) -> T:
    """Return work(); in the main thread, wait for another thread that runs it and that no signal interrupts.

    Exceptions of `work` are raised here. If the wait is interrupted, the work goes on; it is ended at the end
    of the program.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    _release_import_lock()
    results: list[T] = []
    errors: list[BaseException] = []
    ended = threading.Event()

    def run() -> None:
        """Call `work`, and store its result or exception for the caller's thread."""
        try:
            results.append(work())
        except BaseException as error:  # raised again below, in the caller's thread
            errors.append(error)
        finally:
            ended.set()

    thread = threading.Thread(target=run, name="superposition", daemon=True)
    thread.start()
    try:
        while not ended.wait(_LOOK):
            pass
    except BaseException:
        atexit.register(_end_thread, thread)
        raise
    if errors:
        raise errors[0]
    return results[0]


def _release_import_lock() -> None:
    """Release Python's import lock if this thread holds it: other threads would wait for ever to import.

    An import holds the lock only while it looks up another lock, unless an interrupt came between.
    """
    with contextlib.suppress(RuntimeError):  # raised where another thread has it
        while _imp.lock_held():
            _imp.release_lock()


def import_apart(name: str) -> ModuleType:
    """Return the module `name`, imported such that an interrupt cannot break off the import.

    Some libraries, such as Matplotlib and NumPy, cannot be imported again after an import that broke off.
    """
    if name in sys.modules or threading.current_thread() is not threading.main_thread() or is_importing():
        return importlib.import_module(name)
    return call_apart(lambda: importlib.import_module(name))


def _end_thread(thread: threading.Thread) -> None:
    """End a thread by a SystemExit in it, waiting for some seconds at most.

    This is for the end of the program, where Python would take down a library that the thread still uses.
    """
    if thread.is_alive():
        set_exception: Any = ctypes.pythonapi.PyThreadState_SetAsyncExc
        set_exception(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))
        thread.join(_LEAVE)

"""Cache of compiled kernels on disk, which survives damaged files, a full disk, or no writable folder.

Numba has an index for each function and a file for each signature, and checks neither: a flipped bit ends in
a crash, an empty index in an EOFError at every call, a full disk in an OSError; two processes that compile
one function at one time may exchange their files. Here each signature has one file, named by all that it
depends on, with a digest in front. What does not fit is compiled anew.
"""

import contextlib
import hashlib
import logging
import os
import pickle
import tempfile
from collections.abc import Callable
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core import caching

__all__ = ["make_cache"]

_CACHING: Any = caching  # has no type hints
_FUNCTION_CACHE: Any = caching.FunctionCache
_DIGEST_SIZE = 16  # bytes
_VERSIONS = (numba.__version__, llvmlite.__version__, np.__version__)


_WARNED: set[str] = set()  # what was said already


def _warn_once(problem: str, *details: object) -> None:
    """Log the warning `problem`, at most once in a process; `details` fill in the %s of its text."""
    if problem not in _WARNED:
        _WARNED.add(problem)
        logging.getLogger(__package__).warning(f"superposition: {problem}", *details)


def _digest(*parts: bytes) -> bytes:
    """Return the BLAKE2 digest of all `parts`, joined."""
    return hashlib.blake2b(b"".join(parts), digest_size=_DIGEST_SIZE).digest()


class _Files:
    """The files of one function's compiled versions, one for each key: its digest, and the pickled code.

    They lie in `folder` and their names begin with `base`, Numba's name of the function. `source_stamp`, the
    source file's time, size and checksum, goes into the names, so that an edit leaves older files unused.
    """

    def __init__(self, folder: str, base: str, source_stamp: tuple[Any, ...]) -> None:
        self.folder, self.base, self.source_stamp = folder, base, source_stamp

    def _name_stem(self) -> str:
        """Return the start of the names of the function's cache files, with a digest of its source.

        The digest also covers the versions of the libraries that compile the function.
        """
        return f"{self.base}.{_digest(repr((_VERSIONS, self.source_stamp)).encode()).hex()[:12]}."

    def _path(self, key: tuple[Any, ...]) -> str:
        """Return the path of the file for `key`, Numba's key of a signature and a machine."""
        name = f"{self._name_stem()}{_digest(repr(key).encode()).hex()[:20]}.kernel"
        return os.path.join(self.folder, name)

    def load(self, key: tuple[Any, ...]) -> Any:
        """Return the compiled code that was saved for a key; None if there is no file, or a damaged one."""
        path = self._path(key)
        try:
            with open(path, "rb") as file:
                content = file.read()
        except FileNotFoundError:
            return None
        payload = content[_DIGEST_SIZE:]
        if content[:_DIGEST_SIZE] != _digest(os.path.basename(path).encode(), payload):
            _warn_once("damaged compiled code in %s is ignored, and its kernel compiled anew", self.folder)
            return None
        return pickle.loads(payload)

    def save(self, key: tuple[Any, ...], data: Any) -> None:
        """Write the compiled code of a key to its file; delete files of older versions of the function."""
        path, payload = self._path(key), _CACHING.dumps(data)
        descriptor, temporary = tempfile.mkstemp(".tmp", self.base, self.folder)
        try:
            with open(descriptor, "wb") as file:
                file.write(_digest(os.path.basename(path).encode(), payload) + payload)
            os.replace(temporary, path)
        except OSError:
            os.unlink(temporary)
            raise
        for name in os.listdir(self.folder):
            is_ours = name.startswith(f"{self.base}.") and name.endswith(".kernel")
            if is_ours and not name.startswith(self._name_stem()):
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(self.folder, name))

    def flush(self) -> None:
        """Do nothing, for Numba's `FunctionCache.flush`: a new version replaces the file of its key."""


class _KernelCache(_FUNCTION_CACHE):  # type: ignore[misc]
    """Numba's cache of a `function`, in our file format; where a file cannot be used, Numba compiles.

    `checksum` is as for `make_cache`.
    """

    def __init__(self, function: Callable[..., Any], checksum: Callable[[str], str]) -> None:
        super().__init__(function)
        path = os.path.abspath(function.__code__.co_filename)
        stamp = (self._impl.locator.get_source_stamp(), checksum(path) if os.path.isfile(path) else "")
        self._cache_file = _Files(self._cache_path, self._impl.filename_base, stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled code for the signature `sig`, or None; warn if its file cannot be read.

        `target_context` is Numba's description of the machine.
        """
        try:
            return super().load_overload(sig, target_context)
        except OSError as error:
            _warn_once(
                f"compiled code in {self._cache_path} cannot be read ({error.strerror}): kernels are compiled"
            )
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save `data`, the compiled code of the signature `sig`; warn if that fails."""
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _warn_once(
                "compiled code cannot be kept in %s (%s): the next process will compile it anew. The "
                "variable NUMBA_CACHE_DIR names another folder",
                self._cache_path,
                error.strerror,
            )


def make_cache(function: Callable[..., Any], checksum: Callable[[str], str]) -> Any:
    """Return Numba's cache for a function's compiled code; one that saves nothing if no folder is writable.

    ``checksum(path)`` is the checksum of a kernel file together with the kernel files that it imports.
    """
    try:
        return _KernelCache(function, checksum)
    except RuntimeError:
        if os.path.isfile(function.__code__.co_filename):  # else it was typed at a prompt
            _warn_once(
                "no folder for compiled code can be written, so that each process compiles anew, for some "
                "seconds to minutes. The variable NUMBA_CACHE_DIR names a folder"
            )
        return _CACHING.NullCache()

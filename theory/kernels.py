"""How the engine compiles: one decorator for each kind of kernel, its options explained once.

- ``cache=True`` keeps compiled code, beside the source or where Numba is told to. Numba notices an edit in
  the kernel's own file only, not in a file whose kernels it calls. So `kept` adds a checksum of the kernel
  files that its file imports to what Numba compares: after an edit, what may use it is compiled anew. A
  *kernel file* is a module of `theory` or `solvers` that imports this one; kernels use functions and
  constants of kernel files alone, which a test checks.
- ``inner`` kernels are called by kernels alone.
- ``shared`` kernels are compiled into their callers, whose compiler can then see through the call: it cannot
  where Numba links compiled code. So are generators: Numba cannot load one that it has kept into a new
  caller, and stops with a KeyError.
- ``error_model="numpy"``: dividing by zero gives inf or nan as in NumPy, not an exception, and costs no
  check. Kernels never divide by zero on valid input.
- ``nogil=True`` lets other Python threads run in the meantime, so that `solvers.threads` share the work.
- No ``sort``, ``argsort`` or what rests on them (median, unique, …): Numba makes each of them from inner
  functions of one name, numbered from 1 in each process. Two kernels kept by different processes may so be
  linked to each other's sort, which ends in a crash or in wrong numbers.
- Numba types a literal argument (``f(0)``, or a variable that begins as one) separately, and compiles ``f``
  twice. Where ``f`` is large, write ``f(plain(0))``. Arrays that are views, or read-only, have versions of
  their own too.
- What a kernel uses without knowing it, as the transform of a law of values, it gets as a number: the
  ``address`` of the compiled function, which is ``called``. So a new one compiles no kernel anew.
- No ``fastmath``: it would make ``isnan`` false on nan and undo compensated sums.

Kernels are private, pure and small; they assume valid input, which their public wrapper checks.
"""

import hashlib
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from types import FunctionType
from typing import Any, TypeVar, cast

import numba
from llvmlite import ir
from numba import core, extending
from numba.core import event
from numba.core.ccallback import CFunc

__all__ = ["address", "called", "inner", "kernel", "plain", "shared", "ufunc"]

F = TypeVar("F", bound=Callable[..., Any])

Three = tuple[complex, complex, complex]

_CONFIG: Any = numba.config  # has no type hints
_OFF = bool(_CONFIG.DISABLE_JIT)

# Seconds of compiling after which a terminal is told.
PATIENCE = 2.0


class _Patience(event.Listener):
    """Say in a line on a terminal what is compiled, once that has taken some seconds in all."""

    def __init__(self) -> None:
        self.depth, self.begun, self.left = 0, 0.0, PATIENCE
        self.timer: threading.Timer | None = None

    def on_start(self, compiled: Any) -> None:
        """Begin to wait at the outermost kernel; those that it calls are compiled within."""
        self.depth += 1
        if self.depth == 1 and self.left > 0.0 and sys.stderr.isatty():
            name = compiled.data["dispatcher"].py_func.__module__.partition(".")[2]
            self.begun, self.timer = time.perf_counter(), threading.Timer(self.left, self.say, [name])
            self.timer.daemon = True
            self.timer.start()

    def on_end(self, compiled: Any) -> None:
        """Take what the outermost kernel took off the seconds that are left."""
        self.depth -= 1
        if self.depth == 0 and self.timer is not None:
            self.timer.cancel()
            self.timer, self.left = None, self.left - (time.perf_counter() - self.begun)

    def say(self, name: str) -> None:
        """Write the line; one is enough for a process."""
        self.left = -1.0
        print(f"compiling {name} and what it calls: some seconds, the first time only", file=sys.stderr)


_register: Any = event.register  # has no type hints
_register("numba:compile", _Patience())


_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_RELATIVE_IMPORT = re.compile(rb"^[ \t]*from (\.+)([\w.]*) import (\([^)]*\)|[^\n#]*)", re.MULTILINE)


@cache
def _read_module(path: str) -> tuple[bytes, tuple[str, ...]]:
    """Return the text of a module, if it is a kernel file, and the files that it imports."""
    with open(path, "rb") as file:
        text = file.read()
    imported = []
    for dots, module, names in _RELATIVE_IMPORT.findall(text):
        folder = path
        for _ in dots:
            folder = os.path.dirname(folder)
        base = os.path.join(folder, *module.decode().split("."))
        submodules = re.findall(r"\w+", names.decode())
        imported += [base, *(os.path.join(base, name) for name in submodules)]
    paths = (end for base in imported for end in (f"{base}.py", os.path.join(base, "__init__.py")))
    is_kernel_file = b"kernels import" in text or path == os.path.abspath(__file__)
    return text if is_kernel_file else b"", tuple(dict.fromkeys(filter(os.path.isfile, paths)))


@cache
def checksum(path: str) -> str:
    """Return the checksum of a kernel file and of all kernel files that it imports, also through others."""
    digest = hashlib.sha256()
    reached, waiting = {path}, [path]
    while waiting:
        _, imported = _read_module(waiting.pop())
        waiting += [other for other in imported if other not in reached]
        reached.update(imported)
    for other in sorted(reached):
        if text := _read_module(other)[0]:
            digest.update(f"{os.path.relpath(other, _PACKAGE)} {len(text)}\n".encode() + text)
    return digest.hexdigest()


def kept(dispatcher: Any) -> Any:
    """Make Numba compare `checksum` too before it loads a kernel that it has kept."""
    # Numba has no public way to say so. The first name is that of functions, the second that of ufuncs;
    # there is neither where the compiler is switched off.
    cached: Any = getattr(dispatcher, "_cache", getattr(dispatcher, "cache", None))
    file = getattr(cached, "_cache_file", None)
    if file is not None:
        source = os.path.abspath(cached._py_func.__code__.co_filename)
        file._source_stamp = (file._source_stamp, checksum(source))
    return dispatcher


def kernel(function: F) -> F:
    """Compile a function of scalars and arrays."""
    return cast(F, kept(numba.njit(cache=True, error_model="numpy", nogil=True)(function)))


def inner(function: F) -> F:
    """Compile a function of scalars and arrays that other kernels alone call.

    What it lacks, an entry from Python, takes a tenth of the time that a kernel's compiling takes.
    """
    options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    made: Any = numba.njit(cache=True, error_model="numpy", **options)(function)  # type: ignore[call-overload]
    if _OFF:
        return cast(F, made)

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise TypeError(f"{function.__module__}.{function.__qualname__} is called by kernels alone.")

    # A call from Python would go through the entry that is not there. So Numba's table of entries stays
    # empty, and what it does for a call that it finds no entry for is to refuse.
    made.add_overload = lambda compiled: made.overloads.update({tuple(compiled.signature.args): compiled})
    made._compile_for_args = refuse
    return cast(F, kept(made))


def shared(function: F) -> F:
    """Compile a function that kernels in other files call, or a generator: kept with those, not by itself."""
    return cast(F, numba.njit(error_model="numpy")(function))


@shared
def plain(number: int) -> int:
    """Return a whole number that is written in a kernel as one that its calls are not compiled for."""
    return number + 0  # Numba takes what is computed for any number


_CORE: Any = core  # has no type hints either
_COMPLEX, _FLOAT = _CORE.types.complex128, _CORE.types.float64
_HELD: list[Any] = []  # compiled functions whose addresses kernels have
_function: Any = None  # stands for the function that is called in the next two


def _writing(re: float, im: float, shape: float, out: Any) -> None:
    out[0], out[1], out[2] = _function(complex(re, im))


def _writing_shaped(re: float, im: float, shape: float, out: Any) -> None:
    out[0], out[1], out[2] = _function(complex(re, im), shape)


@cache
def address(function: Callable[..., Three], shaped: bool = False) -> int:
    """Compile a function that returns three complex numbers, and return where it is, for `called`.

    It is one of a complex number, and if `shaped` of a float too.
    """
    if _OFF:
        _HELD.append(function if shaped else lambda z, shape: function(z))
        return len(_HELD) - 1
    # Numba finds nothing that it has kept of a function which another one made. So this one is as if it stood
    # in the file of the function that it calls, by a global name.
    source = getattr(function, "py_func", function)
    name = f"{source.__name__}_writing"
    code: Any = (_writing_shaped if shaped else _writing).__code__
    line, file = source.__code__.co_firstlineno, source.__code__.co_filename
    code = code.replace(co_qualname=name, co_firstlineno=line, co_filename=file)
    held = {"_function": function, "complex": complex, "__name__": source.__module__}
    signature = (_FLOAT, _FLOAT, _FLOAT, _CORE.types.CPointer(_COMPLEX)), _CORE.types.void
    made: Any = CFunc(FunctionType(code, held, name), signature, {}, {"error_model": "numpy"})
    with suppress(RuntimeError):  # typed at a prompt
        if source.__closure__ is None:
            made.enable_caching()
    kept(made).compile()
    _HELD.append(made)
    return int(made.address)


def _call(context: Any, address: Any, re: Any, im: Any, shape: Any) -> Any:
    """Call the function at an address, which writes three complex numbers to the caller's memory."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        number = context.get_value_type(_COMPLEX)
        out = _CORE.cgutils.alloca_once(builder, number, size=3)
        kind = ir.FunctionType(ir.VoidType(), [*3 * [ir.DoubleType()], number.as_pointer()])
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), [*args[1:], out])
        three = [builder.load(_CORE.cgutils.gep_inbounds(builder, out, k)) for k in range(3)]
        return context.make_tuple(builder, signature.return_type, three)

    return _CORE.types.UniTuple(_COMPLEX, 3)(_CORE.types.int64, _FLOAT, _FLOAT, _FLOAT), generate


_called: Any = extending.intrinsic(_call)

if _OFF:

    def called(address: int, z: complex, shape: float) -> Three:
        """Call the function that `address` was asked for."""
        return cast(Three, _HELD[address](z, shape))

else:

    @shared
    def called(address: int, z: complex, shape: float) -> Three:
        """Call, in a kernel, the function that is at an address."""
        return _called(address, z.real, z.imag, shape)  # type: ignore[no-any-return]


def ufunc(function: Callable[..., float]) -> Callable[..., Any]:
    """Compile a function of scalars into a NumPy ufunc that broadcasts."""
    vectorize: Any = numba.vectorize  # has no type hints
    made = vectorize(cache=True, nopython=True)(function)
    kept(getattr(made, "_dispatcher", None))
    return cast(Callable[..., Any], made)

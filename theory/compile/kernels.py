"""Decorators that compile kernels, one for each kind; its options are explained here once.

- Compiled code is kept beside the source, or in the folder of Numba's settings (`theory.compile.cache`).
  Numba notices an edit in the kernel's own file only, not in a file whose kernels it calls. So a checksum of
  the kernel files that its file imports is compared too: after an edit, what may use it is compiled anew. A
  *kernel file* is a module of `theory` or `solvers` that imports this one; kernels use functions and
  constants of kernel files alone, which a test checks.
- ``inner`` kernels are called by kernels alone, and kept for those that will be compiled later. ``inlined``
  ones are called from Python too, and compiled anew for each file of kernels. No machine code is made of
  either: they are linked into the kernels that Python calls, optimised and translated there, once. So small
  ones are cheap, 10 ms each, where a kernel by itself takes 40.
- Generators are ``inlined``, by Numba's own means: it cannot load one that it has kept into a new caller, and
  stops with a KeyError.
- ``error_model="numpy"``: dividing by zero gives inf or nan as in NumPy, not an exception, and costs no
  check. Kernels never divide by zero on valid input.
- ``nogil=True`` lets other Python threads run in the meantime, so that `solvers.parallel` share the work.
- No ``sort``, ``argsort`` or what rests on them (median, unique, …): Numba makes each of them from inner
  functions of one name, numbered from 1 in each process. Two kernels kept by different processes may so be
  linked to each other's sort, which ends in a crash or in wrong numbers.
- Numba types a literal argument (``f(0)``, or a variable that begins as one) separately, and compiles ``f``
  twice. Where ``f`` is large, write ``f(non_literal(0))``. Arrays that are views, or read-only, have versions
  of their own too.
- Numba leaves out what an ``if x is None`` or ``if x is not None`` excludes for an argument x. So what is for
  gradients or rare laws alone is compiled only when it is used.
- What a kernel uses without knowing it, as the transform of a law of values, it gets as a number: the
  ``address`` of the compiled function, which is ``called``. So a new one compiles no kernel anew.
- Python answers a signal, as Ctrl-C, when the kernel has returned. Kernels that may take longer than a
  second call `check_interrupt` after some milliseconds of work; it costs a microsecond. When it raises, what
  they have allocated is not freed before the process ends.
- No ``fastmath``: it would make ``isnan`` false on nan and undo compensated sums.

Kernels are private, pure and small; they assume valid input, which their public wrapper checks.
"""

import gc
import hashlib
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from inspect import isgeneratorfunction
from types import FunctionType
from typing import Any, TypeVar, cast

import numba
import numba.core.boxing
import numpy as np
from llvmlite import binding as llvm
from llvmlite import ir
from numba import core, extending
from numba.core import event
from numba.core.ccallback import CFunc
from numba.np import numpy_support

from . import interrupts
from .cache import make_cache
from .interrupts import call_apart, is_importing

__all__ = [
    "call_pointer",
    "check_interrupt",
    "compile_pointer",
    "inlined",
    "inner",
    "kernel",
    "non_literal",
    "ufunc",
]

F = TypeVar("F", bound=Callable[..., Any])

Three = tuple[complex, complex, complex]

_CONFIG: Any = numba.config  # has no type hints
_CORE: Any = core  # has no type hints either
_OFF = bool(_CONFIG.DISABLE_JIT)

# Seconds of compiling after which a terminal shows a message.
PATIENCE = 2.0


class _Patience(event.Listener):
    """Listener that prints once to a terminal what is compiled, after `PATIENCE` seconds of compiling.

    Numba passes an event, `compiled`, at the start and end of each compilation.
    """

    def __init__(self) -> None:
        self.depth, self.begun, self.left = 0, 0.0, PATIENCE
        self.timer: threading.Timer | None = None

    def on_start(self, compiled: Any) -> None:
        """Start the timer that calls `say`, unless a kernel is already being compiled.

        A kernel's time includes that of the kernels that it calls. `compiled` is Numba's event.
        """
        self.depth += 1
        if self.depth == 1 and self.left > 0.0 and sys.stderr.isatty():
            name = compiled.data["dispatcher"].py_func.__module__.partition(".")[2]
            self.begun, self.timer = time.perf_counter(), threading.Timer(self.left, self.say, [name])
            self.timer.daemon = True
            self.timer.start()

    def on_end(self, compiled: Any) -> None:
        """Stop the timer once the outermost kernel is compiled; subtract its time from the seconds left.

        `say` is called when none are left. `compiled` is Numba's event.
        """
        self.depth -= 1
        if self.depth == 0 and self.timer is not None:
            self.timer.cancel()
            self.timer, self.left = None, self.left - (time.perf_counter() - self.begun)

    def say(self, name: str) -> None:
        """Print, once in this process, that kernels of the module `name` are being compiled."""
        self.left = -1.0
        print(f"compiling {name} and what it calls: some seconds, the first time only", file=sys.stderr)


_register: Any = event.register  # has no type hints
_register("numba:compile", _Patience())


_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_RELATIVE_IMPORT = re.compile(rb"^[ \t]*from (\.+)([\w.]*) import (\([^)]*\)|[^\n#]*)", re.MULTILINE)


@cache
def _read_module(path: str) -> tuple[bytes, tuple[str, ...]]:
    """Return the text of the module at `path`, and the paths of the files that it imports.

    The text is empty unless the module is a kernel file: one that imports from the module `kernels`, or that
    module itself.
    """
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
    """Return the checksum of the kernel file at `path` and of all kernel files that it imports, at any depth.

    The checksum is SHA-256, in hexadecimal digits. A kernel file is one that imports from the module
    `kernels`, or that module itself.
    """
    digest = hashlib.sha256()
    seen, waiting = {path}, [path]
    while waiting:
        _, imported = _read_module(waiting.pop())
        waiting += [other for other in imported if other not in seen]
        seen.update(imported)
    for other in sorted(seen):
        if text := _read_module(other)[0]:
            digest.update(f"{os.path.relpath(other, _PACKAGE)} {len(text)}\n".encode() + text)
    return digest.hexdigest()


def _use_cache(dispatcher: Any, function: Callable[..., Any]) -> None:
    """Make Numba save a function's compiled code on disk, valid until a kernel file that it uses changes.

    `dispatcher` is the object that Numba's decorator returns for `function`.
    """
    cache = make_cache(function, checksum)
    # The first name is that of functions, the second that of ufuncs.
    setattr(dispatcher, "_cache" if hasattr(dispatcher, "_cache") else "cache", cache)


def _box_array(kind: Any, value: Any, boxing: Any) -> Any:
    """Return the Python array for a Numba array, made without running Python code: Numba's boxing function.

    Numba passes the array's type `kind`, its LLVM `value` and the context `boxing`. Numba's own boxing
    function unpickles ``numpy.ndarray`` by Python code, in which Python notices a signal that came while the
    kernel ran. The exception of the signal's handler then makes the type a null pointer, which NumPy uses: a
    segmentation fault, or a SystemError where the array is an item of a tuple.
    """
    dtype, array_type = (
        boxing.env_manager.read_const(boxing.env_manager.add_const(constant))
        for constant in (numpy_support.as_dtype(kind.dtype), np.ndarray)
    )
    api, builder = boxing.pyapi, boxing.builder
    integer = ir.IntType(32)
    signature = ir.FunctionType(api.pyobj, [api.voidptr, api.pyobj, integer, integer, api.pyobj])
    adapt = _CORE.cgutils.get_or_insert_function(
        builder.module, signature, "NRT_adapt_ndarray_to_python_acqref"
    )
    pointer = builder.bitcast(_CORE.cgutils.alloca_once_value(builder, value), api.voidptr)
    shape = (ir.Constant(integer, kind.ndim), ir.Constant(integer, int(kind.mutable)))
    array = builder.call(adapt, [pointer, array_type, *shape, dtype])
    boxing.context.nrt.decref(builder, kind, value)
    return array


@contextmanager
def _arrays_boxed_in_c() -> Iterator[None]:
    """Within the context, Numba compiles kernels so that arrays they return to Python are made in C.

    `_box_array` makes them: no Python code runs that a signal could interrupt.
    """
    boxers = _CORE.pythonapi._boxers.functions
    original = boxers[_CORE.types.Array]
    boxers[_CORE.types.Array] = _box_array
    try:
        yield
    finally:
        boxers[_CORE.types.Array] = original


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Within the context, garbage is not collected, which would take a tenth of the time of compiling."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _compile_apart(compile_: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Return compile_(*args, **options), run in a thread that no signal can interrupt."""

    def work() -> Any:
        """Return compile_(*args, **options), called under Numba's lock."""
        with _CORE.compiler_lock.global_compiler_lock, _arrays_boxed_in_c(), _no_garbage_collection():
            return compile_(*args, **options)

    # The thread would wait for ever for what this one holds: the compiler, or a module that it imports.
    if _CORE.compiler_lock.global_compiler_lock.is_locked() or is_importing():
        return work()
    return call_apart(work)


def kernel(function: F) -> F:
    """Decorate a function of scalars and arrays: compile it with Numba, and keep its code on disk."""
    compiled: Any = numba.njit(error_model="numpy", nogil=True)(function)
    if not _OFF:
        _use_cache(compiled, function)
        compiled.compile = partial(_compile_apart, compiled.compile)
    return cast(F, compiled)


class _InnerLibrary(_CORE.codegen.JITCodeLibrary):  # type: ignore[misc]
    """Numba's library of a function that kernels alone call: no machine code is made of it.

    Its code is linked into kernels, and is optimised and translated there, once. Numba's own libraries are
    translated by themselves, and again in every caller and in the callers' callers.
    """

    _final_module: Any

    def _optimize_functions(self, ll_module: Any) -> None:
        """Set the data layout of the LLVM module `ll_module`; unlike Numba, do not optimise its functions."""
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        """Do nothing: the code is optimised in the kernels that call it."""

    def _finalize_final_module(self) -> None:
        """Mark functions, and Numba's variables for them, so that the linker merges their copies.

        Unlike in Numba, nothing is translated to machine code: the kernels that call the functions are.
        """
        linked = self._final_module
        for function in linked.functions:
            if not function.is_declaration and function.linkage.name == "external":
                function.linkage = "linkonce_odr"  # as `_get_module_for_linking` does
        names = [variable.name for variable in linked.global_variables]
        environments = [
            f"@{name} = common global i8* null" for name in names if name.startswith("_ZN08NumbaEnv")
        ]
        self._final_module = llvm.parse_assembly("\n".join(environments))
        super()._finalize_final_module()
        self._shared_module = linked


class _InnerCompiler(_CORE.compiler.Compiler):  # type: ignore[misc]
    """Numba's compiler, with an `_InnerLibrary`."""

    def __init__(self, typing_context: Any, target_context: Any, _: Any, *args: Any):
        library = _InnerLibrary(target_context.codegen(), "inner")
        library.enable_object_caching()
        super().__init__(typing_context, target_context, library, *args)


def _without_entry(function: Callable[..., Any], entry: Callable[[], Any]) -> Any:
    """Return a function compiled for calls from other kernels alone, without the code for calls from Python.

    On a call from Python Numba calls `entry`, which raises, or returns a function to call instead.
    """
    options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": _InnerCompiler}
    compiled_function: Any = numba.njit(error_model="numpy", **options)(function)  # type: ignore[call-overload]
    # A call from Python would go through the entry that is not there. So Numba's table of entries stays
    # empty, and for a call that it finds no entry for, Numba asks for one.
    compiled_function.add_overload = lambda compiled: compiled_function.overloads.update(
        {tuple(compiled.signature.args): compiled}
    )
    compiled_function._compile_for_args = lambda *args, **kwargs: entry()
    return compiled_function


def inner(function: F) -> F:
    """Decorate a function of scalars and arrays that only other kernels call; a call from Python raises."""
    if _OFF:
        return cast(F, numba.njit(function))

    def refuse() -> None:
        """Raise TypeError: only kernels may call the function."""
        raise TypeError(f"{function.__module__}.{function.__qualname__} is called by kernels alone.")

    compiled_function = _without_entry(function, refuse)
    _use_cache(compiled_function, function)
    return cast(F, compiled_function)


def inlined(function: F) -> F:
    """Decorate a function, or a generator, that is compiled into its callers and saved only as part of them.

    For calls from Python it is compiled by itself.
    """
    by_itself = cache(lambda: numba.njit(error_model="numpy")(function))
    if _OFF or isgeneratorfunction(function):
        return cast(F, by_itself())
    return cast(F, _without_entry(function, by_itself))


@inlined
def non_literal(number: int) -> int:
    """Return `number` such that Numba takes it for no literal, for which it would compile the callee anew."""
    return number + 0  # Numba takes what is computed for any number


_COMPLEX, _FLOAT = _CORE.types.complex128, _CORE.types.float64
_COMPILED_FUNCTIONS: list[Any] = []  # compiled functions whose addresses kernels have
_function: Any = None  # stands for the function that is called in the next two


def _write_three(re: float, im: float, shape: float, out: Any) -> None:
    """Write to `out` the three complex numbers that `_function` returns at re + i im; `shape` is not used.

    `_function` is the function that `compile_pointer` compiles; `out` points to three complex numbers.
    """
    out[0], out[1], out[2] = _function(complex(re, im))


def _write_three_shaped(re: float, im: float, shape: float, out: Any) -> None:
    """Write to `out` the three complex numbers that `_function` returns at re + i im and parameter `shape`.

    `_function` is the function that `compile_pointer` compiles; `out` points to three complex numbers.
    """
    out[0], out[1], out[2] = _function(complex(re, im), shape)


@cache
def compile_pointer(function: Callable[..., Three], shaped: bool = False) -> int:
    """Compile a function that returns three complex numbers, and return its address.

    The function takes a complex number, and if `shaped` a float too. Kernels call it at that address by
    `call_pointer`.
    """
    if _OFF:
        _COMPILED_FUNCTIONS.append(function if shaped else lambda z, shape: function(z))
        return len(_COMPILED_FUNCTIONS) - 1
    # Numba finds nothing that it has kept of a function which another one made. So this one is as if it stood
    # in the file of the function that it calls, by a global name.
    source = getattr(function, "py_func", function)
    name = f"{source.__name__}_writing"
    code: Any = (_write_three_shaped if shaped else _write_three).__code__
    line, file = source.__code__.co_firstlineno, source.__code__.co_filename
    code = code.replace(co_qualname=name, co_firstlineno=line, co_filename=file)
    namespace = {"_function": function, "complex": complex, "__name__": source.__module__}
    signature = (_FLOAT, _FLOAT, _FLOAT, _CORE.types.CPointer(_COMPLEX)), _CORE.types.void
    compiled: Any = CFunc(FunctionType(code, namespace, name), signature, {}, {"error_model": "numpy"})
    if source.__closure__ is None:
        _use_cache(compiled, compiled._pyfunc)
    _compile_apart(compiled.compile)
    _COMPILED_FUNCTIONS.append(compiled)
    return int(compiled.address)


def _define_call(context: Any, address: Any, re: Any, im: Any, shape: Any) -> Any:
    """Return signature and code generator of a Numba intrinsic that calls the function at an address.

    The intrinsic takes the address and the floats re, im and shape, passes the floats on, and returns the
    three complex numbers that the function writes. `context` is Numba's; the other arguments are the types of
    these four values.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        """Generate LLVM code that calls the function at the address and loads its three results."""
        number = context.get_value_type(_COMPLEX)
        out = _CORE.cgutils.alloca_once(builder, number, size=3)
        kind = ir.FunctionType(ir.VoidType(), [*3 * [ir.DoubleType()], number.as_pointer()])
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), [*args[1:], out])
        three = [builder.load(_CORE.cgutils.gep_inbounds(builder, out, k)) for k in range(3)]
        return context.make_tuple(builder, signature.return_type, three)

    return _CORE.types.UniTuple(_COMPLEX, 3)(_CORE.types.int64, _FLOAT, _FLOAT, _FLOAT), generate


_call_intrinsic: Any = extending.intrinsic(_define_call)

if _OFF:

    def call_pointer(address: int, z: complex, shape: float) -> Three:
        """Return the three numbers at z of the function that `compile_pointer` compiled at `address`.

        They are a transform of a law of values and its derivatives; `shape` is the law's parameter.
        """
        return cast(Three, _COMPILED_FUNCTIONS[address](z, shape))

else:

    @inlined
    def call_pointer(address: int, z: complex, shape: float) -> Three:
        """Return, in a kernel, the three numbers at z and `shape` of the function at `address`."""
        return _call_intrinsic(address, z.real, z.imag, shape)  # type: ignore[no-any-return]


def _define_check(context: Any) -> Any:
    """Return signature and code generator of a Numba intrinsic that calls `raise_if_interrupted`.

    The intrinsic holds the interpreter's lock during the call; an exception is raised in the kernel.
    `context` is Numba's.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        """Generate LLVM code that calls `raise_if_interrupted`, and leaves the kernel if that raised."""
        api = context.get_python_api(builder)
        state = api.gil_ensure()
        failed = _CORE.cgutils.alloca_once_value(builder, _CORE.cgutils.true_bit)
        module = api.import_module(context.insert_const_string(builder.module, interrupts.__name__))
        with _CORE.cgutils.if_likely(builder, _CORE.cgutils.is_not_null(builder, module)):
            function = api.object_getattr_string(module, interrupts.raise_if_interrupted.__name__)
            api.decref(module)
            with _CORE.cgutils.if_likely(builder, _CORE.cgutils.is_not_null(builder, function)):
                result = api.call_function_objargs(function, [])
                api.decref(function)
                with _CORE.cgutils.if_likely(builder, _CORE.cgutils.is_not_null(builder, result)):
                    api.decref(result)
                    builder.store(_CORE.cgutils.false_bit, failed)
        api.gil_release(state)
        with builder.if_then(builder.load(failed), likely=False):
            context.call_conv.return_exc(builder)
        return context.get_dummy_value()

    return _CORE.types.none(), generate


_checked: Any = extending.intrinsic(_define_check)

if _OFF:

    def check_interrupt(is_due: bool) -> None:
        """Do nothing: without compilation Python itself answers signals."""

else:

    @inner
    def check_interrupt(is_due: bool) -> None:
        """Raise in a kernel, if `is_due` and a signal or a cancellation has come; all its callers end too."""
        if is_due:
            _checked()

    # In loops that are not compiled Python itself answers; Numba calls what this returns.
    vars(check_interrupt)["_compile_for_args"] = lambda is_due: lambda is_due: None


def ufunc(function: Callable[..., float]) -> Callable[..., Any]:
    """Decorate a function of scalars: compile it into a NumPy ufunc, and keep the compiled code on disk."""
    vectorize: Any = numba.vectorize  # has no type hints
    compiled = vectorize(nopython=True)(function)
    if not _OFF:
        _use_cache(compiled._dispatcher, function)
        compiled._compile_for_argtys = partial(_compile_apart, compiled._compile_for_argtys)
    return cast(Callable[..., Any], compiled)

"""Runs a Triton kernel under Triton's interpreter, in this process, regardless of TRITON_INTERPRET.

Triton chooses between compiling and interpreting when a function is decorated, which would bind a whole process to one
of them. Here the choice is made per launch: for its duration the language's operations are the interpreter's, calls of
helper functions (Triton's own library included) are interpreted too, and afterwards everything is as before.
"""

from __future__ import annotations

import ast
import linecache
import sys
import threading
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

from sglab.gpu.fault import KernelError
from sglab.triton.memory import CheckedMemory, OnWrite
from sglab.triton.promotion import Promotion

_one_at_a_time = threading.RLock()  # the interpreter keeps the running program's index in a global
_rewritten: dict[Callable, Callable] = {}


@dataclass(frozen=True)
class InterpretedStore:
    """A store or an atomic operation under the interpreter.

    Attributes:
        program: its index in the grid.
        file, line: in the kernel's source.
    """

    program: tuple[int, int, int]
    file: str
    line: int

    def __str__(self) -> str:
        text = linecache.getline(self.file, self.line).strip()
        return f"program {self.program} of Triton's interpreter, {Path(self.file).name}:{self.line} `{text}`"


def last_store(
    kernel: Any, grid: tuple[int, int, int], arguments: Mapping[str, Any], address: int, nbytes: int
) -> InterpretedStore | None:
    """Runs a launch and says what wrote to some bytes last; None if nothing did.

    Args:
        kernel, grid, arguments: as of interpret.
        address, nbytes: of an element of a tensor.
    """
    from triton.runtime import interpreter

    own, found = kernel.fn.__code__.co_filename, list[InterpretedStore]()

    def on_write(promotion: Promotion, addresses: npt.NDArray[np.uint64], size: int) -> None:
        begin, length = promotion.places(address, nbytes)
        if not ((addresses < begin + length) & (addresses + np.uint64(size) > begin)).any():
            return
        frame: types.FrameType | None = sys._getframe()
        while frame is not None and frame.f_code.co_filename != own:
            frame = frame.f_back
        if frame is not None:
            found[:] = [InterpretedStore(interpreter.interpreter_builder.grid_idx, own, frame.f_lineno)]

    interpret(kernel, grid, arguments, on_write)
    return found[0] if found else None


def interpret(
    kernel: Any,
    grid: tuple[int, int, int],
    arguments: Mapping[str, Any],
    on_write: Callable[[Promotion, npt.NDArray[np.uint64], int], None] | None = None,
) -> str:
    """Runs every program of `grid`, one after the other; returns a remark on how, or "".

    Args:
        kernel: triton.JITFunction.
        arguments: every parameter by name, defaults filled in; tensors on the CPU.
        on_write: called before each store and atomic operation with what stands in for the caller's tensors, the
            addresses of its elements and their size.

    Raises:
        KernelError: an operation failed, or touched memory outside the tensors; tensors keep what was stored so far.
    """
    from triton.runtime import interpreter

    promotion = Promotion(kernel.__name__, arguments)
    seen = None if on_write is None else partial(on_write, promotion)
    with _one_at_a_time, _interpreting(kernel, promotion.arguments, seen):
        values = {
            param.name: value if param.is_constexpr else _device_value(interpreter, value)
            for param, value in zip(kernel.params, promotion.arguments.values(), strict=True)
        }
        function = _rewrite(kernel)
        interpreter.interpreter_builder.set_grid_dim(*grid)
        for program in np.ndindex(*grid):
            interpreter.interpreter_builder.set_grid_idx(*program)
            try:
                function(**values)
            except Exception as error:
                raise KernelError(f"{kernel.__name__}, program {program}: {_explain(error)}") from error
    promotion.write_back()
    return "bfloat16 tensors were computed as float32 and rounded at the end" if promotion.active else ""


@contextmanager
def _interpreting(kernel: Any, arguments: Mapping[str, Any], on_write: OnWrite | None) -> Iterator[None]:
    """Within it, Triton's language means the interpreter's, for this kernel and all that it calls."""
    from triton.runtime import interpreter
    from triton.runtime.jit import JITFunction

    scopes: dict[int, Any] = {}

    def enter(function: Any) -> None:
        if id(function.__globals__) not in scopes:
            scopes[id(function.__globals__)] = interpreter._patch_lang(function.fn)

    def call(function: Any, *args: Any, **kwargs: Any) -> Any:
        enter(function)
        return _rewrite(function)(*args, **kwargs)

    memory = CheckedMemory(interpreter._interpreter, arguments, on_write)
    with ExitStack() as stack:
        stack.enter_context(patch.object(JITFunction, "__call__", call))
        stack.enter_context(patch.object(interpreter, "_interpreter", memory))
        stack.enter_context(patch.object(interpreter.TensorHandle, "__post_init__", _checked_handle(interpreter)))
        stack.enter_context(np.errstate(all="ignore"))  # a GPU computes inf and NaN without a word
        stack.callback(lambda: [scope.restore() for scope in reversed(scopes.values())])
        enter(kernel)
        yield


def _checked_handle(interpreter: Any) -> Callable[[Any], None]:
    """TensorHandle's own validation, which also refuses the types that the interpreter would compute wrongly."""
    validate = interpreter.TensorHandle.__post_init__

    def check(handle: Any) -> None:
        validate(handle)
        dtype = handle.dtype
        if not dtype.is_ptr() and (dtype.scalar.is_bf16() or dtype.scalar.is_fp8()):
            raise KernelError(
                f"a value of type {dtype.scalar} appears inside the kernel, and Triton's interpreter computes it "
                "wrongly: run it on the emulator or a GPU, or use float16 or float32"
            )

    return check


def _device_value(interpreter: Any, value: Any) -> Any:
    """A runtime argument as the kernel sees it: bool as int1, float as float32, tensors as pointers."""
    import triton.language as tl

    if isinstance(value, (bool, np.bool_)):
        return tl.tensor(interpreter.TensorHandle(np.array([value], dtype=bool), tl.int1), tl.int1)
    if isinstance(value, (float, np.floating)):
        return tl.tensor(interpreter.TensorHandle(np.array([value], dtype=np.float32), tl.float32), tl.float32)
    return interpreter._implicit_cvt(value)


def _rewrite(kernel: Any) -> Callable:
    """The function with every assigned Python number turned into a Triton tensor, as the compiler would do."""
    function = kernel.fn
    if function not in _rewritten:
        _rewritten[function] = _compile(function, kernel.parse(), _first_line(kernel))
    return _rewritten[function]


def _compile(function: Callable, module: ast.Module, first_line: int) -> Callable:
    """Compiles `module`'s only function so that it sees the globals and the closure of `function`."""
    from triton.runtime import interpreter

    definition = interpreter.ASTTransformer().visit(module).body[0]
    for argument in definition.args.args:
        argument.annotation = None
    definition.args.defaults = []
    outer = ast.parse(f"def _outer({', '.join([*function.__code__.co_freevars, 'interpreter_semantic'])}): pass")
    body: Any = outer.body[0]
    body.body = [definition, ast.Return(ast.Name(definition.name, ast.Load()))]
    ast.increment_lineno(outer, first_line - 1)
    namespace: dict[str, Any] = {}
    code = compile(ast.fix_missing_locations(outer), function.__code__.co_filename, "exec", dont_inherit=True)
    exec(code, function.__globals__, namespace)
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    rewritten: types.FunctionType = namespace["_outer"](*cells, interpreter.interpreter_semantic)
    rewritten.__defaults__ = function.__defaults__
    return rewritten


def _first_line(kernel: Any) -> int:
    """Line of the `def` in its file, below the decorators."""
    lines = enumerate(kernel.raw_src, start=kernel.starting_line_number)
    return next(number for number, line in lines if line.lstrip().startswith("def "))


def _explain(error: Exception) -> str:
    return str(error) if isinstance(error, KernelError) else f"{type(error).__name__}: {error}"

"""Watch expressions: memory by name or address, read at every stop."""

from __future__ import annotations

import ast
import ctypes
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sglab.emulator.register_types import ELEMENTS, float_types
from sglab.emulator.session import Session
from sglab.gpu import SessionError
from sglab.gpu.names import variable_name

MOST_VALUES = 256
DTYPES: dict[str, tuple[str, int]] = {
    **{name: (name, size) for name, size in (("u8", 1), ("s8", 1), ("u16", 2), ("s16", 2), ("u32", 4), ("s32", 4))},
    **{name: (name, size) for name, size in (("u64", 8), ("s64", 8), ("f16", 2), ("bf16", 2), ("f32", 4), ("f64", 8))},
}
ADDRESS = re.compile(r"(smem|gmem|arg\d+)\s*(?:@(\d+))?\s*(?:\+\s*(0x[0-9a-fA-F]+|\d+))?\s*(?:\*\s*(\d+))?(?::(\w+))?$")
SHARED = re.compile(r"([A-Za-z_]\w*)\s*(?:@(\d+))?\s*(?:\[(.*)\])?\s*(?::(\w+))?$")
NAMED = re.compile(r"([A-Za-z_]\w*)\s*(?:\[(.*)\])?$")
SHARED_ACCESS = re.compile(r"(ld|st|atom|red)\.(\w+\.)*shared\b(?!.*\.v\d)")
"""An instruction that reads or writes shared memory; vectors are copies, whose type says nothing."""
MEMORY_HELP = "smem+0x400*16:f32 (shared memory, 16 values), smem@1+0x400 (of CTA 1), arg2*8:s32 (at an argument)"


@dataclass(frozen=True)
class Watch:
    """Some memory, read as one dtype.

    Attributes:
        space: global or shared.
        begin: an address, or the offset in the CTA's shared memory.
        cta: whose shared memory; None for the CTA in focus.
    """

    expression: str
    space: str
    begin: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    cta: int | None = None

    @property
    def itemsize(self) -> int:
        return DTYPES[self.dtype][1]

    @property
    def span(self) -> int:
        """Bytes from the first element to the end of the last."""
        last = sum((extent - 1) * stride for extent, stride in zip(self.shape, self.strides, strict=True))
        return last + self.itemsize

    def read(self, session: Session, focus: int | None) -> np.ndarray:
        """The elements' bytes: (elements, itemsize)."""
        if self.space == "shared":
            cta = focus if self.cta is None else self.cta
            if cta is None:
                raise SessionError("no CTA is running")
            memory = session.shared(cta)
            if self.begin + self.span > len(memory):
                raise SessionError(f"shared memory ends at offset 0x{len(memory):x}")
            held = memory[self.begin : self.begin + self.span]
        else:
            held = np.ctypeslib.as_array(ctypes.cast(self.begin, ctypes.POINTER(ctypes.c_uint8)), (self.span,))
        shape, strides = (*self.shape, self.itemsize), (*self.strides, 1)
        return np.lib.stride_tricks.as_strided(held, shape, strides).reshape(-1, self.itemsize).copy()

    def arm(self, session: Session, access: Any) -> int:
        if self.space == "shared":
            return session.watch(self.begin, self.span, access, self.cta)
        return session.watch(_Span(self.begin, self.span), None, access)

    def row(self) -> dict[str, Any]:
        if self.space == "shared":
            place = f"smem{'' if self.cta is None else f'@{self.cta}'}+0x{self.begin:x}"
        else:
            place = f"gmem+0x{self.begin:x}"
        return {"expression": self.expression, "dtype": self.dtype, "shape": list(self.shape), "address": place}


@dataclass(frozen=True)
class _Span:
    """Global memory in the form of a tensor, as Session.watch takes it."""

    address: int
    nbytes: int

    def data_ptr(self) -> int:
        return self.address

    def numel(self) -> int:
        return self.nbytes

    def element_size(self) -> int:
        return 1


class WatchParser:
    """Turns expressions into watches.

    Attributes:
        tensors: by the names that the reader knows them by.
        shared: name -> (offset, bytes) of the variables in shared memory.
    """

    def __init__(self, session: Session, tensors: Mapping[str, Any]) -> None:
        for name, tensor in tensors.items():
            if not hasattr(tensor, "data_ptr") or tensor.device.type != "cpu":
                raise TypeError(f"tensors[{name!r}] must be a CPU tensor of the launch; got {type(tensor).__name__}")
        self.tensors = dict(tensors)
        self._arguments = _arguments(session)
        self._allocations = session.launch.allocations
        self.shared = _shared_variables(session)
        self._word = _shared_word(session)

    def names(self) -> list[str]:
        """What may be watched, each once: an argument that is a named tensor goes by that name."""
        named = {tensor.data_ptr() for tensor in self.tensors.values()}
        unnamed = [name for name, address in self._arguments.items() if address not in named]
        return [*self.tensors, *self.shared, *unnamed, "smem"]

    def help(self) -> str:
        """What may be written, with names that are known here."""
        if not self.tensors:
            named = 'Tensors have names here after KernelDebugger(session, tensors={"out": out}).'
            return f"Write memory: {MEMORY_HELP}. {named}"
        name, tensor = max(self.tensors.items(), key=lambda item: item[0] == "out")
        index = f"[{', '.join(['0'] * (tensor.dim() - 1) + ['0:8'])}]" if tensor.dim() else ""
        return f"Write a tensor: {name}{index}, or memory: {MEMORY_HELP}."

    def parse(self, expression: str) -> Watch:
        """Reads an expression.

        Raises:
            ValueError: what is wrong with it.
        """
        text = expression.strip()
        if text.startswith("%"):
            raise ValueError(f"'{text}' is a register: its row is among the registers, its lanes open by a press on it")
        if (found := NAMED.match(text)) and found[1] in self.tensors:
            return self._tensor(text, found[1], found[2])
        if (found := SHARED.match(text)) and found[1] in self.shared:
            return self._variable(text, *found.groups())
        if found := ADDRESS.match(text):
            return self._memory(text, *found.groups())
        raise ValueError(f"'{expression}' names nothing here. {self.help()} Names: {', '.join(self.names())}.")

    def _tensor(self, text: str, name: str, index: str | None) -> Watch:
        tensor = self.tensors[name]
        if index is not None:
            tensor = tensor[_index(text, index)]
        dtype = ELEMENTS.get(str(tensor.dtype).removeprefix("torch."))
        if dtype not in DTYPES:
            raise ValueError(f"'{text}': values of {tensor.dtype} are not shown; watch its bytes: arg0*16:u8")
        shape = _fitting(tuple(tensor.shape))
        strides = tuple(stride * tensor.element_size() for stride in tensor.stride())
        begin = tensor.data_ptr()
        for _ in range(len(tensor.shape) - len(shape)):
            strides = strides[1:]
        self._check_global(text, Watch(text, "global", begin, shape, strides, dtype))
        return Watch(text, "global", begin, shape, strides, dtype)

    def shared_dtype(self, name: str) -> str:
        """The type in which a variable in shared memory is read unless one is given: PTX declares bytes, what the
        kernel does with them says more."""
        _, nbytes = self.shared[name]
        return "u64" if nbytes == 8 else self._word if nbytes % 4 == 0 else "u8"

    def _variable(self, text: str, name: str, cta: str | None, index: str | None, dtype: str | None) -> Watch:
        """A variable in shared memory: "tile", "tile[8]", "tile@1[0:16]:f16" (of CTA 1), counted in elements of the
        dtype."""
        begin, nbytes = self.shared[name]
        dtype = dtype or self.shared_dtype(name)
        if dtype not in DTYPES:
            raise ValueError(f"'{text}': {dtype} is no dtype; there are {', '.join(DTYPES)}")
        size = DTYPES[dtype][1]
        chosen = (slice(None),) if index is None else _index(text, index)
        elements = range(max(1, nbytes // size))
        if len(chosen) > 1:
            raise ValueError(f"'{text}': a variable has one subscript, such as [0:16]")
        try:
            picked = list(elements[chosen[0]] if isinstance(chosen[0], slice) else (elements[chosen[0]],))
        except IndexError:
            picked = []
        if not picked:
            raise ValueError(f"'{text}': {name} has {len(elements)} elements of {dtype}")
        stride = picked[1] - picked[0] if len(picked) > 1 else 1
        count = min(len(picked), MOST_VALUES)
        owner = None if cta is None else int(cta)
        return Watch(text, "shared", begin + picked[0] * size, (count,), (stride * size,), dtype, owner)

    def _memory(
        self, text: str, base: str, cta: str | None, offset: str | None, count: str | None, dtype: str | None
    ) -> Watch:
        dtype = dtype or "u32"
        if dtype not in DTYPES:
            raise ValueError(f"'{text}': {dtype} is no dtype; there are {', '.join(DTYPES)}")
        size, elements = DTYPES[dtype][1], int(count or 1)
        if not 1 <= elements <= MOST_VALUES:
            raise ValueError(f"'{text}': 1 to {MOST_VALUES} elements are shown; got {elements}")
        begin = int(offset or "0", 0)
        if base == "smem":
            return Watch(text, "shared", begin, (elements,), (size,), dtype, None if cta is None else int(cta))
        if base != "gmem":
            if base not in self._arguments:
                raise ValueError(f"'{text}': no pointer argument is {base}; there are {', '.join(self._arguments)}")
            begin += self._arguments[base]
        watch = Watch(text, "global", begin, (elements,), (size,), dtype)
        self._check_global(text, watch)
        return watch

    def _check_global(self, text: str, watch: Watch) -> None:
        inside = any(
            a.address <= watch.begin and watch.begin + watch.span <= a.address + a.nbytes for a in self._allocations
        )
        if not inside:
            raise ValueError(f"'{text}' is outside the launch's memory, gmem+0x{watch.begin:x}, {watch.span} bytes")


def _shared_variables(session: Session) -> dict[str, tuple[int, int]]:
    """Name -> (offset, bytes) of the variables that the kernel declares in shared memory, as the source names them."""
    rows = session.launch.kernel.emulated.shared_variables
    return {variable_name(name): (begin, nbytes) for name, begin, nbytes in rows if nbytes > 0}


def _shared_word(session: Session) -> str:
    """The type of words in shared memory: s32 where the kernel reads and writes integers there and nothing else."""
    statements = session.launch.kernel.code.kernel.statements()
    accesses = [(each[0].rpartition(".")[2], each[1]) for each in statements if SHARED_ACCESS.match(each[0])]
    floats = float_types(statements)
    integers = [
        kind in ("u32", "s32", "b32") and not any(register in floats for operand in operands for register in operand)
        for kind, operands in accesses
    ]
    return "s32" if integers and all(integers) else "f32"


def _arguments(session: Session) -> dict[str, int]:
    """arg<n> -> address, of every argument that is a pointer or a tensor map, in order of the parameters."""
    found = {
        int(number): allocation.address
        for allocation in session.launch.allocations
        for number in re.findall(r"argument (\d+)", allocation.name)
    }
    return {f"arg{number}": found[number] for number in sorted(found)}


def _fitting(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The leading part of a tensor that is small enough to show: the first rows, then the first elements."""
    while len(shape) > 1 and int(np.prod(shape)) > MOST_VALUES:
        inner = int(np.prod(shape[1:]))
        if inner <= MOST_VALUES:
            return (MOST_VALUES // inner, *shape[1:])
        shape = shape[1:]
    return (min(shape[0], MOST_VALUES),) if len(shape) == 1 else shape


def _index(text: str, index: str) -> Any:
    """A subscript of integers and slices, without running code."""
    try:
        body: Any = ast.parse(f"x[{index}]", mode="eval").body
        parts = body.slice.elts if isinstance(body.slice, ast.Tuple) else [body.slice]
        made = [
            slice(*(None if p is None else ast.literal_eval(p) for p in (part.lower, part.upper, part.step)))
            if isinstance(part, ast.Slice)
            else int(ast.literal_eval(part))
            for part in parts
        ]
    except (SyntaxError, ValueError, TypeError, AttributeError):
        raise ValueError(f"'{text}': a subscript has integers and slices, such as [0, 0:8]") from None
    return tuple(made)

"""Which registers of a kernel hold floats, packed halves included: what a search for NaN looks at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sglab.emulator.nan_pairs import Pairs
from sglab.emulator.register_types import ELEMENTS, FLOATS, Statement, float_types

BYTES = ("e4m3", "e5m2")
"""8-bit floats: a register that holds some has as many as fit."""
PACKED = {"f16": "f16x2", "bf16": "bf16x2", **dict(zip(BYTES, BYTES, strict=True))}
OF_A_PRODUCT = {
    "f16": "f16x2",
    "bf16": "bf16x2",
    "f32": "f32",
    "tf32": "f32",
    "f64": "f64",
    "e4m3": "e4m3",
    "e5m2": "e5m2",
}
"""Type of an operand of a matrix product -> what a register of it holds."""


def register_kinds(statements: Iterable[Statement]) -> dict[str, str]:
    """f16, bf16, f32, f64, f16x2, bf16x2, e4m3 or e5m2 by register, of those that hold floats for sure."""
    listed = list(statements)
    kinds = dict(float_types(listed))
    moves: list[tuple[list[str], list[str]]] = []
    for mnemonic, operands in listed:
        parts = mnemonic.split(".")
        if parts[0] in ("mma", "wgmma") and not parts[-1].startswith("s"):
            _of_product(parts, operands, kinds)
        if parts[0] == "wmma":
            _of_fragments(parts, operands, kinds)
        packed = next((part for part in parts[1:] if part in ("f16x2", "bf16x2")), "")
        if packed:
            converts = parts[0] == "cvt"
            for operand in operands[:1] if converts else operands:
                for register in operand:
                    kinds.setdefault(register, packed)
        if parts[0] == "cvt" and len(parts) > 2:
            _of_conversion(parts, operands, kinds)
        if parts[0] == "mov" and len(operands) == 2:
            moves.append((list(operands[0]), list(operands[1])))
    Pairs(listed).tell(kinds)
    for _ in range(4):
        before = len(kinds)
        for left, right in moves:
            _along(left, right, kinds)
            _along(right, left, kinds)
        if len(kinds) == before:
            break
    return kinds


def _of_product(parts: list[str], operands: Iterable[Iterable[str]], kinds: dict[str, str]) -> None:
    d, a, b, *c = parts[-4:] if parts[0] == "mma" else parts[-3:]
    for operand, element in zip(operands, (d, a, b, *c), strict=False):
        if element in OF_A_PRODUCT:
            for register in operand:
                kinds.setdefault(register, OF_A_PRODUCT[element])


def _of_fragments(parts: list[str], operands: Sequence[Iterable[str]], kinds: dict[str, str]) -> None:
    """Of wmma: what is loaded or stored has the last type; a product names those of D, C, or D, A, B and C."""
    fragments = [*operands]
    if parts[1] != "mma":
        fragments, elements = fragments[int(parts[1] == "store") :][:1], parts[-1:]
    else:
        named = [part for part in parts if part in OF_A_PRODUCT]
        elements = [*named[:1], "f16", "f16", *named[1:]] if len(named) == 2 else named
    for fragment, element in zip(fragments, elements, strict=False):
        if element in OF_A_PRODUCT:
            for register in fragment:
                kinds.setdefault(register, OF_A_PRODUCT[element])


def _of_conversion(parts: list[str], operands: Sequence[Iterable[str]], kinds: dict[str, str]) -> None:
    """The last two parts are the result's type and the source's; of 8-bit floats two or four are converted at once."""
    for operand in operands[1:] if parts[-1] in ("f16", "bf16", "f32") else []:
        for register in operand:
            kinds.setdefault(register, parts[-1])
    for part, of_it in ((parts[-2], operands[:1]), (parts[-1], operands[1:])):
        element = next((each for each in BYTES if part in (each, f"{each}x2", f"{each}x4")), "")
        for operand in of_it if element else []:
            kinds.update(dict.fromkeys(operand, element))


def _along(to: list[str], source: list[str], kinds: dict[str, str]) -> None:
    """A move between registers hands a kind on; one between a register and two halves packs it."""
    if len(to) == len(source) == 1 and source[0] in kinds:
        kinds.setdefault(to[0], kinds[source[0]])
    if len(to) == 1 and len(source) == 2 and kinds.get(source[0]) in PACKED:
        kinds.setdefault(to[0], PACKED[kinds[source[0]]])
    if len(to) == 2 and len(source) == 1 and kinds.get(source[0]) in BYTES:
        for half in to:
            kinds.setdefault(half, kinds[source[0]])


def copied_kind(kinds: dict[str, str]) -> str:
    """What copies without a tensor map move that read no tensor of the launch: the kernel's 16-bit type, else f32."""
    held = list(kinds.values())
    halves = {name: sum(kind.startswith(name) for kind in held) for name in ("f16", "bf16")}
    if not any(halves.values()):
        return "f32"
    return max(halves, key=lambda name: halves[name])


def tensor_kinds(launch: Any) -> list[tuple[int, int, str]]:
    """Address, bytes and type of what a launch's tensors hold, "" where it is no floats: the tensors, and after them
    what lies around them in their storages."""
    tensors = [*tensors_in((launch.keep, [held.tensor for held in launch.tensors]))]
    exact, around = [], []
    for tensor in tensors:
        element = ELEMENTS.get(str(tensor.dtype).removeprefix("torch."), "")
        kind = element if element in FLOATS or element in BYTES else ""
        steps = zip(tensor.shape, tensor.stride(), strict=True)
        last = sum((size - 1) * stride for size, stride in steps) if tensor.numel() else -1
        exact.append((tensor.data_ptr(), (1 + last) * tensor.element_size(), kind))
        storage = tensor.untyped_storage()
        around.append((storage.data_ptr(), storage.nbytes(), kind))
    return exact + around


def tensors_in(value: Any) -> Iterator[Any]:
    """The tensors of arguments, lists and tensor descriptors."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for each in value:
            yield from tensors_in(each)
    elif hasattr(value, "untyped_storage"):
        yield value
    elif hasattr(value, "base"):  # a tensor descriptor, or Triton's reinterpreting wrapper
        yield from tensors_in(value.base)


def moved_registers(statements: Iterable[Statement], kinds: dict[str, str]) -> set[str]:
    """Registers without a kind that hand on what memory held and compute nothing: compilers declare them .b32."""
    loaded: set[str] = set()
    computed: set[str] = set()
    moves: list[tuple[str, str]] = []
    for mnemonic, operands in statements:
        parts = mnemonic.split(".")
        values: list[str] = []
        if parts[0] in ("ld", "ldmatrix") or mnemonic.startswith("tcgen05.ld"):
            values = [*operands[0]] if operands else []
            loaded.update(values if "param" not in parts else ())
        elif parts[0] in ("st", "stmatrix") or mnemonic.startswith("tcgen05.st"):
            values = [*operands[-1]] if len(operands) > 1 else []
        elif parts[0] == "mov" and all(len(each) <= 1 for each in operands):
            pair = [register for each in operands for register in each]  # a constant is none
            if len(pair) == 2:
                moves.append((pair[0], pair[1]))
            continue
        computed.update({register for each in operands for register in each} - set(values))
    for _ in range(4):
        for copied in moves:
            if loaded & set(copied):
                loaded.update(copied)
            if computed & set(copied) - set(kinds):
                computed.update(copied)
    return loaded - computed - set(kinds)

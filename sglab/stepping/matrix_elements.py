"""What registers of matrix products hold: several elements each, of a type that the mnemonic names."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import torch

_VIEWS = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "tf32": torch.float32,
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
    "s8": torch.int8,
    "u8": torch.uint8,
    "s32": torch.int32,
}
_UNVIEWED = {"b1", "s4", "u4", "f64", "e3m2", "e2m3", "e2m1"}
_OPERAND = re.compile(r"\{[^}]*\}|[^\s,;]+")
_WORD = re.compile(r"[%$\w]+")
_PRODUCTS = ("mma.sync", "mma.sp", "wgmma.mma_async")


def element_types(opcode: str, text: str) -> dict[str, str]:
    """Element types by register, of a product whose operands are registers; empty for other instructions.

    Args:
        text: the instruction's, with its mnemonic.
    """
    if not opcode.startswith(_PRODUCTS):
        return {}
    types = [part for part in opcode.split(".") if part in _VIEWS or part in _UNVIEWED]
    operands = _OPERAND.findall(text.split(opcode, 1)[-1])
    found: dict[str, str] = {}
    for kind, operand in zip(types[:4], operands, strict=False):
        if operand.startswith("{") or not opcode.startswith("wgmma"):  # elsewhere stand descriptors
            found |= dict.fromkeys(_WORD.findall(operand), kind)
    return found


def shown_elements(value: Any, kind: str) -> str | None:
    """The elements in a register of 32 bits, the one in its lowest bits first; None where it cannot be read so."""
    view = _VIEWS.get(kind)
    if view is None or np.asarray(value).dtype.itemsize != 4:
        return None
    word = torch.from_numpy(np.array([value]).view(np.int32))
    elements = word.view(view)
    texts = [f"{float(each):.9g}" if view.is_floating_point else str(int(each)) for each in elements]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"

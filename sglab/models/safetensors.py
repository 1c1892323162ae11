"""Reading safetensors files: a JSON header of names, dtypes and byte ranges, then the bytes, mapped into memory.

Source: the format's description, https://github.com/huggingface/safetensors#format.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from sglab.engine.errors import BadArgumentError

DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
MAX_HEADER = 100_000_000
"""Bytes, the format's own limit."""


def read_safetensors(path: str | Path) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of one file, on the CPU, by name. They read the file's pages as they are used: do not write to them.

    Raises:
        BadArgumentError: it is no safetensors file, or cut short.
    """
    with Path(path).open("rb") as file:
        if Path(path).stat().st_size < 8:
            raise _broken(Path(path), f"{Path(path).stat().st_size} bytes")
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    header, start = _header(Path(path), content)
    for name, entry in header.items():
        if name != "__metadata__":
            yield name, _tensor(Path(path), name, entry, content, start)


def _header(path: Path, content: mmap.mmap) -> tuple[dict[str, Any], int]:
    size = int.from_bytes(content[:8], "little")
    if size > MAX_HEADER or 8 + size > len(content):
        raise _broken(path, f"a header of {size} bytes in a file of {len(content)}")
    try:
        return json.loads(content[8 : 8 + size]), 8 + size
    except ValueError:
        raise _broken(path, "a header that is no JSON") from None


def _tensor(path: Path, name: str, entry: dict[str, Any], content: mmap.mmap, start: int) -> torch.Tensor:
    dtype, shape, (begin, end) = DTYPES.get(entry["dtype"]), entry["shape"], entry["data_offsets"]
    if dtype is None:
        raise _broken(path, f"{name} of dtype {entry['dtype']}")
    count = (end - begin) // dtype.itemsize
    if start + end > len(content) or torch.Size(shape).numel() != count:
        raise _broken(path, f"{name} at bytes {begin}..{end} of {len(content) - start}, shape {shape}")
    if not count:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(content, dtype=dtype, count=count, offset=start + begin).view(shape)


def _broken(path: Path, got: str) -> BadArgumentError:
    return BadArgumentError(str(path), "a whole safetensors file", got, "Fetch it again.")

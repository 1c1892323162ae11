"""What an ELF file says of itself to the dynamic linker."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

_LOAD, _DYNAMIC, _INTERPRETER = 1, 2, 3  # types of program headers
_NEEDED, _STRINGS, _STRINGS_SIZE = 1, 5, 10  # tags of dynamic entries


@dataclass(frozen=True)
class Dynamic:
    """interpreter: the dynamic linker that a program names, "" of a library. needed: libraries by name, in order"""

    interpreter: str
    needed: tuple[str, ...]


def dynamic_of(file: Path) -> Dynamic | None:
    """What a program or library for 64-bit little-endian machines needs.

    Returns:
        None if the file is none, or links nothing at run time.
    """
    data = file.read_bytes()
    try:
        return _dynamic(data)
    except (struct.error, UnicodeDecodeError, ValueError):  # cut off or broken: the system says so when it runs it
        return None


def _dynamic(data: bytes) -> Dynamic | None:
    if data[:6] != b"\x7fELF\x02\x01":
        return None
    (table,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    headers = [struct.unpack_from("<II6Q", data, table + number * size) for number in range(count)]
    loads = [(address, offset, length) for kind, _, offset, address, _, length, _, _ in headers if kind == _LOAD]

    def at(address: int) -> int:
        for begin, offset, length in loads:
            if begin <= address < begin + length:
                return address - begin + offset
        raise ValueError("an address outside the file")

    interpreter, entries = "", []
    for kind, _, offset, _, _, length, _, _ in headers:
        if kind == _INTERPRETER:
            interpreter = data[offset : offset + length].rstrip(b"\0").decode()
        elif kind == _DYNAMIC:
            entries = list(struct.iter_unpack("<qQ", data[offset : offset + length // 16 * 16]))
    if not entries:
        return None
    values = dict(entries)
    strings = at(values[_STRINGS]) if _STRINGS in values else 0
    end = strings + values.get(_STRINGS_SIZE, 0)
    names = [
        data[strings + value : data.index(b"\0", strings + value, end)] for tag, value in entries if tag == _NEEDED
    ]
    return Dynamic(interpreter, tuple(name.decode() for name in names))

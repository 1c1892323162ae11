"""Which tensors were written to after a run: what a widget shows of them is then stale."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from typing import Any

from sglab.emulator.session import Session

SHOWN = 3
"""Names that a sentence lists."""
COMPARED = 16 << 20
"""Bytes up to which a tensor that was written to is compared with what it held; of larger ones any write counts."""


class Versions:
    """Tensors as they are now. PyTorch counts what writes to them in place; what a kernel writes is not counted.

    A write of what a tensor holds already is no change: a batch that runs again writes its keys where they lie.

    Args:
        tensors: (name, tensor); numpy's arrays, and others that keep no count, are left out.
    """

    def __init__(self, tensors: Iterable[tuple[str, Any]] = ()) -> None:
        self._seen = [
            _Seen(name, tensor, version) for name, tensor in tensors if (version := _version(tensor)) is not None
        ]

    @classmethod
    def of(cls, session: Session) -> Versions:
        """Of a launch's arguments."""
        return cls((_short(held.name), held.tensor) for held in session.launch.tensors)

    def changed(self) -> list[str]:
        """The names of those that hold something else since."""
        return list(dict.fromkeys(seen.name for seen in self._seen if seen.changed()))

    def sentence(self) -> str:
        """What was changed, for the reader; empty if nothing was."""
        names = self.changed()
        if not names:
            return ""
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        return f"{', '.join(names[:SHOWN])}{more} changed after this run: what is shown is of before."


class _Seen:
    """One tensor, with the count of its writes and a checksum of its bytes."""

    def __init__(self, name: str, tensor: Any, version: int) -> None:
        self.name, self._tensor, self._version = name, tensor, version
        self._sum = _checksum(tensor)
        self._changed = False

    def changed(self) -> bool:
        version = _version(self._tensor)
        if version is not None and version != self._version:
            self._version = version
            self._changed = self._sum is None or _checksum(self._tensor) != self._sum
        return self._changed


def _short(name: str) -> str:
    """The name that the kernel has for it: "out" of "argument 0, out (.u64), tensor map"; else its number."""
    found = re.match(r"(argument \d+)(?:, ([^\s(,]+))?", name)
    return (found[2] or found[1]) if found else name


def _version(tensor: Any) -> int | None:
    try:
        return int(tensor._version)
    except (AttributeError, RuntimeError):  # no torch tensor, or one made in inference mode
        return None


def _checksum(tensor: Any) -> int | None:
    """Of a tensor's bytes; None of what is large, or not in this process's memory."""
    import torch

    if tensor.device.type != "cpu" or tensor.layout != torch.strided or tensor.nbytes > COMPARED:
        return None
    return zlib.crc32(tensor.detach().reshape(-1).contiguous().view(torch.uint8).numpy())

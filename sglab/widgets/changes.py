"""Which tensors were written to after a run: what a widget shows of them is then stale."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from sglab.emulator.session import Session

SHOWN = 3
"""Names that a sentence lists."""


class Versions:
    """Tensors as they are now. PyTorch counts what writes to them in place; what a kernel writes is not counted.

    Args:
        tensors: (name, tensor); numpy's arrays, and others that keep no count, are left out.
    """

    def __init__(self, tensors: Iterable[tuple[str, Any]] = ()) -> None:
        self._seen = [(name, tensor, version) for name, tensor in tensors if (version := _version(tensor)) is not None]

    @classmethod
    def of(cls, session: Session) -> Versions:
        """Of a launch's arguments."""
        return cls((_short(held.name), held.tensor) for held in session.launch.tensors)

    def changed(self) -> list[str]:
        """The names of those that were written to since."""
        return list(dict.fromkeys(name for name, tensor, version in self._seen if _version(tensor) != version))

    def sentence(self) -> str:
        """What was changed, for the reader; empty if nothing was."""
        names = self.changed()
        if not names:
            return ""
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        return f"{', '.join(names[:SHOWN])}{more} changed after this run: what is shown is of before."


def _short(name: str) -> str:
    """The name that the kernel has for it: "out" of "argument 0, out (.u64), tensor map"; else its number."""
    found = re.match(r"(argument \d+)(?:, ([^\s(,]+))?", name)
    return (found[2] or found[1]) if found else name


def _version(tensor: Any) -> int | None:
    try:
        return int(tensor._version)
    except (AttributeError, RuntimeError):  # no torch tensor, or one made in inference mode
        return None

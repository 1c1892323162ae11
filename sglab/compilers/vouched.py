"""Which PTX this process compiled itself: the source files that such a text names may be opened to show them.

PTX names files freely (`.file 1 "/etc/passwd"`). A text that came from elsewhere is data: what it names is opened only
below folders that the user named.
"""

from __future__ import annotations

import hashlib

_digests: set[bytes] = set()


def _digest(ptx: str) -> bytes:
    return hashlib.sha256(ptx.encode("utf-8", "surrogatepass")).digest()


def vouch(ptx: str) -> str:
    """Remembers that a compiler run of this process gave this text; returns it."""
    _digests.add(_digest(ptx))
    return ptx


def is_vouched(ptx: str) -> bool:
    return _digest(ptx) in _digests

"""Linux's calls that Python 3.10 has no names for. Each returns whether it was done."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys

NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 32, 4096, 1 << 14, 1 << 18
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 24, 38
_MOUNT_SETATTR, _AT_RECURSIVE, _MOUNT_ATTR_RDONLY, _AT_FDCWD = 442, 0x8000, 1, -100
CAPABILITIES = 64

LINUX = sys.platform == "linux"
_libc = ctypes.CDLL(None, use_errno=True) if LINUX else None


def unshare(flags: int) -> bool:
    """Leaves the namespaces of the parent."""
    return _libc is not None and _libc.unshare(flags) == 0


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> bool:
    assert _libc is not None
    strings = [each.encode() if each else None for each in (source, target, kind)]
    return bool(_libc.mount(*strings, ctypes.c_ulong(flags), options.encode() or None) == 0)


def all_read_only() -> bool:
    """Makes every mount that there is read-only (mount_setattr, Linux 5.12)."""
    assert _libc is not None
    attributes = struct.pack("QQQQ", _MOUNT_ATTR_RDONLY, 0, 0, 0)
    code = _libc.syscall(_MOUNT_SETATTR, _AT_FDCWD, b"/", _AT_RECURSIVE, attributes, ctypes.c_size_t(len(attributes)))
    return bool(code == 0)


def die_with_parent() -> None:
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, 9, 0, 0, 0)


def no_new_privileges() -> bool:
    """From now on no program that is started gains rights by its file's setuid bit or capabilities."""
    return _libc is not None and _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0


def drop_capabilities() -> bool:
    """Gives up all of root's rights, those within an own user namespace, too."""
    if _libc is None:
        return False
    for capability in range(CAPABILITIES):
        _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    header = struct.pack("Ii", 0x20080522, 0)  # version 3, this thread
    return bool(_libc.capset(header, bytes(24)) == 0)


def machine() -> str:
    return platform.machine()


def write(path: str, text: str) -> bool:
    try:
        file = os.open(path, os.O_WRONLY)
    except OSError:
        return False
    try:
        os.write(file, text.encode())
    except OSError:
        return False
    finally:
        os.close(file)
    return True

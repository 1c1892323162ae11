"""A seccomp filter: the system calls that a submission may not make. They fail with EPERM."""

from __future__ import annotations

import ctypes
import struct

from . import libc

_PR_SET_SECCOMP, _FILTER_MODE = 22, 2
_LOAD, _JUMP_EQUAL, _JUMP_SET, _JUMP_GREATER_EQUAL, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_EPERM, _ENOSYS = 0x00050000 | 1, 0x00050000 | 38
_NUMBER, _ARCH, _FIRST_ARGUMENT = 0, 4, 16
_CLONE_THREAD = 0x10000
_X32 = 0x40000000

_ARCHES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# By machine: x86_64, aarch64. Linux's asm/unistd_64.h and asm-generic/unistd.h; numbers from 424 on are common.
_NETWORK = {
    "socket": (41, 198),
    "socketpair": (53, 199),
    "connect": (42, 203),
    "bind": (49, 200),
    "io_uring": (425, 425),
}
_OTHERS = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
}
_HOARDS = {  # memory that no limit of a process counts
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
}
_SYSTEM = {
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount_setattr": (442, 442),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "kexec_load": (246, 104),
    "init_module": (175, 105),
    "finit_module": (313, 273),
}
_START = {"fork": (57, None), "vfork": (58, None)}
_CLONE, _CLONE3 = (56, 220), 435


def install(processes: int) -> bool:
    """Installs it for this process and all that it starts; there is no way back.

    Args:
        processes: with 1 no process may be started, threads may.
    """
    column = {"x86_64": 0, "aarch64": 1}.get(libc.machine())
    if not libc.LINUX or column is None or not libc.no_new_privileges():
        return False
    code = _program(column, processes)
    buffer = ctypes.create_string_buffer(code)
    program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    assert libc._libc is not None
    return bool(libc._libc.prctl(_PR_SET_SECCOMP, _FILTER_MODE, program, 0, 0) == 0)


def _program(column: int, processes: int) -> bytes:
    denied = {**_NETWORK, **_OTHERS, **_HOARDS, **_SYSTEM, **(_START if processes == 1 else {})}
    numbers = [both[column] for both in denied.values()]
    rows = [
        (_LOAD, 0, 0, _ARCH),
        (_JUMP_EQUAL, 1, 0, _ARCHES[libc.machine()]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if column == 0:  # the x32 calls have numbers of their own
        rows += [(_JUMP_GREATER_EQUAL, 0, 1, _X32), (_RETURN, 0, 0, _EPERM)]
    for number in numbers:
        if number is not None:
            rows += [(_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, _EPERM)]
    if processes == 1:  # clone3 hides its flags in memory; the C library does without where it is missing
        rows += [(_JUMP_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _ENOSYS), (_JUMP_EQUAL, 0, 3, _CLONE[column])]
        rows += [(_LOAD, 0, 0, _FIRST_ARGUMENT), (_JUMP_SET, 1, 0, _CLONE_THREAD), (_RETURN, 0, 0, _EPERM)]
    rows.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("HBBI", *row) for row in rows)

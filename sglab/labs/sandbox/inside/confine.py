"""What takes a process's possibilities away, as far as the system lets it; each says what it has done.

In this order: rlimits, everywhere; a user of its own where root starts it; namespaces (user, network, PIDs, mounts,
IPC) where the kernel gives them to this user; a seccomp filter last.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping, Sequence
from typing import Any

from . import libc, seccomp

FIRST_USER, USERS = 61_000, 4_000
LEAST_PIDS = 301
"""Of a PID namespace, the least that pid_max takes."""


def rlimits(limits: Mapping[str, Any]) -> list[str]:
    """Seconds, bytes of memory and of a file, open files, processes of the user."""
    wanted = {
        "cpu time": (resource.RLIMIT_CPU, limits["cpu_seconds"]),
        "file size": (resource.RLIMIT_FSIZE, limits["file_bytes"]),
        "open files": (resource.RLIMIT_NOFILE, limits["files"]),
        "core": (resource.RLIMIT_CORE, 0),
    }
    if limits["memory"]:
        wanted["memory"] = (resource.RLIMIT_AS, limits["memory"])
    done = []
    for name, (which, value) in wanted.items():
        try:
            resource.setrlimit(which, (value, value + (which == resource.RLIMIT_CPU)))  # a signal first, that says why
            done.append(name)
        except (ValueError, OSError):
            continue
    return [f"rlimits ({', '.join(name for name in done if name != 'core')})"]


def process_limit(processes: int) -> None:
    """Counted by user, so it is of use only to a user that nothing else runs as; root is never held to it."""
    try:
        resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))
    except (ValueError, OSError):
        return


def own_user(needed: Sequence[str], folder: str) -> list[str]:
    """Root becomes a user that owns nothing, if such a user can read what Python needs."""
    if os.geteuid() != 0 or not all(_open_to_all(path) for path in needed):
        return []
    user = FIRST_USER + os.getpid() % USERS
    try:
        os.chown(folder, user, user)
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    except OSError:
        return []
    return ["own user"]


def namespaces() -> list[str]:
    """Leaves the parent's; the PID namespace is that of the children."""
    user, group = os.geteuid(), os.getegid()
    flags = {"network": libc.NEWNET, "pid": libc.NEWPID, "mount": libc.NEWNS, "ipc": libc.NEWIPC}
    if not libc.unshare(libc.NEWUSER | sum(flags.values())):
        if user == 0 and libc.unshare(sum(flags.values())):
            return ["namespaces (network, pid, mount, ipc)"]
        return []
    libc.write("/proc/self/setgroups", "deny")
    libc.write("/proc/self/uid_map", f"{user} {user} 1")
    libc.write("/proc/self/gid_map", f"{group} {group} 1")
    return ["namespaces (user, network, pid, mount, ipc)"]


def mounts(folder: str, hidden: Sequence[str], needed: Sequence[str], file_bytes: int, processes: int) -> list[str]:
    """In an own mount namespace: everything read-only but `folder` and /tmp, which are empty and in memory; what is
    `hidden` is empty; /proc shows this PID namespace alone. A /tmp that holds what is `needed` is read-only.

    Raises:
        OSError: something cannot be hidden.
    """
    libc.mount("", "/", "", libc.MS_REC | libc.MS_PRIVATE)
    done = []
    if libc.all_read_only():
        done.append("read-only file system")
    options = f"size={file_bytes},nr_inodes=4096,mode=0700"
    for path in hidden:
        if os.path.isdir(path) and not libc.mount("tmpfs", path, "tmpfs", libc.MS_RDONLY, "size=4096,mode=0755"):
            raise OSError(f"cannot hide {path}")
    if hidden:
        done.append("hidden folders")
    temporary = {folder, "/dev/shm"} | ({"/tmp"} if not any(path.startswith("/tmp/") for path in needed) else set())
    for path in sorted(temporary):
        if os.path.isdir(path):
            libc.mount("tmpfs", path, "tmpfs", libc.MS_NOSUID | libc.MS_NODEV, options)
    os.makedirs(folder, exist_ok=True)  # it may have been below /tmp
    if libc.mount("proc", "/proc", "proc", libc.MS_NOSUID | libc.MS_NODEV):
        done.append("own /proc")
        if libc.write("/proc/sys/kernel/pid_max", str(max(LEAST_PIDS, processes))):
            done.append("pid_max")
    return done


def finish(processes: int) -> list[str]:
    """The last step: no rights, no forbidden calls."""
    done = ["no capabilities"] if libc.drop_capabilities() else []
    if seccomp.install(processes):
        done.append("seccomp (no network, no tracing" + (", no processes)" if processes == 1 else ")"))
    return done


def _open_to_all(path: str) -> bool:
    """Whether any user can go to a folder or file and read it."""
    at = os.path.realpath(path)
    if not os.path.exists(at):
        return True
    if not os.stat(at).st_mode & 0o004:
        return False
    while (up := os.path.dirname(at)) != at:
        at = up
        if not os.stat(at).st_mode & 0o001:
            return False
    return True

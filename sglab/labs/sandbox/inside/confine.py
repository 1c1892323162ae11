"""What takes a process's possibilities away, as far as the system lets it; each says what it has done.

In this order: namespaces (user, network, PIDs, mounts, IPC) where the kernel gives them to this user; a user of its own
where root starts it; rlimits, everywhere; a seccomp filter last.
"""

from __future__ import annotations

import os
import resource
import stat
from collections.abc import Mapping, Sequence
from typing import Any

from . import libc, seccomp

FIRST_USER, USERS = 61_000, 4_000
LEAST_PIDS = 301
"""Of a PID namespace, the least that pid_max takes."""
DEVICES = ("null", "zero", "full", "random", "urandom")


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


def own_user(user: int, needed: Sequence[str], folder: str) -> list[str]:
    """Root becomes a user that owns nothing but `folder`, if such a user can read what Python needs."""
    real = [os.path.realpath(path) for path in needed if os.path.exists(path)]
    if os.geteuid() != 0 or closed_folders(real) or not all(os.stat(path).st_mode & 0o004 for path in real):
        return []
    try:
        os.chown(folder, user, user)
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    except OSError:
        return []
    return ["own user"]


def namespaces() -> list[str]:
    """Leaves the parent's; the PID namespace is that of the children. Root needs no user namespace for that, and keeps
    its rights until the mounts are made."""
    user, group = os.geteuid(), os.getegid()
    flags = {"network": libc.NEWNET, "pid": libc.NEWPID, "mount": libc.NEWNS, "ipc": libc.NEWIPC}
    if user == 0:
        return [f"namespaces ({', '.join(flags)})"] if libc.unshare(sum(flags.values())) else []
    if not libc.unshare(libc.NEWUSER | sum(flags.values())):
        return []
    libc.write("/proc/self/setgroups", "deny")
    libc.write("/proc/self/uid_map", f"{user} {user} 1")
    libc.write("/proc/self/gid_map", f"{group} {group} 1")
    return [f"namespaces (user, {', '.join(flags)})"]


def mounts(folder: str, hidden: Sequence[str], needed: Sequence[str], file_bytes: int, processes: int) -> list[str]:
    """In an own mount namespace: everything read-only but `folder` and /tmp, which are empty and in memory; what is
    `hidden` is empty; /proc shows this PID namespace alone, and /dev no disk. A /tmp that holds what is `needed` is
    read-only. What of `needed` lies in folders that are closed to others is all that these folders hold.

    Raises:
        OSError: something cannot be hidden.
    """
    libc.mount("", "/", "", libc.MS_REC | libc.MS_PRIVATE)
    done = []
    for closed in closed_folders(needed) if os.geteuid() == 0 else ():
        _alone(closed, [path for path in needed if _within(path, closed)])
    own_dev = _own_devices()
    if libc.all_read_only():
        done.append("read-only file system")
    options = f"size={file_bytes},nr_inodes=4096,mode=0700"
    for path in hidden:
        if os.path.isdir(path):
            covered = libc.mount("tmpfs", path, "tmpfs", libc.MS_RDONLY, "size=4096,mode=0755")
        else:
            covered = not os.path.exists(path) or libc.mount("/dev/null", path, "", libc.MS_BIND)
        if not covered:
            raise OSError(f"cannot hide {path}")
    if hidden:
        done.append("hidden folders")
    temporary = {folder, "/dev/shm"} | ({"/tmp"} if not any(path.startswith("/tmp/") for path in needed) else set())
    for path in sorted(temporary):
        if os.path.isdir(path) and libc.mount("tmpfs", path, "tmpfs", libc.MS_NOSUID | libc.MS_NODEV, options):
            os.chmod(path, 0o1777)  # whoever root becomes later
    os.makedirs(folder, exist_ok=True)  # it may have been below /tmp
    if own_dev:
        done.append("own /dev")
    if libc.mount("proc", "/proc", "proc", libc.MS_NOSUID | libc.MS_NODEV):
        done.append("own /proc")
        if libc.write("/proc/sys/kernel/pid_max", str(max(LEAST_PIDS, processes))):
            done.append("pid_max")
        flags = libc.MS_REMOUNT | libc.MS_BIND | libc.MS_RDONLY | libc.MS_NOSUID | libc.MS_NODEV
        if not libc.mount("", "/proc", "", flags) and os.geteuid() == 0:
            raise OSError("cannot make /proc read-only")
    return done


def _alone(closed: str, kept: Sequence[str]) -> None:
    """In place of a folder that others may not enter, one that they may, in which there is only what is kept."""
    places = {os.path.realpath(path): path for path in kept if os.path.exists(path)}
    files = {place: os.open(place, os.O_PATH) for place in places}
    if not libc.mount("tmpfs", closed, "tmpfs", 0, "size=64k,mode=0755"):
        raise OSError(f"cannot cover {closed}")
    for place, file in sorted(files.items()):  # what is in another comes after it, and is there already
        if not os.path.exists(place) and _within(place, closed):
            if stat.S_ISDIR(os.fstat(file).st_mode):
                os.makedirs(place)
            else:
                os.makedirs(os.path.dirname(place), exist_ok=True)
                os.close(os.open(place, os.O_CREAT | os.O_WRONLY, 0o644))
            if not libc.mount(f"/proc/self/fd/{file}", place, "", libc.MS_BIND | libc.MS_REC):
                raise OSError(f"cannot keep {place}")
        os.close(file)
    for place, path in places.items():
        if not os.path.lexists(path):  # it was a link
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.symlink(place, path)


def _own_devices() -> bool:
    """A /dev of five harmless devices: to root's user a disk would be a file."""
    found = {name: f"/dev/{name}" for name in DEVICES if os.path.exists(f"/dev/{name}")}
    files = {name: os.open(path, os.O_PATH) for name, path in found.items()}
    try:
        if not libc.mount("tmpfs", "/dev", "tmpfs", libc.MS_NOSUID, "size=64k,mode=0755"):
            return False
        for name, file in files.items():
            os.close(os.open(f"/dev/{name}", os.O_CREAT | os.O_WRONLY, 0o666))
            if not libc.mount(f"/proc/self/fd/{file}", f"/dev/{name}", "", libc.MS_BIND):
                raise OSError(f"cannot keep /dev/{name}")
    finally:
        for file in files.values():
            os.close(file)
    os.mkdir("/dev/shm")
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        os.symlink(f"/proc/self/fd/{number}", f"/dev/{name}")
    os.symlink("/proc/self/fd", "/dev/fd")
    return True


def finish(processes: int) -> list[str]:
    """The last step: no rights, no forbidden calls."""
    done = ["no capabilities"] if libc.drop_capabilities() else []
    if seccomp.install(processes):
        done.append("seccomp (no network, no tracing" + (", no processes)" if processes == 1 else ")"))
    return done


def closed_folders(needed: Sequence[str]) -> list[str]:
    """The outermost folders on the way to what is needed that not every user may enter."""
    found = set()
    for path in needed:
        at = os.path.realpath(path)
        way = [at] if os.path.isdir(at) else []
        while (up := os.path.dirname(at)) != at:
            at = up
            way.append(at)
        shut = [folder for folder in way if os.path.isdir(folder) and not os.stat(folder).st_mode & 0o001]
        found.update(shut[-1:])
    return sorted(found)


def _within(path: str, folder: str) -> bool:
    return any(os.path.commonpath([each, folder]) == folder for each in (os.path.realpath(path), os.path.abspath(path)))

"""A seat: a student's Jupyter server as a process of this machine, as a user of its own and within limits."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from jupyterhub.spawner import LocalProcessSpawner
from traitlets import Float, Integer, Unicode

from .folders import FIRST_UID, ClassFolder
from .limits import Confinement, SeatLimits, confine, remove_group

SEATS = "seats"
"""Folder in the hub's own, with a file per running seat: its process and its control groups."""


class SeatSpawner(LocalProcessSpawner):  # type: ignore[misc]  # jupyterhub has no types
    """JupyterHub's local spawner, with users that need no account, and limits of a seat's processes together."""

    class_folder = Unicode(help="Folder of the class.", config=True)
    first_uid = Integer(FIRST_UID, help="User id of the first seat; 0: all seats run as the hub's user.", config=True)
    seat_memory = Integer(2 << 30, help="Bytes that a seat may use; 0: no limit.", config=True)
    seat_cpus = Float(1.0, help="Processors that a seat may use; 0: no limit.", config=True)
    seat_processes = Integer(512, help="Processes and threads of a seat.", config=True)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._uid: int | None = None
        self._confinement: Confinement | None = None
        self._groups: tuple[Path, ...] = ()

    @property
    def folder(self) -> ClassFolder:
        return ClassFolder(Path(self.class_folder), self.first_uid > 0, self.first_uid or FIRST_UID)

    async def start(self) -> tuple[str, int]:
        limits = SeatLimits(self.seat_memory or None, self.seat_cpus or None, self.seat_processes)
        self._uid = self.folder.seat(self.user.name)
        self._confinement = confine(self.user.name, limits)
        self._groups = self._confinement.folders
        at: tuple[str, int] = await super().start()
        self._note({"pid": self.pid, "limits": self._confinement.enforced, "memory": limits.memory})
        self.log.info("%s: held by %s", self.user.name, self._confinement.enforced)
        return at

    async def stop(self, now: bool = False) -> None:
        await super().stop(now)
        for group in self._groups:  # kernels that outlived their server
            await asyncio.to_thread(remove_group, group)
        self._file.unlink(missing_ok=True)

    async def poll(self) -> int | None:
        status: int | None = await super().poll()
        if status is not None:
            self._file.unlink(missing_ok=True)
        return status

    def make_preexec_fn(self, name: str) -> Callable[[], None]:
        uid, confinement, home = self._uid, self._confinement, self.folder.home(name)
        assert confinement is not None, "a seat is confined before it starts"

        def become_the_student() -> None:
            confinement.enter()
            os.umask(0o077)
            if uid is not None:
                os.setgroups([])
                os.setgid(uid)
                os.setuid(uid)
            os.chdir(home)

        return become_the_student

    def user_env(self, env: dict[str, str]) -> dict[str, str]:
        home, name = self.folder.home(self.user.name), self.user.name
        threads = max(1, int(self.seat_cpus or os.cpu_count() or 1))
        env.update(
            HOME=str(home),
            USER=name,
            LOGNAME=name,
            SHELL="/bin/bash",
            PATH=f"{Path(sys.executable).parent}{os.pathsep}{env.get('PATH', os.defpath)}",
            OMP_NUM_THREADS=str(threads),  # a seat that starts a thread per processor slows itself down
            SGLAB_LABS_DIR=str(home / "my_labs"),
            SGLAB_SUBMISSIONS=str(self.folder.submissions),
            SGLAB_COURSE=str(self.folder.course),
        )
        return env

    def move_certs(self, paths: dict[str, str]) -> dict[str, str]:
        return paths

    def get_state(self) -> dict[str, Any]:
        return {**super().get_state(), "groups": [str(group) for group in self._groups]}

    def load_state(self, state: dict[str, Any]) -> None:
        """After a restart of the hub: seats run on, and are ended with all their processes."""
        super().load_state(state)
        self._groups = tuple(Path(group) for group in state.get("groups", ()))

    @property
    def _file(self) -> Path:
        return self.folder.hub / SEATS / f"{self.user.name}.json"

    def _note(self, content: dict[str, Any]) -> None:
        self._file.parent.mkdir(exist_ok=True)
        self._file.write_text(json.dumps({**content, "groups": [str(group) for group in self._groups]}))


def running_seats(folder: ClassFolder) -> dict[str, dict[str, Any]]:
    """What the spawner noted of each seat that runs, by name."""
    found = {}
    for file in sorted((folder.hub / SEATS).glob("*.json")):
        with suppress(OSError, ValueError):  # it is ending just now
            found[file.stem] = json.loads(file.read_text())
    return found

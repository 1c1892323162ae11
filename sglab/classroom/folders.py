"""The folders of a class, who owns them, and which user id each seat has.

    CLASS/course          the notebooks, read-only, shared
    CLASS/homes/ada       a student's own, closed to the others
    CLASS/submissions/ada what she handed in; `sglab labs grade CLASS/submissions` grades all
    CLASS/passwords.csv   first passwords, for the instructor
    CLASS/hub             the hub's database, keys and log; grades.sqlite in it is what LTI posts

As root, each seat runs as a user id of its own, without an account; the ids are in `CLASS/hub/users.json` and never
given twice. Without root all seats run as the hub's user, so students can read each other's files: for a demonstration,
not for a class.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

FIRST_UID = 40_000
"""Of the seats' user ids: above people's accounts, below those that systemd hands out."""


@dataclass(frozen=True)
class ClassFolder:
    """Where a class lies.

    Attributes:
        path: of the folder, absolute.
        separate: whether each seat has a user id of its own.
        first_uid: of those.
    """

    path: Path
    separate: bool
    first_uid: int = FIRST_UID

    @property
    def course(self) -> Path:
        return self.path / "course"

    @property
    def homes(self) -> Path:
        return self.path / "homes"

    @property
    def submissions(self) -> Path:
        return self.path / "submissions"

    @property
    def hub(self) -> Path:
        return self.path / "hub"

    @property
    def grades(self) -> Path:
        """The store that `sglab labs grade --store` fills and the LTI service posts from."""
        return self.hub / "grades.sqlite"

    @property
    def passwords(self) -> Path:
        return self.path / "passwords.csv"

    def home(self, name: str) -> Path:
        return self.homes / name

    def records(self, name: str) -> Path:
        """The store of a student's labs."""
        return self.home(name) / "my_labs" / ".records"

    def make(self, course: Path) -> None:
        """Makes the folders, and copies the course; what is there stays, the course is replaced.

        Args:
            course: folder with the notebooks.

        Raises:
            ValueError: there are no notebooks.
            OSError: a folder cannot be made.
        """
        notebooks = sorted(course.glob("*.ipynb"))
        if not notebooks:
            raise ValueError(f"course: expected a folder with notebooks; there is none in {course}")
        for folder in (self.path, self.homes, self.submissions):
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o755 if folder == self.path else 0o711)  # who does not know a name cannot list them
        self.hub.mkdir(exist_ok=True)
        self.hub.chmod(0o700)
        if self.course.exists():
            _open_tree(self.course)
            shutil.rmtree(self.course)
        self.course.mkdir()
        for notebook in notebooks:
            shutil.copyfile(notebook, self.course / notebook.name)
            (self.course / notebook.name).chmod(0o444)
        self.course.chmod(0o555)

    def seat(self, name: str) -> int | None:
        """Makes a student's own folders; returns the seat's user id, None where it is the hub's own."""
        uid = self.uid(name) if self.separate else None
        for folder in (self.home(name), self.submissions / name):
            if folder.is_symlink():
                raise ValueError(f"{folder}: expected a folder; it is a link")
            folder.mkdir(exist_ok=True)
            if uid is not None:
                os.chown(folder, uid, uid)
            folder.chmod(0o700)
        return uid

    def uid(self, name: str) -> int:
        """The seat's user id, which it keeps for as long as the class lies here.

        Raises:
            ValueError: an account of this machine has it.
        """
        file = self.hub / "users.json"
        known: dict[str, int] = json.loads(file.read_text()) if file.exists() else {}
        if name not in known:
            known[name] = max([self.first_uid - 1, *known.values()]) + 1
            new = file.with_name(file.name + ".new")
            new.write_text(json.dumps(known, indent=1))
            new.replace(file)
        uid = known[name]
        try:
            owner = pwd.getpwuid(uid).pw_name
        except KeyError:
            return uid
        raise ValueError(f"first uid: expected ids that no account has; {uid} is {owner}'s")


def check_reach(paths: Iterable[Path]) -> None:
    """Whether seats with user ids of their own can use these files.

    Raises:
        ValueError: a folder on the way is closed to others; it is named.
    """
    for path in paths:
        for one in reversed([path, *path.parents]):
            mode = one.stat().st_mode
            needed = stat.S_IXOTH if one.is_dir() else stat.S_IROTH
            if not mode & needed:
                raise ValueError(
                    f"{one} is closed to other users (mode {stat.S_IMODE(mode):o}), but seats with users of their own "
                    f"need {path}. Install sglab and make the class in open folders such as /opt and /srv, or use "
                    "--one-user for a demonstration."
                )


def _open_tree(folder: Path) -> None:
    folder.chmod(0o755)

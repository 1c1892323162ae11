"""Who may come in: the people of the roster, with the passwords that were made for them."""

from __future__ import annotations

import csv
import hmac
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from jupyterhub.auth import Authenticator
from traitlets import Integer, Unicode

from .roster import SHORTEST


class RosterAuthenticator(Authenticator):  # type: ignore[misc]  # jupyterhub has no types
    """JupyterHub's own login page over the class's file of passwords.

    The file is read at every login: a new line lets its person in at once, a changed one is a new password. It holds
    passwords as they are, since the instructor hands them out; only the hub's user can read it.
    """

    passwords = Unicode(help="CSV file with the columns name and password.", config=True)
    tries = Integer(10, help="Wrong passwords in a row, after which a name waits.", config=True)
    wait = Integer(60, help="Seconds that it waits.", config=True)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._failed: dict[str, list[float]] = defaultdict(list)

    async def authenticate(self, handler: Any, data: dict[str, str]) -> str | None:
        name = self.normalize_username(data["username"])
        failed = self._failed[name]
        failed[:] = [when for when in failed if time.monotonic() - when < self.wait]
        if len(failed) >= self.tries:
            self.log.warning("%s: %d wrong passwords within %d s; waits", name, len(failed), self.wait)
            return None
        expected = self._passwords().get(name, "")
        if len(expected) >= SHORTEST and hmac.compare_digest(expected.encode(), data["password"].encode()):
            del self._failed[name]
            return str(name)
        failed.append(time.monotonic())
        return None

    def _passwords(self) -> dict[str, str]:
        with open(Path(self.passwords), newline="", encoding="utf-8") as file:
            return {row["name"]: row["password"] for row in csv.DictReader(file)}

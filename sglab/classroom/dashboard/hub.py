"""What the hub and the seats' own servers say: who is in, and what is open."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tornado.httpclient import AsyncHTTPClient, HTTPClientError

from sglab.classroom.dashboard.state import Seat
from sglab.classroom.limits import used_memory
from sglab.classroom.settings import ClassSettings
from sglab.classroom.spawner import running_seats

PATIENCE_SECONDS = 5


class HubReader:
    """Asks the hub with the dashboard's own token.

    Args:
        settings: of the class.
        api: address of the hub's API.
        public: address under which the seats' servers are found from this machine.
        token: the service's.
    """

    def __init__(self, settings: ClassSettings, api: str, public: str, token: str) -> None:
        self._settings, self._api, self._public, self._token = settings, api.rstrip("/"), public.rstrip("/"), token
        self._client = AsyncHTTPClient()

    @classmethod
    def of_service(cls, settings: ClassSettings) -> HubReader:
        """With what the hub put into the service's environment."""
        return cls(
            settings, os.environ["JUPYTERHUB_API_URL"], os.environ["SGLAB_HUB"], os.environ["JUPYTERHUB_API_TOKEN"]
        )

    async def seats(self, names: Iterable[str]) -> dict[str, Seat]:
        """Each student's seat. A server that does not answer is shown as running, with nothing open."""
        users = await self._get(f"{self._api}/users?limit=1000")
        by_name = {user["name"]: user for user in users}
        noted = running_seats(self._settings.place)
        wanted = [by_name.get(name, {"name": name}) for name in names]
        found = await asyncio.gather(*(self._seat(user, noted.get(user["name"], {})) for user in wanted))
        return {user["name"]: seat for user, seat in zip(wanted, found, strict=True)}

    async def _seat(self, user: dict[str, Any], noted: dict[str, Any]) -> Seat:
        server = (user.get("servers") or {}).get("") or {}
        last = _seconds(server.get("last_activity"))
        if not server.get("ready"):
            return Seat(last_activity=last)
        try:
            sessions = await self._get(f"{self._public}/user/{quote(user['name'])}/api/sessions")
        except (HTTPClientError, OSError, ValueError):
            sessions = []
        return Seat(
            running=True,
            last_activity=last,
            documents=tuple(sorted({str(each.get("path", "")) for each in sessions})),
            busy=any((each.get("kernel") or {}).get("execution_state") == "busy" for each in sessions),
            memory=used_memory(tuple(Path(group) for group in noted.get("groups", ()))),
            memory_limit=noted.get("memory"),
        )

    async def _get(self, address: str) -> Any:
        headers = {"Authorization": f"token {self._token}"}
        answer = await self._client.fetch(address, headers=headers, request_timeout=PATIENCE_SECONDS)
        return json.loads(answer.body)


def _seconds(when: str | None) -> float | None:
    return datetime.fromisoformat(when.replace("Z", "+00:00")).timestamp() if when else None

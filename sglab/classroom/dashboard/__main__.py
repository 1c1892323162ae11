"""The service that JupyterHub runs: the page, its data, and who may see them."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jupyterhub.services.auth import HubOAuthCallbackHandler, HubOAuthenticated
from tornado.web import Application, HTTPError, RequestHandler, StaticFileHandler, authenticated

from sglab.classroom.dashboard.hub import HubReader
from sglab.classroom.dashboard.records import ClassRecords
from sglab.classroom.dashboard.state import class_state
from sglab.classroom.settings import VARIABLE, ClassSettings

PAGE = Path(__file__).with_name("page")
FRESH_SECONDS = 2.0
"""Several instructors looking at once ask the hub no more often than this."""


class Watch:
    """The class's state, computed when it is asked for."""

    def __init__(self, settings: ClassSettings) -> None:
        self._names = settings.students
        self._records = ClassRecords(settings.place)
        self._hub = HubReader.of_service(settings)
        self._lock = asyncio.Lock()
        self._state: dict[str, Any] = {}
        self._looked = -FRESH_SECONDS

    async def state(self) -> dict[str, Any]:
        async with self._lock:
            if time.monotonic() - self._looked >= FRESH_SECONDS:
                seats = await self._hub.seats(self._names)
                self._state = class_state({name: self._records.of(name) for name in self._names}, seats, time.time())
                self._looked = time.monotonic()
            return self._state


class _Handler(HubOAuthenticated, RequestHandler):  # type: ignore[misc]  # jupyterhub has no types
    """Lets in whom the hub gives the scope access:services!service=dashboard: the instructors."""

    def set_default_headers(self) -> None:
        self.set_header(
            "Content-Security-Policy",
            "default-src 'none'; script-src 'self'; style-src 'self'; "
            "connect-src 'self'; img-src 'self' data:; base-uri 'none'; frame-ancestors 'self'",
        )
        self.set_header("Cache-Control", "no-store")


class PageHandler(_Handler):
    @authenticated
    def get(self) -> None:
        _ = self.xsrf_token  # sets the cookie that the page's own requests must show
        self.finish((PAGE / "index.html").read_bytes())


class StateHandler(_Handler):
    def initialize(self, watch: Watch) -> None:
        self.watch = watch

    async def get(self) -> None:
        if self.current_user is None:
            raise HTTPError(403)  # not a redirect to the login page: this is asked for by a script
        self.finish(await self.watch.state())


def application(settings: ClassSettings, prefix: str) -> Application:
    """The service's pages below `prefix`, such as /services/dashboard/."""
    return Application(
        [
            (prefix, PageHandler),
            (f"{prefix}api/state", StateHandler, {"watch": Watch(settings)}),
            (f"{prefix}oauth_callback", HubOAuthCallbackHandler),
            (f"{prefix}static/(.*)", StaticFileHandler, {"path": str(PAGE)}),
        ],
        cookie_secret=os.urandom(32),
    )


async def main() -> None:
    address = urlsplit(os.environ["JUPYTERHUB_SERVICE_URL"])
    settings = ClassSettings.read(Path(os.environ[VARIABLE]))
    application(settings, os.environ["JUPYTERHUB_SERVICE_PREFIX"]).listen(address.port or 80, address.hostname or "")
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())

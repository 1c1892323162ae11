"""The service that JupyterHub runs: login, launch and keys for platforms, and a round of scores every few seconds."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tornado.web import Application, RequestHandler

from sglab.classroom.lti.gradebook import SCORE
from sglab.classroom.lti.keys import ToolKey
from sglab.classroom.lti.launch import LIFE_SECONDS, Launches
from sglab.classroom.lti.links import Links
from sglab.classroom.lti.passback import FIRST_WAIT_SECONDS, Passback
from sglab.classroom.lti.platform import LtiError, Tool, read_tool
from sglab.classroom.settings import VARIABLE, ClassSettings

COOKIE = "sglab-lti-"
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>sglab</title>
<style>:root {{ color-scheme: light dark }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 40em; margin: 3em auto; padding: 0 1em }}</style>
<h1>{title}</h1><p>{text}</p>{more}</html>"""


class _Handler(RequestHandler):
    def initialize(self, tool: Tool, launches: Launches, links: Links, key: ToolKey) -> None:
        self.tool, self.launches, self.links, self.key = tool, launches, links, key

    def set_default_headers(self) -> None:
        self.set_header("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'")
        self.set_header("Cache-Control", "no-store")

    def given(self) -> dict[str, str]:
        return {name: self.get_argument(name) for name in self.request.arguments}

    def page(self, title: str, text: str, more: str = "") -> None:
        self.finish(_PAGE.format(title=escape(title), text=escape(text), more=more))

    def write_error(self, status_code: int, **given: Any) -> None:
        error = given.get("exc_info", (None, None))[1]
        if isinstance(error, LtiError):
            self.set_status(error.status)
            logging.getLogger("sglab.lti").warning("%s %s: %s", self.request.method, self.request.path, error)
            self.page("This did not work", str(error))
        else:
            self.page("This did not work", f"{status_code}: {self._reason}")

    def log_exception(self, kind: Any, error: Any, trace: Any) -> None:
        if not isinstance(error, LtiError):  # those are said in one line
            super().log_exception(kind, error, trace)


class LoginHandler(_Handler):
    def get(self) -> None:
        address, state = self.launches.begin(self.given())
        secure = urlsplit(self.tool.address).scheme == "https"
        # The platform's page posts the answer, from another site: only a cookie that says None comes along.
        where: dict[str, Any] = {"secure": True, "samesite": "None"} if secure else {}
        self.set_cookie(COOKIE + state[:16], state, httponly=True, max_age=LIFE_SECONDS, **where)
        self.redirect(address)

    post = get


class LaunchHandler(_Handler):
    async def post(self) -> None:
        given = self.given()
        name = COOKIE + given.get("state", "")[:16]
        launch = await self.launches.finish(given, self.get_cookie(name) if name.isascii() else None)
        self.clear_cookie(name)
        link = self.links.add(launch)
        where = launch.claims.get("https://purl.imsglobal.org/spec/lti/claim/context") or {}
        course = str(where.get("title") or launch.platform.issuer)
        text = f"You are {link.name} of this class. Points of graded labs go to the grade book of {course}."
        if SCORE not in link.scopes:
            text = f"You are {link.name} of this class. {course} takes no points from here: its grade service is off."
        self.page("Welcome", text, '<p><a href="/hub/spawn">Open your seat</a></p>')


class KeysHandler(_Handler):
    def get(self) -> None:
        self.finish(self.key.public_set())


def application(tool: Tool, links: Links, key: ToolKey, prefix: str) -> Application:
    """The service's pages below `prefix`."""
    shared = {"tool": tool, "launches": Launches(tool), "links": links, "key": key}
    pages = {"login": LoginHandler, "launch": LaunchHandler, "keys": KeysHandler}
    return Application([(f"{prefix}{name}", handler, shared) for name, handler in pages.items()])


async def serve(options: argparse.Namespace) -> None:
    logging.basicConfig(level=logging.INFO, format="[lti] %(message)s")
    logging.getLogger("tornado.access").setLevel(logging.ERROR)
    settings = ClassSettings.read(Path(os.environ[VARIABLE]))
    tool, folder = read_tool(Path(settings.lti)), settings.place.hub / "lti"
    folder.mkdir(mode=0o700, exist_ok=True)
    key, links = ToolKey(folder / "key.pem"), Links(folder / "links.json", settings)
    address = urlsplit(os.environ["JUPYTERHUB_SERVICE_URL"])
    listening = application(tool, links, key, os.environ["JUPYTERHUB_SERVICE_PREFIX"])
    listening.listen(address.port or 80, address.hostname or "")
    log = logging.getLogger("sglab.lti")
    passback = Passback(tool, key, links, settings.place.grades, folder, log, options.wait)
    while True:
        try:
            await passback.once()
        except Exception:  # a store that is being made, a full disk: said, and tried again in the next round
            log.exception("a round of scores ended early")
        await asyncio.sleep(options.round)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--round", type=float, default=20, help="seconds between two looks at the grades")
    parser.add_argument("--wait", type=float, default=FIRST_WAIT_SECONDS, help="seconds before a score is tried again")
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()

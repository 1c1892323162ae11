"""A local page with live widgets: HTTP on this machine's own address, and nothing but the standard library.

Only who knows the page's address may ask: it holds a random word. Requests that another site makes a browser send are
refused by their Host and Origin.
"""

from __future__ import annotations

import json
import secrets
import sys
import threading
from collections import deque
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ..base import Widget, asset
from .comm import Message, PageComm
from .page import live_html

POLL_S = 20.0
"""Seconds that a page's question for news waits."""
_HERE = Path(__file__).parent
KEPT = 1024
"""Messages that are kept for pages that have not asked for them yet."""
LARGEST = 1 << 20
"""Bytes of a request; pages send commands."""
JAVASCRIPT, CSS, BYTES = "text/javascript; charset=utf-8", "text/css; charset=utf-8", "application/octet-stream"


class LivePage:
    """A page with widgets, served until it is closed. Also a context manager.

    Args:
        widgets: shown one below the other; they share a selection.
        title: of the page.
        port: on 127.0.0.1; 0 takes a free one.

    Raises:
        OSError: the port is taken.
    """

    def __init__(self, widgets: Sequence[Widget], title: str, port: int = 0) -> None:
        self._word = secrets.token_urlsafe(18)
        self._widgets = list(widgets)
        self._lock = threading.RLock()
        self._news = threading.Condition(self._lock)
        # One stream, so that every page hears things in the order in which they happened: (number, the page that it is
        # for or None, message).
        self._log: deque[tuple[int, str | None, Message]] = deque(maxlen=KEPT)
        self._count = 0
        self._asking: str | None = None
        self.closed = False
        self._title = title
        self._comms = [PageComm(widget, number, self._sent) for number, widget in enumerate(widgets)]
        self._server = _server(self, port)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """Where a browser finds it."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/{self._word}/"

    def close(self) -> None:
        """Ends it; open pages say that they are disconnected."""
        with self._news:
            self.closed = True
            self._news.notify_all()
        self._server.shutdown()
        self._server.server_close()

    def wait(self) -> None:
        """Until the page is closed, by another thread or by Ctrl-C."""
        while self._thread.is_alive():
            self._thread.join(1)

    def __enter__(self) -> LivePage:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What pages ask for

    def file(self, name: str) -> tuple[str, bytes] | None:
        """Type and bytes of what lies below the address; None where there is nothing of this name."""
        if name == "":
            return "text/html; charset=utf-8", live_html(self._title, len(self._widgets)).encode()
        if name == "host.js":
            return JAVASCRIPT, asset("host.js", _HERE).encode()
        number, _, kind = name.partition(".")
        if not number.isdecimal() or int(number) >= len(self._widgets):
            return None
        widget = self._widgets[int(number)]
        if kind == "js":
            return JAVASCRIPT, str(widget._module).encode()
        if kind == "css":
            return CSS, str(widget._css).encode()
        if kind == "state":
            with self._lock:
                return BYTES, self._count.to_bytes(4, "little") + self._comms[int(number)].state()
        return None

    def tell(self, page: str, number: int, data: dict[str, Any]) -> None:
        """Hands a page's message to a widget; what the widget says in answer is news."""
        with self._lock:
            self._asking = page
            try:
                self._comms[number].receive(data)
            finally:
                self._asking = None

    def news(self, page: str, known: int) -> bytes:
        """What was said to this page or to all since the `known` first messages, as soon as there is something."""
        with self._news:
            self._news.wait_for(lambda: self.closed or self._count > known, POLL_S)
            fresh = [message for number, only, message in self._log if number >= known and only in (None, page)]
            return self._count.to_bytes(4, "little") + _joined(fresh)

    def _sent(self, method: str, message: Message) -> None:
        with self._news:
            if method in ("update", "custom"):  # an answer is for who asked, state and Python's own messages for all
                self._log.append((self._count, None if method == "update" else self._asking, message))
                self._count += 1
                self._news.notify_all()

    def allows(self, path: str, host: str, origin: str) -> bool:
        """Whether a request comes from this page."""
        port = self._server.server_address[1]
        hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        known = secrets.compare_digest(path.split("/")[1].encode(), self._word.encode())
        return known and host in hosts and (not origin or origin.removeprefix("http://") in hosts)


def _joined(messages: Sequence[Message]) -> bytes:
    return b"".join(len(message).to_bytes(4, "little") + message for message in messages)


def _server(page: LivePage, port: int) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if (name := self._name()) is None:
                return
            word, _, known = name.partition("?")
            if word == "news":
                mine, _, count = known.partition("&")
                self._give(BYTES, page.news(mine, int(count) if count.isdecimal() else 0))
                return
            found = page.file(word)
            self._give(*found) if found else self.send_error(404)

        def do_POST(self) -> None:
            name, size = self._name(), self.headers.get("Content-Length", "")
            if name is None:
                return
            if not size.isdecimal() or int(size) > LARGEST:
                self.send_error(413)
                return
            try:
                asked = json.loads(self.rfile.read(int(size)))
                page.tell(str(asked["page"]), int(asked["widget"]), asked["data"])
            except (ValueError, KeyError, TypeError, IndexError):
                self.send_error(400)
                return
            self._give(BYTES, b"")

        def _name(self) -> str | None:
            """What is asked for below the address; of a stranger's request None, and it is refused."""
            if page.closed:  # a connection that was kept outlives the server
                self.close_connection = True
                self.send_error(503)
                return None
            if self.path.count("/") < 2 or not page.allows(
                self.path, self.headers.get("Host", ""), self.headers.get("Origin", "")
            ):
                self.send_error(403)
                return None
            return self.path.split("/", 2)[2]

        def _give(self, kind: str, data: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Quiet: requests are no news."""

    return _Server(("127.0.0.1", port), Handler)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A page that was closed while it waited is no error."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

"""Requests to platforms, with a limit of time and errors that name the address."""

from __future__ import annotations

import json
from typing import Any

from tornado.httpclient import AsyncHTTPClient, HTTPRequest, HTTPResponse

from .platform import LtiError

PATIENCE_SECONDS = 20


async def ask(what: str, url: str, body: str | None = None, headers: dict[str, str] | None = None) -> HTTPResponse:
    """GET, or POST where there is a body; redirections are not followed, since headers may hold a token.

    Raises:
        LtiError: no answer, or another than 2xx.
    """
    request = HTTPRequest(
        url,
        "GET" if body is None else "POST",
        headers,
        body,
        connect_timeout=PATIENCE_SECONDS,
        request_timeout=PATIENCE_SECONDS,
        follow_redirects=False,
    )
    try:
        answer = await AsyncHTTPClient().fetch(request, raise_error=False)
    except Exception as error:  # names that do not resolve, certificates, broken answers: each client has its own
        raise LtiError(f"{what}: no answer from {url}: {error or type(error).__name__}", 502) from None
    if not 200 <= answer.code < 300:
        # 599: there was no answer at all
        reason = answer.body[:200].decode(errors="replace") if answer.body else str(answer.error or answer.reason)
        raise LtiError(f"{what}: {url} answered {answer.code}: {reason}", 502)
    return answer


def parsed(what: str, answer: HTTPResponse, kind: type) -> Any:
    """An answer's JSON.

    Raises:
        LtiError: it is none, or not of this kind.
    """
    try:
        content = json.loads(answer.body)
    except ValueError:
        content = None
    if not isinstance(content, kind):
        raise LtiError(
            f"{what}: expected JSON ({kind.__name__}) from {answer.request.url}; got {answer.body[:80]!r}", 502
        )
    return content

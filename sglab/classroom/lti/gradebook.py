"""A platform's grade book: its columns (line items) and scores, by Assignment and Grade Services 2.0."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from urllib.parse import urlencode, urljoin, urlsplit, urlunsplit

from sglab.labs.lab import Lab

from .keys import ToolKey
from .links import Link
from .platform import LtiError, Platform
from .web import ask, parsed

SCOPE = "https://purl.imsglobal.org/spec/lti-ags/scope/"
SCORE, LINEITEM = f"{SCOPE}score", f"{SCOPE}lineitem"
TYPE = "application/vnd.ims.lis."
MOST_PAGES = 100


@dataclass(frozen=True)
class Score:
    """A student's points in a lab.

    Attributes:
        when: seconds since 1970 at which they were given; a platform leaves out what is older than what it has.
    """

    lab: Lab
    points: float
    of: float
    when: float


class GradeBook:
    """What is sent to one platform, with tokens that are kept while they hold."""

    def __init__(self, platform: Platform, key: ToolKey) -> None:
        self._platform, self._key = platform, key
        self._tokens: dict[str, tuple[float, str]] = {}
        self._columns: dict[tuple[str, str], str] = {}

    async def post(self, link: Link, score: Score) -> None:
        """Brings a score into the student's row.

        Raises:
            LtiError: the platform does not allow it, or does not answer.
        """
        if SCORE not in link.scopes:
            raise LtiError(
                f"{link.issuer} gives the tool no scope for scores: switch on Assignment and Grade Services for it "
                f"there, then {link.name} must open the link in the course once more"
            )
        column = link.items.get(score.lab.id) or await self._column(link, score.lab)
        parts = urlsplit(column)
        url = urlunsplit(parts._replace(path=parts.path.rstrip("/") + "/scores"))
        body = {
            "userId": link.user,
            "scoreGiven": score.points,
            "scoreMaximum": score.of,
            "activityProgress": "Completed",
            "gradingProgress": "FullyGraded",
            "timestamp": datetime.fromtimestamp(score.when, timezone.utc).isoformat(timespec="milliseconds"),
        }
        headers = {"Content-Type": f"{TYPE}v1.score+json", "Authorization": await self._bearer(SCORE)}
        await ask("score", url, json.dumps(body), headers)

    async def _column(self, link: Link, lab: Lab) -> str:
        """Address of a lab's column: the one with our tag, made where there is none."""
        if not link.lineitems or LINEITEM not in link.scopes:
            raise LtiError(
                f"{link.issuer} does not let the tool make columns, and no link in the course is lab {lab.id}'s: "
                f"allow it line items, or give a link the custom parameter lab={lab.id}"
            )
        place = link.lineitems, lab.id
        if place not in self._columns:
            self._columns[place] = await self._find(link.lineitems, lab) or await self._make(link.lineitems, lab)
        return self._columns[place]

    async def _find(self, lineitems: str, lab: Lab) -> str | None:
        url = f"{lineitems}{'&' if '?' in lineitems else '?'}{urlencode({'tag': _tag(lab)})}"
        for _ in range(MOST_PAGES):
            headers = {"Accept": f"{TYPE}v2.lineitemcontainer+json", "Authorization": await self._bearer(LINEITEM)}
            answer = await ask("line items", url, headers=headers)
            for row in parsed("line items", answer, list):
                if row.get("tag") == _tag(lab):  # not every platform filters
                    return str(row["id"])
            following = re.search(r'<([^>]*)>\s*;[^,]*\brel="?next"?', ",".join(answer.headers.get_list("Link")))
            if following is None:
                return None
            url = urljoin(url, following.group(1))
        raise LtiError(f"line items: expected at most {MOST_PAGES} pages; {lineitems} has more")

    async def _make(self, lineitems: str, lab: Lab) -> str:
        body = {
            "label": f"Lab {lab.id}: {lab.title}",
            "scoreMaximum": lab.points,
            "tag": _tag(lab),
            "resourceId": _tag(lab),  # optional in AGS 2.0, but Open edX makes no column without it
        }
        kind = f"{TYPE}v2.lineitem+json"
        headers = {"Content-Type": kind, "Accept": kind, "Authorization": await self._bearer(LINEITEM)}
        made = parsed("line item", await ask("line item", lineitems, json.dumps(body), headers), dict)
        if not isinstance(made.get("id"), str):
            raise LtiError(f"line item: expected an id from {lineitems}; got none", 502)
        return str(made["id"])

    async def _bearer(self, scope: str) -> str:
        """A token by OAuth 2's client credentials, the client being known by a signed statement (RFC 7523)."""
        until, token = self._tokens.get(scope, (0.0, ""))
        if time.monotonic() >= until:
            platform = self._platform
            body = {
                "grant_type": "client_credentials",
                "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
                "client_assertion": self._key.assertion(platform.client_id, platform.audience or platform.token),
                "scope": scope,
            }
            headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
            answer = await ask("token", platform.token, urlencode(body), headers)
            given = parsed("token", answer, dict)
            token, life = given.get("access_token"), given.get("expires_in", 3600)
            if not isinstance(token, str) or not isinstance(life, (int, float)):
                raise LtiError(f"token: expected access_token and expires_in from {platform.token}; got neither", 502)
            self._tokens[scope] = time.monotonic() + max(0.0, life - 60), token
        return f"Bearer {token}"

    def forget(self) -> None:
        """Before the next try after an error: a token may have been withdrawn, a column deleted."""
        self._tokens.clear()
        self._columns.clear()


def _tag(lab: Lab) -> str:
    return f"sglab-{lab.id}"

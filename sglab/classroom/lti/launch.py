"""A launch: the platform sends a student's browser here, this tool asks the platform who it is, and checks the answer.

Three steps of OpenID Connect (Security Framework, section 5.1.1): the platform opens `login`, the tool sends the
browser to the platform's authentication endpoint with a state and a nonce, the platform posts a signed `id_token` to
`launch`.
State and nonce are good for one launch and ten minutes.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import jwt

from .keys import ALGORITHM
from .platform import LtiError, Platform, Tool
from .web import ask, parsed

CLAIM = "https://purl.imsglobal.org/spec/lti/claim/"
ENDPOINT = "https://purl.imsglobal.org/spec/lti-ags/claim/endpoint"
LIFE_SECONDS = 600
MOST_PENDING = 10_000
"""Launches begun and not ended that are remembered; the oldest are forgotten first."""
LEEWAY_SECONDS = 60
FRESH_SECONDS = 10
"""A platform's keys are asked for again for an unknown one, but no more often than this."""


@dataclass(frozen=True)
class Launch:
    """Who came from where, with all that the platform signed."""

    platform: Platform
    claims: dict[str, Any]

    @property
    def user(self) -> str:
        return str(self.claims["sub"])

    @property
    def endpoint(self) -> dict[str, Any]:
        """Where the course's grades go; empty where the platform offers no grade service."""
        found = self.claims.get(ENDPOINT)
        return found if isinstance(found, dict) else {}

    @property
    def custom(self) -> dict[str, Any]:
        """What the link's custom parameters say."""
        found = self.claims.get(f"{CLAIM}custom")
        return found if isinstance(found, dict) else {}


@dataclass(frozen=True)
class _Begun:
    platform: Platform
    nonce: str
    when: float


class Launches:
    """Launches that are under way."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self._begun: dict[str, _Begun] = {}
        self._keys: dict[str, tuple[float, jwt.PyJWKSet]] = {}

    def begin(self, given: Mapping[str, str]) -> tuple[str, str]:
        """Answers a platform's login request.

        Args:
            given: its parameters.

        Returns:
            Where to send the browser, and the state, which the browser must show again in a cookie.

        Raises:
            LtiError: an unknown platform, or a parameter is missing.
        """
        for name in ("iss", "login_hint"):
            if not given.get(name):
                raise LtiError(f"{name}: expected one in the platform's login request; got none")
        platform = self._tool.platform(given["iss"], given.get("client_id"))
        state, nonce = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        self._forget()
        self._begun[state] = _Begun(platform, nonce, time.monotonic())
        query = {
            "scope": "openid",
            "response_type": "id_token",
            "response_mode": "form_post",
            "prompt": "none",
            "client_id": platform.client_id,
            "redirect_uri": self._tool.url("launch"),  # never one that the request names
            "login_hint": given["login_hint"],
            "state": state,
            "nonce": nonce,
        }
        if given.get("lti_message_hint"):
            query["lti_message_hint"] = given["lti_message_hint"]
        return f"{platform.login}{'&' if '?' in platform.login else '?'}{urlencode(query)}", state

    async def finish(self, given: Mapping[str, str], cookie: str | None) -> Launch:
        """Checks what the platform posted.

        Args:
            given: its form.
            cookie: the state, as the browser has it.

        Raises:
            LtiError: the platform refused, the state is not this browser's or was used, or the token is not right.
        """
        self._forget()
        state = given.get("state", "")
        begun = self._begun.get(state)
        if begun is None:
            raise LtiError(
                "state: expected one that this service gave out in the last ten minutes and that was not used yet; "
                "open the link in your course again"
            )
        if not cookie or not secrets.compare_digest(cookie.encode(), state.encode()):
            raise LtiError(
                "state: expected the cookie of the browser that began; got another or none. Let the course open the "
                "link in a new window: browsers keep no cookies of tools inside a page"
            )
        del self._begun[state]
        if given.get("error"):
            raise LtiError(f"the platform refused: {given['error']}: {given.get('error_description', '')}"[:300], 403)
        claims = await self._verified(begun.platform, given.get("id_token", ""))
        _check(claims, begun)
        return Launch(begun.platform, claims)

    async def _verified(self, platform: Platform, token: str) -> dict[str, Any]:
        try:
            kid = jwt.get_unverified_header(token).get("kid")
            key = await self._key(platform, kid)
            return jwt.decode(
                token,
                key.key,
                [ALGORITHM],
                audience=platform.client_id,
                issuer=platform.issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": ["iss", "aud", "sub", "exp", "iat", "nonce"]},
            )
        except jwt.PyJWTError as error:
            raise LtiError(f"id_token: {type(error).__name__}: {error}"[:300], 401) from None

    async def _key(self, platform: Platform, kid: Any) -> jwt.PyJWK:
        when, known = self._keys.get(platform.keys, (-FRESH_SECONDS, None))
        for again in (False, True):
            if again and time.monotonic() - when < FRESH_SECONDS:
                break
            if again or known is None:
                answer = parsed("keys", await ask("keys", platform.keys), dict)
                known = jwt.PyJWKSet.from_dict(answer)
                when = time.monotonic()
                self._keys[platform.keys] = when, known
            for key in known.keys:
                if key.key_id == kid and kid:
                    return key
        raise LtiError(f"id_token: expected a key of {platform.keys}; got kid {kid!r:.80}", 401)

    def _forget(self) -> None:
        old = time.monotonic() - LIFE_SECONDS
        for state in [state for state, begun in self._begun.items() if begun.when < old]:
            del self._begun[state]
        while len(self._begun) >= MOST_PENDING:
            del self._begun[next(iter(self._begun))]


def _check(claims: dict[str, Any], begun: _Begun) -> None:
    """What LTI asks of a token beyond its signature, audience and times (Security Framework, section 5.1.3)."""
    platform = begun.platform
    if not secrets.compare_digest(str(claims["nonce"]).encode(), begun.nonce.encode()):
        raise LtiError("nonce: expected the one of this launch; got another", 401)
    audience = claims["aud"]
    if isinstance(audience, list) and len(audience) > 1 and claims.get("azp") != platform.client_id:
        raise LtiError(f"azp: expected {platform.client_id} for several audiences; got {claims.get('azp')!r:.80}", 401)
    for name, expected in (
        ("version", ("1.3.0",)),
        ("message_type", ("LtiResourceLinkRequest",)),
        ("deployment_id", platform.deployments),
    ):
        got = claims.get(f"{CLAIM}{name}")
        if got not in expected:
            raise LtiError(f"{name}: expected {' or '.join(expected)}; got {got!r:.80}", 403)
    if not claims["sub"] or not isinstance(claims["sub"], str):
        raise LtiError(f"sub: expected the user's id; got {claims['sub']!r:.80}")

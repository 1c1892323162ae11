"""A learning-management system as LTI 1.3 has it: logins, signed tokens, OAuth 2 and a grade book, over real HTTP.

It holds a tool to the specifications: what does not fit is refused, and noted in `refused`.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

CLAIM = "https://purl.imsglobal.org/spec/lti/claim/"
AGS = "https://purl.imsglobal.org/spec/lti-ags/"
TYPE = "application/vnd.ims.lis."
ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class LtiPlatform:
    """Runs until `close`. Tests change `claims` (added to each token), `scopes` and `broken` (answers 503)."""

    def __init__(self, tool: str) -> None:
        self.tool, self.client_id, self.kid = tool, "sglab-at-ours", "k1"
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.claims: dict[str, Any] = {}
        self.scopes = [f"{AGS}scope/lineitem", f"{AGS}scope/score"]
        self.columns: dict[str, dict[str, Any]] = {}
        self.scores: list[tuple[str, dict[str, Any]]] = []
        self.refused: list[str] = []
        self.asked: list[str] = []
        self.broken = False
        self.token_life = 3600
        self.tokens: dict[str, list[str]] = {}
        self._seen: set[str] = set()
        handler = type("Handler", (_Handler,), {"platform": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        for number in range(3):  # of others, so that ours is not on the first page
            self.add_column({"label": f"Essay {number}", "scoreMaximum": 10, "tag": f"essay-{number}"})
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def registration(self) -> dict[str, Any]:
        paths = {"login": "/auth", "token": "/token", "keys": "/Keys"}
        return {
            "issuer": self.address,
            "client_id": self.client_id,
            "deployments": ["7"],
            **{name: self.address + path for name, path in paths.items()},
        }

    def initiation(self, user: str) -> str:
        """Where a browser goes when its user opens the link in the course."""
        query = {"iss": self.address, "login_hint": user, "target_link_uri": self.tool, "client_id": self.client_id}
        return f"{self.tool}login?{urlencode({**query, 'lti_message_hint': 'link-1'})}"

    def answer(self, query: dict[str, str]) -> dict[str, str]:
        """The form that the authentication endpoint has the browser post."""
        expected = {
            "scope": "openid",
            "response_type": "id_token",
            "response_mode": "form_post",
            "prompt": "none",
            "client_id": self.client_id,
            "redirect_uri": f"{self.tool}launch",
            "lti_message_hint": "link-1",
        }
        wrong = [name for name, value in expected.items() if query.get(name) != value]
        if wrong or not query.get("nonce") or not query.get("state"):
            raise ValueError(f"authentication request: {wrong}")
        return {"id_token": self.token(query["login_hint"], query["nonce"]), "state": query["state"]}

    def token(self, user: str, nonce: str) -> str:
        now = int(time.time())
        claims = {
            "iss": self.address,
            "aud": self.client_id,
            "sub": f"id-{user}",
            "nonce": nonce,
            "iat": now,
            "exp": now + 300,
            "email": f"{user}@example.edu",
            f"{CLAIM}version": "1.3.0",
            f"{CLAIM}message_type": "LtiResourceLinkRequest",
            f"{CLAIM}deployment_id": "7",
            f"{CLAIM}target_link_uri": self.tool,
            f"{CLAIM}resource_link": {"id": "link-1"},
            f"{CLAIM}roles": ["http://purl.imsglobal.org/vocab/lis/v2/membership#Learner"],
            f"{CLAIM}context": {"id": "c1", "title": "Kernels <101>"},
            f"{AGS}claim/endpoint": {"scope": self.scopes, "lineitems": f"{self.address}/Course/1/items?type=lti"},
            **self.claims,
        }
        return jwt.encode(claims, self.key, "RS256", {"kid": self.kid})

    def add_column(self, row: dict[str, Any]) -> dict[str, Any]:
        column = {**row, "id": f"{self.address}/Course/1/items/{len(self.columns) + 1}?type=lti"}
        self.columns[urlsplit(column["id"]).path] = column
        return column

    def bearer_for(self, form: dict[str, str]) -> dict[str, Any]:
        """OAuth 2 client credentials; the assertion is checked with the keys that the tool publishes."""
        if form.get("grant_type") != "client_credentials" or form.get("client_assertion_type") != ASSERTION:
            raise ValueError("grant_type or client_assertion_type")
        assertion = form["client_assertion"]
        key = jwt.PyJWKClient(f"{self.tool}keys").get_signing_key_from_jwt(assertion)
        options = {"require": ["iss", "sub", "aud", "exp", "iat", "jti"]}
        said = jwt.decode(assertion, key.key, ["RS256"], audience=f"{self.address}/token", options=options)
        if (said["iss"], said["sub"]) != (self.client_id,) * 2 or said["jti"] in self._seen:
            raise ValueError("assertion of somebody else, or seen before")
        self._seen.add(said["jti"])
        scopes = form["scope"].split()
        if not set(scopes) <= set(self.scopes):
            raise ValueError("invalid_scope")
        token = secrets.token_urlsafe()
        self.tokens[token] = scopes
        return {"access_token": token, "token_type": "bearer", "expires_in": self.token_life, "scope": form["scope"]}

    def take(self, path: str, score: dict[str, Any]) -> None:
        column = self.columns[path.removesuffix("/scores")]
        when = datetime.fromisoformat(score["timestamp"])
        if when.tzinfo is None or not score["timestamp"][19] == ".":
            raise ValueError("timestamp: with fractions of a second and a zone (AGS 2.0, 3.4.4)")
        if not 0 <= score["scoreGiven"] <= score["scoreMaximum"] == column["scoreMaximum"]:
            raise ValueError(f"scores of {column}")
        if (score["activityProgress"], score["gradingProgress"]) != ("Completed", "FullyGraded"):
            raise ValueError("progress")
        self.scores.append((column["label"], score))


class _Handler(BaseHTTPRequestHandler):
    platform: LtiPlatform

    def log_message(self, *arguments: object) -> None:
        pass

    def do_GET(self) -> None:
        self._answer(self._got)

    def do_POST(self) -> None:
        self._answer(self._posted)

    def _answer(self, of: Any) -> None:
        parts, platform = urlsplit(self.path), self.platform
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        platform.asked.append(f"{self.command} {parts.path}")
        headers: dict[str, str] = {}
        try:
            code, content = (503, {"error": "maintenance"}) if platform.broken else of(parts.path, query, body, headers)
        except Exception as error:
            platform.refused.append(f"{self.command} {self.path}: {type(error).__name__}: {error}")
            code, content = 400, {"error": str(error)}
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(code)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _got(self, path: str, query: dict[str, str], body: bytes, headers: dict[str, str]) -> tuple[int, Any]:
        platform = self.platform
        if path == "/auth":
            fields = platform.answer(query)
            inputs = "".join(f'<input type="hidden" name="{name}" value="{value}">' for name, value in fields.items())
            headers["Content-Type"] = "text/html"
            form = f'<form method="post" action="{query["redirect_uri"]}">{inputs}</form>'
            return 200, f"{form}<script>document.forms[0].submit()</script>".encode()
        if path == "/Keys":
            public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(platform.key.public_key()))
            return 200, {"keys": [{**public, "kid": platform.kid, "alg": "RS256", "use": "sig"}]}
        assert path == "/Course/1/items", path  # as it is written: paths have capitals
        self._allowed("lineitem", "Accept", f"{TYPE}v2.lineitemcontainer+json")
        rows, page = list(platform.columns.values()), int(query.get("page", 0))
        if 2 * page + 2 < len(rows):  # two a page; `tag` is not heeded, as by some platforms
            following = urlencode({**query, "page": page + 1})
            headers["Link"] = f'<{platform.address}{path}?{following}>; rel="next"'
        return 200, rows[2 * page : 2 * page + 2]

    def _posted(self, path: str, query: dict[str, str], body: bytes, headers: dict[str, str]) -> tuple[int, Any]:
        platform = self.platform
        if path == "/token":
            return 200, platform.bearer_for({name: one[0] for name, one in parse_qs(body.decode()).items()})
        assert query == {"type": "lti"}, query
        if path.endswith("/scores"):
            self._allowed("score", "Content-Type", f"{TYPE}v1.score+json")
            platform.take(path, json.loads(body))
            return 204, b""
        assert path == "/Course/1/items", path
        self._allowed("lineitem", "Content-Type", f"{TYPE}v2.lineitem+json")
        row = json.loads(body)
        assert row["label"] and row["scoreMaximum"] > 0 and row["resourceId"], "Open edX asks for all three"
        return 201, platform.add_column(row)

    def _allowed(self, scope: str, header: str, kind: str) -> None:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        assert f"{AGS}scope/{scope}" in self.platform.tokens.get(token, ()), "401: no token for this"
        assert self.headers.get(header) == kind, f"{header}: {self.headers.get(header)}"

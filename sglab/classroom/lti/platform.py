"""The file that `sglab hub --lti` reads: this hub's public address, and the platforms that may send students to it."""

from __future__ import annotations

import json
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

PREFIX = "/services/lti/"
"""Of the service below the hub's address."""
_LOCAL = ("127.0.0.1", "localhost")


class LtiError(ValueError):
    """A launch or a score that did not go through; the text says what was expected, what came, and what to do.

    Attributes:
        status: of the HTTP answer, where there is one.
    """

    def __init__(self, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True)
class Platform:
    """A learning-management system, as its page of this tool's registration says.

    Attributes:
        issuer: its name in tokens, an address.
        client_id: this tool's name there.
        login: its OpenID Connect authentication endpoint.
        token: its OAuth 2 token endpoint.
        keys: its public keys (JWKS).
        deployments: ids under which courses may use the tool.
        audience: of the tool's own tokens; empty: the token endpoint.
    """

    issuer: str
    client_id: str
    login: str
    token: str
    keys: str
    deployments: tuple[str, ...]
    audience: str = ""


@dataclass(frozen=True)
class Tool:
    """This hub as a tool of platforms."""

    address: str
    platforms: tuple[Platform, ...]

    def url(self, name: str) -> str:
        """Public address of one of the service's pages: login, launch or keys."""
        return f"{self.address}{PREFIX}{name}"

    def platform(self, issuer: str, client_id: str | None = None) -> Platform:
        """The platform that says it is `issuer`.

        Raises:
            LtiError: none is registered under this name, or several are and the client id does not say which.
        """
        found = [
            one for one in self.platforms if one.issuer == issuer and (not client_id or one.client_id == client_id)
        ]
        if len(found) == 1:
            return found[0]
        known = ", ".join(f"{one.issuer} (client {one.client_id})" for one in self.platforms)
        raise LtiError(
            f"iss, client_id: expected one of {known}; got {issuer!r:.200}, {client_id!r:.80}. Register the platform "
            "in the hub's LTI file."
        )


def read_tool(file: Path) -> Tool:
    """Reads `{"address": "https://hub…", "platforms": [{"issuer": …, "client_id": …, …}]}`.

    Raises:
        ValueError: a field is missing, unknown or of another form; it is named.
        OSError: the file cannot be read.
    """
    try:
        content = json.loads(file.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{file}: expected JSON; {error}") from None
    if not isinstance(content, dict) or set(content) != {"address", "platforms"}:
        got = ", ".join(sorted(content)) if isinstance(content, dict) else type(content).__name__
        raise ValueError(f"{file}: expected an object with address and platforms; got {got}")
    address = _address(file, "address", content["address"]).rstrip("/")
    rows = content["platforms"]
    if not isinstance(rows, list) or not rows:
        raise ValueError(f"{file}: platforms: expected a list of at least one platform; got {rows!r:.80}")
    platforms = tuple(_platform(file, number, row) for number, row in enumerate(rows))
    if len({(one.issuer, one.client_id) for one in platforms}) < len(platforms):
        raise ValueError(f"{file}: platforms: an issuer is there twice with the same client_id")
    return Tool(address, platforms)


def _platform(file: Path, number: int, row: Any) -> Platform:
    where = f"platforms[{number}]"
    known = {field.name: field.default is MISSING for field in fields(Platform)}
    if not isinstance(row, dict):
        raise ValueError(f"{file}: {where}: expected an object; got {row!r:.80}")
    missing = {name for name, must in known.items() if must} - set(row)
    if wrong := sorted((set(row) - set(known)) | missing):
        expected = f"{', '.join(known)} (the last if need be)"
        raise ValueError(f"{file}: {where}: expected {expected}; missing or unknown: {', '.join(wrong)}")
    deployments = row["deployments"]
    if not isinstance(deployments, list) or not deployments or not all(isinstance(one, str) for one in deployments):
        raise ValueError(f'{file}: {where}.deployments: expected texts such as ["1"]; got {deployments!r:.80}')
    for name in ("login", "token", "keys"):
        _address(file, f"{where}.{name}", row[name])
    for name in ("issuer", "client_id", "audience"):
        if not isinstance(row.get(name, ""), str) or row.get(name) == "":
            raise ValueError(f"{file}: {where}.{name}: expected a text; got {row.get(name)!r:.80}")
    return Platform(**{**row, "deployments": tuple(deployments)})


def _address(file: Path, name: str, value: Any) -> str:
    parts = urlsplit(value) if isinstance(value, str) else None
    secure = parts is not None and (parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOCAL))
    if not secure or not isinstance(value, str):
        raise ValueError(
            f"{file}: {name}: expected an address with https (http only on this machine); got {value!r:.200}"
        )
    return value

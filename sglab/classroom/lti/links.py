"""Whose account at a platform is whose in the class, and where that student's scores go."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from sglab.classroom.settings import ClassSettings
from sglab.labs.coursework import lab

from .launch import Launch
from .platform import LtiError


@dataclass(frozen=True)
class Link:
    """A student's account at a platform.

    Attributes:
        name: in the roster.
        issuer, client_id: of the platform.
        user: the account's id there.
        scopes: what the platform lets the tool do with grades.
        lineitems: address of the course's columns in the grade book; empty where the tool may not see them.
        items: address of a lab's own column, by the lab's id: of links that have the custom parameter `lab`.
    """

    name: str
    issuer: str
    client_id: str
    user: str
    scopes: tuple[str, ...] = ()
    lineitems: str = ""
    items: dict[str, str] = field(default_factory=dict)


class Links:
    """All links, in a file of the hub's own."""

    def __init__(self, file: Path, settings: ClassSettings) -> None:
        self._file, self._settings = file, settings
        self._links = [_link(row) for row in json.loads(file.read_text())] if file.exists() else []

    def __iter__(self) -> Any:
        return iter(list(self._links))

    def add(self, launch: Launch) -> Link:
        """Keeps where a student's scores go; columns that earlier launches named stay.

        Raises:
            LtiError: the person is not on the roster, or has come under another account.
        """
        name = self._name(launch)
        platform, endpoint = launch.platform, launch.endpoint
        same = [one for one in self._links if (one.issuer, one.client_id) == (platform.issuer, platform.client_id)]
        for one in same:
            if (one.name == name) != (one.user == launch.user):
                raise LtiError(
                    f"{name}: expected the account that came first as {one.name}; got another of {platform.issuer}. "
                    f"If that is right, take {one.name} out of {self._file} and start the hub again.",
                    403,
                )
        before = next((one for one in same if one.name == name), None)
        link = Link(
            name,
            platform.issuer,
            platform.client_id,
            launch.user,
            tuple(map(str, endpoint.get("scope") or ())),
            str(endpoint.get("lineitems") or ""),
            dict(before.items) if before else {},
        )
        if endpoint.get("lineitem") and launch.custom.get("lab"):
            link.items[_lab(launch.custom["lab"])] = str(endpoint["lineitem"])
        if link != before:
            self._links = [one for one in self._links if one is not before] + [link]
            new = self._file.with_name(self._file.name + ".new")
            new.write_text(json.dumps([asdict(one) for one in self._links], indent=1))
            new.replace(self._file)
        return link

    def _name(self, launch: Launch) -> str:
        """By the custom parameter `name`, which the platform fills in, else by the roster's column `email`."""
        settings = self._settings
        named = str(launch.custom.get("name", "")).strip().lower()
        email = str(launch.claims.get("email", "")).strip().lower()
        if named in {*settings.students, *settings.instructors}:
            return named
        for name, address in settings.emails.items():
            if email and address == email:
                return name
        raise LtiError(
            "expected a person on the class's roster: by the custom parameter name (such as name=$User.username) or by "
            f"the roster's column email; got name {named!r:.80} and email {email!r:.80}. Ask your instructor.",
            403,
        )


def _lab(given: Any) -> str:
    try:
        return lab(str(given)).id
    except ValueError as error:
        raise LtiError(f"custom parameter lab: {error}") from None


def _link(row: dict[str, Any]) -> Link:
    return replace(Link(**row), scopes=tuple(row["scopes"]))

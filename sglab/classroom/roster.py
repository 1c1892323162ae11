"""Who is in the class: a CSV file with a name, a role and, where one is wanted, a password."""

from __future__ import annotations

import csv
import os
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

NAME = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,63}")
"""What may be a name: it becomes a folder's, and JupyterHub makes names lower case."""
SHORTEST = 10
"""Characters of a password."""
ROLES = ("student", "instructor")
_WORDS = "bdfghjkmnprstvz", "aeiou"


@dataclass(frozen=True)
class Person:
    """A member of the class.

    Attributes:
        role: student or instructor; instructors see the dashboard and administer the hub.
        password: to begin with; empty where one is to be made.
        email: as the learning-management system knows it; empty where that is not needed.
    """

    name: str
    role: str = "student"
    password: str = ""
    email: str = ""


def read_roster(file: Path) -> list[Person]:
    """The class, in the file's order.

    Args:
        file: CSV whose first line names the columns: `name`, and if wanted `role`, `password` and `email`;
            others are left alone.

    Raises:
        ValueError: a column, a name or a role will not do; the line is named.
        OSError: the file cannot be read.
    """
    with open(file, newline="", encoding="utf-8-sig") as text:
        rows = csv.DictReader(text)
        columns = [str(name).strip().lower() for name in rows.fieldnames or ()]
        if "name" not in columns:
            raise ValueError(
                f"{file}: expected a first line with a column 'name'; got {', '.join(columns) or 'nothing'}"
            )
        rows.fieldnames = columns
        people = [_person(file, rows.line_num, row) for row in rows]
    seen: set[str] = set()
    for one in people:
        if one.name in seen:
            raise ValueError(f"{file}: {one.name} is there twice")
        seen.add(one.name)
    addresses = [one.email for one in people if one.email]
    for address in addresses:
        if addresses.count(address) > 1:
            raise ValueError(f"{file}: email: expected another for each person; {address} is there twice")
    if not people:
        raise ValueError(f"{file}: expected a line per person; there is none")
    return people


def _person(file: Path, line: int, row: dict[str, str]) -> Person:
    name, role, password, email = ((row.get(column) or "").strip() for column in ("name", "role", "password", "email"))
    name, role, email = name.lower(), role.lower() or "student", email.lower()
    if not NAME.fullmatch(name):
        raise ValueError(
            f"{file}, line {line}: name: expected letters, digits and . _ @ + -, at most 64, such as ada.lovelace; "
            f"got {name!r:.80}"
        )
    if password and len(password) < SHORTEST:
        raise ValueError(
            f"{file}, line {line}: password: expected {SHORTEST} characters or more, or none; got {len(password)}"
        )
    if role not in ROLES:
        raise ValueError(f"{file}, line {line}: role: expected {' or '.join(ROLES)}; got {role!r:.40}")
    if email and not re.fullmatch(r"[^@\s]+@[^@\s]+", email):
        raise ValueError(
            f"{file}, line {line}: email: expected one such as ada@example.edu, or none; got {email!r:.80}"
        )
    return Person(name, role, password, email)


def write_passwords(people: Iterable[Person], file: Path) -> dict[str, str]:
    """First passwords by name: the roster's, those that `file` has from before, and new ones for who has none.

    Args:
        file: `name,password`, readable by its owner only; replaced.
    """
    known = {one.name: one.password for one in read_roster(file)} if file.exists() else {}
    passwords = {one.name: one.password or known.get(one.name) or new_password() for one in people}
    new = file.with_name(file.name + ".new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8", newline="") as out:
        csv.writer(out, lineterminator="\n").writerows([("name", "password"), *passwords.items()])
    new.replace(file)
    return passwords


def new_password() -> str:
    """Four groups that can be read aloud, such as `koru-temi-basu-4310`: 50 bits of chance."""
    consonants, vowels = _WORDS
    groups = ["".join(secrets.choice(each) for each in (consonants, vowels) * 2) for _ in range(3)]
    return "-".join([*groups, f"{secrets.randbelow(9000) + 1000}"])

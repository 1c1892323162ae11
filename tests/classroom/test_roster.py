"""Who is in the class: names, roles and passwords, and what a roster is refused for."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

import pytest

from sglab.classroom.command import check_ports
from sglab.classroom.roster import Person, new_password, read_roster, write_passwords


def roster(folder: Path, text: str) -> Path:
    file = folder / "roster.csv"
    file.write_text(text, "utf-8")
    return file


def test_a_roster_with_other_columns_and_a_spreadsheets_mark(tmp_path: Path) -> None:
    file = roster(tmp_path, "\ufeffName,section,Role\n Ada ,A,\nprof@uni.edu,,Instructor\n")
    assert read_roster(file) == [Person("ada"), Person("prof@uni.edu", "instructor")]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "column 'name'"),
        ("student\nada\n", "column 'name'; got student"),
        ("name\n", "a line per person"),
        ("name\n../etc\n", r"line 2: name: expected letters.*'\.\./etc'"),
        ("name\nada\nADA\n", "ada is there twice"),
        ("name,role\nada,boss\n", "role: expected student or instructor; got 'boss'"),
        ("name,password\nada,short\n", "password: expected 10 characters"),
    ],
)
def test_what_is_refused_is_named(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_roster(roster(tmp_path, text))


def test_passwords_stay_and_only_their_owner_reads_them(tmp_path: Path) -> None:
    file = tmp_path / "passwords.csv"
    first = write_passwords([Person("ada"), Person("bob", password="bob-chose-this")], file)
    assert first["bob"] == "bob-chose-this" and len(first["ada"]) >= 10
    assert file.stat().st_mode & 0o077 == 0
    second = write_passwords([Person("ada"), Person("eve")], file)
    assert second["ada"] == first["ada"] and set(second) == {"ada", "eve"}
    assert len({new_password() for _ in range(200)}) == 200


def test_ports_that_others_have_are_named_before_anything_starts() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for first in (port, port - 82):  # another program may have others of the ports
            with pytest.raises(
                ValueError, match=rf"--bind: expected free ports.*; ([\d, ]+, )?{port}[\d, ]* (is|are) in use"
            ):
                check_ports(f"http://127.0.0.1:{first}")


def test_all_ports_that_others_have_are_named() -> None:
    with socket.socket() as first, socket.socket() as above:
        first.bind(("127.0.0.1", 0))
        port = first.getsockname()[1]
        with contextlib.suppress(OSError):  # another program's, then
            above.bind(("127.0.0.1", port + 82))
        first.listen()
        with pytest.raises(ValueError, match=rf"; {port}, ([\d, ]+, )?{port + 82}[\d, ]* are in use"):
            check_ports(f"http://127.0.0.1:{port}")

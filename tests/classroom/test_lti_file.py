"""The file of platforms: what will not do is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sglab.classroom.lti import LtiError, read_tool

ONE = {
    "issuer": "https://moodle.example.edu",
    "client_id": "abc",
    "login": "https://moodle.example.edu/mod/lti/auth.php",
    "token": "https://moodle.example.edu/mod/lti/token.php",
    "keys": "https://moodle.example.edu/mod/lti/certs.php",
    "deployments": ["1"],
}
HUB = "https://hub.example.edu"


def written(path: Path, content: Any) -> Path:
    file = path / "lti.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def test_a_platform_is_found_by_issuer_and_client(tmp_path: Path) -> None:
    rows = [ONE, {**ONE, "client_id": "def", "audience": "https://a"}, {**ONE, "issuer": "https://canvas.example.edu"}]
    tool = read_tool(written(tmp_path, {"address": HUB + "/", "platforms": rows}))
    assert tool.url("launch") == f"{HUB}/services/lti/launch"
    assert tool.platform("https://moodle.example.edu", "def").audience == "https://a"
    assert tool.platform("https://canvas.example.edu").client_id == "abc"
    with pytest.raises(LtiError, match=r"iss, client_id: expected one of https://moodle.example.edu \(client abc\)"):
        tool.platform("https://moodle.example.edu")  # which of the two?
    with pytest.raises(LtiError, match="Register the platform"):
        tool.platform("https://canvas.example.edu", "other")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "expected JSON"),
        ([], "expected an object with address and platforms; got list"),
        ({"address": HUB}, "expected an object with address and platforms; got address"),
        ({"address": "http://hub.example.edu", "platforms": [ONE]}, "address: expected an address with https"),
        ({"address": HUB, "platforms": []}, "platforms: expected a list of at least one"),
        (
            {"address": HUB, "platforms": [{**ONE, "secret": "x"}]},
            r"platforms\[0\]: expected .*missing or unknown: secret",
        ),
        ({"address": HUB, "platforms": [{**ONE, "login": 5}]}, r"platforms\[0\].login: expected an address"),
        ({"address": HUB, "platforms": [{**ONE, "deployments": "1"}]}, r"deployments: expected texts"),
        ({"address": HUB, "platforms": [{**ONE, "client_id": ""}]}, r"client_id: expected a text"),
        ({"address": HUB, "platforms": [ONE, ONE]}, "twice with the same client_id"),
        (
            {"address": HUB, "platforms": [{"issuer": "x"}]},
            "missing or unknown: client_id, deployments, keys, login, token",
        ),
    ],
)
def test_what_will_not_do_is_named(tmp_path: Path, content: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_tool(written(tmp_path, content))

"""LTI 1.3 end to end: the service as the hub runs it, a platform that holds it to the specifications, real HTTP."""

from __future__ import annotations

import http.cookiejar
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

jwt = pytest.importorskip("jwt", reason="needs PyJWT, of the extra hub")
pytest.importorskip("cryptography")
pytest.importorskip("tornado")

from cryptography.hazmat.primitives.asymmetric import rsa

from sglab.classroom.folders import ClassFolder
from sglab.classroom.settings import VARIABLE, ClassSettings
from sglab.labs.coursework import lab
from sglab.labs.store import Record, SqliteStore
from tests.support.classroom.lti_platform import AGS, CLAIM, LtiPlatform

PATIENCE_S = 120
PREFIX = "/services/lti/"


def until(condition: Callable[[], Any]) -> Any:
    end = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.05)
    return found


class Browser:
    """Keeps cookies; follows forms by hand."""

    def __init__(self) -> None:
        jar = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._open = urllib.request.build_opener(jar).open

    def open(self, url: str, form: dict[str, str] | None = None) -> tuple[int, str]:
        data = None if form is None else urlencode(form).encode()
        try:
            with self._open(urllib.request.Request(url, data), timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


class Running:
    """The service with a platform, and a class of three."""

    def __init__(self, path: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"http://127.0.0.1:{free.getsockname()[1]}"
        self.platform = LtiPlatform(self.address + PREFIX)
        self.place = ClassFolder(path / "class", separate=False)
        self.place.hub.mkdir(parents=True)
        file = path / "lti.json"
        file.write_text(json.dumps({"address": self.address, "platforms": [self.platform.registration()]}))
        emails = {"ada": "ada@example.edu", "bob": "bob@example.edu"}
        ClassSettings(str(self.place.path), ["ada", "bob", "eve"], ["grace"], 0, emails=emails, lti=str(file)).write()
        self.start()

    def start(self) -> None:
        env = {"JUPYTERHUB_SERVICE_URL": self.address, "JUPYTERHUB_SERVICE_PREFIX": PREFIX}
        self.log = (self.place.hub / "log").open("ab")
        command = [sys.executable, "-m", "sglab.classroom.lti", "--round", "0.2", "--wait", "0.3"]
        self.process = subprocess.Popen(
            command, env={**os.environ, **env, VARIABLE: str(self.place.path)}, stdout=self.log, stderr=self.log
        )
        until(self._answers)

    def _answers(self) -> bool:
        assert self.process.poll() is None, (self.place.hub / "log").read_text()
        try:
            return Browser().open(f"{self.address}{PREFIX}keys")[0] == 200
        except OSError:
            return False

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.log.close()

    def form(self, user: str, browser: Browser) -> dict[str, str]:
        """The way to the launch, up to the form that the platform's page posts."""
        code, page = browser.open(self.platform.initiation(user))
        assert code == 200, page
        return dict(re.findall(r'name="(\w+)" value="([^"]*)"', page))

    def launch(self, user: str, **claims: Any) -> tuple[int, str]:
        browser = Browser()
        self.platform.claims = claims
        code, page = browser.open(f"{self.address}{PREFIX}launch", self.form(user, browser))
        self.platform.claims = {}
        return code, unescape(page)

    def grade(self, student: str, number: str, points: float) -> None:
        data = {"points": points, "of": lab(number).points}
        SqliteStore(self.place.grades).add(Record(student, number, "grade", time.time(), data))

    @property
    def kept(self) -> int:
        """Scores that the service has noted as taken."""
        file = self.place.hub / "lti" / "posted.jsonl"
        return len(file.read_text().splitlines()) if file.exists() else 0

    @property
    def problems(self) -> dict[str, str]:
        file = self.place.hub / "lti" / "problems.json"
        return dict(json.loads(file.read_text())) if file.exists() else {}


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    one = Running(tmp_path)
    yield one
    one.stop()
    one.platform.close()


def test_scores_of_graded_labs_reach_the_grade_book(running: Running) -> None:
    platform = running.platform
    for user in ("ada", "bob"):
        code, page = running.launch(user)
        assert code == 200 and f"You are {user}" in page and "Kernels <101>" in page, page
    running.grade("ada", "05", 84)
    running.grade("bob", "05", 40)
    running.grade("eve", "05", 99)  # has not come through the course
    until(lambda: len(platform.scores) == 2)
    assert {(label, score["userId"], score["scoreGiven"]) for label, score in platform.scores} == {
        (f"Lab 05: {lab('05').title}", "id-ada", 84),
        (f"Lab 05: {lab('05').title}", "id-bob", 40),
    }
    running.grade("ada", "05", 95)  # graded again
    running.grade("bob", "06", 10)  # another lab: another column
    until(lambda: len(platform.scores) == 4)
    assert platform.scores[-2][1]["scoreGiven"] == 95 or platform.scores[-1][1]["scoreGiven"] == 95
    assert [row["label"] for row in platform.columns.values()].count(f"Lab 05: {lab('05').title}") == 1
    assert platform.asked.count("POST /token") == 2, "a token for scores and one for columns serve them all"
    until(lambda: running.kept == 4)  # a kill between a score's arrival and its note posts it once more
    running.stop()
    running.start()
    running.grade("bob", "06", 20)
    until(lambda: len(platform.scores) == 5)
    assert platform.scores[-1][1]["scoreGiven"] == 20, "after a new start nothing is posted twice"
    assert [row["label"] for row in platform.columns.values()].count(f"Lab 06: {lab('06').title}") == 1
    assert not platform.refused and not running.problems


def test_a_link_with_a_lab_of_its_own_needs_no_columns(running: Running) -> None:
    running.platform.scopes = [f"{AGS}scope/score"]
    column = running.platform.add_column({"label": "our lab", "scoreMaximum": lab("05").points})
    endpoint = {"scope": running.platform.scopes, "lineitem": column["id"]}
    code, page = running.launch("ada", **{f"{AGS}claim/endpoint": endpoint, f"{CLAIM}custom": {"lab": "05"}})
    assert code == 200, page
    running.grade("ada", "05", 50)
    running.grade("ada", "06", 50)
    until(lambda: running.platform.scores)
    assert running.platform.scores[0][0] == "our lab"
    until(lambda: running.problems)
    assert "custom parameter lab=06" in running.problems["ada, lab 06"]


def test_a_platform_that_is_down_gets_the_score_later(running: Running) -> None:
    running.launch("ada")
    running.platform.broken = True
    running.grade("ada", "05", 84)
    until(lambda: running.problems)
    assert running.problems == {
        "ada, lab 05": f'token: {running.platform.address}/token answered 503: {{"error": "maintenance"}}'
    }
    running.platform.broken = False
    until(lambda: running.platform.scores)
    until(lambda: not running.problems)


def test_without_the_grade_service_it_is_said(running: Running) -> None:
    code, page = running.launch("ada", **{f"{AGS}claim/endpoint": None})
    assert code == 200 and "takes no points" in page
    running.grade("ada", "05", 84)
    until(lambda: running.problems)
    assert "switch on Assignment and Grade Services" in running.problems["ada, lab 05"]


def test_the_custom_name_goes_before_the_address(running: Running) -> None:
    code, page = running.launch("x1234", **{f"{CLAIM}custom": {"name": "Eve"}})
    assert code == 200 and "You are eve" in page
    code, page = running.launch("ada", **{f"{CLAIM}custom": {"name": "eve"}})
    assert code == 403 and "expected the account that came first as eve" in page


@pytest.mark.parametrize(
    ("claims", "code", "said"),
    [
        ({"email": "mallory@example.edu"}, 403, "expected a person on the class's roster"),
        ({"nonce": "another"}, 401, "nonce: expected the one of this launch"),
        ({"aud": "somebody-else"}, 401, "InvalidAudienceError"),
        ({"aud": ["sglab-at-ours", "other"], "azp": "other"}, 401, "azp: expected sglab-at-ours"),
        ({"iss": "https://elsewhere.example"}, 401, "InvalidIssuerError"),
        ({"exp": 1_000_000_000}, 401, "ExpiredSignatureError"),
        ({"iat": 4_000_000_000}, 401, "ImmatureSignatureError"),
        ({f"{CLAIM}deployment_id": "8"}, 403, "deployment_id: expected 7; got '8'"),
        ({f"{CLAIM}version": "1.1"}, 403, "version: expected 1.3.0"),
        ({f"{CLAIM}message_type": "LtiDeepLinkingRequest"}, 403, "message_type: expected LtiResourceLinkRequest"),
        (
            {f"{CLAIM}custom": {"lab": "99"}, f"{AGS}claim/endpoint": {"lineitem": "https://x"}},
            400,
            "custom parameter lab",
        ),
        ({"sub": ""}, 400, "sub: expected the user's id"),
    ],
    ids=lambda value: next(iter(value)).rpartition("/")[2] if isinstance(value, dict) else None,
)
def test_a_token_that_is_not_right_is_refused_by_name(
    shared: Running, claims: dict[str, Any], code: int, said: str
) -> None:
    got, page = shared.launch("ada", **claims)
    assert got == code and said in page, page
    links = shared.place.hub / "lti" / "links.json"
    assert not links.exists() or '"ada"' not in links.read_text(), "nobody is linked by it"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    one = Running(tmp_path_factory.mktemp("lti"))
    yield one
    one.stop()
    one.platform.close()


def test_keys_and_signatures(shared: Running) -> None:
    platform, url = shared.platform, f"{shared.address}{PREFIX}launch"
    own = platform.key

    def launch(token: Callable[[str], str]) -> tuple[int, str]:
        browser = Browser()
        form = shared.form("ada", browser)
        nonce = jwt.decode(form["id_token"], options={"verify_signature": False})["nonce"]
        code, page = browser.open(url, {**form, "id_token": token(nonce)})
        return code, unescape(page)

    platform.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    forged = platform.token  # signed with a key that only claims to be k1
    try:
        other = platform.key

        def with_other(nonce: str) -> str:
            platform.key = other
            try:
                return forged("ada", nonce)
            finally:
                platform.key = own

        platform.key = own
        assert launch(with_other)[0] == 401
        code, page = launch(lambda nonce: jwt.encode({"nonce": nonce, "sub": "id-ada"}, "", "none", {"kid": "k1"}))
        assert code == 401 and "id_token: " in page
        public = "not the public key, but a secret of thirty-two bytes or more"
        code, page = launch(lambda nonce: jwt.encode({"nonce": nonce}, public, "HS256", {"kid": "k1"}))
        assert code == 401, page
        code, page = launch(lambda nonce: "nonsense")
        assert code == 401 and "DecodeError" in page
        platform.kid = "k2"  # not seen yet; keys were asked for just now
        code, page = launch(lambda nonce: platform.token("ada", nonce))
        assert code == 401 and "got kid 'k2'" in page
    finally:
        platform.key, platform.kid = own, "k1"
    key = shared.place.hub / "lti" / "key.pem"
    assert key.stat().st_mode & 0o077 == 0
    assert not any("PRIVATE" in page or '"d"' in page for _, page in [Browser().open(f"{shared.address}{PREFIX}keys")])


def test_a_launch_is_good_once_and_in_its_browser(shared: Running) -> None:
    url, browser = f"{shared.address}{PREFIX}launch", Browser()
    form = shared.form("bob", browser)
    code, page = Browser().open(url, form)
    assert code == 400 and "expected the cookie of the browser that began" in page
    assert browser.open(url, form)[0] == 200
    code, page = browser.open(url, form)
    assert code == 400 and "was not used yet" in page
    code, page = browser.open(url, {"state": "made-up", "id_token": form["id_token"]})
    assert code == 400 and "state: expected" in page
    form = shared.form("bob", browser)
    refusal = {"state": form["state"], "error": "login_required", "error_description": "<b>who?</b>"}
    code, page = browser.open(url, refusal)
    assert code == 403 and "login_required" in page and "<b>" not in page


def test_a_login_request_that_is_not_ours_is_refused(shared: Running) -> None:
    login = f"{shared.address}{PREFIX}login?"
    code, page = Browser().open(login + urlencode({"iss": "https://elsewhere.example", "login_hint": "x"}))
    assert code == 400 and "Register the platform" in page
    code, page = Browser().open(login + urlencode({"iss": shared.platform.address}))
    assert code == 400 and "login_hint: expected" in page
    evil = {"iss": shared.platform.address, "login_hint": "ada", "redirect_uri": "https://evil.example"}
    seen = _redirect(login + urlencode({**evil, "target_link_uri": "https://evil.example"}))
    assert seen["redirect_uri"] == [f"{shared.address}{PREFIX}launch"]


def _redirect(url: str) -> dict[str, list[str]]:
    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *arguments: Any) -> None:
            return None

    with pytest.raises(urllib.error.HTTPError) as stopped:
        urllib.request.build_opener(Stay).open(url, timeout=60)
    return parse_qs(urlsplit(stopped.value.headers["Location"]).query)

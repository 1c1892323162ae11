"""What a live page's server says: one stream for each page, in the order in which things happened."""

import json
from collections.abc import Iterator

import pytest

pytest.importorskip("torch")

from sglab.widgets import Layout
from sglab.widgets.live import LivePage


@pytest.fixture
def live() -> Iterator[LivePage]:
    with LivePage([Layout()], "a layout") as page:
        yield page


def heard(live: LivePage, page: str, known: int) -> tuple[int, list[str]]:
    """The count after it, and each message in short."""
    said = live.news(page, known)
    at, kinds = 4, []
    while at < len(said):
        size = int.from_bytes(said[at : at + 4], "little")
        message = said[at + 4 : at + 4 + size]
        data = json.loads(message[4 : 4 + int.from_bytes(message[:4], "little")])["data"]
        content = data.get("content", {})
        kinds.append(str(content.get("id", content.get("kind"))) if data["method"] == "custom" else data["method"])
        at += 4 + size
    return int.from_bytes(said[:4], "little"), kinds


def ask(live: LivePage, page: str, name: str) -> None:
    content = {"kind": "sglab:call", "id": name, "command": "no such command"}
    live.tell(page, 0, {"method": "custom", "content": content})


def test_answers_are_for_who_asked_and_state_is_for_all_in_one_order(live: LivePage) -> None:
    (widget,) = live._widgets
    ask(live, "a", "first")
    widget.revision += 1
    ask(live, "b", "second")
    ask(live, "a", "third")
    assert heard(live, "a", 0) == (4, ["first", "update", "third"])
    assert heard(live, "b", 0) == (4, ["update", "second"])
    assert heard(live, "a", 3) == (4, ["third"])


def test_what_python_says_by_itself_is_heard_by_all(live: LivePage) -> None:
    (widget,) = live._widgets
    widget.send({"kind": "done"})
    assert heard(live, "a", 0) == heard(live, "b", 0) == (1, ["done"])

"""The base class: commands, tensors on the wire, the shared selection."""

from __future__ import annotations

import base64
import gzip

import comm
import numpy as np
import pytest

from sglab.widgets import Widget, command, pictures, selection
from sglab.widgets.wire import WireArray, pack


class Counter(Widget):
    bundle = "counter"
    format = 3
    _module = "export default {}"

    @command
    def add(self, a: int, b: int) -> dict:
        return {"sum": a + b, "values": [np.int32(a), np.arange(b)]}

    def secret(self) -> str:
        return "not a command"


class Sent:
    """Collects what a widget would send to its page."""

    def __init__(self, widget: Widget, monkeypatch: pytest.MonkeyPatch) -> None:
        self.messages: list = []
        monkeypatch.setattr(widget, "send", lambda content, buffers: self.messages.append((content, buffers)))
        self.widget = widget

    def call(self, command: str, **args: object) -> tuple:
        self.widget._receive(self.widget, {"kind": "sglab:call", "id": "7", "command": command, "args": args}, [])
        return self.messages.pop()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    return Sent(Counter(), monkeypatch)


def test_a_command_is_answered_with_its_id_and_binary_tensors(sent: Sent) -> None:
    content, buffers = sent.call("add", a=2, b=3)
    array = {"dtype": "int64", "shape": [3], "buffer": 0}
    assert content == {"kind": "sglab:answer", "id": "7", "value": {"sum": 5, "values": [2, array]}}
    assert np.frombuffer(buffers[0], np.int64).tolist() == [0, 1, 2]


def test_a_page_hears_of_a_widget_when_it_is_complete_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    opened, create = [], comm.create_comm
    monkeypatch.setattr(comm, "create_comm", lambda **args: opened.append(args["data"]["state"]) or create(**args))
    counter = Counter()
    counter.publish({}, header={"title": "Counter"})
    counter.publish({}, header={"title": "Counter, again"})
    mine = [(state["header"], state["revision"]) for state in opened if "header" in state]  # a layout is opened, too
    assert mine == [({"title": "Counter"}, 1)]


@pytest.mark.parametrize("name", ["secret", "save", "no_such", "__init__"])
def test_only_commands_can_be_called(sent: Sent, name: str) -> None:
    content, _ = sent.call(name)
    assert content["error"]["type"] == "ValueError"
    assert (
        f"Counter has no command '{name}'; it has slices, keep_picture, run_again, add" in content["error"]["message"]
    )


def test_wrong_arguments_are_an_answer_too(sent: Sent) -> None:
    content, buffers = sent.call("add", a=2)
    assert content["error"]["type"] == "TypeError"
    assert buffers == []


def test_messages_of_others_are_left_alone(sent: Sent) -> None:
    for content in ({"kind": "anywidget-command"}, "text", None):
        sent.widget._receive(sent.widget, content, [])
    assert sent.messages == []


def test_published_tensors_are_copies_in_one_revision(sent: Sent) -> None:
    values = np.arange(6)
    sent.widget.publish({"values": values}, header={"title": "t"})
    values[:] = 0
    (rows,) = sent.widget.slices([{"name": "values", "start": 2, "stop": 99}])
    assert rows.array.tolist() == [2, 3, 4, 5]
    assert sent.widget.revision == 1


def test_an_unknown_tensor_names_those_there_are(sent: Sent) -> None:
    sent.widget.publish({"lens": [1], "pages": [2]})
    content, _ = sent.call("slices", slices=[{"name": "kv", "start": 0, "stop": 1}])
    assert content["error"]["message"] == "Counter has no tensor 'kv'; it has lens, pages"


def test_saved_holds_own_traits_and_gzipped_tensors() -> None:
    widget = Counter()
    widget.publish({"values": np.arange(4, dtype=np.int16)}, header={"title": "t"})
    saved = widget.saved()
    assert saved["version"] == 3
    assert saved["state"].keys() == {
        "version",
        "scope",
        "revision",
        "header",
        "launch_name",
        "picture_place",
        "outdated",
    }
    assert gzip.decompress(base64.b64decode(saved["tensors"]["values"]["data"])) == np.arange(4, dtype="<i2").tobytes()


@pytest.mark.parametrize("order", ["C", "F"])
def test_any_layout_crosses_row_major(order: str) -> None:
    array = np.asarray(np.random.default_rng(0).standard_normal((3, 5)), order=order)
    assert np.frombuffer(WireArray(array).tobytes()).tolist() == array.ravel(order="C").tolist()


def test_torch_tensors_cross_with_their_own_dtype() -> None:
    torch = pytest.importorskip("torch")
    buffers: list[bytes] = []
    wire = pack({"kv": torch.tensor([[1.0, -2.5]], dtype=torch.bfloat16)}, buffers)
    assert wire == {"kv": {"dtype": "bfloat16", "shape": [1, 2], "buffer": 0}}
    assert np.frombuffer(buffers[0], np.uint16).tolist() == [0x3F80, 0xC020]


def test_a_dtype_no_page_reads_is_refused() -> None:
    with pytest.raises(TypeError, match=r"one of the dtypes.*got complex128"):
        WireArray(np.zeros(2, complex))


def test_selection_reaches_all_widgets_and_comes_back_from_one() -> None:
    first, second = Counter(), Counter()
    selection.set(request=2)
    assert first.selected["request"] == second.selected["request"] == 2
    heard: list = []
    selection.observe(lambda change: heard.append(change["new"]), "value")
    first.selected = {"page": 4, "by": "page"}
    assert selection.value == {"page": 4}
    assert heard == [{"page": 4}]
    selection.clear()
    assert selection.value == {}


@pytest.mark.parametrize(("facets", "error"), [({"colour": 1}, ValueError), ({"request": "r1"}, TypeError)])
def test_a_bad_selection_is_refused(facets: dict, error: type[Exception]) -> None:
    with pytest.raises(error):
        selection.set(**facets)


@pytest.mark.parametrize("dark", [False, True])
def test_a_kept_picture_follows_the_readers_theme_and_prints_light(monkeypatch: pytest.MonkeyPatch, dark: bool) -> None:
    told: list[str] = []
    monkeypatch.setattr("IPython.display.publish_display_data", lambda data, **_: told.append(data["text/html"]))
    pictures.keep("sglab-1", "data:image/png;base64,AAAA", "words", dark)
    style = told[0].partition("</style>")[0]
    other = "true" if dark else "false"  # JupyterLab's attribute where the theme is not the picture's
    assert f'body[data-jp-theme-light="{other}"] .sglab-1 img {{ filter: invert(' in style
    assert ("@media print { .sglab-1 img { filter" in style) == dark

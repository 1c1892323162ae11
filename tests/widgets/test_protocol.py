"""Every widget class says the same as its TypeScript protocol: traits, commands and tensors, by name and kind."""

from __future__ import annotations

import inspect
import json
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import anywidget
import pytest
import traitlets

from sglab import widgets
from sglab.widgets import Widget
from sglab.widgets.wire import WireArray
from tests.support.browser.every_widget import MAKERS

DECLARED: dict[str, Any] = json.loads((Path(__file__).parents[2] / "widgets" / "protocol.json").read_text())
"""Bundle -> what its protocol.ts declares, as `npm run build` writes it."""
CLASSES = {
    each.bundle: each
    for each in vars(widgets).values()
    if isinstance(each, type) and issubclass(each, Widget) and hasattr(each, "bundle")
}
TRAIT_KINDS = {
    traitlets.Int: "int",
    traitlets.Float: "float",
    traitlets.Bool: "bool",
    traitlets.Unicode: "text",
    traitlets.Dict: "dict",
    traitlets.List: "list",
}
KINDS = {int: "int", float: "float", bool: "bool", str: "text", dict: "dict", list: "list", type(None): "none"}
JUPYTERS_OWN = set(anywidget.AnyWidget.class_traits(sync=True)) | {"_esm", "_css", "_anywidget_id", "module"}
OF_SAVED_PAGES = {
    "kernel_debugger": {"moments", "values.bytes", "values.start", "sets.bytes", "sets.start"},
}
"""Tensors that only `saved` makes."""


def kind_of(annotation: Any) -> str:
    """Of what crosses as this annotation says; None beside another kind leaves the kind."""
    origin = get_origin(annotation) or annotation
    if origin is Literal:
        return kind_of(type(get_args(annotation)[0]))
    if origin in (Union, types.UnionType):
        return next(kind_of(each) for each in get_args(annotation) if each is not type(None))
    if origin in (Sequence, typing.Sequence):
        return "list"
    return KINDS[dict if origin is Mapping else origin]


def commands(bundle: str) -> Mapping[str, Callable[..., Any]]:
    return CLASSES[bundle]._commands


def pattern_of(name: str) -> re.Pattern[str]:
    """Of the names of tensors that a declared name covers: "{kernel}.moments"."""
    return re.compile(
        "".join(r"[^.]+" if part[0] == "{" else re.escape(part) for part in re.split(r"(\{\w+\})", name) if part)
    )


def test_every_widget_has_a_protocol() -> None:
    assert set(DECLARED) == set(CLASSES)


@pytest.mark.parametrize("bundle", sorted(DECLARED))
def test_both_sides_count_the_same_format(bundle: str) -> None:
    assert CLASSES[bundle].format == DECLARED[bundle]["version"]


@pytest.mark.parametrize("bundle", sorted(DECLARED))
def test_traits(bundle: str) -> None:
    traits = CLASSES[bundle].class_traits(sync=True)
    kinds = {name: TRAIT_KINDS[type(trait)] for name, trait in traits.items() if name not in JUPYTERS_OWN}
    assert kinds == DECLARED[bundle]["traits"]


@pytest.mark.parametrize("bundle", sorted(DECLARED))
def test_commands_and_their_answers(bundle: str) -> None:
    answers = {name: kind_of(get_type_hints(method)["return"]) for name, method in commands(bundle).items()}
    assert answers == {name: each["answer"] for name, each in DECLARED[bundle]["commands"].items()}


@pytest.mark.parametrize(
    ("bundle", "name"), [(bundle, name) for bundle in sorted(DECLARED) for name in DECLARED[bundle]["commands"]]
)
def test_requests(bundle: str, name: str) -> None:
    method = commands(bundle)[name]
    hints, declared = get_type_hints(method), DECLARED[bundle]["commands"][name]["request"]
    parameters = [each for each in inspect.signature(method).parameters.values() if each.name != "self"]
    named = [each for each in parameters if each.kind is not each.VAR_KEYWORD]
    taken = {each.name: kind_of(hints[each.name]) + "?" * (each.default is not each.empty) for each in named}
    assert {key: kind for key, kind in declared.items() if key in taken} == taken
    if len(named) < len(parameters):  # **options: what they are depends on the request, so none is needed
        assert all(kind.endswith("?") for key, kind in declared.items() if key not in taken)
    else:
        assert set(declared) == set(taken)


@pytest.mark.parametrize("made", sorted(MAKERS))
def test_tensors(made: str) -> None:
    """Each is declared, with its dtype and shape; each declared one is there."""
    widget = MAKERS[made]()
    declared = DECLARED[widget.bundle]["tensors"]
    met = set()
    for name, tensor in widget._tensors.items():
        names = [each for each in declared if pattern_of(each).fullmatch(name)]
        assert names, f"{name} is not declared"
        met |= set(names)
        for each in names:
            check_tensor(name, tensor, declared[each])
    assert set(declared) - met == OF_SAVED_PAGES.get(widget.bundle, set())


def check_tensor(name: str, tensor: WireArray, declared: Mapping[str, Any]) -> None:
    assert declared["dtype"] in (None, tensor.dtype), name
    if declared["shape"] is not None:
        assert len(tensor.shape) == len(declared["shape"]), name
        extents = zip(tensor.shape, declared["shape"], strict=True)
        assert all(extent == wanted for extent, wanted in extents if isinstance(wanted, int)), name


def test_saved_pages_hold_what_is_declared_of_them() -> None:
    page = MAKERS["KernelDebugger"]().saved()
    declared = DECLARED["kernel_debugger"]["tensors"]
    for name in OF_SAVED_PAGES["kernel_debugger"]:
        saved = page["tensors"][name]
        assert (saved["dtype"], len(saved["shape"])) == (declared[name]["dtype"], len(declared[name]["shape"]))


def test_an_answer_names_no_other_kind() -> None:
    assert [kind_of(each) for each in (Sequence[int], int | None, Literal["a", "b"], dict[str, Any])] == [
        "list",
        "int",
        "text",
        "dict",
    ]

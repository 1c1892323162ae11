"""explore: every registered backend's answer to one pass, beside SGLang's choice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sglab.attention.explore.answer import Answer, Pass, answer
from sglab.attention.explore.machines import sm_count
from sglab.attention.registry import ATTENTION_BACKENDS, backend_classes
from sglab.attention.selection import (
    VERSIONS,
    BackendSelection,
    Hardware,
    Model,
    SelectionError,
    Settings,
    select_attention_backend,
)
from sglab.engine.model_runner import Kind


@dataclass(frozen=True)
class Exploration:
    """`choices`: version -> SGLang's choice, or its refusal to start. `answers`: in the registry's order."""

    hardware: Hardware
    model: Model
    version: str
    choices: dict[str, BackendSelection | str]
    answers: tuple[Answer, ...]

    def __getitem__(self, name: str) -> Answer:
        return next(each for each in self.answers if each.name == name)

    def chosen(self, prefill: bool) -> str:
        """The backend that SGLang of this version takes for a pass; "" where it would not start."""
        choice = self.choices[self.version]
        return "" if isinstance(choice, str) else choice.prefill if prefill else choice.decode


def explore(
    pass_of: Callable[[int], Pass],
    hardware: Hardware,
    model: Model,
    settings: Settings | None = None,
    *,
    version: str = "0.5.23",
    names: Sequence[str] | None = None,
) -> Exploration:
    """Ask every backend.

    Args:
        pass_of: page size -> the same pass in pages of this size; called once per size.
        settings: server arguments. Their page_size is that of every backend; None: each gets the one with which SGLang
            would run it, or, where that is not known, the largest that it takes.
        version: SGLang's, whose names and rules decide.
        names: backends to ask; None: all that are registered.

    Raises:
        KeyError: an unknown version or name.
    """
    asked = settings or Settings()
    choices = {each: _selected(hardware, model, asked, each) for each in VERSIONS}
    if version not in choices:
        raise KeyError(f"SGLang version {version!r}; known are {', '.join(VERSIONS)}")
    kind: Kind = "mla" if model.use_mla else "mha"
    passes: dict[int, Pass] = {}
    answers = []
    for name in ATTENTION_BACKENDS if names is None else names:
        named = _selected(hardware, model, replace(asked, attention_backend=name), version)
        page = asked.page_size or _page(name, kind, named)
        if page not in passes:
            passes[page] = _on(pass_of(page), hardware)
        answers.append(answer(name, passes[page], hardware, version, named))
    return Exploration(hardware, model, version, choices, tuple(answers))


def _selected(hardware: Hardware, model: Model, settings: Settings, version: str) -> BackendSelection | str:
    try:
        return select_attention_backend(hardware, model, settings, version)
    except SelectionError as refused:
        return f"{str(refused).rstrip('.')}."


def _page(name: str, kind: Kind, named: BackendSelection | str) -> int:
    """SGLang's page size for a backend, where it takes it; else the largest that it takes, or 1."""
    classes = backend_classes(name)
    takes = getattr(classes.get(kind) or next(iter(classes.values())), "capabilities", None)
    sizes = takes.page_sizes if takes is not None else ()
    if (
        not isinstance(named, str)
        and name in (named.prefill, named.decode)
        and named.page_size in (sizes or (named.page_size,))
    ):
        return named.page_size
    return sizes[-1] if sizes else 1


def _on(asked: Pass, hardware: Hardware) -> Pass:
    """The pass with the machine's SMs to plan for."""
    count = sm_count(hardware)
    return asked if count is None else replace(asked, runner=replace(asked.runner, device_core_count=count))

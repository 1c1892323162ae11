"""What is exchanged between ranks, collective by collective, while it is being recorded; otherwise nothing is done.

A collective is noted where it is called: its kind, the layer that called it, bytes, and when it began and ended here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import distributed, nn

from sglab.engine.errors import BadArgumentError


@dataclass(frozen=True)
class Collective:
    """One collective as one rank ran it.

    Attributes:
        step: pass of the recording; -1: outside any.
        kind: "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send" or "recv".
        what: what for, where a layer says it, such as "gather SUM_LEN"; empty: the layer's own sum or parts.
        module: the innermost module that was running, and its class; empty: none.
        ranks: global ranks that take part, in their order.
        shape, dtype: of this rank's tensor.
        nbytes: of it.
        parts: all_to_all: bytes to each of `ranks`; else empty.
        start, end: ns of the machine's monotonic clock, which processes share.
    """

    step: int
    kind: str
    what: str
    module: str
    module_class: str
    ranks: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    parts: tuple[int, ...]
    start: int
    end: int


@dataclass(frozen=True)
class PassStart:
    """A pass of the model as all ranks run it.

    Attributes:
        mode: ForwardMode's name of this rank's group.
        num_tokens: of each group that attends apart.
        padding: DpPaddingMode's name where groups attend apart; empty: one group.
        rows: of the gathered tensor; 0: one group.
    """

    mode: str
    num_tokens: tuple[int, ...]
    padding: str
    rows: int
    start: int
    tokens: tuple[tuple[int, ...], ...] = ()
    """Of an extend without cached prefixes each request's tokens, in this rank's group."""


@dataclass
class CollectiveLog:
    """What this process has noted."""

    rank: int
    collectives: list[Collective] = field(default_factory=list)
    passes: list[PassStart] = field(default_factory=list)


_log: CollectiveLog | None = None
_hooks: list[Any] = []
_local = threading.local()  # two passes may run in turns, in threads of their own
_NOTHING: AbstractContextManager[None] = nullcontext()


def start(model: nn.Module, rank: int) -> CollectiveLog:
    """Note every collective of this process from now on.

    Args:
        model: whose modules are named.

    Raises:
        BadArgumentError: they are noted already.
    """
    global _log
    if _log is not None:
        raise BadArgumentError("model", "no recording under way", "one in this process", "End the other one.")
    for name, module in model.named_modules():
        if name:
            _hooks.append(module.register_forward_pre_hook(_enters(name)))
            _hooks.append(module.register_forward_hook(_leaves, always_call=True))
    _log = CollectiveLog(rank)
    return _log


def stop() -> CollectiveLog:
    """End the recording. Returns what was noted."""
    global _log
    assert _log is not None
    for hook in _hooks:
        hook.remove()
    _hooks.clear()
    done, _log = _log, None
    return done


def begin_pass(make: Any) -> None:
    """A pass begins; `make()` describes it, and is called only while it is recorded."""
    if _log is not None:
        _log.passes.append(make())


def noted(
    kind: str,
    x: torch.Tensor,
    group: Any = None,
    parts: Sequence[int] = (),
    what: str = "",
    ranks: Sequence[int] | None = None,
) -> AbstractContextManager[None]:
    """Around a collective on `x`.

    Args:
        group: the process group; None: the default one. ranks: who takes part, where it is no group's collective.
        parts: all_to_all: rows of x for each rank.
        what: what it is for; empty: as `meant` says.
    """
    return _NOTHING if _log is None else _noted(_log, kind, x, group, parts, what, ranks)


@contextmanager
def meant(what: str) -> Iterator[None]:
    """Says what the collectives inside are for."""
    before = getattr(_local, "what", "")
    _local.what = what
    try:
        yield
    finally:
        _local.what = before


@contextmanager
def _noted(
    log: CollectiveLog,
    kind: str,
    x: torch.Tensor,
    group: Any,
    parts: Sequence[int],
    what: str,
    ranks: Sequence[int] | None,
) -> Iterator[None]:
    members = tuple(distributed.get_process_group_ranks(group)) if ranks is None else tuple(ranks)
    row = x.element_size() * (x.numel() // max(1, len(x)))
    name, kind_of = (getattr(_local, "stack", None) or [("", "")])[-1]
    shape, dtype = tuple(x.shape), str(x.dtype).removeprefix("torch.")
    nbytes, sizes = x.numel() * x.element_size(), tuple(row * part for part in parts)
    step, meaning = len(log.passes) - 1, what or getattr(_local, "what", "")
    _settle(x)
    begun = time.monotonic_ns()
    yield
    _settle(x)
    ended = time.monotonic_ns()
    log.collectives.append(
        Collective(step, kind, meaning, name, kind_of, members, shape, dtype, nbytes, sizes, begun, ended)
    )


def _settle(x: torch.Tensor) -> None:
    """Times of a GPU's collectives are those of its stream."""
    if x.is_cuda:
        torch.cuda.synchronize(x.device)


def _enters(name: str) -> Any:
    def hook(module: nn.Module, args: Any) -> None:
        if not hasattr(_local, "stack"):
            _local.stack = []
        _local.stack.append((name, type(module).__name__))

    return hook


def _leaves(module: nn.Module, args: Any, output: Any) -> None:
    if getattr(_local, "stack", None):
        _local.stack.pop()

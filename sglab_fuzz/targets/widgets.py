"""Widgets, Python's side without a browser: commands with hostile arguments, and recordings saved in between."""

from __future__ import annotations

import json
import random
from functools import cache
from typing import Any

import torch

import sglab
import sglab.workbench
from sglab import gpu, widgets
from sglab_fuzz.target import Finding

NUMBERS = [0, 1, -1, 2, 7, 63, 1000, 10**6, 2**31, 2**53, 2**63, 2**64, 10**30, -(2**63), 0.5, -1.5, 1e300]
WORDS = [
    "",
    "x",
    "r1",
    "%r1",
    "tid.x",
    "__import__('os')",
    "1/0",
    "9**9**9",
    "../../etc/passwd",
    "<script>",
    "\ud800",
    "é" * 50,
]
WORDS += [
    "step",
    "back",
    "run",
    "allocate",
    "free",
    "extend",
    "share",
    "seek",
    "start",
    "end",
    "add",
    "remove",
    "line",
    "mnemonic",
]
PTX = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 x)
{ .reg .b64 %d<3>; .reg .b32 %r<5>; .reg .pred %p; .shared .align 16 .b8 sm[256];
ld.param.u64 %d0, [x];
mov.u32 %r0, %tid.x;
mov.u32 %r2, 0;
L: mad.wide.u32 %d1, %r0, 4, %d0;
ld.global.u32 %r1, [%d1];
st.shared.u32 [sm], %r1;
bar.sync 0;
add.u32 %r2, %r2, 1;
setp.lt.u32 %p, %r2, 3;
@%p bra L;
st.global.u32 [%d1], %r1;
ret; }
"""


@cache
def _launch() -> Any:
    x = torch.zeros(64, dtype=torch.int32)
    return gpu.Module(PTX)["k"], gpu.EmulatedDevice("sm_90a", sms=2), x


@cache
def _speculation() -> Any:
    engine = sglab.Engine("tiny", speculative_algorithm="NGRAM", max_total_tokens=256)
    with engine, sglab.workbench.record_speculation(engine) as run:
        engine.generate(["aaaa", "ab"], {"temperature": 0, "max_new_tokens": 6})
    return run


@cache
def _ranks() -> Any:
    return sglab.workbench.record_exchange(ranks=2, experts=4, tokens=4, hidden=8)


@cache
def _routing() -> Any:
    engine = sglab.Engine("tiny", max_total_tokens=256)
    with engine, sglab.workbench.record_experts(engine) as run:
        engine.generate(["ab"], {"temperature": 0, "max_new_tokens": 2})
    return run


def build(kind: str) -> Any:
    """A widget of this kind over something small."""
    shape = {"kind": "mha", "num_heads": 2, "num_kv_heads": 1, "head_dim": 8, "dtype": "float32", "page_size": 4}
    if kind == "PageTable":
        return widgets.PageTable(sglab.decode_batch([9, 5], pool_tokens=256, max_context_len=64, **shape))
    if kind == "SplitKV":
        return widgets.SplitKV(seq_lens=[300, 5000], num_heads=128, sm_count=16)
    if kind == "OnlineSoftmax":
        return widgets.OnlineSoftmax(sglab.decode_batch([40], max_context_len=64, **shape))
    if kind == "DraftTree":
        return widgets.DraftTree(_speculation())
    if kind == "BackendExplorer":
        return widgets.BackendExplorer([9, 5], page_size=4)
    if kind == "Ranks":
        return widgets.Ranks(_ranks())
    if kind == "Experts":
        return widgets.Experts(_routing())
    kernel, device, x = _launch()
    if kind == "KernelDebugger":
        return widgets.KernelDebugger(kernel.session(device, grid=2, block=32, args=[x]))
    if kind == "SharedMemory":
        return widgets.SharedMemory(kernel.session(device, grid=2, block=32, args=[x]))
    log = kernel.record(device, grid=2, block=32, args=[x])
    return getattr(widgets, kind)(log)


KINDS = (
    "PageTable",
    "SplitKV",
    "OnlineSoftmax",
    "KernelDebugger",
    "SharedMemory",
    "WarpRoles",
    "Barriers",
    "DraftTree",
    "BackendExplorer",
    "Experts",
    "Ranks",
)


def _payload(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.randrange(7 if depth < 2 else 4)
    if kind == 0:
        return rng.choice(NUMBERS)
    if kind == 1:
        return rng.choice(WORDS)
    if kind == 2:
        return rng.choice([None, True, False])
    if kind == 3:
        return rng.randrange(-3, 40)
    if kind == 4:
        return [_payload(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice([*WORDS, *NAMES]): _payload(rng, depth + 1) for _ in range(rng.randrange(4))}


NAMES = [
    "action",
    "look",
    "request",
    "tokens",
    "position",
    "cluster",
    "cta",
    "warp",
    "expression",
    "edit",
    "slices",
    "name",
]
NAMES += [
    "start",
    "stop",
    "seconds",
    "moment",
    "wanted",
    "kernel",
    "seq_lens",
    "num_heads",
    "page_size",
    "line",
    "lane",
    "group",
]


class Widgets:
    """A case's first line is a widget's kind; each further line is a message of the page, as JSON."""

    name = "widgets"
    unit = "messages"

    def make(self, rng: random.Random, number: int) -> str:
        kind = rng.choice(KINDS)
        lines = [kind]
        for _ in range(24):
            lines.append(json.dumps(self._message(rng, kind)))
        return "".join(f"{line}\n" for line in lines)

    def _message(self, rng: random.Random, kind: str) -> Any:
        if rng.random() < 0.05:
            return _payload(rng)
        commands = list(getattr(widgets, kind)._commands)
        command = rng.choice(commands) if rng.random() < 0.95 else rng.choice(WORDS)
        function = getattr(widgets, kind)._commands.get(command)
        arguments: Any = {}
        if function is not None:
            code = function.__code__
            for name in code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]:
                if rng.random() < 0.9:
                    arguments[name] = rng.choice([_payload(rng), rng.choice(NUMBERS), rng.choice(WORDS), {}])
        if rng.random() < 0.1:
            arguments = _payload(rng)
        return {"kind": "sglab:call", "id": rng.choice([1, "x", None]), "command": command, "args": arguments}

    def run(self, text: str) -> int:
        lines = text.splitlines()
        widget = build(lines[0])
        answers: list[Any] = []
        widget.send = lambda answer, buffers=None: answers.append(answer)
        for line in lines[1:]:
            message = json.loads(line)
            before = len(answers)
            widget._receive(widget, message, [])
            asked = isinstance(message, dict) and message.get("kind") == "sglab:call"
            if asked and len(answers) == before:
                raise Finding(f"{lines[0]}: no answer to a command")
        json.dumps(widget.saved(), default=str)
        widget.close()
        return len(lines) - 1


def target(device: str) -> Widgets:
    torch.set_num_threads(1)
    return Widgets()

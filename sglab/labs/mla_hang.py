"""A hang that went to production, in our SM100 MLA decode: notebook 08 reproduces it, reads it, and fixes it.

CUTLASS's SM100 MLA kernel lets the load warps wait, unit by unit, until the compute warps are done with Q, so that the
next one cannot overwrite it: at a named barrier the load warps arrive and wait, the compute warps only arrive. That
is sound as long as something else keeps the compute warps from running ahead; tokens do, for they have to be loaded. A
unit without tokens has nothing to wait for, and there the compute warps arrived and went on, too: twice in one phase of
the barrier, so that it ended without the load warps, which then waited forever (vLLM #26026; CUTLASS 4.3 has the
remedy, which is to wait in such units).

Our kernel needs no such barrier: its load warp waits for an mbarrier that the last product of a unit signals, and units
without tokens touch nothing. So the barrier is put into its PTX here, with CUTLASS's fault or without.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal

import torch

from sglab.compilers.source import SourceFinder
from sglab.emulator import EmulatedDevice
from sglab.emulator.session import Session
from sglab.gpu import KernelError, Launch, Module
from sglab.kernels import ptx
from sglab.kernels.mla import MlaSm100
from sglab.kernels.mla.sm100_contract import OPERATOR, check
from sglab.planning.mla_dims import LATENT_DIM, NUM_HEADS, ROPE_DIM

from .question import Question

ENTRY = "mla_decode_sm100_f16"
PAGE_SIZE = 128
SM_SCALE = 192**-0.5
BARRIER, THREADS = 2, 160
"""The named barrier's number, and its warps: four softmax warps, which arrive, and the load warp, which waits."""

EmptyUnit = Literal["bar.arrive", "bar.sync", "nothing"]
CHOICES: tuple[EmptyUnit, ...] = ("bar.arrive", "bar.sync", "nothing")
SCHEDULERS = ("fair", "random", "adversarial", "in_order")


def guarded_ptx(empty_unit: EmptyUnit) -> str:
    """The PTX of our SM100 MLA decode with CUTLASS's barrier around Q.

    Three insertions, at the lines of the source that they belong to: the load warp waits at the head of each unit
    (`if (tiles == 0) continue;`), the softmax warps come to the barrier at the head of theirs (`for (int token = …`).
    Raises ValueError: another word.

    Args:
        empty_unit: what the softmax warps do at it in a unit without tokens: "bar.arrive", as CUTLASS did: they go on;
            "bar.sync", the remedy: they wait, too; "nothing": they pass it by.
    """
    if empty_unit not in CHOICES:
        raise ValueError(f"empty_unit must be {', '.join(map(repr, CHOICES))}; got {empty_unit!r}")
    text = ptx.text(OPERATOR)
    entry = text.index(f".entry {ENTRY}(")
    head, body = text[:entry], text[entry:]
    body = _insert(body, _line_of("if (tiles == 0) continue;", after="struct Loader"), "", _meet("bar.sync"))
    test = r"\tsetp\.le\.s32 \t(?P<empty>%p\d+), .*\n"
    at_empty = "" if empty_unit == "nothing" else f"@{{empty}} {_meet(empty_unit)}"
    softmax = f"{at_empty}@!{{empty}} {_meet('bar.arrive')}"
    return head + _insert(body, _line_of("for (int token = unit.begin", after="struct Softmax"), test, softmax)


@dataclass
class GuardedDecode:
    """A launch of that kernel on fresh tensors, by a GPU of two SMs: one CTA pair takes all requests, one at a time.

    Attributes:
        seq_lens: tokens of each request.
        empty_unit: see guarded_ptx; None: the kernel as it ships.
    """

    empty_unit: EmptyUnit | None = "bar.arrive"
    seq_lens: tuple[int, ...] = (150, 0, 0, 150)
    seed: int = 0
    q: torch.Tensor = field(init=False)
    kv_cache: torch.Tensor = field(init=False)
    page_table: torch.Tensor = field(init=False)
    out: torch.Tensor = field(init=False)
    lse: torch.Tensor = field(init=False)

    def __post_init__(self) -> None:
        random = torch.Generator().manual_seed(self.seed)
        batch, width = len(self.seq_lens), -(-max(*self.seq_lens, 1) // PAGE_SIZE)
        self.q = torch.randn(batch, NUM_HEADS, LATENT_DIM + ROPE_DIM, generator=random).half()
        self.kv_cache = torch.randn(batch * width, PAGE_SIZE, LATENT_DIM + ROPE_DIM, generator=random).half()
        self.page_table = torch.randperm(batch * width, generator=random).int().view(batch, width)
        self.out = torch.full((batch, NUM_HEADS, LATENT_DIM), torch.nan).half()
        self.lse = torch.full((batch, NUM_HEADS), torch.nan)

    @property
    def module(self) -> Module:
        return ptx.module(OPERATOR) if self.empty_unit is None else _module(self.empty_unit)

    def run(self, **device: Any) -> Any:
        """Launches; `device` are options of EmulatedDevice. Raises KernelError: it hangs."""
        emulated = self._device(device)
        return emulated.run(self._launch(emulated))

    def session(self, **device: Any) -> Session:
        """The launch, to be stepped, with the sanitizer that keeps account of barriers."""
        emulated = self._device({"sanitize": {"barriers"}, **device})
        return emulated.session(self._launch(emulated))

    def error(self) -> float:
        """How far `out` is from float64's answer, at worst; requests without tokens have zeros."""
        return max(float((self.out[i].double() - self._exact(i)).abs().max()) for i in range(len(self.seq_lens)))

    def _exact(self, request: int) -> torch.Tensor:
        keys = self.kv_cache[self.page_table[request].long()].flatten(0, 1)[: self.seq_lens[request]].double()
        scores = self.q[request].double() @ keys.T * SM_SCALE
        return torch.softmax(scores, -1) @ keys[:, :LATENT_DIM]

    def _device(self, options: dict[str, Any]) -> EmulatedDevice:
        return EmulatedDevice("sm_100a", sms=2, **options)

    def _launch(self, device: EmulatedDevice) -> Launch:
        lengths = torch.tensor(self.seq_lens, dtype=torch.int32)
        halves = self.q[..., :LATENT_DIM], self.q[..., LATENT_DIM:]
        outputs = self.out.fill_(torch.nan), self.lse.fill_(torch.nan)
        checked = check(lengths, None, 1, None, *halves, self.kv_cache, self.page_table, SM_SCALE, *outputs, "e")
        launch = MlaSm100(device, len(self.seq_lens), NUM_HEADS, scheduler="persistent").prepare(checked)[0]
        return replace(launch, kernel=self.module[ENTRY])


def threads_missing() -> Question:
    """Threads that the named barrier still lacks in the load warp's CTA when everything has stopped."""

    def truth() -> int:
        session = GuardedDecode().session()
        try:
            session.run()
        except KernelError:
            ((barrier),) = [each for each in session.barriers() if each.number == BARRIER]
            return barrier.expected - barrier.arrived
        raise AssertionError("the kernel came to an end")

    return Question(
        truth=truth,
        because=(
            "{truth}. The softmax warps came four times with 128 threads, once a request, and phases of 160 took "
            "arrivals, from any warp. The missing ones are softmax warps, for which the load warp should load."
        ),
        hint="Barriers lists named barrier 2 with how many threads have arrived, and how many it takes.",
        ideas=(
            (THREADS, "So many a phase takes. Some have arrived in this one."),
            (128, "So many have arrived. How many are still to come?"),
            (0, "Then the phase would be over, and no thread would wait."),
        ),
    )


def first_arrival_too_many() -> Question:
    """The softmax warp of CTA 0 that is the first to arrive a second time in a phase."""

    def truth() -> int:
        session = GuardedDecode().session()
        try:
            session.run()
        except KernelError:
            twice = [each.at for each in session.findings if each.kind == "barrier_arrived_twice"]
            return next(at.warp for at in twice if at is not None and at.cta == (0, 0, 0))
        raise AssertionError("the kernel came to an end")

    return Question(
        truth=truth,
        because=(
            "Warp {truth}: it came for the next request without tokens while the phase of the one before was open. So "
            "that phase had its 160 threads too early, and ended without the load warp."
        ),
        hint="The list of findings has an arrival that was made twice; pressing its party goes there.",
        ideas=(
            (9, "Warp 9 is the load warp, which waits for what does not come."),
            (0, "It arrives twice, too, but another was first: look at the first finding of this kind."),
        ),
    )


def what_ends() -> Question:
    """What the softmax warps may do in a unit without tokens so that the launch ends, under any scheduler."""

    def truth() -> set[str]:
        return {choice for choice in CHOICES if all(_ends(choice, scheduler) for scheduler in SCHEDULERS)}

    return Question(
        truth=truth,
        because=(
            "{truth}: they must not run ahead of the load warp. Skipping the barrier does not help: the load warp "
            "reaches it in every unit, and would find an arrival missing."
        ),
        hint=(
            "A launch that hangs raises KernelError, so try each on its own, such as "
            'mla_hang.GuardedDecode("nothing").run(scheduler="random").'
        ),
        ideas=(
            (
                {"bar.sync", "nothing"},
                "Without the barrier the load warp, which comes to it for every request, waits in vain.",
            ),
            ({"bar.sync", "bar.arrive"}, "Who only arrives may run ahead: that is the fault."),
            ({"nothing"}, "The load warp comes to the barrier for every request, also for one without tokens."),
        ),
    )


def _ends(empty_unit: EmptyUnit, scheduler: str) -> bool:
    try:
        GuardedDecode(empty_unit).run(scheduler=scheduler)
    except KernelError as error:
        if error.fault is None or error.fault.kind != "deadlock":
            raise
        return False
    return True


@cache
def _module(empty_unit: EmptyUnit) -> Module:
    return Module(guarded_ptx(empty_unit), f"{OPERATOR} with {empty_unit} in empty units")


def _meet(instruction: str) -> str:
    return f"{instruction} {BARRIER}, {THREADS};\n"


def _line_of(statement: str, after: str) -> int:
    """The first line of the kernel's source with this statement after a declaration."""
    source = SourceFinder().find(ptx.provenance(OPERATOR).source).text
    assert source is not None, "the package ships its kernels' sources"
    at = source.index(statement, source.index(after))
    return source.count("\n", 0, at) + 1


def _insert(body: str, line: int, test: str, inserted: str) -> str:
    """Puts instructions where the code of a source line begins, for whole warps; or after its `test`, whose groups
    they may name."""
    found = re.search(rf"^\t\.loc\t1 {line} .*\n(?P<test>{test})", body, re.MULTILINE)
    assert found is not None, f"no PTX of line {line}"
    text = "bar.warp.sync -1;\n" + inserted.format(**found.groupdict())
    return body[: found.end()] + text + body[found.end() :]

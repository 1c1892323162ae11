"""What the rows of the instruction table say of their instructions: complete, and what the machine does."""

import random
import re
import shutil
import subprocess
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sglab import gpu
from sglab.events.timing.costs import COSTS, cost_of
from sglab.gpu import core
from sglab.gpu.code import Code
from sglab.gpu.event_kinds import KINDS
from tests.support.launches import memory_sessions

SOURCES = Path(__file__).parents[2] / "csrc"
ITEM = re.compile(r"\[([^\]]*)\]|\.\{([^}]*)\}|\.([^.\[{]+)")
SILENT = ("", "branch", "branch table", "call", "exit", "trap", "parameter", "warp exchange")


def mnemonics(pattern: str, most: int = 400) -> Iterator[str]:
    """Mnemonics of a row's pattern: all, or as many as `most`, drawn at random."""
    opcode = re.split(r"[.\[]", pattern)[0]
    items = []
    for optional, choices, fixed in ITEM.findall(pattern[len(opcode) :]):
        names = [f".{name.lstrip('.')}" for name in (optional or choices or fixed).split("|")]
        items.append(["", *names] if optional else names)
    if np.prod([len(item) for item in items]) <= most:
        yield from (opcode + "".join(parts) for parts in product(*items))
    else:
        draw = random.Random(pattern)
        yield from (opcode + "".join(map(draw.choice, items)) for _ in range(most))


def test_every_row_has_effects_that_everyone_knows() -> None:
    """No cost class without figures, no event without a kind; accesses have a size, waits for groups a group."""
    seen = set()
    for family, pattern, row in core.instruction_forms():
        for mnemonic in mnemonics(pattern):
            effects = core.instruction_effects(mnemonic)
            assert effects is not None, f"{family}: {mnemonic} matches no row"
            assert effects.cost in COSTS, mnemonic
            assert not effects.event or effects.event in KINDS, mnemonic
            assert effects.act != "access" or (effects.nbytes and (effects.reads or effects.writes)), mnemonic
            assert bool(effects.group) == (effects.act in ("commit group", "wait group")), mnemonic
            assert cost_of(effects).order == effects.motion
            seen.add(effects.cost)
        assert row.act != "access" or row.space == "generic"
    assert seen | {"special register"} == COSTS.keys(), "figures for cost classes that no instruction has"


ROW = """
#include "isa/table.hpp"
void build(sglab::emu::Builder&);
void add(sglab::emu::Table& t) {{ t.row("bar.sync", {effects}build); }}
"""


@pytest.mark.skipif(shutil.which("c++") is None or not SOURCES.is_dir(), reason="needs a C++ compiler and the sources")
def test_a_row_without_effects_does_not_compile() -> None:
    def compiles(effects: str) -> bool:
        command = ["c++", "-std=c++20", "-fsyntax-only", f"-I{SOURCES}", "-x", "c++", "-"]
        return (
            subprocess.run(command, input=ROW.format(effects=effects), text=True, capture_output=True).returncode == 0
        )

    assert compiles("sglab::emu::does::waits_at_barrier(), ")
    assert not compiles("")


@pytest.mark.parametrize(
    ("mnemonic", "expected"),
    [
        ("add.s32", {"act": "", "taint": "carries", "cost": "integer add", "motion": 0}),
        ("and.b64", {"taint": "logic", "cost": "logic wide"}),
        ("ex2.approx.ftz.f32", {"cost": "special"}),
        ("fma.rn.f32x2", {"taint": "halves", "cost": "float pair"}),
        ("cvt.rn.f16x2.f32", {"taint": "convert pair", "cost": "alu"}),
        ("ld.global.v4.b32", {"act": "access", "space": "global", "nbytes": 16, "reads": True, "cached": True}),
        ("ld.acquire.gpu.global.u32", {"order": "acquire", "scope": "gpu", "cached": False, "motion": 32}),
        ("ld.param.u64", {"act": "parameter", "cost": "free", "motion": 0}),
        ("st.volatile.shared.u8", {"writes": True, "reads": False, "order": "volatile", "cost": "shared store"}),
        ("atom.cta.shared.add.u32", {"atomic": True, "returns": True, "order": "relaxed", "scope": "cta"}),
        ("red.release.gpu.global.add.u32", {"returns": False, "writes": True, "order": "release"}),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16", {"act": "matrix rows", "nbytes": 16, "count": 4}),
        ("bar.sync", {"act": "barrier wait", "event": "wait", "motion": 32}),
        ("barrier.cluster.arrive.relaxed", {"act": "cluster arrive", "order": "relaxed", "event": "arrive"}),
        ("mbarrier.try_wait.parity.shared.b64", {"act": "mbarrier wait", "order": "acquire", "scope": "cta"}),
        ("mbarrier.init.shared.b64", {"act": "mbarrier", "event": "init"}),
        ("fence.acq_rel.cta", {"act": "fence", "cost": "fence light", "scope": "cta"}),
        ("fence.acquire.sync_restrict::shared::cluster.cluster", {"act": "fence", "order": "acquire"}),
        ("cp.async.cg.shared.global", {"event": "copy", "space": "shared", "source": "global", "cost": "cp.async"}),
        ("cp.async.wait_group", {"group": "cp.async", "event": "wait"}),
        ("cp.async.bulk.wait_group.read", {"group": "bulk", "read_only": True}),
        (
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes",
            {"act": "issue by map", "event": "copy", "source": "global", "cost": "copy"},
        ),
        ("tcgen05.mma.cta_group::2.kind::f16", {"event": "mma", "cta_group": 2, "cost": "tcgen05"}),
        ("tcgen05.wait::st.sync.aligned", {"act": "fence", "event": "wait", "cost": "tmem wait store"}),
        ("wgmma.wait_group.sync.aligned", {"group": "wgmma", "cost": "wgmma wait"}),
        ("exit", {"act": "exit", "motion": 16}),
    ],
)
def test_effects_of_a_mnemonic(mnemonic: str, expected: dict[str, object]) -> None:
    effects = core.instruction_effects(mnemonic)
    assert effects is not None
    assert {name: getattr(effects, name) for name in expected} == expected


def test_an_unknown_mnemonic_has_none() -> None:
    assert core.instruction_effects("red.async.relaxed.cluster.add.u32") is None


PTX = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p)
{
    .reg .pred %p<4>;
    .reg .b32 %r<10>;
    .reg .f32 %f<4>;
    .reg .b64 %rd<4>;
    .shared .align 16 .b8 words[64];
    ld.param.u64 %rd1, [p];
    mov.u32 %r1, %tid.x;
    setp.lt.s32 %p1|%p2, %r1, 7;
    @!%p1 add.s32 %r2, %r1, 1;
    shr.u32 %r3, %r1, 16;
    cvt.rn.f32.s32 %f1, %r3;
    ld.shared.v2.f32 {%f1, %f2}, [words];
    cp.async.cg.shared.global [words], [%rd1], 16;
    cp.async.commit_group;
    cp.async.wait_group 3;
    atom.global.add.u32 %r2, [%rd1], %r1;
    st.global.u32 [%rd1], %r2;
    ret;
}
"""


@pytest.fixture(scope="module")
def code() -> Code:
    return gpu.Module(PTX)["k"].code


@pytest.mark.parametrize(
    ("register", "writers"),
    [
        ("%r2", ["add.s32", "atom.global.add.u32"]),
        ("%p2", ["setp.lt.s32"]),
        ("%f1", ["cvt.rn.f32.s32", "ld.shared.v2.f32"]),
        ("%f2", ["ld.shared.v2.f32"]),
        ("%rd1", ["ld.param.u64"]),
        ("%r9", []),
    ],
)
def test_what_writes_a_register(code: Code, register: str, writers: list[str]) -> None:
    assert [code[pc].opcode for pc in code.kernel.writers_of(register)] == writers


def test_what_only_operands_tell(code: Code) -> None:
    by_opcode = {row[1]: effects for row, effects in zip(code.rows, code.effects, strict=True)}
    assert by_opcode["cp.async.wait_group"].count == 3
    assert by_opcode["mov.u32"].cost == "special register"
    assert code.kernel.converts_halves()[next(pc for pc, row in enumerate(code.rows) if "cvt" in row[1])]


@pytest.mark.parametrize(
    "name", ["cp_async_copy.sm_80", "mma_s8.sm_80", "stmatrix_image.sm_90a", "bulk_copy.sm_90a", "wgmma_gemm.sm_90a"]
)
def test_memory_changes_where_effects_say_so(name: str) -> None:
    """Step by step: what an instruction whose effects name no memory and no operation executes leaves memory
    as it is, and an access changes the space that it writes alone."""
    session, arguments = memory_sessions.corpus_with_arguments(name)
    tensors = [one for one in arguments if isinstance(one, torch.Tensor)]
    silent = changed = 0
    before = state(session, tensors)
    while not session.over and silent + changed < 4000:
        session.step()
        place, after = session.last, state(session, tensors)
        assert place is not None
        effects = session.code.effects[place.instruction.pc]
        different = {space for space in after if after[space] != before[space]}
        if session.over or after["ctas"] != before["ctas"]:  # one has begun or ended
            before = after
            continue
        if effects.act in SILENT:
            assert not different, f"{place.instruction} changes {different}"
            silent += 1
        elif effects.act == "access":
            written = {effects.space} if effects.space != "generic" else {"shared", "global"}
            assert different <= (written if effects.writes else set()), f"{place.instruction} changes {different}"
            changed += bool(different)
        before = after
    assert silent > 20


def state(session: gpu.Session, tensors: list[torch.Tensor]) -> dict[str, object]:
    """What instructions change besides registers: shared memory of the running CTAs, global memory."""
    return {
        "ctas": tuple(cta.linear for cta in session.ctas),
        "shared": tuple(session.shared(cta.linear).tobytes() for cta in session.ctas),
        "global": tuple(tensor.numpy().tobytes() for tensor in tensors if tensor.dtype != torch.bfloat16),
    }


@pytest.mark.parametrize(
    ("mnemonic", "barrier"),
    [
        ("mbarrier.init.shared.b64", "init"),
        ("mbarrier.inval.shared.b64", "inval"),
        ("mbarrier.arrive.expect_tx.shared.b64", "arrive"),
        ("mbarrier.expect_tx.relaxed.cta.shared::cta.b64", "expect_tx"),
        ("mbarrier.try_wait.parity.shared.b64", "wait"),
        ("mbarrier.test_wait.shared.b64", "test"),
        ("bar.sync", "arrive"),
        ("barrier.cluster.arrive", "arrive"),
        ("barrier.cluster.wait", "wait"),
        ("st.shared.b32", ""),
    ],
)
def test_what_an_instruction_does_to_a_barrier(mnemonic: str, barrier: str) -> None:
    assert core.instruction_effects(mnemonic).barrier == barrier


def test_exponentials_and_forms_of_products_are_told() -> None:
    for family, pattern, _ in core.instruction_forms():
        for mnemonic in mnemonics(pattern, 50):
            effects = core.instruction_effects(mnemonic)
            assert effects.exponential == mnemonic.startswith("ex2."), mnemonic
            if effects.event == "mma":
                assert effects.sparse == (".sp" in mnemonic), (family, mnemonic)
                assert effects.weight_stationary == (".ws" in mnemonic), (family, mnemonic)

"""Warp roles and barrier names: from the source's function names, and from what the warps do."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from sglab import gpu
from sglab.events.barrier_names import BarrierUse, name_uses
from sglab.events.log import CLUSTER, MBARRIER, NAMED, EventLog
from tests.support.launches.pipelines import PIPELINES, PTX
from tests.support.launches.session_lines import SESSION_PTX

STAGES = 2
FULL, EMPTY = BarrierUse({"load"}, {"mma"}, "full"), BarrierUse({"mma"}, {"load"}, "empty")
PRODUCT = {"wgmma": ["mma"] * 4 + ["load"], "tcgen05": ["epilogue"] * 4 + ["load", "mma"]}
PRODUCT["tcgen05 pair"] = PRODUCT["tcgen05"]


def record(name: str, symbols: bool = True) -> EventLog:
    pipeline = PIPELINES[name]
    text = (PTX / f"{pipeline.module}.ptx").read_text()
    if not symbols:
        text = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith(".loc"))
    arguments = pipeline.arguments(k=64 * 8)
    log = gpu.load(text)[pipeline.entry].record(gpu.EmulatedDevice(pipeline.arch), **arguments.launch())
    assert arguments.right()
    return log


@pytest.fixture(params=PIPELINES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("symbols", [True, False])
def test_every_warp_has_its_role(name: str, symbols: bool) -> None:
    roles = record(name, symbols).roles
    for cta in range(PIPELINES[name].ctas):
        assert [roles.of(cta, warp).name for warp in range(len(PRODUCT[name]))] == PRODUCT[name]
    assert {role.function for _, role in roles} - {""} == (
        {"load", "mma" if "tcgen05" in name else "multiply"} | ({"epilogue"} if "tcgen05" in name else set())
        if symbols
        else set()
    )


def test_roles_tell_what_was_done(name: str) -> None:
    roles = record(name).roles
    for (_, _), role in roles:
        assert role.name in role.does or role.name == "epilogue"
    assert {role for _, role in roles if role.name == "load"}


def test_events_have_the_roles_of_their_warps(name: str) -> None:
    log = record(name)
    for event in range(0, len(log), 37):
        assert log.roles.names[log.roles.event[event]] == log.roles.of(int(log.cta[event]), int(log.warp[event])).name


@pytest.mark.parametrize("symbols", [True, False])
def test_mbarriers_are_named_by_who_arrives_who_waits_and_their_stage(name: str, symbols: bool) -> None:
    roles = record(name, symbols).roles
    found = [one for one in roles.barriers if one.kind == MBARRIER and one.cta == 0]
    expected = [f"load→mma full[{stage}]" for stage in range(STAGES)]
    expected += [f"mma→load empty[{stage}]" for stage in range(STAGES)]
    expected += ["mma→epilogue full"] * ("tcgen05" in name)
    assert [one.name for one in found] == expected
    assert [one.stages for one in found] == [STAGES] * 2 * STAGES + [1] * ("tcgen05" in name)
    assert roles.barrier(0, MBARRIER, found[1].object) == expected[1]


def test_a_pairs_full_barriers_are_the_leaders() -> None:
    roles = record("tcgen05 pair").roles
    names = [one.name for one in roles.barriers if one.kind == MBARRIER and one.cta == 1]
    empty = [f"mma→load empty[{stage}]" for stage in range(STAGES)]
    assert names == ["unused"] * STAGES + empty + ["mma→epilogue full"]


def test_other_barriers_are_named_by_who_meets_there(name: str) -> None:
    roles = record(name).roles
    assert roles.barrier(0, NAMED, 0) == f"{'+'.join(roles.names)} barrier 0"
    assert roles.barrier(0, CLUSTER, 0) == ("cluster barrier" if name == "tcgen05 pair" else "")


def test_waits_are_for_phases_of_barriers_with_names(name: str) -> None:
    log = record(name)
    waits = log.waits
    for row in range(len(waits.event)):
        phase = int(waits.phase[row])
        if phase < 0:
            continue
        barrier = log.phases.cta[phase], log.phases.kind[phase], log.phases.object[phase]
        assert log.roles.barrier(*map(int, barrier))


def test_kernels_without_warp_roles_compute() -> None:
    kernel = gpu.load(SESSION_PTX)["reduce"]
    arguments: list[Any] = [torch.ones(512), torch.zeros(1), 512]
    roles = kernel.record(gpu.EmulatedDevice("sm_90a"), grid=2, block=128, args=arguments).roles
    assert roles.names == ("compute",)
    assert len(roles.warps("compute")) == 8
    assert roles.of(0, 31).name == "idle"


SHARED_WORK = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry work(.param .u64 out) {{
  .reg .b32 %r<12>; .reg .b64 %rd<4>; .reg .pred %p<4>; .reg .f32 %f<2>;
  .shared .align 16 .b8 tile[1024]; .shared .align 8 .b8 full[8];
  ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, tile; add.s32 %r4, %r2, %r3;
  shr.u32 %r5, %r1, 5; setp.eq.s32 %p1, %r5, 0; mov.u32 %r6, 0; mov.u32 %r8, full; setp.eq.s32 %p2, %r1, 0;
  {body}
  setp.ne.s32 %p3, %r1, 0; @%p3 bra done; st.global.b32 [%rd1], %r6;
done:
  ret;
}}"""
FILL = "@%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 512, [%r8];"
SUM = "ld.shared.b32 %r7, [%r4]; add.s32 %r6, %r6, %r7; st.shared.b32 [%r4], %r6; bar.sync 0;"
LOOP = "setp.lt.s32 %p3, %r9, 4; @%p3 bra again;"
INIT = """@%p2 mbarrier.init.shared.b64 [%r8], 1; bar.sync 0;
  @%p2 mbarrier.arrive.expect_tx.shared.b64 _, [%r8], 512;"""
WAIT = "wait: mbarrier.try_wait.parity.shared.b64 %p3, [%r8], 0; @!%p3 bra wait;"


@pytest.mark.parametrize(
    ("body", "names"),
    [
        pytest.param(SUM, ["compute"] * 4, id="integers in shared memory"),
        pytest.param(
            f"mov.u32 %r9, 0; again: add.s32 %r9, %r9, 1; bar.sync 0; {LOOP}",
            ["compute"] * 4,
            id="barriers in a loop",
        ),
        pytest.param("@%p2 ld.shared.b32 %r7, [%r4]; bar.sync 0;", ["compute"] + ["idle"] * 3, id="one barrier"),
        pytest.param(f"{INIT} @!%p1 bra wait; {FILL} {WAIT} {SUM}", ["compute"] * 4, id="one warp elected for a copy"),
        pytest.param(
            f"{INIT} @!%p1 bra wait; {FILL} {WAIT} ld.shared.f32 %f1, [%r4]; add.f32 %f1, %f1, %f1; {SUM}",
            ["compute"] * 4,
            id="one warp elected for a copy, floats",
        ),
        pytest.param(
            f"{INIT} @!%p1 bra wait; {FILL} bra end; {WAIT} {SUM.replace('0;', '1, 96;')} end:",
            ["load"] + ["compute"] * 3,
            id="one warp that only copies",
        ),
    ],
)
def test_work_in_shared_memory_and_at_barriers_is_no_idleness(body: str, names: list[str]) -> None:
    out = torch.ones(128, dtype=torch.int32)
    kernel = gpu.load(SHARED_WORK.format(body=body))["work"]
    device = gpu.EmulatedDevice("sm_90a", sanitize=())
    roles = kernel.record(device, grid=1, block=128, args=[out]).roles
    assert [roles.of(0, warp).name for warp in range(4)] == names


def test_a_warp_that_failed_at_its_loads_before_it_multiplied_has_no_role() -> None:
    """The warps load for themselves and multiply: warp 0 was only the first at the address that does not exist."""
    text = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry product(.param .u64 a) {
  .reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .f32 %f<8>;
  .shared .align 16 .b8 tile[4096];
  ld.param.u64 %rd1, [a]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 16; add.s64 %rd1, %rd1, %rd2;
  shl.b32 %r2, %r1, 4; mov.u32 %r3, tile; add.s32 %r2, %r2, %r3;
  cp.async.cg.shared.global [%r2], [%rd1], 16;
  cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;
  ld.shared.b32 %r4, [%r2]; mov.f32 %f1, 0f00000000;
  mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f2,%f3,%f4,%f5}, {%r4,%r4,%r4,%r4}, {%r4,%r4}, {%f1,%f1,%f1,%f1};
  st.global.f32 [%rd1], %f2;
  ret;
}"""
    kernel, device = gpu.load(text)["product"], gpu.EmulatedDevice("sm_90a")
    with pytest.raises(gpu.KernelError) as caught:
        kernel.launch(device, grid=1, block=64, args=[torch.zeros(32 * 4)])
    assert "warp 1, lane 0" in str(caught.value)
    whole = kernel.record(device, grid=1, block=64, args=[torch.zeros(64 * 4)]).roles
    assert whole.names == ("mma",)


def test_a_stage_that_one_side_has_not_used_yet_has_the_name_of_the_stages_beside_it() -> None:
    """The launch ended when the third stage had been filled and the second had been freed by no warp."""
    both = {0x100: FULL, 0x108: FULL, 0x110: BarrierUse({"load"}, set()), 0x118: EMPTY}
    both |= {0x120: BarrierUse(set(), {"load"}, "empty")}
    names = name_uses({(0, MBARRIER, offset): use for offset, use in both.items()}, ("load", "mma"))
    full = [f"load→mma full[{stage}]" for stage in range(3)]
    assert [each.name for each in names] == [*full, "mma→load empty[0]", "mma→load empty[1]"]


def test_what_gives_a_loader_its_stages_back_is_empty_also_where_its_first_wait_waits() -> None:
    """As `if (k >= STAGES) wait(empty[k % STAGES])` has it; or nobody has passed it, as in a deadlock."""
    for purpose in ("full", ""):
        ring = {0x100: FULL, 0x108: FULL} | {at: BarrierUse({"mma"}, {"load"}, purpose) for at in (0x110, 0x118)}
        names = name_uses({(0, MBARRIER, offset): use for offset, use in ring.items()}, ("load", "mma"))
        full = [f"load→mma full[{stage}]" for stage in range(2)]
        assert [each.name for each in names] == [*full, "mma→load empty[0]", "mma→load empty[1]"]


def test_what_a_loader_is_given_by_whom_it_does_not_fill_stays_full() -> None:
    indices = BarrierUse({"page_table"}, {"load"}, "full")
    names = name_uses({(0, MBARRIER, 0x100): FULL, (0, MBARRIER, 0x200): indices}, ("load", "mma", "page_table"))
    assert [each.name for each in names] == ["load→mma full", "page_table→load full"]


def test_a_barrier_whose_other_side_is_unknown_says_so() -> None:
    alone = {0x100: BarrierUse({"load"}, set()), 0x200: BarrierUse(set(), {"load"}, "empty")}
    names = name_uses({(0, MBARRIER, offset): use for offset, use in alone.items()}, ("load",))
    assert [each.name for each in names] == ["load→none", "none→load empty"]

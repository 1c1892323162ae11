"""Roles and barrier names of launches that were not recorded: those that the event log has, and in every message."""

import pytest

torch = pytest.importorskip("torch")

from sglab import gpu
from sglab.events.cast import LogCast, TallyCast
from sglab.events.log import CLUSTER, MBARRIER
from tests.support.emulator.late_copy import BULK, EXPECT, PARAMETERS, STORAGE, roles
from tests.support.launches.pipelines import PIPELINES, PTX


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("symbols", [True, False])
def test_what_a_launch_keeps_count_of_tells_the_same_as_its_log(name: str, symbols: bool) -> None:
    pipeline = PIPELINES[name]
    text = (PTX / f"{pipeline.module}.ptx").read_text()
    if not symbols:
        text = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith(".loc"))
    launch = pipeline.arguments(k=64 * 8).launch()
    session = gpu.load(text)[pipeline.entry].session(gpu.EmulatedDevice(pipeline.arch), **launch)
    session.run()
    counted, logged = session._log.cast(), LogCast(session.launch, session.log)
    assert isinstance(counted, TallyCast)
    assert counted.several() and logged.several()
    for (cta, warp), role in session.log.roles:
        assert counted.role((cta, 0, 0), warp) == logged.role((cta, 0, 0), warp) == role.name
    used = [one for one in session.log.roles.barriers if one.kind != CLUSTER and one.name != "unused"]
    assert used
    for one in used:
        name_of = counted.mbarrier if one.kind == MBARRIER else counted.barrier
        assert name_of((one.cta, 0, 0), one.object) == one.name


def without(pattern: str, name: str) -> gpu.KernelError:
    """What a pipeline fails with when the first line that has `pattern` is left out."""
    pipeline = PIPELINES[name]
    lines = (PTX / f"{pipeline.module}.ptx").read_text().splitlines()
    begin = next(i for i, line in enumerate(lines) if f".entry {pipeline.entry}" in line)
    del lines[next(i for i in range(begin, len(lines)) if pattern in lines[i])]
    kernel = gpu.load("\n".join(lines))[pipeline.entry]
    with pytest.raises(gpu.KernelError) as caught:
        kernel.launch(gpu.EmulatedDevice(pipeline.arch), **pipeline.arguments(k=64 * 8).launch())
    return caught.value


@pytest.mark.parametrize("name", ["tcgen05", "tcgen05 pair"])
def test_a_deadlock_is_a_circle_of_roles_and_barriers(name: str) -> None:
    """The multiplications are never committed, so no stage is ever free again."""
    error = without("tcgen05.commit", name)
    assert error.fault is not None and error.fault.kind == "deadlock"
    assert {wait.role for wait in error.cycle} <= {"load", "mma", "epilogue"}
    waits = next(wait for wait in error.cycle if wait.role == "load")
    assert waits.barrier == "none→load empty[0]"  # so far
    assert f"the mbarrier {waits.barrier} at shared address" in waits.waits
    assert f"warp {waits.warp} (load) waits" in str(error)
    assert error.fault.role in {"load", "mma", "epilogue"}


def test_a_barrier_in_a_variable_goes_by_its_name() -> None:
    """`full` expects an arrival that no warp makes."""
    body = roles("@%p4 bra DONE;\n" + EXPECT + f"@%p4 {BULK} [tile], [%rd2], 128, [full];", 2)
    body = body.replace("@%p2 bra POLL;", "")
    text = (
        ".version 8.7\n.target sm_100a\n.address_size 64\n"
        f".visible .entry kernel({PARAMETERS})\n{{\n{STORAGE}\n"
        ".reg .b16 %h<16>; .reg .b32 %r<256>; .reg .b64 %rd<64>; .reg .pred %p<16>;\n" + body + "\nret;\n}\n"
    )
    arguments = [torch.zeros(32, dtype=torch.int32) for _ in range(3)]
    with pytest.raises(gpu.KernelError) as caught:
        gpu.load(text)["kernel"].launch(gpu.EmulatedDevice("sm_100a"), grid=1, block=96, args=arguments)
    assert "the mbarrier full" in str(caught.value)


def test_where_all_warps_do_the_same_none_has_a_role() -> None:
    text = """.version 8.7
.target sm_100a
.address_size 64
.visible .entry kernel(.param .u64 out) {
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2;
  st.global.u32 [%rd1], %r1;
  ret;
}"""
    with pytest.raises(gpu.KernelError) as caught:
        gpu.load(text)["kernel"].launch(
            gpu.EmulatedDevice("sm_100a", sanitize=True), grid=1, block=64, args=[torch.zeros(32, dtype=torch.int32)]
        )
    assert "warp 1, lane 0" in str(caught.value)
    assert all(finding.at is None or finding.at.role == "" for finding in caught.value.findings)

"""Where NaN is made and how it spreads, from real runs, compared with what the kernels compute in torch."""

from __future__ import annotations

import pytest
import torch

import sglab
from sglab.emulator.nan_kinds import copied_kind, register_kinds
from sglab.emulator.nans import NanTrace, find_nans
from tests.support.launches.nan_sessions import LANES, empty_row, softmax, spoilt_cache


def opcodes(events: list) -> list[str]:
    return [event.instruction.opcode for event in events]


def test_the_empty_row_s_first_nan_is_the_subtraction() -> None:
    trace = find_nans(empty_row())
    first = trace.first
    assert first is not None and (first.role, first.instruction.opcode) == ("made", "sub.f32")
    assert (first.cta, first.warp, first.lanes_written, first.parents) == (1, 0, 0xFFFFFFFF, ())
    assert trace.origins == [first]
    assert {event.cta for event in trace} == {1}
    last = trace[-1]
    assert (last.role, last.instruction.opcode) == ("stored", "st.global.f32")
    assert opcodes(trace.way(last.number)) == ["sub.f32", "mul.f32", "ex2.approx.f32", "div.rn.f32", "st.global.f32"]


def test_it_goes_through_shared_memory_and_to_other_lanes() -> None:
    trace = find_nans(empty_row())
    stored = next(event for event in trace if event.instruction.opcode == "st.shared.f32")
    loaded = next(event for event in trace if event.instruction.opcode == "ld.shared.f32")
    assert stored.number in loaded.parents and loaded.role == "spread"
    assert [place.space for place in stored.places] == ["shared"] and stored.places[0].count == 4 * LANES
    assert any(event.instruction.opcode.startswith("shfl") and event.role == "spread" for event in trace)


@pytest.mark.parametrize("seed", range(4))
def test_what_is_stored_is_where_the_output_is_nan(seed: int) -> None:
    draw = torch.Generator().manual_seed(torch.seed() % 2**31 + seed)
    x = torch.randn(8, LANES, generator=draw)
    x[torch.rand(8, generator=draw) < 0.3] = -torch.inf
    spoilt = (torch.randint(8, (1,), generator=draw).item(), torch.randint(LANES, (1,), generator=draw).item())
    x[spoilt] = torch.nan
    expected = torch.softmax(x.double(), -1).isnan()
    session, out = softmax(x)
    trace = find_nans(session)
    found = torch.zeros_like(expected).view(-1)
    for event in trace:
        for place in event.places:
            if event.role == "stored" and place.space == "global":
                start = (place.address - out.data_ptr()) // 4
                found[start : start + place.count // 4] = True
    assert (found.view_as(expected) == expected).all()
    session.run()
    assert (out.isnan() == expected).all()


def test_a_nan_in_an_input_came_in_and_the_maximum_drops_it() -> None:
    x = torch.zeros(1, LANES)
    x[0, 7] = torch.nan
    session, _ = softmax(x)
    trace = find_nans(session)
    first = trace.first
    assert first is not None and (first.role, first.lanes_written) == ("came", 1 << 7)
    assert [(place.address, place.written) for place in first.places] == [(x.data_ptr() + 28, False)]
    dropped = [event for event in trace if event.instruction.opcode == "max.f32" and event.role == "stopped"]
    assert dropped and dropped[0].lanes_read & 1 << 7


def test_an_event_s_position_leads_a_session_to_its_instruction() -> None:
    session = empty_row()
    for event in find_nans(session):
        session.seek(event.position)
        session.step()
        assert session.last is not None and session.last.instruction.pc == event.instruction.pc
        assert (session.last.cta, session.last.warp) == (event.cta, event.warp)


def test_the_session_and_its_tensors_are_as_they_were() -> None:
    x = torch.full((2, LANES), -torch.inf)
    session, out = softmax(x)
    session.seek(20)
    before = (session.now, x.clone(), out.clone())
    find_nans(session)
    assert session.now == before[0] and torch.equal(x, before[1]) and torch.equal(out, before[2])
    session.run()
    assert out.isnan().all()


def test_nothing_is_found_where_there_is_none_and_infinities_only_when_asked() -> None:
    x = torch.zeros(1, LANES)
    x[0, 3] = -torch.inf
    assert len(find_nans(softmax(x)[0])) == 0
    trace = find_nans(softmax(x)[0], infinite=True)
    assert trace.first is not None and trace.first.role == "came" and trace.first.lanes_written == 1 << 3


def test_only_so_many_events_are_kept() -> None:
    trace = find_nans(empty_row(), most=5)
    assert len(trace) == 5 and trace.truncated


def test_a_nan_in_the_kv_cache_of_our_sm100_kernel() -> None:
    """Through TMA, tcgen05.mma, tensor memory, softmax and shared memory to O; S's spoilt column is the token's."""
    token = 37
    session, slot, pool = spoilt_cache(token)
    trace: NanTrace = find_nans(session)
    first = trace.first
    assert first is not None and first.role == "came" and first.instruction.opcode.startswith("cp.async.bulk.tensor")
    row = pool[slot, 0]
    read = [place for place in first.places if not place.written]
    assert [place.address for place in read] == [row.data_ptr() + 5 * row.element_size()]
    product = trace[trace.children[first.number][0]]
    assert product.instruction.opcode.startswith("tcgen05.mma")
    columns = {place.address // 128 % 512 for place in product.places if place.written}
    assert columns == {token}
    stored = [event for event in trace if event.role == "stored" and event.places[0].space == "global"]
    assert stored and all(trace.way(event.number)[0].role == "came" for event in stored)
    ways = {opcode.split(".")[0] for event in stored for opcode in opcodes(trace.way(event.number))}
    assert {"cp", "tcgen05", "st"} <= ways


def test_a_clean_launch_of_our_sm100_kernel_has_none() -> None:
    session, slot, pool = spoilt_cache()
    pool[slot] = 0
    assert len(find_nans(session)) == 0


def test_what_is_no_launch_is_refused() -> None:
    with pytest.raises(TypeError, match=r"launch must be what sglab\.trace"):
        find_nans(object())  # type: ignore[arg-type]


def test_packed_halves_are_known_by_conversions_products_and_moves() -> None:
    kinds = register_kinds(
        [
            ("cvt.rn.bf16x2.f32", [["%r1"], ["%f1"], ["%f2"]]),
            ("mov.b32", [["%r2"], ["%r1"]]),
            ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", [["%r3"], ["%r4", "%r5"], ["%r6"], ["%r7"]]),
            ("add.u32", [["%r8"], ["%r9"], ["%r10"]]),
        ]
    )
    assert {name: kinds.get(name) for name in ("%r1", "%r2", "%f1", "%r3", "%r4", "%r6", "%r7", "%r8")} == {
        "%r1": "bf16x2", "%r2": "bf16x2", "%f1": "f32", "%r3": "f32", "%r4": "f16x2", "%r6": "f16x2", "%r7": "f32",
        "%r8": None,
    }  # fmt: skip
    assert copied_kind(kinds) == "f16" and copied_kind({"%f1": "f32"}) == "f32"


def test_places_in_tensors_are_named_by_their_elements() -> None:
    x = torch.zeros(3, LANES)
    x[2, 5] = torch.nan
    session, _ = softmax(x)
    came, *_, stored = find_nans(session)
    name = session.launch.tensors[0].name.split(" (")[0]
    assert [place.text for place in came.places] == [f"{name}[2, 5]"]
    assert [place.text for place in stored.places][-1].endswith(f"[2, 0:{LANES}]")


BYTES = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry bytes(.param .u64 x, .param .u64 y, .param .u64 out)
{
.reg .b16 %rs<4>; .reg .b32 %r<4>; .reg .f32 %f<4>; .reg .b64 %rd<8>; .reg .f16 %h<4>;
ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u64 %rd3, [out];
mov.u32 %r1, %tid.x; mul.wide.u32 %rd4, %r1, 1; mul.wide.u32 %rd5, %r1, 4;
add.s64 %rd1, %rd1, %rd4; add.s64 %rd2, %rd2, %rd5; add.s64 %rd3, %rd3, %rd4;
ld.global.b8 %rs1, [%rd1];
cvt.rn.f16x2.e4m3x2 %r2, %rs1;
mov.b32 {%h1, %h2}, %r2;
cvt.f32.f16 %f1, %h1;
ld.global.f32 %f2, [%rd2];
add.f32 %f1, %f1, %f2;
mov.f32 %f3, 0f00000000;
cvt.rn.satfinite.e4m3x2.f32 %rs2, %f3, %f1;
st.global.b8 [%rd3], %rs2;
ret;
}
"""


def test_nan_in_eight_bits_comes_in_spreads_and_is_stored() -> None:
    """e4m3 has a NaN, to which cvt with .satfinite leads, too; a load of a byte does not look at its neighbour."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(32, generator=draw).to(torch.float8_e4m3fn)
    x.view(torch.uint8)[11] = 0x7F
    y = torch.zeros(32)
    y[20] = torch.nan
    out = torch.zeros(32).to(torch.float8_e4m3fn)
    session = sglab.step(sglab.ptx(BYTES)["bytes"][1, 32], x, y, out).session()
    trace = find_nans(session)
    first = trace[0]
    assert (first.role, first.instruction.opcode, first.lanes_written) == ("came", "ld.global.b8", 1 << 11)
    assert [place.text for place in first.places] == ["argument 0, x[11]"]
    assert [(each.role, each.instruction.opcode) for each in trace if each.role != "spread"] == [
        ("came", "ld.global.b8"),
        ("came", "ld.global.f32"),
        ("stored", "st.global.b8"),
    ]
    assert [place.text for place in trace[-1].places] == ["argument 2, out[11]", "argument 2, out[20]"]
    session.run()
    assert out.float().isnan().nonzero().flatten().tolist() == [11, 20]


def test_fragments_of_wmma_hold_packed_halves_and_float_sums() -> None:
    kinds = register_kinds(
        [
            ("wmma.load.a.sync.aligned.row.m16n16k16.bf16", [["%r1"], ["%rd1"], ["%r9"]]),
            ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.bf16.bf16.f32", [["%f1"], ["%r1"], ["%r2"], ["%f2"]]),
            ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f16", [["%f3"], ["%r3"], ["%r4"], ["%r5"]]),
            ("wmma.store.d.sync.aligned.row.m16n16k16.global.f32", [["%rd2"], ["%f1"], ["%r9"]]),
        ]
    )
    assert kinds == {
        "%r1": "bf16x2", "%r2": "bf16x2", "%f1": "f32", "%f2": "f32", "%f3": "f32", "%r3": "f16x2", "%r4": "f16x2",
        "%r5": "f16x2",
    }  # fmt: skip


PAIRED = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry paired(.param .u64 x, .param .u64 out)
{
.local .align 8 .b8 kept[16];
.reg .b32 %r<12>; .reg .b64 %rd<12>;
ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [out];
mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4;
add.s64 %rd1, %rd1, %rd3; add.s64 %rd2, %rd2, %rd3;
ld.global.b32 %r2, [%rd1];
mov.b32 %r3, 0f3F800000;
mov.b64 %rd4, {%r3, %r2};
mul.rn.f32x2 %rd5, %rd4, %rd4;
mov.b64 {%r4, %r5}, %rd5;
mov.u64 %rd6, kept;
st.local.f32 [%rd6+4], %r5;
ld.local.f32 %r6, [%rd6+4];
add.f32 %r7, %r6, %r4;
st.global.f32 [%rd2], %r7;
ret;
}
"""


def test_the_way_goes_through_pairs_of_floats_and_through_local_memory() -> None:
    x = torch.ones(32)
    x[9] = torch.nan
    session = sglab.step(sglab.ptx(PAIRED)["paired"][1, 32], x, torch.zeros(32)).session()
    trace = find_nans(session)
    assert [(event.role, event.written) for event in trace] == [
        ("came", ("%r2",)),
        ("spread", ("%rd4",)),
        ("spread", ("%r5",)),
        ("stored", ()),
        ("spread", ("%r6",)),
        ("spread", ("%r7",)),
        ("stored", ()),
    ]
    assert trace[2].read == ("%rd5",) and trace.origins == [trace[0]]
    assert [event.number for event in trace.way(6)] == [0, 1, 2, 3, 4, 5, 6]

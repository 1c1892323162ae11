"""SharedMemory's Python side: areas, tiles, accesses lane by lane, cp.async groups."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("torch")

import sglab
from sglab._core import tensor
from sglab.events.shared_memory import KINDS
from sglab.labs.shared_memory import PagedDecode
from sglab.widgets import SharedMemory
from tests.support.launches.memory_sessions import corpus, failing, mla_sm90, mla_sm100, no_tensor_memory, product


def rows(widget: SharedMemory, name: str) -> np.ndarray:
    (answer,) = widget.slices([{"name": name, "start": 0, "stop": 1 << 30}])
    return answer.array


def moments_of(widget: SharedMemory, kind: str) -> list[int]:
    """How far to go so that an event of this kind is the last."""
    return (np.flatnonzero(rows(widget, "moments")[:, 4] == KINDS.index(kind)) + 1).tolist()


def test_areas_are_the_kernels_own() -> None:
    widget = SharedMemory(corpus("wgmma_gemm.sm_90a"))
    named = {(area["kind"], area["name"]): (area["start"], area["bytes"]) for area in widget.areas}
    assert named["symbol", "A"] == (1024, 8192)
    assert named["symbol", "B"] == (9216, 8192)
    assert named["symbol", "full"] == (0x4400, 8)
    (barrier,) = [area for area in widget.areas if area["kind"] == "mbarrier"]
    assert (barrier["start"], barrier["bytes"]) == (0x4400, 8)
    assert widget.launch["bytes"] == 0x4800  # up to where dynamic shared memory would begin
    dynamic = SharedMemory(mla_sm100(128))
    (area,) = [area for area in dynamic.areas if area["kind"] == "dynamic"]
    assert (area["name"], area["start"], area["bytes"]) == ("dynamic shared memory", 1024, 225_280)


def test_boxes_and_operands_are_tiles() -> None:
    widget = SharedMemory(mla_sm90())
    boxes = [tile for tile in widget.tiles if tile["source"] == "map"]
    assert {(tile["swizzle"], tile["rows"], tile["k"], tile["element"]) for tile in boxes} == {("128B", 64, 64, "f16")}
    operands = [tile for tile in widget.tiles if tile["source"] == "descriptor"]
    assert {tile["flavour"] for tile in operands} == {"wgmma"}
    assert {tile["major"] for tile in operands if tile["operand"] == "B"} == {"K", "MN"}
    for tile in operands:
        decoded = tensor.smem_descriptor(int(tile["bits"], 16), "wgmma")
        assert decoded["start"] == tile["start"]


@pytest.mark.parametrize("pair", [False, True])
def test_an_operands_bytes_are_its_matrix(pair: bool) -> None:
    """Read where the descriptor's own addresses say, shared memory holds A and B row by row."""
    made = product(128, pair)
    widget = SharedMemory(made.session, cta=int(pair))
    widget.go(moments_of(widget, "mma")[0])
    window = rows(widget, "bytes").reshape(-1)
    for tile, matrix in zip(widget.tiles, (made.operands.a_raw, made.operands.b_raw), strict=True):
        assert tile["rows"] == len(matrix) // (1 + pair)
        for row in range(tile["rows"]):
            for chunk in range(2):
                at = tensor.chunk_address(int(tile["bits"], 16), False, row, chunk)
                expected = matrix[row + tile["rows"] * pair, 8 * chunk : 8 * chunk + 8]
                assert window[at : at + 16].tobytes() == expected.tobytes()


def test_an_access_shows_the_address_of_every_lane() -> None:
    widget = SharedMemory(corpus("mma_gemm_f16.sm_80"))
    code = widget.code
    matrices = [
        moment
        for moment in moments_of(widget, "ld")
        if code[str(rows(widget, "moments")[moment - 1, 3])]["opcode"].startswith("ldmatrix")
    ]
    widget.go(matrices[0])
    (access,) = [one for one in widget.frames[0]["accesses"] if one["when"] == "just made"]
    (start,) = [area["start"] for area in widget.areas if area["name"] == "a_tile"]
    assert (access["bytes"], access["lanes"], access["reads"]) == (16, 0xFFFFFFFF, True)
    assert access["addresses"] == [start + lane % 16 * 32 + lane // 16 * 16 for lane in range(32)]
    widget.go(matrices[1])
    (second,) = [one for one in widget.frames[0]["accesses"] if one["when"] == "just made"]
    assert second["lanes"] == 0xFFFF  # .x2: sixteen rows


def test_a_copy_arrives_when_it_is_waited_for() -> None:
    widget = SharedMemory(corpus("wgmma_gemm.sm_90a"))
    widget.go(moments_of(widget, "copy")[0])
    start, nbytes = rows(widget, "moments")[widget.moment - 1, 7:9].tolist()
    assert (start, nbytes) == (1024, 8192)
    assert not rows(widget, "bytes").reshape(-1)[start : start + nbytes].any()
    carried = np.flatnonzero(rows(widget, "moments")[:, 9]) + 1
    widget.go(int(carried[0]))
    assert rows(widget, "bytes").reshape(-1)[start : start + nbytes].any()


def test_bytes_count_as_written_once_written() -> None:
    """Two groups of cp.async bring 16 bytes per thread to K and V; the exchange at the end writes more."""
    widget = SharedMemory(PagedDecode(tokens=8).session())

    def written() -> np.ndarray:
        return np.unpackbits(rows(widget, "written"), axis=1, bitorder="little").reshape(-1).astype(bool)

    assert not written().any()
    (first_wait, *_) = moments_of(widget, "wait")
    widget.go(first_wait)
    arrived = written()
    (group, *_) = [one for one in widget.pipelines[0]["groups"] if one["copies"]]
    assert arrived[group["start"] : group["end"]].all()
    in_session = widget.session.shared_written(0)
    assert (arrived[: len(in_session)] == in_session).all() and not arrived.all()
    assert rows(widget, "bytes").reshape(-1)[~arrived].sum() == 0
    widget.go(len(rows(widget, "moments")))
    assert written()[arrived].all() and written().sum() > arrived.sum()
    widget.go(0)
    assert not written().any()


def test_going_back_shows_the_same_again() -> None:
    widget = SharedMemory(corpus("wgmma_gemm.sm_90a"))
    count = len(rows(widget, "moments"))
    there: dict[int, tuple[bytes, str]] = {}
    for moment in (count // 2, count, count // 3, count // 2, 0, count // 3):
        widget.go(moment)
        assert widget.moment == moment
        seen = rows(widget, "bytes").tobytes(), json.dumps(widget.frames)
        assert there.setdefault(moment, seen) == seen


def test_a_saved_page_stays_below_five_mebibytes() -> None:
    session = mla_sm100(512)
    widget = SharedMemory(session)
    widget.go(200)
    position = session.now
    assert len(json.dumps(widget.saved())) < 5 << 20
    assert session.now == position


def test_a_kernel_without_shared_memory_says_so() -> None:
    assert "has no shared memory" in SharedMemory(no_tensor_memory()).launch["empty"]


def test_a_kernel_that_fails_shows_what_came_before() -> None:
    widget = SharedMemory(failing())
    assert "trap" in widget.launch["error"]
    widget.go(moments_of(widget, "st")[0])
    (other,) = [area for area in widget.areas if area["name"] == "other"]
    assert rows(widget, "bytes").reshape(-1)[other["start"]] == 7


def test_wrong_arguments_are_named() -> None:
    session = corpus("wgmma_gemm.sm_90a")
    with pytest.raises(ValueError, match="cta must be 0 to 5"):
        SharedMemory(session, cta=6)
    with pytest.raises(ValueError, match="saved_moments must be 1 or more"):
        SharedMemory(session, saved_moments=0)
    with pytest.raises(ValueError, match="tab must be one of descriptor, instruction"):
        SharedMemory(session, tab="bank")


def test_what_belongs_to_no_line_names_its_file_alone() -> None:
    text = """
.version 8.7
.target sm_100a
.address_size 64
.file 1 "own.cu"
.visible .entry k()
{
.shared .align 4 .b32 s;
.loc 1 3 0
st.shared.u32 [s], 1;
.loc 1 0 0
st.shared.u32 [s], 2;
ret;
}
"""
    widget = SharedMemory(sglab.step(sglab.ptx(text)["k"][1, 1]))
    sources = [code["source"] for code in widget.code.values() if code["opcode"].startswith("st.")]
    assert sources == ["own.cu:3", "own.cu"]

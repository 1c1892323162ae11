"""Tiles of shared memory come back as the tensors that TMA put there, through tensor maps and through descriptors."""

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sglab import gpu
from sglab.events.tables import TensorMapInfo
from sglab.events.tile import box_offsets
from tests.support.launches.pipelines import PIPELINES


@pytest.fixture(params=PIPELINES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_boxes_and_operands_are_the_tensors_own_values(name: str) -> None:
    pipeline = PIPELINES[name]
    arguments = pipeline.arguments(k=256)
    session = pipeline.kernel.session(gpu.EmulatedDevice(pipeline.arch), **arguments.launch())
    log = session.log
    mmas, copies = log.mmas, log.copies
    for row in range(0, 16, 5):
        session.seek(int(mmas.done[row]) - 1)  # its operands have come and are still there
        cta = int(log.cta[mmas.event[row]])
        k = 16 * row
        a, b = session.operand(row, "a"), session.operand(row, "b")
        assert np.array_equal(a.values, arguments.a[: pipeline.rows, k : k + 16].numpy())
        assert np.array_equal(b.values, arguments.b[: pipeline.box_b, k : k + 16].numpy())
        if pipeline.ctas == 2:
            peer = session.operand(row, "b", cta=1)
            assert np.array_equal(peer.values, arguments.b[32:64, k : k + 16].numpy())
        loads = np.flatnonzero((copies.coordinates[:, 0] == k // 64 * 64) & (log.cta[copies.event] == cta))
        for load, tensor in zip(loads.tolist(), (arguments.a, arguments.b), strict=True):
            info = log.maps[copies.map[load]]
            box = session.tile(info, shared=int(copies.shared[load]))
            start = k // 64 * 64
            assert np.array_equal(box.values, tensor[: info.box[1], start : start + 64].numpy())
            inside = box.values[:, k % 64 : k % 64 + 16]
            assert np.array_equal(inside, (a if tensor is arguments.a else b).values)


def test_coordinates_and_bytes_lead_to_each_other() -> None:
    pipeline = PIPELINES["tcgen05"]
    session = pipeline.kernel.session(gpu.EmulatedDevice(pipeline.arch), **pipeline.arguments().launch())
    session.run_to(opcode="tcgen05.mma")
    tile = session.operand(0, "a")
    assert tile.offsets.shape == (128, 16)
    assert len(set(tile.offsets.ravel().tolist())) == 128 * 16
    for row, k in ((0, 0), (1, 0), (9, 7), (127, 15)):
        offset = int(tile.offsets[row, k])
        assert tile.coordinates(offset) == tile.coordinates(offset + 1) == (row, k)
        assert session.shared()[offset : offset + 2].view(np.float16)[0] == tile.values[row, k]
    assert tile.coordinates(0) is None


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "uint8"])
def test_boxes_of_every_swizzle_and_type_lie_where_tma_puts_them(swizzle: int, dtype: str) -> None:
    from sglab import _core

    torch_type = getattr(torch, dtype)
    width = (swizzle or 64) // torch_type.itemsize
    tensor = torch.arange(24 * width).reshape(24, width).to(torch_type)
    made = gpu.TensorMap(tensor, (16, width), swizzle=swizzle)
    encoded = gpu.EmulatedDevice("sm_90a").encode(made.encoding)
    smem = np.zeros(32768, np.uint8)
    raw = tensor.view(torch.uint8).numpy().reshape(-1)
    _core.tma.copy_box("load", encoded, [0, 8], raw, tensor.data_ptr(), smem, 2048)
    element = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "uint8": "u8"}[dtype]
    modes = {0: 0, 32: 1, 64: 2, 128: 3}
    info = TensorMapInfo(0, element, (), (width, 16), (), (1, 1), modes[swizzle], 0, False, False)
    offsets = box_offsets(info, 2048)
    size = torch_type.itemsize
    found = smem[offsets[..., None] + np.arange(size)].reshape(16, width * size)
    assert np.array_equal(found, tensor[8:24].contiguous().view(torch.uint8).numpy())


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda s, info: s.tile(info), "needs shared="),
        (lambda s, info: s.tile(1 << 46 | 2 << 61), "needs rows= and k="),
        (lambda s, info: s.tile(1 << 46, rows=8, k=16, element="e2m1"), "elements of type 'e2m1'"),
        (lambda s, info: s.tile(1 << 46, rows=8, k=16, major="N"), "major must be"),
        (lambda s, info: s.tile(0, rows=8, k=16), "descriptor: bits 46-48"),
        (lambda s, info: s.tile(info, shared=0xC000), "the tile covers offsets"),
        (lambda s, info: s.operand(99, "a"), "log.mmas has 16 rows"),
    ],
)
def test_what_cannot_be_a_tile_is_refused(ask: Any, message: str) -> None:
    pipeline = PIPELINES["tcgen05"]
    session = pipeline.kernel.session(gpu.EmulatedDevice(pipeline.arch), **pipeline.arguments().launch())
    with pytest.raises(gpu.SessionError, match=message):
        ask(session, session.log.maps[0])

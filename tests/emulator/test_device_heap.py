"""malloc and free in kernels: memory that outlives the launch, none where the heap is full, and misuse by name."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from sglab import _core
from tests.support.emulator.launching import launch

EXTERN = """
.extern .func (.param .b64 block) malloc(.param .b64 bytes);
.extern .func free(.param .b64 block);
"""
MALLOC = "{ .param .b64 n; .param .b64 p; st.param.b64 [n], %rd2; call.uni (p), malloc, (n); ld.param.b64 %rd3, [p]; }"
FREE = "{ .param .b64 p; st.param.b64 [p], %rd3; call.uni free, (p); }"
ROUNDS = """
  mov.u32 %r2, 0;
loop:
  MALLOC; setp.eq.u64 %p1, %rd3, 0; @%p1 trap; FREE;
  add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 300; @%p2 bra loop;
"""
BLOCK = 16  # bytes of a block's header, and what sizes are rounded up to
HEAP = 8 << 20


@pytest.fixture(autouse=True)
def empty() -> Iterator[None]:
    _core.reset_device_heap()
    yield
    _core.reset_device_heap()


def kernel(body: str) -> str:
    """`body` has the lane in %r1, out[lane] at [%rd1] and `size` in %rd2; MALLOC leaves its block in %rd3, which FREE
    frees."""
    return (
        EXTERN
        + """
.visible .entry k(.param .u64 out, .param .u64 size) {
  .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
  ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [size];
  mov.u32 %r1, %tid.x; mul.wide.u32 %rd4, %r1, 8; add.u64 %rd1, %rd1, %rd4;
  """
        + body.replace("MALLOC;", MALLOC).replace("FREE;", FREE)
        + "\n  ret;\n}"
    )


def run(body: str, size: int, lanes: int = 32, **how: Any) -> np.ndarray:
    out = np.zeros(lanes, np.uint64)
    launch(kernel(body), [out, ("Q", size)], block=(lanes, 1, 1), **how)
    return out


def test_every_lane_has_a_block_of_its_own_that_holds_what_it_stores() -> None:
    stored = "MALLOC; st.u32 [%rd3], %r1; st.u32 [%rd3+20], %r1; bar.sync 0; ld.u32 %r2, [%rd3]; ld.u32 %r3, [%rd3+20];"
    kept = run(stored + "add.u32 %r4, %r2, %r3; cvt.u64.u32 %rd5, %r4; st.u64 [%rd1], %rd5; FREE;", 24, lanes=256)
    assert kept.tolist() == [2 * lane for lane in range(256)]
    assert _core.device_heap_use() == (0, 0)
    blocks = np.sort(run("MALLOC; st.u64 [%rd1], %rd3;", 24, lanes=256))
    assert (blocks % BLOCK == 0).all() and (np.diff(blocks) >= 32 + BLOCK).all()
    assert _core.device_heap_use() == (256, 256 * 32)


def test_a_block_lives_until_another_kernel_frees_it() -> None:
    block = run("MALLOC; st.u64 [%rd3], 77; st.u64 [%rd1], %rd3;", 64, lanes=1)
    seen = block.copy()
    launch(
        kernel("ld.u64 %rd3, [%rd1]; ld.u64 %rd5, [%rd3]; st.u64 [%rd1], %rd5; FREE;"),
        [seen, ("Q", 0)],
        block=(1, 1, 1),
    )
    assert seen[0] == 77 and _core.device_heap_use() == (0, 0)


def test_a_kernel_without_malloc_reads_blocks_too() -> None:
    block = run("MALLOC; st.u64 [%rd3], 78; st.u64 [%rd1], %rd3;", 64, lanes=1)
    launch(kernel("ld.u64 %rd3, [%rd1]; ld.u64 %rd5, [%rd3]; st.u64 [%rd1], %rd5;"), [block, ("Q", 0)], block=(1, 1, 1))
    assert block[0] == 78


def test_a_full_heap_gives_null_and_has_room_again() -> None:
    quarter = HEAP // 4
    blocks = run("MALLOC; st.u64 [%rd1], %rd3;", quarter, lanes=4)
    assert np.count_nonzero(blocks) == 3  # headers take some bytes of the last quarter
    assert run("MALLOC; st.u64 [%rd1], %rd3;", quarter, lanes=1)[0] == 0
    launch(kernel("ld.u64 %rd3, [%rd1]; FREE;"), [blocks, ("Q", 0)], block=(4, 1, 1))  # one of them frees null
    assert run("MALLOC; st.u64 [%rd1], %rd3;", HEAP - 2 * BLOCK, lanes=1)[0] != 0
    _core.reset_device_heap()
    for size in (0, HEAP, 2**63, 2**64 - 1):
        assert run("MALLOC; st.u64 [%rd1], %rd3;", size, lanes=1)[0] == 0


def test_what_was_freed_last_is_given_again_last() -> None:
    again = "MALLOC; mov.u64 %rd5, %rd3; FREE; MALLOC; sub.u64 %rd6, %rd3, %rd5; st.u64 [%rd1], %rd6;"
    assert run(again, 64, lanes=1)[0] == 64 + BLOCK
    run(ROUNDS, 100_000, lanes=1)  # thirty megabytes in turn


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        ("MALLOC; FREE; FREE;", "double_free", "was freed before"),
        ("MALLOC; add.u64 %rd3, %rd3, 16; FREE;", "invalid_free", "is no block that malloc gave"),
        ("MALLOC; add.u64 %rd3, %rd3, 1; FREE;", "invalid_free", "is no block that malloc gave"),
        ("mov.u64 %rd3, %rd1; FREE;", "invalid_free", "is no block that malloc gave"),
        ("MALLOC; st.u64 [%rd3+64], 5; st.u64 [%rd3+72], 5; MALLOC;", "device_heap", "was overwritten"),
        ("MALLOC; add.u64 %rd3, %rd3, 8388608; st.u32 [%rd3], 1;", "out_of_bounds", "the device heap"),
    ],
)
def test_misuse_is_a_fault_by_name(body: str, kind: str, text: str) -> None:
    with pytest.raises(_core.LaunchError, match=text) as caught:
        run(body, 64, lanes=1)
    assert caught.value.kind == kind


def test_an_empty_heap_is_no_memory_of_other_kernels() -> None:
    """A session looks through all memory of its launch at each checkpoint; of an empty heap it takes none."""
    block = run("MALLOC; st.u64 [%rd1], %rd3; FREE;", 64, lanes=1)
    with pytest.raises(_core.LaunchError) as caught:
        launch(kernel("ld.u64 %rd3, [%rd1]; ld.u64 %rd5, [%rd3];"), [block, ("Q", 0)], block=(1, 1, 1))
    assert caught.value.kind == "out_of_bounds"


def test_several_host_threads_share_the_heap() -> None:
    out = np.zeros(32, np.uint64)
    launch(kernel(ROUNDS), [out, ("Q", 40)], grid=(16, 1, 1), threads=4)
    assert _core.device_heap_use() == (0, 0)


def test_its_size_stands_once_a_kernel_allocates() -> None:
    run("MALLOC; FREE;", 8)
    assert _core.resize_device_heap(HEAP) and not _core.resize_device_heap(2 * HEAP)


def test_a_wrong_declaration_is_refused() -> None:
    module = _core.Module(
        ".version 8.8\n.target sm_100a\n.address_size 64\n"
        ".extern .func (.param .b64 p) malloc(.param .b32 n);\n"
        ".visible .entry k() { .param .b32 n; .param .b64 p; st.param.b32 [n], 4; call.uni (p), malloc, (n); ret; }"
    )
    assert any("does not fit malloc" in cause for cause in module.kernel("k").unsupported)

"""red.async, st.async and cp.async.bulk's byte mask; multimem on one device: held against Python integers."""

from __future__ import annotations

import numpy as np
import pytest

from sglab import _core
from tests.support.emulator.launching import launch

REDUCTIONS = [
    *(("add", kind) for kind in ("u32", "s32", "u64", "s64")),
    *((op, kind) for op in ("min", "max") for kind in ("u32", "s32")),
    *((op, "u32") for op in ("inc", "dec")),
    *((op, "b32") for op in ("and", "or", "xor")),
]


def reduced(op: str, kind: str, old: int, value: int) -> int:
    """What one reduction leaves, from bits to bits."""
    bits = int(kind[1:])
    top = 1 << bits

    def number(raw: int) -> int:
        return raw - top if kind[0] == "s" and raw >> (bits - 1) else raw

    result = {
        "add": lambda: old + value,
        "min": lambda: min(number(old), number(value)),
        "max": lambda: max(number(old), number(value)),
        "inc": lambda: 0 if old >= value else old + 1,
        "dec": lambda: value if old == 0 or old > value else old - 1,
        "and": lambda: old & value,
        "or": lambda: old | value,
        "xor": lambda: old ^ value,
    }[op]()
    return result % top


def words(kind: str, count: int) -> np.ndarray:
    rng = np.random.default_rng()
    dtype = np.dtype(f"u{int(kind[1:]) // 8}")
    drawn = rng.integers(0, 1 << 8 * dtype.itemsize, count, dtype=dtype, endpoint=False)
    return np.where(rng.integers(0, 3, count) == 0, drawn >> dtype.type(8 * dtype.itemsize - 3), drawn)


def expected(op: str, kind: str, old: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.array([reduced(op, kind, int(a), int(b)) for a, b in zip(old, values, strict=True)], dtype=old.dtype)


PEER = """
.visible .entry k(.param .u64 old, .param .u64 values, .param .u64 out) {{
  .reg .pred %p<3>; .reg .b32 %r<20>; .reg .b64 %d<20>; .reg .b64 %v;
  .shared .align 16 .b8 cells[512]; .shared .align 8 .b64 done;
  mov.u32 %r0, %tid.x; mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, cells; mad.lo.u32 %r3, %r0, {bytes}, %r2;
  mov.u32 %r4, done;
  ld.param.u64 %d0, [old]; ld.param.u64 %d1, [values]; ld.param.u64 %d2, [out];
  mul.wide.u32 %d3, %r0, {bytes}; add.s64 %d0, %d0, %d3; add.s64 %d1, %d1, %d3; add.s64 %d2, %d2, %d3;
  ld.global.b{bits} {v}, [%d0]; st.shared.b{bits} [%r3], {v};
  setp.eq.u32 %p0, %r0, 0;
  @%p0 mbarrier.init.shared.b64 [%r4], 1;
  @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [%r4], {all};
  fence.mbarrier_init.release.cluster;
  barrier.cluster.arrive; barrier.cluster.wait;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra WAIT;
  ld.global.b{bits} {v}, [%d1];
  mapa.shared::cluster.u32 %r5, %r3, 1; mapa.shared::cluster.u32 %r6, %r4, 1;
  {instruction} [%r5], {v}, [%r6];
  bra END;
WAIT:
  mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r4], 0;
  @!%p2 bra WAIT;
  ld.shared.b{bits} {v}, [%r3]; st.global.b{bits} [%d2], {v};
END:
  barrier.cluster.arrive; barrier.cluster.wait;
  ret;
}}
"""


@pytest.mark.parametrize(("op", "kind"), REDUCTIONS, ids=".".join)
def test_reductions_into_a_peer_signal_its_mbarrier(op: str, kind: str) -> None:
    bits = int(kind[1:])
    old, values = words(kind, 32), words(kind, 32)
    out = np.zeros_like(old)
    name = f"red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{op}.{kind}"
    value = "%v" if bits == 64 else "%r9"
    text = PEER.format(bytes=bits // 8, bits=bits, v=value, all=4 * bits, instruction=name)
    launch(text, [old, values, out], grid=(2, 1, 1), cluster=(2, 1, 1), scheduler="random", seed=3)
    np.testing.assert_array_equal(out, expected(op, kind, old, values))


EACH = """
.visible .entry k(.param .u64 cells, .param .u64 values) {{
  .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .b16 %h;
  mov.u32 %r0, %tid.x; ld.param.u64 %d0, [cells]; ld.param.u64 %d1, [values];
  mul.wide.u32 %d2, %r0, {bytes}; add.s64 %d0, %d0, %d2; add.s64 %d1, %d1, %d2;
  ld.global.b{bits} {v}, [%d1];
  {instruction} [%d0], {v};
  ret;
}}
"""


def each(instruction: str, kind: str, cells: np.ndarray, values: np.ndarray) -> None:
    bits = int(kind[1:])
    value = {16: "%h", 32: "%r1", 64: "%d5"}[bits]
    launch(EACH.format(bytes=bits // 8, bits=bits, v=value, instruction=instruction), [cells, values])


@pytest.mark.parametrize("head", ["red.async.release.gpu", "red.async.mmio.release.sys.global"])
@pytest.mark.parametrize(("op", "kind"), REDUCTIONS, ids=".".join)
def test_asynchronous_reductions_in_global_memory(head: str, op: str, kind: str) -> None:
    cells, values = words(kind, 32), words(kind, 32)
    wanted = expected(op, kind, cells, values)
    each(f"{head}.{op}.{kind}", kind, cells, values)
    np.testing.assert_array_equal(cells, wanted)


@pytest.mark.parametrize("head", ["st.async.mmio.release.sys.global", "st.mmio.relaxed.sys"])
@pytest.mark.parametrize("kind", ["b16", "u32", "f64"])
def test_stores_to_global_memory(head: str, kind: str) -> None:
    cells, values = words(kind, 32), words(kind, 32)
    each(f"{head}.{kind}", kind, cells, values)
    np.testing.assert_array_equal(cells, values)


def test_loads_of_device_memory_are_loads() -> None:
    cells, values = words("u32", 32), words("u32", 32)
    text = EACH.format(bytes=4, bits=32, v="%r1", instruction="st.global.u32")
    launch(text.replace("ld.global.b32", "ld.mmio.relaxed.sys.global.b32"), [cells, values])
    np.testing.assert_array_equal(cells, values)


MULTIMEM = [("add", "u32"), ("min", "s32"), ("max", "u64"), ("min", "s64"), ("xor", "b64"), ("and", "b32")]


@pytest.mark.parametrize(("op", "kind"), MULTIMEM, ids=".".join)
def test_a_multicast_object_of_one_device_is_that_device(op: str, kind: str) -> None:
    """A load gives the one replica there is, a reduction changes it, a store replaces it."""
    cells, values = words(kind, 32), words(kind, 32)
    wanted = expected(op, kind, cells, values)
    each(f"multimem.red.relaxed.gpu.global.{op}.{kind}", kind, cells, values)
    np.testing.assert_array_equal(cells, wanted)
    stored = np.zeros_like(cells)
    each(f"multimem.st.{kind}", kind, stored, values)
    np.testing.assert_array_equal(stored, values)
    bits = int(kind[1:])
    text = EACH.format(bytes=bits // 8, bits=bits, v="%r1" if bits == 32 else "%d5", instruction="st.global." + kind)
    loaded = np.zeros_like(cells)
    launch(text.replace(f"ld.global.b{bits}", f"multimem.ld_reduce.acquire.sys.{op}.{kind}"), [loaded, cells])
    np.testing.assert_array_equal(loaded, cells)


@pytest.mark.parametrize("kind", ["v4.f32", "v8.bf16", "v4.e4m3x4", "v2.f16x2"])
def test_vectors_of_a_multicast_object(kind: str) -> None:
    count, element = int(kind[1]), kind[3:]
    bits = {"f32": 32, "bf16": 16, "e4m3x4": 32, "f16x2": 32}[element]
    registers = ", ".join(f"%{'r' if bits == 32 else 'h'}{n}" for n in range(count))
    text = f"""
    .visible .entry k(.param .u64 to, .param .u64 from) {{
      .reg .b32 %r<9>; .reg .b32 %t; .reg .b16 %h<9>; .reg .b64 %d<9>;
      mov.u32 %t, %tid.x; ld.param.u64 %d0, [to]; ld.param.u64 %d1, [from];
      mul.wide.u32 %d2, %t, {bits * count // 8}; add.s64 %d0, %d0, %d2; add.s64 %d1, %d1, %d2;
      multimem.ld_reduce.add.{kind} {{{registers}}}, [%d1];
      multimem.st.release.sys.{kind} [%d0], {{{registers}}};
      ret; }}"""
    source = np.random.default_rng().integers(0, 256, 32 * bits * count // 8, dtype=np.uint8)
    to = np.zeros_like(source)
    launch(text, [to, source])
    np.testing.assert_array_equal(to, source)


MASKED = """
.visible .entry k(.param .u64 to, .param .u64 from, .param .u32 mask) {
  .reg .pred %p; .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .b16 %h;
  .shared .align 128 .b8 tile[512];
  mov.u32 %r0, %tid.x; mov.u32 %r1, tile; ld.param.u64 %d0, [to]; ld.param.u64 %d1, [from]; ld.param.u32 %r2, [mask];
  cvt.u16.u32 %h, %r2;
  mul.wide.u32 %d2, %r0, 16; add.s64 %d1, %d1, %d2; mad.lo.u32 %r3, %r0, 16, %r1;
  ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%d1]; st.shared.v4.b32 [%r3], {%r4, %r5, %r6, %r7};
  fence.proxy.async; bar.sync 0;
  setp.ne.u32 %p, %r0, 0; @%p exit;
  cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%d0], [%r1], 512, %h;
  cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
  ret;
}
"""


def test_a_mask_says_which_bytes_of_sixteen_a_bulk_copy_writes() -> None:
    rng = np.random.default_rng()
    source, before = (rng.integers(0, 256, 512, dtype=np.uint8) for _ in range(2))
    mask = int(rng.integers(1, 0xFFFF))
    to = before.copy()
    launch(MASKED, [to, source, ("u", mask)])
    chosen = np.array([mask >> at % 16 & 1 for at in range(512)], bool)
    np.testing.assert_array_equal(to, np.where(chosen, source, before))


def test_a_misaligned_reduction_is_a_fault() -> None:
    text = PEER.format(bytes=4, bits=32, v="%r9", all=128, instruction="red.async.relaxed.cluster.mbarrier::complete_tx"
                       "::bytes.add.u32").replace("[%r5]", "[%r5+2]")  # fmt: skip
    old = np.zeros(32, np.uint32)
    with pytest.raises(_core.LaunchError, match=r"red\.async to"):
        launch(text, [old, old, old.copy()], grid=(2, 1, 1), cluster=(2, 1, 1))

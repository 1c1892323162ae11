"""wmma: whole matrices through fragments of open layout, against NumPy on whole numbers."""

import numpy as np
import pytest

from tests.support.emulator.launching import launch

# (type in memory, NumPy's, registers of a, of b), by the operands' type
OPERANDS = {"f16": (np.float16, 2), "bf16": (np.uint16, 2), "s8": (np.int8, 1), "u8": (np.uint8, 1)}
SHAPES = {"m16n16k16": (16, 16, 16), "m32n8k16": (32, 8, 16), "m8n32k16": (8, 32, 16)}


def registers(name: str, count: int) -> str:
    return "{" + ", ".join(f"%{name}{k}" for k in range(count)) + "}"


def stored(values: np.ndarray, kind: str) -> np.ndarray:
    """Bits in memory."""
    if kind == "bf16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(OPERANDS[kind][0])


def count(kind: str, elements: int) -> int:
    if kind == "f16":
        return 8
    return max(1, elements * OPERANDS[kind][1] // 4 // 32)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("layouts", [("row", "col"), ("col", "row")])
@pytest.mark.parametrize("kind", OPERANDS)
def test_products(kind: str, layouts: tuple[str, str], shape: str) -> None:
    m, n, k = SHAPES[shape]
    low = 0 if kind == "u8" else -4
    rng = np.random.default_rng(m)
    a, b = rng.integers(low, 5, (m, k)), rng.integers(low, 5, (k, n))
    c = rng.integers(-9, 9, (m, n))
    total = "s32" if kind in ("s8", "u8") else "f32"
    c_bits = np.ascontiguousarray(c.astype(np.int32 if total == "s32" else np.float32))
    out = np.zeros((m, n + 8), c_bits.dtype)  # a stride beyond the row
    counts = {"a": count(kind, m * k), "b": count(kind, k * n), "c": 8, "d": 8}
    types = f"{total}.{total}" if kind == "f16" else f"{total}.{kind}.{kind}.{total}"
    images = {
        "a": np.ascontiguousarray(stored(a, kind) if layouts[0] == "row" else stored(a, kind).T),
        "b": np.ascontiguousarray(stored(b, kind) if layouts[1] == "row" else stored(b, kind).T),
    }
    strides = {name: image.shape[1] for name, image in images.items()}
    ptx = f"""
.entry k(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd) {{
  .reg .b64 %ra, %rb, %rc, %rd; {"".join(f".reg .b32 {registers(x, counts[x])[1:-1]};" for x in counts)}
  ld.param.u64 %ra, [pa]; ld.param.u64 %rb, [pb]; ld.param.u64 %rc, [pc]; ld.param.u64 %rd, [pd];
  wmma.load.a.sync.aligned.{layouts[0]}.{shape}.global.{kind} {registers("a", counts["a"])}, [%ra], {strides["a"]};
  wmma.load.b.sync.aligned.{layouts[1]}.{shape}.{kind} {registers("b", counts["b"])}, [%rb], {strides["b"]};
  wmma.load.c.sync.aligned.row.{shape}.global.{total} {registers("c", 8)}, [%rc], {n};
  wmma.mma.sync.aligned.{layouts[0]}.{layouts[1]}.{shape}.{types}
    {registers("d", 8)}, {registers("a", counts["a"])}, {registers("b", counts["b"])}, {registers("c", 8)};
  wmma.store.d.sync.aligned.row.{shape}.global.{total} [%rd], {registers("d", 8)}, {n + 8};
  ret;
}}"""
    launch(ptx, [images["a"], images["b"], c_bits, out])
    np.testing.assert_array_equal(out[:, :n], a @ b + c)
    assert not out[:, n:].any()


def test_doubles() -> None:
    rng = np.random.default_rng(0)
    a, b, c = rng.integers(-9, 9, (8, 4)), rng.integers(-9, 9, (4, 8)), rng.integers(-9, 9, (8, 8))
    out = np.zeros((8, 8))
    launch(
        """
.entry k(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd) {
  .reg .b64 %ra, %rb, %rc, %rd; .reg .f64 %a, %b, %c0, %c1, %d0, %d1;
  ld.param.u64 %ra, [pa]; ld.param.u64 %rb, [pb]; ld.param.u64 %rc, [pc]; ld.param.u64 %rd, [pd];
  wmma.load.a.sync.aligned.row.m8n8k4.global.f64 {%a}, [%ra];
  wmma.load.b.sync.aligned.row.m8n8k4.global.f64 {%b}, [%rb];
  wmma.load.c.sync.aligned.row.m8n8k4.global.f64 {%c0, %c1}, [%rc];
  wmma.mma.sync.aligned.row.row.m8n8k4.f64.f64.f64.f64 {%d0, %d1}, {%a}, {%b}, {%c0, %c1};
  wmma.store.d.sync.aligned.row.m8n8k4.global.f64 [%rd], {%d0, %d1};
  ret;
}""",
        [a.astype(np.float64), b.astype(np.float64), c.astype(np.float64), out],
    )
    np.testing.assert_array_equal(out, a @ b + c)

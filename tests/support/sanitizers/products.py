"""Kernels that multiply once by tcgen05.mma, in all its forms, on operands of which a mask says what is ever written.

Each copies those bytes of its operands to shared memory that a mask names, from there to tensor memory what has to be
there, multiplies, and writes the chosen cells of D to global memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sglab import gpu
from sglab._core import tensor
from tests.support.emulator.cute_layouts import Operand
from tests.support.emulator.tcgen05 import A_CODE, idesc

N = 64
A_AT, B_AT, WORDS_AT, IMAGE = 0, 4096, 8192, 18432
WORDS = 20  # of each lane for tensor memory: A, scale factors, metadata
A_COLUMN, SCALE_A, SCALE_B, METADATA = 64, 76, 78, 80  # in tensor memory; D lies before them
COLUMNS = 128

K = {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32, "mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64}
ONE = {"f16": 0x3C00, "bf16": 0x3F80, "tf32": 0x3F800000, "e4m3": 0x38, "e5m2": 0x3C, "s8": 1, "u8": 1}
NARROW = {"e2m1": (4, 2), "e3m2": (6, 12), "e2m3": (6, 8)}  # bits, 1.0
UNIT_BYTES = {"f16": 2, "bf16": 2, "tf32": 4}


@dataclass(frozen=True)
class Form:
    """A product of ones.

    Attributes:
        a_tmem: A is in tensor memory.
        zeroed: with .ws, columns 0 to 31 of B count as zero.
        disabled: lanes 0 to 31 of D are left as they are.
    """

    kind: str
    a: str
    b: str
    m: int = 128
    ctas: int = 1
    ws: bool = False
    sparse: bool = False
    a_tmem: bool = False
    a_mn: bool = False
    b_mn: bool = False
    modifiers: str = ""
    zeroed: bool = False
    disabled: bool = False
    adds: bool = False
    scale: str = ""  # the type of scale factors
    d: str = "f32"

    @property
    def packed(self) -> bool:
        """Two 4-bit elements in a byte."""
        return self.kind in ("mxf4", "mxf4nvf4")

    @property
    def k(self) -> int:
        return K[self.kind] * (2 if self.sparse else 1)

    @property
    def stored_k(self) -> int:
        return K[self.kind]

    @property
    def scaled(self) -> bool:
        return bool(self.scale)

    @property
    def blocks(self) -> list[tuple[int, int, int, int, int, int]]:
        return tensor.datapath(self.m, N, cta_group=self.ctas, weight_stationary=self.ws, sparse=self.sparse)

    def bytes_of(self, element: str) -> int:
        return UNIT_BYTES.get(element, 1)

    def operand(self, rows: int, k: int, element: str, mn: bool) -> Operand:
        """In bytes where elements are narrower; rows of a CTA."""
        length = k // 2 if self.packed else k
        swizzle = "none" if mn and element != "tf32" else "128B_atom_32B" if mn else "none"
        return Operand(rows // self.ctas, length, self.bytes_of(element), swizzle, mn)


def ones(form: Form, element: str, rows: int, k: int) -> np.ndarray:
    """A CTA's rows of 1.0 as shared memory has them."""
    if form.packed:
        return np.full((rows // form.ctas, k // 2), 0x22, np.uint8)
    if element in NARROW:
        bits, code = NARROW[element]
        unit = sum(code << bits * n for n in range(16)).to_bytes(16, "little")
        return np.tile(np.frombuffer(unit, np.uint8), (rows // form.ctas, k // 16))
    kinds = {1: np.uint8, 2: np.uint16, 4: np.uint32}
    return np.full((rows // form.ctas, k), ONE[element], kinds[form.bytes_of(element)])


@dataclass
class Memory:
    """What a launch finds: bytes of shared memory, and which of them it writes, by CTA; the same as words by lane."""

    image: np.ndarray
    mask: np.ndarray  # 0: not written, 1: written, 2: with what counts as never written
    stored: np.ndarray = field(default_factory=lambda: np.ones((4, WORDS), bool))  # by warp: stored to tensor memory

    def words(self, which: np.ndarray) -> np.ndarray:
        """(ctas, 128 lanes, WORDS, 4) bytes, a view."""
        return which[:, WORDS_AT : WORDS_AT + 128 * WORDS * 4].reshape(-1, 128, WORDS, 4)


def memory(form: Form) -> Memory:
    """Everything written."""
    made = Memory(np.zeros((form.ctas, IMAGE), np.uint8), np.ones((form.ctas, IMAGE), np.uint8))
    a, b = ones(form, form.a, form.m, form.stored_k), ones(form, form.b, N, form.k)
    words = made.words(made.image)
    for cta in range(form.ctas):
        form.operand(form.m, form.stored_k, form.a, form.a_mn).place(made.image[cta], A_AT, a)
        form.operand(N, form.k, form.b, form.b_mn).place(made.image[cta], B_AT, b)
    in_tmem = a if form.a not in NARROW or form.packed else np.full(a.shape, NARROW[form.a][1], np.uint8)
    if form.a == "e2m1" and not form.packed:
        in_tmem = in_tmem << 2
    flat = np.ascontiguousarray(in_tmem).view(np.uint8).reshape(len(a), -1, 4)
    words[:, :, : flat.shape[1]] = flat[0]
    one = {"ue8m0": 127, "ue4m3": 0x38, "": 0}[form.scale]
    words[:, :, SCALE_A - A_COLUMN : METADATA - A_COLUMN] = one
    words[:, :, METADATA - A_COLUMN :] = 0x44  # the first two of four, the first of two
    return made


def text(form: Form) -> str:
    group = form.ctas
    a = form.operand(form.m, form.stored_k, form.a, form.a_mn).descriptor(A_AT)
    b = form.operand(N, form.k, form.b, form.b_mn).descriptor(B_AT)
    if form.scaled:
        code = [1 if form.packed else A_CODE[each] for each in (form.a, form.b)]
        word = form.sparse << 2 | code[0] << 7 | code[1] << 10 | (N >> 3) << 17 | (form.m >> 7) << 27
        word |= (form.scale == "ue8m0") << 23 | form.a_mn << 15 | form.b_mn << 16
    else:
        bits = {"a_mn": form.a_mn, "b_mn": form.b_mn, "sparse": form.sparse}
        word = idesc(form.a, form.b, form.d, form.m, N, **{name: int(value) for name, value in bits.items()})
    operands = ["[%base]", "[%at_a]" if form.a_tmem else "%rd10", "%rd11"]
    operands += ["[%metadata]"] if form.sparse else []
    operands += [str(word)]
    if form.disabled:
        operands += ["{%ones, 0, 0, 0" + ", 0, 0, 0, 0" * (group - 1) + "}"]
    operands += ["[%scale_a]", "[%scale_b]"] if form.scaled else []
    operands += ["1" if form.adds else "0"]
    operands += ["%zeroed"] if form.zeroed else []
    name = "tcgen05.mma" + ".ws" * form.ws + ".sp" * form.sparse + f".cta_group::{group}.kind::{form.kind}"
    mma = f"{name}{form.modifiers} {', '.join(operands)};"
    stores = "".join(
        f"ld.shared.b32 %word, [%lane_words + {4 * n}]; and.b32 %t, %unstored, {1 << n};"
        f"setp.eq.u32 %p4, %t, 0; add.u32 %t, %mine, {A_COLUMN + n};"
        "@%p4 tcgen05.st.sync.aligned.32x32b.x1.b32 [%t], {%word};\n"
        for n in range(WORDS)
    )
    reads = "".join(
        f"add.u32 %t, %mine, {first};\ntcgen05.ld.sync.aligned.32x32b.x32.b32"
        f" {{{', '.join(f'%d{n}' for n in range(32))}}}, [%t];\ntcgen05.wait::ld.sync.aligned;\n"
        + "".join(
            f"ld.global.u8 %h1, [%chosen + {first + n}]; setp.ne.u16 %p4, %h1, 0;"
            f"@%p4 st.global.u32 [%cells + {4 * (first + n)}], %d{n};\n"
            for n in range(32)
        )
        for first in range(0, N, 32)
    )
    commit = (
        "mov.u16 %h2, 3; @%p6 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64"
        " [full], %h2;"
        if group == 2
        else "@%p6 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [full];"
    )
    meet = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" if group == 2 else ""
    return f"""
.version 8.8
.target sm_100a
.address_size 64
.visible .entry product(.param .u64 image, .param .u64 nothing, .param .u64 mask,
                       .param .u64 unstored, .param .u64 chosen, .param .u64 out)
{{
  .shared .align 1024 .b8 smem[{IMAGE}];
  .shared .align 8 .b64 full;
  .shared .align 4 .b32 slot;
  .reg .b16 %h<4>; .reg .b32 %r<32>, %d<32>, %word, %t, %mine, %base, %lane_words, %unstored, %ones;
  .reg .b32 %at_a, %scale_a, %scale_b, %metadata;
  .reg .b64 %rd<32>, %chosen, %cells, %zeroed; .reg .pred %p<8>;
  mov.u32 %r0, %tid.x; mov.u32 %r1, smem; shr.u32 %r2, %r0, 5; mov.u32 %r10, %cluster_ctarank;
  setp.eq.u32 %p0, %r0, 0; setp.eq.u32 %p2, %r2, 0; setp.eq.u32 %p5, %r10, 0; and.pred %p6, %p0, %p5;
  ld.param.u64 %rd0, [image]; ld.param.u64 %rd8, [nothing]; ld.param.u64 %rd1, [mask]; ld.param.u64 %rd2, [unstored];
  ld.param.u64 %chosen, [chosen]; ld.param.u64 %cells, [out];
  mul.lo.u32 %r3, %r10, {IMAGE}; cvt.u64.u32 %rd4, %r3; add.s64 %rd0, %rd0, %rd4; add.s64 %rd1, %rd1, %rd4;
  add.s64 %rd8, %rd8, %rd4;
  mad.lo.u32 %r3, %r10, 128, %r0; mul.lo.u32 %r3, %r3, {N}; cvt.u64.u32 %rd4, %r3; add.s64 %chosen, %chosen, %rd4;
  mad.lo.u64 %cells, %rd4, 4, %cells;
  mul.wide.u32 %rd4, %r2, 4; add.s64 %rd2, %rd2, %rd4; ld.global.u32 %unstored, [%rd2];
  mov.u32 %r4, %r0;
COPY:
  cvt.u64.u32 %rd4, %r4; add.s64 %rd5, %rd1, %rd4; ld.global.u8 %h1, [%rd5]; setp.ne.u16 %p3, %h1, 0;
  setp.eq.u16 %p7, %h1, 2; selp.b64 %rd5, %rd8, %rd0, %p7; add.s64 %rd5, %rd5, %rd4;
  ld.global.u8 %h1, [%rd5]; add.u32 %r5, %r1, %r4; @%p3 st.shared.u8 [%r5], %h1;
  add.u32 %r4, %r4, 128; setp.lt.u32 %p3, %r4, {IMAGE}; @%p3 bra COPY;
  @%p0 mbarrier.init.shared::cta.b64 [full], 1;
  fence.mbarrier_init.release.cluster;
  fence.proxy.async.shared::cta;
  @%p2 tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [slot], {COLUMNS};
  tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
  ld.shared.u32 %base, [slot]; shl.b32 %mine, %r2, 21; add.u32 %mine, %mine, %base;
  mad.lo.u32 %lane_words, %r0, {4 * WORDS}, %r1; add.u32 %lane_words, %lane_words, {WORDS_AT};
{stores}
  tcgen05.wait::st.sync.aligned;
  tcgen05.fence::before_thread_sync; bar.sync 0; {meet} tcgen05.fence::after_thread_sync;
  shr.u32 %r6, %r1, 4; cvt.u64.u32 %rd3, %r6;
  mov.b64 %rd10, {a}; add.s64 %rd10, %rd10, %rd3; mov.b64 %rd11, {b}; add.s64 %rd11, %rd11, %rd3;
  add.u32 %at_a, %base, {A_COLUMN}; add.u32 %scale_a, %base, {SCALE_A}; add.u32 %scale_b, %base, {SCALE_B};
  add.u32 %metadata, %base, {METADATA}; mov.u32 %ones, -1; mov.b64 %zeroed, {1 << 39 | 31 << 40 | 31 << 48 | 1 << 32};
  @%p6 {mma}
  {commit}
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p1, [full], 0; @!%p1 bra WAIT;
  tcgen05.fence::after_thread_sync;
{reads}
  tcgen05.fence::before_thread_sync; bar.sync 0; {meet} tcgen05.fence::after_thread_sync;
  @%p2 tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 %base, {COLUMNS};
  ret;
}}
"""


class Product:
    """A form's kernel."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.kernel = gpu.Module(text(form), "product.ptx")["product"]

    def launch(self, given: Memory, chosen: np.ndarray) -> tuple[list[str], np.ndarray]:
        """The findings of a launch that writes the chosen cells (ctas, 128, N), and those cells."""
        form = self.form
        device = gpu.EmulatedDevice("sm_100a", sanitize={"memory"})
        image = torch.from_numpy(given.image)
        nothing, out = image.clone(), torch.zeros(form.ctas, 128, N, dtype=torch.int32)
        device.mark_uninitialized(nothing)  # the same bytes
        unstored = (~given.stored).astype(np.int64) @ (1 << np.arange(WORDS))
        arguments = [
            image, nothing, torch.from_numpy(given.mask),
            torch.from_numpy(unstored.astype(np.int32)), torch.from_numpy(chosen.astype(np.uint8)), out,
        ]  # fmt: skip
        report = self.kernel.launch(device, grid=form.ctas, cluster=form.ctas, block=128, args=arguments)
        return [f"{each.kind}: {each}" for each in report.findings], out.numpy()

    def cells(self, rows: Iterable[int] = (), columns: Iterable[int] = ()) -> np.ndarray:
        """Where tensor memory has these rows and columns of D."""
        of_d = np.zeros((self.form.m, N), bool)
        of_d[list(rows)] = True
        of_d[:, list(columns)] = True
        return self.placed(of_d)

    def placed(self, of_d: np.ndarray) -> np.ndarray:
        where = np.zeros((self.form.ctas, 128, N), bool)
        for cta, lane, row, rows, column, columns in self.form.blocks:
            where[cta, lane : lane + rows, :columns] = of_d[row : row + rows, column : column + columns]
        if self.form.disabled:
            where[0, :32] = False
        return where

    def check(self, given: Memory, unknown: np.ndarray) -> None:
        """Those cells are found when they are read, one by one, and the others never."""
        found, _ = self.launch(given, self.placed(np.ones((self.form.m, N), bool)) & ~unknown)
        assert found == []
        places = np.argwhere(unknown)
        for place in (0, len(places) - 1, np.random.default_rng().integers(len(places))):
            chosen = np.zeros_like(unknown)
            chosen[tuple(places[place])] = True
            found, _ = self.launch(given, chosen)
            assert [each.split(":")[0] for each in found] == ["uninitialised_read"], tuple(places[place])


DENSE = {
    "f16": Form("f16", "f16", "f16"),
    "bf16, A and B by columns": Form("f16", "bf16", "bf16", a_mn=True, b_mn=True),
    "tf32": Form("tf32", "tf32", "tf32"),
    "tf32 by columns": Form("tf32", "tf32", "tf32", a_mn=True, b_mn=True),
    "e4m3 and e5m2": Form("f8f6f4", "e4m3", "e5m2"),
    "e5m2 by columns": Form("f8f6f4", "e5m2", "e4m3", a_mn=True, b_mn=True),
    "s8": Form("i8", "s8", "u8", d="s32"),
    "f16 accumulators": Form("f16", "f16", "f16", d="f16"),
    "M = 64": Form("f16", "f16", "f16", m=64),
    "e2m1, padded": Form("f8f6f4", "e2m1", "e2m1"),
    "e3m2 and e2m3, padded": Form("f8f6f4", "e3m2", "e2m3"),
    "pair": Form("f16", "f16", "f16", m=256, ctas=2),
    "pair, M = 128": Form("f16", "f16", "f16", m=128, ctas=2),
    "pair, e4m3": Form("f8f6f4", "e4m3", "e4m3", m=256, ctas=2),
    "pair, B by columns": Form("f16", "f16", "f16", m=256, ctas=2, b_mn=True),
    ".ws, M = 32": Form("f16", "f16", "f16", m=32, ws=True),
    ".ws, M = 64": Form("f8f6f4", "e4m3", "e4m3", m=64, ws=True),
    ".ws, M = 128": Form("tf32", "tf32", "tf32", ws=True),
    "collector": Form("f16", "f16", "f16", modifiers=".collector::a::fill"),
    ".ws, collector": Form("f16", "f16", "f16", ws=True, modifiers=".collector::b1::lastuse"),
}
SPARSE = {
    "f16": Form("f16", "f16", "f16", sparse=True),
    "tf32": Form("tf32", "tf32", "tf32", sparse=True),
    "e4m3": Form("f8f6f4", "e4m3", "e4m3", sparse=True),
    "s8": Form("i8", "s8", "s8", sparse=True, d="s32"),
    "pair, M = 256": Form("f16", "f16", "f16", m=256, ctas=2, sparse=True),
    "pair, M = 128": Form("f8f6f4", "e5m2", "e5m2", m=128, ctas=2, sparse=True),
    "pair, M = 128, f16": Form("f16", "f16", "f16", m=128, ctas=2, sparse=True),
    "M = 64": Form("f16", "f16", "f16", m=64, sparse=True),
    ".ws": Form("f16", "f16", "f16", m=32, ws=True, sparse=True),
    "mxf8f6f4": Form("mxf8f6f4", "e4m3", "e4m3", sparse=True, scale="ue8m0", modifiers=".block_scale"),
    "mxf4": Form("mxf4", "e2m1", "e2m1", sparse=True, scale="ue8m0", modifiers=".block_scale"),
}
SCALED = {
    "mxf8f6f4": Form("mxf8f6f4", "e4m3", "e5m2", scale="ue8m0", modifiers=".block_scale"),
    "mxf8f6f4, e2m1": Form("mxf8f6f4", "e2m1", "e3m2", scale="ue8m0", modifiers=".block_scale"),
    "mxf4": Form("mxf4", "e2m1", "e2m1", scale="ue8m0", modifiers=".block_scale"),
    "mxf4nvf4": Form("mxf4nvf4", "e2m1", "e2m1", scale="ue4m3", modifiers=".block_scale.scale_vec::4X"),
    "pair, M = 256": Form("mxf8f6f4", "e4m3", "e4m3", m=256, ctas=2, scale="ue8m0", modifiers=".block_scale"),
    "pair, M = 128": Form(
        "mxf4nvf4", "e2m1", "e2m1", m=128, ctas=2, scale="ue4m3", modifiers=".block_scale.scale_vec::4X"
    ),
}
IN_TENSOR_MEMORY = {
    "f16": Form("f16", "f16", "f16", a_tmem=True),
    "tf32": Form("tf32", "tf32", "tf32", a_tmem=True),
    "e4m3": Form("f8f6f4", "e4m3", "e4m3", a_tmem=True),
    "e2m1, padded": Form("f8f6f4", "e2m1", "e4m3", a_tmem=True),
    "M = 64": Form("f16", "f16", "f16", m=64, a_tmem=True),
    "pair, M = 256": Form("f16", "f16", "f16", m=256, ctas=2, a_tmem=True),
    "pair, M = 128": Form("f16", "f16", "f16", m=128, ctas=2, a_tmem=True),
    ".ws, M = 32": Form("f16", "f16", "f16", m=32, ws=True, a_tmem=True),
    "sparse": Form("f16", "f16", "f16", sparse=True, a_tmem=True),
    "mxf4": Form("mxf4", "e2m1", "e2m1", a_tmem=True, scale="ue8m0", modifiers=".block_scale"),
    "s8": Form("i8", "s8", "s8", a_tmem=True, d="s32"),
}
ASHIFT = {
    "M = 128": Form("f16", "f16", "f16", a_tmem=True, modifiers=".ashift"),
    "pair, M = 256": Form("f16", "f16", "f16", m=256, ctas=2, a_tmem=True, modifiers=".ashift"),
    "pair, M = 128": Form("f16", "f16", "f16", m=128, ctas=2, a_tmem=True, modifiers=".ashift"),
}
ALL = {
    **DENSE,
    **{f"sparse, {name}": form for name, form in SPARSE.items()},
    **{f"scaled, {name}": form for name, form in SCALED.items()},
    **{f"A in tensor memory, {name}": form for name, form in IN_TENSOR_MEMORY.items()},
    **{f"shifted, {name}": form for name, form in ASHIFT.items()},
    "zeroed": Form("f16", "f16", "f16", ws=True, zeroed=True),
    "disabled": Form("f16", "f16", "f16", disabled=True),
}

"""PTX for wgmma microbenchmarks: groups of products on one accumulator, waited for after each group."""

from __future__ import annotations

from dataclasses import dataclass

from microbench.chains import HEADER


@dataclass(frozen=True)
class Product:
    """wgmma.mma_async of m64n{n}: `types` as in its mnemonic, k elements of K; A from registers or shared memory."""

    n: int
    types: str
    k: int
    a_in_registers: bool = False

    @property
    def name(self) -> str:
        return f"wgmma_n{self.n}_{self.types.replace('.', '_')}_{'rs' if self.a_in_registers else 'ss'}"


PRODUCTS = (
    *(Product(n, "f32.bf16.bf16", 16) for n in (8, 16, 32, 64, 96, 128, 192, 256)),
    *(Product(n, "f32.bf16.bf16", 16, True) for n in (8, 64, 128, 256)),
    Product(128, "f16.f16.f16", 16),
    Product(64, "f32.e4m3.e4m3", 32),
    Product(256, "f32.e4m3.e4m3", 32),
    Product(128, "f32.tf32.tf32", 8),
    Product(128, "s32.s8.s8", 32),
)
GROUPS = (1, 2, 8)
"""Products per group."""


def entry_name(product: Product, group: int) -> str:
    return f"{product.name}_g{group}"


def program(product: Product, group: int) -> str:
    """An entry (out: u64 cycles, trips: u32) for any number of warpgroups. Operands are zeros in shared memory, with
    the 128-byte swizzle; K-major both."""
    packed = product.types.startswith("f16")
    count = product.n // (4 if packed else 2)
    kind = "f32" if product.types.startswith("f32") else "b32"
    accumulator = "{" + ", ".join(f"%d{i}" for i in range(count)) + "}"
    a = "{%a0, %a1, %a2, %a3}" if product.a_in_registers else "%da"
    integer, half = product.types.startswith("s32"), "16." in product.types
    scales = "" if integer else ", 1, 1"
    major = (", 0" if product.a_in_registers else ", 0, 0") if half else ""
    one = (
        f"  wgmma.mma_async.sync.aligned.m64n{product.n}k{product.k}.{product.types} {accumulator}, {a}, %db, "
        f"%p1{scales}{major};"
    )
    zero = "0f00000000" if kind == "f32" else "0"
    clear = "\n".join(f"  mov.{kind} %d{i}, {zero};" for i in range(count))
    total = "\n".join(f"  {'add.f32' if kind == 'f32' else 'add.u32'} %d0, %d0, %d{i};" for i in range(1, count))
    return f"""
.visible .entry {entry_name(product, group)}(.param .u64 out, .param .u32 trips)
{{
  .reg .pred %p, %p1; .reg .b32 %trips, %thread, %base, %t, %a<4>; .reg .b64 %out, %start, %end, %da, %db;
  .reg .{kind} %d<{count}>;
  .shared .align 1024 .b8 memory[49152];
  ld.param.u64 %out, [out]; ld.param.u32 %trips, [trips]; mov.u32 %thread, %tid.x; mov.u32 %base, memory;
  mov.u32 %a0, 0; mov.u32 %a1, 0; mov.u32 %a2, 0; mov.u32 %a3, 0; mov.u32 %t, %thread;
clear:
  mad.lo.u32 %a0, %t, 4, %base; st.shared.b32 [%a0], 0; mov.u32 %a1, %ntid.x; add.u32 %t, %t, %a1;
  setp.lt.u32 %p, %t, 12288;
  @%p bra clear;
  mov.u32 %a0, 0; mov.u32 %a1, 0; fence.proxy.async.shared::cta;
  shr.u32 %t, %base, 4; cvt.u64.u32 %da, %t; or.b64 %da, %da, 0x4000004000010000; add.u64 %db, %da, 1024;
  setp.eq.u32 %p1, 0, 0;
{clear}
  bar.sync 0;
  mov.u64 %start, %clock64;
loop:
  wgmma.fence.sync.aligned;
{chr(10).join([one] * group)}
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
  sub.u32 %trips, %trips, 1;
  setp.ne.u32 %p, %trips, 0;
  @%p bra loop;
{total}
  mad.lo.u32 %t, %thread, 4, %base;
  st.volatile.shared.{kind} [%t], %d0;
  bar.sync 0;
  mov.u64 %end, %clock64;
  sub.u64 %end, %end, %start;
  setp.eq.u32 %p, %thread, 0;
  @%p st.global.u64 [%out], %end;
  ret;
}}
"""


def module() -> str:
    return HEADER + "".join(program(product, group) for product in PRODUCTS for group in GROUPS)

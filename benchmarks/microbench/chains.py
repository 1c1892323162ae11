"""PTX for instruction microbenchmarks: a loop that repeats an instruction, between two readings of the SM's clock.

A program runs for two trip counts, and only the difference counts, so what surrounds the loop does not. With one chain
of dependent instructions in one warp a repetition takes its latency; with many chains in many warps, its share of the
unit's throughput.
"""

from __future__ import annotations

from dataclasses import dataclass

UNROLL = 32

HEADER = ".version 8.8\n.target sm_90a\n.address_size 64\n"


@dataclass(frozen=True)
class Chain:
    """An instruction, or a few that make up one repetition.

    body: PTX of one repetition; {d} is the chain's register, {a}, {b} operands of its type
    kind: register type of the chain: r (32-bit), l (64-bit), f (f32), d (f64), or s (an address in shared memory that
        holds its own address)
    stride: bytes between the shared addresses of neighbouring lanes
    count: instructions of interest in one repetition
    warps: for which the throughput is measured
    """

    name: str
    body: str
    kind: str = "r"
    stride: int = 4
    count: int = 1
    warps: tuple[int, ...] = (16,)


_TYPES = {"r": "b32", "s": "b32", "l": "b64", "f": "f32", "d": "f64"}
_SEED = {
    "r": "add.u32 {d}, %thread, {c};",
    "l": "cvt.u64.u32 {d}, %thread;",
    "f": "add.u32 %t0, %thread, 2; cvt.rn.f32.u32 {d}, %t0;",
    "d": "cvt.rn.f64.u32 {d}, %thread;",
}
_RESULT = {
    "r": "xor.b32 %sum, %sum, {d};",
    "s": "xor.b32 %sum, %sum, {d};",
    "l": "mov.b64 {{%t0, %t1}}, {d}; xor.b32 %sum, %sum, %t0; xor.b32 %sum, %sum, %t1;",
    "f": "mov.b32 %t0, {d}; xor.b32 %sum, %sum, %t0;",
    "d": "cvt.rn.f32.f64 %tf, {d}; mov.b32 %t0, %tf; xor.b32 %sum, %sum, %t0;",
}


def entry_name(chain: Chain, chains: int) -> str:
    return f"{chain.name}_x{chains}"


def program(chain: Chain, chains: int) -> str:
    """An entry (out: u64 cycles, trips: u32, ka: u32, kb: u32) for a CTA of any number of warps."""
    registers = [f"%c{number}" for number in range(chains)]
    body = "\n".join(f"  {{ {_with(chain, register, number)} }}" for number in range(UNROLL) for register in registers)
    return f"""
.visible .entry {entry_name(chain, chains)}(.param .u64 out, .param .u32 trips, .param .u32 ka, .param .u32 kb)
{{
  .reg .pred %p, %q; .reg .b32 %thread, %trips, %ra, %rb, %sum, %t0, %t1, %base; .reg .b64 %la, %lb, %out, %start, %end;
  .reg .f32 %fa, %fb, %tf; .reg .f64 %da, %db; .reg .{_TYPES[chain.kind]} %c<{chains}>; .reg .b32 %x<4>;
  .reg .b16 %h; .reg .b64 %m;
  .shared .align 128 .b8 memory[40960];
  ld.param.u64 %out, [out]; ld.param.u32 %trips, [trips]; ld.param.u32 %ra, [ka]; ld.param.u32 %rb, [kb];
  mov.u32 %thread, %tid.x; mov.u32 %sum, 0; mov.u32 %base, memory;
  cvt.rn.f32.u32 %fa, %ra; cvt.rn.f32.u32 %fb, %rb; cvt.u64.u32 %la, %ra; cvt.u64.u32 %lb, %rb;
  cvt.f64.f32 %da, %fa; cvt.f64.f32 %db, %fb;
{_seeds(chain, registers)}
  bar.sync 0;
  mov.u64 %start, %clock64;
loop:
{body}
  sub.u32 %trips, %trips, 1;
  setp.ne.u32 %p, %trips, 0;
  @%p bra loop;
{chr(10).join("  " + _RESULT[chain.kind].format(d=register) for register in registers)}
  mad.lo.u32 %t1, %thread, 4, %base;
  st.volatile.shared.b32 [%t1+36864], %sum;
  bar.sync 0;
  mov.u64 %end, %clock64;
  sub.u64 %end, %end, %start;
  setp.eq.u32 %p, %thread, 0;
  @%p st.global.u64 [%out], %end;
  ret;
}}
"""


def _with(chain: Chain, register: str, number: int) -> str:
    letter = {"s": "r"}.get(chain.kind, chain.kind)
    return chain.body.format(d=register, a=f"%{letter}a", b=f"%{letter}b", i=number)


def _seeds(chain: Chain, registers: list[str]) -> str:
    if chain.kind != "s":
        return "\n".join("  " + _SEED[chain.kind].format(d=register, c=i) for i, register in enumerate(registers))
    # Each lane's address, the same in every warp, holds that address.
    lines = [f"  and.b32 %t0, %thread, 31; mad.lo.u32 %t1, %t0, {chain.stride}, %base;"]
    for register in registers:
        lines.append(f"  mov.b32 {register}, %t1; st.shared.b32 [{register}], {register};")
    return "\n".join(lines)


def _unary(name: str, opcode: str, kind: str = "f") -> Chain:
    return Chain(name, f"{opcode} {{d}}, {{d}};", kind)


def _shared(name: str, body: str, stride: int = 4) -> Chain:
    return Chain(name, body, "s", stride, warps=(1, 4, 16))


INSTRUCTIONS: tuple[Chain, ...] = (
    Chain("fma_f32", "fma.rn.f32 {d}, {d}, {a}, {b};", "f", warps=(4, 8, 16)),
    Chain("add_f32", "add.rn.f32 {d}, {d}, {a};", "f"),
    Chain("mul_f32", "mul.rn.f32 {d}, {d}, {a};", "f"),
    Chain("max_f32", "max.f32 {d}, {d}, {a}; min.f32 {d}, {d}, {b};", "f", count=2),
    Chain("fma_f16x2", "fma.rn.f16x2 {d}, {d}, {a}, {b};"),
    Chain("fma_bf16x2", "fma.rn.bf16x2 {d}, {d}, {a}, {b};"),
    Chain("fma_f64", "fma.rn.f64 {d}, {d}, {a}, {b};", "d"),
    Chain("add_s32", "add.s32 {d}, {d}, {a}; xor.b32 {d}, {d}, {b};", count=2),
    Chain("mad_s32", "mad.lo.s32 {d}, {d}, {a}, {b};"),
    Chain("mad_wide", "mad.wide.u32 {d}, %ra, %rb, {d};", "l"),
    Chain("add_s64", "add.s64 {d}, {d}, {a};", "l"),
    Chain("mul_lo_s64", "mul.lo.s64 {d}, {d}, {a};", "l"),
    Chain("shf", "shf.l.wrap.b32 {d}, {d}, {a}, 7;"),
    Chain("lop3", "lop3.b32 {d}, {d}, {a}, {b}, 0xe8; add.s32 {d}, {d}, {a};", count=2),
    Chain("prmt", "prmt.b32 {d}, {d}, {a}, 0x2541;"),
    Chain("popc", "popc.b32 {d}, {d};"),
    Chain("setp_selp", "setp.lt.s32 %q, {d}, {a}; selp.b32 {d}, {b}, {d}, %q;", count=2),
    Chain("min_max_s32", "min.s32 {d}, {d}, {a}; max.s32 {d}, {d}, {b};", count=2),
    _unary("ex2_ftz", "ex2.approx.ftz.f32"),
    Chain("ex2_and_add", "ex2.approx.f32 {d}, {d}; add.f32 {d}, {d}, {a};", "f", count=2),
    _unary("lg2_ftz", "lg2.approx.ftz.f32"),
    Chain("rcp_ftz", "rcp.approx.ftz.f32 {d}, {d}; add.f32 {d}, {d}, {a};", "f", count=2),
    _unary("rsqrt_ftz", "rsqrt.approx.ftz.f32"),
    _unary("sqrt_ftz", "sqrt.approx.ftz.f32"),
    _unary("sin", "sin.approx.ftz.f32"),
    _unary("tanh", "tanh.approx.f32"),
    _unary("sqrt_rn", "sqrt.rn.f32"),
    _unary("rcp_rn", "rcp.rn.f32"),
    Chain("div_full", "div.full.f32 {d}, {a}, {d};", "f"),
    Chain("div_rn", "div.rn.f32 {d}, {a}, {d};", "f"),
    Chain("div_s32", "div.s32 {d}, {a}, {d}; or.b32 {d}, {d}, {b};"),
    Chain("cvt_bf16x2", "cvt.rn.bf16x2.f32 %t0, {d}, {d}; mov.b32 {d}, %t0;", "f"),
    Chain("cvt_f16_and_back", "cvt.rn.f16.f32 %h, {d}; cvt.f32.f16 {d}, %h;", "f", count=2),
    Chain("cvt_s32_and_back", "cvt.rzi.s32.f32 %t0, {d}; cvt.rn.f32.s32 {d}, %t0;", "f", count=2),
    Chain(
        "cvt_u64_u32",
        "cvt.u32.u64 %t0, {d}; xor.b32 %t0, %t0, %ra; cvt.s64.s32 {d}, %t0; add.s64 {d}, {d}, {a};",
        "l",
        count=4,
    ),
    Chain("shfl_bfly", "shfl.sync.bfly.b32 {d}, {d}, 1, 31, 0xffffffff;"),
    Chain("vote_ballot", "setp.lt.s32 %q, {d}, {a}; vote.sync.ballot.b32 {d}, %q, 0xffffffff;", count=2),
    Chain("redux", "redux.sync.add.s32 {d}, {d}, 0xffffffff;"),
    Chain("match_any", "match.any.sync.b32 {d}, {d}, 0xffffffff;"),
    Chain("movmatrix", "movmatrix.sync.aligned.m8n8.trans.b16 {d}, {d};"),
    _shared("ld_shared", "ld.volatile.shared.b32 {d}, [{d}];"),
    _shared("ld_shared_2way", "ld.volatile.shared.b32 {d}, [{d}];", 8),
    _shared("ld_shared_4way", "ld.volatile.shared.b32 {d}, [{d}];", 16),
    _shared("ld_shared_8way", "ld.volatile.shared.b32 {d}, [{d}];", 32),
    _shared("ld_shared_32way", "ld.volatile.shared.b32 {d}, [{d}];", 128),
    _shared("ld_shared_v2", "ld.volatile.shared.v2.b32 {{{d}, %x0}}, [{d}];", 8),
    _shared("ld_shared_v4", "ld.volatile.shared.v4.b32 {{{d}, %x0, %x1, %x2}}, [{d}];", 16),
    _shared("st_shared", "st.volatile.shared.b32 [{d}], {d};"),
    _shared("st_shared_v4", "st.volatile.shared.v4.b32 [{d}], {{{d}, {d}, {d}, {d}}};", 16),
    _shared(
        "ldmatrix_x4",
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%x0, %x1, %x2, %x3}}, [{d}]; and.b32 %x0, %x0, {b}; "
        "add.u32 {d}, {d}, %x0;",
        16,
    ),
    _shared("stmatrix_x4", "stmatrix.sync.aligned.m8n8.x4.shared.b16 [{d}], {{{d}, {d}, {d}, {d}}};", 16),
    _shared("atom_shared", "atom.shared.add.u32 %x0, [{d}+8192], 0; and.b32 %x0, %x0, {b}; add.u32 {d}, {d}, %x0;"),
    Chain("bar_sync", "bar.sync 1;", warps=(1, 2, 4, 8, 16, 32)),
    Chain("bar_warp_sync", "bar.warp.sync 0xffffffff;"),
    Chain("fence_proxy_async", "fence.proxy.async.shared::cta;", warps=(1, 4)),
    Chain("membar_cta", "membar.cta;", warps=(1, 4)),
    Chain("membar_gl", "membar.gl;", warps=(1, 4)),
    Chain(
        "mma_f16",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{{d}, %fa, %fb, %tf}}, {{%ra, %ra, %ra, %ra}}, "
        "{{%rb, %rb}}, {{{d}, {d}, {d}, {d}}};",
        "f",
        warps=(4, 8, 16),
    ),
)
CHAINS = (1, 4)


def module() -> str:
    """All of them, with one chain and with four."""
    return HEADER + "".join(program(chain, chains) for chain in INSTRUCTIONS for chains in CHAINS)

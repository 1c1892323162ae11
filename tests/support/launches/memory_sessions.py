"""Sessions for the memory widgets' tests: small tcgen05 launches of known contents, and the shipped MLA kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sglab import gpu
from sglab.emulator.session import Session
from sglab.gpu.geometry import LaunchConfig
from tests.support.emulator.cute_layouts import Operand
from tests.support.emulator.tcgen05 import idesc
from tests.support.emulator.tensor_core_ptx import A_AT, COPY, PARAMETERS, SHARED, WAIT, Operands
from tests.support.emulator.tensor_ptx import kernel_text

N, COLUMNS = 64, 128
ALLOC = f"""
@%p2 tcgen05.alloc.cta_group::GROUP.sync.aligned.shared::cta.b32 [slot], {COLUMNS};
tcgen05.fence::before_thread_sync;
bar.sync 0;
tcgen05.fence::after_thread_sync;
ld.shared.u32 %r9, [slot];
shl.b32 %r8, %r2, 21;
add.u32 %r8, %r8, %r9;
"""
ONES = "mov.u32 %r7, 0x3f800000;\n" + "".join(
    f"add.u32 %r15, %r8, {at};\ntcgen05.st.sync.aligned.32x32b.x32.b32 [%r15], {{{', '.join(['%r7'] * 32)}}};\n"
    for at in range(0, N, 32)
)
SYNC = (
    "tcgen05.wait::st.sync.aligned;\ntcgen05.fence::before_thread_sync;\n"
    "bar.sync 0;\ntcgen05.fence::after_thread_sync;\n"
)
CLUSTER = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
ONE_CTA = (
    "@%p0 tcgen05.mma.cta_group::1.kind::f16 [%r9], %rd10, %rd11, %r16, 1;\n"
    "@%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [full];\n"
)
PAIR = (
    "setp.eq.u32 %p6, %r10, 0;\nand.pred %p6, %p6, %p0;\nmov.u16 %h1, 3;\n"
    "@%p6 tcgen05.mma.cta_group::2.kind::f16 [%r9], %rd10, %rd11, %r16, 1;\n"
    "@%p6 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [full], %h1;\n"
)
READ = "tcgen05.fence::after_thread_sync;\n" + "".join(
    f"add.u32 %r15, %r8, {at};\ntcgen05.ld.sync.aligned.32x32b.x32.b32 "
    f"{{{', '.join(f'%r{20 + n}' for n in range(32))}}}, [%r15];\ntcgen05.wait::ld.sync.aligned;\n"
    for at in range(0, N, 32)
)
FREE = f"bar.sync 0;\n@%p2 tcgen05.dealloc.cta_group::GROUP.sync.aligned.b32 %r9, {COLUMNS};\n"


@dataclass
class Product:
    """D = 1 + A B of one tcgen05.mma, alone or as a pair; A and B lie in shared memory with a 128-byte swizzle."""

    session: Session
    expected: np.ndarray
    operands: Operands


def product(m: int = 128, pair: bool = False, nan_row: int | None = None) -> Product:
    """nan_row: this row of A is NaN."""
    ctas = 2 if pair else 1
    operands = Operands("f16", m, N, 16, ctas=ctas)
    if nan_row is not None:
        operands.a_raw[nan_row] = 0x7E00
        operands.product[nan_row] = np.nan
        for cta in range(ctas):
            rows = slice(cta * m // ctas, (cta + 1) * m // ctas)
            Operand(m // ctas, 16, 2, "128B", False).place(operands.image[cta], A_AT, operands.a_raw[rows])
    body = COPY + ALLOC + ONES + SYNC + CLUSTER + f"mov.u32 %r16, {idesc('f16', 'f16', 'f32', m, N)};\n"
    body += operands.descriptors + (PAIR if pair else ONE_CTA) + WAIT + READ + FREE
    text = kernel_text(body.replace("GROUP", str(ctas)).replace("; ", ";\n"), PARAMETERS, shared=SHARED)
    out, image = torch.zeros(1), torch.from_numpy(operands.image)
    session = gpu.Module(text, "product.ptx")["kernel"].session(
        gpu.EmulatedDevice("sm_100a"), grid=ctas, cluster=ctas, block=128, smem=65536, args=[out, image]
    )
    return Product(session, operands.product + 1, operands)


def no_tensor_memory() -> Session:
    text = kernel_text("mov.u32 %r0, 1;", "")
    return gpu.Module(text, "plain.ptx")["kernel"].session(gpu.EmulatedDevice("sm_100a"), grid=2, block=32)


def failing() -> Session:
    """Allocates tensor memory, stores to shared memory, then traps."""
    text = kernel_text(
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;\nst.shared.u32 [other], 7;\ntrap;",
        "",
        shared=SHARED,
    )
    return gpu.Module(text, "trap.ptx")["kernel"].session(gpu.EmulatedDevice("sm_100a"), grid=1, block=32)


FREED_TOO_EARLY = """
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
bar.warp.sync 0xffffffff;
ld.shared.u32 %r9, [slot];
mov.u32 %r7, 5;
tcgen05.st.sync.aligned.32x32b.x1.b32 [%r9], {%r7};
tcgen05.wait::st.sync.aligned;
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r9, 32;
tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r20}, [%r9];
tcgen05.wait::ld.sync.aligned;
"""


def freed_too_early() -> Session:
    """Loads from tensor memory that has been deallocated, under the sanitizers."""
    text = kernel_text(FREED_TOO_EARLY, "", shared=SHARED)
    device = gpu.EmulatedDevice("sm_100a", sanitize=True)
    return gpu.Module(text, "freed.ptx")["kernel"].session(device, grid=1, block=32)


def mla_sm100(seq_len: int = 512, batch: int = 1) -> Session:
    """The shipped SM100 MLA decode on a random batch, 128 heads, pages of 128."""
    from sglab.kernels.mla import MlaSm100
    from sglab.kernels.mla.sm100_contract import check

    torch.manual_seed(seq_len)
    pages = -(-seq_len // 128)
    device = gpu.EmulatedDevice("sm_100a")
    tensors: list[Any] = [
        torch.randn(batch, 128, 512).half(),
        torch.randn(batch, 128, 64).half(),
        torch.randn(batch * pages, 128, 576).half(),
        torch.arange(batch * pages, dtype=torch.int32).view(batch, pages),
    ]
    lengths = torch.full((batch,), seq_len, dtype=torch.int32)
    kernel = MlaSm100(device, batch, 128)
    arguments = check(lengths, None, 1, None, *tensors, 192**-0.5, None, None, "e")
    return device.session(kernel.prepare(arguments)[0], keep=(tensors, lengths, kernel, arguments))


def corpus_with_arguments(name: str, seed: int = 0) -> tuple[Session, list[Any]]:
    """A launch of the emulator's corpus under control: "cp_async_copy.sm_80", "wgmma_gemm.sm_90a"; its arguments."""
    from tests.support.corpus import sm80_launches, sm90_launches, sm100_launches
    from tests.support.corpus.launch import Draw, _argument, module

    known = (*sm80_launches.launches("sm_80"), *sm90_launches.launches(), *sm100_launches.launches())
    (launch,) = [one for one in known if one.name == name]
    device = gpu.EmulatedDevice(name.rpartition(".")[2])
    arguments = [_argument(argument) for argument in launch.make(Draw(seed))]
    kernel = module(launch.module)[launch.entry]
    config = LaunchConfig(launch.grid, launch.block, launch.cluster, launch.smem)
    session = kernel.session(device, config, args=arguments)
    return session, arguments


def corpus(name: str, seed: int = 0) -> Session:
    return corpus_with_arguments(name, seed)[0]


def mla_sm90(seq_len: int = 128) -> Session:
    """The shipped SM90 MLA decode: wgmma on swizzled tiles."""
    from sglab.kernels.mla import MlaSm90
    from sglab.kernels.mla.arguments import check
    from sglab.kernels.mla.sm90 import OPERATOR
    from sglab.planning.mla_sm90 import mla_sm90_plan

    torch.manual_seed(seq_len)
    pages = -(-seq_len // 64)
    device = gpu.EmulatedDevice("sm_90a")
    q_nope, q_pe = torch.randn(1, 64, 512).half(), torch.randn(1, 64, 64).half()
    kv_cache = torch.randn(pages, 64, 576).half()
    page_table = torch.arange(pages, dtype=torch.int32).view(1, pages)
    kernel = MlaSm90(device, mla_sm90_plan([seq_len], num_heads=64, sm_count=device.sms), 64)
    arguments = check(OPERATOR, q_nope, q_pe, kv_cache, page_table, 192**-0.5, None, None, "e")
    return device.session(kernel.prepare(arguments)[0], keep=(kernel, arguments))

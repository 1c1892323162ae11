"""Which bytes of shared memory a session knows to be written: by stores, copies, barriers, allocations, and peers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sglab import gpu
from sglab.emulator.session import Session

BUFFER = 0x400  # static shared memory starts after the system's kilobyte
HEADER = ".version 8.7\n.target sm_100a\n.address_size 64\n"


def opened(body: str, block: int = 32, cluster: int = 1) -> Session:
    text = (
        HEADER + ".visible .entry kernel(.param .u64 src)\n{\n.shared .align 1024 .b8 buffer[4096];\n"
        ".reg .b16 %h<8>; .reg .b32 %r<32>; .reg .b64 %rd<16>; .reg .pred %p<8>;\n"
        "ld.param.u64 %rd1, [src]; mov.u32 %r0, %tid.x; mov.u32 %r1, buffer;"
        "shl.b32 %r2, %r0, 2; add.u32 %r3, %r1, %r2;"
        f"setp.eq.u32 %p1, %r0, 0;\n{body}\nbarrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\nexit;\n}}\n"
    )
    source: Any = torch.zeros(1024, dtype=torch.int32)  # zeros are written like anything else
    device = gpu.EmulatedDevice("sm_100a")
    kernel = gpu.load(text)["kernel"]
    return kernel.session(device, grid=cluster, block=block, cluster=cluster, args=[source])


def written(session: Session, cta: int = 0) -> list[tuple[int, int]]:
    """Runs of written bytes, as [begin, end) offsets in the buffer, when the last instruction is reached."""
    session.run_to(opcode="exit")
    edges = np.flatnonzero(np.diff(np.concatenate([[0], session.shared_written(cta)[BUFFER:].astype(int), [0]])))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


CASES = {
    "a store of each lane": ("st.shared.u32 [%r3], %r0;", [(0, 128)]),
    "bytes of zero": ("mov.u16 %h1, 0; st.shared.u8 [%r3], %h1;", [(4 * lane, 4 * lane + 1) for lane in range(32)]),
    "lanes that a guard lets through": ("@%p1 st.shared.v4.u32 [%r3+64], {%r0, %r0, %r0, %r0};", [(64, 80)]),
    "a generic store": (
        "cvt.u64.u32 %rd2, %r3; cvta.shared.u64 %rd2, %rd2; st.u16 [%rd2], %h0;",
        [(4 * lane, 4 * lane + 2) for lane in range(32)],
    ),
    "loads write nothing": ("ld.shared.u32 %r4, [%r3]; ld.global.u32 %r5, [%rd1];", []),
    "an atomic": ("@%p1 atom.shared.add.u32 %r4, [%r3], 1;", [(0, 4)]),
    "an mbarrier": ("@%p1 mbarrier.init.shared::cta.b64 [buffer+8], 1;", [(8, 16)]),
    "cp.async": (
        "shl.b32 %r4, %r0, 4; add.u32 %r4, %r4, %r1; cp.async.cg.shared.global [%r4], [%rd1], 16; cp.async.wait_all;",
        [(0, 512)],
    ),
    "cp.async without a wait": ("cp.async.ca.shared.global [%r3], [%rd1], 4;", []),
    "a matrix move": (
        "shl.b32 %r4, %r0, 4; add.u32 %r4, %r4, %r1;stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r4], {%r0, %r0};",
        [(0, 256)],
    ),
    "an allocation of tensor memory": (
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [buffer+32], 32; ld.shared.u32 %r4, [buffer+32];"
        "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, 32;",
        [(32, 36)],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_written(case: str) -> None:
    body, expected = CASES[case]
    session = opened(body)
    assert written(session) == expected
    session.seek(0)
    assert not session.shared_written().any()


def test_a_peer_s_stores_count_where_they_land() -> None:
    body = (
        "mov.u32 %r6, %cluster_ctarank; xor.b32 %r7, %r6, 1; mapa.shared::cluster.u32 %r8, %r3, %r7;"
        "setp.eq.u32 %p2, %r6, 0; @%p2 st.shared::cluster.u32 [%r8], %r0;"
        "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
    )
    session = opened(body, cluster=2)
    assert written(session, cta=0) == []
    assert written(session, cta=1) == [(0, 128)]


def test_a_bulk_copy_counts_when_it_is_carried_out() -> None:
    body = (
        "@%p1 mbarrier.init.shared::cta.b64 [buffer+2048], 1; bar.warp.sync 0xffffffff;"
        "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [buffer+2048], 256;\n"
        "@%p1 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [buffer+512], [%rd1], 256, [buffer+2048];\n"
        "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p3, [buffer+2048], 0; @!%p3 bra WAIT;"
    )
    session = opened(body)
    session.run_to(opcode="mbarrier.try_wait")
    assert not session.shared_written()[BUFFER + 512 : BUFFER + 768].any()
    assert session.in_flight()
    assert written(session) == [(512, 768), (2048, 2056)]

"""PTX of three warps: one waits on an mbarrier, one issues late what completes it, one polls memory meanwhile."""

STORAGE = """
.shared .align 8 .b64 full;
.shared .align 1024 .b8 tile[1024];
"""
PARAMETERS = ".param .u64 out, .param .u64 src, .param .u64 flag"

# Warp 0 waits, warp 1 issues after a while, warp 2 polls. %r10: the CTA's rank; thread 0 of CTA `reader` reports.
ROLES = """
mov.u32 %r0, %tid.x; mov.u32 %r10, %cluster_ctarank; shr.u32 %r1, %r0, 5;
ld.param.u64 %rd0, [out]; ld.param.u64 %rd2, [src]; ld.param.u64 %rd3, [flag];
setp.eq.u32 %p0, %r0, 0;
@%p0 mbarrier.init.shared::cta.b64 [full], {arrivals};
@%p0 fence.mbarrier_init.release.cluster;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
setp.eq.u32 %p1, %r1, 1; @%p1 bra ISSUE;
setp.eq.u32 %p1, %r1, 2; @%p1 bra POLL;
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], 0;
@!%p2 bra WAIT;
setp.ne.u32 %p3, %r10, {reader};
@%p3 bra DONE;
and.b32 %r2, %r0, 31; mov.u32 %r3, tile; shl.b32 %r4, %r2, 2; add.u32 %r3, %r3, %r4;
ld.shared.u32 %r5, [%r3];
cvt.u64.u32 %rd4, %r4; add.s64 %rd5, %rd0, %rd4;
st.global.u32 [%rd5], %r5;
bar.warp.sync 0xffffffff;
@%p0 red.release.gpu.global.add.u32 [%rd3], 1;
bra DONE;
ISSUE:
mov.u32 %r6, 0;
LATER:
add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, 2000; @%p2 bra LATER;
setp.eq.u32 %p4, %r0, 32;
setp.eq.and.u32 %p5, %r10, 0, %p4; setp.ne.and.u32 %p6, %r10, 0, %p4;
{issue}
bra DONE;
POLL:
ld.acquire.gpu.global.u32 %r7, [%rd3];
setp.eq.u32 %p2, %r7, 0;
@%p2 bra POLL;
DONE:
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
"""
EXPECT = "@%p4 mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 128;\n"
BULK = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"


def roles(issue: str, arrivals: int = 1, reader: int = 0) -> str:
    return ROLES.format(issue=issue, arrivals=arrivals, reader=reader)

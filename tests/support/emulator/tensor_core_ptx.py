"""PTX around one tensor-core instruction: operands from an image of shared memory, the result to global memory."""

from __future__ import annotations

import numpy as np

from tests.support.emulator.cute_layouts import Operand
from tests.support.emulator.tensor_formats import random_raw, values_of

A_AT, B_AT, C_AT = 0, 32768, 49152  # byte offsets in the image
IMAGE = 65536
SHARED = (
    ".extern .shared .align 1024 .b8 smem[];\n.shared .align 8 .b64 full;\n.shared .align 8 .b64 other;"
    "\n.shared .align 4 .b32 slot;"
)
PARAMETERS = ".param .u64 out, .param .u64 image"

# %r0 thread, %r1 the image in shared memory, %rd3 its address as a descriptor adds it, %r2 warp, %p0 thread 0,
# %p2 warp 0, %r10 rank in the cluster, %rd0 the output, %rd2 this CTA's image in global memory.
COPY = """
mov.u32 %r0, %tid.x; mov.u32 %r1, smem; shr.u32 %r2, %r0, 5; mov.u32 %r3, %ntid.x; mov.u32 %r10, %cluster_ctarank;
setp.eq.u32 %p0, %r0, 0; setp.eq.u32 %p2, %r2, 0;
ld.param.u64 %rd0, [out]; ld.param.u64 %rd2, [image];
mul.wide.u32 %rd4, %r10, 65536; add.s64 %rd2, %rd2, %rd4;
shl.b32 %r4, %r0, 4; shl.b32 %r3, %r3, 4;
COPY: add.u32 %r5, %r1, %r4; cvt.u64.u32 %rd4, %r4; add.s64 %rd5, %rd2, %rd4;
ld.global.v4.u32 {%r11, %r12, %r13, %r14}, [%rd5]; st.shared.v4.u32 [%r5], {%r11, %r12, %r13, %r14};
add.u32 %r4, %r4, %r3; setp.lt.u32 %p3, %r4, 65536; @%p3 bra COPY;
shr.u32 %r6, %r1, 4; cvt.u64.u32 %rd3, %r6;
@%p0 mbarrier.init.shared::cta.b64 [full], 1;
fence.proxy.async.shared::cta;
"""
WAIT = "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p1, [full], 0; @!%p1 bra WAIT;\n"


def vector(first: int, count: int, register: str = "%r") -> str:
    return "{" + ", ".join(f"{register}{first + n}" for n in range(count)) + "}"


class Operands:
    """A (m, k) and B (n, k) at random, and the image that holds them, one image per CTA of a pair."""

    def __init__(self, name: str, m: int, n: int, k: int, ctas: int = 1, flavour: str = "tcgen05", small: bool = True):
        rng = np.random.default_rng()
        a, b = random_raw(rng, name, (m, k), small), random_raw(rng, name, (n, k), small)
        self.a_raw, self.b_raw = a, b
        self.product = values_of(name, a) @ values_of(name, b).T
        left, right = (Operand(rows // ctas, k, a.itemsize, "128B", False) for rows in (m, n))
        self.image = np.zeros((ctas, IMAGE), np.uint8)
        for cta in range(ctas):
            left.place(self.image[cta], A_AT, a[cta * m // ctas : (cta + 1) * m // ctas])
            right.place(self.image[cta], B_AT, b[cta * n // ctas : (cta + 1) * n // ctas])
        self.descriptors = (
            f"mov.b64 %rd10, {left.descriptor(A_AT, flavour)}; add.s64 %rd10, %rd10, %rd3;"
            f"mov.b64 %rd11, {right.descriptor(B_AT, flavour)}; add.s64 %rd11, %rd11, %rd3;\n"
        )

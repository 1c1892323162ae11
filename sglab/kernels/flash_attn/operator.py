"""The operator behind FlashAttention's functions, cascades and multi-item scoring."""

from __future__ import annotations

from sglab.kernels.flash_attn import cpu, library
from sglab.kernels.fp8 import triton_refuses
from sglab.kernels.registry import CPU, EVERYWHERE, GPU, Implementation, Operator

operator = Operator(
    "flash_attn",
    Implementation("triton", "sglab.kernels.flash_attn.triton:run", GPU, lambda a: triton_refuses(a, a.q, a.k)),
    Implementation("cpu", "sglab.kernels.flash_attn.cpu:run", CPU, cpu.refuses),
    Implementation("flash_attn", "sglab.kernels.flash_attn.library:run", frozenset(), library.refuses),
    Implementation("torch", "sglab.kernels.flash_attn.torch:run", EVERYWHERE),
    Implementation("reference", "sglab.kernels.flash_attn.reference:run", EVERYWHERE),
)

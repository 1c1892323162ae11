"""intel_xpu: FlashAttention's arrays on Intel GPUs: no MLA, no drafts, no graphs.

After SGLang 0.5.9 `xpu_backend.py`, a copy of the FlashAttention backend with these parts asserted away.
"""

from __future__ import annotations

from sglab.attention.capabilities import CAUSAL_MODES, Capabilities
from sglab.attention.page_table.backend import PageTableBackend
from sglab.engine import ForwardMode


class XPUAttentionBackend(PageTableBackend):
    """SGLang's default for Llama 4 on Intel GPUs with XMX."""

    name = "intel_xpu"
    capabilities = Capabilities(
        kinds=("mha",),
        deterministic=True,
        modes=(*CAUSAL_MODES, ForwardMode.DRAFT_EXTEND),
        dtypes=("float16", "bfloat16"),
        sliding_window=True,
        logit_cap=True,
        sinks=True,
        cross_attention=True,
    )

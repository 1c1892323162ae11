"""fa3 and fa4: FlashAttention over a page table, MHA and absorbed MLA.

After SGLang 0.5.9 `flashattention_backend.py`. Trees are verified by a cascade (see `tree.py`). A window of w is w + 1
keys, as FlashAttention's (w, 0) is. The arithmetic is `sglab.attention.arithmetic`'s.
"""

from __future__ import annotations

from dataclasses import replace

from sglab.attention.capabilities import (
    CAUSAL_MODES,
    DIFFUSION_GRAPH_MODES,
    GRAPH_MODES,
    PROMPTS_SPREAD,
    Capabilities,
)
from sglab.attention.page_table.backend import PageTableBackend
from sglab.engine import ForwardMode

_MODES = (
    *CAUSAL_MODES,
    ForwardMode.TARGET_VERIFY,
    ForwardMode.DRAFT_EXTEND,
    ForwardMode.DRAFT_EXTEND_V2,
)


class FlashAttention3Backend(PageTableBackend):
    """SGLang's default on Hopper. e5m2 is not taken: SGLang goes to triton for it."""

    name = "fa3"
    has_package = True
    capabilities = Capabilities(
        modes=_MODES,
        drafts="tree",
        graph_modes=GRAPH_MODES,
        deterministic=True,
        kv_dtypes=("float8_e4m3fn",),
        dtypes=("float16", "bfloat16"),
        sliding_window=True,
        windows_in_trees=True,
        chunked=True,
        logit_cap=True,
        sinks=True,
        cross_attention=True,
        encoders_in_graphs=True,
        bidirectional=True,
        bidirectional_window=True,
        bidirectional_drafts=True,
        rope_apart=True,
        cp=replace(
            PROMPTS_SPREAD,
            kv_dtypes=("float8_e4m3fn",),
            sliding_window=True,
            logit_cap=True,
            sinks=True,
            rope_apart=True,
        ),
    )


class FlashAttention4Backend(PageTableBackend):
    """Blackwell's. It takes neither an FP8 pool nor MLA (0.5.9 asserts version 3 there); under graphs one split.

    Beside the queries' dtype a pool may hold MXFP8 and, where another backend decodes, fp4_mx_block16 (0.5.23).
    """

    name = "fa4"
    capabilities = replace(
        FlashAttention3Backend.capabilities,
        kinds=("mha",),
        modes=(*_MODES, ForwardMode.DLLM_EXTEND),
        graph_modes=DIFFUSION_GRAPH_MODES,
        kv_dtypes=("mxfp8",),
        prompt_kv_dtypes=("fp4_mx_block16",),
        rope_apart=False,
        image_masks=True,
        score_mod=True,
        cp=replace(PROMPTS_SPREAD, kinds=("mha",), sliding_window=True, logit_cap=True, sinks=True),
    )

    def init_graph(self, max_bs: int, max_num_tokens: int) -> None:
        super().init_graph(max_bs, max_num_tokens)
        self.num_splits = 1

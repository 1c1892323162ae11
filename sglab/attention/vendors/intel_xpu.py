"""intel_xpu: FlashAttention's arrays on Intel GPUs.

After SGLang 0.5.9 `xpu_backend.py`, a copy of the FlashAttention backend with MLA, drafts and graphs asserted away, and
0.5.23's, which has them.
"""

from __future__ import annotations

import torch

from sglab.attention.capabilities import CAUSAL_MODES, GRAPH_MODES, Capabilities
from sglab.attention.image_masks import block_ids, mask_of_ids
from sglab.attention.page_table.backend import PageTableBackend
from sglab.attention.page_table.metadata import FlashAttentionMetadata
from sglab.engine import ForwardBatch, ForwardMode


class XPUAttentionBackend(PageTableBackend):
    """SGLang's default for Llama 4 on Intel GPUs with XMX."""

    name = "intel_xpu"
    capabilities = Capabilities(
        deterministic=True,
        modes=(*CAUSAL_MODES, ForwardMode.TARGET_VERIFY, ForwardMode.DRAFT_EXTEND, ForwardMode.DRAFT_EXTEND_V2),
        drafts="tree",
        graph_modes=GRAPH_MODES,
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
        image_masks=True,
        rope_apart=True,
        dcp=Capabilities(kinds=("mha",), dtypes=("float16", "bfloat16"), logit_cap=True),
    )

    def add_images(self, made: FlashAttentionMetadata, batch: ForwardBatch) -> None:
        made.bidirectional_block_ids = block_ids(batch).to(self.device)

    def image_mask(
        self, made: FlashAttentionMetadata, batch: ForwardBatch, window: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        assert made.bidirectional_block_ids is not None
        return mask_of_ids(made.bidirectional_block_ids, batch, window)

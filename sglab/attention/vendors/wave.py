"""wave: IREE's Wave kernels on AMD GPUs, over the triton backend's arrays with the splits first.

After SGLang 0.5.9 `wave_backend.py`: 32-bit slots, the same split counts, partial outputs [splits, B, heads, dim].
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch

from sglab.attention.capabilities import CAUSAL_MODES, Capabilities
from sglab.attention.triton_backend import TritonAttnBackend
from sglab.attention.triton_metadata import ForwardMetadata
from sglab.engine import ForwardBatch, ForwardMode, ModelRunner


@dataclass
class WaveForwardMetadata(ForwardMetadata):
    """As triton's, and what Wave's kernels take in its place."""

    wave_kv_indices: torch.Tensor | None = None
    """int32, the slots."""
    wave_attn_logits_shape: tuple[int, ...] = ()
    """(max_kv_splits, B, heads, v_head_dim), float32."""
    wave_attn_lse_shape: tuple[int, ...] = ()
    """(max_kv_splits, B, heads), float32."""


class WaveAttnBackend(TritonAttnBackend):
    """Neither windows nor sinks; trees are verified as triton verifies them."""

    name = "wave"
    capabilities = Capabilities(
        modes=(*CAUSAL_MODES, ForwardMode.TARGET_VERIFY, ForwardMode.DRAFT_EXTEND, ForwardMode.DRAFT_EXTEND_V2),
        drafts="tree",
        graph_modes=(ForwardMode.DECODE, ForwardMode.IDLE, ForwardMode.TARGET_VERIFY),
        dtypes=("float16", "bfloat16"),
        logit_cap=True,
    )

    def __init__(self, model_runner: ModelRunner) -> None:
        super().__init__(model_runner)
        self.metadata.graph_index = torch.int32
        if model_runner.kernel_implementation == "auto" and model_runner.device.type == "cpu":
            self.implementation = self.metadata.implementation = "reference"

    def prepare(self, forward_batch: ForwardBatch) -> None:
        super().prepare(forward_batch)
        if self.forward_metadata is not None:
            self.forward_metadata = self._wave(self.forward_metadata)

    def _wave(self, made: ForwardMetadata) -> WaveForwardMetadata:
        same = {field.name: getattr(made, field.name) for field in fields(ForwardMetadata)}
        shape = (self.metadata.max_kv_splits, len(made.kv_indptr) - 1, self.metadata.num_head)
        shapes = ((*shape, self.metadata.v_head_dim), shape) if made.num_kv_splits is not None else ((), ())
        return WaveForwardMetadata(
            **same,
            wave_kv_indices=made.kv_indices.to(torch.int32),
            wave_attn_logits_shape=shapes[0],
            wave_attn_lse_shape=shapes[1],
        )

"""SGLang 0.5.23's AttentionBackend over a backend of ours.

Metadata is made in two parts: outside the graph (`init_forward_metadata_out_graph`, where all of ours is made) and
inside (`init_forward_metadata_in_graph`, recorded with the layers). What no backend here has is answered as SGLang's
base class answers it.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, NoReturn

import torch

from sglab.attention.capabilities import UnsupportedError
from sglab.attention.sglang.common import SGLangInterface
from sglab.engine import ForwardBatch, ForwardMode, GraphBatch, RadixAttention


class SharedReadEnds(Enum):
    """Where a backend is done with the scheduler's tensors, which the next batch overwrites."""

    PRE_REPLAY = 1
    IN_REPLAY = 2
    POST_REPLAY = 3
    UNKNOWN = 4


class SGLang0523(SGLangInterface):
    """Captures and replays take the forward batch of the captured size."""

    prefill_attention_backend_str: str | None = None
    decode_attention_backend_str: str | None = None
    supports_ragged_verify_graph = False
    folds_encoder_swa_replay = False
    data_type: torch.dtype | None = None
    kv_cache_dtype: torch.dtype | None = None
    attn_backend_list: list[Any] | None = None
    kv_index_translator = None
    supports_draft_extend_metadata_staging = False
    needs_cpu_seq_lens = True
    extend_dummy_seqs_capped_by_req_pool = True
    """Triton's kv_indptr has a row per request of the pool, here as there."""
    use_captured_forward_metadata_for_breakable_cuda_graph = False
    prefill_cuda_graph_max_batch_size: int | None = None
    prefer_eager_mixed_prefill_under_dp_attention = False
    skips_prefill_metadata_on_idle_dp_rank = False
    supports_prefill_cuda_graph_max_context_size = False
    prefill_cuda_graph_default_max_seq_len: int | None = None
    dllm_attention = None
    supports_full_cuda_graph_chunked_prefix = False

    @property
    def forward_metadata(self) -> Any:
        """What the last `prepare` made; None before it."""
        return getattr(self.backend.serving, "forward_metadata", None)

    @property
    def verify_mask(self) -> torch.Tensor | None:
        """The mask alone, over prefix and drafts (SGLang wraps it with its layout)."""
        return self.backend.verify_mask

    def init_forward_metadata_out_graph(self, forward_batch: ForwardBatch, in_capture: bool = False) -> None:
        batch = GraphBatch.of(forward_batch)
        if in_capture:
            self.backend.prepare_capture(batch)
        else:
            self.backend.prepare_replay(batch)

    def init_forward_metadata_in_graph(self, forward_batch: ForwardBatch) -> None:
        """Nothing: no metadata here is made inside the graph."""

    def forward_decode(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: RadixAttention,
        forward_batch: ForwardBatch,
        save_kv_cache: bool = True,
        **kwargs: Any,
    ) -> torch.Tensor:
        return self.forward(q, k, v, layer, forward_batch, save_kv_cache, **kwargs)

    def forward_extend(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: RadixAttention,
        forward_batch: ForwardBatch,
        save_kv_cache: bool = True,
        **kwargs: Any,
    ) -> torch.Tensor:
        return self.forward(q, k, v, layer, forward_batch, save_kv_cache, **kwargs)

    # What no backend here has.

    def get_fused_kv_write_buffers(self, layer: RadixAttention, forward_batch: ForwardBatch) -> None:
        """None: no other kernel writes keys and values for the backend."""
        return

    def glue_target_verify_metadata(self) -> str:
        """Why verification's metadata may not be captured into a graph of its own."""
        return "verification's metadata is made on the host"

    def glue_draft_metadata(self) -> str:
        """Why drafting's metadata may not be captured into a graph of its own."""
        return "no backend here drafts"

    def draft_extend_metadata_captured_in_graph(self) -> bool:
        return False

    def shared_read_ends(self, fm: ForwardMode) -> SharedReadEnds:
        """A decode or verification graph reads the scheduler's tensors while it runs; of others nothing is promised."""
        return SharedReadEnds.IN_REPLAY if fm.is_decode() or fm.is_target_verify() else SharedReadEnds.UNKNOWN

    def resolve_prefill_shared_read_ends(
        self, forward_batch: ForwardBatch, *, num_qo_tokens: int, build_snapshot: bool = True
    ) -> SharedReadEnds:
        return SharedReadEnds.UNKNOWN

    def prepare_full_cuda_graph_chunked_prefix(self, forward_batch: ForwardBatch, *, in_capture: bool) -> None:
        self._no_prefill_graph()

    def init_forward_metadata_for_breakable_cuda_graph_capture(self, forward_batch: ForwardBatch) -> None:
        self._no_prefill_graph()

    def prepare_forward_metadata_for_breakable_cuda_graph_replay(
        self, capture_metadata: Any, forward_batch: ForwardBatch, *, static_forward_batch: ForwardBatch | None = None
    ) -> None:
        self._no_prefill_graph()

    def validate_elastic_cuda_graph_recapture(self) -> None:
        """Capturing again is always possible."""

    def late_layer_num_tokens(self, forward_batch: ForwardBatch) -> int | None:
        return None

    def on_after_cuda_graph_warmup(self) -> None:
        """Nothing: a warm-up leaves no state that a capture would freeze."""

    def _no_prefill_graph(self) -> NoReturn:
        remedy = "Run prefill eagerly: init_forward_metadata."
        raise UnsupportedError("CUDA graph", "decode or verification", f"prefill on {self.backend.name}", remedy)

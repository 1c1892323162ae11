"""HybridAttnBackend: prompts through one backend, decoding through another.

Source: SGLang 0.5.9 `hybrid_attn_backend.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from sglab.attention.base import AttentionBackend
from sglab.attention.capabilities import Capabilities, UnsupportedError
from sglab.attention.combined.delegating import DelegatingBackend
from sglab.attention.create import create_attention_backend
from sglab.engine import ForwardMode, GraphBatch, ModelRunner

SpeculativeAttentionMode = Literal["prefill", "decode"]


class HybridAttnBackend(DelegatingBackend):
    """Verification and a draft model's catching up go where `speculative_attention_mode` says; idle passes to decode.

    Both backends read one pool, so both must serve its page size and dtype.
    """

    name = "hybrid"

    def __init__(
        self,
        prefill: AttentionBackend,
        decode: AttentionBackend,
        speculative_attention_mode: SpeculativeAttentionMode = "prefill",
    ) -> None:
        """
        Raises:
            UnsupportedError: another mode than these two.
        """
        if speculative_attention_mode not in ("prefill", "decode"):
            expected, got = "'prefill' or 'decode'", repr(speculative_attention_mode)
            raise UnsupportedError("speculative_attention_mode", expected, got, "Leave it out for 'prefill'.")
        super().__init__(decode)
        self._largest: tuple[int, int] | None = None
        """What `init_graph` was told, until the prompts' backend has its buffers."""
        self.prefill_backend, self.decode_backend = prefill, decode
        self.speculative_attention_mode = speculative_attention_mode
        self.capabilities = self._both()  # type: ignore[misc]
        self.graph_seq_len_fill_value = decode.graph_seq_len_fill_value  # type: ignore[misc]

    @classmethod
    def of(
        cls, prefill: str, decode: str, runner: ModelRunner, mode: SpeculativeAttentionMode = "prefill"
    ) -> HybridAttnBackend:
        """Made from two names."""
        return cls(create_attention_backend(prefill, runner), create_attention_backend(decode, runner), mode)

    def select(self, forward_mode: ForwardMode) -> AttentionBackend:
        if forward_mode.is_decode_or_idle():
            return self.decode_backend
        speculative = forward_mode.is_target_verify() or forward_mode.is_draft_extend(include_v2=True)
        decodes = speculative and self.speculative_attention_mode == "decode"
        return self.decode_backend if decodes else self.prefill_backend

    def init_graph(self, max_bs: int, max_num_tokens: int) -> None:
        """Decode's buffers, and those of prompts' backend where it verifies."""
        self.decode_backend.init_graph(max_bs, max_num_tokens)
        self._largest = max_bs, max_num_tokens
        verifies = self.prefill_backend.capabilities.graph_modes
        if self.speculative_attention_mode == "prefill" and ForwardMode.TARGET_VERIFY in verifies:
            self._init_prefill_graph()

    def prepare_capture(self, graph_batch: GraphBatch) -> None:
        """A diffusion model's blocks are captured over the prompts' backend, whose buffers are then made."""
        if graph_batch.forward_mode.is_dllm_extend():
            self._init_prefill_graph()
        super().prepare_capture(graph_batch)

    def _init_prefill_graph(self) -> None:
        if self._largest is not None:
            self.prefill_backend.init_graph(*self._largest)
            self._largest = None

    def _both(self) -> Capabilities:
        """Of each mode what its backend serves; of drafts and graphs the selected one's."""
        served = tuple(mode for mode in ForwardMode if mode in self.select(mode).capabilities.modes)
        graphs = tuple(mode for mode in served if mode in self.select(mode).capabilities.graph_modes)
        verifies = self.select(ForwardMode.TARGET_VERIFY).capabilities
        own = self.decode_backend.capabilities
        return replace(own, modes=served, graph_modes=graphs, drafts=verifies.drafts, fallback="")

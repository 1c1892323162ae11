"""ModelConfig and ModelRunner: what an attention backend reads of the model and of the pools when it is made.

SGLang's ModelRunner also loads weights and runs layers; a backend needs only this much of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from sglab.engine.cache.allocator import BaseTokenToKVPoolAllocator
from sglab.engine.cache.kv_pool import KVCache
from sglab.engine.cache.req_to_token_pool import ReqToTokenPool
from sglab.engine.cache.state_pool import LinearStatePool
from sglab.engine.rank_group import RankGroup
from sglab.gpu.architecture import H100_SMS
from sglab.kernels.block_kv import FORMATS

Kind = Literal["mla", "mha"]
KV_CACHE_DTYPES: dict[str, torch.dtype | str | None] = {
    "auto": None,
    "fp8_e4m3": torch.float8_e4m3fn,
    "fp8_e5m2": torch.float8_e5m2,
    **{name: name for name in FORMATS},
}
"""A KV pool's dtype, or its format with scales for blocks, by its name in SGLang's server arguments; None: the
model's dtype."""


@dataclass(frozen=True)
class ModelConfig:
    """The attention shape of a model; the head dims are the attention layer's: 576 and 512 for absorbed MLA."""

    kind: Kind
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    v_head_dim: int
    scaling: float
    context_len: int
    kv_lora_rank: int = 0
    qk_rope_head_dim: int = 0
    num_hidden_layers: int = 1
    logit_cap: float = 0.0
    attention_chunk_size: int = 0
    """Llama 4's: tokens of the text that its layers with `use_irope` see at a time; 0: all."""
    index_head_dim: int = 0
    """Of DeepSeek-V3.2's indexer, whose keys the pool holds too (`NSATokenToKVPool`); 0: none."""
    index_topk: int = 0
    """Tokens that a query attends to, at most, by the indexer's choice."""

    def get_num_kv_heads(self, tensor_parallel_size: int = 1) -> int:
        """KV heads per rank: at least one each, so a single MLA head is replicated."""
        return max(1, self.num_key_value_heads // tensor_parallel_size)


@dataclass
class ModelRunner:
    """The pools, the allocator and where they are."""

    model_config: ModelConfig
    req_to_token_pool: ReqToTokenPool
    token_to_kv_pool: KVCache
    token_to_kv_pool_allocator: BaseTokenToKVPoolAllocator
    dtype: torch.dtype
    device: torch.device
    page_size: int
    device_core_count: int = H100_SMS
    """SMs that split planning counts on."""
    tp_size: int = 1
    triton_attention_num_kv_splits: int = 8
    """At most so many splits of a request's KV in Triton decode (SGLang's default)."""
    chunked_prefix_threshold: int | None = None
    """MLA: prompts whose prefixes have together so many tokens, or none, attend with expanded keys and values; None: no
    prompt does."""
    enable_deterministic_inference: bool = False
    kernel_implementation: str = "auto"
    """Which implementation of its operators a backend asks for; "auto": the backend's choice."""
    check_metadata: bool | None = None
    """Whether backends run `sglab.engine.batch.metadata.check_metadata` before each pass. None: where it does not wait
    for a GPU, and before every capture. False: never, not even in `Batch.check`."""
    state_pool: LinearStatePool | None = None
    """Of a model with linear attention."""
    dcp: RankGroup | None = None
    """Ranks that a request's context is spread over: of its slots each holds every `size`-th, in a pool of its own.
    The allocator's pages, and the slots in req_to_token, are those of all of them; `page_size` and the KV pool are a
    rank's. None: the context is whole."""
    holds_share: bool = False
    """The pools are those of one rank's share of every request, which may have no token there."""
    dcp_comm_backend: str = "ag_rs"
    """How they merge what they found: "ag_rs" gathers LSEs and scatters a sum, "a2a" sends each head to its rank."""
    attn_cp: RankGroup | None = None
    """Ranks that a prompt's new tokens are spread over; each holds the keys and values of all. None: none."""

    @property
    def use_mla_backend(self) -> bool:
        return self.model_config.kind == "mla"

    @property
    def kv_cache_dtype(self) -> torch.dtype:
        return self.token_to_kv_pool.dtype

    @property
    def stored_apart(self) -> torch.dtype | str | None:
        """What the KV pool holds where that is not the model's dtype: another dtype, or a format's name."""
        pool = self.token_to_kv_pool
        return pool.kv_format or (None if pool.dtype == self.dtype else pool.dtype)

"""Models whose indexer chooses tokens (DeepSeek-V3.2): which backend, and which graphs, do what it chooses."""

from __future__ import annotations

from dataclasses import replace

from sglab.attention import AttentionBackend
from sglab.attention.capabilities import Demand, unserved
from sglab.attention.registry import capabilities_by_name
from sglab.engine import KV_CACHE_DTYPES, RadixAttention
from sglab.engine.errors import BadArgumentError
from sglab.models import CausalLM
from sglab.serving.config import EngineConfig

SPARSE_BACKEND = "dsa"


def for_model(config: EngineConfig, model: CausalLM) -> EngineConfig:
    """The options, "auto" replaced by `dsa` where the model's requests may be longer than what its indexer chooses and
    `dsa` serves its heads, its dtype, the page size and the KV dtype that were asked for."""
    shape = model.attention_config()
    context = min(config.context_length or shape.context_len, shape.context_len)
    if config.attention_backend != "auto" or not 0 < shape.index_topk < context:
        return config
    named = replace(config, attention_backend=SPARSE_BACKEND)
    records = named.keeps_records(model.device.type)
    demand = Demand(
        kind=shape.kind,
        page_size=named.pages(model.device.type),
        dtype=model.dtype,
        kv_dtype=None if records else KV_CACHE_DTYPES[config.kv_cache_dtype],
        kv_records=records,
        deterministic=config.enable_deterministic_inference,
        dcp_size=config.dcp_size,
        attn_cp_size=config.attn_cp_size,
        layer=RadixAttention(1, 1, shape.head_dim, shape.scaling, 0, v_head_dim=shape.v_head_dim),
    )
    served = unserved(capabilities_by_name(shape.kind)[SPARSE_BACKEND], demand) is None
    return named if served else config


def chooses_outside(backend: AttentionBackend) -> bool:
    """Whether an indexer may choose tokens whose choice the backend does not take: the model then looks at lengths."""
    runner = backend.runner
    if runner is None or backend.capabilities.topk_indices:
        return False
    return 0 < runner.model_config.index_topk < runner.req_to_token_pool.max_context_len


def refuse_outside(backend: AttentionBackend) -> None:
    """Refuse to capture decodes that look at lengths: a replay would attend as the capture did.

    Raises:
        BadArgumentError: naming the backend that is captured.
    """
    if chooses_outside(backend):
        expected = f"False where an indexer chooses tokens that {backend.name} does not take"
        remedy = f'Use attention_backend="{SPARSE_BACKEND}", or a context_length of at most index_topk.'
        raise BadArgumentError("cuda_graph", expected, True, remedy)

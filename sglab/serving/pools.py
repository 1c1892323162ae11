"""Rows, slots and KV buffers for a model: how many fit, and the objects."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from sglab.attention.registry import capabilities_by_name
from sglab.engine import (
    KV_CACHE_DTYPES,
    BlockScaledMHATokenToKVPool,
    FP4MLATokenToKVPool,
    HiRadixCache,
    HostKVPool,
    KVCache,
    LinearStatePool,
    MHATokenToKVPool,
    MLARecordTokenToKVPool,
    MLATokenToKVPool,
    ModelConfig,
    ModelRunner,
    NSARecordTokenToKVPool,
    NSATokenToKVPool,
    PagedTokenToKVPoolAllocator,
    RadixCache,
    ReqToTokenPool,
    TokenToKVPoolAllocator,
)
from sglab.engine.cache.hiradix_cache import Submit
from sglab.engine.errors import BadArgumentError
from sglab.kernels.block_kv import FORMATS, BlockFormat
from sglab.kernels.indexer import page_bytes
from sglab.kernels.k_records import RECORD
from sglab.models import CausalLM
from sglab.serving.config import EngineConfig
from sglab.serving.encoders import encoder_context, has_encoder

CPU_BUDGET = 1 << 30
"""Bytes of which a KV pool on a CPU takes its share."""


@dataclass(frozen=True)
class Pools:
    """A model's runner (what backends read) and the radix cache over its pools."""

    runner: ModelRunner
    tree_cache: RadixCache


def make_pools(model: CausalLM, config: EngineConfig, submit: Submit, planned: bool = False) -> Pools:
    """Size and make a model's pools.

    Args:
        planned: make the books alone, without buffers: other ranks hold those.
        submit: runs copies between the device and the host in the order of the passes.

    Raises:
        BadArgumentError: not even one page fits, or the model is loaded for fewer positions than asked for.
    """
    shape, device = model.attention_config(), model.device
    page, shared = config.pages(device.type), config.dcp_size
    context = context_length(shape, config)
    row = context + encoder_context(model)
    tokens = pool_tokens(model, shape, config, row, page)
    dtype, records = KV_CACHE_DTYPES[config.kv_cache_dtype], config.keeps_records(device.type)
    held = replace(shape, num_hidden_layers=0) if planned else shape
    index_dtype = torch.float8_e4m3fn if packs_index_keys(shape, config, device.type) else None
    kv = kv_pool(model, held, tokens, page, dtype, records, index_dtype)
    rows = ReqToTokenPool(config.max_running_requests, row, device)
    paged = page * shared  # of ranks that share a context each has a page of every page
    allocator = (
        TokenToKVPoolAllocator(tokens, device, kv)
        if paged == 1
        else PagedTokenToKVPoolAllocator(tokens * shared, paged, device, kv)
    )
    runner = ModelRunner(
        model_config=shape,
        req_to_token_pool=rows,
        token_to_kv_pool=kv,
        token_to_kv_pool_allocator=allocator,
        dtype=model.dtype,
        device=device,
        page_size=page,
        tp_size=model.tp.attention.size,
        chunked_prefix_threshold=config.chunked_prefix_threshold,
        enable_deterministic_inference=config.enable_deterministic_inference,
        dcp=model.tp.attention.context if shared > 1 else None,
        dcp_comm_backend=config.context_exchange(device.type),
        attn_cp=model.tp.prompts if config.attn_cp_size > 1 else None,
        # The engine's batches hold placeholders while graphs are captured and, with overlap, rows of requests that have
        # just ended: they are not what the check asks of a batch made by hand.
        check_metadata=False,
    )
    if device.type == "cuda":
        runner.device_core_count = torch.cuda.get_device_properties(device).multi_processor_count
    state = model.state_config()
    if state is not None:
        runner.state_pool = LinearStatePool(state, rows.size, model.dtype, device)
    refuse_unshareable(shape, config, state is not None)
    refuse_spreading(model, shape, config, state is not None)
    refuse_expansion(shape, config)
    if config.enable_hierarchical_cache and kv.kv_format:
        expected, remedy = "False with scales for blocks, which the host's pool does not keep", "Leave it out."
        raise BadArgumentError("enable_hierarchical_cache", expected, True, remedy)
    if config.enable_hierarchical_cache:
        host = HostKVPool(kv, max(int(tokens * config.hicache_ratio) // page, 1) * page)
        return Pools(runner, HiRadixCache(rows, allocator, page, host, config.hicache_write_policy, submit))
    disable = config.disable_radix_cache or state is not None or has_encoder(model)
    return Pools(runner, RadixCache(rows, allocator, paged, disable=disable))


def packs_index_keys(shape: ModelConfig, config: EngineConfig, device_type: str) -> bool:
    """Whether the pool keeps an indexer's keys in FP8.

    Raises:
        BadArgumentError: it was asked for, with a model that has no indexer.
    """
    if not shape.index_head_dim and config.index_k_dtype != "auto":
        expected = "'auto' with a model that has no indexer"
        raise BadArgumentError("index_k_dtype", expected, repr(config.index_k_dtype), "Leave it out.")
    return bool(shape.index_head_dim) and config.packs_index_keys(device_type, shape.index_head_dim)


def refuse_expansion(shape: ModelConfig, config: EngineConfig) -> None:
    """Refuse to expand prefixes where there is nothing to expand, or where lengths would decide within a graph.

    Raises:
        BadArgumentError: chunked_prefix_threshold without MLA, with piecewise graphs or in deterministic mode.
    """
    asked, got = config.chunked_prefix_threshold, None
    if shape.kind != "mla":
        got = "a model without MLA"
    elif config.enable_piecewise_cuda_graph:
        got = "enable_piecewise_cuda_graph"
    elif config.enable_deterministic_inference:
        got = "enable_deterministic_inference"
    if asked is not None and got is not None:
        raise BadArgumentError("chunked_prefix_threshold", f"None with {got}", asked, "Leave it out.")


def refuse_unshareable(shape: ModelConfig, config: EngineConfig, has_state: bool) -> None:
    """Refuse options that copy or roll back KV rows for models that keep more than these.

    Raises:
        BadArgumentError: the hierarchical cache with recurrent states; speculation with these or an indexer.
    """
    keeps = "recurrent states" if has_state else "an indexer's keys" if shape.index_head_dim else ""
    asked = {
        "enable_hierarchical_cache": config.enable_hierarchical_cache and has_state,
        "speculative_algorithm": config.speculative_algorithm,
    }
    for name, value in asked.items():
        if keeps and value:
            raise BadArgumentError(name, f"none with a model that keeps {keeps}", value, "Leave it out.")


def refuse_spreading(model: CausalLM, shape: ModelConfig, config: EngineConfig, has_state: bool) -> None:
    """Refuse to spread contexts or prompts of models that keep more than keys and values, or begin with an encoder's.

    Raises:
        BadArgumentError: dcp_size or attn_cp_size above 1 with one of these; or attn_cp_size with a dtype in which the
            backend, whose own refusal would come with the first prompt, shares none.
    """
    option, size = ("dcp_size", config.dcp_size) if config.dcp_size > 1 else ("attn_cp_size", config.attn_cp_size)
    keeps = "keeps recurrent states" if has_state else "has an encoder" if has_encoder(model) else ""
    name = config.backend(model.device.type)
    served = capabilities_by_name(shape.kind).get(name)
    there = served and (served.dcp if option == "dcp_size" else served.cp)
    if shape.index_head_dim and not (there and there.topk_indices):
        keeps = f"has an indexer, whose choice {name} does not take there"
    if size > 1 and keeps:
        raise BadArgumentError(option, f"1 with a model that {keeps}", size, "Leave it out.")
    dtype = str(model.dtype).removeprefix("torch.")
    if config.attn_cp_size > 1 and served and served.cp and dtype not in served.cp.dtypes:
        expected = f"{' or '.join(served.cp.dtypes)} for {name} with attn_cp_size {size}"
        raise BadArgumentError("dtype", expected, dtype, "Load the model in one of them.")


def context_length(shape: ModelConfig, config: EngineConfig) -> int:
    """Tokens of the longest request."""
    asked = config.context_length or shape.context_len
    if asked > shape.context_len:
        remedy = "Load the model with a larger context_len."
        raise BadArgumentError("context_length", f"at most the model's {shape.context_len}", asked, remedy)
    return asked


def bytes_per_token(model: CausalLM, shape: ModelConfig, config: EngineConfig) -> int:
    """KV bytes of one token in all layers, on this rank."""
    dtype = KV_CACHE_DTYPES[config.kv_cache_dtype]
    if isinstance(dtype, str):
        return block_bytes(FORMATS[dtype], model, shape)
    size = (dtype or model.dtype).itemsize
    if shape.kind == "mla":
        width = RECORD if config.keeps_records(model.device.type) else shape.kv_lora_rank + shape.qk_rope_head_dim
        index = shape.index_head_dim * (model.dtype.itemsize if dtype is None else torch.bfloat16.itemsize)
        if packs_index_keys(shape, config, model.device.type):
            index = page_bytes(1)
        index *= config.dcp_size  # each rank has those of all
        return (width * size + index) * shape.num_hidden_layers
    width = shape.get_num_kv_heads(model.tp.attention.kv_heads.size) * (shape.head_dim + shape.v_head_dim)
    return width * size * shape.num_hidden_layers


def block_bytes(made: BlockFormat, model: CausalLM, shape: ModelConfig) -> int:
    """As `bytes_per_token`, of codes and scales."""
    heads, dims = shape.get_num_kv_heads(model.tp.attention.kv_heads.size), [shape.head_dim, shape.v_head_dim]
    if shape.kind == "mla":
        heads, dims = 1, [shape.kv_lora_rank + shape.qk_rope_head_dim]
    return heads * sum(made.row_bytes(dim) + made.scales(dim) for dim in dims) * shape.num_hidden_layers


def pool_tokens(model: CausalLM, shape: ModelConfig, config: EngineConfig, context: int, page: int) -> int:
    """Slots of the pool, whole pages."""
    if config.max_total_tokens is not None:
        tokens = config.max_total_tokens
    else:
        free = torch.cuda.mem_get_info(model.device)[0] if model.device.type == "cuda" else CPU_BUDGET
        most = config.max_running_requests * (context + page)
        tokens = min(int(free * config.mem_fraction) // bytes_per_token(model, shape, config), most)
    if tokens < 2 * page:
        expected = f"two pages of {page} tokens at least"
        raise BadArgumentError("max_total_tokens", expected, tokens, "Raise it or mem_fraction, or use smaller pages.")
    return tokens // page * page


def block_pool(model: CausalLM, shape: ModelConfig, tokens: int, page: int, kv_format: str) -> KVCache:
    """Of codes and scales.

    Raises:
        BadArgumentError: the format does not hold such rows, or not in such pages.
    """
    layers = shape.num_hidden_layers
    if shape.index_head_dim:
        remedy = 'Use "auto" or "fp8_e4m3".'
        raise BadArgumentError("kv_cache_dtype", "one with an indexer's keys beside it", kv_format, remedy)
    if shape.kind == "mla":
        rank, rope = shape.kv_lora_rank, shape.qk_rope_head_dim
        return FP4MLATokenToKVPool(tokens, page, kv_format, rank, rope, layers, model.device)
    heads, dims = shape.get_num_kv_heads(model.tp.attention.kv_heads.size), (shape.head_dim, shape.v_head_dim)
    return BlockScaledMHATokenToKVPool(tokens, page, kv_format, heads, dims[0], layers, model.device, dims[1])


def kv_pool(
    model: CausalLM,
    shape: ModelConfig,
    tokens: int,
    page: int,
    dtype: torch.dtype | str | None = None,
    records: bool = False,
    index_dtype: torch.dtype | None = None,
) -> KVCache:
    """The buffers, zeroed.

    Args:
        dtype: None: the model's; or a format's name.
        records: of MLA, as FlashMLA's 656 bytes.
        index_dtype: of an indexer's keys, as NSATokenToKVPool takes it.
    """
    layers, dtype = shape.num_hidden_layers, dtype or model.dtype
    if isinstance(dtype, str):
        return block_pool(model, shape, tokens, page, dtype)
    if shape.kind == "mla":
        rank, rope = shape.kv_lora_rank, shape.qk_rope_head_dim
        if shape.index_head_dim:
            dim = shape.index_head_dim
            with_keys = NSARecordTokenToKVPool if records else NSATokenToKVPool
            sizes, shared_by = (rank, rope, layers, dim), model.tp.dcp_size
            return with_keys(tokens, page, dtype, *sizes, model.device, index_dtype=index_dtype, shared_by=shared_by)
        plain = MLARecordTokenToKVPool if records else MLATokenToKVPool
        return plain(tokens, page, dtype, rank, rope, layers, model.device)
    heads = shape.get_num_kv_heads(model.tp.attention.kv_heads.size)
    return MHATokenToKVPool(tokens, page, dtype, heads, shape.head_dim, layers, model.device, shape.v_head_dim)

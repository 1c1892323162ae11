"""BatchOptions: the shape of a batch's model and pools, checked and turned into a live batch."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Literal, TypedDict, TypeVar, cast

import torch

from sglab.engine import (
    BadArgumentError,
    ForwardMode,
    KVCache,
    MHATokenToKVPool,
    MLATokenToKVPool,
    ModelConfig,
    ModelRunner,
    PagedTokenToKVPoolAllocator,
    RadixAttention,
    RadixCache,
    ReqToTokenPool,
    TokenToKVPoolAllocator,
    arguments,
)
from sglab.engine.cache import BaseTokenToKVPoolAllocator
from sglab.engine.cache.paged_allocator import ceil_div
from sglab.engine.model_runner import Kind
from sglab.gpu.architecture import H100_SMS
from sglab.planning.mla_dims import LATENT_DIM, NUM_HEADS, ROPE_DIM
from sglab.workbench.batch import Batch

Layout = Literal["contiguous", "fragmented"]

MLA_QK_NOPE_HEAD_DIM = 128
"""DeepSeek's, before absorption: the softmax scale is that of the 128 + 64 dims the scores represent, not of 576."""


class BatchKeywords(TypedDict, total=False):
    """The options of `decode_batch` and `extend_batch`, for type checkers: the fields of BatchOptions, by keyword."""

    kind: Kind
    page_size: int
    dtype: str | torch.dtype
    seed: int
    layout: Layout
    shared_prefix: int
    head_dim: int
    v_head_dim: int | None
    kv_lora_rank: int
    qk_rope_head_dim: int
    sm_scale: float | None
    logit_cap: float
    pool_tokens: int | None
    max_context_len: int | None
    max_running_requests: int | None
    layer_num: int
    device: str | torch.device


@dataclass(frozen=True)
class BatchOptions:
    """The shape of a batch's model and pools, with the defaults; `decode_batch` documents every field."""

    num_heads: int = NUM_HEADS
    num_kv_heads: int | None = None
    kind: Kind = "mla"
    page_size: int = 64
    dtype: str | torch.dtype = "float16"
    seed: int = 0
    layout: Layout = "contiguous"
    shared_prefix: int = 0
    head_dim: int = 128
    v_head_dim: int | None = None
    kv_lora_rank: int = LATENT_DIM
    qk_rope_head_dim: int = ROPE_DIM
    sm_scale: float | None = None
    logit_cap: float = 0.0
    pool_tokens: int | None = None
    max_context_len: int | None = None
    max_running_requests: int | None = None
    layer_num: int = 1
    device: str | torch.device = "cpu"

    def build(self, seq_lens: list[int], new_tokens: list[int], mode: ForwardMode) -> Batch:
        """Make the pools, admit the requests and return the batch."""
        self._check(min(seq_lens))
        runner = self._runner(seq_lens)
        if self.layout == "fragmented":
            fragment(runner.token_to_kv_pool_allocator, self.seed)
        tree = RadixCache(runner.req_to_token_pool, runner.token_to_kv_pool_allocator, self.page_size)
        batch = Batch(runner, tree, self._layer(runner.model_config), mode, self.seed)
        batch.admit(seq_lens, new_tokens, self.shared_prefix)
        return batch

    def _check(self, shortest: int) -> None:
        """Refuse what no batch could have; the pools and the heads check themselves."""
        arguments.choice("kind", self.kind, ("mla", "mha"))
        arguments.choice("layout", self.layout, ("contiguous", "fragmented"))
        remedy = f"The shortest request has {shortest} tokens."
        arguments.integer("shared_prefix", self.shared_prefix, 0, shortest, remedy)
        arguments.integer("seed", self.seed, -(2**63), 2**63 - 1, "Any whole number will do, such as 0.")
        arguments.integer("qk_rope_head_dim", self.qk_rope_head_dim, 0)
        for name in ("num_heads", "head_dim", "kv_lora_rank", "layer_num"):
            arguments.integer(name, getattr(self, name), 1)
        for name in ("num_kv_heads", "v_head_dim", "max_context_len", "max_running_requests"):
            if getattr(self, name) is not None:
                arguments.integer(name, getattr(self, name), 1, remedy="Leave it out for the default.")
        if self.pool_tokens is not None:
            page = arguments.power_of_two("page_size", self.page_size)
            tokens = arguments.integer("pool_tokens", self.pool_tokens, page)
            if tokens % page:
                remedy = f"{tokens // page * page} or {-(-tokens // page) * page} would do."
                raise BadArgumentError("pool_tokens", f"a multiple of page_size {page}", tokens, remedy)
        if self.sm_scale is not None:
            arguments.positive("sm_scale", self.sm_scale)
        arguments.finite("logit_cap", self.logit_cap, 0.0)

    def _runner(self, seq_lens: list[int]) -> ModelRunner:
        page = arguments.power_of_two("page_size", self.page_size)
        need = sum(ceil_div(seq_len, page) for seq_len in seq_lens)
        size = self.pool_tokens if self.pool_tokens is not None else (need + max(8, need // 4)) * page
        context = self.max_context_len or ceil_div(max(seq_lens), page) * page + max(2 * page, 64)
        device, dtype = arguments.device("device", self.device), arguments.dtype("dtype", self.dtype)
        config = self._config(context)
        kv_pool = self._fitting_kv_pool(size, config, dtype, device)
        allocator: BaseTokenToKVPoolAllocator
        if page == 1:
            allocator = TokenToKVPoolAllocator(size, device, kv_pool)
        else:
            allocator = PagedTokenToKVPoolAllocator(size, page, device, kv_pool)
        rows = ReqToTokenPool(self.max_running_requests or len(seq_lens) + 8, context, device)
        return ModelRunner(config, rows, kv_pool, allocator, dtype, device, page, _sm_count(device))

    def _config(self, context_len: int) -> ModelConfig:
        kv_heads = self._kv_heads()
        if self.num_heads % kv_heads:
            raise BadArgumentError(
                "num_heads",
                f"a multiple of num_kv_heads {kv_heads}",
                self.num_heads,
                "Each KV head serves as many heads.",
            )
        mla = self.kind == "mla"
        scored = MLA_QK_NOPE_HEAD_DIM + self.qk_rope_head_dim if mla else self.head_dim
        return ModelConfig(
            kind=self.kind,
            num_attention_heads=self.num_heads,
            num_key_value_heads=kv_heads,
            head_dim=self.kv_lora_rank + self.qk_rope_head_dim if mla else self.head_dim,
            v_head_dim=self.kv_lora_rank if mla else self.v_head_dim or self.head_dim,
            scaling=scored**-0.5 if self.sm_scale is None else self.sm_scale,
            context_len=context_len,
            kv_lora_rank=self.kv_lora_rank if mla else 0,
            qk_rope_head_dim=self.qk_rope_head_dim if mla else 0,
            num_hidden_layers=self.layer_num,
            logit_cap=self.logit_cap,
        )

    def _kv_heads(self) -> int:
        if self.kind == "mha":
            return self.num_heads if self.num_kv_heads is None else self.num_kv_heads
        if self.num_kv_heads not in (None, 1):
            raise BadArgumentError(
                "num_kv_heads", "1 for MLA: one latent row per token", self.num_kv_heads, 'For GQA pass kind="mha".'
            )
        return 1

    def _fitting_kv_pool(self, size: int, config: ModelConfig, dtype: torch.dtype, device: torch.device) -> KVCache:
        """The KV pool, or a refusal in our words where the memory does not suffice."""
        try:
            return self._kv_pool(size, config, dtype, device)
        except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and "memory" not in str(error):
                raise
            width = config.head_dim + (config.v_head_dim if config.kind == "mha" else 0)
            gib = size * config.num_key_value_heads * width * dtype.itemsize * self.layer_num / 2**30
            remedy = "Shorten seq_lens, or pass fewer heads or layers."
            raise BadArgumentError("seq_lens", f"a KV pool that fits {device}", f"{gib:,.0f} GiB", remedy) from None

    def _kv_pool(self, size: int, config: ModelConfig, dtype: torch.dtype, device: torch.device) -> KVCache:
        if config.kind == "mla":
            return MLATokenToKVPool(
                size, self.page_size, dtype, self.kv_lora_rank, self.qk_rope_head_dim, self.layer_num, device
            )
        return MHATokenToKVPool(
            size,
            self.page_size,
            dtype,
            config.num_key_value_heads,
            config.head_dim,
            self.layer_num,
            device,
            config.v_head_dim,
        )

    def _layer(self, config: ModelConfig) -> RadixAttention:
        return RadixAttention(
            tp_q_head_num=config.num_attention_heads,
            tp_k_head_num=config.num_key_value_heads,
            head_dim=config.head_dim,
            v_head_dim=config.v_head_dim,
            scaling=config.scaling,
            logit_cap=config.logit_cap,
        )


Builder = TypeVar("Builder", bound=Callable[..., Batch])


def with_options(builder: Builder) -> Builder:
    """Show BatchOptions' fields in the signature of a function that takes them as **options, with their defaults; say
    which there are when another is given."""
    shown = inspect.signature(builder)
    own = [each for each in shown.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    options = [
        inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type)
        for field in fields(BatchOptions)
        if field.name not in shown.parameters
    ]
    known = [each.name for each in (*own, *options)]

    @functools.wraps(builder)
    def checked(*args: Any, **keywords: Any) -> Any:
        for name in keywords:
            if name not in known:
                raise TypeError(
                    f"{builder.__name__}() got an unexpected keyword argument '{name}'; it takes {', '.join(known)}"
                )
        return builder(*args, **keywords)

    checked.__signature__ = shown.replace(parameters=[*own, *options])  # type: ignore[attr-defined]
    return cast("Builder", checked)


def fragment(allocator: BaseTokenToKVPoolAllocator, seed: int, requests: int = 256) -> None:
    """Let up to `requests` other requests fill the whole pool and leave in random order: the free list is scattered."""
    generator = torch.Generator("cpu").manual_seed(seed)
    longest = max(2, 2 * allocator.num_pages // requests)
    held = []
    while left := allocator.available_size() // allocator.page_size:
        pages = min(left, int(torch.randint(1, longest + 1, (), generator=generator, device="cpu")))
        slots = allocator.alloc(pages * allocator.page_size)
        assert slots is not None  # no more pages than are left
        held.append(slots)
    for i in torch.randperm(len(held), generator=generator, device="cpu").tolist():
        allocator.free(held[i])


def _sm_count(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else H100_SMS

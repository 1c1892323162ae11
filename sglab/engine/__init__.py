"""The serving engine around attention, as in SGLang: `cache` (pools, allocators, radix tree), `batch` (requests and the
batches made of them), and what a model passes to an attention backend (`layer`, `model_runner`)."""

from sglab.engine.batch import AttnBackend, ForwardBatch, ForwardMode, GraphBatch, ModelWorkerBatch, Req, ScheduleBatch
from sglab.engine.cache import (
    KVCache,
    LinearStatePool,
    MHATokenToKVPool,
    MLATokenToKVPool,
    NSATokenToKVPool,
    PagedTokenToKVPoolAllocator,
    RadixCache,
    RadixKey,
    ReqToTokenPool,
    StateConfig,
    TokenToKVPoolAllocator,
)
from sglab.engine.errors import BadArgumentError, NonFiniteKVError, PageTableError, PoolExhaustedError
from sglab.engine.layer import AttentionType, RadixAttention
from sglab.engine.model_runner import ModelConfig, ModelRunner

__all__ = [
    "AttentionType",
    "AttnBackend",
    "BadArgumentError",
    "ForwardBatch",
    "ForwardMode",
    "GraphBatch",
    "KVCache",
    "LinearStatePool",
    "MHATokenToKVPool",
    "MLATokenToKVPool",
    "ModelConfig",
    "ModelRunner",
    "ModelWorkerBatch",
    "NSATokenToKVPool",
    "NonFiniteKVError",
    "PageTableError",
    "PagedTokenToKVPoolAllocator",
    "PoolExhaustedError",
    "RadixAttention",
    "RadixCache",
    "RadixKey",
    "Req",
    "ReqToTokenPool",
    "ScheduleBatch",
    "StateConfig",
    "TokenToKVPoolAllocator",
]

"""The serving engine around attention, as in SGLang: `cache` (pools, allocators, radix tree), `batch` (requests and the
batches made of them), and what a model passes to an attention backend (`layer`, `model_runner`)."""

from sglab.engine.batch import ForwardBatch, ForwardMode, GraphBatch, ModelWorkerBatch, Req, ScheduleBatch
from sglab.engine.cache import (
    KVCache,
    MHATokenToKVPool,
    MLATokenToKVPool,
    PagedTokenToKVPoolAllocator,
    RadixCache,
    RadixKey,
    ReqToTokenPool,
    TokenToKVPoolAllocator,
)
from sglab.engine.errors import BadArgumentError, NonFiniteKVError, PageTableError, PoolExhaustedError
from sglab.engine.layer import AttentionType, RadixAttention
from sglab.engine.model_runner import ModelConfig, ModelRunner

__all__ = [
    "AttentionType",
    "BadArgumentError",
    "ForwardBatch",
    "ForwardMode",
    "GraphBatch",
    "KVCache",
    "MHATokenToKVPool",
    "MLATokenToKVPool",
    "ModelConfig",
    "ModelRunner",
    "ModelWorkerBatch",
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
    "TokenToKVPoolAllocator",
]

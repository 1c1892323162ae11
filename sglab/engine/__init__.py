"""The serving engine around attention, as in SGLang: `cache` (pools, allocators, radix tree), `batch` (requests and the
batches made of them), `scheduler` (which of them run when), and what a model tells an attention backend (`layer`,
`model_runner`). What runs models is in `sglab.serving`."""

from sglab.engine.batch import (
    AttnBackend,
    FinishAbort,
    FinishLength,
    FinishMatchedStr,
    FinishMatchedToken,
    FinishReason,
    ForwardBatch,
    ForwardMode,
    GraphBatch,
    ModelWorkerBatch,
    Req,
    SamplingParams,
    ScheduleBatch,
)
from sglab.engine.cache import (
    HiRadixCache,
    HostKVPool,
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
    "AttnBackend",
    "BadArgumentError",
    "FinishAbort",
    "FinishLength",
    "FinishMatchedStr",
    "FinishMatchedToken",
    "FinishReason",
    "ForwardBatch",
    "ForwardMode",
    "GraphBatch",
    "HiRadixCache",
    "HostKVPool",
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
    "SamplingParams",
    "ScheduleBatch",
    "TokenToKVPoolAllocator",
]

"""The serving engine around attention: requests, batches, pools, allocators and the radix tree, as in SGLang."""

from sglab.engine.batch.forward_batch import ForwardBatch
from sglab.engine.batch.forward_mode import ForwardMode
from sglab.engine.batch.req import Req
from sglab.engine.batch.schedule_batch import ModelWorkerBatch, ScheduleBatch
from sglab.engine.cache.allocator import TokenToKVPoolAllocator
from sglab.engine.cache.kv_pool import KVCache, MHATokenToKVPool, MLATokenToKVPool
from sglab.engine.cache.paged_allocator import PagedTokenToKVPoolAllocator
from sglab.engine.cache.radix_cache import RadixCache
from sglab.engine.cache.radix_node import RadixKey
from sglab.engine.cache.req_to_token_pool import ReqToTokenPool
from sglab.engine.errors import BadArgumentError, NonFiniteKVError, PageTableError, PoolExhaustedError
from sglab.engine.layer import AttentionType, RadixAttention
from sglab.engine.model_runner import ModelConfig, ModelRunner

__all__ = [
    "AttentionType",
    "BadArgumentError",
    "ForwardBatch",
    "ForwardMode",
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

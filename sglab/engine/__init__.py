"""The serving engine around attention: requests, batches, pools, allocators and the radix tree, as in SGLang."""

from sglab.engine.allocator import TokenToKVPoolAllocator
from sglab.engine.batch import Batch
from sglab.engine.build import decode_batch, extend_batch
from sglab.engine.errors import BadArgumentError, NonFiniteKVError, PageTableError, PoolExhaustedError
from sglab.engine.forward_batch import ForwardBatch
from sglab.engine.forward_mode import ForwardMode
from sglab.engine.kv_pool import KVCache, MHATokenToKVPool, MLATokenToKVPool
from sglab.engine.layer import AttentionType, RadixAttention
from sglab.engine.model_runner import ModelConfig, ModelRunner
from sglab.engine.paged_allocator import PagedTokenToKVPoolAllocator
from sglab.engine.radix_cache import RadixCache
from sglab.engine.radix_node import RadixKey
from sglab.engine.req import Req
from sglab.engine.req_to_token_pool import ReqToTokenPool
from sglab.engine.schedule_batch import ModelWorkerBatch, ScheduleBatch

__all__ = [
    "AttentionType",
    "BadArgumentError",
    "Batch",
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
    "decode_batch",
    "extend_batch",
]

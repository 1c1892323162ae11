"""Where tokens' keys and values live: request rows, token slots, KV pools and the radix tree of shared prefixes.

Nothing here knows a request's type: `holder` says what of a request is read.
"""

from sglab.engine.cache.allocator import BaseTokenToKVPoolAllocator, TokenToKVPoolAllocator
from sglab.engine.cache.block_pool import BlockScaledMHATokenToKVPool, FP4MLATokenToKVPool
from sglab.engine.cache.hiradix_cache import HiRadixCache
from sglab.engine.cache.host_pool import HostKVPool
from sglab.engine.cache.index_pool import NSARecordTokenToKVPool, NSATokenToKVPool
from sglab.engine.cache.kv_pool import KVCache, MHATokenToKVPool, MLATokenToKVPool
from sglab.engine.cache.paged_allocator import PagedTokenToKVPoolAllocator
from sglab.engine.cache.radix_cache import RadixCache
from sglab.engine.cache.radix_node import MatchResult, RadixKey, TreeNode
from sglab.engine.cache.record_pool import MLARecordTokenToKVPool
from sglab.engine.cache.req_to_token_pool import ReqToTokenPool
from sglab.engine.cache.state_pool import LinearStatePool, StateConfig

__all__ = [
    "BaseTokenToKVPoolAllocator",
    "BlockScaledMHATokenToKVPool",
    "FP4MLATokenToKVPool",
    "HiRadixCache",
    "HostKVPool",
    "KVCache",
    "LinearStatePool",
    "MHATokenToKVPool",
    "MLARecordTokenToKVPool",
    "MLATokenToKVPool",
    "MatchResult",
    "NSARecordTokenToKVPool",
    "NSATokenToKVPool",
    "PagedTokenToKVPoolAllocator",
    "RadixCache",
    "RadixKey",
    "ReqToTokenPool",
    "StateConfig",
    "TokenToKVPoolAllocator",
    "TreeNode",
]

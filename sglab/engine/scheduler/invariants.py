"""The scheduler's books: every slot is free, in the tree or a running request's own, and every row has one owner.

Source of the equation: SGLang 0.5.23 `managers/scheduler_components/invariant_checker.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from sglab.engine.batch.req import Req
from sglab.engine.cache.paged_allocator import ceil_div
from sglab.engine.cache.radix_cache import RadixCache
from sglab.engine.scheduler.history import PoolUse


class LeakError(RuntimeError):
    """Slots or rows without an owner, or with two. This is a fault of the engine."""


def pool_use(tree_cache: RadixCache, running: Sequence[Req]) -> PoolUse:
    """Who has the slots. `running`: every request that holds a row."""
    allocator, page = tree_cache.token_to_kv_pool_allocator, tree_cache.page_size
    private = 0
    for req in running:  # every step asks this of every request
        held = req.kv_allocated_len if req.kv_allocated_len > req.kv_committed_len else req.kv_committed_len
        private += (held if page == 1 else ceil_div(held, page) * page) - req.cache_protected_len
    return PoolUse(
        size=allocator.size,
        free=allocator.available_size(),
        evictable=tree_cache.evictable_size(),
        protected=tree_cache.protected_size(),
        private=private,
        page_size=page,
        host=tree_cache.host_tokens(),
    )


def check_invariants(tree_cache: RadixCache, running: Sequence[Req]) -> None:
    """available + evictable + protected + private == total, and as many rows taken as requests run.

    Raises:
        LeakError: with all the numbers.
        BadArgumentError: a slot was freed that was free.
    """
    tree_cache.token_to_kv_pool_allocator.check()
    use = pool_use(tree_cache, running)
    if use.free + use.evictable + use.protected + use.private != use.size:
        raise LeakError(
            f"[full] total={use.size}, available={use.free}, evictable={use.evictable}, protected={use.protected}, "
            f"uncached={use.private}: the parts do not make the total"
        )
    rows = tree_cache.req_to_token_pool
    taken = rows.size - rows.available_size()
    if taken != len(running):
        raise LeakError(f"[req] total={rows.size}, taken={taken}, running={len(running)}: a row leaks")

"""Memory for a decode step, and which requests give theirs up when there is none.

Source: SGLang 0.5.23 `managers/schedule_batch.py` (`check_decode_mem`, `retract_decode`).
"""

from __future__ import annotations

from collections.abc import Sequence

from sglab.engine.batch.allocation import release_kv_cache
from sglab.engine.batch.req import Req
from sglab.engine.batch.schedule_batch import ScheduleBatch
from sglab.engine.cache.paged_allocator import get_num_new_pages
from sglab.engine.cache.radix_cache import RadixCache


def new_tokens_required_next_decode(reqs: Sequence[Req], page_size: int, tokens: int = 1) -> int:
    """Slots that a decode step takes, in whole pages.

    Args:
        tokens: of each request; more than one with drafts.
    """
    if page_size == 1:
        return tokens * len(reqs)
    lengths = [req.kv_committed_len for req in reqs]
    return page_size * get_num_new_pages(lengths, [length + tokens for length in lengths], page_size)


def check_decode_mem(reqs: Sequence[Req], tree_cache: RadixCache, tokens: int = 1) -> bool:
    """Whether the next decode step fits; evicts for it where needed."""
    return evict_for(tree_cache, new_tokens_required_next_decode(reqs, tree_cache.page_size, tokens))


def evict_for(tree_cache: RadixCache, needed: int) -> bool:
    """Have `needed` slots free, evicting so many if there are fewer. Returns whether there are."""
    allocator = tree_cache.token_to_kv_pool_allocator
    if allocator.available_size() < needed:
        tree_cache.evict(needed)
    return allocator.available_size() >= needed


def retraction_order(reqs: Sequence[Req]) -> list[int]:
    """Indices, those to keep first: most outputs, then the shortest prompt. Retraction takes from the end."""
    return sorted(
        range(len(reqs)), key=lambda i: (len(reqs[i].output_ids), -len(reqs[i].origin_input_ids)), reverse=True
    )


def retract_decode(batch: ScheduleBatch, tokens: int = 1) -> list[Req]:
    """Take requests out of the batch until the rest can decode one step; one always stays.

    Their tokens are kept, their slots are freed without going to the tree (they are needed at once), and their whole
    input and output are prefilled again later.

    Returns:
        The retracted requests, at least one if there were two.
    """
    retracted = []
    while len(batch.reqs) > 1:
        retracted.append(retract_one(batch))
        if check_decode_mem(batch.reqs, batch.tree_cache, tokens):
            break
    return retracted


def retract_one(batch: ScheduleBatch) -> Req:
    """Take the request out that has generated least (of several, the longest prompt), and free what it holds."""
    *keep, last = retraction_order(batch.reqs)
    req = batch.reqs[last]
    release_kv_cache(req, batch.tree_cache, is_insert=False)
    req.reset_for_retract()
    batch.filter_batch(sorted(keep))
    return req

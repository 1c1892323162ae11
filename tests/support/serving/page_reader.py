"""A model made of nothing but the page table: its next token is a hash of the tokens that it reads through it.

Whatever is wrong with slots, rows or lengths makes it read other tokens, and so generate others.
"""

import torch

from sglab.engine import (
    ForwardMode,
    PagedTokenToKVPoolAllocator,
    RadixCache,
    Req,
    ReqToTokenPool,
    SamplingParams,
    TokenToKVPoolAllocator,
)
from sglab.engine.scheduler import PassResult, ScheduledPass, Scheduler, SchedulerConfig

VOCAB = 97


def next_token(tokens: list[int]) -> int:
    """What the model says after these tokens."""
    state = len(tokens)
    for token in tokens:
        state = (state * 31 + token + 7) % 1_000_003
    return state % VOCAB


def alone(prompt: list[int], count: int) -> list[int]:
    """What a request generates by itself."""
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(next_token(tokens))
    return tokens[len(prompt) :]


def scheduler(
    page: int = 4, pages: int = 16, rows: int = 8, context: int = 200, radix: bool = True, **config: object
) -> Scheduler:
    """A scheduler over pools of its own."""
    size = page * pages
    allocator = PagedTokenToKVPoolAllocator(size, page) if page > 1 else TokenToKVPoolAllocator(size)
    tree = RadixCache(ReqToTokenPool(rows, context), allocator, page, disable=not radix)
    options = {"max_running_requests": rows, "chunked_prefill_size": -1, **config}
    return Scheduler(SchedulerConfig(**options), tree)


def request(rid: str, prompt: list[int], count: int = 4, **sampling: object) -> Req:
    return Req(rid, prompt, sampling_params=SamplingParams(max_new_tokens=count, temperature=0, **sampling))


class PageReader:
    """Runs passes: writes each new token at its slot, reads every request's tokens back through its row."""

    def __init__(self, owner: Scheduler) -> None:
        self.owner = owner
        self.pool = torch.full((owner.allocator.size + owner.page_size,), -1, dtype=torch.int64)
        self.last = torch.full((owner.req_to_token_pool.size,), -1, dtype=torch.int64)
        self.waiting: list[tuple[ScheduledPass, PassResult]] = []

    def forward(self, scheduled: ScheduledPass) -> PassResult:
        batch = scheduled.worker_batch
        ids = torch.where(batch.input_ids < 0, self.last[(-1 - batch.input_ids).clamp(min=0)], batch.input_ids)
        assert (batch.out_cache_loc >= self.owner.page_size).all(), "page 0 is the dummy page"
        assert len(set(batch.out_cache_loc.tolist())) == len(ids), "a slot has one token"
        self.pool[batch.out_cache_loc] = ids
        table = self.owner.req_to_token_pool.req_to_token
        out = []
        for row, length in zip(batch.req_pool_indices.tolist(), batch.seq_lens.tolist(), strict=True):
            out.append(next_token(self.pool[table[row, :length].long()].tolist()))
        self.last[batch.req_pool_indices] = torch.tensor(out)
        if batch.forward_mode is ForwardMode.DECODE:
            assert len(ids) == len(out)
        return PassResult([[token] for token in out])

    def step(self) -> bool:
        """One turn of the engine's loop. Returns whether anything was left to do."""
        scheduled = self.owner.get_next_batch_to_run()
        if scheduled is not None:
            self.waiting.append((scheduled, self.forward(scheduled)))
        self.owner.check_invariants()
        keep = 1 if self.owner.config.enable_overlap and scheduled is not None else 0
        while len(self.waiting) > keep:
            self.owner.process_batch_result(*self.waiting.pop(0))
        self.owner.check_invariants()
        return self.owner.has_work()

    def run(self, most: int = 2000) -> None:
        """Until everything has ended; every slot is then free or evictable and every row free."""
        for _ in range(most):
            if not self.step():
                break
        else:
            raise AssertionError(f"requests still wait after {most} steps")
        tree = self.owner.tree_cache
        assert tree.protected_size() == 0
        assert self.owner.allocator.available_size() + tree.evictable_size() == self.owner.allocator.size
        assert self.owner.req_to_token_pool.available_size() == self.owner.req_to_token_pool.size

"""A pass whose KV pool is never written: real requests, pages and metadata for those who only look at what is built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from sglab.attention.explore import FirstRank
from sglab.engine import (
    ForwardBatch,
    ForwardMode,
    KVCache,
    MHATokenToKVPool,
    MLATokenToKVPool,
    ModelConfig,
    ModelRunner,
    RadixAttention,
    RadixCache,
    Req,
    ScheduleBatch,
)
from sglab.engine.speculation import VerifyInput, full_mask, tree_of
from sglab.workbench.forward_pass import worker_batch
from sglab.workbench.options import BatchOptions


class _Unwritten:
    """A pool's buffers as the system hands them out: pages of memory that are never touched cost nothing."""

    def _zeros(self: KVCache, heads: int, dim: int) -> list[torch.Tensor]:  # type: ignore[misc]
        shape = (self.size + self.page_size, heads, dim)
        return [torch.empty(shape, dtype=self.store_dtype, device=self.device) for _ in range(self.layer_num)]


class _MHAPool(_Unwritten, MHATokenToKVPool):
    """K and V."""


class _MLAPool(_Unwritten, MLATokenToKVPool):
    """Latent rows."""


@dataclass(frozen=True)
class BareOptions(BatchOptions):
    """A batch's shape without its tensors. `kv_dtype`: of the pool; None: that of the queries."""

    kv_dtype: torch.dtype | None = None

    def _kv_pool(self, size: int, config: ModelConfig, dtype: torch.dtype, device: torch.device) -> KVCache:
        stored, page, layers = self.kv_dtype or dtype, self.page_size, self.layer_num
        if config.kind == "mla":
            return _MLAPool(size, page, stored, self.kv_lora_rank, self.qk_rope_head_dim, layers, device)
        kv_heads, dims = config.num_key_value_heads, (config.head_dim, config.v_head_dim)
        return _MHAPool(size, page, stored, kv_heads, dims[0], layers, device, dims[1])

    def bare(
        self, seq_lens: Sequence[int], new_tokens: Sequence[int], mode: ForwardMode
    ) -> tuple[ModelRunner, ForwardBatch, RadixAttention]:
        """Admit the requests, as `build` does; what they attend to stays unwritten.

        Raises:
            BadArgumentError, PoolExhaustedError: as `decode_batch`.
        """
        self._check(min(seq_lens))
        runner = self._runner(list(seq_lens))
        tree = RadixCache(runner.req_to_token_pool, runner.token_to_kv_pool_allocator, self.page_size)
        first, reqs = 0, []
        for i, length in enumerate(seq_lens):
            reqs.append(Req(f"r{i}", list(range(first, first + length))))
            reqs[-1].init_next_round_input(tree)
            first += length
        ScheduleBatch.init_new(reqs, tree).prepare_for_extend()
        made = worker_batch(runner.req_to_token_pool, reqs, list(new_tokens), mode)
        return runner, ForwardBatch.init_new(made, runner), self._layer(runner.model_config)

    def spread(
        self, seq_lens: Sequence[int], new_tokens: Sequence[int], mode: ForwardMode, ranks: int
    ) -> tuple[ModelRunner, ForwardBatch, RadixAttention]:
        """`bare`, as the first of `ranks` has it that a request's context is spread over.

        Pages and heads of these options are a rank's; a rank's rows have the KV heads of all.

        Raises:
            BadArgumentError, PoolExhaustedError: as `bare`.
        """
        kv_heads = None if self.kind == "mla" else self._kv_heads() * ranks
        of_all = replace(
            self, num_heads=self.num_heads * ranks, num_kv_heads=kv_heads, page_size=self.page_size * ranks
        )
        runner, batch, layer = of_all.bare(seq_lens, new_tokens, mode)
        whole = runner.token_to_kv_pool
        pool = self._kv_pool(whole.size // ranks, runner.model_config, runner.dtype, runner.device)
        runner = replace(runner, token_to_kv_pool=pool, page_size=self.page_size, tp_size=ranks, dcp=FirstRank(ranks))
        return runner, replace(batch, token_to_kv_pool=pool), replace(layer, tp_q_head_num=self.num_heads)


def as_verification(batch: ForwardBatch, parents: Sequence[int], topk: int) -> ForwardBatch:
    """An extend by one tree per request as the target model's verification of it.

    Args:
        parents: the node before each node, −1 for the root.
        topk: 1 for a chain.
    """
    assert batch.extend_prefix_lens_cpu is not None
    prefixes = list(batch.extend_prefix_lens_cpu)
    trees = [tree_of(parents)] * len(prefixes)
    mask = full_mask(prefixes, trees, batch.seq_lens.device)
    lens = torch.tensor(prefixes)
    return replace(
        batch,
        forward_mode=ForwardMode.TARGET_VERIFY,
        seq_lens=lens.to(batch.seq_lens.device),
        seq_lens_cpu=lens,
        seq_lens_sum=sum(prefixes),
        extend_seq_lens=None,
        extend_prefix_lens=None,
        spec_info=VerifyInput(len(parents), mask, topk),
    )

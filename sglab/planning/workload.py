"""What a planner is asked to plan: one decode step of a batch on a device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sglab.planning import check
from sglab.planning.check import Int64Array
from sglab.planning.num_kv_splits import check_heads


@dataclass(frozen=True)
class Workload:
    """`seq_lens` int64 (batch,), in tokens, one query token each; this rank's heads; the page size; the device."""

    seq_lens: Int64Array
    num_heads: int
    num_kv_heads: int
    head_dim_qk: int
    head_dim_vo: int
    page_size: int
    sm_count: int
    ctas_per_sm: int
    enable_cuda_graph: bool

    @classmethod
    def checked(
        cls,
        seq_lens: ArrayLike,
        *,
        num_heads: int,
        num_kv_heads: int,
        head_dim_qk: int,
        head_dim_vo: int,
        page_size: int,
        sm_count: int,
        ctas_per_sm: int,
        enable_cuda_graph: bool,
    ) -> Workload:
        num_heads, num_kv_heads = check_heads(num_heads, num_kv_heads)
        return cls(
            seq_lens=check.lengths("seq_lens", seq_lens),
            num_heads=num_heads,
            num_kv_heads=num_kv_heads,
            head_dim_qk=check.integer("head_dim_qk", head_dim_qk, minimum=1),
            head_dim_vo=check.integer("head_dim_vo", head_dim_vo, minimum=1),
            page_size=check.integer("page_size", page_size, minimum=1),
            sm_count=check.integer(
                "sm_count", sm_count, minimum=2, maximum=2048, remedy="an H100 has 132 SMs, a B200 148"
            ),
            ctas_per_sm=check.integer("ctas_per_sm", ctas_per_sm, minimum=1, maximum=32),
            enable_cuda_graph=bool(enable_cuda_graph),
        )

    @property
    def batch_size(self) -> int:
        return self.seq_lens.size

    @property
    def group_size(self) -> int:
        return self.num_heads // self.num_kv_heads

    @property
    def qo_indptr(self) -> Int64Array:
        return np.arange(self.batch_size + 1)

    def require_latent_kv(self, planner: str) -> None:
        """MLA kernels read one latent KV head of 512 + 64 dims."""
        if self.num_kv_heads != 1:
            remedy = "set num_kv_heads=1 (the latent KV of MLA), or choose a planner for MHA and GQA"
            raise check.fail("num_kv_heads", f"1, since {planner} plans MLA", self.num_kv_heads, remedy)

    def require_page_size(self, planner: str, allowed: tuple[int, ...]) -> None:
        if self.page_size not in allowed:
            sizes = " or ".join(map(str, allowed))
            raise check.fail("page_size", f"{sizes} for {planner}", self.page_size, f"set page_size={allowed[-1]}")

"""intel_amx: SGLang's CPU kernels, which read req_to_token themselves; eight splits of a request's KV in decode.

After SGLang 0.5.9 `intel_amx_backend.py`. The kernels' AMX tiles multiply bfloat16; here PyTorch multiplies.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.attention.arithmetic import PagedRows, attend_rows, scoring_of, slots_of_table
from sglab.attention.arithmetic.paged_rows import indptr_of
from sglab.attention.base import AttentionBackend
from sglab.attention.capabilities import CAUSAL_MODES, Capabilities
from sglab.attention.inputs import AttentionInputs
from sglab.attention.page_table.metadata import longest, steps
from sglab.attention.rows import save_and_get_kv, whole_query
from sglab.engine import ForwardBatch, ModelRunner

NUM_KV_SPLITS = 8


@dataclass
class AMXMetadata:
    """`attn_logits`: float32 [B, heads, 8 splits, v_head_dim + 1], a partial output and its LSE. `max_extend_len`: most
    new tokens of a request; None in decode."""

    attn_logits: torch.Tensor
    max_extend_len: int | None


class IntelAMXAttnBackend(AttentionBackend):
    """SGLang's default on a CPU with AMX."""

    name = "intel_amx"
    capabilities = Capabilities(
        modes=CAUSAL_MODES, dtypes=("float16", "bfloat16"), logit_cap=True, triton_helpers=False
    )

    def __init__(self, model_runner: ModelRunner) -> None:
        super().__init__(model_runner)
        config = model_runner.model_config
        self.num_head = config.num_attention_heads // model_runner.tp_size
        self.v_head_dim = config.v_head_dim
        self.device = model_runner.device
        self.req_to_token = model_runner.req_to_token_pool.req_to_token
        self.implementation = model_runner.kernel_implementation
        self.forward_metadata: AMXMetadata | None = None

    def prepare(self, forward_batch: ForwardBatch) -> None:
        super().prepare(forward_batch)
        mode, new = forward_batch.forward_mode, forward_batch.extend_seq_lens_cpu
        shape = (forward_batch.batch_size, self.num_head, NUM_KV_SPLITS, self.v_head_dim + 1)
        logits = torch.zeros(shape, dtype=torch.float32, device=self.device)
        most = None if mode.is_decode_or_idle() or not new else max(new)
        self.forward_metadata = AMXMetadata(logits, most)

    def attend(self, inputs: AttentionInputs) -> torch.Tensor:
        if self.forward_metadata is None:
            raise RuntimeError("prepare comes before forward")
        keys, values = save_and_get_kv(inputs)
        batch = inputs.forward_batch
        rows = token_rows(batch, self.req_to_token, self.forward_metadata.max_extend_len)
        scoring, chosen = scoring_of(inputs.layer), self.implementation
        return attend_rows(whole_query(inputs), keys, values, rows, scoring, implementation=chosen)[0]


def token_rows(batch: ForwardBatch, req_to_token: torch.Tensor, max_extend_len: int | None) -> PagedRows:
    """What kernels attend over that look slots up in req_to_token; None: one query row per request."""
    width = longest(batch, req_to_token.shape[1])
    total = batch.seq_lens_sum if batch.seq_lens_cpu is not None else None
    indptr, indices = slots_of_table(req_to_token[batch.req_pool_indices, :width], batch.seq_lens, 1, total)
    if max_extend_len is None:
        return PagedRows(steps(batch.batch_size, 1, indptr.device), indptr, indices, 1)
    assert batch.extend_seq_lens is not None
    return PagedRows(indptr_of(batch.extend_seq_lens), indptr, indices, max_extend_len)

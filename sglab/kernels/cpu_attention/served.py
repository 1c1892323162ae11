"""Decodes on the host like one that was checked: their tensors, looked at for overlaps, put into its arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from sglab.kernels.contract import Apart
from sglab.kernels.cpu_attention.contract import CpuAttentionArguments
from sglab.kernels.known_calls import Served, Template

_TENSORS = ("q", "out", "k_buffer", "v_buffer", "attn_logits", "req_to_token", "req_pool_indices")
_WHERE = ("lengths", "first", "new_lens", "starts")


class DecodeServer(Served[CpuAttentionArguments]):
    """How calls of decode_attention_cpu like one, whose keys are in the buffers, are served from then on.

    Args:
        call: the one that was checked; of its tensors none is kept but `new_lens` and `starts`, which it made itself.
        run: its implementation.
    """

    def __init__(self, call: CpuAttentionArguments, run: Callable[[Any], object]) -> None:
        super().__init__(call, run, *_TENSORS, *_WHERE, "scoring")
        read = {"q": call.q, "k_buffer": call.k_buffer, "v_buffer": call.v_buffer}
        self._apart = Apart(call.operator, {"output": call.out}, read)
        self._scoring = replace(call.scoring, sinks=None)
        self._with_sinks = Template(self._scoring, "sinks")
        self._new_lens, self._starts = call.new_lens, call.starts  # they follow from the batch's size and are only read

    def __call__(
        self,
        q: torch.Tensor,
        k_buffer: torch.Tensor,
        v_buffer: torch.Tensor,
        output: torch.Tensor,
        key: torch.Tensor | None,
        value: torch.Tensor | None,
        loc: torch.Tensor | None,
        attn_logits: torch.Tensor,
        req_to_token: torch.Tensor,
        req_pool_indices: torch.Tensor,
        seq_lens: torch.Tensor,
        sm_scale: float,
        logit_cap: float = 0.0,
        is_cross_attn: bool = False,
        sliding_window: int = 0,
        encoder_lens: torch.Tensor | None = None,
        sinks: torch.Tensor | None = None,
        **_: Any,
    ) -> None:
        """As decode_attention_cpu.

        Raises:
            ContractError: the output shares memory with what is read; nothing was written.
        """
        self._apart((output,), (q, k_buffer, v_buffer))
        self._serve(
            {
                "q": q,
                "out": output,
                "k_buffer": k_buffer,
                "v_buffer": v_buffer,
                "attn_logits": attn_logits,
                "req_to_token": req_to_token,
                "req_pool_indices": req_pool_indices,
                "lengths": encoder_lens if is_cross_attn else seq_lens,
                "first": None if is_cross_attn else encoder_lens,
                "new_lens": self._new_lens,
                "starts": self._starts,
                "scoring": self._scoring if sinks is None else self._with_sinks.of(sinks=sinks),
            }
        )

"""Extends like one that was checked: their tensors put into its arguments, which then run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from sglab.kernels.extend_attention.contract import ExtendArguments
from sglab.kernels.known_calls import Served, Template

_TENSORS = ("q_extend", "k_extend", "v_extend", "o_extend", "k_buffer", "v_buffer")
_WHERE = ("qo_indptr", "kv_indptr", "kv_indices")


class ExtendServer(Served[ExtendArguments]):
    """How calls of extend_attention_fwd like one are served from then on.

    Args:
        call: the one that was checked; of its tensors none is kept.
        run: its implementation.
    """

    def __init__(self, call: ExtendArguments, run: Callable[[Any], object]) -> None:
        super().__init__(call, run, *_TENSORS, *_WHERE, "scoring", "visibility", "lse", "k_scale", "v_scale")
        masks = ("custom_mask", "mask_indptr", "window_kv_offsets")
        self._scoring = replace(call.scoring, sinks=None)
        self._with_sinks = Template(self._scoring, "sinks")
        self._visibility = replace(call.visibility, custom_mask=None, mask_indptr=None, window_kv_offsets=None)
        self._with_masks = Template(self._visibility, *masks)

    def __call__(
        self,
        q_extend: torch.Tensor,
        k_extend: torch.Tensor,
        v_extend: torch.Tensor,
        o_extend: torch.Tensor,
        k_buffer: torch.Tensor,
        v_buffer: torch.Tensor,
        qo_indptr: torch.Tensor,
        kv_indptr: torch.Tensor,
        kv_indices: torch.Tensor,
        custom_mask: torch.Tensor | None,
        is_causal: bool,
        mask_indptr: torch.Tensor | None,
        max_len_extend: int,
        sm_scale: float | None = None,
        logit_cap: float = 0.0,
        skip_prefix_custom_mask: bool = True,
        sliding_window_size: int = -1,
        sinks: torch.Tensor | None = None,
        window_kv_offsets: torch.Tensor | None = None,
        xai_temperature_len: int = -1,
        *,
        k_scale: float | torch.Tensor = 1.0,
        v_scale: float | torch.Tensor = 1.0,
        lse: torch.Tensor | None = None,
        **_: Any,
    ) -> None:
        """As extend_attention_fwd."""
        visibility = self._visibility
        if not (custom_mask is mask_indptr is window_kv_offsets is None):
            masks = {"custom_mask": custom_mask, "mask_indptr": mask_indptr}
            visibility = self._with_masks.of(window_kv_offsets=window_kv_offsets, **masks)
        self._serve(
            {
                "q_extend": q_extend,
                "k_extend": k_extend,
                "v_extend": v_extend,
                "o_extend": o_extend,
                "k_buffer": k_buffer,
                "v_buffer": v_buffer,
                "qo_indptr": qo_indptr,
                "kv_indptr": kv_indptr,
                "kv_indices": kv_indices,
                "scoring": self._scoring if sinks is None else self._with_sinks.of(sinks=sinks),
                "visibility": visibility,
                "lse": lse,
                "k_scale": k_scale,
                "v_scale": v_scale,
            }
        )

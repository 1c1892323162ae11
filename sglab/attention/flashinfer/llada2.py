"""llada2_cfg_flashinfer: FlashInfer's backend, and one mask more for LLaDA-Image's conditioning pass.

That pass turns a prompt into what an image is drawn from: each request is its text, then learned query tokens. Texts
attend to themselves in both directions and never to the queries; queries attend to everything. It runs once, as an
extend without a prefix, whose keys and values are the pass's own. Source: SGLang 0.5.23
`llada2_cfg_flashinfer_backend.py`.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from sglab.attention.arithmetic import PagedRows, attend_rows, scoring_of
from sglab.attention.arithmetic.paged_rows import indptr_of
from sglab.attention.flashinfer.mha import FlashInferAttnBackend
from sglab.attention.inputs import AttentionInputs
from sglab.attention.rows import save_kv
from sglab.engine import BadArgumentError, ForwardBatch, ForwardMode

TEXT_LENS = "llada_image_conditioning_text_lens_cpu"


class LLaDA2CFGFlashInferAttnBackend(FlashInferAttnBackend):
    """A batch without `llada_image_conditioning_text_lens_cpu` is served as by flashinfer."""

    name = "llada2_cfg_flashinfer"
    capabilities = replace(FlashInferAttnBackend.capabilities, image_conditioning=True, prompt_kv_dtypes=())

    _conditioning: PagedRows | None = None

    @property
    def conditioning_mask_active(self) -> bool:
        """Whether the batch last prepared is a conditioning pass."""
        return self._conditioning is not None

    def prepare(self, forward_batch: ForwardBatch) -> None:
        """
        Raises:
            BadArgumentError: a conditioning pass that is no extend, has a prefix, or text lengths that leave no query;
                or as `AttentionBackend.prepare`.
        """
        text_lens = forward_batch.llada_image_conditioning_text_lens_cpu
        if text_lens is not None:
            check_conditioning(forward_batch, text_lens)
        super().prepare(forward_batch)
        self._conditioning = None if text_lens is None else conditioning_rows(forward_batch, text_lens)

    def attend(self, inputs: AttentionInputs) -> torch.Tensor:
        rows = self._conditioning
        if rows is None:
            return super().attend(inputs)
        layer = inputs.layer
        if inputs.k is None or inputs.v is None:
            raise BadArgumentError("k, v", "the new tokens' rows in a conditioning pass", None, "Pass them.")
        if layer.sliding_window_size >= 0 or layer.is_cross_attention:
            got = f"window {layer.sliding_window_size}, cross attention {layer.is_cross_attention}"
            remedy = "The model has no such layers."
            raise BadArgumentError("layer", "full self-attention in a conditioning pass", got, remedy)
        out = attend_rows(inputs.q, inputs.k, inputs.v, rows, scoring_of(layer), implementation=self.implementation)
        if inputs.save_kv_cache:
            save_kv(inputs)
        return out[0]


def check_conditioning(batch: ForwardBatch, text_lens: list[int]) -> None:
    """Raises BadArgumentError for a batch that is no conditioning pass of these texts."""
    if batch.forward_mode is not ForwardMode.EXTEND:
        remedy = "Run the conditioning as one extend."
        raise BadArgumentError("forward_batch.forward_mode", "EXTEND with texts", batch.forward_mode.name, remedy)
    prefixes, lens = batch.extend_prefix_lens_cpu or [], batch.extend_seq_lens_cpu or []
    if any(prefixes):
        remedy = "A text's keys depend on no query, but this pass computes them all."
        raise BadArgumentError("forward_batch.extend_prefix_lens_cpu", "no prefix with texts", prefixes, remedy)
    if len(text_lens) != len(lens):
        raise BadArgumentError(TEXT_LENS, f"a length for each of {len(lens)} requests", text_lens, "Pass one each.")
    for text, length in zip(text_lens, lens, strict=True):
        if not 0 < text < length:
            expected = f"1..{length - 1} of a request of {length} tokens"
            raise BadArgumentError(TEXT_LENS, expected, text, "Text and query tokens are one request.")


def conditioning_rows(batch: ForwardBatch, text_lens: list[int]) -> PagedRows:
    """The batch's own rows under a mask per request: texts see texts, queries see all."""
    assert batch.extend_seq_lens is not None
    lens, device = batch.extend_seq_lens_cpu or [], batch.seq_lens.device
    masks = []
    for text, length in zip(text_lens, lens, strict=True):
        seen = torch.ones(length, length, dtype=torch.bool)
        seen[:text, text:] = False
        masks.append(seen.flatten())
    starts = torch.tensor([0, *(len(mask) for mask in masks)]).cumsum(0)
    indptr, order = indptr_of(batch.extend_seq_lens), torch.arange(sum(lens), device=device)
    return PagedRows(
        indptr,
        indptr,
        order,
        max(lens),
        causal=False,
        custom_mask=torch.cat(masks).to(device),
        mask_indptr=starts.to(device),
    )

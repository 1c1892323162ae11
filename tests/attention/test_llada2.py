"""llada2_cfg_flashinfer: texts that see no query token, query tokens that see everything; else flashinfer."""

from dataclasses import replace
from typing import Any

import pytest
import torch

import sglab
from sglab.attention import UnsupportedError, create_attention_backend
from sglab.attention.flashinfer.llada2 import LLaDA2CFGFlashInferAttnBackend
from sglab.engine import BadArgumentError
from sglab.workbench import Batch, decode_batch, extend_batch, max_error, reference

SHAPE: dict[str, Any] = {"kind": "mha", "num_heads": 4, "num_kv_heads": 2, "head_dim": 32, "dtype": "float16"}
LENS, TEXTS = [23, 9, 40], [12, 1, 39]


def made() -> tuple[Batch, Any]:
    batch = extend_batch(LENS, **SHAPE)
    return batch, replace(batch.forward_batch, llada_image_conditioning_text_lens_cpu=TEXTS)


@pytest.mark.parametrize("implementation", ["auto", "torch", "triton"])
def test_texts_see_texts_and_queries_see_everything(implementation: str) -> None:
    batch, asked = made()
    runner = replace(batch.runner, kernel_implementation=implementation)
    backend = LLaDA2CFGFlashInferAttnBackend(runner)
    backend.prepare(asked)
    assert backend.conditioning_mask_active
    out = backend.forward(batch.q, batch.k, batch.v, batch.layer, asked).view(sum(LENS), 4, 32)
    start = 0
    for text, length in zip(TEXTS, LENS, strict=True):
        for place in range(length):
            keys = slice(start, start + (text if place < text else length))
            k, v = (rows[keys].double().repeat_interleave(2, 1) for rows in (batch.k, batch.v))
            weights = (torch.einsum("hd,shd->hs", batch.q[start + place].double(), k) * batch.sm_scale).softmax(-1)
            assert max_error(out[start + place], torch.einsum("hs,shd->hd", weights, v)) <= 3e-3
        start += length


def test_a_pass_without_texts_is_flashinfers() -> None:
    batch, asked = made()
    backend = LLaDA2CFGFlashInferAttnBackend(batch.runner)
    backend.prepare(asked)
    assert max_error(sglab.attend(batch, backend), reference(batch).o) <= 3e-3
    assert not backend.conditioning_mask_active
    decode = decode_batch([9, 30], **SHAPE)
    assert max_error(sglab.attend(decode, "llada2_cfg_flashinfer"), reference(decode).o) <= 3e-3


def test_what_is_no_conditioning_pass_is_refused() -> None:
    batch, asked = made()
    for other in ("flashinfer", "torch_native", "fa3"):
        with pytest.raises(UnsupportedError, match=r"text_lens_cpu: expected None .*Use llada2_cfg_flashinfer\.$"):
            create_attention_backend(other, batch.runner).prepare(asked)
    backend = LLaDA2CFGFlashInferAttnBackend(batch.runner)
    for texts, expected in (([12, 1], "a length for each of 3 requests"), ([12, 9, 39], r"1\.\.8 of a request of 9")):
        with pytest.raises(BadArgumentError, match=f"text_lens_cpu: expected {expected}"):
            backend.prepare(replace(asked, llada_image_conditioning_text_lens_cpu=texts))
    cached = extend_batch([23, 9], [0, 4], **SHAPE)
    with pytest.raises(BadArgumentError, match="expected no prefix with texts"):
        LLaDA2CFGFlashInferAttnBackend(cached.runner).prepare(
            replace(cached.forward_batch, llada_image_conditioning_text_lens_cpu=[12, 5])
        )
    decode = decode_batch([9], **SHAPE)
    with pytest.raises(BadArgumentError, match="forward_mode: expected EXTEND with texts, got DECODE"):
        LLaDA2CFGFlashInferAttnBackend(decode.runner).prepare(
            replace(decode.forward_batch, llada_image_conditioning_text_lens_cpu=[5])
        )
    backend.prepare(asked)
    with pytest.raises(BadArgumentError, match="layer: expected full self-attention in a conditioning pass"):
        layer = replace(batch.layer, sliding_window_size=3)
        backend.forward(batch.q, batch.k, batch.v, layer, asked)

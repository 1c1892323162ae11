"""Images in prompts: what their tokens see in triton, fa4 and intel_xpu, and what is refused."""

from dataclasses import replace
from typing import Any

import pytest

from sglab.attention import UnsupportedError, create_attention_backend
from sglab.engine import BadArgumentError, ForwardMode
from sglab.workbench import Batch, attend, decode_batch, extend_batch, max_error, reference
from tests.support.attention import float64_attention

SHAPE: dict[str, Any] = {"kind": "mha", "num_heads": 4, "num_kv_heads": 2, "head_dim": 16, "page_size": 4}


def prompts(spans: list[list[tuple[int, int]]], **options: Any) -> Batch:
    """Two prompts, the first of which goes on after 13 tokens."""
    batch = extend_batch([30, 12], [13, 0], **{"dtype": "bfloat16", **SHAPE, **options})
    batch.forward_batch.image_spans = spans
    return batch


@pytest.mark.parametrize("name", ["triton", "fa4", "intel_xpu"])
@pytest.mark.parametrize("window", [-1, 5])
@pytest.mark.parametrize(
    "spans",
    [
        pytest.param([[(15, 22), (24, 26)], [(0, 11)]], id="whole"),
        pytest.param([[(9, 18), (27, 35)], [(5, 40)]], id="cut"),
        pytest.param([[(0, 12), (14, 14)], []], id="nothing to see"),
    ],
)
def test_tokens_of_an_image_see_each_other(name: str, window: int, spans: list[list[tuple[int, int]]]) -> None:
    batch = prompts(spans)
    batch.layer.sliding_window_size = window
    runner = replace(batch.runner, kernel_implementation="reference" if name == "triton" else "auto")
    backend = create_attention_backend(name, runner)
    out = attend(batch, backend)
    assert max_error(out, float64_attention(batch)) <= 2.5e-2
    sees_more = spans[1] != []
    assert (max_error(out, reference(batch).o) > 0.1) == sees_more


@pytest.mark.parametrize("implementation", ["triton", "cpu"])
def test_tritons_kernels_read_the_mask(implementation: str) -> None:
    batch = prompts([[(15, 22), (24, 26)], [(3, 11)]], dtype="float32")
    batch.layer.sliding_window_size = 4
    backend = create_attention_backend("triton", replace(batch.runner, kernel_implementation=implementation))
    assert max_error(attend(batch, backend), float64_attention(batch)) <= 5e-6


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([[(2, 3)]], r"image_spans: expected 2 lists, got 1\."),
        ([[(5, 9), (9, 12)], []], r"expected spans that lie one behind the other in request 0, got"),
        ([[], [(4, 3)]], r"one behind the other in request 1"),
        ([[(-2, 3)], []], r"one behind the other in request 0"),
    ],
)
def test_spans_that_are_no_places_are_refused(spans: list[list[tuple[int, int]]], message: str) -> None:
    batch = prompts(spans)
    with pytest.raises(BadArgumentError, match=message):
        create_attention_backend("fa4", batch.runner).prepare(batch.forward_batch)


def test_images_are_of_prompts_and_of_backends_that_see_them() -> None:
    batch = prompts([[(15, 22)], []])
    with pytest.raises(
        UnsupportedError, match=r"image_spans: .* got images in 1 of 2 requests\. Use intel_xpu, fa4 or triton\."
    ):
        attend(batch, backend="fa3")
    decoding = decode_batch([9], dtype="bfloat16", **SHAPE)
    passed = replace(decoding.forward_batch, image_spans=[[(2, 4)]])
    message = r"image_spans: expected None but in EXTEND, MIXED or SPLIT_PREFILL for fa4"
    with pytest.raises(UnsupportedError, match=message):
        create_attention_backend("fa4", decoding.runner).prepare(passed)
    catching_up = replace(batch.forward_batch, forward_mode=ForwardMode.DRAFT_EXTEND)
    with pytest.raises(UnsupportedError, match=message):
        create_attention_backend("fa4", batch.runner).prepare(catching_up)

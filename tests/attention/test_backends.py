"""Every backend agrees with the float64 reference: decode, extend and mixed, all layouts, dtypes and page sizes."""

from typing import Any

import pytest
import torch

import sglab
from sglab.workbench import Batch, decode_batch, extend_batch, max_error, reference

TOLERANCE = {torch.float32: 3e-6, torch.float16: 3e-3, torch.bfloat16: 3e-2}
"""Outputs are means of standard normal values; half precision rounds P and O."""

ALL = ("torch_native", "flex_attention", "triton")


def gqa(heads: int, kv_heads: int, head_dim: int = 16, v_head_dim: int | None = None) -> dict[str, Any]:
    return {
        "kind": "mha",
        "num_heads": heads,
        "num_kv_heads": kv_heads,
        "head_dim": head_dim,
        "v_head_dim": v_head_dim,
    }


def mla(heads: int, rank: int = 32, rope: int = 16) -> dict[str, Any]:
    return {"kind": "mla", "num_heads": heads, "kv_lora_rank": rank, "qk_rope_head_dim": rope}


def assert_agrees(batch: Batch, backend: str, **options: Any) -> torch.Tensor:
    out = sglab.attend(batch, backend, **options)
    assert out.shape == (sum(batch.new_tokens), batch.num_heads, batch.layer.v_head_dim)
    assert out.dtype == batch.dtype
    assert max_error(out, reference(batch).o) <= TOLERANCE[batch.dtype]
    return out


DECODE = [
    pytest.param([1], gqa(1, 1), 1, "float32", id="one token, one head"),
    pytest.param([33, 1, 7], gqa(4, 4), 1, "float32", id="MHA, page 1"),
    pytest.param([64, 65, 63], gqa(8, 2, 32), 16, "float32", id="GQA 4, page boundaries"),
    pytest.param([130, 3], gqa(6, 2, 24, 16), 4, "float32", id="GQA 3, odd dims"),
    pytest.param([50, 90], gqa(8, 1, 64), 64, "float16", id="MQA fp16"),
    pytest.param([40, 17, 96], mla(4), 32, "float32", id="MLA"),
    pytest.param([129, 2], mla(16), 128, "bfloat16", id="MLA bf16, page 128"),
    pytest.param([31, 32, 33, 1], gqa(4, 2), 2, "bfloat16", id="GQA bf16"),
]


@pytest.mark.parametrize("layout", ["contiguous", "fragmented"])
@pytest.mark.parametrize("backend", ALL)
@pytest.mark.parametrize(("seq_lens", "shape", "page_size", "dtype"), DECODE)
def test_decode(
    seq_lens: list[int], shape: dict[str, Any], page_size: int, dtype: str, backend: str, layout: Any
) -> None:
    batch = decode_batch(seq_lens, page_size=page_size, dtype=dtype, layout=layout, seed=len(seq_lens), **shape)
    assert_agrees(batch, backend)


@pytest.mark.parametrize("backend", ALL)
@pytest.mark.parametrize("seed", range(3))
def test_decode_of_random_shapes(backend: str, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)

    def draw(*choices: int) -> int:
        return choices[int(torch.randint(len(choices), (), generator=generator))]

    kv_heads = draw(1, 2, 3)
    lengths = torch.randint(1, 200, (draw(1, 2, 5),), generator=generator).tolist()
    shape = gqa(kv_heads * draw(1, 2, 5), kv_heads, draw(8, 16, 48), draw(8, 32))
    batch = decode_batch(
        lengths, page_size=draw(1, 2, 8, 32, 128), layout="fragmented", dtype="float32", seed=seed, **shape
    )
    assert_agrees(batch, backend)


EXTEND = [
    pytest.param([5], [0], [], gqa(2, 2), 1, "float32", id="prefill"),
    pytest.param([40, 9], [24, 3], [], gqa(4, 2), 4, "float32", id="GQA with prefixes"),
    pytest.param([33, 16], [0, 15], [20, 1], gqa(4, 1, 32), 16, "float32", id="mixed with decoding requests"),
    pytest.param([48, 20], [32, 0], [], mla(4), 16, "float32", id="MLA"),
    pytest.param([70, 12], [1, 6], [7], mla(2), 8, "float16", id="MLA fp16, mixed"),
]


@pytest.mark.parametrize("layout", ["contiguous", "fragmented"])
@pytest.mark.parametrize("backend", ALL)
@pytest.mark.parametrize(("seq_lens", "prefix_lens", "decoding", "shape", "page_size", "dtype"), EXTEND)
def test_extend(
    seq_lens: list[int],
    prefix_lens: list[int],
    decoding: list[int],
    shape: dict[str, Any],
    page_size: int,
    dtype: str,
    backend: str,
    layout: Any,
) -> None:
    batch = extend_batch(
        seq_lens, prefix_lens, decode_seq_lens=decoding, page_size=page_size, dtype=dtype, layout=layout, **shape
    )
    assert_agrees(batch, backend)


@pytest.mark.parametrize("backend", ALL)
def test_shared_pages_are_read_by_every_owner(backend: str) -> None:
    batch = decode_batch([40, 30], page_size=8, shared_prefix=24, layout="fragmented", dtype="float32", **gqa(4, 2))
    batch.share_prefix(1, 29, extra_tokens=4)
    batch.free(0)
    batch.extend_by_token(0)
    assert_agrees(batch, backend)


@pytest.mark.parametrize("backend", ["flex_attention", "triton"])
@pytest.mark.parametrize("option", [{"logit_cap": 2.0}, {"xai_temperature_len": 8}])
def test_caps_and_temperatures(backend: str, option: dict[str, float]) -> None:
    for batch in (
        decode_batch([30, 5], page_size=4, dtype="float32", **gqa(4, 2)),
        extend_batch([30, 5], [20, 2], page_size=4, dtype="float32", **gqa(4, 2)),
    ):
        for name, value in option.items():
            setattr(batch.layer, name, value)
        assert_agrees(batch, backend)


@pytest.mark.parametrize(
    ("backend", "window"),
    [
        ("torch_native", 0),
        ("torch_native", 7),
        ("flex_attention", 0),
        ("flex_attention", 7),
        ("triton", 1),
        ("triton", 7),
    ],
)
def test_sliding_windows(backend: str, window: int) -> None:
    for batch in (
        decode_batch([30, 5], page_size=4, dtype="float32", **gqa(4, 2)),
        extend_batch([30, 5], [20, 2], page_size=4, dtype="float32", **gqa(4, 2)),
    ):
        batch.layer.sliding_window_size = window
        assert_agrees(batch, backend)


@pytest.mark.parametrize("backend", ["torch_native", "triton"])
@pytest.mark.parametrize("window", [-1, 7])
def test_sinks_add_to_the_denominator_alone(backend: str, window: int) -> None:
    sinks = torch.tensor([0.5, -2.0, 3.0, 0.0])
    for batch in (
        decode_batch([30, 5], page_size=4, dtype="float32", **gqa(4, 2)),
        extend_batch([30, 5], [20, 2], page_size=4, dtype="float32", **gqa(4, 2)),
    ):
        batch.layer.sliding_window_size = window
        plain = reference(batch)
        share = 1 / (1 + (sinks.double() - plain.lse).exp())
        made = sglab.attention.create_attention_backend(backend, batch.runner)
        made.prepare(batch.forward_batch)
        out = made.forward(batch.q, batch.k, batch.v, batch.layer, batch.forward_batch, sinks=sinks)
        assert max_error(out.view(-1, 4, 16), plain.o * share[..., None]) <= TOLERANCE[torch.float32]


@pytest.mark.parametrize(
    ("backend", "field", "value"),
    [
        ("torch_native", "logit_cap", 5.0),
        ("torch_native", "xai_temperature_len", 8),
        ("triton", "sliding_window_size", 0),
    ],
)
def test_what_a_backend_cannot_do_it_refuses(backend: str, field: str, value: float) -> None:
    batch = decode_batch([9], page_size=4, **gqa(2, 1))
    setattr(batch.layer, field, value)
    with pytest.raises(ValueError, match=rf"layer\.{field}: expected .*for {backend}.*, got {value}.*\. Use "):
        sglab.attend(batch, backend)


@pytest.mark.parametrize("backend", ["cutlass_mla", "flashmla"])
@pytest.mark.parametrize(
    ("field", "value"), [("logit_cap", 5.0), ("sliding_window_size", 0), ("xai_temperature_len", 8)]
)
def test_mla_kernels_refuse_all_but_plain_softmax(backend: str, field: str, value: float) -> None:
    batch = decode_batch([70], num_heads=16, page_size=64)
    setattr(batch.layer, field, value)
    cache = batch.runner.token_to_kv_pool.get_key_buffer(0)
    before = cache.clone()
    with pytest.raises(ValueError, match=rf"layer\.{field}: expected .*for {backend}, got {value}\. Use "):
        sglab.attend(batch, backend)
    assert torch.equal(cache, before)


@pytest.mark.parametrize("backend", ALL)
def test_new_rows_are_saved_where_the_page_table_has_them(backend: str) -> None:
    batch = decode_batch([9, 4], page_size=4, dtype="float32", **gqa(2, 1))
    expected, loc = reference(batch).o, batch.forward_batch.out_cache_loc
    keys = batch.runner.token_to_kv_pool.get_key_buffer(0)
    k, v = batch.k, batch.v
    keys[loc] = 0.0
    made = sglab.attention.create_attention_backend(backend, batch.runner)
    made.prepare(batch.forward_batch)
    out = made.forward(batch.q, k, v, batch.layer, batch.forward_batch)
    assert torch.equal(keys[loc], k)
    assert max_error(out.view(expected.shape), expected) <= TOLERANCE[torch.float32]
    unsaved = made.forward(batch.q, k * 0, v * 0, batch.layer, batch.forward_batch, save_kv_cache=False)
    assert torch.equal(unsaved, out)


@pytest.mark.parametrize("backend", ALL)
def test_an_idle_batch_gives_no_rows(backend: str) -> None:
    batch = decode_batch([9], page_size=4, **gqa(2, 1))
    batch.free(0)
    assert sglab.attend(batch, backend).shape == (0, 2, 16)


def test_deterministic_triton_splits_a_request_alike_in_every_batch() -> None:
    alone = decode_batch([600], page_size=16, dtype="float32", seed=1, **gqa(2, 1))
    among = decode_batch([600, 40, 900], page_size=16, dtype="float32", seed=1, **gqa(2, 1))
    k, v = (buffer[alone.slots(0)] for buffer in alone.runner.token_to_kv_pool.get_kv_buffer(0))
    among.runner.token_to_kv_pool.set_kv_buffer(among.layer, among.slots(0), k, v)
    among.q[0] = alone.q[0]
    for batch in (alone, among):
        batch.runner.enable_deterministic_inference = True
    outs = [assert_agrees(batch, "triton")[0] for batch in (alone, among)]
    assert torch.equal(outs[0], outs[1])


@pytest.mark.slow
@pytest.mark.parametrize("backend", ALL)
def test_long_requests(backend: str) -> None:
    batch = decode_batch([5000, 1, 2049], page_size=64, dtype="float32", layout="fragmented", **gqa(8, 2, 64))
    assert_agrees(batch, backend)
    batch = extend_batch([1500, 700], [1400, 0], page_size=16, dtype="float32", layout="fragmented", **gqa(2, 1, 32))
    assert_agrees(batch, backend)

"""Capabilities: declared as data, held against what the backends do, and the source of every refusal."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

import sglab
from sglab import doctor
from sglab.attention import (
    ATTENTION_BACKENDS,
    SGLANG_BACKENDS,
    AttentionBackend,
    Capabilities,
    Demand,
    UnsupportedError,
    capabilities_by_name,
    create_attention_backend,
    register_attention_backend,
)
from sglab.attention.capabilities import RULES, refuse_unserved
from sglab.attention.origins import ORIGINS
from sglab.attention.upstream import FORWARD_ABSORB_CORE_ATTENTION_BACKENDS
from sglab.cli import main
from sglab.engine import ForwardBatch, ForwardMode
from sglab.workbench import Batch, decode_batch, extend_batch, max_error, reference
from tests.support.attention import every_backend, shape_of

SMALL: dict[str, Any] = {"kind": "mha", "num_heads": 4, "num_kv_heads": 2, "head_dim": 16, "page_size": 4}
PAGE = {"cutlass_mla": 128, "flashmla": 64}


def small_batch(backend: str) -> Batch:
    """Two decoding requests that the backend's own kernel serves."""
    kind = next(kind for name, kind in every_backend() if name == backend)
    return decode_batch([9, 4], **shape_of(backend, kind))


def prepared(backend: str, batch: Batch) -> AttentionBackend:
    made = create_attention_backend(backend, batch.runner)
    made.prepare(batch.forward_batch)
    return made


@pytest.mark.parametrize("backend", ["cutlass_mla", "flashmla", "flex_attention"])
def test_sinks_are_refused_and_nothing_is_written(backend: str) -> None:
    batch = small_batch(backend)
    made = prepared(backend, batch)
    cache = batch.runner.token_to_kv_pool.get_key_buffer(0)
    before, sinks = cache.clone(), torch.full((batch.num_heads,), 8.0)
    with pytest.raises(
        UnsupportedError,
        match=rf"sinks: expected None for {backend}, got a tensor \(\d+,\)\. Use [a-z]",
    ):
        made.forward(batch.q, batch.k + 1, batch.v, batch.layer, batch.forward_batch, sinks=sinks)
    assert torch.equal(cache, before)


@dataclass
class Chain:
    draft_token_num: int
    custom_mask: torch.Tensor
    topk: int = 1


def drafts() -> tuple[Batch, ForwardBatch]:
    """A chain of three drafts after each of two prefixes."""
    prefixes = [9, 20]
    batch = extend_batch([p + 3 for p in prefixes], prefixes, dtype="float32", **SMALL)
    lens = torch.tensor(prefixes)
    masks = [torch.cat((torch.ones(3, p), torch.ones(3, 3).tril()), 1).bool().flatten() for p in prefixes]
    known = {"seq_lens": lens, "seq_lens_cpu": lens, "seq_lens_sum": 29, "spec_info": Chain(3, torch.cat(masks))}
    return batch, replace(batch.forward_batch, forward_mode=ForwardMode.TARGET_VERIFY, **known)


@pytest.mark.parametrize("backend", ["flex_attention"])
def test_drafts_are_not_attended_as_if_they_were_prompts(backend: str) -> None:
    """seq_lens are the prefixes in TARGET_VERIFY: read as an extend's, the drafts would see the prefix alone."""
    batch, verify = drafts()
    made = create_attention_backend(backend, batch.runner)
    message = rf"forward_mode: expected EXTEND, .* for {backend}, got TARGET_VERIFY\. Use .*torch_native"
    with pytest.raises(UnsupportedError, match=message):
        made.prepare(verify)
    with pytest.raises(UnsupportedError, match=message):
        made.forward(batch.q, batch.k, batch.v, batch.layer, verify)


@pytest.mark.parametrize("backend", ["torch_native", "flex_attention"])
def test_a_draft_model_catches_up_as_any_request_extends(backend: str) -> None:
    batch = extend_batch([9, 7], [4, 3], dtype="float32", **SMALL)
    made = create_attention_backend(backend, batch.runner)
    for mode in (ForwardMode.DRAFT_EXTEND, ForwardMode.DRAFT_EXTEND_V2):
        after = replace(batch.forward_batch, forward_mode=mode, spec_info=Chain(3, torch.ones(1)))
        made.prepare(after)
        out = made.forward(batch.q, batch.k, batch.v, batch.layer, after)
        assert max_error(out.view(-1, 4, 16), reference(batch).o) <= 3e-6


@pytest.mark.parametrize("backend", ATTENTION_BACKENDS)
def test_an_idle_worker_of_a_drafting_server_is_idle(backend: str) -> None:
    batch = small_batch(backend)
    idle = replace(batch.forward_batch, forward_mode=ForwardMode.IDLE, batch_size=0, spec_info=Chain(3, torch.ones(1)))
    made = create_attention_backend(backend, batch.runner)
    made.prepare(idle)
    out = made.forward(batch.q[:0], batch.k[:0], batch.v[:0], batch.layer, idle)
    assert out.shape == (0, batch.num_heads * batch.layer.v_head_dim)


def test_an_extend_without_its_lengths_is_refused() -> None:
    batch = extend_batch([9, 7], [4, 3], **SMALL)
    before = batch.runner.token_to_kv_pool.get_key_buffer(0).clone()
    made = create_attention_backend("torch_native", batch.runner)
    lacking = replace(batch.forward_batch, extend_seq_lens_cpu=None)
    with pytest.raises(ValueError, match="extend_seq_lens_cpu: expected new tokens per request in an extend, got None"):
        made.forward(batch.q, batch.k + 1, batch.v, batch.layer, lacking)
    assert torch.equal(batch.runner.token_to_kv_pool.get_key_buffer(0), before)


@pytest.mark.parametrize("backend", ATTENTION_BACKENDS)
def test_flat_rows_are_served_as_rows_of_heads_are(backend: str) -> None:
    batch = small_batch(backend)
    made = prepared(backend, batch)
    rows = batch.q, batch.k, batch.v
    whole = made.forward(*rows, batch.layer, batch.forward_batch)
    assert torch.equal(made.forward(*(each.flatten(1) for each in rows), batch.layer, batch.forward_batch), whole)


@pytest.mark.parametrize("backend", ["torch_native", "flex_attention", "triton"])
def test_rotary_parts_that_come_apart_are_joined(backend: str) -> None:
    batch = decode_batch([9, 4], num_heads=4, kv_lora_rank=32, qk_rope_head_dim=16, page_size=4, dtype="float32")
    made = prepared(backend, batch)
    q, k, v = batch.q, batch.k, batch.v
    whole = made.forward(q, k, v, batch.layer, batch.forward_batch)
    latent, parts = (q[..., :32], k[..., :32], v), {"q_rope": q[..., 32:], "k_rope": k[..., 32:]}
    assert torch.equal(made.forward(*latent, batch.layer, batch.forward_batch, **parts), whole)


def test_the_remedy_names_who_serves_the_whole_call() -> None:
    batch = decode_batch([9], dtype="float32", **SMALL)
    batch.layer.sliding_window_size, batch.layer.logit_cap = 4, 2.0
    with pytest.raises(
        UnsupportedError, match=r"logit_cap: expected 0 for torch_native, got 2\.0\. Use flex_attention or triton\.$"
    ):
        sglab.attend(batch, "torch_native")
    batch.layer.sliding_window_size = 0
    with pytest.raises(UnsupportedError, match=r"expected -1 for triton, .* got 0 with .*\. Use flex_attention\.$"):
        sglab.attend(batch, "triton")
    demand = Demand(mode=ForwardMode.TARGET_VERIFY, spec_info=Chain(3, torch.ones(1)), dtype=torch.float64)
    with pytest.raises(UnsupportedError, match=r"got TARGET_VERIFY\. torch_native, wave or intel_amx would take this"):
        prepared("flex_attention", decode_batch([9], **SMALL)).refuse_unserved(demand)


def test_every_refusal_can_be_worded() -> None:
    """Each rule, asked for what a backend of the least capabilities does not serve."""
    layer = small_batch("triton").layer
    least = Capabilities(kinds=("mla",), page_sizes=(64,), dtypes=("float16",), head_dims=((576, 512),))
    plain = {"head_dim": 576, "v_head_dim": 512}
    demands = {
        "batch": Demand(kind="mha"),
        "page_size": Demand(page_size=16),
        "kv_cache_dtype": Demand(kv_dtype=torch.float8_e5m2),
        "token_to_kv_pool": Demand(kv_records=True),
        "enable_deterministic_inference": Demand(deterministic=True),
        "layer.attn_type": Demand(layer=replace(layer, attn_type=None)),
        "layer.is_cross_attention": Demand(layer=replace(layer, is_cross_attention=True)),
        "forward_batch.forward_mode": Demand(mode=ForwardMode.DLLM_EXTEND),
        "forward_batch.spec_info": Demand(mode=ForwardMode.DECODE, spec_info=layer),
        "graph_batch.forward_mode": Demand(mode=ForwardMode.DECODE, graph=True),
        "forward_batch.encoder_lens": Demand(encoder_lens=torch.ones(1)),
        "forward_batch.llada_image_conditioning_text_lens_cpu": Demand(text_lens=[3]),
        "forward_batch.image_spans": Demand(image_spans=[[(0, 3)]]),
        "q": Demand(dtype=torch.float64),
        "layer.head_dim, layer.v_head_dim": Demand(layer=layer),
        "layer.use_irope": Demand(layer=replace(layer, use_irope=True, **plain), attention_chunk_size=8),
        "layer.logit_cap": Demand(layer=replace(layer, logit_cap=1.0, **plain)),
        "layer.sliding_window_size": Demand(layer=replace(layer, sliding_window_size=0, **plain)),
        "layer.xai_temperature_len": Demand(layer=replace(layer, xai_temperature_len=8, **plain)),
        "sinks": Demand(sinks=torch.ones(4)),
        "topk_indices": Demand(topk_indices=torch.ones(4, 2)),
        "slopes": Demand(slopes=torch.ones(4)),
        "score_mod": Demand(score_mod=lambda logits, *places: logits),
    }
    assert list(demands) == [rule.argument for rule in RULES]
    for argument, demand in demands.items():
        with pytest.raises(UnsupportedError) as refused:
            refuse_unserved("mine", least, demand, capabilities_by_name)
        text = str(refused.value)
        assert refused.value.argument == argument
        assert text.startswith(f"{argument}: expected ") and " for mine, got " in text and text.endswith(".")


def test_what_is_declared_is_consistent() -> None:
    declared = capabilities_by_name()
    assert {name.partition(" ")[0] for name in declared} == set(ATTENTION_BACKENDS)
    for listed, capabilities in declared.items():
        name = listed.partition(" ")[0]
        assert set(capabilities.graph_modes) <= set(capabilities.modes)
        assert (capabilities.drafts is not None) == (ForwardMode.TARGET_VERIFY in capabilities.modes)
        assert capabilities.fallback in ("", *ATTENTION_BACKENDS) and capabilities.fallback != name
        for version, names in FORWARD_ABSORB_CORE_ATTENTION_BACKENDS.items():
            without_mla = name == "intel_xpu" and version != "0.5.23"
            if "mla" in capabilities.kinds and name in SGLANG_BACKENDS[version] and not without_mla:
                assert capabilities.rope_apart == (name in names)


def test_a_registered_backend_is_suggested_by_what_it_declares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sglab.attention.registry.ATTENTION_BACKENDS", dict(ATTENTION_BACKENDS))

    @register_attention_backend("sinking")
    class Sinking(AttentionBackend):
        name = "sinking"
        capabilities = Capabilities(sinks=True)

        def attend(self, inputs: Any) -> torch.Tensor:
            return inputs.q[..., : inputs.layer.v_head_dim] + inputs.sinks[:, None]

    batch = decode_batch([9, 4], dtype="float32", **SMALL)
    with pytest.raises(UnsupportedError, match=r"sinks: .*Use torch_native, sinking or triton\.$"):
        prepared("flex_attention", batch).forward(
            batch.q, batch.k, batch.v, batch.layer, batch.forward_batch, sinks=torch.ones(4)
        )
    out = Sinking(batch.runner).forward(
        batch.q, batch.k, batch.v, batch.layer, batch.forward_batch, sinks=torch.ones(4)
    )
    assert torch.equal(out, (batch.q + 1).flatten(1))


@pytest.mark.parametrize("backend", PAGE)
def test_without_lengths_on_the_host_nothing_waits_for_the_device(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tensors on "meta" have no values: whatever read one on the host would raise."""
    batch = small_batch(backend)
    made = create_attention_backend(backend, batch.runner)
    made.device = torch.device("meta")
    module = type(made).__module__
    monkeypatch.setattr("sglab.attention.paged_mla.create_flashmla_kv_indices", lambda *args, **kwargs: None)
    monkeypatch.setattr(f"{module}.get_mla_metadata", lambda *args: (torch.empty(0), torch.empty(0)), raising=False)
    on_device = {name: getattr(batch.forward_batch, name).to("meta") for name in ("seq_lens", "req_pool_indices")}
    known = replace(batch.forward_batch, **on_device)
    made.prepare(known)
    assert made.forward_metadata.block_kv_indices.shape == (2, 1)
    made.prepare(replace(known, seq_lens_cpu=None))
    width = -(-batch.runner.req_to_token_pool.max_context_len // batch.page_size)
    assert made.forward_metadata.block_kv_indices.shape == (2, width)


def test_the_command_line_prints_what_is_declared(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["backends"]) == 0
    printed = capsys.readouterr().out
    blocks = {block.splitlines()[0]: block for block in printed.split("\n\n")}
    assert list(blocks)[:-1] == list(capabilities_by_name())
    assert "page sizes     64" in blocks["flashmla"] and "other modes    flashinfer" in blocks["cutlass_mla"]
    assert "layer options  sliding_window, logit_cap, xai_temperature" in blocks["flex_attention"]
    assert (
        "SGLang 0.5.23 takes these names, too; here they are refused:\n  qsa: Qwen4-Exp's sparse attention" in printed
    )


def test_every_backend_says_where_it_comes_from() -> None:
    assert set(ORIGINS) == set(ATTENTION_BACKENDS)
    foreign = {name for name, origin in ORIGINS.items() if origin.vendor}
    assert foreign == {"intel_amx", "aiter", "wave", "ascend", "intel_xpu"}
    line = next(check for check in doctor.examine() if check.capability == "Attention backends")
    assert all(name in line.detail for name in ("aiter", "ascend")) and "nothing ran on their chips" in line.detail

"""BART through the engine: an encoder's prompt, and a decoder whose tokens do not depend on scheduling."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sglab.attention import UnsupportedError
from sglab.attention.triton_backend import TritonAttnBackend
from sglab.engine import BadArgumentError, ModelRunner
from sglab.models import CausalLM, from_config
from sglab.serving import Engine
from tests.support.models import oracle, prompts
from tests.support.serving.letters import Letters

SHAPE: dict[str, Any] = {
    "architectures": ["BartForConditionalGeneration"],
    "vocab_size": 64,
    "d_model": 48,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 6,
    "encoder_ffn_dim": 80,
    "decoder_ffn_dim": 72,
    "max_position_embeddings": 64,
    "scale_embedding": True,
    "pad_token_id": 1,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": None,
    "eos_token_id": None,
    "bos_token_id": None,
}
SOURCES = prompts([23, 4, 64, 1, 30], 64)
GREEDY = {"temperature": 0, "max_new_tokens": 24}
SEEDED = {"temperature": 1.0, "sampling_seed": 3, "max_new_tokens": 24}
"""What a random model says greedily is one token, over and over."""


def bart(dtype: str = "float32") -> CausalLM:
    made = from_config(SHAPE, "float32", "cpu", 1)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.dim() > 1:
                parameter += 0.3 * torch.randn(parameter.shape, generator=generator)
    return made.to(getattr(torch, dtype))


def test_tokens_and_log_probabilities_are_those_of_transformers(tmp_path: Path) -> None:
    theirs, ours = oracle("BartForConditionalGeneration", tmp_path, SHAPE)
    engine = Engine(ours, max_total_tokens=600, check_invariants=True)
    for begin in (None, [2, 9, 9, 4]):
        outputs = engine.generate(SOURCES, GREEDY, return_logprob=True, decoder_prompt=begin)
        for source, output in zip(SOURCES, outputs, strict=True):
            first = begin or [2]
            assert output.prompt_token_ids == [*source, *first]
            target = torch.tensor([[*first, *output.token_ids[:-1]]])
            with torch.inference_mode():
                logits = theirs(input_ids=torch.tensor([source]), decoder_input_ids=target).logits[0][len(first) - 1 :]
            assert logits.argmax(-1).tolist() == output.token_ids
            best = logits.log_softmax(-1).amax(-1)
            torch.testing.assert_close(torch.tensor(output.logprobs), best, atol=1e-4, rtol=0)
    if json.loads((tmp_path / "config.json").read_text()).get("num_beams", 1) == 1:
        made = theirs.generate(torch.tensor([SOURCES[0]]), max_new_tokens=24, min_new_tokens=24, do_sample=False)
        assert made[0, 1:].tolist() == engine.generate(SOURCES[0], GREEDY).token_ids


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_tokens_do_not_depend_on_scheduling(data: st.DataObject) -> None:
    made = bart()
    alone = [Engine(made, max_total_tokens=600).generate(source, SEEDED).token_ids for source in SOURCES]
    assert len({tuple(tokens) for tokens in alone}) == len(SOURCES)
    page = data.draw(st.sampled_from([1, 4, 16]))
    options = {
        "page_size": page,
        "max_total_tokens": page * data.draw(st.integers(112 // page, 200 // page)),
        "max_running_requests": data.draw(st.integers(1, 5)),
        "schedule_conservativeness": data.draw(st.sampled_from([0.05, 1.0])),
        "schedule_policy": data.draw(st.sampled_from(["lpm", "fcfs", "lof", "random"])),
        "enable_mixed_chunk": data.draw(st.booleans()),
        "disable_overlap_schedule": data.draw(st.booleans()),
        "cuda_graph": data.draw(st.booleans()),
        "cuda_graph_bs": (1, 4),
    }
    arrivals = data.draw(st.lists(st.integers(0, 8), min_size=len(SOURCES), max_size=len(SOURCES)))
    with Engine(made, check_invariants=True, **options) as engine:
        handles = {}
        for step in range(9):
            for i, arrival in enumerate(arrivals):
                if arrival == step:
                    handles[i] = engine.submit(SOURCES[i], SEEDED)
            engine.step()
        engine.run()
        assert [handles[i].output().token_ids for i in range(len(SOURCES))] == alone
        assert engine.scheduler.allocator.available_size() == engine.scheduler.allocator.size


def test_a_retracted_request_is_encoded_again() -> None:
    made = bart()
    given = [SOURCES[0], SOURCES[4]]
    alone = [Engine(made, max_total_tokens=600).generate(source, SEEDED).token_ids for source in given]
    engine = Engine(made, max_total_tokens=90, schedule_conservativeness=0.01, check_invariants=True)
    handles = []
    for source in given:
        handles.append(engine.submit(source, SEEDED))
        engine.step()
    engine.run()
    outputs = [handle.output() for handle in handles]
    assert [output.token_ids for output in outputs] == alone
    assert sum(output.retractions for output in outputs) > 0


@pytest.mark.parametrize("backend", ["flashinfer", "intel_amx", "fa3", "fa4", "intel_xpu", "triton"])
def test_other_backends_attend_to_the_encoder(backend: str) -> None:
    """In bfloat16, so by logits: log probabilities of the same tokens."""
    made, one = bart("bfloat16"), {"temperature": 0, "max_new_tokens": 6}
    given = SOURCES[:2]
    native = Engine(made, max_total_tokens=400).generate(given, one, return_logprob=True)
    for source, expected in zip(given, native, strict=True):
        other = Engine(made, max_total_tokens=400, attention_backend=backend)
        forced = {**one, "max_new_tokens": 1}
        for i in range(3):
            begin = [2, *expected.token_ids[:i]]
            wanted = expected.token_ids[i : i + 1]
            got = other.generate(
                source, forced, return_logprob=True, token_ids_logprob=wanted, decoder_prompt=begin
            ).token_ids_logprobs
            assert got[0][0][1] == pytest.approx(expected.logprobs[i], abs=0.15)


@pytest.mark.parametrize("backend", ["fa3", "intel_xpu"])
def test_a_page_table_reads_encoders_of_different_lengths(backend: str) -> None:
    """Requests of one pass, each with an encoder of its own length: as probable as alone, in an extend and a decode."""
    engine = Engine(bart("bfloat16"), max_total_tokens=600, attention_backend=backend, check_invariants=True)
    asked: dict[str, Any] = {"return_logprob": True, "decoder_prompt": [2, 9, 13], "token_ids_logprob": [5, 7]}
    sampling = {**GREEDY, "max_new_tokens": 2}
    together = engine.generate(SOURCES, sampling, **asked)
    assert max(len(step.batch) for step in engine.history.steps if step.mode == "DECODE") > 1
    for source, output in zip(SOURCES, together, strict=True):
        alone = engine.generate(source, sampling, **asked)
        assert alone.token_ids == output.token_ids
        assert output.logprobs == pytest.approx(alone.logprobs, abs=0.05)


@pytest.mark.parametrize("backend", ["auto", "flashinfer", "triton", "fa3", "intel_xpu", "intel_amx"])
def test_captured_decodes_read_the_encoder(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Padded to the next size, and replayed for requests of other lengths than were captured."""
    if backend == "triton":  # without the emulator: what is looked at here is the metadata
        made_by = TritonAttnBackend.__init__

        def with_reference(self: TritonAttnBackend, runner: ModelRunner) -> None:
            made_by(self, replace(runner, kernel_implementation="reference"))

        monkeypatch.setattr(TritonAttnBackend, "__init__", with_reference)
    made = bart("float32" if backend in ("auto", "triton") else "bfloat16")
    options = {"attention_backend": backend, "max_total_tokens": 600}
    given, sampling = SOURCES[:3], {**SEEDED, "max_new_tokens": 8}
    plain = Engine(made, **options).generate(given, sampling)
    engine = Engine(made, cuda_graph=True, cuda_graph_bs=(1, 4), check_invariants=True, **options)
    again = engine.generate(given, sampling)
    assert [one.token_ids for one in again] == [one.token_ids for one in plain]
    assert len(engine.worker.graph_runner.replays) >= 7
    assert engine.runner.token_to_kv_pool.get_kv_buffer(0)[0][0].isfinite().all()


def test_log_probabilities_of_the_decoders_prompt(tmp_path: Path) -> None:
    """Those of transformers, also after a retraction and when asked for from the middle on."""
    theirs, ours = oracle("BartForConditionalGeneration", tmp_path, SHAPE)
    begin, source = [2, 9, 13, 4, 40], SOURCES[0]
    target = torch.tensor([begin])
    with torch.inference_mode():
        rows = theirs(input_ids=torch.tensor([source]), decoder_input_ids=target).logits[0].log_softmax(-1)
    wanted = rows[:-1].gather(-1, target[0, 1:, None])[:, 0]
    engine = Engine(ours, max_total_tokens=300, check_invariants=True)
    for start in (0, 2, 4, 5):
        output = engine.generate(
            source, GREEDY, return_logprob=True, logprob_start_len=start, decoder_prompt=begin, top_logprobs_num=2
        )
        assert output.logprob_start_len == start and output.input_logprobs[0] is None
        found = torch.tensor(output.input_logprobs[1:])
        torch.testing.assert_close(found, wanted[start:], atol=1e-4, rtol=0)
        for i, row in enumerate(output.input_top_logprobs[1:]):
            assert [token for token, _ in row] == rows[start + i].topk(2).indices.tolist()
    with pytest.raises(BadArgumentError, match=r"logprob_start_len: expected 0?.*5, got 6"):
        engine.generate(source, GREEDY, return_logprob=True, logprob_start_len=6, decoder_prompt=begin)


@pytest.mark.parametrize(
    "options", [{}, {"cuda_graph": True, "cuda_graph_bs": (1, 6), "disable_overlap_schedule": False}], ids=str
)
def test_two_ranks_say_what_one_says(tmp_path: Path, options: dict[str, Any]) -> None:
    _, ours = oracle("BartForConditionalGeneration", tmp_path, SHAPE)
    wanted = Engine(ours, max_total_tokens=600).generate(SOURCES, GREEDY, return_logprob=True)
    asked = {"return_logprob": True, "logprob_start_len": 0}
    with Engine(
        tmp_path, device="cpu", dtype="float32", tp_size=2, max_total_tokens=300, check_invariants=True, **options
    ) as engine:
        made = engine.generate(SOURCES, GREEDY, decoder_prompt=[2], **asked)
        assert [one.token_ids for one in made] == [one.token_ids for one in wanted]
        for one, other in zip(made, wanted, strict=True):
            torch.testing.assert_close(one.logprobs, other.logprobs, atol=1e-4, rtol=0)
        assert any(step.graph_bs for step in engine.history.steps) == bool(options)


@pytest.mark.parametrize(
    "options",
    [
        {"tp_size": 2, "dp_size": 2},
        {"tp_size": 4, "dp_size": 2, "ep_size": 2, "disable_overlap_schedule": False, "enable_mixed_chunk": True},
    ],
    ids=str,
)
def test_groups_that_attend_apart_say_what_one_rank_says(tmp_path: Path, options: dict[str, Any]) -> None:
    """Requests end at different steps, so that a group is idle while the other decodes and encodes."""
    shape = {**SHAPE, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
    _, ours = oracle("BartForConditionalGeneration", tmp_path, shape)
    each = [{**GREEDY, "max_new_tokens": count} for count in (5, 24, 3, 9, 14)]
    asked = {"return_logprob": True, "logprob_start_len": 0, "decoder_prompt": [2, 9]}
    wanted = Engine(ours, max_total_tokens=600).generate(SOURCES, each, **asked)
    engine = Engine(tmp_path, device="cpu", dtype="float32", max_total_tokens=300, check_invariants=True, **options)
    with engine:
        made = engine.generate(SOURCES, each, **asked)
        assert [one.token_ids for one in made] == [one.token_ids for one in wanted]
        for one, other in zip(made, wanted, strict=True):
            torch.testing.assert_close(one.logprobs, other.logprobs, atol=1e-4, rtol=0)
            torch.testing.assert_close(one.input_logprobs[1:], other.input_logprobs[1:], atol=1e-4, rtol=0)
        assert all(len(each.history.steps) > 3 for each in engine.scheduler.schedulers)


def test_what_does_not_fit_is_refused_by_name() -> None:
    made = bart()
    with pytest.raises(UnsupportedError, match=r"is_cross_attention: expected False for flex_attention, got True"):
        Engine(made, attention_backend="flex_attention", max_total_tokens=200)
    with pytest.raises(UnsupportedError, match="cuda_graph: expected no CUDA graph for torch_native, got"):
        Engine(bart("bfloat16"), attention_backend="torch_native", max_total_tokens=200, cuda_graph=True)
    for option in (
        {"enable_piecewise_cuda_graph": True},
        {"enable_hierarchical_cache": True},
        {"speculative_algorithm": "NGRAM"},
    ):
        with pytest.raises(BadArgumentError, match=f"{next(iter(option))}: expected its default with a model that has"):
            Engine(made, max_total_tokens=200, **option)
    engine = Engine(made, tokenizer=Letters(), max_total_tokens=200)
    with pytest.raises(BadArgumentError, match=r"prompt: expected 1\.\.64 tokens, got 65"):
        engine.generate([5] * 65)
    with pytest.raises(BadArgumentError, match=r"decoder_prompt: expected 1\.\.63 tokens, got 64"):
        engine.generate([5], decoder_prompt=[5] * 64)
    assert engine.generate("AB", GREEDY, decoder_prompt="C").prompt_token_ids == [1, 2, 2, 3]
    assert len(engine.generate([5], {"temperature": 0, "max_new_tokens": 1000}).token_ids) == 63
    assert engine.scheduler.allocator.available_size() == engine.scheduler.allocator.size


def test_the_other_models_have_no_decoder_prompt() -> None:
    from tests.support.serving.tiny import tiny_llama

    with pytest.raises(BadArgumentError, match="decoder_prompt: expected None for a decoder alone"):
        Engine(tiny_llama(), max_total_tokens=64).generate([1], decoder_prompt=[2])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("graph", [True, False])
def test_on_a_gpu(graph: bool) -> None:
    """float32, which triton serves; decodes replay captured graphs, and steps overlap."""
    made, plain = bart().cuda(), {"attention_backend": "torch_native", "disable_overlap_schedule": True}
    wanted = Engine(made, max_total_tokens=600, **plain).generate(SOURCES, SEEDED)
    engine = Engine(made, cuda_graph=graph, max_total_tokens=600, check_invariants=True)
    assert engine.config.attention_backend == "triton" and engine.scheduler.config.enable_overlap
    again = engine.generate(SOURCES, SEEDED)
    assert [one.token_ids for one in again] == [one.token_ids for one in wanted]
    assert (engine.worker.graph_runner is not None and bool(engine.worker.graph_runner.replays)) == graph

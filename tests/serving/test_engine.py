"""The engine as its users call it."""

import pytest
import torch

from sglab.engine import BadArgumentError, BlockScaledMHATokenToKVPool, MLARecordTokenToKVPool
from sglab.models import ByteTokenizer
from sglab.serving import Engine, RequestAbortedError
from tests.support.serving.letters import Letters
from tests.support.serving.tiny import VOCAB, prompts, tiny_llama

GREEDY = {"temperature": 0, "max_new_tokens": 12}


@pytest.fixture
def engine() -> Engine:
    return Engine(tiny_llama(), tokenizer=Letters(), page_size=4, max_total_tokens=256, check_invariants=True)


def recomputed(prompt: list[int], count: int) -> list[int]:
    """Greedy tokens where every step computes all tokens again."""
    tokens = list(prompt)
    for _ in range(count):
        engine = Engine(tiny_llama(), disable_radix_cache=True, max_total_tokens=256)
        tokens += engine.generate(tokens, {"temperature": 0, "max_new_tokens": 1}).token_ids
    return tokens[len(prompt) :]


def test_decoding_is_the_argmax_of_full_recomputation(engine: Engine) -> None:
    prompt = prompts(1)[0]
    assert engine.generate(prompt, GREEDY).token_ids == recomputed(prompt, 12)


def test_one_prompt_gives_one_output_and_a_list_a_list(engine: Engine) -> None:
    one = engine.generate("HELLO", GREEDY)
    several = engine.generate(["HELLO", [1, 2, 3]], GREEDY)
    assert several[0].token_ids == one.token_ids and several[1].prompt_token_ids == [1, 2, 3]
    assert one.text == Letters().decode(one.token_ids) and one.finish_reason == "length"


def test_a_prompt_may_have_its_own_sampling(engine: Engine) -> None:
    short, long = engine.generate(["A", "B"], [{"max_new_tokens": 2}, {"max_new_tokens": 5}])
    assert (len(short.token_ids), len(long.token_ids)) == (2, 5)


def test_a_stream_yields_what_generate_returns(engine: Engine) -> None:
    whole = engine.generate("HELLO", GREEDY)
    deltas = list(engine.stream("HELLO", GREEDY))
    assert [token for delta in deltas for token in delta.token_ids] == whole.token_ids
    assert "".join(delta.text for delta in deltas) == whole.text
    assert deltas[-1].finish_reason == "length"


def test_leaving_a_stream_aborts_its_request(engine: Engine) -> None:
    for _ in engine.stream("HELLO", GREEDY):
        break
    engine.run()
    assert not engine.scheduler.holders()


def test_a_stop_string_ends_the_text_before_it_also_in_a_stream(engine: Engine) -> None:
    text = engine.generate("HELLO", GREEDY).text
    stop = text[4:6]
    until = text[: text.index(stop)]
    stopped = engine.generate("HELLO", {**GREEDY, "stop": [stop]})
    assert (stopped.text, stopped.finish_reason, stopped.matched_stop) == (until, "stop", stop)
    assert "".join(delta.text for delta in engine.stream("HELLO", {**GREEDY, "stop": [stop]})) == until


def test_a_stop_token_ends_the_request(engine: Engine) -> None:
    tokens = engine.generate("HELLO", GREEDY).token_ids
    stopped = engine.generate("HELLO", {**GREEDY, "stop_token_ids": [tokens[3]]})
    assert stopped.token_ids == tokens[: tokens.index(tokens[3]) + 1]
    assert stopped.finish_reason == "stop" and stopped.text == Letters().decode(stopped.token_ids[:-1])


def test_min_new_tokens_keeps_stop_tokens_away(engine: Engine) -> None:
    tokens = engine.generate("HELLO", GREEDY).token_ids
    output = engine.generate("HELLO", {**GREEDY, "stop_token_ids": [tokens[1]], "min_new_tokens": 6})
    assert tokens[1] not in output.token_ids[:6] and len(output.token_ids) >= 6


def test_a_character_of_several_tokens_is_not_sent_in_parts() -> None:
    config = {"vocab_size": 256, "eos_token_id": None}
    engine = Engine(tiny_llama(**config), tokenizer=ByteTokenizer(), max_total_tokens=256)
    bias = [{token: 100.0} for token in "é".encode()]
    handle = engine.submit("x", {"temperature": 0, "max_new_tokens": 1, "logit_bias": bias[0]})
    engine.run()
    handle.req.finished_reason = None
    assert handle.read().text == ""
    handle.req.output_ids.append("é".encode()[1])
    assert handle.read().text == "é"


def test_logprobs_are_those_of_the_models_logits(engine: Engine) -> None:
    output = engine.generate("HELLO", GREEDY, return_logprob=True, top_logprobs_num=3)
    assert output.logprobs is not None and output.top_logprobs is not None
    for token, logprob, top in zip(output.token_ids, output.logprobs, output.top_logprobs, strict=True):
        assert top[0] == (token, pytest.approx(logprob)) and len(top) == 3
        assert top[0][1] >= top[1][1] >= top[2][1]
    assert engine.generate("HELLO", GREEDY).logprobs is None


@pytest.mark.parametrize("overlap", [False, True])
def test_seeded_tokens_do_not_depend_on_the_batch(overlap: bool) -> None:
    model = tiny_llama()
    sampling = {"temperature": 0.8, "top_p": 0.9, "top_k": 20, "sampling_seed": 7, "max_new_tokens": 12}
    alone = Engine(model, max_total_tokens=512).generate([3, 4, 5], sampling)
    with Engine(model, max_total_tokens=512, disable_overlap_schedule=not overlap) as engine:
        handle = engine.submit([3, 4, 5], sampling)
        for prompt in prompts(5):
            engine.submit(prompt, {"temperature": 1.2, "max_new_tokens": 9})
        engine.run()
    assert handle.output().token_ids == alone.token_ids
    other = Engine(model, max_total_tokens=512).generate([3, 4, 5], {**sampling, "sampling_seed": 8})
    assert other.token_ids != alone.token_ids


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("penalty", [{"frequency_penalty": 2.0}, {"presence_penalty": 2.0}])
def test_penalties_count_every_token_also_those_that_the_host_has_not_seen(overlap: bool, penalty: dict) -> None:
    model = tiny_llama()
    plain = Engine(model, max_total_tokens=512)
    tokens, counts = [3, 4, 5], torch.zeros(VOCAB)
    one = {"temperature": 0, "max_new_tokens": 1}
    for _ in range(16):
        top = plain.generate(tokens, one, return_logprob=True, top_logprobs_num=VOCAB).top_logprobs[0]
        plain.flush_cache()
        logits = torch.full((VOCAB,), -torch.inf)  # up to a constant, which subtractions forgive
        for token, logprob in top:
            logits[token] = logprob
        logits -= penalty.get("frequency_penalty", 0) * counts + penalty.get("presence_penalty", 0) * (counts > 0)
        tokens.append(int(logits.argmax()))
        counts[tokens[-1]] += 1
    with Engine(model, max_total_tokens=512, disable_overlap_schedule=not overlap) as engine:
        given = engine.generate([3, 4, 5], {"temperature": 0, "max_new_tokens": 16, **penalty})
    assert given.token_ids == tokens[3:]


@pytest.mark.parametrize(
    ("prompt", "sampling", "message"),
    [
        ([], {}, "prompt: expected at least one token"),
        ([1] * 255, {}, "prompt: expected fewer than"),
        ([VOCAB], {}, r"prompt\[0\]: expected an integer 0..63, got 64"),
        ([1.5], {}, r"prompt\[0\]"),
        ([1], {"temperature": -1}, "temperature: expected"),
        ([1], {"temprature": 1}, "sampling: expected"),
        ([1], {"stop_token_ids": [VOCAB]}, "stop_token_ids"),
        ([1], 3, "sampling: expected"),
        (7, {}, "prompt: expected a text or token ids"),
    ],
)
def test_what_cannot_be_served_is_refused_and_the_others_go_on(
    engine: Engine, prompt: object, sampling: object, message: str
) -> None:
    other = engine.submit([1, 2, 3], GREEDY)
    engine.step()
    with pytest.raises(BadArgumentError, match=message):
        engine.submit(prompt, sampling)
    engine.run()
    assert other.output().token_ids == Engine(tiny_llama(), max_total_tokens=256).generate([1, 2, 3], GREEDY).token_ids


def test_of_several_prompts_none_runs_if_one_is_refused(engine: Engine) -> None:
    with pytest.raises(BadArgumentError):
        engine.generate([[1, 2], [1] * 255], GREEDY)
    assert not engine.scheduler.has_work()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"page_size": 3}, "page_size"),
        ({"mem_fraction": 1.5}, "mem_fraction"),
        ({"max_total_tokens": 1}, "max_total_tokens"),
        ({"context_length": 100_000}, "context_length: expected at most the model's 512"),
        ({"schedule_policy": "best"}, "schedule_policy"),
        ({"pagesize": 4}, "Engine: expected options among"),
        ({"attention_backend": "tritton"}, "unknown attention backend"),
        ({"enable_hierarchical_cache": True, "disable_radix_cache": True}, "enable_hierarchical_cache"),
        ({"page_size": 64, "chunked_prefill_size": 32}, "chunked_prefill_size"),
    ],
)
def test_options_that_do_not_fit_are_refused_by_name(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Engine(tiny_llama(), **options)


@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("failing", range(4))
def test_a_pass_that_fails_while_the_next_is_planned_loses_no_page(
    failing: int, page_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With overlap the next pass of its requests has slots already, for tokens that never come."""
    options = {"page_size": page_size, "max_total_tokens": 256, "check_invariants": True}
    with Engine(tiny_llama(), tokenizer=Letters(), disable_overlap_schedule=False, **options) as engine:
        forward, passes = engine.runs.forward, iter(range(100))

        def fails(inputs: object) -> object:
            if next(passes) == failing:
                raise RuntimeError("out of luck")
            return forward(inputs)

        monkeypatch.setattr(engine.runs, "forward", fails)
        with pytest.raises(RequestAbortedError, match="out of luck"):
            engine.generate(prompts(3), GREEDY)
        assert engine.generate("HELLO", GREEDY).finish_reason == "length"


def test_a_pass_that_fails_ends_its_requests_and_loses_no_page(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    first = engine.submit([1, 2, 3], GREEDY)
    engine.step()
    with monkeypatch.context() as patched:
        patched.setattr(engine.model, "compute_logits", lambda rows: 1 / 0)
        with pytest.raises(RequestAbortedError, match="ZeroDivisionError"):
            engine.generate([4, 5], GREEDY)
    assert engine.generate([4, 5], GREEDY).finish_reason == "length"
    engine.run()
    assert first.output().finish_reason in ("length", "abort")
    engine.scheduler.check_invariants()
    assert not engine.scheduler.holders()


def test_hooks_see_the_modules_that_a_pattern_names() -> None:
    seen: list[tuple[int, ...]] = []

    def factory(config: dict) -> object:
        return lambda module, args, output: seen.append(tuple(output.shape))

    hooks = ({"name": "mlp", "target_modules": ["model.layers.*.mlp"], "hook_factory": factory},)
    with Engine(tiny_llama(), max_total_tokens=256, forward_hooks=hooks, cuda_graph=False) as engine:
        engine.generate([1, 2, 3], {"temperature": 0, "max_new_tokens": 2})
    assert seen == [(3, 32)] * 2 + [(1, 32)] * 2


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"target_modules": ["nothing.*"], "hook_factory": lambda config: print}, "a pattern that matches a module"),
        ({"target_modules": [], "hook_factory": lambda config: print}, "patterns of module names"),
        ({"target_modules": ["model"], "hook_factory": lambda config: None}, "a factory that returns a hook"),
        ({"target_modules": ["model"], "hook_factory": "no.such:thing"}, "a function or 'module:function'"),
        ({"target_modules": ["model"], "hook_factory": "sglab"}, "a function or 'module:function'"),
    ],
)
def test_a_hook_that_would_see_nothing_is_refused(spec: dict, message: str) -> None:
    with pytest.raises(BadArgumentError, match=message):
        Engine(tiny_llama(), max_total_tokens=256, forward_hooks=(spec,))


def test_kv_rows_in_eight_bits_and_the_backends_that_read_them() -> None:
    prompt = prompts(1)[0]
    plain, eight = (
        Engine(tiny_llama(), kv_cache_dtype=name, max_total_tokens=64).runner.token_to_kv_pool
        for name in ("auto", "fp8_e4m3")
    )
    assert eight.dtype == torch.float8_e4m3fn
    assert plain.get_kv_size_bytes() == plain.dtype.itemsize * eight.get_kv_size_bytes()
    engine = Engine(tiny_llama(), kv_cache_dtype="fp8_e5m2", max_total_tokens=64)
    assert len(engine.generate(prompt, GREEDY).token_ids) == 12
    assert engine.runner.token_to_kv_pool.get_key_buffer(0).float().count_nonzero()
    with pytest.raises(BadArgumentError, match=r"kv_cache_dtype: expected .* for fa3, got float8_e5m2"):
        Engine(tiny_llama(), kv_cache_dtype="fp8_e5m2", attention_backend="fa3", dtype="bfloat16")
    with pytest.raises(
        BadArgumentError, match=r"kv_cache_dtype: expected 'auto' or 'fp8_e4m3' or 'fp8_e5m2' .*'mxfp8', got 'fp8'"
    ):
        Engine(tiny_llama(), kv_cache_dtype="fp8")


@pytest.mark.parametrize("backend", ["torch_native", "triton"])
def test_kv_rows_in_four_bits(backend: str) -> None:
    options = {"attention_backend": backend, "max_total_tokens": 64, "check_invariants": True}
    engine = Engine(tiny_llama(hidden_size=64), kv_cache_dtype="fp4_mx_block16", **options)
    prompt = prompts(1)[0]
    assert len(engine.generate(prompt, GREEDY).token_ids) == 12
    pool = engine.runner.token_to_kv_pool
    assert isinstance(pool, BlockScaledMHATokenToKVPool)
    wide = Engine(tiny_llama(hidden_size=64), **options).runner.token_to_kv_pool
    assert pool.get_kv_size_bytes() * 16 == wide.get_kv_size_bytes() * 9 // wide.dtype.itemsize
    for held in pool.named_buffers(pool.start_layer).values():
        assert held.any()


def test_pools_with_scales_for_blocks_and_who_reads_them() -> None:
    for name, words in (
        ("nvfp4", "expected .* for torch_native, got nvfp4. Use trtllm_mha with pages of 16, 32, 64 or 128"),
        ("mxfp8", "page_size: expected 128 for mxfp8, got 1"),
    ):
        with pytest.raises(BadArgumentError, match=words):
            Engine(tiny_llama(hidden_size=64), kv_cache_dtype=name, max_total_tokens=64)
    model = tiny_llama(hidden_size=64)
    with pytest.raises(
        BadArgumentError, match=r"kv_cache_dtype: expected .*nvfp4 in prompts for flashinfer, got nvfp4 in"
    ):
        Engine(model, kv_cache_dtype="nvfp4", attention_backend="flashinfer", page_size=16, dtype="bfloat16")
    with pytest.raises(BadArgumentError, match="enable_hierarchical_cache: expected False with scales for blocks"):
        Engine(tiny_llama(hidden_size=64), kv_cache_dtype="fp4_mx_block16", enable_hierarchical_cache=True)


def test_dsa_generates_from_records() -> None:
    options = {"attention_backend": "dsa", "dtype": "bfloat16", "max_total_tokens": 512, "check_invariants": True}
    prompt = "Mia had lost a green key."
    texts = []
    for name in ("auto", "fp8_e4m3"):
        engine = Engine("tiny", kv_cache_dtype=name, **options)
        texts.append(engine.generate(prompt, GREEDY).text)
    pool = engine.runner.token_to_kv_pool
    assert isinstance(pool, MLARecordTokenToKVPool) and pool.get_records(0).any()
    assert pool.get_kv_size_bytes() == 656 * 4 * (pool.size + pool.page_size)
    assert texts[0] == texts[1], "the shipped model is sure of these bytes"

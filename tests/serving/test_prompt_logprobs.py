"""Log probabilities of prompts, against transformers' log-softmax, whatever the schedule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sglab
from sglab.engine import BadArgumentError
from sglab.serving import Engine
from sglab.serving.output import Output
from sglab.serving.ranks import Ranks
from tests.support import quantized as q
from tests.support.models import oracle
from tests.support.models import prompts as drawn_prompts
from tests.support.ranks import fork_follower
from tests.support.serving.tiny import VOCAB, prompts, tiny_llama
from tests.support.tiny_configs import LLAMA, drawn

CONFIG: dict[str, Any] = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
}
GREEDY = {"temperature": 0, "max_new_tokens": 4}
EACH = {"return_logprob": True, "top_logprobs_num": 3, "token_ids_logprob": [7, 1]}
BASE = prompts(1, 40, seed=3)[0] + prompts(1, 40, seed=4)[0]
PROMPTS = [BASE, [*BASE[:20], 3, 3, 9, 1], BASE[:9], [5], [*BASE, 2, 8, 8]]


def check(output: Output, logprobs: torch.Tensor, tolerance: float = 2e-5) -> None:
    """`logprobs`: [tokens of prompt and output, vocab], the oracle's, a row for the token after each."""
    start, prompt = output.logprob_start_len, output.prompt_token_ids
    tokens = prompt + output.token_ids
    assert output.input_logprobs is not None and output.logprobs is not None
    assert len(output.input_logprobs) == max(len(prompt) - start, 1)
    got = [*output.input_logprobs[1:], *output.logprobs]
    top = [*(output.input_top_logprobs or [])[1:], *(output.top_logprobs or [])]
    ids = [*(output.input_token_ids_logprobs or [])[1:], *(output.token_ids_logprobs or [])]
    places = [*range(start + 1, len(prompt)), *range(len(prompt), len(tokens))]
    for value, best, asked, place in zip(got, top, ids, places, strict=True):
        row = logprobs[place - 1]
        assert value == pytest.approx(float(row[tokens[place]]), abs=tolerance)
        assert [p for _, p in best] == pytest.approx(row.topk(3).values.tolist(), abs=tolerance)
        assert [float(row[token]) for token, _ in best] == pytest.approx([p for _, p in best], abs=tolerance)
        assert [token for token, _ in asked] == [7, 1]
        assert [p for _, p in asked] == pytest.approx(row[[7, 1]].tolist(), abs=tolerance)
    for rank, place in zip((output.input_ranks or [])[1:], places, strict=False):
        row = logprobs[place - 1]
        assert rank is not None and row.sort(descending=True).values[rank - 1] == pytest.approx(
            float(row[tokens[place]]), abs=tolerance
        )


def test_transformers_log_softmax(tmp_path: Path) -> None:
    theirs, ours = oracle("LlamaForCausalLM", tmp_path, CONFIG)
    given = drawn_prompts([37, 5, 61, 1], CONFIG["vocab_size"])
    starts = [0, 2, 40, 0]
    with Engine(ours, max_total_tokens=512, chunked_prefill_size=16, page_size=4) as engine:
        for _ in range(2):  # the second time there are prefixes in the tree
            outputs = engine.generate(given, GREEDY, logprob_start_len=starts, **EACH)
            for output, prompt in zip(outputs, given, strict=True):
                with torch.inference_mode():
                    logits = theirs(torch.tensor([prompt + output.token_ids])).logits[0]
                check(output, logits.double().log_softmax(-1))


def test_the_cache_serves_no_position_that_is_read() -> None:
    """SGLang matches at most logprob_start_len tokens."""
    with Engine(tiny_llama(), max_total_tokens=512, page_size=4) as engine:
        engine.generate(BASE, GREEDY)
        cached = [
            engine.generate(BASE, GREEDY, return_logprob=True, logprob_start_len=start).cached_tokens
            for start in (-1, 0, 14, len(BASE))
        ]
    assert cached == [(len(BASE) - 1) // 4 * 4, 0, 12, (len(BASE) - 1) // 4 * 4]


@st.composite
def histories(draw: st.DrawFn) -> dict[str, Any]:
    page = draw(st.sampled_from([1, 4, 16]))
    least = -(-(max(map(len, PROMPTS)) + 8 + page + 2) // page)
    speculative = draw(st.booleans())
    return {
        "requests": draw(
            st.lists(
                st.tuples(st.integers(0, len(PROMPTS) - 1), st.integers(-1, 40), st.integers(1, 8), st.integers(0, 4)),
                min_size=1,
                max_size=6,
            )
        ),
        "options": {
            "page_size": page,
            "max_total_tokens": page * draw(st.integers(least, 3 * least)),
            "disable_radix_cache": draw(st.booleans()),
            "chunked_prefill_size": draw(st.sampled_from([-1, page, 2 * page + 5])),
            "schedule_conservativeness": draw(st.sampled_from([0.1, 1.0])),
            **(
                {"speculative_algorithm": "NGRAM"}
                if speculative
                else {
                    "disable_overlap_schedule": draw(st.booleans()),
                    "enable_mixed_chunk": draw(st.booleans()),
                    "enable_piecewise_cuda_graph": draw(st.booleans()),
                    "piecewise_cuda_graph_tokens": (8, 64),
                }
            ),
        },
    }


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories())
def test_any_schedule(history: dict[str, Any]) -> None:
    model = tiny_llama()
    with Engine(model, check_invariants=True, **history["options"]) as engine:
        handles = []
        for step in range(5):
            for which, start, count, arrival in history["requests"]:
                if arrival == step:
                    start = min(start, len(PROMPTS[which]))
                    sampling = {"temperature": 0, "max_new_tokens": count}
                    handles.append(engine.submit(PROMPTS[which], sampling, logprob_start_len=start, **EACH))
            engine.step()
        engine.run()
    with Engine(model, disable_radix_cache=True, max_total_tokens=256) as alone:
        for handle in handles:
            output = handle.output()
            tokens = output.prompt_token_ids + output.token_ids
            whole = alone.generate(
                tokens,
                {"temperature": 0, "max_new_tokens": 1},
                return_logprob=True,
                logprob_start_len=0,
                token_ids_logprob=range(VOCAB),
            )
            rows = [[p for _, p in row] for row in (whole.input_token_ids_logprobs or [])[1:]]
            oracle_rows = torch.tensor([*rows, rows[-1] if rows else [0.0] * VOCAB])
            if output.logprob_start_len < 0:
                assert output.input_logprobs is None and output.input_ranks is None
                continue
            check(output, oracle_rows, 1e-4)


@pytest.mark.parametrize("options", [
    {"tp_size": 2, "chunked_prefill_size": 8},
    {"tp_size": 4, "dp_size": 2},
    {"tp_size": 2, "enable_two_batch_overlap": True},
], ids=["two ranks", "groups", "two batches"])  # fmt: skip
def test_several_ranks(options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ranks, "_start", fork_follower)
    q.write_checkpoint(tmp_path, LLAMA, drawn(LLAMA))
    given = drawn_prompts([9, 4, 21], 96)
    found = []
    for more in ({}, {"dist_timeout": 30, **options}):
        with sglab.Engine(tmp_path, device="cpu", dtype="float32", **more) as engine:
            found.append(engine.generate(given, GREEDY, logprob_start_len=[0, 3, 1], **EACH))
    for alone, shared in zip(*found, strict=True):
        assert shared.token_ids == alone.token_ids and shared.input_ranks == alone.input_ranks
        assert shared.input_logprobs[1:] == pytest.approx(alone.input_logprobs[1:], abs=1e-5)
        for a, b in zip(alone.input_token_ids_logprobs[1:], shared.input_token_ids_logprobs[1:], strict=True):
            assert dict(b) == pytest.approx(dict(a), abs=1e-5)


@pytest.mark.parametrize(("options", "message"), [
    ({"logprob_start_len": 4, "return_logprob": True}, "logprob_start_len: expected an integer -1..3, got 4"),
    ({"logprob_start_len": 0}, "logprob_start_len: expected its default, got 0"),
    ({"token_ids_logprob": [1]}, "token_ids_logprob: expected its default"),
    ({"token_ids_logprob": [VOCAB], "return_logprob": True}, "token_ids_logprob: expected an integer 0..63, got 64"),
    ({"token_ids_logprob": 5, "return_logprob": True}, "token_ids_logprob: expected token ids, got 5"),
    ({"logprob_start_len": [0, 1], "return_logprob": True}, "logprob_start_len: expected one, or 1 for the prompts"),
])  # fmt: skip
def test_what_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with Engine(tiny_llama(), max_total_tokens=64) as engine:
        with pytest.raises(BadArgumentError) as caught:
            engine.generate([1, 2, 3], GREEDY, **options)
        assert message in str(caught.value)

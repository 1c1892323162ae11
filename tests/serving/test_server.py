"""The HTTP server as an OpenAI client sees it."""

import json
import math

import pytest

pytest.importorskip("fastapi", reason="the HTTP server needs FastAPI: pip install 'sglab[serve]'")
pytest.importorskip("httpx", reason="FastAPI's test client needs httpx")
from fastapi.testclient import TestClient

from sglab.generate import watch_pages
from sglab.serving import Engine
from sglab.serving.loop import EngineLoop
from sglab.serving.server import create_app
from tests.support.serving.letters import Letters
from tests.support.serving.tiny import tiny_llama


@pytest.fixture
def client() -> TestClient:
    engine = Engine(tiny_llama(), tokenizer=Letters(), max_total_tokens=512)
    with TestClient(create_app(engine)) as made:
        yield made


def expected(prompt: str, **sampling: object) -> str:
    engine = Engine(tiny_llama(), tokenizer=Letters(), max_total_tokens=512)
    return engine.generate(prompt, {"temperature": 0, **sampling}).text


def test_a_completion(client: TestClient) -> None:
    body = {"model": "x", "prompt": "HELLO", "max_tokens": 8, "temperature": 0}
    answer = client.post("/v1/completions", json=body).json()
    assert answer["object"] == "text_completion"
    assert answer["choices"] == [
        {"index": 0, "text": expected("HELLO", max_new_tokens=8), "logprobs": None, "finish_reason": "length"}
    ]
    assert answer["usage"]["prompt_tokens"] == 5 and answer["usage"]["completion_tokens"] == 8


def test_several_prompts_and_choices(client: TestClient) -> None:
    body = {"prompt": ["HELLO", "B"], "n": 2, "max_tokens": 4, "temperature": 0}
    answer = client.post("/v1/completions", json=body).json()
    texts = [choice["text"] for choice in answer["choices"]]
    assert texts == [expected(prompt, max_new_tokens=4) for prompt in ("HELLO", "HELLO", "B", "B")]
    assert answer["usage"]["prompt_tokens"] == 6


def test_a_streamed_chat(client: TestClient) -> None:
    body = {
        "messages": [{"role": "user", "content": "HI"}],
        "max_completion_tokens": 6,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    with client.stream("POST", "/v1/chat/completions", json=body) as answer:
        lines = [line.removeprefix("data: ") for line in answer.iter_lines() if line]
    assert lines[-1] == "[DONE]"
    events = [json.loads(line) for line in lines[:-1]]
    text = "".join(choice["delta"]["content"] for event in events for choice in event["choices"])
    assert text == expected("user: HI\nassistant:", max_new_tokens=6)
    assert events[-2]["choices"][0]["finish_reason"] == "length"
    assert events[-1]["usage"]["completion_tokens"] == 6


def test_log_probabilities_in_both_forms(client: TestClient) -> None:
    body = {"prompt": "HELLO", "max_tokens": 3, "temperature": 0, "logprobs": 2}
    given = client.post("/v1/completions", json=body).json()["choices"][0]["logprobs"]
    assert len(given["tokens"]) == len(given["token_logprobs"]) == len(given["top_logprobs"]) == 3
    assert max(given["top_logprobs"][0].values()) == pytest.approx(given["token_logprobs"][0])
    chat = {"messages": [{"role": "user", "content": "A"}], "max_tokens": 2, "logprobs": True, "top_logprobs": 2}
    content = client.post("/v1/chat/completions", json=chat).json()["choices"][0]["logprobs"]["content"]
    assert len(content) == 2 and len(content[0]["top_logprobs"]) == 2


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"prompt": "A", "temperature": -1}, "temperature"),
        ({"prompt": "A", "tempreature": 1}, "tempreature"),
        ({"prompt": []}, "prompt"),
        ({}, "prompt"),
        ({"prompt": "A", "n": 0}, "n"),
        ({"prompt": "A" * 600}, "prompt"),
        ([], "body"),
    ],
)
def test_a_bad_request_is_answered_with_its_field(client: TestClient, body: object, param: str) -> None:
    answer = client.post("/v1/completions", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param
    assert client.get("/health").json() == {"status": "ok"}


def test_what_is_no_json_is_answered(client: TestClient) -> None:
    assert client.post("/v1/completions", content="{").status_code == 400


def test_echo_with_log_probabilities(client: TestClient) -> None:
    """As evaluation harnesses ask: the prompt's own tokens, and none, one or several after it."""
    engine = Engine(tiny_llama(), tokenizer=Letters(), max_total_tokens=512)
    greedy = {"temperature": 0, "max_new_tokens": 3}
    own = engine.generate("HELLO", greedy, return_logprob=True, logprob_start_len=0, top_logprobs_num=2)
    for count in (0, 3):
        body = {"prompt": "HELLO", "max_tokens": count, "temperature": 0, "echo": True, "logprobs": 2}
        answer = client.post("/v1/completions", json=body).json()
        choice, given = answer["choices"][0], answer["choices"][0]["logprobs"]
        tokens = [*own.prompt_token_ids, *own.token_ids][: 5 + count]
        assert choice["text"] == Letters().decode(tokens) and answer["usage"]["completion_tokens"] == count
        assert given["tokens"] == [Letters().decode([token]) for token in tokens]
        assert "".join(given["tokens"]) == choice["text"]
        assert given["token_logprobs"][0] is None and given["top_logprobs"][0] is None
        assert given["token_logprobs"][1:] == pytest.approx([*own.input_logprobs[1:], *own.logprobs][: 4 + count])
        assert all(len(each) == 2 for each in given["top_logprobs"][1:])
        assert given["text_offset"] == list(range(5 + count))


def test_a_stream_with_echo_gives_what_one_answer_does(client: TestClient) -> None:
    body = {"prompt": ["HELLO", "BAD"], "max_tokens": 4, "temperature": 0, "echo": True, "logprobs": 1}
    whole = client.post("/v1/completions", json=body).json()["choices"]
    with client.stream("POST", "/v1/completions", json={**body, "stream": True}) as answer:
        lines = [line.removeprefix("data: ") for line in answer.iter_lines() if line]
    parts = [json.loads(line)["choices"][0] for line in lines[:-1]]
    for choice in whole:
        mine = [part for part in parts if part["index"] == choice["index"]]
        assert "".join(part["text"] for part in mine) == choice["text"]
        for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
            joined = [one for part in mine for one in part["logprobs"][name]]
            assert joined == (
                pytest.approx(choice["logprobs"][name]) if name == "token_logprobs" else choice["logprobs"][name]
            )


@pytest.mark.parametrize("chat", [False, True])
def test_prompt_logprobs_in_vllms_form(client: TestClient, chat: bool) -> None:
    what = {"messages": [{"role": "user", "content": "A"}]} if chat else {"prompt": "HELLO"}
    path = "/v1/chat/completions" if chat else "/v1/completions"
    body = {**what, "max_tokens": 1, "temperature": 0, "prompt_logprobs": 2}
    answer = client.post(path, json=body).json()
    choice = answer["choices"][0]
    assert choice["logprobs"] is None and len(choice["prompt_logprobs"]) == answer["usage"]["prompt_tokens"]
    first, *others = choice["prompt_logprobs"]
    assert first is None
    for each in others:
        by_rank = sorted(each.values(), key=lambda one: one["rank"])
        assert [one["rank"] for one in by_rank[:2]] == [1, 2] and len(by_rank) in (2, 3)
        values = [one["logprob"] for one in by_rank]
        assert values == sorted(values, reverse=True) and sum(map(math.exp, values)) <= 1 + 1e-6
    assert client.post(path, json={**body, "stream": True}).json()["error"]["param"] == "prompt_logprobs"


def test_models_and_history(client: TestClient) -> None:
    client.post("/v1/completions", json={"prompt": "A", "max_tokens": 2})
    assert client.get("/v1/models").json()["data"][0]["id"] == "LlamaForCausalLM"
    assert len(client.get("/history").json()["steps"]) == 2


def test_an_engine_that_fails_answers_and_refuses() -> None:
    """Whoever waits hears of it, and whoever comes after; the server itself lives."""
    engine = Engine(tiny_llama(), tokenizer=Letters(), max_total_tokens=512)

    def broken() -> None:
        raise ZeroDivisionError("a step failed")

    engine.step = broken  # type: ignore[assignment, method-assign]
    body = {"prompt": "HELLO", "max_tokens": 4}
    with TestClient(create_app(engine)) as client:
        for streamed in (False, True):
            answer = client.post("/v1/completions", json={**body, "stream": streamed})
            assert answer.status_code == 500 and answer.json()["error"]["type"] == "server_error"
            assert "a step failed" in answer.text
        assert client.get("/health").status_code == 200


def test_a_served_engine_can_be_watched() -> None:
    engine = Engine(tiny_llama(), tokenizer=Letters(), max_total_tokens=512)
    with TestClient(create_app(engine, watch_pages(engine))) as client:
        client.post("/v1/completions", json={"prompt": "HELLO", "max_tokens": 5, "temperature": 0})
        page = client.get("/watch")
        assert page.headers["content-type"].startswith("text/html") and '"widget":"scheduler"' in page.text
        file = client.get("/recording.sglab").json()
        client.post("/v1/completions", json={"prompt": "B", "max_tokens": 5, "temperature": 0})
        later = client.get("/recording.sglab").json()
    assert [each["widget"] for each in file["widgets"]] == ["scheduler", "radix_tree"]
    steps = [each["widgets"][0]["state"]["count"] for each in (file, later)]
    assert steps == [5, 10] and len(later["widgets"][0]["state"]["requests"]) == 2


def test_callers_come_before_the_next_step() -> None:
    """An engine that always has work does not keep a caller waiting: its turn is after the step that runs."""
    engine = Engine(tiny_llama(), tokenizer=Letters(), max_total_tokens=512)
    loop, steps = EngineLoop(engine), [0]

    def endless() -> bool:
        steps[0] += 1
        return True

    try:
        engine.step = endless  # type: ignore[method-assign]
        loop.submit("HELLO", None, lambda delta: None)
        for _ in range(50):
            while steps[0] < 10:
                pass
            steps[0] = 0
            waited = loop.between_steps(lambda: steps[0])
            assert waited <= 2
    finally:
        loop.close()

"""The server behind a real socket, driven by OpenAI's own client."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest

openai = pytest.importorskip("openai", reason="the client is PyPI's: pip install 'sglab[test]'")
uvicorn = pytest.importorskip("uvicorn", reason="the HTTP server needs uvicorn: pip install 'sglab[serve]'")

from sglab.serving import Engine
from sglab.serving.server import create_app
from tests.support.serving.letters import Letters
from tests.support.serving.tiny import tiny_llama

T = TypeVar("T")
PATIENCE = 300.0
"""Seconds: far longer than anything here takes."""


class Server:
    """An engine of a tiny model on a port of its own, in a thread."""

    def __init__(self, **options: object) -> None:
        options = {"max_total_tokens": 2048, "check_invariants": True, **options}
        self.engine = Engine(tiny_llama(), tokenizer=Letters(), **options)  # type: ignore[arg-type]
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"
        self.server = uvicorn.Server(uvicorn.Config(create_app(self.engine), log_level="warning"))
        self._thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self._socket]}, daemon=True)
        self._thread.start()

    def client(self, kind: type = openai.OpenAI) -> "openai.OpenAI":
        return kind(base_url=self.url, api_key="none", max_retries=0, timeout=PATIENCE)

    def close(self) -> None:
        self.server.should_exit = True
        self._thread.join()

    def alone(self, prompt: str, **sampling: object) -> str:
        engine = Engine(tiny_llama(), tokenizer=Letters(), max_total_tokens=2048)
        return engine.generate(prompt, {"temperature": 0, **sampling}).text

    def nothing_is_held(self) -> bool:
        """Every slot is free or in the tree, and no request is unfinished."""
        scheduler = self.engine.scheduler
        free = scheduler.allocator.available_size() + scheduler.tree_cache.evictable_size()
        return not scheduler.has_work() and free == scheduler.allocator.size


def in_a_loop_of_its_own(work: Coroutine[None, None, T]) -> T:
    """This thread may have a loop already: that of the browser tests."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def until(holds: object, what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < end, what
        time.sleep(0.01)


def test_models(server: Server) -> None:
    client = server.client()
    (only,) = client.models.list()
    assert client.models.retrieve(only.id) == only
    with pytest.raises(openai.NotFoundError, match="'other' is not served here"):
        client.models.retrieve("other")


def test_a_completion_with_log_probabilities_and_a_stop_string(server: Server) -> None:
    client, whole = server.client(), server.alone("HELLO", max_new_tokens=12)
    answer = client.completions.create(model="x", prompt="HELLO", max_tokens=12, temperature=0, logprobs=2)
    assert answer.choices[0].text == whole and "".join(answer.choices[0].logprobs.tokens) == whole
    stop = whole[5:7]
    cut = client.completions.create(model="x", prompt="HELLO", max_tokens=12, temperature=0, stop=[stop])
    assert cut.choices[0].text == whole[: whole.index(stop)] and cut.choices[0].finish_reason == "stop"


def test_a_chat_streamed_and_at_once(server: Server) -> None:
    client = server.client()
    call = {"model": "x", "messages": [{"role": "user", "content": "HI"}], "max_tokens": 9, "temperature": 0}
    whole = client.chat.completions.create(**call, logprobs=True, top_logprobs=2)
    assert [one.token for one in whole.choices[0].logprobs.content] == list(whole.choices[0].message.content)
    assert all(bytes(one.bytes).decode() == one.token for one in whole.choices[0].logprobs.content)
    stream = client.chat.completions.create(**call, stream=True, stream_options={"include_usage": True})
    *events, last = list(stream)
    assert events[0].choices[0].delta.role == "assistant"
    assert "".join(event.choices[0].delta.content or "" for event in events) == whole.choices[0].message.content
    assert events[-1].choices[0].finish_reason == "length"
    assert last.usage.total_tokens == whole.usage.total_tokens == len("user: HI\nassistant:") + 9
    parts = [{"role": "user", "content": [{"type": "text", "text": "H"}, {"type": "text", "text": "I"}]}]
    assert client.chat.completions.create(**{**call, "messages": parts}).choices == (
        client.chat.completions.create(**call).choices
    )


def test_choices_of_one_seed_differ_and_can_be_had_again(server: Server) -> None:
    call = {"model": "x", "prompt": "HELLO", "max_tokens": 12, "n": 3, "seed": 5, "temperature": 2.0}
    twice = [[each.text for each in server.client().completions.create(**call).choices] for _ in range(2)]
    assert twice[0] == twice[1] and len(set(twice[0])) == 3


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -1),
        ("temperature", float("1e999")),
        ("top_p", 0),
        ("max_tokens", 0),
        ("seed", "x"),
        ("n", 1000),
        ("best_of", 2),
        ("logit_bias", {"99999": 1}),
        ("stop", [""]),
        ("prompt", "A" * 4000),
        ("prompt", [1, 10**6]),
        ("prompt", [1.5]),
    ],
)
def test_a_refusal_names_the_field_as_the_client_does(server: Server, field: str, value: object) -> None:
    call = {"model": "x", "prompt": "A", "max_tokens": 2, field: value}
    if value == float("inf"):
        call["temperature"], call["extra_body"] = 1, {"top_p": "1"}  # JSON has no infinity: the client refuses it
        field = "top_p"
    with pytest.raises(openai.BadRequestError) as refused:
        server.client().completions.create(**call)
    assert refused.value.param.startswith(field) and "expected" in str(refused.value)
    assert "max_new_tokens" not in str(refused.value)
    until(server.nothing_is_held, "a refused request holds something")


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_away_ends_its_request(server: Server, stream: bool) -> None:
    """Without a stream tokens come all the time, too: nothing but the client's absence may be waited for."""
    before = server.engine.scheduler.history.steps[-1].step if server.engine.scheduler.history.steps else 0

    async def leave() -> None:
        client = server.client(openai.AsyncOpenAI)
        made = client.completions.create(model="x", prompt="HELLO", max_tokens=1500, temperature=0, stream=stream)
        task = asyncio.ensure_future(made)
        while not server.engine.scheduler.running_batch.reqs:
            await asyncio.sleep(0.001)
        if stream:
            async for _ in await task:
                break
        else:
            task.cancel()
        await client.close()

    in_a_loop_of_its_own(leave())
    until(server.nothing_is_held, "the request goes on")
    assert len(server.engine.history.steps) - before < 400, "it ran nearly to its end"


def test_two_hundred_at_once(server: Server) -> None:
    texts = ["HELLO", "B", "HELP", "ABRACADABRA"]
    wanted = [server.alone(text, max_new_tokens=6) for text in texts]

    async def all_of_them() -> list[str]:
        client = server.client(openai.AsyncOpenAI)

        async def one(i: int) -> str:
            call = {"model": "x", "prompt": texts[i % 4], "max_tokens": 6, "temperature": 0}
            if i % 3:
                return (await client.completions.create(**call)).choices[0].text
            stream = await client.completions.create(**call, stream=True)
            return "".join([event.choices[0].text async for event in stream])

        return await asyncio.gather(*(one(i) for i in range(200)))

    assert in_a_loop_of_its_own(all_of_them()) == [wanted[i % 4] for i in range(200)]
    until(server.nothing_is_held, "slots are lost")


def test_a_pass_that_fails_ends_its_own_requests_alone() -> None:
    made = Server()
    try:
        forward, failing = made.engine.runs.forward, [True]

        def once(inputs: object) -> object:
            if failing and failing.pop():
                raise ZeroDivisionError("a pass failed")
            return forward(inputs)  # type: ignore[arg-type]

        made.engine.runs.forward = once  # type: ignore[method-assign, assignment]
        call = {"model": "x", "prompt": "HELLO", "max_tokens": 3, "temperature": 0}
        with pytest.raises(openai.InternalServerError, match="a pass failed"):
            made.client().completions.create(**call)
        failing.append(True)
        with pytest.raises(openai.APIError, match="a pass failed"):
            list(made.client().completions.create(**call, stream=True))
        assert made.client().completions.create(**call).choices[0].text == made.alone("HELLO", max_new_tokens=3)
        until(made.nothing_is_held, "slots are lost")
    finally:
        made.close()


def test_sigterm_lets_a_request_end_and_then_ends_the_server() -> None:
    port = socket.create_server(("127.0.0.1", 0)).getsockname()[1]
    command = [sys.executable, "-m", "sglab.cli", "serve", "--device", "cpu", "--port", str(port)]
    process = subprocess.Popen([*command, "--max-total-tokens", "2048"], env={**os.environ}, stderr=subprocess.DEVNULL)
    try:
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0, timeout=PATIENCE)

        def answers() -> bool:
            assert process.poll() is None
            try:
                return bool(client.models.list().data)
            except openai.APIConnectionError:
                return False

        until(answers, "the server does not come up")
        stream = client.completions.create(
            model="tiny", prompt="Once", max_tokens=40, stream=True, extra_body={"ignore_eos": True}
        )
        events = iter(stream)
        first = next(events)
        process.send_signal(signal.SIGTERM)
        text = first.choices[0].text + "".join(event.choices[0].text for event in events)
        assert len(text) > len(first.choices[0].text), "the stream went on to its end"
        assert process.wait(PATIENCE) == -signal.SIGTERM, "as whoever sent it expects"
    finally:
        process.kill()

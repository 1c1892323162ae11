"""An OpenAI-compatible HTTP server over an engine, on FastAPI and uvicorn (the extra `serve`).

POST /v1/completions and /v1/chat/completions, streamed or not; GET /v1/models, /health and /history (the engine's steps
as plain data).
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from sglab.engine.errors import BadArgumentError
from sglab.serving import openai
from sglab.serving.engine import Engine
from sglab.serving.loop import EngineLoop
from sglab.serving.output import Delta, Handle, RequestAbortedError

Queue = asyncio.Queue[tuple[int, Delta]]
GRACE = 20
"""Seconds."""


def create_app(engine: Engine, pages: Mapping[str, Callable[[], str]] | None = None) -> Any:
    """A FastAPI application that serves the engine.

    Args:
        pages: more to GET: path -> its text, made between two steps; HTML, or a file where the path ends in .sglab.

    Raises:
        ImportError: FastAPI is missing.
    """
    try:
        from fastapi import FastAPI, Request
        from fastapi.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
    except ImportError:
        raise ImportError("the HTTP server needs FastAPI and uvicorn: pip install 'sglab[serve]'") from None

    loop = EngineLoop(engine)
    described = {"id": engine.model_name, "object": "model", "created": int(time.time()), "owned_by": "sglab"}

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        yield
        loop.close()

    app = FastAPI(title="sglab", lifespan=lifespan)

    async def answer(request: Request, chat: bool) -> Any:
        given: dict[str, Any] = {}
        try:
            given = await body_of(request.json)
            call = openai.Call.parse(given, chat, engine.tokenizer)
            served = Served(loop, call, asyncio.get_running_loop())
            await asyncio.to_thread(
                served.submit
            )  # it waits for the step that runs: other clients are served meanwhile
        except BadArgumentError as error:
            return JSONResponse(openai.error_body(error, given), 400)
        except RuntimeError as error:
            return JSONResponse(openai.failure_body(error), 500)
        if call.stream:
            return StreamingResponse(served.events(), media_type="text/event-stream")

        async def left() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass

        try:
            return JSONResponse(await served.body(left))
        except RequestAbortedError as error:
            return JSONResponse(openai.failure_body(error), 500)

    async def completions(request: Request) -> Any:
        return await answer(request, chat=False)

    async def chat_completions(request: Request) -> Any:
        return await answer(request, chat=True)

    # FastAPI reads annotations by name, and this module's are strings.
    for path, posted in (("/v1/completions", completions), ("/v1/chat/completions", chat_completions)):
        posted.__annotations__ = {"request": Request}
        app.post(path, response_model=None)(posted)

    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [described]}

    async def one_model(name: str) -> Any:
        return described if name == engine.model_name else JSONResponse(openai.unknown_model(name), 404)

    async def health() -> dict[str, str]:
        return {"status": "ok"}

    async def history() -> dict[str, Any]:
        return engine.history.as_dict()

    def page(path: str, text: Callable[[], str]) -> None:
        def get() -> Any:  # in a thread: other requests are answered meanwhile
            made = loop.between_steps(text)
            is_file = path.endswith(".sglab")
            return Response(made, media_type="application/vnd.sglab+json") if is_file else HTMLResponse(made)

        app.get(path, response_model=None)(get)

    for path, text in (pages or {}).items():
        page(path, text)
    one_model.__annotations__ = {"name": str}
    got = (("/v1/models", models), ("/v1/models/{name:path}", one_model), ("/health", health), ("/history", history))
    for path, handler in got:
        app.get(path, response_model=None)(handler)
    return app


async def body_of(read: Callable[[], Any]) -> dict[str, Any]:
    """A request's JSON object.

    Raises:
        BadArgumentError: it is none.
    """
    try:
        given = await read()
    except ValueError as error:
        raise BadArgumentError("body", "a JSON object", str(error), "See OpenAI's API reference.") from None
    if not isinstance(given, dict):
        raise BadArgumentError("body", "a JSON object", type(given).__name__, "See OpenAI's API reference.")
    return given


class Served:
    """One call's requests in the engine: `n` for each prompt.

    Args:
        here: the event loop in which it is read.
    """

    def __init__(self, loop: EngineLoop, call: openai.Call, here: asyncio.AbstractEventLoop) -> None:
        self.loop, self.call, self.engine = loop, call, loop.engine
        self.queue: Queue = asyncio.Queue()
        self._sent: dict[int, tuple[int, int]] = {}  # of a stream, by choice: tokens and characters
        self._decode = self.engine.tokenizer.decode if self.engine.tokenizer is not None else str
        self.handles: list[Handle] = []
        self._here = here

    def submit(self) -> None:
        """Hand them to the engine; in any thread.

        Raises:
            BadArgumentError: a prompt that cannot be served; none of them runs.
            RuntimeError: the engine has failed.
        """

        def receiver(index: int) -> Callable[[Delta], None]:
            def receive(delta: Delta) -> None:
                self._here.call_soon_threadsafe(self.queue.put_nowait, (index, delta))

            return receive

        call = self.call
        try:
            for prompt in call.prompts:
                for choice in range(call.n):
                    receive, sampling = receiver(len(self.handles)), call.sampling_of(choice)
                    self.handles.append(self.loop.submit(prompt, sampling, receive, **call.options))
        except BadArgumentError:
            self.abort()
            raise

    def abort(self) -> None:
        """End what has not ended."""
        for handle in self.handles:
            if not handle.finished:
                self.loop.abort(handle.rid)

    async def body(self, left: Callable[[], Awaitable[None]]) -> dict[str, Any]:
        """Wait for all.

        Args:
            left: returns when the client goes away, which ends the requests.

        Raises:
            RequestAbortedError: the engine or a pass failed.
        """
        watcher = asyncio.ensure_future(left())
        watcher.add_done_callback(lambda task: None if task.cancelled() else self.abort())
        unfinished = len(self.handles)
        try:
            while unfinished:
                index, delta = await self.queue.get()
                self._raise_if_failed(index, delta)
                unfinished -= delta.finish_reason is not None
        finally:
            watcher.cancel()
            self.abort()
        outputs = [handle.output() for handle in self.handles]
        return openai.response(self.call, self.engine.model_name, self.handles[0].rid, outputs, self._decode)

    def _raise_if_failed(self, index: int, delta: Delta) -> None:
        if delta.finish_reason == "error":
            raise RequestAbortedError(str(self.loop.failure))
        if delta.finish_reason == "abort":
            raise RequestAbortedError(self.handles[index].output().error)

    async def events(self) -> AsyncIterator[str]:
        """Server-sent events, the last of them [DONE]."""
        left = len(self.handles)
        name, rid = self.engine.model_name, self.handles[0].rid
        try:
            for index in range(left if self.call.chat else 0):
                yield f"data: {json.dumps(openai.first_chunk(self.call, name, rid, index))}\n\n"
            while left:
                index, delta = await self.queue.get()
                self._raise_if_failed(index, delta)
                left -= delta.finish_reason is not None
                text, given = self._part(index, delta)
                event = openai.chunk(self.call, name, rid, index, text, delta.finish_reason, given)
                yield f"data: {json.dumps(event)}\n\n"
            if self.call.include_usage:
                outputs = [handle.output() for handle in self.handles]
                usage = openai.usage(self.call, outputs)
                last = {**openai.head(self.call, name, rid, ".chunk" if self.call.chat else ""), "choices": []}
                yield f"data: {json.dumps({**last, 'usage': usage})}\n\n"
            yield "data: [DONE]\n\n"
        except RequestAbortedError as error:
            yield f"data: {json.dumps(openai.failure_body(error))}\n\n"
        finally:
            self.abort()

    def _part(self, index: int, delta: Delta) -> tuple[str, dict[str, Any] | None]:
        """What a stream's next event says of a choice: its text, and its tokens' log probabilities."""
        call, (sent, offset) = self.call, self._sent.get(index, (0, 0))
        first = index not in self._sent
        output = self.handles[index].output() if call.return_logprob or (call.echo and first) else None
        text, tokens = delta.text, delta.token_ids
        if call.prompt_only:
            text, tokens = "", []
        if call.echo and first and output is not None:
            text = openai.prompt_text(call, index, output, self._decode) + text
        given = None
        if call.return_logprob and output is not None:
            until = slice(0, sent + len(tokens))
            top = None if output.top_logprobs is None else output.top_logprobs[until]
            seen = replace(
                output, token_ids=output.token_ids[until], logprobs=(output.logprobs or [])[until], top_logprobs=top
            )
            given = openai.logprobs(call, seen, self._decode, sent, offset)
            offset += sum(len(one) for one in given.get("tokens", ()))
        self._sent[index] = (sent + len(tokens), offset)
        return text, given


def serve(engine: Engine, host: str, port: int, pages: Mapping[str, Callable[[], str]] | None = None) -> None:
    """Serve until interrupted. Requests that run then have GRACE seconds to end.

    Args:
        pages: of create_app.

    Raises:
        ImportError: FastAPI or uvicorn is missing.
    """
    app = create_app(engine, pages)
    try:
        import uvicorn
    except ImportError:
        raise ImportError("the HTTP server needs uvicorn: pip install 'sglab[serve]'") from None
    uvicorn.run(app, host=host, port=port, log_level="info", timeout_graceful_shutdown=GRACE)

"""An OpenAI-compatible HTTP server over an engine, on FastAPI and uvicorn (the extra `serve`).

POST /v1/completions and /v1/chat/completions, streamed or not; GET /v1/models, /health and /history (the engine's steps
as plain data).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from sglab.engine.errors import BadArgumentError
from sglab.serving import openai
from sglab.serving.engine import Engine
from sglab.serving.loop import EngineLoop
from sglab.serving.output import Delta, Handle

Queue = asyncio.Queue[tuple[int, Delta]]


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

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        yield
        loop.close()

    app = FastAPI(title="sglab", lifespan=lifespan)

    async def answer(request: Request, chat: bool) -> Any:
        try:
            call = openai.Call.parse(await body_of(request.json), chat, engine.tokenizer)
            served = Served(loop, call)
        except BadArgumentError as error:
            return JSONResponse(openai.error_body(error), 400)
        except RuntimeError as error:
            return JSONResponse(openai.failure_body(error), 500)
        if call.stream:
            return StreamingResponse(served.events(), media_type="text/event-stream")
        body = await served.body(request.is_disconnected)
        return JSONResponse(openai.failure_body(loop.failure), 500) if body is None else JSONResponse(body)

    async def completions(request: Request) -> Any:
        return await answer(request, chat=False)

    async def chat_completions(request: Request) -> Any:
        return await answer(request, chat=True)

    # FastAPI reads annotations by name, and this module's are strings.
    for path, posted in (("/v1/completions", completions), ("/v1/chat/completions", chat_completions)):
        posted.__annotations__ = {"request": Request}
        app.post(path, response_model=None)(posted)

    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [{"id": engine.model_name, "object": "model", "owned_by": "sglab"}]}

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
    for path, handler in (("/v1/models", models), ("/health", health), ("/history", history)):
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

    Raises:
        BadArgumentError: a prompt that cannot be served; nothing runs.
    """

    def __init__(self, loop: EngineLoop, call: openai.Call) -> None:
        self.loop, self.call, self.engine = loop, call, loop.engine
        self.queue: Queue = asyncio.Queue()
        self._sent: dict[int, tuple[int, int]] = {}  # of a stream, by choice: tokens and characters
        self._decode = self.engine.tokenizer.decode if self.engine.tokenizer is not None else str
        here = asyncio.get_running_loop()

        def receiver(index: int) -> Callable[[Delta], None]:
            def receive(delta: Delta) -> None:
                here.call_soon_threadsafe(self.queue.put_nowait, (index, delta))

            return receive

        self.handles: list[Handle] = []
        try:
            for prompt in call.prompts:
                for _ in range(call.n):
                    receive = receiver(len(self.handles))
                    self.handles.append(loop.submit(prompt, call.sampling, receive, **call.options))
        except BadArgumentError:
            self.abort()
            raise

    def abort(self) -> None:
        """End what has not ended."""
        for handle in self.handles:
            if not handle.finished:
                self.loop.abort(handle.rid)

    async def body(self, is_disconnected: Callable[[], Any]) -> dict[str, Any] | None:
        """Wait for all; a client that leaves ends its requests. None: the engine failed."""
        left = len(self.handles)
        while left:
            try:
                _, delta = await asyncio.wait_for(self.queue.get(), timeout=1.0)
            except asyncio.TimeoutError:
                if await is_disconnected():
                    self.abort()
                continue
            if delta.finish_reason == "error":
                return None
            left -= delta.finish_reason is not None
        outputs = [handle.output() for handle in self.handles]
        return openai.response(self.call, self.engine.model_name, self.handles[0].rid, outputs, self._decode)

    async def events(self) -> AsyncIterator[str]:
        """Server-sent events, the last of them [DONE]."""
        left = len(self.handles)
        name, rid = self.engine.model_name, self.handles[0].rid
        try:
            while left:
                index, delta = await self.queue.get()
                if delta.finish_reason == "error":
                    yield f"data: {json.dumps(openai.failure_body(self.loop.failure))}\n\n"
                    return
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
    """Serve until interrupted.

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
    uvicorn.run(app, host=host, port=port, log_level="info")

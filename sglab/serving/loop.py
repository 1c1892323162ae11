"""EngineLoop: a thread that steps an engine while there is work, so that many callers can submit at any time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from sglab.serving.engine import Engine
from sglab.serving.output import Delta, Handle

Receive = Callable[[Delta], None]
T = TypeVar("T")


class EngineLoop:
    """Owns an engine's steps.

    Args:
        engine: no other caller may step it while the loop runs.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._changed = threading.Condition()
        self._readers: dict[str, tuple[Handle, Receive]] = {}
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="sglab-engine", daemon=True)
        self._thread.start()

    def submit(self, prompt: Any, sampling: Any, receive: Receive, **options: Any) -> Handle:
        """Add a request; `receive` is called in the loop's thread with everything that comes, the end included.

        Raises:
            BadArgumentError: it cannot be served.
        """
        with self._changed:
            handle = self.engine.submit(prompt, sampling, **options)
            self._readers[handle.rid] = (handle, receive)
            self._changed.notify()
        return handle

    def between_steps(self, look: Callable[[], T]) -> T:
        """What `look` returns, called while no step runs: for whoever reads the engine's books."""
        with self._changed:
            return look()

    def abort(self, rid: str) -> None:
        """End a request before its next step."""
        with self._changed:
            self.engine.abort(rid)
            self._changed.notify()

    def close(self) -> None:
        """Stop after the step that runs."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stopping or self.engine.scheduler.has_work())
                if self._stopping:
                    return
                self.engine.step()
                self._deliver()

    def _deliver(self) -> None:
        for rid, (handle, receive) in list(self._readers.items()):
            delta = handle.read()
            if delta.finish_reason is not None:
                del self._readers[rid]
            if delta.token_ids or delta.text or delta.finish_reason is not None:
                receive(delta)

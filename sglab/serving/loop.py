"""EngineLoop: a thread that steps an engine while there is work, so that many callers can submit at any time."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from sglab.serving.engine import Engine
from sglab.serving.output import Delta, Handle

Receive = Callable[[Delta], None]
T = TypeVar("T")


class EngineLoop:
    """Owns an engine's steps.

    Args:
        engine: no other caller may step it while the loop runs.

    Attributes:
        failure: what ended the loop before it was closed; requests are refused from then on.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._changed = threading.Condition()
        self._counting, self._callers = threading.Lock(), 0
        self._readers: dict[str, tuple[Handle, Receive]] = {}
        self._stopping = False
        self.failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="sglab-engine", daemon=True)
        self._thread.start()

    def submit(self, prompt: Any, sampling: Any, receive: Receive, **options: Any) -> Handle:
        """Add a request; `receive` is called in the loop's thread with everything that comes, the end included.

        Raises:
            BadArgumentError: it cannot be served.
            RuntimeError: the engine has failed.
        """
        with self._turn():
            if self.failure is not None:
                raise RuntimeError(f"the engine has stopped: {self.failure}. Start the server again.")
            handle = self.engine.submit(prompt, sampling, **options)
            self._readers[handle.rid] = (handle, receive)
        return handle

    def between_steps(self, look: Callable[[], T]) -> T:
        """What `look` returns, called while no step runs: for whoever reads the engine's books."""
        with self._turn():
            return look()

    def abort(self, rid: str) -> None:
        """End a request before its next step."""
        with self._turn():
            self.engine.abort(rid)

    def close(self) -> None:
        """Stop after the step that runs."""
        with self._turn():
            self._stopping = True
        self._thread.join()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """The engine between two steps. Callers come before the next step: a lock alone would go back to the loop,
        which asks for it again at once, and a caller might wait for as long as there is work."""
        with self._counting:
            self._callers += 1
        with self._changed:
            with self._counting:
                self._callers -= 1
            try:
                yield
            finally:
                self._changed.notify()

    def _may_step(self) -> bool:
        return self._stopping or (not self._callers and self.engine.scheduler.has_work())

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._may_step)
                if self._stopping:
                    return
                try:
                    self.engine.step()
                except Exception as error:
                    self.failure = error
                    traceback.print_exc()
                    self._end_all()
                    return
                self._deliver()

    def _end_all(self) -> None:
        """Whoever waits hears that nothing more comes."""
        for _, receive in self._readers.values():
            receive(Delta([], "", "error"))
        self._readers.clear()

    def _deliver(self) -> None:
        for rid, (handle, receive) in list(self._readers.items()):
            delta = handle.read()
            if delta.finish_reason is not None:
                del self._readers[rid]
            if delta.token_ids or delta.text or delta.finish_reason is not None:
                receive(delta)

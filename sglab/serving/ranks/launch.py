"""Ranks: the processes beside this one, rank 0. They are started, given every pass, watched, and ended."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from torch import distributed, nn

from sglab.engine.errors import BadArgumentError
from sglab.layers import TensorParallel, collectives
from sglab.layers.collectives import CollectiveLog
from sglab.layers.shards import Shard, shards_of
from sglab.serving.config import EngineConfig
from sglab.serving.ranks.process_groups import World
from sglab.serving.ranks.rank_model import HostCopy, Message, Moves, Recording

STOP_SECONDS = 5.0
"""That a rank is given to end by itself."""
START_SECONDS = 120.0
"""That a rank is given to import its packages."""


class RankDiedError(RuntimeError):
    """A rank ended, or does not answer: no pass can run any more. `rank`: which; None: it is not known."""

    def __init__(self, rank: int | None, got: str) -> None:
        self.rank = rank
        which = "a rank" if rank is None else f"rank {rank}"
        remedy = "Requests on their way are lost: close this engine and start another."
        super().__init__(f"{which}: expected an answer, got {got}. {remedy}")


class Ranks:
    """The followers of one engine.

    Args:
        model: a folder, file or id, which every rank loads its shard of.
        device_type: "cpu" or "cuda".

    Attributes:
        tp: this process's place.
        failure: why no pass can run any more; None: all is well.
        before_leaving: called when they are closed, before this process leaves the group.

    Raises:
        BadArgumentError: this process is in a process group already. RankDiedError: one did not come up.
    """

    def __init__(self, model: str, dtype: Any, device_type: str, config: EngineConfig) -> None:
        if distributed.is_initialized():
            remedy = "Close the other engine with several ranks, or start this one in another process."
            raise BadArgumentError("tp_size", "1 in a process that is in a process group", config.tp_size, remedy)
        self.failure: RankDiedError | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="sglab-ranks-")
        store = str(Path(self._folder.name) / "store")
        self.world = World(
            config.tp_size,
            config.dp_size,
            config.ep_size,
            device_type,
            store,
            float(config.dist_timeout),
            a2a=None if config.moe_a2a_backend is None else config.deepep_mode,
            a2a_fp8=not config.deepep_bf16_dispatch,
            dcp_size=config.dcp_size,
            cp_size=config.attn_cp_size,
        )
        self._model = (model, None if dtype is None else str(dtype), config.init_expert_location)
        self.processes: list[subprocess.Popen] = []
        self._pipes: list[Connection] = []
        self._closing = threading.Event()
        self.before_leaving: list[Callable[[], None]] = []
        try:
            for _ in range(1, config.tp_size):
                self._start()
            for rank in range(1, config.tp_size):
                self._expect("started", rank, START_SECONDS)
                self._send(rank, (self.world, rank))
            self.tp: TensorParallel = self.world.join(0)
        except BaseException:
            self.close()
            raise
        threading.Thread(target=self._watch, name="sglab-ranks", daemon=True).start()

    def load(self) -> None:
        """Let the followers load their shards; `ready` waits for them."""
        for rank in range(1, self.world.size):
            self._send(rank, self._model)

    def make_pools(self, config: EngineConfig, tokens: int) -> None:
        """Let the followers make their pools, of as many slots as the leader's, and capture their graphs, if any: the
        leader captures its own meanwhile."""
        for rank in range(1, self.world.size):
            self._send(rank, replace(config, max_total_tokens=tokens))

    def ready(self) -> None:
        """Wait until every rank takes passes.

        Raises:
            RankDiedError: a shard could not be loaded; the message says why.
        """
        for rank in range(1, self.world.size):
            self._expect("ready", rank, self.world.timeout)

    def broadcast(self, message: Message | Moves | HostCopy) -> None:
        """Give every rank its next pass, or what it does between two.

        Raises:
            RankDiedError: one has ended.
        """
        self.check()
        content = pickle.dumps(message)
        for pipe in self._pipes:
            try:
                pipe.send_bytes(content)
            except OSError as error:
                raise self.died(error) from error

    def start_recording(self, model: nn.Module) -> None:
        """Let every rank note its collectives from here on; `model` is rank 0's.

        Raises:
            BadArgumentError: they are noted already. RankDiedError: a rank has ended.
        """
        self.check()
        collectives.start(model, 0)
        for rank in range(1, self.world.size):
            self._send(rank, Recording(True))

    def stop_recording(self, model: nn.Module) -> list[tuple[CollectiveLog, list[Shard]]]:
        """Of each rank what it has noted, and what it holds.

        Raises:
            RankDiedError: a rank has ended, or does not answer.
        """
        found = [(collectives.stop(), shards_of(model))]
        if self._closing.is_set():
            raise RankDiedError(None, "a closed engine: end the recording before the engine")
        for rank in range(1, self.world.size):
            self._send(rank, Recording(False))
        for rank in range(1, self.world.size):
            found.append(self._answer(rank))
        return found

    def _answer(self, rank: int) -> tuple[CollectiveLog, list[Shard]]:
        pipe = self._pipes[rank - 1]
        try:
            got = pickle.loads(pipe.recv_bytes()) if pipe.poll(self.world.timeout) else None
        except (EOFError, OSError):
            got = self._exit_of(rank)
        if not isinstance(got, tuple):
            self.failure = RankDiedError(rank, got or f"none within {self.world.timeout:g} s")
            raise self.failure
        return got

    def check(self) -> None:
        """Raise RankDiedError if a rank has ended."""
        if self.failure is None:
            for rank, process in enumerate(self.processes, 1):
                if process.poll() is not None:
                    self.failure = RankDiedError(rank, self._last_words(rank))
        if self.failure is not None:
            raise self.failure

    def died(self, error: Exception) -> RankDiedError:
        """What an error in a collective means: the rank that has ended, or one that does not answer."""
        deadline = time.monotonic() + 2.0
        while self.failure is None and time.monotonic() < deadline:
            try:
                self.check()
            except RankDiedError:
                break
            time.sleep(0.02)
        if self.failure is None:
            self.failure = RankDiedError(None, f"none within {self.world.timeout:g} s ({error})")
        return self.failure

    def close(self) -> None:
        """End all followers and leave the process group."""
        self._closing.set()
        for pipe in self._pipes:
            try:
                pipe.send_bytes(pickle.dumps(None))
            except OSError:
                continue
        for process in self.processes:
            try:
                process.wait(0.0 if self.failure is not None else STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for pipe in self._pipes:
            pipe.close()
        self.processes, self._pipes = [], []
        for call in self.before_leaving:
            call()
        if distributed.is_initialized():
            distributed.destroy_process_group()
        self._folder.cleanup()

    def _start(self) -> None:
        ours, theirs = Pipe()
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        command = [sys.executable, "-m", "sglab.serving.ranks.follower", str(theirs.fileno())]
        self.processes.append(subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment))
        theirs.close()
        self._pipes.append(ours)

    def _send(self, rank: int, what: Any) -> None:
        try:
            self._pipes[rank - 1].send_bytes(pickle.dumps(what))
        except OSError as error:
            raise self.died(error) from error

    def _expect(self, word: str, rank: int, seconds: float) -> None:
        pipe = self._pipes[rank - 1]
        try:
            answer = pickle.loads(pipe.recv_bytes()) if pipe.poll(seconds) else f"none within {seconds:g} s"
        except (EOFError, OSError):
            answer = self._exit_of(rank)
        if answer != word:
            self.failure = RankDiedError(rank, answer)
            raise self.failure

    def _last_words(self, rank: int) -> str:
        """What a rank that has ended said of it."""
        pipe = self._pipes[rank - 1]
        try:
            if pipe.poll():
                return str(pickle.loads(pipe.recv_bytes()))
        except (EOFError, OSError):
            pass
        return self._exit_of(rank)

    def _exit_of(self, rank: int) -> str:
        try:
            code = self.processes[rank - 1].wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            return "a closed pipe"
        return f"the end of its process ({f'signal {-code}' if code < 0 else f'exit code {code}'})"

    def _watch(self) -> None:
        """NCCL does not notice that a rank has ended: abort what waits for it. Gloo does."""
        while self.world.device_type == "cuda" and not self._closing.wait(0.2):
            if any(process.poll() is not None for process in self.processes):
                group = distributed.group.WORLD
                if not self._closing.is_set() and group is not None:
                    group.abort()
                return

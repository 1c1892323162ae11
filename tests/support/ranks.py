"""Ranks as forks of a server that has imported everything once; each test ends them, whatever happens."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_map

from sglab.layers import TensorParallel
from sglab.serving.ranks import Ranks, follower
from sglab.serving.ranks.process_groups import World
from tests.support.forked import FORK, Fork


def fork_follower(ranks: Ranks) -> None:
    """Instead of Ranks._start."""
    ours, theirs = FORK.Pipe()
    ranks.processes.append(Fork(_follow, theirs))  # type: ignore[arg-type]
    theirs.close()
    ranks._pipes.append(ours)


def _follow(pipe: Connection) -> None:
    torch.set_num_threads(1)
    code = follower.main(os.dup(pipe.fileno()))
    if code:
        raise SystemExit(code)


def on_ranks(
    size: int,
    run: Callable[..., Any],
    *args: Any,
    dp_size: int = 1,
    ep_size: int = 1,
    dcp_size: int = 1,
    cp_size: int = 1,
    device: str = "cpu",
) -> list[Any]:
    """run(tp, *args) on so many ranks at once: what each returns. Gives up, and ends them, after two minutes, on GPUs
    after ten: a rank may compile a kernel while the others wait for it.

    On "cuda" each rank has a GPU, where its tensors are and arguments come to; answers are on the CPU.
    """
    patience = 600.0 if device == "cuda" else 120.0
    with tempfile.TemporaryDirectory() as folder:
        world = World(
            size,
            dp_size,
            ep_size,
            device,
            str(Path(folder) / "store"),
            patience / 4,
            dcp_size=dcp_size,
            cp_size=cp_size,
        )
        pipes = [FORK.Pipe(duplex=False) for _ in range(size)]
        forks = [Fork(_one, world, rank, pipe[1], run, args) for rank, pipe in enumerate(pipes)]
        try:
            ranks: dict[Any, int] = {ours: rank for rank, (ours, _) in enumerate(pipes)}
            answers: list[Any] = [None] * size
            while ranks:
                answered = wait(list(ranks), patience)
                assert answered, f"ranks {sorted(ranks.values())} did not answer"
                for pipe in answered:
                    rank = ranks.pop(pipe)
                    fine, answers[rank] = pickle.loads(pipe.recv_bytes())  # type: ignore[union-attr]
                    assert fine, f"rank {rank}: {answers[rank]}"  # the others may wait for it without end
        finally:
            for fork in forks:
                fork.kill()
                fork.process.join()
    return answers


def _one(world: World, rank: int, pipe: Connection, run: Callable[..., Any], args: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    try:
        tp: TensorParallel = world.join(rank)
        with world.device(rank) as here:
            answer = True, _moved(run(tp, *_moved(args, here)), "cpu")
        torch.distributed.barrier()
    except Exception as error:
        answer = False, f"{type(error).__name__}: {error}"
    pipe.send_bytes(pickle.dumps(answer))
    pipe.close()


def _moved(given: Any, device: Any) -> Any:
    """Every tensor in tuples, lists and dictionaries."""
    return tree_map(lambda one: one.to(device) if isinstance(one, torch.Tensor) else one, given)

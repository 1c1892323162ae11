"""What a rank other than 0 runs: `python -m sglab.serving.ranks.follower <file descriptor of its pipe>`.

It says "started", joins the others, loads its shard, says "ready", and then runs every pass that it is given until it
is given None, or the leader has ended.
"""

from __future__ import annotations

import pickle
import sys
from multiprocessing.connection import Connection

import torch
from torch import distributed

from sglab.layers import collectives
from sglab.layers.shards import shards_of
from sglab.models import load_model
from sglab.serving.execution import torch_threads
from sglab.serving.ranks.rank_model import HostCopy, Moves, RankModel, Recording


def follow(pipe: Connection) -> None:
    """Serve one leader."""
    pipe.send_bytes(pickle.dumps("started"))
    world, rank = pickle.loads(pipe.recv_bytes())
    tp = world.join(rank)
    given = pickle.loads(pipe.recv_bytes())
    if given is None:
        return
    path, dtype, held = given
    model = load_model(path, dtype=dtype, device=world.device(rank), tp=tp, expert_location=held)
    config = pickle.loads(pipe.recv_bytes())
    if config is None:
        return
    threads = config.threads(sum(parameter.numel() for parameter in model.parameters()))
    with torch_threads(threads if world.device_type == "cpu" else None):
        one = RankModel.over(model, config)
        pipe.send_bytes(pickle.dumps("ready"))
        try:
            serve(pipe, one, rank)
        finally:
            one.close()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    distributed.destroy_process_group()


def serve(pipe: Connection, one: RankModel, rank: int) -> None:
    """Do what the leader says until it says None."""
    while (message := pickle.loads(pipe.recv_bytes())) is not None:
        if isinstance(message, Moves):
            one.move_rows(message)
        elif isinstance(message, HostCopy):
            one.copy_rows(message)
        elif not isinstance(message, Recording):
            one.run(message)
        elif message.on:
            collectives.start(one.model, rank)
        else:
            pipe.send_bytes(pickle.dumps((collectives.stop(), shards_of(one.model))))


def main(descriptor: int) -> int:
    """Follow until the leader ends. Returns the exit code: 1 after an error, which the leader was sent."""
    pipe = Connection(descriptor)
    try:
        follow(pipe)
    except EOFError:
        return 0
    except Exception as error:
        try:
            pipe.send_bytes(pickle.dumps(f"{type(error).__name__}: {error}"))
        except OSError:
            return 1
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))

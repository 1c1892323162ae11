"""Workers: this machine's processes, or those of a scheduler elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distributed import Client

LOCAL = "local"
DEATHS = 3
"""Workers that may die on a piece of work before it counts as what kills them."""


class WorkerLost(RuntimeError):  # noqa: N818  # names what happened to the work
    """A piece of work was lost with every worker that took it: it kills them, most likely by its memory."""


@contextmanager
def workers_of(scheduler: str = LOCAL, workers: int | None = None) -> Iterator[Client]:
    """A Dask client.

    Args:
        scheduler: "local": a cluster of processes of this machine, for as long as the context lasts; else an address.
        workers: of a local cluster; as many as there are processors if not given.

    Raises:
        ImportError: Dask distributed is missing.
        ValueError: `scheduler` is no address, or nothing answers there.
    """
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError:
        raise ImportError("scheduler needs the package 'distributed': pip install 'sglab[scale]'") from None
    if workers is not None and workers < 1:
        raise ValueError(f"workers: expected 1 or more; got {workers}")
    settings = {
        "distributed.scheduler.allowed-failures": DEATHS,
        "distributed.scheduler.work-stealing": True,
        "distributed.worker.daemon": False,  # what a worker does may start processes: submissions do
    }
    with ExitStack() as stack:
        stack.enter_context(dask.config.set(settings))
        if scheduler == LOCAL:
            count = workers or os.cpu_count() or 1
            cluster = LocalCluster(
                n_workers=count, threads_per_worker=1, dashboard_address="127.0.0.1:0", host="127.0.0.1"
            )
            yield stack.enter_context(Client(stack.enter_context(cluster)))
            return
        try:
            client = Client(scheduler, timeout="20s", set_as_default=False)
        except (OSError, ValueError) as error:
            raise ValueError(
                f"scheduler: expected 'local' or an address such as tcp://10.0.0.5:8786; {scheduler!r}: {error}"
            ) from None
        yield stack.enter_context(client)


@contextmanager
def executor_of(scheduler: str, workers: int | None = None) -> Iterator[Executor]:
    """The same as an executor of `concurrent.futures`. Its calls are taken to do something: none is done for
    another."""
    with workers_of(scheduler, workers) as client:
        yield client.get_executor(pure=False)


def was_lost(error: BaseException) -> bool:
    """Whether this is Dask's word for work that died with its workers."""
    name: Any = type(error).__name__
    return name == "KilledWorker"

"""A function at many points, on many workers."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .cluster import LOCAL, WorkerLost, was_lost, workers_of

Progress = Callable[[int, int], None]


def sweep(
    launch: Callable[..., Any],
    over: Mapping[str, Sequence[Any]] | Iterable[Mapping[str, Any]],
    *,
    scheduler: str = LOCAL,
    workers: int | None = None,
    progress: Progress | bool = True,
) -> list[dict[str, Any]]:
    """Runs a launch, or anything else, at every point of a grid.

    Args:
        launch: is called with a point's values by their names, and returns plain data: a number, or a dict of them. It
            should be a module's function; a notebook's is sent along.
        over: values by name, of which every combination is a point; or the points themselves.
        scheduler: "local", or the address of a Dask scheduler.
        workers: of a local cluster; as many as there are processors if not given.
        progress: True: a line on stderr; False: none; else called with how many are done, of how many.

    Returns:
        A row per point, in the grid's order: the point's values, and `result`, or what a dict held by its names.

    Raises:
        ValueError: `over` has no points, or a result's name is a point's, too.
        WorkerLost: a point kills every worker that takes it.
        Exception: what `launch` raised.
    """
    points = _grid(over)
    results = fan_out(
        _at, [(launch, point) for point in points], scheduler=scheduler, workers=workers, progress=progress
    )
    return [_row(point, result) for point, result in zip(points, results, strict=True)]


def fan_out(
    function: Callable[..., Any],
    calls: Sequence[tuple[Any, ...]],
    *,
    scheduler: str = LOCAL,
    workers: int | None = None,
    progress: Progress | bool = True,
) -> list[Any]:
    """Results of `function(*call)` for every call, in their order; the arguments are those of `sweep`."""
    show = _line() if progress is True else progress or (lambda done, of: None)
    from_index: dict[int, Any] = {}
    with workers_of(scheduler, workers) as client:
        from distributed import as_completed

        futures = {client.submit(function, *call, pure=False): index for index, call in enumerate(calls)}
        for future in as_completed(futures):
            try:
                from_index[futures[future]] = future.result()
            except Exception as error:
                client.cancel(list(futures))
                if was_lost(error):
                    raise WorkerLost(f"{calls[futures[future]]!r:.300} killed every worker that took it") from None
                raise
            show(len(from_index), len(calls))
    return [from_index[index] for index in range(len(calls))]


def _at(launch: Callable[..., Any], point: dict[str, Any]) -> Any:
    return launch(**point)


def _grid(over: Mapping[str, Sequence[Any]] | Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    if isinstance(over, Mapping):
        points = [dict(zip(over, values, strict=True)) for values in itertools.product(*over.values())]
    else:
        points = [dict(point) for point in over]
    if not points or not points[0]:
        raise ValueError("over: expected values by name, such as {'splits': [1, 2, 4]}, or points; there is none")
    return points


def _row(point: dict[str, Any], result: Any) -> dict[str, Any]:
    if not isinstance(result, Mapping):
        result = {"result": result}
    twice = sorted(point.keys() & result.keys())
    if twice:
        raise ValueError(f"launch: expected results with names of their own; {', '.join(twice)} is a point's, too")
    return {**point, **result}


def _line() -> Progress:
    """Progress on stderr, at most once a second."""
    began, shown = time.monotonic(), [0.0]

    def show(done: int, of: int) -> None:
        now = time.monotonic()
        if done == of or now - shown[0] >= 1:
            shown[0] = now
            end = "\n" if done == of or not sys.stderr.isatty() else "\r"
            print(f"{done} of {of}, {now - began:.0f} s", end=end, file=sys.stderr, flush=True)

    return show

"""What a submission's Python launches, as data: for exercises in which the host code is the student's, too.

The function is called with tensors of the right shapes, and the launches that it makes are caught. The grader runs them
again elsewhere, on other values (`emulate`): what Python computes from the values here is of no use there.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from sglab.emulator.captures import Capture, CapturedLaunch, capturing_launches
from sglab.labs.sandbox.inside import calls

PROGRAM = "sglab.labs.launches.capture:run"
MOST_LAUNCHES = 16
MOST_TEMPORARY_BYTES = 4 << 20
NO_DRIVER = " Triton's own @triton.jit needs a GPU: decorate kernels with @sglab.triton.triton_kernel instead."


def run(payload: dict[str, Any]) -> dict[str, Any]:
    """Executes the file and calls its function.

    Args:
        payload: source, file, function, args: arrays as {"name", "array"}, or plain values.

    Returns:
        launches, as `emulate` takes them; temporaries: what else they work on, as it was before; error: why there are
        none, else empty.
    """
    import torch

    buffers: dict[str, Any] = {}
    arguments = []
    for one in payload["args"]:
        if isinstance(one, dict):
            buffers[one["name"]] = torch.from_numpy(one["array"].copy())
            arguments.append(buffers[one["name"]])
        else:
            arguments.append(one)
    try:
        with open(payload["file"], "w", encoding="utf-8") as file:  # Triton reads a kernel's text from its file
            file.write(payload["source"])
        module = calls.load(payload["source"], payload["file"])
        with capturing_launches() as launches:
            getattr(module, payload["function"])(*arguments)
    except MemoryError:
        raise
    except BaseException as error:
        advice = NO_DRIVER if "active drivers" in str(error) else ""
        return {"launches": [], "temporaries": {}, "error": calls.shown(error, payload["file"]) + advice}
    if not launches:
        return {"launches": [], "temporaries": {}, "error": "nothing was launched: call a kernel on the tensors"}
    if len(launches) > MOST_LAUNCHES:
        return {"launches": [], "temporaries": {}, "error": f"{len(launches)} launches; at most {MOST_LAUNCHES}"}
    try:
        return {**_described(launches, buffers), "error": ""}
    except ValueError as error:
        return {"launches": [], "temporaries": {}, "error": str(error)}


def _described(launches: Capture, tensors: dict[str, Any]) -> dict[str, Any]:
    places = {name: (one.data_ptr(), one.numel() * one.element_size()) for name, one in tensors.items()}
    temporaries: dict[str, Any] = {}
    for launch in launches:
        for span in launch.launch.allocations:
            if _holder(span.address, places) is None:
                name = f"temporary {len(temporaries)}"
                places[name] = (span.address, span.nbytes)
                temporaries[name] = launch._memory[span.address, span.nbytes]
    if sum(map(len, temporaries.values())) > MOST_TEMPORARY_BYTES:
        raise ValueError(f"temporary tensors of more than {MOST_TEMPORARY_BYTES} bytes")
    return {"launches": [_launch(one, places) for one in launches], "temporaries": temporaries}


def _launch(captured: CapturedLaunch, places: dict[str, tuple[int, int]]) -> dict[str, Any]:
    launch, geometry = captured.launch, captured.geometry
    args: list[Any] = []
    for parameter in launch.kernel.params:
        data = launch.params[parameter.offset : parameter.offset + parameter.size]
        place = _holder(struct.unpack("<Q", data)[0], places) if parameter.size == 8 else None
        args.append({"bytes": data} if place is None else {"buffer": place[0], "offset": place[1]})
    touched = {_holder(span.address, places) for span in launch.allocations}
    return {
        "ptx": launch.kernel.module.ptx,
        "name": launch.kernel.module.name,
        "entry": launch.kernel.name,
        "grid": list(geometry.grid),
        "block": list(geometry.block),
        "cluster": list(geometry.cluster),
        "smem": geometry.smem,
        "args": args,
        "reached": sorted(place[0] for place in touched if place),
    }


def _holder(address: int, places: dict[str, tuple[int, int]]) -> tuple[str, int] | None:
    """The buffer that an address is in, and how far."""
    for name, (start, size) in places.items():
        if start <= address < start + size:
            return name, address - start
    return None


def memory_of(captured: dict[str, Any], inputs: dict[str, Any]) -> dict[str, Any]:
    """The buffers of an emulation: the grader's inputs, and the temporaries as they were."""
    return {**inputs, **{name: np.asarray(data) for name, data in captured["temporaries"].items()}}

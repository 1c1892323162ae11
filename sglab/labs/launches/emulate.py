"""Launches of a submission on the emulator: what the kernels leave in memory, and what they did.

The launches come as data: PTX, sizes, arguments by the name of their buffer; the contents of the buffers come from the
grader. Nothing of the submission but its PTX runs here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sglab.emulator import EmulatedDevice
from sglab.events.log import EventLog
from sglab.gpu import GpuError, KernelError, Module, TensorMap
from sglab.gpu.module import Kernel

from .buffers import Buffer
from .measures import finding, measured

PROGRAM = "sglab.labs.launches.emulate:run"
MOST_INSTRUCTIONS = 4_000_000


def run(payload: dict[str, Any]) -> dict[str, Any]:
    """Runs the launches one after another on one memory.

    Args:
        payload: arch; buffers, arrays by name; launches, each a dict of ptx, name (of its source), entry, grid, block,
            cluster, smem and args; results, the buffers to return; scheduler, seed, sms and sanitize of the device;
            pages, bytes of a page by buffer; banks, whether to count bank conflicts; timed, the architecture of the
            modelled time; timeline, for a page that shows the main launch.

    Returns:
        buffers: the results; launches: what each did (`measures.measured`); failed: why one could not run to its end.
    """
    device = EmulatedDevice(
        payload["arch"],
        sms=payload.get("sms"),
        scheduler=payload.get("scheduler", "fair"),
        seed=payload.get("seed", 0),
        sanitize=payload.get("sanitize", True),
        max_instructions=payload.get("most_instructions", MOST_INSTRUCTIONS),
    )
    buffers = {name: Buffer(array) for name, array in payload["buffers"].items()}
    done: list[dict[str, Any]] = []
    recorded: list[EventLog] = []
    failed = ""
    modules: dict[str, Module] = {}
    for launch in payload["launches"]:
        try:
            ptx = launch["ptx"]
            module = modules[ptx] = modules.get(ptx) or Module(ptx, launch["name"])
            kernel = module[launch["entry"]]
            with np.errstate(all="ignore"):
                log = _recorded(kernel, device, launch, buffers)
                recorded.append(log)
                done.append(measured(log, buffers, payload, _again(kernel, device, launch, payload)))
        except KernelError as error:
            failed = str(error)[:2000]
            done.append({"findings": [finding(one) for one in error.findings], "kernel": launch["entry"]})
            break
        except GpuError as error:
            failed = str(error)[:2000]
            break
    return {
        "buffers": {name: buffers[name].array() for name in payload["results"]},
        "launches": done,
        "failed": failed,
        "timeline": _timeline(recorded) if payload.get("timeline") and recorded else "",
    }


def _recorded(kernel: Kernel, device: EmulatedDevice, launch: dict[str, Any], buffers: dict[str, Buffer]) -> EventLog:
    args = [_argument(one, buffers) for one in launch["args"]]
    sizes = {"cluster": launch.get("cluster"), "smem": launch.get("smem", 0)}
    extra = [buffers[name] for name in launch.get("reached", ())]
    return kernel.record(device, tuple(launch["grid"]), tuple(launch["block"]), args=args, extra=extra, **sizes)


def _argument(one: Any, buffers: dict[str, Buffer]) -> Any:
    if not isinstance(one, dict):
        return one
    if "map" in one:
        return TensorMap(buffers[one["map"]], tuple(one["box"]), swizzle=one.get("swizzle", 0))
    if "buffer" in one:
        return (buffers[one["buffer"]].data_ptr() + one["offset"]) if one.get("offset") else buffers[one["buffer"]]
    return bytes(one["bytes"])


def _again(kernel: Kernel, device: EmulatedDevice, launch: dict[str, Any], payload: dict[str, Any]) -> Any:
    """What starts a session over the launch, on fresh memory; None where no question needs one."""
    if not payload.get("banks"):
        return None
    fresh = {name: Buffer(array) for name, array in payload["buffers"].items()}
    args = [_argument(one, fresh) for one in launch["args"]]
    sizes = {"cluster": launch.get("cluster"), "smem": launch.get("smem", 0)}
    plain = EmulatedDevice(payload["arch"], sms=payload.get("sms"))
    return kernel.session(plain, tuple(launch["grid"]), tuple(launch["block"]), args=args, **sizes)


def _timeline(recorded: list[EventLog]) -> str:
    from sglab.widgets import WarpRoles
    from sglab.widgets.page import html_page

    main = max(recorded, key=len)
    return html_page([WarpRoles(main)], main.kernel)

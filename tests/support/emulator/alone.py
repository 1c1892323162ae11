"""Runs PTX text in a process of its own, so that a crash of the emulator is a failed test, not a dead pytest."""

import json
import subprocess
import sys
from typing import Any

_CHILD = """
import json, resource, sys
from sglab import _core
from tests.support.emulator.launching import HEADER
request = json.loads(sys.stdin.read())
if request["address_space"]:
    resource.setrlimit(resource.RLIMIT_AS, (request["address_space"], request["address_space"]))
try:
    module = _core.Module(HEADER + request["ptx"])
    kernel = module.kernel(module.entries[0])
    for _ in range(request["times"]):
        sanitizer = request["sanitize"] and _core.sanitizer(request["sanitize"], False, _core.MarkedMemory())
        machine = _core.Machine("sm_100a", 4, request["threads"])
        report = machine.launch(kernel, request["grid"], request["block"], [1, 1, 1], 0, bytes(request["parameters"]),
                                [], request["max_instructions"], sanitizer or None)
    outcome = ["done", report.output]
except _core.LaunchError as error:
    outcome = [error.kind, str(error)]
except _core.PtxError as error:
    outcome = ["PtxError", str(error)]
status = open("/proc/self/status").read()  # getrusage's figure is at least what the parent had when it forked
rss = int(status.split("VmHWM:")[1].split()[0])
print(json.dumps([*outcome, rss]))
"""


class Outcome:
    """How it ended.

    Attributes:
        kind: "done", a LaunchError's kind, or "PtxError".
        text: what the kernel printed, or the error's message.
        peak: bytes of memory that the process has had at most.
    """

    def __init__(self, kind: str, text: str, kilobytes: int) -> None:
        self.kind, self.text, self.peak = kind, text, 1024 * kilobytes

    def __repr__(self) -> str:
        return f"{self.kind}: {self.text[:300]}"


def run_alone(
    ptx: str,
    *,
    grid: tuple[int, int, int] = (1, 1, 1),
    block: tuple[int, int, int] = (32, 1, 1),
    parameters: bytes = b"",
    sanitize: tuple[str, ...] = (),
    threads: int = 1,
    address_space: int = 0,
    max_instructions: int = 100_000,
    times: int = 1,
) -> Outcome:
    """Launches the first kernel of the text.

    Args:
        address_space: bytes that the system lets the process map; 0 for no limit.

    Raises:
        AssertionError: the process died, or raised an exception that is neither LaunchError nor PtxError.
    """
    request: dict[str, Any] = {
        "ptx": ptx,
        "grid": grid,
        "block": block,
        "parameters": list(parameters),
        "sanitize": list(sanitize),
        "threads": threads,
        "address_space": address_space,
        "max_instructions": max_instructions,
        "times": times,
    }
    child = subprocess.run([sys.executable, "-c", _CHILD], input=json.dumps(request), capture_output=True, text=True)
    assert child.returncode == 0, f"exit status {child.returncode}\n{child.stderr[-2000:]}"
    return Outcome(*json.loads(child.stdout))

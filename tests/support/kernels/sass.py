"""What ptxas made of a kernel, read in nvdisasm's listing of it."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

_LOW = re.compile(r"UIADD3 (UR\d+), (UP\d), (UR\d+), \S+, URZ ")
_HIGH = re.compile(r"UIADD3\.X UR\d+, (UR\d+), \S+, URZ, (UP\d),")
_WRITTEN = re.compile(r"(?:\bU\w[\w.]*|R2UR[\w.]*|S2UR) (?:UP\d, )*(UR\d+)")


def mixed_halves(cubin: bytes) -> list[str]:
    """Additions of 64 bits on uniform registers, as of wgmma's descriptors, whose upper half is read from the lower.

    ptxas 12.8, which Triton 3.6 and 3.7 bring for Hopper, makes such code where descriptors with several swizzles share
    an address that lives long: the upper half should be 0, and wgmma reads beyond shared memory.
    """
    low_halves: dict[str, str] = {}
    found = []
    for line in _listing(cubin).splitlines():
        if (high := _HIGH.search(line)) and low_halves.get(high[2]) == high[1]:
            found.append(line.strip())
        if written := _WRITTEN.search(line):
            low_halves = {carry: register for carry, register in low_halves.items() if register != written[1]}
        if (low := _LOW.search(line)) and low[1] != low[3]:
            low_halves[low[2]] = low[3]
    return found


def _listing(cubin: bytes) -> str:
    from triton import knobs

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        command = [knobs.nvidia.nvdisasm.path, "-c", str(path)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

"""A worker process: runs cases one after the other and says, before each, which one it is.

`python -m sglab_fuzz.worker target device seed first stride progress-file` runs cases first, first + stride, … until it
is ended. `python -m sglab_fuzz.worker target device - text-file` runs one text. Findings go to stdout, a line of JSON
each; the progress file holds four 64-bit integers: cases begun, the present case's number, units done, cases done.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import sys
import traceback
from pathlib import Path

from sglab_fuzz import target as targets

PROGRESS = struct.Struct("<4q")
_PACKAGES = ("sglab/", "sglab_fuzz/")


def signature(error: BaseException) -> str:
    """What makes two exceptions the same finding: the type, and where in our code it left."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [
        f for f in frames if any(part in f.filename for part in _PACKAGES) and "sglab_fuzz/worker" not in f.filename
    ]
    where = f"{Path(ours[-1].filename).name}:{ours[-1].name}" if ours else "?"
    return f"{type(error).__name__} in {where}"


def described(error: BaseException) -> dict[str, str]:
    kind = "mismatch" if isinstance(error, targets.Finding) else "exception"
    found = {"kind": kind, "signature": signature(error), "message": f"{type(error).__name__}: {error}"[:2000]}
    if isinstance(error, targets.Finding):
        found["signature"] = str(error).split(":")[0]
        if error.replay is not None:
            found["replay"] = error.replay
    else:
        found["trace"] = "".join(traceback.format_exception(error))[-2000:]
    return found


def search(name: str, device: str, seed: int, first: int, stride: int, progress: Path) -> None:
    """Run cases until this process is ended, or the one that started it is gone."""
    target, parent = targets.load(name, device), os.getppid()
    with progress.open("r+b") as file, mmap.mmap(file.fileno(), PROGRESS.size) as shared:
        number, units, done = first, 0, 0
        while os.getppid() == parent:
            PROGRESS.pack_into(shared, 0, done + 1, number, units, done)
            text = target.make(targets.generator(seed, number), number)
            try:
                units += target.run(text)
            except Exception as error:  # whatever escapes a target is what the harness looks for
                units += 1
                print(json.dumps({**described(error), "number": number}), flush=True)
            done += 1
            number += stride
            PROGRESS.pack_into(shared, 0, done, number, units, done)


def once(name: str, device: str, text: str) -> None:
    """Run one text; a finding is printed."""
    target = targets.load(name, device)
    print(json.dumps({"kind": "ready"}), flush=True)
    try:
        target.run(text)
    except Exception as error:  # as above
        print(json.dumps(described(error)), flush=True)


def main(arguments: list[str]) -> None:
    name, device, seed, *rest = arguments
    if seed == "-":
        once(name, device, Path(rest[0]).read_text("utf-8", "surrogatepass"))
    else:
        search(name, device, int(seed), int(rest[0]), int(rest[1]), Path(rest[2]))


if __name__ == "__main__":
    main(sys.argv[1:])

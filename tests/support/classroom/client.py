"""One client: python client.py QUEUE LOG TURNS [hold].

In each of its turns it writes its place to LOG, and makes sure that nobody else is in. With `hold` it says "in" and
stays.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from sglab.classroom.gpu_queue import GpuQueue

queue, log, turns = GpuQueue(Path(sys.argv[1])), Path(sys.argv[2]), int(sys.argv[3])
for _ in range(turns):
    with queue.turn() as place:
        inside = log.with_suffix(".inside")
        os.close(os.open(inside, os.O_CREAT | os.O_EXCL))  # fails if two have the GPU at once
        with open(log, "a") as file:
            file.write(f"{place.number} {os.getpid()}\n")
        if len(sys.argv) > 4:
            inside.unlink()
            print("in", flush=True)
            time.sleep(3600)
        time.sleep(0.01)
        inside.unlink()

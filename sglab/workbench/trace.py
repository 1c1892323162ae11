"""The kernel launches behind one attention call, each of which can be stepped and recorded."""

from __future__ import annotations

from typing import Any

from sglab import gpu
from sglab.attention.base import AttentionBackend
from sglab.workbench.attend import attend
from sglab.workbench.batch import Batch


def trace(batch: Batch, backend: str | AttentionBackend | None = None, **options: Any) -> gpu.Capture:
    """Runs one attention layer over a batch, as sglab.attend does, and keeps the kernel launches that it makes.

    Args:
        options: of sglab.attend.

    Returns:
        the launches; `.result` is what attend returned, `.subject` the batch, `.session()` and `.record()` are of the
            main one.

    Raises:
        LaunchError: no kernel ran on the emulator: the batch is on a GPU, or the backend's implementation is torch; and
            what sglab.attend raises.
    """
    launches = gpu.capture(lambda: attend(batch, backend, **options))
    launches.subject = batch
    return launches

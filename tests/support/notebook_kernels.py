"""Kernels for notebooks, forked with torch and sglab in memory: to import them takes longer than most notebooks.

What a notebook names it still has to import itself.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any
from unittest.mock import patch

import sglab
from tests.support.forked import FORK, Fork


def _be_kernel(ready: Connection, arguments: list[str], cwd: str, env: Mapping[str, str]) -> None:
    os.setsid()  # whoever ends the kernel signals its group
    os.environ.update(env)
    os.chdir(cwd)
    ready.send(None)
    from ipykernel.kernelapp import IPKernelApp

    application = IPKernelApp.instance()
    application.initialize(arguments)
    importlib.reload(sglab)  # in a shell it defines %%cuda
    application.start()


def _launch(command: list[str], cwd: str = ".", env: Mapping[str, str] | None = None, **_: Any) -> Fork:
    ready, theirs = FORK.Pipe(duplex=False)
    arguments = command[command.index("ipykernel_launcher") + 1 :]
    kernel = Fork(_be_kernel, theirs, arguments, cwd, dict(env or {}), daemon=False)
    theirs.close()
    ready.recv()
    return kernel


def forked_kernels() -> Any:
    """A context in which jupyter_client forks kernels."""
    return patch("jupyter_client.provisioning.local_provisioner.launch_kernel", _launch)

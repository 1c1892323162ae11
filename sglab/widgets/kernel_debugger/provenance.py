"""What is known of the sources of kernels that ship with the package."""

from __future__ import annotations

from collections.abc import Mapping

from sglab.gpu.ptx import Ptx
from sglab.kernels import ptx


def compiled_digests(module: Ptx) -> Mapping[str, str]:
    """SHA-256 by path of what a shipped module was compiled from; nothing for others."""
    name = module.name.removesuffix(".ptx")
    if name not in ptx.names() or ptx.module(name) is not module:
        return {}
    return ptx.provenance(name).sha256

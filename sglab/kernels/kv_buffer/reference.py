"""set_mla_kv_buffer as one indexed assignment."""

from __future__ import annotations

import torch

from sglab.kernels.kv_buffer.contract import BufferArguments


def run(arguments: BufferArguments) -> tuple[()]:
    rows = torch.cat([arguments.cache_k_nope, arguments.cache_k_rope], dim=1)
    arguments.kv_buffer[arguments.loc.long()] = rows
    return ()

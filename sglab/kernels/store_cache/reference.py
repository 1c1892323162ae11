"""store_cache as two indexed assignments."""

from __future__ import annotations

from sglab.kernels.store_cache.contract import StoreArguments


def run(arguments: StoreArguments) -> tuple[()]:
    kept = arguments.indices != arguments.skip
    slots = arguments.indices[kept].long()
    arguments.k_cache[slots] = arguments.k[kept]
    arguments.v_cache[slots] = arguments.v[kept]
    return ()

"""What a launch did with shared memory, as SharedMemory's page reads it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sglab.emulator.bank_conflicts import InstructionBanks
from sglab.events.async_groups import AsyncPipeline
from sglab.events.shared_memory import ElementSpan, SharedTile, element_bits

GROUPS = 1000
"""Groups of cp.async that are listed per warp: the first."""


def tile_dict(number: int, tile: SharedTile) -> dict[str, Any]:
    fields = asdict(tile)
    return {"id": number, "elementBits": fields.pop("element_bits"), "ctaGroup": fields.pop("cta_group"), **fields}


def map_dict(number: int, info: Any) -> dict[str, Any]:
    return {
        "name": f"map {number}",
        "address": hex(info.address),
        "element": info.element,
        "elementBits": element_bits(info.element),
        "dims": list(info.dims),
        "strides": list(info.strides),
        "box": list(info.box),
        "elementStrides": list(info.element_strides),
        "swizzle": info.swizzle,
        "interleave": info.interleave,
        "nanFill": info.nan_fill,
        "im2col": info.im2col,
    }


def pipeline_dict(pipeline: AsyncPipeline) -> dict[str, Any]:
    groups, last = pipeline.groups[:GROUPS], pipeline.groups[:GROUPS][-1].number
    return {
        "warp": pipeline.warp,
        "lanes": pipeline.lanes,
        "total": len(pipeline.groups),
        "groups": [asdict(group) for group in groups],
        "waits": [asdict(wait) for wait in pipeline.waits if not wait.completed or wait.completed[-1] <= last],
    }


def banks_dict(one: InstructionBanks) -> dict[str, Any]:
    fields = {key: value for key, value in vars(one).items() if key not in ("instruction", "chunks", "masks")}
    return {"pc": one.instruction.pc, **fields}


def span_dict(span: ElementSpan) -> dict[str, Any]:
    return {"start": span.start, "end": span.end, "phases": [list(phase) for phase in span.phases]}

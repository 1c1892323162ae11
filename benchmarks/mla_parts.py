"""What the time of one SM90 MLA decode is made of, measured by taking parts of the work away.

    launch   an empty kernel
    start    attention cut to the first tile of each work, without the launch: Q, first pages, epilogue
    tiles    attention whose page table repeats 64 pages, which stay in L2, without the above: what tensor cores and
             softmax need where no page has to come from memory; without the tail
    tail     the tiles that the longest CTA has beyond the mean over all SMs, at the same time per tile
    memory   what attention takes longer with its own pages, which come from memory
    combine  what both launches together take longer than attention alone

They add up to the total. A part below zero is noise, or overlap that the experiment cannot see.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import torch
from mla_peers import SCALE, Batch, prepare_ours

from sglab import gpu
from sglab.gpu import CudaDevice, Launch
from sglab.kernels.mla import MlaSm90
from sglab.kernels.mla.arguments import check
from sglab.kernels.mla.work_units import Works
from sglab.planning.mla_sm90 import NO_WORK, TILE, MlaSm90Plan

CACHED_PAGES = 64
"""4.7 MB in bf16."""
EMPTY = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry empty() { ret; }\n"

Timer = Callable[[Callable[[], object]], float]


@dataclass(frozen=True)
class Occupation:
    """What the plan lays on the SMs. One CTA fits an SM, so that all CTAs, of which only those with work count, run at
    once.

    longest, mean: tiles of 64 tokens, of the busiest CTA and per SM; works: of the busiest CTA
    """

    ctas: int
    sms: int
    works: int
    longest: int
    mean: float


@dataclass(frozen=True)
class Parts:
    """Microseconds, see above. combine_alone: the combine by itself, launch included; per_tile: 0 where no CTA has more
    than one tile per work, and so nothing can be said"""

    total: float
    launch: float
    start: float
    tiles: float
    tail: float
    memory: float
    combine: float
    combine_alone: float
    per_tile: float

    def by_size(self) -> list[tuple[str, float]]:
        names = ("launch", "start", "tiles", "tail", "memory", "combine")
        return sorted(((name, getattr(self, name)) for name in names), key=lambda part: -part[1])


def occupation(plan: MlaSm90Plan, head_blocks: int, sms: int) -> Occupation:
    there = plan.works[..., 0] != NO_WORK
    tiles = (-(-(plan.works[..., 2] - plan.works[..., 1]) // TILE) * there).sum(0)
    busiest = int(tiles.argmax())
    ctas = int(there[0].sum()) * head_blocks
    return Occupation(
        ctas, sms, int(there[:, busiest].sum()), int(tiles[busiest]), float(tiles.sum()) * head_blocks / sms
    )


def measure(device: CudaDevice, batch: Batch, timer: Timer) -> tuple[Parts, Occupation]:
    """timer: the microseconds of a call with a cold L2 cache"""
    ours = prepare_ours(device, batch)
    on = occupation(ours.plan, -(-batch.heads // 64), device.sms)
    cached = dataclasses.replace(batch, page_table=batch.page_table % CACHED_PAGES)
    works = ours.decode.works

    def time(*launches: Launch) -> float:
        return timer(lambda: [device.run(launch) for launch in launches])

    empty = gpu.load(EMPTY)["empty"].prepare(device, grid=(-(-batch.heads // 64), ours.plan.parts), block=384)
    launch, total, attention = time(empty), time(*ours.launches), time(ours.launches[0])
    in_cache = time(_attention(device, cached, works))
    first_tiles = time(_attention(device, cached, _first_tiles(works)))
    further = on.longest - on.works
    per_tile = (in_cache - first_tiles) / further if further else 0.0
    tail = per_tile * min(on.longest - on.mean, further)
    return (
        Parts(
            total,
            launch,
            start=first_tiles - launch,
            tiles=in_cache - first_tiles - tail,
            tail=tail,
            memory=attention - in_cache,
            combine=total - attention,
            combine_alone=time(ours.launches[1]) if len(ours.launches) > 1 else 0.0,
            per_tile=per_tile,
        ),
        on,
    )


def _attention(device: CudaDevice, batch: Batch, works: Works) -> Launch:
    q_nope, q_pe = batch.q.split([512, 64], -1)
    arguments = check("mla_decode_sm90", q_nope, q_pe, batch.kv, batch.page_table, SCALE, None, None, "e")
    return MlaSm90(device, works, batch.heads).prepare(arguments)[0]


def _first_tiles(works: Works) -> Works:
    """The same works, none with more than one tile."""
    cut = works.works.clone()
    cut[..., 2] = torch.minimum(cut[..., 2], cut[..., 1] + TILE)
    return dataclasses.replace(works, works=cut)

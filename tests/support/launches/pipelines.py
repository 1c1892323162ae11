"""Small warp-specialised matrix products, ptx/pipelines_*.cu: TMA into a ring of mbarriers, wgmma or tcgen05."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from sglab import gpu
from sglab.gpu.module import Kernel

PTX = Path(__file__).parent / "ptx"


@dataclass
class Pipeline:
    """A kernel and its tiling. rows, columns: of a CTA's tile of the result; box_b: rows of B that a CTA loads."""

    module: str
    entry: str
    arch: str
    block: int
    rows: int
    columns: int
    box_b: int
    ctas: int = 1
    rows_first: bool = True  # blockIdx.x runs along the rows

    @property
    def kernel(self) -> Kernel:
        return gpu.load(PTX / f"{self.module}.ptx")[self.entry]

    def arguments(self, k: int = 256, tiles: tuple[int, int] = (1, 1), seed: int = 0) -> Arguments:
        """tiles: pairs' or CTAs' tiles along rows and columns; the numbers are small integers, so sums are exact."""
        generator = torch.Generator().manual_seed(seed)
        m, n = self.rows * self.ctas * tiles[0], self.columns * tiles[1]
        a = torch.randint(-4, 5, (m, k), generator=generator).half()
        b = torch.randint(-4, 5, (n, k), generator=generator).half()
        grid = (self.ctas * tiles[0], tiles[1]) if self.rows_first else (tiles[1], tiles[0])
        return Arguments(self, a, b, torch.zeros(m, n), k, grid)


@dataclass
class Arguments:
    pipeline: Pipeline
    a: Any
    b: Any
    out: Any
    k: int
    grid: tuple[int, int]

    def launch(self) -> dict[str, Any]:
        """Keywords of Kernel.launch, record and session."""
        boxes = (
            gpu.TensorMap(self.a, (self.pipeline.rows, 64), swizzle=128),
            gpu.TensorMap(self.b, (self.pipeline.box_b, 64), swizzle=128),
        )
        return {"grid": self.grid, "block": self.pipeline.block, "args": [*boxes, self.out, self.out.shape[1], self.k]}

    def right(self) -> bool:
        return torch.equal(self.out.double(), self.a.double() @ self.b.double().T)


PIPELINES = {
    "wgmma": Pipeline("pipelines_sm90", "wgmma_pipeline", "sm_90a", 160, 64, 32, 32, rows_first=False),
    "tcgen05": Pipeline("pipelines_sm100", "tcgen05_pipeline", "sm_100a", 192, 128, 64, 64),
    "tcgen05 pair": Pipeline("pipelines_sm100", "tcgen05_pair_pipeline", "sm_100a", 192, 128, 64, 32, ctas=2),
}

"""What the parts of the microbenchmarks share: the device, the kernels of memory.cu, a ring of pointers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from sglab import gpu
from sglab.gpu import CudaDevice, Kernel

SOURCE = Path(__file__).with_name("memory.cu")
Figures = dict[str, Any]


class Bench:
    """The device, the kernels of memory.cu, and where they write their clocks."""

    def __init__(self, device: CudaDevice) -> None:
        self.device, self.memory = device, gpu.load(SOURCE, "sm_90a")
        self.out = torch.zeros(65_536, dtype=torch.int64, device=device.torch_device)

    def launch(self, kernel: Kernel, grid: int, block: int, args: list[Any], smem: int = 0) -> torch.Tensor:
        kernel.launch(self.device, grid, block, smem=smem, args=args, extra=[])
        self.device.synchronize()
        return self.out.cpu()

    def cycles(self, kernel: Kernel, block: int, args: list[Any], smem: int = 0, grid: int = 1) -> int:
        """The least of three runs."""
        return min(int(self.launch(kernel, grid, block, [self.out, *args], smem)[0]) for _ in range(3))

    def named(self, name: str) -> Kernel:
        return self.memory[name]


def ring(bench: Bench, nodes: int, stride: int) -> torch.Tensor:
    """A ring of pointers through memory, in random order: its first word is its first node."""
    words = stride // 8
    memory = torch.zeros(nodes * words, dtype=torch.int64, device=bench.device.torch_device)
    order = torch.cat([torch.zeros(1, dtype=torch.int64), 1 + torch.randperm(nodes - 1)]).to(memory.device) * words
    memory[order] = memory.data_ptr() + 8 * order.roll(-1)
    return memory

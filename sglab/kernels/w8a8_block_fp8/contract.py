"""What w8a8_block_fp8_matmul asks of its arguments."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.kernels.contract import FLOATS, Contract


@dataclass(frozen=True)
class BlockFp8Arguments:
    """Checked arguments; `out` is allocated."""

    a: torch.Tensor
    b: torch.Tensor
    a_scale: torch.Tensor
    b_scale: torch.Tensor
    block: tuple[int, int]
    out: torch.Tensor

    @property
    def device(self) -> torch.device:
        return self.a.device


def check(
    a: torch.Tensor,
    b: torch.Tensor,
    a_scale: torch.Tensor,
    b_scale: torch.Tensor,
    block: tuple[int, int],
    output_dtype: torch.dtype,
) -> BlockFp8Arguments:
    contract = Contract("w8a8_block_fp8_matmul")
    e4m3 = (torch.float8_e4m3fn,)
    contract.tensor("A", a, "tokens in", e4m3)
    contract.tensor("B", b, "out in", e4m3)
    whole = len(block) == 2 and all(isinstance(size, int) and size > 0 for size in block)
    contract.require(whole, "block_size", "two positive sizes", block, "Checkpoints have 128 by 128.")
    contract.fix("row_blocks", -(-contract.size("out") // block[0]), "B")
    contract.fix("groups", -(-contract.size("in") // block[1]), "A")
    contract.tensor("As", a_scale, "tokens groups", (torch.float32,), dense=False)
    contract.tensor("Bs", b_scale, "row_blocks groups", (torch.float32,), dense=False)
    wanted = " or ".join(map(str, FLOATS))
    contract.require(output_dtype in FLOATS, "output_dtype", wanted, output_dtype, "Choose one of them.")
    out = a.new_empty(len(a), len(b), dtype=output_dtype)
    return BlockFp8Arguments(a, b, a_scale, b_scale, (block[0], block[1]), out)

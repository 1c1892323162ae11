"""Drawing tokens from logits in one pass over them: the largest of logit / temperature + Gumbel noise.

That is a draw from their softmax, without the softmax (Gumbel 1954; Maddison et al., A* Sampling, 2014). The noise is
Philox4x32-10 (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011) of seed, draw, row and token, so that a
seed repeats it and a CUDA graph can replay it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.kernels.contract import FLOATS, Contract, reads_values
from sglab.kernels.known_calls import checked_once
from sglab.kernels.registry import CPU, GPU, Implementation, Operator, needs_triton
from sglab.kernels.sampling.contract import check_rows

COLUMNS = 1024
"""Tokens of a step: four words of Philox in each of 256 places, place by place, then word by word."""

operator = Operator(
    "gumbel_argmax",
    Implementation("triton", "sglab.kernels.sampling.gumbel_triton:run", GPU, needs_triton),
    Implementation("torch", "sglab.kernels.sampling.gumbel_torch:run", CPU | GPU),
)


@dataclass(frozen=True)
class GumbelArguments:
    """Checked. Shapes as `gumbel_argmax` takes them; out (rows,) int64."""

    logits: torch.Tensor
    temperatures: torch.Tensor
    greedy: torch.Tensor
    state: torch.Tensor
    out: torch.Tensor

    @property
    def device(self) -> torch.device:
        return self.logits.device


@checked_once
def gumbel_argmax(
    logits: torch.Tensor,
    temperatures: torch.Tensor,
    greedy: torch.Tensor,
    state: torch.Tensor,
    *,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> torch.Tensor:
    """A token per row, (rows,) int64: drawn from softmax(logits / temperature), or a greedy row's largest logit.

    Args:
        logits: (rows, vocabulary), a row's columns adjacent.
        temperatures: (rows,) float32, above 0.
        greedy: (rows,) bool.
        state: (2,) int64, the seed and how many draws there were; this one adds 1 to them, on the device.
        implementation: "triton" is at home on a GPU, "torch" on a CPU.

    Raises:
        ContractError: an argument does not fit.
    """
    contract = Contract("gumbel_argmax")
    contract.tensor("logits", logits, "rows vocabulary", FLOATS, dense=False)
    contract.require(
        logits.shape[1] > 0 and logits.stride(1) == 1, "logits", "of adjacent columns", logits.stride(), "Copy them."
    )
    contract.tensor("temperatures", temperatures, "rows", (torch.float32,))
    contract.tensor("greedy", greedy, "rows", (torch.bool,))
    contract.tensor("state", state, "2", (torch.int64,))
    if reads_values(check_values, logits.device):
        positive = temperatures > 0
        contract.elements("temperatures", positive, "above 0", temperatures, "Mark a row greedy instead.")
        check_rows(contract, logits, logits=True)
    out = torch.empty(len(logits), dtype=torch.int64, device=logits.device)
    arguments = GumbelArguments(logits, temperatures, greedy, state, out)
    if len(logits):
        operator(arguments, implementation)
    return out

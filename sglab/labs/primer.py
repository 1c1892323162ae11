"""Notebook primer: attention on a model that speaks, the size of a KV cache, and a first kernel on an emulated GPU."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch

from sglab.emulator import EmulatedDevice
from sglab.emulator.session import Session
from sglab.gpu import Kernel
from sglab.kernels import ptx

from .attention_weights import Weights, attention_weights
from .code_question import CodeQuestion
from .question import Question

__all__ = ["Weights", "attention_weights"]

LANES, WARPS, DIM = 32, 4, 128
LLAMA_3_8B = {"layers": 32, "kv_heads": 8, "head_dim": 128, "bytes": 2}
"""Its config.json: num_hidden_layers, num_key_value_heads, hidden_size / num_attention_heads, and bfloat16."""


@dataclass
class Scores:
    """A launch of csrc/kernels/lessons/scores.cu on fresh tensors: one query against `keys` keys of 128 dims.

    A CTA of 128 threads takes four keys, a warp each; see the source.
    """

    keys: int = 10
    seed: int = 0
    q: torch.Tensor = field(init=False)
    k: torch.Tensor = field(init=False)
    score: torch.Tensor = field(init=False)

    def __post_init__(self) -> None:
        random = torch.Generator().manual_seed(self.seed)
        self.q, self.k = (torch.randn(shape, generator=random) for shape in ((DIM,), (self.keys, DIM)))
        self.score = torch.zeros(self.keys)

    @property
    def kernel(self) -> Kernel:
        return ptx.module("scores")["scores"]

    @property
    def grid(self) -> int:
        return -(-self.keys // WARPS)

    def run(self, **device: Any) -> Any:
        """Launches; `device` are options of EmulatedDevice. Returns the report."""
        return self.kernel.launch(EmulatedDevice("sm_90a", **device), **self._launch())

    def session(self) -> Session:
        """The launch, to be stepped."""
        return self.kernel.session(EmulatedDevice("sm_90a"), **self._launch())

    def error(self) -> float:
        """How far `score` is from float64's, at worst."""
        return float((self.score.double() - self.k.double() @ self.q.double()).abs().max())

    def _launch(self) -> dict[str, Any]:
        return {"grid": self.grid, "block": WARPS * LANES, "args": [self.q, self.k, self.score.zero_(), self.keys]}


def most_looked_at(weights: Weights, token: int) -> Question:
    """Which earlier token, not itself, a token gives most weight to."""
    return Question(
        truth=lambda: int(weights.matrix[token, :token].argmax()),
        because="{truth}: the largest weight of its row to the left of the diagonal.",
        hint=f".matrix[{token}] of these weights is its row. Leave out its own column and those after it.",
        ideas=(
            (token, "That is the token itself."),
            (token - 1, "The neighbour, too, is one of many: look for the strongest colour in the row."),
        ),
    )


def weighted_output() -> Question:
    """The output of an attention over three keys with two-dimensional values, by hand."""

    def truth() -> list[float]:
        weights = torch.softmax(torch.tensor([0.0, 0.0, math.log(2.0)], dtype=torch.float64), 0)
        return list((weights @ torch.tensor([[4.0, 0.0], [0.0, 4.0], [8.0, 8.0]], dtype=torch.float64)).tolist())

    return Question(
        truth=truth,
        because="{truth}: the weights are 1/4, 1/4 and 2/4, for e^0 = 1 and e^ln 2 = 2.",
        hint="Take e to the power of each score, divide by their sum, and add up the values with these weights.",
        ideas=(
            ([4.0, 4.0], "That is the plain mean. The third key's score is higher, so its value weighs more."),
            ([20.0, 20.0], "The powers 1, 1 and 2 are no weights yet: divide them by their sum."),
        ),
    )


def llama_bytes_per_token() -> Question:
    """Bytes that Llama 3 8B keeps for one token."""
    model = LLAMA_3_8B
    return Question(
        truth=lambda: 2 * model["layers"] * model["kv_heads"] * model["head_dim"] * model["bytes"],
        because="{truth} bytes, 128 KiB for about four letters of text.",
        hint="A key and a value, in every layer, for every KV head: head_dim numbers of 2 bytes each.",
        ideas=(
            (
                model["layers"] * model["kv_heads"] * model["head_dim"] * model["bytes"],
                "Half of it: keys without values, or numbers whose 2 bytes each were not counted.",
            ),
            (
                2 * model["kv_heads"] * model["head_dim"] * model["bytes"],
                "That is one layer. Each layer has keys and values of its own.",
            ),
            (
                4 * 2 * model["layers"] * model["kv_heads"] * model["head_dim"] * model["bytes"],
                "That counts 32 heads. Keys and values exist once per KV head, and four query heads share each.",
            ),
        ),
    )


def llama_tokens(gpu_gib: int, weights_gib: int) -> Question:
    """Tokens that fit beside the weights."""
    per_token = 2 * LLAMA_3_8B["layers"] * LLAMA_3_8B["kv_heads"] * LLAMA_3_8B["head_dim"] * LLAMA_3_8B["bytes"]
    return Question(
        truth=lambda: (gpu_gib - weights_gib) * 2**30 // per_token,
        because="{truth}: 128 people with 4,096 tokens each, and the memory is full.",
        hint="Subtract the weights, and divide what is left by the bytes of a token. 1 GiB is 2**30 bytes.",
        ideas=(
            (gpu_gib * 2**30 // per_token, "The weights lie in the same memory: what is left of it?"),
            ((gpu_gib - weights_gib) * 10**9 // per_token, "A GiB is 2**30 bytes; 10**9 are a GB."),
        ),
    )


def wasted_keys(prompt: int, new: int) -> Question:
    """Keys that are computed again when a loop keeps none."""
    return Question(
        truth=lambda: sum(range(prompt, prompt + new)) - (prompt + new - 1),
        because="{truth}: it grows with the square of the length. A cache computes each key once.",
        hint="Step i reads prompt + i tokens, i from 0. Add up all steps, then subtract one computation per token.",
        ideas=(
            (
                sum(range(prompt, prompt + new)),
                "So many keys are computed in all. Each token's first computation is no waste.",
            ),
        ),
    )


def lanes_without_work(launch: Scores) -> Question:
    """Lanes of a grid whose warps have no key."""
    return Question(
        truth=lambda: (launch.grid * WARPS - launch.keys) * LANES,
        because="{truth}: whole warps without a key, since the grid is made of whole CTAs.",
        hint="How many warps does the grid have, and how many keys are there? A warp has 32 lanes.",
        ideas=((launch.grid * WARPS - launch.keys, "So many warps. Each has 32 lanes."),),
    )


def shuffles(launch: Scores) -> Question:
    """Shuffles that a warp with a key executes."""

    def truth() -> int:
        session, count = Scores(launch.keys, launch.seed).session(), 0  # the reader's own tensors stay as they are
        while (stop := session.step(warp=0)).reason == "reached" and stop.at is not None:
            count += stop.at.instruction.opcode.startswith("shfl")
        return count

    return Question(
        truth=truth,
        because="{truth}: each halves the number of different sums, and 2 to the power of 5 is 32.",
        hint="After the first shuffle two lanes share a sum, after the second four. When do all 32?",
        ideas=(
            (1, "One stands in the source, in a loop. How often does a warp pass there?"),
            (31, "So many additions a single thread needs. Lanes add in pairs, all pairs at once."),
        ),
    )


def tensor_core_factor() -> Question:
    """Warp-instructions of plain fma that one mma.m16n8k16 does the work of."""
    return Question(
        truth=lambda: 16 * 8 * 16 // LANES,
        because="{truth}: 2,048 multiplications with an addition each, and a plain fma of a warp does 32.",
        hint="m16n8k16: a 16 × 16 matrix times a 16 × 8 matrix. Each of the 16 · 8 results takes 16 multiplications.",
        ideas=(
            (16 * 8 * 16, "So many multiplications. One fma of a warp does 32 of them, one per lane."),
            (16 * 8, "So many results. Each takes 16 multiplications, and one fma of a warp does 32."),
        ),
    )


def _attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scores = k.double() @ q.double()
    return torch.softmax(scores, 0) @ v.double(), torch.logsumexp(scores, 0)


def _overflowing(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    weights = torch.exp(k @ q)
    return weights @ v / weights.sum(), torch.log(weights.sum())


def _without_maximum(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scores = k @ q
    weights = torch.exp(scores - scores.max())
    return weights @ v / weights.sum(), torch.log(weights.sum())


def _not_divided(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scores = k @ q
    weights = torch.exp(scores - scores.max())
    return weights @ v, torch.log(weights.sum()) + scores.max()


def _base_two(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scores = k @ q
    return torch.softmax(scores, 0) @ v, torch.logsumexp(scores, 0) / math.log(2)


def _sum_in_base_two(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scores = k @ q
    return torch.softmax(scores, 0) @ v, torch.log2(torch.exp(scores - scores.max()).sum()) + scores.max()


def _maximum_subtracted(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scores = k @ q
    return torch.softmax(scores, 0) @ v, torch.exp(scores - scores.max()).sum().log() - scores.max()


def _cases(random: torch.Generator) -> list[list[torch.Tensor]]:
    def draw(keys: int, size: float) -> list[torch.Tensor]:
        shapes = ((8,), (keys, 8), (keys, 4))
        q, k, v = (torch.randn(shape, generator=random) for shape in shapes)
        return [q * size, k, v]

    return [draw(1, 1), draw(3, 1), draw(20, 1), draw(20, 60), draw(50, 100)]


def attend_and_lse() -> CodeQuestion:
    """One query's attention and its LSE, in float32, with scores that overflow a plain exp."""
    return CodeQuestion(
        function="attend",
        cases=_cases,
        truth=_attend,
        because="Subtracting the largest score changes nothing but the size of the numbers, and the LSE gets it back.",
        ideas=(
            (_overflowing, "e^89 is more than float32 holds: subtract the largest score first."),
            (_without_maximum, "The output is right. The LSE lacks the maximum that you subtracted: add it again."),
            (_not_divided, "Divide the output by the sum of the powers."),
            (_base_two, "The output is right. The LSE should be a natural logarithm: torch.log, not torch.log2."),
            (
                _sum_in_base_two,
                "The output is right. The maximum is added as it is, so the sum's logarithm must be natural, too: "
                "torch.log, not torch.log2.",
            ),
            (
                _maximum_subtracted,
                "The output is right. Every power is too small by a factor of e^max: add the maximum to the logarithm, "
                "do not subtract it.",
            ),
            (lambda *args: _attend(*args)[0], "That is the output alone. Return the LSE, too: output, lse."),
            (lambda *args: _attend(*args)[::-1], "Both are right, in the other order: output first, then the LSE."),
        ),
        tolerance=1e-3,
    )

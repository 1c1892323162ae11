"""One head of one request, attended to for real and again tile by tile: what online softmax holds after every tile.

Two things ran. A kernel ran on the request and left its partials and its output: `decode_attention_fwd`, for the block
of heads that shares a CTA with this one, or the SM100 MLA decode. Its recurrence then ran once more in torch, with the
kernel's precision, and kept what the kernel keeps in registers and never stores: m, d, O and the rescale factor after
each tile.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch

from sglab.engine.errors import BadArgumentError
from sglab.kernels.decode_attention import split_ranges
from sglab.kernels.scoring import Scoring
from sglab.planning.num_kv_splits import BLOCK_H
from sglab.workbench.batch import Batch
from sglab.workbench.recorders.online_softmax_formulas import ELEMENTS_AT_ONCE, FORMULAS, States, Truth, follow
from sglab.workbench.recorders.online_softmax_kernels import decode_attention, mla_decode_sm100

LOG2_E = math.log2(math.e)
ORDERS = ("stored", "rising", "falling", "masked")
"""Of the keys: as the cache holds them, by score up or down, or stored with the first split's scores masked, −inf."""
KERNEL_SHARE = 0.7
"""Of the time, about: the rest follows the recurrences."""
KERNELS = ("decode_attention_fwd", "mla_decode_sm100")


@dataclass(frozen=True)
class OnlineSoftmaxRun:
    """What ran for one head. Logits and running maxima are in base 2, as the kernel keeps them; LSE are natural.

    Attributes:
        ranges: (first, end) token of each split that has any.
        splits: how many were requested, empty ones included.
        scores: (tokens,) float32, q·k · sm_scale · log2(e).
        tiles: (steps, 3) int32: split, first token, end token of every tile, split after split.
        states: by formula, see `online_softmax_formulas`.
        partial_o, partial_lse: (splits, v_dim) and (splits,) float32, what stage 1 left; 0 and −inf where it wrote
            nothing.
        o, lse: (v_dim,) and (), what stage 2 made of them.
        true_o, true_lse: (splits, v_dim) and (splits,) float64, attention over each split's keys.
        truth: the same after every tile.
        kernel, implementation, machine: what left the partials, and where it ran.
    """

    request: int
    head: int
    tile: int
    splits: int
    ranges: list[tuple[int, int]]
    scores: torch.Tensor
    tiles: torch.Tensor
    states: dict[str, States]
    partial_o: torch.Tensor
    partial_lse: torch.Tensor
    o: torch.Tensor
    lse: torch.Tensor
    true_o: torch.Tensor
    true_lse: torch.Tensor
    truth: Truth
    kernel: str
    implementation: str
    machine: str

    @cached_property
    def last_steps(self) -> list[int]:
        """The last step of each split that has tokens."""
        splits = self.tiles[:, 0].tolist()
        return [step for step, split in enumerate(splits) if step + 1 == len(splits) or splits[step + 1] != split]

    @cached_property
    def agreement(self) -> float:
        """Largest difference between the kernel's partials and those that the recurrence ends with, of finite ones."""
        states = self.states["online"]
        o = states.o[self.last_steps] / states.total[self.last_steps, None]
        lse = (states.top + states.total.log2())[self.last_steps] / LOG2_E
        used = len(self.ranges)
        pairs = ((o, self.partial_o[:used]), (lse, self.partial_lse[:used]))
        differences = [(mine - theirs)[mine.isfinite() & theirs.isfinite()].abs() for mine, theirs in pairs]
        return float(torch.cat([torch.zeros(1), *differences]).max())


def record_online_softmax(
    batch: Batch,
    request: int,
    head: int,
    num_splits: int,
    tile: int,
    sm_scale: float,
    implementation: str,
    order: str = "stored",
    kernel: str = "decode_attention_fwd",
    progress: Callable[[float], None] = lambda share: None,
) -> OnlineSoftmaxRun:
    """Run one head of a decode batch and record it; the arguments are checked by the widget.

    Args:
        tile: keys per step of the recurrence.
        sm_scale: instead of the batch's own.
        implementation: of decode_attention_fwd.
        order: one of ORDERS.
        kernel: one of KERNELS; mla_decode_sm100 takes MLA batches and no mask.
        progress: is called with the share that is done, from 0 to 1.
    """
    layer, slots = batch.layer, batch.slots(request)
    keys, values = batch.runner.token_to_kv_pool.get_kv_buffer(layer.layer_id)
    group = batch.num_heads // batch.num_kv_heads
    kv_head = head // group
    first_head = kv_head * group + head % group // BLOCK_H * BLOCK_H
    heads = slice(first_head, min(first_head + BLOCK_H, (kv_head + 1) * group))
    q, one = batch.q[request : request + 1], slice(kv_head, kv_head + 1)
    scoring = Scoring(sm_scale, max(layer.logit_cap, 0.0))
    row, k, v = batch.q[request, head], keys[slots, kv_head], values[slots, kv_head]
    keys, values = keys[:, one], values[:, one]
    if order != "stored":
        k, v = _arranged(order, row, k, v, masked=split_ranges(len(slots), num_splits)[0][1])
        keys, values, slots = k[:, None], v[:, None], torch.arange(len(slots), device=slots.device)
    if kernel == "mla_decode_sm100":
        partials, at = mla_decode_sm100(q, k, num_splits, sm_scale), head
    else:
        masked = order == "masked"
        partials = decode_attention(q[:, heads], keys, values, slots, num_splits, scoring, implementation, masked)
        at = head - first_head

    progress(KERNEL_SHARE)
    v_single = v.float().cpu()
    tiles = [
        (split, start, min(start + tile, end))
        for split, (first, end) in enumerate(partials.ranges)
        for start in range(first, end, tile)
    ]
    weight = _rounds_to(v.dtype)
    dots, exact_dots = _dots(row, k)
    scores, exact = _base2_logits(dots, scoring), _base2_logits(exact_dots, scoring).cpu()
    truth = Truth.of(exact, v_single, tiles)
    true_o, true_lse = torch.zeros(num_splits, v.shape[-1]).double(), torch.full((num_splits,), -math.inf).double()
    last_steps = {split: step for step, (split, _, _) in enumerate(tiles)}
    for split, (first, end) in enumerate(partials.ranges):
        true_lse[split] = (exact[first:end] / LOG2_E).logsumexp(0)
        true_o[split] = truth.o[last_steps[split]]
    states = {}
    for number, (name, formula) in enumerate(FORMULAS.items(), start=1):
        states[name] = follow(formula, scores.cpu(), truth, v_single, tiles, weight)
        progress(KERNEL_SHARE + (1 - KERNEL_SHARE) * number / len(FORMULAS))
    return OnlineSoftmaxRun(
        request=request,
        head=head,
        tile=tile,
        splits=num_splits,
        ranges=partials.ranges,
        scores=scores.cpu(),
        tiles=torch.tensor(tiles, dtype=torch.int32),
        states=states,
        partial_o=partials.o[at],
        partial_lse=partials.lse[at],
        o=partials.out[at],
        lse=partials.out_lse[at],
        true_o=true_o,
        true_lse=true_lse,
        truth=truth,
        kernel=partials.kernel,
        implementation=partials.implementation,
        machine=partials.machine,
    )


def _arranged(
    order: str, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, masked: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The head's keys and values in another order, or with the first `masked` keys' scores −inf."""
    if order == "masked":
        largest = int(q.abs().argmax())
        if q[largest] == 0:  # times an infinite key: NaN
            raise BadArgumentError(
                "order", "not masked for a query that is 0", order, "Its score with any key is 0 or NaN, never −inf."
            )
        k = k.clone()
        k[:masked] = 0
        k[:masked, largest] = -math.inf if q[largest] > 0 else math.inf
        return k, v
    rising = (k.double() @ q.double()).argsort(stable=True)
    chosen = rising if order == "rising" else rising.flip(0)
    return k[chosen], v[chosen]


def _base2_logits(dots: torch.Tensor, scoring: Scoring) -> torch.Tensor:
    if scoring.logit_cap > 0:
        return torch.tanh(dots * (scoring.sm_scale / scoring.logit_cap)) * (scoring.logit_cap * LOG2_E)
    return dots * (scoring.sm_scale * LOG2_E)


def _dots(row: torch.Tensor, keys: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Of a query, (dim,), with every key, (tokens, dim): in float32 and in float64.

    Copies go by way of float32, which loses nothing, for float16 to float64 is slow on CPUs, and into the same memory
    each time, for fresh memory costs more than the conversion.
    """
    at_once = min(len(keys), max(1, ELEMENTS_AT_ONCE // keys.shape[-1]))
    single = torch.empty(at_once, keys.shape[-1], device=keys.device)
    double = torch.empty(at_once, keys.shape[-1], device=keys.device, dtype=torch.float64)
    dots = torch.empty(len(keys), device=keys.device)
    exact = torch.empty(len(keys), device=keys.device, dtype=torch.float64)
    row_single, row_double = row.float(), row.double()
    for first in range(0, len(keys), at_once):
        part = keys[first : first + at_once]
        here = slice(first, first + len(part))
        dots[here] = single[: len(part)].copy_(part) @ row_single
        exact[here] = double[: len(part)].copy_(single[: len(part)]) @ row_double
    return dots, exact


def _rounds_to(dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
    """Tensor cores take the weights in the values' dtype."""
    return lambda weight: weight.to(dtype).float()

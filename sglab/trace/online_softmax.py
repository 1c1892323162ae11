"""One head of one request, attended to for real and again tile by tile: what online softmax holds after every tile.

Two things ran. `decode_attention_fwd` ran on the request, for the block of heads that shares a CTA with this one, and
left its partials and its output. The recurrence of its stage 1 then ran once more in torch, with the kernel's
precision, and kept what the kernel keeps in registers and never stores: m, d, O and the rescale factor after each tile.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch

from sglab.engine import Batch
from sglab.kernels import Choice, decode_attention_fwd, record_choices
from sglab.kernels.decode_attention import split_ranges
from sglab.kernels.scoring import Scoring, dense_attention
from sglab.planning.num_kv_splits import BLOCK_H

from .online_softmax_formulas import FORMULAS, States, follow

LOG2_E = math.log2(math.e)


@dataclass(frozen=True)
class OnlineSoftmaxRun:
    """What ran for one head. Logits and running maxima are in base 2, as the kernel keeps them; LSE are natural.

    ranges: (first, end) token of each split that has any; splits: how many were asked for, empty ones included
    scores: (tokens,) float32, q·k · sm_scale · log2(e)
    tiles: (steps, 3) int32: split, first token, end token of every tile, split after split
    states: by formula, see `online_softmax_formulas`
    partial_o, partial_lse: (splits, v_dim) and (splits,) float32, what stage 1 left; 0 and −inf where it wrote nothing
    o, lse: (v_dim,) and (), what stage 2 made of them
    true_o, true_lse: (splits, v_dim) and (splits,) float64, attention over each split's keys
    choice: which implementation ran, and where
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
    choice: Choice

    @cached_property
    def last_steps(self) -> list[int]:
        """The last step of each split that has tokens."""
        splits = self.tiles[:, 0].tolist()
        return [step for step, split in enumerate(splits) if step + 1 == len(splits) or splits[step + 1] != split]

    @cached_property
    def agreement(self) -> float:
        """Largest difference between the kernel's partials and those that the recorded recurrence ends with."""
        states = self.states["online"]
        o = states.o[self.last_steps] / states.total[self.last_steps, None]
        lse = (states.top + states.total.log2())[self.last_steps] / LOG2_E
        used = len(self.ranges)
        return float(max((o - self.partial_o[:used]).abs().max(), (lse - self.partial_lse[:used]).abs().max()))


def record_online_softmax(
    batch: Batch, request: int, head: int, num_splits: int, tile: int, sm_scale: float, implementation: str
) -> OnlineSoftmaxRun:
    """Run one head of a decode batch and record it; the arguments are checked by the widget.

    tile: keys per step of the recurrence. sm_scale: instead of the batch's own.
    implementation: of decode_attention_fwd
    """
    layer, slots = batch.layer, batch.slots(request)
    keys, values = batch.runner.token_to_kv_pool.get_kv_buffer(layer.layer_id)
    group = batch.num_heads // batch.num_kv_heads
    kv_head = head // group
    first_head = kv_head * group + head % group // BLOCK_H * BLOCK_H
    heads = slice(first_head, min(first_head + BLOCK_H, (kv_head + 1) * group))
    q, one = batch.q[request : request + 1, heads], slice(kv_head, kv_head + 1)
    scoring = Scoring(sm_scale, max(layer.logit_cap, 0.0))
    partials = _run_kernel(q, keys[:, one], values[:, one], slots, num_splits, scoring, implementation)

    row, k, v = batch.q[request, head], keys[slots, kv_head], values[slots, kv_head]
    scores = _base2_logits(row.float() @ k.float().T, scoring)
    ranges = split_ranges(len(slots), num_splits)
    tiles = [
        (split, start, min(start + tile, end))
        for split, (first, end) in enumerate(ranges)
        for start in range(first, end, tile)
    ]
    weight = _rounds_to(v.dtype) if group > 1 else _keeps
    exact = _base2_logits(row.double() @ k.double().T, scoring)
    position = torch.tensor([len(slots) - 1], device=q.device)
    true_o, true_lse = torch.zeros(num_splits, v.shape[-1]).double(), torch.full((num_splits,), -math.inf).double()
    for split, (first, end) in enumerate(ranges):
        mine = (k[first:end].unsqueeze(1), v[first:end].unsqueeze(1))
        o, lse = dense_attention(row.view(1, 1, -1), *mine, position, scoring)
        true_o[split], true_lse[split] = o[0, 0].cpu(), lse[0, 0].cpu()
    return OnlineSoftmaxRun(
        request=request,
        head=head,
        tile=tile,
        splits=num_splits,
        ranges=ranges,
        scores=scores.cpu(),
        tiles=torch.tensor(tiles, dtype=torch.int32),
        states={
            name: follow(formula, scores.cpu(), exact.cpu(), v.cpu(), tiles, weight)
            for name, formula in FORMULAS.items()
        },
        partial_o=partials.o[0, head - first_head].cpu(),
        partial_lse=partials.lse[0, head - first_head].cpu(),
        o=partials.out[0, head - first_head].cpu(),
        lse=partials.out_lse[0, head - first_head].cpu(),
        true_o=true_o,
        true_lse=true_lse,
        choice=partials.choice,
    )


@dataclass(frozen=True)
class _Partials:
    o: torch.Tensor
    lse: torch.Tensor
    out: torch.Tensor
    out_lse: torch.Tensor
    choice: Choice


def _run_kernel(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    slots: torch.Tensor,
    num_splits: int,
    scoring: Scoring,
    implementation: str,
) -> _Partials:
    heads, v_dim, device = q.shape[1], values.shape[-1], q.device
    # Splits without keys are not written: what an allocation holds there is chosen here, 0 and −inf.
    o = torch.zeros(1, heads, num_splits, v_dim, device=device)
    lse = torch.full((1, heads, num_splits), -math.inf, device=device)
    out, out_lse = q.new_empty(1, heads, v_dim), torch.empty(1, heads, device=device)
    with record_choices() as choices:
        decode_attention_fwd(
            q.contiguous(),
            keys,
            values,
            out,
            torch.tensor([0, len(slots)], dtype=torch.int32, device=device),
            slots,
            o,
            lse,
            torch.tensor([num_splits], dtype=torch.int32, device=device),
            num_splits,
            scoring.sm_scale,
            scoring.logit_cap,
            lse=out_lse,
            implementation=implementation,
        )
    return _Partials(o, lse, out, out_lse, choices[0])


def _base2_logits(dots: torch.Tensor, scoring: Scoring) -> torch.Tensor:
    if scoring.logit_cap > 0:
        return torch.tanh(dots * (scoring.sm_scale / scoring.logit_cap)) * (scoring.logit_cap * LOG2_E)
    return dots * (scoring.sm_scale * LOG2_E)


def _rounds_to(dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
    """Tensor cores take the weights in the values' dtype."""
    return lambda weight: weight.to(dtype).float()


def _keeps(weight: torch.Tensor) -> torch.Tensor:
    """One head per KV head runs on CUDA cores, in float32."""
    return weight

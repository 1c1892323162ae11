"""The kernels whose partials OnlineSoftmax shows: SGLang's two-stage decode, and our MLA decode for SM100."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from sglab.emulator import EmulatedDevice
from sglab.kernels import decode_attention_fwd, record_choices
from sglab.kernels.decode_attention import split_ranges
from sglab.kernels.mla import MlaSm100
from sglab.kernels.scoring import Scoring
from sglab.planning.mla_dims import LATENT_DIM
from sglab.planning.set_split_kv import TILE_S


@dataclass(frozen=True)
class Partials:
    """What a kernel left for some heads of one request.

    Attributes:
        ranges: (first, end) token of each split that has any.
        o, lse: (heads, splits, v_dim) and (heads, splits) float32, natural; 0 and −inf where it wrote nothing.
        out, out_lse: (heads, v_dim) and (heads,), what its second stage made of them.
        kernel, implementation, machine: what ran, and where: "mla_decode_sm100", "sglab", "emulated sm_100a".
    """

    ranges: list[tuple[int, int]]
    o: torch.Tensor
    lse: torch.Tensor
    out: torch.Tensor
    out_lse: torch.Tensor
    kernel: str
    implementation: str
    machine: str


def decode_attention(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    slots: torch.Tensor,
    num_splits: int,
    scoring: Scoring,
    implementation: str,
    masked: bool = False,
) -> Partials:
    """Both stages of `decode_attention_fwd` on one request. q: (1, heads, qk_dim); keys, values: (slots, 1, dim).

    Args:
        masked: some keys hold infinities, which the operator's contract would refuse.
    """
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
            check_values=False if masked else None,
        )
    (choice,) = choices
    machine = choice.launches[0].route if choice.launches else "float64 reference"
    ranges = split_ranges(len(slots), num_splits)
    o, lse, out, out_lse = (each[0].cpu() for each in (o, lse, out, out_lse))
    return Partials(ranges, o, lse, out, out_lse, "decode_attention_fwd", choice.implementation, machine)


def mla_decode_sm100(q: torch.Tensor, keys: torch.Tensor, num_splits: int, sm_scale: float) -> Partials:
    """The SM100 kernel and its combine on one request, on the emulator. q: (1, heads, 576); keys: (tokens, 576)."""
    tokens, heads = len(keys), q.shape[1]
    tiles = -(-tokens // TILE_S)
    cache = torch.zeros(tiles * TILE_S, keys.shape[-1], dtype=keys.dtype)
    cache[:tokens] = keys.cpu()
    device = EmulatedDevice("sm_100a")
    kernel = MlaSm100(device, 1, heads, num_splits)
    kernel.partial_out.zero_()
    kernel.partial_lse.fill_(-math.inf)
    q = q.cpu()
    out, out_lse = kernel.run(
        q[..., :LATENT_DIM],
        q[..., LATENT_DIM:],
        cache.view(tiles, TILE_S, -1),
        torch.tensor([tokens], dtype=torch.int32),
        torch.arange(tiles, dtype=torch.int32)[None],
        sm_scale=sm_scale,
    )
    share = -(-tiles // num_splits) * TILE_S
    ranges = [(first, min(first + share, tokens)) for first in range(0, tokens, share)]
    o, lse = out[0, :, None].float(), out_lse[0, :, None]  # a request in one piece leaves no partial
    if len(ranges) > 1:
        o, lse = kernel.partial_out.movedim(0, 1), kernel.partial_lse.T * math.log(2)
    elif num_splits > 1:
        o = torch.cat([o, torch.zeros(heads, num_splits - 1, LATENT_DIM)], 1)
        lse = torch.cat([lse, torch.full((heads, num_splits - 1), -math.inf)], 1)
    return Partials(ranges, o, lse, out[0], out_lse[0], "mla_decode_sm100", "sglab", "emulated sm_100a")

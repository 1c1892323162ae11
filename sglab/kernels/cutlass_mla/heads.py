"""Head padding: the SM100 kernel computes 128 heads, however many were requested."""

from __future__ import annotations

from dataclasses import replace

import torch

from sglab.kernels.cutlass_mla.contract import MLAArguments
from sglab.planning.mla_dims import NUM_HEADS


def pad_heads(arguments: MLAArguments, fill: float | None = None) -> MLAArguments:
    """The same call with 128 heads; the outputs are new tensors, see slice_heads.

    Args:
        fill: value of the padded queries. None leaves them uninitialised, as the public wrapper does; they are read all
            the same, and that is safe only because every head is computed on its own.
    """
    batch, heads, _ = arguments.q_nope.shape
    if heads == NUM_HEADS:
        return arguments

    def padded(q: torch.Tensor) -> torch.Tensor:
        wide = q.new_empty(batch, NUM_HEADS, q.shape[-1])
        wide[:, :heads] = q
        if fill is not None:
            wide[:, heads:] = fill
        return wide

    lse = None if arguments.lse is None else arguments.lse.new_empty(batch, NUM_HEADS)
    out = arguments.out.new_empty(batch, NUM_HEADS, arguments.out.shape[-1])
    return replace(arguments, q_nope=padded(arguments.q_nope), q_pe=padded(arguments.q_pe), out=out, lse=lse)


def slice_heads(padded: MLAArguments, arguments: MLAArguments) -> None:
    """Copy the real heads of a padded call's outputs into the requested outputs."""
    if padded is arguments:
        return
    heads = arguments.out.shape[1]
    arguments.out.copy_(padded.out[:, :heads])
    if arguments.lse is not None and padded.lse is not None:
        arguments.lse.copy_(padded.lse[:, :heads])

"""Models with an encoder: a request's row begins with the encoder's tokens, and a pass's lengths are the decoder's.

The scheduler counts a row as a whole: slots, budgets, retraction. What a forward pass is given is parted here. Source:
SGLang 0.5.9 `managers/schedule_batch.py`, `prepare_encoder_info_extend` and `prepare_encoder_info_decode`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from sglab.engine.batch.schedule_batch import ModelWorkerBatch


def with_encoders(batch: ModelWorkerBatch, encoder_lens: Sequence[int]) -> ModelWorkerBatch:
    """A pass with the encoders' tokens and slots apart.

    Args:
        batch: its lengths count whole rows.
        encoder_lens: each request's leading tokens that its encoder reads. A pass has all of them or none.
    """
    lens = torch.tensor(encoder_lens, dtype=torch.int64)
    on_device = lens.to(batch.seq_lens.device)
    cpu, seq_lens = batch.seq_lens_cpu - lens, batch.seq_lens - on_device
    made = replace(
        batch,
        seq_lens=seq_lens,
        seq_lens_cpu=cpu,
        seq_lens_sum=int(cpu.sum()),
        orig_seq_lens=seq_lens.to(torch.int32),
        encoder_lens=on_device,
        encoder_lens_cpu=list(encoder_lens),
    )
    if batch.extend_seq_lens is None or batch.extend_prefix_lens is None:
        return made
    pairs = list(zip(batch.extend_prefix_lens, encoder_lens, strict=True))
    new = [0 if prefix else length for prefix, length in pairs]
    at, own, encoded = 0, [], []
    for count, extend in zip(new, batch.extend_seq_lens, strict=True):
        encoded.append(torch.arange(at, at + count))
        own.append(torch.arange(at + count, at + extend))
        at += extend
    mine, theirs = (torch.cat(parts).to(batch.input_ids.device) for parts in (own, encoded))
    made.input_ids, made.out_cache_loc = batch.input_ids[mine], batch.out_cache_loc[mine]
    made.extend_seq_lens = [extend - count for extend, count in zip(batch.extend_seq_lens, new, strict=True)]
    made.extend_prefix_lens = [max(prefix - length, 0) for prefix, length in pairs]
    made.extend_num_tokens = len(mine)
    if len(theirs):
        made.encoder_input_ids = list(batch.input_ids[theirs].split([count for count in new if count]))
        made.encoder_out_cache_loc = batch.out_cache_loc[theirs]
    return made

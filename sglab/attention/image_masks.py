"""Images in a prompt: their tokens see each other, those after them, too (Gemma 3 and 4).

`ForwardBatch.image_spans` says where they lie. Of an image that a chunk of the prompt cuts, a token sees what of it the
request has by then. Sources: SGLang 0.5.23 `models/gemma3_mm.py`, `models/gemma4_mm.py` (`prepare_attn_masks`).
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from sglab.engine import BadArgumentError, ForwardBatch

Spans = list[tuple[int, int]]


def check_image_spans(batch: ForwardBatch) -> None:
    """
    Raises:
        BadArgumentError: not one list per request, or spans that are no places in its text, one behind the other.
    """
    spans = batch.image_spans
    if spans is None:
        return
    remedy = "Pass (first, last) position of each image's tokens, in the order of the text."
    if len(spans) != batch.batch_size:
        raise BadArgumentError("forward_batch.image_spans", f"{batch.batch_size} lists", len(spans), remedy)
    for i, own in enumerate(spans):
        end = -1
        for first, last in own:
            if first <= end or last < first:
                expected = f"spans that lie one behind the other in request {i}"
                raise BadArgumentError("forward_batch.image_spans", expected, own, remedy)
            end = last


def token_ranges(batch: ForwardBatch) -> torch.Tensor:
    """int32 [tokens, 2], on the host: first and last position of the image that each new token is of, −1 of text."""
    parts = []
    for prefix, length, spans in _requests(batch):
        own = torch.full((length - prefix, 2), -1, dtype=torch.int32)
        for first, last in spans:
            own[max(first - prefix, 0) : last + 1 - prefix] = torch.tensor([first, last], dtype=torch.int32)
        parts.append(own)
    return torch.cat(parts)


def block_ids(batch: ForwardBatch) -> torch.Tensor:
    """int32 [keys of all requests], on the host: the number in its request of the image that each token is of, −1 of
    text, and of images with fewer than two new tokens, which see no more than causality shows them."""
    parts = []
    for prefix, length, spans in _requests(batch):
        own = torch.full((length,), -1, dtype=torch.int32)
        for number, (first, last) in enumerate(span for span in spans if max(span[0], prefix) < span[1]):
            own[first : last + 1] = number
        parts.append(own)
    return torch.cat(parts)


def mask_of_ranges(ranges: torch.Tensor, batch: ForwardBatch, window: int = -1) -> tuple[torch.Tensor, torch.Tensor]:
    """bool, flat: per request (new tokens, keys), what each sees; int64 [B + 1], where each request's begins.

    Args:
        ranges: `token_ranges`, anywhere. window: keys before a token, −1: all; the image after it is seen whole.
    """
    parts, at = [], 0
    for prefix, length, _ in _requests(batch):
        own = ranges[at : at + length - prefix]
        key = torch.arange(length, device=ranges.device)
        inside = (key >= own[:, :1]) & (key <= own[:, 1:])
        parts.append(_seen(prefix, key, inside, window))
        at += length - prefix
    return _flat(parts)


def mask_of_ids(ids: torch.Tensor, batch: ForwardBatch, window: int = -1) -> tuple[torch.Tensor, torch.Tensor]:
    """The same of `block_ids`."""
    parts, at = [], 0
    for prefix, length, _ in _requests(batch):
        own = ids[at : at + length]
        new = own[prefix:, None]
        parts.append(_seen(prefix, torch.arange(length, device=ids.device), (own == new) & (new >= 0), window))
        at += length
    return _flat(parts)


def _requests(batch: ForwardBatch) -> Iterator[tuple[int, int, Spans]]:
    """Prefix, keys, and the spans of which new tokens are, as far as there are keys."""
    prefixes, new, spans = batch.extend_prefix_lens_cpu, batch.extend_seq_lens_cpu, batch.image_spans
    assert prefixes is not None
    assert new is not None
    assert spans is not None
    for prefix, count, own in zip(prefixes, new, spans, strict=True):
        length = prefix + count
        yield prefix, length, [(a, min(b, length - 1)) for a, b in own if a < length and b >= prefix]


def _seen(prefix: int, key: torch.Tensor, inside: torch.Tensor, window: int) -> torch.Tensor:
    query = torch.arange(prefix, len(key), device=key.device)[:, None]
    seen = (key <= query) | inside
    return seen & (key >= query - window) if window >= 0 else seen


def _flat(parts: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    sizes = torch.tensor([0, *(part.numel() for part in parts)], device=parts[0].device)
    return torch.cat([part.flatten() for part in parts]), sizes.cumsum(0)

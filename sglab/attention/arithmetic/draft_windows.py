"""Sliding windows in the verification of a tree: they count along each draft's own path, as decoding would."""

from __future__ import annotations

import torch


def draft_depths(custom_mask: torch.Tensor, mask_indptr: torch.Tensor, drafts: int) -> torch.Tensor:
    """int64 [B, drafts]: how many drafts of its own path come before each.

    Args:
        custom_mask: flat, per request (drafts, prefix + drafts).
        mask_indptr: int64 [B + 1], where each request's begins.
    """
    starts, widths = mask_indptr[:-1, None, None], mask_indptr.diff()[:, None, None] // drafts
    at = torch.arange(drafts, device=custom_mask.device)
    seen = custom_mask[starts + (at[:, None] + 1) * widths - drafts + at]
    return seen.to(torch.int64).sum(-1) - 1


def with_window(custom_mask: torch.Tensor, mask_indptr: torch.Tensor, drafts: int, window: int) -> torch.Tensor:
    """The mask, less what lies more than `window` tokens before a draft in its path's own text. A new tensor; the
    device is not waited for. What lies behind the last request's mask is left as it is."""
    bs, depths = len(mask_indptr) - 1, draft_depths(custom_mask, mask_indptr, drafts)
    entry = torch.arange(len(custom_mask), device=custom_mask.device)
    request = torch.searchsorted(mask_indptr[1:].contiguous(), entry, right=True).clamp(max=bs - 1)
    width = mask_indptr.diff()[request] // drafts
    row, key = (entry - mask_indptr[request]) // width, (entry - mask_indptr[request]) % width
    draft = key - (width - drafts)
    at = torch.where(draft < 0, key, width - drafts + depths[request, draft.clamp(min=0)])
    mine = width - drafts + depths[request, row.clamp(max=drafts - 1)]
    return custom_mask.bool() & ((at >= mine - window) | (entry >= mask_indptr[-1]))

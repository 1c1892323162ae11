"""What SGLang refuses of drafts that form a tree, once backend and page size are chosen."""

from __future__ import annotations

from sglab.attention.selection.settings import SelectionError, Settings

PAGED = {
    "0.5.5.post1": ("flashinfer",),
    "0.5.9": ("flashinfer", "fa3"),
    "0.5.23": ("flashinfer", "fa3", "triton"),
}
"""By version: the backends that verify a tree over pages of more than one token."""


def refuse_trees(chosen: Settings, version: str) -> None:
    """
    Raises:
        SelectionError: SGLang starts with no tree (speculative_eagle_topk above 1) on this backend, or these pages.
    """
    if chosen.speculative_algorithm is None or (chosen.speculative_eagle_topk or 1) <= 1:
        return
    backend, ngram = chosen.attention_backend, chosen.speculative_algorithm == "NGRAM"
    if not ngram and "trtllm_mha" in (backend, chosen.prefill_attention_backend, chosen.decode_attention_backend):
        raise SelectionError("trtllm_mha verifies chains of drafts only (speculative_eagle_topk 1), no tree")
    takers, size = ("flashinfer",) if ngram else PAGED[version], chosen.page_size or 1
    if size > 1 and backend not in takers:
        raise SelectionError(
            f"a tree of drafts (speculative_eagle_topk above 1) over pages of {size} tokens is for "
            f"{', '.join(takers)} only, not {backend}: take pages of one token, or another backend"
        )

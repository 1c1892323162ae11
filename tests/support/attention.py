"""Small batches that a backend serves, whatever it asks of kinds, pages, heads and dtypes."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from sglab.attention import ATTENTION_BACKENDS, Capabilities
from sglab.attention.registry import backend_classes
from sglab.engine import (
    BlockScaledMHATokenToKVPool,
    ForwardBatch,
    ForwardMode,
    FP4MLATokenToKVPool,
    MHATokenToKVPool,
    MLARecordTokenToKVPool,
    MLATokenToKVPool,
    ScoreMod,
)
from sglab.workbench import Batch

DeclaredKind = tuple[str, str]
"""A backend's name and a kind of attention that it serves."""


def declared(name: str, kind: str) -> Capabilities:
    """A backend's capabilities for a kind."""
    classes = backend_classes(name)
    found = classes.get(kind) or classes.get("")
    assert found is not None, f"{name} has no class for {kind}"
    return found.capabilities


def every_backend() -> list[DeclaredKind]:
    """Each registered name with each kind that it serves."""
    made = []
    for name in ATTENTION_BACKENDS:
        for own, factory in backend_classes(name).items():
            made += [(name, kind) for kind in factory.capabilities.kinds if own in ("", kind)]
    return made


def shape_of(name: str, kind: str, page_size: int | None = None, dtype: str | None = None) -> dict[str, Any]:
    """Keywords of `decode_batch` and `extend_batch` that the backend serves; small where it leaves a choice."""
    takes = declared(name, kind)
    page = page_size or (takes.page_sizes[-1] if takes.page_sizes else 4)
    chosen = dtype or ("float32" if "float32" in takes.dtypes else takes.dtypes[-1])
    common = {"page_size": page, "dtype": chosen, "kind": kind}
    if kind == "mla":
        return {**common, "num_heads": 4}
    dims = next((dims for dims in takes.head_dims if dims != (576, 512)), (16, 16))
    return {**common, "num_heads": 8, "num_kv_heads": 2, "head_dim": dims[0], "v_head_dim": dims[1]}


@dataclass
class Drafts:
    """What verification reads of a drafting worker."""

    draft_token_num: int
    custom_mask: torch.Tensor
    topk: int = 1


def verify_batch(batch: Batch, prefixes: list[int], parents: list[int]) -> ForwardBatch:
    """An extend over `prefixes` as the verification of one tree per request: parents[i] is the draft before draft i,
    −1 for the root. A chain has topk 1."""
    count = len(parents)
    seen = ancestors(parents)
    masks = [torch.cat((torch.ones(count, p, dtype=torch.bool), seen), 1).flatten() for p in prefixes]
    chain = parents == list(range(-1, count - 1))
    lens = torch.tensor(prefixes)
    return replace(
        batch.forward_batch,
        forward_mode=ForwardMode.TARGET_VERIFY,
        seq_lens=lens.to(batch.device),
        seq_lens_cpu=lens,
        seq_lens_sum=sum(prefixes),
        extend_seq_lens=None,
        extend_prefix_lens=None,
        spec_info=Drafts(count, torch.cat(masks).to(batch.device), 1 if chain else 2),
    )


def ancestors(parents: list[int]) -> torch.Tensor:
    """bool [drafts, drafts]: itself and those before it."""
    seen = torch.eye(len(parents), dtype=torch.bool)
    for token, parent in enumerate(parents):
        if parent >= 0:
            seen[token] |= seen[parent]
    return seen


def quantize_pool(
    batch: Batch,
    dtype: torch.dtype,
    k_scale: float | None = None,
    v_scale: float | None = None,
    records: bool = False,
    kv_format: str = "",
    **options: Any,
) -> None:
    """Put an FP8 pool with the same rows in the place of a batch's own.

    Args:
        records: MLA's 656-byte ones. kv_format: a pool with scales for blocks instead, made with `options`.
    """
    old, runner = batch.runner.token_to_kv_pool, batch.runner
    layer = replace(batch.layer, k_scale=k_scale, v_scale=v_scale)
    new: MHATokenToKVPool | MLATokenToKVPool
    slots = torch.arange(old.page_size, old.size + old.page_size, device=old.device)
    common: dict[str, Any] = {"size": old.size, "page_size": old.page_size, "dtype": dtype, "layer_num": old.layer_num}
    common["device"] = old.device
    if kv_format:
        common = {key: value for key, value in common.items() if key != "dtype"} | {"kv_format": kv_format, **options}
        if isinstance(old, MLATokenToKVPool):
            new = FP4MLATokenToKVPool(kv_lora_rank=old.kv_lora_rank, qk_rope_head_dim=old.qk_rope_head_dim, **common)
        else:
            assert isinstance(old, MHATokenToKVPool)
            dims = {"head_num": old.head_num, "head_dim": old.head_dim, "v_head_dim": old.v_head_dim}
            new = BlockScaledMHATokenToKVPool(**dims, **common)
        rows = (buffer[slots] for buffer in old.get_kv_buffer(0))
        new.set_kv_buffer(layer, slots, *rows, *((k_scale, v_scale) if isinstance(new, MHATokenToKVPool) else ()))
    elif isinstance(old, MLATokenToKVPool):
        made = MLARecordTokenToKVPool if records else MLATokenToKVPool
        new = made(kv_lora_rank=old.kv_lora_rank, qk_rope_head_dim=old.qk_rope_head_dim, **common)
        keys = old.get_key_buffer(0)[slots]
        new.set_kv_buffer(layer, slots, keys, keys)
    else:
        assert isinstance(old, MHATokenToKVPool)
        new = MHATokenToKVPool(head_num=old.head_num, head_dim=old.head_dim, v_head_dim=old.v_head_dim, **common)
        new.set_kv_buffer(layer, slots, *(buffer[slots] for buffer in old.get_kv_buffer(0)), k_scale, v_scale)
    runner.token_to_kv_pool = batch.forward_batch.token_to_kv_pool = new
    batch.layer.k_scale, batch.layer.v_scale = k_scale, v_scale


def float64_attention(
    batch: Batch,
    sinks: torch.Tensor | None = None,
    parents: list[int] | None = None,
    score_mod: ScoreMod | None = None,
) -> torch.Tensor:
    """Attention over a batch's pool in float64, one new token at a time: [tokens, heads, v_head_dim].

    Args:
        parents: the new tokens are drafts of these trees: each sees the prefix and its own path.
        score_mod: of a model, for one query at a time.
    """
    layer, out = batch.layer, []
    pool = batch.runner.token_to_kv_pool
    keys, values = (buffer.float().double() for buffer in pool.get_kv_buffer(0))
    if not pool.kv_format:  # those read their rows multiplied already
        keys, values = keys * (layer.k_scale or 1.0), values * (layer.v_scale or 1.0)
    for i, rows in enumerate(batch.q.double().split(batch.new_tokens)):
        slots, first = batch.slots(i), len(batch.slots(i)) - len(rows)
        seen = None if parents is None else ancestors(parents).to(batch.device)
        for t, row in enumerate(rows):
            path = slots[: first + t + 1] if seen is None else torch.cat((slots[:first], slots[first:][seen[t]]))
            start = 0
            images = (batch.forward_batch.image_spans or [[]] * len(batch.new_tokens))[i]
            image_end = max((last for begin, last in images if begin <= first + t <= last), default=-1)
            if not layer.is_causal:
                near = layer.sliding_window_size if layer.sliding_window_size >= 0 else len(slots)
                start = max(first + t - near, 0)
                path = slots[start : first + t + near + 1]
            else:
                chunk = batch.runner.model_config.attention_chunk_size if layer.use_irope else 0
                start = (len(path) - 1) // chunk * chunk if chunk else 0
                if layer.sliding_window_size >= 0:
                    start = max(start, len(path) - 1 - layer.sliding_window_size)
                path = path[start:] if image_end < first + t else slots[start : image_end + 1]

            def added(logits: torch.Tensor, at: int = first + t, start: int = start, index: int = len(out)) -> Any:
                key = torch.arange(start, start + logits.shape[1], device=logits.device)
                head = torch.arange(len(logits), device=logits.device)[:, None]
                place = torch.tensor(at, device=logits.device), key, torch.tensor(index, device=logits.device)
                return logits if score_mod is None else score_mod(logits, *place, head)

            out.append(_token(row, keys[path], values[path], batch, sinks, added))
    return torch.stack(out)


def _token(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    batch: Batch,
    sinks: torch.Tensor | None,
    added: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    layer, group = batch.layer, len(q) // k.shape[1]
    logits = torch.einsum("hd,shd->hs", q, k.repeat_interleave(group, 1)) * layer.scaling
    if layer.logit_cap:
        logits = layer.logit_cap * torch.tanh(logits / layer.logit_cap)
    weights = added(logits).exp()
    total = weights.sum(-1) + (0 if sinks is None else sinks.double().exp())
    return torch.einsum("hs,shd->hd", weights / total[:, None], v.repeat_interleave(group, 1))

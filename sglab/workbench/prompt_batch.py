"""prompt_batch: a batch whose queries, keys and values are a model's own, of a layer in mid-generation."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from sglab.engine import BadArgumentError, ForwardMode
from sglab.models import CausalLM, load_model, load_tokenizer
from sglab.workbench.batch import Batch
from sglab.workbench.layer_rows import attention_shape, run_tokens
from sglab.workbench.options import BatchOptions, Layout


def prompt_batch(
    prompts: str | Sequence[str] | Sequence[Sequence[int]],
    model: str | Path | CausalLM = "tiny",
    layer: int = 0,
    *,
    page_size: int = 64,
    dtype: str | torch.dtype = "float16",
    layout: Layout = "contiguous",
    device: str | torch.device = "cpu",
) -> Batch:
    """A decode batch of what a model attends to: the last token of each prompt, over the keys of all its tokens.

    The model runs once over the prompts, through torch_native and into the batch's own pool, which then holds the real
    keys and values of every layer; the queries are those of one layer.

    Args:
        prompts: texts, one or several, or token ids.
        model: "tiny", a folder, a hub id, or a model that was loaded before, whose dtype and device then count.
        layer: which attention layer's queries; its number among those that have a KV cache.
        page_size, layout: of the pool, as in `decode_batch`.

    Raises:
        BadArgumentError: no such model or layer, a prompt without tokens, or a model that also keeps a state.
    """
    token_ids = tokens_of(prompts, model)
    loaded = model if isinstance(model, CausalLM) else load_model(model, dtype=dtype, device=device)
    batch = batch_for(loaded, token_ids, layer, page_size, layout)
    seen = run_tokens(batch.runner, batch.reqs, loaded, [layer])[layer]
    last = torch.tensor([len(ids) for ids in token_ids], device=loaded.device).cumsum(0) - 1
    batch.layer, batch.q, batch.sinks = seen.layer, seen.q[last], seen.sinks
    batch.forward_batch.input_ids = torch.tensor([ids[-1] for ids in token_ids], device=loaded.device)
    return batch


def batch_for(loaded: CausalLM, token_ids: list[list[int]], layer: int, page_size: int, layout: Layout) -> Batch:
    """A decode batch of a model's shape whose requests hold these tokens; its rows are still random."""
    check_ids(token_ids, loaded)
    shape = attention_shape(loaded, layer)
    lengths = [len(ids) for ids in token_ids]
    batch = BatchOptions(
        num_heads=shape.num_attention_heads,
        num_kv_heads=shape.num_key_value_heads,
        kind=shape.kind,
        page_size=page_size,
        dtype=loaded.dtype,
        layout=layout,
        head_dim=shape.head_dim,
        v_head_dim=shape.v_head_dim,
        kv_lora_rank=shape.kv_lora_rank or 1,
        qk_rope_head_dim=shape.qk_rope_head_dim,
        sm_scale=shape.scaling,
        layer_num=shape.num_hidden_layers,
        device=loaded.device,
    ).build(lengths, [1] * len(lengths), ForwardMode.DECODE)
    for req, ids in zip(batch.reqs, token_ids, strict=True):
        req.origin_input_ids = ids
    return batch


def tokens_of(prompts: Any, model: str | Path | CausalLM) -> list[list[int]]:
    """Token ids of prompts: texts, one or several, or ids already."""
    texts = [prompts] if isinstance(prompts, str) else list(prompts)
    if texts and all(isinstance(text, str) for text in texts):
        if isinstance(model, CausalLM):
            remedy = "Encode the prompts with sglab.models.load_tokenizer, or name the model."
            raise BadArgumentError("prompts", "token ids for a model that was loaded before", "text", remedy)
        tokenizer = load_tokenizer(model)
        texts = [tokenizer.encode(text) for text in texts]
    if not texts or not all(len(ids) for ids in texts):
        raise BadArgumentError("prompts", "one or more, each of a token at least", repr(prompts), "Write something.")
    return [[_id(token) for token in ids] for ids in texts]


def _id(token: Any) -> int:
    """A token id: an int, or what stands for one, as elements of arrays and tensors do."""
    try:
        number = operator.index(token)
    except TypeError:
        number = -1
    if number < 0:
        raise BadArgumentError("prompts", "token ids, integers from 0", repr(token), "Give texts, or ids.")
    return number


def check_ids(token_ids: list[list[int]], loaded: CausalLM) -> None:
    """Refuses ids that the model has no embedding for."""
    size = loaded.config.vocab_size
    for token in (token for ids in token_ids for token in ids if token >= size):
        raise BadArgumentError(
            "prompts", f"token ids below {size}", token, "Encode the text with the model's tokenizer."
        )

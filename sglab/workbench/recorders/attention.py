"""A model's own attention over a prompt: queries, keys and values of every layer, as its layers had them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sglab.attention.sparse.choices import Rows
from sglab.engine import BadArgumentError
from sglab.models import CausalLM, load_model, load_tokenizer
from sglab.words import plural
from sglab.workbench.layer_rows import LayerQueries, run_tokens
from sglab.workbench.prompt_batch import batch_for, tokens_of

MOST_TOKENS = 256
"""Of a prompt: every layer has a probability for each pair of its tokens, in each head."""


@dataclass(frozen=True)
class AttentionRun:
    """What `record_attention` saw.

    Attributes:
        model: its name. tokens: the prompt's. texts: of each; empty without a tokenizer.
        layers: rows of every recorded layer. numbers: which of the model's layers they are.
    """

    model: str
    tokens: list[int]
    texts: list[str]
    layers: list[Rows]
    numbers: list[int]

    def described(self) -> tuple[str, str]:
        """A title and its sizes, for lists."""
        layers, heads = plural(len(self.layers), "layer"), plural(self.layers[0].heads, "head")
        return self.model, f"{plural(len(self.tokens), 'token')}, {layers} of {heads}"


def record_attention(
    prompt: str | Sequence[int], model: str | Path | CausalLM = "tiny", *, layers: Sequence[int] | None = None
) -> AttentionRun:
    """Run a model over a prompt and keep what its attention layers computed with.

    Args:
        prompt: a text, or token ids; 2 to 256 tokens.
        model: "tiny", a folder, a hub id, or a model that was loaded before (with token ids).
        layers: which; None: all that have a KV cache.

    Raises:
        BadArgumentError: too short or too long a prompt, no such layer, a model that also keeps a state, or a layer
            with a window, sinks or a cap.
    """
    (ids,) = tokens_of(prompt if isinstance(prompt, str) else [list(prompt)], model)
    if not 2 <= len(ids) <= MOST_TOKENS:
        raise BadArgumentError("prompt", f"2 to {MOST_TOKENS} tokens", len(ids), "Cut it, or write more.")
    loaded = model if isinstance(model, CausalLM) else load_model(model, dtype="float32")
    count = loaded.attention_config().num_hidden_layers
    asked = range(count) if layers is None else layers
    if not len(asked):
        raise BadArgumentError("layers", "one at least", "none", "Leave it out for all.")
    batch = batch_for(loaded, [ids], asked[0], 1, "contiguous")
    found = []
    ran = run_tokens(batch.runner, batch.reqs, loaded, asked)
    for layer, seen in ran.items():
        _refuse_other_softmax(layer, seen)
        pool, slots = batch.runner.token_to_kv_pool, batch.slots(0)
        group = seen.layer.tp_q_head_num // seen.layer.tp_k_head_num
        keys, values = (buffer[slots].double().cpu() for buffer in pool.get_kv_buffer(layer))
        stored = keys.shape[1] * (keys.shape[2] + (0 if batch.kind == "mla" else values.shape[2]))
        found.append(
            Rows(
                seen.q.double().cpu(),
                keys.repeat_interleave(group, 1),
                values.repeat_interleave(group, 1),
                seen.layer.scaling,
                keys.shape[1],
                2 * stored,
            )
        )
    texts: list[str] = []
    if not isinstance(model, CausalLM):
        tokenizer = load_tokenizer(model)
        texts = [tokenizer.decode([token]) for token in ids]
    name = model if isinstance(model, str) else type(loaded).__name__
    return AttentionRun(str(name), ids, texts, found, list(ran))


def _refuse_other_softmax(layer: int, seen: LayerQueries) -> None:
    """Rows know neither windows nor sinks nor caps: what they call dense would not be what the layer computes."""
    attention = seen.layer
    found = {
        "sinks": seen.sinks is not None,
        f"a window of {attention.sliding_window_size + 1} keys": attention.sliding_window_size >= 0,
        "capped logits": attention.logit_cap > 0,
        "a temperature by position": attention.xai_temperature_len > 0,
        "chunks": attention.use_irope,
    }
    if has := [name for name, there in found.items() if there]:
        expected = "layers whose queries attend to all keys before them, by a plain softmax"
        raise BadArgumentError("layers", expected, f"layer {layer} with {' and '.join(has)}", "Choose others.")

"""GGUF files: metadata, tensors in ggml's block formats, and what they are called in config.json and in checkpoints.

Source: the format's description, https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, and llama.cpp's conversion,
which turns the rows of Llama's q and k so that rotary pairs are neighbours.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from sglab.engine.errors import BadArgumentError
from sglab.layers.quantization import QuantizationConfig, Scheme, dequantize_ggml
from sglab.layers.quantization.ggml import Ggml, block_format

FLOAT_TYPES = {0: torch.float32, 1: torch.float16, 30: torch.bfloat16}
BLOCK_TYPES = {2: "Q4_0", 8: "Q8_0", 12: "Q4_K", 14: "Q6_K"}
"""A tensor's type in the file -> ggml's name of it."""
ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen3": "Qwen3ForCausalLM", "qwen3moe": "Qwen3MoeForCausalLM"}
LAYERS = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_gate_inp": "mlp.gate",
}
EXPERTS = {"ffn_gate_exps": "gate_proj", "ffn_up_exps": "up_proj", "ffn_down_exps": "down_proj"}
"""All experts of a layer in one tensor, [experts, rows, row length]."""
OUTSIDE = {"token_embd": "model.embed_tokens", "output": "lm_head", "output_norm": "model.norm"}
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9


@dataclass(frozen=True)
class StoredTensor:
    """Where a tensor lies. `shape` is as torch has it, the last dimension contiguous."""

    kind: int
    shape: tuple[int, ...]
    offset: int


class GgufFile:
    """One file, read as it is used.

    Attributes:
        metadata: key -> value.
        tensors: name -> where it lies.

    Raises:
        BadArgumentError: it is no GGUF file of version 2 or 3, or cut short.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._at = path, 0
        with path.open("rb") as file:
            if path.stat().st_size < 24:
                raise self._broken(f"{path.stat().st_size} bytes")
            self._content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        try:
            self._read()
        except (struct.error, UnicodeDecodeError, IndexError):
            raise self._broken("a file that ends in its header") from None

    def _read(self) -> None:
        magic, version, tensors, pairs = self._content[:4], *self._numbers("<4xIQQ")
        if magic != b"GGUF" or version not in (2, 3):
            raise self._broken(f"{magic!r}, version {version}")
        self.metadata: dict[str, Any] = {}
        for _ in range(pairs):
            key = self._text()
            self.metadata[key] = self._value(self._numbers("<I")[0])
        found = {}
        for _ in range(tensors):
            name, dims = self._text(), self._numbers("<I")[0]
            shape = self._numbers(f"<{dims}Q")
            kind, offset = self._numbers("<IQ")
            found[name] = StoredTensor(kind, tuple(reversed(shape)), offset)
        step = int(self.metadata.get("general.alignment", 32))
        start = -(-self._at // step) * step
        self.tensors = {n: StoredTensor(one.kind, one.shape, start + one.offset) for n, one in found.items()}

    def _numbers(self, form: str) -> tuple[Any, ...]:
        values = struct.unpack_from(form, self._content, self._at)
        self._at += struct.calcsize(form)
        return values

    def _text(self) -> str:
        length = self._numbers("<Q")[0]
        self._at += length
        if self._at > len(self._content):
            raise IndexError
        return self._content[self._at - length : self._at].decode()

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._text()
        if kind == _ARRAY:
            inner, count = self._numbers("<IQ")
            if inner in _NUMBERS:
                return list(self._numbers(f"<{count}{_NUMBERS[inner]}"))
            return [self._value(inner) for _ in range(count)]
        if kind not in _NUMBERS:
            raise self._broken(f"a value of type {kind}")
        return self._numbers(f"<{_NUMBERS[kind]}")[0]

    def stored(self, name: str) -> torch.Tensor:
        """A tensor as it is: floats, or uint8 [rows, bytes] of a block format.

        Raises:
            BadArgumentError: another type, or one that lies beyond the end of the file.
        """
        one = self.tensors[name]
        if one.kind in FLOAT_TYPES:
            dtype, shape = FLOAT_TYPES[one.kind], one.shape
        else:
            form = block_format(BLOCK_TYPES.get(one.kind, f"number {one.kind}"))
            dtype, shape = torch.uint8, (*one.shape[:-1], one.shape[-1] // form.features * form.bytes)
        count = torch.Size(shape).numel()
        if one.offset + count * dtype.itemsize > len(self._content):
            raise self._broken(f"{name} beyond its end")
        return torch.frombuffer(self._content, dtype=dtype, count=count, offset=one.offset).view(shape)

    def _broken(self, got: str) -> BadArgumentError:
        return BadArgumentError(str(self.path), "a whole GGUF file of version 2 or 3", got, "Fetch it again.")


def gguf_config(file: GgufFile) -> dict[str, Any]:
    """What config.json would say.

    Raises:
        BadArgumentError: an architecture that is not known here, or a missing number.
    """
    name = file.metadata.get("general.architecture")
    if name not in ARCHITECTURES:
        remedy = "Use the model's safetensors checkpoint."
        raise BadArgumentError("general.architecture", " or ".join(map(repr, ARCHITECTURES)), repr(name), remedy)
    if "rope_freqs.weight" in file.tensors:
        remedy = "Use the model's safetensors checkpoint, whose config.json says how positions are scaled."
        raise BadArgumentError("rope_freqs.weight", "no tensor of scaled frequencies", "one", remedy)

    def value(key: str, default: Any = None) -> Any:
        found = file.metadata.get(f"{name}.{key}", default)
        if found is None:
            raise BadArgumentError(f"{name}.{key}", "a number", "none", "Convert the model with llama.cpp again.")
        return found

    heads = value("attention.head_count")
    experts = {}
    if ARCHITECTURES[name] == "Qwen3MoeForCausalLM":
        experts = {
            "num_experts": value("expert_count"),
            "num_experts_per_tok": value("expert_used_count"),
            "moe_intermediate_size": value("expert_feed_forward_length"),
            "norm_topk_prob": True,  # llama.cpp knows no other
        }
    return {
        **experts,
        "architectures": [ARCHITECTURES[name]],
        "vocab_size": file.tensors["token_embd.weight"].shape[0],
        "hidden_size": value("embedding_length"),
        "intermediate_size": value("feed_forward_length", experts.get("moe_intermediate_size")),
        "num_hidden_layers": value("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": value("attention.head_count_kv", heads),
        "head_dim": value("attention.key_length", value("embedding_length") // heads),
        "rms_norm_eps": value("attention.layer_norm_rms_epsilon"),
        "rope_theta": value("rope.freq_base", 10000.0),
        "max_position_embeddings": value("context_length"),
        "tie_word_embeddings": "output.weight" not in file.tensors,
        "attention_bias": "blk.0.attn_q.bias" in file.tensors,
        "eos_token_id": file.metadata.get("tokenizer.ggml.eos_token_id"),
        "bos_token_id": file.metadata.get("tokenizer.ggml.bos_token_id"),
    }


def checkpoint_name(name: str, expert: int = 0) -> str:
    """A tensor's name in the checkpoint: "blk.3.attn_q.weight" -> "model.layers.3.self_attn.q_proj.weight".

    Args:
        expert: whose part is meant of a tensor that holds all experts.

    Raises:
        BadArgumentError: a name that these architectures do not have.
    """
    parts = name.split(".")
    if len(parts) == 2 and parts[0] in OUTSIDE:
        return f"{OUTSIDE[parts[0]]}.{parts[1]}"
    if len(parts) == 4 and parts[0] == "blk" and parts[2] in LAYERS:
        return f"model.layers.{parts[1]}.{LAYERS[parts[2]]}.{parts[3]}"
    if len(parts) == 4 and parts[0] == "blk" and parts[2] in EXPERTS:
        return f"model.layers.{parts[1]}.mlp.experts.{expert}.{EXPERTS[parts[2]]}.{parts[3]}"
    remedy = "Use the model's safetensors checkpoint."
    raise BadArgumentError(name, "a tensor of a Llama or Qwen3", "another name", remedy)


def is_widened(layer: str) -> bool:
    """Whether a matrix is held in full precision here, whatever its blocks: an embedding, the LM head, a router."""
    return not layer.startswith("model.layers.") or layer.endswith(".mlp.gate")


def gguf_quantization(file: GgufFile) -> QuantizationConfig:
    """Each layer's format; of experts that of the first, which stands for all."""
    schemes: dict[str, Scheme] = {}
    for name, one in file.tensors.items():
        layer = checkpoint_name(name).removesuffix(".weight")
        if one.kind not in FLOAT_TYPES and not is_widened(layer):
            schemes[layer] = Ggml(BLOCK_TYPES.get(one.kind, f"number {one.kind}"))
    return QuantizationConfig("gguf", schemes.get)


def gguf_weights(file: GgufFile, config: dict[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors under their names in a checkpoint, rows of Llama's q and k as a checkpoint has them."""
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    turned = config["architectures"] == [ARCHITECTURES["llama"]]
    for name, one in file.tensors.items():
        tensor, found = file.stored(name), checkpoint_name(name)
        if one.kind in BLOCK_TYPES and is_widened(found.removesuffix(".weight")):
            tensor = dequantize_ggml(tensor, BLOCK_TYPES[one.kind])
        part = name.split(".")[-2]
        if part in EXPERTS:
            yield from ((checkpoint_name(name, expert), each) for expert, each in enumerate(tensor))
            continue
        if turned and part in heads:
            tensor = tensor.unflatten(0, (heads[part], -1, 2)).transpose(1, 2).flatten(0, 2)
        yield found, tensor

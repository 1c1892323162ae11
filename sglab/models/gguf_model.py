"""What a GGUF file's metadata and tensors are called in config.json and in checkpoints, family by family.

Source: llama.cpp's conversion scripts, which turn the rows of Llama's q and k so that rotary pairs are neighbours, cut
DeepSeek's kv_b_proj into a transposed k_b and a v_b, and keep gpt-oss's gate and up projections apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from sglab.engine.errors import BadArgumentError
from sglab.layers.quantization import QuantizationConfig, Scheme
from sglab.layers.quantization.ggml import Ggml, mxfp4_blocks
from sglab.models.gguf import BLOCK_TYPES, FLOAT_TYPES, GgufFile

ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3moe": "Qwen3MoeForCausalLM",
    "deepseek2": "DeepseekV3ForCausalLM",
    "gpt-oss": "GptOssForCausalLM",
}
"""deepseek2 is DeepSeek-V2, too: its routing says which."""
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
    "attn_q_a": "self_attn.q_a_proj",
    "attn_q_a_norm": "self_attn.q_a_layernorm",
    "attn_q_b": "self_attn.q_b_proj",
    "attn_kv_a_mqa": "self_attn.kv_a_proj_with_mqa",
    "attn_kv_a_norm": "self_attn.kv_a_layernorm",
    "attn_kv_b": "self_attn.kv_b_proj",
    "ffn_gate_shexp": "mlp.shared_experts.gate_proj",
    "ffn_up_shexp": "mlp.shared_experts.up_proj",
    "ffn_down_shexp": "mlp.shared_experts.down_proj",
}
GPT_OSS = {"post_attention_norm": "post_attention_layernorm", "ffn_gate_inp": "mlp.router"}
"""What gpt-oss calls otherwise."""
PARAMETERS = {"attn_sinks.weight": "self_attn.sinks", "exp_probs_b.bias": "mlp.gate.e_score_correction_bias"}
EXPERTS = {"ffn_gate_exps": "gate_proj", "ffn_up_exps": "up_proj", "ffn_down_exps": "down_proj"}
"""All experts of a layer in one tensor, [experts, rows, row length]."""
JOINED = ("attn_k_b", "attn_v_b")
"""Halves of DeepSeek's kv_b_proj: [heads, rank, nope] and [heads, v, rank]."""
OUTSIDE = {"token_embd": "model.embed_tokens", "output": "lm_head", "output_norm": "model.norm"}
SIGMOID = 2

Value = Callable[..., Any]
"""(key without the architecture, default) -> a number of the metadata."""


def gguf_config(file: GgufFile) -> dict[str, Any]:
    """What config.json would say.

    Raises:
        BadArgumentError: an architecture or a scaling of positions that is not known here, or a missing number.
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
    config = {
        "architectures": [ARCHITECTURES[name]],
        "vocab_size": file.tensors["token_embd.weight"].shape[0],
        "hidden_size": value("embedding_length"),
        "num_hidden_layers": value("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": value("attention.head_count_kv", heads),
        "head_dim": value("attention.key_length", value("embedding_length") // heads),
        "rms_norm_eps": value("attention.layer_norm_rms_epsilon"),
        "rope_parameters": _positions(str(name), value),
        "max_position_embeddings": value("context_length"),
        "tie_word_embeddings": "output.weight" not in file.tensors,
        "attention_bias": "blk.0.attn_q.bias" in file.tensors,
        "eos_token_id": file.metadata.get("tokenizer.ggml.eos_token_id"),
        "bos_token_id": file.metadata.get("tokenizer.ggml.bos_token_id"),
    }
    family = {"qwen3moe": _qwen3_moe, "deepseek2": _deepseek, "gpt-oss": _gpt_oss}.get(str(name), _dense)
    return config | family(value, config)


def _dense(value: Value, config: dict[str, Any]) -> dict[str, Any]:
    return {"intermediate_size": value("feed_forward_length")}


def _qwen3_moe(value: Value, config: dict[str, Any]) -> dict[str, Any]:
    return {
        "num_experts": value("expert_count"),
        "num_experts_per_tok": value("expert_used_count"),
        "moe_intermediate_size": value("expert_feed_forward_length"),
        "intermediate_size": value("feed_forward_length", value("expert_feed_forward_length")),
        "norm_topk_prob": True,  # llama.cpp knows no other
    }


def _gpt_oss(value: Value, config: dict[str, Any]) -> dict[str, Any]:
    return {
        "num_local_experts": value("expert_count"),
        "num_experts_per_tok": value("expert_used_count"),
        "intermediate_size": value("expert_feed_forward_length"),
        "sliding_window": value("attention.sliding_window"),
    }


def _deepseek(value: Value, config: dict[str, Any]) -> dict[str, Any]:
    """Files say whether experts are chosen in groups since llama.cpp does so; one without would be routed otherwise."""
    absorbed = value("attention.key_length_mla", 0) > 0
    key, val = (value(f"attention.{which}_length{'_mla' if absorbed else ''}") for which in ("key", "value"))
    rope, sigmoid = value("rope.dimension_count"), value("expert_gating_func", 1) == SIGMOID
    groups = value("expert_group_count")
    return {
        "architectures": ["DeepseekV3ForCausalLM" if sigmoid else "DeepseekV2ForCausalLM"],
        "intermediate_size": value("feed_forward_length"),
        "num_key_value_heads": config["num_attention_heads"],
        "head_dim": rope,
        "kv_lora_rank": value("attention.kv_lora_rank"),
        "q_lora_rank": value("attention.q_lora_rank", 0) or None,
        "qk_rope_head_dim": rope,
        "qk_nope_head_dim": key - rope,
        "v_head_dim": val,
        "first_k_dense_replace": value("leading_dense_block_count", 0),
        "n_routed_experts": value("expert_count"),
        "num_experts_per_tok": value("expert_used_count"),
        "n_shared_experts": value("expert_shared_count", 0),
        "moe_intermediate_size": value("expert_feed_forward_length"),
        "norm_topk_prob": value("expert_weights_norm", False),
        "routed_scaling_factor": value("expert_weights_scale", 1.0),
        "scoring_func": "sigmoid" if sigmoid else "softmax",
        "topk_method": "noaux_tc" if sigmoid else "group_limited_greedy" if groups > 1 else "greedy",
        "n_group": groups,
        "topk_group": value("expert_group_used_count", groups),
    }


def _positions(name: str, value: Value) -> dict[str, Any]:
    """rope_parameters."""
    theta, kind = {"rope_theta": value("rope.freq_base", 10000.0)}, value("rope.scaling.type", "none")
    if kind == "none":
        return {"rope_type": "default", **theta}
    if kind not in ("linear", "yarn"):
        remedy = "Use the model's safetensors checkpoint."
        raise BadArgumentError(f"{name}.rope.scaling.type", "'none', 'linear' or 'yarn'", repr(kind), remedy)
    scaled = {"rope_type": kind, "factor": value("rope.scaling.factor"), **theta}
    if kind == "linear":
        return scaled
    scaled["original_max_position_embeddings"] = value("rope.scaling.original_context_length")
    scaled["beta_fast"] = value("rope.scaling.yarn_beta_fast", 32.0)
    scaled["beta_slow"] = value("rope.scaling.yarn_beta_slow", 1.0)
    if name == "gpt-oss":
        scaled["truncate"] = False
    if name == "deepseek2":  # llama.cpp has mscale_all_dim / 10, and takes mscale to be the same
        mscale = round(10 * value("rope.scaling.yarn_log_multiplier", 0.0), 6)
        scaled |= {"mscale": mscale, "mscale_all_dim": mscale} if mscale else {}
    return scaled


def checkpoint_name(name: str, expert: int = 0, architecture: str = "") -> str:
    """A tensor's name in the checkpoint: "blk.3.attn_q.weight" -> "model.layers.3.self_attn.q_proj.weight".

    Args:
        expert: whose part is meant of a tensor that holds all experts.
        architecture: as the file says it; gpt-oss calls some otherwise.

    Raises:
        BadArgumentError: a name that these architectures do not have.
    """
    parts = name.split(".")
    if len(parts) == 2 and parts[0] in OUTSIDE:
        return f"{OUTSIDE[parts[0]]}.{parts[1]}"
    if len(parts) == 4 and parts[0] == "blk":
        _, number, part, suffix = parts
        layer, known = f"model.layers.{number}", LAYERS | (GPT_OSS if architecture == "gpt-oss" else {})
        if f"{part}.{suffix}" in PARAMETERS:
            return f"{layer}.{PARAMETERS[f'{part}.{suffix}']}"
        if part in known:
            return f"{layer}.{known[part]}.{suffix}"
        if part in JOINED:
            return f"{layer}.self_attn.kv_b_proj.{suffix}"
        if part in EXPERTS:
            return f"{layer}.mlp.experts.{expert}.{EXPERTS[part]}.{suffix}"
    remedy = "Use the model's safetensors checkpoint."
    raise BadArgumentError(name, f"a tensor of {', '.join(ARCHITECTURES)}", "another name", remedy)


def _part(name: str) -> str:
    return name.split(".")[-2]


def _is_widened(name: str, layer: str, architecture: str) -> bool:
    """Whether a tensor is held in full precision here, whatever its blocks: an embedding, the LM head, a router, halves
    that are joined, experts of gpt-oss."""
    if not layer.startswith("model.layers.") or layer.endswith((".mlp.gate", ".mlp.router")):
        return True
    return _part(name) in JOINED or (architecture == "gpt-oss" and _part(name) in EXPERTS)


def gguf_quantization(file: GgufFile) -> QuantizationConfig:
    """Each layer's format; of experts that of the first, which stands for all."""
    schemes: dict[str, Scheme] = {}
    architecture = file.metadata["general.architecture"]
    for name, one in file.tensors.items():
        layer = checkpoint_name(name, 0, architecture).removesuffix(".weight")
        if one.kind not in FLOAT_TYPES and not _is_widened(name, layer, architecture):
            schemes[layer] = Ggml(BLOCK_TYPES.get(one.kind, f"number {one.kind}"))
    return QuantizationConfig("gguf", schemes.get)


def gguf_weights(file: GgufFile, config: dict[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors under their names in a checkpoint, in its order of rows."""
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    architecture = file.metadata["general.architecture"]
    for name in file.tensors:
        found, part = checkpoint_name(name, 0, architecture), _part(name)
        if part in JOINED:
            if part == JOINED[0]:
                yield found, _kv_b(file, name)
            continue
        if part in EXPERTS and architecture == "gpt-oss":
            if part != "ffn_up_exps":
                yield from _gpt_oss_experts(file, name)
            continue
        widened = _is_widened(name, found.removesuffix(".weight"), architecture)
        tensor = file.widened(name) if widened else file.stored(name)
        if part in EXPERTS:
            yield from ((checkpoint_name(name, expert), each) for expert, each in enumerate(tensor))
            continue
        if architecture == "llama" and part in heads:
            tensor = tensor.unflatten(0, (heads[part], -1, 2)).transpose(1, 2).flatten(0, 2)
        yield found, tensor


def _other(file: GgufFile, name: str, this: str, other: str) -> str:
    """The tensor that belongs to another one.

    Raises:
        BadArgumentError: the file has none.
    """
    wanted = name.replace(this, other)
    if wanted not in file.tensors:
        raise BadArgumentError(wanted, f"a tensor beside {name}", "none", "Convert the model with llama.cpp again.")
    return wanted


def _kv_b(file: GgufFile, name: str) -> torch.Tensor:
    """kv_b_proj [heads · (nope + v), rank] from its halves."""
    k = file.widened(name).transpose(1, 2)
    return torch.cat((k, file.widened(_other(file, name, *JOINED)).to(k.dtype)), 1).flatten(0, 1)


def _gpt_oss_experts(file: GgufFile, name: str) -> Iterator[tuple[str, torch.Tensor]]:
    """gate and up row by row in turn, or down: biases, MXFP4's blocks and scales as they are, else floats [experts, in,
    out]."""
    down, suffix = "ffn_down_exps" in name, name.rsplit(".", 1)[-1]
    target = f"model.layers.{name.split('.')[1]}.mlp.experts.{'down' if down else 'gate_up'}_proj"
    sources = [name] if down else [name, _other(file, name, "ffn_gate_exps", "ffn_up_exps")]
    kinds = {BLOCK_TYPES.get(file.tensors[source].kind) for source in sources}

    def in_turn(tensors: list[torch.Tensor]) -> torch.Tensor:
        return tensors[0] if down else torch.stack(tensors, 2).flatten(1, 2)

    if suffix == "bias":
        yield f"{target}_bias", in_turn([file.widened(source) for source in sources])
    elif kinds == {"MXFP4"}:
        blocks, scales = zip(*(mxfp4_blocks(file.stored(source)) for source in sources), strict=True)
        yield f"{target}_blocks", in_turn(list(blocks))
        yield f"{target}_scales", in_turn(list(scales))
    else:
        yield target, in_turn([file.widened(source) for source in sources]).transpose(1, 2)

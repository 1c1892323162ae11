"""GGUF files, written by the gguf package: what is loaded is what their blocks stand for."""

from pathlib import Path

import numpy as np
import pytest
import torch

from sglab.engine import BadArgumentError
from sglab.models import from_config, load_model
from tests.support.models import Driver

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 96,
    "hidden_size": 256,
    "intermediate_size": 256,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
NAMES = {
    "attn_q": ("self_attn.q_proj", 256),
    "attn_k": ("self_attn.k_proj", 128),
    "attn_v": ("self_attn.v_proj", 128),
    "attn_output": ("self_attn.o_proj", 256),
    "ffn_gate": ("mlp.gate_proj", 256),
    "ffn_up": ("mlp.up_proj", 256),
    "ffn_down": ("mlp.down_proj", 256),
}
BYTES = {"Q4_0": (32, 18, 0), "Q8_0": (32, 34, 0), "Q4_K": (256, 144, 0), "Q6_K": (256, 210, 208)}


def blocks(rows: int, kind: str) -> np.ndarray:
    """Random blocks of a row length of 256, with scales that keep values small."""
    features, size, at = BYTES[kind]
    drawn = np.random.default_rng().integers(0, 256, (rows, 256 // features, size), dtype=np.uint8)
    step = {"Q4_0": 0.02, "Q8_0": 0.001, "Q4_K": 0.0003, "Q6_K": 0.00005}[kind]
    halves = np.full((rows, 256 // features, 2 if kind == "Q4_K" else 1), step, dtype=np.float16)
    drawn[..., at : at + 2 * halves.shape[-1]] = halves.view(np.uint8)
    return drawn.reshape(rows, -1)


def written(path: Path, kinds: list[str], arch: str = "llama") -> dict[str, torch.Tensor]:
    """A file whose matrices have these types in turn; the checkpoint that it stands for."""
    gguf = pytest.importorskip("gguf", reason="gguf is not installed")
    file = gguf.GGUFWriter(path, arch)
    file.add_context_length(64)
    file.add_embedding_length(256)
    file.add_block_count(1)
    file.add_feed_forward_length(256)
    file.add_head_count(4)
    file.add_head_count_kv(2)
    file.add_layer_norm_rms_eps(1e-6)
    file.add_token_list(["a", "b"])
    wide = {}
    plain = {"blk.0.attn_norm": "model.layers.0.input_layernorm", "output_norm": "model.norm",
             "blk.0.ffn_norm": "model.layers.0.post_attention_layernorm"}  # fmt: skip
    for name, ours in plain.items():
        values = np.random.default_rng().standard_normal(256, dtype=np.float32)
        file.add_tensor(f"{name}.weight", values)
        wide[f"{ours}.weight"] = torch.from_numpy(values)
    matrices = {"token_embd": ("model.embed_tokens", 96), "output": ("lm_head", 96)}
    matrices |= {f"blk.0.{name}": (f"model.layers.0.{ours}", rows) for name, (ours, rows) in NAMES.items()}
    for i, (name, (ours, rows)) in enumerate(matrices.items()):
        kind = gguf.GGMLQuantizationType[kinds[i % len(kinds)]]
        content = blocks(rows, kinds[i % len(kinds)])
        file.add_tensor(f"{name}.weight", content, raw_dtype=kind)
        dense = torch.from_numpy(gguf.quants.dequantize(content, kind))
        if ours.endswith(("q_proj", "k_proj")):  # neighbours in the file are halves apart in a checkpoint
            heads = rows // 64
            dense = dense.view(heads, 32, 2, 256).transpose(1, 2).reshape(rows, 256)
        wide[f"{ours}.weight"] = dense
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    return wide


@pytest.mark.parametrize("kinds", [["Q4_0"], ["Q8_0"], ["Q4_K", "Q6_K"]], ids="+".join)
def test_a_file_is_what_its_blocks_stand_for(kinds: list[str], tmp_path: Path) -> None:
    expected = from_config(CONFIG)
    expected.load_weights(written(tmp_path / "a.gguf", kinds).items())
    model = load_model(tmp_path / "a.gguf", dtype="float32")
    for name, module in model.named_modules():
        quantized = getattr(module, "quantized", None)
        if quantized is not None:
            assert torch.equal(quantized.dense(), expected.get_submodule(name).weight), name
    prompts = [torch.randint(0, 96, (n,)).tolist() for n in (9, 4)]
    logits, wanted = (Driver(each).prefill(prompts)[0] for each in (model, expected))
    assert torch.allclose(logits, wanted, rtol=1e-4, atol=1e-4 * float(wanted.abs().max()))


def written_mixture(path: Path, kind: str) -> dict[str, torch.Tensor]:
    """A Qwen3-MoE of four experts, its router in float32; the checkpoint that it stands for."""
    gguf = pytest.importorskip("gguf", reason="gguf is not installed")
    file = gguf.GGUFWriter(path, "qwen3moe")
    file.add_context_length(64)
    file.add_embedding_length(256)
    file.add_block_count(1)
    file.add_feed_forward_length(512)
    file.add_head_count(4)
    file.add_head_count_kv(2)
    file.add_key_length(64)
    file.add_layer_norm_rms_eps(1e-6)
    file.add_expert_count(4)
    file.add_expert_used_count(2)
    file.add_expert_feed_forward_length(256)
    wide, quantization, layer = {}, gguf.GGMLQuantizationType[kind], "model.layers.0"
    floats = {
        "blk.0.attn_norm": (f"{layer}.input_layernorm", (256,)),
        "blk.0.ffn_norm": (f"{layer}.post_attention_layernorm", (256,)),
        "blk.0.attn_q_norm": (f"{layer}.self_attn.q_norm", (64,)),
        "blk.0.attn_k_norm": (f"{layer}.self_attn.k_norm", (64,)),
        "blk.0.ffn_gate_inp": (f"{layer}.mlp.gate", (4, 256)),
        "output_norm": ("model.norm", (256,)),
    }
    for name, (ours, shape) in floats.items():
        values = np.random.default_rng().standard_normal(shape, dtype=np.float32)
        file.add_tensor(f"{name}.weight", values)
        wide[f"{ours}.weight"] = torch.from_numpy(values)
    matrices = {"token_embd": ("model.embed_tokens", 96), "output": ("lm_head", 96)}
    attention = {name: one for name, one in NAMES.items() if name.startswith("attn")}
    matrices |= {f"blk.0.{name}": (f"{layer}.{ours}", rows) for name, (ours, rows) in attention.items()}
    for name, (ours, rows) in matrices.items():
        content = blocks(rows, kind)
        file.add_tensor(f"{name}.weight", content, raw_dtype=quantization)
        wide[f"{ours}.weight"] = torch.from_numpy(gguf.quants.dequantize(content, quantization))
    for part in ("gate", "up", "down"):
        content = blocks(4 * 256, kind).reshape(4, 256, -1)
        file.add_tensor(f"blk.0.ffn_{part}_exps.weight", content, raw_dtype=quantization)
        for expert, one in enumerate(torch.from_numpy(gguf.quants.dequantize(content, quantization))):
            wide[f"{layer}.mlp.experts.{expert}.{part}_proj.weight"] = one
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    return wide


@pytest.mark.parametrize("kind", ["Q4_0", "Q6_K"])
def test_a_mixture_of_experts(kind: str, tmp_path: Path) -> None:
    config = {
        **CONFIG,
        "architectures": ["Qwen3MoeForCausalLM"],
        "head_dim": 64,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 256,
        "norm_topk_prob": True,
    }
    expected = from_config(config)
    expected.load_weights(written_mixture(tmp_path / "a.gguf", kind).items())
    model = load_model(tmp_path / "a.gguf", dtype="float32")
    assert model.get_submodule("model.layers.0.mlp.experts").quantized is not None
    prompts = [torch.randint(0, 96, (n,)).tolist() for n in (9, 4)]
    logits, wanted = (Driver(each).prefill(prompts)[0] for each in (model, expected))
    assert torch.allclose(logits, wanted, rtol=1e-4, atol=1e-4 * float(wanted.abs().max()))


def test_files_that_are_not_known(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    written(path, ["Q4_0"], arch="falcon")
    with pytest.raises(
        BadArgumentError, match=r"general\.architecture: expected 'llama' or 'qwen3' or 'qwen3moe', got 'falcon'"
    ):
        load_model(path)
    written(path, ["Q8_0"])
    whole = path.read_bytes()
    for content in (whole[:10], whole[:200], b"GGML" + whole[4:], whole[:-9000]):
        path.write_bytes(content)
        with pytest.raises(BadArgumentError, match=r"a\.gguf: expected a whole GGUF file of version 2 or 3, got"):
            load_model(path)

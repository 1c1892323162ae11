"""GGUF files, written by the gguf package: what is loaded is what their blocks stand for."""

from pathlib import Path

import numpy as np
import pytest
import torch

from sglab.engine import BadArgumentError
from sglab.models import from_config, load_model
from sglab.models.gguf_model import checkpoint_name
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
BYTES = {"MXFP4": (32, 17, 0), "Q4_0": (32, 18, 0), "Q8_0": (32, 34, 0), "Q4_K": (256, 144, 0), "Q6_K": (256, 210, 208)}


def blocks(rows: int, kind: str) -> np.ndarray:
    """Random blocks of a row length of 256, with scales that keep values small."""
    features, size, at = BYTES[kind]
    drawn = np.random.default_rng().integers(0, 256, (rows, 256 // features, size), dtype=np.uint8)
    if kind == "MXFP4":
        drawn[..., 0] = np.random.default_rng().integers(120, 124, drawn.shape[:2])
        return drawn.reshape(rows, -1)
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


class Written:
    """A file of a family, and the checkpoint that it stands for."""

    def __init__(self, path: Path, arch: str, numbers: dict[str, object]) -> None:
        self.gguf = pytest.importorskip("gguf", reason="gguf is not installed")
        self.file, self.wide = self.gguf.GGUFWriter(path, arch), {}
        common = {"context_length": 64, "embedding_length": 256, "block_count": 2, "attention.head_count": 4}
        for key, value in {**common, **numbers}.items():
            add = {bool: self.file.add_bool, float: self.file.add_float32, str: self.file.add_string}
            add.get(type(value), self.file.add_uint32)(f"{arch}.{key}", value)
        self.file.add_float32(f"{arch}.attention.layer_norm_rms_epsilon", 1e-6)

    def floats(self, name: str, ours: str, *shape: int, spread: float = 1.0) -> np.ndarray:
        values = (np.random.default_rng().standard_normal(shape) * spread).astype(np.float32)
        self.file.add_tensor(name, values)
        self.wide[ours] = torch.from_numpy(values)
        return values

    def blocks(self, name: str, kind: str, *shape: int) -> torch.Tensor:
        """Random blocks; what they stand for. The last dim is 256."""
        made, quantization = blocks(int(np.prod(shape[:-1])), kind), self.gguf.GGMLQuantizationType[kind]
        if shape[-1] != 256:
            made = made[:, : made.shape[1] * shape[-1] // 256]
        made = np.ascontiguousarray(made).reshape(*shape[:-1], -1)
        self.file.add_tensor(name, made, raw_dtype=quantization)
        return torch.from_numpy(self.gguf.quants.dequantize(made, quantization))

    def matrix(self, name: str, ours: str, kind: str, *shape: int) -> None:
        self.wide[ours] = self.blocks(name, kind, *shape)

    def close(self) -> dict[str, torch.Tensor]:
        self.file.write_header_to_file()
        self.file.write_kv_data_to_file()
        self.file.write_tensors_to_file()
        self.file.close()
        return self.wide


def same_logits(path: Path, config: dict[str, object], wide: dict[str, torch.Tensor]) -> None:
    """Of the file, and of the checkpoint that it stands for under the config.json that it stands for."""
    expected = from_config(config)
    expected.load_weights(wide.items())
    model = load_model(path, dtype="float32")
    assert type(model) is type(expected)
    prompts = [torch.randint(0, 96, (n,)).tolist() for n in (9, 4)]
    logits, wanted = (Driver(each).prefill(prompts)[0] for each in (model, expected))
    assert torch.allclose(logits, wanted, rtol=1e-4, atol=1e-4 * float(wanted.abs().max()))


@pytest.mark.parametrize("halves", [True, False], ids=["k_b and v_b", "kv_b"])
@pytest.mark.parametrize("version", [2, 3])
def test_deepseek(version: int, halves: bool, tmp_path: Path) -> None:
    """A dense layer and one of experts; of V2 q in one step, of V3 in two, YaRN, and a correction bias."""
    mla = "_mla" if halves else ""
    numbers = {
        "feed_forward_length": 256, "attention.head_count_kv": 1 if halves else 4, "attention.kv_lora_rank": 64,
        f"attention.key_length{mla}": 96, f"attention.value_length{mla}": 32, "rope.dimension_count": 32,
        "leading_dense_block_count": 1, "expert_count": 8, "expert_used_count": 3, "expert_shared_count": 2,
        "expert_feed_forward_length": 128, "expert_weights_scale": 2.5, "expert_weights_norm": version == 3,
        "expert_group_count": 4 if version == 3 else 1, "expert_group_used_count": 2 if version == 3 else 1,
        "expert_gating_func": version - 1,
    }  # fmt: skip
    config = {
        **CONFIG, "architectures": [f"DeepseekV{version}ForCausalLM"], "num_hidden_layers": 2, "num_key_value_heads": 4,
        "kv_lora_rank": 64, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "v_head_dim": 32, "q_lora_rank": None,
        "first_k_dense_replace": 1, "n_routed_experts": 8, "num_experts_per_tok": 3, "n_shared_experts": 2,
        "moe_intermediate_size": 128, "routed_scaling_factor": 2.5, "norm_topk_prob": version == 3, "n_group": 1,
        "topk_group": 1, "rms_norm_eps": 1e-6, "scoring_func": "softmax", "topk_method": "greedy",
    }  # fmt: skip
    if halves:
        numbers |= {"attention.key_length": 96, "attention.value_length": 64}
    if version == 3:
        yarn = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 16}
        config |= {"q_lora_rank": 96, "n_group": 4, "topk_group": 2, "scoring_func": "sigmoid"}
        config |= {"topk_method": "noaux_tc", "rope_parameters": {**yarn, "mscale": 0.7, "mscale_all_dim": 0.7}}
        numbers |= {"attention.q_lora_rank": 96, "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0}
        numbers |= {"rope.scaling.original_context_length": 16, "rope.scaling.yarn_log_multiplier": 0.07}
    path = tmp_path / "a.gguf"
    made = Written(path, "deepseek2", numbers)
    made.matrix("token_embd.weight", "model.embed_tokens.weight", "Q8_0", 96, 256)
    made.matrix("output.weight", "lm_head.weight", "Q6_K", 96, 256)
    made.floats("output_norm.weight", "model.norm.weight", 256)
    for i in range(2):
        theirs, ours = f"blk.{i}", f"model.layers.{i}"
        made.floats(f"{theirs}.attn_norm.weight", f"{ours}.input_layernorm.weight", 256)
        made.floats(f"{theirs}.ffn_norm.weight", f"{ours}.post_attention_layernorm.weight", 256)
        attention = f"{ours}.self_attn"
        if version == 3:
            made.matrix(f"{theirs}.attn_q_a.weight", f"{attention}.q_a_proj.weight", "Q4_K", 96, 256)
            made.floats(f"{theirs}.attn_q_a_norm.weight", f"{attention}.q_a_layernorm.weight", 96)
            made.matrix(f"{theirs}.attn_q_b.weight", f"{attention}.q_b_proj.weight", "Q8_0", 4 * 96, 96)
        else:
            made.matrix(f"{theirs}.attn_q.weight", f"{attention}.q_proj.weight", "Q4_K", 4 * 96, 256)
        made.matrix(f"{theirs}.attn_kv_a_mqa.weight", f"{attention}.kv_a_proj_with_mqa.weight", "Q6_K", 96, 256)
        made.floats(f"{theirs}.attn_kv_a_norm.weight", f"{attention}.kv_a_layernorm.weight", 64)
        if halves:
            k = made.blocks(f"{theirs}.attn_k_b.weight", "Q8_0", 4, 64, 64)
            v = made.blocks(f"{theirs}.attn_v_b.weight", "Q4_0", 4, 32, 64)
            made.wide[f"{attention}.kv_b_proj.weight"] = torch.cat((k.transpose(1, 2), v), 1).reshape(4 * 96, 64)
        else:
            made.matrix(f"{theirs}.attn_kv_b.weight", f"{attention}.kv_b_proj.weight", "Q8_0", 4 * 96, 64)
        made.matrix(f"{theirs}.attn_output.weight", f"{attention}.o_proj.weight", "Q8_0", 256, 128)
        for part in ("gate", "up", "down"):
            rows, columns = (256, 128) if part == "down" else (128, 256)
            if i == 0:
                made.matrix(f"{theirs}.ffn_{part}.weight", f"{ours}.mlp.{part}_proj.weight", "Q4_K", 256, 256)
                continue
            shared = f"{ours}.mlp.shared_experts.{part}_proj.weight"
            made.matrix(f"{theirs}.ffn_{part}_shexp.weight", shared, "Q6_K", 256, 256)
            experts = made.blocks(f"{theirs}.ffn_{part}_exps.weight", "Q8_0", 8, rows, columns)
            made.wide |= {f"{ours}.mlp.experts.{e}.{part}_proj.weight": one for e, one in enumerate(experts)}
    made.floats("blk.1.ffn_gate_inp.weight", "model.layers.1.mlp.gate.weight", 8, 256)
    if version == 3:
        made.floats("blk.1.exp_probs_b.bias", "model.layers.1.mlp.gate.e_score_correction_bias", 8)
    same_logits(path, config, made.close())


@pytest.mark.parametrize("kind", ["MXFP4", "Q8_0"])
def test_gpt_oss(kind: str, tmp_path: Path) -> None:
    """Experts in MXFP4 stay in it, with neighbours side by side; others are widened."""
    path, rng = tmp_path / "a.gguf", np.random.default_rng()
    yarn = {"rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0, "original_max_position_embeddings": 32}
    numbers = {
        "attention.head_count_kv": 2, "attention.key_length": 64, "expert_count": 4, "expert_used_count": 2,
        "expert_feed_forward_length": 128, "attention.sliding_window": 4, "rope.freq_base": 150000.0,
        "rope.scaling.type": "yarn", "rope.scaling.factor": 32.0, "rope.scaling.original_context_length": 32,
    }  # fmt: skip
    config = {
        **CONFIG, "architectures": ["GptOssForCausalLM"], "num_hidden_layers": 2, "head_dim": 64, "rms_norm_eps": 1e-6,
        "intermediate_size": 128, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 4,
        "attention_bias": True, "rope_parameters": {**yarn, "truncate": False, "beta_fast": 32.0, "beta_slow": 1.0},
    }  # fmt: skip
    made = Written(path, "gpt-oss", numbers)
    made.matrix("token_embd.weight", "model.embed_tokens.weight", "Q8_0", 96, 256)
    made.matrix("output.weight", "lm_head.weight", "Q8_0", 96, 256)
    made.floats("output_norm.weight", "model.norm.weight", 256)
    for i in range(2):
        theirs, ours = f"blk.{i}", f"model.layers.{i}"
        made.floats(f"{theirs}.attn_norm.weight", f"{ours}.input_layernorm.weight", 256)
        made.floats(f"{theirs}.post_attention_norm.weight", f"{ours}.post_attention_layernorm.weight", 256)
        for part, rows in (("q", 256), ("k", 128), ("v", 128), ("output", 256)):
            name = f"{ours}.self_attn.{'o' if part == 'output' else part}_proj"
            made.matrix(f"{theirs}.attn_{part}.weight", f"{name}.weight", "Q8_0", rows, 256)
            made.floats(f"{theirs}.attn_{part}.bias", f"{name}.bias", rows, spread=0.1)
        made.floats(f"{theirs}.attn_sinks.weight", f"{ours}.self_attn.sinks", 4)
        for suffix, shape in (("weight", (4, 256)), ("bias", (4,))):
            made.floats(f"{theirs}.ffn_gate_inp.{suffix}", f"{ours}.mlp.router.{suffix}", *shape)
        wide = {
            part: made.blocks(f"{theirs}.ffn_{part}_exps.weight", kind, *shape)
            for part, shape in (("gate", (4, 128, 256)), ("up", (4, 128, 256)), ("down", (4, 256, 128)))
        }
        bias = {part: rng.standard_normal((4, len(one[0]))).astype(np.float32) for part, one in wide.items()}
        for part, values in bias.items():
            made.file.add_tensor(f"{theirs}.ffn_{part}_exps.bias", values)
        experts = f"{ours}.mlp.experts"
        made.wide[f"{experts}.down_proj"] = wide["down"].transpose(1, 2)
        made.wide[f"{experts}.gate_up_proj"] = torch.stack((wide["gate"], wide["up"]), 2).flatten(1, 2).transpose(1, 2)
        made.wide[f"{experts}.down_proj_bias"] = torch.from_numpy(bias["down"])
        both = np.stack((bias["gate"], bias["up"]), 2).reshape(4, -1)
        made.wide[f"{experts}.gate_up_proj_bias"] = torch.from_numpy(both)
    checkpoint = made.close()
    same_logits(path, config, checkpoint)
    experts = load_model(path, dtype="float32").get_submodule("model.layers.1.mlp.experts")
    assert (experts.quantization is not None) == (kind == "MXFP4")


@pytest.mark.parametrize(("arch", "names"), [
    ("DEEPSEEK2", [
        "self_attn.q_proj", "self_attn.q_a_proj", "self_attn.q_a_layernorm", "self_attn.q_b_proj",
        "self_attn.kv_b_proj",
        "self_attn.kv_a_proj_with_mqa", "self_attn.kv_a_layernorm", "self_attn.o_proj", "mlp.shared_experts.up_proj",
        "mlp.shared_experts.gate_proj", "mlp.shared_experts.down_proj", "mlp.gate", "input_layernorm",
        "post_attention_layernorm", "mlp.up_proj",
    ]),
    ("GPT_OSS", ["self_attn.q_proj", "self_attn.o_proj", "mlp.router", "input_layernorm", "post_attention_layernorm"]),
])  # fmt: skip
def test_names_are_those_of_the_gguf_package(arch: str, names: list[str]) -> None:
    gguf = pytest.importorskip("gguf", reason="gguf is not installed")
    kind = gguf.MODEL_ARCH[arch]
    mapping = gguf.get_tensor_name_map(kind, 4)
    for name in names:
        ours = f"model.layers.3.{name}"
        theirs = mapping.get_name(ours)
        assert theirs is not None, name
        assert checkpoint_name(f"{theirs}.weight", 0, gguf.MODEL_ARCH_NAMES[kind]) == f"{ours}.weight"


def test_what_a_file_does_not_say(tmp_path: Path) -> None:
    """Groups of experts and scaled positions are never guessed."""
    path = tmp_path / "a.gguf"
    numbers = {"attention.key_length": 96, "attention.value_length": 32, "rope.dimension_count": 32}
    for more, message in (
        ({}, r"deepseek2\.expert_group_count: expected a number, got none\. Convert the model with llama\.cpp again"),
        ({"rope.scaling.type": "su"}, r"deepseek2\.rope\.scaling\.type: expected 'none', 'linear' or 'yarn', got 'su'"),
    ):
        made = Written(path, "deepseek2", {**numbers, **more})
        made.floats("token_embd.weight", "", 96, 256)
        made.close()
        with pytest.raises(BadArgumentError, match=message):
            load_model(path)


def test_files_that_are_not_known(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    written(path, ["Q4_0"], arch="falcon")
    with pytest.raises(
        BadArgumentError,
        match=r"general\.architecture: expected 'llama' or 'qwen3' or 'qwen3moe' or 'deepseek2' or 'gpt-oss', got 'f",
    ):
        load_model(path)
    written(path, ["Q8_0"])
    whole = path.read_bytes()
    for content in (whole[:10], whole[:200], b"GGML" + whole[4:], whole[:-9000]):
        path.write_bytes(content)
        with pytest.raises(BadArgumentError, match=r"a\.gguf: expected a whole GGUF file of version 2 or 3, got"):
            load_model(path)

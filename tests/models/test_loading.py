"""Reading checkpoints: the file format, and what is said of a checkpoint or a config that does not fit."""

import json
from pathlib import Path

import pytest
import torch

from sglab.engine import BadArgumentError
from sglab.layers import WeightError
from sglab.models import ByteTokenizer, from_config, load_model
from sglab.models.safetensors import read_safetensors

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 64,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
}


def write(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    """A safetensors file of float32 tensors, by the format's description."""
    header, body = {}, b""
    for name, tensor in tensors.items():
        content = tensor.contiguous().numpy().tobytes()
        header[name] = {
            "dtype": "F32",
            "shape": list(tensor.shape),
            "data_offsets": [len(body), len(body) + len(content)],
        }
        body += content
    encoded = json.dumps(header).encode()
    path.write_bytes(len(encoded).to_bytes(8, "little") + encoded + body)


def weights() -> dict[str, torch.Tensor]:
    layer = "model.layers.0"
    shapes = {
        "model.embed_tokens.weight": (64, 16),
        "lm_head.weight": (64, 16),
        "model.norm.weight": (16,),
        f"{layer}.input_layernorm.weight": (16,),
        f"{layer}.post_attention_layernorm.weight": (16,),
        **{f"{layer}.self_attn.{name}_proj.weight": (16, 16) for name in "qkvo"},
        f"{layer}.mlp.gate_proj.weight": (32, 16),
        f"{layer}.mlp.up_proj.weight": (32, 16),
        f"{layer}.mlp.down_proj.weight": (16, 32),
    }
    return {name: torch.randn(shape) for name, shape in shapes.items()}


def test_safetensors_are_read_as_the_library_writes_them(tmp_path: Path) -> None:
    library = pytest.importorskip("safetensors.torch")
    dtypes = (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.uint8, torch.float8_e4m3fn)
    tensors = {f"t{i}": (torch.randn(3, i + 1) * 50).abs().to(dtype) for i, dtype in enumerate(dtypes)}
    tensors |= {"scalar": torch.tensor(2.5), "empty": torch.empty(0, 4)}
    library.save_file(tensors, tmp_path / "a.safetensors", metadata={"format": "pt"})
    found = dict(read_safetensors(tmp_path / "a.safetensors"))
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype and found[name].shape == tensor.shape
        assert torch.equal(found[name].view(torch.uint8) if tensor.dim() else found[name],
                           tensor.view(torch.uint8) if tensor.dim() else tensor)  # fmt: skip


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "a.safetensors"
    write(file, weights())
    whole = file.read_bytes()
    for content in (b"", whole[:40], whole[:-5], b"\x05" + bytes(7) + b"hello" + whole):
        file.write_bytes(content)
        with pytest.raises(BadArgumentError, match=r"a\.safetensors: expected a whole safetensors file"):
            dict(read_safetensors(file))


def test_a_folder_of_several_files(tmp_path: Path) -> None:
    given = weights()
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    for i, name in enumerate(given):
        write(tmp_path / f"model-{i:05}.safetensors", {name: given[name]})
    model = load_model(tmp_path)
    assert torch.equal(model.lm_head.weight[:64], given["lm_head.weight"])
    merged = model.get_parameter("model.layers.0.mlp.gate_up_proj.weight")
    assert torch.equal(merged[32:], given["model.layers.0.mlp.up_proj.weight"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model.norm.weight": None}, r"model\.norm\.weight: expected in the checkpoint, got nothing"),
        ({"model.norm.weight": (8,)}, r"model\.norm\.weight: expected shape \(16,\), got \(8,\)"),
        ({"model.layers.0.self_attn.k_proj.weight": None}, r"qkv_proj\.weight\.k: expected in the checkpoint"),
        ({"model.layers.0.mlp.up_proj.weight": (16, 16)}, r"expected shape \(32, 16\), got \(16, 16\)"),
        ({"model.layers.0.self_attn.gate.weight": (1,)}, r"self_attn\.gate\.weight: expected a parameter"),
        ({"lm_head.weight": (65, 16)}, r"lm_head\.weight: expected a weight of shape \(64, 16\), got \(65, 16\)"),
    ],
)
def test_weights_that_do_not_fit(change: dict[str, tuple[int, ...] | None], message: str) -> None:
    given = weights()
    for name, shape in change.items():
        if shape is None:
            del given[name]
        else:
            given[name] = torch.randn(shape)
    with pytest.raises(WeightError, match=message):
        from_config(CONFIG).load_weights(given.items())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"architectures": ["LlamaForCausalML"]}, r"architectures: expected one of .*, got .*The nearest is LlamaFor"),
        ({"architectures": None}, r"architectures: expected one of .*, got none"),
        ({"hidden_size": None}, r"config\.json: hidden_size: expected a value, got none"),
        ({"hidden_act": "gelu"}, r"hidden_act: expected 'silu', got 'gelu'"),
    ],
)
def test_configs_that_are_not_known(change: dict[str, object], message: str) -> None:
    with pytest.raises(BadArgumentError, match=message):
        from_config({**CONFIG, **change})


@pytest.mark.parametrize("name", ["/no/such/folder", "./model", "../model", "~/model", "a/b/c", "C:\\models\\llama"])
def test_a_path_that_leads_nowhere_is_not_taken_for_a_hub_id(name: str) -> None:
    with pytest.raises(BadArgumentError, match=r"path_or_id: expected a folder, got .* There is no such folder here"):
        load_model(name)


def test_models_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadArgumentError, match=r"path_or_id: expected a folder with config\.json"):
        load_model(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    with pytest.raises(BadArgumentError, match=r"path_or_id: expected a folder with \*\.safetensors"):
        load_model(tmp_path)
    assert load_model(tmp_path, load_format="dummy", dtype="bfloat16").dtype == torch.bfloat16
    with pytest.raises(BadArgumentError, match=r"quantization: expected None or one of fp8, .*, got 'nf4'"):
        load_model(tmp_path, quantization="nf4")
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG, "quantization_config": {"quant_method": "bnb"}}))
    with pytest.raises(BadArgumentError, match=r"quantization_config: expected a quant_method among .*, got 'bnb'"):
        load_model(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG, "quantization_config": {"quant_method": "awq"}}))
    with pytest.raises(BadArgumentError, match="quantization: expected None for a quantised checkpoint, got 'fp8' for"):
        load_model(tmp_path, quantization="fp8")


def test_random_weights_depend_on_the_seed_alone() -> None:
    first, same, other = (from_config(CONFIG, seed=seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(first[name], same[name]) for name in first)
    assert not torch.equal(first["lm_head.weight"], other["lm_head.weight"])


def test_bytes_are_tokens() -> None:
    tokenizer = ByteTokenizer(256)
    assert tokenizer.encode("é!") == [256, 0xC3, 0xA9, 0x21]
    assert tokenizer.decode([256, 0xC3, 0xA9, 0x21, 257]) == "é!"
    assert tokenizer.decode([0xC3]) == "\ufffd"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{broken", r"config\.json: expected a JSON object, got Expecting property name.*\. Fetch it again\."),
        ("[1]", r"config\.json: expected a JSON object, got list"),
        (
            json.dumps({**CONFIG, "hidden_size": "many"}),
            "config.json: hidden_size: expected an integer of at least 1, got",
        ),
        (
            json.dumps({**CONFIG, "num_attention_heads": 0}),
            "config.json: num_attention_heads: expected an integer of at",
        ),
        (json.dumps({**CONFIG, "rms_norm_eps": "1e-6"}), "config.json: rms_norm_eps: expected a number, got '1e-6'"),
        (json.dumps({**CONFIG, "attention_bias": 2}), "config.json: attention_bias: expected true or false, got 2"),
    ],
)
def test_a_config_that_is_none_is_refused_by_name(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(content)
    write(tmp_path / "model.safetensors", weights())
    with pytest.raises(BadArgumentError, match=message):
        load_model(tmp_path)


def test_a_misshapen_weight_has_its_whole_name(tmp_path: Path) -> None:
    """Layers know only what comes below them."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    given = weights()
    for name in ("model.embed_tokens.weight", "model.layers.0.self_attn.k_proj.weight"):
        write(tmp_path / "model.safetensors", {**given, name: given[name][:, :-3]})
        with pytest.raises(WeightError, match=f"^{name}: expected .*The checkpoint does not belong to this config"):
            load_model(tmp_path)

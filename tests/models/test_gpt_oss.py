"""gpt-oss against transformers: sinks, alternating windows, clamped and biased experts, MXFP4 weights."""

import json
from pathlib import Path

import pytest
import torch

from sglab.layers.quantization import dequantize_mxfp4
from sglab.models import load_model
from tests.support.gpt_oss import SHAPE
from tests.support.models import check_against, oracle


@pytest.mark.parametrize("backend", ["torch_native", "triton"])
def test_gpt_oss(backend: str, tmp_path: Path) -> None:
    theirs, ours = oracle("GptOssForCausalLM", tmp_path, SHAPE)
    small = backend == "triton"  # its kernels run under an interpreter here
    options = {"backend": backend, "implementation": "reference"} if small else {}
    check_against(theirs, ours, [37, 5, 18], chunk=7, count=8 if small else 64, **options)


def test_mxfp4_is_what_the_format_says() -> None:
    blocks = torch.arange(256, dtype=torch.uint8).view(1, 16, 16)
    scales = torch.tensor([[127, 128, 126, 0, *range(110, 122)]], dtype=torch.uint8)
    wide = dequantize_mxfp4(blocks, scales, torch.float32)
    magnitudes = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    for group, scale in enumerate(scales[0].tolist()):
        for byte in range(16):
            code = group * 16 + byte
            for half, nibble in enumerate((code % 16, code // 16)):
                value = magnitudes[nibble % 8] * (-1 if nibble >= 8 else 1) * 2.0 ** (scale - 127)
                assert wide[0, group * 32 + byte * 2 + half] == value


def test_a_checkpoint_with_mxfp4_experts(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    theirs, _ = oracle("GptOssForCausalLM", tmp_path, SHAPE)
    file = tmp_path / "model.safetensors"
    tensors = dict(safetensors.load_file(file))
    for i, layer in enumerate(theirs.model.layers):
        for name in ("gate_up_proj", "down_proj"):
            key = f"model.layers.{i}.mlp.experts.{name}"
            experts, size_in, size_out = tensors.pop(key).shape
            blocks = torch.randint(256, (experts, size_out, size_in // 32, 16), dtype=torch.uint8)
            scales = torch.randint(121, 125, (experts, size_out, size_in // 32), dtype=torch.uint8)
            tensors |= {f"{key}_blocks": blocks, f"{key}_scales": scales}
            wide = dequantize_mxfp4(blocks, scales, torch.float32).transpose(1, 2)
            getattr(layer.mlp.experts, name).data = wide.contiguous()
    safetensors.save_file(tensors, file)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "quantization_config": {"quant_method": "mxfp4"}}))
    check_against(theirs, load_model(tmp_path, dtype="float32"), [37, 5, 18], chunk=7)

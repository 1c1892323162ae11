"""compressed-tensors checkpoints, written by the package itself: what is read is what it decompresses."""

import pytest
import torch

from sglab.layers.quantization import parse_quantization
from sglab.layers.quantization.weight import Cut, QuantizedWeight

pytest.importorskip("compressed_tensors", reason="compressed-tensors is not installed")
from compressed_tensors.compressors.base import BaseCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from compressed_tensors.quantization.utils import calculate_qparams

OUT, DEPTH = 48, 64

CASES = {
    "w4a16": ("pack-quantized", {"type": "int", "num_bits": 4, "strategy": "group", "group_size": 32}),
    "w4a16 with zero points": (
        "pack-quantized",
        {"type": "int", "num_bits": 4, "strategy": "group", "group_size": 32, "symmetric": False},
    ),
    "w8a16": ("pack-quantized", {"type": "int", "num_bits": 8, "strategy": "channel"}),
    "fp8": ("float-quantized", {"type": "float", "num_bits": 8, "strategy": "channel"}),
    "fp8 per tensor": ("float-quantized", {"type": "float", "num_bits": 8, "strategy": "tensor"}),
    "int8": ("int-quantized", {"type": "int", "num_bits": 8, "strategy": "channel"}),
    "nvfp4": ("nvfp4-pack-quantized", {"type": "float", "num_bits": 4, "strategy": "tensor_group", "group_size": 16}),
    "mxfp4": ("mxfp4-pack-quantized", {"type": "float", "num_bits": 4, "strategy": "group", "group_size": 32}),
    "mxfp8": ("mxfp8-quantized", {"type": "float", "num_bits": 8, "strategy": "group", "group_size": 32}),
}


def observed(w: torch.Tensor, args: QuantizationArgs, form: str) -> dict[str, torch.Tensor]:
    """Scales and zero points of a weight, as the package's observers find them."""
    size = args.group_size
    groups = w if size is None else w.unflatten(1, (-1, size))
    if args.strategy == "tensor":
        least, most = w.amin().reshape(1), w.amax().reshape(1)
    else:
        least, most = groups.amin(-1), groups.amax(-1)
        least, most = (least, most) if size else (least[:, None], most[:, None])
    if form.startswith("mx"):
        amax = torch.maximum(least.abs(), most.abs())
        return {"weight_scale": torch.exp2(amax.log2().floor() - (2 if args.num_bits == 4 else 8))}
    if form.startswith("nv"):
        whole = 448 * 6 / w.abs().amax().reshape(1)
        scale = (torch.maximum(least.abs(), most.abs()) / 6 * whole).to(torch.float8_e4m3fn)
        return {"weight_scale": scale.float(), "weight_global_scale": whole}
    scale, zero = calculate_qparams(least, most, args)
    return {"weight_scale": scale, "weight_zero_point": zero}


@pytest.mark.parametrize("name", list(CASES))
def test_what_the_package_writes(name: str) -> None:
    form, described = CASES[name]
    args = QuantizationArgs(**described)
    scheme = QuantizationScheme(targets=["Linear"], weights=args, format=form)
    compressor = BaseCompressor.get_value_from_registry(form)
    w = torch.randn(OUT, DEPTH)
    stored = compressor.compress({"weight": w, **observed(w, args, form)}, scheme)
    expected = compressor.decompress(stored, scheme)["weight"]
    groups = {"group_0": {"targets": ["Linear"], "weights": described}}
    config = parse_quantization({"quant_method": "compressed-tensors", "format": form, "config_groups": groups})
    assert config is not None
    (found,) = config.schemes(["model.layers.0.mlp.down_proj"]) or [None]
    assert found is not None
    part = QuantizedWeight(found, (OUT, DEPTH), DEPTH)
    for key, tensor in stored.items():
        if part.takes(key):
            part.load(key, tensor, Cut(0, OUT, 0, DEPTH))
    part.check()
    assert set(part.names()) <= set(stored)
    rtol = 1e-6 if expected.dtype == torch.float32 else 2.0**-8  # the package widens four-bit floats to bfloat16
    assert torch.allclose(part.dense(), expected.float(), rtol=rtol, atol=1e-7)

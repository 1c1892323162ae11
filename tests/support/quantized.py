"""Checkpoints in quantised formats, written by the formats' descriptions, with the weights that they stand for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

Written = tuple[dict[str, torch.Tensor], torch.Tensor]
"""The tensors of a matrix [out, in] by name, and float32 what they stand for."""


def words(values: torch.Tensor, bits: int = 4) -> torch.Tensor:
    """Integers [n, ...] -> int32 [n · bits / 32, ...], the first of a word in its lowest bits; number by number."""
    per_word = 32 // bits
    out = torch.zeros(len(values) // per_word, *values.shape[1:], dtype=torch.int64)
    for i, row in enumerate(values.to(torch.int64)):
        out[i // per_word] += row * 2 ** (bits * (i % per_word))
    return torch.where(out >= 2**31, out - 2**32, out).to(torch.int32)


def groups_of(features: int, size: int) -> torch.Tensor:
    return torch.arange(features) // (size if size > 0 else features)


def gptq(w: torch.Tensor, size: int = 32, bits: int = 4, desc_act: bool = False, version: int = 1) -> Written:
    out, depth = w.shape
    group = groups_of(depth, size)
    if desc_act:
        group = group[torch.randperm(depth)]
    count = int(group.max()) + 1
    scales = torch.stack([w[:, group == g].abs().amax(1) / 2 ** (bits - 1) for g in range(count)]).half()
    zeros = torch.randint(1, 2**bits, (count, out))
    q = (w.T / scales[group].float()).round().long().add(zeros[group]).clamp(0, 2**bits - 1)
    tensors = {
        "qweight": words(q, bits),
        "qzeros": words((zeros - int(version == 1)).T, bits).T.contiguous(),
        "scales": scales,
        "g_idx": group.to(torch.int32),
    }
    return tensors, ((q - zeros[group]) * scales[group].float()).T.contiguous()


def awq(w: torch.Tensor, size: int = 32) -> Written:
    out, depth = w.shape
    group = groups_of(depth, size)
    count = int(group.max()) + 1
    scales = torch.stack([w[:, group == g].abs().amax(1) / 8 for g in range(count)]).half()
    zeros = torch.randint(0, 16, (count, out))
    q = (w.T / scales[group].float()).round().long().add(zeros[group]).clamp(0, 15)
    order = [i // 8 * 8 + (0, 2, 4, 6, 1, 3, 5, 7)[i % 8] for i in range(out)]

    def packed(values: torch.Tensor) -> torch.Tensor:
        return words(values.T[order]).T.contiguous()

    tensors = {"qweight": packed(q), "qzeros": packed(zeros), "scales": scales}
    return tensors, ((q - zeros[group]) * scales[group].float()).T.contiguous()


def fp8_tensor(w: torch.Tensor, static: float | None = None) -> Written:
    scale = w.abs().max() / 448
    q = (w / scale).to(torch.float8_e4m3fn)
    tensors = {"weight": q, "weight_scale": scale}
    return tensors | ({} if static is None else {"input_scale": torch.tensor(static)}), q.float() * scale


def fp8_channel(w: torch.Tensor) -> Written:
    scale = w.abs().amax(1, keepdim=True) / 448
    q = (w / scale).to(torch.float8_e4m3fn)
    return {"weight": q, "weight_scale": scale}, q.float() * scale


def fp8_block(w: torch.Tensor, size: int = 16) -> Written:
    rows, columns = (-(-length // size) for length in w.shape)
    scale, wide = torch.empty(rows, columns), torch.empty_like(w)
    q = torch.empty_like(w, dtype=torch.float8_e4m3fn)
    for i in range(rows):
        for j in range(columns):
            tile = (slice(i * size, (i + 1) * size), slice(j * size, (j + 1) * size))
            scale[i, j] = w[tile].abs().max() / 448
            q[tile] = (w[tile] / scale[i, j]).to(q.dtype)
            wide[tile] = q[tile].float() * scale[i, j]
    return {"weight": q, "weight_scale_inv": scale}, wide


def int8_channel(w: torch.Tensor) -> Written:
    scale = w.abs().amax(1, keepdim=True) / 127
    q = (w / scale).round().to(torch.int8)
    return {"weight": q, "weight_scale": scale}, q.float() * scale


FP4 = torch.tensor([0.0, 0.5, 1, 1.5, 2, 3, 4, 6])


def nearest_fp4(x: torch.Tensor) -> torch.Tensor:
    """Codes 0..15 of the nearest values, by comparing with all of them."""
    code = (x.abs()[..., None] - FP4).abs().argmin(-1)
    return (code + 8 * (x < 0)).to(torch.uint8)


def fp4_values(codes: torch.Tensor) -> torch.Tensor:
    return FP4[(codes % 8).long()] * torch.where(codes >= 8, -1.0, 1.0)


def nvfp4(w: torch.Tensor) -> Written:
    """ModelOpt's."""
    whole = w.abs().max() / (448 * 6)
    groups = w.unflatten(1, (-1, 16))
    scale = (groups.abs().amax(-1) / 6 / whole).to(torch.float8_e4m3fn)
    step = (scale.float() * whole)[..., None]
    codes = nearest_fp4(groups / step)
    flat = codes.flatten(1)
    tensors = {
        "weight": flat[:, 0::2] + 16 * flat[:, 1::2],
        "weight_scale": scale,
        "weight_scale_2": whole,
        "input_scale": torch.tensor(0.01),
    }
    return tensors, (fp4_values(codes) * step).flatten(1)


def mxfp8(w: torch.Tensor) -> Written:
    groups = w.unflatten(1, (-1, 32))
    exponent = groups.abs().amax(-1).log2().floor() - 8
    q = (groups / 2 ** exponent[..., None]).clamp(-448, 448).to(torch.float8_e4m3fn)
    tensors = {"weight": q.flatten(1), "weight_scale_inv": (exponent + 127).to(torch.uint8)}
    return tensors, (q.float() * 2 ** exponent[..., None]).flatten(1)


def w4a8(w: torch.Tensor, size: int = 32) -> Written:
    groups = w.unflatten(1, (-1, size))
    scale = groups.abs().amax(-1) / 7
    q = (groups / scale[..., None]).round().clamp(-8, 7)
    bits = (q % 16).flatten(1).to(torch.uint8)
    packed = (bits[:, 0::2] + 16 * bits[:, 1::2]).view(torch.int8)
    tensors = {"weight": packed, "weight_scale_inv": scale, "input_scale": torch.tensor(0.02)}
    return tensors, (q * scale[..., None]).flatten(1)


def checkpoint(
    weights: dict[str, torch.Tensor], write: Callable[[torch.Tensor], Written], chosen: Callable[[str], bool]
) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """A model's weights with those of the chosen layers written by `write`: the checkpoint, and what it stands for."""
    stored: dict[str, torch.Tensor] = {}
    wide: dict[str, torch.Tensor] = {}
    for name, tensor in weights.items():
        layer = name.removesuffix(".weight")
        if layer != name and tensor.dim() == 2 and chosen(layer):
            parts, wide[name] = write(tensor)
            stored |= {f"{layer}.{part}": value for part, value in parts.items()}
        else:
            stored[name] = wide[name] = tensor
    return stored, wide


DTYPES = {
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int8: "I8",
    torch.uint8: "U8",
}


def write_checkpoint(folder: Path, config: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    """config.json and one safetensors file, by that format's description."""
    (folder / "config.json").write_text(json.dumps(config))
    header, parts, end = {}, [], 0
    for name, tensor in tensors.items():
        content = bytes(tensor.contiguous().reshape(-1).view(torch.uint8).tolist())
        offsets = [end, end + len(content)]
        header[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": offsets}
        parts.append(content)
        end += len(content)
    encoded = json.dumps(header).encode()
    encoded += b" " * (-len(encoded) % 8)
    (folder / "model.safetensors").write_bytes(len(encoded).to_bytes(8, "little") + encoded + b"".join(parts))

"""compressed-tensors: groups of layers, each with arguments for weights and activations.

Source: the package's `quantization/quant_args.py` and compressors; SGLang 0.5.23 `quantization/compressed_tensors`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from sglab.engine.errors import BadArgumentError
from sglab.kernels.formats.microscaling import MX_BLOCK
from sglab.kernels.formats.packing import unpack
from sglab.layers.quantization.fp8 import Fp8
from sglab.layers.quantization.int8 import Int8
from sglab.layers.quantization.microscaling import Mxfp4, Mxfp8
from sglab.layers.quantization.names import Rule, matches
from sglab.layers.quantization.nvfp4 import Nvfp4
from sglab.layers.quantization.scheme import Axis, Scheme, Stored, Tensors


@dataclass(frozen=True)
class PackedInteger(Scheme):
    """Weights as integers packed along the input features, four or eight bits ("pack-quantized").

    Attributes:
        group_size: -1: a scale per output channel.
        symmetric: there are no zero points.
        act_order: an input feature's group is in weight_g_idx.
    """

    bits: int = 4
    group_size: int = -1
    symmetric: bool = True
    act_order: bool = False

    ignored = frozenset({"weight_shape"})

    @property
    def stored(self) -> tuple[Stored, ...]:
        out, per_word = Axis("out"), 32 // self.bits
        size = self.group_size if self.group_size > 0 else 2**31
        groups = Axis("in", size, whole=self.act_order or self.group_size < 0)
        tensors = [
            Stored("weight_packed", torch.int32, (out, Axis("in", per_word))),
            Stored("weight_scale", torch.float32, (out, groups)),
        ]
        if not self.symmetric:
            tensors.append(Stored("weight_zero_point", torch.int32, (Axis("out", per_word), groups)))
        if self.act_order:
            tensors.append(Stored("weight_g_idx", torch.int32, (Axis("in"),)))
        return tuple(tensors)

    def dequantize(self, tensors: Tensors, shape: tuple[int, int]) -> torch.Tensor:
        q, scale = unpack(tensors["weight_packed"], self.bits, 1)[:, : shape[1]], tensors["weight_scale"]
        zero: torch.Tensor | int = 2 ** (self.bits - 1)
        feature = torch.arange(shape[1], device=q.device)
        group = feature // self.group_size if self.group_size > 0 else torch.zeros_like(feature)
        if self.act_order:
            group = tensors["weight_g_idx"].long()
        if not self.symmetric:
            zero = unpack(tensors["weight_zero_point"], self.bits, 0)[: shape[0]][:, group]
        return (q - zero) * scale[:, group]


def compressed_tensors(given: Mapping[str, Any]) -> Rule:
    """The rule of a quantization_config.

    Raises:
        BadArgumentError: a group in a format that is not known here.
    """
    groups = [(group.get("targets") or ["Linear"], _scheme(name, group, given))
              for name, group in (given.get("config_groups") or {}).items()]  # fmt: skip
    if not groups:
        remedy = "Is this the config.json of a compressed checkpoint?"
        raise BadArgumentError("config.json: quantization_config: config_groups", "a group", "none", remedy)
    ignore = given.get("ignore") or ()

    def rule(name: str) -> Scheme | None:
        if any(matches(name, pattern) for pattern in ignore):
            return None
        named = [s for targets, s in groups if any(t != "Linear" and matches(name, t) for t in targets)]
        return named[0] if named else next((s for targets, s in groups if "Linear" in targets), None)

    return rule


def _scheme(name: str, group: Mapping[str, Any], given: Mapping[str, Any]) -> Scheme:
    weights, inputs = group.get("weights") or {}, group.get("input_activations")
    kind, bits, strategy = weights.get("type", "int"), weights.get("num_bits"), weights.get("strategy", "tensor")
    size = weights.get("group_size") or -1
    packed = "pack" in str(group.get("format") or given.get("format") or "")
    found: Scheme | None = None
    if kind == "float" and bits == 4 and size == MX_BLOCK and inputs is None:
        found = Mxfp4("weight_packed")
    elif kind == "float" and bits == 4 and strategy == "tensor_group":
        found = Nvfp4(inputs is not None, reciprocal=True)
    elif kind == "float" and bits == 8 and size == MX_BLOCK:
        found = Mxfp8(inputs is not None)
    elif kind == "float" and bits == 8 and strategy in ("tensor", "channel", "block"):
        found = Fp8(strategy, _fp8_activations(inputs), tuple(weights.get("block_structure") or (128, 128)))
    elif kind == "int" and bits == 8 and not packed and strategy in ("tensor", "channel"):
        symmetric = weights.get("symmetric", True) and (inputs or {}).get("symmetric", True)
        dynamic = (inputs or {}).get("dynamic", True)
        activations = None if inputs is None else "token" if dynamic else "static"
        found = Int8(strategy, activations) if symmetric else None  # type: ignore[arg-type]
    elif kind == "int" and bits in (4, 8) and packed and inputs is None:
        order = weights.get("actorder") in ("group", True)
        found = PackedInteger(bits, size, weights.get("symmetric", True), order)
    if found is None:
        got = f"{bits}-bit {kind} weights per {strategy}, activations {inputs}"
        expected = "a W8A8, W4A16, W8A16, MXFP4, MXFP8 or NVFP4 scheme, symmetric with activations"
        raise BadArgumentError(f"config.json: quantization_config: {name}", expected, got, "Use another checkpoint.")
    return found


def _fp8_activations(inputs: Mapping[str, Any] | None) -> Any:
    if inputs is None:
        return None
    if not inputs.get("dynamic", True):
        return "static"
    return {"token": "token", "group": "group"}.get(inputs.get("strategy", "tensor"), "tensor")

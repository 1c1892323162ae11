"""What a model is made ready for: quantised layers, experts that lie elsewhere, and the last steps of loading."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import nn

from sglab.engine.errors import BadArgumentError
from sglab.layers.linear import ReplicatedLinear
from sglab.layers.moe import ExpertLocation, FusedMoE
from sglab.layers.quantization import QuantizationConfig, QuantizedWeight
from sglab.layers.quantization.online import Rounding
from sglab.models.causal_lm import CausalLM

KV_SCALES = (".k_scale", ".v_scale", ".q_scale", ".kv_scale", ".k_bias", ".v_bias")
"""Endings of scales of an FP8 KV cache; the pool here has the model's own dtype, which needs none."""


def quantize_layers(model: CausalLM, config: QuantizationConfig) -> None:
    """Let every linear and every mixture that is quantised in the checkpoint hold its format.

    Raises:
        BadArgumentError: layers that are merged here have several formats.
    """
    for name, module in list(model.named_modules()):
        if isinstance(module, (ReplicatedLinear, FusedMoE)):
            names = checkpoint_names(model, name, module)
            schemes = config.schemes(names)
            if schemes is not None:
                module.quantize(schemes, f"{name}.")


def relocate_experts(model: CausalLM, locations: Sequence[Sequence[int]]) -> None:
    """Let each mixture hold other experts than its even share, before weights are loaded.

    Raises:
        BadArgumentError: another number of layers or experts than the model has.
    """
    mixtures = [one for one in model.modules() if isinstance(one, FusedMoE)]
    if len(mixtures) != len(locations):
        expected = f"one list for each of {len(mixtures)} layers with experts"
        raise BadArgumentError("expert_location", expected, len(locations), "Place each layer's experts.")
    for one, physical in zip(mixtures, locations, strict=True):
        if set(physical) != set(range(one.num_experts)):
            expected = f"each of the experts 0 to {one.num_experts - 1} once at least"
            raise BadArgumentError(
                "expert_location", expected, sorted(set(physical)), "Number them as the router does."
            )
        one.relocate(ExpertLocation(tuple(physical), one.tp.ep_size))


def checkpoint_names(model: CausalLM, name: str, module: nn.Module) -> list[str]:
    """What the checkpoint calls the matrices of a layer."""
    if isinstance(module, FusedMoE):
        return [f"{name}.0.{part}" for part in ("gate_proj", "up_proj", "down_proj")]
    assert isinstance(module, ReplicatedLinear)
    around, _, last = name.rpartition(".")
    order = {"q": 0, "k": 1, "v": 2}
    numbered = [
        (order.get(str(shard), shard if isinstance(shard, int) else 0), part)
        for part, (merged, shard) in model.stacked.items()
        if merged == last
    ]
    found = [f"{around}.{part}" for _, part in sorted(numbered)]
    count = len(module.output_sizes())
    return found if len(found) == count else [name] * count


def without_kv_scales(weights: Iterable[tuple[str, torch.Tensor]]) -> Iterator[tuple[str, torch.Tensor]]:
    """A quantised checkpoint's tensors without those of an FP8 KV cache."""
    return ((name, tensor) for name, tensor in weights if not name.endswith(KV_SCALES))


def quantize_weights(model: CausalLM, rounding: Rounding) -> None:
    """Round every linear's and expert's weights of full precision to a format."""
    for module in model.modules():
        if isinstance(module, ReplicatedLinear):
            dense = [module.weight.split(module.output_sizes())]
            module.quantize([rounding.scheme] * len(dense[0]))
            assert module.quantized is not None
            _fill(module.quantized.each(), dense, rounding)
        elif isinstance(module, FusedMoE):
            gate_up, down = module.w13.split(module.size, 1), (module.w2,)
            module.quantize([rounding.scheme] * 3)
            assert module.quantized is not None
            for matrix, wide in zip(module.quantized, (gate_up, down), strict=True):
                experts = range(len(module.here))
                _fill(matrix.each(), [[part[i] for part in wide] for i in experts], rounding)


def _fill(parts: Sequence[QuantizedWeight], dense: Sequence[Sequence[torch.Tensor]], rounding: Rounding) -> None:
    """Store rounded weights; `dense` has a list of the parts' matrices for each expert, or one."""
    for expert, matrices in enumerate(dense):
        for part, wide in zip(parts, matrices, strict=True):
            stored = part.tensors(None if part.experts is None else expert)
            for name, tensor in zip(("weight", "weight_scale"), rounding.quantize(wide), strict=True):
                stored[name].copy_(tensor)


def process_weights_after_loading(model: nn.Module) -> None:
    """Let every module that has something to do once its weights are there do it; outer modules first.

    Raises:
        WeightError: contents that no checkpoint has.
    """
    for module in list(model.modules()):
        process = getattr(module, "process_weights_after_loading", None)
        if process is not None:
            process()

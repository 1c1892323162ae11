"""How a checkpoint's tensors find their parameters: a path is followed from module to module until one takes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, runtime_checkable

import torch
from torch import nn

_CUT = "_cut"
"""Attribute of a parameter made by `sharded`."""
Shard = str | int | None
"""Which part of a merged parameter a tensor is: "q", "k", "v", a number, or None for all of it."""


class WeightError(ValueError):
    """A checkpoint's tensor that is missing, unknown or of the wrong shape."""

    def __init__(self, name: str, expected: str, got: object, remedy: str) -> None:
        self.name, self._rest = name, (expected, got, remedy)
        super().__init__(f"{name}: expected {expected}, got {got}. {remedy}")

    def of(self, name: str) -> WeightError:
        """The same of a tensor's whole name: a layer knows only what comes below it."""
        return WeightError(name, *self._rest)


@runtime_checkable
class TakesWeights(Protocol):
    """A layer that knows where a checkpoint's tensor goes: which shard, which expert, which part of a merged matrix."""

    def load_weight(self, path: str, tensor: torch.Tensor, shard: Shard) -> list[str]:
        """Store a tensor named `path` below this layer. Returns the keys that it filled, such as "weight" or
        "weight.q": the layer is complete when all of `weight_keys` are."""

    def weight_keys(self) -> list[str]: ...


def copy_into(parameter: torch.Tensor, tensor: torch.Tensor, name: str) -> None:
    """Store a tensor in a parameter (or a part of one) of the same shape.

    Raises:
        WeightError: the shapes differ; nothing was written.
    """
    if parameter.shape != tensor.shape:
        remedy = "The checkpoint does not belong to this config.json."
        raise WeightError(name, f"shape {tuple(parameter.shape)}", tuple(tensor.shape), remedy)
    with torch.no_grad():
        parameter.copy_(tensor)


def sharded(tensor: torch.Tensor, cut: Callable[[torch.Tensor], torch.Tensor]) -> nn.Parameter:
    """A parameter that holds a rank's part of what the checkpoint has: `cut` takes that part."""
    parameter = nn.Parameter(tensor, requires_grad=False)
    setattr(parameter, _CUT, cut)
    return parameter


def is_cut(parameter: torch.Tensor) -> bool:
    """Whether it holds a rank's part, by `sharded`."""
    return hasattr(parameter, _CUT)


def load_weights(
    model: nn.Module,
    weights: Iterable[tuple[str, torch.Tensor]],
    stacked: Mapping[str, tuple[str, Shard]],
    ignored: Iterable[str] = (),
) -> None:
    """Fill every parameter of a model from a checkpoint.

    Args:
        stacked: name in the checkpoint -> (the merged layer that holds it, which part): "q_proj" -> ("qkv_proj", "q").
        ignored: what a name of the checkpoint may contain to be passed over.

    Raises:
        WeightError: a tensor that no layer takes, of a wrong shape, or a parameter that no tensor filled.
    """
    filled: set[str] = set()
    skip = tuple(ignored)
    for name, tensor in weights:
        if not any(part in name for part in skip):
            filled |= _store(model, name, tensor, stacked)
    missing = sorted(_wanted(model) - filled)
    if missing:
        shown = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
        remedy = "The checkpoint is incomplete: fetch all of its *.safetensors files again."
        raise WeightError(missing[0], "in the checkpoint", f"nothing for {shown}", remedy)


def _store(model: nn.Module, name: str, tensor: torch.Tensor, stacked: Mapping[str, tuple[str, Shard]]) -> set[str]:
    module, here, rest, shard = model, "", name, None
    while True:
        head, _, tail = rest.partition(".")
        if head in stacked and not hasattr(module, head):
            head, shard = stacked[head]
        child = getattr(module, head, None)
        if isinstance(child, nn.Module) and tail:
            module, here, rest = child, f"{here}{head}.", tail
            if isinstance(module, TakesWeights):
                try:
                    return {here + key for key in module.load_weight(rest, tensor, shard)}
                except WeightError as error:
                    raise error.of(name) from None
            continue
        if isinstance(child, torch.Tensor) and not tail:
            cut = getattr(child, _CUT, None)
            copy_into(child, cut(tensor) if cut else tensor, name)
            return {here + head}
        remedy = "This architecture has no such parameter: is config.json the checkpoint's own?"
        raise WeightError(name, "a parameter of the model", "a name that leads to none", remedy)


def _wanted(model: nn.Module) -> set[str]:
    """Every parameter's key, once however many names it has (a tied LM head is the embedding)."""
    wanted: set[str] = set()
    layers = {name: one for name, one in model.named_modules() if isinstance(one, TakesWeights)}
    for name, layer in layers.items():
        wanted |= {f"{name}.{key}" for key in layer.weight_keys()}
    for name, _ in model.named_parameters():
        if not any(name.startswith(f"{layer}.") for layer in layers):
            wanted.add(name)
    return wanted

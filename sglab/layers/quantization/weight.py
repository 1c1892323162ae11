"""QuantizedWeight: a matrix, or one per expert, in its checkpoint's format. QuantizedMatrix: several over one input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import nn

from sglab.layers.loading import WeightError, copy_into
from sglab.layers.quantization.repacked import repacked
from sglab.layers.quantization.scheme import Axis, Scheme, Stored


class Cut(NamedTuple):
    """Where this rank's part of a whole matrix begins, in features."""

    row: int
    whole_out: int
    column: int
    whole_in: int


class QuantizedWeight(nn.Module):
    """This rank's [out, in] of one matrix.

    Args:
        whole_in: input features of all ranks together.
        experts: hold one matrix per expert.
        label: the layer's name in the checkpoint, for messages.
    """

    def __init__(
        self, scheme: Scheme, shape: tuple[int, int], whole_in: int, experts: int | None = None, label: str = ""
    ) -> None:
        super().__init__()
        self.scheme, self.shape, self.whole_in, self.experts, self.label = scheme, shape, whole_in, experts, label
        self._names = tuple(one.name for one in scheme.stored)
        leading = () if experts is None else (experts,)
        for one in scheme.stored:
            size = (*leading, *one.shape(*shape, whole_in))
            tensor = torch.zeros(size, dtype=one.dtype)
            if one.optional is not None:
                tensor.fill_(one.optional)
            self.register_parameter(one.name, nn.Parameter(tensor, requires_grad=False))

    def names(self) -> list[str]:
        """Tensors that a checkpoint must have."""
        return [one.name for one in self.scheme.stored if one.optional is None]

    def tensors(self, expert: int | None = None) -> dict[str, torch.Tensor]:
        """By name; with experts, of one of them or of all."""
        whole: dict[str, torch.Tensor] = {name: getattr(self, name) for name in self._names}
        return whole if expert is None else {name: tensor[expert] for name, tensor in whole.items()}

    def takes(self, name: str) -> bool:
        """Whether a checkpoint's tensor of this name belongs here, or is passed over."""
        return name in self.scheme.ignored or name in self._names

    def load(self, name: str, tensor: torch.Tensor, cut: Cut, expert: int | None = None) -> None:
        """Store this rank's part of a checkpoint's tensor.

        Raises:
            WeightError: another dtype or shape than the format's, or a cut through a block.
        """
        if name in self.scheme.ignored:
            return
        one = next(one for one in self.scheme.stored if one.name == name)
        label = f"{self.label}{name}"
        kept = self.tensors(expert)[name]
        given = as_stored(one, tensor, label)
        if one.fills:
            if given.numel() != 1:
                raise WeightError(label, "one number", tuple(tensor.shape), "Is quantization_config its own?")
            with torch.no_grad():
                kept.fill_(given.reshape(()))
            return
        expected = one.shape(cut.whole_out, cut.whole_in, cut.whole_in)
        if given.dim() == len(expected) + 1 and given.shape[-1] == 1:
            given = given[..., 0]  # a scale per channel, [out, 1]
        if tuple(given.shape) != expected:
            remedy = "The checkpoint does not belong to this config.json, or its quantization_config is another's."
            raise WeightError(label, f"shape {expected}", tuple(given.shape), remedy)
        for dim, axis in enumerate(one.axes):
            given = given.narrow(dim, _start(axis, cut, label), kept.shape[dim])
        copy_into(kept, given, label)

    def check(self) -> None:
        """Refuse contents that no checkpoint of the format has.

        Raises:
            WeightError: such a tensor.
        """
        for expert in [None] if self.experts is None else range(self.experts):
            label = self.label if expert is None else f"{self.label}{expert}."
            self.scheme.check(self.tensors(expert), label)

    def settle(self) -> None:
        """Change what a rank's part keeps otherwise than the whole; done once, after loading."""
        with torch.no_grad():
            for expert in [None] if self.experts is None else range(self.experts):
                self.scheme.settle(self.tensors(expert), self.whole_in)

    def repack(self) -> None:
        """Bring a matrix of GPTQ or AWQ into Marlin's layout, where that has a place for it; experts stay."""
        made = None if self.experts is not None else repacked(self.scheme, self.tensors(), self.shape)
        if made is None:
            return
        for name in self._names:
            delattr(self, name)
        self.scheme, tensors = made
        self._names = tuple(tensors)
        for name, tensor in tensors.items():
            self.register_parameter(name, nn.Parameter(tensor, requires_grad=False))

    def dense(self, expert: int | None = None) -> torch.Tensor:
        """float32 [out, in]."""
        return self.scheme.dequantize(self.tensors(expert), self.shape)

    def forward(self, x: torch.Tensor, expert: int | None = None) -> torch.Tensor:
        """[tokens, in] -> [tokens, out]."""
        return self.scheme.linear(x, self.tensors(expert), self.shape)


def as_stored(one: Stored, tensor: torch.Tensor, label: str) -> torch.Tensor:
    """A checkpoint's tensor in the format's dtype, if it has it.

    Raises:
        WeightError: it has another.
    """
    right = tensor.dtype == one.dtype or (one.dtype == torch.float32 and tensor.dtype.is_floating_point)
    if right:
        return tensor
    same_bits = {torch.uint8: (torch.int8, getattr(torch, "float8_e8m0fnu", None)), torch.int32: (torch.int64,)}
    if tensor.dtype in same_bits.get(one.dtype, ()):
        return tensor.view(torch.uint8) if one.dtype == torch.uint8 else tensor.to(torch.int32)
    remedy = "Is quantization_config in config.json the checkpoint's own?"
    raise WeightError(label, f"dtype {one.dtype}", tensor.dtype, remedy)


def _start(axis: Axis, cut: Cut, label: str) -> int:
    """The entry at which this rank's part begins."""
    feature = 0 if axis.whole else cut.row if axis.of == "out" else cut.column
    if feature % axis.features:
        expected = f"parts of whole blocks of {axis.features} features"
        raise WeightError(label, expected, f"one that begins at {feature}", "Use fewer tensor-parallel ranks.")
    return feature // axis.features * axis.entries


class QuantizedMatrix(nn.Module):
    """Matrices over the same input, one below the other: what a merged linear multiplies with.

    Where all have one format and no block crosses from one to the next, `join` makes them one.
    """

    def __init__(self, parts: Sequence[QuantizedWeight]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def part(self, number: int) -> QuantizedWeight:
        found = self.parts[number]
        assert isinstance(found, QuantizedWeight)
        return found

    def each(self) -> list[QuantizedWeight]:
        return [self.part(i) for i in range(len(self.parts))]

    def join(self) -> None:
        """Make the parts one matrix, if that is the same function; done once, after loading."""
        parts = self.each()
        if len(parts) > 1 and _joinable(parts):
            self.parts = nn.ModuleList([_joined(parts)])

    def dense(self, expert: int | None = None) -> torch.Tensor:
        """float32 [out, in]."""
        return torch.cat([one.dense(expert) for one in self.each()])

    def process_weights_after_loading(self) -> None:
        """Check what was loaded and join the parts; on a GPU bring them into the layout that it multiplies by."""
        for one in self.each():
            one.check()
            one.settle()
        self.join()
        for one in self.each():
            if next(one.parameters()).is_cuda:
                one.repack()

    def forward(self, x: torch.Tensor, expert: int | None = None) -> torch.Tensor:
        """[tokens, in] -> [tokens, out], the parts' outputs one after another."""
        outputs = [one(x, expert) for one in self.each()]
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs, -1)


def _joinable(parts: Sequence[QuantizedWeight]) -> bool:
    first = parts[0]
    if any(one.scheme != first.scheme for one in parts):
        return False
    for stored in first.scheme.stored:
        axes = [axis for axis in stored.axes if axis.of == "out"]
        if axes and any(one.shape[0] % axes[0].features for one in parts):
            return False
        tensors = [one.get_parameter(stored.name) for one in parts]
        if not axes and any(not torch.equal(tensor, tensors[0]) for tensor in tensors):
            return False
    return True


def _joined(parts: Sequence[QuantizedWeight]) -> QuantizedWeight:
    first = parts[0]
    leading = 0 if first.experts is None else 1
    shape = (sum(one.shape[0] for one in parts), first.shape[1])
    with first.get_parameter(first.scheme.stored[0].name).device:
        whole = QuantizedWeight(first.scheme, shape, first.whole_in, first.experts, first.label)
    for stored in first.scheme.stored:
        dims = [dim for dim, axis in enumerate(stored.axes) if axis.of == "out"]
        tensors = [one.get_parameter(stored.name).detach() for one in parts]
        joined = torch.cat(tensors, dims[0] + leading) if dims else tensors[0]
        whole.register_parameter(stored.name, nn.Parameter(joined, requires_grad=False))
    return whole

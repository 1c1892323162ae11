"""Explaining what is wrong with an operator's arguments, before anything runs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NoReturn

import torch

from sglab.kernels.known_calls import call_is_known

INT32 = (torch.int32,)
INDEX = (torch.int32, torch.int64)
FLOATS = (torch.float32, torch.float16, torch.bfloat16)


class ContractError(ValueError):
    """An argument breaks an operator's contract; nothing was read or written.

    Attributes: operator, argument, expected, got, remedy (all text, the message holds all five).
    """

    def __init__(self, operator: str, argument: str, expected: str, got: str, remedy: str) -> None:
        super().__init__(f"{operator}: {argument} must be {expected}; got {got}. {remedy}")
        self.operator, self.argument, self.expected, self.got, self.remedy = operator, argument, expected, got, remedy


class Contract:
    """Checks one call. Dimensions are named: the first tensor that has a dimension fixes its size for the others.

    In a call like one that was found right (`known_calls`) only contents and overlaps are looked at.
    """

    def __init__(self, operator: str) -> None:
        self.operator = operator
        self.known = call_is_known()
        self.sizes: dict[str, int] = {}
        self._fixed_by: dict[str, str] = {}
        self._device: tuple[torch.device, str] | None = None
        self._passed: list[tuple[torch.Tensor, str]] = []

    def fail(self, argument: str, expected: str, got: str, remedy: str) -> NoReturn:
        raise ContractError(self.operator, argument, expected, got, remedy)

    def require(self, holds: bool, argument: str, expected: str, got: object, remedy: str) -> None:
        if not holds and not self.known:
            self.fail(argument, expected, str(got), remedy)

    def size(self, dimension: str) -> int:
        if self._passed and dimension not in self.sizes:
            for value, shape in self._passed:
                for name, size in zip(shape.split(), value.shape, strict=True):
                    self.sizes.setdefault(name, size)
            self._passed.clear()
        return self.sizes[dimension]

    def fix(self, dimension: str, size: int, argument: str) -> None:
        """Give a named dimension its size, as `argument` says."""
        self.sizes[dimension] = size
        self._fixed_by[dimension] = argument

    def tensor(
        self,
        argument: str,
        value: Any,
        shape: str,
        dtypes: Collection[torch.dtype] | None = None,
        *,
        dense: bool = True,
    ) -> None:
        """Require a tensor of this shape ("tokens heads 64"), of one of these dtypes, on the device of the others.

        Args:
            dense: the last dimension must be contiguous (stride 1), as every kernel here assumes.
        """
        if self.known:
            self._passed.append((value, shape))
            return
        if not isinstance(value, torch.Tensor):
            self.fail(argument, "a torch.Tensor", f"{type(value).__name__}", "Pass a tensor.")
        self._shape(argument, value, shape.split())
        if dtypes is not None and value.dtype not in dtypes:
            wanted = " or ".join(_name(dtype) for dtype in dtypes)
            self.fail(argument, wanted, _name(value.dtype), f"Convert it: {argument}.to({next(iter(dtypes))}).")
        if self._device is None:
            self._device = value.device, argument
        elif value.device != self._device[0]:
            device, other = self._device
            self.fail(
                argument, f"on {device}, as {other} is", f"on {value.device}", f"Move it: {argument}.to('{device}')."
            )
        if dense and value.ndim and value.shape[-1] > 1 and value.stride(-1) != 1:
            self.fail(
                argument,
                "contiguous in its last dimension",
                f"strides {tuple(value.stride())}",
                f"Pass {argument}.contiguous().",
            )

    def _shape(self, argument: str, value: torch.Tensor, dimensions: list[str]) -> None:
        shape = tuple(value.shape)
        named = "(" + ", ".join(dimensions) + ")"
        if len(shape) != len(dimensions):
            self.fail(argument, f"{len(dimensions)}-dimensional {named}", f"shape {shape}", "Reshape it.")
        for dimension, size in zip(dimensions, shape, strict=True):
            if dimension.isdecimal():
                self.require(size == int(dimension), argument, f"of shape {named}", f"shape {shape}", "Reshape it.")
            elif dimension not in self.sizes:
                self.fix(dimension, size, argument)
            elif size != self.sizes[dimension]:
                source = self._fixed_by[dimension]
                self.fail(
                    argument,
                    f"of shape {named} with {dimension} = {self.sizes[dimension]}, as {source} has",
                    f"shape {shape}",
                    f"Make the {dimension} of {argument} and {source} agree.",
                )

    def same_dtype(self, **tensors: torch.Tensor) -> None:
        """Require one dtype of all, the first one's."""
        if self.known:
            return
        (first, leader), *others = tensors.items()
        for name, tensor in others:
            self.require(
                tensor.dtype == leader.dtype,
                name,
                f"{_name(leader.dtype)}, as {first} is",
                _name(tensor.dtype),
                f"Convert it: {name}.to({first}.dtype).",
            )

    def apart(self, argument: str, output: torch.Tensor, **others: torch.Tensor | None) -> None:
        """Require an output to share no memory with other tensors: it is written while they are read.

        Two strided tensors may be between each other's rows; of these only a common start is refused.
        """
        start, end = _span(output)
        for name, other in others.items():
            if other is None:
                continue
            first, last = _span(other)
            dense = output.is_contiguous() or other.is_contiguous()
            if start < last and first < end and (dense or start == first):
                shared = f"an overlap of {min(end, last) - max(start, first)} bytes"
                self.fail(argument, f"memory separate from {name}", shared, "Pass a tensor of its own.")

    def elements(self, argument: str, holds: torch.Tensor, expected: str, values: torch.Tensor, remedy: str) -> None:
        """Require a condition of every element; `holds` and `values` have one shape. Reads the tensors' contents."""
        if bool(holds.all()):
            return
        index = tuple(torch.nonzero(~holds)[0].tolist())
        self.fail(argument, expected, f"{argument}[{', '.join(map(str, index))}] = {values[index].item()}", remedy)


class Apart:
    """`Contract.apart` for calls like one that was checked: of tensors of the same shapes and strides, which lie
    elsewhere.

    Args:
        operator: that errors are to name.
        outputs, others: of that call, by the names of their arguments: each output is held against each other.
    """

    def __init__(self, operator: str, outputs: dict[str, torch.Tensor], others: dict[str, torch.Tensor]) -> None:
        self._operator, self._outputs, self._others = operator, tuple(outputs), tuple(others)
        self._lengths = [_length(output) for output in outputs.values()]
        self._other_lengths = [_length(other) for other in others.values()]

    def __call__(self, outputs: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> None:
        """
        Raises:
            ContractError: an output shares memory with one of the others.
        """
        starts = [output.data_ptr() for output in outputs]
        for i, other in enumerate(others):
            first = other.data_ptr()
            end = first + self._other_lengths[i]
            for j, start in enumerate(starts):
                if start < end and first < start + self._lengths[j]:
                    contract = Contract(self._operator)
                    contract.apart(self._outputs[j], outputs[j], **{self._others[i]: other})


def _length(tensor: torch.Tensor) -> int:
    start, end = _span(tensor)
    return end - start


def reads_values(check_values: bool | None, device: torch.device) -> bool:
    """Whether to check contents (indices in range, finite caches) and not only shapes.

    By default on the CPU yes, on a GPU no: there it would wait for the device and break graph capture.
    """
    return device.type == "cpu" if check_values is None else check_values


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """First byte, and one past the last."""
    start = tensor.data_ptr()
    if tensor.is_contiguous():
        return start, start + tensor.nbytes
    if tensor.numel() == 0:
        return start, start
    last = sum((length - 1) * stride for length, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return start, start + (last + 1) * tensor.element_size()


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")

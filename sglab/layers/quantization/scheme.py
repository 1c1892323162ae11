"""Scheme: how a format keeps a matrix [out, in] in a checkpoint's tensors, and what it stands for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch.nn import functional

from sglab.layers.loading import WeightError

Tensors = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Axis:
    """A dimension of a stored tensor: `entries` of it hold `features` of the matrix's output or input features.

    Attributes:
        whole: every rank keeps all of it (scales of groups that are not neighbours).
    """

    of: Literal["out", "in"]
    features: int = 1
    entries: int = 1
    whole: bool = False

    def size(self, features: int) -> int:
        """Entries for so many features; the last block may be a part of one."""
        return -(-features // self.features) * self.entries


@dataclass(frozen=True)
class Stored:
    """One tensor of a matrix.

    Attributes:
        name: as the checkpoint has it, after the layer's name.
        dtype: the checkpoint's; torch.float32 for scales, which may come in any floating-point dtype.
        fills: one number in the checkpoint stands for every entry.
        optional: what it is where the checkpoint has none; None: it must be there.
    """

    name: str
    dtype: torch.dtype
    axes: tuple[Axis, ...] = ()
    fills: bool = False
    optional: float | None = None

    def shape(self, out_features: int, in_features: int, whole_in: int) -> tuple[int, ...]:
        """Its shape for a matrix of which this rank has [out_features, in_features]."""
        sizes = {"out": out_features, "in": in_features}
        return tuple(axis.size(whole_in if axis.whole else sizes[axis.of]) for axis in self.axes)


class Scheme(ABC):
    """One format. Instances are values: equal ones read the same tensors in the same way.

    Attributes:
        ignored: names that checkpoints have beside the stored ones, and that hold nothing new.
    """

    ignored: frozenset[str] = frozenset()

    @property
    @abstractmethod
    def stored(self) -> tuple[Stored, ...]:
        """The tensors of one matrix."""

    @abstractmethod
    def dequantize(self, tensors: Tensors, shape: tuple[int, int]) -> torch.Tensor:
        """The matrix, float32 `shape` = [out, in]."""

    def check(self, tensors: Tensors, label: str) -> None:
        """Refuse contents that no checkpoint has. By default: scales are finite and not negative.

        Args:
            label: the layer's name, for the message.

        Raises:
            WeightError: one is not.
        """
        for one in self.stored:
            if one.dtype == torch.float32 or one.name == "weight_scale":
                require_scales(tensors[one.name], f"{label}{one.name}")

    def settle(self, tensors: Tensors, whole_in: int) -> None:  # noqa: B027 - most read a part as they read the whole
        """After loading, change in place what a rank's part keeps otherwise than the matrix of `whole_in` features."""

    def activation(self, x: torch.Tensor, tensors: Tensors) -> torch.Tensor:
        """x as the product sees it: rounded to the format and widened to float32, or x itself."""
        return x

    def linear(self, x: torch.Tensor, tensors: Tensors, shape: tuple[int, int]) -> torch.Tensor:
        """[tokens, in] -> [tokens, out], in x's dtype."""
        seen = self.activation(x, tensors)
        return functional.linear(seen, self.dequantize(tensors, shape).to(seen.dtype)).to(x.dtype)


def require_scales(scales: torch.Tensor, name: str) -> None:
    """Refuse scales that are not finite or negative.

    Raises:
        WeightError: one is.
    """
    wide = scales.float()
    bad = ~torch.isfinite(wide) | (wide < 0)
    if bad.any():
        got = f"{float(wide[bad][0])} at {int(bad.sum())} of {bad.numel()}"
        raise WeightError(name, "finite scales of at least 0", got, "The file is damaged: fetch it again.")

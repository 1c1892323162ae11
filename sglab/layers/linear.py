"""Linear layers that hold this rank's shard: replicated, column-, merged-column-, QKV- and row-parallel.

Weights are [out, in], as in checkpoints. A column-parallel layer cuts the output features, a row-parallel one the input
features and then sums over ranks. Source: SGLang `layers/linear.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import nn
from torch.nn import functional

from sglab.engine.errors import BadArgumentError
from sglab.layers.loading import Shard, copy_into
from sglab.layers.parallel import SINGLE, TensorParallel
from sglab.layers.quantization.scheme import Scheme
from sglab.layers.quantization.weight import Cut, QuantizedMatrix, QuantizedWeight


class ReplicatedLinear(nn.Module):
    """y = x Wᵀ + b, the same on every rank.

    Attributes:
        weight: [out, in]; empty where `quantized` holds it.
        quantized: the weight in its checkpoint's format; None: it is not quantised.
    """

    quantized: QuantizedMatrix | None

    def __init__(self, input_size: int, output_size: int, bias: bool = False) -> None:
        super().__init__()
        self.input_size, self.output_size = input_size, output_size
        self.weight = nn.Parameter(torch.empty(output_size, input_size), requires_grad=False)
        self.bias = nn.Parameter(torch.empty(output_size), requires_grad=False) if bias else None
        self.quantized = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.multiply(x, self.bias)

    def multiply(self, x: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """x Wᵀ + bias, of this rank's shard."""
        if self.quantized is None:
            return functional.linear(x, self.weight, bias)
        y = self.quantized(x)
        return y if bias is None else y + bias

    def output_sizes(self) -> list[int]:
        """Output features of this rank, of each matrix that is merged here."""
        return [self.output_size]

    def cut(self, part: int) -> Cut:
        """Where this rank's share of a matrix begins."""
        return Cut(0, self.output_size, 0, self.input_size)

    def quantize(self, schemes: Sequence[Scheme], label: str = "") -> None:
        """Hold the weight in a checkpoint's format instead, one for each matrix that is merged here."""
        cuts = [self.cut(part) for part in range(len(schemes))]
        with self.weight.device:
            self.quantized = QuantizedMatrix(
                [
                    QuantizedWeight(scheme, (size, self.input_size), cut.whole_in, label=label)
                    for scheme, size, cut in zip(schemes, self.output_sizes(), cuts, strict=True)
                ]
            )
        self.weight = nn.Parameter(self.weight.new_empty(0), requires_grad=False)

    def widen(self) -> torch.Tensor:
        """The weight in full precision, and so it stays: for layers that use it in another way than this one."""
        if self.quantized is not None:
            with torch.no_grad():
                wide = self.quantized.dense().to(self.weight.dtype)
            self.weight, self.quantized = nn.Parameter(wide, requires_grad=False), None
        return self.weight

    def weight_keys(self) -> list[str]:
        return [*self.weight_names(0), *(["bias"] if self.bias is not None else [])]

    def weight_names(self, part: int) -> list[str]:
        """Tensors of a merged matrix that a checkpoint must have."""
        return ["weight"] if self.quantized is None else self.quantized.part(part).names()

    def load_weight(self, path: str, tensor: torch.Tensor, shard: Shard) -> list[str]:
        if not self.load_quantized(path, tensor, 0):
            copy_into(self.parameter(path), tensor, path)
        return [path]

    def load_quantized(self, path: str, tensor: torch.Tensor, part: int) -> bool:
        """Store a tensor of a quantised matrix; False: it is none."""
        if self.quantized is None or not self.quantized.part(part).takes(path):
            return False
        self.quantized.part(part).load(path, tensor, self.cut(part))
        return True

    def parameter(self, path: str) -> torch.Tensor:
        """The weight or the bias.

        Raises:
            BadArgumentError: this layer has no parameter of that name.
        """
        found = getattr(self, path, None)
        if not isinstance(found, torch.Tensor) or (path == "weight" and self.quantized is not None):
            remedy = "The checkpoint has more than config.json says; is it quantised?"
            raise BadArgumentError(path, " or ".join(self.weight_keys()), "a name that leads to none", remedy)
        return found


class MergedColumnParallelLinear(ReplicatedLinear):
    """Several matrices over the same input as one: gate and up. Each is cut over ranks by itself, and then joined."""

    def __init__(
        self, input_size: int, output_sizes: Sequence[int], bias: bool = False, tp: TensorParallel = SINGLE
    ) -> None:
        self.tp = tp
        self.part_sizes = [tp.divide("output_size", size) for size in output_sizes]
        super().__init__(input_size, sum(self.part_sizes), bias)

    def output_sizes(self) -> list[int]:
        return self.part_sizes

    def cut(self, part: int) -> Cut:
        size = self.part_sizes[part]
        return Cut(self.tp.rank * size, self.tp.size * size, 0, self.input_size)

    def weight_keys(self) -> list[str]:
        return merged_keys(self, range(len(self.part_sizes)))

    def load_weight(self, path: str, tensor: torch.Tensor, shard: Shard) -> list[str]:
        part = 0 if shard is None and len(self.part_sizes) == 1 else shard
        if isinstance(part, int) and self.load_quantized(path, tensor, part):
            return [f"{path}.{part}"]
        parameter = self.parameter(path)
        if shard is None:  # the checkpoint has the parts joined already
            wholes = [size * self.tp.size for size in self.part_sizes]
            parts = tensor.split(wholes) if sum(wholes) == len(tensor) else [tensor]
            return [key for i, part in enumerate(parts) for key in self.load_weight(path, part, i)]
        assert isinstance(shard, int)
        start = sum(self.part_sizes[:shard])
        mine = parameter[start : start + self.part_sizes[shard]]
        copy_into(mine, self.tp.shard(tensor, 0), path)
        return [f"{path}.{shard}"]


class ColumnParallelLinear(MergedColumnParallelLinear):
    """Each rank computes its share of the output features."""

    def __init__(self, input_size: int, output_size: int, bias: bool = False, tp: TensorParallel = SINGLE) -> None:
        super().__init__(input_size, [output_size], bias, tp)


class QKVParallelLinear(ReplicatedLinear):
    """Q, K and V projections as one. With more ranks than KV heads, neighbouring ranks hold the same KV head; ranks
    that share a request's context hold the same heads in any case.

    Attributes:
        num_heads, num_kv_heads: of this rank.
        q_size, kv_size, v_size: output features of this rank, for splitting the result.
    """

    def __init__(
        self,
        hidden_size: int,
        head_size: int,
        total_num_heads: int,
        total_num_kv_heads: int,
        bias: bool = False,
        tp: TensorParallel = SINGLE,
        v_head_size: int | None = None,
    ) -> None:
        self.tp = tp
        self.num_heads = tp.divide("num_attention_heads", total_num_heads)
        over = tp.kv_heads
        if over.size >= total_num_kv_heads:
            self.replicas = TensorParallel(0, total_num_kv_heads).divide("tensor-parallel size", over.size)
            self.num_kv_heads = 1
        else:
            self.replicas = 1
            self.num_kv_heads = over.divide("num_key_value_heads", total_num_kv_heads)
        self.replicas *= tp.dcp_size
        self.q_size = self.num_heads * head_size
        self.kv_size = self.num_kv_heads * head_size
        self.v_size = self.num_kv_heads * (v_head_size or head_size)
        super().__init__(hidden_size, self.q_size + self.kv_size + self.v_size, bias)

    def split(self, qkv: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The layer's output as q, k and v, each [tokens, heads · dim] of this rank."""
        q, k, v = qkv.split([self.q_size, self.kv_size, self.v_size], -1)
        return q, k, v

    def output_sizes(self) -> list[int]:
        return [self.q_size, self.kv_size, self.v_size]

    def cut(self, part: int) -> Cut:
        size, ranks, rank = self.output_sizes()[part], self.tp.size, self.tp.rank
        if part > 0:
            ranks, rank = ranks // self.replicas, rank // self.replicas
        return Cut(rank * size, ranks * size, 0, self.input_size)

    def weight_keys(self) -> list[str]:
        return merged_keys(self, "qkv")

    def load_weight(self, path: str, tensor: torch.Tensor, shard: Shard) -> list[str]:
        if isinstance(shard, str) and self.load_quantized(path, tensor, "qkv".index(shard)):
            return [f"{path}.{shard}"]
        parameter = self.parameter(path)
        starts = {"q": 0, "k": self.q_size, "v": self.q_size + self.kv_size}
        sizes = {"q": self.q_size, "k": self.kv_size, "v": self.v_size}
        assert isinstance(shard, str)
        rank = self.tp.rank if shard == "q" else self.tp.rank // self.replicas
        mine = parameter[starts[shard] : starts[shard] + sizes[shard]]
        copy_into(mine, tensor[rank * sizes[shard] : (rank + 1) * sizes[shard]], f"{shard}_proj.{path}")
        return [f"{path}.{shard}"]


class RowParallelLinear(ReplicatedLinear):
    """Each rank multiplies its share of the input features; the sum over ranks is the result. Rank 0 adds the bias.

    Args:
        reduce_results: False leaves the sum to the caller.
    """

    def __init__(
        self,
        input_size: int,
        output_size: int,
        bias: bool = False,
        tp: TensorParallel = SINGLE,
        reduce_results: bool = True,
    ) -> None:
        super().__init__(tp.divide("input_size", input_size), output_size, bias)
        self.tp, self.reduce_results = tp, reduce_results

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.multiply(x, self.bias if self.tp.rank == 0 else None)
        return self.tp.all_reduce(y) if self.reduce_results else y

    def cut(self, part: int) -> Cut:
        return Cut(0, self.output_size, self.tp.rank * self.input_size, self.tp.size * self.input_size)

    def load_weight(self, path: str, tensor: torch.Tensor, shard: Shard) -> list[str]:
        if not self.load_quantized(path, tensor, 0):
            copy_into(self.parameter(path), self.tp.shard(tensor, 1) if path == "weight" else tensor, path)
        return [path]


def merged_keys(layer: ReplicatedLinear, parts: Iterable[int | str]) -> list[str]:
    """Keys of a layer of several matrices: every tensor of each, "weight.q"."""
    biases = ["bias"] if layer.bias is not None else []
    return [f"{name}.{part}" for i, part in enumerate(parts) for name in [*layer.weight_names(i), *biases]]

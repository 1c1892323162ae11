"""Who holds what: of every weight of a model the part that this rank has."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from sglab.layers.embedding import ParallelLMHead, VocabParallelEmbedding
from sglab.layers.linear import (
    MergedColumnParallelLinear,
    QKVParallelLinear,
    ReplicatedLinear,
    RowParallelLinear,
)
from sglab.layers.loading import is_cut
from sglab.layers.moe import FusedMoE


@dataclass(frozen=True)
class Part:
    """A range of one matrix that is cut: rows (output features, token ids, experts) or columns (input features).

    Attributes:
        name: which of several matrices that are merged: "q", "gate"; empty: there is one.
        axis: "out", "in", "vocab" or "expert".
        start, stop, whole: of that axis; ids: experts that are held, where they are not a range.
    """

    name: str
    axis: str
    start: int
    stop: int
    whole: int
    ids: tuple[int, ...] = ()


@dataclass(frozen=True)
class Shard:
    """What one rank holds of one weight.

    Attributes:
        name: of the module, or the parameter.
        kind: "column", "row", "qkv", "merged", "replicated", "vocab", "expert" or "cut" (by the layer's own rule).
        nbytes: held here, biases and scales included.
        parts: what is held of each matrix; empty: all of it.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    nbytes: int
    parts: tuple[Part, ...]


def shards_of(model: nn.Module) -> list[Shard]:
    """In the order of the model's modules; a tied LM head is the embedding's."""
    found: list[Shard] = []
    inside: set[int] = set()
    for name, module in model.named_modules():
        if any(id(parameter) in inside for parameter in module.parameters(recurse=False)):
            continue
        made = _shard(name, module)
        if made is None:
            continue
        found.append(made)
        inside |= {id(parameter) for parameter in module.parameters()}
    for name, parameter in model.named_parameters():
        if id(parameter) not in inside:
            size = parameter.numel() * parameter.element_size()
            found.append(Shard(name, "cut" if is_cut(parameter) else "replicated", tuple(parameter.shape), size, ()))
    order = {name: at for at, (name, _) in enumerate(model.named_modules())}
    return sorted(found, key=lambda one: order.get(one.name, order.get(one.name.rpartition(".")[0], 0)))


def _shard(name: str, module: nn.Module) -> Shard | None:
    parts: tuple[Part, ...]
    if isinstance(module, QKVParallelLinear):
        kind, parts = "qkv", tuple(_rows(module, part, "qkv"[part]) for part in range(3))
    elif isinstance(module, MergedColumnParallelLinear):
        many = len(module.part_sizes)
        names = ("gate", "up") if many == 2 else tuple(map(str, range(many))) if many > 1 else ("",)
        kind = "merged" if many > 1 else "column"
        parts = tuple(_rows(module, part, names[part]) for part in range(many))
    elif isinstance(module, RowParallelLinear):
        cut = module.cut(0)
        kind, parts = "row", (Part("", "in", cut.column, cut.column + module.input_size, cut.whole_in),)
    elif isinstance(module, ReplicatedLinear):
        kind, parts = "replicated", ()
    elif isinstance(module, VocabParallelEmbedding):
        if isinstance(module, ParallelLMHead) and module.tied:
            return None
        whole = module.num_embeddings
        first, last = (min(each, whole) for each in (module.first, module.first + module.rows))
        kind, parts = "vocab", (Part("", "vocab", first, last, whole),)
    elif isinstance(module, FusedMoE):
        places = len(module.location.physical_to_logical)
        first = module.tp.ep_rank * module.location.per_rank
        start = module.slices.rank * module.size
        kind = "expert"
        parts = (
            Part("experts", "expert", first, first + len(module.here), places, tuple(module.here)),
            Part("slice", "out", start, start + module.size, module.size * module.slices.size),
        )
    else:
        return None
    tensors = list(module.parameters()) + list(module.buffers())
    weight = next((one for one in module.parameters() if one.numel()), None)
    shape = () if weight is None else tuple(weight.shape)
    return Shard(name, kind, shape, sum(one.numel() * one.element_size() for one in tensors), parts)


def _rows(module: ReplicatedLinear, part: int, name: str) -> Part:
    cut, size = module.cut(part), module.output_sizes()[part]
    return Part(name, "out", cut.row, cut.row + size, cut.whole_out)

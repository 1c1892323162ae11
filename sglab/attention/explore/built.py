"""What a backend built for a pass, read off the object: arrays, numbers, scratch and buffers that it keeps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch

from sglab.attention.arithmetic import PagedRows
from sglab.attention.base import AttentionBackend
from sglab.attention.flashinfer.wrapper import Shape, Wrapper
from sglab.attention.workspace import Workspace

METADATA = ("forward_metadata", "forward_metadata_spec_decode_expand", "forward_prefill_metadata")
"""Attributes that hold what a pass shares, under SGLang's names."""
SCRATCH = ("attn_logits", "attn_lse", "workspace")
"""Tensors that kernels write and read back, not index arrays."""
SHAPES = {
    "attn_logits_shape": "scores of every key, where it is dense",
    "att_out_approx_shape": "scores by heavy channels",
    "mid_out_shape": "partial outputs",
    "wave_attn_logits_shape": "partial outputs",
    "wave_attn_lse_shape": "LSE of the partial outputs",
}
"""Scratch that only its shape stands for here, float32; double sparsity's partial outputs have an LSE each."""
TABLES = ("kv_indices", "table", "tables", "page_table_1", "ds_req_to_token")
"""How the names of arrays end that name rows or pages of the KV pool: a row for each request, or all of them flat."""
OURS = (PagedRows, Shape)
"""Parts that are this library's own: the arithmetic's view of the same arrays, and what plans depend on."""


@dataclass(frozen=True)
class BuiltArray:
    """`values`: the tensor itself. `same_as`: an array that lies at the same place; its bytes are counted there."""

    name: str
    values: torch.Tensor
    same_as: str = ""

    @property
    def nbytes(self) -> int:
        return 0 if self.same_as else self.values.nbytes

    @property
    def on_host(self) -> bool:
        return self.name.endswith(("_cpu", "_cpu_int"))


@dataclass(frozen=True)
class Scratch:
    """Bytes that kernels work in. `kept`: allocated once per process, and what for; "": of this pass."""

    name: str
    nbytes: int
    kept: str = ""


@dataclass(frozen=True)
class Built:
    """`numbers`: what the metadata hold beside tensors. `graph_bytes`: buffers that captured graphs read."""

    arrays: tuple[BuiltArray, ...]
    numbers: dict[str, Any]
    scratch: tuple[Scratch, ...]
    graph_bytes: int = 0

    @property
    def nbytes(self) -> int:
        """Of all arrays, each counted once."""
        return sum(array.nbytes for array in self.arrays)

    def read_bytes(self, keys: Sequence[int], read: Sequence[int], page_size: int) -> int:
        """What a layer must read of the arrays: tables are as wide as the longest request, and in a graph's replay as
        the longest that was captured; a kernel follows them as far as the rows of KV that it reads.

        Args:
            keys: per request, keys there are; read: those that any query sees.
        """
        total = 0
        for array in self.arrays:
            needed = array.nbytes
            if array.name.endswith(TABLES):
                flat = array.values.dim() == 1
                by_row = not flat and array.values.shape[0] == len(read)
                size = 1 if flat or array.values.shape[-1] >= max(keys, default=0) else page_size
                if flat or by_row:
                    needed = array.values.element_size() * sum(-(-rows // size) for rows in read)
            total += min(array.nbytes, needed)
        return total

    @property
    def partials(self) -> int:
        """Room for partial outputs and their LSE in the metadata: what a kernel without a plan here writes at most."""
        names = ("attn_logits", "attn_lse", "partial outputs", "LSE of the partial outputs")
        return sum(each.nbytes for each in self.scratch if each.name in names)

    @property
    def pass_scratch(self) -> int:
        return sum(each.nbytes for each in self.scratch if not each.kept)

    @property
    def kept_scratch(self) -> int:
        return sum(each.nbytes for each in self.scratch if each.kept)


def built_by(backend: AttentionBackend, gathered: object | None = None) -> Built:
    """What `prepare`, or `prepare_replay`, left in a backend and in the one that serves the pass.

    Args:
        gathered: metadata that are not the backend's: of prefixes that other ranks have (`GatheredPrefix`).
    """
    parts: dict[str, Any] = dict(_walk(gathered, ""))
    for each in dict.fromkeys((backend.serving, backend)):
        for attribute in METADATA:
            made = getattr(each, attribute, None)
            stale = each is not backend.serving and attribute != "forward_prefill_metadata"
            if made is not None and not stale:
                prefix = "" if attribute == METADATA[0] else f"{attribute.removeprefix('forward_')}."
                parts |= dict(_walk(made, prefix))
    arrays: list[BuiltArray] = []
    numbers: dict[str, Any] = {}
    scratch: list[Scratch] = []
    for name, value in parts.items():
        last = name.rpartition(".")[2]
        if isinstance(value, torch.Tensor) and last in SCRATCH:
            scratch.append(Scratch(name, value.nbytes))
        elif isinstance(value, torch.Tensor):
            arrays.append(BuiltArray(name, value, _twin(value, arrays)))
        elif last in SHAPES:
            scratch += _of_shape(last, value)
        else:
            numbers[name] = value
    return Built(tuple(arrays), numbers, (*scratch, *_kept(backend)), _graph_bytes(backend.serving))


def _walk(made: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    """Names and values of a metadata object, those of its parts after a point."""
    if isinstance(made, torch.Tensor):
        yield prefix.rstrip("."), made
    elif isinstance(made, list | tuple) and made and all(is_dataclass(each) for each in made):
        for i, each in enumerate(made):
            yield from _walk(each, prefix if len(made) == 1 else f"{prefix}{i}.")
    elif isinstance(made, tuple) and made and all(isinstance(each, torch.Tensor) for each in made):
        for i, each in enumerate(made):
            yield f"{prefix.rstrip('.')}[{i}]", each
    elif is_dataclass(made) and not isinstance(made, OURS):
        for field in fields(made):
            value = getattr(made, field.name)
            if field.name.startswith("_") or value is None or isinstance(value, OURS):
                continue
            many = isinstance(value, list | tuple) and value and (is_dataclass(value[0]) or torch.is_tensor(value[0]))
            if isinstance(value, torch.Tensor) or is_dataclass(value) or many:
                alone = isinstance(value, Wrapper) or (many and len(value) == 1)  # its fields stand for the pass
                yield from _walk(value, prefix if alone else f"{prefix}{field.name}.")
            else:
                yield f"{prefix}{field.name}", value


def _twin(value: torch.Tensor, before: list[BuiltArray]) -> str:
    def place(tensor: torch.Tensor) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        return tensor.data_ptr(), tuple(tensor.shape), tensor.stride()

    if not value.numel():
        return ""
    return next((each.name for each in before if not each.same_as and place(each.values) == place(value)), "")


def _of_shape(name: str, shape: tuple[int, ...]) -> list[Scratch]:
    count = math.prod(shape) if shape else 0
    made = [Scratch(SHAPES[name], 4 * count)] if count else []
    if count and name == "mid_out_shape":
        made.append(Scratch("LSE of the partial outputs", 4 * math.prod(shape[:-1])))
    return made


def _kept(backend: AttentionBackend) -> list[Scratch]:
    found = {}
    for each in (backend.serving, backend):
        made = getattr(each, "workspace", None)
        if isinstance(made, Workspace):
            zeros = ", starts as zeros" if made.zeros else ""
            shared = "of this backend" if made.name == "aiter" else "shared by all of a process"
            found[made.name] = Scratch(f"{made.name} workspace", made.nbytes, f"{shared}{zeros}")
    return list(found.values())


def _graph_bytes(backend: AttentionBackend) -> int:
    """Of the buffers that `init_graph` made, whatever they are called."""
    held = getattr(backend, "_graph", None)
    tensors: dict[int, int] = {}
    for value in (*vars(held).values(),) if held is not None else ():
        if isinstance(value, torch.Tensor):
            tensors[value.data_ptr()] = value.nbytes
    for name in ("_tables", "_lens"):
        value = getattr(backend, name, None)
        if isinstance(value, torch.Tensor):
            tensors[value.data_ptr()] = value.nbytes
    return sum(tensors.values())


def wrappers_of(backend: AttentionBackend) -> list[Wrapper]:
    """FlashInfer's wrappers of the pass last prepared."""
    made = getattr(backend.serving, "forward_metadata", None)
    found: list[object] = []
    for value in vars(made).values() if made is not None else ():
        found += [value] if isinstance(value, Wrapper) else value if isinstance(value, list) else []
    return [each for each in found if isinstance(each, Wrapper)]

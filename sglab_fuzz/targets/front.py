"""The front end: PTX made after the grammar, and mutations of shipped PTX, parsed and decoded by core and Python."""

from __future__ import annotations

import random

from sglab import _core, gpu
from sglab.gpu.module import Module
from sglab_fuzz import ptx_text
from sglab_fuzz.target import Finding


class Front:
    """A case is a module's text. PtxError and the launch interface's own errors are answers."""

    name = "front"
    unit = "inputs"

    def make(self, rng: random.Random, number: int) -> str:
        kind = rng.random()
        if kind < 0.45:
            return ptx_text.module(rng)
        if kind < 0.75:
            return ptx_text.mutated(rng, ptx_text.module(rng))
        return ptx_text.mutated(rng, rng.choice(ptx_text.corpus())[: rng.choice([3000, 8000, 40_000])])

    def run(self, text: str) -> int:
        module = self._core(text)
        try:
            header = Module(text)
            entries = {name: [parameter.size for parameter in header[name].params] for name in header}
        except (gpu.GpuError, _core.PtxError):
            return 1
        if module is not None:
            for name in module.entries[:4]:
                self._decode(module, name, entries)
        return 1

    def _core(self, text: str) -> _core.Module | None:
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            return None  # has no UTF-8; gpu.Module refuses such a text by name
        try:
            return _core.Module(text)
        except _core.PtxError:
            return None

    def _decode(self, module: _core.Module, name: str, entries: dict[str, list[int]]) -> None:
        if name not in entries:
            raise Finding(f"entry only the core knows: {name[:80]!r} is not among {sorted(entries)[:4]}")
        try:
            kernel = module.kernel(name)
        except _core.PtxError:
            return
        sizes = [size for _, size, _, _ in kernel.params]
        if sizes != entries[name]:
            raise Finding(f"parameters differ: {sizes} in the core, {entries[name]} in the header")


def target(device: str) -> Front:
    return Front()

"""The front end: PTX made after the grammar, and mutations of shipped PTX, parsed and decoded by core and Python."""

from __future__ import annotations

import random
import re

from sglab import _core, gpu
from sglab.gpu.module import Module
from sglab_fuzz import ptx_text
from sglab_fuzz.target import Finding

FUNCTION = re.compile(r"\.func\s*(?:\([^()]*\))?\s*([\w$]+)")
"""Their names: a kernel calls them or takes their addresses."""


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
        except gpu.GpuError as error:
            if module is not None:
                raise Finding(f"the core reads what the launch interface refuses: {error}") from None
            return 1
        for name in header:  # what a launch asks of it
            _ = header[name].signature.params_size
        if module is not None:
            self._compare(module, header)
        return 1

    def _core(self, text: str) -> _core.Module | None:
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            return None  # has no UTF-8; gpu.Module refuses such a text by name
        try:
            return _core.Module(text)
        except _core.PtxError:
            return None

    def _compare(self, module: _core.Module, header: Module) -> None:
        """Both read the same text: of what a launch needs they must hold the same."""
        if list(header) != module.entries:
            raise Finding(
                f"entries differ: {module.entries[:4]} in the core, {list(header)[:4]} in the launch interface"
            )
        version = ".".join(map(str, module.ptx_version))
        if (version, module.target) != (header.ptx_version, header.target):
            raise Finding(f"version or target differ: {version} and {module.target} in the core")
        for name in module.entries[:4]:
            try:
                kernel = module.kernel(name)
            except _core.PtxError:
                continue
            signature = header[name].signature
            read = [(one.name, one.size, one.align, one.type, one.offset) for one in signature.parameters]
            if kernel.params != read:
                raise Finding(f"parameters differ: {kernel.params} in the core, {read} in the launch interface")
            extents = (kernel.reqntid, kernel.maxntid, kernel.reqnctapercluster)
            if extents != (signature.reqntid, signature.maxntid, signature.reqnctapercluster):
                raise Finding(f"directives differ: {extents} in the core, {signature} in the launch interface")
            self._compare_words(header.ptx, kernel)

    def _compare_words(self, text: str, kernel: _core.Kernel) -> None:
        """The entry's instructions as they are found without decoding; behind its own are those of
        functions that it calls or names."""
        decoded = [opcode for opcode, _ in kernel.statements()]
        rows = _core.entry_words(text, kernel.name)
        words = [opcode for opcode, _ in rows]
        named = {name for _, operands in rows for _, names in operands for name in names}
        reaches = any(word.startswith("call") for word in words) or not named.isdisjoint(FUNCTION.findall(text))
        if decoded[: len(words)] != words or (len(decoded) > len(words) and not reaches):
            raise Finding(f"instructions differ: {decoded[:99]} in the core, {words[:99]} by their words")


def target(device: str) -> Front:
    return Front()

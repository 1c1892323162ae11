"""PTX text and its entries: what a launch is made of, before it is launched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from sglab.gpu import core
from sglab.gpu.code import Code
from sglab.gpu.signature import Parameter, Signature, read_header


class Ptx:
    """PTX text.

    Args:
        name: for messages, such as the file it came from.
        folder: where that file is, and what else its line table names without a path.
        types: C++ types of entries' parameters, such as ["float*", "int"], for entries whose names do not tell.

    Raises:
        GpuError: the text is not PTX.
    """

    def __init__(
        self,
        ptx: str,
        name: str = "<ptx>",
        folder: Path | None = None,
        types: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.ptx, self.name, self.folder = ptx, name, folder
        self._header = read_header(ptx, name, types)

    @property
    def target(self) -> str:
        """The .target it was compiled for, such as sm_100a."""
        return self._header.target

    @property
    def ptx_version(self) -> str:
        """The PTX ISA version, such as 9.0."""
        return self._header.version

    @cached_property
    def emulated(self) -> core.Module:
        """The emulator's form of the text, made at the first launch on an emulated device."""
        return core.Module(self.ptx, self.name)


class Entry:
    """One entry of PTX text."""

    def __init__(self, module: Ptx, signature: Signature) -> None:
        self.module, self.signature = module, signature

    @property
    def name(self) -> str:
        return self.signature.entry

    @property
    def params(self) -> tuple[Parameter, ...]:
        return self.signature.parameters

    @cached_property
    def emulated(self) -> core.Kernel:
        """The emulator's form of the entry."""
        return self.module.emulated.kernel(self.name)

    @cached_property
    def code(self) -> Code:
        """The instructions as the emulator decodes them, with their lines in the PTX and in the source."""
        return Code(self.name, self.module.ptx, self.emulated)

"""One call from a file or a text to a module."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sglab.compilers.declared import declared_kernels
from sglab.compilers.nvcc import compiled_cuda
from sglab.gpu.errors import GpuError
from sglab.gpu.module import Module


def load(
    source: str | Path,
    arch: str = "sm_100a",
    options: Sequence[str] = (),
    include: Sequence[str | Path] = (),
) -> Module:
    """A module from a .ptx file, a .cu file, PTX text or CUDA C++ text.

    Args:
        arch: what CUDA C++ is compiled for; PTX says itself what it is for.
        options, include: for nvcc.

    Raises:
        GpuError: the source is neither.
        CompileError: nvcc refused it.
        FileNotFoundError: it does not exist.
    """
    if not isinstance(source, (str, Path)):
        raise GpuError(f"load: expected a path, or the text of a .ptx or .cu file; got {type(source).__name__}")
    if isinstance(source, str) and is_ptx(source):
        return Module(source)
    if isinstance(source, str) and is_cuda(source):
        return cuda_module(source, arch, options, include)
    path = Path(source)
    if path.suffix in {".ptx", ".cu"} and path.is_dir():
        raise GpuError(f"load: expected a file; '{source}' is a folder")
    if path.suffix == ".ptx":
        return Module(_text(path), path.name, path.parent)
    if path.suffix == ".cu":
        return cuda_module(path, arch, options, include)
    shown = str(source) if len(str(source)) <= 200 else f"{str(source)[:200]}…"
    raise GpuError(f"load: expected a .ptx or .cu file, or the text of one; got '{shown}'")


def is_ptx(text: str) -> bool:
    """Whether a string is PTX rather than a path: no path is taken for a text, nor a text of one line for a path."""
    return ".version" in text and ".target" in text


def is_cuda(text: str) -> bool:
    """Whether a string is CUDA C++ rather than a path."""
    return "\n" in text or "__global__" in text or "#include" in text


def cuda_module(
    source: str | Path,
    arch: str = "sm_100a",
    options: Sequence[str] = (),
    include: Sequence[str | Path] = (),
    name: str = "<cuda>",
) -> Module:
    """CUDA C++ compiled by nvcc; its kernels know what their pointers point to, those with C names from the source.

    Args:
        source: text, or a .cu file.
        name: of a text, for messages.
    """
    text = _text(source) if isinstance(source, Path) else source
    types = {entry: [one.type for one in found] for entry, found in declared_kernels(text).items()}
    text, folder = compiled_cuda(source, arch, options, include, name)
    return Module(text, source.name if isinstance(source, Path) else name, folder, types)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise GpuError(
            f"load: {path.name} is not UTF-8 text: byte {error.start} is {error.object[error.start]:#04x}"
        ) from None

"""Triton kernels to PTX without a GPU, cached by content."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sglab.compilers.cache import cached, content_key
from sglab.compilers.child import in_child
from sglab.compilers.vouched import vouch
from sglab.gpu.progress import announced

# PTX ISA 8.8 knows every target up to sm_103a, and drivers since CUDA 12.9 take it.
PTX_VERSION = 88
_STAGES = ("ttir", "ttgir", "llir", "ptx")


@dataclass(frozen=True)
class TritonProgram:
    """One specialisation of a Triton kernel, compiled.

    Attributes:
        ptx, ttir, ttgir: texts of the stages.
        smem: dynamic shared memory in bytes.
        scratch, scratch_align: global memory in bytes that each CTA needs, and its alignment.
        descriptors: for each tensor descriptor among the arguments, how it becomes a tensor map; None: it is taken
            apart.
    """

    entry: str
    ptx: str
    ttir: str
    ttgir: str
    num_warps: int
    num_ctas: int
    smem: int
    scratch: int
    scratch_align: int
    descriptors: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class Specialization:
    """What Triton compiles a kernel for: types and constants by parameter, facts about values, and options.

    Attributes:
        signature: parameter name to type.
        constexprs, attrs: path of parameter indices to value.
        key: a text that distinguishes specialisations of one kernel.
    """

    signature: Mapping[str, Any]
    constexprs: Mapping[tuple[int, ...], Any]
    attrs: Mapping[tuple[int, ...], Any]
    options: Mapping[str, Any]
    key: str


def compile_triton(kernel: Any, specialization: Specialization, capability: int) -> TritonProgram:
    """Compiles a triton.JITFunction for a compute capability such as 100.

    Raises:
        CompileError: with what Triton says.
    """
    source = Path(kernel.fn.__code__.co_filename)
    place = str(source) if source.exists() else ""  # the PTX names it; a notebook's cell is in no file, and moves
    key = content_key(_triton_version(), PTX_VERSION, kernel.cache_key, place, specialization.key, capability)
    what = f"compiling the Triton kernel {kernel.__name__} for sm_{capability}"

    def build(folder: Path) -> None:
        _prepare()
        with announced(what):
            in_child(what, lambda: _compile(kernel, specialization, capability, folder), folder)

    return _read(cached("triton", key, build))


def _compile(kernel: Any, specialization: Specialization, capability: int, folder: Path) -> None:
    """Triton's own pipeline up to PTX: no ptxas, no cache of its own."""
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import ASTSource, make_backend

    target = GPUTarget("cuda", capability, 32)
    backend = make_backend(target)
    source = ASTSource(kernel, specialization.signature, specialization.constexprs, specialization.attrs)
    options = backend.parse_options({"ptx_version": PTX_VERSION, **specialization.options, **source.parse_options()})
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, source.language)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    codegen = backend.get_codegen_implementation(options)
    module = source.make_ir(target, options, codegen, backend.get_module_map(), context)
    metadata: dict[str, Any] = {"target": target, **options.__dict__}
    for stage in _STAGES:
        module = stages[stage](module, metadata)
        (folder / f"kernel.{stage}").write_text(str(module))
    kept = {
        "entry": metadata["name"],
        "num_warps": metadata["num_warps"],
        "num_ctas": metadata["num_ctas"],
        "smem": metadata["shared"],
        "scratch": metadata["global_scratch_size"],
        "scratch_align": metadata["global_scratch_align"],
        "descriptors": metadata.get("tensordesc_meta") or [],
    }
    (folder / "program.json").write_text(json.dumps(kept))


def _read(folder: Path) -> TritonProgram:
    kept: dict[str, Any] = json.loads((folder / "program.json").read_text())
    kept["descriptors"] = tuple(kept["descriptors"])
    for stage in ("ptx", "ttir", "ttgir"):
        kept[stage] = (folder / f"kernel.{stage}").read_text()
    vouch(kept["ptx"])
    return TritonProgram(**kept)


@functools.cache
def _prepare() -> None:
    """Imports what compiling needs, once, here: every child inherits it."""
    import triton.compiler.compiler
    import triton.language.extra.cuda  # noqa: F401


def _triton_version() -> str:
    import triton

    return triton.__version__

"""MLA decode by the real SM100 kernel: FlashInfer's packaged CUTLASS MLA, built on demand, run on the emulator."""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
from functools import cache
from pathlib import Path

import torch

from sglab.cudart.extension import HostExtension, build_extension
from sglab.emulator.device import default_device
from sglab.gpu.errors import GpuError
from sglab.gpu.fault import KernelError
from sglab.kernels.cutlass_mla.contract import CutlassMLAArguments
from sglab.kernels.cutlass_mla.heads import pad_heads, slice_heads
from sglab.triton import LaunchRecord

_ELEMENTS = {torch.float16: "cutlass::half_t", torch.bfloat16: "cutlass::bfloat16_t"}
_STEPS = {1: "can_implement", 2: "initialize", 3: "run"}


class _Call(ctypes.Structure):
    """MlaCall of flashinfer_mla.cu."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("q_nope", "q_pe", "kv_cache", "out", "lse", "workspace")),
        *((name, ctypes.c_void_p) for name in ("seq_lens", "page_table")),
        *((name, ctypes.c_int64) for name in ("nope_stride_head", "nope_stride_batch")),
        *((name, ctypes.c_int64) for name in ("pe_stride_head", "pe_stride_batch")),
        *((name, ctypes.c_int64) for name in ("kv_stride_row", "kv_stride_page")),
        *((name, ctypes.c_int) for name in ("batch", "table_width", "table_stride", "pages", "page_size")),
        *((name, ctypes.c_int) for name in ("split_kv", "sm_count")),
        ("scale", ctypes.c_float),
    )


def refuses(arguments: CutlassMLAArguments) -> str | None:
    """Why this machine cannot run the kernel, or None."""
    if arguments.device.type != "cpu":
        return "it runs on the emulator, and these tensors are on a GPU"
    if headers() is None:
        return "FlashInfer is not installed: pip install 'sglab[gpu]'"
    try:
        default_device()
    except GpuError as error:
        return str(error)
    return None


def run(arguments: CutlassMLAArguments) -> tuple[LaunchRecord, ...]:
    """Launches the kernel, and the reduction where there are splits."""
    if arguments.q_nope.shape[0] == 0:
        return ()
    device = default_device()
    padded = pad_heads(arguments, fill=0.0)
    tensors = _tensors(padded)
    extension = _extension(arguments.q_nope.dtype)
    with extension.on(device, list(tensors.values())) as visit:
        status = extension.library.sglab_flashinfer_mla(ctypes.byref(_call(padded, tensors, device.sms)))
    if status:
        raise KernelError(f"FlashInfer's MLA kernel refused the call in its step {_STEPS[status]}")
    padded.settle_empty_requests()
    slice_heads(padded, arguments)
    reason = "FlashInfer's PTX for sm_100a runs on the emulated device"
    return tuple(
        LaunchRecord(_short_name(launch.kernel.name), "emulator", reason, launch.geometry.grid, report)
        for launch, report in zip(visit.launches, visit.reports, strict=True)
    )


def _tensors(a: CutlassMLAArguments) -> dict[str, torch.Tensor]:
    """What the kernel gets. It must have an LSE to write when it splits: the reduction reads the partial ones."""
    lse = a.out.new_empty(a.out.shape[:2], dtype=torch.float32) if a.lse is None else a.lse
    return {
        "q_nope": _innermost_contiguous(a.q_nope),
        "q_pe": _innermost_contiguous(a.q_pe),
        "kv_cache": a.kv_c_and_k_pe_cache,
        "out": a.out,
        "lse": lse,
        "workspace": a.workspace,
        "seq_lens": a.seq_lens.contiguous(),
        "page_table": a.page_table,
    }


def _call(a: CutlassMLAArguments, tensors: dict[str, torch.Tensor], sms: int) -> _Call:
    q_nope, q_pe, cache_, table = (tensors[name] for name in ("q_nope", "q_pe", "kv_cache", "page_table"))
    return _Call(
        **{name: tensor.data_ptr() for name, tensor in tensors.items()},
        nope_stride_head=q_nope.stride(1),
        nope_stride_batch=q_nope.stride(0),
        pe_stride_head=q_pe.stride(1),
        pe_stride_batch=q_pe.stride(0),
        kv_stride_row=cache_.stride(1),
        kv_stride_page=cache_.stride(0),
        batch=len(q_nope),
        table_width=table.shape[1],
        table_stride=table.stride(0),
        pages=len(cache_),
        page_size=a.page_size,
        split_kv=a.split_kv,
        sm_count=sms,
        scale=a.sm_scale,
    )


def _innermost_contiguous(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


@cache
def _extension(dtype: torch.dtype) -> HostExtension:
    """The kernel for one dtype, compiled at its first use."""
    sources = headers()
    assert sources is not None
    cutlass = sources / "cutlass"
    fast = ["--expt-relaxed-constexpr", "-use_fast_math", "-static-global-template-stub=false"]
    return build_extension(
        f"flashinfer_mla_{str(dtype).removeprefix('torch.')}",
        Path(__file__).with_name("flashinfer_mla.cu").read_text(),
        options=[*fast, f"-DSGLAB_MLA_ELEMENT={_ELEMENTS[dtype]}"],
        include=[sources / "include", cutlass / "include", cutlass / "tools" / "util" / "include"],
        depends={"flashinfer-python": _version()},
        expect="about 50 s and 4 GB, once",
    )


def headers() -> Path | None:
    """FlashInfer's packaged sources; found without importing it."""
    spec = importlib.util.find_spec("flashinfer")
    folders = [Path(root) / "data" for root in (spec.submodule_search_locations or ())] if spec else []
    kernel = Path("include/flashinfer/attention/blackwell/device/sm100_mla.hpp")
    return next((folder for folder in folders if (folder / kernel).exists()), None)


def _version() -> str:
    try:
        return importlib.metadata.version("flashinfer-python")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _short_name(mangled: str) -> str:
    """The C++ class of the kernel; its mangled template name fills several lines."""
    known = ("Sm100FmhaMlaKernelTmaWarpspecialized", "Sm100FmhaMlaReductionKernel")
    return next((name for name in known if name in mangled), mangled)

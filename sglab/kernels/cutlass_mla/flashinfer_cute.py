"""MLA decode by FlashInfer's CuTe DSL kernel for SM100, which SGLang's cutedsl_mla calls: compiled without nvcc, run on
the emulator.

The kernel's class is taken as it is (flashinfer.cute_dsl.attention, version 0.7.2); this is its host side: the tensors
as the DSL takes them, the splits, the workspace.
"""

from __future__ import annotations

import importlib.util
import math
from functools import cache
from typing import Any
from unittest.mock import patch

import torch

from sglab.compilers.cute import compiled_cute
from sglab.compilers.cute_host import HostLaunch, OnDevice, host_launches
from sglab.emulator.device import default_device
from sglab.gpu import Device
from sglab.gpu.errors import GpuError
from sglab.gpu.launch_record import LaunchRecord
from sglab.kernels import devices
from sglab.kernels.cutlass_mla.contract import CutlassMLAArguments
from sglab.planning.mla_dims import LATENT_DIM, ROPE_DIM

_CLUSTER = (2, 1, 1)
_QK_TILE, _PV_TILE = (128, 128), (128, 256)
_ALIGNMENT = 16
_PAGE_SIZES = (2, 4, 8, 16, 32, 64, 128)
"""What divides a tile of 128 tokens, but 1."""


def refuses(arguments: CutlassMLAArguments) -> str | None:
    """Why this machine cannot run the kernel, or None."""
    if arguments.device.type != "cpu":
        return "it runs on the emulator, and these tensors are on a GPU"
    if arguments.page_size not in _PAGE_SIZES:
        return f"it takes pages of {', '.join(map(str, _PAGE_SIZES))} tokens, not {arguments.page_size}"
    for package, extra in (("flashinfer", "gpu"), ("cutlass", "cute")):
        if importlib.util.find_spec(package) is None:
            return f"it needs {package}, which is not installed: pip install 'sglab[{extra}]'"
    try:
        default_device()
    except GpuError as error:
        return str(error)
    return None


def run(a: CutlassMLAArguments) -> tuple[LaunchRecord, ...]:
    """Launches the kernel, and the reduction where there are splits."""
    if not len(a.q_nope):
        return ()
    device = default_device()
    lse = torch.empty(a.out.shape[:2], dtype=torch.float32)
    tensors = _tensors(a, lse)
    records = []
    for launch in _launches(a, tensors, device):
        memory = [tensor for tensor in tensors.values() if tensor is not None]
        prepared = launch.kernel.prepare(device, launch.config, args=launch.arguments, extra=memory)
        records.append(devices.run(device, prepared, "FlashInfer's CuTe DSL kernel"))
    if a.lse is not None:
        a.lse.copy_(lse * math.log(2))  # the kernel's is of base 2
    a.settle_empty_requests()
    return tuple(records)


def _tensors(a: CutlassMLAArguments, lse: torch.Tensor) -> dict[str, torch.Tensor | None]:
    """By the kernel's names. With one query token for each request: (batch, 1, heads, dims)."""
    latent, rope = a.kv_c_and_k_pe_cache.split([LATENT_DIM, ROPE_DIM], -1)
    return {
        "q_latent": a.q_nope.unsqueeze(1),
        "q_rope": a.q_pe.unsqueeze(1),
        "c_latent": latent,
        "c_rope": rope,
        "page_table": a.page_table.contiguous(),
        "o": a.out.unsqueeze(1),
        "lse": lse.unsqueeze(1),
        "workspace": a.workspace.view(torch.int8) if a.split_kv > 1 else None,
        "cache_seqs": a.seq_lens.contiguous(),
    }


def _launches(a: CutlassMLAArguments, tensors: dict[str, torch.Tensor | None], device: Device) -> list[HostLaunch]:
    from cutlass import Float32, Int32
    from cutlass.cute.runtime import from_dlpack

    def taken(tensor: torch.Tensor | None) -> Any:
        if tensor is None:
            return None
        last = tensor.ndim - 1
        aligned = tensor.data_ptr() % _ALIGNMENT == 0
        return from_dlpack(OnDevice(tensor), _ALIGNMENT if aligned else tensor.element_size()).mark_layout_dynamic(last)

    of = {name: taken(tensor) for name, tensor in tensors.items()}
    before, after = ("q_latent", "q_rope", "c_latent", "c_rope", "page_table", "o", "lse", "workspace"), "cache_seqs"
    scales = (Float32(a.sm_scale), Float32(1.0))
    arguments = [*(of[name] for name in before), Int32(a.split_kv), of[after], None, *scales, None, _stream()]
    compiled = _compiled(a.page_size, a.q_nope.dtype, a.split_kv > 1, device.sms, str(device.arch), _Once(arguments))
    return host_launches(compiled, arguments, "FlashInfer's MLA decode", device.encode)


class _Once:
    """Arguments of a call that are compiled for, not told apart by a cache: layouts are not part of the code."""

    def __init__(self, arguments: list[Any]) -> None:
        self.arguments = arguments

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Once)

    def __hash__(self) -> int:
        return 0


@cache
def _compiled(page_size: int, dtype: torch.dtype, splits: bool, sms: int, arch: str, once: _Once) -> Any:
    import cutlass
    from flashinfer.cute_dsl.attention import mla_decode
    from flashinfer.cute_dsl.attention.mla_config import MLAConfig

    config = MLAConfig(
        latent_dim=LATENT_DIM,
        rope_dim=ROPE_DIM,
        acc_dtype=cutlass.Float32,
        lse_dtype=cutlass.Float32,
        mma_qk_tiler_mn=_QK_TILE,
        mma_pv_tiler_mn=_PV_TILE,
        max_active_clusters=sms // math.prod(_CLUSTER),
        page_size=page_size,
        is_var_seq=True,
    )
    with patch.object(mla_decode, "_get_current_arch", lambda: arch.rstrip("a")):  # it asks torch for a GPU
        kernel = mla_decode.BlackwellMultiLatentAttentionForward(config)
    return compiled_cute(kernel, once.arguments, arch)


def _stream() -> Any:
    from cuda.bindings.driver import CUstream

    return CUstream(0)

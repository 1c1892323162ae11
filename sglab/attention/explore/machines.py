"""Where each backend's kernels run, and what machines reach at most: published figures."""

from __future__ import annotations

from dataclasses import dataclass

from sglab.attention.origins import ORIGINS
from sglab.attention.selection import Hardware
from sglab.gpu.architecture import Architecture

_GPUS = ("cuda", "hip", "xpu")
_ANY = (*_GPUS, "npu", "hpu", "cpu")


@dataclass(frozen=True)
class Needs:
    """`devices`: kinds that the kernels run on. `majors`: NVIDIA's compute capabilities; empty: all. `newer`: others
    that have kernels from SGLang 0.5.23 on."""

    devices: tuple[str, ...]
    majors: tuple[int, ...] = ()
    newer: tuple[int, ...] = ()
    amx: bool = False
    xmx: bool = False


_FROM_SM80 = (8, 9, 10, 11, 12)
NEEDS: dict[str, Needs] = {
    "torch_native": Needs(_ANY),
    "flex_attention": Needs(_ANY),
    "triton": Needs(_GPUS),
    "flashinfer": Needs(("cuda",), _FROM_SM80),
    "llada2_cfg_flashinfer": Needs(("cuda",), _FROM_SM80),
    "fa3": Needs(("cuda",), (8, 9)),
    "fa4": Needs(("cuda",), (9, 10)),
    "trtllm_mha": Needs(("cuda",), (10,), newer=(9, 12)),
    "trtllm_mla": Needs(("cuda",), (10, 12)),
    "cutedsl_mla": Needs(("cuda",), (10,)),
    "cutlass_mla": Needs(("cuda",), (10,)),
    "flashmla": Needs(("cuda",), (9, 10)),
    "dsa": Needs(("cuda", "hip"), (9, 10)),
    "nsa": Needs(("cuda", "hip"), (9, 10)),
    "double_sparsity": Needs(("cuda",)),
    "dual_chunk_flash_attn": Needs(("cuda",), _FROM_SM80),
    "intel_amx": Needs(("cpu",), amx=True),
    "aiter": Needs(("hip",)),
    "wave": Needs(("hip",)),
    "ascend": Needs(("npu",)),
    "intel_xpu": Needs(("xpu",), xmx=True),
    "hpc_ops": Needs(("cuda",), (9,)),
}
"""As the column "there it runs on" of docs/backends.md (`origins.py`) says in words."""


def why_not_on(name: str, hardware: Hardware, version: str) -> str:
    """Why a backend's own kernels do not run on a machine; "" where they do, and for names registered by others."""
    needs = NEEDS.get(name)
    if needs is None:
        return ""
    majors = (*needs.majors, *(needs.newer if version == "0.5.23" else ()))
    fits = hardware.device in needs.devices
    if hardware.device == "cuda" and majors:
        fits = fits and hardware.capability[0] in majors
    fits = fits and (hardware.amx or not needs.amx) and (hardware.xmx or not needs.xmx)
    if fits:
        return ""
    origin = ORIGINS[name]
    is_ = f" is SM{hardware.capability[0]}{hardware.capability[1]}" if hardware.device == "cuda" else ""
    return f"Its kernels ({origin.kernels}) run on {origin.machine}; {hardware.name}{is_ or ' is none of these'}."


@dataclass(frozen=True)
class Peaks:
    """What a product reaches at most, as published: dense products of 16-bit numbers, and its memory."""

    tflops: float
    gbytes_per_second: float
    source: str


PEAKS: dict[str, Peaks] = {
    "A100": Peaks(312, 2039, "NVIDIA A100 datasheet, SXM 80 GB"),
    "L40S": Peaks(362, 864, "NVIDIA L40S datasheet"),
    "H100": Peaks(989, 3350, "NVIDIA H100 datasheet, SXM"),
    "H200": Peaks(989, 4800, "NVIDIA H200 datasheet, SXM"),
    "B200": Peaks(2250, 8000, "NVIDIA Blackwell datasheet, HGX B200"),
    "RTX 5090": Peaks(209.5, 1792, "NVIDIA RTX Blackwell whitepaper, fp32 accumulation"),
    "MI300X": Peaks(1307, 5300, "AMD Instinct MI300X datasheet"),
}
"""Machine -> its peaks; those that are missing here get no modelled time."""

_SMS = {"RTX 5090": 170, "MI300X": 304}


def sm_count(hardware: Hardware) -> int | None:
    """SMs (on AMD compute units) that plans count on; None: not known here, or the machine has none."""
    if hardware.name in _SMS:
        return _SMS[hardware.name]
    if hardware.device != "cuda":
        return None
    major, minor = hardware.capability
    return Architecture.parse(f"sm_{major}{minor}").limits.sms

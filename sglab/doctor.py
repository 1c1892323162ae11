"""What this machine can run, and what each missing thing would need."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """One capability: `detail` says what was found, `remedy` what a missing one would need."""

    capability: str
    present: bool
    detail: str
    remedy: str = ""


def version_of(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def package(capability: str, distribution: str, extra: str) -> Check:
    version = version_of(distribution)
    detail = f"{distribution} {version}" if version else f"{distribution} is not installed"
    return Check(capability, version is not None, detail, "" if version else f"pip install 'sglab[{extra}]'")


def emulator() -> Check:
    if importlib.util.find_spec("sglab._core") is None:
        return Check("Emulator", False, "sglab._core is not built", "python3 start.py install")
    from sglab import _core

    cores = os.cpu_count() or 1
    forms, attention = len(_core.instruction_forms()), _core.cpu_attention.available_isas()[0]
    detail = (
        f"{_core.active_isa()} on {cores} CPU cores; emulates {forms} PTX instruction forms; attends by {attention}"
    )
    return Check("Emulator", True, detail)


def nvidia_gpu() -> Check:
    smi = shutil.which("nvidia-smi")
    query = "--query-gpu=name,compute_cap,memory.total,driver_version"
    listed = ""
    if smi:
        ran = subprocess.run([smi, query, "--format=csv,noheader"], capture_output=True, text=True)
        listed = "; ".join(ran.stdout.strip().splitlines()) if ran.returncode == 0 else ""
    if listed:
        return Check("NVIDIA GPU", True, listed)
    remedy = "a GPU and its driver; the emulator runs PTX without"
    return Check("NVIDIA GPU", False, "none found", remedy)


def torch_on_gpu() -> Check:
    name = "torch on the GPU"
    if version_of("torch") is None:
        return Check(name, False, "torch is not installed", "pip install 'sglab[torch]'")
    import torch

    if torch.cuda.is_available():
        return Check(name, True, f"CUDA {torch.version.cuda}, {torch.cuda.get_device_name(0)}")
    if torch.version.cuda is None:
        return Check(name, False, "a CPU build of torch", "on a machine with a GPU: the CUDA build of torch")
    return Check(name, False, f"built for CUDA {torch.version.cuda}, no GPU in reach", "a GPU and its driver")


def nvcc() -> Check:
    """The compiler that sglab would take."""
    from sglab.compilers.nvcc import find_nvcc, nvcc_version
    from sglab.gpu.errors import CompileError, MissingDependencyError

    name = "CUDA compiler (nvcc)"
    try:
        found = find_nvcc()
        return Check(name, True, f"{nvcc_version(found)}, {found}")
    except MissingDependencyError:
        return Check(name, False, "only needed to compile .cu files", "pip install 'sglab[nvcc]'")
    except CompileError as error:
        return Check(name, False, str(error).splitlines()[0], "a CUDA toolkit that works, in CUDA_HOME")


def chromium() -> Check:
    for name in (os.environ.get("CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome"):
        if shutil.which(name):
            return Check("Chromium", True, name)
    return Check("Chromium", False, "only needed by the browser tests", "your system's chromium package")


def attention_backends() -> Check:
    """Backends whose own kernels need a chip that is not here; they compute all the same."""
    name = "Attention backends"
    if version_of("torch") is None:
        return Check(name, False, "torch is not installed", "pip install 'sglab[torch]'")
    from sglab.attention import ATTENTION_BACKENDS
    from sglab.attention.origins import ORIGINS

    amx = _has_amx()
    foreign = [each for each, origin in ORIGINS.items() if origin.vendor and not (origin.vendor == "AMX" and amx)]
    detail = (
        f"{len(ATTENTION_BACKENDS)} names; {', '.join(foreign)} have their vendors' index arrays and limits, but "
        "compute in Triton or PyTorch: nothing ran on their chips"
    )
    return Check(name, True, detail)


def _has_amx() -> bool:
    import torch

    return bool(torch.cpu._is_amx_tile_supported())


CHECKS: tuple[Callable[[], Check], ...] = (
    emulator,
    lambda: package("Tensors", "torch", "torch"),
    lambda: package("Triton kernels", "triton", "kernels"),
    lambda: package("Workbench", "jupyterlab", "lab"),
    nvidia_gpu,
    torch_on_gpu,
    lambda: package("CUDA driver from Python", "cuda-bindings", "gpu"),
    lambda: package("FlashInfer's kernels", "flashinfer-python", "gpu"),
    attention_backends,
    nvcc,
    chromium,
)


def examine() -> list[Check]:
    """Look at this machine. Takes a second or two: torch is imported."""
    return [check() for check in CHECKS]


def report(findings: list[Check]) -> str:
    """The findings as an aligned table of text."""
    width = max(len(finding.capability) for finding in findings)
    lines = [f"Python {platform.python_version()} on {platform.system()} {platform.machine()}", ""]
    for finding in findings:
        mark = "yes" if finding.present else "no "
        lines.append(f"  {mark}  {finding.capability:<{width}}  {finding.detail}")
        if finding.remedy:
            lines.append(f"       {'':<{width}}  needs: {finding.remedy}")
    return "\n".join(lines)

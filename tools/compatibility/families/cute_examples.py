"""CUTLASS's examples in CuTe DSL, as FlashInfer's wheel packs them: matrix products of three generations, attention,
norms.

Their scripts make CUDA tensors and compare on a GPU; here only their kernels are called. Those with dynamic schedules
(tutorials 4 and 5, dense_gemm_persistent_dynamic) do not compile with the DSL's version 4.8.1.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F

from sglab.compilers.cute import compiled_cute
from sglab.compilers.cute_host import OnDevice, host_launches
from tools.compatibility.case import Case, Check
from tools.compatibility.cute_dsl_host import hardware_of
from tools.compatibility.families import AbsentError, Family, installed
from tools.compatibility.meter import Meter

FP16, BF16, FP32, E4M3 = torch.float16, torch.bfloat16, torch.float32, torch.float8_e4m3fn
NAMES = {FP16: "fp16", BF16: "bf16", FP32: "fp32", E4M3: "e4m3"}
SM90, SM100 = "sm_90a", "sm_100a"
Run = Callable[[Meter], list[Check]]


def family() -> Family:
    version = f"{installed('flashinfer-python')}, {installed('nvidia-cutlass-dsl')}"
    if not _folder().exists():
        raise AbsentError("pip install flashinfer-python, with its data/cutlass")
    return Family("CuTe DSL examples", version, [*_blackwell(), *_hopper(), *_ampere()])


def _folder() -> Path:
    spec = importlib.util.find_spec("flashinfer")
    roots = (spec.submodule_search_locations if spec else None) or [""]
    return Path(next(iter(roots))) / "data" / "cutlass" / "examples" / "python" / "CuTeDSL"


@cache
def _example(name: str) -> ModuleType:
    path = _folder() / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"cute_example_{name.replace('/', '_')}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # the DSL reads a function's source through its module
    with patch.object(sys, "path", [str(_folder()), str(path.parent), *sys.path]):
        spec.loader.exec_module(module)
    return module


def _call(
    meter: Meter, function: Any, arguments: Sequence[Any], leading: Sequence[int | None] = (), known: bool = False
) -> None:
    """Compiles a function for its arguments and runs what it launches.

    Args:
        leading: the dimension of each tensor whose elements lie side by side; the last one where it is not said.
        known: the compiler knows the tensors' sizes.
    """
    from cutlass.cute.runtime import from_dlpack

    def taken(tensor: torch.Tensor, dim: int | None) -> Any:
        made = from_dlpack(OnDevice(tensor), 16)
        return made if known else made.mark_layout_dynamic(tensor.ndim - 1 if dim is None else dim)

    dims = [*leading, *[None] * (len(arguments) - len(leading))]
    given = [
        taken(one, dim) if isinstance(one, torch.Tensor) else one for one, dim in zip(arguments, dims, strict=True)
    ]
    memory = [one for one in arguments if isinstance(one, torch.Tensor)]
    with hardware_of(meter):
        compiled = compiled_cute(function, given, str(meter.arch))
    for launch in host_launches(compiled, given, type(function).__name__, meter.encode):
        meter.run(launch.kernel.prepare(meter, launch.config, args=launch.arguments, extra=memory))


def _stream() -> Any:
    from cuda.bindings.driver import CUstream

    return CUstream(0)


def _product(make: Callable[[], Any], dtype: torch.dtype, size: tuple[int, int, int, int], *more: Any) -> Run:
    """C = A·Bᵀ, (M, K, L), (N, K, L) and (M, N, L), all with K or N side by side."""

    def run(meter: Meter) -> list[Check]:
        m, n, k, batch = size
        a, b = (torch.randn(batch, rows, k).to(dtype).permute(1, 2, 0) for rows in (m, n))
        c = torch.zeros(batch, m, n, dtype=FP16 if dtype == E4M3 else dtype).permute(1, 2, 0)
        _call(meter, make(), [a, b, c, *more, _stream()], [1, 1, 1])
        return [_near(c, torch.einsum("mkl,nkl->mnl", a.double(), b.double()), dtype)]

    return run


def _near(got: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype) -> Check:
    """float32 operands of tensor cores are read as tf32."""
    tolerance = {FP16: 2e-3, BF16: 1e-2, FP32: 2e-3, E4M3: 2e-3}[dtype]
    return Check(got.double(), expected, 0.0, tolerance * float(expected.abs().max()))


def _blackwell() -> list[Case]:
    def dense(name: str, pair: bool, tma_store: bool, dtype: torch.dtype, kernel: str, *more: Any) -> Case:
        def make() -> Any:
            import cutlass

            tiler, cluster = ((256, 128), (2, 1)) if pair else ((128, 128), (1, 1))
            return getattr(_example(f"blackwell/{name}"), kernel)(cutlass.Float32, pair, tiler, cluster, tma_store)

        size = (256, 256, 192, 1) if pair or not tma_store else (200, 264, 160, 2)
        return Case(
            f"{name}, {'pairs of CTAs' if pair else 'single CTAs'}, {NAMES[dtype]}", _product(make, dtype, size, *more)
        )

    plain, persistent = "DenseGemmKernel", "PersistentDenseGemmKernel"
    clusters = 4
    return [
        *(_tutorial(number) for number in range(4)),
        *(dense("dense_gemm", pair, True, dtype, plain) for pair in (False, True) for dtype in (FP16, E4M3)),
        dense("dense_gemm", False, False, BF16, plain),
        dense("dense_gemm", True, True, FP32, plain),
        *(dense("dense_gemm_software_pipeline", pair, True, FP16, plain) for pair in (False, True)),
        *(dense("dense_gemm_persistent", pair, True, BF16, persistent, clusters) for pair in (False, True)),
        *(dense("dense_gemm_persistent_prefetch", pair, True, FP16, persistent, clusters) for pair in (False, True)),
    ]


def _tutorial(number: int) -> Case:
    name = f"fp16_gemm_{number}"

    def run(meter: Meter) -> list[Check]:
        example = _example(f"blackwell/tutorial_gemm/{name}")
        m, n, _ = example.mma_tiler_mnk
        a, b = torch.randn(m, 256).half(), torch.randn(2 * n, 256).half()
        c = torch.zeros(m, 2 * n).half()
        _call(meter, example.host_function, [a, b, c, *([4] if number == 3 else [])])
        return [_near(c, a.double() @ b.double().T, FP16)]

    return Case(f"tutorial {name}", run)


def _hopper() -> list[Case]:
    def dense(
        name: str, kernel: str, options: tuple[Any, ...], dtype: torch.dtype, tile: tuple[int, int], *more: Any
    ) -> Case:
        def make() -> Any:
            import cutlass

            return getattr(_example(f"hopper/{name}"), kernel)(cutlass.Float32, tile, (1, 1), *options)

        run = _product(make, dtype, (192, 256, 128, 2), *more)
        return Case(f"Hopper's {name}, tiles of {tile[0]} × {tile[1]}, {NAMES[dtype]}", run, SM90)

    persistent = ("dense_gemm_persistent", "HopperWgmmaGemmPersistentKernel", (1, True))
    return [
        *(
            dense("dense_gemm", "HopperWgmmaGemmKernel", (), dtype, tile)
            for dtype, tile in ((FP16, (128, 128)), (BF16, (64, 64)), (E4M3, (128, 64)))
        ),
        *(dense(*persistent, dtype, (128, 128), 8) for dtype in (FP16, BF16)),
        *(_norm(kind) for kind in ("layer", "rms")),
    ]


def _norm(kind: str) -> Case:
    width = 2048

    def run(meter: Meter) -> list[Check]:
        x, weight, bias = torch.randn(5, width), torch.randn(width), torch.randn(width)
        y = torch.zeros_like(x)
        _call(meter, _example("hopper/cta_norm").CtaNorm(width, kind), [y, x, weight, bias], known=True)
        wide = x.double()
        if kind == "layer":
            expected = F.layer_norm(wide, (width,), weight.double(), bias.double(), 1e-6)
        else:
            expected = F.rms_norm(wide, (width,), weight.double(), 1e-6)
        return [Check(y, expected, 1e-5, 1e-5)]

    return Case(f"cta_norm, {kind} norm", run, SM90)


def _ampere() -> list[Case]:
    def tensor_op(meter: Meter) -> list[Check]:
        import cutlass

        m, n, k = 256, 128, 96
        kernel = _example("ampere/tensorop_gemm").TensorOpGemm(
            cutlass.Float16, cutlass.Float16, cutlass.Float32, (2, 2, 1)
        )
        a, b = torch.randn(2, m, k).half().permute(1, 2, 0), torch.randn(2, n, k).half().permute(1, 2, 0)
        c = torch.zeros(2, m, n).half().permute(1, 2, 0)
        _call(meter, kernel, [a, b, c], known=True)
        return [_near(c, torch.einsum("mkl,nkl->mnl", a.double(), b.double()), FP16)]

    def sgemm(meter: Meter) -> list[Check]:
        a, b, c = torch.randn(256, 64), torch.randn(128, 64), torch.zeros(256, 128)
        _call(meter, _example("ampere/sgemm").SGemm(), [a, b, c], known=True)
        return [Check(c, a.double() @ b.double().T, 1e-5, 1e-4)]

    def add(meter: Meter) -> list[Check]:
        a, b, c = torch.randn(70, 1000), torch.randn(70, 1000), torch.zeros(70, 1000)
        _call(meter, _example("ampere/elementwise_add").elementwise_add, [a, b, c])
        return [Check(c, a.double() + b.double(), 1e-6, 1e-6)]

    return [
        *(Case(f"Ampere's tensorop_gemm, {arch}", tensor_op, arch) for arch in (SM90, SM100)),
        Case("Ampere's sgemm", sgemm),
        Case("Ampere's elementwise_add", add),
        *(_flash(causal, dtype) for causal in (False, True) for dtype in (FP16, BF16)),
    ]


def _flash(causal: bool, dtype: torch.dtype) -> Case:
    def run(meter: Meter) -> list[Check]:
        from cutlass import Float32

        q, k, v = (torch.randn(2, rows, 3, 128).to(dtype) for rows in (130, 200, 200))
        o = torch.zeros_like(q)
        kernel = _example("ampere/flash_attention_v2").FlashAttentionForwardAmpere(128, 64, 64, 128, causal)
        _call(meter, kernel, [q, k, v, o, Float32(1 / math.sqrt(128)), _stream()], known=True)
        heads_first = (one.double().transpose(1, 2) for one in (q, k, v))
        return [_near(o, _attention(*heads_first, causal).transpose(1, 2), dtype)]

    return Case(f"Ampere's flash_attention_v2{', causal' if causal else ''}, {NAMES[dtype]}", run)


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    """(batch, heads, rows, dim) in float64; row i sees the keys up to i."""
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
    return scores.softmax(-1) @ v

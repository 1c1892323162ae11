"""CUTLASS: CuTe's tutorials with our tensors, and the examples as programs that check themselves."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import torch

from tools.compatibility.case import Case, Check
from tools.compatibility.families import Family, installed
from tools.compatibility.programs import Calls, called, program

_GEMM = """
#define main tutorial_main
#include "{file}"
#undef main
extern "C" long run(void* a, void* b, void* c, long m, long n, long k, long turned) {{
  using T = {type};
  const char ta = turned ? 'T' : 'N', tb = turned ? 'N' : 'T';
  const int la = turned ? k : m, lb = turned ? k : n;
  gemm(ta, tb, int(m), int(n), int(k), T(1.0f), static_cast<T const*>(a), la, static_cast<T const*>(b), lb, T(0.0f),
       static_cast<T*>(c), int(m));
  return cudaGetLastError();
}}
"""
_BLACKWELL = """
#define main tutorial_main
#include "{file}"
#undef main
extern "C" long run(void* a, void* b, void* c, void* d, long m, long n, long k) {{
  using namespace cute;
  auto rows = [](long r, long s) {{ return make_layout(make_shape(int(r), int(s)), make_stride(int(s), Int<1>{{}})); }};
  gemm_host_f16xf16_f32_f32_tnt(static_cast<half_t const*>(a), rows(m, k), static_cast<half_t const*>(b), rows(n, k),
                                static_cast<float const*>(c), rows(m, n), static_cast<float*>(d), rows(m, n), 1.5f,
                                0.5f);
  return cudaGetLastError();
}}
"""
_TUTORIALS = (  # file, element type, emulated GPU, tolerance
    ("sgemm_1.cu", torch.float32, "sm_100a", 1e-5),
    ("sgemm_2.cu", torch.float32, "sm_100a", 1e-5),
    ("sgemm_sm70.cu", torch.float32, "sm_100a", 1e-5),
    ("sgemm_sm80.cu", torch.float16, "sm_100a", 1e-2),
    ("hopper/wgmma_sm90.cu", torch.float16, "sm_90a", 1e-2),
    ("hopper/wgmma_tma_sm90.cu", torch.float16, "sm_90a", 1e-2),
)
_TYPES = {torch.float32: "float", torch.float16: "cute::half_t"}
_SMALL = ("--m=256", "--n=256", "--k=128", "--iterations=0")
_PROGRAMS: tuple[tuple[str, tuple[str, ...], str], ...] = (  # file, arguments, emulated GPU
    ("70_blackwell_gemm/70_blackwell_fp16_gemm.cu", _SMALL, "sm_100a"),
    ("70_blackwell_gemm/70_blackwell_fp8_gemm.cu", _SMALL, "sm_100a"),
    ("72_blackwell_narrow_precision_gemm/72a_blackwell_nvfp4_bf16_gemm.cu", _SMALL, "sm_100a"),
    ("72_blackwell_narrow_precision_gemm/72b_blackwell_nvfp4_nvfp4_gemm.cu", _SMALL, "sm_100a"),
    ("72_blackwell_narrow_precision_gemm/72c_blackwell_mixed_mxfp8_bf16_gemm.cu", _SMALL, "sm_100a"),
    ("73_blackwell_gemm_preferred_cluster/blackwell_gemm_preferred_cluster.cu", _SMALL, "sm_100a"),
    ("74_blackwell_gemm_streamk/blackwell_gemm_streamk.cu", _SMALL, "sm_100a"),
    ("81_blackwell_gemm_blockwise/81_blackwell_gemm_blockwise.cu", _SMALL, "sm_100a"),
    ("83_blackwell_sparse_gemm/83_blackwell_sparse_gemm.cu", _SMALL, "sm_100a"),
    (
        "91_fp4_gemv/91_fp4_gemv.cu",
        ("--m=256", "--k=2048", "--batch=1", "--profiling=false", "--iterations=0"),
        "sm_100a",
    ),
    ("48_hopper_warp_specialized_gemm/48_hopper_warp_specialized_gemm.cu", _SMALL, "sm_90a"),
    ("50_hopper_gemm_with_epilogue_swizzle/50_hopper_gemm_with_epilogue_swizzle.cu", _SMALL, "sm_90a"),
    ("54_hopper_fp8_warp_specialized_gemm/54_hopper_fp8_warp_specialized_gemm.cu", _SMALL, "sm_90a"),
)


def family() -> Family:
    version = installed("nvidia-cutlass")
    spec = importlib.util.find_spec("cutlass_library")
    root = Path(next(iter(spec.submodule_search_locations or ()))) / "source"  # type: ignore[union-attr]
    return Family("CUTLASS", version, [*_tutorials(root), *_programs(root)])


def _tutorials(root: Path) -> list[Case]:
    folder = root / "examples" / "cute" / "tutorial"
    include = (root / "include", root / "tools" / "util" / "include", folder)
    cases = []
    for file, dtype, arch, tolerance in _TUTORIALS:
        source = _GEMM.format(file=folder / file, type=_TYPES[dtype])
        for turned in (False, True)[file == "sgemm_sm80.cu" :]:  # that file has no NT
            cases.append(
                called(
                    f"cute/tutorial/{file}, {'TN' if turned else 'NT'}",
                    Path(file).stem,
                    source,
                    _gemm(dtype, turned, tolerance),
                    include,
                    arch,
                )
            )
    for file in sorted((folder / "blackwell").glob("*.cu")):
        source = _BLACKWELL.format(file=file)
        name = f"cute/tutorial/blackwell/{file.name}"
        cases.append(called(name, file.stem, source, _blackwell, (*include, file.parent)))
    return cases


def _gemm(dtype: torch.dtype, turned: bool, tolerance: float) -> Callable[[Calls], list[Check]]:
    def call(calls: Calls) -> list[Check]:
        m, n, k = 256, 128, 128
        a, b = (torch.randn(size, k).to(dtype) for size in (m, n))
        out = torch.zeros(n, m, dtype=dtype)
        calls("run", a if turned else a.T.contiguous(), b if turned else b.T.contiguous(), out, m, n, k, int(turned))
        return [Check(out.T, a.double() @ b.double().T, tolerance, 10 * tolerance)]

    return call


def _blackwell(calls: Calls) -> list[Check]:
    m, n, k = 512, 1024, 128
    a, b = (torch.randn(size, k).half() for size in (m, n))
    c, out = torch.randn(m, n), torch.zeros(m, n)
    calls("run", a, b, c, out, m, n, k)
    return [Check(out, 1.5 * (a.double() @ b.double().T) + 0.5 * c.double(), 1e-5, 1e-3)]


def _programs(root: Path) -> list[Case]:
    examples = root / "examples"
    include = (root / "include", root / "tools" / "util" / "include", examples / "common")
    return [
        program(f"examples/{file}", examples / file, arguments, "(?i)pass", include, arch)
        for file, arguments, arch in _PROGRAMS
    ]

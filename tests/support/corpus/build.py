"""Compiles the corpus again, with nvcc, Triton and CuTe DSL: python -m tests.support.corpus.build"""

from __future__ import annotations

import json
import lzma
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import cutlass
import triton
from cutlass.cute.runtime import make_fake_compact_tensor
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from sglab.compilers.cute import compile_cute
from tests.support.corpus.sources import triton_kernels as kernels
from tests.support.corpus.sources.cute_scores import scores_with_lse

FOLDER = Path(__file__).parent
CUDA = {
    "scalar": ("sm_80", "sm_90", "sm_100a"),
    "sm80": ("sm_80", "sm_90", "sm_100a"),
    "sm90": ("sm_90a",),
    "sm100": ("sm_100a",),
}
F16, F32, BF16, F8, I32 = "*fp16", "*fp32", "*bf16", "*fp8e4nv", "i32"
TILE, SQUARE = "tensordesc<fp16[128, 64]>", "tensordesc<fp16[128, 128]>"
MATMUL = ("M", "N", "K", "stride_am", "stride_bk", "stride_cm")
ATTENTION = ("q_ptr", "k_ptr", "v_ptr", "o_ptr")


def matmul(operand: str, result: str) -> dict[str, str]:
    return {"a_ptr": operand, "b_ptr": operand, "c_ptr": result, **dict.fromkeys(MATMUL, I32)}


def attention(element: str) -> dict[str, str]:
    return {**dict.fromkeys(ATTENTION, element), "lse_ptr": F32, "scale": "fp32", "S": I32, "stride_h": I32}


ADD = {"x_ptr": F32, "y_ptr": F32, "out_ptr": F32, "n": I32}
ROWS = {"stride": I32, "columns": I32}
NORM = {"w_ptr": F16, "b_ptr": F16, "out_ptr": F16, "columns": I32, "eps": "fp32"}
EIGHT, FOUR = {"num_warps": 8, "num_stages": 3}, {"num_warps": 4, "num_stages": 3}
ALIGNED = [["tt.divisibility", 16]]

# name: function, signature, constants, parameters that 16 divides, options
TRITON: dict[str, tuple[Any, dict[str, str], dict[str, Any], str, dict[str, int]]] = {
    "vector_add": (kernels.vector_add, ADD, {"BLOCK": 1024}, "x_ptr y_ptr out_ptr", {}),
    "vector_add_unaligned": (kernels.vector_add, ADD, {"BLOCK": 256}, "", {}),
    "softmax": (kernels.softmax, {"x_ptr": F32, "out_ptr": F32, **ROWS}, {"BLOCK": 1024}, "x_ptr out_ptr stride", {}),
    "softmax_bf16": (
        kernels.softmax,
        {"x_ptr": BF16, "out_ptr": BF16, **ROWS},
        {"BLOCK": 1024},
        "x_ptr out_ptr stride",
        {},
    ),
    "layer_norm": (kernels.layer_norm, {"x_ptr": F16, **NORM}, {"BLOCK": 512}, "x_ptr w_ptr b_ptr out_ptr columns", {}),
    "rms_norm": (
        kernels.rms_norm,
        {"x_ptr": BF16, "w_ptr": BF16, "out_ptr": BF16, "columns": I32, "eps": "fp32"},
        {"BLOCK": 1024},
        "x_ptr w_ptr out_ptr columns",
        {},
    ),
    "matmul_f16": (kernels.matmul, matmul(F16, F16), {"BM": 128, "BN": 128, "BK": 64}, "*", EIGHT),
    "matmul_bf16_small": (kernels.matmul, matmul(BF16, F32), {"BM": 64, "BN": 64, "BK": 32}, "*", FOUR),
    "matmul_f32": (kernels.matmul, matmul(F32, F32), {"BM": 64, "BN": 64, "BK": 32}, "*", {}),
    "matmul_e4m3": (kernels.matmul, matmul(F8, F32), {"BM": 128, "BN": 64, "BK": 64}, "*", {}),
    "matmul_tma": (
        kernels.matmul_tma,
        {"a_ptr": F16, "b_ptr": F16, "c_ptr": F16, "M": I32, "N": I32, "K": I32},
        {"BM": 128, "BN": 128, "BK": 64},
        "*",
        FOUR,
    ),
    "matmul_descriptors": (
        kernels.matmul_descriptors,
        {"a": TILE, "b": TILE, "c": SQUARE, "M": I32, "N": I32, "K": I32},
        {"BM": 128, "BN": 128, "BK": 64},
        "M N K",
        FOUR,
    ),
    "flash_attention": (
        kernels.flash_attention,
        attention(F16),
        {"CAUSAL": False, "BM": 128, "BN": 64, "D": 64},
        "q_ptr k_ptr v_ptr o_ptr lse_ptr stride_h",
        FOUR,
    ),
    "flash_attention_causal_bf16": (
        kernels.flash_attention,
        attention(BF16),
        {"CAUSAL": True, "BM": 128, "BN": 64, "D": 64},
        "q_ptr k_ptr v_ptr o_ptr lse_ptr stride_h",
        FOUR,
    ),
    "flash_attention_d128": (
        kernels.flash_attention,
        attention(F16),
        {"CAUSAL": False, "BM": 128, "BN": 128, "D": 128},
        "q_ptr k_ptr v_ptr o_ptr lse_ptr stride_h",
        {"num_warps": 8, "num_stages": 2},
    ),
}


def write(name: str, ptx: str) -> None:
    """Without the paths of the machine that compiled it."""
    text = re.sub(r'"[^"\n]*/(sources|targets|include|triton|csrc)/', r'"\1/', ptx.replace(str(FOLDER) + "/", ""))
    (FOLDER / "ptx" / f"{name}.ptx.xz").write_bytes(lzma.compress(text.encode(), preset=9))


def build_cuda(name: str, arch: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "kernel.ptx"
        source = FOLDER / "sources" / f"{name}.cu"
        command = ["nvcc", "-std=c++20", "-O3", "-lineinfo", f"-arch={arch}", "-ptx", str(source), "-o", str(target)]
        subprocess.run(command, check=True)
        write(f"{name}.{arch}", target.read_text())


def build_triton(name: str, capability: int) -> None:
    function, signature, constants, aligned, options = TRITON[name]
    names = [parameter.name for parameter in function.params]
    wanted = aligned.split()
    if aligned == "*":
        wanted = [parameter for parameter, kind in signature.items() if not kind.startswith(("fp32", "tensordesc"))]
    types = {parameter: signature.get(parameter, "constexpr") for parameter in names}
    values = {(names.index(parameter),): value for parameter, value in constants.items()}
    source = ASTSource(function, types, values, {(names.index(parameter),): ALIGNED for parameter in wanted})
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    meta = compiled.metadata
    write(f"{name}.sm_{capability}", compiled.asm["ptx"])
    facts = {"entry": meta.name, "warps": meta.num_warps, "smem": meta.shared, "scratch": meta.global_scratch_size}
    (FOLDER / "ptx" / f"{name}.sm_{capability}.json").write_text(json.dumps(facts) + "\n")


def build_cute() -> None:
    """For 256 queries and 384 keys of depth 192."""
    shapes = ((256, 192), (384, 192), (256, 384))
    halves = [make_fake_compact_tensor(cutlass.Float16, shape, stride_order=(1, 0)) for shape in shapes]
    lse = make_fake_compact_tensor(cutlass.Float32, (256, 3), stride_order=(1, 0))
    write("cute_scores.sm_100a", compile_cute(scores_with_lse, *halves, lse, cutlass.Float32(1.0)).ptx)


if __name__ == "__main__":
    build_cute()
    for cuda_name, architectures in CUDA.items():
        for architecture in architectures:
            build_cuda(cuda_name, architecture)
    for triton_name in TRITON:
        for number in (80, 90, 100):
            if number > 80 or triton_name not in ("matmul_e4m3", "matmul_tma", "matmul_descriptors"):
                build_triton(triton_name, number)

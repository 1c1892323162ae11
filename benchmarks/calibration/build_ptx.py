"""Compiles the calibration kernels to the PTX kept beside them: PYTHONPATH=. python benchmarks/calibration/build_ptx.py

The GPU and the emulator must run the same PTX, whatever compilers either machine has.
"""

from __future__ import annotations

import json
import lzma
import re
from pathlib import Path
from typing import Any

import torch
from flash_attention import flash_attention

from sglab.compilers.nvcc import compile_cuda
from sglab.compilers.triton_aot import compile_triton
from sglab.kernels.decode_attention.stage1_grouped import decode_grouped_stage1_kernel
from sglab.kernels.decode_attention.stage2 import decode_stage2_kernel
from sglab.triton.specialize import Specializer

HERE = Path(__file__).parent
SHIPPED = HERE / "ptx"
ARCH = "sm_90a"
CAPABILITY = 90


def keep(name: str, ptx: str, facts: dict[str, Any]) -> None:
    """Source lines name the repository's own files, wherever it was compiled."""
    SHIPPED.mkdir(exist_ok=True)
    ptx = re.sub(r'"[^"\n]*/(benchmarks/calibration|csrc/kernels|sglab/kernels|triton/language)/', r'"\1/', ptx)
    ptx = re.sub(r'"[^"\n]*/(\w+\.cu)"', r'"benchmarks/calibration/\1"', ptx)
    ptx = re.sub(r'"[^"\n]*/include/', '"cuda/include/', ptx)
    (SHIPPED / f"{name}.ptx.xz").write_bytes(lzma.compress(ptx.encode(), preset=9))
    (SHIPPED / f"{name}.json").write_text(json.dumps(facts, indent=1) + "\n")


def build_cuda(name: str, folder: str = "") -> None:
    ptx = compile_cuda(HERE / folder / f"{name}.cu", ARCH)
    keep(name, ptx, {"source": str(Path("benchmarks/calibration", folder, f"{name}.cu")), "arch": ARCH})


def build_kinds() -> None:
    """The kernels of kinds.py and probes.py."""
    for name in ("memory", "shared", "arithmetic", "products", "asynchronous", "probes"):
        build_cuda(name, "kernels")


def build_triton(name: str, kernel: Any, args: tuple[Any, ...], constants: dict[str, Any]) -> None:
    """args: examples of what the kernel is launched with: their types and divisibility by 16 are compiled in."""
    specializer = Specializer(kernel, CAPABILITY)
    specialization = specializer.specialization(specializer.bind(args, constants))
    program = compile_triton(kernel, specialization, CAPABILITY)
    assert not program.scratch
    assert not program.descriptors
    passed = [parameter for parameter, kind in specialization.signature.items() if kind != "constexpr"]
    facts = {"entry": program.entry, "threads": 32 * program.num_warps, "smem": program.smem, "parameters": passed}
    keep(name, program.ptx, {**facts, "arch": ARCH, "constants": constants})


def build_decode() -> None:
    """Two-stage decode for 32 query heads, 8 KV heads of 128, at most 8 splits."""
    bf16, fp32 = torch.empty(16, dtype=torch.bfloat16), torch.empty(16)
    ints = torch.empty(16, dtype=torch.int32)
    slots = torch.empty(16, dtype=torch.int64)
    q_strides, kv_strides, partial_strides, lse_strides = (4096, 128), (1024, 128) * 2, (32768, 1024, 128), (256, 8)
    dims = {"GROUP": 4, "QK_DIM": 128, "QK_BLOCK": 128, "QK_REST": 0, "V_DIM": 128, "V_BLOCK": 128, "V_IS_K": False}
    build_triton(
        "decode_stage1",
        decode_grouped_stage1_kernel,
        (
            bf16,
            bf16,
            bf16,
            0.1,
            ints,
            slots,
            fp32,
            fp32,
            ints,
            None,
            *q_strides,
            *kv_strides,
            *partial_strides,
            *lse_strides,
        ),
        dims
        | {"BLOCK_H": 16, "BLOCK_N": 64, "MIN_BLOCK_KV": 32, "LOGIT_CAP": 0.0, "TEMPERATURE_LEN": 0}
        | {"num_warps": 4, "num_stages": 4},
    )
    build_triton(
        "decode_stage2",
        decode_stage2_kernel,
        (fp32, fp32, bf16, None, ints, ints, None, None, 1.0, *partial_strides, *lse_strides, *q_strides, 32),
        {"GROUP": 4, "V_DIM": 128, "V_BLOCK": 128, "MIN_BLOCK_KV": 32, "num_warps": 1},
    )


def main() -> None:
    for name in ("streams", "gemm"):
        build_cuda(name)
    build_kinds()
    fp16 = torch.empty(16, dtype=torch.float16)
    for dim, keys, warps in ((64, 64, 4), (128, 128, 8)):
        constants = {"BM": 128, "BN": keys, "D": dim, "num_warps": warps, "num_stages": 3 if dim == 64 else 2}
        build_triton(f"flash_attention_d{dim}", flash_attention, (fp16, fp16, fp16, fp16, 0.1, 1024), constants)
    build_decode()
    for path in sorted(SHIPPED.glob("*.xz")):
        print(f"{path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()

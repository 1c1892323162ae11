"""FlashMLA's tile scheduler metadata, by its own kernel: compiled with nvcc and run on sglab's emulator.

    python -m tests.planning.golden.make_flash_mla [--check]

takes get_decoding_sched_meta.cu of FlashMLA 9241ae3 (it is on GitHub, not on PyPI) and needs nvcc, torch, and the
CUTLASS headers in FlashInfer's wheel. The cases are those of the golden file: add arguments there and run it again.
"""

from __future__ import annotations

import struct
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import torch

from sglab import gpu
from sglab.compilers.nvcc import find_nvcc
from sglab.planning.flash_mla import BLOCK_SIZE_N, FIELDS, FIXED_OVERHEAD_NUM_BLOCKS, num_sm_parts
from tests.planning.golden import files
from tests.planning.golden.make_flashinfer import include_options
from tests.planning.golden.upstream import checkout

COMMIT = "9241ae3"
KERNEL = "smxx/decode/get_decoding_sched_meta"
SOURCE = (
    f"FlashMLA {COMMIT} get_mla_metadata_kernel, run on sglab's emulator; "
    f"arrays of more than {files.LONGEST} entries as SHA-256 of little-endian int64"
)


def kernel(folder: Path) -> gpu.Kernel:
    needed = (f"csrc/{KERNEL}", "csrc/params.h", "csrc/defines.h", "csrc/utils.h", "csrc/kerutils")
    csrc = checkout("deepseek-ai/FlashMLA", COMMIT, *needed) / "csrc"
    source, ptx = csrc / KERNEL / "get_decoding_sched_meta.cu", folder / "kernel.ptx"
    include = [f"-I{csrc}", f"-I{csrc / 'kerutils' / 'include'}", *include_options()]
    options = ["-std=c++20", "-arch=sm_90a", "--expt-relaxed-constexpr", "-ptx", *include]
    subprocess.run([find_nvcc(), *options, source, "-o", ptx], check=True)
    module = gpu.load(ptx)
    return module[next(name for name in module if "get_mla_metadata_kernel" in name)]


def parameters(lens: torch.Tensor, parts: int, metadata: torch.Tensor, num_splits: torch.Tensor) -> bytes:
    """GetDecodeSchedMetaParams of csrc/params.h, for dense decode."""
    sizes = (lens.numel(), 1, BLOCK_SIZE_N, FIXED_OVERHEAD_NUM_BLOCKS, -1, -1)
    pointers = (0, 0, lens.data_ptr(), metadata.data_ptr(), num_splits.data_ptr())
    return struct.pack("<6i5Qi4xQ", *sizes, *pointers, parts, 0)


def plan(run: gpu.Kernel, args: dict[str, Any]) -> dict[str, Any]:
    parts = num_sm_parts(**{name: args[name] for name in ("h_q", "h_k", "s_q", "sm_count")})
    lens = torch.tensor(args["seqlens_k"], dtype=torch.int32)
    metadata = torch.zeros(parts, len(FIELDS), dtype=torch.int32)
    num_splits = torch.zeros(lens.numel() + 1, dtype=torch.int32)
    device = gpu.EmulatedDevice("sm_90a")
    packed = parameters(lens, parts, metadata, num_splits)
    words = 5 * lens.numel() + 1
    run.launch(device, grid=1, block=32, smem=4 * words, args=[packed], extra=[lens, metadata, num_splits])
    metadata[:, FIELDS.index("_pad")] = 0  # never written
    return {
        "tile_scheduler_metadata": files.compact(metadata.numpy()),
        "num_splits": files.compact(num_splits.numpy()),
    }


def make() -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        run = kernel(Path(folder))
        made = [{"args": case["args"], "expected": plan(run, case["args"])} for case in files.cases("flash_mla")]
    return {"flash_mla": files.text(SOURCE, made)}


if __name__ == "__main__":
    files.main(__doc__, make)

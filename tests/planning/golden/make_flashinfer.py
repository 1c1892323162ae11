"""FlashInfer's plans, by its own planners: scheduler.cuh of the wheel, compiled with nvcc and run on the host.

    python -m tests.planning.golden.make_flashinfer [--check]

reads flashinfer-python from PyPI and needs nvcc. No GPU: the few calls of the CUDA runtime that a planner makes are
answered by no_cuda.cpp with the SMs and blocks per SM of the case. The cases are those of the golden files: add
arguments there and run it again. tests/planning/test_against_flashinfer_on_gpu.py compares with an installed
FlashInfer on a GPU.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sglab.compilers.nvcc import find_nvcc
from sglab.planning.flashinfer_decode import PLAN_INFO_FIELDS as DECODE
from sglab.planning.flashinfer_mla import PLAN_INFO_FIELDS as MLA
from sglab.planning.flashinfer_prefill import PLAN_INFO_FIELDS as PREFILL
from sglab.planning.flashinfer_prefill_sm90 import PLAN_INFO_FIELDS as PREFILL_SM90
from tests.planning.golden import files
from tests.planning.golden.upstream import wheel

VERSION = "0.7.2.post1"
SOURCE = (
    f"FlashInfer {VERSION} include/flashinfer/attention/scheduler.cuh, compiled and run on the host; "
    f"arrays of more than {files.LONGEST} entries as SHA-256 of little-endian int64"
)
DATA = "flashinfer/data/"
INCLUDE = ("include", "cccl/libcudacxx/include", "cccl/thrust", "cccl/cub", "cutlass/include")
Sizes = Callable[[dict[str, Any], dict[str, int], Callable[[str, int], Any]], dict[str, int]]


def include_options() -> list[str]:
    """nvcc's options for the headers of the wheel: FlashInfer's own, and the CCCL and CUTLASS that it brings."""
    data = wheel(f"flashinfer-python=={VERSION}", *(f"{DATA}{folder}/" for folder in INCLUDE)) / DATA
    return [f"-I{data / folder}" for folder in INCLUDE]


def build(folder: Path) -> Path:
    program = folder / "plan"
    command = [find_nvcc(), "-std=c++17", "-O1", "-DNDEBUG", "-arch=sm_90", "--cudart", "none", *include_options()]
    sources = [files.HERE / "flashinfer_driver.cu", files.HERE / "no_cuda.cpp"]
    subprocess.run([*command, *sources, "-o", program], check=True)
    return program


def asked(name: str, args: dict[str, Any]) -> str:
    """A line for the driver: scalars in the order of the golden file, then the arrays."""
    scalars = [str(int(value)) for value in args.values() if not isinstance(value, list)]
    arrays = [" ".join(map(str, [len(value), *value])) for value in args.values() if isinstance(value, list)]
    return " ".join([name, *scalars, *arrays])


def decode_sizes(args: dict[str, Any], info: dict[str, int], read: Callable[[str, int], Any]) -> dict[str, int]:
    del read
    padded = info["padded_batch_size"]
    sizes = {"request_indices": padded, "kv_tile_indices": padded, "o_indptr": len(args["kv_indptr"])}
    return sizes | {"kv_chunk_size_ptr": 1} | ({"block_valid_mask": padded} if info["split_kv"] else {})


def prefill_sizes(args: dict[str, Any], info: dict[str, int], read: Callable[[str, int], Any]) -> dict[str, int]:
    del read
    padded = info["padded_batch_size"]
    sizes = dict.fromkeys(("request_indices", "qo_tile_indices", "kv_tile_indices"), padded)
    sizes |= {"o_indptr": len(args["qo_indptr"]), "kv_chunk_size_ptr": 1}
    if info["enable_cuda_graph"]:
        sizes |= {"total_num_rows": 1, "block_valid_mask": padded}
    if info["split_kv"]:
        sizes["merge_indptr"] = args["qo_indptr"][-1] + 1
    return sizes


def prefill_sm90_sizes(args: dict[str, Any], info: dict[str, int], read: Callable[[str, int], Any]) -> dict[str, int]:
    ctas = args["sm_count"]
    lists = ("qo_tile_indices", "qo_indptr", "kv_indptr", "qo_len", "kv_len", "head_indices", "batch_indices")
    return {"work_indptr": ctas + 1} | dict.fromkeys(lists, int(read("work_indptr", ctas + 1)[-1]))


def mla_sizes(args: dict[str, Any], info: dict[str, int], read: Callable[[str, int], Any]) -> dict[str, int]:
    clusters, sms = info["num_blks_y"], args["sm_count"]
    works = int(read("work_indptr", clusters + 1)[-1])
    before, after = ("q_indptr", "kv_indptr", "partial_indptr"), ("q_len", "kv_len", "q_start", "kv_start", "kv_end")
    merges = ("packed_offset_start", "packed_offset_end", "partial_packed_offset_start", "partial_packed_offset_end")
    return (
        {"work_indptr": clusters + 1}
        | dict.fromkeys(before, works)
        | dict.fromkeys([*(f"merge_{name}" for name in merges), "merge_partial_stride"], sms)
        | dict.fromkeys(after, works)
    )


PLANNERS: dict[str, tuple[str, tuple[str, ...], Sizes, tuple[str, ...]]] = {
    "flashinfer_decode": ("decode", DECODE, decode_sizes, ("float_workspace_bytes", "int_workspace_bytes")),
    "flashinfer_prefill": ("prefill", PREFILL, prefill_sizes, ("float_workspace_bytes", "int_workspace_bytes")),
    "flashinfer_prefill_sm90": ("prefill_sm90", PREFILL_SM90, prefill_sm90_sizes, ()),
    "flashinfer_mla": ("mla", MLA, mla_sizes, ("int_workspace_bytes",)),
}
"""Golden file -> the driver's name, the fields of plan_info, entries of each array, and the sizes that are kept."""


def expected(name: str, args: dict[str, Any], answer: str) -> dict[str, Any]:
    if answer == "error":
        return {"error": 1}
    _, fields, sizes_of, kept = PLANNERS[name]
    vector, used, digits = (part.split() for part in answer.split("|"))
    info = dict(zip(fields, map(int, vector), strict=True))
    memory = bytes.fromhex(digits[0]) if digits else b""

    def read(array: str, size: int) -> Any:
        dtype = np.uint8 if array == "block_valid_mask" else np.int32
        return np.frombuffer(memory, dtype, size, info[f"{array}_offset"])

    arrays = {array: files.compact(read(array, size)) for array, size in sizes_of(args, info, read).items()}
    bytes_used = dict(zip(("float_workspace_bytes", "int_workspace_bytes"), map(int, used), strict=True))
    return {"plan_info": list(info.values()), **arrays, **{key: bytes_used[key] for key in kept}}


def make() -> dict[str, str]:
    made = {}
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder))
        for name, (driver, *_) in PLANNERS.items():
            all_args = [case["args"] for case in files.cases(name)]
            lines = "\n".join(asked(driver, args) for args in all_args)
            answers = subprocess.run([program], input=lines, capture_output=True, text=True, check=True).stdout
            pairs = zip(all_args, answers.splitlines(), strict=True)
            found = [{"args": args, "expected": expected(name, args, answer)} for args, answer in pairs]
            made[name] = files.text(SOURCE, found)
    return made


if __name__ == "__main__":
    files.main(__doc__, make)

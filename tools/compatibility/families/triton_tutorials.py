"""Triton's and Gluon's tutorials: their own scripts and tests, at small sizes, beside their own references in torch.

They are in no wheel: clone https://github.com/triton-lang/triton at the version that is installed and name its folder
python/tutorials in TRITON_TUTORIALS. Sizes are ours where a tutorial's function takes them. 09 of Triton's only prints
what it compares; Gluon's from 12 on need a later Triton than 3.7.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from tools.compatibility.case import FLOAT64, Case, Check
from tools.compatibility.families import AbsentError, Family, installed
from tools.compatibility.meter import Meter

FOLDER = "TRITON_TUTORIALS"
_SM90, _SM100 = "sm_90a", "sm_100a"


@dataclass(frozen=True)
class _Tutorial:
    """A function of a tutorial.

    Attributes:
        file: in the folder.
        function: of it that checks itself; empty where the script does as it is read.
        arguments: of the function; "@name" is what the script calls so.
        widened: functions of torch.nn.functional that its reference calls, computed in float64 here.
        compared: what the script leaves, where it only prints how far apart things are.
    """

    file: str
    function: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    arch: str = _SM100
    compared: Callable[[Any], list[Check]] | None = None
    widened: tuple[str, ...] = ()


def _outputs(module: Any) -> list[Check]:
    return [Check(module.output_triton, module.output_torch, 1e-6, 1e-6)]


def _dropped(module: Any) -> list[Check]:
    """What is kept is doubled, and one seed drops the same twice."""
    kept = module.output != 0
    return [Check(module.output, torch.where(kept, 2 * module.x, 0.0)), Check(module.output2, module.output)]


def _product(m: int, n: int, k: int, *blocks: int) -> dict[str, Any]:
    """Sizes of a matrix product and of its tiles."""
    return dict(zip(("M", "N", "K", "BLOCK_M", "BLOCK_N", "BLOCK_K"), (m, n, k, *blocks), strict=False))


_PLANE = {"xnumel": 100, "ynumel": 200}
_TRITON = (
    _Tutorial("01-vector-add.py", compared=_outputs),
    _Tutorial("02-fused-softmax.py"),
    _Tutorial("03-matrix-multiplication.py"),
    _Tutorial("04-low-memory-dropout.py", compared=_dropped),
    _Tutorial("05-layer-norm.py", "test_layer_norm", {"M": 151, "N": 1024, "dtype": torch.float32}),
    _Tutorial(  # the host's own sums of gradients in fp16 are 0.02 off
        *("05-layer-norm.py", "test_layer_norm", {"M": 151, "N": 1024, "dtype": torch.float16}),
        widened=("layer_norm",),
    ),
    *(
        _Tutorial(
            "06-fused-attention.py",
            "test_op",
            {"Z": 1, "H": 2, "N_CTX": 128, "HEAD_DIM": 64, "causal": causal, "mode": "bwd"}
            | {"warp_specialize": False, "provider": "triton-fp16"},
        )
        for causal in (False, True)
    ),
    _Tutorial("07-extern-functions.py", compared=_outputs),
    _Tutorial("08-grouped-gemm.py", arch=_SM90),
    *(
        _Tutorial(
            "10-block-scaled-matmul.py",
            "validate_block_scaled",
            {"M": 128, "N": 256, "K": 512} | {"block_scale_type": kind},
        )
        for kind in ("nvfp4", "mxfp8")  # of the others the script reads scales that it never made
    ),
    _Tutorial("11-programmatic-dependent-launch.py", "validate", {"n_elements": 5000}),
)
_BASICS = (
    _Tutorial("gluon/01-intro.py", "test_copy_scalar"),
    _Tutorial("gluon/01-intro.py", "test_memcpy", {"XBLOCK": 64, "xnumel": 500}),
    _Tutorial("gluon/02-layouts.py", "test_memcpy_1d", {"XBLOCK": 256, "xnumel": 1000, "num_warps": 4}),
    *(
        _Tutorial(
            "gluon/02-layouts.py",
            "test_memcpy_2d",
            {"XBLOCK": 128, "YBLOCK": 256, "transposed": transposed, "num_warps": 4} | _PLANE,
        )
        for transposed in (False, True)
    ),
    *(
        _Tutorial(
            "gluon/02-layouts.py", "test_memcpy_2d_inout", {"transpose_in": one, "transpose_out": not one} | _PLANE
        )
        for one in (False, True)
    ),
    _Tutorial("gluon/03-async-copy.py", "test_memcpy_1d_cpasync", {"xnumel": 1000, "XBLOCK": 256}),
    _Tutorial("gluon/03-async-copy.py", "test_elementwise_add", {"XBLOCK": 32, "YBLOCK": 32} | _PLANE),
    _Tutorial("gluon/03-async-copy.py", "test_elementwise_add_cpasync", {"XBLOCK": 32, "YBLOCK": 32} | _PLANE),
    _Tutorial(
        "gluon/03-async-copy.py",
        "test_elementwise_add_pipelined",
        {"XBLOCK": 32, "YBLOCK": 64, "num_buffers": 2} | _PLANE,
    ),
    _Tutorial("gluon/04-tma.py", "test_memcpy_1d_tma", {"XBLOCK": 64, "xnumel": 500}),
    _Tutorial(
        "gluon/04-tma.py", "test_elementwise_add_pipelined", {"XBLOCK": 32, "YBLOCK": 64, "num_buffers": 2} | _PLANE
    ),
)
_MATRICES = (
    *(
        _Tutorial(
            "gluon/05-wgmma.py",
            "test_small_mma",
            _product(64, 256, 128) | {"LHS_IN_REG": registers, "INSTR_SHAPE_N": 64, "num_warps": 4},
            _SM90,
        )
        for registers in (False, True)
    ),
    *(
        _Tutorial(
            "gluon/05-wgmma.py",
            "test_blocked_matmul",
            _product(208, 416, 304, 64, 64, 64) | {"TRANSPOSE_B": transposed, "num_warps": 4},
            _SM90,
        )
        for transposed in (False, True)
    ),
    _Tutorial(
        "gluon/05-wgmma.py",
        "test_blocked_matmul_pipelined",
        _product(208, 416, 304, 64, 64, 64) | {"num_warps": 4},
        _SM90,
    ),
    *(
        _Tutorial("gluon/06-tcgen05.py", "test_tmem_example_kernel", {"M": m, "N": 64, "num_warps": 4})
        for m in (64, 128)
    ),
    *(
        _Tutorial(
            "gluon/06-tcgen05.py",
            "test_small_mma",
            _product(128, 128, 128) | {"LHS_IN_TMEM": one, "USE_COMMIT": not one, "num_warps": 4},
        )
        for one in (False, True)
    ),
    _Tutorial(
        "gluon/06-tcgen05.py",
        "test_blocked_matmul",
        _product(208, 416, 304, 128, 128, 128) | {"TRANSPOSE_B": True, "num_warps": 4},
    ),
    _Tutorial(
        "gluon/06-tcgen05.py",
        "test_blocked_matmul_pipelined",
        _product(208, 416, 304, 128, 128, 128) | {"num_warps": 4},
    ),
    *(
        _Tutorial(
            "gluon/07-persistence.py",
            "test_persistent_matmul",
            _product(208, 416, 304, 128, 256, 64)
            | {"num_buffers": 3, "num_warps": 4, "SchedulerImpl": "@PersistentTileScheduler"},
            arch,
        )
        for arch in (_SM90, _SM100)
    ),
    *(
        _Tutorial(
            "gluon/07-persistence.py",
            "test_persistent_matmul_pipelined",
            _product(208, 416, 304, 64, 64, 64)
            | {"num_buffers": 4, "num_warps": 4, "SchedulerImpl": "@PersistentTileScheduler"},
            arch,
        )
        for arch in (_SM90, _SM100)
    ),
    _Tutorial(
        "gluon/08-warp-specialization.py",
        "test_elementwise_add_warp_specialized",
        {"XBLOCK": 32, "YBLOCK": 64, "num_load_buffers": 2, "num_store_buffers": 2, "num_warps": 4} | _PLANE,
    ),
    _Tutorial(
        "gluon/08-warp-specialization.py",
        "test_matmul_warp_specialized",
        _product(208, 416, 304, 128, 256, 64)
        | {"num_buffers": 3, "SUBTILE_FACTOR": 4, "num_warps": 4, "SchedulerImpl": "@t7.PersistentTileScheduler"},
    ),
)
_BLACKWELL = (
    *(
        _Tutorial(
            "gluon/09-tma-gather-scatter.py",
            f"test_async_{what}",
            {"BLOCK_X": 8, "BLOCK_Y": 128, "y_offset": 48, "dtype": torch.bfloat16, "X_MAX": 256, "Y_MAX": 256}
            | {"fresh_knobs": None},
        )
        for what in ("gather", "scatter")
    ),
    _Tutorial(
        "gluon/10-tcgen05-copy.py",
        "test_tcgen05_copy_nvmma_shared",
        {"M": 128, "N": 64, "TMEM_BLOCK_N": 64, "dtype": torch.float32, "swizzle": 128},
    ),
    _Tutorial(
        "gluon/10-tcgen05-copy.py",
        "test_matmul_accumulate",
        _product(256, 256, 256, 128, 128, 64) | {"num_buffers": 3, "dtype": torch.float16},
    ),
    *(
        _Tutorial(
            "gluon/11-tcgen05-mma-scaled.py",
            function,
            {"M": 128, "N": 128, "K": 256, "BLOCK_N": 128, "BLOCK_K": 128, "a_format": kind, "b_format": kind},
        )
        for function, kind in (
            ("test_simple_mma_scaled", "mxfp8"),
            ("test_simple_mma_scaled", "nvfp4"),
            ("test_mma_scaled_contig", "mxfp4"),
            ("test_mma_scaled_packed_block", "mxfp8"),
            ("test_mma_scaled_tcgen05_copy", "nvfp4"),
        )
    ),
)


def family() -> Family:
    folder = Path(os.environ.get(FOLDER, ""))
    version = installed("triton")
    if not os.environ.get(FOLDER) or not (folder / "gluon").is_dir():
        raise AbsentError(f"clone https://github.com/triton-lang/triton and set {FOLDER} to its python/tutorials")
    tutorials = (*_TRITON, *_BASICS, *_MATRICES, *_BLACKWELL)
    there = [_case(folder, one) for one in tutorials if (folder / one.file).exists()]
    return Family("Triton's and Gluon's tutorials", version, there)


def _case(folder: Path, tutorial: _Tutorial) -> Case:
    said = ", ".join(
        f"{name}={str(value).removeprefix('torch.').removeprefix('@')}"
        for name, value in tutorial.arguments.items()
        if value is not None
    )
    kernel = " ".join(filter(None, (tutorial.file.removesuffix(".py"), tutorial.function, said)))

    def run(meter: Meter) -> list[Check]:
        from tools.compatibility.tutorials_host import loaded, script_on

        with script_on(meter, meter.arch.capability, tutorial.widened) as checks:
            module = loaded(folder / tutorial.file)
            if not tutorial.function:
                return [*checks, *(tutorial.compared(module) if tutorial.compared else ())]
            checks.clear()
            arguments = {name: _meant(module, value) for name, value in tutorial.arguments.items()}
            getattr(module, tutorial.function)(**arguments)
            return checks

    return Case(kernel, run, tutorial.arch, FLOAT64 if tutorial.widened else "the tutorial's own reference")


def _meant(module: Any, value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith("@"):
        return value
    for name in value[1:].split("."):
        module = getattr(module, name)
    return module

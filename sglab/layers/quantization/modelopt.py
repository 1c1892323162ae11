"""NVIDIA ModelOpt's checkpoints: FP8 with a scale per tensor, or NVFP4.

What config.json's quantization_config or hf_quant_config.json's "quantization" says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sglab.engine.errors import BadArgumentError
from sglab.kernels.formats.nvfp4 import NV_GROUP
from sglab.layers.quantization.fp8 import Fp8
from sglab.layers.quantization.names import Rule, everywhere_but
from sglab.layers.quantization.nvfp4 import Nvfp4
from sglab.layers.quantization.scheme import Scheme

SCHEMES: dict[str, Scheme] = {
    "FP8": Fp8("tensor", "static"),
    "FP8_PB_WO": Fp8("block", "group"),
    "NVFP4": Nvfp4(),
    "NVFP4_AWQ": Nvfp4(),
}


def modelopt(given: Mapping[str, Any]) -> Rule:
    """The rule of a ModelOpt checkpoint.

    Raises:
        BadArgumentError: an algorithm, or a group size, that is not known here.
    """
    inner = given.get("quantization") or given
    algorithm = str(inner.get("quant_algo", "")).upper()
    if algorithm not in SCHEMES:
        expected = f"one of {', '.join(SCHEMES)}"
        raise BadArgumentError("quant_algo", expected, repr(inner.get("quant_algo")), "Use another checkpoint.")
    size = inner.get("group_size")
    if algorithm.startswith("NVFP4") and size not in (None, NV_GROUP):
        raise BadArgumentError("group_size", f"{NV_GROUP} for NVFP4", size, "Use another checkpoint.")
    return everywhere_but([*(inner.get("exclude_modules") or ()), *(inner.get("ignore") or ())], SCHEMES[algorithm])

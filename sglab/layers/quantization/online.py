"""Rounding weights of full precision to a format as they are loaded: SGLang's `--quantization`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

from sglab.engine.errors import BadArgumentError
from sglab.kernels.formats.fp8 import scaled_fp8_quant
from sglab.kernels.formats.int8 import per_token_quant_int8
from sglab.kernels.formats.microscaling import quantize_mxfp4, quantize_mxfp8
from sglab.layers.quantization.fp8 import Fp8
from sglab.layers.quantization.int8 import Int8
from sglab.layers.quantization.microscaling import Mxfp4, Mxfp8
from sglab.layers.quantization.scheme import Scheme


class Rounding(NamedTuple):
    """A format, and how a matrix [out, in] becomes its `weight` and `weight_scale`."""

    scheme: Scheme
    quantize: Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


def _fp8(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    q, scale = scaled_fp8_quant(weight, use_per_token_if_dynamic=True)
    return q, scale[:, 0]


def _int8(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    q, scale = per_token_quant_int8(weight)
    return q, scale[:, 0]


ROUNDINGS = {
    "fp8": Rounding(Fp8("channel", "token"), _fp8),
    "w8a8_fp8": Rounding(Fp8("channel", "token"), _fp8),
    "w8a8_int8": Rounding(Int8("channel", "token"), _int8),
    "mxfp8": Rounding(Mxfp8(), quantize_mxfp8),
    "mxfp4": Rounding(Mxfp4(), quantize_mxfp4),
}


def rounding(method: str) -> Rounding:
    """By its name.

    Raises:
        BadArgumentError: no such format.
    """
    if method not in ROUNDINGS:
        remedy = "A quantised checkpoint says itself what it is: leave quantization out."
        expected = f"None or one of {', '.join(ROUNDINGS)}"
        raise BadArgumentError("quantization", expected, repr(method), remedy)
    return ROUNDINGS[method]

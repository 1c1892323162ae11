"""Quantised weights: each format's numbers and layout (`Scheme`), what a checkpoint says of its layers
(`QuantizationConfig`), and the matrices that linears and experts multiply with (`QuantizedMatrix`)."""

from sglab.kernels.formats.fp8 import (
    block_quant_dequant,
    per_block_cast_to_fp8,
    per_token_group_quant_fp8,
    scaled_fp8_quant,
)
from sglab.kernels.formats.int8 import per_token_group_quant_int8, per_token_quant_int8
from sglab.kernels.formats.marlin import marlin_permute_scales, marlin_unpack
from sglab.kernels.formats.microscaling import dequantize_mxfp4, dequantize_mxfp8, quantize_mxfp4, quantize_mxfp8
from sglab.kernels.formats.nvfp4 import dequantize_nvfp4, quantize_nvfp4
from sglab.layers.quantization.awq import dequantize_awq
from sglab.layers.quantization.config import QuantizationConfig, parse_quantization
from sglab.layers.quantization.ggml import dequantize_ggml
from sglab.layers.quantization.gptq import dequantize_gptq
from sglab.layers.quantization.marlin import (
    awq_marlin_repack,
    awq_to_marlin_zero_points,
    gptq_marlin_repack,
)
from sglab.layers.quantization.scheme import Scheme
from sglab.layers.quantization.weight import QuantizedMatrix, QuantizedWeight

__all__ = [
    "QuantizationConfig",
    "QuantizedMatrix",
    "QuantizedWeight",
    "Scheme",
    "awq_marlin_repack",
    "awq_to_marlin_zero_points",
    "block_quant_dequant",
    "dequantize_awq",
    "dequantize_ggml",
    "dequantize_gptq",
    "dequantize_mxfp4",
    "dequantize_mxfp8",
    "dequantize_nvfp4",
    "gptq_marlin_repack",
    "marlin_permute_scales",
    "marlin_unpack",
    "parse_quantization",
    "per_block_cast_to_fp8",
    "per_token_group_quant_fp8",
    "per_token_group_quant_int8",
    "per_token_quant_int8",
    "quantize_mxfp4",
    "quantize_mxfp8",
    "quantize_nvfp4",
    "scaled_fp8_quant",
]

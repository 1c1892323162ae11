"""QuantizationConfig: what config.json's quantization_config says of each layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sglab.engine.errors import BadArgumentError
from sglab.layers.quantization.awq import Awq
from sglab.layers.quantization.compressed_tensors import compressed_tensors
from sglab.layers.quantization.fp8 import Fp8
from sglab.layers.quantization.gptq import Gptq
from sglab.layers.quantization.int8 import Int8
from sglab.layers.quantization.marlin import Marlin
from sglab.layers.quantization.microscaling import Mxfp8
from sglab.layers.quantization.modelopt import modelopt
from sglab.layers.quantization.names import Rule, everywhere_but, schemes_of
from sglab.layers.quantization.scheme import Scheme
from sglab.layers.quantization.w4a8 import W4A8

GIVEN = "config.json: quantization_config"


@dataclass(frozen=True)
class QuantizationConfig:
    """A checkpoint's formats.

    Attributes:
        method: its quant_method.
        rule: a layer's name -> its format; None: not quantised.
    """

    method: str
    rule: Rule

    def schemes(self, names: Sequence[str]) -> list[Scheme] | None:
        """The formats of matrices that are merged here, under the checkpoint's names; None: they are not quantised.

        Raises:
            BadArgumentError: some are quantised and some are not.
        """
        return schemes_of(self.rule, names)


def parse_quantization(given: Mapping[str, Any] | None) -> QuantizationConfig | None:
    """Read a quantization_config.

    Returns:
        None where there is none, or where the model's own file reads it (gpt-oss's "mxfp4").

    Raises:
        BadArgumentError: a method, or an option of it, that is not known here.
    """
    if not given:
        return None
    method = str(given.get("quant_method") or ("modelopt" if given.get("quant_algo") else "")).lower()
    if method == "mxfp4":
        return None
    if method not in METHODS:
        expected = f"a quant_method among {', '.join(METHODS)}, mxfp4"
        raise BadArgumentError(GIVEN, expected, repr(given.get("quant_method")), "Use the checkpoint in bfloat16.")
    return QuantizationConfig(method, METHODS[method](given))


def _fp8(given: Mapping[str, Any]) -> Rule:
    skipped = [*(given.get("modules_to_not_convert") or ()), *(given.get("ignored_layers") or ())]
    block = given.get("weight_block_size")
    if block:
        if len(block) != 2 or given.get("activation_scheme", "dynamic") != "dynamic":
            got = f"{block} with {given.get('activation_scheme')!r}"
            remedy = "Blocks of weights go with dynamic activations."
            raise BadArgumentError(f"{GIVEN}: weight_block_size", "two sizes", got, remedy)
        scheme = Fp8("block", "group", (block[0], block[1]), "weight_scale_inv")
    else:
        static = _choice(given, "activation_scheme", ("dynamic", "static"), "dynamic") == "static"
        scheme = Fp8("tensor", "static" if static else "tensor")
    return everywhere_but(skipped, scheme)


def _gptq(given: Mapping[str, Any]) -> Rule:
    bits = _choice(given, "bits", (4, 8), 4)
    offset = 0 if given.get("checkpoint_format") == "gptq_v2" else 1
    if given.get("is_marlin_format"):
        return everywhere_but((), Marlin(given["group_size"]))
    if given.get("lm_head") or given.get("dynamic"):
        remedy = "Use a checkpoint whose layers are quantised alike."
        raise BadArgumentError(f"{GIVEN}: lm_head, dynamic", "none", "one of them", remedy)
    scheme = Gptq(bits, int(given.get("group_size", 128)), bool(given.get("desc_act")), offset)
    return everywhere_but(given.get("modules_to_not_convert") or (), scheme)


def _awq(given: Mapping[str, Any]) -> Rule:
    _choice(given, "bits", (4,), 4)
    _choice(given, "version", ("gemm", "GEMM", "marlin"), "gemm")
    scheme = Awq(int(given.get("group_size", given.get("q_group_size", 128))))
    return everywhere_but(given.get("modules_to_not_convert") or (), scheme)


def _w4afp8(given: Mapping[str, Any]) -> Rule:
    """DeepSeek's W4A8 checkpoints: experts of four-bit integers, all else FP8 in blocks."""
    dense = Fp8("block", "group", (128, 128), "weight_scale_inv")
    experts = W4A8(int(given.get("group_size", 128)))
    skipped = everywhere_but(given.get("ignored_layers") or (), dense)
    return lambda name: experts if ".experts." in name and skipped(name) is not None else skipped(name)


def _choice(given: Mapping[str, Any], name: str, choices: tuple[Any, ...], default: Any) -> Any:
    value = given.get(name, default)
    if value not in choices:
        expected = " or ".join(map(repr, choices))
        raise BadArgumentError(f"{GIVEN}: {name}", expected, repr(value), "Use another checkpoint of the model.")
    return value


def _all(scheme: Scheme) -> Callable[[Mapping[str, Any]], Rule]:
    return lambda given: everywhere_but([*(given.get("ignore") or ()), *(given.get("ignored_layers") or ())], scheme)


METHODS: dict[str, Callable[[Mapping[str, Any]], Rule]] = {
    "fp8": _fp8,
    "mxfp8": _all(Mxfp8(scale_name="weight_scale_inv")),
    "w8a8_fp8": _all(Fp8("channel", "token")),
    "w8a8_int8": _all(Int8("channel", "token")),
    "w4afp8": _w4afp8,
    "gptq": _gptq,
    "gptq_marlin": _gptq,
    "marlin": lambda given: everywhere_but((), Marlin(int(given.get("group_size", 128)))),
    "awq": _awq,
    "awq_marlin": _awq,
    "compressed-tensors": compressed_tensors,
    "modelopt": modelopt,
    "modelopt_fp4": modelopt,
}

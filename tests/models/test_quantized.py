"""Quantised checkpoints: what is loaded is what their tensors stand for, also cut over ranks; bad ones are named."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from sglab.engine import BadArgumentError
from sglab.kernels.formats.marlin import marlin_permute_scales
from sglab.layers import SINGLE, TensorParallel, WeightError
from sglab.layers.linear import ReplicatedLinear
from sglab.layers.moe import FusedMoE
from sglab.layers.quantization.marlin import marlin_pack
from sglab.models import CausalLM, from_config, load_model
from tests.support import quantized as q
from tests.support.models import Driver
from tests.support.tiny_configs import DEEPSEEK, LLAMA, QWEN3_MOE, drawn, linear_layers


class Case(NamedTuple):
    config: dict[str, Any]
    write: Callable[[torch.Tensor], q.Written]
    error: float = 1e-5
    """Of logits; more than rounding where activations are quantised, too, and another expert may be chosen."""
    model: dict[str, Any] = LLAMA


def marlin(w: torch.Tensor) -> q.Written:
    scale = w.unflatten(1, (-1, 32)).abs().amax(-1).T / 8
    wide_scale = scale.half().float().repeat_interleave(32, 0)
    values = (w.T / wide_scale).round().add(8).clamp(0, 15)
    tensors = {"B": marlin_pack(values.int()), "s": marlin_permute_scales(scale.half())}
    return tensors, ((values - 8) * wide_scale).T.contiguous()


def group(kind: str, bits: int, strategy: str, **others: Any) -> dict[str, Any]:
    activations = others.pop("input_activations", None)
    weights = {"type": kind, "num_bits": bits, "strategy": strategy, **others}
    return {"targets": ["Linear"], "weights": weights, "input_activations": activations}


def compressed(form: str, one: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {"quant_method": "compressed-tensors", "format": form, "config_groups": {"group_0": one},
            "ignore": ["lm_head"], **others}  # fmt: skip


ALL_EXPERTS = {**QWEN3_MOE, "num_experts_per_tok": 4}  # a rounded token cannot choose another expert
MLA = {**DEEPSEEK, "num_experts_per_tok": 4}
FP8_STATIC = {"quant_method": "fp8", "activation_scheme": "static"}
BLOCKS = {"quant_method": "fp8", "weight_block_size": [16, 16]}
DYNAMIC = {"dynamic": True, "strategy": "token", "type": "float", "num_bits": 8}
CASES = {
    "fp8": Case({"quant_method": "fp8"}, q.fp8_tensor, 0.2),
    "fp8 static": Case(FP8_STATIC, partial(q.fp8_tensor, static=0.1), 0.2),
    "fp8 blocks": Case(BLOCKS, q.fp8_block, 0.2),
    "fp8 channels": Case({"quant_method": "w8a8_fp8"}, q.fp8_channel, 0.2),
    "int8": Case({"quant_method": "w8a8_int8"}, q.int8_channel, 0.1),
    "gptq": Case({"quant_method": "gptq", "bits": 4, "group_size": 32}, q.gptq),
    "gptq 8 bits, one group": Case(
        {"quant_method": "gptq", "bits": 8, "group_size": -1}, partial(q.gptq, size=-1, bits=8)
    ),
    "gptq desc_act": Case(
        {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": True, "checkpoint_format": "gptq_v2"},
        partial(q.gptq, desc_act=True, version=2),
    ),
    "awq": Case({"quant_method": "awq", "bits": 4, "group_size": 32}, q.awq),
    "marlin": Case({"quant_method": "marlin", "group_size": 32}, marlin, model={**LLAMA, "num_key_value_heads": 4}),
    "mxfp8": Case({"quant_method": "mxfp8"}, q.mxfp8, 0.25),
    "modelopt fp8": Case({"quant_method": "modelopt", "quant_algo": "FP8"}, partial(q.fp8_tensor, static=0.1), 0.2),
    "modelopt nvfp4": Case(
        {"quant_method": "modelopt_fp4", "quant_algo": "NVFP4", "group_size": 16, "ignore": ["lm_head"]}, q.nvfp4, 0.6
    ),
    "compressed fp8": Case(
        compressed("float-quantized", group("float", 8, "channel", input_activations=DYNAMIC)), q.fp8_channel, 0.2
    ),
    "compressed int8": Case(compressed("int-quantized", group("int", 8, "channel")), q.int8_channel),
    "experts in fp8 blocks": Case(BLOCKS, q.fp8_block, 0.4, ALL_EXPERTS),
    "experts in gptq": Case({"quant_method": "gptq", "bits": 4, "group_size": 32}, q.gptq, model=QWEN3_MOE),
    "experts in fp8": Case(FP8_STATIC, partial(q.fp8_tensor, static=0.1), 0.4, ALL_EXPERTS),
    "mla in fp8 blocks": Case(BLOCKS, q.fp8_block, 0.4, MLA),
    "mla in awq": Case({"quant_method": "awq", "bits": 4, "group_size": 16}, partial(q.awq, size=16), model=MLA),
}


def written(case: Case, folder: Path) -> dict[str, torch.Tensor]:
    """The checkpoint, in a folder; what it stands for."""
    stored, wide = q.checkpoint(drawn(case.model), case.write, linear_layers)
    q.write_checkpoint(folder, {**case.model, "quantization_config": case.config}, stored)
    return wide


def full_precision(config: dict[str, Any], wide: dict[str, torch.Tensor], tp: TensorParallel = SINGLE) -> CausalLM:
    model = from_config(config, tp=tp)
    model.load_weights(wide.items())
    return model


def assert_same_weights(found: CausalLM, expected: CausalLM) -> int:
    """Every layer's weight; returns how many are quantised."""
    theirs, count = dict(expected.named_modules()), 0
    for name, module in found.named_modules():
        other = theirs.get(name)
        if isinstance(module, ReplicatedLinear):
            assert isinstance(other, ReplicatedLinear)
            count += module.quantized is not None
            weight = module.weight if module.quantized is None else module.quantized.dense()
            assert torch.allclose(weight, other.weight, rtol=1e-6, atol=1e-9), name
        elif isinstance(module, FusedMoE) and module.quantized is not None:
            assert isinstance(other, FusedMoE)
            count += 1
            for matrix, weight in zip(module.quantized, (other.w13, other.w2), strict=True):
                dense = torch.stack([matrix.dense(e) for e in range(len(module.here))])
                assert torch.allclose(dense, weight, rtol=1e-6, atol=1e-9), name
    return count


@pytest.mark.parametrize("name", list(CASES))
def test_a_checkpoint_is_what_its_tensors_stand_for(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    wide = written(case, tmp_path)
    model, expected = load_model(tmp_path, dtype="float32"), full_precision(case.model, wide)
    assert assert_same_weights(model, expected) >= 3
    prompts = [torch.randint(0, 96, (n,)).tolist() for n in (9, 4)]
    logits, wanted = (Driver(each).prefill(prompts)[0] for each in (model, expected))
    assert torch.isfinite(logits).all()
    assert float((logits - wanted).norm() / wanted.norm()) <= case.error


@pytest.mark.parametrize("name", sorted(set(CASES) - {"marlin"}))
def test_ranks_hold_their_share(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    wide = written(case, tmp_path)
    for rank in range(2):
        tp = TensorParallel(rank, 2)
        assert_same_weights(load_model(tmp_path, dtype="float32", tp=tp), full_precision(case.model, wide, tp))


def test_layers_that_are_not_quantised(tmp_path: Path) -> None:
    stored, wide = q.checkpoint(drawn(LLAMA), q.fp8_block, lambda name: "mlp" in name and "norm" not in name)
    config = {**LLAMA, "quantization_config": {**BLOCKS, "modules_to_not_convert": ["self_attn"]}}
    q.write_checkpoint(tmp_path, config, stored)
    assert assert_same_weights(load_model(tmp_path, dtype="float32"), full_precision(LLAMA, wide)) == 2
    mixed = {**BLOCKS, "modules_to_not_convert": ["model.layers.0.self_attn.q_proj"]}
    q.write_checkpoint(tmp_path, {**LLAMA, "quantization_config": mixed}, stored)
    with pytest.raises(BadArgumentError, match=r"expected all or none of merged layers, got .*q_proj: none, .*Fp8"):
        load_model(tmp_path)


def test_modelopts_own_file_and_scales_of_a_kv_cache(tmp_path: Path) -> None:
    case = CASES["modelopt fp8"]
    stored, wide = q.checkpoint(drawn(LLAMA), case.write, linear_layers)
    stored["model.layers.0.self_attn.k_proj.k_scale"] = torch.tensor(1.5)
    q.write_checkpoint(tmp_path, LLAMA, stored)
    inner = '{"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}'
    (tmp_path / "hf_quant_config.json").write_text(f'{{"producer": {{}}, "quantization": {inner}}}')
    assert assert_same_weights(load_model(tmp_path, dtype="float32"), full_precision(LLAMA, wide)) == 4


@pytest.mark.parametrize(("method", "step"), [("fp8", 0.06), ("w8a8_int8", 0.03), ("mxfp8", 0.07), ("mxfp4", 0.3)])
@pytest.mark.parametrize("config", [LLAMA, QWEN3_MOE, DEEPSEEK], ids=["llama", "experts", "mla"])
def test_weights_are_rounded_as_they_are_loaded(
    config: dict[str, Any], method: str, step: float, tmp_path: Path
) -> None:
    weights = drawn(config)
    q.write_checkpoint(tmp_path, config, weights)
    model, exact = load_model(tmp_path, quantization=method), full_precision(config, weights)
    rounded = 0
    for name, module in model.named_modules():
        if isinstance(module, ReplicatedLinear) and module.quantized is not None:
            wide = exact.get_parameter(f"{name}.weight")
            assert 0 < float((module.quantized.dense() - wide).norm() / wide.norm()) <= step
            rounded += 1
    assert rounded >= 2
    logits = Driver(model).prefill([torch.randint(0, 96, (12,)).tolist()])[0]
    assert torch.isfinite(logits).all()


DOWN = "model.layers.0.mlp.down_proj"


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("fp8 blocks", {"weight": lambda t: t.float()}, r"down_proj\.weight: expected dtype torch\.float8_e4m3fn"),
        (
            "fp8 blocks",
            {"weight_scale_inv": lambda t: t[1:]},
            r"weight_scale_inv: expected shape \(4, 8\), got \(3, 8\)",
        ),
        (
            "fp8 blocks",
            {"weight_scale_inv": None},
            r"down_proj\.weight_scale_inv: expected in the checkpoint, got noth",
        ),
        ("fp8 blocks", {"weight_scale_inv": lambda t: t.fill_(-1)}, r"expected finite scales of at least 0, got -1\.0"),
        ("fp8", {"weight_scale": lambda t: t.fill_(torch.nan)}, r"weight_scale: expected finite scales .*got nan"),
        ("fp8", {"weight_scale": lambda t: t.expand(3).clone()}, r"weight_scale: expected one number, got \(3,\)"),
        ("gptq", {"g_idx": lambda t: t.flip(0)}, r"g_idx: expected neighbours in groups of 32, as desc_act=false says"),
        ("gptq desc_act", {"g_idx": lambda t: t + 9}, r"g_idx: expected groups from 0 to 3, got 9 to 12"),
        ("gptq", {"qweight": lambda t: t[:, 1:]}, r"qweight: expected shape \(16, 64\), got \(16, 63\)"),
        ("awq", {"scales": lambda t: t.int()}, r"scales: expected dtype torch\.float32, got torch\.int32"),
        ("mxfp8", {"weight_scale_inv": lambda t: t.fill_(255)}, r"weight_scale_inv: expected e8m0 scales up to 254"),
        ("int8", {"weight_zero_point": lambda t: t}, r"weight_zero_point: expected weight"),
    ],
)
def test_damaged_tensors_are_named(name: str, change: dict[str, Any], message: str, tmp_path: Path) -> None:
    case = CASES[name]
    stored, _ = q.checkpoint(drawn(case.model), case.write, linear_layers)
    for part, edit in change.items():
        old = stored.pop(f"{DOWN}.{part}", torch.zeros(1))
        if edit is not None:
            stored[f"{DOWN}.{part}"] = edit(old.clone())
    q.write_checkpoint(tmp_path, {**case.model, "quantization_config": case.config}, stored)
    with pytest.raises((WeightError, BadArgumentError), match=message):
        load_model(tmp_path, dtype="float32")


def test_a_cut_through_a_block_is_refused(tmp_path: Path) -> None:
    case = Case({"quant_method": "fp8", "weight_block_size": [128, 128]}, partial(q.fp8_block, size=128))
    written(case, tmp_path)
    with pytest.raises(WeightError, match=r"whole blocks of 128 features, got one that begins at 32\. Use fewer tens"):
        load_model(tmp_path, tp=TensorParallel(1, 2))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"quant_method": "gptq", "bits": 3}, "bits: expected 4 or 8, got 3"),
        ({"quant_method": "awq", "version": "gemv"}, "version: expected 'gemm' or"),
        ({**BLOCKS, "activation_scheme": "static"}, "weight_block_size: expected two sizes"),
        ({"quant_method": "modelopt", "quant_algo": "W4A8_AWQ"}, "quant_algo: expected one of FP8, .*got 'W4A8_AWQ'"),
        (compressed("x", group("int", 2, "channel")), "group_0: expected a W8A8, .*got 2-bit int weights per channel"),
    ],
)
def test_formats_that_are_not_known(config: dict[str, Any], message: str, tmp_path: Path) -> None:
    q.write_checkpoint(tmp_path, {**LLAMA, "quantization_config": config}, {})
    with pytest.raises(BadArgumentError, match=message):
        load_model(tmp_path)

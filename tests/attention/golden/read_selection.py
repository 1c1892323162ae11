"""Asks SGLang's own rules which attention backend it would run, machine by model by arguments, and writes the answers.

pip download --no-deps sglang==0.5.23 && unzip -d sglang-0.5.23 sglang-0.5.23-*.whl
python tests/attention/golden/read_selection.py sglang-0.5.23

The steps of its resolution that choose attention backends are run as they are, in its pipeline's order: the device's,
the model's declarations, deterministic mode, and `handle_attention_backend_compatibility`. Facts of the machine come
through its own `override_platform`; a model is its architecture and what those steps read of its configuration. A few
packages that the wheel imports and these steps do not use are stand-ins.
"""

import enum
import importlib.abc
import importlib.machinery
import itertools
import json
import logging
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import MagicMock

from sglab.attention.selection import HARDWARE, Hardware, Model

OUT = Path(__file__).with_name("selection.json")
STANDINS = ("orjson", "pybase64", "aiohttp", "tvm_ffi", "sglang.srt.configs", "sglang.srt.utils.hf_transformers", "PIL")
"""The last two import every model's configuration, and what those want."""

MODELS = {
    "MHA": Model(False),
    "MHA with sinks": Model(False, attention_sinks=True),
    "MHA, keys wider than values": Model(False, asymmetric_kv=True),
    "MLA": Model(True),
    "MLA with 16 heads": Model(True, num_kv_heads=16),
    **{
        name: Model(name in ("DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "LongcatFlashForCausalLM"), name)
        for name in (
            "DeepseekV2ForCausalLM",
            "DeepseekV3ForCausalLM",
            "LongcatFlashForCausalLM",
            "Llama4ForConditionalGeneration",
            "Olmo2ForCausalLM",
            "Exaone4ForCausalLM",
            "Gemma4ForCausalLM",
            "DiffusionGemmaForBlockDiffusion",
            "EmbeddingGemma2Model",
            "BeamForCausalLM",
            "MiMoV2FlashForCausalLM",
            "MiniCPMV4_6ForConditionalGeneration",
            "Step3p5ForCausalLM",
            "FalconH1ForCausalLM",
            "GraniteMoeHybridForCausalLM",
            "Lfm2ForCausalLM",
            "WhisperForConditionalGeneration",
        )
    },
    "GptOssForCausalLM": Model(False, "GptOssForCausalLM", attention_sinks=True),
}
SETTINGS: list[dict[str, Any]] = [
    {},
    {"page_size": 64},
    {"page_size": 128},
    {"kv_cache_dtype": "fp8_e5m2"},
    {"kv_cache_dtype": "fp8_e4m3"},
    {"speculative_algorithm": "EAGLE", "speculative_eagle_topk": 1},
    {"speculative_algorithm": "EAGLE", "speculative_eagle_topk": 4},
    {"speculative_algorithm": "EAGLE"},
    {"speculative_algorithm": "DFLASH"},
    {"enable_deterministic_inference": True},
    {"decode_attention_backend": "triton"},
    {"prefill_attention_backend": "flashinfer"},
    {"prefill_attention_backend": "fa4", "decode_attention_backend": "fa4"},
    *({"attention_backend": name} for name in ("fa3", "fa4", "flashinfer", "triton", "flashmla", "trtllm_mla")),
    *({"attention_backend": name} for name in ("cutedsl_mla", "trtllm_mha", "hpc_ops", "aiter", "intel_xpu")),
    *({"attention_backend": name} for name in ("intel_amx", "torch_native", "flex_attention")),
    {"attention_backend": "flex_attention", "speculative_algorithm": "EAGLE"},
    {"attention_backend": "fa4", "speculative_algorithm": "EAGLE", "speculative_eagle_topk": 4},
    {"attention_backend": "aiter", "enable_deterministic_inference": True},
]


class StandIn(types.ModuleType):
    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {}) if name[0].isupper() else MagicMock(name=name)


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        stands_in = any(name == each or name.startswith(f"{each}.") for each in STANDINS)
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if stands_in else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return StandIn(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


class Described:
    """A configuration of which only the given fields are known; the others are None."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)


def facts(machine: Hardware) -> dict[str, Any]:
    cuda, major = machine.device == "cuda", machine.capability[0]
    return {
        "is_cuda": cuda,
        "is_hip": machine.device == "hip",
        "is_npu": machine.device == "npu",
        "is_xpu": machine.device == "xpu",
        "is_musa": False,
        "is_mps": False,
        "is_sm90": cuda and major == 9,
        "is_sm100": cuda and major == 10,
        "is_sm100_or_sm110": cuda and major in (10, 11),
        "is_sm110": cuda and major == 11,
        "is_sm120": cuda and major == 12,
        "is_blackwell": cuda and major in (10, 11, 12),
        "is_hopper_with_cuda_12_3": cuda and major == 9,
        "has_amx": machine.amx,
        "has_flashinfer": machine.flashinfer,
        "device_sm": 10 * major + machine.capability[1],
        "device_capability": machine.capability if cuda else (None, None),
    }


def answers() -> Iterator[tuple[str, str, str]]:
    """Machine, model, and for each of SETTINGS in turn "prefill decode page_size" or "refused"."""
    from sglang.srt.arg_groups import attention_hook, overrides, platform_hook
    from sglang.srt.configs import model_config
    from sglang.srt.runtime_context import override_platform
    from sglang.srt.server_args import ServerArgs

    logging.disable(logging.WARNING)
    model_config.is_deepseek_dsa = lambda hf_config: False
    attention_hook.with_phase = lambda config, *_, **__: config  # graphs are not asked about
    arch = model_config.AttentionArch = enum.Enum("AttentionArch", ("MLA", "MHA"))
    for (machine, hardware), (name, model), given in itertools.product(HARDWARE.items(), MODELS.items(), SETTINGS):
        overrides.xpu_has_xmx_support = lambda hardware=hardware: hardware.xmx
        hf_config = Described(
            architectures=[model.architecture or "Plain"], sliding_window_pattern=4, layer_types=["mamba"]
        )
        args = ServerArgs(model_path="model", device=hardware.device, **given)
        args._model_config = Described(
            hf_config=hf_config,
            context_len=4096,
            attention_arch=arch.MLA if model.use_mla else arch.MHA,
            has_asymmetric_kv=model.asymmetric_kv,
            has_attention_sinks=model.attention_sinks,
            get_num_kv_heads=lambda tp, model=model: model.num_kv_heads,
            is_encoder_decoder=name.startswith("Whisper"),
        )
        try:
            with override_platform(**facts(hardware)):
                platform_hook.handle_cpu_backends(args)
                platform_hook.handle_hpu_backends(args)
                if hardware.device == "npu":  # set_default_server_args: an NPU runs nothing else
                    named = ("attention_backend", "prefill_attention_backend", "decode_attention_backend")
                    overrides.declare_resolution(args, "npu", **dict.fromkeys(named, "ascend"))
                for source, made in overrides.collect_model_override_declarations(
                    hf_config.architectures[0], args, hf_config
                ):
                    overrides.declare_resolution(args, source, **made)
                overrides.run_post_process_pass(args, overrides._deterministic_attention_backend)
                attention_hook.handle_attention_backend_compatibility(args)
                overrides.run_post_process_pass(args, overrides._page_size_default)
                view = overrides.resolved_view(args)
                yield machine, name, " ".join(map(str, (*overrides.attention_backends_of(view), view.page_size)))
        except (ValueError, AssertionError):
            yield machine, name, "refused"


if __name__ == "__main__":
    sys.meta_path.insert(0, StandIns())
    sys.path.insert(0, sys.argv[1])
    rows: list[list[str]] = []
    made: dict[str, dict[str, int]] = {}
    for (machine, model), told in itertools.groupby(answers(), lambda each: each[:2]):
        row = [answer for *_, answer in told]
        if row not in rows:
            rows.append(row)
        made.setdefault(machine, {})[model] = rows.index(row)
    golden = {"settings": SETTINGS, "rows": rows, "answers": made}
    OUT.write_text(json.dumps(golden, indent=0) + "\n", "utf-8")

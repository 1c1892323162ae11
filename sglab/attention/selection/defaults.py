"""The default backend, when none was named: model rules first, then the table by hardware and kind of attention.

A rule gives (backend, reason) or None. Source: SGLang `server_args.py`: `_handle_cpu_backends`,
`_handle_model_specific_adjustments`, `_handle_attention_backend_compatibility`.
"""

from __future__ import annotations

from dataclasses import replace

from sglab.attention.selection.hardware import Hardware
from sglab.attention.selection.settings import Model, SelectionError, Settings

Pick = tuple[str, str]

DEEPSEEK = {
    "0.5.5.post1": ("DeepseekV3ForCausalLM",),
    "0.5.9": (
        "DeepseekV3ForCausalLM",
        "KimiK25ForConditionalGeneration",
        "MistralLarge3ForCausalLM",
        "PixtralForConditionalGeneration",
        "GlmMoeDsaForCausalLM",
    ),
}
"""Architectures with the DeepSeek rule: trtllm_mla on SM100."""

HYBRID_ON_SM100 = {
    "NemotronHForCausalLM": "flashinfer",
    "Lfm2ForCausalLM": "flashinfer",
    "Qwen3NextForCausalLM": "triton",
    "Qwen3_5MoeForConditionalGeneration": "triton",
    "Qwen3_5ForConditionalGeneration": "triton",
    "FalconH1ForCausalLM": "triton",
    "JetNemotronForCausalLM": "triton",
    "JetVLMForConditionalGeneration": "triton",
    "GraniteMoeHybridForCausalLM": "triton",
}
"""Hybrid linear-attention models and their default on SM100 (0.5.9)."""

FA3_DEFAULT_0_5_5 = (
    "Qwen2ForCausalLM",
    "Llama4ForConditionalGeneration",
    "LlamaForCausalLM",
    "Olmo2ForCausalLM",
    "Gemma2ForCausalLM",
    "Gemma3ForConditionalGeneration",
    "Qwen3ForCausalLM",
    "Qwen3MoeForCausalLM",
    "Glm4MoeForCausalLM",
    "Glm4vMoeForConditionalGeneration",
    "Step3VLForConditionalGeneration",
)
"""0.5.5.post1 takes FA3 on Hopper for these MHA architectures only; 0.5.9 for all."""


def by_device(hardware: Hardware, settings: Settings, version: str) -> tuple[Settings, str]:
    """Fill in the settings of devices that decide before the model does; "" where the device does not."""
    if hardware.device == "hpu":
        return replace(settings, attention_backend="torch_native"), "Gaudi (hpu) always takes torch_native"
    if hardware.device == "cpu" and settings.attention_backend is None:
        return replace(settings, attention_backend="intel_amx"), "the CPU default is intel_amx"
    if hardware.device == "npu" and version == "0.5.9":
        both = replace(settings, prefill_attention_backend="ascend", decode_attention_backend="ascend")
        return replace(both, attention_backend="ascend"), "an Ascend NPU always takes ascend"
    return settings, ""


def by_model(hardware: Hardware, model: Model, settings: Settings, version: str) -> Pick | None:
    """Architectures with a rule of their own.

    Raises:
        SelectionError: the architecture refuses the requested backend.
    """
    name = model.architecture
    if model.sparse:
        return ("nsa", "DeepSeek Sparse Attention needs its indexer: nsa") if settings.none_set() else None
    if name in DEEPSEEK[version]:
        if hardware.is_sm100_supported() and settings.none_set():
            return "trtllm_mla", f"{name} on SM100 (capability 10.x, CUDA ≥ 12.8) takes trtllm_mla"
        return None
    if name == "GptOssForCausalLM":
        return _gpt_oss(hardware, settings, version)
    if "Llama4" in name and hardware.device != "cpu":
        return _llama4(hardware, settings, version)
    if name == "Olmo2ForCausalLM":
        return _olmo2(hardware, settings)
    if version == "0.5.9" and name in HYBRID_ON_SM100:
        return _hybrid(hardware, name, settings)
    return None


def by_kind(hardware: Hardware, model: Model, settings: Settings, version: str) -> Pick:
    """The general table, MHA and MLA."""
    if hardware.device == "npu":
        return "ascend", "an Ascend NPU takes ascend"
    return _mla(hardware, model) if model.use_mla else _mha(hardware, model, settings, version)


def _hybrid(hardware: Hardware, name: str, settings: Settings) -> Pick | None:
    default = HYBRID_ON_SM100[name]
    if settings.attention_backend == "triton" and default == "flashinfer":
        raise SelectionError(f"{name} refuses triton: its first layer may not be an attention layer")
    if settings.attention_backend is None and hardware.is_sm100_supported():
        return default, f"the hybrid model {name} takes {default} on SM100"
    return None


def _mha(hardware: Hardware, model: Model, settings: Settings, version: str) -> Pick:
    chain = settings.no_spec_infer_or_topk_one()
    if hardware.is_sm90_supported() and chain:
        if version == "0.5.9":
            return "fa3", "MHA on Hopper (SM90, CUDA ≥ 12.3) takes FlashAttention-3"
        if model.architecture in FA3_DEFAULT_0_5_5:
            return "fa3", f"0.5.5 takes FlashAttention-3 on Hopper for {model.architecture}"
    known_tree = settings.speculative_algorithm is None or settings.speculative_eagle_topk is not None
    if version == "0.5.9" and hardware.is_sm100_supported() and chain and known_tree:
        return "trtllm_mha", "MHA on SM100 (B200, B300) takes trtllm_mha, unless drafts form a tree (topk > 1)"
    if hardware.device == "hip":
        return "aiter", "MHA on AMD takes aiter"
    if hardware.flashinfer and hardware.device == "cuda":
        return "flashinfer", "MHA elsewhere on NVIDIA takes FlashInfer where it is installed"
    return "triton", "MHA takes Triton where FlashInfer is not available"


def _mla(hardware: Hardware, model: Model) -> Pick:
    if hardware.is_sm90_supported():
        return "fa3", "MLA on Hopper (SM90, CUDA ≥ 12.3) takes FlashAttention-3"
    if hardware.is_sm100_supported():
        return "flashinfer", "MLA on SM100 takes FlashInfer (DeepSeek-V3 has a rule of its own: trtllm_mla)"
    if hardware.device == "hip":
        if model.num_kv_heads in (16, 128):
            return "aiter", f"MLA on AMD with {model.num_kv_heads} heads per rank takes aiter"
        return "triton", f"MLA on AMD takes aiter for 16 or 128 heads only; with {model.num_kv_heads} it takes Triton"
    return "triton", "MLA takes Triton where neither Hopper nor SM100 has a rule"


def _by_sm(hardware: Hardware, otherwise: str) -> str:
    if hardware.is_sm100_supported():
        return "trtllm_mha"
    return "fa3" if hardware.is_sm90_supported() else otherwise


def _gpt_oss(hardware: Hardware, settings: Settings, version: str) -> Pick:
    backend = settings.attention_backend
    if settings.none_set():
        backend = _by_sm(hardware, "triton")
    allowed = ("triton", "trtllm_mha", "fa3", "fa4", "ascend")[: 5 if version == "0.5.9" else 4]
    both = settings.prefill_attention_backend or backend, settings.decode_attention_backend or backend
    if not set(both) <= set(allowed):
        raise SelectionError(
            f"GPT-OSS takes {', '.join(allowed)} for prefill and for decode, not {both[0]} and {both[1]}"
        )
    return str(backend), "GPT-OSS: trtllm_mha on SM100, fa3 on SM90, else triton"


def _llama4(hardware: Hardware, settings: Settings, version: str) -> Pick:
    backend = settings.attention_backend
    if backend is None and version == "0.5.9":
        backend = {"hip": "aiter", "xpu": "intel_xpu"}.get(hardware.device) or _by_sm(hardware, "triton")
    allowed = ("fa3", "aiter", "triton", "trtllm_mha", "intel_xpu")
    if backend not in allowed:
        early = "; 0.5.5.post1 asserts this before it would choose one" if backend is None else ""
        raise SelectionError(f"Llama 4 takes {', '.join(allowed)} as attention_backend, not {backend}{early}")
    return backend, "Llama 4: trtllm_mha on SM100, fa3 on SM90, aiter on AMD, intel_xpu on XPU, else triton"


def _olmo2(hardware: Hardware, settings: Settings) -> Pick:
    backend = settings.attention_backend
    if backend == "flashinfer":
        raise SelectionError("Olmo 2 and 3 refuse flashinfer: it is slow with their sliding window")
    if backend is None and hardware.is_sm100_supported():
        backend = "trtllm_mha"
    elif backend is None:
        backend = "fa3" if hardware.device == "cuda" and hardware.capability >= (8, 0) else "triton"
    return backend, "Olmo 2 and 3: trtllm_mha on SM100, fa3 from SM80 on, else triton"

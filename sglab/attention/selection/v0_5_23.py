"""SGLang 0.5.23's rules, in its order: device, model, deterministic mode, default, page sizes, fall-backs, refusals.

Source: SGLang 0.5.23 `arg_groups/{platform_hook,attention_hook,overrides,model_override_base}.py`, `model_overrides/`.
"""

from __future__ import annotations

from dataclasses import replace

from sglab.attention.selection.defaults import Pick
from sglab.attention.selection.hardware import Hardware
from sglab.attention.selection.models_0_5_23 import DEFAULTS, by_table
from sglab.attention.selection.settings import Model, SelectionError, Settings

DETERMINISTIC = ("ascend", "fa3", "fa4", "flashinfer", "intel_xpu", "triton")
DEEPSEEK = (
    "DeepseekV3ForCausalLM",
    "DeepseekV32ForCausalLM",
    "KimiK25ForConditionalGeneration",
    "MistralLarge3ForCausalLM",
    "PixtralForConditionalGeneration",
    "GlmMoeDsaForCausalLM",
    "Glm5NextForConditionalGeneration",
    "LongcatFlashForCausalLM",
)
"""Architectures with the DeepSeek rule."""

NOT_DETERMINISTIC_ON_FLASHINFER = (
    "DeepseekV2ForCausalLM",
    "DeepseekV3ForCausalLM",
    "DeepseekV32ForCausalLM",
    "MistralLarge3ForCausalLM",
    "PixtralForConditionalGeneration",
)
GATED_DELTA_NET = (
    "Qwen3NextForCausalLM",
    "Qwen3_5MoeForConditionalGeneration",
    "Qwen3_5ForConditionalGeneration",
    "InternS2PreviewForConditionalGeneration",
    "InternS2MobiusForConditionalGeneration",
)
HYBRID_ON_SM100 = {
    "FalconH1ForCausalLM": "triton",
    "JetNemotronForCausalLM": "triton",
    "JetVLMForConditionalGeneration": "triton",
    "GraniteMoeHybridForCausalLM": "flashinfer",
    "Lfm2ForCausalLM": "flashinfer",
    "Lfm2MoeForCausalLM": "flashinfer",
}
"""Hybrid models and their default on SM100."""

PAGE_SIZES = {
    "flashmla": (64,),
    "trtllm_mla": (32, 64),
    "cutedsl_mla": (32, 64),
    "trtllm_mha": (16, 32, 64, 128),
    "hpc_ops": (64,),
}
"""What each takes; another size becomes 64."""


def choose(hardware: Hardware, model: Model, asked: Settings) -> tuple[Settings, str]:
    """Fill `attention_backend`, and say by which rule.

    Raises:
        SelectionError: the requested backend is refused in deterministic mode.
    """
    asked, reason = _by_device(hardware, asked)
    pick = _by_model(hardware, model, asked)
    if pick is not None:
        asked, reason = replace(asked, attention_backend=pick[0]), pick[1]
        if model.architecture in GATED_DELTA_NET:
            asked = replace(asked, page_size=64 if pick[0] == "trtllm_mha" else 1)
        elif model.architecture.startswith("NemotronH") and pick[0] == "trtllm_mha" and asked.page_size is None:
            asked = replace(asked, page_size=64 if asked.speculative_algorithm else None)
    if asked.enable_deterministic_inference:
        asked, reason = _deterministic(hardware, model, asked, reason)
    prefill = asked.prefill_attention_backend
    if prefill is not None and prefill == asked.decode_attention_backend:
        return replace(asked, attention_backend=prefill), reason or "requested by name, for prefill and decode"
    if asked.attention_backend is not None:
        return asked, reason or "requested by name"
    backend, reason = default(hardware, model, asked)
    return replace(asked, attention_backend=backend), reason


def _by_device(hardware: Hardware, asked: Settings) -> tuple[Settings, str]:
    if hardware.device == "hpu":
        return replace(asked, attention_backend="torch_native"), "Gaudi (hpu) always takes torch_native"
    if hardware.device == "cpu" and asked.attention_backend is None:
        return replace(asked, attention_backend="intel_amx"), "the CPU default is intel_amx"
    if hardware.device == "npu":
        both = replace(asked, prefill_attention_backend="ascend", decode_attention_backend="ascend")
        return replace(both, attention_backend="ascend"), "an Ascend NPU always takes ascend"
    return asked, ""


def _by_model(hardware: Hardware, model: Model, asked: Settings) -> Pick | None:
    """Architectures with a rule of their own."""
    name, sm100 = model.architecture, hardware.is_sm100_supported()
    if name == "DeepseekV4ForCausalLM":
        return "dsv4", "DeepSeek-V4 takes dsv4: its cache is compressed"
    if model.sparse:
        return ("dsa", "DeepSeek Sparse Attention needs its indexer: dsa") if asked.none_set() else None
    if name in DEEPSEEK:
        wanted = sm100 and asked.none_set()
        return ("trtllm_mla", f"{name} on SM100 (capability 10.x, CUDA ≥ 12.8) takes trtllm_mla") if wanted else None
    if name == "GptOssForCausalLM":
        return _gpt_oss(hardware) if asked.none_set() else None
    if asked.attention_backend is not None:
        return None
    if name in DEFAULTS:
        return by_table(hardware, name, asked)
    if name in ("Llama4ForConditionalGeneration", "Llama4ForCausalLM") and hardware.device != "cpu":
        backend = {"hip": "aiter", "xpu": "intel_xpu"}.get(hardware.device) or _by_sm(hardware, "triton")
        return backend, "Llama 4: trtllm_mha on SM100, fa3 on SM90, aiter on AMD, intel_xpu on XPU, else triton"
    if name == "Olmo2ForCausalLM":
        late = hardware.device == "cuda" and hardware.capability >= (8, 0)
        backend = "trtllm_mha" if sm100 else ("fa3" if late else "triton")
        return backend, "Olmo 2 and 3: trtllm_mha on SM100, fa3 from SM80 on, else triton"
    if name.startswith("NemotronH") and hardware.is_blackwell_supported() and asked.none_set():
        return _nemotron(hardware, asked)
    if sm100 and name in GATED_DELTA_NET:
        return _gated_delta_net(hardware, model, asked)
    if sm100 and name in HYBRID_ON_SM100:
        return HYBRID_ON_SM100[name], f"the hybrid model {name} takes {HYBRID_ON_SM100[name]} on SM100"
    return None


def _by_sm(hardware: Hardware, otherwise: str) -> str:
    if hardware.is_sm100_supported():
        return "trtllm_mha"
    return "fa3" if hardware.is_sm90_supported() else otherwise


def _gpt_oss(hardware: Hardware) -> Pick:
    by_device = {"xpu": "intel_xpu", "hip": "aiter", "cpu": "intel_amx" if hardware.amx else "triton"}
    backend = by_device.get(hardware.device) or _by_sm(hardware, "triton")
    return backend, "GPT-OSS (sinks): trtllm_mha on SM100, fa3 on SM90, aiter, intel_xpu, intel_amx, else triton"


def _nemotron(hardware: Hardware, asked: Settings) -> Pick | None:
    if asked.speculative_algorithm is None:
        took = hardware.is_sm100_supported()
        return ("trtllm_mha", "Nemotron-H on SM100 takes trtllm_mha") if took else None
    if hardware.is_sm100_supported() and asked.speculative_eagle_topk in (None, 1):
        return "trtllm_mha", "Nemotron-H on SM100 verifies chains with trtllm_mha"
    return "triton", "Nemotron-H verifies trees, and drafts on SM12x, with triton"


def _gated_delta_net(hardware: Hardware, model: Model, asked: Settings) -> Pick:
    """trtllm_mha wants pages of more than one token; the radix cache of states without an extra buffer wants one."""
    backend, _ = default(hardware, model, asked)
    if backend == "trtllm_mha" and asked.speculative_algorithm is not None:
        return "trtllm_mha", "Gated DeltaNet on SM100 takes trtllm_mha where the state cache does not need page size 1"
    return "triton", "Gated DeltaNet on SM100 takes triton: its state cache needs page size 1"


def _deterministic(hardware: Hardware, model: Model, asked: Settings, reason: str) -> tuple[Settings, str]:
    if asked.attention_backend is None:
        backend, why = "fa3", "deterministic inference takes fa3 up to Hopper"
        if hardware.is_blackwell_supported():
            backend, why = "flashinfer", "deterministic inference takes flashinfer on Blackwell"
            if model.architecture in NOT_DETERMINISTIC_ON_FLASHINFER:
                backend, why = "triton", "deterministic inference of DeepSeek models takes triton on Blackwell"
        return replace(asked, attention_backend=backend), why
    if asked.attention_backend not in DETERMINISTIC:
        takes = ", ".join(DETERMINISTIC)
        raise SelectionError(f"deterministic inference takes {takes}, not {asked.attention_backend}")
    return asked, reason


def default(hardware: Hardware, model: Model, asked: Settings) -> Pick:
    """The general table: where neither device, model nor arguments decide."""
    if model.architecture == "WhisperForConditionalGeneration":
        return "flashinfer", "Whisper takes flashinfer: graphs of cross-attention"
    return _mla(hardware, model) if model.use_mla else _mha(hardware, model, asked)


def _mha(hardware: Hardware, model: Model, asked: Settings) -> Pick:
    chain = asked.no_spec_infer_or_topk_one()
    if hardware.is_sm90_supported() and chain:
        return "fa3", "MHA on Hopper (SM90, CUDA ≥ 12.3) takes FlashAttention-3"
    known_tree = asked.speculative_algorithm in (None, "DFLASH") or asked.speculative_eagle_topk is not None
    if hardware.is_sm100_supported() and chain and known_tree:
        if model.asymmetric_kv:
            return "fa4", "MHA on SM100 whose keys and values differ in width takes fa4: trtllm_mha wants equal rows"
        return "trtllm_mha", "MHA on SM100 (B200, B300) takes trtllm_mha, unless drafts form a tree (topk > 1)"
    if hardware.device == "hip":
        return "aiter", "MHA on AMD takes aiter"
    if hardware.flashinfer and hardware.device == "cuda" and not model.attention_sinks:
        return "flashinfer", "MHA elsewhere on NVIDIA takes FlashInfer where it is installed"
    return "triton", "MHA takes Triton where FlashInfer is not available, or the model has sinks"


def _mla(hardware: Hardware, model: Model) -> Pick:
    if hardware.is_sm90_supported():
        return "fa3", "MLA on Hopper (SM90, CUDA ≥ 12.3) takes FlashAttention-3"
    if hardware.is_sm100_supported():
        return "flashinfer", "MLA on SM100 takes FlashInfer (DeepSeek-V3 has a rule of its own: trtllm_mla)"
    if hardware.device == "hip":
        heads = model.num_kv_heads
        if heads in (16, 128):
            return "aiter", f"MLA on AMD with {heads} heads per rank takes aiter"
        return "triton", f"MLA on AMD takes aiter for 16 or 128 heads only; with {heads} it takes Triton"
    return "triton", "MLA takes Triton where neither Hopper nor SM100 has a rule"


def adjust(hardware: Hardware, model: Model, chosen: Settings, notes: list[str]) -> Settings:
    """Page sizes and fall-backs; what each did is added to `notes`.

    Raises:
        SelectionError: the backend does not run on this machine, or not with this KV cache.
    """
    for rule in (_own_pages, _page_sizes, _mla_checks, _trtllm_mha, _fall_backs, _fa4, _xpu_pages):
        chosen = rule(hardware, model, chosen, notes)
    return chosen


def _pair(chosen: Settings) -> tuple[str | None, str | None]:
    backend = chosen.attention_backend
    return chosen.prefill_attention_backend or backend, chosen.decode_attention_backend or backend


def _own_pages(hardware: Hardware, model: Model, chosen: Settings, notes: list[str]) -> Settings:
    """Models whose caches fix the page."""
    size = None
    if chosen.attention_backend == "dsv4":
        size = 128 if hardware.device == "npu" else 256
    elif model.sparse and hardware.device != "npu":
        size = 128 if hardware.device == "xpu" else 64
    if size is None or chosen.page_size == size:
        return chosen
    notes.append(f"{chosen.attention_backend} sets page_size to {size}")
    return replace(chosen, page_size=size)


def _page_sizes(hardware: Hardware, model: Model, chosen: Settings, notes: list[str]) -> Settings:
    for name, sizes in PAGE_SIZES.items():
        asked = (chosen.attention_backend, chosen.decode_attention_backend)
        wide = (*asked, chosen.prefill_attention_backend)
        if name in (asked if name in ("flashmla", "trtllm_mla") else wide) and chosen.page_size not in sizes:
            notes.append(f"{name} takes a page_size of {', '.join(map(str, sizes))}: page_size is set to 64")
            chosen = replace(chosen, page_size=64)
    return chosen


def _mla_checks(hardware: Hardware, model: Model, chosen: Settings, notes: list[str]) -> Settings:
    dtypes: tuple[str, ...] = ("fp8_e4m3", "bf16", "auto")
    if "trtllm_mla" in (chosen.attention_backend, chosen.decode_attention_backend):
        if not hardware.is_blackwell_supported():
            raise SelectionError("trtllm_mla runs on Blackwell GPUs (SM100, SM12x) with CUDA ≥ 12.8 only")
        if chosen.kv_cache_dtype not in dtypes:
            takes = ", ".join(dtypes)
            raise SelectionError(f"trtllm_mla takes a kv_cache_dtype of {takes}, not {chosen.kv_cache_dtype}")
    if "cutedsl_mla" not in (*_pair(chosen), chosen.attention_backend):
        return chosen
    if chosen.prefill_attention_backend == "cutedsl_mla":
        raise SelectionError("cutedsl_mla decodes only: choose another prefill_attention_backend")
    if not hardware.is_sm100_supported():
        raise SelectionError("cutedsl_mla runs on SM100 GPUs (B200, B300) only")
    if chosen.kv_cache_dtype not in (*dtypes, "bfloat16"):
        raise SelectionError(f"cutedsl_mla takes a kv_cache_dtype of fp8_e4m3 or bf16, not {chosen.kv_cache_dtype}")
    if chosen.prefill_attention_backend is None:
        notes.append("cutedsl_mla decodes only: trtllm_mla takes prefill")
        return replace(chosen, prefill_attention_backend="trtllm_mla")
    return chosen


def _trtllm_mha(hardware: Hardware, model: Model, chosen: Settings, notes: list[str]) -> Settings:
    prefill, decode = _pair(chosen)
    sm120 = hardware.device == "cuda" and hardware.capability[0] == 12
    if "trtllm_mha" in (prefill, decode):
        if not (hardware.is_sm90_supported() or hardware.is_sm100_supported() or sm120):
            raise SelectionError("trtllm_mha runs on Hopper (SM90), SM100 and SM120 GPUs only")
        if prefill == "trtllm_mha" and sm120 and chosen.kv_cache_dtype == "fp8_e4m3":
            raise SelectionError("trtllm_mha's prefill on SM120 does not take an fp8_e4m3 KV cache")
    return chosen


def _fall_backs(hardware: Hardware, model: Model, chosen: Settings, notes: list[str]) -> Settings:
    backend = chosen.attention_backend
    if backend == "fa3" and chosen.kv_cache_dtype == "fp8_e5m2":
        notes.append("FlashAttention-3 has no fp8_e5m2: triton instead")
        return replace(chosen, attention_backend="triton")
    if backend == "intel_amx" and hardware.device == "cpu" and not hardware.amx:
        notes.append("this CPU has no AMX: torch_native instead")
        return replace(chosen, attention_backend="torch_native")
    if backend == "intel_xpu" and hardware.device == "xpu" and not hardware.xmx:
        notes.append("this XPU has no XMX: triton instead")
        return replace(chosen, attention_backend="triton")
    if backend == "flex_attention" and chosen.speculative_algorithm is not None:
        raise SelectionError("flex_attention does not support speculative decoding")
    return chosen


def _fa4(hardware: Hardware, model: Model, chosen: Settings, notes: list[str]) -> Settings:
    """A tree's cascade needs pages of one token, so there the size stays."""
    named = (chosen.attention_backend, chosen.decode_attention_backend, chosen.prefill_attention_backend)
    chain = (chosen.speculative_eagle_topk or 0) <= 1
    wanted = "fa4" in named and not model.use_mla and hardware.is_sm100_supported() and chain
    if not wanted or chosen.page_size == 128:
        return chosen
    size = 1 if model.architecture == "DiffusionGemmaForBlockDiffusion" else 128
    notes.append(f"fa4 takes page_size {size} for {'blocks of Gemma' if size == 1 else 'MHA'} on SM100: it is set")
    return replace(chosen, page_size=size)


def _xpu_pages(hardware: Hardware, model: Model, chosen: Settings, notes: list[str]) -> Settings:
    sizes = (64, 128, 16, 32) if model.use_mla else (64, 128)
    if "intel_xpu" not in _pair(chosen) or chosen.page_size in sizes:
        return chosen
    notes.append("intel_xpu takes a page_size of 64 or 128: page_size is set to 128")
    return replace(chosen, page_size=128)


def refuse_wrong_pairs(hardware: Hardware, model: Model, chosen: Settings) -> None:
    """What the registry's factories refuse when the backend is made.

    Raises:
        SelectionError: names the backend and what it serves.
    """
    backends = {*_pair(chosen), chosen.attention_backend}
    for name, wrong, kind in (
        ("trtllm_mla", not model.use_mla, "MLA"),
        ("cutedsl_mla", not model.use_mla, "MLA"),
        ("trtllm_mha", model.use_mla, "non-MLA"),
        ("hpc_ops", model.use_mla, "non-MLA"),
    ):
        if wrong and name in backends:
            raise SelectionError(f"{name} serves {kind} models only")
    if "cutlass_mla" in backends or "dual_chunk_flash_attn" in backends:
        gone = next(name for name in ("cutlass_mla", "dual_chunk_flash_attn") if name in backends)
        raise SelectionError(f"SGLang 0.5.23 has no {gone}: 0.5.9 had it")
    major = hardware.capability[0]
    if "fa3" in backends and hardware.device == "cuda" and not (major == 9 or (major == 8 and not model.use_mla)):
        raise SelectionError("fa3 runs on SM9x, and on SM8x without MLA")
    if "hpc_ops" in backends and chosen.speculative_algorithm is not None:
        raise SelectionError("hpc_ops does not support speculative decoding")

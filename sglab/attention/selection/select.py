"""select_attention_backend: SGLang's decision, with the reason and what it implies (page size, graphs).

Source: SGLang `server_args.py` of 0.5.9 and 0.5.5.post1; `v0_5_23` has the rules of 0.5.23.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sglab.attention.selection import v0_5_23
from sglab.attention.selection.defaults import by_device, by_kind, by_model
from sglab.attention.selection.hardware import Hardware
from sglab.attention.selection.settings import Model, SelectionError, Settings
from sglab.attention.selection.trees import refuse_trees

VERSIONS = ("0.5.5.post1", "0.5.9", "0.5.23")

DETERMINISTIC = ("flashinfer", "fa3", "triton")
_DEEPSEEK_NAMES = (
    "DeepseekV2ForCausalLM",
    "DeepseekV3ForCausalLM",
    "DeepseekV32ForCausalLM",
    "MistralLarge3ForCausalLM",
    "PixtralForConditionalGeneration",
    "GlmMoeDsaForCausalLM",
)


@dataclass(frozen=True)
class BackendSelection:
    """The outcome. `page_size` is what the server runs with; `notes` are SGLang's adjustments, in order."""

    prefill: str
    decode: str
    reason: str
    page_size: int
    cuda_graph: bool
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        backend = self.decode if self.prefill == self.decode else f"prefill {self.prefill}, decode {self.decode}"
        return "\n  ".join([f"{backend}: {self.reason}", *self.notes])


def select_attention_backend(
    hardware: Hardware, model: Model, settings: Settings | None = None, version: str = "0.5.9"
) -> BackendSelection:
    """What SGLang would run.

    Raises:
        SelectionError: it would refuse to start; the message says why. KeyError: an unknown version.
    """
    if version not in VERSIONS:
        raise KeyError(f"SGLang version {version!r}; known are {', '.join(VERSIONS)}")
    asked = settings or Settings()
    notes: list[str] = []
    if version == "0.5.23":
        chosen, reason = v0_5_23.choose(hardware, model, asked)
        chosen = v0_5_23.adjust(hardware, model, chosen, notes)
        v0_5_23.refuse_wrong_pairs(hardware, model, chosen)
    else:
        chosen, reason = _choose(hardware, model, asked, version)
        chosen = _adjust(hardware, model, chosen, notes, version)
        _refuse_wrong_pairs(model, chosen)
        if chosen.enable_deterministic_inference:
            _check_deterministic(model, chosen)
    refuse_trees(chosen, version)
    backend = chosen.attention_backend
    assert backend is not None  # _choose named one
    prefill, decode = chosen.prefill_attention_backend or backend, chosen.decode_attention_backend or backend
    graph = backend not in ("torch_native", "flex_attention") and hardware.device != "cpu"
    return BackendSelection(prefill, decode, reason, chosen.page_size or 1, graph, tuple(notes))


def _choose(hardware: Hardware, model: Model, asked: Settings, version: str) -> tuple[Settings, str]:
    """Fill `attention_backend`: by the device, the model, the arguments, the general table, in SGLang's order."""
    asked, reason = by_device(hardware, asked, version)
    pick = by_model(hardware, model, asked, version)
    prefill = asked.prefill_attention_backend
    if prefill is not None and prefill == asked.decode_attention_backend:
        return replace(asked, attention_backend=prefill), reason or "requested by name, for prefill and decode"
    if asked.attention_backend is not None:
        return asked, reason or "requested by name"
    backend, reason = pick or by_kind(hardware, model, asked, version)
    return replace(asked, attention_backend=backend), reason


def _adjust(hardware: Hardware, model: Model, chosen: Settings, notes: list[str], version: str) -> Settings:
    for rule in (_sparse, _fixed_pages, _trtllm, _fall_backs, _fa4):
        chosen = rule(hardware, model, chosen, notes, version)
    return chosen


def _set_page(chosen: Settings, name: str, size: int, notes: list[str]) -> Settings:
    if chosen.page_size != size:
        notes.append(f"{name} takes page_size {size} only: page_size is set to {size}")
    return replace(chosen, page_size=size)


def _sparse(hardware: Hardware, model: Model, chosen: Settings, notes: list[str], version: str) -> Settings:
    if not model.sparse or hardware.device == "npu":
        return chosen
    dtype = chosen.kv_cache_dtype
    if dtype not in ("auto", "bf16", "bfloat16", "fp8_e4m3"):
        raise SelectionError(f"DeepSeek Sparse Attention takes a bf16 or fp8_e4m3 KV cache, not {dtype}")
    size = 1 if version == "0.5.9" and hardware.device == "hip" else 64
    return _set_page(chosen, "DeepSeek Sparse Attention", size, notes)


def _fixed_pages(hardware: Hardware, model: Model, chosen: Settings, notes: list[str], version: str) -> Settings:
    for name, size in (("flashmla", 64), ("cutlass_mla", 128)):
        if _uses(chosen, name):
            chosen = _set_page(chosen, name, size, notes)
    only_128 = version == "0.5.5.post1" or chosen.page_size is None
    if hardware.device == "npu" and chosen.attention_backend == "ascend" and only_128:
        return _set_page(chosen, "ascend", 128, notes)
    return chosen


def _fa4(hardware: Hardware, model: Model, chosen: Settings, notes: list[str], version: str) -> Settings:
    if chosen.prefill_attention_backend == "fa4" and not model.use_mla:
        return _set_page(chosen, "fa4 prefill of MHA", 128, notes)
    return chosen


def _uses(chosen: Settings, name: str) -> bool:
    return name in (chosen.attention_backend, chosen.decode_attention_backend)


def _trtllm(hardware: Hardware, model: Model, chosen: Settings, notes: list[str], version: str) -> Settings:
    if _uses(chosen, "trtllm_mla"):
        if not hardware.is_blackwell_supported():
            raise SelectionError("trtllm_mla runs on Blackwell GPUs (SM100, SM12x) with CUDA ≥ 12.8 only")
        dtypes = ("fp8_e4m3", "fp4_e2m1", "auto") + (("bf16",) if version == "0.5.9" else ())
        if chosen.kv_cache_dtype not in dtypes:
            raise SelectionError(
                f"trtllm_mla takes a kv_cache_dtype of {', '.join(dtypes)}, not {chosen.kv_cache_dtype}"
            )
        chosen = _nearest_page(chosen, "trtllm_mla", (32, 64), notes)
    if _uses(chosen, "trtllm_mha") or chosen.prefill_attention_backend == "trtllm_mha":
        if not hardware.is_sm100_supported():
            raise SelectionError("trtllm_mha runs on SM100 GPUs (B200, B300) with CUDA ≥ 12.8 only")
        chosen = _nearest_page(chosen, "trtllm_mha", (16, 32, 64), notes)
    return chosen


def _nearest_page(chosen: Settings, name: str, sizes: tuple[int, ...], notes: list[str]) -> Settings:
    if chosen.page_size in sizes:
        return chosen
    notes.append(f"{name} takes a page_size of {', '.join(map(str, sizes))}: page_size is set to 64")
    return replace(chosen, page_size=64)


def _fall_backs(hardware: Hardware, model: Model, chosen: Settings, notes: list[str], version: str) -> Settings:
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


def _refuse_wrong_pairs(model: Model, chosen: Settings) -> None:
    """What the registry's factories refuse when the backend is made."""
    backends = (chosen.attention_backend, chosen.prefill_attention_backend, chosen.decode_attention_backend)
    for name, wrong, kind in (("trtllm_mla", not model.use_mla, "MLA"), ("trtllm_mha", model.use_mla, "non-MLA")):
        if wrong and name in backends:
            raise SelectionError(f"{name} serves {kind} models only")


def _check_deterministic(model: Model, chosen: Settings) -> None:
    """SGLang has a fallback for "no backend named" here, but its default was filled in before: it never applies."""
    backend = chosen.attention_backend
    if backend not in DETERMINISTIC:
        raise SelectionError(
            f"deterministic inference takes {', '.join(DETERMINISTIC)}, not {backend}: pass --attention-backend"
        )
    if model.architecture in _DEEPSEEK_NAMES and backend == "flashinfer":
        raise SelectionError("deterministic inference of DeepSeek models takes fa3 or triton, not flashinfer")

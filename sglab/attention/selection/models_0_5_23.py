"""Models whose default SGLang 0.5.23 reads off a table: the GPU's generation, and else one backend.

Source: SGLang 0.5.23 `arg_groups/model_overrides/`, `arg_groups/overrides.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from sglab.attention.selection.defaults import Pick
from sglab.attention.selection.hardware import Hardware
from sglab.attention.selection.settings import Settings


@dataclass(frozen=True)
class Default:
    """Backends by generation; "": the general table decides.

    Attributes:
        none_set: only where neither prefill nor decode has a backend of its own.
    """

    models: str
    sm100: str = ""
    sm90: str = ""
    sm120: str = ""
    sm80: str = ""
    other: str = ""
    none_set: bool = True


_GEMMA4 = Default(
    "Gemma 4", sm100="trtllm_mha", **dict.fromkeys(("sm90", "sm120", "sm80", "other"), "triton"), none_set=False
)
_EXAONE = Default(
    "Exaone 4", sm100="trtllm_mha", **dict.fromkeys(("sm90", "sm120", "sm80"), "fa3"), other="triton", none_set=False
)
_ALL_TRITON = dict.fromkeys(("sm100", "sm90", "sm120", "sm80", "other"), "triton")
_MINICPM_V = Default("MiniCPM-V 4", sm100="triton", none_set=False)
_MIMO = Default("MiMo-V2", sm100="fa4")

DEFAULTS: dict[str, Default] = {
    "Gemma4ForConditionalGeneration": _GEMMA4,
    "Gemma4ForCausalLM": _GEMMA4,
    "Gemma4UnifiedForConditionalGeneration": _GEMMA4,
    "DiffusionGemmaForBlockDiffusion": Default("Gemma's diffusion model", **_ALL_TRITON, none_set=False),
    "EmbeddingGemma2Model": Default("Gemma's embeddings", **_ALL_TRITON, none_set=False),
    "Exaone4ForCausalLM": _EXAONE,
    "ExaoneMoEForCausalLM": _EXAONE,
    "ExaoneMoeForCausalLM": _EXAONE,
    "BeamForCausalLM": Default("Beam", sm100="trtllm_mha", sm90="trtllm_mha", sm120="trtllm_mha"),
    "MiMoV2ForCausalLM": _MIMO,
    "MiMoV2FlashForCausalLM": _MIMO,
    "MiniCPMV4_6ForConditionalGeneration": _MINICPM_V,
    "MiniCPMV4_7ForConditionalGeneration": _MINICPM_V,
    "Step3p5ForCausalLM": Default("Step 3.5", sm100="fa4", sm120="fa4", sm90="fa3"),
    "Step3p7ForConditionalGeneration": Default("Step 3.7", sm100="fa4", sm120="fa4", sm90="fa3"),
}
"""Architecture -> its default."""


def by_table(hardware: Hardware, architecture: str, asked: Settings) -> Pick | None:
    """The table's pick, where `attention_backend` is not given."""
    default = DEFAULTS.get(architecture)
    if default is None or (default.none_set and not asked.none_set()):
        return None
    generation = _generation(hardware)
    backend = getattr(default, generation)
    places = {"sm120": "SM12x", "other": "other machines"}
    return (
        (backend, f"{default.models} takes {backend} on {places.get(generation, generation.upper())}")
        if backend
        else None
    )


def _generation(hardware: Hardware) -> str:
    if hardware.device != "cuda":
        return "other"
    if hardware.is_sm100_supported():
        return "sm100"
    if hardware.is_sm90_supported():
        return "sm90"
    if hardware.is_blackwell_supported():
        return "sm120"
    return "sm80" if hardware.capability >= (8, 0) else "other"

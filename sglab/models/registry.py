"""The registry of architectures: the names config.json uses, and the class of each, imported at its first use."""

from __future__ import annotations

import difflib
from importlib import import_module
from typing import Any

from sglab.engine.errors import BadArgumentError
from sglab.models.causal_lm import CausalLM

ARCHITECTURES = {
    "BambaForCausalLM": "sglab.models.bamba:BambaForCausalLM",
    "DeepseekV2ForCausalLM": "sglab.models.deepseek:DeepseekV2ForCausalLM",
    "DeepseekV3ForCausalLM": "sglab.models.deepseek:DeepseekV3ForCausalLM",
    "DeepseekV32ForCausalLM": "sglab.models.deepseek_v32:DeepseekV32ForCausalLM",
    "GptOssForCausalLM": "sglab.models.gpt_oss:GptOssForCausalLM",
    "LlamaForCausalLM": "sglab.models.llama:LlamaForCausalLM",
    "Qwen3NextForCausalLM": "sglab.models.qwen3_next:Qwen3NextForCausalLM",
    "Qwen3ForCausalLM": "sglab.models.qwen3:Qwen3ForCausalLM",
    "Qwen3MoeForCausalLM": "sglab.models.qwen3_moe:Qwen3MoeForCausalLM",
}
"""config.json's name -> "module:Class"."""


def model_class(config: dict[str, Any]) -> type[CausalLM]:
    """The class that a config.json asks for.

    Raises:
        BadArgumentError: it names no architecture, or one that is not here.
    """
    names = config.get("architectures") or []
    for name in names:
        if name in ARCHITECTURES:
            module, _, attribute = ARCHITECTURES[name].partition(":")
            return getattr(import_module(module), attribute)
    near = difflib.get_close_matches(names[0], ARCHITECTURES, n=1) if names else []
    hint = f"The nearest is {near[0]}." if near else "sglab.models.ARCHITECTURES lists them."
    expected = f"one of {', '.join(ARCHITECTURES)}"
    raise BadArgumentError("config.json: architectures", expected, names or "none", hint)

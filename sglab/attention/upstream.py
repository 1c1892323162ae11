"""SGLang's lists of backend names, by version. Source: `layers/attention/attention_registry.py` and the DeepSeek model
(`models/deepseek_v2.py`, later `models/deepseek_common/utils.py`)."""

_0_5_9 = """flashinfer trtllm_mla aiter wave ascend nsa triton torch_native flex_attention flashmla fa3 fa4 cutlass_mla
trtllm_mha intel_amx dual_chunk_flash_attn intel_xpu"""

_0_5_23 = """flashinfer llada2_cfg_flashinfer trtllm_mla cutedsl_mla aiter wave ascend dsa qsa nsa dsv4 triton
torch_native flex_attention flashmla fa3 fa4 trtllm_mha hpc_ops intel_amx minicpm_flashattn minicpm_flashinfer
intel_xpu"""

SGLANG_BACKENDS: dict[str, tuple[str, ...]] = {
    "0.5.5.post1": tuple(_0_5_9.split()),
    "0.5.9": tuple(_0_5_9.split()),
    "0.5.23": tuple(_0_5_23.split()),
}
"""SGLang version -> registered names, in its registry's order."""

FORWARD_ABSORB_CORE_ATTENTION_BACKENDS: dict[str, tuple[str, ...]] = {
    "0.5.9": ("fa3", "nsa", "flashinfer", "cutlass_mla", "trtllm_mla", "ascend"),
    "0.5.23": (
        "fa3",
        "fa4",
        "dsa",
        "nsa",
        "flashinfer",
        "trtllm_mla",
        "cutedsl_mla",
        "ascend",
        "intel_xpu",
    ),
}
"""SGLang version -> names to which its DeepSeek model passes separate rotary parts (q_rope, k_rope); the others get
them concatenated. Here a backend says so itself: `Capabilities.rope_apart`."""

"""SGLang's lists of backend names, by version. Source: `layers/attention/attention_registry.py` and the DeepSeek model
(`models/deepseek_v2.py`, later `models/deepseek_common/utils.py`)."""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True)
class Absent:
    """A name of SGLang's that sglab does not have.

    Attributes:
        what: what it is there.
        why: what it would take that is not here.
        nearest: the backend here that is nearest to it.
    """

    what: str
    why: str
    nearest: str


ABSENT: dict[str, Absent] = {
    "qsa": Absent(
        "Qwen4-Exp's sparse attention: an indexer over keys of compressed blocks chooses blocks for each query",
        "no such model is here, nor the pool that compresses a block's index keys when it is full",
        "dsa",
    ),
    "dsv4": Absent(
        "DeepSeek-V4's: a window of recent tokens beside KV compressed by 4 and by 128, in records of 584 bytes",
        "no such model is here, nor its compressor, its two-level indexer and its rings of windows; its kernels' "
        "second cache is: `flash_mla_with_kvcache(extra_k_cache=…)`",
        "dsa",
    ),
    "minicpm_flashattn": Absent(
        "MiniCPM's sparse attention through FlashAttention: blocks chosen by keys averaged in two steps",
        "no such model is here, nor the two caches of averaged keys that its requests keep",
        "fa3",
    ),
    "minicpm_flashinfer": Absent(
        "the same as minicpm_flashattn through FlashInfer",
        "as minicpm_flashattn",
        "flashinfer",
    ),
    "tokenspeed_mla": Absent("a former name of cutedsl_mla", "the name went out of use", "cutedsl_mla"),
    "compressed": Absent("a former name of dsv4", "as dsv4", "dsa"),
}
"""Names that SGLang takes (0.5.23: its registry and the former names beside it) and sglab does not."""

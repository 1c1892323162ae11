"""What selection reads of the model and of the server's arguments, under SGLang's names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Model:
    """A model as far as attention selection goes.

    Attributes:
        architecture: the name in its configuration, such as "DeepseekV3ForCausalLM"; "" for one without rules of its
            own.
        use_mla: absorbed MLA.
        sparse: DeepSeek Sparse Attention (V3.2).
        num_kv_heads: of one rank, which aiter looks at.
        attention_sinks: a logit per head in the denominator, which FlashInfer has not (0.5.23 looks at it).
        asymmetric_kv: keys and values differ in width (0.5.23 looks at it).
    """

    use_mla: bool
    architecture: str = ""
    sparse: bool = False
    num_kv_heads: int = 8
    attention_sinks: bool = False
    asymmetric_kv: bool = False


@dataclass(frozen=True)
class Settings:
    """Server arguments, with SGLang's defaults (None: not given)."""

    attention_backend: str | None = None
    prefill_attention_backend: str | None = None
    decode_attention_backend: str | None = None
    page_size: int | None = None
    kv_cache_dtype: str = "auto"
    speculative_algorithm: str | None = None
    speculative_eagle_topk: int | None = None
    enable_deterministic_inference: bool = False

    def none_set(self) -> bool:
        return (self.attention_backend, self.prefill_attention_backend, self.decode_attention_backend) == (None,) * 3

    def no_spec_infer_or_topk_one(self) -> bool:
        """No speculation with a tree; a chain (topk 1) only with page size 1."""
        return self.speculative_eagle_topk is None or (self.speculative_eagle_topk == 1 and self.page_size in (None, 1))


class SelectionError(ValueError):
    """SGLang would refuse to start with these arguments."""

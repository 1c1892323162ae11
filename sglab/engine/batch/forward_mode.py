"""ForwardMode: what a forward pass does to its batch, with the members and predicates of SGLang 0.5.9.

0.5.5.post1 has the first nine members, with the same values; `MEMBERS` and `PREDICATES` say what each version has.
Source: SGLang `model_executor/forward_batch_info.py`.
"""

from enum import IntEnum, auto


class ForwardMode(IntEnum):
    """The kind of forward pass. Predicates overlap: MIXED is also an extend, IDLE also "decode or idle"."""

    EXTEND = auto()
    """Prefill: compute new tokens of a sequence whose prefix may already be in the KV pool."""
    DECODE = auto()
    """One new token per request."""
    MIXED = auto()
    """Chunked prefill: extending requests together with decoding ones (which extend by one token)."""
    IDLE = auto()
    """No request: a data-parallel worker that only takes part in collectives."""
    TARGET_VERIFY = auto()
    """Speculative decoding: the target model scores the draft tokens."""
    DRAFT_EXTEND = auto()
    """Speculative decoding: the draft model catches up with the accepted tokens."""
    DRAFT_EXTEND_V2 = auto()
    """DRAFT_EXTEND with a fixed number of tokens per request, which a CUDA graph can capture."""
    PREBUILT = auto()
    """Disaggregated decoding: the KV cache arrived from a prefill worker."""
    SPLIT_PREFILL = auto()
    """Prefill run layer group by layer group, multiplexed with decoding."""
    DLLM_EXTEND = auto()
    """Diffusion language model: extend by one block (0.5.9)."""

    def is_prefill(self) -> bool:
        return self.is_extend()

    def is_extend(self, include_draft_extend_v2: bool = False) -> bool:
        return self in _EXTEND or (include_draft_extend_v2 and self is ForwardMode.DRAFT_EXTEND_V2)

    def is_context_parallel_extend(self, include_draft_extend_v2: bool = False) -> bool:
        return self in (ForwardMode.EXTEND, ForwardMode.MIXED) or (
            include_draft_extend_v2 and self is ForwardMode.DRAFT_EXTEND_V2
        )

    def is_decode(self) -> bool:
        return self is ForwardMode.DECODE

    def is_mixed(self) -> bool:
        return self is ForwardMode.MIXED

    def is_idle(self) -> bool:
        return self is ForwardMode.IDLE

    def is_decode_or_idle(self) -> bool:
        return self in (ForwardMode.DECODE, ForwardMode.IDLE)

    def is_target_verify(self) -> bool:
        return self is ForwardMode.TARGET_VERIFY

    def is_draft_extend(self, include_v2: bool = False) -> bool:
        return self is ForwardMode.DRAFT_EXTEND or (include_v2 and self is ForwardMode.DRAFT_EXTEND_V2)

    def is_draft_extend_v2(self) -> bool:
        return self is ForwardMode.DRAFT_EXTEND_V2

    def is_extend_or_draft_extend_or_mixed(self, include_draft_extend_v2: bool = False) -> bool:
        return self in (
            ForwardMode.EXTEND,
            ForwardMode.DRAFT_EXTEND,
            ForwardMode.MIXED,
            ForwardMode.SPLIT_PREFILL,
        ) or (include_draft_extend_v2 and self is ForwardMode.DRAFT_EXTEND_V2)

    def is_cuda_graph(self) -> bool:
        """Whether the CUDA graph runner may replay a captured graph for this mode."""
        return self in (ForwardMode.DECODE, ForwardMode.TARGET_VERIFY, ForwardMode.IDLE, ForwardMode.DLLM_EXTEND)

    def is_cpu_graph(self) -> bool:
        return self is ForwardMode.DECODE

    def is_split_prefill(self) -> bool:
        return self is ForwardMode.SPLIT_PREFILL

    def is_extend_without_speculative(self) -> bool:
        return self.is_extend() and not self.is_target_verify() and not self.is_draft_extend()

    def is_prebuilt(self) -> bool:
        return self is ForwardMode.PREBUILT

    def is_dllm_extend(self) -> bool:
        return self is ForwardMode.DLLM_EXTEND


_EXTEND = frozenset(
    {
        ForwardMode.EXTEND,
        ForwardMode.MIXED,
        ForwardMode.DRAFT_EXTEND,
        ForwardMode.TARGET_VERIFY,
        ForwardMode.SPLIT_PREFILL,
        ForwardMode.DLLM_EXTEND,
    }
)

MEMBERS: dict[str, tuple[ForwardMode, ...]] = {
    "0.5.5.post1": tuple(ForwardMode)[:9],
    "0.5.9": tuple(ForwardMode),
}

_SINCE_059 = ("is_context_parallel_extend", "is_dllm_extend")
_ALL_PREDICATES = tuple(name for name in vars(ForwardMode) if name.startswith("is_"))
PREDICATES: dict[str, tuple[str, ...]] = {
    "0.5.5.post1": tuple(name for name in _ALL_PREDICATES if name not in _SINCE_059),
    "0.5.9": _ALL_PREDICATES,
}


def predicate_table(version: str = "0.5.9") -> dict[str, dict[str, bool]]:
    """Mode name -> predicate name -> truth, for one SGLang version, as a table to show.

    Raises:
        KeyError: the version is not in `MEMBERS`.
    """
    return {
        mode.name: {predicate: bool(getattr(mode, predicate)()) for predicate in PREDICATES[version]}
        for mode in MEMBERS[version]
    }

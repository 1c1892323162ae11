"""EngineConfig: every option of an engine, under the names of SGLang's server arguments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sglab.engine import KV_CACHE_DTYPES, arguments
from sglab.engine.errors import BadArgumentError
from sglab.engine.scheduler import SchedulerConfig
from sglab.kernels.indexer.layout import DIM as INDEX_DIM
from sglab.planning import capture_batch_sizes, piecewise_capture_tokens

RECORD_BACKENDS = ("dsa", "nsa")
WRITE_POLICIES = ("write_through", "write_through_selective", "write_back")
PAGE_SIZES = {
    "flashmla": 64,
    "cutlass_mla": 128,
    "trtllm_mha": 64,
    "trtllm_mla": 64,
    "cutedsl_mla": 64,
    "dsa": 64,
    "nsa": 64,
    "hpc_ops": 64,
    "ascend": 128,
}
"""What a server runs with where no page size was asked for: the only one that a backend serves, or SGLang's choice."""

SMALL_MODEL = 16_000_000
"""Parameters."""


@dataclass(frozen=True)
class EngineConfig:
    """Every value is checked when it is made.

    Raises:
        BadArgumentError: a value out of its range; the message names it.
    """

    attention_backend: str = "auto"
    """"auto": torch_native on a CPU, triton on a GPU and where ranks share a context (dcp_size), fa3 where they share a
    prompt (attn_cp_size)."""
    page_size: int | None = None
    """Slots per page; None: what the backend wants, 1 for most."""
    mem_fraction: float = 0.85
    """Share of the free memory (on a CPU: of one GiB) that the KV pool takes."""
    max_total_tokens: int | None = None
    """Slots of the KV pool, instead of a share of memory."""
    kv_cache_dtype: str = "auto"
    """Of the KV pool: "auto" (the model's), "fp8_e4m3" or "fp8_e5m2"; "fp4_mx_block16", "nvfp4" or "mxfp8" with a scale
    for each block of a row. "dsa" and "nsa" keep e4m3 as FlashMLA's 656-byte records. Scales of a checkpoint's layers
    are not read: values are rounded as they are."""
    index_k_dtype: str = "auto"
    """Of the keys of DeepSeek-V3.2's indexer: "fp8_e4m3" keeps them with a scale each, page by page, as SGLang does;
    "auto": so beside records, else in the rows' dtype."""
    context_length: int | None = None
    """Longest request with its output; None: the model's."""
    max_running_requests: int = 64
    max_prefill_tokens: int = 16384
    chunked_prefill_size: int = 8192
    chunked_prefix_threshold: int | None = None
    """MLA: prompts' passes whose cached prefixes have together at least so many tokens, or none, attend with keys and
    values of every head, 131,072 tokens of prefixes at a time; SGLang's is 8192. None: attention is absorbed always."""
    enable_mixed_chunk: bool = False
    schedule_policy: str = "fcfs"
    schedule_conservativeness: float = 1.0
    prefill_max_requests: int | None = None
    disable_radix_cache: bool = False
    disable_overlap_schedule: bool | None = None
    """None: overlap on a GPU, one rank. On a CPU steps then run in a thread of their own."""
    cuda_graph: bool | None = None
    """Replay captured decode passes; None: on a GPU, with a backend that has graphs, unless ranks
    attend in groups or two halves of a batch overlap. On a CPU the recorded operations are replayed."""
    replay_launches: bool = False
    """On a GPU, capture decode passes, and launch what was captured one kernel after another instead of as a graph. It
    takes the sizes of `cuda_graph_bs`, and a backend that has graphs. On a CPU as `cuda_graph`."""
    cuda_graph_max_bs: int | None = None
    """The largest captured batch; None: max_running_requests."""
    cuda_graph_bs: tuple[int, ...] | None = None
    """The captured batch sizes, instead of SGLang's list."""
    enable_piecewise_cuda_graph: bool = False
    """Replay extend passes, too: captured by their number of tokens, in pieces between the attention layers."""
    piecewise_cuda_graph_max_tokens: int | None = None
    """The largest captured number of tokens; None: a chunk of prefill, at most 4096."""
    piecewise_cuda_graph_tokens: tuple[int, ...] | None = None
    """The captured numbers of tokens, instead of SGLang's list."""
    enable_hierarchical_cache: bool = False
    """Keep evicted prefixes in the host's memory."""
    hicache_ratio: float = 2.0
    """The host's slots, as a multiple of the KV pool's."""
    hicache_write_policy: str = "write_through"
    enable_deterministic_inference: bool = False
    """A request's tokens do not depend on what else is in the batch, bit for bit; backends that do not promise it are
    refused."""
    cpu_threads: int | None = None
    """Threads of a pass on a CPU; None: one for models of less than 16 M parameters, for which starting the others
    takes longer than the work, else PyTorch's."""
    random_seed: int = 0
    """Of requests without a seed of their own, and of the policy "random"."""
    speculative_algorithm: str | None = None
    """None, "NGRAM", "STANDALONE" (a draft model) or "EAGLE" (a layer that drafts from the target's hidden states, such
    as DeepSeek's MTP)."""
    speculative_num_steps: int = 3
    speculative_eagle_topk: int = 1
    speculative_num_draft_tokens: int = 4
    tp_size: int = 1
    """Ranks: processes that each hold a shard of the model, on a GPU each, or on the CPU."""
    dp_size: int = 1
    """Groups of these ranks that attend to requests of their own; MLPs and experts run on all of them together."""
    ep_size: int = 1
    """Ranks that experts are dealt out to; with fewer than tp_size the others hold slices of them."""
    init_expert_location: tuple[tuple[int, ...], ...] | None = None
    """Of each layer with experts those that are held, some more than once, in equal shares for the ep_size ranks; None:
    each once. `sglab.layers.moe.rebalance_experts` places them by their load."""
    moe_a2a_backend: str | None = None
    """"deepep": every rank attends to requests of its own, and their tokens travel to the ranks of their experts and
    back, as DeepEP does it, over torch.distributed; None: every rank gathers all tokens."""
    deepep_mode: str = "auto"
    """"normal"; "auto": "low_latency" where all groups decode; "low_latency": wherever its room of 128 tokens of a rank
    suffices."""
    deepep_bf16_dispatch: bool = False
    """In the low-latency way send rows in the model's dtype and not in e4m3."""
    dcp_size: int = 1
    """Neighbouring ranks that share a request's context: each keeps every dcp_size-th token's keys and values, for the
    KV heads of all of them. A page is then dcp_size times as long, and max_total_tokens counts the slots of a rank."""
    attn_cp_size: int = 1
    """Ranks that a prompt's new tokens are spread over; each has all keys and values, and of attention's heads those
    that tp_size / attn_cp_size ranks share out. Decodes run on all of them alike."""
    dcp_comm_backend: str | None = None
    """How they join what they found: "ag_rs" gathers the LSEs and sums, "a2a" sends every head to its rank; None: "a2a"
    on a GPU, "ag_rs" on a CPU, as SGLang does. Its "fi_a2a" is a kernel of FlashInfer's for Blackwell, and not here."""
    enable_two_batch_overlap: bool = False
    """Cut passes in two halves: while one waits for a sum over ranks, the other computes."""
    dist_timeout: float = 300.0
    """Seconds after which a rank that does not answer counts as dead."""
    forward_hooks: tuple[dict[str, Any], ...] = field(default_factory=tuple)
    """See `hooks.register_forward_hooks`."""
    check_invariants: bool = False
    """Balance the books after every step; a fault raises LeakError."""

    def __post_init__(self) -> None:
        if self.page_size is not None:
            arguments.power_of_two("page_size", self.page_size)
        value = self.mem_fraction
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1:
            raise BadArgumentError("mem_fraction", "a number between 0 and 1", repr(value), "0.85 is the default.")
        counts = (
            "chunked_prefix_threshold",
            "max_total_tokens",
            "context_length",
            "cuda_graph_max_bs",
            "piecewise_cuda_graph_max_tokens",
            "cpu_threads",
        )
        for name in counts:
            if getattr(self, name) is not None:
                arguments.integer(name, getattr(self, name), 1)
        for size in self.cuda_graph_bs or ():
            arguments.integer("cuda_graph_bs", size, 1)
        for tokens in self.piecewise_cuda_graph_tokens or ():
            arguments.integer("piecewise_cuda_graph_tokens", tokens, 1)
        arguments.choice("kv_cache_dtype", self.kv_cache_dtype, KV_CACHE_DTYPES)
        arguments.choice("index_k_dtype", self.index_k_dtype, ("auto", "fp8_e4m3"))
        arguments.finite("hicache_ratio", self.hicache_ratio, 0.0)
        arguments.choice("hicache_write_policy", self.hicache_write_policy, WRITE_POLICIES)
        if self.speculative_algorithm is not None:
            arguments.choice("speculative_algorithm", self.speculative_algorithm, ("NGRAM", "STANDALONE", "EAGLE"))
            arguments.integer("speculative_num_steps", self.speculative_num_steps, 1)
            arguments.integer("speculative_eagle_topk", self.speculative_eagle_topk, 1)
            arguments.integer("speculative_num_draft_tokens", self.speculative_num_draft_tokens, 2)
            if self.enable_mixed_chunk:
                remedy = "Leave enable_mixed_chunk out."
                raise BadArgumentError("enable_mixed_chunk", "False with speculation", True, remedy)
            if self.disable_overlap_schedule is False:
                remedy = "Leave disable_overlap_schedule out."
                raise BadArgumentError("disable_overlap_schedule", "True with speculation", False, remedy)
        self._check_ranks()
        for name, given in (("cuda_graph", self.cuda_graph), ("tp_size", self.tp_size > 1)):
            if self.replay_launches and given:
                remedy = "Leave one of the two out."
                raise BadArgumentError(name, "its default with replay_launches", getattr(self, name), remedy)
        arguments.integer("random_seed", self.random_seed, 0)
        if self.enable_hierarchical_cache and self.disable_radix_cache:
            remedy = "The host keeps prefixes of the radix cache: leave one of the two out."
            raise BadArgumentError("enable_hierarchical_cache", "False without a radix cache", True, remedy)
        self.scheduler(False)

    def _check_ranks(self) -> None:
        arguments.integer("tp_size", self.tp_size, 1)
        for name in ("dp_size", "ep_size"):
            size = arguments.integer(name, getattr(self, name), 1)
            if self.tp_size % size:
                expected = f"a divisor of tp_size {self.tp_size}"
                raise BadArgumentError(name, expected, size, "tp_size counts all ranks.")
        arguments.positive("dist_timeout", self.dist_timeout)
        self._check_context()
        self._check_prompts()
        arguments.choice("deepep_mode", self.deepep_mode, ("normal", "low_latency", "auto"))
        if self.moe_a2a_backend is not None:
            arguments.choice("moe_a2a_backend", self.moe_a2a_backend, ("deepep",))
            sizes = (self.tp_size, self.dp_size, self.ep_size)
            if self.tp_size == 1 or len(set(sizes)) > 1:
                expected, got = "None, or tp_size, dp_size and ep_size equal and above 1", f"{self.moe_a2a_backend!r}"
                remedy = "Each rank brings tokens of its own and holds whole experts."
                raise BadArgumentError("moe_a2a_backend", expected, f"{got} with {sizes}", remedy)
        if self.enable_two_batch_overlap and self.tp_size == 1:
            remedy = "One rank waits for none: leave it out."
            raise BadArgumentError("enable_two_batch_overlap", "False with one rank", True, remedy)
        if self.tp_size == 1:
            return
        in_groups = {
            "speculative_algorithm": self.speculative_algorithm,
            "cuda_graph": self.cuda_graph,
            "enable_piecewise_cuda_graph": self.enable_piecewise_cuda_graph,
        }
        refused: dict[str, dict[str, Any]] = {
            "dp_size above 1": in_groups if self.dp_size > 1 else {},
            "enable_two_batch_overlap": in_groups | {"moe_a2a_backend": self.moe_a2a_backend}
            if self.enable_two_batch_overlap
            else {},
        }
        for other, values in refused.items():
            for name, value in values.items():
                if value:
                    raise BadArgumentError(name, f"its default with {other}", getattr(self, name), "Leave it out.")

    def _check_context(self) -> None:
        """What is refused beside a context that is spread over ranks."""
        size, share = arguments.integer("dcp_size", self.dcp_size, 1), self.tp_size // self.dp_size
        if share % size:
            remedy = "tp_size counts all ranks; with dp_size above 1 a request is that of tp_size / dp_size of them."
            raise BadArgumentError("dcp_size", f"a divisor of the {share} ranks that share a request", size, remedy)
        if self.dcp_comm_backend is not None:
            arguments.choice("dcp_comm_backend", self.dcp_comm_backend, ("ag_rs", "a2a"))
        if size == 1:
            if self.dcp_comm_backend is not None:
                remedy = "Nothing is joined: leave it out."
                raise BadArgumentError("dcp_comm_backend", "None with dcp_size 1", self.dcp_comm_backend, remedy)
            return
        reasons = {
            "speculative_algorithm": "Drafts are not verified over shares of a context.",
            "enable_hierarchical_cache": "The host's pool keeps whole pages.",
            "enable_two_batch_overlap": "Turns pass at the sums of a layer, not within its attention.",
            "enable_piecewise_cuda_graph": "SGLang captures no prompts then, either.",
            "chunked_prefix_threshold": "A rank has a part of the prefix alone.",
        }
        for name, why in reasons.items():
            if getattr(self, name):
                expected = "its default with dcp_size above 1"
                raise BadArgumentError(name, expected, getattr(self, name), f"{why} Leave it out.")

    def _check_prompts(self) -> None:
        """What is refused beside prompts that are spread over ranks."""
        size = arguments.integer("attn_cp_size", self.attn_cp_size, 1)
        if self.tp_size % size:
            raise BadArgumentError(
                "attn_cp_size", f"a divisor of tp_size {self.tp_size}", size, "tp_size counts all ranks."
            )
        if size == 1:
            return
        reasons = {
            "dp_size": "All ranks share every prompt.",
            "dcp_size": "Every rank keeps all of a context.",
            "moe_a2a_backend": "Experts run on the tokens of all ranks.",
            "speculative_algorithm": "Drafts are not spread.",
            "enable_hierarchical_cache": "It was not tried.",
            "enable_two_batch_overlap": "Turns pass at the sums of a layer, not within its attention.",
            "enable_piecewise_cuda_graph": "Its pieces have all tokens of a prompt.",
            "chunked_prefix_threshold": "Prompts attend to latent rows.",
        }
        for name, why in reasons.items():
            if getattr(self, name) != getattr(EngineConfig, name):
                expected = "its default with attn_cp_size above 1"
                raise BadArgumentError(name, expected, getattr(self, name), f"{why} Leave it out.")

    def keeps_records(self, device_type: str) -> bool:
        """Whether an MLA model's pool holds FlashMLA's records."""
        return self.kv_cache_dtype == "fp8_e4m3" and self.backend(device_type) in RECORD_BACKENDS

    def packs_index_keys(self, device_type: str, index_head_dim: int) -> bool:
        """Whether an indexer's keys are kept in FP8, for which there is one width."""
        if self.index_k_dtype == "auto":
            return self.keeps_records(device_type) and index_head_dim == INDEX_DIM
        return True

    def threads(self, parameters: int) -> int | None:
        """Threads of a pass on a CPU, by the model's size; None: as many as PyTorch has set."""
        return 1 if self.cpu_threads is None and parameters < SMALL_MODEL else self.cpu_threads

    def overlaps(self, device_type: str) -> bool:
        """Whether a step is planned while the one before runs."""
        if self.speculative_algorithm is not None:
            return False
        asked = self.disable_overlap_schedule
        return device_type == "cuda" and self.tp_size == 1 if asked is None else not asked

    def graphs(self, device_type: str) -> bool:
        """Whether decode passes are captured and replayed."""
        if self.replay_launches:
            return True
        if self.cuda_graph is not None:
            return self.cuda_graph
        return device_type == "cuda" and self.dp_size == 1 and not self.enable_two_batch_overlap

    def capture_sizes(self) -> list[int]:
        """Batch sizes to capture: those asked for, or SGLang's."""
        if self.cuda_graph_bs is not None:
            return list(self.cuda_graph_bs)
        return capture_batch_sizes(self.cuda_graph_max_bs or self.max_running_requests)

    def capture_tokens(self) -> list[int]:
        """Numbers of tokens to capture extend passes for: those asked for, or SGLang's."""
        if self.piecewise_cuda_graph_tokens is not None:
            return list(self.piecewise_cuda_graph_tokens)
        chunk = self.chunked_prefill_size if self.chunked_prefill_size > 0 else self.max_prefill_tokens
        largest = self.piecewise_cuda_graph_max_tokens or min(chunk, 4096)
        return piecewise_capture_tokens(largest) or [largest]

    def backend(self, device_type: str) -> str:
        """The attention backend's name."""
        if self.attention_backend != "auto":
            return self.attention_backend
        if self.attn_cp_size > 1:
            return "fa3"
        return "triton" if device_type == "cuda" or self.dcp_size > 1 else "torch_native"

    def context_exchange(self, device_type: str) -> str:
        """`dcp_comm_backend`, or what it is by default."""
        return self.dcp_comm_backend or ("a2a" if device_type == "cuda" else "ag_rs")

    def pages(self, device_type: str) -> int:
        """Slots per page."""
        return self.page_size or PAGE_SIZES.get(self.backend(device_type), 1)

    def scheduler(self, overlap: bool) -> SchedulerConfig:
        """The scheduler's part."""
        return SchedulerConfig(
            max_running_requests=self.max_running_requests,
            max_prefill_tokens=self.max_prefill_tokens,
            chunked_prefill_size=self.chunked_prefill_size,
            enable_mixed_chunk=self.enable_mixed_chunk,
            schedule_policy=self.schedule_policy,
            schedule_conservativeness=self.schedule_conservativeness,
            prefill_max_requests=self.prefill_max_requests,
            enable_overlap=overlap,
            seed=self.random_seed,
        )

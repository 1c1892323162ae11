"""explore_backends: what every attention backend would do with a batch, from lengths and a model's shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

import torch

from sglab.attention.explore import Exploration, FirstRank, Pass, explore
from sglab.attention.selection import HARDWARE, VERSIONS, Model, Settings
from sglab.attention.table import MODELS
from sglab.engine import KV_CACHE_DTYPES as BY_NAME
from sglab.engine import BadArgumentError, ForwardMode, ModelRunner, arguments
from sglab.workbench.bare_pass import BareOptions, as_verification
from sglab.workbench.batch import Batch

Mode = Literal["decode", "extend", "mixed", "verify a chain", "verify a tree"]
MODES: tuple[Mode, ...] = get_args(Mode)
CHAIN, TREE = (-1, 0, 1, 2), (-1, 0, 0, 1, 1, 2, 2, 3)
"""Drafts that are verified: the node before each."""
PARENTS: dict[str, tuple[int, ...]] = {"verify a chain": CHAIN, "verify a tree": TREE}
MOST_RANKS = 64
MOST_TOKENS, MOST_REQUESTS = 1 << 20, 512
"""Of a question: the page table alone takes 4 bytes for each token of the longest request, in every row."""
KV_CACHE_DTYPES = {name: dtype for name, dtype in BY_NAME.items() if not isinstance(dtype, str)}
"""Pools whose rows lie in any page; formats with scales for blocks ask for pages and heads of their own."""


@dataclass(frozen=True)
class Heads:
    """A model's attention on one rank."""

    num_heads: int
    num_kv_heads: int = 1
    head_dim: int = 128
    sinks: bool = False
    like: str = ""


HEADS = {
    "MHA": Heads(32, 8, like="as Llama 3.1 8B"),
    "MLA": Heads(16, like="as DeepSeek-V2-Lite"),
    "DeepSeek-V3": Heads(128),
    "DeepSeek-V3.2": Heads(128, like="its indexer chooses 2,048 tokens"),
    "GPT-OSS": Heads(64, 8, 64, sinks=True, like="sinks"),
    "Llama 4": Heads(40, 8),
    "Qwen3-Next": Heads(16, 2, 256, like="its layers of full attention"),
}
"""Model of `sglab.attention.table.MODELS` -> its shape, from its published configuration."""


@dataclass(frozen=True)
class Question:
    """What is asked of every backend; `explore_backends` documents the fields."""

    seq_lens: tuple[int, ...] = (4096,) * 8
    model: str = "MHA"
    machine: str = "H100"
    version: str = "0.5.23"
    mode: Mode = "decode"
    new_tokens: int = 256
    num_heads: int | None = None
    num_kv_heads: int | None = None
    page_size: int | None = None
    kv_cache_dtype: str = "auto"
    sliding_window: int = -1
    logit_cap: float = 0.0
    cuda_graph: bool = False
    deterministic: bool = False
    dcp_size: int = 1
    attn_cp_size: int = 1

    def checked(self) -> Question:
        """The same with lengths as a tuple, or a refusal by name."""
        lens = arguments.lengths("seq_lens", list(self.seq_lens), 1)
        for name, known in (
            ("model", tuple(HEADS)),
            ("machine", tuple(HARDWARE)),
            ("version", VERSIONS),
            ("mode", MODES),
            ("kv_cache_dtype", tuple(KV_CACHE_DTYPES)),
        ):
            arguments.choice(name, getattr(self, name), known)
        if not lens or len(lens) > MOST_REQUESTS or sum(lens) > MOST_TOKENS:
            expected = f"1 to {MOST_REQUESTS} requests of at most {MOST_TOKENS:,} tokens together"
            raise BadArgumentError("seq_lens", expected, f"{len(lens)} of {sum(lens):,}", "Ask about fewer.")
        arguments.integer("new_tokens", self.new_tokens, 1, remedy="An extend computes one token at least.")
        arguments.integer("sliding_window", self.sliding_window, -1, remedy="-1 is none, w keeps w + 1 keys.")
        arguments.finite("logit_cap", self.logit_cap, 0.0)
        for name in ("num_heads", "num_kv_heads"):
            if getattr(self, name) is not None:
                arguments.integer(name, getattr(self, name), 1, remedy="Leave it out for the model's own.")
        if self.is_mla and self.num_kv_heads not in (None, 1):
            remedy = "MLA's heads share one latent row per token: leave it out."
            raise BadArgumentError("num_kv_heads", "1 for a model of MLA", self.num_kv_heads, remedy)
        if self.page_size is not None:
            arguments.power_of_two("page_size", self.page_size)
        for name in ("dcp_size", "attn_cp_size"):
            size = arguments.power_of_two(name, getattr(self, name))
            arguments.integer(name, size, 1, MOST_RANKS, "Ask about fewer ranks.")
        if self.dcp_size > 1 and self.attn_cp_size > 1:
            remedy = "Spread either a request's context over ranks or its prompt."
            raise BadArgumentError("attn_cp_size", "1 with dcp_size above 1", self.attn_cp_size, remedy)
        heads, kv_heads = self.heads
        if heads % kv_heads or heads > 1024:
            expected = f"at most 1,024, a multiple of the {kv_heads} KV heads"
            raise BadArgumentError("num_heads", expected, heads, "Each KV head serves as many heads.")
        return replace(self, seq_lens=tuple(lens))

    @property
    def is_mla(self) -> bool:
        return MODELS[self.model].use_mla

    @property
    def heads(self) -> tuple[int, int]:
        """Query and KV heads of one rank."""
        shape = HEADS[self.model]
        return self.num_heads or shape.num_heads, 1 if self.is_mla else self.num_kv_heads or shape.num_kv_heads

    @property
    def for_selection(self) -> tuple[Model, Settings]:
        """As SGLang's selection sees it; DeepSeek's configurations say as many KV heads as query heads."""
        heads, kv_heads = self.heads
        drafts = {"verify a chain": 1, "verify a tree": 2}.get(self.mode)
        settings = Settings(
            page_size=self.page_size,
            kv_cache_dtype=self.kv_cache_dtype,
            speculative_algorithm=None if drafts is None else "EAGLE",
            speculative_eagle_topk=drafts,
            enable_deterministic_inference=self.deterministic,
        )
        return replace(MODELS[self.model], num_kv_heads=heads if self.is_mla else kv_heads), settings


def explore_backends(seq_lens: Sequence[int] | Batch = Question.seq_lens, **question: Any) -> Exploration:
    """What each registered backend builds for a batch, reads, and refuses, with SGLang's choice.

    No kernel of attention runs and no KV is written: backends are made and prepared for real, over real page tables.

    Args:
        seq_lens: KV tokens per request: the new one included in decode, the new ones in extend, without drafts in
            verification. Or a live batch, whose heads, pages, mode and lengths are then those of the question.
        model: whose shape and whose rules of selection: "MHA", "MLA", "DeepSeek-V3", "DeepSeek-V3.2", "GPT-OSS",
            "Llama 4", "Qwen3-Next".
        machine: a name of `sglab.attention.HARDWARE`, such as "H100". version: SGLang's.
        mode: "decode", "extend", "mixed", "verify a chain", "verify a tree".
        new_tokens: of each request in an extend, at most its length.
        num_heads, num_kv_heads: of one rank; None: the model's.
        page_size: of all; None: for each backend the one with which SGLang would run it.
        kv_cache_dtype: "auto", "fp8_e4m3", "fp8_e5m2".
        sliding_window: w for w + 1 keys; -1: none. logit_cap: 0 or the cap.
        cuda_graph: what a graph's replay reads. deterministic: deterministic inference.
        dcp_size: ranks that a request's context is spread over; attn_cp_size: that a prompt's new tokens are spread
            over. Powers of two; above 1, what is built and counted is the first rank's, heads and pages are a rank's.

    Raises:
        BadArgumentError: naming the argument.
    """
    known = {field.name for field in fields(Question)} - {"seq_lens"}
    unknown = sorted(set(question) - known)
    if unknown:
        raise BadArgumentError("question", f"names among {', '.join(sorted(known))}", ", ".join(unknown), "Rename it.")
    if isinstance(seq_lens, Batch):
        asked = question_of(seq_lens, **question)
        return ask(asked, seq_lens)
    return ask(Question(seq_lens=tuple(seq_lens), **question).checked())


def ask(question: Question, batch: Batch | None = None) -> Exploration:
    """Answer a question that was checked, about a live batch or about one that is made for it."""
    model, settings = question.for_selection

    def pass_of(page_size: int) -> Pass:
        return made_pass(question, page_size) if batch is None else live_pass(question, batch)

    return explore(pass_of, HARDWARE[question.machine], model, settings, version=question.version)


def question_of(batch: Batch, **question: Any) -> Question:
    """What a live batch asks; the other fields as given."""
    mode = {ForwardMode.DECODE: "decode", ForwardMode.MIXED: "mixed"}.get(batch.forward_mode, "extend")
    given: dict[str, Any] = {
        "seq_lens": tuple(batch.seq_lens.tolist()),
        "mode": mode,
        "new_tokens": max(batch.new_tokens, default=1),
        "num_heads": batch.num_heads,
        "num_kv_heads": batch.num_kv_heads,
        "page_size": batch.page_size,
    }
    model = question.pop("model", "MLA" if batch.kind == "mla" else "MHA")
    arguments.choice("model", model, tuple(HEADS))
    if MODELS[model].use_mla != (batch.kind == "mla"):
        expected = f"a model of {batch.kind.upper()}, as the batch is"
        raise BadArgumentError("model", expected, repr(model), "Leave it out, or build another batch.")
    if question.get("dcp_size", 1) != 1:
        remedy = "Pass lengths instead of the batch."
        raise BadArgumentError("dcp_size", "1 with a live batch, whose pool is whole", question["dcp_size"], remedy)
    fixed = sorted(set(question) & set(given))
    if fixed:
        remedy = "Leave it out, or pass lengths instead of the batch."
        raise BadArgumentError(fixed[0], "the batch's own", question[fixed[0]], remedy)
    return Question(**given, model=model, **question).checked()


def live_pass(question: Question, batch: Batch) -> Pass:
    """A batch as it is, under the question's flags.

    Raises:
        BadArgumentError, PageTableError: its metadata and pools disagree.
    """
    batch.check_page_table()
    layer = replace(batch.layer, sliding_window_size=question.sliding_window)
    runner = _with_flags(batch.runner, question)
    sinks = torch.zeros(batch.num_heads) if HEADS[question.model].sinks else None
    sparse = MODELS[question.model].sparse
    return Pass(runner, batch.forward_batch, layer, sinks, question.cuda_graph, sparse)


def made_pass(question: Question, page_size: int) -> Pass:
    """A pass of the question's shape, in pages of this size, over a pool that is never written."""
    shape = HEADS[question.model]
    heads, kv_heads = question.heads
    options = BareOptions(
        heads,
        kv_heads,
        kind="mla" if question.is_mla else "mha",
        page_size=page_size,
        dtype="bfloat16",
        head_dim=shape.head_dim,
        logit_cap=question.logit_cap,
        kv_dtype=KV_CACHE_DTYPES[question.kv_cache_dtype],
    )
    lens, parents = list(question.seq_lens), PARENTS.get(question.mode)
    new, mode = [1] * len(lens), ForwardMode.DECODE
    if parents is not None:
        lens, new, mode = [each + len(parents) for each in lens], [len(parents)] * len(lens), ForwardMode.EXTEND
    elif question.mode != "decode":
        new, mode = [min(question.new_tokens, each) for each in lens], ForwardMode.EXTEND
        if question.mode == "mixed":
            new, mode = [*new[: -(-len(new) // 2)], *[1] * (len(new) // 2)], ForwardMode.MIXED
    if question.dcp_size > 1:
        runner, batch, layer = options.spread(lens, new, mode, question.dcp_size)
    else:
        runner, batch, layer = options.bare(lens, new, mode)
    if parents is not None:
        batch = as_verification(batch, parents, 1 if parents == CHAIN else 2)
    runner = _with_flags(runner, question)
    layer = replace(layer, sliding_window_size=question.sliding_window)
    sinks = torch.zeros(heads) if shape.sinks else None
    return Pass(runner, batch, layer, sinks, question.cuda_graph, MODELS[question.model].sparse)


def _with_flags(runner: ModelRunner, question: Question) -> ModelRunner:
    prompts = FirstRank(question.attn_cp_size) if question.attn_cp_size > 1 else None
    return replace(runner, enable_deterministic_inference=question.deterministic, attn_cp=prompts)

"""What an attention backend serves, as data; every refusal is read off it.

A backend declares its `Capabilities`. What a call asks for is a `Demand`; each `Rule` compares one point of the two,
and `refuse_unserved` turns the first that fails into an error with the remedy: the backends that do serve the demand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import torch

from sglab.engine import (
    AttentionType,
    BadArgumentError,
    ForwardBatch,
    ForwardMode,
    GraphBatch,
    RadixAttention,
    ScoreMod,
)
from sglab.planning.mla_dims import HEAD_DIM, LATENT_DIM

Drafts = Literal["chain", "tree"]

FLOATS = ("float16", "bfloat16", "float32")
CAUSAL_MODES = (
    ForwardMode.EXTEND,
    ForwardMode.DECODE,
    ForwardMode.MIXED,
    ForwardMode.SPLIT_PREFILL,
    ForwardMode.IDLE,
)


GRAPH_MODES = (ForwardMode.DECODE, ForwardMode.IDLE, ForwardMode.TARGET_VERIFY, ForwardMode.DRAFT_EXTEND_V2)
"""Modes with a fixed number of query rows per request, which a CUDA graph can capture."""
DIFFUSION_GRAPH_MODES = (*GRAPH_MODES, ForwardMode.DLLM_EXTEND)
"""Those of backends that capture a diffusion model's blocks, too."""


class UnsupportedError(BadArgumentError, NotImplementedError):
    """A backend is asked for what it does not serve; the message names the argument and the backends that do."""


@dataclass(frozen=True)
class Capabilities:
    """What a backend serves. The defaults are the least: plain causal attention over a decoder's KV cache."""

    kinds: tuple[str, ...] = ("mha", "mla")
    """"mha" (also GQA and MQA) and "mla" (absorbed)."""
    modes: tuple[ForwardMode, ...] = CAUSAL_MODES
    fallback: str = ""
    """The backend that serves the modes, the drafts and the graphs that this one does not."""
    drafts: Drafts | None = None
    """TARGET_VERIFY: a "chain" of draft tokens (topk 1), or a "tree" with its mask."""
    graph_modes: tuple[ForwardMode, ...] = ()
    """Modes that a CUDA graph may capture."""
    deterministic: bool = False
    """Promises a row the same bits in every batch: `enable_deterministic_inference` takes no other. SGLang's list, and
    torch_native, which attends request by request."""
    page_sizes: tuple[int, ...] = ()
    """Empty: any."""
    dtypes: tuple[str, ...] = FLOATS
    kv_dtypes: tuple[str, ...] = ()
    """Of the KV pool, beside the queries' own dtype: dtypes, and formats with a scale for each block of a row."""
    prompt_kv_dtypes: tuple[str, ...] = ()
    """Formats that are read in prompts' passes alone; another backend decodes (`HybridAttnBackend`)."""
    kv_records: bool = False
    """MLA pools of FlashMLA's 656-byte records, too."""
    head_dims: tuple[tuple[int, int], ...] = ()
    """(head_dim, v_head_dim); empty: any."""
    sliding_window: bool = False
    windows_in_trees: bool = False
    """A window counts along each draft's own path, as decoding would: so in SGLang's fa3, whose tables hold paths; its
    triton counts in the order in which a tree's drafts lie."""
    chunked: bool = False
    """Layers that see one chunk of the text (`use_irope` in a model with `attention_chunk_size`); a tree's drafts along
    their paths."""
    logit_cap: bool = False
    xai_temperature: bool = False
    sinks: bool = False
    """A logit per head that adds to the softmax's denominator alone."""
    cross_attention: bool = False
    encoders_in_graphs: bool = False
    """Captured decodes, too, read an encoder's tokens beside the decoder's."""
    bidirectional: bool = False
    """Encoders' layers, whose tokens also see what follows them; drafts' only where `bidirectional_drafts` says so."""
    bidirectional_window: bool = False
    """Their windows, too, which reach as far ahead as back."""
    bidirectional_drafts: bool = False
    """TARGET_VERIFY of drafts that a model made as one block (DFLASH): all of them see each other. Not trees."""
    image_conditioning: bool = False
    """LLaDA-Image's conditioning pass: texts that do not see the query tokens after them, which see everything."""
    image_masks: bool = False
    """Prompts with images, whose tokens see each other (`image_spans`)."""
    topk_indices: bool = False
    """Sparse attention: the tokens that an indexer chose for each query."""
    alibi: bool = False
    """`slopes`: logits that fall with the distance of the key; not in a graph."""
    score_mod: bool = False
    """A function of the model's on the logits, in PyTorch; neither in a graph nor over trees, chunks or an encoder."""
    rope_apart: bool = False
    """MLA: the kernel takes q and k as latent and rotary parts; SGLang's model then passes them separately."""
    triton_helpers: bool = True
    """SGLang may run its Triton helper kernels (indices, positions) beside this backend."""
    gathers_prefix: bool = False
    """Of a context spread over ranks: a prompt gathers its prefix's keys. Else the ranks attend to their shares of the
    prefix, too, and join what they found."""
    tokens_apart: bool = False
    """Of a context spread over ranks: each new token of a prompt is a request of its own, as a draft of a chain is."""
    pages_apart: bool = False
    """Of a context spread over ranks: whole pages of a request take turns on them, not its tokens."""
    dcp: Capabilities | None = None
    """What it serves where a request's context is spread over ranks (`dcp_size` above 1); None: nothing."""
    interleaves: bool = False
    """Of prompts spread over ranks: tokens take turns on them, each a request of its own; else blocks, in a zigzag."""
    cp: Capabilities | None = None
    """What it serves in prompts whose tokens are spread over ranks (`attn_cp_size` above 1); None: nothing."""

    @property
    def in_prompts(self) -> list[str]:
        """`prompt_kv_dtypes` in words."""
        return [f"{name} in prompts" for name in self.prompt_kv_dtypes]


MLA_DECODES_SPREAD = Capabilities(
    kinds=("mla",),
    graph_modes=(ForwardMode.DECODE, ForwardMode.IDLE),
    dtypes=("float16", "bfloat16"),
    kv_dtypes=("float8_e4m3fn", "float8_e5m2"),
    head_dims=((HEAD_DIM, LATENT_DIM),),
    rope_apart=True,
    gathers_prefix=True,
)
"""What a backend of absorbed MLA serves of contexts spread over ranks whose kernel has their share in decodes alone."""
MLA_CHAINS_SPREAD = replace(
    MLA_DECODES_SPREAD,
    modes=(*CAUSAL_MODES, ForwardMode.TARGET_VERIFY),
    drafts="chain",
    graph_modes=(ForwardMode.DECODE, ForwardMode.IDLE, ForwardMode.TARGET_VERIFY),
)
"""The same of one that also verifies chains so."""


SHARED_MODES = (ForwardMode.EXTEND, ForwardMode.MIXED)
"""Passes whose new tokens are spread over ranks (`attn_cp_size`)."""
PROMPTS_SPREAD = Capabilities(modes=SHARED_MODES, dtypes=("float16", "bfloat16"))
"""The least that a backend serves of prompts spread over ranks."""


@dataclass(frozen=True)
class Demand:
    """What one call asks of a backend; None: nothing is asked on this point."""

    kind: str | None = None
    page_size: int | None = None
    mode: ForwardMode | None = None
    spec_info: Any = None
    graph: bool = False
    dtype: torch.dtype | None = None
    kv_dtype: torch.dtype | str | None = None
    """Of the KV pool, where it is not that of the queries: a dtype, or a format's name."""
    kv_records: bool = False
    """The KV pool holds FlashMLA's records."""
    deterministic: bool = False
    """A row's bits may not depend on its batch."""
    dcp_size: int = 1
    """Ranks that a request's context is spread over."""
    attn_cp_size: int = 1
    """Ranks that a prompt's new tokens are spread over."""
    attention_chunk_size: int = 0
    """Of the model; 0: no layer sees chunks."""
    layer: RadixAttention | None = None
    encoder_lens: torch.Tensor | None = None
    text_lens: list[int] | None = None
    """Of a conditioning pass."""
    image_spans: list[list[tuple[int, int]]] | None = None
    """Of a prompt with images."""
    sinks: torch.Tensor | None = None
    topk_indices: torch.Tensor | None = None
    slopes: torch.Tensor | None = None
    score_mod: ScoreMod | None = None

    @classmethod
    def of_batch(cls, batch: ForwardBatch | GraphBatch) -> Demand:
        graph = isinstance(batch, GraphBatch)
        return cls(
            mode=batch.forward_mode,
            spec_info=batch.spec_info,
            graph=graph,
            encoder_lens=batch.encoder_lens,
            text_lens=None if isinstance(batch, GraphBatch) else batch.llada_image_conditioning_text_lens_cpu,
            image_spans=None if isinstance(batch, GraphBatch) else batch.image_spans,
        )


@dataclass(frozen=True)
class Rule:
    """One point of a demand, and the words of its refusal."""

    argument: str
    served: Callable[[Capabilities, Demand], bool]
    expected: Callable[[Capabilities], str]
    got: Callable[[Demand], str]
    hint: Callable[[Capabilities], str] = lambda c: ""
    """What else would do, before the backends that serve the demand as it is."""


def _listed(choices: Iterable[object]) -> str:
    *most, last = map(str, choices)
    return f"{', '.join(most)} or {last}" if most else last


def _layer_rule(field: str, plain: str, used: Callable[[RadixAttention], bool], capability: str) -> Rule:
    """A layer's option that a backend either has or takes only at its plain value."""
    return Rule(
        f"layer.{field}",
        lambda c, d: d.layer is None or not used(d.layer) or getattr(c, capability),
        lambda c: plain,
        lambda d: str(getattr(d.layer, field)),
    )


def _name(dtype: torch.dtype | str) -> str:
    return str(dtype).removeprefix("torch.")


IMAGE_MODES = (ForwardMode.EXTEND, ForwardMode.MIXED, ForwardMode.SPLIT_PREFILL)
PROMPTS = (ForwardMode.EXTEND, ForwardMode.MIXED, ForwardMode.SPLIT_PREFILL, ForwardMode.DLLM_EXTEND, ForwardMode.IDLE)


def _reads(c: Capabilities, d: Demand) -> bool:
    """Whether a pool's rows are read in a pass; a mode that is not known may be a prompt's."""
    if d.kv_dtype is None or _name(d.kv_dtype) in c.kv_dtypes:
        return True
    return _name(d.kv_dtype) in c.prompt_kv_dtypes and (d.mode is None or d.mode in PROMPTS)


def _stored(d: Demand) -> str:
    """What a pool holds, and in which pass it is asked for."""
    mode = "" if d.mode is None or d.mode in PROMPTS else f" in {d.mode.name}"
    return "" if d.kv_dtype is None else f"{_name(d.kv_dtype)}{mode if isinstance(d.kv_dtype, str) else ''}"


def _head_dims(layer: RadixAttention) -> tuple[int, int]:
    return layer.head_dim, layer.v_head_dim


def _sees_ahead(c: Capabilities, d: Demand, layer: RadixAttention) -> bool:
    """Whether an encoder's layer is served."""
    drafts = d.mode is not None and d.mode.is_target_verify()
    if drafts and (not c.bidirectional_drafts or _is_tree(d)):
        return False
    return c.bidirectional and (layer.sliding_window_size < 0 or c.bidirectional_window)


def _beside(d: Demand) -> str:
    """What an encoder's layer is asked together with."""
    parts = [d.mode.name] if d.mode is not None and d.mode.is_target_verify() else []
    if d.layer is not None and d.layer.sliding_window_size >= 0:
        parts.append(f"a window of {d.layer.sliding_window_size}")
    return f" with {' and '.join(parts)}" if parts else ""


def _another(c: Capabilities) -> str:
    return f", or another without {'a tree of ' if c.bidirectional_drafts else ''}drafts"


def _drafts_served(c: Capabilities, d: Demand) -> bool:
    """spec_info says what verification sees and a drafting step reads; an idle pass and an extend need none of it."""
    if d.mode is None or not d.mode.is_target_verify():
        plain = d.mode is not None and (d.mode.is_idle() or d.mode.is_draft_extend(include_v2=True))
        return d.spec_info is None or plain
    if d.spec_info is None:
        return False
    return c.drafts == "tree" or (c.drafts == "chain" and getattr(d.spec_info, "topk", None) == 1)


def _sees_chunks(d: Demand) -> bool:
    return d.layer is not None and d.layer.use_irope and d.attention_chunk_size > 0


def _is_tree(d: Demand) -> bool:
    verifies = d.mode is not None and d.mode.is_target_verify()
    return verifies and d.spec_info is not None and getattr(d.spec_info, "topk", None) != 1


_OUT_OF_ORDER = "an encoder's keys, a tree of drafts, chunks or images"


def _in_order(d: Demand) -> bool:
    """Whether a key's place among those read is its position in the text, and nothing but that hides it."""
    return (
        not _is_tree(d)
        and not _sees_chunks(d)
        and d.image_spans is None
        and (d.layer is None or not d.layer.is_cross_attention)
    )


def _drafts_expected(c: Capabilities) -> str:
    if c.drafts is None:
        return "None"
    return f"None, or in TARGET_VERIFY the drafts as a {c.drafts} (draft_token_num, custom_mask)"


SPREAD = Rule(
    "dcp_size",
    lambda c, d: d.dcp_size == 1 or c.dcp is not None,
    lambda c: "1",
    lambda d: str(d.dcp_size),
    lambda c: "It reads all of a request's keys on every rank.",
)
SHARED_PROMPTS = Rule(
    "attn_cp_size",
    lambda c, d: d.attn_cp_size == 1 or c.cp is not None,
    lambda c: "1",
    lambda d: str(d.attn_cp_size),
    lambda c: "It attends with all of a prompt's tokens on every rank.",
)
RULES: tuple[Rule, ...] = (
    Rule(
        "batch",
        lambda c, d: d.kind is None or d.kind in c.kinds,
        lambda c: f"an {_listed(kind.upper() for kind in c.kinds)} batch",
        lambda d: f"an {str(d.kind).upper()} batch",
        lambda c: f'Build it with kind="{c.kinds[0]}".',
    ),
    Rule(
        "page_size",
        lambda c, d: d.page_size is None or not c.page_sizes or d.page_size in c.page_sizes,
        lambda c: _listed(c.page_sizes),
        lambda d: str(d.page_size),
        lambda c: f"Build the batch with page_size={c.page_sizes[-1]}.",
    ),
    Rule(
        "kv_cache_dtype",
        _reads,
        lambda c: _listed(("the queries' own dtype", *c.kv_dtypes, *c.in_prompts)),
        _stored,
    ),
    Rule(
        "token_to_kv_pool",
        lambda c, d: not d.kv_records or c.kv_records,
        lambda c: "a pool of rows",
        lambda d: "records of 656 bytes",
    ),
    Rule(
        "enable_deterministic_inference",
        lambda c, d: not d.deterministic or c.deterministic,
        lambda c: "False",
        lambda d: str(d.deterministic),
        lambda c: "It does not promise a row the same bits in every batch.",
    ),
    Rule(
        "layer.attn_type",
        lambda c, d: d.layer is None or d.layer.attn_type is AttentionType.DECODER or _sees_ahead(c, d, d.layer),
        lambda c: (
            f"AttentionType.DECODER{_another(c) if c.bidirectional else ''}"
            f"{' and without a window' if c.bidirectional and not c.bidirectional_window else ''}"
        ),
        lambda d: str(d.layer.attn_type) + _beside(d) if d.layer is not None else "",
    ),
    _layer_rule("is_cross_attention", "False", lambda layer: layer.is_cross_attention, "cross_attention"),
    Rule(
        "forward_batch.forward_mode",
        lambda c, d: d.mode is None or d.mode in c.modes,
        lambda c: _listed(mode.name for mode in c.modes),
        lambda d: d.mode.name if d.mode is not None else "",
    ),
    Rule(
        "forward_batch.spec_info",
        _drafts_served,
        _drafts_expected,
        lambda d: f"{type(d.spec_info).__name__} with {d.mode.name if d.mode is not None else 'no mode'}",
    ),
    Rule(
        "graph_batch.forward_mode",
        lambda c, d: not d.graph or d.mode is None or d.mode in c.graph_modes,
        lambda c: (
            _listed(f"a CUDA graph of {mode.name}" for mode in c.graph_modes) if c.graph_modes else "no CUDA graph"
        ),
        lambda d: f"a CUDA graph of {d.mode.name if d.mode is not None else ''}",
    ),
    Rule(
        "forward_batch.encoder_lens",
        lambda c, d: d.encoder_lens is None or (c.cross_attention and (c.encoders_in_graphs or not d.graph)),
        lambda c: "None" + (" in a CUDA graph" if c.cross_attention else ""),
        lambda d: "lengths of an encoder",
    ),
    Rule(
        "forward_batch.llada_image_conditioning_text_lens_cpu",
        lambda c, d: d.text_lens is None or c.image_conditioning,
        lambda c: "None",
        lambda d: str(d.text_lens),
    ),
    Rule(
        "forward_batch.image_spans",
        lambda c, d: d.image_spans is None or (c.image_masks and (d.mode is None or d.mode in IMAGE_MODES)),
        lambda c: "None" + (f" but in {_listed(mode.name for mode in IMAGE_MODES)}" if c.image_masks else ""),
        lambda d: f"images in {sum(map(bool, d.image_spans or ()))} of {len(d.image_spans or ())} requests",
    ),
    Rule(
        "q",
        lambda c, d: d.dtype is None or _name(d.dtype) in c.dtypes,
        lambda c: _listed(c.dtypes),
        lambda d: "" if d.dtype is None else _name(d.dtype),
    ),
    Rule(
        "layer.head_dim, layer.v_head_dim",
        lambda c, d: d.layer is None or not c.head_dims or _head_dims(d.layer) in c.head_dims,
        lambda c: _listed(c.head_dims),
        lambda d: str(_head_dims(d.layer)) if d.layer is not None else "",
    ),
    Rule(
        "layer.use_irope",
        lambda c, d: (
            not _sees_chunks(d) or (c.chunked and d.layer is not None and d.layer.is_causal and d.image_spans is None)
        ),
        lambda c: (
            "False where the model has attention_chunk_size" + (", or a causal layer and no image" if c.chunked else "")
        ),
        lambda d: f"True, with chunks of {d.attention_chunk_size}",
    ),
    _layer_rule("logit_cap", "0", lambda layer: bool(layer.logit_cap), "logit_cap"),
    Rule(
        "layer.sliding_window_size",
        lambda c, d: (
            d.layer is None
            or d.layer.sliding_window_size < 0
            or (c.sliding_window and (c.windows_in_trees or not _is_tree(d)))
        ),
        lambda c: "-1 (full attention)" + (" where the drafts are a tree" if c.sliding_window else ""),
        lambda d: str(d.layer.sliding_window_size) if d.layer is not None else "",
    ),
    _layer_rule("xai_temperature_len", "-1", lambda layer: layer.xai_temperature_len > 0, "xai_temperature"),
    Rule(
        "sinks",
        lambda c, d: d.sinks is None or c.sinks,
        lambda c: "None",
        lambda d: f"a tensor {tuple(d.sinks.shape)}" if d.sinks is not None else "",
    ),
    Rule(
        "topk_indices",
        lambda c, d: d.topk_indices is None or c.topk_indices,
        lambda c: "None",
        lambda d: f"a tensor {tuple(d.topk_indices.shape)}" if d.topk_indices is not None else "",
    ),
    Rule(
        "slopes",
        lambda c, d: d.slopes is None or (c.alibi and _in_order(d)),
        lambda c: "None" + (f" beside {_OUT_OF_ORDER}" if c.alibi else ""),
        lambda d: f"a tensor {tuple(d.slopes.shape)}" if d.slopes is not None else "",
    ),
    Rule(
        "score_mod",
        lambda c, d: d.score_mod is None or (c.score_mod and _in_order(d)),
        lambda c: "None" + (f" beside {_OUT_OF_ORDER}" if c.score_mod else ""),
        lambda d: "a function",
    ),
)


def unserved(capabilities: Capabilities, demand: Demand) -> Rule | None:
    """The first rule by which a backend of these capabilities does not serve the demand; None: it does."""
    for rule in (SPREAD, SHARED_PROMPTS):
        if not rule.served(capabilities, demand):
            return rule
    capabilities = _asked(capabilities, demand)
    for rule in RULES:
        if not rule.served(capabilities, demand):
            return rule
    return None


def _asked(capabilities: Capabilities, demand: Demand) -> Capabilities:
    """What is served of requests that are whole on a rank, or of those spread over ranks."""
    if _shares_prompt(demand):
        return capabilities.cp or capabilities
    return capabilities if demand.dcp_size == 1 else capabilities.dcp or capabilities


def _shares_prompt(demand: Demand) -> bool:
    """Whether new tokens may be spread over ranks; every rank runs other passes in whole, as without others."""
    return demand.attn_cp_size > 1 and (demand.mode is None or demand.mode in SHARED_MODES)


def _where(name: str, rule: Rule, demand: Demand) -> str:
    """A backend, and over how many ranks it refuses."""
    if rule in (SPREAD, SHARED_PROMPTS):
        return name
    sizes = {"dcp_size": demand.dcp_size, "attn_cp_size": demand.attn_cp_size if _shares_prompt(demand) else 1}
    return next((f"{name} with {option} {size}" for option, size in sizes.items() if size > 1), name)


def refuse_unserved(
    name: str,
    capabilities: Capabilities,
    demand: Demand,
    others: Callable[[], Mapping[str, Capabilities]],
    argument: str = "",
) -> None:
    """Refuse a demand that a backend does not serve.

    Args:
        name: the backend's, for the message.
        others: the registered backends' capabilities; requested only when there is something to refuse.
        argument: what the caller's argument is called, where it is not the rule's.

    Raises:
        UnsupportedError: names the argument, what the backend expects, what it got, and who serves the demand.
    """
    rule = unserved(capabilities, demand)
    if rule is None:
        return
    asked = _asked(capabilities, demand)
    remedy = f"{rule.hint(asked)} {_remedy(name, rule, demand, others())}".lstrip()
    expected = f"{rule.expected(asked)} for {_where(name, rule, demand)}"
    raise UnsupportedError(argument or rule.argument, expected, rule.got(demand), remedy)


def _remedy(name: str, rule: Rule, demand: Demand, others: Mapping[str, Capabilities]) -> str:
    if demand.mode is None:  # any model decodes
        demand = replace(demand, mode=ForwardMode.EXTEND if demand.attn_cp_size > 1 else ForwardMode.DECODE)
    spread: dict[str, Any] = {"dcp_size": demand.dcp_size, "attn_cp_size": demand.attn_cp_size}
    made_for = Demand(kind=demand.kind, page_size=demand.page_size, deterministic=demand.deterministic, **spread)

    def ways(own: Capabilities) -> Iterator[Capabilities]:
        """A backend's own kernels, and its fallback's where it leaves the mode, the drafts or the graph to that."""
        yield own
        mode = Demand(mode=demand.mode, spec_info=demand.spec_info, graph=demand.graph, **spread)
        if own.fallback in others and unserved(own, mode) is not None:
            yield others[own.fallback]

    def serving(serves: Callable[[Capabilities], bool], made_for: Demand = made_for) -> list[str]:
        """Of the backends that can be made for this model those that serve something, or whose fallback does."""
        made = [other for other, theirs in others.items() if other != name and unserved(theirs, made_for) is None]
        return [other for other in made if any(map(serves, ways(others[other])))]

    own = others.get(name)
    whole = _nearest(own, serving(lambda theirs: unserved(theirs, demand) is None), others)
    if whole:
        return f"Use {_listed(whole)}."
    paged, made_paged = replace(demand, page_size=None), replace(made_for, page_size=None)
    other_pages = _nearest(own, serving(lambda theirs: unserved(theirs, paged) is None, made_paged), others)
    if other_pages:
        sizes = [f"{each} with pages of {_listed(others[each].page_sizes)}" for each in other_pages]
        return f"Use {_listed(sizes)}."
    partly = _nearest(own, serving(lambda theirs: rule.served(_asked(theirs, demand), demand)), others)
    if partly:
        return f"{_listed(partly)} would take this, but not the rest of the call."
    return "No backend here serves it."


NAMED = 3
"""So many backends a refusal names: those most like the one that refused."""


def _nearest(own: Capabilities | None, names: list[str], others: Mapping[str, Capabilities]) -> list[str]:
    """The backends whose capabilities differ least from `own`; in the registry's order where they are equally near."""
    if own is None:
        return names[:NAMED]
    return sorted(names, key=lambda name: _differences(own, others[name]))[:NAMED]


def _differences(a: Capabilities, b: Capabilities) -> int:
    return sum(getattr(a, field.name) != getattr(b, field.name) for field in fields(Capabilities))

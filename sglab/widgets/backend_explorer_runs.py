"""Batches on which a backend of BackendExplorer is run, opened and planned."""

from __future__ import annotations

from dataclasses import dataclass

from sglab.attention.explore import Answer
from sglab.attention.explore.machines import sm_count
from sglab.attention.explore.plans import PlanFacts
from sglab.attention.selection import HARDWARE
from sglab.emulator.captures import Capture, CapturedLaunch
from sglab.engine import BadArgumentError
from sglab.engine.model_runner import Kind
from sglab.words import plural
from sglab.workbench import Batch, decode_batch, extend_batch
from sglab.workbench.explore import HEADS, Question

from .backend_explorer_rows import openings
from .split_kv import SplitKV

MOST_REQUESTS, MOST_TOKENS = 4, 256
"""Of a batch that runs here: the first requests, and so many tokens of each: an emulated kernel ends in seconds."""
BESIDE = ("combine", "indices", "splits", "stage2", "merge", "store", "buffer")
"""Words in the names of kernels that prepare attention or merge its parts."""


@dataclass(frozen=True)
class Runnable:
    """`text`: what the batch is. `implementation`: of attend; `emulated`: of a trace."""

    batch: Batch
    text: str
    implementation: str
    emulated: str


def runnable(answer: Answer, asked: Question, live: Batch | None) -> Runnable:
    """The live batch, or a small one of the question's shape with random rows.

    Raises:
        BadArgumentError: it cannot be run, for the reason that `openings` has.
    """
    reason = openings(answer, asked, live)["run"]
    if reason and (answer.built is None or asked.mode.startswith("verify")):
        raise BadArgumentError("backend", "one that can run on this batch", answer.name, reason)
    in_triton = "auto" if answer.name in ("flashmla", "cutlass_mla") else "triton"
    own = "triton" if answer.name in ("triton", "wave") else "auto"
    if live is not None:
        return Runnable(live, f"the batch itself, {plural(live.batch_size, 'request')}", own, in_triton)
    lens = [min(each, MOST_TOKENS) for each in asked.seq_lens[:MOST_REQUESTS]]
    heads, kv_heads = asked.heads
    head_dim, page_size = HEADS[asked.model].head_dim, answer.page_size
    kind: Kind = "mla" if asked.is_mla else "mha"
    dtype = "bfloat16" if answer.name == "hpc_ops" else "float16"
    if asked.mode == "decode":
        batch = decode_batch(
            lens, heads, kv_heads, kind=kind, page_size=page_size, dtype=dtype, head_dim=head_dim, seed=0
        )
    else:
        prefixes = [max(0, each - asked.new_tokens) for each in lens]
        half = -(-len(lens) // 2) if asked.mode == "mixed" else len(lens)
        batch = extend_batch(
            lens[:half],
            prefixes[:half],
            heads,
            kv_heads,
            decode_seq_lens=lens[half:],
            kind=kind,
            page_size=page_size,
            dtype=dtype,
            head_dim=head_dim,
            seed=0,
        )
    first = f"the first {len(lens)} of {len(asked.seq_lens)}" if len(asked.seq_lens) > len(lens) else ""
    longer = f"longer ones cut to {MOST_TOKENS}" if max(asked.seq_lens[: len(lens)]) > MOST_TOKENS else ""
    cut = "".join(f", {each}" for each in (first, longer) if each)
    text = f"{plural(len(lens), 'request')} of {', '.join(map(str, lens))} tokens with random rows{cut}"
    return Runnable(batch, text, own, in_triton)


def attention_kernel(launches: Capture) -> CapturedLaunch:
    """The launch that attends, beside those that prepare it or merge its parts."""
    attending = [one for one in launches if not any(word in one.name for word in BESIDE)]
    return attending[0] if attending else launches.main


def split_kv(answer: Answer, asked: Question) -> SplitKV:
    """The backend's plan, with the lengths, heads, SMs and pages that it was made for."""
    assert isinstance(answer.plan, PlanFacts)
    heads, kv_heads = asked.heads
    window, planner = asked.sliding_window, answer.plan.planner
    slots = planner in ("flashinfer_decode", "flashinfer_prefill")
    count = sm_count(HARDWARE[asked.machine])
    return SplitKV(
        [length if window < 0 else min(length, window + 1) for length in asked.seq_lens],
        (planner,),
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=None if asked.is_mla else HEADS[asked.model].head_dim,
        sm_count="H100" if count is None else count,
        page_size=1 if slots else answer.page_size,
        enable_cuda_graph=asked.cuda_graph,
    )

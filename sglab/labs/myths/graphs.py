"""Statements on CUDA graphs."""

from __future__ import annotations

from typing import Any

import torch

from sglab.attention import create_attention_backend
from sglab.engine import ForwardMode, GraphBatch
from sglab.planning import capture_batch_sizes, capture_order, piecewise_capture_tokens, replay_batch_size
from sglab.serving import Engine
from sglab.workbench import decode_batch

from .statement import Found, statement


@statement(
    "a",
    a=(False, "It runs before each replay, into the same memory: the address stays, the pages change."),
    b=(False, "It is no work of the host. It is a kernel, launched outside the graph."),
    c=(True, "Were it in the graph, its lengths would be those of the capture. See what the replay changes."),
)
def index_kernel_is_captured() -> Found:
    """The kernel that builds the page table is captured in the decode graph, and replayed with it."""
    batch = decode_batch([100, 40, 300], num_heads=2, page_size=128)
    backend = create_attention_backend("cutlass_mla", batch.runner)
    backend.init_graph(4, 4)
    ones = torch.ones(4, dtype=torch.int64)
    backend.prepare_capture(GraphBatch(4, 4, ForwardMode.DECODE, ones * 0, ones))
    table = backend.forward_metadata.block_kv_indices
    address, captured = table.data_ptr(), table[:, :3].tolist()
    requests, lengths = ones * 0, ones.clone()
    requests[:3], lengths[:3] = batch.req_pool_indices, batch.seq_lens
    backend.prepare_replay(GraphBatch(4, 4, ForwardMode.DECODE, requests, lengths, int(lengths.sum()), lengths))
    now = backend.forward_metadata.block_kv_indices
    return now.data_ptr() != address or now[:, :3].tolist() == captured, {
        "page table at the capture": captured,
        "before a replay, no graph has run": now[:, :3].tolist(),
        "same address": now.data_ptr() == address,
    }


@statement(
    "c",
    a=(True, "A graph's grid is fixed. Which one is replayed for 3 requests?"),
    b=(False, "None is cut down: the batch is filled up to the next captured size."),
    c=(False, "The next captured size, with rows of length 1 that write to the dummy page and are thrown away."),
)
def graph_takes_fewer() -> Found:
    """A graph captured for 64 requests is replayed for any smaller batch: the kernels receive the true number."""
    sizes = capture_batch_sizes(64)
    found: dict[str, object] = {"captured up to 64": sizes, "captured first": capture_order(sizes)[:3]}
    used = {count: replay_batch_size(sizes, count) for count in (1, 3, 9, 33)}
    found |= {"replayed for so many requests": used, "sizes up to 256": len(capture_batch_sizes(256))}
    return set(used.values()) == {64}, found


@statement(
    "b",
    a=(False, "One request or three: with 13 tokens, the same graph."),
    b=(True, "What matters to the layers between two attentions is how many rows they get."),
    c=(True, "True, but attention is the part that is *not* captured: it runs between the pieces."),
)
def prefill_graphs_by_tokens() -> Found:
    """SGLang's graphs for prefill are chosen by the number of tokens in the pass, not by the number of requests."""
    options: dict[str, Any] = {"enable_piecewise_cuda_graph": True, "piecewise_cuda_graph_tokens": (8, 16, 32)}
    options |= {"page_size": 4, "max_total_tokens": 256, "disable_radix_cache": True, "disable_overlap_schedule": True}
    found: dict[str, object] = {}
    sizes = set()
    with Engine("tiny", **options) as engine:
        runner = engine.worker.piecewise_runner
        assert runner is not None
        for prompts in (["abcdefghijkl"], ["abc", "def", "ghij"], ["a", "b"]):
            engine.generate(prompts, {"temperature": 0, "max_new_tokens": 1})
            last = runner.replays[-1]
            sizes.add((last.raw_tokens, last.tokens))
            found[f"{len(prompts)} request(s), {last.raw_tokens} tokens"] = f"the graph of {last.tokens} tokens"
    sizes_of_a_server = piecewise_capture_tokens(512)
    return sizes == {(13, 16), (4, 8)}, {**found, "sizes up to 512 tokens": len(sizes_of_a_server)}

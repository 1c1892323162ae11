"""Contexts that ranks share: each rank's arrays are SGLang's, and what the ranks find together is attention in float64.

The golden file was written by `golden/read_dcp_metadata.py`, which runs SGLang 0.5.23's functions.
"""

import json
import random
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import sglab
from sglab.attention import AttentionBackend, UnsupportedError, create_attention_backend
from sglab.attention.dcp.backend import ContextParallelBackend
from sglab.attention.dcp.layout import Share
from sglab.attention.registry import capabilities_by_name
from sglab.engine import AttentionType, BadArgumentError, ForwardBatch, ForwardMode, PageTableError
from sglab.workbench.float64 import max_error, reference
from tests.support.attention import Drafts, shape_of, verify_batch
from tests.support.attention_matrix import TOLERANCE
from tests.support.ranks import on_ranks
from tests.support.spread import (
    Alone,
    Case,
    attend_one,
    attend_spread,
    merge_spread,
    on_threads,
    rank_runner,
    replay_spread,
    rows_of,
)

GOLDEN = json.loads((Path(__file__).parent / "golden" / "dcp_metadata.json").read_text("utf-8"))
SHARING = [
    (name, kind)
    for kind in ("mha", "mla")
    for name, capabilities in capabilities_by_name(kind).items()
    if capabilities.dcp is not None and kind in capabilities.dcp.kinds
]
"""Every backend that serves such contexts, and for which kind."""


def test_who_shares_a_context() -> None:
    """Those of SGLang 0.5.23 whose arrays know a rank's share; its flashinfer for MHA counts KV heads for it alone."""
    assert {name for name, kind in SHARING if kind == "mha"} == {"triton", "intel_xpu"}
    mla = {"triton", "flashinfer", "flashmla", "trtllm_mla", "cutedsl_mla", "dsa", "nsa", "aiter", "ascend"}
    assert {name for name, kind in SHARING if kind == "mla"} == mla


# The arrays.


def prepared(name: str, kind: str, mode: str, golden: dict[str, Any]) -> ContextParallelBackend:
    """A backend after `prepare`, with the golden file's requests."""
    page, size = golden["page"], golden["size"]
    dtype = {"dtype": "bfloat16", "kind": kind, "num_heads": 2 * size}
    shape = {**dtype, "num_kv_heads": 2, "head_dim": 16} if kind == "mha" else dtype
    batch = sglab.decode_batch([9], page_size=page * size, max_context_len=384, max_running_requests=6, **shape)
    runner = rank_runner(name, batch, Alone(golden["rank"], size), implementation="reference")
    runner.check_metadata = False
    runner.req_to_token_pool.req_to_token = torch.tensor(GOLDEN["tables"][str(page * size)], dtype=torch.int32)
    backend = create_attention_backend(name, runner)
    assert isinstance(backend, ContextParallelBackend)
    prefixes, new, decodes = GOLDEN["prefixes"], GOLDEN["new"], mode != "extend"
    lens = torch.tensor(GOLDEN["lens"] if decodes else [p + n for p, n in zip(prefixes, new, strict=True)])
    tokens = len(lens) if decodes else sum(new)
    drafts = Drafts(GOLDEN["drafts"], torch.ones(0, dtype=torch.bool)) if mode == "chain" else None
    modes = {"decode": ForwardMode.DECODE, "chain": ForwardMode.TARGET_VERIFY, "extend": ForwardMode.EXTEND}
    backend.prepare(
        ForwardBatch(
            forward_mode=modes[mode],
            spec_info=drafts,
            batch_size=len(lens),
            input_ids=torch.zeros(tokens, dtype=torch.int64),
            req_pool_indices=torch.tensor(GOLDEN["rows"]),
            seq_lens=lens,
            out_cache_loc=torch.zeros(tokens, dtype=torch.int64),
            seq_lens_sum=int(lens.sum()),
            seq_lens_cpu=lens,
            extend_seq_lens=None if decodes else torch.tensor(new, dtype=torch.int32),
            extend_prefix_lens=None if decodes else torch.tensor(prefixes, dtype=torch.int32),
            extend_seq_lens_cpu=None if decodes else new,
            extend_prefix_lens_cpu=None if decodes else prefixes,
            req_to_token_pool=runner.req_to_token_pool,
            token_to_kv_pool=runner.token_to_kv_pool,
        )
    )
    return backend


def arrays_of(backend: ContextParallelBackend) -> dict[str, torch.Tensor]:
    """By SGLang's names."""
    inner: Any = backend.inner
    if backend._prefix is not None:
        return vars(backend._prefix)
    meta = inner.forward_metadata
    return vars(getattr(meta, "decode_wrapper", meta))


@pytest.mark.parametrize("rank", GOLDEN["ranks"])
@pytest.mark.parametrize(
    ("name", "kind", "mode", "like"),
    [
        ("triton", "mha", "decode", "triton"),
        ("triton", "mha", "extend", "triton"),
        ("intel_xpu", "mha", "decode", "intel_xpu"),
        ("intel_xpu", "mha", "extend", "intel_xpu"),
        ("triton", "mla", "decode", "triton"),
        ("flashinfer", "mla", "decode", "flashinfer"),
        ("flashinfer", "mla", "extend", "gathered"),
        ("aiter", "mla", "decode", "flashinfer"),
        ("aiter", "mla", "extend", "gathered"),
        ("trtllm_mla", "mla", "decode", "trtllm_mla"),
        ("cutedsl_mla", "mla", "decode", "trtllm_mla"),
        ("cutedsl_mla", "mla", "extend", "gathered"),
        ("ascend", "mla", "decode", "ascend"),
        ("ascend", "mla", "chain", "ascend"),
    ],
)
def test_a_rank_builds_the_arrays_of_sglang(name: str, kind: str, mode: str, like: str, rank: str) -> None:
    golden = GOLDEN["ranks"][rank]
    sizes = capabilities_by_name(kind)[name].page_sizes
    if sizes and golden["page"] not in sizes:
        return
    made = arrays_of(prepared(name, kind, mode, golden))
    for field, expected in golden["arrays"][f"{like}, {mode}"].items():
        found = made[field]
        if field in ("page_table", "block_tables"):  # past a request's pages either has what lies there
            counted = golden["arrays"][f"{like}, {mode}"]
            lens = counted.get("cache_seqlens_int32") or counted["seq_lens"]
            pages = [-(-length // golden["page"]) for length in lens]
            pairs = [(row[:n], mine[:n].tolist()) for row, mine, n in zip(expected, found, pages, strict=True)]
            assert [a for a, _ in pairs] == [b for _, b in pairs], field
        elif field == "block_kv_indices":
            width = max(max((i + 1 for i, each in enumerate(row) if each >= 0), default=0) for row in expected)
            assert found[:, :width].tolist() == [row[:width] for row in expected], field
        else:
            assert found.tolist()[: len(expected)] == expected, field


@pytest.mark.parametrize("rank", GOLDEN["ranks"])
def test_a_rank_attends_to_what_it_has_of_the_chosen_tokens(rank: str) -> None:
    """SGLang's dsa brings slots together, its ascend positions; both leave −1 behind them."""
    golden = GOLDEN["ranks"][rank]
    page, size, chosen = golden["page"], golden["size"], torch.tensor(GOLDEN["chosen"])
    table = torch.tensor(GOLDEN["tables"][str(page * size)])[GOLDEN["rows"]]
    share = Share(golden["rank"], size)
    here = share.positions(chosen)
    own = share.table(table).gather(1, here.clamp(min=0))
    kept = [row[mine >= 0].tolist() for row, mine in zip(own, here, strict=True)]
    expected = golden["arrays"]["dsa, chosen"]
    assert kept == [row[:n] for row, n in zip(expected["slots"], expected["counts"], strict=True)]
    by_page = Share(golden["rank"], size, page).positions(chosen)
    expected = golden["arrays"]["ascend, chosen"]["positions"]
    assert [row[row >= 0].tolist() for row in by_page] == [[p for p in row if p >= 0] for row in expected]


def test_every_slot_has_one_owner() -> None:
    """Tokens or pages take turns: a rank's are dense, in order, and as many as it counts."""
    rng = random.Random(1)
    for _ in range(50):
        size, run, length = rng.randint(2, 8), rng.choice((1, 1, 4, 16)), rng.randint(0, 200)
        shares = [Share(rank, size, run) for rank in range(size)]
        lens = torch.tensor([length])
        assert sum(int(share.lens(lens)) for share in shares) == length
        slots = torch.arange(size * run, 40 * size * run)
        rows = torch.stack([share.rows(slots) for share in shares])
        assert ((rows > 0).sum(0) == 1).all() and len(rows.unique()) == 1 + 39 * run
        table = slots[: 12 * size * run].view(1, -1)
        positions = torch.arange(length)
        for share in shares:
            assert share.table(table).tolist() == [list(range(run, 13 * run))]
            here = share.positions(positions)
            assert here[here >= 0].tolist() == list(range(int(share.lens(lens))))
            assert int(share.lens(lens)) <= share.width(length)
        assert all(int(share.positions(torch.tensor([-1]))) == -1 for share in shares)


@pytest.mark.parametrize(("kv_heads", "size"), [(1, 4), (2, 2), (4, 2), (8, 4), (2, 4)])
def test_a_rank_uses_the_kv_heads_of_its_queries(kv_heads: int, size: int) -> None:
    heads = 8
    share = heads // size
    for rank in range(size):
        read = {head * kv_heads // heads for head in range(rank * share, (rank + 1) * share)}
        mine = Share(rank, size).heads(kv_heads)
        assert set(range(mine.start, mine.stop)) == read


# What they find.


def test_ranks_merge_as_sglang_does() -> None:
    """A rank without a key counts nothing, and rows that no rank has a key for are 0."""
    golden = GOLDEN["merged"]
    o, lse = torch.tensor(golden["o"]), torch.tensor(golden["lse"])
    lse[lse < -1e29] = float("-inf")
    lse[:, 3], o[:, 3] = float("-inf"), 0.0
    expected, whole = torch.tensor(golden["merged"]), torch.logsumexp(lse, 0)
    expected[3] = 0.0
    for found in (on_ranks(3, merge_spread, o, lse, comm, dcp_size=3) for comm in ("ag_rs", "a2a")):
        merged, merged_lse = (torch.cat(parts, 1) for parts in zip(*found, strict=True))
        torch.testing.assert_close(merged, expected, atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(merged_lse, whole, atol=1e-6, rtol=1e-5)


def drawn(rng: random.Random, size: int) -> list[Case]:
    """Of every backend a decode and a prompt, over random lengths, pages, dtypes and heads."""
    cases = []
    for name, kind in SHARING:
        for extends in (False, True):
            takes = capabilities_by_name(kind)[name]
            assert takes.dcp is not None
            shape = shape_of(name, kind, rng.choice(takes.page_sizes or (1, 2, 16)), rng.choice(takes.dcp.dtypes))
            heads = size * rng.choice((1, 2, 4))
            options: dict[str, Any] = {**shape, "num_heads": heads, "seed": rng.randrange(1000)}
            if kind == "mha":
                ratios = [n for n in (1, 2, 4, size) if heads % n == 0 and (n >= size) == (n % size == 0)]
                options |= {"num_kv_heads": rng.choice([n for n in ratios if n % size == 0 or size % n == 0])}
                options |= {"head_dim": rng.choice((16, 64)), "v_head_dim": 16 if rng.random() < 0.3 else None}
                options["v_head_dim"] = options["v_head_dim"] or options["head_dim"]
            options["layout"] = rng.choice(("contiguous", "fragmented"))
            lens = [rng.choice((1, 2, rng.randint(3, 40))) for _ in range(rng.randint(1, 4))]
            prefixes = [rng.choice((0, 1, rng.randint(0, 30))) for _ in lens] if extends else None
            if prefixes is not None:
                lens = [prefix + length for prefix, length in zip(prefixes, lens, strict=True)]
            implementation = "reference" if name in ("triton", "flashmla") else "auto"
            cases.append(Case(name, lens, prefixes, rng.choice(("ag_rs", "a2a")), implementation, options))
    return cases


@pytest.mark.parametrize("size", [2, 4])
def test_ranks_find_together_what_one_finds(size: int) -> None:
    rng = random.Random(size)
    cases = [case for _ in range(3) for case in drawn(rng, size)]
    found = on_ranks(size, attend_spread, cases, dcp_size=size)
    for i, case in enumerate(cases):
        expected = reference(case.batch(size)).o
        worst = max_error(torch.cat([each[i] for each in found], 1), expected)
        assert worst <= TOLERANCE[case.options["dtype"]] * max(1.0, float(expected.abs().max())), (case, worst)


def graphs_of(name: str, kind: str) -> list[str]:
    takes = capabilities_by_name(kind)[name].dcp
    assert takes is not None
    return [mode.name for mode in takes.graph_modes if not mode.is_idle()]


@pytest.mark.parametrize(
    ("name", "kind", "mode"), [(*each, mode) for each in SHARING if each[0] != "nsa" for mode in graphs_of(*each)]
)
def test_a_graph_reads_this_ranks_share(name: str, kind: str, mode: str) -> None:
    """Captured over short requests, and replayed over others, with a padded row."""
    options = {**shape_of(name, kind), "num_heads": 4}
    implementation = "reference" if name in ("triton", "flashmla") else "auto"
    drafts = 4 if mode == "TARGET_VERIFY" else 0
    prefixes = [5, 1, 26] if drafts else None
    case = Case(name, [9, 5, 30] if drafts else [9, 1, 30], prefixes, "a2a", implementation, options)
    found = on_ranks(2, replay_spread, case, drafts, dcp_size=2)
    expected = reference(case.batch(2)).o
    assert max_error(torch.cat(found, 1), expected) <= TOLERANCE[options["dtype"]] * max(
        1.0, float(expected.abs().max())
    )


@pytest.mark.parametrize("name", ["dsa", "ascend"])
@pytest.mark.parametrize("extends", [False, True])
def test_ranks_attend_to_what_an_indexer_chose(extends: bool, name: str) -> None:
    """Also where a rank has none of a token's choice."""
    rng = random.Random(f"{name} {extends}")
    for _ in range(4):
        size, topk = rng.choice((2, 4)), 6
        lens, prefixes = [1, 40, rng.randint(8, 30)], [0, 33, 2] if extends else None
        lens = [n + 3 for n in lens] if extends else lens
        options = {**shape_of(name, "mla", rng.choice((1, 64) if name == "dsa" else (1, 4, 16))), "num_heads": 4}
        batch = Case(name, lens, prefixes, options=options).batch(size)
        ends = [n - new + 1 + i for n, new in zip(lens, batch.new_tokens, strict=True) for i in range(new)]
        chosen = torch.full((len(ends), topk), -1, dtype=torch.int32)
        for row, end in zip(chosen, ends, strict=True):
            some = rng.sample(range(end), min(topk, end))
            row[: len(some)] = torch.tensor(some)
        run = partial(attend_one, name=name, batch=batch, comm=rng.choice(("ag_rs", "a2a")), topk_indices=chosen)
        found = torch.cat(on_threads(size, run), 1)
        request = [i for i, new in enumerate(batch.new_tokens) for _ in range(new)]
        keys, values = (each.double() for each in batch.runner.token_to_kv_pool.get_kv_buffer(0))
        for token, (i, row) in enumerate(zip(request, chosen, strict=True)):
            slots = batch.slots(i)[row[row >= 0].long()]
            logits = batch.q[token].double() @ keys[slots, 0].T * batch.sm_scale
            expected = logits.softmax(-1) @ values[slots, 0]
            assert max_error(found[token], expected) <= TOLERANCE[options["dtype"]] * max(
                1.0, float(expected.abs().max())
            )


# What is refused.


def made(name: str, kind: str = "mha", page_size: int = 1, **options: Any) -> tuple[AttentionBackend, Any]:
    """A backend of rank 0 of 2, whose collectives would fail."""
    shape: dict[str, Any] = {"num_heads": 4}
    shape |= {"num_kv_heads": 2, "head_dim": 16} if kind == "mha" else {}
    shape |= {"dtype": "bfloat16", "kind": kind, **options}
    batch = sglab.extend_batch([9, 20], [4, 8], page_size=2 * page_size, **shape)
    return create_attention_backend(name, rank_runner(name, batch, Alone(0, 2))), batch


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("fa3", "mha", r"dcp_size: expected 1 for fa3, got 2. It reads all .* Use intel_xpu or triton"),
        ("flashinfer", "mha", "dcp_size: expected 1 for flashinfer, got 2"),
        ("torch_native", "mla", "dcp_size: expected 1 for torch_native, got 2"),
        ("cutlass_mla", "mla", "dcp_size: expected 1 for cutlass_mla, got 2"),
        ("ascend", "mha", "dcp_size: expected 1 for ascend, got 2"),
        ("intel_xpu", "mla", "batch: expected an MHA batch for intel_xpu with dcp_size 2, got an MLA batch"),
    ],
)
def test_others_are_refused_when_they_are_made(name: str, kind: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        made(name, kind)


def test_what_a_share_cannot_serve_is_refused_before_anything_is_written() -> None:
    backend, batch = made("triton")
    pool = batch.runner.token_to_kv_pool
    before = pool.get_key_buffer(0).clone()
    backend.prepare(batch.forward_batch)
    q, k, v, layer = rows_of(batch, Alone(0, 2))
    window = "layer.sliding_window_size: expected -1 .* for triton with dcp_size 2, got 3. No backend here serves it"
    for changes, options, message in (
        ({"sliding_window_size": 3}, {}, window),
        (
            {"attn_type": AttentionType.ENCODER_ONLY},
            {},
            "layer.attn_type: expected AttentionType.DECODER for triton with",
        ),
        ({"xai_temperature_len": 4}, {}, "layer.xai_temperature_len: expected -1 for triton with dcp_size 2"),
        ({}, {"sinks": torch.zeros(2)}, "sinks: expected None for triton with dcp_size 2"),
        ({}, {"score_mod": lambda s, *_: s}, "score_mod: expected None for triton with dcp_size 2"),
    ):
        with pytest.raises(UnsupportedError, match=message):
            backend.forward(q, k, v, replace(layer, **changes), batch.forward_batch, **options)
    with pytest.raises(UnsupportedError, match=r"forward_batch.forward_mode: expected .* for triton with dcp_size 2"):
        backend.prepare(verify_batch(batch, [4, 8], [-1, 0, 1, 2, 3]))
    assert torch.equal(before, pool.get_key_buffer(0))


def test_rows_that_no_rank_has_are_refused() -> None:
    """Slots are checked against the pages of all ranks, not against this rank's."""
    backend, batch = made("triton", page_size=4)
    backend.prepare(batch.forward_batch)  # beyond this rank's pool, within all of theirs
    slots = batch.runner.token_to_kv_pool_allocator.size + 8
    batch.req_to_token[batch.req_pool_indices[0], 2] = slots
    with pytest.raises(PageTableError, match=rf"request 0, token 2: expected a slot 8\.\.{slots - 1} of the pool"):
        backend.prepare(batch.forward_batch)


def test_prompts_without_their_new_rows_are_refused() -> None:
    backend, batch = made("flashinfer", "mla")
    backend.prepare(batch.forward_batch)
    q, _, _, layer = rows_of(batch, Alone(0, 2))
    with pytest.raises(BadArgumentError, match="k, v: expected the new tokens' rows in an extend, got None"):
        backend.forward(q, None, None, layer, batch.forward_batch, save_kv_cache=False)


@pytest.mark.gpu
@pytest.mark.parametrize("size", [2, 4])
def test_gpus_find_together_what_one_finds(size: int) -> None:
    """With each backend's own choice of kernels, and captured decodes."""
    if torch.cuda.device_count() < size:
        pytest.skip(f"needs {size} NVIDIA GPUs; there are {torch.cuda.device_count()}")
    rng = random.Random(size)
    cases = [replace(case, implementation="auto") for _ in range(3) for case in drawn(rng, size)]
    cases = [replace(case, options={**case.options, "device": "cuda"}) for case in cases]
    found = on_ranks(size, attend_spread, cases, dcp_size=size, device="cuda")
    for i, case in enumerate(cases):
        expected = reference(case.batch(size)).o.cpu()
        worst = max_error(torch.cat([each[i] for each in found], 1), expected)
        assert worst <= TOLERANCE[case.options["dtype"]] * max(1.0, float(expected.abs().max())), (case, worst)

"""Prompts that ranks share: who has what and a rank's arrays are SGLang's, and what the ranks find is attention in
float64.

The golden file was written by `golden/read_cp_metadata.py`, which runs SGLang 0.5.23's functions.
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
from sglab.attention import UnsupportedError, create_attention_backend
from sglab.attention.capabilities import Demand, unserved
from sglab.attention.cp.layout import PromptShares
from sglab.attention.registry import capabilities_by_name
from sglab.engine import AttentionType, BadArgumentError, ForwardBatch, ForwardMode, GraphBatch, PageTableError
from sglab.workbench.float64 import max_error
from tests.support.attention import float64_attention, shape_of, verify_batch
from tests.support.attention_matrix import TOLERANCE
from tests.support.prompts import Prompt, attend_prompt, attend_prompts, made, rank_runner
from tests.support.ranks import on_ranks
from tests.support.spread import Alone, on_threads

GOLDEN = json.loads((Path(__file__).parent / "golden" / "cp_metadata.json").read_text("utf-8"))
SHARING = [
    (name, kind)
    for kind in ("mha", "mla")
    for name, capabilities in capabilities_by_name(kind).items()
    if capabilities.cp is not None and kind in capabilities.cp.kinds
]
"""Every backend that serves such prompts, and for which kind."""
PER_RANK = [(name, rank) for name, ranks in GOLDEN["ranks"].items() for rank in range(len(ranks))]


def test_who_shares_a_prompt() -> None:
    """Those of SGLang 0.5.23 that ask its strategy, but its ascend for sparse MLA."""
    assert {name for name, kind in SHARING if kind == "mha"} == {"fa3", "fa4", "trtllm_mha", "ascend"}
    assert {name for name, kind in SHARING if kind == "mla"} == {"fa3", "dsa", "nsa"}
    interleaved = {name for name, kind in SHARING if capabilities_by_name(kind)[name].cp.interleaves}  # type: ignore[union-attr]
    assert interleaved == {"dsa", "nsa"}


# Who has what.


def forward_batch(rows: list[int], prefixes: list[int], new: list[int], mode: str = "EXTEND") -> ForwardBatch:
    lens, decodes = torch.tensor([p + n for p, n in zip(prefixes, new, strict=True)]), mode == "DECODE"
    return ForwardBatch(
        forward_mode=ForwardMode[mode],
        batch_size=len(rows),
        input_ids=torch.zeros(sum(new), dtype=torch.int64),
        req_pool_indices=torch.tensor(rows),
        seq_lens=lens,
        out_cache_loc=torch.zeros(sum(new), dtype=torch.int64),
        seq_lens_sum=int(lens.sum()),
        seq_lens_cpu=lens,
        extend_seq_lens=None if decodes else torch.tensor(new, dtype=torch.int32),
        extend_prefix_lens=None if decodes else torch.tensor(prefixes, dtype=torch.int32),
        extend_seq_lens_cpu=None if decodes else new,
        extend_prefix_lens_cpu=None if decodes else prefixes,
    )


@pytest.mark.parametrize(("name", "rank"), PER_RANK)
def test_ranks_have_the_tokens_that_sglang_gives_them(name: str, rank: int) -> None:
    layout, size, case = name.split(", ", 2)
    golden, (_, _, new) = GOLDEN["ranks"][name], GOLDEN["cases"][case]
    batch = forward_batch(*GOLDEN["cases"][case])
    shares = PromptShares.of(batch, Alone(rank, int(size)), layout == "interleave")
    assert shares is not None
    assert shares.own.tolist() == golden[rank]["own"]
    assert list(shares.counts) == golden[rank]["per_rank_actual_token"]
    if layout == "interleave":
        assert shares.kv_lens == golden[rank]["seqlens_expanded"]
        counts = {i: shares.requests.count(i) for i in shares.requests}
        assert list(counts) == golden[rank]["requests"] and list(counts.values()) == golden[rank]["q_lens"]
    longest = max(shares.counts)
    everyones = torch.zeros(int(size), longest, dtype=torch.int64)
    for row, theirs in zip(everyones, golden, strict=True):
        row[: len(theirs["own"])] = torch.tensor(theirs["own"])
    assert everyones.flatten()[shares.order].tolist() == golden[rank]["gathered"] == list(range(sum(new)))


@pytest.mark.parametrize("name", GOLDEN["shared"])
def test_the_passes_that_sglang_shares_are_shared(name: str) -> None:
    layout, size = name.split(", ")
    for asked, expected in GOLDEN["shared"][name].items():
        mode, _, lens = asked.partition(" ")
        new = json.loads(lens)
        batch = forward_batch(list(range(len(new))), [0] * len(new), new, mode)
        shares = PromptShares.of(batch, Alone(0, int(size)), layout == "interleave")
        assert (shares is not None) == expected, asked
        assert PromptShares.of(batch, Alone(0, 1), layout == "interleave") is None


def test_every_token_has_one_owner() -> None:
    """Lengths need not divide; a rank's work is within a block of another's."""
    rng = random.Random(3)
    for _ in range(100):
        size, interleaves = rng.choice((2, 3, 4, 8)), rng.random() < 0.5
        new = [rng.randint(2 * size, 90) for _ in range(rng.randint(1, 4))]
        prefixes = [rng.choice((0, rng.randint(1, 50))) for _ in new]
        batch = forward_batch(list(range(len(new))), prefixes, new)
        ranks = [PromptShares.of(batch, Alone(rank, size), interleaves) for rank in range(size)]
        shares = [each for each in ranks if each is not None]
        assert torch.cat([each.own for each in shares]).sort().values.tolist() == list(range(sum(new)))
        seen: dict[int, int] = {}
        for each in shares:
            assert len(each.own) == each.counts[each.group.rank] == sum(each.q_lens)
            ends = [kv - q + i + 1 for q, kv in zip(each.q_lens, each.kv_lens, strict=True) for i in range(q)]
            seen |= dict(zip(each.own.tolist(), ends, strict=True))
        assert [seen[i] for i in range(sum(new))] == [
            prefix + at + 1 for prefix, count in zip(prefixes, new, strict=True) for at in range(count)
        ]
        if not interleaves:
            work = [sum(q * kv for q, kv in zip(each.q_lens, each.kv_lens, strict=True)) for each in shares]
            assert max(work) - min(work) <= sum(n + p for n, p in zip(new, prefixes, strict=True)) * 2


# A rank's arrays.


def metadata_of(name: str, kind: str, size: int, rank: int, case: str) -> Any:
    shape = shape_of(name, kind, 16 if kind == "mha" or name == "fa3" else 1)
    batch = sglab.decode_batch([9], max_context_len=384, max_running_requests=6, **shape)
    runner = rank_runner(batch, Alone(rank, size), "reference")
    runner.check_metadata = False
    runner.req_to_token_pool.req_to_token = torch.tensor(GOLDEN["table"], dtype=torch.int32)
    backend, _ = made(name, batch, runner)
    asked = forward_batch(*GOLDEN["cases"][case])
    backend.prepare(
        replace(asked, req_to_token_pool=runner.req_to_token_pool, token_to_kv_pool=runner.token_to_kv_pool)
    )
    inner: Any = backend.inner
    return inner.forward_metadata


@pytest.mark.parametrize(("golden_name", "rank"), [each for each in PER_RANK if each[0].startswith("zigzag")])
@pytest.mark.parametrize(("name", "kind"), [each for each in SHARING if each[0] not in ("dsa", "nsa")])
def test_a_rank_builds_the_arrays_of_sglang(name: str, kind: str, golden_name: str, rank: int) -> None:
    """Of both blocks of every request, as its trtllm_mha has them; its others call once for the early blocks and once
    for the late ones, over the halves of the same arrays."""
    _, size, case = golden_name.split(", ", 2)
    golden, count = GOLDEN["ranks"][golden_name][rank], len(GOLDEN["cases"][case][0])
    meta = metadata_of(name, kind, int(size), rank, case)
    ascend = name == "ascend"
    lens = meta.seq_lens if ascend else meta.cache_seqlens_int32
    assert lens.tolist() == golden["kv_len_combined_tensor"]
    assert (
        lens[:count].tolist() == golden["kv_len_prev_tensor"] and lens[count:].tolist() == golden["kv_len_next_tensor"]
    )
    ends = [0, *meta.seq_lens_list_cumsum] if ascend else meta.cu_seqlens_q.tolist()
    assert ends == golden["cu_seqlens_q_combined_tensor"]
    assert ends[: count + 1] == golden["cu_seqlens_q_prev_tensor"]
    assert [end - ends[count] for end in ends[count:]] == golden["cu_seqlens_q_next_tensor"]
    table = meta.block_tables if ascend else meta.page_table
    for mine, theirs, length in zip(table.tolist(), golden["zigzag_page_table"], lens.tolist(), strict=True):
        pages = -(-length // GOLDEN["page"])  # past them either has what lies there
        assert mine[:pages] == theirs[:pages]
    if not ascend:
        assert meta.cu_seqlens_k.tolist() == golden["cu_seqlens_kv_combined_tensor"]
        assert meta.max_seq_len_q == golden["max_seqlen_q_combined"]


@pytest.mark.parametrize(("golden_name", "rank"), [each for each in PER_RANK if each[0].startswith("interleave")])
def test_a_rank_of_dsa_has_every_sizeth_row(golden_name: str, rank: int) -> None:
    _, size, case = golden_name.split(", ", 2)
    golden, rows = GOLDEN["ranks"][golden_name][rank], GOLDEN["cases"][case][0]
    meta = metadata_of("dsa", "mla", int(size), rank, case)
    assert meta.seqlens_expanded.tolist() == golden["seqlens_expanded"]
    owner = [i for i, count in zip(golden["requests"], golden["q_lens"], strict=True) for _ in range(count)]
    for mine, i, length in zip(meta.page_table_1.tolist(), owner, golden["seqlens_expanded"], strict=True):
        assert mine[:length] == GOLDEN["table"][rows[i]][:length]


# What they find.


def drawn(rng: random.Random, size: int) -> list[Prompt]:
    """Of every backend prompts over random lengths, pages, dtypes, heads, pools and options."""
    prompts = []
    for name, kind in SHARING:
        takes = capabilities_by_name(kind)[name].cp
        assert takes is not None
        options: dict[str, Any] = shape_of(
            name, kind, rng.choice(takes.page_sizes or (1, 4, 16)), rng.choice(takes.dtypes)
        )
        options |= {"seed": rng.randrange(1000), "layout": rng.choice(("contiguous", "fragmented"))}
        if kind == "mha":
            heads = rng.choice((1, 2, 4))
            options |= {"num_heads": heads * rng.choice((1, 2)), "num_kv_heads": heads}
            options["head_dim"] = options["v_head_dim"] = rng.choice((16, 64))
            if not takes.kv_dtypes and rng.random() < 0.5:
                options["v_head_dim"] = 32
        short = 1 if takes.interleaves else 2 * size
        new = [rng.choice((short, rng.randint(short, 50))) for _ in range(rng.randint(1, 3))]
        new[0] = max(new[0], size)
        prefixes = [rng.choice((0, 1, rng.randint(0, 30))) for _ in new]
        layer: dict[str, Any] = {}
        if takes.sliding_window and rng.random() < 0.4:
            layer["sliding_window_size"] = rng.choice((0, 3, 20))
        if takes.logit_cap and rng.random() < 0.3:
            layer["logit_cap"] = 1.5
        fp8 = (0.5, 0.25) if takes.kv_dtypes and rng.random() < 0.4 else None
        sinks = {"sinks": torch.randn(options["num_heads"])} if takes.sinks and rng.random() < 0.4 else {}
        decodes = [7, 1] if takes.interleaves and rng.random() < 0.5 else []
        lens = [p + n for p, n in zip(prefixes, new, strict=True)]
        parts = kind == "mla" and rng.random() < 0.5
        given = Prompt(name, lens, prefixes, decodes, "auto", fp8, parts, options, layer, sinks)
        prompts.append(given)
    return prompts


def check(prompt: Prompt, found: list[torch.Tensor]) -> None:
    batch, sinks = prompt.batch(), prompt.arguments.get("sinks")
    expected = float64_attention(batch, None if sinks is None else sinks.to(batch.q.device)).cpu()
    limit = TOLERANCE[prompt.options["dtype"]] * max(1.0, float(expected.abs().max()))
    for o in found:  # the same on every rank
        assert max_error(o, expected) <= limit, (prompt, max_error(o, expected))


@pytest.mark.parametrize("size", [2, 4])
def test_ranks_find_together_what_one_finds(size: int) -> None:
    rng = random.Random(size)
    torch.manual_seed(size)
    prompts = [prompt for _ in range(5) for prompt in drawn(rng, size)]
    found = on_ranks(size, attend_prompts, prompts)
    for i, prompt in enumerate(prompts):
        check(prompt, [each[i] for each in found])


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize(("name", "kind"), SHARING)
def test_a_short_prompt_is_everyones(name: str, kind: str, size: int) -> None:
    """Every rank has all of it then, as SGLang's have, and asks nothing of the others."""
    options = shape_of(name, kind)
    prompt = Prompt(
        name,
        [2, 41] if name not in ("dsa", "nsa") else [1],
        [1, 0][: 1 + (name not in ("dsa", "nsa"))],
        options=options,
    )
    if name in ("dsa", "nsa"):
        prompt = replace(prompt, prefixes=[0])
    check(prompt, [attend_prompt(Alone(rank, size), prompt) for rank in range(size)])


@pytest.mark.parametrize("name", ["dsa", "nsa"])
def test_ranks_attend_to_what_an_indexer_chose(name: str) -> None:
    """The choice is that of a rank's own queries, by an indexer's keys that all ranks have."""
    rng, topk = random.Random(name), 6
    for size in (2, 4):
        lens, prefixes = [40, rng.randint(8, 30), 5], [33, 2, 4]
        prompt = Prompt(name, lens, prefixes, options=shape_of(name, "mla", rng.choice((1, 64))))
        batch = prompt.batch()
        ends = [p + 1 + i for n, p in zip(lens, prefixes, strict=True) for i in range(n - p)]
        chosen = torch.full((len(ends), topk), -1, dtype=torch.int32)
        for row, end in zip(chosen, ends, strict=True):
            some = rng.sample(range(end), min(topk, end))
            row[: len(some)] = torch.tensor(some)
        run = partial(attend_prompt, prompt=replace(prompt, arguments={"topk_indices": chosen}))
        found = on_threads(size, run)[0]
        keys, values = (each.double() for each in batch.runner.token_to_kv_pool.get_kv_buffer(0))
        request = [i for i, new in enumerate(batch.new_tokens) for _ in range(new)]
        for token, (i, row) in enumerate(zip(request, chosen, strict=True)):
            slots = batch.slots(i)[row[row >= 0].long()]
            expected = (batch.q[token].double() @ keys[slots, 0].T * batch.sm_scale).softmax(-1) @ values[slots, 0]
            assert max_error(found[token], expected) <= TOLERANCE["bfloat16"] * max(1.0, float(expected.abs().max()))


def test_an_indexer_scores_a_ranks_own_queries() -> None:
    """What each chooses is what one process chooses for that token."""
    torch.manual_seed(0)
    batch = Prompt("dsa", [40, 21], [30, 0], options=shape_of("dsa", "mla", 1)).batch()
    tokens, slots = len(batch.q), batch.runner.token_to_kv_pool.size + 1
    q, keys, weights = torch.randn(tokens, 4, 128), torch.randn(slots, 128), torch.randn(tokens, 4)
    alone = create_attention_backend("dsa", batch.runner)
    alone.prepare(batch.forward_batch)
    expected = alone.choose_tokens(q, keys, weights, 8, batch.forward_batch)
    assert expected is not None
    for rank in range(2):
        backend, asked = made("dsa", batch, rank_runner(batch, Alone(rank, 2)))
        backend.prepare(asked)
        assert backend.shares is not None and backend.takes_chosen
        mine = backend.choose_tokens(backend.shares.shard(q), keys, backend.shares.shard(weights), 8, asked)
        assert mine is not None
        assert mine.sort(1).values.tolist() == backend.shares.shard(expected).sort(1).values.tolist()


@pytest.mark.parametrize(("name", "kind"), SHARING)
def test_decodes_are_those_of_the_backend(name: str, kind: str) -> None:
    """Also captured ones: each rank has all keys and all tokens."""
    batch = sglab.decode_batch([9, 30], **shape_of(name, kind))
    runner = rank_runner(batch, Alone(1, 2))
    backend, asked = made(name, batch, runner)
    backend.prepare(asked)
    assert asked.attn_cp_metadata is None and backend.serving is backend.inner
    expected = float64_attention(batch)
    limit = TOLERANCE[str(batch.dtype).removeprefix("torch.")] * max(1.0, float(expected.abs().max()))
    o = backend.forward(batch.q, batch.k, batch.v, batch.layer, asked)
    assert max_error(o.view_as(expected), expected) <= limit
    backend.init_graph(2, 2)
    backend.prepare_capture(GraphBatch.of(asked))
    backend.prepare_replay(GraphBatch.of(asked))
    o = backend.forward(batch.q, batch.k, batch.v, batch.layer, asked)
    assert max_error(o.view_as(expected), expected) <= limit


def test_chains_are_verified_by_every_rank() -> None:
    batch = sglab.extend_batch([9, 30], [5, 26], **shape_of("fa3", "mha"))
    backend, asked = made("fa3", batch, rank_runner(batch, Alone(0, 2)))
    backend.prepare(replace(verify_batch(batch, [5, 26], [-1, 0, 1, 2]), token_to_kv_pool=asked.token_to_kv_pool))
    assert backend.shares is None


# What is refused.


def test_others_refuse_by_name() -> None:
    group = Alone(0, 2)
    for name in ("triton", "flashinfer", "torch_native"):
        batch = sglab.decode_batch([9], **shape_of(name, "mha"))
        with pytest.raises(UnsupportedError, match=rf"attn_cp_size: expected 1 for {name}, got 2\. .*Use "):
            create_attention_backend(name, rank_runner(batch, group))
    batch = sglab.decode_batch([9], **shape_of("ascend", "mla"))
    with pytest.raises(UnsupportedError, match=r"attn_cp_size: expected 1 for ascend, got 2\. .*Use fa3"):
        create_attention_backend("ascend", rank_runner(batch, group))
    batch = sglab.decode_batch([9], **shape_of("fa3", "mha"))
    with pytest.raises(
        UnsupportedError, match="enable_deterministic_inference: expected False for fa3 with attn_cp_size"
    ):
        create_attention_backend("fa3", replace(rank_runner(batch, group), enable_deterministic_inference=True))
    with pytest.raises(BadArgumentError, match="attn_cp_size: expected 1 with dcp_size above 1, got 2"):
        create_attention_backend("fa3", replace(rank_runner(batch, group), dcp=group))


def test_layers_are_refused_before_anything_is_written() -> None:
    batch = Prompt("ascend", [20], [0], options=shape_of("ascend", "mha")).batch()
    backend, asked = made("ascend", batch, rank_runner(batch, Alone(0, 2)))
    backend.prepare(asked)
    assert backend.shares is not None and asked.token_to_kv_pool is not None
    before = asked.token_to_kv_pool.get_key_buffer(0).clone()
    q, k, v = (backend.shares.shard(each) for each in (batch.q, batch.k, batch.v))
    cases: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({"sliding_window_size": 3}, {}, "layer.sliding_window_size: expected -1 .* for ascend with attn_cp_size 2"),
        ({"logit_cap": 2.0}, {}, "layer.logit_cap: expected 0 for ascend with attn_cp_size 2"),
        (
            {"attn_type": AttentionType.ENCODER_ONLY},
            {},
            "layer.attn_type: expected AttentionType.DECODER for ascend with",
        ),
        ({"is_cross_attention": True}, {}, "layer.is_cross_attention: expected False for ascend with attn_cp_size 2"),
        ({}, {"sinks": torch.zeros(8)}, "sinks: expected None for ascend with attn_cp_size 2, .*Use fa4 or fa3"),
        ({}, {"slopes": torch.zeros(8)}, "slopes: expected None for ascend with attn_cp_size 2"),
    ]
    for changes, options, message in cases:
        with pytest.raises(UnsupportedError, match=message):
            backend.forward(q, k, v, replace(batch.layer, **changes), asked, **options)
    with pytest.raises(BadArgumentError, match="q: expected 10 rows, one per new token of the batch"):
        backend.forward(batch.q, batch.k, batch.v, batch.layer, asked)
    assert torch.equal(before, asked.token_to_kv_pool.get_key_buffer(0))


def test_metadata_are_checked_over_the_whole_batch() -> None:
    batch = Prompt("fa3", [20], [0], options=shape_of("fa3", "mha")).batch()
    backend, asked = made("fa3", batch, rank_runner(batch, Alone(0, 2)))
    batch.req_to_token[batch.req_pool_indices[0], 19] = 10**6
    with pytest.raises(PageTableError, match="request 0, token 19"):
        backend.prepare(asked)
    with pytest.raises(BadArgumentError, match=r"forward_batch\.extend_seq_lens_cpu: expected new tokens per request"):
        backend.prepare(replace(asked, extend_seq_lens_cpu=None))


def test_images_and_records_are_refused() -> None:
    takes = capabilities_by_name("mha")["fa4"]
    asked = Demand(mode=ForwardMode.EXTEND, image_spans=[[(0, 3)]], attn_cp_size=2)
    rule = unserved(takes, asked)
    assert rule is not None and rule.argument == "forward_batch.image_spans"
    rule = unserved(capabilities_by_name("mla")["dsa"], Demand(kv_records=True, attn_cp_size=2))
    assert rule is not None and rule.argument == "token_to_kv_pool"


@pytest.mark.gpu
@pytest.mark.parametrize("size", [2, 4])
def test_gpus_find_together_what_one_finds(size: int) -> None:
    if torch.cuda.device_count() < size:
        pytest.skip(f"needs {size} NVIDIA GPUs; there are {torch.cuda.device_count()}")
    rng = random.Random(size)
    torch.manual_seed(size)
    prompts = [replace(one, options={**one.options, "device": "cuda"}) for _ in range(5) for one in drawn(rng, size)]
    found = on_ranks(size, attend_prompts, prompts, device="cuda")
    for i, prompt in enumerate(prompts):
        check(prompt, [each[i] for each in found])

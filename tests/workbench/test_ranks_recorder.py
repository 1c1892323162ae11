"""What is recorded of several ranks is what they hold and exchange: against the layers' sizes and the whole weights."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import sglab
from sglab.engine import BadArgumentError
from sglab.layers import collectives
from sglab.layers.shards import Shard
from sglab.serving.ranks import RankDiedError, Ranks
from sglab.widgets import Ranks as Widget
from sglab.workbench import RanksRun, record_exchange, record_ranks
from tests.support import quantized as q
from tests.support.ranks import fork_follower
from tests.support.serving.tiny import tiny_llama
from tests.support.tiny_configs import LLAMA, QWEN3_MOE, drawn

GREEDY = {"temperature": 0, "max_new_tokens": 3}
PROMPTS = [[5, 6, 7, 8, 9], [3, 1, 4]]


def recorded(path: Path, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch, **options: Any) -> RanksRun:
    monkeypatch.setattr(Ranks, "_start", fork_follower)
    q.write_checkpoint(path, config, drawn(config))
    with sglab.Engine(path, device="cpu", dtype="float32", max_total_tokens=256, **options) as engine:
        with record_ranks(engine) as run:
            engine.generate(PROMPTS, GREEDY)
        engine.generate(PROMPTS[0], GREEDY)  # recorded no more
    return run


def covered(shards: list[Shard], part: int) -> list[int]:
    """Whole of a matrix, and how often each of its rows or columns is held."""
    whole = shards[0].parts[part].whole
    counts = [0] * whole
    for shard in shards:
        for at in range(shard.parts[part].start, shard.parts[part].stop):
            counts[at] += 1
    return counts


def test_two_ranks_of_a_llama(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = recorded(tmp_path, LLAMA, monkeypatch, tp_size=2)
    assert len(run.passes) == 3, "a prefill and two decodes"
    assert [one.num_tokens for one in run.passes[0]] == [(8,), (8,)]
    for step in range(3):
        tokens = 8 if step == 0 else 2
        rows = [(joint.any.kind, joint.any.module, joint.any.module_class) for joint in run.of_pass(step)]
        assert rows == [
            ("all_reduce", "model.embed_tokens", "VocabParallelEmbedding"),
            ("all_reduce", "model.layers.0.self_attn.o_proj", "RowParallelLinear"),
            ("all_reduce", "model.layers.0.mlp.down_proj", "RowParallelLinear"),
            ("all_gather", "logits_processor", "LogitsProcessor"),
        ]
        for joint in run.of_pass(step):
            assert set(joint.on) == {0, 1} and joint.start <= joint.met <= joint.end
            assert joint.start >= min(one.start for one in run.passes[step])
        sums = run.of_pass(step)[1]
        assert sums.any.shape == (tokens, 64) and sums.moved == tokens * 64 * 4  # 2 · 1/2 of it
        gathered = run.of_pass(step)[3]
        assert gathered.any.nbytes == gathered.moved == 2 * 64 * 4  # two requests, 64 of the padded vocabulary


def test_shards_of_all_ranks_are_the_whole_weights_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = recorded(tmp_path, QWEN3_MOE, monkeypatch, tp_size=2, ep_size=2)
    by_name = {same[0].name: list(same) for same in zip(*run.shards, strict=True)}
    kinds = Counter(shards[0].kind for shards in by_name.values())
    assert {"qkv", "row", "expert", "vocab", "replicated"} <= set(kinds)
    for name, shards in by_name.items():
        kind = shards[0].kind
        if kind in ("qkv", "row", "merged", "column", "vocab"):
            for part in range(len(shards[0].parts)):
                assert set(covered(shards, part)) == {1}, name
        elif kind == "replicated":
            assert shards[0] == shards[1]
        elif kind == "expert":
            assert [shard.parts[0].ids for shard in shards] == [(0, 1), (2, 3)]
    vocabulary = [(one.parts[0].start, one.parts[0].stop, one.parts[0].whole) for one in by_name["lm_head"]]
    assert vocabulary == [(0, 64, 96), (64, 96, 96)], "rows beyond it are padding"
    with sglab.Engine(tmp_path, device="cpu", dtype="float32", max_total_tokens=64) as alone:
        whole = sum(one.numel() * 4 for one in alone.model.parameters())
    assert max(sum(one.nbytes for one in shards) for shards in run.shards) < whole
    o_proj = by_name["model.layers.0.self_attn.o_proj"]
    assert [(one.parts[0].start, one.parts[0].stop, one.parts[0].whole) for one in o_proj] == [
        (0, 32, 64),
        (32, 64, 64),
    ]


def test_groups_that_attend_apart_gather_their_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = recorded(tmp_path, LLAMA, monkeypatch, tp_size=2, dp_size=2)
    first = run.passes[0]
    assert [one.padding for one in first] == ["SUM_LEN"] * 2 and first[0].num_tokens == (5, 3)
    assert [one.tokens for one in first] == [(tuple(PROMPTS[0]),), (tuple(PROMPTS[1]),)]
    gathered = [joint for joint in run.of_pass(0) if joint.any.what == "gather, SUM_LEN"]
    assert gathered and all(joint.any.kind == "all_reduce" and joint.any.shape == (8, 64) for joint in gathered)
    decode = run.passes[1][0]
    assert (decode.padding, decode.rows) == ("MAX_LEN", 2)
    gathered = [joint for joint in run.of_pass(1) if joint.any.what == "gather, MAX_LEN"]
    assert gathered and all(joint.any.kind == "all_gather" for joint in gathered)
    sent = [joint for joint in run.joints if joint.any.kind in ("send", "recv")]
    assert len(sent) == 3 and all({one.kind for one in joint.on.values()} == {"send", "recv"} for joint in sent)
    batch = run.layer_batch(0)
    assert batch.seq_lens.tolist() == [5, 3]  # of both groups


@cache
def exchange(way: str) -> RanksRun:
    return record_exchange(way, ranks=2, experts=4, tokens=6, hidden=128)  # type: ignore[arg-type]


def test_a_normal_exchange_sends_a_token_once_to_each_rank_and_back() -> None:
    run = exchange("normal")
    kinds = [joint.any.what for joint in run.of_pass(0)]
    assert kinds == [
        "dispatch: counts",
        "dispatch: rows",
        "dispatch: experts",
        "dispatch: weights",
        "combine: sums",
    ]
    rows, back = run.joints[1], run.joints[4]
    for rank in (0, 1):
        sent = rows.on[rank].parts
        assert sum(sent) == rows.on[rank].nbytes and all(part % (128 * 4) == 0 for part in sent)
        assert all(part <= (6 - rank) * 128 * 4 for part in sent), "no token goes to a rank twice"
        assert back.on[rank].parts == tuple(rows.on[peer].parts[rank] for peer in (0, 1)), "the way that they came"
    assert rows.moved == max(rows.on[0].parts[1], rows.on[1].parts[0])


def test_a_low_latency_exchange_has_fixed_room() -> None:
    run = exchange("low_latency")
    assert [joint.any.what for joint in run.of_pass(0)] == [
        "dispatch: rows in e4m3",
        "dispatch: scales",
        "dispatch: counts",
        "combine: results",
    ]
    rows, _, _, back = run.joints
    room = 2 * 128  # of two experts, 128 tokens each
    assert rows.any.parts == (room * 128, room * 128) and rows.any.dtype == "uint8"
    assert back.any.parts == (room * 128 * 4, room * 128 * 4)
    assert [one.parts[0].ids for one in (run.shards[0][0], run.shards[1][0])] == [(0, 1), (2, 3)]


def test_nothing_is_noted_and_no_hook_is_left_outside_a_recording() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    log = collectives.start(model, 0)
    with pytest.raises(BadArgumentError, match="no recording under way"):
        collectives.start(model, 0)
    assert collectives.stop() is log
    assert not any(one._forward_hooks or one._forward_pre_hooks for one in model.modules())
    assert collectives.noted("all_reduce", torch.zeros(1)) is collectives.noted("all_gather", torch.zeros(1))
    collectives.begin_pass(lambda: pytest.fail("is not asked for"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"way": "fast"}, "way"),
        ({"experts": 5}, "experts: expected a multiple of the 4 ranks"),
        ({"ranks": 1}, "ranks"),
        ({"tokens": 129}, "tokens"),
        ({"top_k": 9}, "top_k"),
        ({"way": "low_latency", "hidden": 100}, "hidden: expected a multiple of 128"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_before_a_process_starts(given: dict[str, Any], message: str) -> None:
    with pytest.raises(BadArgumentError, match=message):
        record_exchange(**given)


def test_an_engine_of_one_process_is_refused() -> None:
    alone = sglab.Engine(tiny_llama(), max_total_tokens=64)
    with pytest.raises(BadArgumentError, match="engine: expected an engine on several ranks"), record_ranks(alone):
        pass


def test_rows_of_prompts_that_ranks_share_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are rows, not columns; a layer's own all-gather is one of columns."""
    monkeypatch.setattr(Ranks, "_start", fork_follower)
    q.write_checkpoint(tmp_path, LLAMA, drawn(LLAMA))
    with (
        sglab.Engine(
            tmp_path, device="cpu", dtype="bfloat16", max_total_tokens=256, tp_size=2, attn_cp_size=2
        ) as engine,
        record_ranks(engine) as run,
    ):
        engine.generate([list(range(1, 20)), list(range(20, 31))], GREEDY)  # shorter ones are not worth it
    assert run.title.endswith(", tp 2, cp 2")
    gathers = [(joint.any.what, joint.any.module_class) for joint in run.of_pass(0) if joint.any.kind == "all_gather"]
    assert ("rows of the prompts", "DecoderLayer") in gathers and ("rows of the prompts", "") in gathers
    assert all(what or module == "RadixAttention" for what, module in gathers)


def test_a_recording_that_lost_a_rank_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ranks, "_start", fork_follower)
    q.write_checkpoint(tmp_path, LLAMA, drawn(LLAMA))
    with sglab.Engine(tmp_path, device="cpu", dtype="float32", max_total_tokens=256, tp_size=2) as engine:
        with pytest.raises(RankDiedError), record_ranks(engine) as run:
            engine.generate(PROMPTS, GREEDY)
            assert engine.ranks is not None
            engine.ranks.processes[0].kill()
        with pytest.raises(BadArgumentError, match=r"got none\. rank 1: .*signal 9.* noted is gone with it"):
            Widget(run)


def test_a_run_is_one_line_in_a_notebook() -> None:
    assert repr(RanksRun("tiny, tp 2", 2, 1, 1, "gloo")) == "<2 ranks, tiny, tp 2, 0 passes, 0 collectives>"

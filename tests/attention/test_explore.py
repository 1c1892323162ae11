"""What every backend would do with a pass: real arrays, real refusals, and costs that can be counted again by hand."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sglab.attention import ATTENTION_BACKENDS, HARDWARE, UnsupportedError, create_attention_backend
from sglab.attention.explore import Exploration
from sglab.attention.explore.costs import seen
from sglab.attention.explore.machines import NEEDS, PEAKS, sm_count, why_not_on
from sglab.attention.explore.plans import PlanFacts, decode_plan
from sglab.attention.origins import ORIGINS
from sglab.attention.registry import capabilities_by_name
from sglab.attention.selection import select_attention_backend
from sglab.engine import BadArgumentError, ForwardMode
from sglab.workbench import Batch, attend, decode_batch, explore_backends, extend_batch
from sglab.workbench.explore import CHAIN, MODES, TREE, Question, made_pass
from tests.support.attention import ancestors

LENS = (300, 1000, 77)


def explored(**question: Any) -> Exploration:
    return explore_backends(**{"seq_lens": LENS, **question})


@pytest.mark.parametrize("model", ["MHA", "DeepSeek-V3"])
@pytest.mark.parametrize("mode", MODES)
def test_every_backend_answers_with_what_it_builds_or_why_not(mode: str, model: str) -> None:
    found = explored(mode=mode, model=model)
    assert [each.name for each in found.answers] == list(ATTENTION_BACKENDS)
    for each in found.answers:
        if each.built is None:
            assert each.refusals[-1].by == "backend" and each.refusals[-1].argument and not each.served_by
            assert each.cost is None and each.plan is None
        else:
            assert each.served_by in (each.name, "flashinfer") or each.name == "nsa"
            assert each.cost is not None and each.cost.kv_bytes > 0 and each.cost.flops > 0
            assert each.built.nbytes == sum(array.nbytes for array in each.built.arrays)
    assert sum(each.built is not None for each in found.answers) >= 6, "and not all refuse"


@cache
def small() -> tuple[Batch, Exploration]:
    batch = decode_batch([40, 9], 8, 2, kind="mha", head_dim=128, page_size=16, dtype="bfloat16", seed=3)
    return batch, explore_backends(batch)


@pytest.mark.parametrize("name", ATTENTION_BACKENDS)
def test_a_refusal_is_the_one_that_attention_gives(name: str) -> None:
    """On a live batch: what is refused here is refused by attend, and what is built here runs."""
    batch, found = small()
    answer = found[name]
    if answer.built is None:
        with pytest.raises(UnsupportedError) as refused:
            attend(batch, name, implementation="auto")
        assert str(refused.value) == answer.refusals[-1].text
    else:
        implementation = "auto" if name in ("torch_native", "flex_attention") else "reference"
        assert torch.isfinite(attend(batch, name, implementation=implementation).float()).all()


def test_arrays_are_those_that_the_backend_makes() -> None:
    batch = decode_batch(list(LENS), 16, kind="mla", page_size=64, dtype="bfloat16", layout="fragmented", seed=1)
    found = explore_backends(batch, machine="H200")
    for name in ("fa3", "flashmla", "flashinfer", "triton", "dsa"):
        runner = replace(batch.runner, kernel_implementation="reference", device_core_count=132)
        made = create_attention_backend(name, runner)
        made.prepare(batch.forward_batch)
        metadata = made.forward_metadata  # type: ignore[attr-defined]
        metadata = getattr(metadata, "decode_wrapper", metadata)
        answer = found[name]
        assert answer.built is not None and answer.page_size == 64
        for array in answer.built.arrays:
            real = getattr(metadata, array.name, None)
            if array.name.startswith("indexer_k_start_end"):
                continue
            assert isinstance(real, torch.Tensor) and torch.equal(real, array.values), f"{name}.{array.name}"
    pages = {array.name: array.values for array in found["flashmla"].built.arrays}["block_kv_indices"]  # type: ignore[union-attr]
    for i, length in enumerate(LENS):
        assert pages[i, : -(-length // 64)].tolist() == batch.pages(i)


def test_an_array_that_is_another_one_is_counted_once() -> None:
    built = explored(mode="extend", new_tokens=5000)["fa3"].built
    assert built is not None
    twins = {array.name: array.same_as for array in built.arrays if array.same_as}
    assert twins == {"cu_seqlens_k": "cu_seqlens_q"}, "without a prefix SGLang passes one array for both"
    assert built.nbytes == sum(array.values.nbytes for array in built.arrays) - 4 * (len(LENS) + 1)


def test_flashmla_s_plan_is_the_array_that_it_built() -> None:
    answer = explored(model="DeepSeek-V3", machine="H200")["flashmla"]
    assert answer.built is not None and isinstance(answer.plan, PlanFacts)
    asked = made_pass(Question(LENS, "DeepSeek-V3", "H200"), 64)
    runner = replace(asked.runner, device_core_count=132)
    plan = decode_plan(answer.plan.planner, runner, asked.batch, asked.layer, False)
    built = {array.name: array.values.numpy() for array in answer.built.arrays}
    assert np.array_equal(built["num_splits"], plan.arrays["num_splits"])
    assert answer.plan.splits == (min(np.diff(built["num_splits"])), max(np.diff(built["num_splits"])))


def test_decode_costs_are_the_rows_and_products_of_the_lengths() -> None:
    found, rows = explored(machine="H100"), sum(LENS)
    row = 8 * (128 + 128) * 2
    for name in ("fa3", "triton", "flashinfer", "hpc_ops"):
        cost = found[name].cost
        assert cost is not None
        assert (cost.kv_rows, cost.kv_bytes, cost.flops) == (rows, rows * row, 2 * rows * 32 * 256)
        assert cost.qo_bytes == len(LENS) * 32 * 256 * 2
    native = found["torch_native"].cost
    assert native is not None and native.copied_bytes == 2 * rows * row and native.wasted_flops == 0
    fa3 = found["fa3"]
    assert fa3.cost is not None and isinstance(fa3.plan, PlanFacts)
    assert fa3.cost.partial_bytes == 2 * fa3.plan.partial_bytes
    bound = fa3.cost.bound("H100")
    assert bound == (pytest.approx(fa3.cost.nbytes / PEAKS["H100"].gbytes_per_second), "memory")
    assert fa3.cost.bound("Gaudi") is None


def test_of_a_table_only_what_leads_to_rows_that_are_read_counts_as_read() -> None:
    """A page table as wide as the longest request was counted whole in each layer, 2.7 MiB for 196 keys in a window:
    the bound of GPT-OSS on an H100 was six times what it can take. So was a graph's buffer, which is never filled."""
    lens = [100_000, 7, 33]
    found = explore_backends(lens, model="GPT-OSS", sliding_window=127, cuda_graph=True)
    for name, entry in (("fa3", 4), ("triton", 8)):
        cost, built = found[name].cost, found[name].built
        assert cost is not None and built is not None and built.nbytes > 1_000_000
        assert entry * (128 + 7 + 33) <= cost.index_bytes < entry * (128 + 7 + 33) + 200, name
    paged = explore_backends([4096, 100, 100], page_size=16)["fa3"]
    assert paged.built is not None and paged.cost is not None
    assert paged.built.read_bytes([4096, 100, 100], [4096, 100, 100], 16) == 4 * (256 + 7 + 7 + 3 + 4 + 4)


def test_fa3_has_no_plan_where_its_tiles_are_others() -> None:
    """On an A100 a sentence of SM90's tiles said that 500 tokens are not split; SM80's are half as long."""
    for machine in ("A100", "L40S"):
        answer = explore_backends([33, 500, 9], machine=machine)["fa3"]
        assert answer.runs and isinstance(answer.plan, str) and "SM8x" in answer.plan
        assert answer.cost is not None and answer.cost.partial_bytes == 0
    assert isinstance(explore_backends([33, 500, 9], machine="H200")["fa3"].plan, PlanFacts)


def test_half_the_bytes_in_fp8_and_few_rows_in_a_window() -> None:
    whole, half = explored()["fa3"].cost, explored(kv_cache_dtype="fp8_e4m3")["fa3"].cost
    window = explored(sliding_window=99)["fa3"].cost
    assert whole is not None and half is not None and window is not None
    assert 2 * half.kv_bytes == whole.kv_bytes and half.flops == whole.flops
    assert window.kv_rows == 100 + 100 + 77 and window.flops == 2 * (100 + 100 + 77) * 32 * 256


@pytest.mark.parametrize("window", [-1, 0, 5, 40])
def test_pairs_are_those_of_a_mask(window: int) -> None:
    """Against a mask written out, for prompts with prefixes, and for drafts of a tree."""
    lens, prefixes = [30, 7, 19], [11, 0, 18]
    batch = extend_batch(lens, prefixes, 4, kind="mha", head_dim=8, page_size=1).forward_batch
    counts = seen(batch, window)
    for i, (length, prefix) in enumerate(zip(lens, prefixes, strict=True)):
        at, key = torch.arange(prefix, length)[:, None], torch.arange(length)
        mask = (key <= at) & ((key >= at - window) if window >= 0 else True)
        assert (counts.pairs[i], counts.read[i]) == (int(mask.sum()), int(mask.any(0).sum()))


@pytest.mark.parametrize("parents", [CHAIN, TREE])
def test_drafts_see_their_prefix_and_their_ancestors(parents: tuple[int, ...]) -> None:
    mode = "verify a chain" if parents == CHAIN else "verify a tree"
    asked = made_pass(Question(LENS, mode=mode), 1)  # type: ignore[arg-type]
    assert asked.batch.forward_mode is ForwardMode.TARGET_VERIFY
    counts, own = seen(asked.batch, -1), int(ancestors(list(parents)).sum())
    assert counts.pairs == [len(parents) * length + own for length in LENS]
    assert counts.read == [length + len(parents) for length in LENS]
    found = explored(mode=mode)
    assert (found["trtllm_mha"].built is None) == (parents == TREE), "TensorRT-LLM's kernel takes chains alone"


def test_sparse_backends_read_what_they_choose() -> None:
    lens = (8192, 20000)
    dsa = explored(seq_lens=lens, model="DeepSeek-V3.2", machine="H200")["dsa"].cost
    assert dsa is not None
    assert (dsa.kv_rows, dsa.kv_bytes) == (2 * 2048, 2 * 2048 * 576 * 2)
    assert dsa.other_bytes == sum(lens) * (132 + 8)
    dense = explored(seq_lens=lens, model="DeepSeek-V3", machine="H200")["dsa"].cost
    assert dense is not None and dense.kv_rows == sum(lens)
    double = explored(seq_lens=lens)["double_sparsity"].cost
    assert double is not None and double.kv_rows == 2 * 256
    assert double.kv_bytes == 2 * 32 * 256 * (128 + 128) * 2, "every head chooses for itself"
    short = explored()["double_sparsity"].cost
    assert short is not None and short.kv_rows == sum(LENS) and "dense" in short.notes[0]


def test_a_graph_s_buffers_are_counted_and_eager_backends_refuse_it() -> None:
    found = explored(cuda_graph=True)
    fa3, native = found["fa3"].built, found["torch_native"]
    assert fa3 is not None and fa3.graph_bytes > fa3.nbytes > 0
    assert native.built is None and native.refusals[-1].argument == "graph_batch.forward_mode"


def test_sglang_s_choice_and_page_size_are_its_selection_s() -> None:
    found = explored(model="DeepSeek-V3", machine="B200")
    model, settings = Question(model="DeepSeek-V3", machine="B200").for_selection
    for version, choice in found.choices.items():
        assert choice == select_attention_backend(HARDWARE["B200"], model, settings, version)
    assert found.chosen(prefill=False) == "trtllm_mla"
    assert {found[name].page_size for name in ("trtllm_mla", "flashmla")} == {64}
    assert found["cutlass_mla"].page_size == 128 and found["triton"].page_size == 1


def test_a_workspace_is_the_backend_s_own_whoever_was_made_before() -> None:
    """In a process the first backend's size holds for all; here each is asked as if it were alone."""
    for _ in range(2):
        assert explored()["trtllm_mha"].built.kept_scratch == 512 << 20  # type: ignore[union-attr]
        assert explored(model="DeepSeek-V3")["trtllm_mla"].built.kept_scratch == 150 << 20  # type: ignore[union-attr]


def test_who_refuses_and_why_is_data() -> None:
    found = explored(machine="MI300X")
    by = {name: [refusal.by for refusal in found[name].refusals] for name in ATTENTION_BACKENDS}
    assert by["aiter"] == [] and by["triton"] == []
    assert by["fa3"][-1] == "machine" and by["flashmla"][-1] == "backend"
    assert (
        by["dual_chunk_flash_attn"][0] == "SGLang"
        and "no backend of this name" in found["cutlass_mla"].refusals[0].text
    )
    e5m2 = explored(kv_cache_dtype="fp8_e5m2", machine="H100", version="0.5.9")["fa3"]
    assert [refusal.by for refusal in e5m2.refusals] == ["SGLang", "backend"]
    assert "triton instead" in e5m2.refusals[0].text


def test_every_backend_says_where_its_kernels_run() -> None:
    assert set(NEEDS) == set(ATTENTION_BACKENDS) == set(ORIGINS)
    runs = {
        name: {machine for machine in HARDWARE if not why_not_on(name, HARDWARE[machine], "0.5.9")} for name in NEEDS
    }
    assert runs["torch_native"] == set(HARDWARE)
    assert runs["fa3"] == {"A100", "L40S", "H100", "H200"} and runs["trtllm_mha"] == {"B200", "B300"}
    assert runs["ascend"] == {"Ascend 910"} and runs["intel_amx"] == {"Xeon with AMX"}
    assert not why_not_on("trtllm_mha", HARDWARE["H100"], "0.5.23")
    assert why_not_on("fa3", HARDWARE["B200"], "0.5.9").endswith("B200 is SM100.")
    assert sm_count(HARDWARE["A100"]) == 108 and sm_count(HARDWARE["CPU"]) is None


@pytest.mark.parametrize(
    ("wrong", "argument"),
    [
        ({"machine": "H300"}, "machine"),
        ({"model": "GPT"}, "model"),
        ({"mode": "train"}, "mode"),
        ({"seq_lens": []}, "seq_lens"),
        ({"seq_lens": [0]}, "seq_lens[0]"),
        ({"seq_lens": [1 << 21]}, "seq_lens"),
        ({"num_heads": 12}, "num_heads"),
        ({"num_kv_heads": 2, "model": "MLA"}, "num_kv_heads"),
        ({"page_size": 3}, "page_size"),
        ({"kv_cache_dtype": "int8"}, "kv_cache_dtype"),
        ({"sliding_window": -2}, "sliding_window"),
        ({"new_tokens": 0}, "new_tokens"),
        ({"head_dim": 64}, "question"),
    ],
)
def test_wrong_questions_are_refused_by_name(wrong: dict[str, Any], argument: str) -> None:
    with pytest.raises(BadArgumentError) as refused:
        explored(**wrong)
    assert refused.value.argument == argument


def test_a_live_batch_keeps_what_it_is() -> None:
    batch = decode_batch([9], 8, 2, kind="mha", page_size=16)
    with pytest.raises(BadArgumentError, match="page_size: expected the batch's own"):
        explore_backends(batch, page_size=64)
    with pytest.raises(BadArgumentError, match="a model of MHA"):
        explore_backends(batch, model="DeepSeek-V3")
    assert explore_backends(batch)["fa3"].page_size == 16


# Ranks that share a context or a prompt: what the first of them has.


@pytest.mark.parametrize("mode", MODES)
def test_a_rank_of_a_shared_context_has_its_share(mode: str) -> None:
    size = 4
    whole, found = explored(model="DeepSeek-V3", mode=mode), explored(model="DeepSeek-V3", mode=mode, dcp_size=size)
    served = {each.name for each in found.answers if each.built is not None}
    named = capabilities_by_name("mla")
    assert served <= {name for name, capabilities in named.items() if capabilities.dcp is not None}
    assert bool(served) == (mode != "verify a tree")
    for each in found.answers:
        if each.built is None:
            assert each.refusals[-1].by == "backend"
            assert each.refusals[-1].argument
        elif each.cost is None:
            assert each.notes == ("of rank 0 of 4; what a prompt reads where ranks share its context is not counted",)
        else:
            other = whole[each.name].cost
            assert other is not None
            rows = sum(-(-length // size) for length in seen_lens(mode))
            assert each.cost.kv_rows == rows, "the first rank has one more where they do not divide"
            assert each.cost.qo_bytes == size * other.qo_bytes, "queries of all ranks"
            assert each.cost.notes[-1].startswith("of rank 0 of 4")


def seen_lens(mode: str) -> tuple[int, ...]:
    return tuple(length + len(CHAIN) for length in LENS) if mode.startswith("verify") else LENS


def test_the_arrays_of_a_shared_context_are_those_of_a_shorter_one() -> None:
    spread, short = explored(dcp_size=2)["triton"], explored(seq_lens=(150, 500, 39))["triton"]
    assert spread.built is not None
    assert short.built is not None
    for name in ("kv_indptr", "num_kv_splits"):
        mine, alone = (next(each.values for each in one.built.arrays if each.name == name) for one in (spread, short))
        assert mine.tolist()[:2] == alone.tolist()[:2]


def test_a_rank_of_a_shared_prompt_has_its_blocks() -> None:
    whole, found = explored(mode="extend", machine="H100"), explored(mode="extend", machine="H100", attn_cp_size=2)
    fa3, before = found["fa3"], whole["fa3"]
    assert fa3.built is not None and fa3.cost is not None and before.cost is not None
    new = [min(256, length) for length in LENS]
    blocks = [-(-count // 4) for count in new] + [count // 4 for count in new]  # the first and the last of four
    cu_seqlens_q = next(each.values for each in fa3.built.arrays if each.name == "cu_seqlens_q")
    assert cu_seqlens_q.tolist() == [0, *np.cumsum(blocks).tolist()]
    assert fa3.cost.kv_rows == sum(LENS), "the last block sees all keys"
    assert abs(fa3.cost.flops / before.cost.flops - 0.5) < 0.01, "early and late blocks together are half of the work"
    window = explored(mode="extend", attn_cp_size=2, sliding_window=50)["fa3"].cost
    assert window is not None
    assert window.kv_rows < sum(min(length, 50 + count) for length, count in zip(LENS, new, strict=True))
    decode = explored(attn_cp_size=2)["fa3"].cost
    assert decode is not None
    assert decode.kv_rows == sum(LENS)
    assert decode.notes[-1] == "every rank runs this pass in whole"


def test_ranks_that_cannot_be_are_refused() -> None:
    with pytest.raises(BadArgumentError, match="attn_cp_size: expected 1 with dcp_size above 1, got 2"):
        explored(dcp_size=2, attn_cp_size=2)
    with pytest.raises(BadArgumentError, match="dcp_size"):
        explored(dcp_size=3)
    with pytest.raises(BadArgumentError, match="dcp_size"):
        explored(dcp_size=128)
    batch = small()[0]
    with pytest.raises(BadArgumentError, match="dcp_size: expected 1 with a live batch"):
        explore_backends(batch, dcp_size=2)
    assert explore_backends(batch, attn_cp_size=2)["fa3"].cost is not None

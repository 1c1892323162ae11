"""SplitKV's Python side: what it plans, what it sends, what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from sglab.planning import PLANNERS
from sglab.widgets import SplitKV
from sglab.widgets.split_kv import WORK_COLUMNS


def test_plans_are_those_of_the_planners() -> None:
    widget = SplitKV([8192, 300], ("flash_mla", "flashinfer_mla"), sm_count="B200")
    for name, plan in widget.plans.items():
        expected = PLANNERS[name]([8192, 300], num_heads=128, num_kv_heads=1, sm_count=148)
        for key, array in expected.arrays.items():
            assert np.array_equal(plan.arrays[key], array)
    assert list(widget.plans) == ["flash_mla", "flashinfer_mla"]


def test_what_the_page_reads_is_the_plan() -> None:
    widget = SplitKV([8192, 300], "flash_mla")
    plan = widget.plans["flash_mla"]
    (pane,) = widget.panes
    assert (pane["units"], pane["grid"], pane["makespan"]) == (len(plan.work), list(plan.grid), plan.makespan)
    assert pane["scalars"]["payload"] == plan.scalars["payload"]
    (work,) = widget.slices([{"name": "flash_mla.work", "start": 0, "stop": len(WORK_COLUMNS)}])
    for column, name in zip(work.array, WORK_COLUMNS, strict=True):
        assert np.array_equal(column, getattr(plan.work, name))
    (num_splits,) = widget.slices([{"name": "flash_mla.num_splits", "start": 0, "stop": 9}])
    assert np.array_equal(num_splits.array, plan.arrays["num_splits"])


def test_two_suitable_planners_are_shown_by_default() -> None:
    assert list(SplitKV([100]).plans) == ["cutlass_mla_individual", "flashinfer_mla"]
    assert list(SplitKV([100], num_heads=32, num_kv_heads=8).plans) == ["flashinfer_decode", "sglang_triton"]


def test_one_token_is_one_token() -> None:
    assert SplitKV([1]).header["subject"].startswith("decode of 1 request, 1 KV token, ")
    assert SplitKV([1, 1]).header["subject"].startswith("decode of 2 requests, 2 KV tokens, ")
    assert SplitKV([1] * 3000).header["subject"].startswith("decode of 3,000 requests, 3,000 KV tokens, ")


def test_a_live_batch_gives_lengths_and_heads() -> None:
    pytest.importorskip("torch")
    import sglab

    batch = sglab.decode_batch(seq_lens=[300, 77], num_heads=16, page_size=64, dtype="float16", seed=0)
    widget = SplitKV(batch)
    assert widget.seq_lens.tolist() == [300, 77]
    assert widget.question["num_heads"] == 16


def test_the_page_size_is_the_batch_s() -> None:
    pytest.importorskip("torch")
    import sglab

    batch = sglab.decode_batch([300, 77], num_heads=128, page_size=128, dtype="float16")
    widget = SplitKV(batch, ("flashinfer_mla", "flash_mla"))
    expected = PLANNERS["flashinfer_mla"]([300, 77], num_heads=128, num_kv_heads=1, sm_count=132, page_size=128)
    assert widget.question["page_size"] == 128
    assert all(
        np.array_equal(array, expected.arrays[key]) for key, array in widget.plans["flashinfer_mla"].arrays.items()
    )
    assert "page_size: expected 64 for flash_mla, got 128" in widget.panes[1]["error"]
    assert SplitKV(batch, "flash_mla", page_size=64).question["page_size"] == 64


def test_a_batch_that_extends_is_called_that() -> None:
    pytest.importorskip("torch")
    import sglab

    batch = sglab.extend_batch([300, 77], [100, 0], num_heads=16, page_size=64, dtype="float16")
    widget = SplitKV(batch)
    said = "extend of 2 requests, 277 new tokens, planned as a decode, 377 KV tokens, 16 heads on 1 KV"
    assert widget.header["subject"].startswith(said)
    widget.replan([5, 6])
    assert widget.header["subject"].startswith("decode of 2 requests, 11 KV tokens")


def test_a_layer_s_window_is_said_to_be_left_out() -> None:
    pytest.importorskip("torch")
    import sglab
    from tests.support.gpt_oss_model import gpt_oss

    model, ids = gpt_oss(), [list(range(3, 33))]
    assert SplitKV(sglab.prompt_batch(ids, model, 0)).header["subject"].endswith("without the layer's window of 9 keys")
    assert "window" not in SplitKV(sglab.prompt_batch(ids, model, 1)).header["subject"]


def test_one_kv_head_is_said_to_be_assumed_mla_where_nothing_says_so() -> None:
    pytest.importorskip("torch")
    import sglab

    assert "16 heads on 1 KV head, assumed to be MLA's, " in SplitKV([300], num_heads=16).header["subject"]
    multi_query = SplitKV([300], num_heads=16, num_kv_heads=1, head_dim=128)
    assert "16 heads on 1 KV head, 132 SMs" in multi_query.header["subject"]
    assert list(multi_query.plans) == ["flashinfer_decode", "sglang_triton"]
    for kind in ("mla", "mha"):
        assert "assumed" not in SplitKV(sglab.decode_batch([300], num_kv_heads=1, kind=kind)).header["subject"]


def test_requests_keep_the_names_that_they_have_in_their_batch() -> None:
    pytest.importorskip("torch")
    import sglab

    batch = sglab.decode_batch([300, 77, 77], num_heads=16, page_size=64, dtype="float16")
    widget = SplitKV(batch)
    assert widget.names == ["r0", "r1", "r2"]
    batch.free(1)
    batch.free(0)
    widget.after_cell()
    assert widget.outdated == "The batch has other lengths than those that were planned."
    widget.run_again()
    assert widget.names == ["r2"]
    batch.allocate(77)
    batch.free(0)
    widget.after_cell()
    assert widget.outdated == "The batch has other requests than those that were planned."
    widget.replan([1, 2])
    assert widget.names == []
    assert SplitKV([300]).names == []


@pytest.mark.parametrize(("heads", "kv_heads", "dim"), [(8, 1, 128), (16, 4, 64), (8, 2, 256)])
def test_a_batch_that_is_no_mla_is_planned_with_its_own_head_dims(heads: int, kv_heads: int, dim: int) -> None:
    pytest.importorskip("torch")
    import sglab

    batch = sglab.decode_batch([500, 900], num_heads=heads, num_kv_heads=kv_heads, kind="mha", head_dim=dim)
    assert list(SplitKV(batch).plans) == ["flashinfer_decode", "sglang_triton"]
    names = ("flashinfer_decode", "flash_attention_3", "sglang_triton", "flash_mla")
    widget = SplitKV(batch, names)
    for name, plan in widget.plans.items():
        expected = PLANNERS[name](
            [500, 900],
            num_heads=heads,
            num_kv_heads=kv_heads,
            sm_count=132,
            page_size=batch.page_size,
            head_dim_qk=dim,
            head_dim_vo=dim,
        )
        assert (plan.workspace_bytes, plan.scalars) == (expected.workspace_bytes, expected.scalars)
    assert list(widget.plans) == list(names[:3])
    if kv_heads == 1:
        assert f"the latent KV of MLA, got keys of {dim} and values of {dim} dims" in widget.panes[3]["error"]


def test_every_planner_crosses_to_the_page_as_for_a_cuda_graph() -> None:
    widget = SplitKV([300, 77], tuple(PLANNERS), num_heads=32, num_kv_heads=8, enable_cuda_graph=True)
    rows = widget.plans["flashinfer_prefill"].arrays["total_num_rows"]
    (crossed,) = widget.slices([{"name": "flashinfer_prefill.total_num_rows", "start": 0, "stop": 1}])
    assert rows.dtype == np.uint32
    assert crossed.array.tolist() == rows.tolist() == [2]


def test_an_edit_answers_with_everything_the_page_draws() -> None:
    widget = SplitKV([100, 5000], "flash_mla")
    answer = widget.edit(seq_lens=[9000, 5000])
    assert widget.seq_lens.tolist() == [9000, 5000]
    assert answer["revision"] == widget.revision
    assert answer["panes"] == widget.panes
    assert set(answer["tensors"]) == {"seq_lens", "flash_mla.work"}
    assert answer["tensors"]["seq_lens"].array.tolist() == [9000, 5000]


def test_replan_changes_what_it_names_and_keeps_the_rest() -> None:
    widget = SplitKV([100, 5000], "flash_mla", num_heads=64)
    widget.replan(sm_count="B200")
    widget.replan([7], planners=["flashinfer_mla"])
    assert widget.question == {
        "num_heads": 64,
        "num_kv_heads": 1,
        "sm_count": 148,
        "page_size": None,
        "enable_cuda_graph": False,
    }
    assert widget.seq_lens.tolist() == [7]
    assert list(widget.plans) == ["flashinfer_mla"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seq_lens": []}, "seq_lens: expected at least one request"),
        ({"seq_lens": [5, 0]}, r"seq_lens\[1\]: expected an integer from 1"),
        ({"planners": ["magic"]}, "planners: expected names among .*, got 'magic'"),
        ({"planners": []}, "planners: expected at least one name"),
        ({"sm_count": "H300"}, "sm_count: expected a number or one of H100, H200, B200, got 'H300'"),
        ({"sm_count": 0}, "sm_count: expected an integer from 2 to 2048, got 0"),
        ({"num_heads": 3, "num_kv_heads": 2}, "num_heads: expected a multiple of num_kv_heads=2"),
        ({"heads": 3}, "replan takes num_heads, .*; got heads"),
    ],
)
def test_a_refused_replan_changes_nothing(change: dict[str, object], message: str) -> None:
    widget = SplitKV([100, 5000], "flash_mla")
    before = (widget.seq_lens.tolist(), widget.panes, widget.question, widget.revision)
    with pytest.raises((ValueError, TypeError), match=message):
        widget.replan(**change)
    assert (widget.seq_lens.tolist(), widget.panes, widget.question, widget.revision) == before


def test_one_planner_may_refuse_while_others_go_on() -> None:
    widget = SplitKV([100, 5000], ("flash_mla", "sglang_triton"))
    widget.replan(num_heads=32, num_kv_heads=8)
    refused, planned = widget.panes
    assert "num_kv_heads: expected 1, since flash_mla plans MLA" in refused["error"]
    assert "error" not in planned
    assert list(widget.plans) == ["sglang_triton"]


def test_a_widget_that_no_planner_can_serve_is_not_made() -> None:
    with pytest.raises(ValueError, match=r"no planner takes this batch; flash_mla says: page_size: expected 64"):
        SplitKV([100], "flash_mla", page_size=16)


def test_work_beyond_what_can_be_drawn_is_left_out_but_counted() -> None:
    widget = SplitKV([20_000] * 256, "sglang_triton_deterministic", num_heads=32, num_kv_heads=8)
    (pane,) = widget.panes
    assert not pane["drawn"]
    assert pane["units"] == 79 * 256 * 8
    assert "sglang_triton_deterministic.num_kv_splits" in widget._tensors
    assert "sglang_triton_deterministic.work" not in widget._tensors

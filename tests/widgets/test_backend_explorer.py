"""BackendExplorer: its rows are the exploration's, what a question changes, what opens, and what it refuses."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from sglab.attention import ATTENTION_BACKENDS
from sglab.engine import BadArgumentError
from sglab.widgets import BackendExplorer, KernelDebugger, PageTable, SplitKV
from sglab.workbench import decode_batch, explore_backends

LENS = [300, 1000, 77]


def made(**question: Any) -> BackendExplorer:
    return BackendExplorer(LENS, **question)


@cache
def latent() -> BackendExplorer:
    return made(model="DeepSeek-V3", machine="H200")


def row(widget: BackendExplorer, name: str) -> dict[str, Any]:
    return next(each for each in widget.rows if each["name"] == name)


def test_rows_are_what_the_exploration_found() -> None:
    widget, found = latent(), explore_backends(LENS, model="DeepSeek-V3", machine="H200")
    assert [each["name"] for each in widget.rows] == list(ATTENTION_BACKENDS)
    for each, answer in zip(widget.rows, found.answers, strict=True):
        assert each["servedBy"] == answer.served_by
        for one, refusal in zip(each["refusals"], answer.refusals, strict=True):
            assert one["text"].partition(" On H200 use ")[0] == refusal.text.partition(" Use ")[0]
        if answer.built is None or answer.cost is None:
            assert "cost" not in each and set(each["closed"].values()) == {"It refuses this pass."}
            continue
        assert each["arrayBytes"] == answer.built.nbytes and each["cost"]["bytes"] == answer.cost.nbytes
        cost = each["cost"]
        assert sum(cost[part] for part in ("kv", "other", "copied", "qo", "index", "partial")) == cost["bytes"]
        for one, array in zip(each["arrays"], answer.built.arrays, strict=True):
            assert one["head"] == array.values.flatten()[: len(one["head"])].int().tolist()
    assert [line["version"] for line in widget.choices] == list(found.choices)
    assert [each["name"] for each in widget.rows if each["chosen"]] == [found.chosen(prefill=False)]


def test_a_refusal_names_backends_that_run_on_the_machine_and_serve_the_pass() -> None:
    """An engineer with an H100 is not sent to AMD's, nor to one that refuses the same pass two rows below."""
    widget = made(machine="H100")
    runs = {each["name"] for each in widget.rows if not each["refusals"]}
    said = row(widget, "cutlass_mla")["refusals"][-1]["text"]
    advised = said.rpartition(" On H100 use ")[2].removesuffix(".").replace(" or ", ", ").split(", ")
    assert advised[0] == "fa3", "SGLang's choice is named first"
    assert len(advised) == 3 and set(advised) <= runs
    graphs = made(mode="extend", cuda_graph=True)
    for each in graphs.rows:
        said = each["refusals"][-1]["text"]
        assert "got a CUDA graph of DECODE" not in said and "Use " not in said.partition("graph_batch")[2], said


def test_where_nothing_runs_a_refusal_names_backends_that_serve_the_pass_elsewhere() -> None:
    """On an Ascend NPU flashmla advised hpc_ops, which refuses five query heads per KV head three rows below."""
    widget = made(model="Llama 4", machine="Ascend 910", kv_cache_dtype="fp8_e4m3")
    assert all(each["refusals"] for each in widget.rows)
    serve = {each["name"] for each in widget.rows if each["servedBy"]}
    for each in widget.rows:
        if each["servedBy"] or "on Ascend 910;" not in (said := each["refusals"][-1]["text"]):
            continue
        assert " Use " not in said
        where, _, advised = said.rpartition(" Nothing serves it on Ascend 910; elsewhere ")
        assert where, said
        assert set(advised.removesuffix(" would.").replace(" or ", ", ").split(", ")) <= serve
    assert "elsewhere" in row(widget, "flashmla")["refusals"][-1]["text"]


def test_another_question_is_answered_and_a_wrong_one_changes_nothing() -> None:
    widget = made()
    revision = widget.revision
    assert widget.change({"machine": "B200", "mode": "extend", "new_tokens": 50}) == revision + 1
    assert widget.question["machine"] == "B200" and row(widget, "trtllm_mha")["chosen"]
    widget.ask(model="GPT-OSS")
    assert (widget.question["num_heads"], widget.question["num_kv_heads"]) == (64, 8)
    before = (widget.revision, widget.question, widget.rows)
    for wrong in ({"machine": "H300"}, {"seq_lens": [-1]}, {"num_heads": 7}, {"colour": 1}, {"page_size": 48}):
        with pytest.raises(BadArgumentError):
            widget.change(wrong)
    assert (widget.revision, widget.question, widget.rows) == before


def test_a_live_batch_keeps_its_shape_and_says_when_it_is_stale() -> None:
    batch = decode_batch([40, 9], 16, kind="mla", page_size=64)
    widget = BackendExplorer(batch, machine="H200")
    assert widget.question["seq_lens"] == (40, 9) and widget.question["page_size"] == 64
    assert {each["name"] for each in widget.options["models"]} == {"MLA", "DeepSeek-V3", "DeepSeek-V3.2"}
    with pytest.raises(BadArgumentError, match="the batch's own"):
        widget.ask(seq_lens=[5])
    with pytest.raises(BadArgumentError, match="MLA"):
        widget.ask(model="MHA")
    batch.extend_by_token(0)
    widget.after_cell()
    assert widget.outdated
    widget.run_again()
    assert widget.question["seq_lens"] == (41, 9) and not widget.outdated
    assert widget.question["machine"] == "H200"


def test_the_plan_opens_in_split_kv_as_it_was_counted() -> None:
    for name in ("flashmla", "fa3", "flashinfer", "triton"):
        shown = latent().view("SplitKV", name)
        assert isinstance(shown, SplitKV)
        (pane,) = shown.panes
        plan = row(latent(), name)["plan"]
        assert (pane["ctas"], pane["workspaceBytes"], pane["why"]) == (
            plan["ctas"],
            plan["workspaceBytes"],
            plan["why"],
        )
    window = made(sliding_window=99).view("SplitKV", "fa3")
    assert isinstance(window, SplitKV) and window.seq_lens.tolist() == [100, 100, 77]


def test_the_arrays_open_in_page_table_and_the_kernel_in_the_debugger() -> None:
    table = latent().view("PageTable", "flashmla")
    assert isinstance(table, PageTable) and table.batch.seq_lens.tolist() == [256, 256, 77]
    assert isinstance(latent().view("PageTable", "flashinfer"), PageTable)
    small = BackendExplorer(decode_batch([130, 64], 16, kind="mla", page_size=64), machine="H200")
    shown = small.view("KernelDebugger", "flashmla")
    assert isinstance(shown, KernelDebugger) and "combine" not in shown.session.log.kernel
    page = small.open_widget("PageTable", "flashmla")
    assert page["widget"] == "PageTable" and "<html" in page["page"].lower()


@pytest.mark.parametrize(
    ("name", "widget", "why"),
    [
        ("torch_native", "KernelDebugger", "PyTorch's own call"),
        ("torch_native", "PageTable", "no page table"),
        ("trtllm_mla", "SplitKV", "decides by itself"),
        ("fa4", "SplitKV", "refuses this pass"),
    ],
)
def test_what_cannot_be_opened_says_why(name: str, widget: str, why: str) -> None:
    assert why in row(latent(), name)["closed"][widget]
    with pytest.raises(BadArgumentError, match=why):
        latent().view(widget, name)


@pytest.mark.parametrize("mode", ["decode", "extend", "mixed"])
@pytest.mark.parametrize("name", ["fa3", "torch_native", "hpc_ops"])
def test_a_backend_runs_here_and_agrees_with_float64(name: str, mode: str) -> None:
    ran = made(mode=mode, new_tokens=30).run(name)
    assert ran["runs"] and np.isfinite(ran["error"])
    assert 0 < ran["error"] < (3e-2 if ran["dtype"] == "bfloat16" else 4e-3)
    assert ran["batch"] == "3 requests of 256, 256, 77 tokens with random rows, longer ones cut to 256"


def test_a_run_of_the_first_requests_says_so() -> None:
    ran = BackendExplorer([20, 30] * 8).run("torch_native")
    assert re.fullmatch(r"\d requests of [20, 3]+ tokens with random rows, the first \d of 16", ran["batch"])


def test_our_own_kernel_runs_on_the_emulator() -> None:
    small = BackendExplorer(decode_batch([70], 16, kind="mla", page_size=64), machine="H200")
    ran = small.run("flashmla")
    assert any(
        each["operator"] == "flash_mla_with_kvcache" and each["implementation"] == "sglab" for each in ran["runs"]
    )
    assert 0 < ran["error"] < 4e-3


def test_drafts_and_unknown_names_are_refused() -> None:
    verify = made(mode="verify a tree")
    with pytest.raises(BadArgumentError, match="DraftTree"):
        verify.run("fa3")
    for wrong in ("fa5", "", None):
        with pytest.raises(BadArgumentError, match="backend"):
            verify.run(wrong)  # type: ignore[arg-type]
    with pytest.raises(BadArgumentError, match="widget"):
        verify.view("Layout", "fa3")
    with pytest.raises(BadArgumentError, match="colour"):
        BackendExplorer(LENS, colour="red")


def test_a_saved_page_holds_every_row() -> None:
    state = latent().saved()["state"]
    assert len(state["rows"]) == len(ATTENTION_BACKENDS) and len(state["choices"]) == 3


def test_a_rank_of_several_is_shown_and_nothing_of_it_is_opened() -> None:
    widget = made(model="DeepSeek-V3")
    widget.change({"dcp_size": 4})
    assert "dcp_size 4" in widget.header["subject"]
    shown = row(widget, "flashmla")
    assert shown["servedBy"] == "flashmla"
    assert shown["cost"]["notes"][-1].startswith("of rank 0 of 4")
    assert set(shown["closed"].values()) == {
        "What one of several ranks has is not opened: other widgets show whole passes."
    }
    with pytest.raises(BadArgumentError, match="one of several ranks"):
        widget.view("SplitKV", "flashmla")
    widget.change({"mode": "extend"})
    assert "cost" not in row(widget, "flashmla")
    assert row(widget, "flashmla")["arrays"]
    widget.change({"dcp_size": 1, "attn_cp_size": 2})
    assert "attn_cp_size 2" in widget.header["subject"]
    assert "dcp_size 2" not in widget.header["subject"]


def test_a_live_batch_keeps_its_pool_whole() -> None:
    batch = decode_batch([40, 9], num_heads=16, page_size=64, dtype="bfloat16", seed=0)
    widget = BackendExplorer(batch)
    assert "dcp_size" in widget.options["fixed"]
    with pytest.raises(BadArgumentError, match="dcp_size"):
        widget.ask(dcp_size=2)
    widget.ask(attn_cp_size=2)
    widget.run_again()
    assert widget.question["attn_cp_size"] == 2

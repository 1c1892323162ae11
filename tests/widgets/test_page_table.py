"""PageTable's Python side: edits go through the real allocator, refusals change nothing, other cells are followed."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import sglab
from sglab.engine.errors import BadArgumentError, PageTableError, PoolExhaustedError
from sglab.widgets import PageTable

SMALL = {"kv_lora_rank": 16, "qk_rope_head_dim": 16, "num_heads": 16, "page_size": 16}


def array(widget: PageTable, name: str) -> np.ndarray:
    return widget._tensor(name).array


@pytest.fixture
def batch():
    return sglab.decode_batch([30, 100, 7], max_context_len=400, pool_tokens=320, **SMALL)


@pytest.fixture
def widget(batch) -> PageTable:
    return PageTable(batch)


def test_one_line_shows_a_batch(widget: PageTable, batch) -> None:
    assert (
        widget.header["subject"] == "3 requests · 137 tokens · pages of 16 tokens · pool of 20 pages and dummy page 0"
    )
    assert widget.names == ["r0", "r1", "r2"]
    assert array(widget, "flashmla.block_kv_indices")[1, :7].tolist() == batch.pages(1)


@pytest.mark.parametrize("kernel", ["flashmla", "flashinfer"])
def test_slices_carry_rows_of_the_real_tensors(widget: PageTable, batch, kernel: str) -> None:
    widget.show_kernel(kernel)
    (rows,) = widget.slices([{"name": f"{kernel}.req_to_token", "start": 1, "stop": 2}])
    assert rows.array[0, :100].tolist() == batch.slots(1).tolist()


def test_allocate_reruns_allocator_and_kernel(widget: PageTable, batch) -> None:
    answer = widget.edit("allocate", tokens=40)
    assert batch.batch_size == 4
    assert answer["request"] == 3
    assert answer["message"].startswith("r3: 40 tokens in 3 pages")
    assert array(widget, "flashmla.block_kv_indices")[3, :3].tolist() == batch.pages(3)
    assert widget.changed_pages == sorted(batch.pages(3))


def test_extend_says_where_the_token_went(widget: PageTable, batch) -> None:
    before = len(batch.pages(0))
    for _ in range(2):
        within = widget.edit("extend", request=0)
    assert f"token 31 went to slot {int(batch.slots(0)[31])}, the next slot of its last page" in within["message"]
    crossing = widget.edit("extend", request=0)
    assert len(batch.pages(0)) == before + 1
    assert "the first slot of a new page" in crossing["message"]


def test_share_free_and_evict_tell_who_keeps_which_page(widget: PageTable, batch) -> None:
    shared = widget.edit("share", request=1, tokens=40)
    assert "2 pages shared" in shared["message"]
    assert "the prefix ends inside a page" in shared["message"]
    left = widget.edit("free", request=1)
    assert "2 shared pages stayed with other requests" in left["message"]
    assert "; 4 pages stayed in the radix tree" in left["message"]  # which nobody shares
    assert widget.pool["cached"] == len(batch.cached_pages()) - 2 > 0
    cached = widget.pool["cached"]
    assert widget.edit("evict")["message"] == f"The radix tree gave back {cached} pages."
    assert widget.pool["cached"] == 0


@pytest.mark.parametrize(
    ("edit", "error"),
    [
        ({"action": "allocate", "tokens": 399}, PoolExhaustedError),
        ({"action": "allocate", "tokens": 0}, BadArgumentError),
        ({"action": "free", "request": 9}, BadArgumentError),
        ({"action": "share", "request": 0, "tokens": 31}, BadArgumentError),
        ({"action": "grow"}, ValueError),
    ],
)
def test_a_refused_edit_changes_nothing(widget: PageTable, batch, edit: dict, error: type[Exception]) -> None:
    revision, pages, free = widget.revision, [batch.pages(i) for i in range(3)], batch.free_pages()
    with pytest.raises(error):
        widget.edit(**edit)
    assert [batch.pages(i) for i in range(3)] == pages
    assert batch.free_pages() == free
    assert widget.revision == revision


@pytest.mark.parametrize("edit", ["extend_by_token", "free"])
def test_an_edit_made_elsewhere_is_announced_once_and_read_when_asked_for(widget: PageTable, batch, edit: str) -> None:
    widget.after_cell()
    assert widget.stale == 0
    getattr(batch, edit)(2)
    widget.after_cell()
    assert widget.stale == 1
    assert widget.revision == 1
    widget.catch_up()
    widget.catch_up()
    assert widget.revision == 2
    assert len(array(widget, "requests")) == batch.batch_size
    widget.after_cell()
    assert widget.stale == 1


def test_edits_are_undone_one_after_the_other(widget: PageTable, batch) -> None:
    pages = [batch.pages(i) for i in range(batch.batch_size)]
    freed = widget.edit("free", request=1)["number"]
    allocated = widget.edit("allocate", tokens=40)["number"]
    with pytest.raises(RuntimeError, match="edited elsewhere"):
        widget.undo(freed)
    assert widget.undo(allocated)["message"].startswith("Undone: allocate r")
    assert widget.undo(freed)["message"] == "Undone: free r1."
    assert [batch.pages(i) for i in range(batch.batch_size)] == pages
    assert widget.names == ["r0", "r1", "r2"]
    batch.check()


@pytest.mark.parametrize("by_hand", [False, True])
def test_an_edit_made_elsewhere_is_not_undone_with_the_widgets(widget: PageTable, batch, by_hand: bool) -> None:
    number = widget.edit("free", request=1)["number"]
    if by_hand:
        batch.req_to_token[0, 0] += 1
    else:
        batch.extend_by_token(0)
    before = batch.req_to_token.clone()
    with pytest.raises(RuntimeError, match="edited elsewhere"):
        widget.undo(number)
    assert batch.req_to_token.equal(before)


def test_an_edit_of_the_widget_counts_only_its_own_changes(widget: PageTable, batch) -> None:
    batch.allocate(20)
    widget.edit("extend", request=2)
    assert widget.changed_pages == [batch.pages(2)[-1]]


def test_a_saved_widget_holds_both_kernels(widget: PageTable) -> None:
    saved = widget.saved()
    assert {"flashmla.moments", "flashinfer.moments"} <= saved["tensors"].keys()
    assert saved["state"]["runs"].keys() == {"flashmla", "flashinfer"}


def test_bad_arguments_are_named() -> None:
    with pytest.raises(TypeError, match=r"batch must be what sglab\.decode_batch returns; got list"):
        PageTable([1, 2])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="kernel must be one of flashmla, flashinfer"):
        PageTable(sglab.decode_batch([5], **SMALL), kernel="csr")  # type: ignore[arg-type]


def test_a_page_table_that_points_outside_the_pool_is_refused(widget: PageTable, batch) -> None:
    batch.req_to_token[batch.reqs[1].req_pool_idx, 3] = 10**6
    before = batch.free_pages()
    for act in (lambda: PageTable(batch), widget.refresh, lambda: widget.edit("extend", request=1)):
        with pytest.raises(
            PageTableError, match=r"request 1, token 3: expected a slot 16\.\.335 of the pool, got 1000000"
        ):
            act()
    assert batch.free_pages() == before
    assert widget.revision == 1


def test_a_closed_widget_is_not_kept_alive(batch) -> None:
    widget = PageTable(batch)
    reference = weakref.ref(widget)
    widget.close()
    del widget
    gc.collect()
    assert reference() is None


def test_a_table_written_to_by_hand_is_run_again_when_asked(widget: PageTable, batch) -> None:
    first, second = batch.pages(1)[:2]
    row = batch.req_to_token[int(batch.req_pool_indices[1])]
    row[:32] = row[:32].roll(16)
    widget.after_cell()
    assert (widget.stale, widget.outdated) == (0, "req_to_token changed after this run: what is shown is of before.")
    assert array(widget, "flashmla.block_kv_indices")[1, :2].tolist() == [first, second]
    widget.run_again()
    assert array(widget, "flashmla.block_kv_indices")[1, :2].tolist() == [second, first]
    widget.after_cell()
    assert widget.outdated == ""


def test_a_table_that_makes_no_sense_is_refused_and_stays_outdated(widget: PageTable, batch) -> None:
    batch.req_to_token[int(batch.req_pool_indices[1]), 3] = 9999
    with pytest.raises(PageTableError, match=r"request 1, token"):
        widget.run_again()
    widget.after_cell()
    assert "req_to_token changed" in widget.outdated


def test_an_edit_of_the_batch_is_no_writing_by_hand(widget: PageTable, batch) -> None:
    batch.extend_by_token(0)
    widget.after_cell()
    assert (widget.stale, widget.outdated) == (1, "")
    widget.catch_up()
    widget.after_cell()
    assert (widget.stale, widget.outdated) == (1, "")

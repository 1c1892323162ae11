"""OnlineSoftmax's Python side: what it records, sends and refuses."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import sglab
from sglab.engine import BadArgumentError
from sglab.widgets import OnlineSoftmax
from tests.support.gpt_oss_model import gpt_oss

BATCH = sglab.decode_batch([150, 400], num_heads=4, page_size=16, seed=3, kv_lora_rank=64, qk_rope_head_dim=16)


def make(**options: Any) -> OnlineSoftmax:
    return OnlineSoftmax(BATCH, **{"implementation": "reference", **options})


def test_the_page_reads_what_was_recorded() -> None:
    widget = make(request=1, head=2, num_splits=3)
    run = widget.recorded
    read = {name: widget.slices([{"name": name, "start": 0, "stop": 999}])[0].array for name in widget._tensors}
    assert read["scores"].tolist() == run.scores.tolist()
    assert read["partial_lse"].tolist() == run.partial_lse.tolist()
    assert read["online.state"][:, 4].tolist() == run.states["online"].total.tolist()
    assert read["online.o"].shape == (len(run.tiles), 64)
    assert read["true_o"].dtype == "float64"


def test_the_badge_says_what_ran() -> None:
    assert make().header["badge"]["text"] == "decode_attention_fwd: float64 reference · tiles: torch"
    assert "in torch, float32" in make().header["badge"]["title"]
    assert make(request=1).header["subject"] == "request r1, head 0 of 4, 400 keys, 4 splits, tiles of 64"


def test_triton_runs_where_it_is_installed() -> None:
    pytest.importorskip("triton")
    widget = OnlineSoftmax(BATCH)
    assert widget.recorded.implementation == "triton"
    assert widget.recorded.machine in widget.header["badge"]["text"]


def test_an_edit_records_again() -> None:
    widget = make()
    before = widget.revision
    assert widget.edit(request=1, num_splits=2, scale_by=4.0) == before + 1
    asked = {"request": 1, "head": 0, "num_splits": 2, "tile": 64, "scale_by": 4.0}
    assert widget.question == {**asked, "order": "stored", "kernel": "decode_attention_fwd"}
    run = widget.recorded
    q, slots = BATCH.q[1, 0].double(), BATCH.slots(1)
    keys = BATCH.runner.token_to_kv_pool.get_key_buffer(0)[slots, 0].double()
    expected = keys @ q * BATCH.sm_scale * 4 / math.log(2)
    assert torch.allclose(run.scores.double(), expected, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"request": 2}, "request: expected an integer from 0 to 1, got 2"),
        ({"head": -1}, "head: expected an integer from 0 to 3, got -1"),
        ({"num_splits": 33}, "num_splits: expected an integer from 1 to 32, got 33"),
        ({"tile": 0}, "tile: expected an integer from 1"),
        ({"tile": 1, "request": 1}, "tile: expected an integer from 2 .*400 keys are shown in at most 256 steps"),
        ({"scale_by": 0.0}, "scale_by: expected a factor above 0"),
        ({"base": 2}, "edit takes request, head, num_splits, tile, scale_by, order, kernel; got base"),
        ({"order": "random"}, "order: expected one of stored, rising, falling, masked, got random"),
        ({"kernel": "mla_decode_sm100"}, "kernel: expected one of decode_attention_fwd, got mla_decode_sm100"),
    ],
)
def test_a_refused_edit_changes_nothing(change: dict[str, Any], message: str) -> None:
    widget = make()
    before = (widget.question, widget.revision, widget.recorded)
    with pytest.raises((ValueError, TypeError), match=message):
        widget.edit(**change)
    assert (widget.question, widget.revision, widget.recorded) == before


def test_only_a_decode_batch_is_taken() -> None:
    with pytest.raises(TypeError, match=r"batch must be what sglab\.decode_batch returns; got list"):
        OnlineSoftmax([300])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="batch: expected a decode batch"):
        OnlineSoftmax(sglab.extend_batch([20], num_heads=4))


def test_a_long_request_gets_larger_tiles_by_default() -> None:
    long = sglab.decode_batch([40_000], num_heads=1, kind="mha", head_dim=32, page_size=64)
    widget = OnlineSoftmax(long, implementation="reference")
    assert widget.question["tile"] == 256
    assert len(widget.recorded.tiles) <= 256
    assert sum(tensor.array.nbytes for tensor in widget._tensors.values()) < 5_000_000


def test_a_short_request_after_a_long_one_gets_the_kernel_s_tiles_again() -> None:
    widget = OnlineSoftmax(
        sglab.decode_batch([40_000, 300], num_heads=1, kind="mha", head_dim=32), implementation="reference"
    )
    widget.edit(request=1)
    assert widget.question["tile"] == 64


def test_partials_of_the_sm100_kernel_are_offered_for_an_mla_batch_and_say_so() -> None:
    batch = sglab.decode_batch([150], num_heads=16, page_size=64, dtype="bfloat16", seed=1)
    widget = OnlineSoftmax(batch, kernel="mla_decode_sm100", num_splits=2)
    assert widget.run["kernels"] == ["decode_attention_fwd", "mla_decode_sm100"]
    assert widget.question["tile"] == 128
    assert widget.header["badge"]["text"] == "mla_decode_sm100: emulated sm_100a · tiles: torch"
    widget.edit(kernel="decode_attention_fwd")
    assert widget.question["tile"] == 64  # each kernel's own
    widget.edit(tile=32)
    widget.edit(kernel="mla_decode_sm100")
    assert widget.question["tile"] == 32  # what the reader chose
    before = widget.revision
    with pytest.raises(ValueError, match="order: expected not masked with mla_decode_sm100"):
        widget.edit(order="masked")
    assert widget.revision == before


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"num_heads": 4, "kv_lora_rank": 64, "qk_rope_head_dim": 16}, "needs MLA with rows of 512 + 64 columns"),
        ({"num_heads": 4, "num_kv_heads": 2, "kind": "mha", "head_dim": 64}, "needs MLA with rows of 512 + 64 columns"),
        ({"num_heads": 4, "dtype": "float32"}, "takes 16-bit values only"),
        ({"num_heads": 4, "logit_cap": 30.0}, "has no logit cap"),
    ],
)
def test_where_the_sm100_kernel_cannot_run_the_page_and_the_error_say_why(options: dict[str, Any], why: str) -> None:
    batch = sglab.decode_batch([40], **options)
    widget = OnlineSoftmax(batch, implementation="reference")
    assert widget.run["refused"] == {"mla_decode_sm100": why}
    with pytest.raises(ValueError, match=f"mla_decode_sm100 {re.escape(why)}"):
        widget.edit(kernel="mla_decode_sm100")


def test_numbers_of_other_libraries_are_numbers() -> None:
    widget = make(request=np.int64(1), num_splits=torch.tensor(2), scale_by=np.float32(4))
    assert (widget.question["request"], widget.question["num_splits"], widget.question["scale_by"]) == (1, 2, 4.0)
    for wrong in (2.0, True, "2"):
        with pytest.raises(ValueError, match=f"num_splits: expected an integer from 1 to 32, got {wrong!r}"):
            make(num_splits=wrong)
    with pytest.raises(ValueError, match="scale_by: expected a factor above 0, at most 1024, got '4'"):
        make(scale_by="4")


def test_the_page_hears_of_a_logit_cap() -> None:
    capped = sglab.decode_batch([40], num_heads=2, kind="mha", head_dim=32, logit_cap=30.0)
    assert OnlineSoftmax(capped, implementation="reference").run["logitCap"] == 30.0
    assert make().run["logitCap"] == 0.0


def test_what_is_no_plain_softmax_over_all_keys_is_refused_by_name() -> None:
    """The kernels are called without windows and sinks: gpt-oss was drawn otherwise than it computes."""
    ids, model = [list(range(3, 33)), list(range(3, 9))], gpt_oss()
    with pytest.raises(BadArgumentError, match=r"batch: .*, got layer 0 with sinks and a window of 9 keys"):
        OnlineSoftmax(sglab.prompt_batch(ids, model, 0))
    with pytest.raises(BadArgumentError, match=r"batch: .*, got layer 1 with sinks\. Choose another layer"):
        OnlineSoftmax(sglab.prompt_batch(ids, model, 1))
    batch = sglab.prompt_batch(ids, model, 0)
    batch.sinks = None
    widget = OnlineSoftmax(batch, 1, implementation="reference")  # six keys are all within the window
    with pytest.raises(BadArgumentError, match="layer 0 with a window of 9 keys"):
        widget.edit(request=0)
    assert widget.question["request"] == 1

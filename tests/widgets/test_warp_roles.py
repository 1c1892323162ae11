"""WarpRoles' Python side: rows, roles, waits and who ended them, operations in flight, barriers with names."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import sglab
from sglab.events.tables import FAILED
from sglab.labs.pipelines import Pipeline
from sglab.widgets import SharedMemory, WarpRoles
from sglab.widgets.following import failure_told
from tests.support.launches.recorded import mla_sm90, mla_sm100, mla_sm100_session
from tests.support.launches.shared_sum import SHARED_SUM


def table(widget: WarpRoles, name: str) -> np.ndarray:
    (tensor,) = widget.slices([{"name": name, "start": 0, "stop": 1 << 30}])
    return tensor.array


def code(widget: WarpRoles) -> dict[str, Any]:
    return json.loads(table(widget, "code").tobytes())


@pytest.fixture(scope="module")
def sm100() -> WarpRoles:
    return WarpRoles(mla_sm100(512))


def test_every_event_of_the_pair_is_there_in_order_with_its_warp(sm100: WarpRoles) -> None:
    log = mla_sm100(512)
    position, row, pc, mask = table(sm100, "events")
    assert position.tolist() == list(range(len(log)))
    assert row.tolist() == (log.cta * 11 + log.warp).tolist()
    assert pc.tolist() == log.pc.tolist()
    assert mask.view(np.uint32).tolist() == log.mask.tolist()


def test_roles_are_those_of_the_source(sm100: WarpRoles) -> None:
    groups = ["softmax"] * 4 + ["epilogue"] * 4
    assert sm100.launch["roles"] == [*groups, "mma", "load", "page_table"] * 2


def test_hopper_s_consumers_multiply_and_take_exponentials() -> None:
    assert WarpRoles(mla_sm90()).launch["roles"] == ["math"] * 8 + ["load"] + ["idle"] * 3


def test_code_holds_what_ran_and_where_it_comes_from(sm100: WarpRoles) -> None:
    log, known = mla_sm100(512), code(sm100)
    assert known["pc"] == np.unique(log.pc).tolist()
    at = known["pc"].index(int(log.pc[1000]))
    instruction = log.code[int(log.pc[1000])]
    assert known["text"][at] == instruction.text
    chain = [(known["files"][file], line) for file, line in known["chains"][known["chain"][at]]]
    assert chain == [(place.file, place.line) for place in instruction.chain]


def test_another_cluster_is_shown_on_request() -> None:
    log = mla_sm100(128, 3)
    widget = WarpRoles(log, cluster=1)
    assert widget.launch["ctas"] == [2, 3]
    widget.show(2)
    assert widget.launch["ctas"] == [4, 5]
    assert set(log.cta[table(widget, "events")[0]].tolist()) == {4, 5}
    with pytest.raises(ValueError, match="cluster: expected an integer from 0 to 2, got 3"):
        widget.show(3)
    assert widget.launch["ctas"] == [4, 5]


def test_modelled_times_are_those_of_the_timed_log(sm100: WarpRoles) -> None:
    timed = mla_sm100(512).timed("sm_100")
    assert sm100.launch["timed"] == {"product": "B200", "total": timed.total_ns}
    start, end = table(sm100, "times.events")
    np.testing.assert_allclose(start, timed.start, rtol=1e-6)
    np.testing.assert_allclose(end, timed.end, rtol=1e-6)
    np.testing.assert_allclose(table(sm100, "times.phases")[0], timed.phases, rtol=1e-6)
    issued, over = table(sm100, "times.operations")
    assert (issued <= over).all()
    assert not np.isnan(over).any()
    copies = table(sm100, "operations")[3] == 0
    assert issued[copies].min() == pytest.approx(timed.copies.start.min(), rel=1e-6)
    assert over[copies].max() == pytest.approx(timed.copies.end.max(), rel=1e-6)


def test_hopper_s_kernel_is_timed_for_hopper() -> None:
    assert WarpRoles(mla_sm90()).launch["timed"]["product"].startswith("H100")
    with pytest.raises(ValueError, match="sm_75"):
        WarpRoles(mla_sm90(), arch="sm_75")


def test_a_cta_names_its_cluster() -> None:
    widget = WarpRoles(mla_sm100(128, 3))
    widget.show_cta(5)
    assert widget.launch["ctas"] == [4, 5]
    with pytest.raises(ValueError, match="cta: expected an integer from 0 to 5, got 6"):
        widget.show_cta(6)


def test_a_session_is_recorded_and_left_as_it_was() -> None:
    session = mla_sm100_session(128)
    session.step(count=500)
    widget = WarpRoles(session)
    assert session.now == 500
    assert table(widget, "events").shape[1] > 5000


def test_a_traced_batch_is_shown_by_its_main_launch() -> None:
    batch = sglab.decode_batch([200, 70], num_heads=128, page_size=128, dtype="float16", seed=0)
    widget = WarpRoles(sglab.trace(batch, "cutlass_mla"))
    assert "mla" in widget.launch["kernel"]
    assert {"load", "mma", "softmax"} <= set(widget.launch["roles"])


def test_something_else_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match=r"launch must be what sglab.trace, Kernel.record or .*; got str"):
        WarpRoles("kernel")  # type: ignore[arg-type]


@pytest.mark.parametrize("widget", [WarpRoles, SharedMemory])
def test_a_batch_that_was_not_traced_is_refused_with_what_to_do(widget: Any) -> None:
    batch = sglab.decode_batch([9], num_heads=2)
    with pytest.raises(TypeError, match=r"got Batch: call sglab\.trace\(batch, backend=…\) first"):
        widget(batch)
    with pytest.raises(TypeError, match=r"got int: for a kernel of your own pass sglab\.step.*gpu\.capture"):
        widget(5)


def test_a_kernels_name_is_readable_in_sentences() -> None:
    launch = sglab.step(sglab.ptx(SHARED_SUM.replace("shared_sum", "_Z3addPf"))[1, 64], torch.zeros(64))
    assert WarpRoles(launch).launch["kernel"].startswith("add")


def test_of_a_deadlock_the_message_says_who_waits_for_whom() -> None:
    """ "No warp can continue" alone leaves the reader with a picture of warps that all wait."""
    parties = [f"CTA (0, 0, 0) warp {warp} (load) waits for full[{warp}]" for warp in range(3)]
    lines = [
        "deadlock: no warp can continue",
        "  warps 0 to 2 wait",
        "who waits for whom:",
        *(f"  {one}" for one in parties),
    ]
    told = failure_told("\n".join(lines))
    assert told.startswith(f"The kernel failed: {lines[0]}. {parties[0]}. {parties[1]}. 1 more of them waits. Shown is")
    assert failure_told("trap\n  at line 3").startswith("The kernel failed: trap. Shown is")
    assert failure_told("") == ""


def test_tests_that_fail_until_the_end_were_released_by_no_phase() -> None:
    """They were said to have waited for the phase before, which had long ended."""
    log = Pipeline("one_arrival").session().log
    waits, phases = log.waits, log.phases
    failed = np.isin(waits.event, log.barriers.event[log.barriers.passed == FAILED])
    assert failed.sum() > 50
    assert (waits.phase[failed] == -1).all()
    released = waits.phase >= 0
    assert released.any()
    assert (phases.position[waits.phase[released]] >= waits.since[released]).all()


def test_of_a_deadlock_the_page_knows_whom_the_message_names_first() -> None:
    """That warp's test of the barrier is what *Go to where it failed* selects."""
    session = Pipeline("one_arrival").session()
    widget = WarpRoles(session)
    failed = widget.launch["failed"]
    told = re.search(r"CTA \((\d+), 0, 0\) warp (\d+) \(load\) waits at PTX line (\d+) ", widget.launch["error"])
    assert told is not None
    assert [failed[name] for name in ("cta", "warp", "line")] == [int(each) for each in told.groups()]
    assert session.log.code.text(failed["line"]).strip().startswith(("mbarrier.try_wait", "mbarrier.test_wait"))
    assert "failed" not in WarpRoles(Pipeline("2_stages", tiles=2).record()).launch

"""Launches over several host threads: which get them where their number is left open, and that nobody can tell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from sglab import gpu
from tests.support.emulator.interrupting import interrupted_after
from tests.support.emulator.launching import HEADER

CTAS = 64
BUSY = """.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
.extern .func (.param .b64 r) malloc(.param .b64 n);
.global .align 4 .b8 text[4] = {42, 10, 0, 0};
.visible .entry k(.param .u64 out) {
  .reg .pred %p, %q; .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .f32 %f; .reg .b128 %big;
  .shared .align 16 .b8 cell[32];
  ld.param.u64 %d0, [out]; mov.u32 %r0, %ctaid.x; mov.u32 %r1, %tid.x; mov.u32 %r2, %ntid.x;
  mad.lo.u32 %r3, %r0, %r2, %r1; mad.wide.u32 %d1, %r3, 4, %d0; setp.eq.u32 %q, %r1, 9999;
  sub.u32 %r4, 64, %r0; mul.lo.u32 %r4, %r4, STEPS; mov.u32 %r5, %r3;
LOOP: mad.lo.u32 %r5, %r5, 1664525, 1013904223; sub.u32 %r4, %r4, 1; setp.ne.u32 %p, %r4, 0; @%p bra LOOP;
  WHAT
  st.global.u32 [%d1], %r5; ret; }
"""


def busy(what: str = "", steps: int = 40) -> gpu.Kernel:
    """The first CTAs take longest: 64, 63, … times `steps` turns of a loop; then each does `what`."""
    text = BUSY.replace("WHAT", what).replace("STEPS", str(steps))
    return gpu.load(HEADER + text)["k"]


def device(threads: Any = "auto", **options: Any) -> gpu.EmulatedDevice:
    return gpu.EmulatedDevice("sm_100a", sms=4, threads=threads, **options)


def launch(kernel: gpu.Kernel, on: gpu.EmulatedDevice, grid: int = CTAS, block: int = 128) -> tuple[Any, torch.Tensor]:
    out = torch.zeros(grid * block, dtype=torch.int32)
    return kernel.launch(on, grid=grid, block=block, args=[out]), out


@pytest.fixture(autouse=True)
def four_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def test_a_launch_with_enough_work_takes_as_many_threads_as_pytorch() -> None:
    report, out = launch(busy(), device())
    alone, expected = launch(busy(), device(1))
    assert (report.threads, alone.threads) == (4, 1)
    assert torch.equal(out, expected)
    assert report.executions == alone.executions
    torch.set_num_threads(2)
    assert launch(busy(), device())[0].threads == 2


@pytest.mark.parametrize(
    ("changed", "grid", "block"),
    [({}, 2, 32), ({}, 1, 1024), ({"sanitize": True}, CTAS, 128), ({"max_instructions": 10**9}, CTAS, 128)],
    ids=["little work", "one CTA", "sanitized", "limited"],
)
def test_one_thread_where_more_are_of_no_use(changed: dict[str, Any], grid: int, block: int) -> None:
    assert launch(busy(), device(**changed), grid, block)[0].threads == 1


@pytest.mark.parametrize(
    "noticed",
    [
        "atom.global.add.u32 %r6, [%d0], 0;",
        "atom.add.u32 %r6, [%d1], 0;",
        "red.relaxed.gpu.global.add.u32 [%d0], 0;",
        "@%q ld.volatile.global.u32 %r6, [%d0];",
        "@%q ld.acquire.gpu.u32 %r6, [%d0];",
        "@%q st.release.sys.global.u32 [%d0], %r6;",
        "fence.acq_rel.gpu;",
        "membar.gl;",
        "mov.u32 %r6, %clock;",
        "mov.u64 %d6, %globaltimer;",
        "mov.u32 %r6, %envreg1;",
        "@%q cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d0], [cell], 16;",
        "@%q clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [cell], [cell+16];",
        "@%q { .param .b64 f; .param .b64 a; .param .b32 r; mov.u64 %d6, text; cvta.global.u64 %d6, %d6; "
        "st.param.b64 [f], %d6; st.param.b64 [a], 0; call (r), vprintf, (f, a); }",
        "@%q { .param .b64 n; .param .b64 r; st.param.b64 [n], 16; call (r), malloc, (n); }",
    ],
)
def test_one_thread_where_a_cluster_could_notice_another(noticed: str) -> None:
    if noticed.startswith("@%q {"):
        noticed = "@!%q bra PAST;" + noticed.removeprefix("@%q") + "PAST:"
    assert launch(busy(noticed), device())[0].threads == 1


@pytest.mark.parametrize(
    "own",
    [
        "atom.shared.add.u32 %r6, [cell], 1;",
        "st.volatile.shared.u32 [cell], %r6;",
        "fence.acq_rel.cta;",
        "fence.acq_rel.cluster;",
        "fence.proxy.async;",
        "bar.sync 0;",
        "ld.global.nc.u32 %r6, [%d0];",
        "griddepcontrol.wait;",
        "nanosleep.u32 20;",
    ],
)
def test_what_stays_within_a_cluster_or_is_weak_does_not_matter(own: str) -> None:
    assert launch(busy(own), device())[0].threads == 4


FAULTS = {
    "wait": "setp.gt.u32 %p, %r0, 4; @!%p bra PAST; setp.eq.u32 %q, %r1, 0; "
    "@%q mbarrier.init.shared.b64 [cell], 1; bar.sync 0; "
    "WAIT: mbarrier.try_wait.parity.shared.b64 %p, [cell], 0; @!%p bra WAIT; PAST:",
    "memory": "setp.gt.u32 %p, %r0, 4; @%p ld.global.u32 %r6, [64];",
    "trap": "setp.gt.u32 %p, %r0, 4; @%p trap;",
    "deadlock": "setp.gt.u32 %p, %r0, 4; setp.lt.u32 %q, %r1, 32; @!%p bra PAST; @%q bra PAST; bar.sync 1, 128; PAST:",
}


@pytest.mark.parametrize("threads", ["auto", 2, 3])
@pytest.mark.parametrize("steps", [10, 700], ids=["one turn each", "many turns each"])
@pytest.mark.parametrize("kind", FAULTS)
def test_of_all_clusters_that_fail_the_first_is_told(kind: str, steps: int, threads: Any) -> None:
    """Though later ones fail sooner: those from 5 on all do, and a cluster's turn is 32,768 instructions."""
    kernel = busy(FAULTS[kind], steps)
    for _ in range(1 if kind == "wait" else 5):
        with pytest.raises(gpu.KernelError) as caught:
            launch(kernel, device(threads))
        assert caught.value.fault is not None and caught.value.fault.cta == (5, 0, 0)


def test_what_earlier_clusters_store_is_stored_when_a_later_one_fails() -> None:
    kernel, out = busy(FAULTS["memory"], 700), torch.zeros(CTAS * 128, dtype=torch.int32)
    with pytest.raises(gpu.KernelError):
        kernel.launch(device(), grid=CTAS, block=128, args=[out])
    _, whole = launch(busy(steps=700), device(1))
    assert torch.equal(out[: 5 * 128], whole[: 5 * 128])


def test_warnings_are_told_as_if_clusters_ran_one_after_the_other() -> None:
    strangers = "mov.u32 %r7, 0x00fffffe; setp.gt.u32 %p, %r0, LEAST; @%p bar.warp.sync %r7;"
    kernel = busy(strangers.replace("LEAST", "6") + strangers.replace("LEAST", "2"), 10)
    alone = launch(kernel, device(1))[0]
    assert [(row[1], row[11]) for row in alone.warnings] == [(alone.warnings[0][1], 128 * n // 32) for n in (61, 57)]
    for _ in range(5):
        assert launch(kernel, device())[0].warnings == alone.warnings


def test_an_interrupt_is_heard_when_only_the_other_threads_still_run() -> None:
    with interrupted_after(0.3), pytest.raises(KeyboardInterrupt):
        launch(busy("setp.eq.u32 %p, %r0, 63; L: @%p bra L;", 10), device())

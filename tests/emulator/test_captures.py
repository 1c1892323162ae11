"""Captured launches run again from what they found, can be stepped, and keep their memory alive."""

import gc
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from sglab import gpu
from tests.support.launches.session_lines import SESSION_PTX

KERNELS = gpu.load(SESSION_PTX)


def collatz(start: Any, steps: Any, **device: Any) -> Any:
    return KERNELS["collatz"].launch(gpu.EmulatedDevice("sm_90a", **device), grid=2, block=64, args=[start, steps])


def steps_of(n: int) -> int:
    count = 0
    while n != 1:
        n, count = (n // 2 if n % 2 == 0 else 3 * n + 1), count + 1
    return count


def test_every_launch_is_caught_with_its_report_and_runs_again_from_what_it_found() -> None:
    start, steps = torch.arange(1, 129, dtype=torch.int32), torch.zeros(128, dtype=torch.int32)

    def twice() -> str:
        collatz(start, steps)
        start.copy_(steps.clamp(min=1))
        collatz(start, steps)
        return "done"

    launches = gpu.capture(twice)
    assert (len(launches), launches.result) == (2, "done")
    assert [one.name for one in launches] == ["collatz"] * 2
    assert launches.main is launches[0]
    final = steps.clone()
    assert launches[0].run().warp_instructions == launches[0].report.warp_instructions
    assert steps.tolist() == [steps_of(n) for n in range(1, 129)]
    launches[1].run()
    assert torch.equal(steps, final)
    assert steps.tolist() == [steps_of(max(1, steps_of(n))) for n in range(1, 129)]


def test_a_captured_launch_opens_as_a_session_and_as_a_log() -> None:
    start, steps = torch.arange(1, 129, dtype=torch.int32), torch.zeros(128, dtype=torch.int32)
    launches = gpu.capture(lambda: collatz(start, steps))
    final = steps.clone()
    session = launches[0].session()
    assert not steps.any()
    session.run()
    assert torch.equal(steps, final)
    log = launches.record()
    assert len(log) == launches[0].report.warp_instructions
    assert torch.equal(steps, final)


def test_captured_launches_keep_their_tensors_alive() -> None:
    launches = gpu.capture(
        lambda: collatz(torch.arange(1, 129, dtype=torch.int32), torch.zeros(128, dtype=torch.int32))
    )
    gc.collect()
    overwritten = [torch.full((128,), -1, dtype=torch.int32) for _ in range(64)]
    session = launches[0].session()
    del launches
    gc.collect()
    overwritten += [torch.full((128,), -1, dtype=torch.int32) for _ in range(64)]
    session.run_to(opcode="ld.global", warp=1)
    session.step(warp=1)
    assert session.last is not None
    name = session.last.instruction.text.split()[1].rstrip(",")
    assert session.registers(1)[name].values.tolist() == list(range(33, 65))


def test_what_is_not_launched_on_an_emulated_device_is_not_there_and_said_so() -> None:
    with pytest.raises(gpu.LaunchError, match="nothing was launched on an emulated device"):
        gpu.capture(lambda: torch.zeros(3) + 1)
    start, steps = torch.arange(1, 129, dtype=torch.int32), torch.zeros(128, dtype=torch.int32)
    collatz(start, steps)
    launches = gpu.capture(lambda: collatz(start, steps))
    collatz(start, steps)
    assert len(launches) == 1


def test_a_launch_that_fails_can_be_looked_at() -> None:
    kernel = KERNELS["clock_and_out_of_bounds"]
    out = torch.zeros(32, dtype=torch.int64)

    def fails() -> str:
        try:
            kernel.launch(gpu.EmulatedDevice("sm_90a"), grid=1, block=32, args=[out, 1])
        except gpu.KernelError as error:
            return str(error)
        return ""

    launches = gpu.capture(fails)
    assert "past the end" in launches.result
    assert launches[0].report is None
    session = launches[0].session()
    with pytest.raises(gpu.KernelError, match="past the end"):
        session.run()
    assert session.log.fault
    assert len(session.log) == session.now


COUNTING = """.version 8.0
.target sm_90
.address_size 64
.visible .global .align 4 .u32 launches_so_far = 40;
.visible .entry count(.param .u64 out) {
  .reg .b32 %r<3>; .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [out]; mov.u64 %rd2, launches_so_far;
  atom.global.add.u32 %r1, [%rd2], 1;
  st.global.u32 [%rd1], %r1;
  ret;
}"""


def test_variables_of_the_module_are_as_the_launch_found_them() -> None:
    kernel, device = gpu.load(COUNTING)["count"], gpu.EmulatedDevice("sm_90a")
    out = torch.zeros(1, dtype=torch.int32)

    def count() -> int:
        kernel.launch(device, grid=1, block=1, args=[out])
        return int(out)

    launches = gpu.capture(lambda: [count(), count()])
    assert launches.result == [40, 41]
    assert count() == 42
    for again in ("run", "record", "session", "run"):
        for number, launch in enumerate(launches):
            session = getattr(launch, again)()
            if again == "session":
                session.run()
            assert int(out) == 40 + number

"""A launch that takes long says so, and can be interrupted."""

import io
import sys

import pytest

torch = pytest.importorskip("torch")

from sglab import gpu
from sglab.gpu import progress
from tests.support.emulator.interrupting import interrupted_after

SPIN = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry spin(.param .u64 flag)
{
    .reg .pred %p<2>;
    .reg .b32 %r<3>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [flag];
    mov.u32 %r2, 0;
again:
    add.u32 %r2, %r2, 1;
    ld.volatile.global.u32 %r1, [%rd1];
    setp.eq.s32 %p1, %r1, 0;
    @%p1 bra again;
    ret;
}
"""
"""It counts its rounds: one that is in the same state again would be a livelock, and stopped early."""
LIMIT = 3_000_000


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LONG", 0.0)
    monkeypatch.setattr(progress, "INTERVAL", 0.0)


def spin(device: gpu.EmulatedDevice) -> gpu.Launch:
    flag = torch.zeros(1, dtype=torch.int32)
    return gpu.load(SPIN)["spin"].prepare(device, gpu.LaunchConfig((1,), 32), args=[flag])


@pytest.mark.parametrize("how", ["run", "record", "session"])
def test_a_long_launch_says_what_runs_how_far_it_is_and_how_to_stop_it(
    how: str, impatient: None, capsys: pytest.CaptureFixture[str]
) -> None:
    device = gpu.EmulatedDevice("sm_90a", max_instructions=LIMIT, sanitize=how == "run")
    launch = spin(device)
    with pytest.raises(gpu.KernelError, match="more than its limit"):
        device.session(launch).run() if how == "session" else getattr(device, how)(launch)
    first, *_, last = capsys.readouterr().err.strip().splitlines()
    assert first.startswith("[sglab] spin runs on the emulator: ") and "warp-instructions" in first
    assert "Ctrl-C" in first and "Interrupt" in first
    assert how == "session" or f"of at most {LIMIT:,}" in first
    assert last.startswith("[sglab] spin: ") and last.endswith(" s")


def test_a_notebook_does_not_draw_it_as_an_error(impatient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})
    out, err = notebook(), notebook()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    with pytest.raises(gpu.KernelError, match="more than its limit"):
        device = gpu.EmulatedDevice("sm_90a", max_instructions=LIMIT, sanitize=True)
        device.run(spin(device))
    assert out.getvalue().startswith("[sglab] spin runs on the emulator: ")
    assert "\r[sglab] " in out.getvalue() and err.getvalue() == ""


def test_a_short_launch_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    device = gpu.EmulatedDevice("sm_90a", max_instructions=1000)
    with pytest.raises(gpu.KernelError):
        device.run(spin(device))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("how", ["run", "record", "session"])
def test_an_interrupt_ends_it(how: str, impatient: None) -> None:
    device = gpu.EmulatedDevice("sm_90a")
    launch = spin(device)
    with interrupted_after(0.2), pytest.raises(KeyboardInterrupt):
        device.session(launch).run() if how == "session" else getattr(device, how)(launch)

"""Watch expressions on a session: what they name, what is read, where a session stops for them."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sglab import gpu
from sglab.emulator import Session
from sglab.emulator.watch import WatchParser
from tests.support.launches.session_lines import SESSION_PTX


def stopped() -> tuple[Session, torch.Tensor]:
    """A sum of 0 … 1999 before its first instruction, and where it goes."""
    out = torch.zeros(1)
    arguments = [torch.arange(2000, dtype=torch.float32), out, 2000]
    kernel = gpu.load(SESSION_PTX)["reduce"]
    return kernel.session(gpu.EmulatedDevice("sm_90a"), grid=2, block=128, args=arguments), out


@pytest.mark.parametrize(
    ("expression", "space", "shape", "dtype"),
    [
        ("out", "global", (1,), "f32"),
        ("out[0:1]", "global", (1,), "f32"),
        ("arg0*8:s32", "global", (8,), "s32"),
        ("arg0+0x10", "global", (1,), "u32"),
        ("smem+0x400*16:f16", "shared", (16,), "f16"),
        ("smem@1+1024", "shared", (1,), "u32"),
    ],
)
def test_watch_expressions(expression: str, space: str, shape: tuple[int, ...], dtype: str) -> None:
    session, out = stopped()
    watch = WatchParser(session, {"out": out}).parse(expression)
    assert (watch.space, watch.shape, watch.dtype) == (space, shape, dtype)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("nothing", "'nothing' names nothing here.*Names: out, .*arg0, smem"),
        ("smem+0x400*9999", "1 to 256 elements are shown; got 9999"),
        ("arg9", "no pointer argument is arg9; there are arg0, arg1"),
        ("arg0+99999999", "outside the launch's memory"),
        ("out[exit()]", "a subscript has integers and slices"),
    ],
)
def test_what_names_nothing_is_refused(expression: str, message: str) -> None:
    session, out = stopped()
    with pytest.raises(ValueError, match=message):
        WatchParser(session, {"out": out}).parse(expression)


def test_an_argument_that_is_a_named_tensor_is_named_once() -> None:
    session, out = stopped()
    assert WatchParser(session, {"out": out}).names()[-2:] == ["arg0", "smem"]
    assert WatchParser(session, {}).names()[-3:] == ["arg0", "arg1", "smem"]
    assert WatchParser(session, {"out": out}).parse("arg1").begin == out.data_ptr()


@pytest.mark.parametrize(("kind", "dtype"), [("u32", "s32"), ("b32", "s32"), ("f32", "f32")])
def test_a_variable_in_shared_memory_has_the_type_of_its_accesses(kind: str, dtype: str) -> None:
    """Counters of a histogram were shown as floats: 3 as 4.2e-45."""
    register, value = ("%f1", "0f40400000") if kind == "f32" else ("%r1", "3")
    text = f"""
    .version 8.0
    .target sm_90a
    .address_size 64
    .visible .entry count() {{
      .reg .b32 %r<2>; .reg .f32 %f<2>;
      .shared .align 4 .b8 bins[64];
      mov.{kind} {register}, {value};
      st.shared.{kind} [bins], {register};
      ret;
    }}
    """
    session = gpu.Module(text, "count.ptx")["count"].session(gpu.EmulatedDevice("sm_90a"), grid=1, block=32, args=[])
    watch = WatchParser(session, {}).parse("bins[0]")
    session.step(count=2)
    assert watch.dtype == dtype
    assert watch.read(session, 0).view("<f4" if kind == "f32" else "<i4") == [3]


def test_a_session_stops_where_a_watched_tensor_is_written() -> None:
    session, out = stopped()
    watch = WatchParser(session, {"out": out}).parse("out")
    number = watch.arm(session, "write")
    stop = session.run()
    assert (stop.reason, stop.breakpoint) == ("breakpoint", number)
    assert watch.read(session, None).view(np.float32).item() == 0
    session.step()
    assert watch.read(session, None).view(np.float32).item() > 0


def test_views_of_strided_tensors_are_read_by_their_strides() -> None:
    memory = torch.arange(64, dtype=torch.int16).view(8, 8)
    kernel = gpu.load(SESSION_PTX)["collatz"]
    arguments = [memory.view(torch.int32).view(-1), torch.zeros(128, dtype=torch.int32)]
    session = kernel.session(gpu.EmulatedDevice("sm_90a"), grid=1, block=32, args=arguments)
    watch = WatchParser(session, {"m": memory}).parse("m[::2, 3]")
    assert watch.read(session, 0).reshape(-1).view(np.int16).tolist() == [3, 19, 35, 51]
    assert session.now == 0

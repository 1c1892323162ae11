"""printf: what C prints, the last megabyte of it, and a launch that can be stopped while it prints."""

import struct
from typing import Any

import numpy as np
import pytest

from sglab import _core, gpu
from tests.support.emulator.interrupting import interrupted_after
from tests.support.emulator.launching import HEADER, launch

EXTERN = ".extern .func (.param .b32 status) vprintf(.param .b64 format, .param .b64 arguments);\n"


def text(name: str, value: bytes) -> str:
    return f".global .align 1 .b8 {name}[] = {{{', '.join(map(str, value + bytes(1)))}}};\n"


def printing(body: str, variables: str = "", bytes_of_arguments: int = 64) -> str:
    """A kernel in which `body` stores arguments at [%rd1] and `P` prints the format %rd2 with them."""
    call = (
        "{ .param .b64 a; .param .b64 b; .param .b32 v; st.param.b64 [a], %rd2; st.param.b64 [b], %rd1; "
        "call.uni (v), vprintf, (a, b); }"
    )
    return (
        EXTERN
        + variables
        + f"""
.visible .entry k() {{
  .local .align 8 .b8 depot[{bytes_of_arguments}];
  .reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
  mov.u64 %rd1, depot; cvta.local.u64 %rd1, %rd1;
  {body.replace("PRINT;", call)}
  ret;
}}"""
    )


def printed(format: str, *arguments: Any) -> str:
    """What one lane prints."""
    body, variables, at = "", text("format", format.encode()), 0
    for n, argument in enumerate(arguments):
        if isinstance(argument, str):
            variables += text(f"s{n}", argument.encode())
            value = f"s{n}"
        elif isinstance(argument, float):
            value = str(struct.unpack("<q", struct.pack("<d", argument))[0])
        else:
            value = str(argument)
        wide = isinstance(argument, (str, float)) or abs(argument) >= 1 << 31
        size = 8 if wide else 4
        at += -at % size
        register = "%rd3" if wide else "%r3"
        body += f"mov.b{8 * size} {register}, {value}; st.b{8 * size} [%rd1+{at}], {register}; "
        at += size
    body += "mov.u64 %rd2, format; PRINT;"
    return launch(printing(body, variables), [], block=(1, 1, 1)).output


@pytest.mark.parametrize(
    ("format", "arguments"),
    [
        ("%d %u %x|%08X|%+5d|%-6d|% d\n", (5, 7, 255, 48879, 3, 4, 9)),
        ("%10s|%-10s|%.2s|%5.1s|\n", ("abc", "def", "ghi", "jkl")),
        ("%*d|%-*d|%.*f|%*.*e|\n", (6, 42, 5, 7, 3, 2.0 / 3, 12, 4, 1e10)),
        ("%c%5c%-3c|%%|%i\n", (65, 66, 67, 12)),
        ("%f %g %a %.10f\n", (1.5, 1e-7, 0.1, 3.14159265358979)),
        ("%600d|\n", (1,)),
        ("%s%s%s", ("", "a", "")),
    ],
)
def test_directives_print_as_in_c(format: str, arguments: tuple[Any, ...]) -> None:
    shown = format.replace("%a", "%s").replace("%i", "%d")
    values = tuple(v.hex() if "%a" in format and v == 0.1 else v for v in arguments)
    assert printed(format, *arguments) == shown % values


def test_short_integers_are_cut() -> None:
    assert printed("%hd %hhd %hhu %hx\n", 70000, 300, 511, 0x12345) == "4464 44 255 2345\n"
    assert printed("%lld %llu %lx\n", -(1 << 40), 1 << 50, 1 << 60) == f"{-(1 << 40)} {1 << 50} {1 << 60:x}\n"


def test_bytes_that_are_not_utf8_are_shown_as_such() -> None:
    kernel = printing("mov.u64 %rd2, format; PRINT;", text("format", b"a\xff\xc3\xa9\x80z"))
    assert launch(kernel, [], block=(1, 1, 1)).output == "a\\xffé\\x80z"
    loaded = gpu.load(HEADER + kernel)["k"]
    session = loaded.session(gpu.EmulatedDevice(), grid=1, block=1)
    session.run()
    assert session.output == "a\\xffé\\x80z"


COUNTED = (
    "mov.u32 %r1, 0; mov.u64 %rd2, format; L: st.u32 [%rd1], %r1; PRINT; "
    "add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, TIMES; @%p1 bra L;"
)


def test_the_last_megabyte_is_kept() -> None:
    kernel = printing(COUNTED.replace("TIMES", "300000"), text("format", b"%09d\n"))
    output = launch(kernel, [], block=(1, 1, 1)).output
    everything = "".join(f"{n:09d}\n" for n in range(300_000))
    assert len(output) == 1 << 20 and output == everything[-(1 << 20) :]


def test_a_session_that_goes_back_finds_what_was_printed_then() -> None:
    kernel = printing(COUNTED.replace("TIMES", "3000"), text("format", b"%2000d\n"))
    session = gpu.load(HEADER + kernel)["k"].session(gpu.EmulatedDevice(), grid=1, block=1)
    seen = {}
    for position in (2000, 9000, 14_000, 20_000):
        session.seek(position)
        seen[position] = session.output
    assert len(seen[20_000]) == 1 << 20 > len(seen[2000])
    for position in (9000, 2000, 20_000, 14_000, 2000):
        session.seek(position)
        assert session.output == seen[position]


def test_a_directive_fills_65536_bytes_at_most() -> None:
    assert printed("%2000000000d|", 7) == " " * 65_535 + "7|"
    assert len(printed("%.2000000000f|", 1.0)) == 65_536 + 3


LONG = text("format", b"x" * 65_000)


def test_a_loop_that_prints_much_stops_at_its_limit() -> None:
    with pytest.raises(_core.LaunchError) as caught:
        launch(printing("mov.u64 %rd2, format; L: PRINT; bra L;", LONG), [], max_instructions=3000)
    assert caught.value.kind == "livelock"


@pytest.mark.parametrize("how", ["launch", "record", "session", "sanitized"])
def test_a_loop_that_prints_much_hears_ctrl_c(how: str) -> None:
    many = text("format", b"%s" * 30_000) + text("word", b"y" * 65_000)
    body = "mov.u64 %rd2, format; mov.u64 %rd3, word; L: "
    body += "".join(f"st.u64 [%rd1+{8 * n}], %rd3; " for n in range(40)) + "PRINT; bra L;"
    kernel = gpu.load(HEADER + printing(body, many, 400_000))["k"]
    device = gpu.EmulatedDevice(sanitize=how == "sanitized")
    with interrupted_after(0.2), pytest.raises(KeyboardInterrupt):
        if how == "session":
            kernel.session(device, grid=1, block=32).run()
        else:
            getattr(kernel, "record" if how == "record" else "launch")(device, grid=1, block=32)


def test_arguments_beyond_those_stored_are_a_fault() -> None:
    kernel = printing("mov.u64 %rd2, format; PRINT;", text("format", b"%d" * 100), 8)
    with pytest.raises(_core.LaunchError) as caught:
        launch(kernel, [np.zeros(1, np.uint32)][:0])
    assert caught.value.kind == "out_of_bounds"

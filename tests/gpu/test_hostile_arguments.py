"""Texts, files and arguments that make no sense: each is refused by an error of ours that names what is wrong."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sglab import gpu
from tests.support.emulator.launching import HEADER

PTX = (
    HEADER
    + """.visible .entry k(.param .u64 x, .param .u32 n, .param .f32 f) { ret; }
.visible .entry s(.param .align 8 .b8 s[16]) { ret; }
"""
)
DEVICE = gpu.EmulatedDevice("sm_100a", sms=2)
GOOD: dict[str, Any] = {"grid": 1, "block": 32}


def launch(args: Any = None, entry: str = "k", device: Any = DEVICE, **options: Any) -> None:
    given = [torch.zeros(8), 3, 1.5] if args is None else args
    gpu.Module(PTX)[entry].launch(device, args=given, **{**GOOD, **options})


def argument(value: Any, at: int = 0) -> Callable[[], None]:
    args: list[Any] = [torch.zeros(8), 3, 1.5]
    args[at] = value
    return lambda: launch(args)


def device(**options: Any) -> Callable[[], Any]:
    return lambda: gpu.EmulatedDevice(**options)


TEXTS = {
    "align of zero": ".visible .entry k(.param .align 0 .b8 x[8]) { ret; }",
    "reqntid of 5,000 digits": f".visible .entry k() .reqntid {'9' * 5000} {{ ret; }}",
    "array of 5,000 digits": f".visible .entry k(.param .b8 x[{'9' * 5000}]) {{ ret; }}",
    "name of 20,000 letters": f".visible .entry {'a' * 20_000}() {{ ret; }}",
    "parameter of 4 GB": ".visible .entry k(.param .b8 x[4294967296]) { ret; }",
}


@pytest.mark.parametrize("name", TEXTS)
def test_ptx_that_makes_no_sense(name: str) -> None:
    with pytest.raises(gpu.GpuError):
        gpu.Module(HEADER + TEXTS[name])


def test_an_entry_in_a_comment_is_none() -> None:
    module = gpu.Module(f"{HEADER}/* .visible .entry gone() {{ ret; }} */\n.visible .entry k() {{ ret; }}\n")
    assert list(module) == module.emulated.entries == ["k"]


def test_files_that_are_no_text(tmp_path: Path) -> None:
    binary, folder = tmp_path / "binary.ptx", tmp_path / "folder.ptx"
    binary.write_bytes(b".version 8.8 \xff\xfe .target sm_90")
    folder.mkdir()
    for source in (binary, folder, b"bytes", None, 3, ""):
        with pytest.raises(gpu.GpuError):
            gpu.load(source)  # type: ignore[arg-type]


def test_a_lone_surrogate_is_no_text() -> None:
    """The core reads it as a question mark: harmless in a comment, unknown anywhere else."""
    text = HEADER + ".visible .entry k() { \ud800 ret; }"
    with pytest.raises((gpu.GpuError, ValueError), match=r"PTX line|expected|unknown"):
        _ = gpu.Module(text).emulated


def test_output_that_is_no_utf8() -> None:
    text = (
        HEADER
        + """.extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);
.global .align 1 .b8 message[4] = {97, 255, 10, 0};
.visible .entry k() { .reg .b64 %d; .reg .b32 %r; mov.u64 %d, message; cvta.global.u64 %d, %d;
{ .param .b64 a; .param .b64 b; .param .b32 r; st.param.b64 [a], %d; st.param.b64 [b], 0; call (r), vprintf, (a, b); }
ret; }
"""
    )
    report = gpu.Module(text)["k"].launch(DEVICE, grid=1, block=1)
    assert report.output.startswith("a")
    assert report.output.endswith("\n")


CALLS: dict[str, Callable[[], Any]] = {
    "numpy array": argument(np.zeros(8)),
    "numpy array of one": argument(np.zeros(1, np.int64)),
    "None for an integer": argument(None, 1),
    "float for an integer": argument(1.5, 1),
    "too large an integer": argument(2**32, 1),
    "float of 400 digits": argument(10**400, 2),
    "object": argument(object()),
    "conjugated view": argument(torch.zeros(8, dtype=torch.complex64).conj()),
    "negated view": argument(torch._neg_view(torch.zeros(8))),
    "meta tensor": argument(torch.zeros(8, device="meta")),
    "sparse tensor": argument(torch.zeros(8, 8).to_sparse()),
    "no arguments": lambda: launch([]),
    "None for the arguments": lambda: gpu.Module(PTX)["k"].launch(DEVICE, args=None, **GOOD),  # type: ignore[arg-type]
    "arguments that are no list": lambda: launch(3),
    "extra that is no tensor": lambda: launch(extra=[3]),
    "extra that is no list": lambda: launch(extra=3),
    "numpy array for a struct": lambda: launch([np.zeros(3)], "s"),
    "short bytes for a struct": lambda: launch([b"123"], "s"),
    "grid of bytes": lambda: launch(grid=b"\x01"),
    "grid that is true": lambda: launch(grid=True),
    "grid of an array": lambda: launch(grid=np.zeros(3)),
    "grid of zero": lambda: launch(grid=0),
    "block of four": lambda: launch(block=(1, 1, 1, 1)),
    "smem of a tensor": lambda: launch(smem=torch.zeros(2, device="meta")),
    "smem of -1": lambda: launch(smem=-1),
    "no architecture": device(arch=None),
    "unknown architecture": device(arch="sm_7"),
    "fraction of SMs": device(sms=1.5),
    "negative threads": device(threads=-1),
    "no threads": device(threads=0),
    "negative seed": device(seed=-1),
    "seed of 70 bits": device(seed=2**70),
    "seed of an array": device(seed=np.zeros(2)),
    "negative limit": device(max_instructions=-1),
    "unknown scheduler": device(scheduler="quick"),
    "scheduler that is no text": device(scheduler=3),
    "scheduler of an array": device(scheduler=np.zeros(8)),
    "reaction of an array": device(on_finding=np.zeros(0)),
    "unknown sanitizer": device(sanitize={"speed"}),
    "sanitizer that is a number": device(sanitize=1.5),
    "unknown reaction": device(on_finding="ignore"),
    "strided integer": lambda: launch([gpu.Strided(3), 3, 1.5]),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_that_make_no_sense(name: str) -> None:
    with pytest.raises(gpu.GpuError):
        CALLS[name]()


@pytest.mark.parametrize("call", [lambda: launch(gird=1), device(schedular="fair")])
def test_unknown_keywords_are_errors(call: Callable[[], Any]) -> None:
    with pytest.raises((TypeError, gpu.GpuError), match=r"gird|schedular"):
        call()

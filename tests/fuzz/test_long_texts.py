"""Texts of some hundred kilobytes that repeat one construct are read within the harness's limits of time and memory."""

import random
import time
from collections.abc import Callable

import pytest

pytest.importorskip("torch")

from sglab_fuzz import process
from tests.support.emulator.module_text import HEADER, entry


def accumulators(number: int) -> str:
    return "{" + ", ".join(f"%r{(number * 128 + k) % 20_000}" for k in range(128)) + "}"


def loops(count: int, body: str) -> str:
    return "".join(f"M{i}: @%p1 bra M{i * 7 % count}; {body.replace('#', str(i))}\n" for i in range(count))


def jumps(count: int) -> str:
    names = ", ".join(f"L{i}" for i in range(count))
    return f"T: .branchtargets {names};\n" + "".join(f"L{i}: brx.idx %r1, T;\n" for i in range(count))


def late_products() -> str:
    product = "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {}, %d1, %d2, 0, 1, 1, 0, 0;\n"
    wait = "add.u32 %r5, %r5, %r#; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 3;"
    return "".join(product.format(accumulators(i)) for i in range(150)) + loops(3000, wait)


def late_loads() -> str:
    load = "tcgen05.ld.sync.aligned.32x32b.x128.b32 {}, [%r1]; @%p1 bra L{}; add.u32 %r7, %r7, %r{}; L{}:\n"
    loads = "".join(load.format(accumulators(i), i, i * 128 % 20_000, i) for i in range(150))
    return loads + loops(3000, "add.u32 %r5, %r5, %r#;")


def interleaved(count: int) -> str:
    rng = random.Random(1)
    lines = [f"A{i}: add.u32 %r{i % 90}, %r{i % 7}, 1; @%p1 bra A{rng.randrange(count)};\n" for i in range(count)]
    return "".join(lines)


TEXTS: dict[str, Callable[[], str]] = {
    "jump tables": lambda: entry(jumps(2000)),
    "one large jump table": lambda: entry(
        "T: .branchtargets " + ", ".join(f"L{i}" for i in range(60_000)) + ";\n"
    ).replace("ret;", "brx.idx %r1, T;\n" + "".join(f"L{i}: add.u32 %r1, %r1, 1;\n" for i in range(60_000)) + "ret;"),
    "products that nobody waits for whole": lambda: entry(late_products(), 20_000),
    "loads from tensor memory across loops": lambda: entry(late_loads(), 20_000),
    "interleaved loops": lambda: entry(interleaved(8000)),
    "minus signs": lambda: f"{HEADER}.global .u32 x = {'-' * 200_000}1;\n",
    "brackets": lambda: f"{HEADER}.global .u32 x = {'(' * 200_000}1;\n",
    "braces": lambda: entry("{" * 200_000),
    "unknown mnemonics": lambda: entry("".join(f"add.u32.x{i} %r1, %r1, 1;\n" for i in range(10_000))),
    "modifiers": lambda: entry(f"atom{'.gpu' * 50_000} %r1, [%d1], %r2;"),
    "entries": lambda: HEADER + "".join(f".visible .entry e{i}(.param .b32 a) {{ ret; }}\n" for i in range(10_000)),
    "variables": lambda: HEADER + "".join(f".global .b32 v{i} = {i};\n" for i in range(20_000)),
    "blocks with registers of their own": lambda: entry(
        "".join(f"{{ .reg .b32 %q{i}_<20>; add.u32 %q{i}_1, %q{i}_2, %q{i}_19; }}\n" for i in range(5000))
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_long_text_is_read_or_refused(name: str) -> None:
    found = process.run_text("front", "cpu", TEXTS[name]())
    assert found is None, f"{found['signature']}: {found['message']}"


def test_blank_lines_cost_the_debugger_no_more_than_their_number() -> None:
    """A page of somebody's PTX, whose comments say where functions were inlined."""
    from sglab import gpu
    from sglab.widgets import KernelDebugger

    text = entry("// x @[ y.py:1:1 ]").replace(".visible", "\n" * 60_000 + ".visible")
    began = time.process_time()
    KernelDebugger(gpu.Module(text, "blank.ptx")["k"].session(gpu.EmulatedDevice("sm_100a"), grid=1, block=32, args=[]))
    assert time.process_time() - began < process.HANG_SECONDS * process.patience()


@pytest.mark.parametrize(
    "body", ["{" * 200_000 + "}" * 200_000, f"foo.bar %r1, {'[' * 200_000};"], ids=["scopes", "brackets"]
)
def test_what_pointers_are_used_for_is_found_in_time_that_grows_with_the_text(body: str) -> None:
    """What a launch asks to refuse a tensor of another dtype."""
    from sglab.gpu.pointer_accesses import float_pointers

    began = time.process_time()
    float_pointers(entry(body), "k")
    assert time.process_time() - began < process.HANG_SECONDS * process.patience()

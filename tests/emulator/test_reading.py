"""Reading PTX: whatever the text, an error by name; Ctrl-C is heard, and other threads go on meanwhile."""

import threading

import pytest

from sglab import _core
from tests.support.emulator.alone import run_alone
from tests.support.emulator.interrupting import interrupted_after
from tests.support.emulator.launching import HEADER

EMPTY = ".visible .entry k() { ret; }\n"
MANY = 6000
LOOPS = (
    ".visible .entry k() { .reg .pred %p<3>; .reg .b32 %r<3>;"
    + "".join(f"A{i}: add.u32 %r1, %r1, 1;\n" for i in range(MANY))
    + "".join(f"@%p1 bra A{i};\n" for i in range(MANY))
    + "ret; }"
)


def chain(functions: int) -> str:
    text = "".join(f".visible .func f{i}() {{ {f'call f{i - 1};' if i else ''} ret; }}\n" for i in range(functions))
    return text + f".visible .entry k() {{ call f{functions - 1}; ret; }}"


def branches(count: int) -> str:
    """As many predicates, all of them alive at once."""
    return (
        f".visible .entry k() {{ .reg .pred %p<{count}>; .reg .b32 %r<3>;"
        + "".join(f"setp.eq.u32 %p{i}, %r1, {i};\n" for i in range(count))
        + "".join(f"@%p{i} bra L{i};\nadd.u32 %r1, %r1, 1;\nL{i}:\n" for i in range(count))
        + "ret; }"
    )


def test_decoding_hears_ctrl_c() -> None:
    module = _core.Module(HEADER + LOOPS)
    with interrupted_after(0.1), pytest.raises(KeyboardInterrupt):
        for _ in range(100):
            _core.Module(HEADER + LOOPS).kernel("k")
    assert module.kernel("k").unsupported == []


def test_parsing_hears_ctrl_c() -> None:
    text = HEADER + ".visible .entry k() {" + ";" * 100_000_000 + "ret; }"
    with interrupted_after(0.1), pytest.raises(KeyboardInterrupt):
        for _ in range(100):
            _core.Module(text)


def test_threads_decode_at_once() -> None:
    # Each asks for signals while it holds the module's lock: neither may wait for the other's GIL.
    module = _core.Module(HEADER + LOOPS)
    kernels: list[_core.Kernel] = []
    threads = [threading.Thread(target=lambda: kernels.append(module.kernel("k"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {kernel.instruction_count for kernel in kernels} == {2 * MANY + 1}


def test_long_call_chains_are_read() -> None:
    assert _core.Module(HEADER + chain(20_000)).kernel("k").unsupported == []


def test_circles_of_calls_keep_their_frames() -> None:
    # Only b and c lead back to themselves: a's frames are not saved.
    text = """
.visible .func c(.param .b32 n);
.visible .func b(.param .b32 n) { .param .b32 x; .reg .b32 %r<3>; .reg .pred %p; ld.param.b32 %r1, [n];
  setp.eq.u32 %p, %r1, 0; @%p ret; sub.u32 %r1, %r1, 1; st.param.b32 [x], %r1; call c, (x); ret; }
.visible .func c(.param .b32 n) { .param .b32 x; .reg .b32 %r<3>; ld.param.b32 %r1, [n];
  st.param.b32 [x], %r1; call b, (x); ret; }
.visible .func a(.param .b32 n) { .param .b32 x; .reg .b32 %r<3>; ld.param.b32 %r1, [n];
  st.param.b32 [x], %r1; call b, (x); ret; }
.visible .entry k() { .param .b32 x; st.param.b32 [x], 50; call a, (x); ret; }"""
    assert run_alone(text).kind == "done"


def test_more_predicates_than_a_warp_can_keep_are_refused() -> None:
    outcome = run_alone(branches(33_000))
    assert outcome.kind == "PtxError" and "more predicates" in outcome.text and outcome.peak < 1 << 30, outcome


def jumps(tables: int, labels: int) -> str:
    """brx.idx again and again through one table."""
    names = ", ".join(f"L{i}" for i in range(labels))
    uses = "".join(f"L{i}: brx.idx %r1, T;\n" for i in range(max(tables, labels)))
    return f".visible .entry k() {{ .reg .b32 %r<3>;\nT: .branchtargets {names};\n{uses} ret; }}"


def test_jump_tables_are_read_in_little_memory_or_refused() -> None:
    """A short text can name billions of jumps: each use of a table counts."""
    outcome = run_alone(jumps(1000, 1000), max_instructions=1000)
    assert outcome.kind == "livelock" and outcome.peak < 1 << 28, (outcome, outcome.peak)
    for tables, labels in ((2000, 2000), (20_000, 20_000)):
        outcome = run_alone(jumps(tables, labels))
        assert outcome.kind == "launch" and "jump tables of more than 1048576 targets" in outcome.text, outcome
        assert outcome.peak < 1 << 29


def test_many_blocks_and_registers_are_read_in_little_memory() -> None:
    text = ".visible .entry k() { .reg .pred %p<3>; .reg .b32 %r<40001>; .local .b32 x;"
    text += "".join(f"mov.u32 %r{i}, {i}; @%p1 bra L{i};\nL{i}: @%p2 bra M{i};\nM{i}:\n" for i in range(40_000))
    text += "".join(f"st.local.u32 [x], %r{i};\n" for i in range(40_000)) + "ret; }"
    outcome = run_alone(text, max_instructions=1_000_000)
    assert outcome.kind == "done" and outcome.peak < 1 << 30, (outcome, outcome.peak)


@pytest.mark.parametrize("place", ["{}", '.file 1 "{}"\n', "/* {} */", "// {}\n", ".visible .entry {}() {{ ret; }}"])
def test_lone_surrogates_are_no_foreign_exception(place: str) -> None:
    text = HEADER + place.format("\ud800") + EMPTY
    try:
        kernel = _core.Module(text, "a\udcff.ptx").kernel("k")
    except _core.PtxError as error:
        assert error.line == 4 and error.source == "a\\udcff.ptx"
    else:
        assert kernel.source_files in ([], ["?"])


def test_bytes_that_are_no_text_are_named() -> None:
    with pytest.raises(_core.PtxError, match="found a byte 0x01"):
        _core.Module(HEADER + EMPTY + ".visible .entry \x01")
    with pytest.raises(_core.PtxError, match="found a byte 0xc3"):
        _core.Module(HEADER + EMPTY + ".visible .entry é")
    assert _core.Module(HEADER + EMPTY + "\0\0").entries == ["k"]


def test_memory_that_the_system_refuses_is_an_error_by_name() -> None:
    outcome = run_alone(f".global .b8 x[4000000000];\n{EMPTY}", address_space=2 << 30)
    assert outcome.kind == "PtxError" and "the system refuses" in outcome.text, outcome
    local = ".visible .entry k() { .local .b8 x[500000]; st.local.u8 [x], 1; ret; }"
    outcome = run_alone(local, grid=(64, 1, 1), block=(1024, 1, 1), address_space=400 << 20)
    assert outcome.kind == "memory" and "the system has no more memory" in outcome.text, outcome

"""What is read from a stranger's PTX outside of the parser costs time that grows with the text: no pattern sees a whole
text, and none looks at a place twice."""

import ast
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from sglab import gpu
from sglab.events.timing.occupancy import named_barriers
from sglab.gpu import core
from sglab.gpu.code import Code
from sglab.gpu.entry_text import instructions_of, meets_as_a_grid
from sglab.gpu.places import paths_once
from sglab.gpu.pointer_accesses import float_pointers
from sglab.widgets.kernel_debugger.code import _without_debug_sections
from sglab_fuzz import process
from tests.support.emulator.module_text import HEADER, entry

ROOT = Path(__file__).parents[2]
LONG = 1_000_000
PATTERN_METHODS = {"search", "match", "fullmatch", "findall", "finditer", "sub", "subn", "split"}

BODIES: dict[str, Callable[[], str]] = {
    "blanks": lambda: " " * LONG,
    "blanks after a guard": lambda: f"@{' ' * LONG}! {' ' * LONG}.",
    "blanks after a label": lambda: f"x{' ' * LONG}y",
    "labels": lambda: "x:" * (LONG // 2) + "1",
    "a name": lambda: "x" * LONG,
    "an opcode": lambda: "x." * (LONG // 2),
    "brackets": lambda: f"foo.bar %r1, {'[' * LONG};",
    "braces": lambda: "{" * (LONG // 2) + "}" * (LONG // 2),
    "operands": lambda: f"foo.bar {'%r1,' * (LONG // 4)};",
    "a string": lambda: f'.pragma "{"/*;" * (LONG // 4)}";',
    "strings": lambda: '"" ' * (LONG // 4),
    "comments": lambda: "/*{*/" * (LONG // 5),
    "comments of a line": lambda: "//}\n" * (LONG // 4),
    "a comment of stars": lambda: f"/*{'*' * LONG}/",
    "places": lambda: ".loc 1 1 1\n" * (LONG // 11),
}


def quick(read: Callable[[], Any]) -> Any:
    """What it returns, within the harness's limit of processor time."""
    began = time.process_time()
    found = read()
    assert time.process_time() - began < process.HANG_SECONDS * process.patience()
    return found


@pytest.mark.parametrize("name", BODIES)
def test_a_body_of_one_construct_is_read_at_once(name: str) -> None:
    text = entry(BODIES[name]())
    assert quick(lambda: float_pointers(text, "k")) == {}
    assert quick(lambda: meets_as_a_grid(text, "k")) is False


def test_addresses_that_mix_many_parameters_are_given_up() -> None:
    """Each of 4,000 parameters in each of 20,000 sums."""
    parameters = ", ".join(f".param .u64 p{i}" for i in range(4000))
    loads = "".join(f"ld.param.u64 %d{i}, [p{i}]; add.u64 %s, %s, %d{i};" for i in range(4000))
    sums = "".join(f"add.u64 %t{i}, %s, %t{i + 1};" for i in range(20_000))
    text = f"{HEADER}.visible .entry k({parameters}) {{ {loads}{sums} st.global.f32 [%t0], %f1; ret; }}\n"
    assert quick(lambda: float_pointers(text, "k")) == {}


def test_an_access_after_a_line_number_counts() -> None:
    """.loc does not end with a semicolon."""
    body = "ld.param.u64 %d1, [x];\n ld.global.f32 %f1, [%d1];\n .loc 1 2 3\n ld.global.u32 %r1, [%d1];\n"
    assert float_pointers(entry(body).replace("k()", "k(.param .u64 x)"), "k") == {}


@pytest.mark.parametrize(
    "place",
    [
        ".loc 1 2 3 ret;",
        ".loc 1 2 3, function_name name, inlined_at 1 2 3 ret;",
        ".loc 1 2 3, function_name name + 8,\n inlined_at 1\n 2 3 // }\n ret;",
    ],
)
def test_an_instruction_follows_a_place(place: str) -> None:
    assert instructions_of(entry(place), "k") == [("ret", []), ("ret", [])]


def test_what_is_in_a_string_is_no_comment() -> None:
    assert meets_as_a_grid(entry('.pragma "//"; mov.u32 %r1, %envreg1;'), "k")
    assert not meets_as_a_grid(entry('.pragma "%envreg1"; /* %envreg1 */ mov.u32 %r1, %envreg11;'), "k")


def inlined(comment: str, instructions: int = 1) -> Code:
    lines = "add.u32 %r1, %r1, 1;\n" * instructions
    text = entry(f".loc 1 1 1 // {comment}\n{lines}") + '.file 1 "/folder/kernel.py"\n'
    return Code("k", text, core.Module(text).kernel("k"))


def test_calls_that_a_comment_lists_are_as_many_as_a_chain_may_have() -> None:
    code = quick(lambda: inlined("x.py:1:1 " + "@[ kernel.py:1:1 ] " * 20_000, 5000))
    assert len(code[0].chain) == 64 and max(len(row[3]) for row in code.rows) == 64


@pytest.mark.parametrize(
    "comment",
    ["@[ kernel.py:" + "1" * 5000 + ":1 ]", "@[ " * 100_000, "@[ " + ":" * 100_000],
    ids=["a number", "none", "colons"],
)
def test_a_comment_that_is_no_call_says_nothing(comment: str) -> None:
    assert [len(one.chain) for one in quick(lambda: inlined(comment))] == [1, 1]


def test_calls_are_read_innermost_first() -> None:
    (first, *_) = inlined("standard.py:191:40 @[ other.py:3:4 @[ kernel.py:9:29 @[ kernel.py:20:1 ] ] ]")
    assert [(one.file, one.line, one.column) for one in first.chain[1:]] == [
        ("/folder/kernel.py", 9, 29),
        ("/folder/kernel.py", 20, 1),
    ]


@pytest.mark.parametrize(
    "text", [".section" * (LONG // 8), f".section{' ' * LONG}", "\n \t" * (LONG // 3), ".debug" * (LONG // 6)]
)
def test_a_text_without_debug_sections_is_kept(text: str) -> None:
    assert quick(lambda: _without_debug_sections(f"{text}\n// .debug")) == f"{text}\n// .debug"


def test_debug_sections_are_cut() -> None:
    assert _without_debug_sections("ret;\n\t.section .debug_str { }\nx") == "ret;\n"


@pytest.mark.parametrize("path", ["/" * LONG, "C:\\" + "\\" * LONG, "a/" * (LONG // 2)], ids=["/", "C:", "a/"])
def test_a_message_with_a_long_path_is_written_at_once(path: str) -> None:
    for message in (f"{path}x", f"{path}x:1"):
        assert quick(lambda: paths_once(message)) == message  # noqa: B023


def test_a_windows_path_is_given_once() -> None:
    assert paths_once(r"C:\a\k.cu:1, C:\a\k.cu:2, k.cu:3") == r"C:\a\k.cu:1, k.cu:2, k.cu:3"


@pytest.mark.parametrize("comment", ["bar.red" * (LONG // 7), "bar.sync " * (LONG // 9), "%r1," * (LONG // 4)])
def test_barriers_are_counted_by_instructions_and_not_by_comments(comment: str) -> None:
    text = entry(f"bar.sync 3; // {comment}")
    code = gpu.Module(text)["k"].code
    assert quick(lambda: named_barriers(code)) == 4


@pytest.mark.parametrize("name", ["%r1", "017", "3U"])
def test_a_barrier_whose_number_is_not_plain_may_be_any(name: str) -> None:
    assert named_barriers(gpu.Module(entry(f"bar.sync {name}, 32;"))["k"].code) == 16


def subjects(path: Path) -> list[str]:
    """What is given to functions of `re` and to methods of patterns, as written."""
    return [
        ast.unparse(argument)
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in PATTERN_METHODS
        for argument in call.args
        if (isinstance(call.func.value, ast.Name) and (call.func.value.id == "re" or call.func.value.id.isupper()))
    ]


def test_no_pattern_is_given_a_whole_text() -> None:
    """A text of PTX is called `ptx` in this house."""
    found = {
        str(path.relative_to(ROOT)): subject
        for path in sorted((ROOT / "sglab").rglob("*.py"))
        for subject in subjects(path)
        if subject.split(".")[-1] in ("ptx", "ptx_text")
    }
    assert found == {}

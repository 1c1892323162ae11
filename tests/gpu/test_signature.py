"""The launch interface of PTX is read from its text."""

import pytest

from sglab.gpu import GpuError, Module
from sglab.gpu.signature import read_header
from tests.support.emulator.launching import HEADER

PTX = """
//
.version 9.0
.target sm_90a, texmode_independent
.address_size 64
.extern .func  (.param .b32 func_retval0) vprintf ( .param .b64 a, .param .b64 b );

.visible .entry _Z5firstPKfi(
	.param .u64 .ptr .global .align 16 _Z5firstPKfi_param_0, // the input
	.param .u8 _Z5firstPKfi_param_1,
	.param .align 8 .b8 _Z5firstPKfi_param_2[24],
	.param .f32 _Z5firstPKfi_param_3,
	.param .align 64 .b8 _Z5firstPKfi_param_4[128]
)
.reqntid 256, 2 // threads
.reqnctapercluster 2, 1, 1
{
	ret;
}
	.entry second()
.maxntid 128, 1, 1
.minnctapersm 1
{
	ret;
}
"""


def test_parameters_have_type_size_and_offset() -> None:
    first = read_header(PTX).entries["_Z5firstPKfi"]
    assert [(p.type, p.size, p.align, p.offset) for p in first.parameters] == [
        ("u64", 8, 8, 0),
        ("u8", 1, 1, 8),
        ("b8", 24, 8, 16),
        ("f32", 4, 4, 40),
        ("b8", 128, 64, 64),
    ]
    assert first.params_size == 192


def test_directives() -> None:
    header = read_header(PTX)
    first, second = header.entries.values()
    assert (header.version, header.target) == ("9.0", "sm_90a")
    assert (first.reqntid, first.maxntid, first.reqnctapercluster) == ((256, 2, 1), None, (2, 1, 1))
    assert (second.reqntid, second.maxntid, second.parameters) == (None, (128, 1, 1), ())


def test_a_module_finds_entries_by_a_part_of_their_mangled_name() -> None:
    module = Module(PTX, "two.ptx")
    assert list(module) == ["_Z5firstPKfi", "second"]
    assert module["first"].name == "_Z5firstPKfi"
    with pytest.raises(GpuError, match=r"two.ptx: no entry is called 'third'; it has first, second"):
        module["third"]
    with pytest.raises(GpuError, match=r"several entries match 's'; it has first, second"):
        module["s"]


@pytest.mark.parametrize("text", ["", "hello", ".version 9.0\n", ".target sm_90\n"])
def test_what_is_not_ptx_is_refused(text: str) -> None:
    with pytest.raises(GpuError, match="is not PTX"):
        Module(text)


def test_an_unreadable_parameter_is_named() -> None:
    broken = PTX.replace(".param .u8 ", ".param .quad ")
    with pytest.raises(GpuError, match=r"entry _Z5firstPKfi: cannot read the parameter '.param .quad"):
        Module(broken)


HEAD = ".version 9.0\n.target sm_90a\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (".entry k(.param .align 0 .b8 x[4]) {ret;}", ".align of x must be a power of two up to 128; got 0"),
        (".entry k(.param .align 3 .b8 x[4]) {ret;}", ".align of x must be a power of two up to 128; got 3"),
        (".entry k() .reqntid " + "9" * 500 + " {ret;}", r"\.reqntid must have 1 to 3 sizes; got '999"),
        (".entry k(.param .b8 x[4294967296]) {ret;}", "parameters take 4294967296 bytes with x; .* at most 32764"),
        (".entry k(.param .b8 x[" + "1" * 5000 + "]) {ret;}", "cannot read the parameter '.param .b8 x"),
        (".entry " + "a" * 100_000 + "() {ret;}", "no name of at most 16384 letters"),
        (".entry k() " + " " * 5000 + "{ret;}", "neither a body nor a semicolon follows within 4096 letters"),
        (".entry k(.param .u64 x", "entry k: its parameter list has no end"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(GpuError, match=message):
        read_header(HEAD + text)


def test_comments_hold_no_entries() -> None:
    text = HEAD + "/* .entry dead() { ret; } */\n// .entry gone() {ret;}\n.entry k() /* .reqntid 8 */ { ret; }\n"
    header = read_header(text + "/* without an end .entry lost() {}")
    assert list(header.entries) == ["k"]
    assert header.entries["k"].reqntid is None


def test_declarations_are_no_entries() -> None:
    assert list(read_header(HEAD + ".entry k(.param .u64 x);\n.entry k2(.param .u64 x) {ret;}").entries) == ["k2"]


@pytest.mark.parametrize("unit", [".entry a \n", ".entry a() \n", "\n", "/*", ".param ", "{ .entry b "])
@pytest.mark.parametrize("end", ["", "{", ")"])
def test_long_texts_take_linear_time(unit: str, end: str) -> None:
    """At 200,000 repetitions whatever looks again at all that came before would take hours."""
    try:
        assert read_header(HEAD + unit * 200_000 + end).version == "9.0"
    except GpuError as error:
        assert len(str(error)) < 500


def test_a_pragma_of_an_entry_ends_in_a_semicolon_and_the_entry_goes_on() -> None:
    text = f'{HEADER}.visible .entry k(.param .u64 p) .maxntid 64 .pragma "nounroll"; .reqntid 32\n{{ ret; }}\n'
    kernel = Module(text)["k"]
    assert (kernel.signature.reqntid, kernel.signature.maxntid) == ((32, 1, 1), (64, 1, 1))
    assert kernel.emulated.params == [("p", 8, 8, "u64")]


def test_a_leading_zero_makes_a_size_octal() -> None:
    kernel = Module(f"{HEADER}.visible .entry k(.param .b8 p[010])\n{{ ret; }}\n")["k"]
    assert [kernel.params[0].size] == [size for _, size, _, _ in kernel.emulated.params] == [8]

"""The launch interface of PTX is read from its text."""

import pytest

from sglab.gpu import GpuError, Module, core
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
    with pytest.raises(GpuError, match=r"two.ptx:10: entry _Z5firstPKfi: unknown parameter attribute .quad"):
        Module(broken, "two.ptx")


HEAD = ".version 9.0\n.target sm_90a\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (".entry k(.param .align 0 .b8 x[4]) {ret;}", ":3: entry k: .align must be a power of two up to 128; got 0"),
        (".entry k(.param .align 3 .b8 x[4]) {ret;}", ".align must be a power of two up to 128; got 3"),
        (".entry k(.param .align 256 .b8 x[4]) {ret;}", ".align must be a power of two up to 128; got 256"),
        (".entry k(.param .u64 .ptr .align 3 x) {ret;}", ".align must be a power of two up to .*; got 3"),
        (".entry k() .reqntid " + "9" * 500 + " {ret;}", "entry k: this number is malformed or does not fit 64 bits"),
        (".entry k() .reqntid 1, 2, 3, 4 {ret;}", "entry k: .reqntid has one to three sizes"),
        (".entry k() .maxntid 0 {ret;}", "entry k: .maxntid has sizes of at least 1; got 0"),
        (".entry k(.param .b8 x[4294967296]) {ret;}", "parameters take 4294967296 bytes with x; .* at most 32764"),
        (".entry k(.param .b8 x[" + "1" * 5000 + "]) {ret;}", "entry k: this number is malformed"),
        (".entry k(.param .b8 x[]) {ret;}", "entry k: the parameter x has no size"),
        (".entry k(.param .f16x2 x) {ret;}", "entry k: a parameter, such as x, has no type .f16x2"),
        (".entry k(.param .pred x) {ret;}", "entry k: a parameter, such as x, has no type .pred"),
        (".entry k(.reg .b32 x) {ret;}", "entry k: x is a register; an entry's parameters are .param"),
        (".entry k(.param .u64 x, .param .u32 x) {ret;}", "entry k: x is declared twice"),
        (".entry " + "a" * 100_000 + "() {ret;}", "an entry's name has at most 16384 letters"),
        (".entry k(.param .u64 x", "entry k: expected '[)]', found the end of the text"),
        (".entry k() ", "entry k: neither a body nor a semicolon follows"),
        (".entry k() .entry j() {ret;}", "entry k: unknown function directive .entry"),
        (".entry k() {ret;", "this '{' is never closed"),
        (".global .b8 x[4]\n.entry k() {ret;}", "expected ';' before .entry"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(GpuError, match=message):
        read_header(HEAD + text)
    with pytest.raises(core.PtxError):
        core.Module(HEAD + text)


def test_comments_hold_no_entries() -> None:
    text = HEAD + "/* .entry dead() { ret; } */\n// .entry gone() {ret;}\n.entry k() /* .reqntid 8 */ { ret; }\n"
    header = read_header(text)
    assert list(header.entries) == ["k"]
    assert header.entries["k"].reqntid is None
    with pytest.raises(GpuError, match=":6: this comment never ends"):
        read_header(text + "/* without an end .entry lost() {}")


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
    assert kernel.emulated.params == [("p", 8, 8, "u64", 0)]


def test_a_leading_zero_makes_a_size_octal() -> None:
    kernel = Module(f"{HEADER}.visible .entry k(.param .b8 p[010])\n{{ ret; }}\n")["k"]
    assert [kernel.params[0].size] == [size for _, size, *_ in kernel.emulated.params] == [8]


GPU_ONLY = """
.alias f, g;
.newlinkage .visible .entry k(.param .u64 p) .newdirective 3, "x" .reqntid 32 {
    not.an.instruction %r1, {%r2, "}"}, [%rd1]; // a comment with a }
    /* and { another */ { .section y; }
}
.global .texref picture;
.global .samplerref s = { addr_mode_0 = mirror, filter_mode = nearest };
.global .b8 text[4] = { 1.5, unknown(x), };
.newblock name { .entry dead() { ret; } }
.func (.reg .f128 r) f (.param .b8 x[]) .pragma "nounroll", "y"; { .entry inner() { ret; } }
.entry l(.param .u32 q) { trap; }
"""


def test_what_only_a_gpu_knows_is_passed_over() -> None:
    """A GPU may run what the emulator does not know; the emulator refuses the same text by name."""
    module = Module(HEAD + GPU_ONLY, "gpu.ptx")
    assert [(name, [str(one) for one in module[name].params]) for name in module] == [
        ("k", ["p (.u64)"]),
        ("l", ["q (.u32)"]),
    ]
    assert module["k"].signature.reqntid == (32, 1, 1)
    with pytest.raises(core.PtxError, match=r"gpu.ptx:4: unknown directive .alias"):
        _ = module["k"].emulated


READ_TWICE = [
    PTX,
    HEAD + ".entry k(.param .b8 p[2][3], .param .b8 q[4*2], .param .align 16 .b8 r[WARP_SZ]) {ret;}",
    HEAD + ".entry k(.param .u64 x); .entry k(.param .u32 y, .param .u64 .ptr .global .align 16 z) {ret;}",
    HEAD + ".entry k; .func k() {ret;} .entry l() .maxntid 0x10 .maxntid 8, 010 {ret;}",
    HEAD + ".func f(); .entry k() { { .reg .b32 %r<2>; mov.b32 {%r0, _}, 1; } // }\n ret; /* } */ } .entry l() {}",
    HEAD + '.entry k() { .pragma "}"; ret; } .entry l() .pragma "{", "}"; .minnctapersm 2 {}',
    HEAD + ".global .b8 x[8] = {1, 2}; .global .attribute(.managed) .b64 y = x; .entry k(.param .b64 x) {ret;}",
    HEAD + '.file 1 "}.entry no() {}"\n.section .debug_str { a: .b8 125, 0 }\n@@DWARF .entry no() {\n.entry k() {ret;}',
    ".version 8.10\n.target sm_90, debug\n.version 8.1\n.entry k() {ret;}",
]


@pytest.mark.parametrize("text", READ_TWICE)
def test_launch_interface_and_emulator_read_the_same(text: str) -> None:
    version, target, entries = core.read_header(text)
    module = core.Module(text)
    kernels = [module.kernel(name) for name in module.entries]
    assert (version, target) == (module.ptx_version, module.target)
    assert entries == [(k.name, k.params, k.reqntid, k.maxntid, k.reqnctapercluster) for k in kernels]
    assert entries


@pytest.mark.parametrize("broken", ["/* ", '"', "{", ".entry", "@", "\0", ".version", ".global", "\ud800"])
def test_cut_anywhere_and_mended_by_chance_they_read_the_same(broken: str) -> None:
    """Whatever the core takes, the launch interface takes, with the same entries."""
    for at in range(0, len(PTX), 7):
        text = PTX[:at] + broken + PTX[at:]
        try:
            module = core.Module(text)
        except core.PtxError:
            continue
        assert list(read_header(text).entries) == module.entries

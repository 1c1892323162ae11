"""The launch interface of PTX is read from its text."""

import pytest

from sglab.gpu import GpuError, Module
from sglab.gpu.signature import read_header

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
    with pytest.raises(GpuError, match=r"two.ptx: no entry is called 'third'; it has _Z5firstPKfi, second"):
        module["third"]
    with pytest.raises(GpuError, match=r"several entries match 's'; it has _Z5firstPKfi, second"):
        module["s"]


@pytest.mark.parametrize("text", ["", "hello", ".version 9.0\n", ".target sm_90\n"])
def test_what_is_not_ptx_is_refused(text: str) -> None:
    with pytest.raises(GpuError, match="is not PTX"):
        Module(text)


def test_an_unreadable_parameter_is_named() -> None:
    broken = PTX.replace(".param .u8 ", ".param .quad ")
    with pytest.raises(GpuError, match=r"entry _Z5firstPKfi: cannot read the parameter '.param .quad"):
        Module(broken)

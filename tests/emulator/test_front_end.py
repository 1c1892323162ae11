"""PTX text that is wrong is refused with its place, and never harms the process."""

import random

import pytest

from sglab import _core
from tests.support.emulator.launching import HEADER

KERNEL = (
    HEADER
    + """
.global .align 4 .b8 table[8] = {1, 2, 3, 4};
.visible .entry k(.param .u64 k_param_0) .reqntid 32
{
  .reg .pred %p<3>; .reg .b32 %r<9>; .reg .f32 %f<3>; .reg .b64 %rd<3>;
  .shared .align 4 .b8 buffer[128];
  ld.param.u64 %rd1, [k_param_0];
  mov.u32 %r1, %tid.x;
  { .reg .b32 tmp; mov.b32 tmp, %r1; add.s32 %r2, tmp, 0x10; }
  setp.eq.s32 %p1|%p2, %r2, 3;
  @!%p1 bra $L_1;
  mov.f32 %f1, 0f3F800000;
  st.global.v2.b32 [%rd1+-8], {%r1, %r2};
$L_1:
  ret;
}
"""
)


def test_module_says_what_it_holds() -> None:
    module = _core.Module(KERNEL, "k.ptx")
    assert (module.target, module.ptx_version, module.entries) == ("sm_100a", (8, 8), ["k"])
    kernel = module.kernel("k")
    assert kernel.params == [("k_param_0", 8, 8, "u64")]
    assert (kernel.reqntid, kernel.maxntid, kernel.unsupported) == ((32, 1, 1), None, [])


def test_unknown_kernel_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="nothing"):
        _core.Module(KERNEL).kernel("nothing")


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("%r2, tmp, 0x10", "%r2, %r99, 0x10", 12, "undefined register %r99"),
        ("bra $L_1", "bra $L_2", 14, "undefined name \\$L_2"),
        ("mov.f32 %f1, 0f3F800000;", "mov.f32 %f1, 0f3F8;", 15, "0f literal has 8"),
        ("@!%p1", "@!%r1", 14, "%r1 is not a predicate"),
        ("ret;\n}", "ret;", 19, "never closed"),
        (".version 8.8", ".versoin 8.8", 1, "unknown directive .versoin"),
        ("table[8]", "table[3]", 5, "more initial values"),
        ("$L_1:", "$L_1: $L_1:", 17, "defined twice"),
    ],
)
def test_error_names_line_and_cause(old: str, new: str, line: int, message: str) -> None:
    with pytest.raises(_core.PtxError, match=message) as caught:
        _core.Module(KERNEL.replace(old, new), "k.ptx")
    assert caught.value.line == line
    assert caught.value.source == "k.ptx"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("add.s32 %r2, tmp, 0x10", "add.s32 %rd2, tmp, 0x10", "register %rd2 has the wrong size"),
        ("add.s32 %r2, tmp, 0x10", "add.s32 %r2, tmp", "expected 3 operands, found 2"),
        ("st.global.v2.b32 [%rd1+-8], {%r1, %r2}", "st.global.v4.b32 [%rd1], {%r1, %r2}", "wrong number of elements"),
        ("mov.u32 %r1, %tid.x", "mov.u32.fancy %r1, %tid.x", "unknown instruction mov.u32.fancy"),
    ],
)
def test_wrong_operands_are_listed_by_the_kernel(old: str, new: str, message: str) -> None:
    unsupported = _core.Module(KERNEL.replace(old, new)).kernel("k").unsupported
    assert len(unsupported) == 1
    assert message in unsupported[0]


def test_mutated_text_never_crashes() -> None:
    rng = random.Random(7)
    pieces = [
        "{",
        "}",
        ";",
        "[",
        "]",
        "(",
        ")",
        ",",
        "%r1",
        "0x",
        "-",
        "|",
        "!",
        ".",
        "@",
        '"',
        "/*",
        "ret;",
        "\0",
        "é",
    ]
    for _ in range(3000):
        text = list(KERNEL)
        for _ in range(rng.randint(1, 6)):
            at = rng.randrange(len(text))
            kind = rng.randrange(3)
            if kind == 0:
                del text[at : at + rng.randint(1, 12)]
            elif kind == 1:
                text.insert(at, rng.choice(pieces))
            else:
                text[at] = rng.choice(pieces)
        try:
            module = _core.Module("".join(text))
            for name in module.entries:
                assert isinstance(module.kernel(name).unsupported, list)
        except _core.PtxError:
            pass
